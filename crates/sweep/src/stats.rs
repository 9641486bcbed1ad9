//! Statistics of repeated runs.

/// The 97.5 % quantile of the standard normal distribution: 95 % lie within it on both sides.
const NORMAL: f64 = 1.959_963_984_540_054;

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
        let mut running = Running::default();
        values.iter().for_each(|value| running.add(*value));
        values.iter().for_each(|value| running.spread(*value));
        running.mean()
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

/// A mean of values that are not kept: they come twice, in the same order.
#[derive(Clone, Copy, Default, Debug)]
pub struct Running {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Running {
    /// The first time.
    pub fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
    }
    /// The second time, once all were there: squares of differences from the mean lose no digits.
    pub fn spread(&mut self, value: f64) {
        let difference = value - self.sum / self.count;
        self.squares += difference * difference;
    }
    /// The mean; 0 where there was no value.
    pub fn mean(&self) -> Mean {
        let Self { count, sum, squares } = *self;
        if count == 0.0 {
            return Mean { mean: 0.0, half_width: 0.0 };
        }
        let error = (squares / (count - 1.0) / count).sqrt();
        // One value says nothing of its spread.
        let half_width = if count < 2.0 { 0.0 } else { student_t(count - 1.0) * error };
        Mean { mean: sum / count, half_width }
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
        let z = NORMAL;
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
        let mut running = RunningPairs::default();
        pairs.iter().for_each(|(first, second)| running.add(*first, *second));
        pairs.iter().for_each(|(first, second)| running.spread(*first, *second));
        running.paired()
    }
}

/// Pairs that are not kept: they come twice, in the same order.
#[derive(Clone, Copy, Default, Debug)]
pub struct RunningPairs {
    first: Running,
    second: Running,
    difference: Running,
    lower: u64,
    equal: u64,
    higher: u64,
}

impl RunningPairs {
    /// The first time.
    pub fn add(&mut self, first: f64, second: f64) {
        self.first.add(first);
        self.second.add(second);
        self.difference.add(first - second);
        self.lower += u64::from(first < second);
        self.equal += u64::from(first == second);
        self.higher += u64::from(first > second);
    }
    /// The second time, once all were there.
    pub fn spread(&mut self, first: f64, second: f64) {
        self.difference.spread(first - second);
    }
    /// The comparison.
    pub fn paired(&self) -> Paired {
        let Self { lower, equal, higher, .. } = *self;
        Paired {
            count: (lower + equal + higher) as usize,
            first: self.first.sum / self.first.count.max(1.0),
            second: self.second.sum / self.second.count.max(1.0),
            difference: self.difference.mean(),
            lower,
            equal,
            higher,
            p: sign_test(lower, higher),
        }
    }
}

/// The probability that, of things that go either way with equal odds, so few or fewer go the rarer
/// way: the two-sided exact sign test, in which ties have no say. For shares this is McNemar's
/// exact test. 1 where there is nothing to compare.
pub fn sign_test(lower: u64, higher: u64) -> f64 {
    let (rarer, more) = (lower.min(higher) as f64, lower.max(higher) as f64);
    // At most k of n: I(1/2; n - k, k + 1) (Numerical Recipes, equation 6.14.50).
    if more == 0.0 { 1.0 } else { (2.0 * incomplete_beta(0.5, more, rarer + 1.0)).min(1.0) }
}

/// The 97.5 % quantile of Student's t distribution with `freedom` degrees of freedom, at least 1:
/// 95 % lie within it on both sides.
pub fn student_t(freedom: f64) -> f64 {
    // Beyond t on both sides lies I(n / (n + t^2); n/2, 1/2) (Numerical Recipes, equation 6.14.10).
    let beyond = |t: f64| incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5);
    // Between the normal distribution's and that of one degree, 12.706.
    let (mut low, mut high) = (NORMAL, 13.0);
    // Each step halves the interval: after 60 none is left in 53 bits.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if beyond(middle) > 0.05 { low = middle } else { high = middle }
    }
    high
}

/// The regularized incomplete beta function I(x; a, b) for positive a and b and x from 0 to 1: the
/// continued fraction by Lentz's method (W. H. Press et al., "Numerical Recipes", 3rd edition,
/// section 6.4).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    // The fraction converges fast below this; above it the other tail's does.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    if x <= 0.0 {
        return 0.0;
    }
    let log_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let front = (a * x.ln() + b * (-x).ln_1p() - log_beta).exp() / a;
    // No denominator may become zero.
    let away = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut c, mut d) = (1.0, 1.0 / away(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    // About the square root of max(a, b) terms are needed: enough for a million pairs.
    for term in 1..3_000 {
        let m = f64::from(term);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for part in [even, odd] {
            d = 1.0 / away(1.0 + part * d);
            c = away(1.0 + part / c);
            fraction *= d * c;
        }
        if (fraction - before).abs() <= f64::EPSILON * fraction.abs() {
            break;
        }
    }
    front * fraction
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
    fn quantiles_and_tails_are_those_of_a_library() {
        use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};
        for freedom in [1.0, 2.0, 3.0, 7.0, 30.0, 999.0] {
            let theirs = StudentsT::new(0.0, 1.0, freedom).unwrap().inverse_cdf(0.975);
            let ours = student_t(freedom);
            assert!((ours / theirs - 1.0).abs() < 1e-6, "{freedom}: {ours} against {theirs}");
        }
        // z + (z + z^3) / 4n where n is large (Abramowitz and Stegun, equation 26.7.5).
        let large = NORMAL + (NORMAL + NORMAL.powi(3)) / 4e6;
        assert!((student_t(1e6) - large).abs() < 1e-9);
        for (lower, higher) in [(0, 1), (3, 4), (17, 40), (400, 600), (49_000, 51_000)] {
            let heads = Binomial::new(0.5, lower + higher).unwrap();
            let (ours, theirs) = (sign_test(lower, higher), 2.0 * heads.cdf(lower));
            assert!((ours - theirs.min(1.0)).abs() < 1e-9 * theirs, "{lower}: {ours}, {theirs}");
        }
    }

    #[test]
    fn geometric_means_and_differences() {
        assert!((geometric_mean(&[1.0, 4.0, 16.0]) - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), 1.0);
        assert!((relative(103.0, 100.0) - 0.03).abs() < 1e-12);
    }
}
