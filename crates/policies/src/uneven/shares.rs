//! Shares of fast and slow cores in integers: what every rule of this folder works with.
//!
//! With more than two classes, each rule is asked at every *cut*, from the fastest class on: which
//! share a thread has of all classes down to this one, as if these were the fast cores and the
//! others the slow ones, and never less than it has of those before. What one cut gives beyond the
//! cut before is the share of its class. With the speeds v of all classes, performance is the sum
//! over cuts of the share times what v falls by there, so each cut adds to it by itself. A thread
//! whose target asks for the part L of what equal shares would give it must have L of an equal
//! share at every cut. With two classes there is one cut, and all of this is the slides'
//! definition.
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
//! All products fit 128 bits: a core count is at most 2^10 ([`maracas_core::MAX_CORES`]), a speed
//! below 2^48 ([`Speedup::new`]), the terms of a parameter below 2^31 ([`terms`]). Sums of shares
//! fit 64 bits up to 2^31 threads.

#[cfg(test)]
mod tests;

use super::Rule;
use super::estimate::{Class, MOST_CLASSES};
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

/// How many threads share how many cores, seen at one cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Places {
    /// n.
    pub(crate) threads: u64,
    /// Fast cores that can be taken: N_f, at most n.
    pub(crate) fast: u64,
    /// Slow cores that can be taken: N_s, at most n - `fast`.
    pub(crate) slow: u64,
    /// The share of each class that a thread needs so that its speedup can be measured.
    floor: u64,
    /// By class, the cores that can be taken.
    counts: [u64; MOST_CLASSES],
    /// The slowest class that counts as fast here.
    cut: Class,
}

impl Places {
    /// `threads` threads on so many fast and slow cores, no thread measured.
    #[cfg(test)]
    pub(crate) fn new(threads: usize, fast_cores: usize, slow_cores: usize) -> Self {
        Self::of(threads, &[fast_cores, slow_cores])
    }
    /// `threads` threads on so many cores by class, no thread measured, at the first cut. Where
    /// there are fewer threads than cores, the fastest are taken.
    pub(crate) fn of(threads: usize, cores: &[usize]) -> Self {
        let (mut counts, mut left) = ([0; MOST_CLASSES], threads as u64);
        for (count, cores) in counts.iter_mut().zip(cores) {
            *count = left.min(*cores as u64);
            left -= *count;
        }
        let places = Self { threads: threads as u64, fast: 0, slow: 0, floor: 0, counts, cut: 0 };
        places.at(0)
    }
    /// The same at another cut.
    fn at(mut self, cut: Class) -> Self {
        self.cut = cut;
        self.fast = self.counts[..=cut].iter().sum();
        self.slow = self.counts[cut + 1..].iter().sum();
        self
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
    /// The share of `class` that a thread needs so that its speedup can be measured: no more than
    /// all threads can have.
    pub(super) fn floor(self, class: Class) -> u64 {
        self.floor.min(self.counts[class] * UNIT)
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
        let floor = |class| if speedup.sampled { self.floor(class) } else { 0 };
        let slow_floor = (self.cut + 1..MOST_CLASSES).map(floor).sum::<u64>();
        let least = required.max(speedup.before + floor(self.cut));
        Bounds { least, most: self.each() - slow_floor }
    }
    /// The least share of fast cores with which a thread has `target` of the performance that equal
    /// shares would give it, rounded up: it is never more than N_f / n (algorithms.md E.2).
    ///
    /// f * s + (c - f) >= target * (e * s + (c - e)) with e = N_f / n, solved for f, is
    /// f >= e (target - (1 - target) * c / (e (s - 1))). The gain e (s - 1) is that of all cuts:
    /// with the speed S of the slowest class, gain G over it and target = a / b, all of it is over
    /// b * G, in cores.
    pub(super) fn required(self, speedup: Option<Speedup>, target: Rate) -> u64 {
        let Some(Speedup { fast, slow, gain, .. }) = speedup else { return self.even() };
        let (a, b) = terms(target);
        let gain = gain.unwrap_or(u128::from(self.fast) * u128::from(fast - slow));
        if gain == 0 {
            return 0;
        }
        let cores = u128::from(self.fast + self.slow);
        let given = u128::from(b.saturating_sub(a)) * cores * u128::from(slow);
        let wanted = (u128::from(a) * gain).saturating_sub(given);
        let share = (wanted * u128::from(self.even())).div_ceil(u128::from(b) * gain);
        share.min(self.even().into()) as u64
    }
}

/// How fast a thread is on each class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Speeds {
    /// In any unit, below 2^48, above 0, never rising.
    by_class: [u64; MOST_CLASSES],
    classes: usize,
    sampled: bool,
}

impl Speeds {
    /// A thread that seems faster on a slower class is as fast on the faster ones: that is noise.
    /// Speeds of 2^48 and more lose their lowest bits.
    pub(super) fn new(speeds: &[u64], sampled: bool) -> Self {
        let most = speeds.iter().copied().max().unwrap_or_default();
        let excess = (u64::BITS - most.leading_zeros()).saturating_sub(SPEED_BITS);
        let mut by_class = [0; MOST_CLASSES];
        let mut least = 1;
        for (class, speed) in speeds.iter().enumerate().rev() {
            least = (*speed >> excess).max(least);
            by_class[class] = least;
        }
        Self { by_class, classes: speeds.len(), sampled }
    }
    fn slowest(self) -> u64 {
        self.by_class[self.classes - 1]
    }
    /// What speeds fall by at a cut.
    fn fall(self, cut: Class) -> u64 {
        self.by_class[cut] - self.by_class[cut + 1]
    }
    /// From the slowest class to the fastest, in thousandths, for reports.
    pub(super) fn milli(self) -> u64 {
        self.speedup().milli()
    }
    /// From the slowest class to the fastest.
    pub(super) fn speedup(self) -> Speedup {
        Speedup::new(self.by_class[0], self.slowest(), self.sampled)
    }
    /// The speedup at the cut of `places` for a thread that has `before` of the classes before.
    fn at(self, places: Places, before: u64) -> Speedup {
        let upto = |cut: Class| places.counts[..=cut].iter().sum::<u64>();
        let each =
            (0..self.classes - 1).map(|cut| u128::from(upto(cut)) * u128::from(self.fall(cut)));
        let (slow, gain) = (self.slowest(), Some(each.sum()));
        Speedup { fast: slow + self.fall(places.cut), slow, sampled: self.sampled, gain, before }
    }
}

/// The share of each class of every thread by `rule`, in parts of a whole; of so many `classes`.
pub(super) fn by_class(
    rule: Rule,
    places: Places,
    classes: usize,
    speeds: &[Option<Speeds>],
    params: &Params,
) -> Vec<[u64; MOST_CLASSES]> {
    let mut shares = alloc::vec![[0; MOST_CLASSES]; speeds.len()];
    let mut before = alloc::vec![0; speeds.len()];
    for cut in 0..classes - 1 {
        let here = places.at(cut);
        let known = speeds.iter().zip(&before);
        let speedups: Vec<_> =
            known.map(|(speeds, before)| speeds.map(|it| it.at(here, *before))).collect();
        let upto = rule(here, &speedups, params);
        for (own, (upto, before)) in shares.iter_mut().zip(upto.into_iter().zip(&mut before)) {
            own[cut] = upto - *before;
            *before = upto;
        }
    }
    for (own, before) in shares.iter_mut().zip(before) {
        own[classes - 1] = places.each() - before;
    }
    shares
}

/// The shares of two classes as those of all.
pub(super) fn of_two(shares: [u64; 2]) -> [u64; MOST_CLASSES] {
    let mut by_class = [0; MOST_CLASSES];
    by_class[..2].copy_from_slice(&shares);
    by_class
}

/// How much faster a thread runs on a fast core: a ratio of two speeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Speedup {
    /// Speed on a fast core, in any unit; never less than `slow`, below 2^49.
    fast: u64,
    /// The same on a slow core, of the slowest class; never 0.
    slow: u64,
    /// Whether it is measured while the thread runs, so that it must go on being measured.
    sampled: bool,
    /// What equal shares gain over the slowest class at all cuts together, in cores times the unit
    /// of `slow`; `None` = there is this cut alone.
    gain: Option<u128>,
    /// The share of faster classes that the thread has already.
    before: u64,
}

impl Speedup {
    /// The ratio of two speeds. A thread that seems faster on a slow core gets a ratio of 1: that
    /// is noise. Speeds of 2^48 and more lose their lowest bits.
    pub(crate) fn new(fast: u64, slow: u64, sampled: bool) -> Self {
        let bits = u64::BITS - fast.max(slow).leading_zeros();
        let excess = bits.saturating_sub(SPEED_BITS);
        let slow = (slow >> excess).max(1);
        Self { fast: (fast >> excess).max(slow), slow, sampled, gain: None, before: 0 }
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
    /// Whether it is measured while the thread runs.
    pub(super) const fn is_sampled(self) -> bool {
        self.sampled
    }
    /// The time on fast cores in which as much is done as in `slow` on slow ones, rounded down.
    pub(super) fn of_slow(self, slow: u64) -> u64 {
        (u128::from(slow) * u128::from(self.slow) / u128::from(self.fast)) as u64
    }
    /// The most time on slow cores with which as much is done within `time` as in `done` of it on
    /// fast ones, rounded down.
    pub(super) fn most_slow(self, done: u64, time: u64) -> u64 {
        let (fast, slow) = (u128::from(self.fast), u128::from(self.slow));
        if done <= self.of_slow(time) {
            return (u128::from(done) * fast / slow) as u64;
        }
        // done = (time - slow time) + slow time * slow / fast.
        (u128::from(time.saturating_sub(done)) * fast / (fast - slow).max(1)) as u64
    }
    /// In thousandths, rounded to the nearest, for reports.
    pub(super) const fn milli(self) -> u64 {
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

/// The parameters that all rules take, and then a rule's own.
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
