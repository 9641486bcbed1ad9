//! Statistics of repeated runs.

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal, StudentsT};

/// A mean with its 95 % confidence interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mean {
    /// The arithmetic mean.
    pub mean: f64,
    /// Half of the width of the 95 % confidence interval by Student's t distribution, which takes
    /// the means of samples as normal; 0 for fewer than two values.
    pub half_width: f64,
}

impl Mean {
    /// Of `values`; 0 where there are none.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        if values.is_empty() {
            return Self { mean: 0.0, half_width: 0.0 };
        }
        let mean = values.iter().sum::<f64>() / count;
        let square = |value: &f64| (value - mean) * (value - mean);
        let error = (values.iter().map(square).sum::<f64>() / (count - 1.0) / count).sqrt();
        // One value tells nothing of its spread.
        let t = StudentsT::new(0.0, 1.0, count - 1.0).map(|t| t.inverse_cdf(0.975));
        Self { mean, half_width: t.map_or(0.0, |t| t * error) }
    }
    /// The lower end of the interval.
    pub fn low(&self) -> f64 {
        self.mean - self.half_width
    }
    /// The upper end of the interval.
    pub fn high(&self) -> f64 {
        self.mean + self.half_width
    }
}

/// A share with its 95 % confidence interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Share {
    /// Of the sample; 0 where it is empty.
    pub share: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Share {
    /// `part` of `whole`, with the score interval of E. B. Wilson ("Probable Inference, the Law of
    /// Succession, and Statistical Inference", JASA 22, 1927), which says something of 0 and 1
    /// too. From 0 to 1 where nothing was counted.
    pub fn of(part: u64, whole: u64) -> Self {
        if whole == 0 {
            return Self { share: 0.0, low: 0.0, high: 1.0 };
        }
        let (count, share) = (whole as f64, part as f64 / whole as f64);
        let z = Normal::standard().inverse_cdf(0.975);
        let (square, scale) = (z * z / count, 1.0 + z * z / count);
        let middle = (share + square / 2.0) / scale;
        let half = z * (share * (1.0 - share) / count + square / count / 4.0).sqrt() / scale;
        // At both ends rounding would leave some 1e-17.
        let low = if part == 0 { 0.0 } else { middle - half };
        let high = if part == whole { 1.0 } else { middle + half };
        Self { share, low, high }
    }
}

/// Two measures of the same things, compared thing by thing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Paired {
    /// How many pairs.
    pub count: usize,
    /// The mean of the first of each pair.
    pub first: f64,
    /// The mean of the second of each pair.
    pub second: f64,
    /// First less second.
    pub difference: Mean,
    /// Pairs in which the first is lower.
    pub lower: u64,
    /// Pairs in which both are equal.
    pub equal: u64,
    /// Pairs in which the first is higher.
    pub higher: u64,
    /// Of the sign test: see [`sign_test`].
    pub p: f64,
}

impl Paired {
    /// Of `pairs`.
    pub fn of(pairs: &[(f64, f64)]) -> Self {
        let mean =
            |of: &dyn Fn(&(f64, f64)) -> f64| Mean::of(&pairs.iter().map(of).collect::<Vec<_>>());
        let count =
            |of: &dyn Fn(&(f64, f64)) -> bool| pairs.iter().filter(|pair| of(pair)).count() as u64;
        let lower = count(&|(first, second)| first < second);
        let higher = count(&|(first, second)| first > second);
        Self {
            count: pairs.len(),
            first: mean(&|(first, _)| *first).mean,
            second: mean(&|(_, second)| *second).mean,
            difference: mean(&|(first, second)| first - second),
            lower,
            equal: pairs.len() as u64 - lower - higher,
            higher,
            p: sign_test(lower, higher),
        }
    }
}

/// The probability that, of things that go either way with equal odds, so few or fewer go the
/// rarer way: the two-sided exact sign test, in which ties have no say. For shares this is
/// McNemar's exact test. 1 where there is nothing to tell.
pub fn sign_test(lower: u64, higher: u64) -> f64 {
    Binomial::new(0.5, lower + higher)
        .map_or(1.0, |heads| (2.0 * heads.cdf(lower.min(higher))).min(1.0))
}

/// The geometric mean of positive values; 1 where there are none.
pub fn geometric_mean(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (sum / (values.len().max(1)) as f64).exp()
}

/// `ours` against `published` as a fraction: +0.03 = 3 % above.
pub fn relative(ours: f64, published: f64) -> f64 {
    ours / published - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_have_student_s_interval() {
        // Mean 3, standard deviation 1.581, t(4, 97.5 %) = 2.776 (any t table): 1.963.
        let mean = Mean::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((mean.mean - 3.0).abs() < 1e-12 && (mean.half_width - 1.963).abs() < 1e-3);
        assert!((mean.low() - 1.037).abs() < 1e-3 && (mean.high() - 4.963).abs() < 1e-3);
        assert_eq!(Mean::of(&[7.0]), Mean { mean: 7.0, half_width: 0.0 });
        assert_eq!(Mean::of(&[]).mean, 0.0);
    }

    #[test]
    fn shares_have_wilson_s_interval() {
        // R, prop.test(8, 10, correct = FALSE) and prop.test(0, 10, correct = FALSE).
        let near = |share: Share, low: f64, high: f64| {
            assert!(
                (share.low - low).abs() < 5e-5 && (share.high - high).abs() < 5e-5,
                "{share:?}"
            );
        };
        near(Share::of(8, 10), 0.49016, 0.94331);
        near(Share::of(0, 10), 0.0, 0.27753);
        near(Share::of(10, 10), 0.72247, 1.0);
        near(Share::of(500, 1000), 0.46907, 0.53093);
        assert_eq!(Share::of(0, 0), Share { share: 0.0, low: 0.0, high: 1.0 });
        assert_eq!((Share::of(0, 7).low, Share::of(7, 7).high), (0.0, 1.0));
    }

    #[test]
    fn pairs_are_compared_pair_by_pair() {
        // 1 of 10 against: 2 (1 + 10) / 1024.
        assert!((sign_test(1, 9) - 22.0 / 1024.0).abs() < 1e-12);
        assert!((sign_test(9, 1) - 22.0 / 1024.0).abs() < 1e-12);
        assert_eq!((sign_test(5, 5), sign_test(0, 0)), (1.0, 1.0));
        assert!((sign_test(0, 20) - 2.0 / 1_048_576.0).abs() < 1e-15);
        // Differences 1, 2, 3, 0: mean 1.5, deviation 1.291, t(3, 97.5 %) = 3.182.
        let paired = Paired::of(&[(2.0, 1.0), (4.0, 2.0), (6.0, 3.0), (1.0, 1.0)]);
        assert_eq!((paired.count, paired.first, paired.second), (4, 3.25, 1.75));
        assert_eq!((paired.lower, paired.equal, paired.higher), (0, 1, 3));
        assert!((paired.p - 0.25).abs() < 1e-12);
        assert!((paired.difference.mean - 1.5).abs() < 1e-12);
        assert!((paired.difference.half_width - 2.054).abs() < 1e-3);
        assert_eq!(Paired::of(&[]).p, 1.0);
    }

    #[test]
    fn geometric_means_and_differences() {
        assert!((geometric_mean(&[1.0, 4.0, 16.0]) - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), 1.0);
        assert!((relative(103.0, 100.0) - 0.03).abs() < 1e-12);
    }
}
