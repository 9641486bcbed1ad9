//! How lines fall on sets: what one set keeps, and how programs then get into each other's way.
//!
//! A program's pages are spread evenly over the colours of its part, so that every set of a slice
//! has the same number of pages with a line for it or for the same set of another slice; the hash
//! sends that line to each slice alike. So the lines for a set are Binomial(trials, 1 / slices)
//! with `trials` = pages per colour. It is the same where lines belong to several programs.

use super::super::clamp::Clamp;
use libm::{exp, log};
use maracas_core::memory::Replacement;

/// Beyond this many slices the binomial is a Poisson distribution in all but name, and the tables
/// would only grow.
const SLICES_MAX: u32 = 64;
/// Tables end where a set lacks less than this share of its ways, ...
const FULL: f64 = 1e-9;
/// ... and so many times its ways have come, beyond which a scan misses as if sets were alike.
const CROWD: f64 = 4.0;
/// Terms of a distribution below this share of its largest are left out.
const NEGLIGIBLE: f64 = 1e-16;

/// The sets of a cache with so many ways and slices, as tables over the number of trials.
#[derive(Clone, Debug)]
pub(super) struct Sets {
    ways: u32,
    /// The chance of a trial to fall on the set.
    chance: f64,
    /// The last number of trials in the tables.
    last: usize,
    /// By trials: E[min(m, ways)], the lines that a set keeps.
    kept: Vec<f64>,
    /// By trials up to one before the last: what the next trial changes.
    steps: Vec<Step>,
    /// How often a line has been overwritten after the last trial.
    worn_at_last: f64,
    replacement: Replacement,
    /// By trials: the share of the lines that is kept, 1 for none.
    crowd: Vec<f64>,
    /// Where numbers of lines stand in `kept`, and shares in `crowd`.
    places_in_kept: Places,
    places_in_crowd: Places,
    /// How often a scan misses at the last trial and beyond.
    scan_at_last: f64,
    /// A scan of which no more than this share is resident misses always.
    pub(super) always: f64,
}

/// What is between a number of trials and the next: between them all is taken for linear.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Lines that a set keeps before, and how many more after.
    kept: f64,
    kept_more: f64,
    /// How often a line of the set has been overwritten before, and how much more often after.
    worn: f64,
    worn_more: f64,
    /// The share of coming lines that find room in the set.
    room: f64,
    /// Lines that a set would keep before the first trial, were all steps like this one.
    kept_at_none: f64,
    /// Lines of a scan that miss in a set before, and how many more after.
    missed: f64,
    missed_more: f64,
}

impl Step {
    /// The step from one of the tables' places to the next.
    fn between(n: usize, kept: &[f64], worn: &[f64], chance: f64) -> Self {
        let (kept_more, worn_more) = (kept[1] - kept[0], worn[1] - worn[0]);
        Self {
            kept: kept[0],
            kept_more,
            worn: worn[0],
            worn_more,
            room: kept_more / chance,
            kept_at_none: kept[0] - kept_more * n as f64,
            missed: 0.0,
            missed_more: 0.0,
        }
    }
}

/// Where numbers stand in a sorted table: an index by their first digits, so that hardly any of its
/// values are left to compare with.
#[derive(Clone, Debug)]
struct Places {
    /// By the first digits of a number, from high to low: how many values of the table have higher
    /// ones.
    higher: Vec<u32>,
}

/// Digits of a number that its place is looked up by: 128 to an octave.
const PLACE_DIGITS: u32 = 7;
const PLACE_CUT: u32 = f64::MANTISSA_DIGITS - 1 - PLACE_DIGITS;
/// The place of the highest number, 2^10, the most ways that a cache may have, among such digits
/// (IEEE 754: bias 1023), and of the lowest: what is beyond shares their places.
const HIGHEST: u64 = (1023 + 10) << PLACE_DIGITS;
const LOWEST: u64 = (1023 - 40) << PLACE_DIGITS;

impl Places {
    #[inline]
    fn of(number: f64) -> usize {
        (HIGHEST - (number.at_least(0.0).to_bits() >> PLACE_CUT).clamp(LOWEST, HIGHEST)) as usize
    }
    /// The index of numbers that fall.
    fn new(numbers: &[f64]) -> Self {
        let mut at = 0;
        let higher = |place| {
            while numbers.get(at).is_some_and(|number| Self::of(*number) < place) {
                at += 1;
            }
            at as u32
        };
        Self { higher: (0..=(HIGHEST - LOWEST) as usize).map(higher).collect() }
    }
    /// The first value of the table that may not be higher than this number; all before are.
    #[inline]
    fn first(&self, number: f64) -> usize {
        self.higher[Self::of(number)] as usize
    }
}

/// What rounds to missing always.
const ALWAYS: f64 = 1.0 - 1.0 / 128.0;

impl Sets {
    pub(super) fn new(ways: u32, slices: u32, replacement: Replacement) -> Self {
        let chance = 1.0 / f64::from(slices.clamp(1, SLICES_MAX));
        let all = f64::from(ways);
        // P(m = k) for k < ways after the trials so far.
        let mut below: Vec<f64> = vec![0.0; ways as usize];
        below[0] = 1.0;
        let (mut kept, mut worn) = (vec![0.0_f64], vec![0.0]);
        loop {
            let (at, wear) = (kept[kept.len() - 1], worn[worn.len() - 1]);
            let trials = kept.len() - 1;
            if all - at < FULL * all && trials as f64 * chance >= CROWD * all {
                break;
            }
            // A line that comes finds room in a set that holds fewer than its ways.
            let room = below.iter().sum::<f64>().min(1.0);
            let next = at + chance * room;
            // Before the ways can be exceeded nothing is overwritten, whatever rounding says.
            let wears = trials >= ways as usize;
            kept.push(next);
            worn.push(wear + if wears { Self::wear(at, next, chance) } else { 0.0 });
            for k in (0..below.len()).rev() {
                let from_below = if k == 0 { 0.0 } else { below[k - 1] * chance };
                below[k] = below[k] * (1.0 - chance) + from_below;
            }
        }
        *kept.last_mut().expect("it began with one") = all;
        let lines = |n: usize| n as f64 * chance;
        let share = |(n, kept): (usize, &f64)| if n == 0 { 1.0 } else { kept / lines(n) };
        let crowd: Vec<f64> = kept.iter().enumerate().map(share).collect();
        let steps = kept.windows(2).zip(worn.windows(2)).enumerate();
        let steps = steps.map(|(n, (kept, worn))| Step::between(n, kept, worn, chance));
        let missing: Vec<f64> = kept.iter().map(|kept| all - kept).collect();
        let mut sets = Self {
            ways,
            chance,
            last: kept.len() - 1,
            steps: steps.collect(),
            worn_at_last: worn[worn.len() - 1],
            replacement,
            places_in_kept: Places::new(&missing),
            places_in_crowd: Places::new(&crowd[ways as usize + 1..]),
            kept,
            crowd,
            scan_at_last: 0.0,
            always: 0.0,
        };
        let scan = sets.scans();
        let missed = |n: usize| n as f64 * scan[n];
        for (n, step) in sets.steps.iter_mut().enumerate() {
            (step.missed, step.missed_more) = (missed(n), missed(n + 1) - missed(n));
        }
        sets.scan_at_last = scan[sets.last];
        let (mut low, mut high) = (0.0, 1.0);
        while high - low > FULL {
            let middle = (low + high) / 2.0;
            if sets.scan_with(middle) >= ALWAYS { low = middle } else { high = middle }
        }
        sets.always = low;
        sets
    }

    /// By trials, E[m f(m); m > ways] / E[m] with f the miss ratio of a scan within one set.
    fn scans(&self) -> Vec<f64> {
        let ratio = |lines: f64| match self.replacement {
            Replacement::Lru => 1.0,
            Replacement::Random => scan_of_set(lines, self.ways),
        };
        let misses = (0..=self.last as u32).map(|lines| {
            if lines > self.ways { f64::from(lines) * ratio(f64::from(lines)) } else { 0.0 }
        });
        let misses = misses.collect::<Vec<_>>();
        let of = |n: f64| expectation(n, self.chance, |k, weight| weight * misses[k as usize]);
        let ratios = (0..=self.last).map(|n| of(n as f64) / (n as f64 * self.chance).max(1e-9));
        ratios.map(|ratio| ratio.clamp(0.0, 1.0)).collect()
    }

    /// The integral of (1 - q) / kept over the lines that come while a set goes from `at` to
    /// `next` lines, where q = (next - at) / lines is the share of them that finds room.
    fn wear(at: f64, next: f64, lines: f64) -> f64 {
        let room = (next - at) / lines;
        if room > 1e-6 { (1.0 - room) / room * log(next / at) } else { (1.0 - room) * lines / at }
    }

    pub(super) fn ways(&self) -> u32 {
        self.ways
    }
    /// The trials after which `lines` lines have come to a set on average.
    pub(super) fn trials_of(&self, lines: f64) -> f64 {
        lines / self.chance
    }
    /// The step that so many trials are within; `None` beyond the tables.
    #[inline]
    fn step(&self, trials: f64) -> Option<(&Step, f64)> {
        // 32 bits are enough for any table, and quicker to come by.
        let n = trials as u32;
        self.steps.get(n as usize).map(|step| (step, trials - f64::from(n)))
    }
    /// The lines that a set keeps after so many trials.
    #[inline]
    pub(super) fn kept(&self, trials: f64) -> f64 {
        let step = self.step(trials);
        step.map_or(f64::from(self.ways), |(step, beyond)| step.kept + step.kept_more * beyond)
    }
    /// The least trials after which a set keeps so many lines.
    #[inline]
    pub(super) fn trials(&self, kept: f64) -> f64 {
        let above = self.keep_less(kept);
        if above == 0 || above > self.last {
            return above.min(self.last) as f64;
        }
        let below = above - 1;
        let step = &self.steps[below];
        f64::from(below as u32) + (kept - step.kept) / step.kept_more
    }
    /// How many numbers of trials there are after which a set keeps less.
    #[inline]
    fn keep_less(&self, kept: f64) -> usize {
        let mut at = self.places_in_kept.first(f64::from(self.ways) - kept);
        while self.kept.get(at).is_some_and(|less| *less < kept) {
            at += 1;
        }
        at
    }
    /// The first number of trials above the ways after which no more than this share of the lines
    /// is kept.
    #[inline]
    fn crowded_to(&self, share: f64) -> usize {
        let mut at = self.ways as usize + 1 + self.places_in_crowd.first(share);
        while self.crowd.get(at).is_some_and(|more| *more > share) {
            at += 1;
        }
        at
    }
    /// The share of lines coming after so many trials that find room in their set.
    #[inline]
    pub(super) fn room(&self, trials: f64) -> f64 {
        self.step(trials).map_or(0.0, |(step, _)| step.room)
    }
    /// How often a line has been overwritten after so many trials: what was there at trials `a` is
    /// there at `b` by the share exp(worn(a) - worn(b)).
    #[inline]
    pub(super) fn worn(&self, trials: f64) -> f64 {
        match self.step(trials) {
            Some((step, beyond)) => step.worn + step.worn_more * beyond,
            None => {
                let beyond = trials - self.last as f64;
                self.worn_at_last + beyond * self.chance / f64::from(self.ways)
            }
        }
    }

    /// [`Self::worn`] and [`Self::kept`] at once.
    #[inline]
    pub(super) fn worn_and_kept(&self, trials: f64) -> (f64, f64) {
        match self.step(trials) {
            Some((step, beyond)) => {
                (step.worn + step.worn_more * beyond, step.kept + step.kept_more * beyond)
            }
            None => (self.worn(trials), f64::from(self.ways)),
        }
    }

    /// The steady miss ratio of a walk in random order over a working set of so many trials, alone:
    /// E[(m - ways)+] / E[m].
    pub(super) fn random_order(&self, trials: f64) -> f64 {
        if trials <= f64::from(self.ways) {
            return 0.0;
        }
        1.0 - self.kept(trials) / (trials * self.chance)
    }
    /// The same for a scan in the same order again and again. Under LRU a set with more lines than
    /// ways never hits, E[m; m > ways] / E[m]; where any line goes, by [`scan_of_set`].
    pub(super) fn same_order(&self, trials: f64) -> f64 {
        if trials <= f64::from(self.ways) {
            return 0.0;
        }
        // Pages are spread evenly: some colours have one more than others, and so more lines.
        let within = |(step, beyond): (&Step, f64)| step.missed + step.missed_more * beyond;
        self.step(trials).map_or(self.scan_at_last, |step| within(step) / trials)
    }
    /// The miss ratio of a scan of which this share is resident: that of the crowd of lines, its
    /// own or others', in which just this share of all lines is.
    pub(super) fn scan_with(&self, resident: f64) -> f64 {
        if resident <= self.crowd[self.last] {
            return match self.replacement {
                Replacement::Lru => 1.0,
                Replacement::Random => overwritten(1.0 / resident),
            };
        }
        if resident >= 1.0 {
            return 0.0;
        }
        let high = self.crowded_to(resident);
        let low = high - 1;
        // Between two numbers of trials `kept` is linear: kept = resident * lines is met at
        let step = &self.steps[low];
        let at = step.kept_at_none / (resident * self.chance - step.kept_more);
        let low = f64::from(low as u32);
        let high = low + 1.0;
        if at > f64::from(self.ways) && at >= low && at < high {
            // Nearly always: [`Self::same_order`] within this step.
            return (step.missed + step.missed_more * (at - low)) / at;
        }
        self.same_order(at.clamp(low, high))
    }
}

/// The miss ratio of a scan within one set, with so many lines in so many ways, where any line
/// goes: one survives if none of the misses on the others, until it is used again, has overwritten
/// it, m = 1 - (1 - 1/ways)^(m (lines - 1)).
fn scan_of_set(lines: f64, ways: u32) -> f64 {
    overwritten(-log(1.0 - 1.0 / f64::from(ways)) * (lines - 1.0))
}

/// The larger solution of m = 1 - exp(-m x): the miss ratio of a scan in the same order under
/// random replacement that goes through x times what it holds. 0 up to x = 1.
pub(super) fn overwritten(x: f64) -> f64 {
    if x <= 1.0 {
        return 0.0;
    }
    // exp(-40) is lost beside 1, and an infinite x beside a zero is no number.
    if x > 40.0 {
        return 1.0;
    }
    // From the right of the root of a convex function Newton's steps never pass it.
    let mut m = 1.0;
    for _ in 0..64 {
        let survive = exp(-m * x);
        let step = (m - 1.0 + survive) / (1.0 - x * survive);
        m -= step;
        if step < 1e-6 {
            break;
        }
    }
    m.clamp(0.0, 1.0)
}

/// The sum of `term(k, P(k))` over k ~ Binomial(trials, chance).
fn expectation(trials: f64, chance: f64, term: impl Fn(f64, f64) -> f64) -> f64 {
    if chance >= 1.0 {
        return term(trials, 1.0);
    }
    // Weights relative to that of the mode, so that none underflows; the sum of them follows.
    let odds = chance / (1.0 - chance);
    let mode = ((trials + 1.0) * chance).floor().min(trials);
    let (mut weights, mut sum) = (0.0, 0.0);
    let (mut k, mut weight) = (mode, 1.0);
    while weight > NEGLIGIBLE {
        weights += weight;
        sum += term(k, weight);
        weight *= (trials - k) / (k + 1.0) * odds;
        k += 1.0;
    }
    let (mut k, mut weight) = (mode, 1.0);
    while k > 0.0 && weight > NEGLIGIBLE {
        weight *= k / ((trials - k + 1.0) * odds);
        k -= 1.0;
        weights += weight;
        sum += term(k, weight);
    }
    sum / weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_slices_every_set_gets_the_same() {
        let sets = Sets::new(8, 1, Replacement::Lru);
        assert_eq!((sets.kept(5.5), sets.kept(8.0), sets.kept(20.0)), (5.5, 8.0, 8.0));
        assert_eq!((sets.trials(5.5), sets.trials(8.0)), (5.5, 8.0));
        assert_eq!((sets.room(7.5), sets.room(8.0)), (1.0, 0.0));
        // One full turn of 8 lines over 8 ways: a line survives with exp(-1).
        assert_eq!((sets.worn(8.0), sets.worn(16.0)), (0.0, 1.0));
        assert_eq!((sets.random_order(16.0), sets.same_order(8.0)), (0.5, 0.0));
        // 8.5 pages a colour: half of the colours have nine lines a set, and nine of 17 lines.
        assert!((sets.same_order(8.5) - 9.0 / 17.0).abs() < 1e-12);
    }

    #[test]
    fn an_index_finds_what_a_search_of_all_finds() {
        for (ways, slices) in [(1, 1), (8, 1), (12, 4), (20, 64), (128, 1), (256, 64)] {
            for replacement in [Replacement::Random, Replacement::Lru] {
                let sets = Sets::new(ways, slices, replacement);
                let from = ways as usize + 1;
                assert!(sets.kept.is_sorted() && sets.crowd[from..].is_sorted_by(|a, b| a >= b));
                let between = (0..10_000).map(|step| f64::from(step) * 1e-4);
                let shares: Vec<f64> = between.chain(sets.crowd[from..].iter().copied()).collect();
                for number in
                    shares.iter().map(|share| share * f64::from(ways)).chain(sets.kept.clone())
                {
                    let found = sets.keep_less(number);
                    let less = sets.kept.partition_point(|kept| *kept < number);
                    assert_eq!(found, less, "{ways} {slices} {number}");
                }
                for number in shares {
                    let found = sets.crowded_to(number) - from;
                    let more = sets.crowd[from..].partition_point(|share| *share > number);
                    assert_eq!(found, more, "{ways} {slices} {number}");
                }
            }
        }
    }

    #[test]
    fn tables_agree_with_the_distribution() {
        let sets = Sets::new(12, 4, Replacement::Random);
        for trials in [13.0, 40.0, 64.0, 100.0] {
            let kept = expectation(trials, 0.25, |k, weight| weight * k.min(12.0));
            assert!((sets.kept(trials) - kept).abs() < 1e-9, "{trials}");
            assert!((sets.trials(kept) - trials).abs() < 1e-6, "{trials}");
        }
        assert!((expectation(4000.0, 0.25, |k, weight| weight * k) - 1000.0).abs() < 1e-6);
    }

    #[test]
    fn a_scan_overwrites_itself_by_the_fixed_point() {
        assert_eq!((overwritten(0.0), overwritten(1.0)), (0.0, 0.0));
        for x in [1.01, 1.5, 3.0, 20.0] {
            let m = overwritten(x);
            assert!((1.0 - exp(-m * x) - m).abs() < 1e-5 && m > 0.0, "{x} {m}");
        }
    }
}
