//! A distribution of numbers at a bounded size, however many there are.

use crate::wire::Wire;
use alloc::vec::Vec;

/// How many values there are in each bucket of 1 / 2^`BITS` of an octave: a value that is read back
/// is at most by that part too high. The first 2^(`BITS` + 1) values have a bucket each. Powers of
/// two from 2^`BITS` on are bounds of buckets.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Buckets<const BITS: u32> {
    /// Counts by bucket, up to the highest that is not empty.
    counts: Vec<u64>,
}

impl<const BITS: u32> Buckets<BITS> {
    /// None yet, and room for all: nothing is allocated when values come.
    #[must_use]
    pub fn with_room() -> Self {
        Self { counts: Vec::with_capacity(Self::place(u64::MAX) + 1) }
    }
    /// Of these counts, by bucket.
    #[must_use]
    pub const fn of(counts: Vec<u64>) -> Self {
        Self { counts }
    }
    /// The counts by bucket, up to the highest that is not empty.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }
    /// Takes in one value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let place = Self::place(value);
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
    }
    /// Takes in all values of `other`.
    pub fn join(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, more)| *sum += more);
    }
    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
    /// How many are below `2^power`, for powers from `BITS` on.
    pub fn below(&self, power: u32) -> u64 {
        let end = Self::place(1 << power).min(self.counts.len());
        self.counts[..end].iter().sum()
    }
    /// The value of this rank, the smallest having rank 1, as high as its bucket goes; `None` where
    /// there are not so many.
    pub fn ranked(&self, rank: u64) -> Option<u64> {
        let mut seen = 0;
        let place = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(Self::highest(place))
    }
    /// The bucket of `value`.
    fn place(value: u64) -> usize {
        let shift = value.checked_ilog2().unwrap_or(0).saturating_sub(BITS);
        ((shift as usize) << BITS) + (value >> shift) as usize
    }
    /// The highest value in a bucket.
    const fn highest(place: usize) -> u64 {
        if place < 2 << BITS {
            return place as u64;
        }
        let shift = (place >> BITS) - 1;
        let mantissa = (place - (shift << BITS)) as u64;
        (mantissa << shift) | ((1 << shift) - 1)
    }
}

impl<const BITS: u32> Wire for Buckets<BITS> {
    fn put(&self, out: &mut Vec<u8>) {
        self.counts.put(out);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(Self { counts: Wire::take(from)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_to_its_part_of_an_octave() {
        fn check<const BITS: u32>() {
            for value in [0, 1, 127, 128, 255, 256, 257, 1_000_003, 1 << 40, u64::MAX] {
                let high = Buckets::<BITS>::highest(Buckets::<BITS>::place(value));
                assert!(high >= value && high - value <= value >> BITS, "{value}: {high}");
            }
        }
        check::<3>();
        check::<7>();
    }

    #[test]
    fn powers_of_two_are_bounds() {
        for power in 3..63 {
            let mut buckets = Buckets::<3>::default();
            buckets.add((1 << power) - 1);
            let mut above = Buckets::default();
            above.add(1 << power);
            buckets.join(&above);
            assert_eq!((buckets.below(power), buckets.below(63), buckets.count()), (1, 2, 2));
            assert_eq!(buckets.ranked(1), Some((1 << power) - 1), "2^{power}");
            assert_eq!((buckets.ranked(3), Buckets::<3>::default().ranked(0)), (None, None));
        }
    }
}
