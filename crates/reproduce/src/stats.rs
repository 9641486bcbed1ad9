//! Statistics of repeated runs.

use statrs::distribution::{ContinuousCDF, StudentsT};

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
    fn geometric_means_and_differences() {
        assert!((geometric_mean(&[1.0, 4.0, 16.0]) - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), 1.0);
        assert!((relative(103.0, 100.0) - 0.03).abs() < 1e-12);
    }
}
