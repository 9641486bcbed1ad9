//! Gauges in the text format of OpenMetrics 1.0 (github.com/OpenObservability/OpenMetrics).
//! `docs/top.md` lists the names.

use maracas_core::Duration;
use maracas_core::control::{CoreGauges, Gauges, MemoryGauges, VcpuGauges};
use maracas_core::memory::LINE_BYTES;
use std::fmt::{self, Display, Write};

/// Bounds of the dispatch histogram, as powers of two of nanoseconds: from a microsecond, below
/// which no dispatch was seen, to 67 ms, beyond the 54 ms for which the kernel's fair server was
/// seen to keep real-time threads off a core.
const POWERS: std::ops::RangeInclusive<u32> = 10..=26;

/// A family with a value for each core or VCPU: its name, help, unit, and what it shows.
type Family<T, V> = (&'static str, &'static str, &'static str, fn(&T) -> V);

/// What distinguishes the samples of a family: names and values.
type Labels = Vec<(&'static str, String)>;

const SECONDS: &str = "seconds";
const BYTES: &str = "bytes";
const CYCLES: &str = "cycles";

/// The page that answers a scrape.
pub(super) fn page(gauges: &Gauges) -> String {
    let mut page = Page::default();
    run(gauges, &mut page);
    cores(&gauges.cores, &mut page);
    vcpus(&gauges.vcpus, &mut page);
    if let Some(memory) = &gauges.memory {
        self::memory(memory, &mut page);
    }
    dispatch(gauges, &mut page);
    statistics(gauges, &mut page);
    page.0 + "# EOF\n"
}

/// The run as a whole.
fn run(gauges: &Gauges, page: &mut Page) {
    let words = [("policy", &gauges.policy), ("host", &gauges.host), ("sensor", &gauges.sensor)];
    let labels = words.map(|(name, value)| (name, value.clone())).to_vec();
    page.family(Kind::Info, "run", "What runs, and on what", "", [(labels, 1)]);
    let at = Duration::from_ticks(gauges.at.ticks());
    page.gauge("run", "Time since the start", SECONDS, seconds(at));
    page.gauge("over", "Whether the run has ended", "", u64::from(gauges.over));
    for (name, help, value) in [
        ("decisions", "Times that the policy was asked for its plan", gauges.decisions),
        ("misses", "Jobs unfinished at their deadline", gauges.misses),
        ("migrations", "Changes of core, within jobs and between them", gauges.migrations),
        ("failures", "Things that the machine could not do", gauges.failures),
        ("lost_records", "Journal records that were lost", gauges.lost_records),
    ] {
        page.counter(name, help, "", value);
    }
}

fn cores(cores: &[CoreGauges], page: &mut Page) {
    let label = |core: &CoreGauges| vec![("core", core.core.0.to_string())];
    let modes = cores.iter().flat_map(|core| {
        let modes = [
            ("foreground", core.foreground),
            ("background", core.background),
            ("throttled", core.throttled),
        ];
        modes.map(|(mode, time)| (and(label(core), "mode", mode), seconds(time)))
    });
    page.family(Kind::Counter, "core", "Time of a core by what it did", SECONDS, modes);
    let states: [Family<CoreGauges, u64>; 2] = [
        ("core_throttled", "Whether surplus time may not be used now", "", |core| {
            u64::from(core.is_throttled)
        }),
        ("core_closed", "Whether the core's allowance of memory is spent", "", |core| {
            u64::from(core.is_closed)
        }),
    ];
    page.families(Kind::Gauge, &states, cores, label);
    page.family(
        Kind::Counter,
        "core_stolen",
        "Of alarms that were enforced late, the time that the hypervisor took",
        SECONDS,
        cores.iter().map(|core| (label(core), seconds(core.stolen))),
    );
    page.family(
        Kind::Gauge,
        "core_longest_late",
        "By how much the latest alarm was enforced late, of those reported one by one",
        SECONDS,
        cores.iter().map(|core| (label(core), seconds(core.longest_late))),
    );
    let counts: [Family<CoreGauges, u64>; 5] = [
        ("core_decisions", "Decisions that changed the core's line", "", |core| core.decisions),
        ("core_memory_requests", "Requests to memory, by VCPUs' counters", "", |core| {
            core.requests
        }),
        ("core_memory_sampled_requests", "Requests to memory, as sampled", "", |core| core.sampled),
        ("core_late_alarms", "Alarms enforced late enough to be reported", "", |core| core.late),
        ("core_reliefs", "How often the core was stuck and relieved", "", |core| core.reliefs),
    ];
    page.families(Kind::Counter, &counts, cores, label);
}

fn vcpus(vcpus: &[VcpuGauges], page: &mut Page) {
    // Names may be given twice; numbers are not.
    let label =
        |vcpu: &VcpuGauges| vec![("vcpu", vcpu.name.clone()), ("id", vcpu.vcpu.0.to_string())];
    let modes = vcpus.iter().flat_map(|vcpu| {
        let modes = [("foreground", vcpu.foreground), ("background", vcpu.background)];
        modes.map(|(mode, time)| (and(label(vcpu), "mode", mode), seconds(time)))
    });
    page.family(Kind::Counter, "vcpu", "Time of a VCPU by mode", SECONDS, modes);
    let times: [Family<VcpuGauges, Float>; 3] = [
        ("vcpu_budget", "C: what is promised in every period", SECONDS, |vcpu| {
            seconds(vcpu.reservation.budget)
        }),
        ("vcpu_period", "T", SECONDS, |vcpu| seconds(vcpu.reservation.period)),
        ("vcpu_budget_used", "What was used of C in the present period", SECONDS, |vcpu| {
            seconds(vcpu.used)
        }),
    ];
    let promised = vcpus.iter().filter(|vcpu| !vcpu.reservation.is_none());
    page.families(Kind::Gauge, &times, promised, label);
    let counts: [Family<VcpuGauges, u64>; 10] = [
        ("vcpu_short_periods", "Judged periods with too little of C", "", |vcpu| {
            vcpu.short_periods
        }),
        ("vcpu_over_periods", "Judged periods with too much of C", "", |vcpu| vcpu.over_periods),
        ("vcpu_stolen_periods", "Periods spoiled by stolen time", "", |vcpu| vcpu.stolen_periods),
        ("vcpu_jobs", "Jobs released", "", |vcpu| vcpu.jobs),
        ("vcpu_misses", "Jobs unfinished at their deadline", "", |vcpu| vcpu.misses),
        ("vcpu_preemptions", "Preemptions", "", |vcpu| vcpu.preemptions),
        ("vcpu_migrations", "Changes of core", "", |vcpu| vcpu.migrations),
        ("vcpu_instructions", "Instructions, or what the program counts", "", |vcpu| {
            vcpu.instructions
        }),
        ("vcpu_memory_read", "Lines read from memory", BYTES, |vcpu| {
            vcpu.reads.saturating_mul(LINE_BYTES)
        }),
        ("vcpu_memory_written", "Lines written to memory", BYTES, |vcpu| {
            vcpu.writes.saturating_mul(LINE_BYTES)
        }),
    ];
    page.families(Kind::Counter, &counts, vcpus, label);
}

fn memory(memory: &MemoryGauges, page: &mut Page) {
    page.counter("memory_samples", "Samples of the monitor", "", memory.samples);
    page.counter("memory_requests", "Requests in all samples", "", memory.requests);
    let help = "Sum over cycles of requests under way, in all samples";
    page.counter("memory_occupancy", help, CYCLES, memory.occupancy);
    if memory.last_requests > 0 && memory.last_occupancy > 0 {
        let latency = memory.last_occupancy as f64 / memory.last_requests as f64;
        let help = "Average latency of a request in the last sample";
        page.gauge("memory_latency", help, CYCLES, Float(latency));
    }
    if let Some(most) = memory.max_latency {
        let help = "Average latency from which on cores are throttled";
        page.gauge("memory_latency_threshold", help, CYCLES, most);
    }
}

fn dispatch(gauges: &Gauges, page: &mut Page) {
    let histogram = &gauges.dispatch;
    let help = "From the nominal instant of what a decision answers until its VCPU runs";
    let name = page.head(Kind::Histogram, "dispatch_latency", help, SECONDS);
    for power in POWERS {
        // Shorter than 2^n means at most 2^n - 1, as a bound of OpenMetrics counts.
        let bound = Float(((1_u64 << power) - 1) as f64 / 1e9).to_string();
        page.sample(&name, "_bucket", &[("le", bound)], histogram.shorter_than(power));
    }
    page.sample(&name, "_bucket", &[("le", "+Inf".into())], histogram.count());
    page.sample(&name, "_sum", &[], seconds(histogram.sum()));
    page.sample(&name, "_count", &[], histogram.count());
}

fn statistics(gauges: &Gauges, page: &mut Page) {
    let rows = gauges.statistics.iter().map(|statistic| {
        let core = statistic.core.map_or_else(String::new, |core| core.0.to_string());
        let vcpu = statistic.vcpu.map_or_else(String::new, |vcpu| vcpu.0.to_string());
        (vec![("name", statistic.name.clone()), ("core", core), ("id", vcpu)], statistic.value)
    });
    page.family(
        Kind::Gauge,
        "policy_figure",
        "What the policy counted of its own doings",
        "",
        rows,
    );
}

fn and(mut labels: Labels, name: &'static str, value: &str) -> Labels {
    labels.push((name, value.into()));
    labels
}

fn seconds(duration: Duration) -> Float {
    Float(duration.ticks() as f64 / 1e9)
}

/// A number that always has a point, as OpenMetrics writes those that are not whole.
#[derive(Clone, Copy)]
struct Float(f64);

impl Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.fract() == 0.0 { write!(f, "{:.1}", self.0) } else { self.0.fmt(f) }
    }
}

/// What kind of numbers a family holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
    Info,
    Histogram,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Info => "info",
            Self::Histogram => "histogram",
        }
    }
    /// What its samples are called after the name of the family.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::Histogram => "",
        }
    }
}

/// The page so far.
#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, line: fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes everything");
    }
    /// Opens a family and returns its full name.
    fn head(&mut self, kind: Kind, name: &str, help: &str, unit: &str) -> String {
        let underscore = if unit.is_empty() { "" } else { "_" };
        let name = format!("maracas_{name}{underscore}{unit}");
        self.line(format_args!("# HELP {name} {help}."));
        self.line(format_args!("# TYPE {name} {}", kind.word()));
        if !unit.is_empty() {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
        name
    }
    fn sample(
        &mut self,
        name: &str,
        suffix: &str,
        labels: &[(&'static str, String)],
        value: impl Display,
    ) {
        let label = |(name, value): &(&str, String)| format!("{name}=\"{}\"", escaped(value));
        let labels = labels.iter().map(label).collect::<Vec<_>>().join(",");
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        self.line(format_args!("{name}{suffix}{labels} {value}"));
    }
    /// A family with a sample for each row; nothing where there are no rows.
    fn family<V: Display>(
        &mut self,
        kind: Kind,
        name: &str,
        help: &str,
        unit: &str,
        rows: impl IntoIterator<Item = (Labels, V)>,
    ) {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_some() {
            let name = self.head(kind, name, help, unit);
            rows.for_each(|(labels, value)| self.sample(&name, kind.suffix(), &labels, value));
        }
    }
    /// Families with a sample for each of `all`.
    fn families<'a, T: 'a, V: Display>(
        &mut self,
        kind: Kind,
        families: &[Family<T, V>],
        all: impl IntoIterator<Item = &'a T> + Clone,
        label: impl Fn(&T) -> Labels,
    ) {
        for (name, help, unit, of) in families {
            let rows = all.clone().into_iter().map(|it| (label(it), of(it)));
            self.family(kind, name, help, unit, rows);
        }
    }
    fn gauge(&mut self, name: &str, help: &str, unit: &str, value: impl Display) {
        self.family(Kind::Gauge, name, help, unit, [(Vec::new(), value)]);
    }
    fn counter(&mut self, name: &str, help: &str, unit: &str, value: u64) {
        self.family(Kind::Counter, name, help, unit, [(Vec::new(), value)]);
    }
}

/// The value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
