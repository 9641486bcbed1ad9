//! The report of a run, and its JSON.
//!
//! The JSON is an object with `total` and `tasks`, each with `jobs`, `preemptions`, `migrations`,
//! `misses`, `foreground_ns` and `background_ns`, counted as [`Metrics`](crate::Metrics) says;
//! `version`, `machine`, `policy` and `seed` say what ran. All times are nanoseconds. The format
//! is described by [`SCHEMA`] (`report.schema.json`); within one [`FORMAT`] fields are only added.

mod fairness;
mod promise;

pub(crate) use self::fairness::class_name;
pub use self::fairness::{ClassReport, ClassUse, FairnessReport, SpeedReport};
pub use self::promise::{
    CausesReport, CutReport, EnforcedReport, LateReport, ProgramReport, PromiseReport,
    ReliefReport, Run, Verdict, WakeCostReport, Word,
};

use maracas_core::contract::Statistic;
use maracas_core::control::StatisticGauge;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::{fmt, io};

/// Version of the JSON format. Readers should refuse a higher one.
pub const FORMAT: u32 = 1;

/// JSON Schema (draft 2020-12) of the report.
pub const SCHEMA: &str = include_str!("../report.schema.json");

/// What a run delivered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// Version of the program that ran.
    pub version: String,
    /// `"sim"` or `"live"`.
    pub machine: String,
    /// The policy's word.
    pub policy: String,
    /// The policy's parameters as the user gave them.
    pub params: BTreeMap<String, String>,
    /// Seed of the run; 0 live.
    pub seed: u64,
    /// How long the run lasted.
    pub duration_ns: u64,
    /// Journal records that were lost; where this is not 0, every figure is a lower bound.
    pub lost_records: u64,
    /// Sums over all VCPUs.
    pub total: Total,
    /// The VCPUs, by id.
    pub tasks: Vec<TaskReport>,
    /// The cores, by id.
    pub cores: Vec<CoreReport>,
    /// What the memory controller counted of the whole run; `null` where the machine models or
    /// measures none.
    #[serde(default)]
    pub memory: Option<MemoryReport>,
    /// What the policy's monitor sampled of it; `null` where nothing sampled it.
    #[serde(default)]
    pub controller: Option<ControllerReport>,
    /// What the policy counted of its own doings.
    #[serde(default)]
    pub statistics: Vec<StatisticReport>,
    /// How long dispatches took; `null` where none was measured, as in simulation.
    #[serde(default)]
    pub dispatch: Option<DispatchReport>,
    /// How memory was sensed and steered; `null` where it was not, as in simulation.
    #[serde(default)]
    pub sensing: Option<SensingReport>,
    /// What the live machine itself took of the cores: its agents and freeze threads; `null` in
    /// simulation, where its work is charged to the VCPU that causes it.
    #[serde(default)]
    pub agents_ns: Option<u64>,
    /// How evenly VCPUs progressed; `null` where all cores are equally fast.
    #[serde(default)]
    pub fairness: Option<FairnessReport>,
    /// Whether all that was promised was kept, and what the run as a whole came to.
    #[serde(default)]
    pub promise: PromiseReport,
    /// How every program ended; empty in simulation.
    #[serde(default)]
    pub programs: Vec<ProgramReport>,
    /// What the host refused during the run, one sentence each.
    #[serde(default)]
    pub trouble: Vec<String>,
}

/// How long it took from the nominal instant of what a decision answers until a thread of the VCPU
/// that the decision put first on a core was switched in there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DispatchReport {
    /// How many were measured.
    pub count: u64,
    /// How many of them only until everything had been set, for want of switch records.
    pub enacted: u64,
    /// Median.
    pub latency_p50_ns: u64,
    /// 99th percentile, by nearest rank.
    pub latency_p99_ns: u64,
    /// The longest.
    pub latency_max_ns: u64,
    /// The same of each core on which there were any.
    pub cores: Vec<CoreDispatchReport>,
}

/// How long dispatches took on one core.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CoreDispatchReport {
    /// The core's number.
    pub core: u16,
    /// How many were measured.
    pub count: u64,
    /// Median.
    pub latency_p50_ns: u64,
    /// 99th percentile, by nearest rank.
    pub latency_p99_ns: u64,
    /// The longest.
    pub latency_max_ns: u64,
}

/// How a live machine sensed and steered memory.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SensingReport {
    /// What answered the policy's samples; `null` where nothing did.
    pub sensor: Option<String>,
    /// What could not be sensed, and what else is to be known of it, one sentence each.
    pub notes: Vec<String>,
    /// How fast cores were steered, by what they lost; only what happened.
    pub reactions: Vec<ReactionReport>,
}

/// How long it took until a core stood still.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReactionReport {
    /// `"throttled"`: from the decision that closed its background until all that used surplus time
    /// there were frozen. `"closed"`: from the memory limit that its meter reached until nothing
    /// ran.
    pub name: String,
    /// How often.
    pub count: u64,
    /// Median.
    pub took_p50_ns: u64,
    /// 99th percentile, by nearest rank.
    pub took_p99_ns: u64,
    /// The longest.
    pub took_max_ns: u64,
    /// The most that a core which closed read beyond its limit; `null` where it was throttled.
    pub beyond_max: Option<u64>,
}

/// What a VCPU did in one mode, by the counters' names. All 0 where the machine cannot count.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions retired; where they cannot be counted, the units of progress that its program
    /// itself counts.
    pub instructions: u64,
    /// References to the last-level cache.
    pub references: u64,
    /// References that it did not answer: reads of memory.
    pub misses: u64,
    /// Write-backs to memory.
    pub writes: u64,
}

impl Counts {
    /// Misses by references; `None` without references.
    pub fn miss_ratio(&self) -> Option<f64> {
        (self.references > 0).then(|| self.misses as f64 / self.references as f64)
    }
    /// The sum of two modes.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            instructions: self.instructions + other.instructions,
            references: self.references + other.references,
            misses: self.misses + other.misses,
            writes: self.writes + other.writes,
        }
    }
}

/// What the memory controller counted from the start of the run to its end.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct MemoryReport {
    /// Requests that it took, reads and write-backs, from cores and devices.
    pub requests: u64,
    /// Sum over cycles of requests in its queue.
    pub occupancy: u64,
    /// Average latency: occupancy by requests; `null` without requests.
    pub latency_mean_cycles: Option<f64>,
    /// Lines read.
    pub reads: u64,
    /// Lines written.
    pub writes: u64,
    /// Requests by the cores.
    pub requests_by_cores: u64,
    /// Requests by each device.
    pub devices: Vec<DeviceReport>,
}

/// What a requestor that is no core asked of memory.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// Its requests, reads and writes.
    pub requests: u64,
}

/// Average latency in cycles; `None` without requests, and where it is not counted how long they
/// wait: each that is waited for takes a cycle at least.
pub(crate) fn latency(occupancy: u64, requests: u64) -> Option<f64> {
    (requests > 0 && occupancy > 0).then(|| occupancy as f64 / requests as f64)
}

impl MemoryReport {
    /// The same with the mean latency that its counts say.
    pub(crate) fn with_latency(&self) -> Self {
        Self { latency_mean_cycles: latency(self.occupancy, self.requests), ..self.clone() }
    }
    /// Reads what `Display` wrote, but for the latency.
    pub(crate) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

impl fmt::Display for MemoryReport {
    /// As JSON on one line: a device's name may hold anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// What the memory controller counted, summed over all samples.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ControllerReport {
    /// How often it was sampled.
    pub samples: u64,
    /// Over how long: from the start of the run to the last sample.
    #[serde(default)]
    pub sampled_ns: u64,
    /// Requests that it took, reads and write-backs, from cores and devices.
    pub requests: u64,
    /// Sum over cycles of requests in its queue.
    pub occupancy: u64,
    /// Requests that the cores' own counters saw.
    pub requests_by_cores: u64,
    /// Average latency: occupancy by requests; `null` without requests.
    pub latency_mean_cycles: Option<f64>,
    /// The same of the sample where it was highest.
    pub latency_max_cycles: Option<f64>,
}

/// Something that the policy counted of its own doings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StatisticReport {
    /// What is counted.
    pub name: String,
    /// On which core, where it is about one.
    pub core: Option<u16>,
    /// Of which VCPU, where it is about one: its number.
    #[serde(default)]
    pub vcpu: Option<u32>,
    /// How many.
    pub value: u64,
}

impl StatisticReport {
    pub(crate) fn of(statistic: &Statistic) -> Self {
        let (core, vcpu) = (statistic.core.map(|core| core.0), statistic.vcpu.map(|vcpu| vcpu.0));
        Self { name: statistic.name.into(), core, vcpu, value: statistic.value }
    }
}

impl From<StatisticGauge> for StatisticReport {
    fn from(statistic: StatisticGauge) -> Self {
        let StatisticGauge { name, core, vcpu, value } = statistic;
        Self { name, core: core.map(|core| core.0), vcpu: vcpu.map(|vcpu| vcpu.0), value }
    }
}

/// Sums over all VCPUs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Total {
    /// Jobs released before the end.
    pub jobs: u64,
    /// Jobs completed.
    pub completed: u64,
    /// Jobs due at or before the end and unfinished at their deadline.
    pub misses: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Migrations of jobs (of VCPUs, where they have no jobs).
    pub migrations: u64,
    /// Jobs that started on another core than the one on which the job before ended.
    pub task_migrations: u64,
    /// Time on budget.
    pub foreground_ns: u64,
    /// Surplus time.
    pub background_ns: u64,
    /// How often the policy was asked for its plan.
    pub decisions: u64,
}

/// What one VCPU was promised and got.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskReport {
    /// The VCPU's number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// C; 0, as T and D, for a VCPU without a reservation.
    pub budget_ns: u64,
    /// T.
    pub period_ns: u64,
    /// D.
    pub deadline_ns: u64,
    /// Jobs released before the end.
    pub jobs: u64,
    /// Jobs completed.
    pub completed: u64,
    /// Jobs due at or before the end and unfinished at their deadline.
    pub misses: u64,
    /// How late the latest job was; of an unfinished one, how late it was at the end.
    pub tardiness_max_ns: u64,
    /// Mean time from release to completion; 0 without completed jobs.
    pub response_mean_ns: f64,
    /// Longest time from release to completion.
    pub response_max_ns: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Migrations of jobs (of the VCPU, where it has no jobs).
    pub migrations: u64,
    /// Jobs that started on another core than the one on which the job before ended.
    pub task_migrations: u64,
    /// Time on budget, as the VCPU's meter charged it.
    pub foreground_ns: u64,
    /// Surplus time, as the VCPU's meter charged it.
    pub background_ns: u64,
    /// Foreground and background time as a fraction of one core over the whole run.
    pub share: f64,
    /// Its part of all background time on the cores where it ran.
    pub background_share: f64,
    /// The cores where it ran.
    pub cores: Vec<u16>,
    /// Delivery period by period.
    pub delivered: Delivered,
    /// Whether its budget was kept.
    #[serde(default)]
    pub verdict: Verdict,
    /// Time in which its own memory bandwidth was used up and kept it from running.
    #[serde(default)]
    pub held_ns: u64,
    /// What it did on budget.
    #[serde(default)]
    pub foreground: Counts,
    /// What it did on surplus time.
    #[serde(default)]
    pub background: Counts,
    /// How it fared on cores of uneven speed; `null` where all cores are equally fast.
    #[serde(default)]
    pub speed: Option<SpeedReport>,
}

/// Foreground service in each of the VCPU's own whole periods. Figures are `null` where there is
/// no period to take them from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Delivered {
    /// Periods in which the VCPU always had something to run: those that are judged, and those that
    /// were held or stolen, which the errors here count too.
    pub periods: u64,
    /// Periods in which it was blocked, or its jobs were done, at some instant: left out of the
    /// errors.
    pub periods_without_demand: u64,
    /// Mean delivery over the judged periods.
    pub mean_ns: Option<f64>,
    /// Mean delivery over all periods; those that a wake cut short count by their length.
    pub mean_of_all_ns: Option<f64>,
    /// Mean of |delivered - C|.
    pub error_mean_ns: Option<f64>,
    /// Median of |delivered - C|.
    pub error_p50_ns: Option<u64>,
    /// 99th percentile of |delivered - C|, by nearest rank.
    pub error_p99_ns: Option<u64>,
    /// Largest |delivered - C|.
    pub error_max_ns: Option<u64>,
    /// 1st percentile of delivered - C, by nearest rank: below 0 where less than C was delivered.
    #[serde(default)]
    pub signed_error_p1_ns: Option<i64>,
    /// Median of delivered - C.
    #[serde(default)]
    pub signed_error_p50_ns: Option<i64>,
    /// 99th percentile of delivered - C.
    #[serde(default)]
    pub signed_error_p99_ns: Option<i64>,
}

/// Where the time of one core went.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CoreReport {
    /// The core's number.
    pub core: u16,
    /// Time in which a VCPU ran on budget.
    pub foreground_ns: u64,
    /// Time in which a VCPU ran on surplus.
    pub background_ns: u64,
    /// Time in which only a closed memory gate kept a VCPU from running.
    pub throttled_ns: u64,
    /// The rest.
    pub idle_ns: u64,
    /// Calls of the policy that changed this core's line.
    pub decisions: u64,
    /// Requests to memory by all that ran here.
    #[serde(default)]
    pub requests: u64,
    /// What kept the machine from enforcing in time; `null` where nothing was reported, as in
    /// simulation.
    #[serde(default)]
    pub causes: Option<CausesReport>,
}

impl Report {
    /// Writes the report as JSON, readable, with a newline at the end.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_json(&self, out: &mut impl io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests;
