//! Job-level fixed priorities, carried out without plans.
//!
//! Where nothing happens but jobs, and no observer reads plans, what a policy of
//! [`JobPriorities`] would plan need not be written down and read back: here the cores are given
//! away directly, by the rules that stand there. Observers see the same events, or jobs that stand
//! for them, and the same counts come out, as where the policy is asked ([`crate::run`]);
//! `tests/tests/priorities.rs` compares them. docs/results.md has what a job takes either way
//! ("Instructions a job").

mod cluster;
mod task;
mod timers;
mod untold;

use self::cluster::Cluster;
use self::task::{Place, Task};
use self::timers::{Packed, Packing, Timers};
use crate::workload::NONE;
use crate::{Options, Outcome};
use maracas_core::contract::{
    DecisionCounts, End, Event, JobPriorities, Observer, OnRunQueues, Piece, TaskPriority,
};
use maracas_core::{
    Arrival, CoreId, CoreSet, Cost, Duration, Instant, Policy, Program, Reservation, Role, System,
    Vcpu, VcpuId, Workload,
};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
struct Core {
    /// The task that runs, by its index, or `NONE`.
    running: u32,
    /// The task that it is assigned to, or `NONE`.
    assigned: u32,
    /// The same at the end of the last decision.
    planned: u32,
    /// How many decisions changed that.
    decisions: u64,
    /// Its index in its cluster.
    in_cluster: usize,
    /// When the segment began.
    from: Instant,
    /// Up to when its progress is accounted.
    synced: Instant,
    /// What ran last, and when it stopped.
    resident: (u32, Instant),
    idle_since: Instant,
    idle: Duration,
}

impl Core {
    const IDLE: Self = Self {
        running: NONE,
        assigned: NONE,
        planned: NONE,
        decisions: 0,
        in_cluster: 0,
        from: Instant::ZERO,
        synced: Instant::ZERO,
        resident: (NONE, Instant::ZERO),
        idle_since: Instant::ZERO,
        idle: Duration::ZERO,
    };
    /// What runs, the core of number `core`, has ended.
    #[inline]
    fn stop(&mut self, core: usize, now: Instant, end: End) -> Piece {
        self.resident = (self.running, now);
        (self.running, self.idle_since) = (NONE, now);
        Piece { from: self.from, to: now, core: CoreId(core as u16), end }
    }
    /// The task that it is assigned to begins to run; whether it is another than ran until now.
    #[inline]
    fn start(&mut self, now: Instant) -> bool {
        self.idle += now - self.idle_since;
        self.running = self.assigned;
        (self.from, self.synced) = (now, now);
        self.resident != (self.running, now)
    }
}

/// A run under way.
pub(crate) struct Machine<'a> {
    observer: &'a mut dyn Observer,
    /// Whether it is told of jobs as wholes, where they are in time.
    takes_jobs: bool,
    now: Instant,
    until: Instant,
    /// When each task's next job is released.
    releases: Timers,
    /// By the number of their VCPU.
    tasks: Vec<Task>,
    /// The task of each rank among equals, by its index. A job's urgency is its deadline, or its
    /// task's fixed priority, and that rank, packed as `releases` are.
    by_tie_rank: Vec<u32>,
    clusters: Vec<Cluster>,
    on_run_queues: OnRunQueues,
    cores: Vec<Core>,
    /// When each core's job is done.
    ends: Timers,
    /// How many were reported.
    segments: u64,
    /// Tasks of fixed priority that had no pending job since the last decision: with one by the
    /// next, they keep their cores.
    emptied: Vec<u32>,
    /// Clusters of which another set of jobs is pending since the last decision.
    /// Their indices, as if they were cores, of which there are no fewer.
    changed: CoreSet,
    /// Cores that may have to run another task.
    concerned: CoreSet,
    /// Selected tasks without a core; scratch.
    coreless: Vec<u32>,
    /// Cores to be started; scratch.
    starting: Vec<u32>,
    decisions: u64,
    outcome: Outcome,
}

/// A run that can be carried out here: nothing but jobs, one program a VCPU, from the start to the
/// end.
pub(crate) struct Suited<'a> {
    clusters: Vec<Vec<CoreId>>,
    on_run_queues: OnRunQueues,
    /// Each VCPU with jobs, by its number, its priority, and what each job costs.
    tasks: Vec<(&'a Vcpu, TaskPriority, Cost)>,
}

/// What is to be carried out, where that can be done here.
///
/// # Panics
/// Where the policy breaks the contract.
pub(crate) fn suit<'a>(
    system: &'a System,
    programs: &[Program],
    policy: &dyn Policy,
    options: &Options,
    observer: &dyn Observer,
) -> Option<Suited<'a>> {
    if options.until == Instant::NEVER || observer.reads_plans() {
        return None;
    }
    let priorities = policy.job_priorities()?;
    if let Err(why) = priorities.check(system.cores.len()) {
        panic!("the policy broke the contract: of its order of jobs, {why}");
    }
    let mut costs = BTreeMap::new();
    for program in programs {
        let lasts = program.arrive == Instant::ZERO && program.depart == Instant::NEVER;
        let Workload::Periodic { cost } = program.workload else { return None };
        if !lasts || costs.insert(program.vcpu, cost).is_some() {
            return None;
        }
    }
    let JobPriorities { clusters, tasks, on_run_queues } = priorities;
    let vcpus: BTreeMap<_, _> = system.vcpus.iter().map(|vcpu| (vcpu.id, vcpu)).collect();
    let priorities: BTreeMap<_, _> = tasks.into_iter().map(|task| (task.vcpu, task)).collect();
    let task = |(id, cost): (VcpuId, Cost)| {
        let vcpu = vcpus.get(&id).filter(|vcpu| has_jobs(vcpu))?;
        Some((*vcpu, *priorities.get(&id)?, cost))
    };
    let tasks: Vec<_> = costs.into_iter().map(task).collect::<Option<_>>()?;
    if !can_be_packed(&tasks, system.cores.len(), options.until) {
        return None;
    }
    Some(Suited { clusters, on_run_queues, tasks })
}

/// Whether instants of a run and priorities fit into one number with the index of a task or a core.
fn can_be_packed(tasks: &[(&Vcpu, TaskPriority, Cost)], cores: usize, until: Instant) -> bool {
    let last = Packing::new(tasks.len().max(cores)).last();
    let priority = |(vcpu, own, _): &(&Vcpu, TaskPriority, Cost)| {
        own.fixed.unwrap_or_else(|| until.saturating_add(vcpu.reservation.deadline))
    };
    until < last && tasks.iter().all(|task| priority(task) < last)
}

/// Whether it releases jobs, each due by the next one's release.
const fn has_jobs(vcpu: &Vcpu) -> bool {
    let Reservation { period, deadline, .. } = vcpu.reservation;
    let runs_programs = matches!(vcpu.role, Role::Main | Role::Io);
    let releases = !matches!(vcpu.arrival, Arrival::None) && period.ticks() > 0;
    runs_programs && releases && deadline.ticks() > 0 && deadline.ticks() <= period.ticks()
}

impl<'a> Machine<'a> {
    pub(crate) fn new(
        system: &System,
        Suited { clusters, on_run_queues, tasks }: Suited<'_>,
        options: &Options,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let mut by_tie_rank: Vec<u32> = (0..tasks.len() as u32).collect();
        // Stable: what is left is decided by the number of the VCPU.
        by_tie_rank.sort_by_key(|task| tasks[*task as usize].1.tie);
        let mut tie_ranks = vec![0; tasks.len()];
        (0..).zip(&by_tie_rank).for_each(|(tie_rank, task)| tie_ranks[*task as usize] = tie_rank);
        let task = |((vcpu, priority, cost), tie_rank): (&(&Vcpu, TaskPriority, Cost), u32)| {
            Task::new(vcpu, priority, tie_rank, *cost, system.ticks_per_ns, options.seed)
        };
        let mut tasks: Vec<Task> = tasks.iter().zip(tie_ranks).map(task).collect();
        let mut releases = Timers::new(tasks.len());
        (0..).zip(&mut tasks).for_each(|(index, task)| releases.set(index, task.begin()));
        let count = system.cores.len();
        let mut cores = vec![Core::IDLE; count];
        for cluster in &clusters {
            let indices = (0..).zip(cluster);
            indices.for_each(|(index, core)| cores[usize::from(core.0)].in_cluster = index);
        }
        Self {
            takes_jobs: observer.takes_jobs(),
            observer,
            now: Instant::ZERO,
            until: options.until,
            releases,
            tasks,
            by_tie_rank,
            clusters: clusters.iter().map(|cores| Cluster::new(cores)).collect(),
            on_run_queues,
            cores,
            ends: Timers::new(count),
            segments: 0,
            emptied: Vec::new(),
            changed: CoreSet::EMPTY,
            concerned: CoreSet::EMPTY,
            coreless: Vec::new(),
            starting: Vec::new(),
            decisions: 0,
            outcome: Outcome::default(),
        }
    }

    pub(crate) fn run(mut self) -> Outcome {
        // The policy is asked at the start, whatever happens then.
        let (mut now, mut ends) = (Instant::ZERO, Instant::NEVER);
        while now < self.until {
            self.now = now;
            if ends == now {
                self.finish_jobs();
            }
            while self.releases.first_at() == now {
                self.release();
            }
            self.decide();
            ends = self.ends.first_at();
            now = ends.min(self.releases.first_at());
        }
        self.end()
    }

    /// The job that comes first is released.
    #[inline]
    fn release(&mut self) {
        let (index, now) = (self.releases.first(), self.now);
        let task = &mut self.tasks[index as usize];
        let is_first = task.is_idle();
        task.tell_untold(self.observer);
        let (job, next) = task.release(now);
        if is_first && task.place == Place::Nowhere {
            let cluster = &mut self.clusters[task.cluster as usize];
            task.was_on_run_queue |= self.on_run_queues == OnRunQueues::Pending;
            task.wait(cluster, self.releases.packing);
            self.changed.insert(CoreId(task.cluster as u16));
        }
        self.releases.set(index, next);
        if is_first && self.takes_jobs {
            task.keep_back(now);
        } else {
            self.observer.event(now, &Event::Released(job));
        }
    }

    /// Jobs that are done at this instant, by core.
    #[inline(always)] // A part of nearly each second decision.
    fn finish_jobs(&mut self) {
        while self.ends.first_at() <= self.now {
            self.finish_job(self.ends.first() as usize);
        }
    }

    #[inline(always)]
    fn finish_job(&mut self, core: usize) {
        let now = self.now;
        let own = &mut self.cores[core];
        let index = own.running;
        let task = &mut self.tasks[index as usize];
        let (id, deadline) = task.complete();
        if now > deadline {
            self.outcome.missed += 1;
        }
        let is_idle = task.is_idle();
        if is_idle {
            self.segments += 1;
            let last = own.stop(core, now, End::Blocked);
            task.tell_last((id, deadline), last, self.observer);
            self.ends.clear(core as u32);
        } else {
            self.observer.event(now, &Event::Completed(id));
            own.synced = now;
            self.ends.set(core as u32, now.saturating_add(task.left));
        }
        self.concerned.insert(CoreId(core as u16));
        if !task.is_fixed() {
            own.assigned = NONE;
            task.place = Place::Nowhere;
            let cluster = &mut self.clusters[task.cluster as usize];
            cluster.release(own.in_cluster);
            if !is_idle {
                task.wait(cluster, self.releases.packing);
            }
            self.changed.insert(CoreId(task.cluster as u16));
        } else if is_idle {
            self.emptied.push(index);
        }
    }

    #[inline]
    fn decide(&mut self) {
        let before = self.segments;
        while let Some(index) = self.emptied.pop() {
            self.withdraw(index);
        }
        while let Some(CoreId(cluster)) = self.changed.pop_first() {
            if let Some(index) = self.select(u32::from(cluster)) {
                self.assign(index);
            }
        }
        if let Some(core) = self.concerned.only() {
            self.concerned.clear();
            if self.take_off(usize::from(core.0)) {
                self.start(usize::from(core.0));
            }
        } else if !self.concerned.is_empty() {
            self.enact();
        }
        // A stop is an event, for whose sake the policy is asked again.
        self.decisions += 1 + u64::from(self.segments != before);
    }

    /// A task of fixed priority that had no pending job is withdrawn from its core, if it has none
    /// yet.
    fn withdraw(&mut self, index: u32) {
        let task = &mut self.tasks[index as usize];
        if let Place::On(core) = task.place
            && task.is_idle()
        {
            task.place = Place::Nowhere;
            let own = &mut self.cores[core as usize];
            own.assigned = NONE;
            let cluster = &mut self.clusters[task.cluster as usize];
            cluster.release(own.in_cluster);
            self.changed.insert(CoreId(task.cluster as u16));
        }
    }

    /// Selects the most urgent tasks of a cluster, as many as it has cores; which of them is still
    /// to be assigned one.
    #[inline]
    fn select(&mut self, cluster: u32) -> Option<u32> {
        let own = &mut self.clusters[cluster as usize];
        own.decisions += 1;
        let newly = std::mem::take(&mut own.newly_waiting);
        let vacant = own.vacant();
        if vacant > 0 {
            let index = self.by_tie_rank[self.releases.packing.index(own.pop()?) as usize];
            // Most often nothing else competes for a core.
            let Some(next) = own.first() else { return Some(index) };
            let none_kept = own.cores.len() == vacant;
            let is_last = newly == 0 || none_kept || self.displaced_by(cluster, next).is_none();
            if vacant == 1 && is_last {
                return Some(index);
            }
            self.coreless.push(index);
        } else if newly == 0 {
            return None;
        }
        self.select_more(cluster, newly)
    }

    /// The same, where several may be selected, of which `coreless` has the first; so many came to
    /// wait since the last selection. At most as many can displace others: nothing that waited
    /// then goes before what had a core.
    #[inline]
    fn select_more(&mut self, cluster: u32, newly: u32) -> Option<u32> {
        let own = &mut self.clusters[cluster as usize];
        while self.coreless.len() < own.vacant()
            && let Some(key) = own.pop()
        {
            self.coreless.push(self.by_tie_rank[self.releases.packing.index(key) as usize]);
        }
        for _ in 0..newly {
            let Some(first) = self.clusters[cluster as usize].first() else { break };
            let Some(last) = self.displaced_by(cluster, first) else { break };
            self.displace(cluster, first, last);
        }
        if self.coreless.len() > 1 {
            self.assign_all(cluster);
        }
        self.coreless.pop()
    }

    /// The last of those that have kept their cores, by its core's index, where `waiting` takes its
    /// place.
    #[inline]
    fn displaced_by(&self, cluster: u32, waiting: Packed) -> Option<(usize, Packed)> {
        let (index, last) = self.clusters[cluster as usize].last();
        if waiting >= last {
            return None;
        }
        // Jobs of one deadline do not displace each other, tasks of one fixed priority do.
        let displaces = self.releases.packing.at(waiting) < self.releases.packing.at(last) || {
            let index = self.by_tie_rank[self.releases.packing.index(waiting) as usize];
            self.tasks[index as usize].is_fixed()
        };
        displaces.then_some((index, last))
    }

    /// The first that waits takes the place of the last of those that have kept their cores.
    #[inline]
    fn displace(&mut self, cluster: u32, first: Packed, (index, last): (usize, Packed)) {
        let own = &mut self.clusters[cluster as usize];
        own.pop();
        own.wait(last);
        own.release(index);
        let core = own.cores[index];
        let displaced = std::mem::replace(&mut self.cores[core as usize].assigned, NONE);
        self.tasks[displaced as usize].place = Place::Waiting;
        self.concerned.insert(CoreId(core as u16));
        self.coreless.push(self.by_tie_rank[self.releases.packing.index(first) as usize]);
    }

    /// Assigns cores to what was selected: those that their tasks last had, then any.
    #[inline(never)] // Seldom more than one is selected.
    fn assign_all(&mut self, cluster: u32) {
        let mut selected = std::mem::take(&mut self.coreless);
        selected.retain(|index| {
            let last = self.tasks[*index as usize].last;
            let core = self.cores.get(last as usize);
            let is_free =
                core.is_some_and(|core| self.clusters[cluster as usize].is_free(core.in_cluster));
            if is_free {
                self.assign(*index);
            }
            !is_free
        });
        selected.drain(..).for_each(|index| self.assign(index));
        self.coreless = selected;
    }

    /// Assigns a task the core that it last had, if that is free, else the lowest that is.
    #[inline(always)] // A part of nearly each decision.
    fn assign(&mut self, index: u32) {
        let task = &mut self.tasks[index as usize];
        let cluster = &mut self.clusters[task.cluster as usize];
        let last =
            || self.cores.get(task.last as usize).filter(|core| cluster.is_free(core.in_cluster));
        let last = if cluster.vacant() == 1 { None } else { last() };
        let in_cluster = last.map_or_else(|| cluster.first_free(), |core| core.in_cluster);
        let core = cluster.assign(in_cluster, task.key);
        (task.place, task.last) = (Place::On(core), core);
        self.cores[core as usize].assigned = index;
        self.concerned.insert(CoreId(core as u16));
    }

    /// Has the cores run what they are assigned to: first all stops, then all starts.
    #[inline(never)] // Seldom more than one core is concerned.
    fn enact(&mut self) {
        while let Some(core) = self.concerned.pop_first() {
            if self.take_off(usize::from(core.0)) {
                self.starting.push(u32::from(core.0));
            }
        }
        while let Some(core) = self.starting.pop() {
            self.start(core as usize);
        }
    }

    /// Stops what runs on a core that is assigned to another; whether the core has something to
    /// start.
    #[inline(always)] // A part of nearly each decision.
    fn take_off(&mut self, core: usize) -> bool {
        let (own, now) = (&mut self.cores[core], self.now);
        if own.assigned != own.planned {
            own.planned = own.assigned;
            own.decisions += 1;
        }
        if own.running == own.assigned {
            return false;
        }
        if let Some(task) = self.tasks.get_mut(own.running as usize) {
            task.left = task.left.saturating_sub(now - own.synced);
            let moves = matches!(task.place, Place::On(_));
            let end = if moves { End::Moved } else { End::Preempted };
            self.segments += 1;
            task.tell_piece(own.stop(core, now, end), self.observer);
            if own.assigned == NONE {
                self.ends.clear(core as u32);
            }
        }
        own.assigned != NONE
    }

    #[inline(always)] // A part of nearly each decision.
    fn start(&mut self, core: usize) {
        let (own, now) = (&mut self.cores[core], self.now);
        let task = &mut self.tasks[own.assigned as usize];
        task.was_on_run_queue = true;
        self.outcome.context_switches += u64::from(own.start(now));
        self.ends.set(core as u32, now.saturating_add(task.left));
    }

    /// Closes the run: jobs that are done on the horizon, and the running segments.
    fn end(mut self) -> Outcome {
        let now = self.until;
        self.now = now;
        self.finish_jobs();
        self.tasks.iter_mut().for_each(|task| task.tell_untold(self.observer));
        for core in 0..self.cores.len() {
            let own = &mut self.cores[core];
            let Some(task) = self.tasks.get_mut(own.running as usize) else { continue };
            if own.from < now {
                self.segments += 1;
                task.tell_piece(own.stop(core, now, End::Metered), self.observer);
            }
        }
        let by_core = self.cores.iter().map(|core| core.decisions).collect();
        let mut counts = DecisionCounts { all: self.decisions, by_core, ..Default::default() };
        if self.on_run_queues == OnRunQueues::Pending {
            for cluster in &self.clusters {
                let cores = cluster.cores.iter().map(|core| *core as usize);
                cores.for_each(|core| counts.by_core[core] = cluster.decisions);
            }
        }
        let shown = self.tasks.iter().filter(|task| task.was_on_run_queue);
        counts.on_run_queue = shown.map(Task::id).collect();
        self.observer.decided(&counts);
        let outcome = &mut self.outcome;
        outcome.decisions = self.decisions;
        outcome.released = self.tasks.iter().map(Task::released).sum();
        outcome.completed = self.tasks.iter().map(Task::completed).sum();
        outcome.events = outcome.released + outcome.completed + self.segments;
        outcome.end = now;
        outcome.missed += self.tasks.iter().map(|task| task.overdue(now)).sum::<u64>();
        let idle = self.cores.iter().map(|core| {
            let open = if core.running == NONE { now - core.idle_since } else { Duration::ZERO };
            core.idle + open
        });
        outcome.idle = idle.collect();
        self.outcome
    }
}
