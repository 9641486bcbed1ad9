//! Gauges in the text format of OpenMetrics. `docs/top.md` lists the names.

use maracas_core::Duration;
use maracas_core::control::{CoreGauges, Gauges, MemoryGauges, VcpuGauges};
use maracas_core::memory::LINE_BYTES;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::Arc;

/// Bounds of the dispatch histogram, as powers of two of nanoseconds: from a microsecond, below
/// which no dispatch was seen, to 67 ms, beyond the 54 ms for which the kernel's fair server was
/// seen to keep real-time threads off a core.
const POWERS: std::ops::RangeInclusive<u32> = 10..=26;

/// A family with a value for each core or VCPU: its name, help, unit, and what it shows.
type Family<T, V> = (&'static str, &'static str, Option<Unit>, fn(&T) -> V);

/// The page that answers a scrape.
///
/// # Errors
/// Where the text cannot be written, which memory never refuses.
pub(super) fn page(gauges: Arc<Gauges>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("maracas");
    registry.register_collector(Box::new(Page(gauges)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Page(Arc<Gauges>);

impl Collector for Page {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (gauges, mut families) = (&*self.0, Families(encoder));
        run(gauges, &mut families)?;
        cores(gauges, &mut families)?;
        vcpus(gauges, &mut families)?;
        gauges.memory.iter().try_for_each(|memory| self::memory(memory, &mut families))?;
        dispatch(gauges, &mut families)?;
        figures(gauges, &mut families)
    }
}

/// The run as a whole.
fn run(gauges: &Gauges, families: &mut Families<'_>) -> fmt::Result {
    families.info(
        "run",
        "What runs, and on what",
        &[("policy", &gauges.policy), ("host", &gauges.host), ("sensor", &gauges.sensor)],
    )?;
    let at = Duration::from_ticks(gauges.at.ticks());
    families.gauge("run", "Time since the start", Some(Unit::Seconds), seconds(at))?;
    families.gauge("over", "Whether the run has ended", None, u64::from(gauges.over))?;
    for (name, help, value) in [
        ("decisions", "Times that the policy was asked for its plan", gauges.decisions),
        ("misses", "Jobs unfinished at their deadline", gauges.misses),
        ("migrations", "Changes of core, within jobs and between them", gauges.migrations),
        ("failures", "Things that the machine could not do", gauges.failures),
        ("lost_records", "Journal records that were lost", gauges.lost_records),
    ] {
        families.counter(name, help, value)?;
    }
    Ok(())
}

fn cores(gauges: &Gauges, families: &mut Families<'_>) -> fmt::Result {
    let cores = &gauges.cores;
    let label = |core: &CoreGauges| [("core", core.core.0.to_string())];
    families.counters(
        "core",
        "Time of a core by what it did",
        Some(Unit::Seconds),
        cores.iter().flat_map(|core| {
            let modes = [
                ("foreground", core.foreground),
                ("background", core.background),
                ("throttled", core.throttled),
            ];
            let labels = |mode: &str| [("core", core.core.0.to_string()), ("mode", mode.into())];
            modes.map(|(mode, time)| (labels(mode), seconds(time)))
        }),
    )?;
    families.gauges(
        "core_throttled",
        "Whether surplus time may not be used now",
        None,
        cores.iter().map(|core| (label(core), u64::from(core.is_throttled))),
    )?;
    families.gauges(
        "core_closed",
        "Whether the core's allowance of memory is spent",
        None,
        cores.iter().map(|core| (label(core), u64::from(core.is_closed))),
    )?;
    families.counters(
        "core_stolen",
        "Of alarms that were enforced late, the time that the hypervisor took",
        Some(Unit::Seconds),
        cores.iter().map(|core| (label(core), seconds(core.stolen))),
    )?;
    families.gauges(
        "core_longest_late",
        "By how much the latest alarm was enforced late, of those told one by one",
        Some(Unit::Seconds),
        cores.iter().map(|core| (label(core), seconds(core.longest_late))),
    )?;
    let counts: [Family<CoreGauges, u64>; 5] = [
        ("core_decisions", "Decisions that changed the core's line", None, |core| core.decisions),
        ("core_memory_requests", "Requests to memory, as VCPUs' counters tell", None, |core| {
            core.requests
        }),
        ("core_memory_sampled_requests", "Requests to memory, as sampled", None, |core| {
            core.sampled
        }),
        ("core_late_alarms", "Alarms enforced late enough to be told", None, |core| core.late),
        ("core_reliefs", "How often the core was stuck and relieved", None, |core| core.reliefs),
    ];
    counts.into_iter().try_for_each(|(name, help, unit, of)| {
        families.counters(name, help, unit, cores.iter().map(|core| (label(core), of(core))))
    })
}

fn vcpus(gauges: &Gauges, families: &mut Families<'_>) -> fmt::Result {
    let vcpus = &gauges.vcpus;
    // Names may be given twice; numbers are not.
    let label = |vcpu: &VcpuGauges| [("vcpu", vcpu.name.clone()), ("id", vcpu.vcpu.0.to_string())];
    families.counters(
        "vcpu",
        "Time of a VCPU by mode",
        Some(Unit::Seconds),
        vcpus.iter().flat_map(|vcpu| {
            let [name, id] = label(vcpu);
            let modes = [("foreground", vcpu.foreground), ("background", vcpu.background)];
            let labels = move |mode: &str| [name.clone(), id.clone(), ("mode", mode.to_string())];
            modes.map(|(mode, time)| (labels(mode), seconds(time)))
        }),
    )?;
    let seconds_of = || Some(Unit::Seconds);
    let times: [Family<VcpuGauges, Duration>; 3] = [
        ("vcpu_budget", "C: what is promised in every period", seconds_of(), |vcpu| {
            vcpu.reservation.budget
        }),
        ("vcpu_period", "T", seconds_of(), |vcpu| vcpu.reservation.period),
        ("vcpu_budget_used", "What was used of C in the present period", seconds_of(), |vcpu| {
            vcpu.used
        }),
    ];
    let promised = || vcpus.iter().filter(|vcpu| !vcpu.reservation.is_none());
    for (name, help, unit, of) in times {
        let values = promised().map(|vcpu| (label(vcpu), seconds(of(vcpu))));
        families.gauges(name, help, unit, values)?;
    }
    let counts: [Family<VcpuGauges, u64>; 10] = [
        ("vcpu_short_periods", "Judged periods with too little of C", None, |vcpu| {
            vcpu.short_periods
        }),
        ("vcpu_over_periods", "Judged periods with too much of C", None, |vcpu| vcpu.over_periods),
        ("vcpu_stolen_periods", "Periods spoiled by stolen time", None, |vcpu| vcpu.stolen_periods),
        ("vcpu_jobs", "Jobs released", None, |vcpu| vcpu.jobs),
        ("vcpu_misses", "Jobs unfinished at their deadline", None, |vcpu| vcpu.misses),
        ("vcpu_preemptions", "Preemptions", None, |vcpu| vcpu.preemptions),
        ("vcpu_migrations", "Changes of core", None, |vcpu| vcpu.migrations),
        ("vcpu_instructions", "Instructions, or what the program counts", None, |vcpu| {
            vcpu.instructions
        }),
        ("vcpu_memory_read", "Lines read from memory", Some(Unit::Bytes), |vcpu| {
            vcpu.reads.saturating_mul(LINE_BYTES)
        }),
        ("vcpu_memory_written", "Lines written to memory", Some(Unit::Bytes), |vcpu| {
            vcpu.writes.saturating_mul(LINE_BYTES)
        }),
    ];
    counts.into_iter().try_for_each(|(name, help, unit, of)| {
        families.counters(name, help, unit, vcpus.iter().map(|vcpu| (label(vcpu), of(vcpu))))
    })
}

fn memory(memory: &MemoryGauges, families: &mut Families<'_>) -> fmt::Result {
    let cycles = || Some(Unit::Other("cycles".into()));
    families.counter("memory_samples", "Samples of the monitor", memory.samples)?;
    families.counter("memory_requests", "Requests in all samples", memory.requests)?;
    let help = "Sum over cycles of requests under way, in all samples";
    families.counter_in("memory_occupancy", help, cycles(), memory.occupancy)?;
    if memory.last_requests > 0 && memory.last_occupancy > 0 {
        let latency = memory.last_occupancy as f64 / memory.last_requests as f64;
        let help = "Average latency of a request in the last sample";
        families.gauge("memory_latency", help, cycles(), latency)?;
    }
    memory.max_latency.into_iter().try_for_each(|most| {
        let help = "Average latency from which on cores are throttled";
        families.gauge("memory_latency_threshold", help, cycles(), most)
    })
}

fn dispatch(gauges: &Gauges, families: &mut Families<'_>) -> fmt::Result {
    let histogram = &gauges.dispatch;
    // Shorter than 2^n means at most 2^n - 1, as a bound of OpenMetrics counts.
    let bucket = |power| ((((1_u64 << power) - 1) as f64) / 1e9, histogram.shorter_than(power));
    let below = histogram.shorter_than(*POWERS.end());
    let mut buckets: Vec<(f64, u64)> = POWERS.map(bucket).collect();
    // The encoder sums up by itself.
    for place in (1..buckets.len()).rev() {
        buckets[place].1 -= buckets[place - 1].1;
    }
    buckets.push((f64::INFINITY, histogram.count() - below));
    let help = "From the nominal instant of what a decision answers until its VCPU runs";
    let unit = Unit::Seconds;
    let mut metric = families.0.encode_descriptor(
        "dispatch_latency",
        help,
        Some(&unit),
        MetricType::Histogram,
    )?;
    metric.encode_histogram::<NoLabelSet>(
        seconds(histogram.sum()),
        histogram.count(),
        &buckets,
        None,
    )
}

fn figures(gauges: &Gauges, families: &mut Families<'_>) -> fmt::Result {
    let place = |number: Option<String>| number.unwrap_or_default();
    families.gauges(
        "policy_figure",
        "What the policy counted of its own doings",
        None,
        gauges.figures.iter().map(|figure| {
            let core = place(figure.core.map(|core| core.0.to_string()));
            let vcpu = place(figure.vcpu.map(|vcpu| vcpu.0.to_string()));
            ([("name", figure.name.clone()), ("core", core), ("id", vcpu)], figure.value)
        }),
    )
}

fn seconds(duration: Duration) -> f64 {
    duration.ticks() as f64 / 1e9
}

/// Writes one family of metrics after the other.
struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    fn info(&mut self, name: &str, help: &str, labels: &impl EncodeLabelSet) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Info)?.encode_info(labels)
    }

    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        value: impl EncodeGaugeValue,
    ) -> fmt::Result {
        let kind = MetricType::Gauge;
        self.0.encode_descriptor(name, help, unit.as_ref(), kind)?.encode_gauge(&value)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counter_in(name, help, None, value)
    }

    fn counter_in(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        value: u64,
    ) -> fmt::Result {
        let kind = MetricType::Counter;
        let mut metric = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    /// One gauge for each row; nothing where there are no rows.
    fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        rows: impl Iterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut rows = rows.peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let kind = MetricType::Gauge;
        let mut metric = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        rows.try_for_each(|(labels, value)| metric.encode_family(&labels)?.encode_gauge(&value))
    }

    /// One counter for each row; nothing where there are no rows.
    fn counters<L: EncodeLabelSet, V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        rows: impl Iterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut rows = rows.peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let kind = MetricType::Counter;
        let mut metric = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        rows.try_for_each(|(labels, value)| {
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&value, None)
        })
    }
}
