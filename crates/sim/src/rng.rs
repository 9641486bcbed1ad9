//! Random numbers: one stream per entity, so that what one draws never shifts what another gets.

use maracas_core::{Cost, Duration};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// What a stream is for. Two streams of one entity are independent of each other.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// Service of a program's pieces of work, by VCPU and by the program's place on it.
    Cost = 1,
    /// A program's sleeps and times between outside events.
    Gap = 2,
    /// Times between the releases of a sporadic VCPU.
    Release = 3,
    /// How late decisions are.
    Lateness = 4,
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream of one entity for one purpose. It depends on nothing else: not on the policy,
    /// nor on what other entities there are.
    pub(crate) fn new(seed: u64, purpose: Purpose, id: u32, place: u32) -> Self {
        // Xoshiro's authors seed it by SplitMix64, which `seed_from_u64` runs; the products with
        // odd constants (golden ratio and two primes of xxHash) keep the entities apart before.
        let entity = (purpose as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ u64::from(id).wrapping_mul(0xc2b2_ae3d_27d4_eb4f)
            ^ u64::from(place).wrapping_mul(0x1656_67b1_9e37_79f9);
        Self(Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_add(entity.rotate_left(31) ^ entity)))
    }

    /// Uniform between `low` and `high`, inclusive, by one draw (Lemire's multiplication; its bias
    /// is below one part in 2^64 of the range).
    pub(crate) fn uniform(&mut self, low: Duration, high: Duration) -> Duration {
        let range = u128::from(high.saturating_sub(low).ticks()) + 1;
        let offset = (u128::from(self.0.next_u64()) * range) >> 64;
        low + Duration::from_ticks(offset as u64)
    }

    /// Exponential with the given mean, cut at ten times the mean.
    ///
    /// J. von Neumann, "Various techniques used in connection with random digits", 1951: needs
    /// comparisons only, so that every platform draws the same ticks (a logarithm would not).
    fn exponential(&mut self, mean: Duration) -> Duration {
        let mut whole = 0;
        loop {
            let first = self.0.next_u64();
            let (mut last, mut falls) = (first, 1);
            loop {
                let next = self.0.next_u64();
                if next >= last {
                    break;
                }
                (last, falls) = (next, falls + 1);
            }
            if falls % 2 == 1 {
                let part = (u128::from(mean.ticks()) * u128::from(first)) >> 64;
                return mean * whole + Duration::from_ticks(part as u64);
            }
            whole += 1;
            if whole == 10 {
                return mean * 10;
            }
        }
    }

    /// Draws a cost; at least one tick, so that no entity can do endless work in one instant.
    #[inline]
    pub(crate) fn draw(&mut self, cost: Cost) -> Duration {
        let ticks = match cost {
            Cost::Fixed(ticks) => ticks,
            Cost::Uniform(low, high) => self.uniform(low, high),
            Cost::Exponential(mean) => self.exponential(mean),
        };
        ticks.max(Duration::from_ticks(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_of(cost: Cost) -> u64 {
        let mut stream = Stream::new(1, Purpose::Cost, 2, 3);
        let sum: Duration = (0..20_000).map(|_| stream.draw(cost)).sum();
        sum.ticks() / 20_000
    }

    #[test]
    fn draws_have_their_means_and_bounds() {
        let ticks = Duration::from_ticks;
        assert_eq!(mean_of(Cost::Fixed(ticks(7))), 7);
        assert!((148..=152).contains(&mean_of(Cost::Uniform(ticks(100), ticks(200)))));
        assert!((9_800..=10_200).contains(&mean_of(Cost::Exponential(ticks(10_000)))));
        assert_eq!(mean_of(Cost::Fixed(ticks(0))), 1);
        let mut stream = Stream::new(1, Purpose::Gap, 0, 0);
        for _ in 0..1_000 {
            let draw = stream.uniform(ticks(3), ticks(5)).ticks();
            assert!((3..=5).contains(&draw), "{draw}");
        }
    }

    #[test]
    fn streams_differ_by_seed_purpose_and_entity() {
        let first = |seed, purpose, id, place| Stream::new(seed, purpose, id, place).0.next_u64();
        let mut draws = vec![
            first(0, Purpose::Cost, 0, 0),
            first(1, Purpose::Cost, 0, 0),
            first(0, Purpose::Gap, 0, 0),
            first(0, Purpose::Cost, 1, 0),
            first(0, Purpose::Cost, 0, 1),
        ];
        draws.sort_unstable();
        draws.dedup();
        assert_eq!(draws.len(), 5);
    }
}
