//! The admission verdict as `check`, `sim` and `run` show it.

mod jobs;

use crate::blocking::{bounds_json, bounds_text};
use crate::case::{Agents, Case, Load};
use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output::{self, Paint, paint};
use maracas_core::admission::{CoreVerdict, Measure, NotAdmitted, Ppb, TestResult, Verdict};
use maracas_core::{CoreId, Duration, Rate, Role, Vcpu, VcpuId};
use serde_json::{Value, json};

/// Below these the host's own error of 10 to 20 us is a great part of what is promised
/// (docs/guarantees.md, "What is assumed").
const LEAST: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(2));

/// What is to be said of reservations that are too fine for a live machine to keep well: by what
/// this host's timers cost or, where that is not known, by what others' do.
pub fn of_fine_reservations(case: &Case) -> Option<String> {
    if case.agents.is_some() {
        return case.of_imprecise();
    }
    let (budget, period) = LEAST;
    let fine = |vcpu: &&Vcpu| {
        let r = &vcpu.reservation;
        let carries = matches!(vcpu.role, Role::Monitor | Role::Migration);
        !carries && !r.is_none() && (r.budget < budget || r.period < period)
    };
    let names: Vec<_> =
        case.system.vcpus.iter().filter(fine).map(|vcpu| case.name(vcpu.id)).collect();
    (!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!(
            "{names}: below C = {budget} or T = {period}, where the live machine's own error of \
             10 to 20 us weighs; docs/guarantees.md promises nothing there"
        )
    })
}

/// Prints the verdict on a case that the policy refuses to build: the answer is no.
///
/// # Errors
/// Where standard output is gone.
pub fn refuse(case: &Case, as_json: bool) -> Outcome {
    show(case, &case.verdict, as_json)?;
    Ok(Answer::No)
}

/// Prints the verdict.
///
/// # Errors
/// Where standard output is gone.
pub fn show(case: &Case, verdict: &Verdict, as_json: bool) -> Result<(), Failure> {
    if as_json {
        output::line(&format!("{:#}", to_json(case, verdict)))
    } else {
        output::print(&text(case, verdict))
    }
}

/// The whole verdict for people.
pub fn text(case: &Case, verdict: &Verdict) -> String {
    let (cores, vcpus) = (case.system.cores.len(), case.start.vcpus.len());
    let mut text = format!(
        "{}: {vcpus} VCPU{} on {cores} core{} under {}",
        case.file,
        plural(vcpus),
        plural(cores),
        case.entry.name
    );
    if case.system.capacity != Rate::ONE {
        text += &format!(", {} of each core for reservations", case.system.capacity);
    }
    text.push('\n');
    let mut cores = verdict.cores.iter().peekable();
    while let Some(core) = cores.next() {
        let (first, mut last) = (core, core);
        while core.vcpus.is_empty() {
            let Some(next) = cores.next_if(|next| next.vcpus.is_empty()) else { break };
            last = next;
        }
        text += &match (first.core, last.core) {
            (Some(first), Some(last)) if first != last => {
                format!("  {}: empty\n", paint(Paint::Strong, &format!("{first} to {last}")))
            }
            (..) => core_text(case, core, "  "),
        };
    }
    text += &bounds_text(case, &verdict.blocking);
    for (vcpu, why) in &verdict.refused {
        text += &refused_text(case, *vcpu, why);
    }
    let surplus = best_effort(case);
    if !surplus.is_empty() {
        let names = surplus.join(", ");
        text += &format!("  no budget, so that nothing is promised: {names}\n");
    }
    for vcpu in later(case) {
        text += &format!("  {vcpu} arrives later and is judged then\n");
    }
    for objection in &verdict.objections {
        text += &format!("  {}\n", paint(Paint::Bad, &named(case, &objection.to_string())));
    }
    let last = if verdict.accepted() {
        text += &jobs::text(case);
        jobs::last(case)
    } else {
        text.extend(case.of_room().map(|why| format!("  {why}\n")));
        paint(Paint::Bad, "refused")
    };
    text + &last + "\n"
}

/// Names of the VCPUs that arrive after the start.
fn later(case: &Case) -> Vec<String> {
    let ids = case.system.vcpus.iter().map(|vcpu| vcpu.id);
    ids.filter(|id| case.start.vcpu(*id).is_none()).map(|id| case.name(id)).collect()
}

/// Names of the VCPUs without a reservation that are there at the start.
fn best_effort(case: &Case) -> Vec<String> {
    let none = case.start.vcpus.iter().filter(|vcpu| vcpu.reservation.is_none());
    none.map(|vcpu| case.name(vcpu.id)).collect()
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn core_text(case: &Case, core: &CoreVerdict, indent: &str) -> String {
    let place = core.core.map_or("all cores".to_string(), |core| core.to_string());
    let mut text = format!("{indent}{}:", paint(Paint::Strong, &place));
    if core.vcpus.is_empty() {
        return text + " empty\n";
    }
    for &vcpu in &core.vcpus {
        text += &match case.start.vcpu(vcpu) {
            Some(spec) => format!(" {} ({})", case.name(vcpu), promise(case, spec, core.core)),
            None => format!(" {}", case.name(vcpu)),
        };
    }
    text.push('\n');
    for test in &core.tests {
        text += &format!("{indent}  {}\n", test_text(case, test, indent));
    }
    text
}

/// What a VCPU is promised: `2ms every 10ms`, on a class of cores where it names one, and what that
/// is on `core` where the policy counts it so.
fn promise(case: &Case, vcpu: &Vcpu, core: Option<CoreId>) -> String {
    let reservation = &vcpu.reservation;
    if reservation.is_none() {
        return "no budget".into();
    }
    let [budget, period] = [reservation.budget, reservation.period].map(|it| case.in_nanos(it));
    let classes = case.scenario.as_ref().map_or(&[][..], |it| &it.platform.classes);
    let class = vcpu.class.and_then(|class| classes.get(usize::from(class)));
    let class = class.map_or(String::new(), |class| format!(" on {}", class.name));
    let here = core.and_then(|core| owed_here(case, vcpu, core));
    let here = here.map_or(String::new(), |here| format!(": {} here", shown(case.in_nanos(here))));
    format!("{budget} every {period}{class}{here}")
}

/// What `vcpu` is owed on `core` where that is of a slower class than the one on which its budget
/// is meant, and the policy looks at classes (docs/scenario.md).
fn owed_here(case: &Case, vcpu: &Vcpu, core: CoreId) -> Option<Duration> {
    let speed = |class: u8| Some(case.system.classes.get(usize::from(class))?.speed_milli);
    let here = speed(case.system.cores.get(usize::from(core.0))?.class)?;
    let meant = vcpu.class.filter(|_| case.entry.needs.classes > 0).and_then(speed)?;
    let budget = u128::from(vcpu.reservation.budget.ticks());
    let owed = (budget * u128::from(meant)).div_ceil(u128::from(here.max(1)));
    (here < meant).then(|| Duration::from_ticks(u64::try_from(owed).unwrap_or(u64::MAX)))
}

/// What a policy says, which knows VCPUs by number, with their names.
pub fn named(case: &Case, said: &str) -> String {
    let (mut text, mut rest) = (String::new(), said);
    while let Some(at) = rest.find(VCPU) {
        let (before, after) = (&rest[..at], &rest[at + VCPU.len()..]);
        let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (digits, behind) = after.split_at(end);
        let name = digits.parse().map(|id| case.name(VcpuId(id)));
        text += before;
        text += &name.unwrap_or_else(|_| format!("{VCPU}{digits}"));
        rest = behind;
    }
    text + rest
}

/// How the number of a VCPU begins.
const VCPU: &str = "vcpu";

/// So many response times stand in one line; of more, each has its own.
const IN_A_LINE: usize = 8;

fn test_text(case: &Case, test: &TestResult, indent: &str) -> String {
    let sign = if test.accepted { paint(Paint::Good, "ok") } else { paint(Paint::Bad, "refused") };
    match &test.measure {
        Measure::Ratio { value, bound } => {
            format!("{:<10} {} of {}  {sign}", test.test, Ppb(*value), Ppb(*bound))
        }
        Measure::Responses(list) => {
            let time = |ticks| shown(case.in_nanos(ticks));
            let each: Vec<_> = list
                .iter()
                .map(|(vcpu, response, deadline)| {
                    let response =
                        response.map_or("beyond".to_string(), |r| format!("{} of", time(r)));
                    format!("{} {response} {}", case.name(*vcpu), time(*deadline))
                })
                .collect();
            if each.len() <= IN_A_LINE {
                return format!("{:<10} {}  {sign}", test.test, each.join(", "));
            }
            let lines: String = each.iter().map(|one| format!("\n{indent}    {one}")).collect();
            format!("{:<10} {} VCPUs  {sign}{lines}", test.test, each.len())
        }
        Measure::Tardiness(list) => {
            let each = |(vcpu, late): &(VcpuId, Duration)| {
                format!("{} {}", case.name(*vcpu), shown(case.in_nanos(*late)))
            };
            let each: Vec<_> = list.iter().map(each).collect();
            if each.len() <= IN_A_LINE {
                return format!("{:<10} at most {}", test.test, each.join(", "));
            }
            let lines: String = each.iter().map(|one| format!("\n{indent}    {one}")).collect();
            format!("{:<10} of {} VCPUs at most{lines}", test.test, each.len())
        }
    }
}

/// A duration in a unit in which it is easily read: `1151.675ms`, not `1151675.316us`.
fn shown(duration: Duration) -> String {
    let exact = duration.to_string();
    if duration < Duration::from_millis(1) || exact.ends_with("ms") || !exact.ends_with("us") {
        return exact;
    }
    let micros = duration.ticks() / 1_000;
    let text = format!("{}.{:03}", micros / 1_000, micros % 1_000);
    format!("{}ms", text.trim_end_matches('0').trim_end_matches('.'))
}

fn refused_text(case: &Case, vcpu: VcpuId, why: &NotAdmitted) -> String {
    let heading = paint(Paint::Bad, &format!("{} is refused", case.name(vcpu)));
    let mut text = format!("  {heading}: {}\n", named(case, &why.reason));
    if let Some(closest) = &why.closest {
        text += "    closest, with it added:\n";
        text += &core_text(case, closest, "    ");
    }
    text
}

/// The whole verdict for programs.
pub fn to_json(case: &Case, verdict: &Verdict) -> Value {
    let refused: Vec<_> = verdict
        .refused
        .iter()
        .map(|(vcpu, why)| {
            json!({
                "vcpu": case.name(*vcpu),
                "reason": named(case, &why.reason),
                "closest": why.closest.as_ref().map(|core| core_json(case, core)),
            })
        })
        .collect();
    let objections = verdict.objections.iter().map(|it| named(case, &it.to_string()));
    json!({
        "file": case.file,
        "policy": case.entry.name,
        "version": env!("CARGO_PKG_VERSION"),
        "machine": case.header().machine,
        "cores": case.system.cores.len(),
        "capacity": case.system.capacity.to_string(),
        "admitted": verdict.accepted(),
        "verdict": if verdict.accepted() { jobs::verdict(case) } else { "refused".into() },
        "by_core": verdict.cores.iter().map(|core| core_json(case, core)).collect::<Vec<_>>(),
        "refused": refused,
        "blocking": bounds_json(case, &verdict.blocking),
        "jobs": jobs::to_json(case),
        "later": later(case),
        "without_budget": best_effort(case),
        "agents": case.agents.as_ref().map(agents_json),
        "imprecise": imprecise_json(case),
        "objections": objections.collect::<Vec<_>>(),
        "notes": case.assumptions(),
    })
}

/// What agents will take of each core, and by what that was reckoned.
fn agents_json(agents: &Agents) -> Value {
    let Agents { costs, loads, longer, in_kernel } = agents;
    let load = |load: &Load| {
        json!({
            "core": load.core.map(|core| core.0),
            "decisions_per_s": load.wakes_per_s,
            "share_ppb": load.ppb,
        })
    };
    json!({
        "backend": if *in_kernel { "sched-ext" } else { "agents" },
        "wake_p50_ns": costs.wake.p50.ticks(),
        "wake_p99_ns": costs.wake.p99.ticks(),
        "decision_ns": costs.decision.ticks(),
        "longer": longer,
        "by_core": loads.iter().map(load).collect::<Vec<_>>(),
    })
}

/// Budgets that this host ends late by more than 1 %; `null` where that is not known.
fn imprecise_json(case: &Case) -> Value {
    let list = case.imprecise().map(|(vcpus, least)| {
        let each = |vcpu: &&Vcpu| {
            json!({
                "vcpu": case.name(vcpu.id),
                "budget_ns": vcpu.reservation.budget.ticks(),
                "least_budget_ns": least.ticks(),
            })
        };
        vcpus.iter().map(each).collect::<Vec<_>>()
    });
    json!(list)
}

fn core_json(case: &Case, core: &CoreVerdict) -> Value {
    json!({
        "core": core.core.map(|core| core.0),
        "vcpus": core.vcpus.iter().map(|vcpu| case.name(*vcpu)).collect::<Vec<_>>(),
        "tests": core.tests.iter().map(|test| test_json(case, test)).collect::<Vec<_>>(),
    })
}

fn test_json(case: &Case, test: &TestResult) -> Value {
    match &test.measure {
        Measure::Ratio { value, bound } => json!({
            "test": test.test,
            "value_ppb": value,
            "bound_ppb": bound,
            "accepted": test.accepted,
        }),
        Measure::Responses(list) => {
            let each = |(vcpu, response, deadline): &(VcpuId, Option<Duration>, Duration)| {
                json!({
                    "vcpu": case.name(*vcpu),
                    "response_ns": response.map(|time| case.in_nanos(time).ticks()),
                    "deadline_ns": case.in_nanos(*deadline).ticks(),
                })
            };
            let list: Vec<_> = list.iter().map(each).collect();
            json!({ "test": test.test, "responses": list, "accepted": test.accepted })
        }
        Measure::Tardiness(list) => {
            let each = |(vcpu, late): &(VcpuId, Duration)| {
                let late = case.in_nanos(*late).ticks();
                json!({ "vcpu": case.name(*vcpu), "late_ns": late })
            };
            let list: Vec<_> = list.iter().map(each).collect();
            json!({ "test": test.test, "tardiness": list, "accepted": test.accepted })
        }
    }
}
