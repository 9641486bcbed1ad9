//! What of the jobs is certain beside others that use memory, as `check` and `sim` show it.

use crate::case::Case;
use crate::verdict::shown;
use maracas_console::output::{Paint, paint};
use maracas_core::{Duration, VcpuId};
use maracas_sim::jobs::{Answer, Judged, Seen};
use serde_json::{Value, json};

/// One line for each VCPU whose jobs others slow down or of which nothing is known.
pub(super) fn text(case: &Case) -> String {
    let lines = case.jobs.iter().filter_map(|one| line(case, one));
    lines.map(|line| format!("  {line}\n")).collect()
}

/// The last line of an admitted system.
pub(super) fn last(case: &Case) -> String {
    let words = verdict(case);
    let (admitted, rest) = words.split_at("admitted".len());
    let good = paint(Paint::Good, admitted);
    match rest.strip_prefix(BUDGETS_KEPT) {
        Some(jobs) => format!("{good}{BUDGETS_KEPT}{}", paint(Paint::Bad, jobs)),
        None => good,
    }
}

const BUDGETS_KEPT: &str = ", budgets kept, ";

/// The same in plain words.
pub(super) fn verdict(case: &Case) -> String {
    let any = |answer| case.jobs.iter().any(|one| one.answer == answer);
    let jobs = match (any(Answer::Late), any(Answer::MayBeLate)) {
        (true, _) => "jobs late",
        (false, true) => "jobs may be late",
        (false, false) if case.jobs.iter().all(|one| one.answer == Answer::InTime) => {
            return "admitted".into();
        }
        (false, false) => "of jobs nothing is known",
    };
    format!("admitted{BUDGETS_KEPT}{jobs}")
}

fn line(case: &Case, one: &Judged) -> Option<String> {
    let name = case.name(one.vcpu);
    let time = |time: Duration| shown(case.in_nanos(time));
    if let Answer::Unknown(reason) = one.answer {
        let seen = seen(case, one);
        return Some(format!("{name}: whether its jobs are in time is not known: {reason}{seen}"));
    }
    if one.needs == one.alone && one.answer == Answer::InTime {
        return None;
    }
    let ratio = |of: Duration| one.needs.ticks() as f64 / of.ticks().max(1) as f64;
    let mut text = format!(
        "{name} needs at most {} {}, of {} promised: {:.2} x C",
        time(one.needs),
        beside_which(case, one),
        time(one.promised),
        ratio(one.promised)
    );
    if one.alone != one.promised {
        text += &format!(", {:.2} x the {} of its work alone", ratio(one.alone), time(one.alone));
    }
    if one.answer != Answer::InTime {
        let verb = if one.answer == Answer::Late { "are" } else { "may be" };
        text += &format!("; its jobs {verb} late{}", seen(case, one));
    }
    Some(text)
}

/// What the simulator showed: `, 12 of 20 in 2s simulated`.
fn seen(case: &Case, one: &Judged) -> String {
    let text = |seen: Seen| {
        let Seen { jobs, late, lasted } = seen;
        let late = if late == 0 { "none".to_string() } else { late.to_string() };
        format!(", {late} of {jobs} in {} simulated", shown(case.in_nanos(lasted)))
    };
    one.seen.map_or(String::new(), text)
}

/// Beside which VCPUs it takes so long; where the mixes are too many to try, all are taken to run
/// at once.
fn beside_which(case: &Case, one: &Judged) -> String {
    let names = beside(case, one);
    let all = one.slowest.as_ref().is_some_and(|(_, bound)| !bound.is_mix);
    match (names.len(), all) {
        (0, _) => "alone".into(),
        (count, true) if one.is_limited() => format!("beside {count} others within limits"),
        (count, true) => format!("beside {count} others, taken to run all at once"),
        (_, false) if one.is_limited() => format!("beside {} within limits", names.join(", ")),
        (_, false) => format!("beside {}", names.join(", ")),
    }
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
        Answer::Late => ("late", None),
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
        "within_limits": one.is_limited(),
        "without_limits_ns": ns(one.without_limits),
        "beside_is_a_mix": one.slowest.as_ref().is_none_or(|(_, bound)| bound.is_mix),
        "simulated": one.seen.map(|seen| json!({
            "jobs": seen.jobs, "late": seen.late, "for_ns": ns(seen.lasted),
        })),
    })
}
