//! What waking a thread costs on this host: how long after the time for which it slept a real-time
//! thread runs again. No timer of the live machine is shorter than a multiple of this.

use super::{HardwareCore, sched};
use crate::clock::Clock;
use maracas_core::Duration;
use std::{io, thread};

/// How late a real-time thread wakes from a timed sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeCost {
    /// The median.
    pub p50: Duration,
    /// What one wake in a hundred exceeds.
    pub p99: Duration,
}

impl WakeCost {
    /// That of bare metal, for cores on which nothing is enforced.
    pub(crate) const LEAST: Self =
        Self { p50: Duration::from_micros(5), p99: Duration::from_micros(20) };
}

/// Sleeps measured: the second longest is the 99th percentile, and with [`SLEEP`] it takes 20 ms.
const SLEEPS: usize = 100;
/// The length of one sleep: longer than an idle core takes to be deeply asleep again.
const SLEEP: Duration = Duration::from_micros(200);

/// Measures on one core, at the priority of an agent where `fifo` says that this is allowed.
///
/// # Errors
/// Where the core cannot be used or the priority is refused.
pub fn wake(core: HardwareCore, fifo: bool) -> io::Result<WakeCost> {
    let measuring = thread::spawn(move || {
        sched::set_affinity(0, core)?;
        if fifo {
            sched::set_fifo(0, crate::agent::PRIORITY, true)?;
        }
        let clock = Clock::start();
        let mut late: Vec<Duration> = (0..SLEEPS)
            .map(|_| {
                let due = clock.now() + SLEEP;
                clock.sleep_until(due);
                clock.now().saturating_since(due)
            })
            .collect();
        late.sort_unstable();
        Ok(WakeCost { p50: late[SLEEPS / 2], p99: late[SLEEPS - 2] })
    });
    measuring.join().map_err(|_| io::Error::other("the measuring thread died"))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::platform::Platform;

    #[test]
    fn a_wake_takes_some_time_and_most_are_like_the_median() {
        let core = Platform::detect().expect("readable").cores[0];
        let cost = wake(core, false).expect("an ordinary thread may sleep");
        assert!(cost.p50 > Duration::ZERO && cost.p50 <= cost.p99, "{cost:?}");
    }
}
