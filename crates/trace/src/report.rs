//! The report of a run, and its JSON.
//!
//! The JSON is an object with `total` and `tasks`, each with `jobs`, `preemptions`, `migrations`,
//! `misses`, `foreground_ns` and `background_ns`, counted as [`Metrics`] says;
//! `version`, `machine`, `policy` and `seed` say what ran. All times are nanoseconds. The format
//! is described by [`SCHEMA`] (`report.schema.json`); within one [`FORMAT`] fields are only added.

use crate::metrics::Metrics;
use maracas_core::journal::JournalError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

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
    /// C.
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
}

/// Foreground service in each of the VCPU's own whole periods. Figures are `null` where there is
/// no period to take them from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Delivered {
    /// Periods in which the VCPU always had something to run: those that are judged.
    pub periods: u64,
    /// Periods in which it was blocked at some instant: left out of the errors.
    pub periods_without_demand: u64,
    /// Mean delivery over the judged periods.
    pub mean_ns: Option<f64>,
    /// Mean delivery over all whole periods.
    pub mean_of_all_ns: Option<f64>,
    /// Mean of |delivered - C|.
    pub error_mean_ns: Option<f64>,
    /// Median of |delivered - C|.
    pub error_p50_ns: Option<u64>,
    /// 99th percentile of |delivered - C|, by nearest rank.
    pub error_p99_ns: Option<u64>,
    /// Largest |delivered - C|.
    pub error_max_ns: Option<u64>,
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
    /// Time in which only a closed door kept a VCPU from running.
    pub throttled_ns: u64,
    /// The rest.
    pub idle_ns: u64,
    /// Calls of the policy that changed this core's line.
    pub decisions: u64,
}

impl Report {
    /// The report of a whole journal.
    ///
    /// # Errors
    /// Where the journal is damaged, of another format version, or has no end.
    pub fn from_journal(bytes: &[u8]) -> Result<Self, JournalError> {
        Metrics::of_journal(bytes)
    }
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
