//! What Linux can do for us, tried and not assumed: control groups, scheduling calls, starting
//! programs, and the probe that says what works on this host and why the rest does not.
//!
//! Nothing here decides when anything runs; the machine does, and calls what stands here.

pub mod cgroup;
pub mod chase;
pub(crate) mod claim;
pub mod classes;
pub mod costs;
pub(crate) mod futex;
pub mod hardware;
pub mod held;
mod identity;
pub mod launch;
pub(crate) mod perf;
pub mod platform;
pub mod probe;
pub mod resctrl;
pub mod rights;
pub(crate) mod run_directory;
pub mod sched;
pub(crate) mod shared_page;
pub mod snapshot;
pub mod switches;
pub(crate) mod sys;
pub(crate) mod wait;

pub(crate) use identity::after_name;
pub use identity::{Identity, own_namespace};

use std::{fmt, io};

/// A core as the kernel numbers it. The system's `CoreId` counts only the managed cores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HardwareCore(pub u32);

impl fmt::Display for HardwareCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The cores of a run as sensors number them.
pub type Cores = [(maracas_core::CoreId, HardwareCore)];

fn bad_data(what: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what}: not in the expected form"))
}

/// An error of the kernel with the file or act that it concerned.
#[derive(Debug)]
struct Named {
    what: String,
    source: io::Error,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl std::error::Error for Named {}

/// Adds to an error of the kernel what it concerned; kind and [`os_code`] stay.
pub(crate) fn naming(what: impl fmt::Display) -> impl FnOnce(io::Error) -> io::Error {
    move |source| io::Error::new(source.kind(), Named { what: what.to_string(), source })
}

/// The kernel's error number, also of an error to which a path has been added.
pub fn os_code(error: &io::Error) -> Option<i32> {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Named>());
    inner.map_or(error.raw_os_error(), |named| os_code(&named.source))
}

#[cfg(test)]
pub(crate) mod tests;
