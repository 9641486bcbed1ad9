//! Gauges as JSON: times in nanoseconds, shares of the last interval from 0 to 1.

use super::rates::{CoreRates, Rates, VcpuRates};
use maracas_core::contract::Mode;
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
    json!({
        "at_ns": gauges.at.ticks(),
        "interval_s": rates.seconds,
        "over": gauges.over,
        "policy": gauges.policy,
        "host": gauges.host,
        "sensor": gauges.sensor,
        "cores": cores.collect::<Vec<_>>(),
        "vcpus": vcpus.collect::<Vec<_>>(),
        "memory": gauges.memory.map(|memory| json!({
            "samples": memory.samples,
            "requests": memory.requests,
            "occupancy": memory.occupancy,
            "latency_cycles": rates.latency,
            "max_latency_cycles": memory.max_latency,
            "requests_per_s": rates.requests,
        })),
        "dispatch": {
            "count": gauges.dispatch.count(),
            "latency_p50_ns": percentile(50),
            "latency_p99_ns": percentile(99),
        },
        "decisions": gauges.decisions,
        "decisions_per_s": rates.decisions,
        "misses": gauges.misses,
        "migrations": gauges.migrations,
        "migrations_per_s": rates.migrations,
        "failures": gauges.failures,
        "lost_records": gauges.lost_records,
        "statistics": gauges.statistics.iter().map(statistic).collect::<Vec<_>>(),
    })
}

fn of_core(core: &CoreGauges, rates: &CoreRates) -> Value {
    json!({
        "core": core.core.0,
        "foreground_ns": core.foreground.ticks(),
        "background_ns": core.background.ticks(),
        "throttled_ns": core.throttled.ticks(),
        "foreground_share": rates.foreground,
        "background_share": rates.background,
        "throttled_share": rates.throttled,
        "idle_share": rates.idle,
        "throttled": core.is_throttled,
        "closed": core.is_closed,
        "requests": core.requests,
        "sampled_requests": core.sampled,
        "requests_per_s": rates.requests,
        "decisions": core.decisions,
        "late_alarms": core.late,
        "longest_late_ns": core.longest_late.ticks(),
        "stolen_ns": core.stolen.ticks(),
        "reliefs": core.reliefs,
    })
}

fn of_vcpu(vcpu: &VcpuGauges, rates: &VcpuRates) -> Value {
    let mode = |mode| match mode {
        Mode::Foreground => "foreground",
        Mode::Background => "background",
    };
    json!({
        "vcpu": vcpu.vcpu.0,
        "name": vcpu.name,
        "budget_ns": vcpu.reservation.budget.ticks(),
        "period_ns": vcpu.reservation.period.ticks(),
        "deadline_ns": vcpu.reservation.deadline.ticks(),
        "core": vcpu.last.map(|(core, _)| core.0),
        "mode": vcpu.last.map(|(_, last)| mode(last)),
        "foreground_ns": vcpu.foreground.ticks(),
        "background_ns": vcpu.background.ticks(),
        "foreground_share": rates.foreground,
        "background_share": rates.background,
        "used_ns": vcpu.used.ticks(),
        "short_periods": vcpu.short_periods,
        "over_periods": vcpu.over_periods,
        "stolen_periods": vcpu.stolen_periods,
        "jobs": vcpu.jobs,
        "misses": vcpu.misses,
        "preemptions": vcpu.preemptions,
        "migrations": vcpu.migrations,
        "instructions": vcpu.instructions,
        "references": vcpu.references,
        "reads": vcpu.reads,
        "writes": vcpu.writes,
        "reads_per_s": rates.reads,
    })
}
