//! Counting without loss: a rate in units of 2^-48 a tick, and the part of a whole that is not
//! handed out yet. Sums of such integers do not depend on how time is split.

use maracas_core::Duration;

const BITS: u32 = 48;
/// One whole, in the units of a rate.
pub(super) const WHOLE: u64 = 1 << BITS;

/// A rate per tick in units of 2^-48. Above 65536 a tick it stays at that: no counter of a core
/// comes near.
pub(super) fn fixed(per_tick: f64) -> u64 {
    (per_tick * WHOLE as f64 + 0.5) as u64
}

/// The rate `wholes / ticks`, rounded up: after n times `ticks`, n times `wholes` are there, and
/// not one tick later. That is one whole too many in 2^48 ticks, 78 hours of nanoseconds, at most.
pub(super) fn ratio(wholes: u64, ticks: u64) -> u64 {
    let rate = (u128::from(wholes) << BITS).div_ceil(u128::from(ticks));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Something that is counted at a constant rate until the rate is set anew.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Count {
    /// Per tick, in units of 2^-48.
    pub(super) rate: u64,
    /// Counted and not handed out, below one whole.
    carry: u64,
}

impl Count {
    /// Lets `time` pass and hands out the wholes that it came to.
    #[inline]
    pub(super) const fn pass(&mut self, time: Duration) -> u64 {
        let sum = self.carry as u128 + self.rate as u128 * time.ticks() as u128;
        self.carry = (sum & (WHOLE - 1) as u128) as u64;
        (sum >> BITS) as u64
    }
    /// The least time in which `wholes` are handed out; [`Duration::MAX`] = never.
    #[inline]
    pub(super) fn time_for(&self, wholes: u64) -> Duration {
        if self.rate == WHOLE && self.carry == 0 {
            return Duration::from_ticks(wholes);
        }
        if wholes == 0 {
            return Duration::ZERO;
        }
        let missing = (u128::from(wholes) << BITS) - u128::from(self.carry);
        self.rate_time(missing)
    }
    /// The least time in which `amount` units pass.
    #[inline]
    pub(super) fn rate_time(&self, amount: u128) -> Duration {
        if self.rate == 0 {
            return Duration::MAX;
        }
        let rate = u128::from(self.rate);
        // Nearly always both fit one word, where division is several times faster.
        let ticks = match u64::try_from(amount) {
            Ok(amount) => u128::from(amount.div_ceil(self.rate)),
            Err(_) => amount.div_ceil(rate),
        };
        Duration::from_ticks(u64::try_from(ticks).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_depend_on_the_split() {
        let rate = fixed(0.3);
        let mut whole = Count { rate, ..Count::default() };
        let mut parts = whole;
        let all = whole.pass(Duration::from_ticks(1_000_003));
        let sum: u64 = (0..1_000_003).map(|_| parts.pass(Duration::from_ticks(1))).sum();
        assert_eq!((all, whole), (sum, parts));
        assert_eq!(all, 300_000);
    }

    #[test]
    fn ratios_are_there_in_time() {
        for (wholes, ticks) in [(1, 1), (1, 3), (2, 3), (5, 7), (999, 1000), (1_234, 4_321)] {
            let count = Count { rate: ratio(wholes, ticks), ..Count::default() };
            for times in [1, 3, 60_000_001] {
                assert_eq!(count.time_for(wholes * times).ticks(), ticks * times);
            }
        }
        assert_eq!((ratio(1, 1), ratio(u64::MAX, 1)), (WHOLE, u64::MAX));
    }

    #[test]
    fn times_are_the_first_at_which_the_whole_is_reached() {
        for per_tick in [1.0, 0.7, 1e-6, 3.3] {
            let mut count = Count { rate: fixed(per_tick), ..Count::default() };
            count.pass(Duration::from_ticks(5));
            for wholes in [1, 7, 100_000] {
                let time = count.time_for(wholes);
                assert!({ count }.pass(time) >= wholes, "{per_tick} {wholes}");
                assert!({ count }.pass(time - Duration::from_ticks(1)) < wholes);
            }
        }
        assert_eq!(Count::default().time_for(1), Duration::MAX);
    }
}
