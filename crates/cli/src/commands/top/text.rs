//! Gauges as plain text: the snapshot, and the words that the view uses too.

use super::history::throttled;
use super::rates::Rates;
use maracas_core::Duration;
use maracas_core::control::{CoreGauges, Gauges, VcpuGauges};
use maracas_trace::columns::Columns;
use maracas_trace::table::time;

/// One snapshot.
pub(super) fn snapshot(title: &str, gauges: &Gauges, rates: &Rates) -> String {
    let mut text = String::new();
    let mut line = |line: String| text += &format!("{}\n", line.trim_end());
    line(heading(title, gauges));
    if !gauges.host.is_empty() {
        line(format!("host    {}", gauges.host));
    }
    line(format!("memory  {}", memory(gauges, rates)));
    line(format!("run     {}", sums(gauges, rates)));
    let requests = |core: &super::rates::CoreRates| core.requests.map_or_else(|| "-".into(), count);
    let head = ["core", "fg %", "bg %", "thr %", "idle %", "requests/s", "state"];
    let mut cores = Columns::new(head).left(&[6]);
    for (core, now) in gauges.cores.iter().zip(&rates.cores) {
        let shares = [now.foreground, now.background, now.throttled, now.idle];
        let shares = shares.map(|share| format!("{:.1}", share * 100.0));
        let state = state(core.is_throttled, core.is_closed).to_string();
        let cells = [core.core.0.to_string()].into_iter().chain(shares);
        cores.row(cells.chain([requests(now), state]));
    }
    line(format!("\n{}", cores.text(0)));
    let times = ["vcpu", "core", "C/T", "fg %", "bg %", "used"];
    let counts = ["short", "over", "stolen", "misses", "migr", "reads/s"];
    let mut vcpus = Columns::new(times.into_iter().chain(counts));
    for (vcpu, now) in gauges.vcpus.iter().zip(&rates.vcpus) {
        let core = vcpu.last.map_or_else(|| "-".into(), |(core, _)| core.0.to_string());
        vcpus.row([
            vcpu.name.clone(),
            core,
            promise(vcpu),
            format!("{:.1}", now.foreground * 100.0),
            format!("{:.1}", now.background * 100.0),
            used(vcpu),
            vcpu.short_periods.to_string(),
            vcpu.over_periods.to_string(),
            vcpu.stolen_periods.to_string(),
            misses(vcpu),
            vcpu.migrations.to_string(),
            now.reads.map_or_else(|| "-".into(), count),
        ]);
    }
    line(format!("\n{}", vcpus.text(0)));
    for statistic in &gauges.statistics {
        let core = statistic.core.map_or_else(String::new, |core| format!(" {core}"));
        let vcpu = statistic.vcpu.map_or_else(String::new, |vcpu| format!(" {vcpu}"));
        line(format!("{}{core}{vcpu}: {}", statistic.name, statistic.value));
    }
    text
}

/// Which VCPUs, what, how long.
pub(super) fn heading(title: &str, gauges: &Gauges) -> String {
    let seconds = gauges.at.ticks() as f64 / 1e9;
    let over = if gauges.over { ", over" } else { "" };
    format!("{title}, policy {}, {seconds:.1} s{over}", gauges.policy)
}

/// What is known of memory.
fn memory(gauges: &Gauges, rates: &Rates) -> String {
    let parts: Vec<_> =
        [latency(gauges, rates), traffic(gauges, rates)].into_iter().flatten().collect();
    if parts.is_empty() { "not sampled".into() } else { parts.join(", ") }
}

/// The latency of memory, against its threshold where there is one.
fn latency(gauges: &Gauges, rates: &Rates) -> Option<String> {
    let threshold = gauges.memory.and_then(|memory| memory.max_latency);
    let against = threshold.map_or_else(String::new, |most| format!(" of {most}"));
    rates.latency.map(|latency| format!("latency {latency:.0}{against} cycles"))
}

/// How much goes to memory, and which counters say so.
pub(super) fn traffic(gauges: &Gauges, rates: &Rates) -> Option<String> {
    let requests = rates.requests.map(|rate| format!("{} requests/s", count(rate)));
    let samples = gauges.memory.map(|memory| format!("{} samples", memory.samples));
    let sensor = Some(gauges.sensor.clone()).filter(|sensor| !sensor.is_empty());
    let parts: Vec<_> = [requests, samples, sensor].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// What the run did so far; what the view says elsewhere too comes last, where it may be cut off.
pub(super) fn sums(gauges: &Gauges, rates: &Rates) -> String {
    let mut parts = vec![
        format!("{:.0} decisions/s", rates.decisions),
        format!("{} migrations", gauges.migrations),
        format!("{} misses", gauges.misses),
    ];
    if gauges.failures > 0 {
        parts.push(format!("{} failures", gauges.failures));
    }
    let sum = |of: fn(&CoreGauges) -> u64| gauges.cores.iter().map(of).sum::<u64>();
    let (late, reliefs) = (sum(|core| core.late), sum(|core| core.reliefs));
    if late > 0 {
        parts.push(format!("{late} late"));
    }
    if reliefs > 0 {
        parts.push(format!("{reliefs} reliefs"));
    }
    if gauges.lost_records > 0 {
        parts.push(format!("{} records lost", gauges.lost_records));
    }
    let percentile = |percent| gauges.dispatch.percentile(percent).map(ns);
    if let (Some(p50), Some(p99)) = (percentile(50), percentile(99)) {
        parts.push(format!("dispatch p50 {p50} p99 {p99}"));
    }
    let (k, n) = (throttled(gauges), gauges.cores.len());
    parts.push(format!("{k} of {n} cores throttled"));
    parts.join(", ")
}

/// What keeps programs off a core.
pub(super) const fn state(is_throttled: bool, is_closed: bool) -> &'static str {
    match (is_throttled, is_closed) {
        (_, true) => "closed",
        (true, false) => "throttled",
        (false, false) => "open",
    }
}

/// C/T.
pub(super) fn promise(vcpu: &VcpuGauges) -> String {
    if vcpu.reservation.is_none() {
        return "-".into();
    }
    format!("{}/{}", vcpu.reservation.budget, vcpu.reservation.period)
}

/// What was used of C in the present period.
pub(super) fn used(vcpu: &VcpuGauges) -> String {
    if vcpu.reservation.is_none() { "-".into() } else { ns(vcpu.used) }
}

/// Periods that were not as promised, to either side.
pub(super) const fn off(vcpu: &VcpuGauges) -> u64 {
    vcpu.short_periods + vcpu.over_periods
}

/// Misses, of VCPUs that have jobs.
pub(super) fn misses(vcpu: &VcpuGauges) -> String {
    if vcpu.jobs == 0 { "-".into() } else { vcpu.misses.to_string() }
}

fn ns(duration: Duration) -> String {
    time(duration.ticks() as f64)
}

/// A number with three digits or four and the letter that needs fewest: `12`, `1.23M`.
pub(super) fn count(value: f64) -> String {
    let (scale, letter) = match value {
        value if value < 999.5 => return format!("{value:.0}"),
        value if value < 999.5e3 => (1e3, "k"),
        value if value < 999.5e6 => (1e6, "M"),
        _ => (1e9, "G"),
    };
    let value = value / scale;
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$}{letter}")
}
