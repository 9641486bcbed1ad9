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
//! stand in hierarchies of their own, which never look at each other (`hierarchy`): each is lent to
//! a part that decides for its cores alone, on the live machine under a lock of its own (`own`). A
//! set's queue holds its items by class, with what each is granted: a run queue is a copy of the
//! first of a class's grants, and no task is looked up for it (`queue`).
//!
//! Reading order: `offline` (rates, packing, masters), `members` (tasks, their jobs and budgets),
//! `manager` (budgets, modes, windows, the split), `dispatch` (what runs on each core, until when),
//! `hierarchy`, which passes events to them, then this file, which has all hierarchies and
//! admission; `agenda`, `queue` and `tree` are helpers, `own` lends, and `bound` says how often
//! jobs are preempted at most.
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
//! What concerns more than one hierarchy (tasks that arrive, leave or change) is decided for all at
//! once, with all locks; the paper has no such tasks.
//!
//! Tasks that arrive while the system runs are admitted into cores with minor sets where they fit
//! beside what those that left still hold (`parts/holds.rs`); sets are never packed anew. A major
//! set that a task leaves stays in EDF mode for ever.

mod agenda;
mod bound;
mod dispatch;
mod hierarchy;
mod manager;
mod members;
mod offline;
mod own;
mod queue;
mod tree;

use crate::parts::fluid;
use crate::parts::holds::Holds;
use crate::parts::table::Table;
use alloc::boxed::Box;
use alloc::vec::Vec;
pub(crate) use bound::{covers, interference, interference_of_parts};
use hierarchy::{Counts, Hierarchies, Hierarchy};
use maracas_core::admission::Verdict;
use maracas_core::contract::{Apart, Claims, Entry, Needs, Statistic, no_service_vcpus};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{CoreId, Duration, Event, Instant, Plan, Policy, Soonest, System, Vcpu, VcpuId};
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
    fits: None,
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

/// One of the two parts of a major set's items; while a set goes by EDF, all are of class A.
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

impl Manner {
    fn of(params: &Params, grid: &Grid) -> Self {
        Self {
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
        }
    }
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
    /// Of a task: its slot in the hierarchy.
    slot: u32,
    rate: u64,
}

/// An execution set and its core. Sets are named by their places in their hierarchy.
#[derive(Debug)]
struct Set {
    core: CoreId,
    host: Option<usize>,
    members: Vec<Member>,
    rate: u64,
    excess: u64,
    /// The items that have work left.
    queue: Queue,
    /// The item chosen last, by class.
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

struct Qps {
    grid: Grid,
    table: Table,
    /// What tasks of minor sets still hold, by the set's core.
    holds: Holds,
    /// The tasks that ask to change.
    asked: Vec<Vcpu>,
    hierarchies: Hierarchies,
    /// By core: where its set is.
    seats: Vec<Seat>,
    /// By hierarchy: when it is due.
    due: Soonest,
    /// The hierarchies that something happened to, each once.
    noted: Vec<usize>,
    is_noted: Vec<bool>,
}

/// Where the set of a core is.
#[derive(Clone, Copy, Debug)]
struct Seat {
    hierarchy: usize,
    set: usize,
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

    /// The policy over the given sets, the set of each core in its place.
    fn of(
        table: Table,
        system: &System,
        params: &Params,
        grid: Grid,
        sets: Vec<Blueprint>,
    ) -> Self {
        let manner = Manner::of(params, &grid);
        let (seats, hierarchies) = Hierarchies::of(system, grid, manner, sets);
        let count = hierarchies.list.len();
        Self {
            grid,
            table,
            holds: Holds::default(),
            asked: Vec::new(),
            hierarchies,
            seats,
            due: Soonest::new(count),
            noted: (0..count).collect(),
            is_noted: alloc::vec![true; count],
        }
    }

    /// Something happened to a hierarchy.
    #[inline]
    fn note(&mut self, hierarchy: usize) {
        if !core::mem::replace(&mut self.is_noted[hierarchy], true) {
            self.noted.push(hierarchy);
        }
    }
    /// A task asks to change; jobs that are released before the next decision are as they were.
    #[cold]
    fn ask(&mut self, vcpu: &Vcpu) {
        self.asked.push(vcpu.clone());
    }
    /// Has a hierarchy decide, where there is anything for it to do.
    fn decide(&mut self, hierarchy: usize, now: Instant, plan: &mut Plan) {
        self.is_noted[hierarchy] = false;
        let next = self.hierarchies.list[hierarchy].plan(now, plan);
        self.due.set(hierarchy, next);
    }
}

impl Policy for Qps {
    fn on_event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Ran(_) | Event::Released(_) | Event::Completed(_) => {
                if let Some(hierarchy) = self.hierarchies.learn(event) {
                    self.note(hierarchy);
                }
            }
            Event::Arrived(vcpu) => self.arrive(vcpu, at),
            Event::Changed(vcpu) => self.ask(vcpu),
            Event::Left(vcpu) => self.leave(*vcpu, at),
            Event::Woke { .. }
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
        while let Some(hierarchy) = self.noted.pop() {
            self.decide(hierarchy, now, plan);
        }
        let (mut from, mut next) = (0, self.due.first());
        while next <= now
            && let Some(hierarchy) = self.due.due(from, now)
        {
            self.decide(hierarchy, now, plan);
            (from, next) = (hierarchy + 1, self.due.first());
        }
        plan.wake = next;
    }

    fn statistics(&self) -> Vec<Statistic> {
        let statistic = |name, value| Statistic { name, core: None, vcpu: None, value };
        let sum = |count: fn(&Counts) -> u64| {
            self.hierarchies.list.iter().map(|hierarchy| count(&hierarchy.counts)).sum()
        };
        let levels = self.hierarchies.list.iter().map(Hierarchy::levels).max().unwrap_or(0);
        alloc::vec![
            statistic("levels", levels),
            statistic("mode changes", sum(|counts| counts.mode_changes)),
            statistic("windows", sum(|counts| counts.windows)),
            statistic("rounded windows", sum(|counts| counts.rounded_windows)),
            statistic("short windows", sum(|counts| counts.short_windows)),
        ]
    }

    fn apart(&mut self) -> Option<&mut dyn Apart> {
        Some(self)
    }
}

#[cfg(test)]
mod tests;
