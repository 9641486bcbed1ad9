//! What a run was, for people and programs: a journal, or the same events as they happen, becomes
//! metrics, the closing table, JSON, CSV, a Perfetto trace and a Gantt chart.
//!
//! * [`Metrics`] watches a machine (it is an [`Observer`](maracas_core::contract::Observer)) or
//!   reads journal records, and ends in a [`Report`].
//! * [`table`] prints the report for people; [`report`] documents its JSON.
//! * [`perfetto`], [`gantt`] and [`csv`] draw and list what happened in time; [`btf`] and
//!   [`sched_trace`] say it in the formats of others.
//!
//! ```
//! use maracas_core::journal::{Header, Recorder};
//! use maracas_core::{Duration, Instant, System, Vcpu, params::Params};
//! use maracas_trace::{Report, table};
//!
//! # let vcpu = Vcpu::new(0, Duration::from_millis(2), Duration::from_millis(10));
//! # let mut recorder = Recorder::new(&Header {
//! #     policy: "maracas".into(),
//! #     params: Params::new(),
//! #     system: System::new(1, vec![vcpu]),
//! #     names: vec!["spin".into()],
//! #     machine: "sim".into(),
//! #     version: "0.1.0".into(),
//! #     seed: 1,
//! # });
//! # recorder.end(Instant::ZERO + Duration::from_secs(1));
//! # let journal = recorder.bytes().clone();
//! let report = Report::from_journal(&journal).expect("a whole journal");
//! assert_eq!((report.duration_ns, report.tasks[0].name.as_str()), (1_000_000_000, "spin"));
//! let mut text = Vec::new();
//! table::write(&report, table::Style::default(), &mut text)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Pure: it reads bytes or events that it is given, writes to `impl std::io::Write` or returns
//! values. There is no machine, no policy, no clock and no file name here. It may import
//! `maracas-core`, serde and serde_json.
#![forbid(unsafe_code)]

pub mod btf;
pub mod columns;
pub mod csv;
mod error;
mod follow;
pub mod gantt;
mod memory_gate;
mod metrics;
pub mod page;
pub mod perfetto;
mod pieces;
pub mod report;
mod samples;
pub mod sched_trace;
mod steps;
pub mod table;
#[cfg(test)]
mod testkit;

pub use error::TraceError;
pub use metrics::{Metrics, memory_note, statistic_note};
pub use report::Report;
