//! Whether promises were kept, and what stood in the way.

use super::{Paint, counted, time, wrapped};
use crate::report::{CausesReport, CoreReport, ProgramReport, Report, TaskReport, Verdict, Word};
use std::io;

/// Of C: a mean within this part of it is not told.
const MEAN_PART: f64 = 0.005;

/// One line for each kind of verdict that there is, who has it, and by how much.
pub(super) fn verdicts(
    report: &Report,
    paint: Paint,
    columns: usize,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let of = |wanted: fn(&Verdict) -> bool| -> Vec<String> {
        let tasks = report.tasks.iter().filter(|task| wanted(&task.verdict));
        tasks.map(|task| said(task, report.promise.strict)).collect()
    };
    let kept = of(|verdict| verdict.word == Word::Kept);
    let broken = of(Verdict::is_broken);
    let unjudged = of(|it| matches!(it.word, Word::NoDemand | Word::Held | Word::Stolen));
    for (text, names) in [("kept: ", kept), ("not judged: ", unjudged)] {
        if !names.is_empty() {
            wrapped(text, &names, columns).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    let lines = wrapped("NOT KEPT: ", &broken, columns);
    lines.iter().try_for_each(|line| writeln!(out, "{}", paint.red(line)))
}

/// A VCPU and what became of its promise.
fn said(task: &TaskReport, strict: bool) -> String {
    let (name, it) = (&task.name, &task.verdict);
    let side = |word, periods, worst: u64| {
        let worst = time(worst as f64);
        (periods > 0).then(|| format!("{word} {periods} of {} (worst {worst})", it.judged))
    };
    let mut parts = Vec::new();
    match it.word {
        Word::None | Word::Kept | Word::Stolen => {}
        Word::NoDemand => parts.push("no demand".into()),
        Word::Held => parts.push("held by limits of memory".into()),
        Word::Short | Word::Over | Word::Both => {
            parts.extend(side("short", it.short, it.short_worst_ns));
            parts.extend(side("over", it.over, it.over_worst_ns));
            let mean = it.mean_off.filter(|mean| mean.abs() > MEAN_PART);
            parts.extend(mean.map(|mean| {
                let place = if mean < 0.0 { "below" } else { "above" };
                format!("mean {:.1} % {place} C", mean.abs() * 100.0)
            }));
        }
    }
    let stolen = (it.stolen > 0).then(|| format!("stolen {}", it.stolen));
    parts.extend(stolen.filter(|_| !strict || !it.is_broken()));
    if parts.is_empty() { name.clone() } else { format!("{name} {}", parts.join(" and ")) }
}

/// What kept the machine from enforcing in time: one line for each core of which there is something
/// to be told.
pub(super) fn causes(report: &Report, columns: usize, out: &mut impl io::Write) -> io::Result<()> {
    let spoiled = |task: &TaskReport| task.verdict.is_broken() || task.verdict.stolen > 0;
    let is_asked = report.promise.overrun_ns().is_some() || report.tasks.iter().any(spoiled);
    for CoreReport { core, causes, .. } in &report.cores {
        let Some(causes) = causes else { continue };
        let parts = of_core(causes, is_asked);
        if !parts.is_empty() {
            let lines = wrapped(&format!("core{core}: "), &parts, columns);
            lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
    }
    Ok(())
}

/// What is to be told of a core; of steal and of ordinary lateness only where it `is_asked` for.
fn of_core(causes: &CausesReport, is_asked: bool) -> Vec<String> {
    let shown = |ns: u64| time(ns as f64);
    let mut parts = Vec::new();
    let late = &causes.late;
    if late.count > 0 {
        let (count, longest) = (counted(late.count, "time"), shown(late.longest_ns));
        let own = shown(late.longest_own_ns);
        parts.push(format!("agent late {count} (longest {longest}; without steal {own})"));
    }
    for (place, relief) in causes.reliefs.iter().enumerate() {
        // The first ones tell how; how many there were is in the JSON.
        if place < 3 {
            let (by, stuck, at) = (&relief.by, shown(relief.stuck_ns), shown(relief.at_ns));
            parts.push(format!("relieved by the {by} at {at} after {stuck}"));
        }
    }
    if causes.reliefs.len() > 3 {
        parts.push(format!("relieved {} in all", counted(causes.reliefs.len() as u64, "time")));
    }
    if causes.rt_throttled > 0 {
        let (times, took) = (causes.rt_throttled, shown(causes.rt_throttled_ns));
        let times = counted(times, "time");
        parts.push(format!("agent kept off by the kernel's fair server {times} ({took})"));
    }
    if is_asked && causes.steal_ns > 0 {
        parts.push(format!("steal {}", shown(causes.steal_ns)));
    }
    if let Some(alarms) = causes.enforced.as_ref().filter(|it| is_asked && it.count > 0) {
        let (p50, p99) = (shown(alarms.below_ns(50)), shown(alarms.below_ns(99)));
        let longest = shown(alarms.longest_ns);
        parts.push(format!("alarms late p50 <{p50} p99 <{p99} longest {longest}"));
    }
    parts
}

/// Programs that did not end well, and what the host refused.
pub(super) fn programs(
    report: &Report,
    columns: usize,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let ended = |program: &ProgramReport| match (program.code, program.signal) {
        (Some(code @ 1..), _) => Some(format!("{} with code {code}", program.name)),
        (_, Some(signal)) => Some(format!("{} by signal {signal}", program.name)),
        _ => None,
    };
    let ended: Vec<String> = report.programs.iter().filter_map(ended).collect();
    if !ended.is_empty() {
        wrapped("ended: ", &ended, columns).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    report.trouble.iter().try_for_each(|text| writeln!(out, "trouble: {text}"))
}

/// That the run lasted longer than asked.
pub(super) fn overrun(report: &Report, paint: Paint, out: &mut impl io::Write) -> io::Result<()> {
    let (Some(_), Some(asked), Some(lasted)) =
        (report.promise.overrun_ns(), report.promise.asked_ns, report.promise.lasted_ns)
    else {
        return Ok(());
    };
    let (asked, lasted) = (time(asked as f64), time(lasted as f64));
    writeln!(
        out,
        "{}",
        paint.red(&format!("NOT IN TIME: {asked} were asked for, it took {lasted}"))
    )
}
