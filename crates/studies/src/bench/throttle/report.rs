//! How the measurement is shown.

use super::Measured;
use super::judge::{Budget, Stops, percentile, steps};
use crate::bench::verdict;
use maracas_core::Duration;
use maracas_trace::columns::Columns;
use maracas_trace::table::time;
use serde_json::{Value, json};

/// For people.
pub(super) fn text(measured: &Measured) -> String {
    let Measured { host, sensor, seconds, reported, .. } = measured;
    let (up, down) = steps(&reported.samples);
    let mut text = format!(
        "{host}\n{sensor}\n{seconds} s under maracas with throttle = latency: {} samples, {up} \
         steps up, {down} down\n\n",
        reported.samples.len(),
    );
    let head = ["core", "closed", "closings", "in use", "ended p50", "p99", "max"];
    let mut cores = Columns::new(head);
    measured.stops.iter().for_each(|core| cores.row(of_stops(measured, core)));
    let mut budgets = Columns::new(["vcpu", "C/T", "periods", "mean off C"]);
    measured.budgets.iter().for_each(|budget| budgets.row(cells(budget)));
    text += &format!("{}\n{}\n", cores.text(0), budgets.text(0));
    text + &verdict::text(&measured.verdicts)
}

fn of_stops(measured: &Measured, stops: &Stops) -> [String; 7] {
    let of_run = stops.closed.ticks() as f64 / measured.report.duration_ns.max(1) as f64;
    let took = |percent| {
        percentile(&stops.took, percent).map_or("-".into(), |took| time(took.ticks() as f64))
    };
    [
        stops.core.to_string(),
        format!("{:.1}%", of_run * 100.0),
        stops.closings.to_string(),
        stops.took.len().to_string(),
        took(50),
        took(99),
        took(100),
    ]
}

fn cells(budget: &Budget) -> [String; 4] {
    let promised = format!("{}/{}", time(budget.budget_ns as f64), time(budget.period_ns as f64));
    let Budget { name, periods, off, .. } = budget;
    [name.to_string(), promised, periods.to_string(), format!("{:+.3}%", off * 100.0)]
}

/// For programs.
pub(super) fn to_json(measured: &Measured) -> String {
    let Measured { reported, report, .. } = measured;
    let (up, down) = steps(&reported.samples);
    let json = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host": measured.host,
        "seconds": measured.seconds,
        "sensor": measured.sensor,
        "samples": reported.samples.len(),
        "steps_up": up,
        "steps_down": down,
        "cores": measured.stops.iter().map(of_core).collect::<Vec<_>>(),
        "vcpus": measured.budgets.iter().map(of_budget).collect::<Vec<_>>(),
        "sensing": report.sensing,
        "lost_records": report.lost_records,
        "verdicts": verdict::to_json(&measured.verdicts),
        "holds": verdict::hold(&measured.verdicts),
    });
    format!("{json:#}")
}

fn of_core(stops: &Stops) -> Value {
    let took = |percent| percentile(&stops.took, percent).map(Duration::ticks);
    json!({
        "core": stops.core.0,
        "closed_ns": stops.closed.ticks(),
        "closings": stops.closings,
        "closings_in_use": stops.took.len(),
        "took_p50_ns": took(50),
        "took_p99_ns": took(99),
        "took_max_ns": took(100),
    })
}

fn of_budget(budget: &Budget) -> Value {
    json!({
        "name": budget.name,
        "budget_ns": budget.budget_ns,
        "period_ns": budget.period_ns,
        "periods": budget.periods,
        "off": budget.off,
    })
}
