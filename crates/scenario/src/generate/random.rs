//! Random numbers: one stream for each thing that is drawn.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// What a stream is for.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// Utilisations.
    Loads,
    /// Periods.
    Periods,
    /// First releases.
    Offsets,
}

/// A stream of random numbers.
pub(super) struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The stream of a seed for one purpose. Streams lie 2^128 draws apart, as the generator's
    /// authors provide for (Blackman and Vigna, "Scrambled linear pseudorandom number generators",
    /// ACM TOMS 47(4), 2021).
    pub(super) fn new(seed: u64, purpose: Purpose) -> Self {
        let mut stream = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..purpose as u32 {
            stream.jump();
        }
        Self(stream)
    }

    /// Uniform in [0, 1): a multiple of 2^-53, the finest step that all floats there share.
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0..n, by one draw (Lemire's multiplication; its bias is below n / 2^64).
    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in least..=most.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }
}
