//! A set of cores whose cost is what is in it, not how many cores there may be.

use crate::{CoreId, MAX_CORES};
use core::fmt;

const BITS: usize = u64::BITS as usize;
const WORDS: usize = MAX_CORES.div_ceil(BITS);

/// A set of cores.
///
/// A bit for each core. The first 64 stand in a word of their own, so that a machine of as many
/// pays for no more; of the words behind, one bit each says which are not zero. So emptying a set,
/// going through it and joining another to it cost what is in them, not [`MAX_CORES`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CoreSet {
    low: u64,
    /// Which of `high` are not zero.
    used: u16,
    high: [u64; WORDS - 1],
}

impl CoreSet {
    /// No core.
    pub const EMPTY: Self = Self { low: 0, used: 0, high: [0; WORDS - 1] };

    /// Puts `core` in.
    ///
    /// # Panics
    /// Where there can be no such core.
    #[inline]
    pub const fn insert(&mut self, core: CoreId) {
        if is_low(core) {
            self.low |= bit(core);
        } else {
            self.insert_high(core);
        }
    }
    #[inline(never)] // Where it is inlined, it costs those that pass it by.
    const fn insert_high(&mut self, core: CoreId) {
        let word = word(core);
        self.high[word] |= bit(core);
        self.used |= 1 << word;
    }
    /// Takes `core` out.
    ///
    /// # Panics
    /// Where there can be no such core.
    #[inline]
    pub const fn remove(&mut self, core: CoreId) {
        if is_low(core) {
            self.low &= !bit(core);
        } else {
            self.remove_high(core);
        }
    }
    #[inline(never)]
    const fn remove_high(&mut self, core: CoreId) {
        let word = word(core);
        self.high[word] &= !bit(core);
        if self.high[word] == 0 {
            self.used &= !(1 << word);
        }
    }
    /// Whether `core` is in.
    ///
    /// # Panics
    /// Where there can be no such core.
    #[inline]
    pub const fn contains(&self, core: CoreId) -> bool {
        let bits = if is_low(core) { self.low } else { self.high[word(core)] };
        bits & bit(core) != 0
    }
    /// Whether no core is in.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.low | self.used as u64 == 0
    }
    /// How many cores are in.
    #[inline]
    pub fn len(&self) -> usize {
        let low = self.low.count_ones() as usize;
        if self.used == 0 {
            return low;
        }
        low + self.places().map(|word| self.high[word].count_ones() as usize).sum::<usize>()
    }
    /// The only core in, if it is one alone.
    #[inline]
    pub const fn only(&self) -> Option<CoreId> {
        match self.used {
            0 if self.low.is_power_of_two() => Some(CoreId(self.low.trailing_zeros() as u16)),
            0 => None,
            _ => self.only_high(),
        }
    }
    #[inline(never)]
    const fn only_high(&self) -> Option<CoreId> {
        let word = self.used.trailing_zeros() as usize;
        let is_one = self.low == 0 && self.used.is_power_of_two();
        if is_one && self.high[word].is_power_of_two() { self.first() } else { None }
    }
    /// The lowest core in.
    #[inline]
    pub const fn first(&self) -> Option<CoreId> {
        if self.low != 0 {
            return Some(CoreId(self.low.trailing_zeros() as u16));
        }
        if self.used == 0 {
            return None;
        }
        let word = self.used.trailing_zeros() as usize;
        Some(CoreId(first_of(word) + self.high[word].trailing_zeros() as u16))
    }
    /// Takes all cores out.
    #[inline]
    pub fn clear(&mut self) {
        self.low = 0;
        if self.used != 0 {
            self.clear_high();
        }
    }
    #[inline(never)]
    fn clear_high(&mut self) {
        self.places().for_each(|word| self.high[word] = 0);
        self.used = 0;
    }
    /// Puts all of `other` in.
    #[inline]
    pub fn insert_all(&mut self, other: &Self) {
        self.low |= other.low;
        if other.used != 0 {
            self.insert_all_high(other);
        }
    }
    #[inline(never)]
    fn insert_all_high(&mut self, other: &Self) {
        other.places().for_each(|word| self.high[word] |= other.high[word]);
        self.used |= other.used;
    }
    /// Takes the lowest core out.
    #[inline]
    pub fn pop_first(&mut self) -> Option<CoreId> {
        if self.low != 0 {
            let first = CoreId(self.low.trailing_zeros() as u16);
            self.low &= self.low.wrapping_sub(1);
            return Some(first);
        }
        if self.used == 0 {
            return None;
        }
        self.pop_first_high()
    }
    #[inline(never)]
    fn pop_first_high(&mut self) -> Option<CoreId> {
        let first = self.first()?;
        self.remove_high(first);
        Some(first)
    }
    /// The cores in either set.
    #[must_use]
    pub fn union(mut self, other: Self) -> Self {
        self.insert_all(&other);
        self
    }
    /// The cores, in increasing order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = CoreId> {
        let (mut used, mut bits, mut first) = (self.used, self.low, 0);
        core::iter::from_fn(move || {
            if bits == 0 {
                if used == 0 {
                    return None;
                }
                let word = used.trailing_zeros() as usize;
                used &= used.wrapping_sub(1);
                (bits, first) = (self.high[word], first_of(word));
            }
            let core = CoreId(first + bits.trailing_zeros() as u16);
            bits &= bits.wrapping_sub(1);
            Some(core)
        })
    }
    /// The words of `high` that are not zero, by their places.
    #[inline]
    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let mut used = self.used;
        core::iter::from_fn(move || {
            let word = (used != 0).then_some(used.trailing_zeros() as usize);
            used &= used.wrapping_sub(1);
            word
        })
    }
}

const fn is_low(core: CoreId) -> bool {
    core.0 < BITS as u16
}

/// Its bit in its word.
const fn bit(core: CoreId) -> u64 {
    1 << (core.0 as usize % BITS)
}

/// The place of its word in `high`.
const fn word(core: CoreId) -> usize {
    core.0 as usize / BITS - 1
}

/// The core of the lowest bit of a word of `high`.
const fn first_of(word: usize) -> u16 {
    ((word + 1) * BITS) as u16
}

impl Default for CoreSet {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl FromIterator<CoreId> for CoreSet {
    fn from_iter<I: IntoIterator<Item = CoreId>>(cores: I) -> Self {
        let mut set = Self::EMPTY;
        cores.into_iter().for_each(|core| set.insert(core));
        set
    }
}

impl fmt::Debug for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    /// Against an ordinary set, with cores from all words.
    #[test]
    fn it_is_a_set() {
        let (mut set, mut plain) = (CoreSet::EMPTY, BTreeSet::new());
        let mut number = 1_u32;
        for step in 0..5_000 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let core = CoreId((number >> 16) as u16 % MAX_CORES as u16);
            if step / 1_000 % 2 == 0 {
                set.insert(core);
                plain.insert(core);
            } else {
                set.remove(core);
                plain.remove(&core);
            }
            assert_eq!(set.contains(core), plain.contains(&core));
            assert_eq!((set.len(), set.is_empty()), (plain.len(), plain.is_empty()));
        }
        assert!(plain.len() > 100, "{}", plain.len());
        assert!(set.iter().eq(plain.iter().copied()));
        let (low, high): (CoreSet, CoreSet) = (
            set.iter().filter(|core| core.0 < 500).collect(),
            set.iter().filter(|core| core.0 >= 400).collect(),
        );
        assert_eq!(low.union(high), set);
        let mut drained = Vec::new();
        while let Some(core) = set.pop_first() {
            drained.push(core);
        }
        assert!(drained.into_iter().eq(plain));
        assert_eq!(set, CoreSet::EMPTY);
    }

    #[test]
    fn the_first_and_the_last_core_there_may_be() {
        let ends = [CoreId(0), CoreId(MAX_CORES as u16 - 1)];
        let mut set: CoreSet = ends.into_iter().collect();
        assert!(set.iter().eq(ends));
        assert_eq!(set.only(), None);
        for (taken, left) in [(0, 1), (1, 0)] {
            let mut one = set;
            one.remove(ends[taken]);
            assert_eq!(one.only(), Some(ends[left]));
            one.insert(CoreId(700));
            assert_eq!(one.only(), None);
            one.remove(ends[left]);
            assert_eq!(one.only(), Some(CoreId(700)));
        }
        set.clear();
        assert_eq!(set, CoreSet::EMPTY);
    }
}
