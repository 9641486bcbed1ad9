//! Global policies for jobs: one queue for all cores, or for those of each cluster, of which the
//! most urgent jobs run, as many as there are cores, at most one of each task. A core's run queue
//! is one slot.

use crate::parts::jobs::{self, Backlog, ByVcpu};
use crate::parts::priority::{self, By};
use crate::parts::queue::{Key, Queue};
use crate::parts::table::{Granted, Table, Use};
use alloc::boxed::Box;
use alloc::vec::Vec;
use maracas_core::contract::{Grant, JobPriorities, OnRunQueues, TaskPriority};
use maracas_core::params::Params;
use maracas_core::{CoreId, CoreSet, Duration, Event, Instant, Plan, Policy, System, Vcpu, VcpuId};

/// What orders the pending jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// The absolute deadline; a running job first among equals, then the lower tie value, then the
    /// lower id.
    Deadline {
        /// The tie value of a task.
        tie: fn(&Vcpu, &Params) -> u64,
        /// Whether the job with the most work left goes first among equals, as [`most_work`] says
        /// of a job that has received nothing.
        by_work: bool,
    },
    /// The task's fixed priority.
    Fixed(By),
}

/// The tie value of a task whose job has so much left: the most goes first.
pub(crate) const fn most_work(left: Duration) -> u64 {
    u64::MAX - left.ticks()
}

/// A policy that runs the most urgent pending jobs of those in `table`: in each of its clusters as
/// many as that has cores.
pub(crate) fn build(
    system: &System,
    params: &Params,
    table: Table,
    order: Order,
) -> Box<dyn Policy> {
    let cluster = |list| Cluster { free: table.cores_of(list).collect(), ..Cluster::default() };
    let mut policy = Global {
        params: params.clone(),
        order,
        precise: jobs::precise(params),
        clusters: table.cores().map(cluster).collect(),
        table,
        tasks: ByVcpu::default(),
        running: alloc::vec![None; system.cores.len()],
        touched: Vec::new(),
        stale: CoreSet::EMPTY,
        changed: Vec::new(),
        coreless: Vec::new(),
    };
    for vcpu in &system.vcpus {
        if let Some(list) = policy.table.home_of(vcpu.id) {
            policy.enter(vcpu, list);
        }
    }
    Box::new(policy)
}

impl Order {
    const fn by_work(self) -> bool {
        matches!(self, Self::Deadline { by_work: true, .. })
    }
    fn fixed(self, vcpu: &Vcpu) -> Option<Instant> {
        match self {
            Self::Deadline { .. } => None,
            Self::Fixed(by) => Some(Instant::ZERO + priority::span(vcpu, by)),
        }
    }
    fn tie(self, vcpu: &Vcpu, params: &Params) -> u64 {
        match self {
            Self::Deadline { tie, .. } => tie(vcpu, params),
            // Equal for all: the key's last field, the id, decides.
            Self::Fixed(_) => 0,
        }
    }
    /// Whether a waiting job takes the core of a running one.
    fn displaces(self, waiting: Key, running: Key) -> bool {
        match self {
            Self::Deadline { .. } => waiting.deadline < running.deadline,
            Self::Fixed(_) => waiting < running,
        }
    }
}

/// Where the next job of a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Nowhere,
    Waiting,
    On(CoreId),
}

struct Task {
    backlog: Backlog,
    /// Its place among the clusters.
    cluster: usize,
    /// Its priority where that is fixed, as a deadline counted from zero.
    fixed: Option<Instant>,
    tie: u64,
    /// C.
    budget: Duration,
    /// What its job has received, and when the job before it was complete.
    received: Duration,
    begun: Instant,
    place: Place,
    /// Its entry in the queue where it is, if it is anywhere.
    key: Key,
    last: Option<CoreId>,
    /// Whether it stands in `changed`.
    changed: bool,
}

impl Task {
    fn new(vcpu: &Vcpu, cluster: usize, order: Order, params: &Params) -> Self {
        Self {
            backlog: Backlog::new(vcpu, params),
            cluster,
            fixed: order.fixed(vcpu),
            tie: order.tie(vcpu, params),
            budget: vcpu.reservation.budget,
            received: Duration::ZERO,
            begun: Instant::ZERO,
            place: Place::Nowhere,
            key: Key { deadline: Instant::ZERO, tie: 0, vcpu: vcpu.id },
            last: None,
            changed: false,
        }
    }
}

impl Task {
    /// Brings its tie value in step with what its job has left.
    fn weigh(&mut self) {
        self.tie = most_work(self.budget.saturating_sub(self.received));
    }
}

/// Cores that share a queue.
#[derive(Default)]
struct Cluster {
    waiting: Queue,
    /// The jobs on its cores, most urgent first.
    selected: Queue,
    free: CoreSet,
    /// Whether something changed since the last decision.
    touched: bool,
}

struct Global {
    params: Params,
    order: Order,
    /// Whether a job is cut at C.
    precise: bool,
    table: Table,
    tasks: ByVcpu<Task>,
    clusters: Vec<Cluster>,
    /// The grants of the jobs on cores, by core.
    running: Vec<Option<Grant>>,
    /// Places of the clusters in which something changed since the last decision.
    touched: Vec<usize>,
    /// Cores whose slot changed since the last decision.
    stale: CoreSet,
    /// Tasks whose backlog changed since the last decision.
    changed: Vec<VcpuId>,
    /// Jobs selected in this decision that have no core yet.
    coreless: Vec<Key>,
}

impl Policy for Global {
    fn on_event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Released(job) => self.change(job.id.vcpu, |task| task.backlog.release(job)),
            Event::Completed(id) => {
                let by_work = self.order.by_work();
                self.change(id.vcpu, |task| {
                    task.backlog.complete(*id);
                    if by_work {
                        (task.received, task.begun) = (Duration::ZERO, at);
                        task.weigh();
                    }
                });
            }
            // Only enforcement and one rule for ties look at what was consumed.
            Event::Ran(segment) if self.precise || self.order.by_work() => {
                let by_work = self.order.by_work();
                self.change(segment.vcpu, |task| {
                    task.backlog.charge(segment.usage.service);
                    if by_work {
                        // The segment may have begun with the job before.
                        task.received += segment.to.saturating_since(segment.from.max(task.begun));
                        task.weigh();
                    }
                });
            }
            Event::Arrived(vcpu) => self.arrive(vcpu, at),
            Event::Changed(vcpu) => self.table.ask(vcpu, at),
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
        plan.wake = Instant::NEVER;
        if !self.table.is_settled() || self.table.owes() {
            self.attend(now, plan);
        }
        // Many a decision answers a stop alone, which changes nothing here.
        if !self.changed.is_empty() || !self.touched.is_empty() || !self.stale.is_empty() {
            self.follow(plan);
        }
    }

    /// Where jobs are not cut, and what is left of them does not order them.
    fn job_priorities(&self) -> Option<JobPriorities> {
        if self.precise || self.order.by_work() {
            return None;
        }
        let clusters = self.table.cores().map(|list| self.table.cores_of(list).collect()).collect();
        let tasks = self.tasks.iter().map(|(vcpu, task)| {
            let &Task { cluster, fixed, tie, .. } = task;
            TaskPriority { vcpu, cluster, fixed, tie }
        });
        Some(JobPriorities {
            clusters,
            tasks: tasks.collect(),
            on_run_queues: OnRunQueues::Selected,
        })
    }
}

impl Global {
    /// Brings the plan in step with what changed since the last decision.
    #[inline(never)]
    fn follow(&mut self, plan: &mut Plan) {
        while let Some(vcpu) = self.changed.pop() {
            self.update(vcpu);
        }
        while let Some(&cluster) = self.touched.last() {
            self.select(cluster);
            self.clusters[cluster].touched = false;
            self.touched.pop();
        }
        while let Some(core) = self.stale.pop_first() {
            let grant = self.running[core.0 as usize].as_ref();
            if plan.run_queue(core).foreground.first() != grant {
                let run_queue = &mut plan.run_queue_mut(core).foreground;
                match (run_queue.first_mut(), grant) {
                    (Some(only), Some(grant)) => *only = *grant,
                    (None, Some(grant)) => run_queue.push(*grant),
                    (_, None) => run_queue.clear(),
                }
            }
        }
    }
    /// Answers what is owed an answer, and what need not wait for one any longer.
    #[cold]
    fn attend(&mut self, now: Instant, plan: &mut Plan) {
        if !self.table.is_settled() {
            self.retry(now);
        }
        self.table.reply(plan);
        plan.wake = self.table.next();
    }
    #[cold]
    fn arrive(&mut self, vcpu: &Vcpu, at: Instant) {
        if let Some(reason) = jobs::objection(vcpu) {
            self.table.refuse(vcpu.id, reason);
        } else if let Some(list) = self.table.arrive(vcpu, at) {
            self.enter(vcpu, list);
        }
    }
    #[cold]
    fn leave(&mut self, vcpu: VcpuId, at: Instant) {
        self.table.leave(vcpu, at, self.in_use(vcpu));
        if let Some(task) = self.tasks.remove(vcpu) {
            self.withdraw(task.cluster, task.place, task.key);
        }
    }
    /// What of the reservation of `vcpu` counts if it leaves or changes.
    fn in_use(&self, vcpu: VcpuId) -> Use {
        self.tasks.get(vcpu).map_or(Use::NONE, |task| task.backlog.in_use())
    }
    /// Takes in an admitted VCPU.
    fn enter(&mut self, vcpu: &Vcpu, list: CoreId) {
        let task = Task::new(vcpu, usize::from(list.0), self.order, &self.params);
        self.tasks.insert(vcpu.id, task);
    }
    /// Admits, and changes, the VCPUs that waited for it and need not any longer.
    fn retry(&mut self, now: Instant) {
        let tasks = &self.tasks;
        let in_use = |id| tasks.get(id).map_or(Use::NONE, |task| task.backlog.in_use());
        for Granted { vcpu, core, is_change } in self.table.retry(now, |_, id| in_use(id)) {
            if is_change {
                self.become_as(&vcpu);
            } else {
                self.enter(&vcpu, core);
            }
        }
    }
    /// From the next release on it has this reservation.
    fn become_as(&mut self, vcpu: &Vcpu) {
        let budget = vcpu.reservation.budget;
        let (order, tie) = (self.order, self.order.tie(vcpu, &self.params));
        self.change(vcpu.id, |task| {
            task.backlog.set_budget(budget);
            (task.fixed, task.tie, task.budget) = (order.fixed(vcpu), tie, budget);
            if order.by_work() {
                task.weigh();
            }
        });
    }

    #[inline]
    fn change(&mut self, vcpu: VcpuId, act: impl FnOnce(&mut Task)) {
        let Some(task) = self.tasks.get_mut(vcpu) else { return };
        act(task);
        if !task.changed {
            task.changed = true;
            self.changed.push(vcpu);
        }
    }

    /// Has the next decision look at this cluster.
    #[inline]
    fn touch(&mut self, cluster: usize) {
        if !core::mem::replace(&mut self.clusters[cluster].touched, true) {
            self.touched.push(cluster);
        }
    }

    /// Takes `key` from where it is.
    #[inline]
    fn withdraw(&mut self, cluster: usize, place: Place, key: Key) {
        match place {
            Place::Nowhere => {}
            Place::Waiting => {
                self.clusters[cluster].waiting.remove(key);
            }
            Place::On(core) => {
                self.touch(cluster);
                self.clusters[cluster].selected.remove(key);
                self.free(cluster, core);
            }
        }
    }

    /// Brings the task's place in step with its backlog. In deadline order a task's next job waits
    /// anew.
    fn update(&mut self, vcpu: VcpuId) {
        let Some(task) = self.tasks.get_mut(vcpu) else { return };
        task.changed = false;
        let wanted = task.backlog.deadline().map(|deadline| task.fixed.unwrap_or(deadline));
        let (place, before, cluster) = (task.place, task.key, task.cluster);
        let present = (place != Place::Nowhere).then_some(before.deadline);
        if present == wanted {
            return self.stay(vcpu);
        }
        task.place = Place::Nowhere;
        if let Some(deadline) = wanted {
            task.place = Place::Waiting;
            task.key = Key { deadline, tie: task.tie, vcpu };
            let key = task.key;
            self.clusters[cluster].waiting.insert(key);
            self.touch(cluster);
        }
        self.withdraw(cluster, place, before);
    }
    /// The same where the task's priority stays.
    fn stay(&mut self, vcpu: VcpuId) {
        let Some(task) = self.tasks.get_mut(vcpu) else { return };
        match task.place {
            Place::Nowhere => {}
            Place::Waiting if task.key.tie == task.tie => {}
            Place::Waiting => {
                let before = core::mem::replace(&mut task.key.tie, task.tie);
                let key = task.key;
                let waiting = &mut self.clusters[task.cluster].waiting;
                waiting.remove(Key { tie: before, ..key });
                waiting.insert(key);
            }
            Place::On(core) => {
                if let Some(grant) = &mut self.running[core.0 as usize]
                    && grant.until != task.backlog.limit()
                {
                    grant.until = task.backlog.limit();
                    self.stale.insert(core);
                }
            }
        }
    }

    /// Selects the most urgent jobs of a cluster, as many as it has cores, then gives cores to the
    /// newly selected.
    fn select(&mut self, cluster: usize) {
        let own = &mut self.clusters[cluster];
        let Some(first) = own.waiting.first() else { return };
        let mut free = own.free.len();
        let beats = |key: Option<Key>| {
            key.zip(own.selected.last()).is_some_and(|(key, last)| self.order.displaces(key, last))
        };
        if free == 0 && !beats(Some(first)) {
            return;
        }
        if free > 0 && own.waiting.is_single() || free == 1 && !beats(own.waiting.second()) {
            // Most often: no other competes for the free cores.
            own.waiting.pop();
            let last = self.tasks.get(first.vcpu).and_then(|task| task.last);
            let last = last.filter(|core| own.free.contains(*core));
            if let Some(core) = last.or_else(|| own.free.first()) {
                self.give(cluster, core, first);
            }
            return;
        }
        while free > 0
            && let Some(key) = own.waiting.pop()
        {
            self.coreless.push(key);
            free -= 1;
        }
        // Free cores are taken; from here on a waiting job must beat a running one. Jobs without
        // a core are more urgent than all that wait, so only those on cores are compared.
        loop {
            let own = &mut self.clusters[cluster];
            let (Some(first), Some(last)) = (own.waiting.first(), own.selected.last()) else {
                break;
            };
            if !self.order.displaces(first, last) {
                break;
            }
            own.waiting.pop();
            own.selected.pop_last();
            self.coreless.push(first);
            self.displace(cluster, last);
        }
        self.assign_cores(cluster);
    }

    /// A selected job, whose key is not among the selected any more, waits again.
    fn displace(&mut self, cluster: usize, key: Key) {
        let Some(task) = self.tasks.get_mut(key.vcpu) else { return };
        let place = core::mem::replace(&mut task.place, Place::Waiting);
        self.clusters[cluster].waiting.insert(key);
        if let Place::On(core) = place {
            self.free(cluster, core);
        }
    }
    #[inline]
    fn free(&mut self, cluster: usize, core: CoreId) {
        self.clusters[cluster].free.insert(core);
        self.running[core.0 as usize] = None;
        self.stale.insert(core);
    }

    fn assign_cores(&mut self, cluster: usize) {
        let free = &self.clusters[cluster].free;
        if let ([key], Some(core)) = (&self.coreless[..], free.first())
            && free.len() == 1
        {
            self.give(cluster, core, *key);
            return self.coreless.clear();
        }
        for turn in [Turn::LastCore, Turn::AnyCore] {
            if self.coreless.is_empty() {
                return;
            }
            let mut rest = 0;
            for i in 0..self.coreless.len() {
                let key = self.coreless[i];
                let free = &self.clusters[cluster].free;
                let core = match turn {
                    Turn::LastCore => {
                        let last = self.tasks.get(key.vcpu).and_then(|task| task.last);
                        last.filter(|core| free.contains(*core))
                    }
                    Turn::AnyCore => free.first(),
                };
                if let Some(core) = core {
                    self.give(cluster, core, key);
                } else {
                    self.coreless[rest] = key;
                    rest += 1;
                }
            }
            self.coreless.truncate(rest);
        }
        assert!(self.coreless.is_empty(), "{:?} selected without a core", self.coreless);
    }

    /// Gives a free core to a selected job.
    #[inline]
    fn give(&mut self, cluster: usize, core: CoreId, key: Key) {
        let Some(task) = self.tasks.get_mut(key.vcpu) else { return };
        (task.place, task.last) = (Place::On(core), Some(core));
        let grant = Grant::new(key.vcpu, task.backlog.limit());
        self.running[core.0 as usize] = Some(grant);
        let cluster = &mut self.clusters[cluster];
        cluster.selected.insert(key);
        cluster.free.remove(core);
        self.stale.insert(core);
    }
}

#[derive(Clone, Copy)]
enum Turn {
    LastCore,
    AnyCore,
}
