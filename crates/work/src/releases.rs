//! Where a program's jobs come from: the runtime that started it, or its own clock.

use super::pace::std_duration;
use crate::clock::monotonic_ns;
use maracas_client::{Connection, Error, Job, Jobs, Mode};
use maracas_console::failure::Failure;
use maracas_console::output;
use maracas_core::control::{SOCKET_VARIABLE, VCPU_VARIABLE};
use maracas_core::{Duration, Instant, VcpuId};
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::Timespec;
use std::sync::Arc;
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

/// Releases by the runtime.
pub(super) struct FromRuntime {
    jobs: Jobs,
    job: Option<Job>,
    /// When this program was there. Jobs that were released before paid for its start: it does no
    /// work for them, or the first one would need more than its C and all later ones be late.
    since: Instant,
    /// While set, SIGTERM ends the program at once: a wait for the next job would not notice.
    waiting: Arc<AtomicBool>,
    late: u64,
    worst_ns: u64,
}

impl FromRuntime {
    /// The jobs of the VCPU on which a run started this program; `None` outside of a run.
    fn begin() -> Result<Option<Self>, Failure> {
        if std::env::var_os(SOCKET_VARIABLE).is_none() {
            return Ok(None);
        }
        let vcpu = std::env::var(VCPU_VARIABLE).ok().and_then(|number| number.parse().ok());
        let Some(vcpu) = vcpu.map(VcpuId) else { return Ok(None) };
        let jobs = Connection::open().and_then(|connection| connection.jobs(vcpu));
        let jobs = jobs.map_err(|error| Failure::about("the runtime's jobs", error))?;
        let waiting = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
            let condition = Arc::clone(&waiting);
            signal_hook::flag::register_conditional_shutdown(signal, 0, condition)
                .map_err(|error| Failure::about("a signal handler cannot be set", error))?;
        }
        let since = jobs.now();
        Ok(Some(Self { jobs, job: None, since, waiting, late: 0, worst_ns: 0 }))
    }
    /// Waits for the next job; false where the run ends.
    fn wait(&mut self, stop: &AtomicBool) -> Result<bool, Failure> {
        self.waiting.store(true, Ordering::SeqCst);
        if stop.load(Ordering::SeqCst) {
            return Ok(false);
        }
        let mut job = self.jobs.wait();
        // The next wait reports the end of one that is passed over.
        while job.as_ref().is_ok_and(|job| job.release < self.since) {
            job = self.jobs.wait();
        }
        self.waiting.store(false, Ordering::SeqCst);
        match job {
            Ok(job) => {
                self.job = Some(job);
                Ok(true)
            }
            // The socket closes when the run ends.
            Err(Error::Socket(..)) => Ok(false),
            Err(error) => Err(Failure::about("the runtime's jobs", error)),
        }
    }
    fn done(&mut self) -> Result<(), Failure> {
        let now = self.jobs.now();
        if let Some(job) = self.job {
            self.worst_ns = self.worst_ns.max(now.saturating_since(job.release).ticks());
            self.late += u64::from(now > job.deadline);
        }
        match self.jobs.done() {
            Ok(()) | Err(Error::Socket(..)) => Ok(()),
            Err(error) => Err(Failure::about("the runtime's jobs", error)),
        }
    }
    fn spare(&self) -> bool {
        self.job.is_some_and(|job| self.jobs.now() < job.deadline)
    }
}

/// A source of releases.
pub(super) enum Releases {
    /// The runtime that started this program.
    Runtime(FromRuntime),
    /// This program's own clock.
    Own(OwnClock),
}

impl Releases {
    /// Finds the runtime, or else begins an own clock of this period and says so.
    pub(super) fn begin(period: Duration) -> Result<Self, Failure> {
        if let Some(runtime) = FromRuntime::begin()? {
            return Ok(Self::Runtime(runtime));
        }
        output::note(&format!("no runtime here: jobs are released every {period} by own clock"));
        Ok(Self::Own(OwnClock::begin(period)))
    }
    /// Waits for the next job; false where the work must end.
    pub(super) fn wait(&mut self, stop: &AtomicBool) -> Result<bool, Failure> {
        match self {
            Self::Runtime(runtime) => runtime.wait(stop),
            Self::Own(clock) => Ok(clock.wait(stop)),
        }
    }
    /// Says that the current job is done.
    pub(super) fn done(&mut self) -> Result<(), Failure> {
        match self {
            Self::Runtime(runtime) => runtime.done(),
            Self::Own(clock) => {
                clock.done();
                Ok(())
            }
        }
    }
    /// Whether there is time left for optional work: the current job's deadline lies ahead.
    pub(super) fn spare(&self) -> bool {
        match self {
            Self::Runtime(runtime) => runtime.spare(),
            Self::Own(clock) => clock.spare(),
        }
    }
    /// Whether this thread runs on surplus time now; always false outside of a runtime.
    pub(super) fn in_background(&self) -> bool {
        match self {
            Self::Runtime(_) => maracas_client::mode() == Mode::Background,
            Self::Own(_) => false,
        }
    }
    /// Jobs that ended after their deadline.
    pub(super) const fn late(&self) -> u64 {
        match self {
            Self::Runtime(runtime) => runtime.late,
            Self::Own(clock) => clock.late,
        }
    }
    /// Longest time from a release to the job's end.
    pub(super) const fn worst_response_ns(&self) -> u64 {
        match self {
            Self::Runtime(runtime) => runtime.worst_ns,
            Self::Own(clock) => clock.worst_ns,
        }
    }
}
