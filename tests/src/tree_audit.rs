//! An observer that holds RUN and QPS to what their trees say (algorithms.md A.7 and B.8), found
//! from the segments alone.

use crate::Case;
use maracas_core::contract::Observer;
use maracas_core::{
    Arrival, CoreId, Cost, Event, Instant, Plan, Rate, Vcpu, VcpuId, Workload, gcd,
};
use maracas_policies::tree::{self, Kind, Node};
use maracas_sim::at_start;

/// Rates are compared exactly where their denominators are at most this.
const FINEST: u64 = 1 << 30;

/// A server of level 0, or an execution set without its masters.
#[derive(Clone, Debug)]
struct Group {
    /// The cores of its subsystem.
    cores: Vec<CoreId>,
    /// The core of an execution set; a server has none of its own.
    own: Option<CoreId>,
    /// How many of its tasks may run at once: two in a major set.
    at_once: usize,
    tasks: Vec<VcpuId>,
    /// Its rate, where it is that of its tasks and all of it is used.
    rate: Option<Rate>,
    /// Periods of its tasks, for that.
    periods: Vec<u64>,
    /// The task that ran: from, to, core.
    ran: Vec<(u64, u64, CoreId)>,
}

/// Checks what runs beside what, and where, against the tree.
#[derive(Clone, Debug)]
pub struct TreeAudit(Vec<Group>);

impl TreeAudit {
    /// An auditor of a run of `case`; `None` where its policy has no tree. `strict` = decisions
    /// come on time, nothing is charged and budgets are whole ticks: then every server keeps its
    /// share.
    #[must_use]
    pub fn new(case: &Case, strict: bool) -> Option<Self> {
        let name = case.entry.name;
        let start = at_start(&case.system(), &case.random.programs);
        let tree = tree::of(name.strip_prefix("memguard+").unwrap_or(name), &start, &case.params);
        let mut groups = Vec::new();
        for subsystem in tree?.ok()?.subsystems {
            subsystem.root.walk(&mut |node| {
                let (own, at_once) = match node.kind {
                    Kind::Server if node.level == 0 => (None, 1),
                    Kind::Set(core) => (Some(core), if node.rate > Rate::ONE { 2 } else { 1 }),
                    Kind::Server | Kind::Task(_) | Kind::Dual | Kind::Master => return,
                };
                let tasks = node.children.iter().filter_map(|child| match child.kind {
                    Kind::Task(vcpu) => Some(vcpu),
                    Kind::Server | Kind::Dual | Kind::Set(_) | Kind::Master => None,
                });
                let tasks: Vec<VcpuId> = tasks.collect();
                let vcpus = start.vcpus.iter().filter(|vcpu| tasks.contains(&vcpu.id));
                let plain =
                    strict && own.is_none() && vcpus.clone().all(|vcpu| uses_all(case, vcpu));
                groups.push(Group {
                    cores: subsystem.cores.clone(),
                    own,
                    at_once,
                    rate: Some(node.rate).filter(|_| plain && is_all_asked_for(node)),
                    periods: vcpus.map(|vcpu| vcpu.reservation.period.ticks()).collect(),
                    tasks,
                    ran: Vec::new(),
                });
            });
        }
        Some(Self(groups))
    }

    /// The verdict on a run that ended at `end`.
    ///
    /// # Errors
    /// The first thing that was wrong.
    pub fn verdict(mut self, end: Instant) -> Result<(), String> {
        self.0.iter_mut().try_for_each(|group| {
            group.ran.sort_unstable();
            group.runs_where_it_may()?;
            group.rate.map_or(Ok(()), |rate| group.keeps_its_share(rate, end.ticks()))
        })
    }
}

/// Whether every job of it needs all of C, from the start on.
fn uses_all(case: &Case, vcpu: &Vcpu) -> bool {
    let whole = Workload::Periodic { cost: Cost::Fixed(vcpu.reservation.budget) };
    let mut own = case.random.programs.iter().filter(|program| program.vcpu == vcpu.id);
    let at_once = matches!(vcpu.arrival, Arrival::Periodic { offset } if offset.is_zero());
    at_once && own.next().is_some_and(|program| program.workload == whole)
}

/// Whether a server has no idle time beyond its tasks' rates.
fn is_all_asked_for(server: &Node) -> bool {
    let add = |(num, den): (u64, u64), task: &Node| {
        let common = (den / gcd(den, task.rate.den())).checked_mul(task.rate.den())?;
        let num = num.checked_mul(common / den)?;
        let own = task.rate.num().checked_mul(common / task.rate.den())?;
        Some((num.checked_add(own)?, common)).filter(|_| common <= FINEST)
    };
    let sum = server.children.iter().try_fold((0, 1), add);
    sum.is_some_and(|(num, den)| Rate::new(num, den) == server.rate)
}

impl Group {
    /// No task leaves the cores of its subsystem, no two tasks of a server or of a minor set run at
    /// once, and of two of a major set one is on the set's own core (B.8, 3).
    fn runs_where_it_may(&self) -> Result<(), String> {
        let mut running: Vec<(u64, CoreId)> = Vec::new();
        for &(from, to, core) in &self.ran {
            running.retain(|(end, _)| *end > from);
            running.push((to, core));
            let at_home = self.at_once == 1 || running.len() == 1;
            let home = |own: CoreId| running.iter().any(|(_, core)| *core == own);
            // A minor set has its core to itself.
            let minor_stays = self.at_once == 2 || self.own.is_none_or(|own| own == core);
            let right = running.len() <= self.at_once
                && (at_home || self.own.is_none_or(home))
                && minor_stays
                && self.cores.contains(&core);
            if !right {
                return Err(format!("at {from} {running:?} run of {self:?}"));
            }
        }
        Ok(())
    }

    /// A.7, 3: at each of its deadlines a server has received its rate exactly, and in between it
    /// is off by rate (1 - rate) of the window at most.
    fn keeps_its_share(&self, rate: Rate, end: u64) -> Result<(), String> {
        let mut deadlines: Vec<u64> = vec![0];
        for period in &self.periods {
            deadlines.extend((1..=end / period).map(|job| job * period));
        }
        deadlines.sort_unstable();
        deadlines.dedup();
        let (num, den) = (i128::from(rate.num()), i128::from(rate.den()));
        let (mut next, mut before) = (0, 0);
        for window in deadlines.windows(2) {
            let [from, to] = [window[0], window[1]];
            let most = num * (den - num) * i128::from(to - from);
            let off = |at: u64, ran: u64| den * i128::from(ran) - num * i128::from(at);
            let mut ran = before;
            while let Some((begin, until, _)) = self.ran.get(next).filter(|ran| ran.0 < to) {
                let (begin, until) = ((*begin).max(from), (*until).min(to));
                let early = off(begin, ran);
                ran += until - begin;
                if early.abs().max(off(until, ran).abs()) * den > most {
                    return Err(format!("off in [{begin}, {until}) by more than {most}: {self:?}"));
                }
                if self.ran[next].1 > to {
                    break;
                }
                next += 1;
            }
            if off(to, ran) != 0 {
                return Err(format!("{:?} received {ran} ticks by {to}, rate {rate}", self.tasks));
            }
            before = ran;
        }
        Ok(())
    }
}

impl Observer for TreeAudit {
    fn event(&mut self, _: Instant, event: &Event) {
        let Event::Ran(segment) = event else { return };
        let group = self.0.iter_mut().find(|group| group.tasks.contains(&segment.vcpu));
        let Some(group) = group else { return };
        group.ran.push((segment.from.ticks(), segment.to.ticks(), segment.core));
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}
