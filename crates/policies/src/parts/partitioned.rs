//! Partitioned policies for jobs: a run queue for each core, kept in the order of its pending jobs.

use super::jobs::{self, Backlog, ByVcpu};
use super::priority;
use super::queue::{Key, Queue};
use super::table::{Granted, Table, Use};
use alloc::boxed::Box;
use alloc::vec::Vec;
use maracas_core::contract::Grant;
use maracas_core::params::Params;
use maracas_core::{CoreId, CoreSet, Event, Instant, JobId, Plan, Policy, System, Vcpu, VcpuId};

/// What orders the pending jobs of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// The absolute deadline; the running one first among equals, then the lower id.
    Deadline,
    /// The task's fixed priority ([`priority::of`]).
    Fixed,
}

/// A policy that runs, on each core, the first pending job of those that `table` put there.
pub(crate) fn build(
    system: &System,
    params: &Params,
    table: Table,
    order: Order,
) -> Box<dyn Policy> {
    let cores = system.cores.len();
    let mut policy = Partitioned {
        order,
        params: params.clone(),
        precise: jobs::precise(params),
        tasks: ByVcpu::default(),
        queues: alloc::vec![Queue::default(); cores],
        running: alloc::vec![None; cores],
        changed: Vec::new(),
        gone: Vec::new(),
        touched: CoreSet::EMPTY,
        table,
    };
    for core in system.core_ids() {
        for vcpu in policy.table.on(core) {
            policy.tasks.insert(vcpu.id, Task::new(vcpu, core, params));
        }
    }
    Box::new(policy)
}

/// What an event looks at, in two cache lines of 64 bytes.
#[repr(align(64))]
struct Task {
    backlog: Backlog,
    core: CoreId,
    /// Its priority where that is fixed, as a deadline counted from zero.
    fixed: Instant,
    /// The deadline of its entry in its core's queue.
    queued: Option<Instant>,
    /// Whether that entry has the right of way over ties.
    runs: bool,
    /// Whether it stands in `changed`.
    changed: bool,
}

const _: () = assert!(size_of::<Task>() == 128);

impl Task {
    fn new(vcpu: &Vcpu, core: CoreId, params: &Params) -> Self {
        let (fixed, _) = priority::of(vcpu);
        Self {
            backlog: Backlog::new(vcpu, params),
            core,
            fixed: Instant::ZERO + fixed,
            queued: None,
            runs: false,
            changed: false,
        }
    }
    /// Its entry in its core's queue, where it is `vcpu`.
    fn key(&self, vcpu: VcpuId) -> Option<Key> {
        let tie = if self.runs { Key::RUNNING } else { WAITING };
        self.queued.map(|deadline| Key { deadline, tie, vcpu })
    }
}

struct Partitioned {
    order: Order,
    params: Params,
    precise: bool,
    table: Table,
    tasks: ByVcpu<Task>,
    queues: Vec<Queue>,
    /// The head of each run queue at the last decision.
    running: Vec<Option<VcpuId>>,
    /// Tasks whose backlog changed since the last decision.
    changed: Vec<VcpuId>,
    /// Queue entries of tasks that left since.
    gone: Vec<(CoreId, Key)>,
    /// Cores whose order changed; empty between decisions.
    touched: CoreSet,
}

/// The tie value of a waiting job: only the running one wins ties, then the lower id.
const WAITING: u64 = Key::RUNNING + 1;

impl Policy for Partitioned {
    fn on_event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Released(job) => self.change(job.id.vcpu, |backlog| backlog.release(job)),
            Event::Completed(id) => self.complete(*id, at),
            // Only enforcement looks at what was consumed.
            Event::Ran(segment) if self.precise => {
                let service = segment.usage.service;
                self.change(segment.vcpu, |backlog| backlog.charge(service));
            }
            Event::Arrived(vcpu) => self.arrive(vcpu, at),
            Event::Changed(vcpu) => self.table.ask(vcpu, at),
            Event::Left(vcpu) => self.leave(*vcpu, at),
            Event::Ran(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
    }

    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        if !self.table.is_settled() {
            self.retry(now);
        }
        self.table.reply(plan);
        for (core, key) in self.gone.drain(..) {
            let place = self.queues[core.0 as usize].remove(key);
            plan.run_queue_mut(core).foreground.remove(place);
            self.touched.insert(core);
        }
        while let Some(vcpu) = self.changed.pop() {
            self.requeue(vcpu, plan);
        }
        while let Some(core) = self.touched.pop_first() {
            if self.order == Order::Deadline {
                self.promote_earliest(core, plan);
            }
        }
        plan.wake = self.table.next();
    }
}

/// What of the reservation of `vcpu` counts if it leaves or changes at `at`.
fn in_use(order: Order, tasks: &ByVcpu<Task>, table: &Table, vcpu: VcpuId, at: Instant) -> Use {
    let Some(task) = tasks.get(vcpu) else { return Use::NONE };
    let is_idle = |id| tasks.get(id).is_none_or(|task| task.backlog.is_idle());
    let all_idle = || table.on(task.core).iter().all(|vcpu| is_idle(vcpu.id));
    let at_rest = is_idle(vcpu) && (table.rests(task.core, at) || all_idle());
    // Under fixed priorities the table knows how long windows last.
    let until = if order == Order::Deadline { task.backlog.in_use().until } else { at };
    Use { until, at_rest }
}

impl Partitioned {
    fn arrive(&mut self, vcpu: &Vcpu, at: Instant) {
        if let Some(reason) = jobs::objection(vcpu) {
            self.table.refuse(vcpu.id, reason);
        } else if let Some(core) = self.table.arrive(vcpu, at) {
            self.tasks.insert(vcpu.id, Task::new(vcpu, core, &self.params));
        }
    }
    /// Admits, and changes, the VCPUs that waited for it and need not any longer.
    fn retry(&mut self, now: Instant) {
        let (order, tasks) = (self.order, &self.tasks);
        let granted = self.table.retry(now, |table, id| in_use(order, tasks, table, id, now));
        for Granted { vcpu, core, is_change } in granted {
            if is_change {
                self.become_as(&vcpu);
            } else {
                self.tasks.insert(vcpu.id, Task::new(&vcpu, core, &self.params));
            }
        }
    }
    /// From the next release on it has this reservation.
    fn become_as(&mut self, vcpu: &Vcpu) {
        let budget = vcpu.reservation.budget;
        self.change(vcpu.id, |backlog| backlog.set_budget(budget));
        if let Some(task) = self.tasks.get_mut(vcpu.id) {
            task.fixed = Instant::ZERO + priority::of(vcpu).0;
        }
    }
    fn leave(&mut self, vcpu: VcpuId, at: Instant) {
        let Some(task) = self.tasks.remove(vcpu) else {
            // It may wait to be let in.
            self.table.leave(vcpu, at, Use::NONE);
            return;
        };
        let used = match self.order {
            Order::Deadline => task.backlog.in_use(),
            // Jobs that are done hold nothing: the table holds what VCPUs have waited for.
            Order::Fixed => Use::NONE,
        };
        self.table.leave(vcpu, at, used);
        self.gone.extend(task.key(vcpu).map(|key| (task.core, key)));
        self.note_rest(task.core, at);
    }
    fn complete(&mut self, id: JobId, at: Instant) {
        self.change(id.vcpu, |backlog| backlog.complete(id));
        if !self.table.is_settled()
            && let Some(core) = self.tasks.get(id.vcpu).map(|task| task.core)
        {
            self.note_rest(core, at);
        }
    }
    /// Reports to the table if no job is pending on `core` at `at`.
    fn note_rest(&mut self, core: CoreId, at: Instant) {
        let is_idle = |vcpu: &Vcpu| self.tasks.get(vcpu.id).is_none_or(|t| t.backlog.is_idle());
        if self.table.on(core).iter().all(is_idle) {
            self.table.rest(core, at);
        }
    }

    #[inline]
    fn change(&mut self, vcpu: VcpuId, act: impl FnOnce(&mut Backlog)) {
        let Some(task) = self.tasks.get_mut(vcpu) else { return };
        act(&mut task.backlog);
        if !task.changed {
            task.changed = true;
            self.changed.push(vcpu);
        }
    }

    /// Brings the task's place in queue and run queue in step with its backlog.
    fn requeue(&mut self, vcpu: VcpuId, plan: &mut Plan) {
        let Some(task) = self.tasks.get_mut(vcpu) else { return };
        task.changed = false;
        let queue = &mut self.queues[task.core.0 as usize];
        let grant = Grant::new(vcpu, task.backlog.limit());
        let wanted = match self.order {
            Order::Deadline => task.backlog.deadline(),
            Order::Fixed => task.backlog.deadline().map(|_| task.fixed),
        };
        let key = task.key(vcpu);
        if task.queued == wanted {
            if let Some(key) = key {
                let place = queue.place(key);
                if plan.run_queue(task.core).foreground[place] != grant {
                    plan.run_queue_mut(task.core).foreground[place] = grant;
                }
            }
            return;
        }
        self.touched.insert(task.core);
        let run_queue = &mut plan.run_queue_mut(task.core).foreground;
        if let Some(key) = key {
            run_queue.remove(queue.remove(key));
        }
        (task.queued, task.runs) = (wanted, false);
        if let Some(key) = task.key(vcpu) {
            run_queue.insert(queue.insert(key), grant);
        }
    }

    /// Notes what runs on `core` now, and takes the right of way over ties from what ran before.
    fn promote_earliest(&mut self, core: CoreId, plan: &mut Plan) {
        let queue = &mut self.queues[core.0 as usize];
        let first = queue.first().map(|key| key.vcpu);
        let before = core::mem::replace(&mut self.running[core.0 as usize], first);
        if let Some(vcpu) = before.filter(|_| before != first)
            && let Some(task) = self.tasks.get_mut(vcpu).filter(|task| task.runs)
            && let Some(key) = task.key(vcpu)
        {
            let run_queue = &mut plan.run_queue_mut(core).foreground;
            let grant = run_queue.remove(queue.remove(key));
            let key = Key { tie: WAITING, ..key };
            run_queue.insert(queue.insert(key), grant);
            task.runs = false;
        }
        if let Some(task) = first.and_then(|vcpu| self.tasks.get_mut(vcpu)) {
            queue.retie_first(Key::RUNNING);
            task.runs = true;
        }
    }
}
