//! Exact fractions for admission: sums and products of utilizations.

use core::cmp::Ordering;
use maracas_core::{PPB, Rate};

/// A non-negative fraction. Sums and products are exact while the denominator stays below 2^96
/// (any set whose periods have a common multiple below that); beyond, they are rounded up by less
/// than 2^-59 a step, so that a test never accepts what exact arithmetic would refuse.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exact {
    num: u128,
    den: u128,
}

const DEN_MAX: u128 = 1 << 96;
const ROUND_BITS: u32 = 60;

impl Exact {
    pub(crate) const ZERO: Self = Self::whole(0);
    pub(crate) const ONE: Self = Self::whole(1);
    /// A whole in the parts of [`Self::parts_up`].
    pub(crate) const PARTS: u128 = 1 << ROUND_BITS;
    /// Beyond every bound that a test knows; results that do not fit end here.
    const HUGE: Self = Self::whole(1 << 30);

    pub(crate) const fn whole(n: u128) -> Self {
        Self { num: n, den: 1 }
    }
    /// `num / den` in lowest terms; `den` must lie above zero.
    pub(crate) fn new(num: u128, den: u128) -> Self {
        let g = gcd(num, den);
        Self { num: num / g, den: den / g }
    }

    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        self.exact_sum(other)
            .or_else(|| self.rounded_up().exact_sum(other.rounded_up()))
            .unwrap_or(Self::HUGE)
    }
    #[must_use]
    pub(crate) fn times(self, other: Self) -> Self {
        self.exact_product(other)
            .or_else(|| {
                let (a, b) = (self.rounded_up(), other.rounded_up());
                let product = a.num.checked_mul(b.num)?;
                let den = a.den * b.den;
                // Both denominators are at most 2^60: the product fits, but for further steps
                // it must shrink again.
                Some(Self { num: product, den }.rounded_up())
            })
            .unwrap_or(Self::HUGE)
    }
    /// `self - other`, or zero where `other` is greater.
    #[must_use]
    pub(crate) fn minus(self, other: Self) -> Self {
        let difference = || {
            let g = gcd(self.den, other.den);
            let den = (self.den / g).checked_mul(other.den)?;
            let left = self.num.checked_mul(other.den / g)?;
            let right = other.num.checked_mul(self.den / g)?;
            Some(Self::new(left.saturating_sub(right), den))
        };
        // Too fine to be subtracted exactly: say zero, the least slack that may be left.
        difference().unwrap_or(Self::ZERO)
    }
    /// `self / n`.
    #[must_use]
    pub(crate) fn over(self, n: usize) -> Self {
        self.exact_product(Self { num: 1, den: n as u128 }).unwrap_or_else(|| {
            let rounded = self.rounded_up();
            Self::new(rounded.num, rounded.den * n as u128)
        })
    }

    fn exact_sum(self, other: Self) -> Option<Self> {
        let g = gcd(self.den, other.den);
        let den = (self.den / g).checked_mul(other.den).filter(|den| *den < DEN_MAX)?;
        let left = self.num.checked_mul(other.den / g)?;
        let right = other.num.checked_mul(self.den / g)?;
        Some(Self::new(left.checked_add(right)?, den))
    }
    fn exact_product(self, other: Self) -> Option<Self> {
        let (g, h) = (gcd(self.num, other.den), gcd(other.num, self.den));
        let num = (self.num / g).checked_mul(other.num / h)?;
        let den = (self.den / h).checked_mul(other.den / g).filter(|den| *den < DEN_MAX)?;
        Some(Self { num, den })
    }
    /// The least multiple of 2^-60 that is not below.
    fn rounded_up(self) -> Self {
        if self.den <= 1 << ROUND_BITS && self.den.is_power_of_two() {
            return self;
        }
        let (mut quotient, mut rest) = (self.num / self.den, self.num % self.den);
        let mut left = ROUND_BITS;
        while left > 0 {
            // `rest < den < 2^127`, so that many bits and at least one are free above it.
            let bits = self.den.leading_zeros().min(left);
            rest <<= bits;
            quotient = (quotient << bits) + rest / self.den;
            rest %= self.den;
            left -= bits;
        }
        Self { num: quotient + u128::from(rest > 0), den: 1 << ROUND_BITS }
    }
    /// In whole parts of 2^-60, rounded up; `u128::MAX` where that does not fit.
    pub(crate) fn parts_up(self) -> u128 {
        if self.num / self.den >= 1 << (u128::BITS - ROUND_BITS - 1) {
            return u128::MAX;
        }
        let rounded = self.rounded_up();
        rounded.num << (ROUND_BITS - rounded.den.trailing_zeros())
    }

    /// Parts per billion, rounded up.
    pub(crate) fn ppb_up(self) -> u64 {
        let (whole, rest) = (self.num / self.den, self.num % self.den);
        let rest = if rest < u128::MAX / u128::from(PPB) {
            (rest * u128::from(PPB)).div_ceil(self.den)
        } else {
            let fine = Self { num: rest, den: self.den }.rounded_up();
            (fine.num * u128::from(PPB)).div_ceil(fine.den)
        };
        u64::try_from(whole.saturating_mul(u128::from(PPB)) + rest).unwrap_or(u64::MAX)
    }
    /// Parts per billion, rounded down.
    pub(crate) fn ppb_down(self) -> u64 {
        let up = self.ppb_up();
        if Self::new(u128::from(up), u128::from(PPB)) > self { up - 1 } else { up }
    }
}

impl From<Rate> for Exact {
    fn from(rate: Rate) -> Self {
        Self { num: u128::from(rate.num()), den: u128::from(rate.den()) }
    }
}

impl PartialEq for Exact {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Exact {}
impl PartialOrd for Exact {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Exact {
    /// By continued fractions, so that no product can overflow.
    fn cmp(&self, other: &Self) -> Ordering {
        if (self.num, self.den) == (other.num, other.den) {
            return Ordering::Equal;
        }
        let (mut a, mut b) = (*self, *other);
        loop {
            let whole = (a.num / a.den).cmp(&(b.num / b.den));
            let (rest_a, rest_b) = (a.num % a.den, b.num % b.den);
            if whole != Ordering::Equal || rest_a == 0 || rest_b == 0 {
                return whole.then(rest_a.cmp(&0).cmp(&rest_b.cmp(&0)));
            }
            // x < y exactly where 1/y < 1/x.
            (a, b) = (Self { num: b.den, den: rest_b }, Self { num: a.den, den: rest_a });
        }
    }
}

const fn gcd(mut a: u128, mut b: u128) -> u128 {
    const WORD: u128 = u64::MAX as u128;
    while b != 0 {
        if a <= WORD && b <= WORD {
            // Nearly always, and several times as fast.
            return maracas_core::gcd(a as u64, b as u64) as u128;
        }
        (a, b) = (b, a % b);
    }
    if a == 0 { 1 } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirds_add_up_to_one() {
        let third = Exact::new(1, 3);
        assert_eq!(third.plus(third).plus(third), Exact::ONE);
        assert_eq!(Exact::new(3, 2).times(Exact::new(4, 3)), Exact::whole(2));
        assert_eq!(Exact::new(3, 5).over(2), Exact::new(3, 10));
        assert_eq!(Exact::ONE.minus(Exact::new(2, 5)), Exact::new(3, 5));
        assert_eq!(Exact::new(1, 3).ppb_up(), 333_333_334);
        assert_eq!(Exact::new(1, 3).ppb_down(), 333_333_333);
        assert_eq!(Exact::ONE.ppb_down(), PPB);
    }

    #[test]
    fn sums_that_do_not_fit_are_rounded_up_and_hardly() {
        // Eight primes near 10^9: their product has 240 bits.
        let primes: [u128; 8] = [
            999_999_937,
            999_999_929,
            999_999_893,
            999_999_883,
            999_999_797,
            999_999_761,
            999_999_757,
            999_999_751,
        ];
        let mut sum = Exact::ZERO;
        let mut product = Exact::ONE;
        for p in primes {
            sum = sum.plus(Exact::new(p / 8, p));
            product = product.times(Exact::new(p + 1, p));
        }
        // p/8 rounded down to a whole: the sum is one less a few billionths.
        assert!(sum < Exact::ONE && sum.ppb_up() > PPB - 10, "{sum:?}");
        assert!(product > Exact::ONE && product.ppb_down() == PPB + 8, "{product:?}");
    }

    #[test]
    fn parts_are_rounded_up() {
        assert_eq!(Exact::ONE.parts_up(), Exact::PARTS);
        assert_eq!(Exact::new(3, 8).parts_up(), 3 * Exact::PARTS / 8);
        for den in [3, 1_000_003, (1 << 61) - 1, (1 << 95) + 1] {
            // num / den in parts, by long division bit by bit.
            let num = den / 7 * 5 + 1;
            let (mut quotient, mut rest) = (num / den, num % den);
            for _ in 0..ROUND_BITS {
                rest *= 2;
                quotient = quotient * 2 + rest / den;
                rest %= den;
            }
            assert_eq!(Exact { num, den }.parts_up(), quotient + 1, "of {den}");
        }
        assert_eq!(Exact::whole(1 << 100).parts_up(), u128::MAX);
    }

    #[test]
    fn comparison_never_overflows() {
        let big = u128::MAX;
        assert!(Exact { num: big - 2, den: big - 1 } < Exact { num: big - 1, den: big });
        assert!(Exact::HUGE > Exact::whole(2));
        assert!(Exact::ZERO < Exact { num: 1, den: big });
    }
}
