//! The Python module `maracas`: what the command does, asked for from Python, and policies that are
//! written there.
//!
//! This room converts and calls; what it calls stands in `session`, `sweep`, `reproduce` and `sim`.
//! Its Python half (`python/maracas`) has the dataclasses and names that users see; here is what
//! these call. What is no table or text goes between them as JSON. It is a top floor, as `cli` is,
//! and may import every other room but that one.
//!
//! The interpreter is released while anything is simulated, but for policies written in Python.
#![forbid(unsafe_code)]
// What Python calls takes its keywords one by one and gives tuples, which dataclasses there name.
#![allow(clippy::too_many_arguments, clippy::type_complexity)]

mod case;
mod contract;
mod errors;
mod journal;
mod policy;
mod study;
mod table;

/// What Python's half of the module calls; no part of it is for users.
#[pyo3::pymodule(gil_used = true)]
mod _maracas {
    #[pymodule_export]
    use super::case::{
        Case, check_policy, experiments, generate, memory, policies, reproduce, time,
    };
    #[pymodule_export]
    use super::errors::{ContractError, Error};
    #[pymodule_export]
    use super::journal::Journal;
    #[pymodule_export]
    use super::study::{Gathered, Ledger, Study};
    #[pymodule_export]
    use super::table::Table;
    /// The version of the module and of the command beside it.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
