//! The off-line phase: packing, duals, and the reduction tree. Rates are whole numbers of
//! `1 / one`, where `one` is a common denominator of all rates, so that every sum is exact.

use crate::parts::pack::{self, Fit};
use crate::tree::{Kind, Node, Subsystem, Tree};
use alloc::vec::Vec;
use core::cmp::Reverse;
use maracas_core::{Arrival, CoreId, Duration, Rate, System, VcpuId, gcd};

/// Common denominators up to this are kept exactly; beyond, rates are rounded down to multiples of
/// its reciprocal, which is off by less than one tick in 146 years of nanoseconds.
const FINEST: u64 = 1 << 62;
/// How often reserves are raised before a set counts as too full for them. Each round raises them
/// to what the last round's tree needs, and trees stop changing after one or two.
const ROUNDS: usize = 8;
/// Into how many windows at most a sporadic task's period is cut: a choice of ours, which asks for
/// a 2047th more than C and makes windows of 5 us of a period of 10 ms.
const MOST_WINDOWS: u64 = 2_048;

/// A task as the reduction sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) vcpu: VcpuId,
    /// Its share of a core's capacity.
    rate: Rate,
    pub(super) offset: u64,
    pub(super) period: u64,
    /// Of a sporadic task: its server's windows are no longer than this.
    pub(super) window: Option<u64>,
    /// How much time there is at least from where its rate begins to a deadline.
    span: u64,
    /// All releases are multiples of this.
    grain: u64,
}

/// The tree, and what rounding to whole ticks may do to it.
#[derive(Debug)]
pub(super) struct Reduction {
    pub(super) tasks: Vec<Task>,
    pub(super) tree: Tree,
    /// By subsystem, whether every budget is a whole number of ticks.
    pub(super) exact: Vec<bool>,
    /// How much of a job's work may be undone at its deadline; zero where budgets are whole or
    /// every server has time in reserve that makes up for rounding.
    pub(super) tolerance: Duration,
    /// By how much time must be scaled for every budget to be a whole number of ticks; `None`
    /// where that exceeds 64 bits.
    pub(super) scale: Option<u64>,
}

impl Reduction {
    /// Whether every sporadic task has a core to run on at any time, alone or with others.
    fn needs_no_windows(&self) -> bool {
        let windowed = |vcpu: &VcpuId| find(&self.tasks, *vcpu).window.is_some();
        let subsystems = self.tree.subsystems.iter().filter(|it| it.root.level > 0);
        subsystems.flat_map(|it| it.root.tasks()).all(|vcpu| !windowed(&vcpu))
    }
}

/// The task of this id.
pub(super) fn find(tasks: &[Task], vcpu: VcpuId) -> &Task {
    &tasks[tasks.partition_point(|task| task.vcpu < vcpu)]
}

/// The tasks of `system` by id, with implicit deadlines. Those that are sporadic are to have
/// windows of a `parts`-th of their periods (at least what lies between two possible releases).
///
/// The rate of such a task. A job that is released in a window of its server has its rate from the
/// end of that window on, as the server may have used up the window's budget before. It has it to
/// its deadline, which is the end of a window too. So in the span of T less a window it must have
/// C, and of one task no two spans overlap. What the server has between two ends of windows is
/// its rate, at least the sum of theirs, so that EDF in it is in time.
pub(super) fn tasks(system: &System, parts: u64) -> Vec<Task> {
    let (capacity, grain) = (system.capacity, system.ticks_per_ns.max(1));
    let task = |vcpu: &maracas_core::Vcpu| {
        let (id, r, period) = (vcpu.id, vcpu.reservation, vcpu.reservation.period.ticks());
        let (offset, window) = match vcpu.arrival {
            Arrival::Periodic { offset } => (offset.ticks(), None),
            Arrival::Sporadic | Arrival::None => {
                (0, Some((period / parts / grain * grain).max(grain)))
            }
        };
        let wait = window.filter(|_| parts > 1).map_or(0, |window| window - grain);
        let span = period - wait.min(period - 1);
        // Where a core may be used only in part, every task gets its share of that part. One that
        // asks for all of it has its server to itself, at any time.
        let rate = over(Rate::of(r.budget, Duration::from_ticks(span)), capacity);
        let rate = if rate > Rate::ONE { Rate::ONE } else { rate };
        Task { vcpu: id, rate, offset, period, window, span, grain }
    };
    let mut tasks: Vec<Task> = system.vcpus.iter().map(task).collect();
    tasks.sort_by_key(|task| task.vcpu);
    tasks
}

/// `rate / capacity`, rounded down to a fraction of 64 bits where it does not fit.
fn over(rate: Rate, capacity: Rate) -> Rate {
    let num = u128::from(rate.num()) * u128::from(capacity.den());
    let den = u128::from(rate.den()) * u128::from(capacity.num()).max(1);
    let shift = (128 - den.max(num).leading_zeros()).saturating_sub(63);
    let lost = u128::from(den & ((1 << shift) - 1) > 0);
    Rate::new((num >> shift) as u64, ((den >> shift) + lost) as u64)
}

/// The least common denominator of the tasks' rates.
fn denominator(tasks: &[Task]) -> Option<u64> {
    let with = |one, task: &Task| lcm(one, task.rate.den()).filter(|one| *one <= FINEST);
    tasks.iter().try_fold(1, with)
}

/// Reduces the tasks of `system`. If some are sporadic, their windows are as long as they can be
/// where nothing is rounded, or where rounding matters least; `None` where there are none for which
/// the cores are enough.
pub(super) fn best(system: &System, fit: Fit) -> Option<Reduction> {
    let (cores, capacity) = (system.cores.len(), system.capacity);
    let whole = reduce(&tasks(system, 1), cores, capacity, fit);
    if whole.as_ref().is_some_and(Reduction::needs_no_windows) {
        return whole;
    }
    let mut best: Option<Reduction> = None;
    let parts = core::iter::successors(Some(2), |parts| Some(2 * parts));
    for parts in parts.take_while(|parts| *parts <= MOST_WINDOWS) {
        let Some(found) = reduce(&tasks(system, parts), cores, capacity, fit) else { continue };
        if found.tolerance.is_zero() {
            return Some(found);
        }
        if best.as_ref().is_none_or(|best| found.tolerance < best.tolerance) {
            best = Some(found);
        }
    }
    best
}

/// Reduces `tasks`, each core to be used up to `capacity`; `None` where their rates exceed `cores`.
pub(super) fn reduce(tasks: &[Task], cores: usize, capacity: Rate, fit: Fit) -> Option<Reduction> {
    let denominator = denominator(tasks);
    // Reserves are rounded up to the unit, so it is made as small as possible.
    let one = denominator.map_or(FINEST, |common| common * (FINEST / common));
    let one = u128::from(one);
    let reducer = Reducer { tasks, one, cores, capacity, fit };
    let scale = |s: &Subsystem| denominator.and_then(|_| reducer.scale(&s.root));
    let servers = reducer.pack_tasks();
    let mut reserves = alloc::vec![0; servers.len()];
    let mut first: Option<Reduction> = None;
    for _ in 0..ROUNDS {
        let Some(tree) = reducer.build(&servers, &reserves) else { break };
        let scales: Vec<Option<u64>> = tree.subsystems.iter().map(scale).collect();
        let exact: Vec<bool> = scales.iter().map(|scale| *scale == Some(1)).collect();
        let tolerance = reducer.missing(&tree, &exact, &servers, &mut reserves);
        let scale = scales.into_iter().try_fold(1, |all, one| lcm(all, one?));
        let reduction = Reduction { tasks: tasks.to_vec(), tree, exact, tolerance, scale };
        if tolerance.is_zero() {
            return Some(reduction);
        }
        first.get_or_insert(reduction);
    }
    first
}

fn lcm(a: u64, b: u64) -> Option<u64> {
    (a / gcd(a, b)).checked_mul(b)
}

struct Reducer<'a> {
    tasks: &'a [Task],
    one: u128,
    cores: usize,
    /// Up to which part a core is used; beyond it every server has time that no task asked for.
    capacity: Rate,
    fit: Fit,
}

/// A server of level 0 before it gets idle time.
struct Packed {
    /// Places in the list of tasks.
    tasks: Vec<usize>,
    rate: u128,
}

impl Reducer<'_> {
    fn units(&self, rate: Rate) -> u128 {
        u128::from(rate.num()) * self.one / u128::from(rate.den())
    }
    fn rate(&self, units: u128) -> Rate {
        Rate::new(units as u64, self.one as u64)
    }

    fn pack_tasks(&self) -> Vec<Packed> {
        let sizes: Vec<u128> = self.tasks.iter().map(|task| self.units(task.rate)).collect();
        let bins = pack::bins(&sizes, self.one, self.fit, self.cores);
        let packed = |tasks: Vec<usize>| {
            let rate = tasks.iter().map(|task| sizes[*task]).sum();
            Packed { tasks, rate }
        };
        bins.into_iter().map(packed).collect()
    }

    /// The tree over `servers`, each with its reserve first and then with idle time, the largest
    /// first, until the cores are full; `None` where the reserves do not fit.
    fn build(&self, servers: &[Packed], reserves: &[u128]) -> Option<Tree> {
        let with_reserve =
            |(server, reserve): (&Packed, &u128)| self.one.min(server.rate + reserve);
        let mut rates: Vec<u128> = servers.iter().zip(reserves).map(with_reserve).collect();
        let load: u128 = rates.iter().sum();
        let mut slack = (self.one * self.cores as u128).checked_sub(load)?;
        let mut order: Vec<usize> = (0..rates.len()).collect();
        order.sort_by_key(|server| Reverse(rates[*server]));
        for server in order {
            let given = slack.min(self.one - rates[server]);
            rates[server] += given;
            slack -= given;
        }
        let server = |(server, rate): (&Packed, u128)| {
            let task = |task: &usize| {
                let Task { vcpu, rate, .. } = self.tasks[*task];
                Node { kind: Kind::Task(vcpu), level: 0, rate, children: Vec::new() }
            };
            let children = server.tasks.iter().map(task).collect();
            (rate, Node { kind: Kind::Server, level: 0, rate: self.rate(rate), children })
        };
        let roots = self.levels(servers.iter().zip(rates).map(server).collect());
        Some(self.with_cores(roots))
    }

    /// Packs duals, level by level, until every server is the unit root of a proper subsystem.
    fn levels(&self, mut servers: Vec<(u128, Node)>) -> Vec<Node> {
        let mut roots = Vec::new();
        for level in 1.. {
            let (units, rest): (Vec<_>, Vec<_>) =
                servers.into_iter().partition(|(rate, _)| *rate == self.one);
            roots.extend(units.into_iter().map(|(_, root)| root));
            if rest.is_empty() {
                break;
            }
            let dual = |(rate, primal): (u128, Node)| {
                let dual = self.one - rate;
                let children = alloc::vec![primal];
                (dual, Some(Node { kind: Kind::Dual, level, rate: self.rate(dual), children }))
            };
            let mut duals: Vec<(u128, Option<Node>)> = rest.into_iter().map(dual).collect();
            let sizes: Vec<u128> = duals.iter().map(|(rate, _)| *rate).collect();
            let least = sizes.iter().sum::<u128>().div_ceil(self.one) as usize;
            let bins = pack::bins(&sizes, self.one, self.fit, least);
            // No two servers of one level could be merged, so any two of their duals fit together
            // and each level has fewer servers than the one below.
            let (count, fewer) = (duals.len(), bins.len());
            assert!(fewer < count, "level {level}: {count} duals stand in {fewer} servers");
            let server = |bin: Vec<usize>| {
                let rate = bin.iter().map(|dual| sizes[*dual]).sum();
                let children = bin.iter().filter_map(|dual| duals[*dual].1.take()).collect();
                (rate, Node { kind: Kind::Server, level, rate: self.rate(rate), children })
            };
            servers = bins.into_iter().map(server).collect();
        }
        roots
    }

    /// Hands out the cores in order: each subsystem owns as many as the rates of its servers of
    /// level 0 sum to.
    fn with_cores(&self, roots: Vec<Node>) -> Tree {
        let mut next = 0;
        let subsystem = |root: Node| {
            let units: u128 = leaves(&root).iter().map(|leaf| self.units(leaf.rate)).sum();
            assert!(units.is_multiple_of(self.one), "{units}/{} is no number of cores", self.one);
            let count = (units / self.one) as u16;
            let cores = (next..next + count).map(CoreId).collect();
            next += count;
            Subsystem { cores, root }
        };
        Tree { subsystems: roots.into_iter().map(subsystem).collect() }
    }

    /// By how much time must be scaled for every budget under the unit root `root` to be a whole
    /// number of ticks: the deadlines under a server are multiples of the greatest common divisor
    /// of its tasks' offsets and periods, so its rate must be one of that divisor's reciprocal.
    fn scale(&self, root: &Node) -> Option<u64> {
        let mut scale = Some(1);
        root.walk(&mut |node| {
            if node.kind == Kind::Server {
                let tasks = node.tasks().into_iter().map(|vcpu| find(self.tasks, vcpu));
                // Sporadic jobs come at any instant.
                let spans = tasks.flat_map(|task| match task.window {
                    None => [task.offset, task.period],
                    Some(_) => [task.grain, task.period],
                });
                let grid = spans.filter(|span| *span > 0).reduce(gcd).unwrap_or(1);
                let den = node.rate.den();
                scale = scale.and_then(|scale| lcm(scale, den / gcd(den, grid)));
            }
        });
        scale
    }

    /// The most ticks by which a server without enough in reserve may lag behind its tasks'
    /// demand; raises `reserves` to what this tree needs.
    ///
    /// Let a server's service by its deadlines be off by at most `e` ticks from its rate (0 at a
    /// unit root), and let it serve `n` duals, whose budgets are rounded cumulatively. By EDF's
    /// demand bound less than `n + 2e` ticks of them are undone at a deadline, and it runs out of
    /// them at most that long before one; with the rounding itself each dual, and so each primal,
    /// is off by at most `n + 1 + 2e`. Between two deadlines of a server of level 0 less than
    /// twice that is missing, and one more tick covers rates that are no exact fractions.
    fn missing(
        &self,
        tree: &Tree,
        exact: &[bool],
        servers: &[Packed],
        reserves: &mut [u128],
    ) -> Duration {
        let mut most = 0;
        for (subsystem, _) in tree.subsystems.iter().zip(exact).filter(|(_, exact)| !**exact) {
            for (leaf, off) in off_by(&subsystem.root, 0).into_iter().filter(|(_, off)| *off > 0) {
                let Some(Kind::Task(first)) = leaf.children.first().map(|task| task.kind) else {
                    continue;
                };
                let holds = |server: &Packed| self.tasks[server.tasks[0]].vcpu == first;
                let Some(place) = servers.iter().position(holds) else { continue };
                let server = &servers[place];
                let spans = server.tasks.iter().map(|task| self.tasks[*task].span);
                let shortest = u128::from(spans.min().unwrap_or(1));
                let ticks = 2 * u128::from(off) + 1;
                let (num, den) = (self.capacity.num(), self.capacity.den());
                let asked = (server.rate * u128::from(num)).div_ceil(u128::from(den));
                let needed = asked + (ticks * self.one).div_ceil(shortest);
                if self.units(leaf.rate) < self.one.min(needed) {
                    most = most.max(ticks as u64);
                    reserves[place] = needed.saturating_sub(server.rate);
                }
            }
        }
        Duration::from_ticks(most)
    }
}

/// The servers of level 0 under `node`, in order.
pub(super) fn leaves(node: &Node) -> Vec<&Node> {
    let mut leaves = Vec::new();
    node.walk(&mut |node| {
        if node.kind == Kind::Server && node.level == 0 {
            leaves.push(node);
        }
    });
    leaves
}

/// The servers of level 0 under the server `node`, which is off by `off` ticks, and by how many
/// ticks they are.
fn off_by(node: &Node, off: u64) -> Vec<(&Node, u64)> {
    if node.level == 0 {
        return alloc::vec![(node, off)];
    }
    let below = node.children.len() as u64 + 1 + 2 * off;
    let primals = node.children.iter().flat_map(|dual| &dual.children);
    primals.flat_map(|primal| off_by(primal, below)).collect()
}
