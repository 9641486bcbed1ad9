//! Counters of the hardware's events.

use crate::host::{HardwareCore, naming};
use crate::perf;
use std::os::fd::{BorrowedFd, RawFd};
use std::{fmt, io};

/// An event as `perf_event_open` wants it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EventCode {
    /// The number of the unit that counts it (`type` in its directory of sysfs; 4 = the core's own,
    /// raw).
    pub unit: u32,
    /// The event, its unit mask and whatever else the unit's `format` puts there.
    pub config: u64,
    /// The second word of it.
    pub config1: u64,
    /// The third.
    pub config2: u64,
}

impl fmt::Display for EventCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit, config, config1, config2 } = self;
        write!(f, "event {config:#x}")?;
        for (name, word) in [("config1", config1), ("config2", config2)] {
            if *word != 0 {
                write!(f, ", {name} {word:#x},")?;
            }
        }
        write!(f, " of unit {unit}")
    }
}

/// What is counted of.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    /// All that runs on a core; for units outside the cores, a core of their `cpumask`.
    Core(HardwareCore),
    /// All that runs on a core, and the counter can signal when it reaches a number
    /// ([`Counter::arm`]).
    AlarmedCore(HardwareCore),
    /// The threads of a control group (v2, by its directory) while they are on a core.
    Group(BorrowedFd<'a>, HardwareCore),
    /// The first thread of a process with all that it starts from here on, on all cores.
    Process(u32),
    /// The calling thread.
    ThisThread,
}

impl fmt::Display for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core(core) => write!(f, "core {core}"),
            Self::AlarmedCore(core) => write!(f, "core {core}, with an alarm"),
            Self::Group(_, core) => write!(f, "a control group on core {core}"),
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::ThisThread => f.write_str("this thread"),
        }
    }
}

/// A reading.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Count {
    /// Events since it was opened.
    pub value: u64,
    /// For how long it was wanted, in nanoseconds.
    pub wanted_ns: u64,
    /// For how long it counted: less where it had to take turns with others.
    pub counted_ns: u64,
}

impl Count {
    /// What was counted since `before`, extrapolated where the counter took turns (multiplexing).
    pub fn since(&self, before: &Self) -> u64 {
        let value = self.value.saturating_sub(before.value);
        let wanted = self.wanted_ns.saturating_sub(before.wanted_ns);
        let counted = self.counted_ns.saturating_sub(before.counted_ns);
        if counted == 0 || counted >= wanted {
            return value;
        }
        let scaled = u128::from(value) * u128::from(wanted) / u128::from(counted);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
    /// Whether it had to take turns since `before`.
    pub const fn took_turns(&self, before: &Self) -> bool {
        self.counted_ns.saturating_sub(before.counted_ns)
            < self.wanted_ns.saturating_sub(before.wanted_ns)
    }
}

/// No alarm is set closer than this: two microseconds at [`FASTEST_PER_US`], less than it takes to
/// set it. It fires once each time that it is set, so that this bounds nothing but waste.
pub const SHORTEST_ALARM: u64 = 500;
pub use maracas_live_core::FASTEST_PER_US;

/// A counter that counts.
pub trait Counter: Send {
    /// Reads it.
    ///
    /// # Errors
    /// Where it cannot be read any more.
    fn read(&mut self) -> io::Result<Count>;
    /// Becomes readable (`poll`) after `rest` more events, at least [`SHORTEST_ALARM`], once, in
    /// place of what was set before; only of [`Scope::AlarmedCore`].
    ///
    /// # Errors
    /// Where it cannot.
    fn arm(&mut self, rest: u64) -> io::Result<()>;
    /// Never becomes readable any more.
    ///
    /// # Errors
    /// Where it cannot.
    fn disarm(&mut self) -> io::Result<()>;
    /// What to wait for; `None` where it cannot signal.
    fn fd(&self) -> Option<RawFd>;
    /// When it last became readable, in nanoseconds of `CLOCK_MONOTONIC`; `None` where it never did
    /// or does not know.
    fn alarmed_at_ns(&self) -> Option<u64> {
        None
    }
}

pub(super) fn open(event: &EventCode, scope: Scope<'_>) -> io::Result<Box<dyn Counter>> {
    perf::hardware(event, scope).map_err(naming(format_args!("counting {event} of {scope}")))
}

#[cfg(test)]
mod tests;
