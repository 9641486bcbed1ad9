//! What programs link to talk to a running system: Rust here, C by `include/maracas.h`.
//!
//! Here stand the connection over the control socket, the calls for a thread's own VCPU and the
//! counter of a program's progress. No scheduling and no control groups ever stand here: the
//! runtime does all of that. This crate imports `maracas-core` alone of our crates, for the words
//! of the messages.
//!
//! # A VCPU of a thread's own
//! ```no_run
//! use maracas_client::{Duration, Mode, mode, vcpu_create, vcpu_destroy};
//!
//! // From here on this thread gets 2 ms of every 10 ms, and surplus time where there is any.
//! let vcpu = vcpu_create(Duration::from_millis(2), Duration::from_millis(10), 0)?;
//! while mode() == Mode::Foreground {
//!     // The part that must be done in time.
//! }
//! // The part that makes the result better.
//! vcpu_destroy()?;
//! # Ok::<(), maracas_client::Error>(())
//! ```
//!
//! # Jobs
//! ```no_run
//! use maracas_client::{Duration, job_done, job_wait, task_create};
//!
//! task_create(Duration::from_millis(2), Duration::from_millis(10), 0)?;
//! loop {
//!     let job = job_wait()?;
//!     println!("job {} is due at {}", job.id.index, job.deadline);
//!     job_done()?;
//! }
//! # Ok::<(), maracas_client::Error>(())
//! ```
//!
//! # Progress, on cores of uneven speed
//! A policy for uneven cores must know how much faster each program runs on a fast core than on a
//! slow one. Instruction counters show it; where a host has none, as most virtual machines, the
//! program counts for itself. Without a run that asks for it this does nothing.
//! ```
//! # fn transform(_: &[u8]) {}
//! # let blocks = [[0; 64]; 4];
//! for block in &blocks {
//!     transform(block);
//!     // One unit: a block, the same work whichever core does it.
//!     maracas_client::progress(1);
//! }
//! ```
//! What makes a good unit: always the same amount of work, on any core and at any time (a number of
//! iterations, a frame, a request; never a time, which a slow core fills with less work); a
//! thousand or more a second, since speeds are taken from counts over some 30 ms; counted when it
//! is done. Where the parts of a program's work differ in size, count what they have in common,
//! such as bytes. A new kind of work with units of another size looks like a change of speed until
//! it has run on both kinds of cores.
#![cfg(target_os = "linux")]

mod c;
mod clock;
pub mod color;
mod connection;
mod find;
mod own;
mod progress;

pub use connection::{Connection, Greeting, Jobs};
pub use maracas_core::contract::Mode;
pub use maracas_core::control::{Gauges, Members, NewVcpu, Number, Refusal, VcpuState};
pub use maracas_core::{
    Arrival, CoreId, Criticality, Duration, Instant, Job, JobId, Reservation, Role, Vcpu, VcpuId,
};
pub use own::{create_vcpu, job_done, job_wait, mode, task_create, vcpu_create, vcpu_destroy};
pub use progress::{counts_progress, progress};

use maracas_core::control::FrameError;
use std::path::PathBuf;
use std::{fmt, io};

/// Why a call failed.
#[derive(Debug)]
pub enum Error {
    /// No run of this host can be found.
    NoRun,
    /// No run with this process can be found.
    NoSuchRun(u32),
    /// There are several runs; which one is meant must be said.
    SeveralRuns(Vec<PathBuf>),
    /// The socket cannot be reached, or broke.
    Socket(PathBuf, io::Error),
    /// The VCPU was not admitted; every number is inside.
    Refused(Refusal),
    /// The runtime could not do it: its own sentence.
    Said(String),
    /// The other side does not speak our language.
    Frame(FrameError),
    /// The call needs a VCPU, or jobs, or a job begun, which the calling thread has not.
    OutOfTurn(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRun => write!(f, "no run is alive here; start one with `maracas run`"),
            Self::NoSuchRun(pid) => write!(f, "no run with process {pid} is alive here"),
            Self::SeveralRuns(paths) => {
                write!(f, "several runs are alive; set MARACAS_SOCKET to one of:")?;
                paths.iter().try_for_each(|path| write!(f, " {}", path.display()))
            }
            Self::Socket(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Refused(refusal) => write!(f, "not admitted: {}", refusal.text),
            Self::Said(why) => f.write_str(why),
            Self::Frame(error) => write!(f, "the runtime sent {error}"),
            Self::OutOfTurn(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

impl From<FrameError> for Error {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}
