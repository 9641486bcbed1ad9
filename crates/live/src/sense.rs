//! Sensing shared memory: sensors in order of preference behind one trait.
//!
//! A sensor counts what all of memory did: requests, the sum over time of requests under way
//! (occupancy), and requests by core. Which one is used is found by trying ([`preference`]): from
//! the unit that counts both for the whole machine down to a pointer chase that feels others, each
//! offered only when a known load moved it as it must. [`replay`] is no sensor: it plays what was
//! recorded, so that every policy can be run anywhere.
//!
//! What the machine does with them: a sensor answers `ServiceRequest::Sample`; a [`Meter`] is a
//! core's own count, against which allowances are held; [`VcpuEvents`] are counted for each VCPU
//! and reported in its segments.

pub mod chase;
mod counting;
pub mod events;
#[cfg(test)]
pub(crate) mod fakes;
pub mod faults;
pub mod meter;
pub mod preference;
pub mod replay;
pub mod sensors;
pub mod sysfs;

pub use crate::host::Cores;
pub use crate::host::hardware::{EventCode, VcpuEvents};
pub use counting::Counting;
use maracas_core::Instant;
pub use maracas_core::sensor::{Sense, SensorKind};
use std::os::fd::RawFd;
use std::{fmt, io};

/// What a sensor has counted since it was opened.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reading {
    /// Requests that memory took.
    pub requests: u64,
    /// Sum over the sensor's cycles of requests under way; 0 where it knows no latency.
    pub occupancy: u64,
    /// Requests by core, by `CoreId`; zeros where it does not know.
    pub by_core: Vec<u64>,
}

/// Something that senses shared memory.
pub trait Sensor: Send {
    /// Which kind it is.
    fn sensor_kind(&self) -> SensorKind;
    /// One line: what it reads, such as `AMD fill latency: cpu/event=0x5f/ over ...`.
    fn describe(&self) -> String;
    /// Cycles of the clock in which it counts occupancy, per microsecond.
    fn cycles_per_us(&self) -> u64;
    /// Reads everything, as of `now`: what was counted since it was opened. A few microseconds.
    ///
    /// # Errors
    /// Where a counter is gone: rights lost, a core off line.
    fn read(&mut self, now: Instant, into: &mut Reading) -> io::Result<()>;
    /// What is to be said of its counting so far: shared counters, zeros; `None` = nothing.
    fn remark(&self) -> Option<String>;
}

/// The memory meter of one core: reads of memory by all that ran there.
pub trait Meter: Send {
    /// What it has counted since it was opened, as of `now`.
    ///
    /// # Errors
    /// Where it cannot be read any more.
    fn read(&mut self, now: Instant) -> io::Result<u64>;
    /// Is to signal when it reaches `limit`; `None` = not at all. It may signal too early: the
    /// waiting thread reads it and arms it again. Does nothing where it cannot signal.
    ///
    /// # Errors
    /// Where the kernel refuses.
    fn arm(&mut self, limit: Option<u64>) -> io::Result<()>;
    /// It signalled: whatever it was asked for is to be set anew.
    fn rang(&mut self) {}
    /// What becomes readable then; `None` where it must be asked again and again.
    fn fd(&self) -> Option<RawFd>;
    /// The first instant at which it will read `limit` or more, where that is known beforehand (of
    /// a recording): a timer set to it is as good as an alarm. `None` where it is not known.
    fn due(&self, _limit: u64) -> Option<Instant> {
        None
    }
}

/// All that a run senses.
#[derive(Default)]
pub struct Senses {
    /// What answers `ServiceRequest::Sample`; `None` = nothing can.
    pub sensor: Option<Box<dyn Sensor>>,
    /// The meters of the cores, by `CoreId`; empty where there are none.
    pub meters: Vec<Box<dyn Meter>>,
    /// What is counted of every VCPU.
    pub vcpus: VcpuEvents,
    /// The event of reads that interrupts each core when it overflows: what the scheduler in the
    /// kernel counts them by. `None` = there is none, or the cores have several.
    pub overflows: Option<EventCode>,
    /// What users should know, one sentence each: what could not be sensed, and why.
    pub notes: Vec<String>,
}

impl fmt::Debug for Senses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sensor = self.sensor.as_ref().map(|sensor| sensor.describe());
        let Self { meters, vcpus, notes, .. } = self;
        f.debug_struct("Senses")
            .field("sensor", &sensor)
            .field("meters", &meters.len())
            .field("vcpus", vcpus)
            .field("notes", notes)
            .finish()
    }
}
