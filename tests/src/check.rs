//! One case under all auditors.

use crate::lateness::{Late, Lateness};
use crate::orders::every_way_of;
use crate::{Auditor, Case, GuardAudit, MaracasAudit, MemoryAudit, Nagging, TreeAudit};
use maracas_core::Duration;
use maracas_core::contract::{Claims, Statistic};
use maracas_sim::{Outcome, Subject, at_start};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// What a case came to.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What the machine counted.
    pub outcome: Outcome,
    /// What the policy counted of its own doings.
    pub statistics: Vec<Statistic>,
    /// What was to hold.
    pub claims: Claims,
}

/// Runs a case under the auditor; `None` where the policy refuses the system.
///
/// # Errors
/// What was wrong.
pub fn check(case: &Case) -> Result<Option<Outcome>, String> {
    check_counting(case).map(|ran| ran.map(|checked| checked.outcome))
}

/// The same, with what the policy counted of its own doings.
///
/// # Errors
/// What was wrong.
pub fn check_counting(case: &Case) -> Result<Option<Checked>, String> {
    quietly(|| {
        let Some(mut policy) = case.policy() else { return Ok(None) };
        let (system, programs) = (case.system(), &case.random.programs);
        let verdict = case.verdict();
        let claims = case.claims(&verdict);
        let start = at_start(&system, programs);
        let mut auditor = Auditor::new(&system, &start, claims, case.faults.late);
        if case.entry.name.ends_with("maracas") {
            auditor = auditor.servers();
        }
        if case.faults.nag.is_some() {
            policy = Box::new(Nagging::new(policy, case.faults.nag));
        }
        let (memory, paces) = (case.memory.as_ref(), &case.paces[..]);
        let subject = Subject { system: &system, programs, memory, paces, scripts: None };
        // What a job costs changes with its VCPU's reservation.
        let memory = case.changes.is_empty().then(|| MemoryAudit::new(&subject));
        // MemGuard reports to its inner policy that a VCPU which used up its own bandwidth blocked:
        // what that policy then holds for runnable cannot be read off the machine's events.
        let reported_all = !case.entry.name.starts_with("memguard+")
            || system.vcpus.iter().all(|vcpu| vcpu.bandwidth.is_none());
        let maracas = case.entry.name.ends_with("maracas") && reported_all;
        let maracas = maracas.then(|| MaracasAudit::new(case.entry, &case.params, &system));
        let wrapped = case.entry.name.starts_with("memguard+") && case.faults.late.is_zero();
        let guard = wrapped.then(|| GuardAudit::new(case.entry, &case.params, &system)).flatten();
        let lateness = claims.no_miss_when_admitted.then(Lateness::default);
        let strict = claims.no_miss_when_admitted && verdict.tolerance.is_zero();
        let tree = TreeAudit::new(case, strict && case.all_stay());
        let mut observers = ((auditor, memory), ((maracas, guard), (lateness, tree)));
        let outcome = case.run(&mut *policy, &mut observers);
        let ((auditor, memory), ((maracas, guard), (lateness, tree))) = observers;
        auditor.verdict(&outcome)?;
        memory.map_or(Ok(()), |memory| memory.verdict(&outcome))?;
        maracas.map_or(Ok(()), MaracasAudit::verdict)?;
        guard.map_or(Ok(()), GuardAudit::verdict)?;
        tree.map_or(Ok(()), |tree| tree.verdict(outcome.end))?;
        lateness.map_or(Ok(()), |lateness| in_time(&lateness, &outcome, verdict.tolerance))?;
        every_way_of(case)?;
        Ok(Some(Checked { outcome, statistics: policy.statistics(), claims }))
    })
}

/// No job has more undone at its deadline than the policy's admission tolerates.
fn in_time(lateness: &Lateness, outcome: &Outcome, tolerance: Duration) -> Result<(), String> {
    let worst = lateness.worst(outcome.end);
    if let Some(Late { job, deadline, undone }) = worst.filter(|late| late.undone > tolerance) {
        return Err(format!(
            "{} deadlines missed, though admitted: job {} of {}, due at {deadline}, had {undone} \
             undone, {tolerance} may be",
            outcome.missed, job.index, job.vcpu
        ));
    }
    if tolerance.is_zero() && outcome.missed > 0 {
        let which = worst.map_or_else(String::new, |Late { job, deadline, .. }| {
            format!(": job {} of {}, due at {deadline}, is not complete", job.index, job.vcpu)
        });
        return Err(format!("{} deadlines missed, though admitted{which}", outcome.missed));
    }
    Ok(())
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Turns a panic inside `work` into an error, without a word on stderr: shrinking provokes many.
///
/// # Errors
/// Those of `work`, and what a panic said.
pub fn quietly<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(false);
    result.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string));
        Err(text.unwrap_or_else(|| "panicked without a word".into()))
    })
}
