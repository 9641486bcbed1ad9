//! Whether promises were kept, and what stood in the way.

use super::{Paint, counted, time, wrapped};
use crate::report::{CausesReport, CoreReport, ProgramReport, Report, TaskReport, Verdict, Word};
use std::io;

/// Of C: a mean within this part of it is not shown.
const MEAN_PART: f64 = 0.005;

/// How many got what was promised, of which that cannot be said, and one line for each that did
/// not.
pub(super) fn verdicts(
    report: &Report,
    paint: Paint,
    columns: usize,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let named = |task: &TaskReport| {
        let parts = parts(&task.verdict, report.promise.strict);
        if parts.is_empty() {
            task.name.clone()
        } else {
            format!("{} {}", task.name, parts.join(", "))
        }
    };
    for (text, words) in [
        ("kept: ", &[Word::Kept][..]),
        ("not judged: ", &[Word::NoDemand, Word::NoPeriod, Word::Held, Word::Stolen]),
    ] {
        let tasks = report.tasks.iter().filter(|task| words.contains(&task.verdict.word));
        let names: Vec<String> = tasks.map(named).collect();
        if !names.is_empty() {
            wrapped(text, &names, columns).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
    }
    for task in report.tasks.iter().filter(|task| task.verdict.is_broken()) {
        let parts = parts(&task.verdict, report.promise.strict);
        let lines = wrapped(&format!("NOT KEPT: {} ", task.name), &parts, columns);
        lines.iter().try_for_each(|line| writeln!(out, "{}", paint.red(line)))?;
    }
    Ok(())
}

/// What is to be said of a promise beside its word.
pub(crate) fn parts(it: &Verdict, strict: bool) -> Vec<String> {
    let side = |word, periods, worst: u64| {
        let worst = time(worst as f64);
        (periods > 0).then(|| format!("{word} {periods} of {} (worst {worst})", it.judged))
    };
    let mut parts = Vec::new();
    match it.word {
        Word::None | Word::Kept | Word::Stolen => {}
        Word::NoDemand => parts.push("(no demand)".into()),
        Word::NoPeriod => parts.push("(no whole period)".into()),
        Word::Held => parts.push("(held by limits of memory)".into()),
        Word::Short | Word::Over | Word::Both => {
            parts.extend(side("short", it.short, it.short_worst_ns));
            parts.extend(side("over", it.over, it.over_worst_ns));
            let mean = it.mean_off.filter(|mean| mean.abs() > MEAN_PART);
            parts.extend(mean.map(|mean| format!("mean {:+.1} %", mean * 100.0)));
            // Where neither says why: periods without full demand took too much.
            if it.word == Word::Over && it.over == 0 && mean.is_none_or(|mean| mean < 0.0) {
                let all = it.mean_off_of_all.unwrap_or_default();
                parts.push(format!("over: mean of all periods {:+.1} %", all * 100.0));
            }
        }
    }
    let judged_too = if strict { " (judged too)" } else { "" };
    parts.extend((it.stolen > 0).then(|| format!("stolen {}{judged_too}", it.stolen)));
    parts
}

/// What kept the machine from enforcing in time: one line for each core of which there is something
/// to be said.
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

/// What is to be said of a core; of steal and of ordinary lateness only where it `is_asked` for.
pub(crate) fn of_core(causes: &CausesReport, is_asked: bool) -> Vec<String> {
    let shown = |ns: u64| time(ns as f64);
    let mut parts = Vec::new();
    let late = &causes.late;
    if late.count > 0 {
        let (count, longest) = (counted(late.count, "time"), shown(late.longest_ns));
        let own = shown(late.longest_own_ns);
        parts.push(format!("agent late {count} (longest {longest}; without steal {own})"));
    }
    for (place, relief) in causes.reliefs.iter().enumerate() {
        // The first ones show how; how many there were is in the JSON.
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

/// What is to be said of the run as a whole: its programs, what the host refused, how long it took.
pub(crate) fn of_run(report: &Report, out: &mut impl io::Write) -> io::Result<()> {
    programs(report, usize::MAX, out)?;
    cut(report, out)?;
    overrun(report, Paint(false), out)
}

/// That the journal has no end.
pub(super) fn cut(report: &Report, out: &mut impl io::Write) -> io::Result<()> {
    if report.promise.cut.is_none() {
        return Ok(());
    }
    let at = time(report.duration_ns as f64);
    let why = "the journal has no end; what was under way";
    writeln!(out, "cut: {why} at {at} is neither counted nor judged")
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
