//! RUN: the multiprocessor problem is reduced to uniprocessor ones, which EDF solves; optimal for
//! periodic tasks with implicit deadlines, and nearly so for sporadic ones.
//!
//! # Paper
//! P. Regnier, G. Lima, E. Massa, G. Levin, S. Brandt. "RUN: Optimal Multiprocessor Real-Time
//! Scheduling via Reduction to Uniprocessor." RTSS 2011, DOI 10.1109/RTSS.2011.17. Packing, filling
//! and the assignment of cores as D. Compagnin, E. Mezzetti, T. Vardanega, "Putting RUN into
//! Practice: Implementation and Evaluation", ECRTS 2014.
//! # Model
//! Periodic tasks with offsets and sporadic ones, implicit deadlines, all there from the start,
//! U <= m; jobs migrate and do not suspend themselves.
//! # How it works
//! Off-line (`reduce`): tasks are packed into servers of rate at most 1, idle time fills the
//! largest servers first, every server that is not full is replaced by its dual of rate 1 - rate,
//! and the duals are packed again, until all servers are unit roots. Each root with its tree is a
//! subsystem with cores of its own. On-line (`select`): at each deadline of a server its dual gets
//! the budget rate x window; a running server picks a dual by EDF, and a primal runs exactly when
//! its dual does not. A selected server of level 0 lends its queue of jobs to a core as that
//! core's run queue. Equal deadlines: what was picked or ran last, then the order of the tree
//! (duals) or the lower id (tasks). Cores: servers that stay selected keep theirs, others take
//! their last one if it is free, else the lowest free one of the subsystem.
//!
//! A server with sporadic tasks has *windows*: it has deadlines at all multiples of a half of the
//! shortest period of theirs, or of a quarter, and so on, and at the deadlines of their jobs that
//! come before a window opens. Such a task asks for C in its period less one window, in which the
//! server's budget may be used up when a job comes (`reduce::tasks`). The longest windows are taken
//! with which all tasks fit. On a server that has a core to itself there are none.
//!
//! Reading order: `reduce` (packing, duals, the tree), `select` (budgets and what is selected),
//! then this file, which passes events to them.
//! # Invariants
//! At every instant as many servers of level 0 are selected as their subsystem has cores. Where
//! budgets are whole ticks, every dual's is spent when its window closes.
//! # Where we differ from the paper
//! Time is in ticks. Where a budget is no whole number of them, budgets are rounded cumulatively:
//! no drift, but a server may lag by a few ticks. With `rounding = "refuse"` such a set is admitted
//! only where that much idle time can be reserved for every server concerned, and "no miss" is
//! strict; with "tolerate" as much of a job's work may be undone at its deadline as the statistic
//! `rounding ticks` says. Budgets follow from nominal releases: a late decision shifts what runs
//! and loses no budget. A job that needs more than C harms no task of another server; those of its
//! own are kept safe by `enforcement`: it loses its place at C, and goes on by the deadline of the
//! next job, whose budget it uses; that is seen when its segment ends, so that others may suffer
//! once. Budget that a job leaves unused is lost.
//!
//! The paper has no sporadic tasks. A. Baldovin, G. Nelissen, T. Vardanega, E. Tovar, "SPRINT:
//! Extending RUN to Schedule Sporadic Tasks", RTNS 2014, has budgets follow every release, says of
//! no more than most sets that it is right and leaves open what it does with some. Here a server
//! stays what the paper proves things of, of fixed rate with deadlines that are known when the one
//! before comes, and a task pays for what may pass until then, as in I. Shin, I. Lee, "Periodic
//! Resource Model for Compositional Real-Time Guarantees", RTSS 2003. That is proven for all sets,
//! but asks for a little idle time: once one sporadic task has no core to itself, a 2047th of each,
//! or less where periods have fewer nanoseconds than that. Windows are as short as the time that is
//! free asks for, T/2048 at the least; what a dispatch costs a real machine is not looked at.

mod bound;
mod reduce;
mod select;
#[cfg(test)]
mod tests;

use crate::parts::bounds;
use crate::parts::exact::Exact;
use crate::parts::fluid;
use crate::parts::jobs::{Backlog, ByVcpu};
use crate::parts::local::Local;
use crate::parts::pack::{self, PACKING};
use crate::parts::queue::Key;
use crate::parts::table::{Table, Use};
use crate::tree::Tree;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
pub(crate) use bound::{interference, interference_of_parts};
use maracas_core::admission::{CoreVerdict, NotAdmitted, Verdict};
use maracas_core::contract::{Claims, Entry, Mode, Needs, Statistic, no_service_vcpus};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{Arrival, CoreSet, Event, Instant, Plan, Policy, System, Vcpu, VcpuId};
use reduce::Reduction;
use select::Subsystem;

const PACK: ParamSpec = ParamSpec {
    name: "packing",
    kind: PACKING.kind,
    help: "which server takes the next task or dual, by decreasing rate: ffd = the first that \
           fits, bfd = the fullest, wfd = the emptiest of as few as possible, at first as many as \
           there are cores (Compagnin et al. 2014)",
};
const ROUNDING: ParamSpec = ParamSpec {
    name: "rounding",
    kind: Kind::Choice(&["refuse", "tolerate"]),
    help: "sets whose budgets are no whole ticks and that leave no idle time to make up for it: \
           refuse them, or tolerate that jobs end late",
};
const ENFORCEMENT: ParamSpec = ParamSpec {
    name: "enforcement",
    kind: Kind::Choice(&["surplus", "precise", "none"]),
    help: "what becomes of a job that needs more than C: surplus = it goes on where its server \
           leaves time idle, and in the next job's time; precise = in the next job's time only; \
           none (the textbook) = as if C were enough, so that it may harm its server's tasks",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "run",
    paper: "Regnier, Lima, Massa, Levin and Brandt, RUN: Optimal Multiprocessor Real-Time \
            Scheduling via Reduction to Uniprocessor, RTSS 2011",
    summary: "RUN: optimal for periodic tasks, nearly so for sporadic ones, by servers, their \
              duals and EDF; few migrations",
    params: &[PACK, ROUNDING, ENFORCEMENT],
    needs: Needs { jobs: true, ..Needs::BUDGETS },
    claims: Claims { partitioned: false, work_conserving: false, no_miss_when_admitted: true },
    service_vcpus: no_service_vcpus,
    admit,
    fits: None,
    build,
};

/// The reduction tree of RUN for `system`: what the policy `run` would carry out.
///
/// # Errors
/// The verdict, where the policy would not admit the system.
pub fn run_tree(system: &System, params: &Params) -> Result<Tree, Verdict> {
    reduction(system, params).map(|reduction| reduction.tree)
}

fn reduction(system: &System, params: &Params) -> Result<Reduction, Verdict> {
    match judged(system, params) {
        (_, verdict, Some(reduction)) if verdict.accepted() => Ok(reduction),
        (_, verdict, _) => Err(verdict),
    }
}

fn admit(system: &System, params: &Params) -> Verdict {
    judged(system, params).1
}

/// The table of the admitted, the verdict, and the reduction where everything is admitted.
fn judged(system: &System, params: &Params) -> (Table, Verdict, Option<Reduction>) {
    let (table, mut verdict) = fluid::judged(system, |vcpu| refusal(system, vcpu));
    if !verdict.accepted() {
        return (table, verdict, None);
    }
    let Some(reduction) = reduce::best(system, pack::fit(params, &PACK)) else {
        verdict.refused.extend(too_full(system));
        return (table, verdict, None);
    };
    if params.choice(&ROUNDING) == "refuse" && !reduction.tolerance.is_zero() {
        verdict.refused.extend(too_fine(system, &reduction));
    }
    verdict.tolerance = reduction.tolerance;
    (table, verdict, Some(reduction))
}

/// Why RUN cannot keep this VCPU's deadlines.
fn refusal(system: &System, vcpu: &Vcpu) -> Option<String> {
    let (id, r) = (vcpu.id, &vcpu.reservation);
    if !r.budget.is_zero() && r.budget <= r.deadline && r.deadline < r.period {
        return Some(format!(
            "{id} has D = {} before the end of its period T = {}, and RUN is for implicit \
             deadlines; leave the deadline away, or use the policy p-edf or g-edf",
            r.deadline, r.period
        ));
    }
    fluid::too_heavy(id, r, system.capacity)
}

/// Refuses the lightest sporadic task of a set that leaves too little time for windows.
fn too_full(system: &System) -> Option<(VcpuId, NotAdmitted)> {
    let sporadic = system.vcpus.iter().filter(|vcpu| vcpu.arrival == Arrival::Sporadic);
    let lightest = sporadic.min_by_key(|vcpu| Exact::from(vcpu.reservation.utilization()))?;
    let reason = format!(
        "sporadic tasks, such as {}, share their cores' time with other servers: RUN needs idle \
         time for that, at least a 2047th of all sporadic tasks; lower a budget, or use the \
         policy qps or dp-wrap",
        lightest.id
    );
    Some((lightest.id, NotAdmitted { reason, closest: Some(closest(system)) }))
}

/// What all tasks together ask for.
fn closest(system: &System) -> CoreVerdict {
    let capacity = bounds::capacity(&system.vcpus, system.capacity, system.cores.len());
    let vcpus = system.vcpus.iter().map(|vcpu| vcpu.id).collect();
    CoreVerdict { core: None, vcpus, tests: alloc::vec![capacity] }
}

/// Refuses the lightest task of a set that leaves no time in reserve for rounding.
fn too_fine(system: &System, reduction: &Reduction) -> Option<(VcpuId, NotAdmitted)> {
    let load = |vcpu: &Vcpu| Exact::from(vcpu.reservation.utilization());
    let lightest = system.vcpus.iter().min_by_key(|vcpu| load(vcpu))?;
    let scale = reduction.scale.map_or_else(String::new, |scale| {
        format!("scale time by {scale} (that many ticks for one), ")
    });
    let reason = format!(
        "{} does not fit beside the others, whose servers need budgets of parts of a tick and no \
         time is left to make up for rounding (up to {} ticks a job); {scale}lower a budget, or \
         set rounding = \"tolerate\"",
        lightest.id,
        reduction.tolerance.ticks(),
    );
    Some((lightest.id, NotAdmitted { reason, closest: Some(closest(system)) }))
}

fn build(system: &System, params: &Params) -> Result<Box<dyn Policy>, Verdict> {
    let (table, verdict, reduction) = judged(system, params);
    match reduction {
        Some(reduction) if verdict.accepted() => {
            Ok(Box::new(Run::new(system, params, table, &reduction)))
        }
        Some(_) | None => Err(verdict),
    }
}

struct Task {
    backlog: Backlog,
    /// The place of its server.
    server: usize,
    /// Of a sporadic task whose server is reduced: its subsystem, and its place there.
    windowed: Option<(usize, usize)>,
    queued: Option<Key>,
    /// Whether it may use surplus time.
    surplus: bool,
    /// Whether it stands in `changed`.
    changed: bool,
}

/// A server of level 0.
struct Server {
    jobs: Local,
    /// Whether it stands in `touched`.
    touched: bool,
}

/// A subsystem that was reduced: its virtual schedule, and what takes part in it.
struct Reduced {
    schedule: Subsystem,
    /// The place of its first server; the others follow in the order of the tree.
    first: usize,
    cores: CoreSet,
    free: CoreSet,
    /// Servers that are to get a core, by their places in the order of the tree; scratch.
    unplaced: Vec<usize>,
}

struct Run {
    table: Table,
    /// Whether jobs are cut at C.
    precise: bool,
    /// Whether they may then use idle time.
    surplus: bool,
    tasks: ByVcpu<Task>,
    servers: Vec<Server>,
    reduced: Vec<Reduced>,
    /// When one of their virtual schedules goes on.
    next: Instant,
    /// Tasks whose backlog changed since the last decision.
    changed: Vec<VcpuId>,
    /// Tasks that left since.
    gone: Vec<(VcpuId, Task)>,
    /// Servers whose order changed in this decision, or that were selected in it.
    touched: Vec<usize>,
    counts: Counts,
}

/// What its statistics say.
struct Counts {
    levels: u64,
    tree_updates: u64,
    rounding_ticks: u64,
}

impl Run {
    fn new(system: &System, params: &Params, table: Table, reduction: &Reduction) -> Self {
        let mut run = Self {
            table,
            precise: params.choice(&ENFORCEMENT) != "none",
            surplus: params.choice(&ENFORCEMENT) == "surplus",
            tasks: ByVcpu::default(),
            servers: Vec::new(),
            reduced: Vec::new(),
            next: Instant::ZERO,
            changed: Vec::new(),
            gone: Vec::new(),
            touched: Vec::new(),
            counts: Counts {
                levels: u64::from(reduction.tree.depth()),
                tree_updates: 0,
                rounding_ticks: reduction.tolerance.ticks(),
            },
        };
        let task = |vcpu| reduce::find(&reduction.tasks, vcpu);
        for (subsystem, exact) in reduction.tree.subsystems.iter().zip(&reduction.exact) {
            let first = run.servers.len();
            // A unit server of level 0 is partitioned EDF on its core.
            let unit = subsystem.root.level == 0;
            let mut places = 0..;
            for leaf in reduce::leaves(&subsystem.root) {
                for (vcpu, place) in leaf.tasks().into_iter().zip(&mut places) {
                    let windowed = (!unit && task(vcpu).window.is_some())
                        .then_some((run.reduced.len(), place));
                    let Some(vcpu) = system.vcpus.iter().find(|one| one.id == vcpu) else {
                        continue;
                    };
                    run.tasks.insert(vcpu.id, run.task(vcpu, run.servers.len(), windowed));
                }
                let core = subsystem.cores.first().filter(|_| unit).copied();
                run.servers.push(Server { jobs: Local::on(core), touched: false });
            }
            if !unit {
                let cores: CoreSet = subsystem.cores.iter().copied().collect();
                let schedule = Subsystem::new(subsystem, *exact, task);
                let unplaced = Vec::new();
                run.reduced.push(Reduced { schedule, first, cores, free: cores, unplaced });
            }
        }
        run
    }

    fn task(&self, vcpu: &Vcpu, server: usize, windowed: Option<(usize, usize)>) -> Task {
        let none = Params::new();
        let backlog = if self.precise { Backlog::cut(vcpu) } else { Backlog::new(vcpu, &none) };
        Task { backlog, server, windowed, queued: None, surplus: false, changed: false }
    }
}

impl Policy for Run {
    fn on_event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Released(job) => {
                let windowed = self.tasks.get(job.id.vcpu).and_then(|task| task.windowed);
                if let Some((place, task)) = windowed {
                    self.reduced[place].schedule.release(task, job.deadline);
                }
                self.change(job.id.vcpu, |backlog| {
                    backlog.release(job);
                    true
                });
            }
            Event::Completed(id) => self.change(id.vcpu, |backlog| {
                backlog.complete(*id);
                true
            }),
            // Only enforcement looks at what was consumed.
            Event::Ran(segment) if self.precise && segment.mode == Mode::Foreground => self
                .change(segment.vcpu, |backlog| {
                    backlog.charge_segment(segment.to, segment.usage.service)
                }),
            Event::Arrived(vcpu) | Event::Changed(vcpu) => {
                let r = vcpu.reservation;
                let reason = format!(
                    "RUN packs all tasks before the start, so {} ({} every {}) cannot come or \
                     change later; have it there from the start, or use a policy that admits at \
                     run time, such as g-edf or p-edf",
                    vcpu.id, r.budget, r.period
                );
                self.table.refuse(vcpu.id, reason);
            }
            Event::Left(vcpu) => {
                // Its server goes on, and its time is idle.
                self.table.leave(*vcpu, at, Use::NONE);
                self.gone.extend(self.tasks.remove(*vcpu).map(|task| (*vcpu, task)));
            }
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
        self.table.reply(plan);
        if !self.gone.is_empty() {
            self.take_out(plan);
        }
        while let Some(vcpu) = self.changed.pop() {
            self.requeue(vcpu, plan);
        }
        if self.next <= now {
            self.advance(now, plan);
        }
        while let Some(server) = self.touched.pop() {
            self.servers[server].touched = false;
            self.note_first(server, plan);
        }
        plan.wake = self.next;
    }

    fn statistics(&self) -> Vec<Statistic> {
        let statistic = |name, value| Statistic { name, core: None, vcpu: None, value };
        alloc::vec![
            statistic("levels", self.counts.levels),
            statistic("tree updates", self.counts.tree_updates),
            statistic("rounding ticks", self.counts.rounding_ticks),
        ]
    }
}

impl Run {
    #[inline]
    fn change(&mut self, vcpu: VcpuId, act: impl FnOnce(&mut Backlog) -> bool) {
        let Some(task) = self.tasks.get_mut(vcpu) else { return };
        if act(&mut task.backlog) && !task.changed {
            task.changed = true;
            self.changed.push(vcpu);
        }
    }

    fn touch(&mut self, server: usize) {
        if !self.servers[server].touched {
            self.servers[server].touched = true;
            self.touched.push(server);
        }
    }

    /// Brings a task's place on its server, and its use of idle time, in step with its jobs.
    #[inline]
    fn requeue(&mut self, vcpu: VcpuId, plan: &mut Plan) {
        let Some(task) = self.tasks.get_mut(vcpu) else { return };
        task.changed = false;
        let (server, jobs) = (task.server, &mut self.servers[task.server].jobs);
        let reordered = jobs.requeue(vcpu, &task.backlog, &mut task.queued, plan);
        let spent = self.surplus && task.backlog.is_spent();
        if core::mem::replace(&mut task.surplus, spent) != spent {
            jobs.allow_surplus(vcpu, spent, plan);
        }
        if reordered {
            self.touch(server);
        }
    }

    /// Takes the jobs of tasks that left off their servers.
    #[cold]
    fn take_out(&mut self, plan: &mut Plan) {
        while let Some((vcpu, mut task)) = self.gone.pop() {
            let jobs = &mut self.servers[task.server].jobs;
            jobs.withdraw(&mut task.queued, plan);
            jobs.allow_surplus(vcpu, false, plan);
            self.touch(task.server);
        }
    }

    /// Goes on with the virtual schedules to `now`.
    fn advance(&mut self, now: Instant, plan: &mut Plan) {
        self.next = Instant::NEVER;
        for place in 0..self.reduced.len() {
            let schedule = &mut self.reduced[place].schedule;
            if schedule.next() <= now {
                self.counts.tree_updates += 1;
                if schedule.advance(now) {
                    self.assign_cores(place, plan);
                }
            }
            self.next = self.next.min(self.reduced[place].schedule.next());
        }
    }

    /// Brings the run queues of a subsystem in step with what is selected.
    fn assign_cores(&mut self, place: usize, plan: &mut Plan) {
        let Reduced { schedule, first, cores, free, unplaced } = &mut self.reduced[place];
        let servers = &mut self.servers[*first..];
        let changed = schedule.changed();
        for at in changed.iter().filter(|at| !schedule.is_selected(**at)) {
            servers[*at].jobs.deselect(plan).into_iter().for_each(|core| free.insert(core));
        }
        let mut select = |server: &mut Server, at: usize, core, free: &mut CoreSet| {
            free.remove(core);
            server.jobs.select(core, plan);
            if !core::mem::replace(&mut server.touched, true) {
                self.touched.push(*first + at);
            }
        };
        for at in changed {
            let server = &mut servers[*at];
            if !schedule.is_selected(*at) || server.jobs.core().is_some() {
                continue;
            }
            match server.jobs.last().filter(|core| free.contains(*core)) {
                Some(core) => select(server, *at, core, free),
                None => unplaced.push(*at),
            }
        }
        for at in unplaced.drain(..) {
            let core = free.first().expect("as many are selected as there are cores");
            select(&mut servers[at], at, core, free);
        }
        schedule.forget_changed();
        assert!(free.is_empty(), "{free:?} of {cores:?} have no server");
    }

    /// Notes what runs first on a selected server's run queue, for ties to come.
    fn note_first(&mut self, server: usize, plan: &mut Plan) {
        let jobs = &mut self.servers[server].jobs;
        let Some(turn) = jobs.turn() else { return };
        if let Some(task) = turn.before.and_then(|vcpu| self.tasks.get_mut(vcpu)) {
            jobs.demote(&mut task.queued, plan);
        }
        if let Some(task) = turn.first.and_then(|vcpu| self.tasks.get_mut(vcpu)) {
            jobs.promote(&mut task.queued);
        }
    }
}
