//! Gauges in the text format of OpenMetrics 1.0 (github.com/OpenObservability/OpenMetrics).
//! `docs/top.md` lists the names.

use maracas_core::Duration;
use maracas_core::control::tallies::{CORE, MEMORY, RUN, Tally, Unit, VCPU};
use maracas_core::control::{CoreGauges, Gauges, MemoryGauges, VcpuGauges};
use maracas_core::memory::LINE_BYTES;
use std::fmt::{self, Display, Write};

/// Bounds of the dispatch histogram, as powers of two of nanoseconds: from a microsecond, below
/// which no dispatch was seen, to 67 ms, beyond the 54 ms for which the kernel's fair server was
/// seen to keep real-time threads off a core.
const POWERS: std::ops::RangeInclusive<u32> = 10..=26;

/// What distinguishes the samples of a family: names and values.
type Labels = Vec<(&'static str, String)>;

const SECONDS: &str = "seconds";
const CYCLES: &str = "cycles";

/// The page that answers a scrape.
pub(super) fn page(gauges: &Gauges) -> String {
    let mut page = Page::default();
    run(gauges, &mut page);
    page.tallies(&CORE, &gauges.cores, core_label);
    page.tallies(&VCPU, &gauges.vcpus, vcpu_label);
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
    page.tallies(&RUN, [gauges], |_| Vec::new());
}

/// What names a core.
fn core_label(core: &CoreGauges) -> Labels {
    vec![("core", core.core.0.to_string())]
}

/// What names a VCPU: names may be given twice; numbers are not.
fn vcpu_label(vcpu: &VcpuGauges) -> Labels {
    vec![("vcpu", vcpu.name.clone()), ("id", vcpu.vcpu.0.to_string())]
}

fn memory(memory: &MemoryGauges, page: &mut Page) {
    page.tallies(&MEMORY, [memory], |_| Vec::new());
    if memory.last_requests > 0 && memory.last_occupancy > 0 {
        let latency = memory.last_occupancy as f64 / memory.last_requests as f64;
        let help = "Average latency of a request in the last sample";
        page.family(Kind::Gauge, "memory_latency", help, CYCLES, [(Vec::new(), Float(latency))]);
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

fn and(mut labels: Labels, mode: Option<&str>) -> Labels {
    labels.extend(mode.map(|mode| ("mode", mode.into())));
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
    /// Every tally of each of `all`: those of one name in a row are one family.
    fn tallies<'a, T: 'a>(
        &mut self,
        tallies: &[Tally<T>],
        all: impl IntoIterator<Item = &'a T> + Clone,
        label: impl Fn(&T) -> Labels,
    ) {
        for family in tallies.chunk_by(|one, next| one.metric == next.metric) {
            let first = &family[0];
            let rows = all.clone().into_iter().flat_map(|it| {
                let of = |tally: &Tally<T>| Some((and(label(it), tally.mode), shown(tally, it)?));
                family.iter().filter_map(of).collect::<Vec<_>>()
            });
            let kind = if first.is_sum { Kind::Counter } else { Kind::Gauge };
            self.family(kind, first.metric, first.help, unit(first.unit), rows);
        }
    }
}

/// The unit of a number as Prometheus has it.
const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Flag | Unit::Count => "",
        Unit::Time => SECONDS,
        Unit::Lines => "bytes",
        Unit::Cycles => CYCLES,
    }
}

/// The number in that unit, if there is one.
fn shown<T>(tally: &Tally<T>, of: &T) -> Option<String> {
    let number = (tally.of)(of)?;
    Some(match tally.unit {
        Unit::Flag | Unit::Count | Unit::Cycles => number.to_string(),
        Unit::Time => seconds(Duration::from_nanos(number)).to_string(),
        Unit::Lines => number.saturating_mul(LINE_BYTES).to_string(),
    })
}

/// The value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
