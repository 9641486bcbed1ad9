//! Costs that a computing thread sees: it reads the clock again and again, and whatever happens on
//! its core is a gap between two readings.
//!
//! It computes at the lowest real-time priority, so that the host's ordinary work does not show as
//! gaps and every program that is held by another run goes first.

use super::{SLEEP, SLEEPS};
use crate::clock::Clock;
use crate::host::{HardwareCore, sched, sys};
use maracas_core::{Duration, Instant};
use maracas_live_core::priority;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{ptr, thread};

/// Below all that runs hold in the foreground, which begins at 10.
const LOWEST: u8 = 1;
/// Gaps shorter than this many readings of the clock are the clock itself.
const READINGS: u64 = 8;
/// The most gaps that are kept: many times those that timers of ours make, since in a machine that
/// is emulated the clock itself makes some.
const MOST_GAPS: usize = 400 * SLEEPS;
/// So often is tried what others on the core may spoil.
const ATTEMPTS: usize = 3;
/// So long after a timer was due its interrupt is looked for: many times the slowest seen (40 us).
const WINDOW: Duration = Duration::from_micros(150);
/// With fewer measured, a median says nothing.
const FEWEST: usize = SLEEPS / 4;
/// So long is waited for a thread to begin.
const LATEST: Duration = Duration::from_secs(2);
/// No thread computes longer than this in one go, even if it is never asked to end: ten times what
/// all sleeps take.
const LONGEST: Duration = Duration::from_millis(200);
/// Round trips between two threads, of two switches each.
const TRIPS: usize = 200;

/// A stretch in which the computing thread did not compute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Gap {
    from: Instant,
    to: Instant,
}

/// What a timer costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Interrupt {
    /// What its interrupt takes of the core; `None` where too few came in time.
    pub(super) gap: Option<Duration>,
    /// What the call takes that sets it.
    pub(super) setting: Duration,
}

/// Runs `act` in a thread at a real-time priority on `core`.
fn on<T: Send>(core: HardwareCore, priority: u8, act: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // First the priority: an ordinary thread might wait long for the core.
            sched::set_fifo(0, priority, true)?;
            sched::set_affinity(0, core)?;
            Ok(act())
        });
        thread.join().map_err(|_| io::Error::other("a measuring thread died"))?
    })
}

/// The first of some attempts that succeeds. A right that lacks does not come.
fn attempt<T>(act: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let mut result = act();
    for _ in 1..ATTEMPTS {
        match &result {
            Err(error) if error.kind() == io::ErrorKind::Other => result = act(),
            Ok(_) | Err(_) => break,
        }
    }
    result
}

/// A timer interrupt on `core`, which wakes no thread, and the call before it.
pub(super) fn interrupt(core: HardwareCore) -> io::Result<Interrupt> {
    attempt(|| try_interrupt(core))
}

fn try_interrupt(core: HardwareCore) -> io::Result<Interrupt> {
    on(core, LOWEST, || {
        let (clock, timer) = (Clock::start(), timer()?);
        let (mut gaps, mut settings) = (Vec::new(), Vec::new());
        for _ in 0..SLEEPS {
            let begun = clock.now();
            let due = begun + SLEEP;
            set(&timer, clock.monotonic_ns(due))?;
            settings.push(clock.now().saturating_since(begun));
            let found = compute(&clock, |now| now < due + WINDOW);
            gaps.extend(around(&found, due).map(length));
            acknowledge(&timer);
            // Other threads that wait for the core have it between two tries.
            clock.sleep_until(clock.now() + SLEEP);
        }
        Ok(Interrupt { gap: median(gaps).ok(), setting: median(settings)? })
    })?
}

/// What a timed wake of a thread at the agents' priority takes of a thread that computes on `core`.
pub(super) fn taken(core: HardwareCore) -> io::Result<Duration> {
    attempt(|| try_taken(core))
}

fn try_taken(core: HardwareCore) -> io::Result<Duration> {
    let clock = Clock::start();
    let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let (found, dues) = thread::scope(|scope| {
        let computing = scope.spawn(|| {
            on(core, LOWEST, || {
                let end = clock.now() + LONGEST;
                compute(&clock, |now| {
                    begun.store(true, Ordering::Relaxed);
                    now < end && !over.load(Ordering::Relaxed)
                })
            })
        });
        let sleeping = on(core, priority::AGENT, || {
            // On a busy host it takes a while until the other one has its priority.
            let give_up = clock.now() + LATEST;
            while !begun.load(Ordering::Relaxed) && clock.now() < give_up {
                clock.sleep_until(clock.now() + SLEEP);
            }
            let sleep = |_| {
                let due = clock.now() + SLEEP;
                clock.sleep_until(due);
                due
            };
            let dues: Vec<_> = (0..SLEEPS).map(sleep).collect();
            // Here, since ordinary threads may wait for the core that is computed on.
            over.store(true, Ordering::Relaxed);
            dues
        });
        over.store(true, Ordering::Relaxed);
        let computed = computing.join().map_err(|_| io::Error::other("the thread died"))?;
        Ok::<_, io::Error>((computed?, sleeping?))
    })?;
    median(dues.iter().filter_map(|due| around(&found, *due)).map(length).collect())
}

/// Half of a round trip between two threads on `core` that wake each other.
pub(super) fn switch(core: HardwareCore) -> io::Result<Duration> {
    let (there, back, over) = (wakeup()?, wakeup()?, AtomicBool::new(false));
    thread::scope(|scope| {
        let answering = scope.spawn(|| {
            on(core, priority::AGENT, || {
                while wait(&there) && !over.load(Ordering::Relaxed) {
                    ring(&back);
                }
            })
        });
        let asked = on(core, priority::AGENT, || {
            let clock = Clock::start();
            let trip = |_| {
                let begun = clock.now();
                ring(&there);
                wait(&back).then(|| clock.now().saturating_since(begun))
            };
            (0..TRIPS).filter_map(trip).collect::<Vec<_>>()
        });
        over.store(true, Ordering::Relaxed);
        ring(&there);
        answering.join().map_err(|_| io::Error::other("a measuring thread died"))??;
        Ok(Duration::from_nanos(median(asked?)?.ticks() / 2))
    })
}

/// A descriptor that a call returned.
fn own(result: i32) -> io::Result<File> {
    sys::check(result.into())?;
    // SAFETY: new, and not shared.
    Ok(unsafe { File::from_raw_fd(result) })
}

/// A timer on the machine's clock.
fn timer() -> io::Result<File> {
    let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
    // SAFETY: plain arguments.
    own(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })
}

fn set(timer: &File, at_ns: u64) -> io::Result<()> {
    let once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let at = libc::timespec {
        tv_sec: (at_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (at_ns % 1_000_000_000) as libc::c_long,
    };
    let setting = libc::itimerspec { it_interval: once, it_value: at };
    let (fd, null) = (timer.as_raw_fd(), ptr::null_mut());
    // SAFETY: the setting is ours and only read.
    let result =
        unsafe { libc::timerfd_settime(fd, libc::TFD_TIMER_ABSTIME, &raw const setting, null) };
    sys::check(result.into()).map(drop)
}

/// An `eventfd`.
fn wakeup() -> io::Result<File> {
    // SAFETY: plain arguments.
    own(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

fn ring(mut wakeup: &File) {
    // It cannot be full after two rings.
    let _ = wakeup.write(&1u64.to_ne_bytes());
}

/// Takes what a timer or an `eventfd` reported; an error only says that it reported nothing.
fn acknowledge(mut file: &File) {
    let _ = file.read(&mut [0; 8]);
}

/// Sleeps until it rings; whether it did within a second.
fn wait(wakeup: &File) -> bool {
    let mut poll = libc::pollfd { fd: wakeup.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure of our own.
    let ready = unsafe { libc::poll(&raw mut poll, 1, 1000) } == 1;
    acknowledge(wakeup);
    ready
}

/// Computes while `goes_on` says so of the time, and returns what it did not compute in.
fn compute(clock: &Clock, goes_on: impl Fn(Instant) -> bool) -> Vec<Gap> {
    let mut readings: Vec<_> = (0..2 * FEWEST).map(|_| clock.now()).collect();
    let mut last = readings.pop().unwrap_or_default();
    let reading =
        median(readings.windows(2).map(|pair| pair[1].saturating_since(pair[0])).collect());
    let least = reading.unwrap_or_default() * READINGS;
    let mut gaps = Vec::with_capacity(MOST_GAPS);
    while goes_on(last) && gaps.len() < MOST_GAPS {
        let now = clock.now();
        if now.saturating_since(last) >= least {
            gaps.push(Gap { from: last, to: now });
        }
        last = now;
    }
    gaps
}

/// The gap in which a timer that was due then was served: the first that was not over before.
fn around(gaps: &[Gap], due: Instant) -> Option<Gap> {
    let first = gaps.iter().copied().find(|gap| gap.to > due)?;
    (first.from <= due + WINDOW).then_some(first)
}

const fn length(gap: Gap) -> Duration {
    gap.to.saturating_since(gap.from)
}

fn median(mut times: Vec<Duration>) -> io::Result<Duration> {
    times.sort_unstable();
    if times.len() < FEWEST {
        let what = format!("{} of {SLEEPS} tries could be measured", times.len());
        return Err(io::Error::other(what));
    }
    Ok(times[times.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn a_timer_is_served_in_the_first_gap_that_ends_after_it() {
        let gap = |from, to| Gap { from: at(from), to: at(to) };
        let gaps = [gap(10, 30), gap(95, 130), gap(140, 150)];
        assert_eq!(around(&gaps, at(100)), Some(gaps[1]), "it began before");
        assert_eq!(around(&gaps, at(90)), Some(gaps[1]), "its interrupt was late");
        assert_eq!(around(&gaps, at(130)), Some(gaps[2]), "what is over served it not");
        assert_eq!(around(&gaps, at(151)), None);
        let far = [gap(400, 410)];
        assert_eq!(around(&far, at(100)), None, "too late to be its own");
        assert_eq!(length(gaps[1]), Duration::from_micros(35));
    }

    #[test]
    fn what_others_spoil_is_tried_again_and_what_is_refused_is_not() {
        use std::cell::Cell;
        let tries = |fails: usize, kind: io::ErrorKind| {
            let count = Cell::new(0);
            let act = || {
                count.set(count.get() + 1);
                if count.get() > fails { Ok(()) } else { Err(io::Error::from(kind)) }
            };
            (attempt(act).is_ok(), count.get())
        };
        let spoilt = [0, 2, 3].map(|fails| tries(fails, io::ErrorKind::Other));
        assert_eq!(spoilt, [(true, 1), (true, 3), (false, 3)]);
        assert_eq!(tries(1, io::ErrorKind::PermissionDenied), (false, 1));
    }

    #[test]
    fn a_median_of_too_few_is_refused() {
        let times = |count| vec![Duration::from_micros(3); count];
        assert_eq!(median(times(FEWEST)).unwrap(), Duration::from_micros(3));
        let error = median(times(FEWEST - 1)).unwrap_err().to_string();
        assert_eq!(error, "24 of 100 tries could be measured");
    }
}
