//! A straight line through points, with how sure its slope is.

use maracas_sweep::stats::student_t;

/// The line of least squares.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Regression {
    /// What y grows by for each unit of x.
    pub(super) slope: f64,
    /// Half of the width of the slope's 95 % confidence interval, by Student's t distribution with
    /// n - 2 degrees of freedom and a standard error that holds where residuals vary more at one x
    /// than at another (HC3: J. G. MacKinnon, H. White, "Some Heteroskedasticity-Consistent
    /// Covariance Matrix Estimators with Improved Finite Sample Properties", Journal of
    /// Econometrics 29, 1985). It takes the points as independent.
    pub(super) half_width: f64,
    /// How many points.
    pub(super) points: usize,
}

impl Regression {
    /// Through `points`; `None` for fewer than three, where all have one x, or where one point
    /// alone settles the slope.
    pub(super) fn of(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
        let spread: f64 = points.iter().map(|point| (point.0 - x) * (point.0 - x)).sum();
        if points.len() < 3 || spread <= 0.0 {
            return None;
        }
        let together: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
        let slope = together / spread;
        // A point's residual, as if the line had been drawn without it, weighed by its distance.
        let weighed = |point: &(f64, f64)| {
            let off = point.0 - x;
            let spared = 1.0 - 1.0 / count - off * off / spread;
            (spared > 1e-9).then(|| off * (point.1 - y - slope * off) / spared)
        };
        let weighed: Vec<f64> = points.iter().map(weighed).collect::<Option<_>>()?;
        let error = weighed.iter().map(|it| it * it).sum::<f64>().sqrt() / spread;
        Some(Self { slope, half_width: student_t(count - 2.0) * error, points: points.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_and_its_interval_are_those_of_the_textbook() {
        // x 1..5, y 2, 4, 5, 4, 5: slope 0.6, residuals -0.8, 0.6, 1, -0.6, -0.2; without the
        // point -2, 6/7, 5/4, -6/7, -1/2; times x - 3 and squared 16, 36/49, 0, 36/49, 1; error
        // sqrt(18.469) / 10 = 0.4298, t(3, 97.5 %) = 3.182: 1.368.
        let line = Regression::of(&[(1.0, 2.0), (2.0, 4.0), (3.0, 5.0), (4.0, 4.0), (5.0, 5.0)]);
        let line = line.unwrap();
        assert!((line.slope - 0.6).abs() < 1e-12, "{line:?}");
        assert!((line.half_width - 1.368).abs() < 1e-3 && line.points == 5, "{line:?}");
    }

    #[test]
    fn there_is_no_line_through_too_few_points_or_one_x() {
        assert_eq!(Regression::of(&[(1.0, 2.0), (2.0, 3.0)]), None);
        assert_eq!(Regression::of(&[(1.0, 2.0), (1.0, 3.0), (1.0, 4.0)]), None);
        assert_eq!(Regression::of(&[(1.0, 2.0), (1.0, 3.0), (1.0, 4.0), (2.0, 9.0)]), None);
    }
}
