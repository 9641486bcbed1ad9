//! Partitioned rate-monotonic: tasks are bound to cores off-line; on each core the task with the
//! shortest period runs.
//!
//! # Paper
//! C. L. Liu, J. W. Layland. "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time
//! Environment." Journal of the ACM 20(1), 1973, DOI 10.1145/321738.321743; packing of
//! S. K. Dhall, C. L. Liu, "On a Real-Time Scheduling Problem", Operations Research 26(1), 1978.
//! # Model
//! Periodic or sporadic tasks, deadlines up to the period; jobs do not suspend themselves.
//! # How it works
//! A core's line holds all its tasks by (period, id), always: the machine law skips those without
//! a pending job, so a release or a completion needs no decision. A task is bound to a core if
//! the chosen test (`admission`) accepts the core with it.
//! # Invariants
//! A line is the core's list of admitted tasks, in priority order. No task ever changes core.
//! # Where we differ from the paper
//! With deadlines before the period's end the order is deadline-monotonic, and the two bounds by
//! utilization take C/D (Leung and Whitehead 1982). `admission = "none"` packs by utilization
//! alone, for experiments with sets that no test admits; such sets may miss. With
//! `enforcement = "precise"` an overrunning task is cut at C for each job released so far; what
//! earlier jobs left unused may be used by later ones.

use crate::parts::jobs::{self, Backlog, ByVcpu, ENFORCEMENT};
use crate::parts::pack::{self, PACKING};
use crate::parts::priority;
use crate::parts::table::{Family, Table};
use alloc::boxed::Box;
use maracas_core::admission::Verdict;
use maracas_core::contract::{Claims, Entry, Grant, Needs};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{CoreId, CoreSet, Event, Instant, Plan, Policy, System, Vcpu, VcpuId};

const ADMISSION: ParamSpec = ParamSpec {
    kind: Kind::Choice(&["ll", "hyperbolic", "rta", "none"]),
    help: "the test that decides on each core: ll = sum of U at most n(2^(1/n) - 1) (Liu and \
           Layland 1973), hyperbolic = product of (U + 1) at most 2 (Bini et al. 2003), rta = \
           exact response times (Joseph and Pandya 1986), none = sum of U at most 1, which \
           promises nothing",
    ..priority::ADMISSION
};

pub(crate) const ENTRY: Entry = Entry {
    name: "p-rm",
    paper: "Liu and Layland, Scheduling Algorithms for Multiprogramming in a Hard-Real-Time \
            Environment, JACM 1973",
    summary: "partitioned rate-monotonic: each core runs its task with the shortest period",
    params: &[PACKING, ADMISSION, ENFORCEMENT],
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
    let mut policy = PRm {
        params: params.clone(),
        precise: params.choice(&ENFORCEMENT) == "precise",
        tasks: ByVcpu::default(),
        stale: system.core_ids().collect(),
        table,
    };
    for core in system.core_ids() {
        for vcpu in policy.table.on(core) {
            policy.tasks.insert(vcpu.id, Task { backlog: Backlog::new(vcpu, params), core });
        }
    }
    Ok(Box::new(policy))
}

fn packed(system: &System, params: &Params) -> (Table, Verdict) {
    let test = priority::chosen(params, &ADMISSION);
    let mut table = Table::new(system, Family::FixedPriority, test, pack::chosen(params));
    let mut verdict = table.fill(system, true);
    verdict.objections = jobs::objections(system);
    (table, verdict)
}

struct Task {
    backlog: Backlog,
    core: CoreId,
}

struct PRm {
    params: Params,
    precise: bool,
    table: Table,
    tasks: ByVcpu<Task>,
    /// Cores whose line is out of date.
    stale: CoreSet,
}

impl Policy for PRm {
    fn on_event(&mut self, _at: Instant, event: &Event) {
        match event {
            Event::Released(job) => self.change(job.id.vcpu, |backlog| backlog.release(job)),
            Event::Completed(id) => self.change(id.vcpu, |backlog| backlog.complete(*id)),
            Event::Arrived(vcpu) => self.arrive(vcpu),
            Event::Changed(vcpu) => {
                if self.table.change(vcpu)
                    && let Some(task) = self.tasks.get_mut(vcpu.id)
                {
                    task.backlog.set_budget(vcpu.reservation.budget);
                    self.stale.insert(task.core);
                }
            }
            Event::Left(vcpu) => {
                self.tasks.remove(*vcpu);
                if let Some(core) = self.table.leave(*vcpu) {
                    self.stale.insert(core);
                }
            }
            Event::Ran(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::ErrandDone(_)
            | Event::Failed { .. } => {}
        }
    }

    fn plan(&mut self, _now: Instant, plan: &mut Plan) {
        self.table.reply(plan);
        for core in self.stale.iter() {
            let line = &mut plan.line_mut(core).foreground;
            line.clear();
            let mark = |vcpu: &Vcpu| Some(self.tasks.get(vcpu.id)?.backlog.mark());
            line.extend(
                self.table
                    .on(core)
                    .iter()
                    .filter_map(|vcpu| mark(vcpu).map(|until| Grant { vcpu: vcpu.id, until })),
            );
        }
        self.stale = CoreSet::EMPTY;
        plan.wake = Instant::NEVER;
    }
}

impl PRm {
    fn arrive(&mut self, vcpu: &Vcpu) {
        if let Some(reason) = jobs::objection(vcpu) {
            self.table.refuse(vcpu.id, reason);
        } else if let Some(core) = self.table.arrive(vcpu) {
            let backlog = Backlog::new(vcpu, &self.params);
            self.tasks.insert(vcpu.id, Task { backlog, core });
            self.stale.insert(core);
        }
    }

    /// Lines follow jobs only where each release moves a mark.
    #[inline]
    fn change(&mut self, vcpu: VcpuId, act: impl FnOnce(&mut Backlog)) {
        if !self.precise {
            return;
        }
        let Some(task) = self.tasks.get_mut(vcpu) else { return };
        let before = task.backlog.mark();
        act(&mut task.backlog);
        if task.backlog.mark() != before {
            self.stale.insert(task.core);
        }
    }
}
