//! Known loads: what a counter must see, or it is not believed.

mod lines;

pub use lines::{Lines, release};

use crate::host::{HardwareCore, naming, sched};
use std::hint::black_box;
use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

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

/// Does `load` on `core`, in a thread of its own: where ours may run is not touched. What is
/// returned is the time of the work alone, without preparing for it, by the clock on the wall: the
/// counters of a core count every thread on it, and of some trials the shortest by that clock is
/// the one that others disturbed least.
pub(super) fn run(core: HardwareCore, load: Load) -> io::Result<Duration> {
    by_clock(core, load, libc::CLOCK_MONOTONIC)
}

/// The same by the clock of the thread: its time on the core, whichever thread had the core
/// meanwhile.
///
/// # Errors
/// Where the core cannot be used, or there is no memory.
pub fn time_on_core(core: HardwareCore, load: Load) -> io::Result<Duration> {
    by_clock(core, load, libc::CLOCK_THREAD_CPUTIME_ID)
}

fn by_clock(core: HardwareCore, load: Load, clock: libc::clockid_t) -> io::Result<Duration> {
    within(longest(load), core, move || work(load, clock))
}

/// No load takes longer on a core that can be had: 10 us a line is more than any memory takes, and
/// the buffer is prepared in a second.
fn longest(load: Load) -> Duration {
    const BASE: Duration = Duration::from_secs(3);
    BASE + match load {
        Load::Compute(length) => length,
        Load::Chase { lines } | Load::Scatter { lines } => Duration::from_micros(10 * lines),
    }
}

/// Does `work` on `core`. Where a thread of higher real-time priority keeps the core, a thread of
/// ours would wait there for good: it is then given up, and ends when it gets its turn.
fn within<T: Send + 'static>(
    longest: Duration,
    core: HardwareCore,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let died = || io::Error::other("the thread of a known load died");
    let (sender, receiver) = mpsc::channel();
    let working = thread::Builder::new().name("load".into()).spawn(move || {
        let there = sched::set_affinity(0, core);
        let there = there.map_err(naming(format_args!("going to core {core}")));
        // There is no receiver any more where it was given up.
        let _ = sender.send(there.and_then(|()| work()));
    })?;
    match receiver.recv_timeout(longest) {
        // What it does to its end would be counted too.
        Ok(result) => working.join().map_err(|_| died()).and(result),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(died()),
        Err(mpsc::RecvTimeoutError::Timeout) => {
            let what = format!(
                "nothing of ours ended on core {core} within {longest:?}: a thread of higher \
                 real-time priority keeps it; end that or use other cores"
            );
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        }
    }
}

fn work(load: Load, clock: libc::clockid_t) -> io::Result<Duration> {
    Ok(match load {
        Load::Compute(length) => compute(length),
        Load::Chase { lines } => {
            let buffer = Lines::shared()?;
            let start = buffer.start();
            timed(clock, || buffer.chase(start, lines))
        }
        Load::Scatter { lines } => {
            let buffer = Lines::shared()?;
            let start = buffer.start();
            timed(clock, || buffer.scatter(start, lines))
        }
    })
}

fn timed(clock: libc::clockid_t, work: impl FnOnce() -> u32) -> Duration {
    let start = time(clock);
    black_box(work());
    time(clock).saturating_sub(start)
}

fn time(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills a value of ours; every thread has these clocks.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn compute(length: Duration) -> Duration {
    /// Steps between two looks at the clock, of some nanoseconds each.
    const STEPS: u64 = 1000;
    let start = Instant::now();
    let mut value = 1u64;
    loop {
        for step in 0..STEPS {
            // Division keeps the compiler from replacing the loop by its result.
            value = (value ^ step).wrapping_mul(0x9e37_79b9_7f4a_7c15) / 3;
        }
        value = black_box(value);
        let elapsed = start.elapsed();
        if elapsed >= length {
            return elapsed;
        }
    }
}

#[cfg(test)]
mod tests;
