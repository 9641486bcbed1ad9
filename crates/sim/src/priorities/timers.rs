//! Which task's next job comes first.

use maracas_core::Instant;
use std::hint::select_unpredictable;

/// An instant for each of some places, and the earliest of them: a winner tree (D. E. Knuth, "The
/// Art of Computer Programming", volume 3, 5.4.1), in which a change costs one comparison a level.
/// Among equals the lowest place is first.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    first: Entry,
    /// The two entries that are compared at each node. Node 1 is the root, whose winner is `first`;
    /// that of node n is one of the two at node n / 2. The last nodes have the places, in order.
    nodes: Vec<[Entry; 2]>,
}

/// An instant and a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    at: Instant,
    place: u32,
}

impl Timers {
    pub(super) fn new(at: Vec<Instant>) -> Self {
        let none = Entry { at: Instant::NEVER, place: u32::MAX };
        let nodes = at.len().next_power_of_two().max(2);
        let mut timers = Self { first: none, nodes: vec![[none; 2]; nodes] };
        (0..).zip(at).for_each(|(place, at)| timers.set(place, at));
        timers
    }
    /// The place that is first.
    #[inline]
    pub(super) const fn first(&self) -> u32 {
        self.first.place
    }
    /// Its instant.
    #[inline]
    pub(super) const fn first_at(&self) -> Instant {
        self.first.at
    }
    /// Gives `place` another instant.
    #[inline]
    pub(super) fn set(&mut self, place: u32, at: Instant) {
        let mut winner = Entry { at, place };
        let mut child = self.nodes.len() + place as usize;
        while child > 1 {
            let pair = &mut self.nodes[child / 2];
            pair[child % 2] = winner;
            let [left, right] = *pair;
            // Which wins, no processor can predict.
            let is_right = right.at < left.at;
            winner.at = select_unpredictable(is_right, right.at, left.at);
            winner.place = select_unpredictable(is_right, right.place, left.place);
            child /= 2;
        }
        self.first = winner;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_the_earliest_and_the_lowest() {
        for places in [1, 2, 3, 20, 64, 100] {
            let mut plain: Vec<Instant> =
                (0..places).map(|place| Instant::from_ticks(place * 7 % 5)).collect();
            let mut timers = Timers::new(plain.clone());
            let mut number = 1_u64;
            for _ in 0..1_000 {
                let first = plain.iter().min().copied();
                let place = plain.iter().position(|at| Some(*at) == first);
                assert_eq!(
                    (timers.first() as usize, timers.first_at()),
                    (place.unwrap(), first.unwrap())
                );
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (place, at) = ((number >> 33) % places, Instant::from_ticks(number >> 61));
                plain[place as usize] = at;
                timers.set(place as u32, at);
            }
        }
    }
}
