//! `maracas doctor`: what this host can do.

use maracas_client::color::{self, Indexing};
use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output::{self, Paint, paint};
use maracas_core::Duration as Ticks;
use maracas_live::host::classes::HostClass;
use maracas_live::host::costs::{Costs, Keeps};
use maracas_live::host::doctor::{
    CacheColors, Client, Findings, Numbers, Report, Row, State, Verdict,
};
use maracas_live::host::platform::Platform;
use serde_json::{Value, json};
use std::time::Duration;

/// Try everything that live runs need on this host, and say what is missing
///
/// Takes some seconds and loads the cores meanwhile: every counter is held against a known load
/// before it is offered. Nothing is left changed. A row says what works and how that was proved, or
/// what is missing, what would enable it, and what is done instead.
///
/// Exit code: 0 full; 1 degraded: all runs, something by a fallback; 3 simulation only; 2 the
/// doctor itself failed.
///
/// Example: maracas doctor
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The table as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Outcome {
    let platform = Platform::detect().map_err(|error| Failure::about("this host", error))?;
    let terminal = output::errors_on_terminal();
    let mut progress = |what: &str| {
        if terminal {
            output::status(&format!("\r\x1b[Ktrying {what} ..."));
        }
    };
    let found = Findings::gather(&platform.cores, client(&platform), &mut progress);
    if terminal {
        output::status("\r\x1b[K");
    }
    let found = found.map_err(|error| Failure::about("this host cannot be probed", error))?;
    let report = Report::of(&found);
    if args.json {
        output::line(&format!("{:#}", to_json(&report)))?;
    } else {
        output::print(&text(&report))?;
    }
    Ok(Answer::Graded(report.verdict.exit_code()))
}

/// What the client library says of itself and of the caches of a core.
fn client(platform: &Platform) -> Client {
    let core = platform.cores.last().map_or(0, |core| core.0);
    let caches = color::caches(core).unwrap_or_default();
    let known = caches.iter().filter(|cache| cache.level > 1);
    Client { library: color::preload_path(), caches: known.map(colors_of).collect() }
}

fn colors_of(cache: &color::CacheColors) -> CacheColors {
    let (colors, remark) = match cache.indexing {
        Indexing::Plain => (Some(cache.colors), ""),
        Indexing::Hashed => (None, "addresses are hashed over slices"),
        Indexing::Unknown => (
            Some(cache.colors),
            "by its size; the system does not say whether addresses are hashed",
        ),
    };
    let measure = if cache.indexing == Indexing::Plain { "" } else { "; see maracas bench colors" };
    let color::CacheColors { level, cores, size, ways, .. } = cache;
    CacheColors {
        cache: format!("L{level} of core {cores}, {} KiB, {ways} ways", size >> 10),
        colors: colors.map(|colors| u32::try_from(colors).unwrap_or(u32::MAX)),
        remark: format!("{remark}{measure}"),
    }
}

fn text(report: &Report) -> String {
    let width = |cell: fn(&Row) -> usize| report.rows.iter().map(cell).max().unwrap_or(0);
    let names = width(|row| row.capability.chars().count());
    let states = width(|row| row.state.word().len());
    let mut text = format!("{}\n", report.machine);
    for section in report.rows.chunk_by(|a, b| a.section == b.section) {
        text += &format!("{}\n", paint(Paint::Strong, section[0].section.word()));
        for row in section {
            let state = format!("{:states$}", row.state.word());
            let state = match row.state {
                State::Works => paint(Paint::Good, &state),
                State::Missing => paint(Paint::Bad, &state),
                State::Untried | State::Fact => state,
            };
            text += &format!("  {:names$}  {state}  {}\n", row.capability, row.proof);
            let indent = " ".repeat(names + states + 6);
            if !row.remedy.is_empty() {
                text += &format!("{indent}remedy: {}\n", row.remedy);
            }
            if !row.fallback.is_empty() {
                text += &format!("{indent}instead: {}\n", row.fallback);
            }
        }
    }
    let sensor = report.sensor.map_or("none".to_owned(), |support| support.to_string());
    text += &format!("live runs: {}\n", paint(Paint::Strong, &report.support));
    text += &format!("sensor: {}\n", paint(Paint::Strong, &sensor));
    let kind = if report.verdict == Verdict::Full { Paint::Good } else { Paint::Bad };
    text += &format!("this host: {}\n", paint(kind, &report.verdict.to_string()));
    report.why.iter().fold(text, |text, why| text + "  " + why + "\n")
}

fn to_json(report: &Report) -> Value {
    let row = |row: &Row| {
        json!({
            "section": row.section.word(),
            "capability": row.capability,
            "state": row.state.word(),
            "proof": row.proof,
            "remedy": row.remedy,
            "fallback": row.fallback,
        })
    };
    let class = |class: &HostClass| {
        let cores: Vec<u32> = class.cores.iter().map(|core| core.0).collect();
        json!({ "speed_milli": class.speed_milli, "cores": cores })
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "machine": report.machine,
        "verdict": report.verdict.to_string(),
        "exit_code": report.verdict.exit_code(),
        "why": report.why,
        "support": report.support,
        "sensor": report.sensor.map(|support| support.word()),
        "capabilities": report.rows.iter().map(row).collect::<Vec<_>>(),
        "numbers": numbers(&report.numbers),
        "classes": report.classes.classes.iter().map(class).collect::<Vec<_>>(),
        "classes_by": report.classes.how,
    })
}

/// What was measured, in nanoseconds; `null` where there was nothing to measure.
fn numbers(numbers: &Numbers) -> Value {
    let ns = |time: Option<Duration>| time.map(|time| time.as_nanos() as u64);
    let cost = |of: fn(&Costs) -> Ticks| numbers.costs.as_ref().map(|costs| of(costs).ticks());
    let interrupt = numbers.costs.and_then(|costs| costs.interrupt);
    let keeps = |of: fn(&Keeps) -> Ticks| numbers.keeps.as_ref().map(|keeps| of(keeps).ticks());
    json!({
        "freeze_ns": numbers.freezer.map(|latency| latency.freeze_ns),
        "thaw_ns": numbers.freezer.map(|latency| latency.thaw_ns),
        "meter_p50_ns": ns(numbers.meter_p50),
        "meter_p99_ns": ns(numbers.meter_p99),
        "bandwidth_write_ns": ns(numbers.bandwidth_write),
        "wake_p50_ns": cost(|costs| costs.wake.p50),
        "wake_p99_ns": cost(|costs| costs.wake.p99),
        "wake_taken_ns": cost(|costs| costs.taken),
        "timer_interrupt_ns": interrupt.map(Ticks::ticks),
        "timer_setting_ns": cost(|costs| costs.setting),
        "thread_switch_ns": cost(|costs| costs.switch),
        "stolen_ppb": numbers.stolen_ppb,
        "precision_ns": keeps(|keeps| keeps.precision),
        "least_budget_ns": keeps(|keeps| keeps.least_budget),
        "least_period_ns": keeps(|keeps| keeps.least_period),
    })
}
