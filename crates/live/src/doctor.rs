//! What this host can do, as a table for people and programs; the command line prints it.
//!
//! [`Findings::gather`] tries everything; [`Report::of`] puts what was found into words, and is a
//! function of the findings alone.

mod findings;
mod rows;
mod sched_ext;
mod threads;

pub use findings::{CacheColors, Client, Findings, Kernel, Metered, Shares};
pub use sched_ext::SchedExt;
pub use threads::InterruptThreads;

use crate::host::classes::Detected;
use crate::host::costs::{Costs, FULL, Keeps, rounded_up};
use crate::host::probe::Support;
use crate::sense::preference::{self, Tried};
use std::fmt;
use std::time::Duration;

/// What a row is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Section {
    /// What budgets and the machine law stand on.
    Reservations,
    /// What memory is known by.
    Sensing,
    /// What memory is steered by.
    Steering,
    /// Facts about the host.
    Host,
}

impl Section {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Reservations => "reservations",
            Self::Sensing => "sensing",
            Self::Steering => "steering",
            Self::Host => "host",
        }
    }
}

/// What came of trying.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Tried, and it works.
    Works,
    /// Tried, and refused.
    Missing,
    /// It is there, and trying it would have changed the host.
    Untried,
    /// Not a thing to have or lack: a fact to know.
    Fact,
}

impl State {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Missing => "missing",
            Self::Untried => "untried",
            Self::Fact => "fact",
        }
    }
}

/// One line of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// What it is about.
    pub section: Section,
    /// What was tried.
    pub capability: String,
    /// What came of it.
    pub state: State,
    /// How it was proved, the kernel's refusal, or the fact.
    pub proof: String,
    /// What would enable it, if it is missing.
    pub remedy: String,
    /// What is done instead, if it is missing.
    pub fallback: String,
}

/// How much of what MARACAS does can be done on this host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// All that any policy needs: budgets in full, 1 ms in 10 ms within 1 %, a sensor that knows
    /// latency, and meters of the cores that signal by themselves.
    Full,
    /// Everything runs, some of it by a fallback.
    Degraded,
    /// Nothing can be held here: `sim` and `check` alone.
    SimulationOnly,
}

impl Verdict {
    /// What `maracas doctor` ends with. 2 is left for a doctor that fails itself.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Full => 0,
            Self::Degraded => 1,
            Self::SimulationOnly => 3,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::Degraded => "degraded",
            Self::SimulationOnly => "simulation only",
        })
    }
}

/// What `maracas doctor` shows.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The machine in one line, without its name.
    pub machine: String,
    /// The level of support for reservations that the live machine takes by default.
    pub support: String,
    /// The sensor that it takes by default; `None` = none works.
    pub sensor: Option<crate::sense::SensorKind>,
    /// One row for each capability, by section.
    pub rows: Vec<Row>,
    /// The classes of the usable cores.
    pub classes: Detected,
    /// How much can be done.
    pub verdict: Verdict,
    /// What keeps it from being full, one sentence each.
    pub why: Vec<String>,
    /// What was measured on the way.
    pub numbers: Numbers,
}

/// Latencies of this host; `None` where there was nothing to measure.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Numbers {
    /// The freezer's, with a spinning process.
    pub freezer: Option<crate::host::probe::Latency>,
    /// From a core's counter reaching a limit to the wake of the thread that waits for it: median.
    pub meter_p50: Option<Duration>,
    /// The same: what one in a hundred exceeds.
    pub meter_p99: Option<Duration>,
    /// A write of bandwidth (MBA): median.
    pub bandwidth_write: Option<Duration>,
    /// What the steps of a decision cost.
    pub costs: Option<Costs>,
    /// What can be kept with that.
    pub keeps: Option<Keeps>,
    /// The share of its time that the core lost that lost the most, in parts per billion.
    pub stolen_ppb: Option<u64>,
}

impl Report {
    /// Puts findings into words and decides how much can be done.
    pub fn of(found: &Findings) -> Self {
        let mut rows = rows::all(found);
        // In order within each section: what was tried first stands first.
        rows.sort_by_key(|row| row.section);
        let (verdict, why) = judge(found);
        let reaction = found.meter.as_ref().ok().and_then(|meter| meter.reaction.as_ref().ok());
        Self {
            machine: found.reservations.platform.to_string(),
            support: found.reservations.support().to_string(),
            sensor: found.sensors.iter().find(|it| works(it)).map(|tried| tried.sensor_kind),
            rows,
            classes: found.classes.clone(),
            verdict,
            why,
            numbers: Numbers {
                freezer: found.reservations.freezer,
                meter_p50: reaction.map(|reaction| reaction.p50),
                meter_p99: reaction.map(|reaction| reaction.p99),
                bandwidth_write: found.shares.bandwidth.as_ref().ok().copied().flatten(),
                costs: found.costs.as_ref().ok().copied(),
                keeps: found.costs.as_ref().ok().map(keeps),
                stolen_ppb: found.stolen_ppb,
            },
        }
    }
}

/// How much can be done, and what keeps it from being full. Splitting the cache and hardware
/// throttling count for nothing here: each is one way of two, and only a run that asks for it
/// misses it.
fn judge(found: &Findings) -> (Verdict, Vec<String>) {
    let support = found.reservations.support();
    let mut why = Vec::new();
    if support != Support::Full {
        why.push(format!("reservations: {support}"));
    }
    match &found.costs {
        Ok(costs) if keeps(costs).is_full() => {}
        Ok(costs) => why.push(too_slow(costs)),
        Err(error) => why.push(format!("what a wake costs is not known: {error}")),
    }
    if !found.sensors.iter().any(|tried| works(tried) && tried.sensor_kind.has_latency()) {
        why.push(format!("no sensor knows how long memory takes: {}", rows::WITHOUT_LATENCY));
    }
    match &found.meter {
        Ok(meter) if meter.alarms => {}
        Ok(_) => {
            why.push(format!("no core signals by itself when it has read enough: {}", rows::ASKED))
        }
        Err(_) => why.push(format!("no core's reads of memory are counted: {}", rows::UNMETERED)),
    }
    let verdict = match (support, why.is_empty()) {
        (Support::SimulationOnly, _) => Verdict::SimulationOnly,
        (_, true) => Verdict::Full,
        (_, false) => Verdict::Degraded,
    };
    (verdict, why)
}

/// What a host with these costs can keep.
fn keeps(costs: &Costs) -> Keeps {
    Keeps::of(&costs.wake, costs.taken)
}

/// Why a host cannot keep what a full one keeps, and what it can.
fn too_slow(costs: &Costs) -> String {
    let (Keeps { least_budget, least_period, .. }, (budget, period)) = (keeps(costs), FULL);
    let [late, taken] = [costs.wake.p50, costs.taken].map(rounded_up);
    let [least_budget, least_period] = [least_budget, least_period].map(rounded_up);
    format!(
        "{budget} in {period} is not kept within 1 %: a budget ends {late} late at the median, and \
         a wake takes {taken}; give at least {least_budget}, in periods of at least {least_period}"
    )
}

/// Whether a sensor passed its trial.
fn works(tried: &Tried) -> bool {
    matches!(tried.state, preference::State::Works { .. })
}

#[cfg(test)]
mod tests;
