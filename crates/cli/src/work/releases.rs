//! Where a program's jobs come from: its own clock, outside of a runtime.

use super::pace::std_duration;
use crate::failure::Failure;
use crate::output;
use maracas_core::Duration;
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::Timespec;
use std::sync::atomic::{AtomicBool, Ordering};

/// Releases by the program's own clock: job k at start + k T on the absolute monotonic clock, so
/// that a late job delays no later release.
pub(super) struct OwnClock {
    start_ns: u64,
    period_ns: u64,
    next: u64,
    late: u64,
    worst_ns: u64,
}

fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl OwnClock {
    fn begin(period: Duration) -> Self {
        let period_ns = std_duration(period).as_nanos() as u64;
        Self { start_ns: monotonic_ns(), period_ns, next: 0, late: 0, worst_ns: 0 }
    }
    fn release_ns(&self, job: u64) -> u64 {
        self.start_ns.saturating_add(job.saturating_mul(self.period_ns))
    }
    /// Sleeps until the next release; false where `stop` was raised meanwhile.
    fn wait(&mut self, stop: &AtomicBool) -> bool {
        let release = self.release_ns(self.next);
        let until = Timespec {
            tv_sec: (release / 1_000_000_000) as i64,
            tv_nsec: (release % 1_000_000_000) as i64,
        };
        while monotonic_ns() < release {
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            // A signal ends the sleep early; the loop looks at the flag and the clock again.
            let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
        }
        self.next += 1;
        true
    }
    fn done(&mut self) {
        let response = monotonic_ns() - self.release_ns(self.next - 1);
        self.worst_ns = self.worst_ns.max(response);
        self.late += u64::from(response > self.period_ns);
    }
    fn spare(&self) -> bool {
        monotonic_ns() < self.release_ns(self.next)
    }
}

/// A source of releases.
pub(super) enum Releases {
    /// This program's own clock.
    Own(OwnClock),
}

impl Releases {
    /// Finds the runtime, or else begins an own clock of this period and says so.
    pub(super) fn begin(period: Duration) -> Result<Self, Failure> {
        output::note(&format!("no runtime here: jobs are released every {period} by own clock"));
        Ok(Self::Own(OwnClock::begin(period)))
    }
    /// Waits for the next job; false where the work shall end.
    pub(super) fn wait(&mut self, stop: &AtomicBool) -> Result<bool, Failure> {
        match self {
            Self::Own(clock) => Ok(clock.wait(stop)),
        }
    }
    /// Says that the current job is done.
    pub(super) fn done(&mut self) -> Result<(), Failure> {
        match self {
            Self::Own(clock) => clock.done(),
        }
        Ok(())
    }
    /// Whether there is time left for optional work before the next job.
    pub(super) fn spare(&mut self) -> Result<bool, Failure> {
        match self {
            Self::Own(clock) => Ok(clock.spare()),
        }
    }
    /// Jobs that ended after their deadline.
    pub(super) fn late(&self) -> u64 {
        match self {
            Self::Own(clock) => clock.late,
        }
    }
    /// Longest time from a release to the job's end.
    pub(super) fn worst_response_ns(&self) -> u64 {
        match self {
            Self::Own(clock) => clock.worst_ns,
        }
    }
}
