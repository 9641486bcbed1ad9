//! Many task sets under many policies, compared on the same sets.
//!
//! Here are one run of one set under one policy ([`trial`]), what a sweep runs ([`study`]) and how,
//! so that nothing finished is lost ([`run`], [`ledger`]), what policies' tests say ([`admission`],
//! [`schedulable`]), what comes out ([`summary`], as tables, [`table`], figures, [`drawings`], and
//! a page for browsers, [`page`]), and the statistics ([`stats`]) and drawings
//! ([`figure`]) that others need too. There is no policy, no machine, no generator of task sets and
//! no terminal here. This room stands above `policies`, `sim`, `scenario` and `trace`, which it
//! imports, and below `reproduce` and the command line.
#![forbid(unsafe_code)]

pub mod admission;
pub mod drawings;
pub mod figure;
pub mod ledger;
pub mod page;
pub mod primitives;
mod queue;
pub mod results;
pub mod run;
pub mod schedulable;
pub mod stats;
pub mod study;
pub mod summary;
pub mod table;
pub mod trial;

pub use ledger::{Finished, Ledger};
pub use results::Results;
pub use study::{Contender, Point, Study};
pub use trial::{Charge, Subject, Tally};

use std::fmt;

/// Why a sweep could not be run, in one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<maracas_scenario::Error> for Error {
    fn from(error: maracas_scenario::Error) -> Self {
        Self(error.to_string())
    }
}
