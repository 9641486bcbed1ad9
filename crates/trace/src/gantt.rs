//! A schedule as a chart: text for terminals, SVG for papers.

mod svg;
#[cfg(test)]
mod tests;
mod text;

use crate::follow::{Follower, JobTrack, Listener, Span, Wait};
use crate::report::class_name;
use maracas_core::contract::Mode;
use maracas_core::journal::{Header, JournalError};
use maracas_core::{CoreId, Instant, System, VcpuId};
use std::io::{self, Write};

/// What happened between two instants of a journal.
#[derive(Clone, Debug)]
pub struct Chart {
    from: Instant,
    to: Instant,
    ticks_per_ns: u64,
    /// Names of the cores, each with its class where they are not equally fast.
    cores: Vec<String>,
    names: Vec<String>,
    /// Where the journal ends.
    end: Instant,
    /// Those with a row whatever they did: the VCPUs of the start and those that ran.
    shown: Vec<VcpuId>,
    bars: Vec<Bar>,
    arrows: Vec<Arrow>,
}

/// What the rows of a chart are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rows {
    /// One row per VCPU.
    #[default]
    Vcpus,
    /// One row per core.
    Cores,
}

/// How a text chart looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextStyle {
    /// What the rows are.
    pub rows: Rows,
    /// Columns of the whole chart.
    pub width: u16,
    /// Only ASCII.
    pub ascii: bool,
}

impl Default for TextStyle {
    fn default() -> Self {
        Self { rows: Rows::Vcpus, width: 100, ascii: false }
    }
}

/// What a VCPU was doing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum State {
    Ready,
    Throttled,
    Background,
    Foreground,
}

/// One state of one VCPU.
#[derive(Clone, Copy, Debug)]
struct Bar {
    vcpu: VcpuId,
    /// Where it ran or was throttled; `None` while it waited its turn.
    core: Option<CoreId>,
    state: State,
    from: Instant,
    to: Instant,
}

/// What an instant is marked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Release,
    Deadline,
    Miss,
}

#[derive(Clone, Copy, Debug)]
struct Arrow {
    vcpu: VcpuId,
    at: Instant,
    kind: Kind,
}

impl Chart {
    /// Draws `journal` from `from` up to `to` (`None`: to the end).
    ///
    /// # Errors
    /// Where the journal cannot be read.
    pub fn from_journal(
        journal: &[u8],
        from: Instant,
        to: Option<Instant>,
    ) -> Result<Self, JournalError> {
        let blank = |header: &Header| Self {
            from,
            to: to.unwrap_or(Instant::NEVER),
            ticks_per_ns: header.system.ticks_per_ns.max(1),
            cores: core_names(&header.system),
            names: Vec::new(),
            end: Instant::ZERO,
            shown: header.system.vcpus.iter().map(|vcpu| vcpu.id).collect(),
            bars: Vec::new(),
            arrows: Vec::new(),
        };
        let (mut chart, end) = Follower::journal(journal, blank)?;
        chart.to = chart.to.min(end).max(from);
        chart.end = end;
        chart.arrows.retain(|arrow| arrow.at <= chart.to);
        let shown = std::mem::take(&mut chart.shown);
        chart.arrows.retain(|arrow| shown.contains(&arrow.vcpu));
        chart.bars.retain(|bar| shown.contains(&bar.vcpu));
        chart.shown = shown;
        Ok(chart)
    }
    /// Where the journal ends: nothing is drawn from there on.
    pub const fn journal_end(&self) -> Instant {
        self.end
    }
    /// Writes the chart as text.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_text(&self, style: TextStyle, out: &mut impl Write) -> io::Result<()> {
        text::write(self, style, out)
    }
    /// Writes the chart as an SVG picture that needs no other file and suits light and dark pages.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_svg(&self, rows: Rows, out: &mut impl Write) -> io::Result<()> {
        svg::write(self, rows, out)
    }

    fn name(&self, vcpu: VcpuId) -> &str {
        self.names.get(vcpu.0 as usize).map_or("", String::as_str)
    }
    /// All VCPUs that have a row, by id. One that was refused and never ran has none.
    fn vcpus(&self) -> impl Iterator<Item = VcpuId> {
        let named = (0..).zip(&self.names).filter(|(_, name)| !name.is_empty());
        named.map(|(id, _)| VcpuId(id)).filter(|id| self.shown.contains(id))
    }
    /// Those that are drawn on some core, by id.
    fn on_cores(&self) -> impl Iterator<Item = VcpuId> {
        let drawn = |id: &VcpuId| self.bars.iter().any(|bar| bar.vcpu == *id && bar.core.is_some());
        self.vcpus().filter(drawn)
    }
    fn show_vcpu(&mut self, vcpu: VcpuId, name: Option<&str>) {
        let index = vcpu.0 as usize;
        if self.names.len() <= index {
            self.names.resize(index + 1, String::new());
        }
        if let Some(name) = name {
            self.names[index] = name.into();
        } else if self.names[index].is_empty() {
            self.names[index] = vcpu.to_string();
        }
    }
    fn bar(&mut self, mut bar: Bar) {
        bar.from = bar.from.max(self.from);
        bar.to = bar.to.min(self.to);
        if bar.from < bar.to {
            self.show_vcpu(bar.vcpu, None);
            self.bars.push(bar);
        }
    }
    fn arrow(&mut self, vcpu: VcpuId, at: Instant, kind: Kind) {
        if (self.from..=self.to).contains(&at) {
            self.show_vcpu(vcpu, None);
            self.arrows.push(Arrow { vcpu, at, kind });
        }
    }
    /// A length in this chart as people write it.
    fn shown(&self, ticks: u64) -> String {
        crate::table::time(ticks as f64 / self.ticks_per_ns as f64)
    }
    /// Instants for a scale of at most `most` steps: steps of 1, 2 or 5 times a power of ten.
    fn ticks(&self, most: u64) -> Vec<Instant> {
        let length = (self.to - self.from).ticks();
        let mut step = self.ticks_per_ns;
        for factor in [2, 5, 10].iter().cycle() {
            if length / step <= most {
                break;
            }
            step = match factor {
                2 => step * 2,
                5 => step / 2 * 5,
                _ => step * 2,
            };
        }
        let first = self.from.ticks().div_ceil(step) * step;
        (first..=self.to.ticks()).step_by(step as usize).map(Instant::from_ticks).collect()
    }
}

impl Listener for Chart {
    fn named(&mut self, vcpu: VcpuId, name: &str) {
        self.show_vcpu(vcpu, Some(name));
    }
    fn span(&mut self, span: &Span) {
        let state = match span.mode {
            Mode::Foreground => State::Foreground,
            Mode::Background => State::Background,
        };
        let (vcpu, core) = (span.vcpu, Some(span.core));
        if !self.shown.contains(&vcpu) {
            self.shown.push(vcpu);
        }
        self.bar(Bar { vcpu, core, state, from: span.from, to: span.to });
    }
    fn wait(&mut self, wait: &Wait) {
        let core = wait.throttled;
        let state = if core.is_some() { State::Throttled } else { State::Ready };
        self.bar(Bar { vcpu: wait.vcpu, core, state, from: wait.from, to: wait.to });
    }
    fn job(&mut self, job: &JobTrack, end: Option<Instant>) {
        let missed = job.missed(end.or(job.completed).unwrap_or(job.begin));
        let kind = if missed { Kind::Miss } else { Kind::Deadline };
        self.arrow(job.job.id.vcpu, job.job.release, Kind::Release);
        self.arrow(job.job.id.vcpu, job.job.deadline, kind);
    }
}

pub(crate) fn core_names(system: &System) -> Vec<String> {
    let name = |(id, core): (CoreId, &maracas_core::Core)| {
        let class = class_name(usize::from(core.class), system.classes.len());
        if system.is_even() { id.to_string() } else { format!("{id} {class}") }
    };
    system.core_ids().zip(&system.cores).map(name).collect()
}
