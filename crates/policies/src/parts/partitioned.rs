//! Partitioned policies for jobs: one [`Partition`] a core, which decides alone, behind a router.
//!
//! The router has what cores do not decide alone: admission, and where each task is. It hands every
//! event of a task on to that task's partition, so that what happens on one core neither reads nor
//! changes what another has. Only arrivals, leaves and changes, and what still waits for an answer,
//! look at more than one of them. So a partition can be lent to a [`Part`], a policy of its core
//! alone, while nothing of that happens ([`own`]).

mod own;

use super::ahead;
use super::jobs::{self, Backlog, ByVcpu};
use super::partition::Partition;
use super::priority;
use super::table::{Granted, Table, Use};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use maracas_core::contract::{Apart, JobPriorities, OnRunQueues, TaskPriority};
use maracas_core::params::Params;
use maracas_core::{CoreId, CoreSet, Event, Instant, Plan, Policy, System, Vcpu, VcpuId};

pub(crate) use super::partition::Order;

/// A policy that runs, on each core, the first pending job of those that `table` put there.
pub(crate) fn build(
    system: &System,
    params: &Params,
    table: Table,
    order: Order,
) -> Box<dyn Policy> {
    let mut policy = Partitioned {
        order,
        params: params.clone(),
        tasks: Tasks {
            precise: jobs::precise(params),
            ahead: ahead::chosen(params),
            homes: Arc::default(),
            first: CoreId(0),
            partitions: system.cores.iter().map(|_| Partition::new(order)).collect(),
        },
        news: CoreSet::EMPTY,
        table,
    };
    for core in system.core_ids() {
        for vcpu in policy.table.on(core).to_vec() {
            policy.enter(&vcpu, core);
        }
    }
    Box::new(policy)
}

/// Where a task is.
#[derive(Clone, Copy, Debug)]
struct Home {
    core: CoreId,
    /// Its slot in that core's partition.
    slot: u32,
}

/// The tasks, in the partitions of their cores: of all cores, or of one.
struct Tasks {
    /// Jobs are cut.
    precise: bool,
    /// The next job of each is given ahead.
    ahead: bool,
    /// Where all tasks are. Shared with what decides for one core, and changed only while it is
    /// not.
    homes: Arc<ByVcpu<Home>>,
    /// The core of the first partition.
    first: CoreId,
    partitions: Vec<Partition>,
}

impl Tasks {
    #[inline]
    fn on(&mut self, core: CoreId) -> &mut Partition {
        &mut self.partitions[usize::from(core.0 - self.first.0)]
    }
    /// What happens to a task is told to its partition; the core of that.
    #[inline(always)] // A call and its answer were 60 instructions of a job's 3,300.
    fn learn(&mut self, event: &Event) -> Option<CoreId> {
        match event {
            Event::Released(job) => {
                if self.ahead
                    && let Some(Home { core, slot }) = self.homes.get(job.id.vcpu).copied()
                {
                    self.on(core).released(slot, job.release);
                }
                self.change(job.id.vcpu, |backlog| backlog.release(job))
            }
            Event::Completed(id) => self.change(id.vcpu, |backlog| backlog.complete(*id)),
            // Only enforcement looks at what was consumed.
            Event::Ran(segment) if self.precise => {
                let service = segment.usage.service;
                self.change(segment.vcpu, |backlog| backlog.charge(service))
            }
            Event::Ran(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => None,
        }
    }
    #[inline]
    fn change(&mut self, vcpu: VcpuId, act: impl FnOnce(&mut Backlog)) -> Option<CoreId> {
        let Home { core, slot } = *self.homes.get(vcpu)?;
        self.on(core).change(slot, act);
        Some(core)
    }
    fn add(&mut self, vcpu: &Vcpu, core: CoreId, backlog: Backlog) {
        let fixed = Instant::ZERO + priority::of(vcpu).0;
        let slot = self.on(core).add(vcpu.id, backlog, fixed);
        if self.ahead {
            self.on(core).give_ahead(slot, vcpu);
        }
        Arc::make_mut(&mut self.homes).insert(vcpu.id, Home { core, slot });
    }
    /// Lets a task go; where it was, and what it had before it.
    fn remove(&mut self, vcpu: VcpuId) -> Option<(CoreId, Backlog)> {
        let Home { core, slot } = Arc::make_mut(&mut self.homes).remove(vcpu)?;
        Some((core, self.on(core).remove(slot)?))
    }
    /// What a task has before it.
    fn backlog(&self, vcpu: VcpuId) -> Option<&Backlog> {
        let Home { core, slot } = *self.homes.get(vcpu)?;
        self.partitions[usize::from(core.0 - self.first.0)].backlog(slot)
    }
    /// Whether a task has nothing before it.
    fn is_idle(&self, vcpu: VcpuId) -> bool {
        self.backlog(vcpu).is_none_or(Backlog::is_idle)
    }
    /// Whether none of `vcpus` has anything before it.
    fn are_idle(&self, vcpus: &[Vcpu]) -> bool {
        vcpus.iter().all(|vcpu| self.is_idle(vcpu.id))
    }
    /// What of the reservation of `vcpu` counts if it leaves or changes at `at`.
    fn in_use(&self, order: Order, table: &Table, vcpu: VcpuId, at: Instant) -> Use {
        let Some(Home { core, .. }) = self.homes.get(vcpu).copied() else { return Use::NONE };
        let Some(backlog) = self.backlog(vcpu) else { return Use::NONE };
        let at_rest = backlog.is_idle() && (table.rests(core, at) || self.are_idle(table.on(core)));
        // Under fixed priorities the table knows how long windows last.
        let until = if order == Order::Deadline { backlog.in_use().until } else { at };
        Use { until, at_rest }
    }
}

struct Partitioned {
    order: Order,
    params: Params,
    table: Table,
    tasks: Tasks,
    /// Cores whose partition was told something since the last decision.
    news: CoreSet,
}

impl Policy for Partitioned {
    fn on_event(&mut self, at: Instant, event: &Event) {
        if let Some(core) = self.tasks.learn(event) {
            self.news.insert(core);
            if matches!(event, Event::Completed(_)) && !self.table.is_settled() {
                self.note_rest(core, at);
            }
        } else if matches!(event, Event::Arrived(_) | Event::Changed(_) | Event::Left(_)) {
            self.manage(at, event);
        }
    }

    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        plan.wake = Instant::NEVER;
        if !self.table.is_settled() || self.table.owes() {
            self.attend(now, plan);
        }
        while let Some(core) = self.news.pop_first() {
            self.tasks.on(core).decide(core, plan);
        }
    }

    fn apart(&mut self) -> Option<&mut dyn Apart> {
        Some(self)
    }

    /// Where jobs are not cut, and none is given ahead.
    fn job_priorities(&self) -> Option<JobPriorities> {
        if self.tasks.precise || self.tasks.ahead {
            return None;
        }
        let places = self.tasks.partitions.iter().enumerate();
        let tasks = places.flat_map(|(cluster, partition)| {
            let priority = move |(vcpu, fixed)| TaskPriority { vcpu, cluster, fixed, tie: 0 };
            partition.fixed_priorities().map(priority)
        });
        Some(JobPriorities {
            clusters: (0..self.tasks.partitions.len())
                .map(|core| vec![CoreId(core as u16)])
                .collect(),
            tasks: tasks.collect(),
            on_run_queues: OnRunQueues::Pending,
        })
    }
}

// What comes, goes and changes.
impl Partitioned {
    #[cold]
    fn manage(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Arrived(vcpu) => self.arrive(vcpu, at),
            Event::Changed(vcpu) => self.table.ask(vcpu, at),
            Event::Left(vcpu) => self.leave(*vcpu, at),
            Event::Released(_)
            | Event::Completed(_)
            | Event::Ran(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
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
    /// Binds an admitted VCPU to its core.
    fn enter(&mut self, vcpu: &Vcpu, core: CoreId) {
        self.tasks.add(vcpu, core, Backlog::new(vcpu, &self.params));
    }
    fn arrive(&mut self, vcpu: &Vcpu, at: Instant) {
        if let Some(reason) = jobs::objection(vcpu) {
            self.table.refuse(vcpu.id, reason);
        } else if let Some(core) = self.table.arrive(vcpu, at) {
            self.enter(vcpu, core);
        }
    }
    /// Admits, and changes, the VCPUs that waited for it and need not any longer.
    fn retry(&mut self, now: Instant) {
        let (order, tasks) = (self.order, &self.tasks);
        let granted = self.table.retry(now, |table, id| tasks.in_use(order, table, id, now));
        for Granted { vcpu, core, is_change } in granted {
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
        self.tasks.change(vcpu.id, |backlog| backlog.set_budget(budget));
        if let Some(Home { core, slot }) = self.tasks.homes.get(vcpu.id).copied() {
            if self.tasks.ahead {
                self.tasks.on(core).give_ahead(slot, vcpu);
            }
            self.tasks.on(core).set_fixed(slot, Instant::ZERO + priority::of(vcpu).0);
            self.news.insert(core);
        }
    }
    fn leave(&mut self, vcpu: VcpuId, at: Instant) {
        let Some((core, backlog)) = self.tasks.remove(vcpu) else {
            // It may wait to be let in.
            self.table.leave(vcpu, at, Use::NONE);
            return;
        };
        let used = match self.order {
            Order::Deadline => backlog.in_use(),
            // Jobs that are done hold nothing: the table holds what VCPUs have waited for.
            Order::Fixed => Use::NONE,
        };
        self.table.leave(vcpu, at, used);
        self.news.insert(core);
        self.note_rest(core, at);
    }
    /// Reports to the table if no job is pending on `core` at `at`.
    fn note_rest(&mut self, core: CoreId, at: Instant) {
        if self.tasks.are_idle(self.table.on(core)) {
            self.table.rest(core, at);
        }
    }
}
