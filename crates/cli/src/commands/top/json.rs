//! Gauges as JSON: times in nanoseconds, shares of the last interval from 0 to 1.

use super::rates::{CoreRates, Rates, VcpuRates};
use maracas_core::contract::Mode;
use maracas_core::control::tallies::{CORE, MEMORY, RUN, Tally, Unit, VCPU};
use maracas_core::control::{CoreGauges, Gauges, VcpuGauges};
use serde_json::{Value, json};

/// One document.
pub(super) fn document(gauges: &Gauges, rates: &Rates) -> Value {
    let cores = gauges.cores.iter().zip(&rates.cores).map(|(core, rates)| of_core(core, rates));
    let vcpus = gauges.vcpus.iter().zip(&rates.vcpus).map(|(vcpu, rates)| of_vcpu(vcpu, rates));
    let statistic = |statistic: &maracas_core::control::StatisticGauge| {
        json!({
            "name": statistic.name,
            "core": statistic.core.map(|core| core.0),
            "vcpu": statistic.vcpu.map(|vcpu| vcpu.0),
            "value": statistic.value,
        })
    };
    let percentile = |percent| gauges.dispatch.percentile(percent).map(|it| it.ticks());
    let memory = gauges.memory.map(|memory| {
        let rates = json!({ "latency_cycles": rates.latency, "requests_per_s": rates.requests });
        with(rates, &MEMORY, &memory)
    });
    let words = json!({
        "interval_s": rates.seconds,
        "policy": gauges.policy,
        "host": gauges.host,
        "sensor": gauges.sensor,
        "cores": cores.collect::<Vec<_>>(),
        "vcpus": vcpus.collect::<Vec<_>>(),
        "memory": memory,
        "dispatch": {
            "count": gauges.dispatch.count(),
            "latency_p50_ns": percentile(50),
            "latency_p99_ns": percentile(99),
        },
        "decisions_per_s": rates.decisions,
        "migrations_per_s": rates.migrations,
        "statistics": gauges.statistics.iter().map(statistic).collect::<Vec<_>>(),
    });
    with(words, &RUN, gauges)
}

/// `object` with every tally of `of` under its key.
fn with<T>(mut object: Value, tallies: &[Tally<T>], of: &T) -> Value {
    for tally in tallies {
        let number = (tally.of)(of);
        object[tally.key] = match tally.unit {
            Unit::Flag => json!(number.map(|flag| flag != 0)),
            Unit::Count | Unit::Time | Unit::Lines | Unit::Cycles => json!(number),
        };
    }
    object
}

fn of_core(core: &CoreGauges, rates: &CoreRates) -> Value {
    let shares = json!({
        "core": core.core.0,
        "foreground_share": rates.foreground,
        "background_share": rates.background,
        "throttled_share": rates.throttled,
        "idle_share": rates.idle,
        "requests_per_s": rates.requests,
    });
    with(shares, &CORE, core)
}

fn of_vcpu(vcpu: &VcpuGauges, rates: &VcpuRates) -> Value {
    let mode = |mode| match mode {
        Mode::Foreground => "foreground",
        Mode::Background => "background",
    };
    let shares = json!({
        "vcpu": vcpu.vcpu.0,
        "name": vcpu.name,
        "core": vcpu.last.map(|(core, _)| core.0),
        "mode": vcpu.last.map(|(_, last)| mode(last)),
        "foreground_share": rates.foreground,
        "background_share": rates.background,
        "reads_per_s": rates.reads,
    });
    with(shares, &VCPU, vcpu)
}
