//! Numbers kept within bounds, each bound in one instruction.

/// Numbers that are kept within bounds. `f64::max` and `f64::min` also ask whether the bound is a
/// number at all, which takes seven instructions; here it always is one.
pub(super) trait Clamp {
    /// The number, or `least` where it is below that, or no number.
    fn at_least(self, least: Self) -> Self;
    /// The number, or `most` where it is above that, or no number.
    fn at_most(self, most: Self) -> Self;
}

impl Clamp for f64 {
    #[inline]
    fn at_least(self, least: Self) -> Self {
        debug_assert!(!least.is_nan(), "the bound is no number");
        if self > least { self } else { least }
    }
    #[inline]
    fn at_most(self, most: Self) -> Self {
        debug_assert!(!most.is_nan(), "the bound is no number");
        if self < most { self } else { most }
    }
}
