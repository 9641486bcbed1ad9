//! Exact rates: a fraction of two 64-bit integers, compared and multiplied through 128 bits.

use crate::Duration;
use core::cmp::Ordering;
use core::fmt;

/// Parts per billion, the unit in which admission numbers are reported.
pub const PPB: u64 = 1_000_000_000;

/// A non-negative fraction `num / den`, kept in lowest terms.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    num: u64,
    den: u64,
}

impl Rate {
    /// Nothing.
    pub const ZERO: Self = Self { num: 0, den: 1 };
    /// A whole core.
    pub const ONE: Self = Self { num: 1, den: 1 };

    /// `num / den` in lowest terms.
    ///
    /// # Panics
    /// Where `den` is zero.
    pub const fn new(num: u64, den: u64) -> Self {
        assert!(den > 0, "a rate needs a denominator above zero");
        let g = gcd(num, den);
        Self { num: num / g, den: den / g }
    }
    /// The utilization C / T.
    pub const fn of(budget: Duration, period: Duration) -> Self {
        Self::new(budget.ticks(), period.ticks())
    }
    /// Numerator in lowest terms.
    pub const fn num(self) -> u64 {
        self.num
    }
    /// Denominator in lowest terms.
    pub const fn den(self) -> u64 {
        self.den
    }
    /// Parts per billion, rounded up, so that a sum of rounded rates never understates the load.
    pub const fn ppb_up(self) -> u64 {
        let scaled = self.num as u128 * PPB as u128;
        scaled.div_ceil(self.den as u128) as u64
    }
    /// `floor(self * d)`.
    ///
    /// # Panics
    /// Where the product does not fit 64 bits.
    pub const fn floor_of(self, d: Duration) -> Duration {
        let product = self.num as u128 * d.ticks() as u128 / self.den as u128;
        assert!(product <= u64::MAX as u128, "rate times duration exceeds 64 bits");
        Duration::from_ticks(product as u64)
    }
}

/// Greatest common divisor; `gcd(0, n) = n`.
pub const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    if a == 0 { 1 } else { a }
}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Rate {
    fn cmp(&self, other: &Self) -> Ordering {
        let left = u128::from(self.num) * u128::from(other.den);
        left.cmp(&(u128::from(other.num) * u128::from(self.den)))
    }
}
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.den == 1 {
            write!(f, "{}", self.num)
        } else {
            write!(f, "{}/{}", self.num, self.den)
        }
    }
}
impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_exact() {
        assert_eq!(Rate::new(2, 6), Rate::new(1, 3));
        assert!(Rate::new(1, 3) < Rate::new(333_333_334, 1_000_000_000));
        assert_eq!(Rate::new(1, 3).ppb_up(), 333_333_334);
        assert_eq!(Rate::new(1, 3).floor_of(Duration::from_ticks(10)).ticks(), 3);
        assert!(Rate::new(u64::MAX - 1, u64::MAX) < Rate::ONE);
    }
}
