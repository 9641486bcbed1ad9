//! Utilisations with a given sum: points drawn uniformly from a slice of a cube.
//!
//! All n coordinates lie within the same bounds and sum to the total. The set of such points is
//! the slice; both methods draw from it uniformly in floats, and [`Slice::apportion`] then puts the
//! point on the grid.

use super::random::Random;

/// The points whose coordinates lie within least..=most and sum to the total, in grid steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    /// How many coordinates; at least one.
    pub(super) tasks: usize,
    /// Their sum; from `tasks * least` to `tasks * most`.
    pub(super) total: u64,
    /// The lower bound of each.
    pub(super) least: u64,
    /// The upper bound of each.
    pub(super) most: u64,
}

impl Slice {
    /// A uniform point by UUniFast, drawn again until no coordinate exceeds the upper bound.
    ///
    /// E. Bini, G. C. Buttazzo. "Measuring the Performance of Schedulability Tests." Real-Time
    /// Systems 30, 2005 (UUniFast); R. I. Davis, A. Burns. "Priority Assignment for Global Fixed
    /// Priority Pre-emptive Scheduling in Multiprocessor Real-Time Systems." RTSS 2009 (Discard).
    pub(super) fn uunifast_discard(&self, random: &mut Random) -> Vec<u64> {
        let (rest, span) = (self.rest(), self.span());
        let mut shares = Vec::with_capacity(self.tasks);
        loop {
            shares.clear();
            let mut left = rest;
            for others in (1..self.tasks).rev() {
                let next = left * libm::pow(random.unit(), 1.0 / others as f64);
                // The whole point is discarded; the coordinates that are still to come are not
                // needed for that.
                if left - next > span {
                    break;
                }
                shares.push(left - next);
                left = next;
            }
            if shares.len() + 1 == self.tasks && left <= span {
                shares.push(left);
                return self.apportion(&shares);
            }
        }
    }

    /// A uniform point by RandFixedSum, which never discards.
    ///
    /// R. Stafford. "Random Vectors with Fixed Sum." MATLAB Central File Exchange 9700, 2006;
    /// P. Emberson, R. Stafford, R. I. Davis. "Techniques for the Synthesis of Multiprocessor
    /// Tasksets." WATERS 2010.
    ///
    /// The slice of an i-cube at sum s is cut into pyramids whose apex is its centre (all
    /// coordinates s / i) and whose bases are the slices of the facets, where one coordinate is 0
    /// or 1. A pyramid is drawn by its volume, a height in it, and a point of the base in the same
    /// way, one dimension lower. Which coordinate it is each time is settled by a shuffle.
    pub(super) fn randfixedsum(&self, random: &mut Random) -> Vec<u64> {
        let (sum, span) = (self.sum(), self.span());
        if self.rest() <= 0.0 || sum >= self.tasks as f64 {
            return self.apportion(&vec![self.rest() / self.tasks as f64; self.tasks]);
        }
        // Distances from the upper bound instead, where they have the smaller sum.
        let mirror = sum > self.tasks as f64 / 2.0;
        let pyramids = Pyramids::new(self.tasks, sum.min(self.tasks as f64 - sum));
        let mut shares = Vec::with_capacity(self.tasks);
        let mut whole = pyramids.whole;
        // The coordinates still to be drawn are `base + scale * y` with y from a smaller slice.
        let (mut base, mut scale) = (0.0, 1.0);
        for i in (2..=self.tasks).rev() {
            let at_one = random.unit() < pyramids.at_one(i, whole);
            // Volumes of a pyramid of dimension i - 1 shrink with that power towards the apex.
            let height = libm::pow(random.unit(), 1.0 / (i - 1) as f64);
            let centre = (whole as f64 + pyramids.part) / i as f64;
            base += scale * (1.0 - height) * centre;
            scale *= height;
            shares.push(base + if at_one { scale } else { 0.0 });
            whole -= usize::from(at_one);
        }
        shares.push(base + scale * pyramids.part);
        for share in &mut shares {
            *share = span * if mirror { 1.0 - *share } else { *share };
        }
        for end in (1..shares.len()).rev() {
            shares.swap(end, random.below(end as u64 + 1) as usize);
        }
        self.apportion(&shares)
    }

    /// The share of UUniFast's points that are not discarded: the volume of the slice with the
    /// upper bound in that without.
    pub(super) fn acceptance(&self) -> f64 {
        let (n, sum) = (self.tasks as f64, self.sum());
        if sum <= 1.0 {
            return 1.0;
        }
        // One coordinate exceeds the bound with the chance (1 - 1 / sum)^(n - 1), any of them at
        // most n times as often. The volumes need not be computed where that is little.
        let spared = 1.0 - n * libm::pow(1.0 - 1.0 / sum, n - 1.0);
        if spared > 0.5 {
            return spared;
        }
        if sum >= n {
            return 0.0;
        }
        let ln_volume = Pyramids::new(self.tasks, sum.min(n - sum)).ln_volume;
        libm::exp(ln_volume - (n - 1.0) * libm::log(sum)).min(1.0)
    }

    /// What is left of the total above the lower bounds.
    fn rest(&self) -> f64 {
        (self.total - self.tasks as u64 * self.least) as f64
    }
    fn span(&self) -> f64 {
        (self.most - self.least) as f64
    }
    /// The sum in units of the span: from 0 to n, as if the bounds were 0 and 1.
    fn sum(&self) -> f64 {
        self.rest() / self.span().max(1.0)
    }

    /// Puts shares of the rest on the grid by the method of largest remainders: all are rounded
    /// down, and what is missing goes, a step each, to those that lost most.
    ///
    /// The total is exact and the bounds are kept, since they are whole. Every coordinate moves by
    /// less than one step, and as all are treated alike, the mean of each stays what it was.
    pub(super) fn apportion(&self, shares: &[f64]) -> Vec<u64> {
        let span = self.most - self.least;
        let mut steps: Vec<u64> =
            shares.iter().map(|share| (share.max(0.0) as u64).min(span)).collect();
        let rest = self.total - self.tasks as u64 * self.least;
        let remainder = |task: usize, steps: &[u64]| shares[task] - steps[task] as f64;
        let mut order: Vec<usize> = (0..self.tasks).collect();
        order.sort_by(|a, b| remainder(*b, &steps).total_cmp(&remainder(*a, &steps)));
        let mut sum: u64 = steps.iter().sum();
        // Rounding down loses less than a step each; floats as much again at the very most.
        let most = 2 * self.tasks as u64;
        assert!(sum.abs_diff(rest) <= most, "{self:?}: shares sum to {sum} steps, not {rest}");
        for &task in order.iter().cycle() {
            if sum >= rest {
                break;
            }
            let room = u64::from(steps[task] < span);
            (steps[task], sum) = (steps[task] + room, sum + room);
        }
        // Only where the last bits of the floats put the shares above the total.
        for &task in order.iter().rev().cycle() {
            if sum <= rest {
                break;
            }
            let spare = u64::from(steps[task] > 0);
            (steps[task], sum) = (steps[task] - spare, sum - spare);
        }
        steps.iter().map(|step| step + self.least).collect()
    }
}

/// How the slices of cubes up to n dimensions are cut into pyramids.
///
/// On the walk from n dimensions down, sums are `part` plus a whole number j, and V_i(j), the
/// volume of the slice of the i-cube, obeys (i - 1) V_i(j) = s V_{i-1}(j) + (i - s) V_{i-1}(j - 1)
/// with s = j + part: the first term is the pyramids on the facets at 0, the second those at 1.
/// (V_i is the density of a sum of i uniform numbers, and this its recurrence as a B-spline.)
struct Pyramids {
    /// The whole number in the sum at n dimensions.
    whole: usize,
    /// The rest of the sum, in [0, 1).
    part: f64,
    /// For i from 2 and j from 0 to `whole`: the share of the pyramids on the facets at 1.
    at_one: Vec<f64>,
    /// ln((n - 1)! V_n), which for the slice of the first orthant instead of the cube would be
    /// ln(sum^(n - 1)).
    ln_volume: f64,
}

impl Pyramids {
    /// For a sum above 0 and up to half the tasks.
    fn new(tasks: usize, sum: f64) -> Self {
        let whole = (sum as usize).min(tasks - 1);
        let part = sum - whole as f64;
        // The volumes of one dimension span more magnitudes than a float has (those of 400 tasks
        // more than 10^800). Kept over the largest of them they are near 1 where walks pass, which
        // keep to sums near i / 2 as soon as they can, and nothing is lost where they vanish.
        let mut volumes = vec![0.0; whole + 1];
        volumes[0] = 1.0;
        let mut at_one = Vec::with_capacity((tasks - 1) * (whole + 1));
        let mut ln_scale = 0.0;
        for i in 2..=tasks {
            let row = at_one.len();
            at_one.resize(row + whole + 1, 0.0);
            let mut largest = 0.0f64;
            for j in (0..=whole.min(i - 1)).rev() {
                let s = j as f64 + part;
                let below = if j == 0 { 0.0 } else { volumes[j - 1] };
                let (zeros, ones) = (s * volumes[j], (i as f64 - s) * below);
                volumes[j] = zeros + ones;
                largest = largest.max(volumes[j]);
                // At j = i - 1 there is nothing at 0, whatever the floats have lost.
                at_one[row + j] = if j == i - 1 { 1.0 } else { ones / volumes[j] };
            }
            volumes.iter_mut().for_each(|volume| *volume /= largest);
            ln_scale += libm::log(largest);
        }
        let ln_volume = libm::log(volumes[whole]) + ln_scale;
        Self { whole, part, at_one, ln_volume }
    }

    /// The chance that a coordinate of the slice of the `i`-cube at `whole` is 1 on its base.
    fn at_one(&self, i: usize, whole: usize) -> f64 {
        self.at_one[(i - 2) * (self.whole + 1) + whole]
    }
}
