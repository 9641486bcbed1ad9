//! How lines fall on sets: what one set keeps, and how programs then get into each other's way.
//!
//! A program's pages are spread evenly over the colours of its part, so that every set of a slice
//! has the same number of pages with a line for it or for the same set of another slice; the hash
//! sends that line to each slice alike. So the lines for a set are Binomial(trials, 1 / slices)
//! with `trials` = pages per colour. It is the same where lines belong to several programs.

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
    /// By trials: E[min(m, ways)], the lines that a set keeps.
    kept: Vec<f64>,
    /// By trials: how often a line of the set has been overwritten on the way there.
    worn: Vec<f64>,
    replacement: Replacement,
    /// By trials: the share of the lines that is kept, 1 for none.
    crowd: Vec<f64>,
    /// By trials: how often a scan misses.
    scan: Vec<f64>,
    /// A scan of which no more than this share is resident misses always.
    pub(super) always: f64,
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
        let crowd = kept.iter().enumerate().map(share).collect();
        let mut sets =
            Self { ways, chance, kept, worn, replacement, crowd, scan: Vec::new(), always: 0.0 };
        sets.scan = sets.scans();
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
        let misses = (0..=self.last() as u32).map(|lines| {
            if lines > self.ways { f64::from(lines) * ratio(f64::from(lines)) } else { 0.0 }
        });
        let misses = misses.collect::<Vec<_>>();
        let of = |n: f64| expectation(n, self.chance, |k, weight| weight * misses[k as usize]);
        let ratios = (0..=self.last()).map(|n| of(n as f64) / (n as f64 * self.chance).max(1e-9));
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
    fn last(&self) -> usize {
        self.kept.len() - 1
    }
    /// The lines that a set keeps after so many trials.
    pub(super) fn kept(&self, trials: f64) -> f64 {
        let n = trials as usize;
        if n >= self.last() {
            return f64::from(self.ways);
        }
        self.kept[n] + (self.kept[n + 1] - self.kept[n]) * (trials - n as f64)
    }
    /// The least trials after which a set keeps so many lines.
    pub(super) fn trials(&self, kept: f64) -> f64 {
        let above = self.kept.partition_point(|at| *at < kept);
        if above == 0 || above > self.last() {
            return above.min(self.last()) as f64;
        }
        let (low, high) = (self.kept[above - 1], self.kept[above]);
        (above - 1) as f64 + (kept - low) / (high - low)
    }
    /// The share of lines coming after so many trials that find room in their set.
    pub(super) fn room(&self, trials: f64) -> f64 {
        let n = trials as usize;
        if n >= self.last() { 0.0 } else { (self.kept[n + 1] - self.kept[n]) / self.chance }
    }
    /// How often a line has been overwritten after so many trials: what was there at trials `a` is
    /// there at `b` by the share exp(worn(a) - worn(b)).
    pub(super) fn worn(&self, trials: f64) -> f64 {
        let (n, last) = (trials as usize, self.last());
        if n >= last {
            return self.worn[last] + (trials - last as f64) * self.chance / f64::from(self.ways);
        }
        self.worn[n] + (self.worn[n + 1] - self.worn[n]) * (trials - n as f64)
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
        let n = trials as usize;
        if trials <= f64::from(self.ways) {
            return 0.0;
        }
        if n >= self.last() {
            return self.scan[self.last()];
        }
        // Pages are spread evenly: some colours have one more than others, and so more lines.
        let of = |n: usize| n as f64 * self.scan[n];
        (of(n) + (of(n + 1) - of(n)) * (trials - n as f64)) / trials
    }
    /// The miss ratio of a scan of which this share is resident: that of the crowd of lines, its
    /// own or others', in which just this share of all lines is.
    pub(super) fn scan_with(&self, resident: f64) -> f64 {
        if resident <= self.crowd[self.last()] {
            return match self.replacement {
                Replacement::Lru => 1.0,
                Replacement::Random => overwritten(1.0 / resident),
            };
        }
        if resident >= 1.0 {
            return 0.0;
        }
        let from = self.ways as usize + 1;
        let high = from + self.crowd[from..].partition_point(|share| *share > resident);
        let low = high - 1;
        // Between two numbers of trials `kept` is linear: kept = resident * lines is met at
        let slope = self.kept[high] - self.kept[low];
        let at = (self.kept[low] - slope * low as f64) / (resident * self.chance - slope);
        self.same_order(at.clamp(low as f64, high as f64))
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
