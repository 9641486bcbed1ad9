//! Time on a core that stands for a slower one.

use maracas_core::Rate;

/// From the time that the kernel counts on a core to the time of the slower core for which it
/// stands: 1 / share as long, in whole nanoseconds, of which none is lost while a VCPU stays.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    share: Rate,
    /// What was counted beyond the last whole nanosecond, in parts of `share.num()`.
    part: u64,
}

impl Stretch {
    /// Of a core that runs programs `share` of the time.
    pub const fn new(share: Rate) -> Self {
        Self { share, part: 0 }
    }
    /// How much further a meter moves that is counted `raw_ns` more.
    pub fn advance(&mut self, raw_ns: u64) -> u64 {
        // Each is as long as the other: no division of 128 bits for that.
        if self.share == Rate::ONE {
            return raw_ns;
        }
        let (num, den) = (u128::from(self.share.num()), u128::from(self.share.den()));
        let parts = u128::from(raw_ns) * den + u128::from(self.part);
        self.part = (parts % num) as u64;
        u64::try_from(parts / num).unwrap_or(u64::MAX)
    }
    /// The service in `raw_ns` between two records; what the meter makes of it may differ by one.
    pub fn of(self, raw_ns: u64) -> u64 {
        Self::new(self.share).advance(raw_ns)
    }
    /// The least count that moves the meter on by `rest_ns`.
    pub fn raw(self, rest_ns: u64) -> u64 {
        if self.share == Rate::ONE {
            return rest_ns;
        }
        let (num, den) = (u128::from(self.share.num()), u128::from(self.share.den()));
        let parts = (u128::from(rest_ns) * num).saturating_sub(u128::from(self.part));
        u64::try_from(parts.div_ceil(den)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretched_meter_loses_nothing_and_reaches_every_mark() {
        for (num, den) in [(1, 1), (1, 2), (2, 3), (7, 10), (999, 1000)] {
            let mut stretch = Stretch::new(Rate::new(num, den));
            let (mut raw, mut meter) = (0_u64, 0_u64);
            for step in 0..2000_u64 {
                let rest = step * step % 977;
                let counted = stretch.raw(rest);
                // The least: one less would not do.
                let mut less = stretch;
                assert!(counted == 0 || less.advance(counted - 1) < rest, "{num}/{den} {rest}");
                let moved = stretch.advance(counted);
                assert!(moved >= rest, "{num}/{den}: {moved} of {rest}");
                raw += counted;
                meter += moved;
            }
            assert_eq!(meter, raw * den / num, "{num}/{den}");
        }
        assert_eq!(Stretch::new(Rate::new(1, 2)).raw(u64::MAX), 1 << 63);
        assert_eq!(Stretch::new(Rate::new(1, 2)).of(1 << 63), u64::MAX);
    }
}
