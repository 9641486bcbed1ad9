//! Known loads: what a counter must see, or it is not believed.

use crate::host::HardwareCore;
use std::io;
use std::time::Duration;

/// Work of which it is known what it does to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// Computes for this long in registers: no memory but by others.
    Compute(Duration),
    /// Reads so many lines, each of a random place in a buffer far greater than the last-level
    /// cache and each known only when the one before has come: so many misses, one at a time.
    Chase {
        /// Lines.
        lines: u64,
    },
    /// Reads so many lines of such a buffer at random places, many at a time.
    Scatter {
        /// Lines.
        lines: u64,
    },
}

pub(super) fn run(_core: HardwareCore, _load: Load) -> io::Result<Duration> {
    Err(io::ErrorKind::Unsupported.into())
}
