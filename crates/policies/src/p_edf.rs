//! Partitioned EDF: tasks are bound to cores off-line; each core runs its pending job with the
//! earliest deadline.
//!
//! # Paper
//! C. L. Liu, J. W. Layland. "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time
//! Environment." Journal of the ACM 20(1), 1973, DOI 10.1145/321738.321743 (EDF on one core);
//! packings after D. S. Johnson, "Near-Optimal Bin Packing Algorithms", PhD thesis, MIT, 1973.
//! # Model
//! Periodic or sporadic tasks, deadlines up to the period; jobs do not suspend themselves. A set
//! is admitted where a packing is found with the sum of C/D at most 1 on each core.
//! # How it works
//! A core's line holds its tasks with pending jobs by (deadline, running first, id), changed in
//! place at releases and completions. The one that ran keeps the core against equal deadlines.
//! # Invariants
//! A line equals its core's queue, entry by entry. No waiting job has an earlier deadline than its
//! core's running one. No task ever changes core.
//! # Where we differ from the paper
//! Deadlines before the period's end are admitted by density, which is sufficient only. With
//! `enforcement = "precise"` an overrunning task is cut at C for each job released so far; what
//! earlier jobs left unused may be used by later ones.

use crate::parts::jobs::{self, Backlog, ByVcpu, ENFORCEMENT};
use crate::parts::pack::{self, PACKING};
use crate::parts::queue::{Key, Queue};
use crate::parts::table::{Family, Table, Test};
use alloc::boxed::Box;
use alloc::vec::Vec;
use maracas_core::admission::Verdict;
use maracas_core::contract::{Claims, Entry, Grant, Needs};
use maracas_core::params::Params;
use maracas_core::{CoreId, CoreSet, Event, Instant, Plan, Policy, System, Vcpu, VcpuId};

pub(crate) const ENTRY: Entry = Entry {
    name: "p-edf",
    paper: "Liu and Layland, Scheduling Algorithms for Multiprogramming in a Hard-Real-Time \
            Environment, JACM 1973",
    summary: "partitioned EDF: each core runs its task with the earliest deadline",
    params: &[PACKING, ENFORCEMENT],
    needs: Needs { jobs: true, visible_wakes: false, counters: false },
    claims: Claims { partitioned: true, work_conserving: true, no_miss_when_admitted: true },
    admit,
    build,
};

fn admit(system: &System, params: &Params) -> Verdict {
    packed(system, params).1
}

fn build(system: &System, params: &Params) -> Result<Box<dyn Policy>, Verdict> {
    let (table, verdict) = packed(system, params);
    if !verdict.accepted() {
        return Err(verdict);
    }
    let cores = system.cores.len();
    let mut policy = PEdf {
        params: params.clone(),
        tasks: ByVcpu::default(),
        queues: alloc::vec![Queue::default(); cores],
        running: alloc::vec![None; cores],
        changed: Vec::new(),
        gone: Vec::new(),
        table,
    };
    for core in system.core_ids() {
        for vcpu in policy.table.on(core) {
            policy.tasks.insert(vcpu.id, Task::new(vcpu, core, params));
        }
    }
    Ok(Box::new(policy))
}

fn packed(system: &System, params: &Params) -> (Table, Verdict) {
    let mut table = Table::new(system, Family::Edf, Test::Edf, pack::chosen(params));
    let mut verdict = table.fill(system, true);
    verdict.objections = jobs::objections(system);
    (table, verdict)
}

struct Task {
    backlog: Backlog,
    core: CoreId,
    /// Its entry in its core's queue.
    queued: Option<Key>,
    /// Whether it stands in `changed`.
    changed: bool,
}

impl Task {
    fn new(vcpu: &Vcpu, core: CoreId, params: &Params) -> Self {
        Self { backlog: Backlog::new(vcpu, params), core, queued: None, changed: false }
    }
}

struct PEdf {
    params: Params,
    table: Table,
    tasks: ByVcpu<Task>,
    queues: Vec<Queue>,
    /// The head of each line at the last decision.
    running: Vec<Option<VcpuId>>,
    /// Tasks whose backlog changed since the last decision.
    changed: Vec<VcpuId>,
    /// Queue entries of tasks that left since.
    gone: Vec<(CoreId, Key)>,
}

/// The tie value of a waiting job: only the running one wins ties, then the lower id.
const WAITING: u64 = Key::RUNNING + 1;

impl Policy for PEdf {
    fn on_event(&mut self, _at: Instant, event: &Event) {
        match event {
            Event::Released(job) => self.change(job.id.vcpu, |backlog| backlog.release(job)),
            Event::Completed(id) => self.change(id.vcpu, |backlog| backlog.complete(*id)),
            Event::Ran(stint) => {
                let service = stint.usage.service;
                self.change(stint.vcpu, |backlog| backlog.charge(service));
            }
            Event::Arrived(vcpu) => self.arrive(vcpu),
            Event::Changed(vcpu) => {
                if self.table.change(vcpu) {
                    let budget = vcpu.reservation.budget;
                    self.change(vcpu.id, |backlog| backlog.set_budget(budget));
                }
            }
            Event::Left(vcpu) => {
                self.table.leave(*vcpu);
                if let Some(task) = self.tasks.remove(*vcpu) {
                    self.gone.extend(task.queued.map(|key| (task.core, key)));
                }
            }
            Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::ErrandDone(_)
            | Event::Failed { .. } => {}
        }
    }

    fn plan(&mut self, _now: Instant, plan: &mut Plan) {
        self.table.reply(plan);
        let mut touched = CoreSet::EMPTY;
        for (core, key) in self.gone.drain(..) {
            let place = self.queues[core.0 as usize].remove(key);
            plan.line_mut(core).foreground.remove(place);
            touched.insert(core);
        }
        while let Some(vcpu) = self.changed.pop() {
            touched = touched.union(self.requeue(vcpu, plan));
        }
        for core in touched.iter() {
            self.crown(core, plan);
        }
        plan.wake = Instant::NEVER;
    }
}

impl PEdf {
    fn arrive(&mut self, vcpu: &Vcpu) {
        if let Some(reason) = jobs::objection(vcpu) {
            self.table.refuse(vcpu.id, reason);
        } else if let Some(core) = self.table.arrive(vcpu) {
            self.tasks.insert(vcpu.id, Task::new(vcpu, core, &self.params));
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

    /// Brings the task's place in queue and line in step with its backlog; the core if touched.
    fn requeue(&mut self, vcpu: VcpuId, plan: &mut Plan) -> CoreSet {
        let mut touched = CoreSet::EMPTY;
        let Some(task) = self.tasks.get_mut(vcpu) else { return touched };
        task.changed = false;
        let queue = &mut self.queues[task.core.0 as usize];
        let grant = Grant { vcpu, until: task.backlog.mark() };
        let wanted = task.backlog.deadline();
        if task.queued.map(|key| key.deadline) == wanted {
            if let Some(key) = task.queued {
                let place = queue.place(key);
                if plan.line(task.core).foreground[place] != grant {
                    plan.line_mut(task.core).foreground[place] = grant;
                }
            }
            return touched;
        }
        touched.insert(task.core);
        let line = &mut plan.line_mut(task.core).foreground;
        if let Some(key) = task.queued.take() {
            line.remove(queue.remove(key));
        }
        if let Some(deadline) = wanted {
            let key = Key { deadline, tie: WAITING, vcpu };
            line.insert(queue.insert(key), grant);
            task.queued = Some(key);
        }
        touched
    }

    /// Notes who runs on `core` now, and takes the right of way over ties from who ran before.
    fn crown(&mut self, core: CoreId, plan: &mut Plan) {
        let queue = &mut self.queues[core.0 as usize];
        let first = queue.first().map(|key| key.vcpu);
        let before = core::mem::replace(&mut self.running[core.0 as usize], first);
        if let Some(task) = before.filter(|_| before != first).and_then(|v| self.tasks.get_mut(v))
            && let Some(key) = task.queued.filter(|key| key.tie == Key::RUNNING)
        {
            let line = &mut plan.line_mut(core).foreground;
            let grant = line.remove(queue.remove(key));
            let key = Key { tie: WAITING, ..key };
            line.insert(queue.insert(key), grant);
            task.queued = Some(key);
        }
        if let Some(task) = first.and_then(|vcpu| self.tasks.get_mut(vcpu)) {
            task.queued = queue.retie_first(Key::RUNNING);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ENTRY;
    use crate::testing::periodic;

    #[test]
    fn earliest_deadline_first_with_ties_to_the_running_then_the_lower_id() {
        let machine = periodic(&ENTRY, &[], 1, &[(2, 6), (1, 3), (1, 6), (1, 6)], 12);
        // At 3 vcpu1's second job ties with vcpu0, which runs; then the lower id goes first.
        assert_eq!(machine.schedule(0), "baabcdbaabcd");
    }

    #[test]
    fn a_full_core_misses_nothing() {
        let machine = periodic(&ENTRY, &[], 1, &[(1, 2), (1, 3), (1, 6)], 60);
        assert!(machine.models.iter().all(|model| model.misses == 0));
        assert!(!machine.schedule(0).contains('.'));
    }

    #[test]
    fn a_preempted_job_loses_its_right_of_way() {
        let schedule = |rival: bool| {
            let mut machine = periodic(&ENTRY, &[], 1, &[(1, 20), (4, 20), (1, 20)], 0);
            machine.release(1, 4, 20);
            machine.tick();
            machine.release(0, 1, 20);
            if rival {
                machine.release(2, 1, 5);
            }
            (1..6).for_each(|_| machine.tick());
            machine.schedule(0)
        };
        assert_eq!(schedule(false), "bbbba.");
        assert_eq!(schedule(true), "bcabbb");
    }
}
