//! Why a run could not begin, or ended early.

use crate::host::HardwareCore;
use crate::host::claim::Unclaimed;
use std::{fmt, io};

/// Why a run could not begin, or ended early.
#[derive(Debug)]
pub enum Error {
    /// The host refused something without which nothing runs: what, and its answer.
    Host(&'static str, io::Error),
    /// Another run manages this core, that of this process if it is known: neither could keep what
    /// it promises.
    Taken(HardwareCore, Option<u32>),
    /// A core cannot be slowed down so: one sentence.
    Duty(String),
    /// A program could not be started.
    Start(String, io::Error),
    /// An agent panicked; all threads were released.
    Panicked(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(what, error) => write!(f, "cannot {what}: {error}; see `maracas doctor`"),
            Self::Taken(core, Some(run)) => {
                write!(f, "core {core} is managed by run {run}; end it first")
            }
            Self::Taken(core, None) => {
                write!(f, "core {core} is managed by another run; end it first")
            }
            Self::Duty(why) => f.write_str(why),
            Self::Start(name, error) => write!(f, "program \"{name}\" cannot be started: {error}"),
            Self::Panicked(why) => write!(f, "the runtime failed and released everything: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Unclaimed> for Error {
    fn from(why: Unclaimed) -> Self {
        match why {
            Unclaimed::Taken(core, run) => Self::Taken(core, run),
            Unclaimed::Host(error) => Self::Host("claim a core", error),
        }
    }
}
