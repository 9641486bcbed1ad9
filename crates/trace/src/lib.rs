//! What a run was, for people and programs: a journal, or the same events as they happen, becomes
//! metrics, the closing table, JSON, CSV, a Perfetto trace and a Gantt chart.
//!
//! * [`Metrics`] watches a machine (it is an [`Observer`](maracas_core::contract::Observer)) or
//!   reads journal records, and ends in a [`Report`].
//! * [`table`] prints the report for people; [`report`] documents its JSON.
//! * [`perfetto`], [`gantt`] and [`csv`] draw and list what happened in time.
//!
//! Pure: it reads bytes or events that it is given, writes to `impl std::io::Write` or returns
//! values. Here never stands a machine, a policy, a clock or a file name. It may import
//! `maracas-core`, serde and serde_json.
#![forbid(unsafe_code)]

pub mod csv;
mod error;
mod follow;
pub mod gantt;
mod metrics;
pub mod perfetto;
mod pieces;
pub mod report;
mod samples;
pub mod table;
#[cfg(test)]
mod testkit;

pub use error::TraceError;
pub use metrics::Metrics;
pub use report::Report;
