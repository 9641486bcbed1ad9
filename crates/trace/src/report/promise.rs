//! Whether promises were kept, and what stood in the way.

use super::Report;
use maracas_core::Buckets;
use maracas_core::journal::Note;
use serde::{Deserialize, Serialize};

/// What became of the promise to one VCPU, in a word.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// Nothing was promised: no reservation, a policy that grants it no foreground time, or a VCPU
    /// whose periods are others' (I/O) or that carries service requests.
    #[default]
    None,
    /// The mean is within 0.5 % of C and at most 1 % of the judged periods are off.
    Kept,
    /// It got too little, too often or in the mean.
    Short,
    /// It got too much, too often or in the mean.
    Over,
    /// Too many periods are off, to either side.
    Both,
    /// In most of its periods it did not always have something to run.
    NoDemand,
    /// The run was too short for a whole period.
    NoPeriod,
    /// A limit of memory held it in all periods that could be judged.
    Held,
    /// All periods that could be judged were spoiled by stolen time.
    Stolen,
}

/// What became of the promise to one VCPU. The rule stands in `docs/output.md`.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// In a word.
    pub word: Word,
    /// How many periods were judged: whole ones with full demand, neither held nor stolen.
    pub judged: u64,
    /// Judged periods that were given less than C by more than the tolerance.
    pub short: u64,
    /// By how much the worst of them was.
    pub short_worst_ns: u64,
    /// Judged periods that were given more than C by more than the tolerance.
    pub over: u64,
    /// By how much the worst of them was.
    pub over_worst_ns: u64,
    /// Periods that are off because the hypervisor took the core; judged only if strict.
    pub stolen: u64,
    /// Periods in which a limit of memory held the VCPU, which are not judged.
    pub held: u64,
    /// Mean of delivered - C over the judged periods, as a part of C; `null` without any.
    pub mean_off: Option<f64>,
    /// The same over all periods, where those that a wake cut short count by their length.
    pub mean_off_of_all: Option<f64>,
    /// How far from C a period may be.
    pub tolerance_ns: u64,
}

impl Verdict {
    /// Whether a promise was not kept.
    pub const fn is_broken(&self) -> bool {
        match self.word {
            Word::Short | Word::Over | Word::Both => true,
            Word::None
            | Word::Kept
            | Word::NoDemand
            | Word::NoPeriod
            | Word::Held
            | Word::Stolen => false,
        }
    }
}

/// Whether all that was promised was kept, and what concerns the run as a whole.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct PromiseReport {
    /// No VCPU's verdict is a broken promise, and the run was over, in time.
    pub kept: bool,
    /// Stolen periods were judged like all others.
    pub strict: bool,
    /// What a wake costs on this host; `null` where it was not measured, as in simulation.
    pub wake_cost: Option<WakeCostReport>,
    /// How long the run was to last; `null` in simulation, and where that was not given.
    pub asked_ns: Option<u64>,
    /// How long it lasted until the host was as before; `null` in simulation.
    pub lasted_ns: Option<u64>,
    /// Why the guardian ended the run; `null` where it did not.
    pub ended: Option<String>,
    /// Where the journal was cut of which this is the report; left out where it has its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<CutReport>,
}

/// Where a journal was cut that has no end, as that of a killed run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CutReport {
    /// The byte behind its last whole record.
    pub byte: u64,
    /// How many bytes behind that, of a record that is not whole, were left out.
    pub left_out_bytes: u64,
}

/// A run may last longer than asked by this: what is left to be ended, restored and written takes
/// part of a second on an ordinary machine.
const OVERRUN_NS: u64 = 1_000_000_000;

impl PromiseReport {
    /// By how much the run lasted longer than asked, where that is more than a second.
    pub fn overrun_ns(&self) -> Option<u64> {
        let over = self.lasted_ns?.checked_sub(self.asked_ns?)?;
        (over > OVERRUN_NS).then_some(over)
    }
}

/// What a wake from a timed sleep costs, as the machine measured it: the largest that it reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WakeCostReport {
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
}

/// How a program ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProgramReport {
    /// Its name.
    pub name: String,
    /// Its exit code; `null` where a signal ended it, or the run did.
    pub code: Option<i32>,
    /// The signal that ended it; `null` where it exited, or the run ended it.
    pub signal: Option<i32>,
}

/// What kept the machine from enforcing in time on one core.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct CausesReport {
    /// Time that the hypervisor took from the core during the run.
    pub steal_ns: u64,
    /// Alarms that were enforced late enough to be reported one by one.
    pub late: LateReport,
    /// How late all alarms were enforced; `null` where that was not reported.
    pub enforced: Option<EnforcedReport>,
    /// When the core was stuck, and which side relieved it.
    pub reliefs: Vec<ReliefReport>,
    /// How often the kernel's fair server or RT throttling kept real-time threads off the core.
    pub rt_throttled: u64,
    /// For how long.
    pub rt_throttled_ns: u64,
}

/// Alarms that were enforced late: by more than 0.1 ms and four times the 99th percentile of
/// what a wake costs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct LateReport {
    /// How many.
    pub count: u64,
    /// By how much the latest was.
    pub longest_ns: u64,
    /// By how much the latest was, without what was stolen meanwhile: the machine's own lateness.
    pub longest_own_ns: u64,
    /// Of all their lateness, the part that the hypervisor took.
    pub stolen_ns: u64,
}

/// How late alarms were enforced: from when they were due until the agent had acted.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct EnforcedReport {
    /// How many alarms.
    pub count: u64,
    /// By how much the latest was.
    pub longest_ns: u64,
    /// How many were late by less than a microsecond, then by 2^(i-1) up to 2^i microseconds.
    pub buckets: Vec<u64>,
}

impl EnforcedReport {
    /// The bound in nanoseconds that at least `percent` % of the alarms were below (nearest rank);
    /// 0 without alarms.
    pub fn below_ns(&self, percent: u64) -> u64 {
        let lateness = Buckets::<0>::of(self.buckets.clone());
        let rank = (lateness.count() * percent).div_ceil(100);
        let us = lateness.ranked(rank).filter(|_| rank > 0);
        us.map_or(0, |us| us.saturating_add(1).saturating_mul(1000))
    }
}

/// A stuck core was relieved: its VCPUs were demoted and stopped.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReliefReport {
    /// When, from the start of the run.
    pub at_ns: u64,
    /// By which side: `"neighbour"`, the agent of another core, or `"guardian"`.
    pub by: String,
    /// For how long the core had been stuck.
    pub stuck_ns: u64,
}

/// What only the command that starts a run knows of it, and notes at the journal's end, as JSON.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Run {
    /// How long it was to last.
    pub asked_ns: Option<u64>,
    /// How long it lasted until the host was as before.
    pub lasted_ns: u64,
    /// How every program ended.
    pub programs: Vec<ProgramReport>,
    /// What the host refused meanwhile.
    pub trouble: Vec<String>,
    /// Why the guardian ended it, if it did; `trouble` says it too.
    pub ended: Option<String>,
}

impl Run {
    /// The journal's note of it.
    pub fn note(&self) -> Note {
        // Numbers and texts: writing them does not fail.
        Note::Run(serde_json::to_string(self).unwrap_or_default())
    }
    /// From the text of that note; `None` where another version wrote it in another form.
    pub(crate) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

impl Report {
    /// Adds what concerns the run as a whole. A run that lasted longer than asked by more than a
    /// second, or that the guardian had to end, has not kept its promise.
    #[must_use]
    pub fn of_run(mut self, run: Run) -> Self {
        self.promise.asked_ns = run.asked_ns;
        self.promise.lasted_ns = Some(run.lasted_ns);
        self.promise.kept &= self.promise.overrun_ns().is_none() && run.ended.is_none();
        self.promise.ended = run.ended;
        (self.programs, self.trouble) = (run.programs, run.trouble);
        self
    }
}
