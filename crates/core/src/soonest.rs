//! The earliest of many instants, one for each core, some of which change at a time.

use crate::Instant;
use alloc::vec::Vec;

/// So many places are looked at as fast as a tree over them is kept.
const FEW: usize = 8;

/// An instant for each of some places, and the earliest of them at once. A change costs the
/// logarithm of how many there are.
///
/// A tournament tree: node 1 is the root, node n has the children 2n and 2n + 1, and each holds the
/// earlier of theirs. The leaves are the places. Up to `FEW` of them are simply looked at.
#[derive(Clone, Debug)]
pub struct Soonest {
    nodes: Vec<Instant>,
    leaves: usize,
}

impl Soonest {
    /// So many places, all at [`Instant::NEVER`].
    pub fn new(places: usize) -> Self {
        let leaves = places.next_power_of_two();
        Self { nodes: alloc::vec![Instant::NEVER; 2 * leaves], leaves }
    }
    /// The earliest of all.
    #[inline]
    pub fn first(&self) -> Instant {
        if self.leaves > FEW {
            return self.nodes[1];
        }
        self.nodes[self.leaves..].iter().fold(Instant::NEVER, |first, at| first.min(*at))
    }
    /// What `place` has.
    #[inline]
    pub fn at(&self, place: usize) -> Instant {
        self.nodes[self.leaves + place]
    }
    /// Gives `place` another instant.
    #[inline]
    pub fn set(&mut self, place: usize, at: Instant) {
        let mut node = self.leaves + place;
        if self.leaves <= FEW {
            self.nodes[node] = at;
            return;
        }
        let mut earliest = at;
        while self.nodes[node] != earliest {
            self.nodes[node] = earliest;
            if node == 1 {
                return;
            }
            earliest = earliest.min(self.nodes[node ^ 1]);
            node /= 2;
        }
    }
    /// The first place from `from` on whose instant is not after `now`.
    #[inline]
    pub fn due(&self, from: usize, now: Instant) -> Option<usize> {
        if from >= self.leaves {
            return None;
        }
        if self.leaves <= FEW {
            let mut rest = self.nodes[self.leaves + from..].iter();
            return rest.position(|at| *at <= now).map(|place| from + place);
        }
        let mut node = self.leaves + from;
        while self.nodes[node] > now {
            // Up from the right ends of subtrees, then into the next one.
            while node % 2 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
        }
        while node < self.leaves {
            node = if self.nodes[2 * node] > now { 2 * node + 1 } else { 2 * node };
        }
        Some(node - self.leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a plain list, for sizes around powers of two.
    #[test]
    fn it_is_the_earliest_of_a_list() {
        for places in [1, 2, 3, 4, 7, 16, 17, 1024] {
            let mut soonest = Soonest::new(places);
            let mut plain = alloc::vec![Instant::NEVER; places];
            let mut number = 1_u32;
            for _ in 0..2_000 {
                number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let place = (number >> 16) as usize % places;
                let at = match number >> 8 & 0xff {
                    0..100 => Instant::NEVER,
                    ticks => Instant::from_ticks(u64::from(ticks)),
                };
                soonest.set(place, at);
                plain[place] = at;
                assert_eq!(soonest.at(place), at);
                assert_eq!(Some(soonest.first()), plain.iter().copied().min());
                let from = (number >> 4) as usize % (places + 1);
                let now = Instant::from_ticks(u64::from(number >> 20 & 0xff));
                let due = (from..places).find(|place| plain[*place] <= now);
                assert_eq!(soonest.due(from, now), due, "{places} from {from} by {now}");
            }
        }
    }
}
