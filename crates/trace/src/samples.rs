//! A distribution of durations, taken in one by one at small and bounded cost.

use maracas_core::Buckets;

/// How many values other than zero are kept exactly before they go into a histogram: half a
/// mebibyte per VCPU, enough for eleven minutes of 10 ms periods.
const EXACT: usize = 1 << 16;

/// The histogram: a percentile read from it is at most 1 / 2^7 = 0.8 % too high.
type Histogram = Buckets<7>;

/// Values with exact count, sum and maximum; percentiles are exact up to [`EXACT`] values other
/// than zero, from then on as good as the histogram.
#[derive(Clone, Default, Debug)]
pub(crate) struct Samples {
    zeros: u64,
    exact: Vec<u64>,
    histogram: Option<Histogram>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Samples {
    /// Takes in one value.
    pub(crate) fn add(&mut self, value: u64) {
        self.count += 1;
        if value == 0 {
            self.zeros += 1;
            return;
        }
        self.sum += u128::from(value);
        self.max = self.max.max(value);
        if let Some(histogram) = &mut self.histogram {
            histogram.add(value);
            return;
        }
        self.exact.push(value);
        if self.exact.len() == EXACT {
            self.as_histogram();
        }
    }
    /// Goes over to the histogram.
    fn as_histogram(&mut self) -> &mut Histogram {
        let exact = std::mem::take(&mut self.exact);
        let histogram = self.histogram.get_or_insert_default();
        exact.into_iter().for_each(|value| histogram.add(value));
        histogram
    }
    /// The values of both.
    fn joined(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.zeros += other.zeros;
        both.count += other.count;
        both.sum += other.sum;
        both.max = both.max.max(other.max);
        both.exact.extend_from_slice(&other.exact);
        if both.exact.len() >= EXACT || both.histogram.is_some() || other.histogram.is_some() {
            let counts = both.as_histogram();
            other.histogram.iter().for_each(|more| counts.join(more));
        }
        both
    }
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }
    pub(crate) const fn max(&self) -> u64 {
        self.max
    }
    pub(crate) fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }
    /// The smallest value that at least `percent` % of the values do not exceed (nearest rank);
    /// 0 where there are none.
    pub(crate) fn percentile(&self, percent: u64) -> u64 {
        self.ranked((self.count * percent).div_ceil(100))
    }
    /// The value of this rank, the smallest having rank 1.
    fn ranked(&self, rank: u64) -> u64 {
        if rank <= self.zeros {
            return 0;
        }
        let rank = rank - self.zeros;
        let Some(histogram) = &self.histogram else {
            let mut sorted = self.exact.clone();
            let index = (rank - 1) as usize;
            return *sorted.select_nth_unstable(index).1;
        };
        histogram.ranked(rank).map_or(self.max, |value| value.min(self.max))
    }
}

/// A distribution of differences, which have a sign; on either side of zero as exact as
/// [`Samples`].
#[derive(Clone, Default, Debug)]
pub(crate) struct Differences {
    /// How far below zero, of those that are.
    below: Samples,
    /// Zero and above.
    above: Samples,
}

impl Differences {
    /// Takes in `value - from`.
    pub(crate) fn add(&mut self, value: u64, from: u64) {
        match value.checked_sub(from) {
            Some(above) => self.above.add(above),
            None => self.below.add(from - value),
        }
    }
    pub(crate) const fn count(&self) -> u64 {
        self.below.count + self.above.count
    }
    /// How large they are, whatever their signs.
    pub(crate) fn sizes(&self) -> Samples {
        self.below.joined(&self.above)
    }
    /// The smallest that at least `percent` % do not exceed (nearest rank): whether it is below
    /// zero, and its size; 0 where there are none.
    pub(crate) fn percentile(&self, percent: u64) -> (bool, u64) {
        let rank = (self.count() * percent).div_ceil(100);
        match rank.checked_sub(self.below.count) {
            None | Some(0) if rank > 0 => (true, self.below.ranked(self.below.count + 1 - rank)),
            None | Some(0) => (false, 0),
            Some(rank) => (false, self.above.ranked(rank)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank() {
        let mut samples = Samples::default();
        assert_eq!((samples.percentile(50), samples.mean()), (0, 0.0));
        (1..=100).for_each(|value| samples.add(value));
        assert_eq!([50, 99, 100].map(|p| samples.percentile(p)), [50, 99, 100]);
        (0..100).for_each(|_| samples.add(0));
        assert_eq!([50, 75, 99].map(|p| samples.percentile(p)), [0, 50, 98]);
        assert_eq!((samples.count(), samples.max(), samples.mean()), (200, 100, 25.25));
    }

    #[test]
    fn differences_have_a_sign() {
        let mut errors = Differences::default();
        assert_eq!((errors.percentile(50), errors.count()), ((false, 0), 0));
        // -50 to 49.
        (0..100).for_each(|value| errors.add(value, 50));
        let seen = [1, 2, 50, 51, 52, 99, 100].map(|percent| errors.percentile(percent));
        let below = [(true, 50), (true, 49), (true, 1)];
        let above = [(false, 0), (false, 1), (false, 48), (false, 49)];
        assert_eq!((&seen[..3], &seen[3..]), (&below[..], &above[..]));
        let sizes = errors.sizes();
        assert_eq!((sizes.count(), sizes.max(), sizes.mean()), (100, 50, 25.0));
        assert_eq!((sizes.percentile(50), sizes.percentile(1)), (25, 0));
    }

    #[test]
    fn joined_samples_are_as_fine_as_their_parts() {
        let mut errors = Differences::default();
        // More than are kept exactly on the one side, few on the other.
        (1..=100_000).for_each(|value| errors.add(1_000_000 - value, 1_000_000));
        (1..=100).for_each(|value| errors.add(1_000_000 + value, 1_000_000));
        let sizes = errors.sizes();
        assert_eq!((sizes.count(), sizes.max()), (100_100, 100_000));
        let median = sizes.percentile(50);
        assert!((49_950..=50_400).contains(&median), "{median}");
        let (is_below, least) = errors.percentile(1);
        assert!(is_below && (98_900..=99_800).contains(&least), "{least}");
        assert_eq!(errors.percentile(100), (false, 100));
    }

    #[test]
    fn the_histogram_is_as_fine_as_it_says() {
        let mut samples = Samples::default();
        (1..=200_000).for_each(|value| samples.add(value));
        let median = samples.percentile(50);
        assert!((100_000..=100_800).contains(&median), "{median}");
        assert_eq!((samples.percentile(100), samples.max()), (200_000, 200_000));
        assert!((samples.mean() - 100_000.5).abs() < 1e-6);
    }
}
