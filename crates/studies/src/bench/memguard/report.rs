//! How the measurement is shown.

use super::{Measured, Way};
use crate::bench::verdict;
use maracas_core::Duration;
use maracas_trace::table::time;
use serde_json::{Value, json};

/// For people.
pub(super) fn text(measured: &Measured) -> String {
    let Measured { host, counted, seconds, asked_mb_s, .. } = measured;
    let mut text = format!(
        "{host}\n{counted}\n{seconds} s each under memguard+maracas with {asked_mb_s}MB/s\n\n\
         {:<12}{:>9}{:>10}{:>10}{:>10}{:>14}{:>8}{:>12}\n",
        "noticed", "closings", "stood p50", "p99", "max", "beyond p50", "p99", "read"
    );
    measured.ways.iter().for_each(|way| text += &line(way, measured.real));
    text.push('\n');
    text + &verdict::text(&measured.verdicts)
}

fn line(way: &Way, real: bool) -> String {
    let reported = &way.reported;
    let took = |percent| reported.took(percent).map_or("-".into(), |it| time(it.ticks() as f64));
    let beyond = |percent| reported.beyond(percent).map_or("-".into(), |lines| lines.to_string());
    let read = if real { format!("{:.1}MB/s", reported.read_mb_s()) } else { "-".into() };
    format!(
        "{:<12}{:>9}{:>10}{:>10}{:>10}{:>14}{:>8}{read:>12}\n",
        way.name,
        reported.closings.len(),
        took(50),
        took(99),
        took(100),
        format!("{} lines", beyond(50)),
        beyond(99),
    )
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
