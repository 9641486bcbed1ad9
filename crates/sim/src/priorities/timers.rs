//! Instants with an index each, in one number, and which of many is the earliest.

use maracas_core::Instant;

/// An instant and an index, ordered by the instant, equals by the index.
///
/// One number, as it is then compared in one instruction, and the lesser of two is taken without a
/// branch that no processor can predict. What it means, [`Packing`] knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Packed(u64);

impl Packed {
    /// Before all others.
    pub(super) const FIRST: Self = Self(0);
    /// Behind all others.
    const LAST: Self = Self(u64::MAX);
}

/// How indices below a number are packed with instants: they take the lowest bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packing {
    /// Below 64. Shifts are `wrapping_` ones, which do not check that.
    bits: u32,
}

impl Packing {
    /// For `count` indices.
    pub(super) const fn new(count: usize) -> Self {
        Self { bits: count.next_power_of_two().trailing_zeros() }
    }
    /// From this instant on all are packed alike.
    pub(super) const fn last(self) -> Instant {
        Instant::from_ticks(u64::MAX.wrapping_shr(self.bits))
    }
    #[inline]
    pub(super) fn pack(self, at: Instant, index: u32) -> Packed {
        Packed(at.min(self.last()).ticks().wrapping_shl(self.bits) | u64::from(index))
    }
    #[inline]
    pub(super) const fn at(self, packed: Packed) -> Instant {
        Instant::from_ticks(packed.0.wrapping_shr(self.bits))
    }
    #[inline]
    pub(super) const fn index(self, packed: Packed) -> u32 {
        (packed.0 & !u64::MAX.wrapping_shl(self.bits)) as u32
    }
}

/// How many children a node has.
const WIDTH: usize = 4;

/// An instant for each of some places, and the earliest of them: a winner tree (D. E. Knuth, "The
/// Art of Computer Programming", volume 3, 5.4.1) with four children a node, among which a change
/// costs three comparisons. Among equals the lowest place is first. Instants from
/// [`Packing::last`] on are all the same.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    pub(super) packing: Packing,
    first: Packed,
    first_at: Instant,
    /// How many leaves there are, a power of [`WIDTH`]; the first ones are the places, in order.
    leaves: usize,
    /// The nodes but the root, which is `first`, by groups of one parent: the leaves, then their
    /// parents, and so on. The parent of group n is node `leaves` + n.
    groups: Vec<[Packed; WIDTH]>,
}

impl Timers {
    /// Without any instant, which stands behind all of them.
    pub(super) fn new(places: usize) -> Self {
        let mut leaves = 1;
        while leaves < places {
            leaves *= WIDTH;
        }
        let groups = vec![[Packed::LAST; WIDTH]; (leaves - 1) / (WIDTH - 1)];
        let packing = Packing::new(places);
        let first_at = packing.last();
        Self { packing, first: Packed::LAST, first_at, leaves, groups }
    }
    /// The place that is first.
    #[inline]
    pub(super) const fn first(&self) -> u32 {
        self.packing.index(self.first)
    }
    /// Its instant.
    #[inline]
    pub(super) const fn first_at(&self) -> Instant {
        self.first_at
    }
    /// Gives `place` another instant.
    #[inline]
    pub(super) fn set(&mut self, place: u32, at: Instant) {
        self.put(place, self.packing.pack(at, place));
    }
    /// Gives `place` no instant.
    #[inline]
    pub(super) fn clear(&mut self, place: u32) {
        self.put(place, Packed::LAST);
    }
    #[inline]
    fn put(&mut self, place: u32, own: Packed) {
        let mut earlier = own;
        let mut node = place as usize;
        while let Some(group) = self.groups.get_mut(node / WIDTH) {
            group[node % WIDTH] = earlier;
            let [a, b, c, d] = *group;
            earlier = a.min(b).min(c.min(d));
            // A sum: `leaves` has one bit, which is above those of a group.
            node = self.leaves | (node / WIDTH);
        }
        (self.first, self.first_at) = (earlier, self.packing.at(earlier));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_the_earliest_and_the_lowest() {
        for places in [1, 2, 4, 5, 20, 64, 100] {
            let mut timers = Timers::new(places as usize);
            let mut plain = vec![timers.packing.last(); places as usize];
            let mut number = 1_u64;
            for _ in 0..1_000 {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let place = (number >> 33) % places;
                let at = match number >> 60 {
                    0..12 => Instant::from_ticks(number >> 61),
                    12..14 => Instant::NEVER,
                    _ => timers.packing.last(),
                };
                plain[place as usize] = at.min(timers.packing.last());
                match at {
                    Instant::NEVER => timers.clear(place as u32),
                    _ => timers.set(place as u32, at),
                }
                let first = plain.iter().min().copied();
                let place = plain.iter().position(|at| Some(*at) == first);
                assert_eq!(timers.first_at(), first.unwrap());
                if first != Some(timers.packing.last()) {
                    assert_eq!(timers.first() as usize, place.unwrap());
                }
            }
        }
    }

    #[test]
    fn what_is_packed_comes_out_again() {
        for count in [1, 2, 3, 100] {
            let packing = Packing::new(count);
            for at in [Instant::ZERO, Instant::from_ticks(7), packing.last()] {
                let packed = packing.pack(at, count as u32 - 1);
                assert_eq!((packing.at(packed), packing.index(packed)), (at, count as u32 - 1));
            }
            assert_eq!(packing.at(packing.pack(Instant::NEVER, 0)), packing.last());
        }
    }
}
