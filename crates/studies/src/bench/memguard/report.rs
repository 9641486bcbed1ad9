//! How the measurement is shown.

use super::{Measured, Way};
use crate::bench::verdict;
use maracas_core::Duration;
use maracas_trace::columns::Columns;
use maracas_trace::table::time;
use serde_json::{Value, json};

/// For people.
pub(super) fn text(measured: &Measured) -> String {
    let Measured { host, counted, seconds, asked_mb_s, .. } = measured;
    let text = format!(
        "{host}\n{counted}\n{seconds} s each under memguard+maracas with {asked_mb_s}MB/s\n\n"
    );
    let head = ["noticed", "closings", "stood p50", "p99", "max", "beyond p50", "p99", "read"];
    let mut table = Columns::new(head);
    measured.ways.iter().for_each(|way| table.row(cells(way, measured.real)));
    text + &table.text(0) + "\n" + &verdict::text(&measured.verdicts)
}

fn cells(way: &Way, real: bool) -> [String; 8] {
    let reported = &way.reported;
    let took = |percent| reported.took(percent).map_or("-".into(), |it| time(it.ticks() as f64));
    let beyond = |percent| reported.beyond(percent).map_or("-".into(), |lines| lines.to_string());
    let read = if real { format!("{:.1}MB/s", reported.read_mb_s()) } else { "-".into() };
    [
        way.name.to_string(),
        reported.closings.len().to_string(),
        took(50),
        took(99),
        took(100),
        format!("{} lines", beyond(50)),
        beyond(99),
        read,
    ]
}

/// For programs.
pub(super) fn to_json(measured: &Measured) -> String {
    let ways = measured.ways.iter().map(|way| of_way(way, measured.real));
    let json = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host": measured.host,
        "seconds": measured.seconds,
        "asked_mb_s": measured.asked_mb_s,
        "counted": measured.counted,
        "own_counters": measured.real,
        "ways": ways.collect::<Vec<_>>(),
        "verdicts": verdict::to_json(&measured.verdicts),
        "holds": verdict::hold(&measured.verdicts),
    });
    format!("{json:#}")
}

fn of_way(way: &Way, real: bool) -> Value {
    let reported = &way.reported;
    let took = |percent| reported.took(percent).map(Duration::ticks);
    json!({
        "noticed": way.name,
        "closings": reported.closings.len(),
        "took_p50_ns": took(50),
        "took_p99_ns": took(99),
        "took_max_ns": took(100),
        "beyond_p50_lines": reported.beyond(50),
        "beyond_p99_lines": reported.beyond(99),
        "read_mb_s": real.then(|| reported.read_mb_s()),
        "replays": way.exact,
    })
}
