//! Tasks as shares of all cores together, for policies that are optimal: what decides is the sum of
//! the rates, and that no rate exceeds a core.

use super::jobs;
use super::table::{Family, Table, Test};
use alloc::string::String;
use alloc::vec::Vec;
use maracas_core::admission::{NotAdmitted, Verdict};
use maracas_core::params::{Kind, ParamSpec};
use maracas_core::{Duration, Rate, Reservation, System, Vcpu, VcpuId};

/// Parameter of policies that cut jobs at C in any case.
pub(crate) const ENFORCEMENT: ParamSpec = ParamSpec {
    name: "enforcement",
    kind: Kind::Choice(&["precise", "surplus"]),
    help: "what becomes of a job that needs more than C: precise = it goes on in the next job's \
           time; surplus = also where the core on which it stands is idle",
};

/// The sporadic task that a task with an early deadline is.
pub(crate) fn dense(vcpu: &Vcpu) -> Vcpu {
    let mut dense = vcpu.clone();
    let r = &mut dense.reservation;
    if r.budget <= r.deadline && r.deadline <= r.period {
        r.period = r.deadline;
    }
    dense
}

/// Judges all cores of `system` as one. `refusal` says why the policy cannot keep the deadlines of
/// a VCPU, whatever else is there.
pub(crate) fn judged(
    system: &System,
    refusal: impl Fn(&Vcpu) -> Option<String>,
) -> (Table, Verdict) {
    let mut table = Table::new(system, Family::GlobalEdf, Test::Capacity, |_, _| None);
    let mut possible = system.clone();
    let mut refused = Vec::new();
    possible.vcpus.retain(|vcpu| {
        let reason = refusal(vcpu);
        refused.extend(reason.iter().map(|reason| (vcpu.id, not_admitted(reason.clone()))));
        reason.is_none()
    });
    let mut verdict = table.fill(&possible, false);
    verdict.refused.extend(refused);
    verdict.objections = jobs::objections(system);
    let closest = verdict.refused.iter_mut().filter_map(|(_, why)| why.closest.as_mut());
    // Global EDF's own test says nothing here.
    for core in verdict.cores.iter_mut().chain(closest) {
        core.tests.retain(|result| result.test == "capacity");
    }
    (table, verdict)
}

/// Judges all cores of `system` as one, by densities.
pub(crate) fn judged_by_density(system: &System) -> (Table, Verdict) {
    let dense = System { vcpus: system.vcpus.iter().map(dense).collect(), ..system.clone() };
    judged(&dense, |vcpu| too_heavy(vcpu.id, &vcpu.reservation, system.capacity))
}

const fn not_admitted(reason: String) -> NotAdmitted {
    NotAdmitted { reason, closest: None }
}

/// Why a task is too heavy for any core of which only `capacity` may be used, if so.
pub(crate) fn too_heavy(vcpu: VcpuId, r: &Reservation, capacity: Rate) -> Option<String> {
    let span = r.deadline.min(r.period);
    let rate = Rate::of(r.budget, span);
    (r.budget <= span && rate > capacity).then(|| {
        alloc::format!(
            "{vcpu} asks for {rate} of a core, of which {capacity} may be used; lower its budget \
             {} or lengthen its period {}",
            r.budget,
            r.period
        )
    })
}

/// The part of the period that a task is given where all shares together fill whole cores, though
/// only `capacity` of each is asked for: at least C, and exactly C of whole cores.
pub(crate) fn inflated(budget: Duration, capacity: Rate) -> Duration {
    let whole = u128::from(budget.ticks()) * u128::from(capacity.den());
    let ticks = whole / u128::from(capacity.num()).max(1);
    Duration::from_ticks(u64::try_from(ticks).unwrap_or(u64::MAX))
}
