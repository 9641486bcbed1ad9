//! How long jobs are blocked at most where they share resources, and whether they are in time then.
//!
//! Each protocol has a file with its blocking terms; what the protocol does stands in the
//! simulator. VCPUs are placed as if they shared nothing; then each core is judged with the terms
//! of all. Times are ticks.
//!
//! All terms hold as long as no job is late, which is enough: the first late job would contradict
//! the test that it passed.

mod fmlp_plus;
mod mpcp;
mod mrsp;
mod omlp;
mod response;

#[cfg(test)]
mod tests;

use super::jobs::{self, ENFORCEMENT};
use super::partitioned::Order;
use super::table::Table;
use alloc::format;
use alloc::vec::Vec;
use maracas_core::admission::{Measure, NotAdmitted, Objection, TestResult, Verdict};
use maracas_core::params::Params;
use maracas_core::resources::{Protocol, Resources};
use maracas_core::{CoreId, Duration, System, Vcpu, VcpuId};

/// What a job asks of one resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Request {
    resource: u32,
    /// How often.
    count: u64,
    /// The longest section.
    longest: u64,
}

/// A task, with its core.
#[derive(Clone, Debug)]
struct Task {
    id: VcpuId,
    core: CoreId,
    budget: u64,
    period: u64,
    /// At most the period.
    deadline: u64,
    requests: Vec<Request>,
}

/// All tasks in the order of fixed priorities: a task is named by its place there.
#[derive(Clone, Debug)]
struct Setting {
    order: Order,
    tasks: Vec<Task>,
}

/// By how much a job of each task is blocked at most.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Terms {
    /// How others count.
    kind: Kind,
    /// From its requests to their grants, in all; `None` = there is no bound below the deadline.
    waits: Vec<Option<u64>>,
    /// By less urgent jobs of its core that go ahead of it.
    delays: Vec<u64>,
}

/// How tests take the terms in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Jobs that wait leave their core to others, which the test knows.
    Aware,
    /// A wait counts as if the job ran meanwhile: for spinning, and for suspensions that the test
    /// does not know as such. A core is delayed once in a busy interval.
    Oblivious,
}

/// Adds to the verdict on a placement what follows from shared resources, where there are some:
/// tests with blocking, which decide where `decides`, refusals, and every VCPU's bound.
pub(crate) fn judge(
    system: &System,
    params: &Params,
    (table, order, decides): (&Table, Order, bool),
    verdict: &mut Verdict,
) {
    let Some(resources) = &system.resources else { return };
    let protocol = resources.protocol;
    if jobs::precise(params) {
        let why = "is precise, and a job that waits for a resource would be cut for that; leave it \
                   at none where resources are shared";
        verdict.objections.push(Objection::to(ENFORCEMENT.name, why));
    }
    if order == Order::Deadline && protocol.needs_fixed_priorities() {
        let why = format!(
            "{} is a protocol of fixed priorities; take policy p-rm, or locks = \"fmlp+\" or \
             \"omlp\"",
            protocol.name()
        );
        verdict.objections.push(why.into());
    }
    if !verdict.accepted() {
        return;
    }
    let setting = Setting::new(table, order, resources);
    let terms = match protocol {
        Protocol::Mpcp => mpcp::terms(&setting),
        Protocol::FmlpPlus => fmlp_plus::terms(&setting),
        Protocol::Omlp => omlp::terms(&setting),
        Protocol::Mrsp => mrsp::terms(&setting),
    };
    let mut results = match order {
        Order::Fixed => response::fixed(&setting, &terms, table.cores()),
        Order::Deadline => response::deadlines(&setting, &terms, table.cores()),
    };
    for (place, task) in setting.tasks.iter().enumerate() {
        if let Some(bound) = terms.bound(place) {
            verdict.blocking.push((task.id, Duration::from_ticks(bound)));
        }
    }
    verdict.blocking.sort_unstable();
    for (core, result) in verdict.cores.iter_mut().zip(results.drain(..)) {
        if decides && !result.accepted {
            refuse(
                core.vcpus.as_slice(),
                &result,
                (protocol, &verdict.blocking),
                &mut verdict.refused,
            );
        }
        core.tests.insert(if decides { 0 } else { core.tests.len() }, result);
    }
}

/// Refuses those on a core that are not in time; all, where the test does not say which.
fn refuse(
    vcpus: &[VcpuId],
    result: &TestResult,
    (protocol, bounds): (Protocol, &[(VcpuId, Duration)]),
    refused: &mut Vec<(VcpuId, NotAdmitted)>,
) {
    let is_late = |vcpu: &VcpuId| match &result.measure {
        Measure::Responses(list) => list.iter().any(|(id, it, _)| id == vcpu && it.is_none()),
        Measure::Ratio { .. } | Measure::Tardiness(_) => true,
    };
    for vcpu in vcpus.iter().filter(|vcpu| is_late(vcpu)) {
        let bound = bounds.iter().find(|(id, _)| id == vcpu);
        let blocked = bound.map_or("for its whole period".into(), |(_, it)| format!("for {it}"));
        let reason = format!(
            "jobs of {vcpu} may be blocked {blocked} under {}, and the test with that fails on its \
             core; make critical sections shorter, or place those that share on one core",
            protocol.name()
        );
        refused.push((*vcpu, NotAdmitted { reason, closest: None }));
    }
}

/// The sum, or the most that a `u64` holds, which is beyond any deadline.
fn total(times: impl Iterator<Item = u64>) -> u64 {
    times.fold(0, u64::saturating_add)
}

impl Terms {
    /// How long a job of a task is blocked at most.
    fn bound(&self, task: usize) -> Option<u64> {
        self.waits[task]?.checked_add(self.delays[task])
    }
}

impl Setting {
    fn new(table: &Table, order: Order, resources: &Resources) -> Self {
        let on = |core| table.on(core).iter().map(move |vcpu| (core, vcpu));
        let mut vcpus: Vec<(CoreId, &Vcpu)> = table.cores().flat_map(on).collect();
        vcpus.sort_by_key(|(_, vcpu)| super::priority::of(vcpu));
        let tasks = vcpus.into_iter().map(|(core, vcpu)| Task::new(vcpu, core, resources));
        Self { order, tasks: tasks.collect() }
    }
    /// All tasks, with their places.
    fn tasks(&self) -> impl Iterator<Item = (usize, &Task)> {
        self.tasks.iter().enumerate()
    }
    /// The other tasks on the core of a task.
    fn beside(&self, task: usize) -> impl Iterator<Item = (usize, &Task)> {
        let core = self.tasks[task].core;
        self.tasks().filter(move |(other, it)| *other != task && it.core == core)
    }
    /// Those of them whose jobs may be less urgent than one of `task`.
    fn less_urgent(&self, task: usize) -> impl Iterator<Item = (usize, &Task)> {
        let any = self.order == Order::Deadline;
        self.beside(task).filter(move |(other, _)| any || *other > task)
    }
    /// The longest that each other core than that of `task` uses `resource`, in all.
    fn once_each_core(&self, task: usize, resource: u32) -> u64 {
        let own = self.tasks[task].core;
        let mut longest = alloc::collections::BTreeMap::new();
        for other in self.tasks.iter().filter(|other| other.core != own) {
            let most = longest.entry(other.core).or_insert(0);
            *most = other.longest_on(resource).max(*most);
        }
        total(longest.into_values())
    }
}

impl Task {
    fn new(vcpu: &Vcpu, core: CoreId, resources: &Resources) -> Self {
        let r = &vcpu.reservation;
        let mut requests: Vec<Request> = Vec::new();
        for section in resources.of(vcpu.id) {
            let length = section.length.ticks();
            match requests.iter_mut().find(|it| it.resource == section.resource) {
                Some(request) => {
                    request.count += 1;
                    request.longest = request.longest.max(length);
                }
                None => {
                    requests.push(Request { resource: section.resource, count: 1, longest: length })
                }
            }
        }
        let (budget, period) = (r.budget.ticks(), r.period.ticks());
        let deadline = r.deadline.min(r.period).ticks();
        Self { id: vcpu.id, core, budget, period, deadline, requests }
    }
    /// How often a job asks for something.
    fn asks(&self) -> u64 {
        self.requests.iter().map(|request| request.count).sum()
    }
    /// The longest section on a resource; 0 where it has none.
    fn longest_on(&self, resource: u32) -> u64 {
        let on = |request: &&Request| request.resource == resource;
        self.requests.iter().find(on).map_or(0, |request| request.longest)
    }
    /// The longest section on a resource that meets `which`; 0 where there is none.
    fn longest_of(&self, which: impl Fn(u32) -> bool) -> u64 {
        let of = self.requests.iter().filter(|request| which(request.resource));
        of.map(|request| request.longest).max().unwrap_or(0)
    }
    fn uses(&self, resource: u32) -> bool {
        self.requests.iter().any(|request| request.resource == resource)
    }
}
