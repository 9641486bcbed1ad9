//! How much faster a thread runs on a fast core, learned from what it does.
//!
//! The slides ("Sampling-based Speedup Estimation"): every thread runs on both classes in each
//! interval; speedup = moving average of its instructions per second on fast cores / the same on
//! slow cores. No model of the cores is needed.
//!
//! Where the slides are silent, we chose. The average is exponential with weight 1/2: a new sample
//! counts as much as all before it, so the speed of a program that changes by less than
//! [`DEPARTURE`] is followed to within 7 % in three intervals, and so is the speedup, but where one
//! speed falls while the other rises: then to within 11 %, and 6 % in four. A sample that departs
//! further is no noise but another phase: what was known of *both* classes is then forgotten, and
//! this interval's samples are the new start. A class that was not sampled in it is unknown again,
//! and with it the speedup, until it is: a ratio of speeds from two phases would be worse than
//! none, for what is unknown has the equal share, which is fair whatever its speedup is and soon
//! brings samples of both classes.

use super::shares::Speedup;
use maracas_core::Duration;

#[cfg(test)]
mod tests;

/// Less time on a class than this in an interval is carried on into the next one: what a switch of
/// cores costs (caches that are cold for some 100 us) is then at most some hundredths of it. The
/// sampling floor, a round of 30 ms, is well above.
const LEAST_TIME: Duration = Duration::from_millis(5);
/// Less progress than this is carried on too, so that the unit which was under way when the sample
/// began or ended is at most 3 % of it: programs may count in large units of their own.
const LEAST_PROGRESS: u64 = 32;
/// A speed that is more than this factor above or below its average is another phase.
const DEPARTURE: (u64, u64) = (3, 2);
/// Speeds are progress in 2^40 ticks, 18 minutes: so much that one unit a second is still a number
/// of four digits, and so little that 10^11 instructions a second are below 2^48.
const SPEED_SHIFT: u32 = 40;

/// A class of cores, as fairness sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// The fast cores.
    Fast,
    /// The slow cores.
    Slow,
}

/// What is known of one thread's speed on one class.
#[derive(Clone, Copy, Default, Debug)]
struct Speed {
    /// The moving average.
    average: Option<u64>,
    /// What it ran since its last sample, and how far it came.
    time: Duration,
    progress: u64,
}

impl Speed {
    /// The sample of this interval, where there was enough to see.
    fn sample(&mut self) -> Option<u64> {
        if self.time < LEAST_TIME || self.progress < LEAST_PROGRESS {
            return None;
        }
        let progress = u128::from(self.progress) << SPEED_SHIFT;
        let speed = progress / u128::from(self.time.ticks());
        *self = Self { average: self.average, ..Self::default() };
        Some(speed.min(u64::MAX.into()) as u64)
    }
    /// Whether `sample` is of another phase than the average.
    fn departs(&self, sample: Option<u64>) -> bool {
        let Some((average, sample)) = self.average.zip(sample) else { return false };
        let scaled = |speed: u64, by: u64| u128::from(speed) * u128::from(by);
        let (low, high) = (average.min(sample), average.max(sample));
        scaled(high, DEPARTURE.1) > scaled(low, DEPARTURE.0)
    }
    fn learn(&mut self, sample: Option<u64>) {
        let average = |average: u64, sample| average.midpoint(sample);
        self.average = match (self.average, sample) {
            (Some(old), Some(new)) => Some(average(old, new)),
            (old, new) => new.or(old),
        };
    }
}

/// Estimates the speedup of one thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum Estimator {
    /// The user said it.
    Known(Speedup),
    /// It is measured.
    Sampled(Sampled),
}

/// What was measured of one thread.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Sampled {
    fast: Speed,
    slow: Speed,
}

impl Estimator {
    /// A speedup that the user knows beforehand, in thousandths (the paper's way on big.LITTLE).
    pub(super) fn known(speedup_milli: u32) -> Self {
        Self::Known(Speedup::new(speedup_milli.into(), 1000, false))
    }
    /// A speedup to be learned.
    pub(super) fn sampled() -> Self {
        Self::Sampled(Sampled::default())
    }
    /// The thread ran for `service` on that class of cores and came so far.
    pub(super) fn ran(&mut self, side: Side, service: Duration, instructions: u64) {
        let Self::Sampled(Sampled { fast, slow }) = self else { return };
        let speed = match side {
            Side::Fast => fast,
            Side::Slow => slow,
        };
        speed.time += service;
        speed.progress = speed.progress.saturating_add(instructions);
    }
    /// An interval ended: its samples go into the averages.
    pub(super) fn close_interval(&mut self) {
        let Self::Sampled(Sampled { fast, slow }) = self else { return };
        let samples = (fast.sample(), slow.sample());
        if fast.departs(samples.0) || slow.departs(samples.1) {
            (*fast, *slow) = (Speed::default(), Speed::default());
        }
        fast.learn(samples.0);
        slow.learn(samples.1);
    }
    /// The speedup as far as it is known.
    pub(super) fn speedup(&self) -> Option<Speedup> {
        match self {
            Self::Known(speedup) => Some(*speedup),
            Self::Sampled(Sampled { fast, slow }) => {
                Some(Speedup::new(fast.average?, slow.average?, true))
            }
        }
    }
}
