//! What waking a thread costs on this host, and the other steps of which a decision consists:
//! measured on real-time threads of our own. No timer of the live machine is shorter than a
//! multiple of what a wake costs, and admission leaves room for what agents take.

mod spin;
mod steal;

pub use steal::{Watch as StealWatch, parse as parse_steal};

pub use maracas_live_core::WakeCost;

use super::{HardwareCore, sched};
use crate::clock::Clock;
use maracas_core::Duration;
use maracas_live_core::priority;
use std::{io, thread};

/// What the steps of a decision cost on the slowest of the cores measured: medians, but for the
/// 99th percentile of a wake. A hypervisor that takes the core for a slice now and then does not
/// move a median.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// How late a sleeping real-time thread wakes.
    pub wake: WakeCost,
    /// What one timed wake takes of a core: the interrupt, the switch to the thread that woke, the
    /// setting of its next timer, and the switch back, as a thread sees it that computes there.
    pub taken: Duration,
    /// What a timer interrupt that wakes no thread takes of a core; `None` where none came in time,
    /// as with PREEMPT_RT before the soft interrupts' thread had the core.
    pub interrupt: Option<Duration>,
    /// A call that sets a timer which comes before all others.
    pub setting: Duration,
    /// Waking a thread of the same core through an `eventfd` and switching to it.
    pub switch: Duration,
}

/// Sleeps measured: the second longest is the 99th percentile, and with [`SLEEP`] it takes 20 ms.
const SLEEPS: usize = 100;
/// The length of one sleep: longer than an idle core takes to be deeply asleep again.
const SLEEP: Duration = Duration::from_micros(200);

/// A wake takes at most this part of the time between two of them where a period of a budget is
/// called long enough (1/10): what is beyond 0.90 of a core is not given away anyhow.
const LARGEST_PART: u64 = 10;
/// An error below this part of a budget is called small: 1 %.
const SMALL_PART: u64 = 100;
/// Every period of a budget has two wakes of its agent: it ends, and it comes back.
pub const WAKES_A_PERIOD: u64 = 2;
/// The background is rotated no more often than this many times what a decision costs, so that
/// rotating takes at most 2 % of a core.
pub const ROTATIONS_APART: u64 = 50;

/// Measures on one core, at the priority of an agent where `fifo` says that this is allowed.
///
/// # Errors
/// Where the core cannot be used or the priority is refused.
pub fn wake(core: HardwareCore, fifo: bool) -> io::Result<WakeCost> {
    let measuring = thread::spawn(move || {
        sched::set_affinity(0, core)?;
        if fifo {
            sched::set_fifo(0, priority::AGENT, true)?;
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

/// Measures every step on each of `cores`, one core after the other: 0.1 s each.
///
/// # Errors
/// Where a core cannot be used, real-time priority is refused, or there is no core.
pub fn measure(cores: &[HardwareCore]) -> io::Result<Costs> {
    let each = cores.iter().map(|core| {
        let (wake, taken) = (wake(*core, true)?, spin::taken(*core)?);
        let spin::Interrupt { gap, setting } = spin::interrupt(*core)?;
        Ok(Costs { wake, taken, interrupt: gap, setting, switch: spin::switch(*core)? })
    });
    worst(each)
}

/// Those of `cores` to measure where it must not take long: the first and the last, which are of
/// two classes where there are some.
pub fn few(cores: &[HardwareCore]) -> Vec<HardwareCore> {
    let mut few: Vec<_> = cores.first().into_iter().chain(cores.last()).copied().collect();
    few.dedup();
    few
}

/// The largest of each.
fn worst(each: impl Iterator<Item = io::Result<Costs>>) -> io::Result<Costs> {
    let larger = |a: Costs, b: Costs| Costs {
        wake: WakeCost { p50: a.wake.p50.max(b.wake.p50), p99: a.wake.p99.max(b.wake.p99) },
        taken: a.taken.max(b.taken),
        interrupt: a.interrupt.max(b.interrupt),
        setting: a.setting.max(b.setting),
        switch: a.switch.max(b.switch),
    };
    let mut all = None::<Costs>;
    for costs in each {
        let costs = costs?;
        all = Some(all.map_or(costs, |worst| larger(worst, costs)));
    }
    all.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no core to measure on"))
}

/// What a freeze and a thaw take: the calls, and the switches to the thread that does each of them
/// for the agent, and back. Without a freezer nothing.
fn braking(freezer: Option<Duration>, switch: Duration) -> Duration {
    freezer.map_or(Duration::ZERO, |calls| calls + switch * 4)
}

/// What an agent takes of its core for one wake with its decision, rather too much: the wake, a
/// freeze and a thaw, and as much again for what is not measured, which is reading meters,
/// deciding, and keeping the journal in caches that programs have swept. So much one rotation of
/// the background costs, too. `freezer` = what its calls take
/// ([`freezer_calls`](super::probe::freezer_calls)).
pub fn decision(freezer: Option<Duration>, costs: &Costs) -> Duration {
    (costs.taken + braking(freezer, costs.switch)) * 2
}

/// The same of the thread that decides for the scheduler in the kernel: nothing is frozen, and the
/// core that gets a run queue switches by it, and back. Measured in the lab: 68 us a decision of
/// `run` and 75 us one of `g-edf`, with two or three switches of cores.
pub fn decision_in_kernel(costs: &Costs) -> Duration {
    (costs.taken + costs.switch * 2) * 2
}

/// A time rounded up to two digits, for people: few measurements say no more.
pub fn rounded_up(time: Duration) -> Duration {
    let mut unit = 1;
    while time.ticks() / unit >= 100 {
        unit *= 10;
    }
    Duration::from_nanos(time.ticks().div_ceil(unit) * unit)
}

/// What a host can keep, by what a wake costs there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keeps {
    /// By how much a period may be off: the 99th percentile of a wake.
    pub precision: Duration,
    /// The smallest budget of which the median error is below 1 %.
    pub least_budget: Duration,
    /// The smallest period in which its two wakes take less than a tenth of the core.
    pub least_period: Duration,
}

/// The budget and period that a host must keep to be called full: 1 ms in 10 ms.
pub const FULL: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(10));

impl Keeps {
    /// What can be kept with these costs.
    pub fn of(wake: &WakeCost, taken: Duration) -> Self {
        Self {
            precision: wake.p99,
            least_budget: wake.p50 * SMALL_PART,
            least_period: taken * WAKES_A_PERIOD * LARGEST_PART,
        }
    }

    /// Whether 1 ms in 10 ms is kept within 1 %.
    pub fn is_full(&self) -> bool {
        self.least_budget <= FULL.0 && self.least_period <= FULL.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::platform::Platform;
    use std::iter;

    fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn a_wake_takes_some_time_and_most_are_like_the_median() {
        let core = Platform::detect().expect("readable").cores[0];
        let cost = wake(core, false).expect("an ordinary thread may sleep");
        assert!(cost.p50 > Duration::ZERO && cost.p50 <= cost.p99, "{cost:?}");
    }

    #[test]
    fn every_step_takes_some_time_and_a_wake_takes_more_than_its_interrupt() {
        let cores = Platform::detect().expect("readable").cores;
        let costs = match measure(&cores) {
            Ok(costs) => costs,
            Err(error) => {
                // Without the right to real-time priority, and for no other reason.
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
                return eprintln!("skipped: needs SCHED_FIFO: {error}");
            }
        };
        let steps = [costs.taken, costs.setting, costs.switch, costs.wake.p50];
        assert!(steps.iter().all(|step| !step.is_zero()), "{costs:?}");
        // One is measured after the other, and a host may run at half its speed in between.
        let tries = iter::once(costs).chain(iter::repeat_with(|| measure(&cores).unwrap()));
        let exceeds = |costs: &Costs| costs.interrupt.is_none_or(|it| costs.taken > it);
        assert!(tries.take(5).any(|costs| exceeds(&costs)), "{costs:?}, and four times more");
        let Costs { taken, .. } = measure(&few(&cores)).expect("as before");
        assert!(taken < costs.taken * 10 && costs.taken < taken * 10, "{taken} {costs:?}");
    }

    #[test]
    fn times_are_rounded_up_to_two_digits() {
        let ns = Duration::from_nanos;
        let rounded = [0, 7, 99, 100, 101, 3_101, 136_200, 999_001].map(|n| rounded_up(ns(n)));
        assert_eq!(rounded, [0, 7, 99, 100, 110, 3_200, 140_000, 1_000_000].map(ns));
    }

    #[test]
    fn no_core_is_refused() {
        assert_eq!(measure(&[]).unwrap_err().to_string(), "no core to measure on");
        let few =
            |count| few(&[3, 4, 5].map(HardwareCore)[..count]).iter().map(|it| it.0).collect();
        let few: [Vec<_>; 3] = [few(0), few(1), few(3)];
        assert_eq!(few, [vec![], vec![3], vec![3, 5]]);
    }

    #[test]
    fn the_slowest_core_counts_step_by_step() {
        let wake = |p50, p99| WakeCost { p50: us(p50), p99: us(p99) };
        let fast = Costs {
            wake: wake(3, 90),
            taken: us(5),
            interrupt: Some(us(2)),
            setting: us(1),
            switch: us(4),
        };
        let slow = Costs { wake: wake(30, 80), taken: us(50), switch: us(1), ..fast };
        let worst = worst([Ok(fast), Ok(slow)].into_iter()).unwrap();
        assert_eq!(worst, Costs { wake: wake(30, 90), taken: us(50), ..fast });
    }

    #[test]
    fn a_decision_is_a_freeze_a_thaw_and_a_wake_twice() {
        let costs = Costs {
            wake: WakeCost { p50: us(30), p99: us(90) },
            taken: us(40),
            interrupt: None,
            setting: us(10),
            switch: us(4),
        };
        let freezer = Some(us(9));
        assert_eq!([decision(freezer, &costs), decision(None, &costs)], [us(130), us(80)]);
        assert_eq!(decision_in_kernel(&costs), us(96));
    }

    #[test]
    fn what_a_host_keeps_follows_from_its_wakes() {
        let keeps =
            |p50, p99, taken| Keeps::of(&WakeCost { p50: us(p50), p99: us(p99) }, us(taken));
        let fast = keeps(5, 30, 12);
        assert_eq!(
            (fast.precision, fast.least_budget, fast.least_period),
            (us(30), us(500), us(240))
        );
        assert!(fast.is_full());
        assert!(keeps(10, 30, 12).is_full() && !keeps(11, 30, 12).is_full());
        assert!(keeps(10, 30, 500).is_full() && !keeps(10, 30, 501).is_full());
    }
}
