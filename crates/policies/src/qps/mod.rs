//! Quasi-partitioned scheduling: EDF on every core, and where a core is asked for more than it
//! has, servers that lend the excess of its tasks to another one.
//!
//! # Paper
//! E. Massa, G. Lima, P. Regnier, G. Levin, S. Brandt. "Quasi-partitioned scheduling: optimality
//! and adaptation in multiprocessor real-time systems." Real-Time Systems 52(5), 2016, DOI
//! 10.1007/s11241-016-9251-6; first "Outstanding paper: Optimal and Adaptive Multiprocessor
//! Real-Time Scheduling: The Quasi-Partitioning Approach", ECRTS 2014.
//! # Model
//! Periodic (with or without offsets) and sporadic tasks that do not suspend themselves, each for
//! one core at most and together for no more than all cores. A task with a deadline before its
//! period's end counts as a sporadic one with that period.
//! # How it works
//! Off line, tasks are packed one set a core; where no core has room, a set is overpacked and
//! becomes *major*: what it asks for beyond its core, the excess, is the rate of its *master*,
//! which is packed again like a task (`offline`). On line, a major set whose items are all active
//! is in QPS mode (`manager`): its items are split into two classes that share its core in turn,
//! and whenever another core runs the master, both classes run in parallel, one there and one here
//! (`dispatch`). As soon as an item is inactive the set needs no more than its core and goes by
//! EDF. Run queues hold the chosen class's pending tasks by deadline.
//!
//! Decisions are local: every set has its own queue, budgets and next instant, and a decision looks
//! at those sets alone of whose tasks it was told or whose instant has come (`agenda`). From there
//! it goes up to a host where a master's budget begins or ends, and down to a set whose master
//! starts or stops; only so does one core's event reach another core. Sets that share no master
//! stand in hierarchies of their own, which never look at each other. An entry of a queue says all
//! that dispatching looks at, so that no task is looked up for it (`queue`).
//!
//! Reading order: `offline` (rates, packing, masters), `members` (tasks, their jobs and budgets),
//! `manager` (budgets, modes, windows, the split), `dispatch` (what runs on each core, until when),
//! then this file, which passes events to them; `agenda`, `queue` and `tree` are helpers, and
//! `bound` says how often jobs are preempted at most.
//!
//! Ties: the last chosen item of a class or set, then masters before tasks, then lower ids.
//! # Invariants
//! The slave runs exactly when the master runs. The classes of a set are never on one core and
//! no task is in both. A set is in QPS mode exactly when all its items are active, and the rates
//! of the active items of another one fit its core. In each window a class is offered its rate
//! times the window's length. Without major sets no task migrates.
//! # Where we differ from the paper
//! Which items form the two classes is decided anew when a set enters QPS mode: those that begin
//! a job at that instant against all others. A split fixed off line misses deadlines of sporadic
//! tasks (`split = "fixed"` shows it).
//!
//! Budgets are whole ticks. Where rate times window is a whole number for all windows (periods,
//! deadlines, offsets and sporadic releases are multiples of the least common denominator of all
//! rates), no job of an admitted set is late. Elsewhere budgets are rounded without drift (what a
//! window misses or takes too much is made good in the next), and slack that there is serves as a
//! reserve of eight ticks a job. On full cores a job may still end late: by five ticks at most in
//! 2000 sets, half of them full, at about a million ticks a period. The verdict's tolerance says
//! how much of a job's work may be undone at its deadline (`offline::tolerance`). It is derived for
//! QPS mode and not proven across mode changes; random sets with down to two ticks a period, half
//! of them sporadic, kept it. The statistic `rounded windows` counts the windows in which budgets
//! were rounded; a finer tick avoids it.
//!
//! Jobs that overrun are cut at C, so that no other task suffers (`enforcement = "none"` lets them
//! run on, as in the paper). What is left of them stands behind the foreground of their set's core,
//! outside of all classes: it gets what the core would idle away, costs no server any budget, and
//! goes on with the next job's budget and deadline at the latest.
//!
//! Tasks that arrive while the system runs are admitted into cores with minor sets where they fit
//! beside what those that left still hold (`parts/holds.rs`); sets are never packed anew. A major
//! set that a task leaves stays in EDF mode for ever.

mod agenda;
mod bound;
mod dispatch;
mod manager;
mod members;
mod offline;
mod queue;
mod tree;

use crate::parts::fluid;
use crate::parts::holds::Holds;
use crate::parts::jobs::ByVcpu;
use crate::parts::local;
use crate::parts::table::Table;
use agenda::Agenda;
use alloc::boxed::Box;
use alloc::vec::Vec;
pub(crate) use bound::{covers, interference, interference_of_parts};
use maracas_core::admission::Verdict;
use maracas_core::contract::{Claims, Entry, Grant, Mode, Needs, Statistic, no_service_vcpus};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{
    CoreId, Duration, Event, Instant, Job, JobId, Plan, Policy, System, Vcpu, VcpuId,
};
use members::Task;
use offline::{Blueprint, Fit, Grid, Item};
use queue::{Key, Queue};
pub use tree::qps_tree;

const PACKING: ParamSpec = ParamSpec {
    name: "packing",
    kind: Kind::Choice(&["ffd", "bfd", "wfd"]),
    help: "which core's set takes the next item, by decreasing rate: ffd = the first where it \
           fits, bfd = the fullest, wfd = the emptiest; where it fits nowhere, the emptiest is \
           overpacked",
};
const SPLIT: ParamSpec = ParamSpec {
    name: "split",
    kind: Kind::Choice(&["halves", "single", "fixed"]),
    help: "how a set whose items all begin a job together is split: halves = until half of the \
           load, single = its heaviest item against the others; otherwise new jobs against old \
           ones. fixed = halves for ever, which misses deadlines of sporadic tasks",
};
const MASTER: ParamSpec = ParamSpec {
    name: "master",
    kind: Kind::Choice(&["keep", "fixed"]),
    help: "which class a running master serves: keep = the one that did not have its set's core \
           last, fixed = class A",
};
const WORK_CONSERVING: ParamSpec = ParamSpec {
    name: "work_conserving",
    kind: Kind::Flag(true),
    help: "whether a class may use what the other one leaves idle of its set's core",
};
const ENFORCEMENT: ParamSpec = ParamSpec {
    name: "enforcement",
    kind: Kind::Choice(&["surplus", "precise", "none"]),
    help: "what becomes of a job that needs more than C: surplus = it goes on where its set's core \
           is idle, and in the next job's time; precise = in the next job's time only; none (the \
           textbook) = as if C were enough, so that it may make others late",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "qps",
    paper: "Massa, Lima, Regnier, Levin and Brandt, Quasi-partitioned scheduling: optimality and \
            adaptation in multiprocessor real-time systems, Real-Time Systems 2016",
    summary: "quasi-partitioned EDF: cores lend their excess to each other; optimal, also for \
              sporadic tasks",
    params: &[PACKING, SPLIT, MASTER, WORK_CONSERVING, ENFORCEMENT],
    needs: Needs { jobs: true, ..Needs::BUDGETS },
    claims: Claims { partitioned: false, work_conserving: false, no_miss_when_admitted: true },
    service_vcpus: no_service_vcpus,
    admit,
    build,
};

fn admit(system: &System, params: &Params) -> Verdict {
    let (_, mut verdict) = fluid::judged_by_density(system);
    if verdict.accepted() {
        let grid = Grid::of(system);
        if !grid.exact {
            verdict.tolerance = offline::tolerance(&packed(&grid, system, params));
        }
    }
    verdict
}

fn build(system: &System, params: &Params) -> Result<Box<dyn Policy>, Verdict> {
    Ok(Box::new(Qps::new(system, params)?))
}

fn packed(grid: &Grid, system: &System, params: &Params) -> Vec<Blueprint> {
    let fit = match params.choice(&PACKING) {
        "bfd" => Fit::Best,
        "wfd" => Fit::Worst,
        _ => Fit::First,
    };
    let rate = |vcpu: &Vcpu| (vcpu.id, grid.down(offline::density(vcpu)));
    offline::hierarchy(grid, system.vcpus.iter().map(rate), system.cores.len(), fit)
}

/// One of the two parts of a major set's items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    A,
    B,
}

impl Class {
    const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
    const fn index(self) -> usize {
        match self {
            Self::A => 0,
            Self::B => 1,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Split {
    Halves,
    Single,
    Fixed,
}

/// What the parameters say.
#[derive(Clone, Copy, Debug)]
struct Manner {
    split: Split,
    fixed_master: bool,
    work_conserving: bool,
    /// Whether jobs are cut at C.
    precise: bool,
    /// Whether they may then use idle time.
    surplus: bool,
    /// Whether all of a core may be used: then a set in QPS mode never lets its core wait.
    whole_cores: bool,
}

/// Place of the budget of master and slave among a window's budgets, after those of the classes.
const BOTH: usize = 2;

/// What a set in QPS mode does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Nothing, until its master runs.
    Waiting,
    /// One class runs on the set's core.
    Alone(Class),
    /// The master runs: class `away` on the core `on`, the other class on the set's core.
    Parallel { away: Class, on: CoreId },
}

impl Phase {
    const fn budget(self) -> Option<usize> {
        match self {
            Self::Waiting => None,
            Self::Alone(class) => Some(class.index()),
            Self::Parallel { .. } => Some(BOTH),
        }
    }
    const fn is_parallel(self) -> bool {
        matches!(self, Self::Parallel { .. })
    }
}

/// A stretch of QPS mode between two deadlines of a set's items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Window {
    start: Instant,
    end: Instant,
    /// What class A asks for, in parts of the grid.
    load_of_a: u64,
    /// Ticks that are left of the budgets of class A alone, class B alone, and both in parallel.
    /// At the window's end they are zero, unless decisions come late or budgets are rounded: then
    /// the next window begins with what was missed and what was taken too much.
    left: [i64; 3],
    /// The class that had the set's core to itself last.
    last: Option<Class>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Member {
    item: Item,
    rate: u64,
}

/// An execution set and its core.
#[derive(Debug)]
struct Set {
    core: CoreId,
    host: Option<usize>,
    members: Vec<Member>,
    rate: u64,
    excess: u64,
    /// The items that have work left.
    queue: Queue,
    /// The item chosen last, by class; in EDF mode the first of the two.
    heads: [Option<Key>; 2],
    window: Option<Window>,
    /// Up to when its budgets are charged.
    synced: Instant,
    /// The class of this set's master in its host.
    class: Class,
    /// The deadline by which the master stands in its host's queue.
    queued: Option<Instant>,
    /// The core that the host gives to the master.
    lent_core: Option<CoreId>,
    /// What its run queues do not show yet.
    news: News,
}

/// What happened to a set's items since it was last dispatched.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum News {
    #[default]
    Nothing,
    /// This task has nothing left, and nothing else happened: where it was first on a run queue,
    /// the rest of that stands.
    Gone(VcpuId),
    Other,
}

impl News {
    /// Adds some, if any.
    #[inline]
    fn add(&mut self, news: Self) {
        *self = match (*self, news) {
            (Self::Nothing, news) => news,
            (known, Self::Nothing) => known,
            _ => Self::Other,
        };
    }
    /// Adds that something changed, where it did.
    #[inline]
    fn add_if(&mut self, changed: bool) {
        if changed {
            *self = Self::Other;
        }
    }
}

/// Whose pending tasks a core runs: those of one class, or all of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Source {
    set: usize,
    class: Option<Class>,
}

#[derive(Default, Debug)]
struct Counts {
    mode_changes: u64,
    windows: u64,
    rounded_windows: u64,
    short_windows: u64,
}

struct Qps {
    grid: Grid,
    manner: Manner,
    table: Table,
    tasks: ByVcpu<Task>,
    /// What tasks of minor sets still hold, by the set's core.
    holds: Holds,
    /// The tasks that ask to change.
    asked: Vec<Vcpu>,
    /// Each set before its host.
    sets: Vec<Set>,
    agenda: Agenda,
    /// By core.
    sources: Vec<Option<Source>>,
    /// The cores whose run queues are to be written anew, and why.
    unwritten: Vec<(CoreId, News)>,
    /// By core: whether it is one of them.
    is_unwritten: Vec<bool>,
    /// Tasks of which something changed since the last decision.
    changed: Vec<VcpuId>,
    /// A run queue under construction.
    scratch: Vec<Grant>,
    counts: Counts,
}

impl Set {
    fn new(blueprint: Blueprint) -> Self {
        let Blueprint { core, items, rate, excess, host } = blueprint;
        Self {
            core,
            host,
            members: items.into_iter().map(|(item, rate)| Member { item, rate }).collect(),
            rate,
            excess,
            queue: Queue::default(),
            heads: [None; 2],
            window: None,
            synced: Instant::ZERO,
            class: Class::A,
            queued: None,
            lent_core: None,
            news: News::Other,
        }
    }
}

impl Qps {
    fn new(system: &System, params: &Params) -> Result<Self, Verdict> {
        let (table, verdict) = fluid::judged_by_density(system);
        if !verdict.accepted() {
            return Err(verdict);
        }
        let grid = Grid::of(system);
        let mut sets = packed(&grid, system, params);
        if !grid.exact {
            let find = |id| system.vcpus.iter().find(|vcpu| vcpu.id == id);
            let deadline = |id| find(id).map_or(Duration::MAX, |vcpu| vcpu.reservation.deadline);
            offline::reserve(&grid, &mut sets, deadline);
        }
        Ok(Self::of(table, system, params, grid, sets))
    }

    /// The policy over the given sets.
    fn of(
        table: Table,
        system: &System,
        params: &Params,
        grid: Grid,
        sets: Vec<Blueprint>,
    ) -> Self {
        let mut qps = Self {
            grid,
            manner: Manner {
                split: match params.choice(&SPLIT) {
                    "single" => Split::Single,
                    "fixed" => Split::Fixed,
                    _ => Split::Halves,
                },
                fixed_master: params.choice(&MASTER) == "fixed",
                work_conserving: params.flag(&WORK_CONSERVING),
                precise: params.choice(&ENFORCEMENT) != "none",
                surplus: params.choice(&ENFORCEMENT) == "surplus",
                whole_cores: grid.capacity == grid.parts,
            },
            table,
            tasks: ByVcpu::default(),
            holds: Holds::default(),
            asked: Vec::new(),
            sources: alloc::vec![None; sets.len()],
            unwritten: Vec::new(),
            is_unwritten: alloc::vec![false; sets.len()],
            agenda: Agenda::new(sets.len()),
            sets: sets.into_iter().map(Set::new).collect(),
            changed: Vec::new(),
            scratch: Vec::new(),
            counts: Counts::default(),
        };
        for vcpu in &system.vcpus {
            let holds = |set: &Set| set.members.iter().any(|m| m.item == Item::Task(vcpu.id));
            if let Some(set) = qps.sets.iter().position(holds) {
                qps.tasks.insert(vcpu.id, Task::new(vcpu, set));
            }
        }
        qps
    }

    /// Brings a task's place in its set's queue, or behind it, in step with its job.
    fn requeue_task(&mut self, vcpu: VcpuId, plan: &mut Plan) {
        let Some(task) = self.tasks.get_mut(vcpu) else {
            // It left.
            let cores = (0..plan.cores() as u16).map(CoreId);
            return cores.for_each(|core| local::allow_surplus(core, vcpu, false, plan));
        };
        task.changed = false;
        let set = &mut self.sets[task.set];
        let wanted = task.wanted(self.manner.precise);
        let pending = (Item::Task(vcpu), task.class, task.until);
        let changed = set.queue.requeue(pending, &mut task.queued, wanted);
        let news = if wanted.is_none() { News::Gone(vcpu) } else { News::Other };
        set.news.add(if changed { news } else { News::Nothing });
        if self.manner.surplus {
            local::allow_surplus(set.core, vcpu, task.is_spent(), plan);
        }
        self.agenda.touch(task.set);
    }

    /// The same for a set's master, whose job is what is left of its window's budget.
    fn requeue_master(&mut self, set: usize) {
        let own = &self.sets[set];
        let Some(host) = own.host else { return };
        let with_budget = own.window.as_ref().filter(|window| window.left[BOTH] > 0);
        let wanted = with_budget.map(|window| window.end);
        let (mut queued, pending) = (own.queued, (Item::Master(set), own.class, Duration::ZERO));
        let hosting = &mut self.sets[host];
        hosting.news.add_if(hosting.queue.requeue(pending, &mut queued, wanted));
        self.sets[set].queued = queued;
        self.agenda.touch(host);
    }
}

impl Policy for Qps {
    fn on_event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Released(job) => self.released(job),
            Event::Completed(id) => self.completed(*id),
            // Only enforcement looks at what was consumed.
            Event::Ran(segment) if self.manner.precise && segment.mode == Mode::Foreground => {
                let (to, service) = (segment.to, segment.usage.service);
                self.change(segment.vcpu, |task| task.charge(to, service));
            }
            Event::Arrived(vcpu) => self.arrive(vcpu, at),
            Event::Changed(vcpu) => self.asked.push(vcpu.clone()),
            Event::Left(vcpu) => self.leave(*vcpu, at),
            Event::Ran(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
    }

    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        // Jobs that were released up to now have the old reservation.
        if !self.asked.is_empty() {
            let asked = core::mem::take(&mut self.asked);
            asked.iter().for_each(|vcpu| self.alter(vcpu, now));
        }
        self.table.reply(plan);
        while let Some(vcpu) = self.changed.pop() {
            self.requeue_task(vcpu, plan);
        }
        self.agenda.wake(now);
        self.manage(now);
        self.dispatch(now, plan);
        plan.wake = self.agenda.next();
    }

    fn statistics(&self) -> Vec<Statistic> {
        let Counts { mode_changes, windows, rounded_windows, short_windows } = self.counts;
        let statistic = |name, value| Statistic { name, core: None, vcpu: None, value };
        let mut levels = alloc::vec![0; self.sets.len()];
        for (place, set) in self.sets.iter().enumerate() {
            if let Some(host) = set.host {
                levels[host] = levels[host].max(levels[place] + 1);
            }
        }
        alloc::vec![
            statistic("levels", levels.into_iter().max().unwrap_or(0)),
            statistic("mode changes", mode_changes),
            statistic("windows", windows),
            statistic("rounded windows", rounded_windows),
            statistic("short windows", short_windows),
        ]
    }
}

impl Qps {
    fn released(&mut self, job: &Job) {
        let precise = self.manner.precise;
        self.change(job.id.vcpu, |task| {
            task.release(job, precise);
            true
        });
    }
    fn completed(&mut self, id: JobId) {
        self.change(id.vcpu, |task| {
            task.complete(id.index);
            true
        });
    }
    /// Does something to a task, and notes the task where that says that it changed.
    #[inline]
    fn change(&mut self, vcpu: VcpuId, act: impl FnOnce(&mut Task) -> bool) {
        let Some(task) = self.tasks.get_mut(vcpu) else { return };
        if act(task) && !task.changed {
            task.changed = true;
            self.changed.push(vcpu);
        }
    }
}

#[cfg(test)]
mod tests;
