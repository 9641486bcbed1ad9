//! Axes of figures: which range they show, and where numbers stand at them.

use super::number;
use std::ops::Range;

/// Numbers at an axis, at most: more would run into each other on the width of a figure.
const TICKS_MAX: f64 = 10.0;

/// Values along one axis and the pixels where they stand.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    range: Range<f64>,
    pixels: Range<f64>,
    logarithmic: bool,
}

impl Axis {
    /// Shows `range` on `pixels`.
    pub(super) fn new(range: Range<f64>, pixels: Range<f64>) -> Self {
        Self { range, pixels, logarithmic: false }
    }
    /// The same of a range of logarithms to base 10.
    pub(super) fn logarithmic(range: Range<f64>, pixels: Range<f64>) -> Self {
        Self { range, pixels, logarithmic: true }
    }
    /// The pixel at which `value` stands.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.log10() } else { value };
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        self.pixels.start + share * (self.pixels.end - self.pixels.start)
    }
    /// The numbers that are written at the axis: where they stand, and how they are written.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let values = if self.logarithmic {
            decades(&self.range)
        } else {
            let step = step(self.range.end - self.range.start);
            // A multiple at an end is one in spite of rounding.
            let first = (self.range.start / step - 1e-9).ceil() as i64;
            let last = (self.range.end / step + 1e-9).floor() as i64;
            (first..=last).map(|n| (n as f64 * step, decimals(step))).collect()
        };
        values.into_iter().map(|(value, digits)| (self.at(value), number(value, digits))).collect()
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that cuts `width` into few enough steps.
fn step(width: f64) -> f64 {
    let power = 10f64.powf((width / TICKS_MAX).log10().floor());
    let fits = |times: &f64| width / (times * power) <= TICKS_MAX;
    [1.0, 2.0, 5.0].into_iter().find(fits).unwrap_or(10.0) * power
}

/// How many decimals a multiple of `step` has.
fn decimals(step: f64) -> usize {
    (-(step * 1.000_001).log10().floor()).max(0.0) as usize
}

/// Powers of ten in a range of logarithms with their decimals; 2 and 5 times them too where there
/// is room.
fn decades(range: &Range<f64>) -> Vec<(f64, usize)> {
    let times: &[f64] = if range.end - range.start <= 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let powers = range.start.floor() as i32..=range.end.floor() as i32;
    let values = powers.flat_map(|power| {
        let decimals = usize::try_from(-power).unwrap_or(0);
        times.iter().map(move |times| (times * 10f64.powi(power), decimals))
    });
    values.filter(|(value, _)| range.contains(&value.log10())).collect()
}

/// From the least to the greatest of `values`; one unit more on both sides of a single one.
///
/// # Panics
/// Where one is no number.
pub(super) fn around(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        assert!(value.is_finite(), "a figure cannot show {value}");
        (low, high) = (low.min(value), high.max(value));
    }
    if low > high {
        return 0.0..1.0;
    }
    if high > low { low..high } else { low - 1.0..high + 1.0 }
}

/// The same out to the next numbers that are written at the axis. It begins at zero where bars
/// stand on it, or where that costs less than half of the height.
pub(super) fn heights(values: impl Iterator<Item = f64>, bars: bool) -> Range<f64> {
    let values: Vec<f64> = values.collect();
    let Range { mut start, mut end } = around(values.iter().copied());
    let grounded = bars || start < 0.5 * end;
    if grounded && values.iter().all(|value| *value >= 0.0) {
        start = 0.0;
    }
    if bars && values.iter().all(|value| *value <= 0.0) {
        end = 0.0;
    }
    if start == end {
        end += 1.0;
    }
    let step = step(end - start);
    // A multiple is one in spite of rounding.
    (start / step + 1e-9).floor() * step..(end / step - 1e-9).ceil() * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_begin_where_something_can_be_seen_and_end_at_a_number() {
        assert_eq!(heights([1.0, 2.0].into_iter(), true), 0.0..2.0);
        assert_eq!(heights([0.0, 0.3, 1.0].into_iter(), false), 0.0..1.0);
        assert!(heights([90.0, 100.0].into_iter(), false).start > 80.0);
        assert_eq!(heights([10.0, 97.0].into_iter(), false), 0.0..100.0);
        assert_eq!(heights([-5.0, 100.0].into_iter(), true), -20.0..100.0);
        assert_eq!(heights([-5.0, -1.0].into_iter(), true).end, 0.0);
        // All bars are zero: the axis still has a length.
        assert_eq!(heights([0.0, 0.0].into_iter(), true), 0.0..1.0);
        assert_eq!(around(std::iter::empty()), 0.0..1.0);
    }

    #[test]
    fn ticks_are_round_and_have_the_digits_they_need() {
        let words = |axis: Axis| -> Vec<String> {
            axis.ticks().into_iter().map(|(_, text)| text).collect()
        };
        let words_of = |range| words(Axis::new(range, 0.0..100.0));
        assert_eq!(
            words_of(0.0..1.0),
            ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1.0"]
        );
        assert_eq!(words_of(-0.3..0.6).first().unwrap(), "-0.3");
        assert!(words_of(-0.3..0.6).contains(&"0.0".to_string()), "no minus before zero");
        assert_eq!(words_of(20.1..21.0).len(), 10);
        assert_eq!(words_of(900.0..3_100.0), ["1000", "1500", "2000", "2500", "3000"]);
        let log = |range| words(Axis::logarithmic(range, 0.0..100.0));
        assert_eq!(log(-0.5..1.1), ["0.5", "1", "2", "5", "10"]);
        assert_eq!(log(-1.0..4.1), ["0.1", "1", "10", "100", "1000", "10000"]);
    }

    #[test]
    fn values_stand_where_they_belong() {
        let axis = Axis::new(0.0..4.0, 300.0..100.0);
        assert_eq!([axis.at(0.0), axis.at(1.0), axis.at(4.0)], [300.0, 250.0, 100.0]);
        let axis = Axis::logarithmic(0.0..2.0, 0.0..100.0);
        assert_eq!([axis.at(1.0), axis.at(10.0), axis.at(100.0)], [0.0, 50.0, 100.0]);
    }
}
