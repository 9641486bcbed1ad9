//! Scenario files: what a user writes about a system, read into what the machines take.
//!
//! Here are the TOML reader ([`Scenario`]), the platforms and programs that it knows by name
//! ([`presets`], data files under `data/`), the mix of memory requestors ([`mix`]), sweep files
//! ([`sweep`]), bare task sets ([`taskset`]), drawn at random ([`generate`]) or read and written in
//! the formats of other tools ([`formats`]), the search for the smallest change that would be
//! admitted ([`suggest`]), and changes to a file's text ([`edit`]). There is no policy, no machine
//! and no schedulability test here: callers say what a policy's parameters mean and whether a
//! system is admitted. This crate imports `maracas-core` and parsers of TOML, JSON and XML only.
//!
//! Every error is one line with file, line and column, and says the way out ([`Error`]). The
//! reference for users is `docs/scenario.md`, the JSON Schema is `scenario.schema.json`; tests hold
//! both to [`keys::TABLES`]. That of task sets and overhead tables is `docs/formats.md`, whose
//! examples tests read.
#![forbid(unsafe_code)]

mod account;
mod cursor;
pub mod edit;
mod error;
pub mod formats;
pub mod generate;
pub mod keys;
pub mod mix;
pub mod presets;
mod read;
mod scenario;
pub mod suggest;
pub mod sweep;
pub mod taskset;

pub use account::{Account, Who};
pub use error::{Error, Location, near_words, nearest};
pub use scenario::{
    CacheSplit, ClassSpec, Command, Live, Output, Platform, PlatformMemory, PolicySpec,
    ProgramSpec, Run, Scenario, ThrottleBy, VcpuSpec,
};
