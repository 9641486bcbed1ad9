//! How much faster a thread runs on a fast core, learned from what it does.
//!
//! The slides ("Sampling-based Speedup Estimation"): every thread runs on both classes in each
//! interval; speedup = moving average of its instructions per second on fast cores / the same on
//! slow cores. No model of the cores is needed. With more classes it is so many averages, and a
//! thread is known once it was sampled on all of them.
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

use super::shares::Speeds;
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

/// A class of cores as fairness sees it: its place among those that have cores, the fastest first.
pub(super) type Class = usize;
/// The most classes: as many as the largest preset has. Threads are sampled on each, so that more
/// would leave little to share.
pub(super) const MOST_CLASSES: usize = 8;

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

/// Estimates how fast one thread is on each class.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "most are sampled, and none is allocated alone")]
pub(super) enum Estimator {
    /// The user said its speedup from the slowest class to the fastest, in thousandths.
    Known(u32),
    /// It is measured.
    Sampled(Sampled),
}

/// What was measured of one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampled {
    speeds: [Speed; MOST_CLASSES],
    classes: usize,
}

impl Estimator {
    /// A speedup that the user knows beforehand, in thousandths (the paper's way on big.LITTLE).
    pub(super) fn known(speedup_milli: u32) -> Self {
        Self::Known(speedup_milli)
    }
    /// Speeds to be learned, on so many classes.
    pub(super) fn sampled(classes: usize) -> Self {
        Self::Sampled(Sampled { speeds: [Speed::default(); MOST_CLASSES], classes })
    }
    /// The thread ran for `service` on that class of cores and came so far.
    pub(super) fn ran(&mut self, class: Class, service: Duration, instructions: u64) {
        let Self::Sampled(Sampled { speeds, .. }) = self else { return };
        let speed = &mut speeds[class];
        speed.time += service;
        speed.progress = speed.progress.saturating_add(instructions);
    }
    /// An interval ended: its samples go into the averages.
    pub(super) fn close_interval(&mut self) {
        let Self::Sampled(Sampled { speeds, .. }) = self else { return };
        let samples = speeds.each_mut().map(Speed::sample);
        if speeds.iter().zip(samples).any(|(speed, sample)| speed.departs(sample)) {
            *speeds = [Speed::default(); MOST_CLASSES];
        }
        for (speed, sample) in speeds.iter_mut().zip(samples) {
            speed.learn(sample);
        }
    }
    /// Its speeds as far as they are known: on every class, or not at all. `nominal` are the
    /// classes' own; a speedup that the user said is spread over those between as they are.
    pub(super) fn speeds(&self, nominal: &[u32]) -> Option<Speeds> {
        match self {
            Self::Known(milli) => Some(spread(*milli, nominal)),
            Self::Sampled(Sampled { speeds, classes }) => {
                let mut averages = [0; MOST_CLASSES];
                for (average, speed) in averages.iter_mut().zip(&speeds[..*classes]) {
                    *average = speed.average?;
                }
                Some(Speeds::new(&averages[..*classes], true))
            }
        }
    }
}

/// Speeds from 1 on the slowest class to `milli` thousandths on the fastest, linear in `nominal`.
fn spread(milli: u32, nominal: &[u32]) -> Speeds {
    let slowest = nominal.last().copied().unwrap_or_default();
    let whole = u64::from(nominal.first().map_or(0, |fastest| fastest.saturating_sub(slowest)));
    let mut speeds = [0; MOST_CLASSES];
    for (class, speed) in speeds.iter_mut().enumerate().take(nominal.len()) {
        // Classes that only their names tell apart: as if the same steps lay between them.
        let (part, whole) = match whole {
            0 => ((nominal.len() - 1 - class) as u64, nominal.len() as u64 - 1),
            _ => (u64::from(nominal[class].saturating_sub(slowest)), whole),
        };
        let more = u64::from(milli).saturating_sub(1000);
        *speed = 1000 * whole + more * part;
    }
    Speeds::new(&speeds[..nominal.len()], false)
}
