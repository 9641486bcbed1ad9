//! Shares of fast and slow cores in integers: what every rule of this folder works with.
//!
//! A share is a number of parts of which [`Places::whole`] are one core all the time. A whole has
//! `n * UNIT` parts for n threads, so that the shares which everything begins with, N_f / n and
//! c = (N_f + N_s) / n, are whole numbers. Rules work on fast shares f alone: the slow one is
//! g = c - f.
//!
//! Every thread's f lies within [`Bounds`]: at least what it must have (its required share, its
//! sampling floor), at most what leaves it its sampling floor on slow cores. N_f / n lies within
//! every thread's bounds, so whatever the bounds, there is a distribution that keeps to all of them
//! and hands out exactly N_f: equal shares are one, and every rule ends at another. Because the
//! floors are part of the bounds before anything is handed out, min-fair's guarantee holds with
//! floors as it does without.
//!
//! All products fit 128 bits: a core count is at most 2^7 ([`maracas_core::MAX_CORES`]), a speed
//! below 2^48 ([`Speedup::new`]), the terms of a parameter below 2^31 ([`terms`]). Sums of shares
//! fit 64 bits up to 2^31 threads.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::cmp::Ordering;
use maracas_core::admission::Objection;
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{Duration, Rate};

/// Parts into which one core's time is cut for each thread: lcm(1..=16) = 720720, so that the
/// fractions that people write are whole, times 64 for the others.
pub(super) const UNIT: u64 = 720_720 * 64;

/// Bits of a speed: what two of them and one term of a parameter leave room for in a product.
const SPEED_BITS: u32 = 48;
/// Bits of a term of a parameter.
const TERM_BITS: u32 = 31;

/// How many threads share how many cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Places {
    /// n.
    pub(crate) threads: u64,
    /// Fast cores that can be taken: N_f, at most n.
    pub(crate) fast: u64,
    /// Slow cores that can be taken: N_s, at most n - `fast`.
    pub(crate) slow: u64,
    /// The share of either class that a thread needs so that its speedup can be measured.
    floor: u64,
}

impl Places {
    /// `threads` threads on so many fast and slow cores, no thread measured.
    pub(crate) fn new(threads: usize, fast_cores: usize, slow_cores: usize) -> Self {
        let threads = threads as u64;
        let fast = threads.min(fast_cores as u64);
        Self { threads, fast, slow: (threads - fast).min(slow_cores as u64), floor: 0 }
    }
    /// The same where every thread whose speedup is measured runs at least for one `round` in
    /// every `interval` on each class (30 ms in 2 s are 1.5 %, algorithms.md E.3).
    #[must_use]
    pub(crate) fn sampling(mut self, round: Duration, interval: Duration) -> Self {
        let parts = u128::from(self.whole()) * u128::from(round.ticks());
        let floor = parts.div_ceil(u128::from(interval.ticks().max(1)));
        self.floor = floor.min(self.whole().into()) as u64;
        self
    }
    /// A share of one: a whole core all the time.
    pub(crate) const fn whole(self) -> u64 {
        self.threads * UNIT
    }
    /// The share of all cores that each thread has, c: at most one.
    pub(crate) const fn each(self) -> u64 {
        (self.fast + self.slow) * UNIT
    }
    /// The share of fast cores that each thread has where all have the same, N_f / n.
    pub(crate) const fn even(self) -> u64 {
        self.fast * UNIT
    }
    /// The bounds of a thread that must have `required`, at most N_f / n, of the fast cores.
    ///
    /// Where there are so many threads that the sampling floor is more than an equal share, it
    /// shrinks to an equal share for all of them. What is not measured needs no floor, and what is
    /// not known yet has the equal share, which is fair whatever its speedup is.
    pub(super) fn bounds(self, speedup: Option<Speedup>, required: u64) -> Bounds {
        let Some(speedup) = speedup else {
            return Bounds { least: self.even(), most: self.even() };
        };
        let floor = if speedup.sampled { self.floor } else { 0 };
        let slow_floor = floor.min(self.each() - self.even());
        Bounds { least: required.max(floor.min(self.even())), most: self.each() - slow_floor }
    }
    /// The least share of fast cores with which a thread has `target` of the performance that equal
    /// shares would give it, rounded up: it is never more than N_f / n (algorithms.md E.2).
    ///
    /// f * s + (c - f) >= target * (e * s + (c - e)) with e = N_f / n, solved for f, is
    /// f >= target * e - (1 - target) * c / (s - 1): with s = F / S and target = a / b, all of it
    /// over b * (F - S).
    pub(super) fn required(self, speedup: Option<Speedup>, target: Rate) -> u64 {
        let Some(Speedup { fast, slow, .. }) = speedup else { return self.even() };
        let (a, b) = terms(target);
        let gain = u128::from(fast - slow);
        if gain == 0 {
            return 0;
        }
        let wanted = u128::from(a) * u128::from(self.even()) * gain;
        let given = u128::from(b.saturating_sub(a)) * u128::from(self.each()) * u128::from(slow);
        let share = wanted.saturating_sub(given).div_ceil(u128::from(b) * gain);
        share.min(self.even().into()) as u64
    }
}

/// How much faster a thread runs on a fast core: a ratio of two speeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Speedup {
    /// Speed on a fast core, in any unit; never less than `slow`, below 2^48.
    fast: u64,
    /// The same on a slow core; never 0.
    slow: u64,
    /// Whether it is measured while the thread runs, so that it must go on being measured.
    sampled: bool,
}

impl Speedup {
    /// The ratio of two speeds. A thread that seems faster on a slow core gets a ratio of 1: that
    /// is noise. Speeds of 2^48 and more lose their lowest bits.
    pub(crate) fn new(fast: u64, slow: u64, sampled: bool) -> Self {
        let bits = u64::BITS - fast.max(slow).leading_zeros();
        let excess = bits.saturating_sub(SPEED_BITS);
        let slow = (slow >> excess).max(1);
        Self { fast: (fast >> excess).max(slow), slow, sampled }
    }
    /// Which of two threads gains more from a fast core.
    pub(super) fn compare(self, other: Self) -> Ordering {
        let left = u128::from(self.fast) * u128::from(other.slow);
        left.cmp(&(u128::from(other.fast) * u128::from(self.slow)))
    }
    /// Whether this speedup, the greater one, exceeds `other` by less than `difference`.
    pub(super) fn is_near(self, other: Self, difference: Rate) -> bool {
        let (a, b) = terms(difference);
        let slow = u128::from(self.slow) * u128::from(other.slow);
        let left = u128::from(self.fast) * u128::from(other.slow);
        let right = u128::from(other.fast) * u128::from(self.slow);
        left.saturating_sub(right) * u128::from(b) < u128::from(a) * slow
    }
    /// In thousandths, rounded to the nearest, for reports.
    pub(crate) const fn milli(self) -> u64 {
        let (fast, slow) = (self.fast as u128, self.slow as u128);
        ((fast * 1000 + slow / 2) / slow) as u64
    }
}

/// Numerator and denominator of a parameter, both below 2^31: longer ones lose their lowest bits,
/// never to a smaller fraction, so that no thread gets less than the target that was asked for.
fn terms(fraction: Rate) -> (u64, u64) {
    let bits = u64::BITS - fraction.num().max(fraction.den()).leading_zeros();
    let excess = bits.saturating_sub(TERM_BITS);
    let most = (1 << TERM_BITS) - 1;
    ((fraction.num().div_ceil(1 << excess)).min(most), (fraction.den() >> excess).max(1))
}

/// What one thread's share of the fast cores may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    /// At most N_f / n.
    pub(super) least: u64,
    /// At least N_f / n.
    pub(super) most: u64,
}

/// Threads whose speedup is known, by decreasing speedup; ties by place.
pub(super) fn by_speedup(speedups: &[Option<Speedup>]) -> Vec<(usize, Speedup)> {
    let places = speedups.iter().enumerate();
    let mut known: Vec<_> = places.filter_map(|(place, known)| Some((place, (*known)?))).collect();
    known.sort_by(|(_, a), (_, b)| b.compare(*a));
    known
}

/// Gives every thread the least that it must have, and what is left to those that gain most from
/// it. The sum is exactly N_f.
pub(super) fn greedy(places: Places, speedups: &[Option<Speedup>], bounds: &[Bounds]) -> Vec<u64> {
    let mut shares: Vec<u64> = bounds.iter().map(|bounds| bounds.least).collect();
    let mut left = places.fast * places.whole() - shares.iter().sum::<u64>();
    for (place, _) in by_speedup(speedups) {
        let more = left.min(bounds[place].most - shares[place]);
        shares[place] += more;
        left -= more;
    }
    shares
}

/// Makes the shares of `group` as equal as their bounds allow and keeps their sum: every thread has
/// the same level, or its nearest bound. Parts that do not divide go to the first at the level,
/// one each.
pub(super) fn level(shares: &mut [u64], bounds: &[Bounds], group: &[(usize, Speedup)]) {
    let at = |level: u64, place: usize| level.clamp(bounds[place].least, bounds[place].most);
    let filled = |level: u64| group.iter().map(|&(place, _)| at(level, place)).sum::<u64>();
    let total: u64 = group.iter().map(|&(place, _)| shares[place]).sum();
    // The highest level that does not take more than the group has: filled(low) <= total holds
    // throughout, for at level 0 every thread has its least.
    let (mut low, mut high) = (0, group.iter().map(|&(place, _)| bounds[place].most).max());
    while let Some(above) = high.filter(|high| low < *high) {
        let middle = low + (above - low).div_ceil(2);
        if filled(middle) <= total {
            low = middle;
        } else {
            high = Some(middle - 1);
        }
    }
    let mut left = total - filled(low);
    for &(place, _) in group {
        let more = left.min(at(low + 1, place) - at(low, place));
        shares[place] = at(low, place) + more;
        left -= more;
    }
}

/// The least performance that every thread must have, as a fraction of what equal shares would
/// give it.
pub(super) const TARGET: ParamSpec = ParamSpec {
    name: "target",
    kind: Kind::Fraction(17, 20),
    help: "least performance of each thread, as a fraction of that with equal shares; the paper's \
           evaluation has 85 %",
};

/// What is wrong with the target, if anything is: no rule can promise more than equal shares give.
pub(super) fn target_objection(params: &Params) -> Option<Objection> {
    let target = params.fraction(&TARGET);
    (target > Rate::ONE).then(|| {
        let why = alloc::format!("is {target}; give a fraction from 0 to 1, such as \"0.85\"");
        Objection::to(TARGET.name, why)
    })
}

/// Every thread's bounds where no thread may have less than the target.
pub(super) fn fair_bounds(
    places: Places,
    speedups: &[Option<Speedup>],
    params: &Params,
) -> Vec<Bounds> {
    let target = params.fraction(&TARGET);
    let bounds =
        |speedup: &Option<Speedup>| places.bounds(*speedup, places.required(*speedup, target));
    speedups.iter().map(bounds).collect()
}

/// The parameters that all four rules take, and then a rule's own.
///
/// # Panics
/// At compile time where `N` is not the length of both lists together.
pub(super) const fn joined<const N: usize>(own: &[ParamSpec]) -> [ParamSpec; N] {
    let common = super::PARAMS;
    assert!(N == common.len() + own.len(), "the length of both lists");
    let mut all = [own[0]; N];
    let mut place = 0;
    while place < N {
        all[place] = if place < common.len() { common[place] } else { own[place - common.len()] };
        place += 1;
    }
    all
}
