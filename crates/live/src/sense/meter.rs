//! Meters of the cores, over counters of the hardware; and how soon a limit is noticed.

use super::Meter;
use crate::clock::Clock;
use crate::host::hardware::{Count, Counter, EventCode, Hardware, Load, SHORTEST_ALARM, Scope};
use crate::host::{HardwareCore, sched, sys};
use maracas_core::Instant;
use maracas_live_core::priority;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fmt, io, thread};

/// Opens the meter of a core: what it counts of `event`. Where the unit can, it signals by itself
/// when a limit is reached, which is tried (a millisecond); else it has no descriptor and must be
/// asked.
///
/// # Errors
/// As the kernel says, where the event cannot be counted on that core.
pub fn open(
    hardware: &dyn Hardware,
    event: &EventCode,
    core: HardwareCore,
) -> io::Result<Box<dyn Meter>> {
    let counter = open_counter(hardware, event, core)?;
    Ok(Box::new(CoreMeter::new(counter)))
}

/// The same for one that is only asked.
///
/// # Errors
/// As beside.
pub(super) fn open_silent(
    hardware: &dyn Hardware,
    event: &EventCode,
    core: HardwareCore,
) -> io::Result<Box<dyn Meter>> {
    Ok(Box::new(CoreMeter::new(hardware.open(event, Scope::Core(core))?)))
}

fn open_counter(
    hardware: &dyn Hardware,
    event: &EventCode,
    core: HardwareCore,
) -> io::Result<Box<dyn Counter>> {
    // Whatever speaks against an alarm: where it is the rights, the second fails too and says so.
    if let Ok(mut counter) = hardware.open(event, Scope::AlarmedCore(core))
        && rings(hardware, &mut *counter, core).unwrap_or(false)
    {
        return Ok(counter);
    }
    hardware.open(event, Scope::Core(core))
}

/// Whether its alarm comes when it must: some hypervisors count and never interrupt, and a limit
/// would then go unnoticed.
fn rings(
    hardware: &dyn Hardware,
    counter: &mut dyn Counter,
    core: HardwareCore,
) -> io::Result<bool> {
    const TRIAL: u64 = 4 * SHORTEST_ALARM;
    let Some(fd) = counter.fd() else { return Ok(false) };
    counter.arm(TRIAL)?;
    // Half a millisecond; an event that one line in ten moves is enough.
    hardware.load(core, Load::Scatter { lines: 10 * TRIAL })?;
    let rang = is_ready(fd, Duration::from_millis(10));
    counter.disarm()?;
    is_ready(fd, Duration::ZERO);
    Ok(rang)
}

struct CoreMeter {
    counter: Box<dyn Counter>,
    seen: Count,
    total: u64,
    alarm: Option<Alarm>,
}

/// What the kernel was asked for: to signal at a reading, once.
#[derive(Clone, Copy)]
struct Alarm {
    next: u64,
    /// It is not wanted any more.
    idle: bool,
}

impl Alarm {
    /// Whether it does for `limit`, since it comes just then or half way to it: to set another
    /// takes the kernel 3 us on bare metal and 11 us in a guest.
    const fn serves(&self, limit: u64, total: u64) -> bool {
        // Before the limit enough must be left for another.
        let early = self.next.saturating_add(2 * SHORTEST_ALARM) <= limit;
        self.next == limit || early && self.next - total >= (limit - total) / 2
    }
}

impl CoreMeter {
    fn new(counter: Box<dyn Counter>) -> Self {
        Self { counter, seen: Count::default(), total: 0, alarm: None }
    }
    fn count(&mut self) -> io::Result<u64> {
        let count = self.counter.read()?;
        self.total = self.total.saturating_add(count.since(&self.seen));
        self.seen = count;
        // It has fired, or is about to, for it counts from a little later on.
        self.alarm = self.alarm.filter(|alarm| alarm.next > self.total);
        Ok(self.total)
    }
    /// The first time an alarm is only forgotten, since it is often wanted again before it rings;
    /// should it ring, this is asked once more.
    fn disarm(&mut self) -> io::Result<()> {
        match &mut self.alarm {
            Some(alarm) if !alarm.idle => alarm.idle = true,
            Some(_) => {
                self.counter.disarm()?;
                self.alarm = None;
            }
            None => {}
        }
        Ok(())
    }
}

impl Meter for CoreMeter {
    fn read(&mut self, _now: Instant) -> io::Result<u64> {
        self.count()
    }
    fn arm(&mut self, limit: Option<u64>) -> io::Result<()> {
        if self.counter.fd().is_none() {
            return Ok(());
        }
        let Some(limit) = limit else { return self.disarm() };
        let total = self.count()?;
        if let Some(alarm) = self.alarm.as_mut().filter(|alarm| alarm.serves(limit, total)) {
            alarm.idle = false;
            return Ok(());
        }
        let distance = limit.saturating_sub(total).max(SHORTEST_ALARM);
        self.counter.arm(distance)?;
        self.alarm = Some(Alarm { next: total.saturating_add(distance), idle: false });
        Ok(())
    }
    fn rang(&mut self) {
        self.alarm = None;
    }
    fn fd(&self) -> Option<RawFd> {
        self.counter.fd()
    }
}

/// How a limit is noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Noticing {
    /// The counter's overflow wakes the waiting thread.
    Alarm,
    /// The counter is read again and again, at this distance.
    Polling(Duration),
}

impl fmt::Display for Noticing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alarm => f.write_str("by the counter's overflow"),
            Self::Polling(period) => write!(f, "by asking every {period:?}"),
        }
    }
}

/// Times from the instant at which a core's counter reached a limit until a thread that waits for
/// it ran on that core, under a known load; and what was counted beyond the limit by then. The
/// instant is the kernel's time stamp, so that it lacks what the interrupt took to come; that shows
/// in the count alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reaction {
    /// How it was noticed.
    pub noticing: Noticing,
    /// Whether the waiting thread was `SCHED_FIFO`, as the machine's are.
    pub fifo: bool,
    /// How many times were measured.
    pub n: usize,
    /// The median.
    pub p50: Duration,
    /// What one in a hundred exceeds.
    pub p99: Duration,
    /// The longest.
    pub longest: Duration,
    /// The median of the events beyond the limit.
    pub beyond_p50: u64,
    /// What one in a hundred exceeds.
    pub beyond_p99: u64,
}

impl fmt::Display for Reaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = if self.fifo { "" } else { " by a thread without real-time rights" };
        let Self { noticing, n, p50, p99, longest, beyond_p50, beyond_p99, .. } = self;
        let [p50, p99, longest] = [p50, p99, longest].map(|took| took.as_secs_f64() * 1e6);
        write!(f, "{noticing}{class}: p50 {p50:.1} us, p99 {p99:.1} us, max {longest:.1} us; ")?;
        write!(f, "{beyond_p50} events beyond the mark, p99 {beyond_p99} (n = {n})")
    }
}

/// Events from one limit to the next: 0.1 ms of a core that reads as fast as it can.
const STEP: u64 = 10_000;
/// Limits waited for; the second longest time is the 99th percentile.
const TRIALS: usize = 200;
/// Fewer say nothing of a percentile.
const FEWEST: usize = 20;
/// So long is tried, which the limits alone never take.
const LONGEST: Duration = Duration::from_secs(2);

/// Measures how soon `core` notices that it reached a limit of `event`: by alarm where the unit
/// can, else by polling at `period`. Takes some tens of milliseconds, in which the core is loaded.
///
/// # Errors
/// Where the event cannot be counted there, the load cannot be run, or does not move it.
pub fn reaction(
    hardware: &dyn Hardware,
    event: &EventCode,
    core: HardwareCore,
    period: Duration,
) -> io::Result<Reaction> {
    let counter = open_counter(hardware, event, core)?;
    let (done, broken) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let loading = scope.spawn(|| {
            let mut result = Ok(Duration::ZERO);
            while !done.load(Ordering::Relaxed) && result.is_ok() {
                // Some milliseconds, so that a waiter that gives up does not wait for it long.
                result = hardware.load(core, Load::Scatter { lines: 500_000 });
            }
            broken.store(result.is_err(), Ordering::Relaxed);
            result.map(drop)
        });
        let waiting = scope.spawn(|| {
            let waited = Waiter::new(counter, core).and_then(|waiter| waiter.run(period, &broken));
            done.store(true, Ordering::Relaxed);
            waited
        });
        let died = || io::Error::other("a thread of the measurement died");
        let waited = waiting.join().map_err(|_| died())?;
        loading.join().map_err(|_| died())??;
        waited
    })
}

/// The thread that waits for limits, on the core that is counted.
struct Waiter {
    counter: Box<dyn Counter>,
    clock: Clock,
    fifo: bool,
}

impl Waiter {
    fn new(counter: Box<dyn Counter>, core: HardwareCore) -> io::Result<Self> {
        sched::set_affinity(0, core)?;
        // Without the right to it a slower reaction is measured, and said so.
        let fifo = sched::set_fifo(0, priority::AGENT, true).is_ok();
        Ok(Self { counter, clock: Clock::start(), fifo })
    }

    fn run(mut self, period: Duration, broken: &AtomicBool) -> io::Result<Reaction> {
        let noticing = match self.counter.fd() {
            Some(_) => Noticing::Alarm,
            None => Noticing::Polling(period),
        };
        let (mut times, mut beyond) = (Vec::with_capacity(TRIALS), Vec::with_capacity(TRIALS));
        let end = std::time::Instant::now() + LONGEST;
        let in_time = || std::time::Instant::now() < end && !broken.load(Ordering::Relaxed);
        while times.len() < TRIALS && in_time() {
            let noticed = match self.counter.fd() {
                Some(fd) => self.alarmed(fd)?,
                None => self.polled(period, times.len())?,
            };
            times.extend(noticed.map(|it| it.0));
            beyond.extend(noticed.map(|it| it.1));
        }
        if times.len() < FEWEST {
            let n = times.len();
            let what = format!("under a known load it was noticed only {n} times in {LONGEST:?}");
            return Err(io::Error::other(what));
        }
        times.sort_unstable();
        beyond.sort_unstable();
        let at = |percent: usize| (times.len() - 1) * percent / 100;
        Ok(Reaction {
            noticing,
            fifo: self.fifo,
            n: times.len(),
            p50: times[at(50)],
            p99: times[at(99)],
            longest: times[at(100)],
            beyond_p50: beyond[at(50)],
            beyond_p99: beyond[at(99)],
        })
    }

    /// `None` where no alarm came, or one of before.
    fn alarmed(&mut self, fd: RawFd) -> io::Result<Option<(Duration, u64)>> {
        is_ready(fd, Duration::ZERO);
        let before = self.counter.read()?;
        self.counter.arm(STEP)?;
        let ready = is_ready(fd, Duration::from_millis(100));
        let now = self.clock.now();
        let at = self.counter.alarmed_at_ns();
        let beyond = self.counter.read()?.since(&before).checked_sub(STEP);
        self.counter.disarm()?;
        let (Some(at_ns), Some(beyond), true) = (at, beyond, ready) else { return Ok(None) };
        let late = now.saturating_since(self.clock.instant(at_ns));
        Ok(Some((Duration::from_nanos(late.ticks()), beyond)))
    }

    /// A limit may be reached anywhere between two readings, and is noticed by the second. `None`
    /// where nothing was counted in between.
    fn polled(&mut self, period: Duration, trial: usize) -> io::Result<Option<(Duration, u64)>> {
        let (before, start) = (self.counter.read()?, self.clock.now());
        thread::sleep(period);
        let gained = self.counter.read()?.since(&before);
        let length = self.clock.now().saturating_since(start).ticks();
        // Multiples of the golden ratio lie evenly, however many there are (Knuth, TAOCP 3, 6.4).
        let place = (trial as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let share = |of: u64| ((u128::from(of) * u128::from(place)) >> 64) as u64;
        Ok((gained > 0).then(|| (Duration::from_nanos(share(length)), share(gained))))
    }
}

/// Whether `fd` becomes readable within `longest`.
fn is_ready(fd: RawFd, longest: Duration) -> bool {
    let mut set = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
    let ready = sys::poll(&mut set, longest.as_millis() as i32);
    ready.is_ok_and(|ready| ready == 1) && set[0].revents & libc::POLLIN != 0
}

#[cfg(test)]
mod tests;
