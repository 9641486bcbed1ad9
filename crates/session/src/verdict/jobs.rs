//! What of the jobs is certain beside others that use memory, as `check` and `sim` show it.

use crate::case::Case;
use crate::verdict::shown;
use maracas_console::output::{Paint, paint};
use maracas_core::{Duration, VcpuId};
use maracas_sim::jobs::{Answer, Judged};
use serde_json::{Value, json};

/// One line for each VCPU whose jobs others slow down or of which nothing is known.
pub(super) fn text(case: &Case) -> String {
    let lines = case.jobs.iter().filter_map(|one| line(case, one));
    lines.map(|line| format!("  {line}\n")).collect()
}

/// The last line of an admitted system.
pub(super) fn last(case: &Case) -> String {
    if case.jobs.iter().all(|one| one.answer == Answer::InTime) {
        return paint(Paint::Good, "admitted");
    }
    let late = case.jobs.iter().any(|one| one.answer == Answer::MayBeLate);
    let jobs = if late { "jobs may be late" } else { "of jobs nothing is known" };
    format!("{}, budgets kept, {}", paint(Paint::Good, "admitted"), paint(Paint::Bad, jobs))
}

fn line(case: &Case, one: &Judged) -> Option<String> {
    let name = case.name(one.vcpu);
    let time = |time: Duration| shown(case.in_nanos(time));
    if let Answer::Unknown(reason) = one.answer {
        return Some(format!("{name}: whether its jobs are in time is not known: {reason}"));
    }
    if one.needs == one.alone && one.answer == Answer::InTime {
        return None;
    }
    let beside = beside(case, one).join(", ");
    let beside = if beside.is_empty() { "alone".into() } else { format!("beside {beside}") };
    let factor = one.needs.ticks() as f64 / one.alone.ticks().max(1) as f64;
    Some(format!(
        "{name} needs at most {} {beside}, of {} promised: {factor:.2} x the {} of its work \
         alone{}",
        time(one.needs),
        time(one.promised),
        time(one.alone),
        if one.answer == Answer::InTime { "" } else { "; its jobs may be late" }
    ))
}

/// The VCPUs beside which a job takes longest.
fn beside(case: &Case, one: &Judged) -> Vec<String> {
    let programs = one.slowest.iter().flat_map(|(_, bound)| &bound.beside);
    let mut vcpus: Vec<VcpuId> = programs.map(|at| case.programs[*at as usize].vcpu).collect();
    vcpus.sort_unstable();
    vcpus.dedup();
    vcpus.into_iter().map(|vcpu| case.name(vcpu)).collect()
}

/// For programs: every VCPU with jobs; `null` where no memory is simulated.
pub(super) fn to_json(case: &Case) -> Value {
    if case.memory.is_none() || !case.verdict.accepted() {
        return Value::Null;
    }
    case.jobs.iter().map(|one| each_to_json(case, one)).collect()
}

fn each_to_json(case: &Case, one: &Judged) -> Value {
    let ns = |time| case.in_nanos(time).ticks();
    let (answer, reason) = match one.answer {
        Answer::InTime => ("in time", None),
        Answer::MayBeLate => ("may be late", None),
        Answer::Unknown(reason) => ("unknown", Some(reason)),
    };
    json!({
        "vcpu": case.name(one.vcpu),
        "answer": answer,
        "reason": reason,
        "alone_ns": ns(one.alone),
        "needs_ns": ns(one.needs),
        "promised_ns": ns(one.promised),
        "slowdown_ppm": one.slowest.as_ref().map_or(1_000_000, |(_, bound)| bound.slowdown_ppm),
        "latency_ps": one.slowest.as_ref().map(|(_, bound)| bound.latency_ps),
        "beside": beside(case, one),
    })
}
