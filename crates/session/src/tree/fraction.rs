//! Sums and differences of rates, as long as they fit.

use maracas_core::Rate;
use std::fmt;

/// Longer fractions say less than their decimals.
pub(super) const LONGEST: usize = 13;

/// A fraction of cores, in lowest terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fraction {
    num: u128,
    den: u128,
}

impl Fraction {
    pub(super) const ZERO: Self = Self { num: 0, den: 1 };

    pub(super) const fn whole(number: u64) -> Self {
        Self { num: number as u128, den: 1 }
    }
    /// `None` where it does not fit.
    pub(super) fn plus(self, other: Self) -> Option<Self> {
        let (a, b, den) = self.over_one(other)?;
        Some(Self::new(a.checked_add(b)?, den))
    }
    /// `None` where it does not fit or is negative.
    pub(super) fn minus(self, other: Self) -> Option<Self> {
        let (a, b, den) = self.over_one(other)?;
        Some(Self::new(a.checked_sub(b)?, den))
    }
    pub(super) const fn is_zero(self) -> bool {
        self.num == 0
    }
    /// As a fraction, where that is short.
    pub(super) fn exact(self) -> Option<String> {
        let text = self.to_string();
        (text.len() <= LONGEST).then_some(text)
    }
    /// The same, else with decimals.
    pub(super) fn short(self) -> String {
        self.exact().unwrap_or_else(|| self.decimal())
    }
    /// With six decimals.
    pub(super) fn decimal(self) -> String {
        format!("{:.6}", self.num as f64 / self.den as f64)
    }

    fn new(num: u128, den: u128) -> Self {
        let (mut a, mut b) = (num, den);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Self { num: num / a, den: den / a }
    }
    /// Both numerators over the product of the denominators.
    fn over_one(self, other: Self) -> Option<(u128, u128, u128)> {
        let common = Self::new(self.den, other.den);
        // self.den : other.den = common.num : common.den.
        let a = self.num.checked_mul(common.den)?;
        let b = other.num.checked_mul(common.num)?;
        Some((a, b, self.den.checked_mul(common.den)?))
    }
}

impl From<Rate> for Fraction {
    fn from(rate: Rate) -> Self {
        Self { num: rate.num().into(), den: rate.den().into() }
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.den == 1 { self.num.fmt(f) } else { write!(f, "{}/{}", self.num, self.den) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact() {
        let of = |num, den| Fraction::from(Rate::new(num, den));
        assert_eq!(of(1, 6).plus(of(1, 10)), Some(of(4, 15)));
        assert_eq!(of(3, 4).minus(of(1, 4)), Some(of(1, 2)));
        assert_eq!(of(1, 4).minus(of(3, 4)), None);
        assert_eq!(of(5, 5).to_string(), "1");
        assert_eq!(of(2, 3).decimal(), "0.666667");
        let long = of(123_456_787, 9_876_543_210);
        assert_eq!(
            (long.short(), long.to_string()),
            ("0.012500".into(), "123456787/9876543210".into())
        );
        assert_eq!(of(2, 3).short(), "2/3");
    }
}
