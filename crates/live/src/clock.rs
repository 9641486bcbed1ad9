//! The one clock of the live machine: `CLOCK_MONOTONIC`, counted from the run's start. Timers and
//! switch records use the same clock, so no two clocks are ever compared.

use maracas_core::{Duration, Instant};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Translates between the kernel's monotonic nanoseconds and the machine's instants. Clones show
/// the same time.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    start_ns: Arc<AtomicU64>,
}

impl Clock {
    /// A clock that reads zero now.
    pub(crate) fn start() -> Self {
        Self { start_ns: Arc::new(AtomicU64::new(monotonic_ns())) }
    }
    /// Reads zero now, as do all clones. Preparations do not count as part of a run.
    pub(crate) fn restart(&self) {
        self.start_ns.store(monotonic_ns(), Ordering::Relaxed);
    }
    /// Time since the start.
    pub(crate) fn now(&self) -> Instant {
        self.instant(monotonic_ns())
    }
    /// The instant of a kernel time stamp; what lies before the start counts as the start.
    pub(crate) fn instant(&self, monotonic_ns: u64) -> Instant {
        Instant::from_ticks(monotonic_ns.saturating_sub(self.start_ns.load(Ordering::Relaxed)))
    }
    /// Sleeps until `at`, or not at all where that has passed.
    pub(crate) fn sleep_until(&self, at: Instant) {
        let at_ns = self.monotonic_ns(at);
        let until = Timespec {
            tv_sec: (at_ns / 1_000_000_000) as i64,
            tv_nsec: (at_ns % 1_000_000_000) as _,
        };
        // A signal ends the sleep early; the caller looks at the clock again.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
    }
    /// The kernel's time of an instant, for timers.
    pub(crate) fn monotonic_ns(&self, at: Instant) -> u64 {
        let start = Duration::from_ticks(self.start_ns.load(Ordering::Relaxed));
        at.saturating_add(start).ticks()
    }
}

/// The kernel's monotonic time, in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// The processor time of the calling thread, in nanoseconds.
pub(crate) fn thread_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

const fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
