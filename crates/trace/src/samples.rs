//! A distribution of durations, taken in one by one at small and bounded cost.

/// How many values other than zero are kept exactly before they go into a histogram: half a
/// mebibyte per VCPU, enough for eleven minutes of 10 ms periods.
const EXACT: usize = 1 << 16;

/// Sub-buckets of an octave in the histogram, as a power of two: a value is known to 1 part in
/// 2^7, so a percentile read from the histogram is at most 0.8 % too high.
const SUB_BITS: u32 = 7;

/// Buckets that cover every 64-bit value: 57 octaves of 128 above the first 128 values.
const BUCKETS: usize = ((64 - SUB_BITS as usize) << SUB_BITS) + (1 << SUB_BITS);

/// Values with exact count, sum and maximum; percentiles are exact up to [`EXACT`] values other
/// than zero, from then on as good as the histogram.
#[derive(Clone, Default, Debug)]
pub(crate) struct Samples {
    zeros: u64,
    exact: Vec<u64>,
    histogram: Option<Box<[u64]>>,
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
            histogram[bucket(value)] += 1;
            return;
        }
        self.exact.push(value);
        if self.exact.len() == EXACT {
            let mut histogram = vec![0; BUCKETS].into_boxed_slice();
            self.exact.drain(..).for_each(|value| histogram[bucket(value)] += 1);
            self.exact = Vec::new();
            self.histogram = Some(histogram);
        }
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
        let rank = (self.count * percent).div_ceil(100);
        if rank <= self.zeros {
            return 0;
        }
        let rank = rank - self.zeros;
        let Some(histogram) = &self.histogram else {
            let mut sorted = self.exact.clone();
            let index = (rank - 1) as usize;
            return *sorted.select_nth_unstable(index).1;
        };
        let mut seen = 0;
        let found = histogram.iter().position(|n| {
            seen += n;
            seen >= rank
        });
        found.map_or(self.max, |index| highest(index).min(self.max))
    }
}

/// The bucket of `value`: the first 2^8 values have their own; above, an octave has 2^7 buckets.
fn bucket(value: u64) -> usize {
    let octave = value.checked_ilog2().unwrap_or(0);
    let shift = octave.saturating_sub(SUB_BITS);
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// The highest value in bucket `index`.
const fn highest(index: usize) -> u64 {
    if index < 2 << SUB_BITS {
        return index as u64;
    }
    let shift = (index >> SUB_BITS) - 1;
    let mantissa = (index - (shift << SUB_BITS)) as u64;
    (mantissa << shift) | ((1 << shift) - 1)
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
    fn the_histogram_is_as_fine_as_it_says() {
        for value in [1, 127, 128, 255, 256, 257, 1_000_003, 1 << 40, u64::MAX] {
            let high = highest(bucket(value));
            assert!(high >= value && high - value <= value >> SUB_BITS, "{value}: {high}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        let mut samples = Samples::default();
        (1..=200_000).for_each(|value| samples.add(value));
        let median = samples.percentile(50);
        assert!((100_000..=100_800).contains(&median), "{median}");
        assert_eq!((samples.percentile(100), samples.max()), (200_000, 200_000));
        assert!((samples.mean() - 100_000.5).abs() < 1e-6);
    }
}
