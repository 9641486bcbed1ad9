//! What a running system counts, described once: the JSON of `maracas top`, the metrics for
//! Prometheus and the tests that hold both, and the report, against each other go through these
//! lists. A number that is to be shown is a field of a gauge and a row here.

use super::{CoreGauges, Gauges, MemoryGauges, VcpuGauges};
use crate::Duration;

/// One number of a `T`.
#[derive(Clone, Copy, Debug)]
pub struct Tally<T> {
    /// Its key in the JSON of `maracas top`. A time's ends in `_ns`.
    pub key: &'static str,
    /// Its name in metrics, without the program's name before it and its unit behind it.
    pub metric: &'static str,
    /// What distinguishes it where several have one name: its `mode`.
    pub mode: Option<&'static str>,
    /// What it is, in a few words; the first of several with one name speaks for all.
    pub help: &'static str,
    /// What it is counted in.
    pub unit: Unit,
    /// Whether it is a sum since the start, which only grows.
    pub is_sum: bool,
    /// Where the report has the same at the end of a run: places in the JSON of the run, core or
    /// VCPU (RFC 6901), of which this is the sum, a list counting its members; empty where the
    /// report has no such number, since it is about what holds now or sampled core by core.
    pub report: &'static [&'static str],
    /// The number: a flag's is 0 or 1, a time's in nanoseconds. `None` where there is none.
    pub of: fn(&T) -> Option<u64>,
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Whether something holds.
    Flag,
    /// Things.
    Count,
    /// Nanoseconds.
    Time,
    /// Lines of memory.
    Lines,
    /// Cycles.
    Cycles,
}

impl<T> Tally<T> {
    const fn new(key: &'static str, metric: &'static str, help: &'static str) -> Self {
        Self {
            key,
            metric,
            mode: None,
            help,
            unit: Unit::Count,
            is_sum: true,
            report: &[],
            of: |_| None,
        }
    }
    const fn sum(self, of: fn(&T) -> Option<u64>) -> Self {
        Self { of, ..self }
    }
    const fn now(self, of: fn(&T) -> Option<u64>) -> Self {
        Self { of, is_sum: false, ..self }
    }
    const fn unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }
    const fn mode(self, mode: &'static str) -> Self {
        Self { mode: Some(mode), ..self }
    }
    const fn reported(self, report: &'static [&'static str]) -> Self {
        Self { report, ..self }
    }
}

const fn ns(duration: Duration) -> Option<u64> {
    Some(duration.ticks())
}

/// C, T or D of a VCPU that has a reservation.
fn promised(vcpu: &VcpuGauges, of: Duration) -> Option<u64> {
    (!vcpu.reservation.is_none()).then(|| of.ticks())
}

type OfRun = Tally<Gauges>;
type OfCore = Tally<CoreGauges>;
type OfVcpu = Tally<VcpuGauges>;
type OfMemory = Tally<MemoryGauges>;

/// Of the run as a whole.
pub const RUN: [Tally<Gauges>; 7] = [
    OfRun::new("at_ns", "run", "Time since the start")
        .now(|run| Some(run.at.ticks()))
        .unit(Unit::Time)
        .reported(&["/duration_ns"]),
    OfRun::new("over", "over", "Whether the run has ended")
        .now(|run| Some(run.over as u64))
        .unit(Unit::Flag),
    OfRun::new("decisions", "decisions", "Times that the policy was asked for its plan")
        .sum(|run| Some(run.decisions))
        .reported(&["/total/decisions"]),
    OfRun::new("misses", "misses", "Jobs unfinished at their deadline")
        .sum(|run| Some(run.misses))
        .reported(&["/total/misses"]),
    OfRun::new("migrations", "migrations", "Changes of core, within jobs and between them")
        .sum(|run| Some(run.migrations))
        .reported(&["/total/migrations", "/total/task_migrations"]),
    OfRun::new("failures", "failures", "Things that the machine could not do")
        .sum(|run| Some(run.failures)),
    OfRun::new("lost_records", "lost_records", "Journal records that were lost")
        .sum(|run| Some(run.lost_records))
        .reported(&["/lost_records"]),
];

/// Of each core.
pub const CORE: [Tally<CoreGauges>; 12] = [
    OfCore::new("foreground_ns", "core", "Time of a core by what it did")
        .sum(|core| ns(core.foreground))
        .mode("foreground")
        .unit(Unit::Time)
        .reported(&["/foreground_ns"]),
    OfCore::new("background_ns", "core", "Time in which a VCPU ran on surplus")
        .sum(|core| ns(core.background))
        .mode("background")
        .unit(Unit::Time)
        .reported(&["/background_ns"]),
    OfCore::new("throttled_ns", "core", "Time in which only a closed memory gate kept a VCPU out")
        .sum(|core| ns(core.throttled))
        .mode("throttled")
        .unit(Unit::Time)
        .reported(&["/throttled_ns"]),
    OfCore::new("throttled", "core_throttled", "Whether surplus time may not be used now")
        .now(|core| Some(core.is_throttled as u64))
        .unit(Unit::Flag),
    OfCore::new("closed", "core_closed", "Whether the core's allowance of memory is spent")
        .now(|core| Some(core.is_closed as u64))
        .unit(Unit::Flag),
    OfCore::new("stolen_ns", "core_stolen", "Of late alarms, the time that the hypervisor took")
        .sum(|core| ns(core.stolen))
        .unit(Unit::Time)
        .reported(&["/causes/late/stolen_ns"]),
    OfCore::new("longest_late_ns", "core_longest_late", "By how much the latest alarm was late")
        .now(|core| ns(core.longest_late))
        .unit(Unit::Time)
        .reported(&["/causes/late/longest_ns"]),
    OfCore::new("decisions", "core_decisions", "Decisions that changed the core's run queue")
        .sum(|core| Some(core.decisions))
        .reported(&["/decisions"]),
    OfCore::new("requests", "core_memory_requests", "Requests to memory, by VCPUs' counters")
        .sum(|core| Some(core.requests))
        .reported(&["/requests"]),
    OfCore::new(
        "sampled_requests",
        "core_memory_sampled_requests",
        "Requests to memory, as sampled",
    )
    .sum(|core| Some(core.sampled)),
    OfCore::new("late_alarms", "core_late_alarms", "Alarms enforced late enough to be reported")
        .sum(|core| Some(core.late))
        .reported(&["/causes/late/count"]),
    OfCore::new("reliefs", "core_reliefs", "How often the core was stuck and relieved")
        .sum(|core| Some(core.reliefs))
        .reported(&["/causes/reliefs"]),
];

/// Of each VCPU.
pub const VCPU: [Tally<VcpuGauges>; 17] = [
    OfVcpu::new("foreground_ns", "vcpu", "Time of a VCPU by mode")
        .sum(|vcpu| ns(vcpu.foreground))
        .mode("foreground")
        .unit(Unit::Time)
        .reported(&["/foreground_ns"]),
    OfVcpu::new("background_ns", "vcpu", "Time in the background")
        .sum(|vcpu| ns(vcpu.background))
        .mode("background")
        .unit(Unit::Time)
        .reported(&["/background_ns"]),
    OfVcpu::new("budget_ns", "vcpu_budget", "C: what is promised in every period")
        .now(|vcpu| promised(vcpu, vcpu.reservation.budget))
        .unit(Unit::Time)
        .reported(&["/budget_ns"]),
    OfVcpu::new("period_ns", "vcpu_period", "T")
        .now(|vcpu| promised(vcpu, vcpu.reservation.period))
        .unit(Unit::Time)
        .reported(&["/period_ns"]),
    OfVcpu::new("deadline_ns", "vcpu_deadline", "D: within which of a period it is promised")
        .now(|vcpu| promised(vcpu, vcpu.reservation.deadline))
        .unit(Unit::Time)
        .reported(&["/deadline_ns"]),
    OfVcpu::new("used_ns", "vcpu_budget_used", "What was used of C in the present period")
        .now(|vcpu| promised(vcpu, vcpu.used))
        .unit(Unit::Time),
    OfVcpu::new("short_periods", "vcpu_short_periods", "Judged periods with too little of C")
        .sum(|vcpu| Some(vcpu.short_periods))
        .reported(&["/verdict/short"]),
    OfVcpu::new("over_periods", "vcpu_over_periods", "Judged periods with too much of C")
        .sum(|vcpu| Some(vcpu.over_periods))
        .reported(&["/verdict/over"]),
    OfVcpu::new("stolen_periods", "vcpu_stolen_periods", "Periods spoiled by stolen time")
        .sum(|vcpu| Some(vcpu.stolen_periods))
        .reported(&["/verdict/stolen"]),
    OfVcpu::new("jobs", "vcpu_jobs", "Jobs released")
        .sum(|vcpu| Some(vcpu.jobs))
        .reported(&["/jobs"]),
    OfVcpu::new("misses", "vcpu_misses", "Jobs unfinished at their deadline")
        .sum(|vcpu| Some(vcpu.misses))
        .reported(&["/misses"]),
    OfVcpu::new("preemptions", "vcpu_preemptions", "Preemptions")
        .sum(|vcpu| Some(vcpu.preemptions))
        .reported(&["/preemptions"]),
    OfVcpu::new("migrations", "vcpu_migrations", "Changes of core")
        .sum(|vcpu| Some(vcpu.migrations))
        .reported(&["/migrations", "/task_migrations"]),
    OfVcpu::new("instructions", "vcpu_instructions", "Instructions, or what the program counts")
        .sum(|vcpu| Some(vcpu.instructions))
        .reported(&["/foreground/instructions", "/background/instructions"]),
    OfVcpu::new("references", "vcpu_cache_references", "References to the last-level cache")
        .sum(|vcpu| Some(vcpu.references))
        .reported(&["/foreground/references", "/background/references"]),
    OfVcpu::new("reads", "vcpu_memory_read", "Lines read from memory")
        .sum(|vcpu| Some(vcpu.reads))
        .unit(Unit::Lines)
        .reported(&["/foreground/misses", "/background/misses"]),
    OfVcpu::new("writes", "vcpu_memory_written", "Lines written to memory")
        .sum(|vcpu| Some(vcpu.writes))
        .unit(Unit::Lines)
        .reported(&["/foreground/writes", "/background/writes"]),
];

/// Of memory as the policy's monitor sampled it; its places in the report are those of the run.
pub const MEMORY: [Tally<MemoryGauges>; 4] = [
    OfMemory::new("samples", "memory_samples", "Samples of the monitor")
        .sum(|memory| Some(memory.samples))
        .reported(&["/controller/samples"]),
    OfMemory::new("requests", "memory_requests", "Requests in all samples")
        .sum(|memory| Some(memory.requests))
        .reported(&["/controller/requests"]),
    OfMemory::new(
        "occupancy",
        "memory_occupancy",
        "Sum over cycles of requests under way, in all samples",
    )
    .sum(|memory| Some(memory.occupancy))
    .unit(Unit::Cycles)
    .reported(&["/controller/occupancy"]),
    OfMemory::new(
        "max_latency_cycles",
        "memory_latency_threshold",
        "Average latency from which on cores are throttled",
    )
    .now(|memory| memory.max_latency)
    .unit(Unit::Cycles),
];

#[cfg(test)]
mod tests;
