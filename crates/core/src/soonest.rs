//! The earliest of many instants, some of which change at a time.

use crate::Instant;
use alloc::vec::Vec;

/// How many instants a node has: as many as a cache line of 64 bytes holds.
const WIDTH: usize = 8;

/// An instant for each of some places, and the earliest of them at once. A change costs the
/// logarithm of how many there are, to base 8, in cache lines.
///
/// A tree of which the leaves hold the instants of the places, eight each, and every node above
/// them the earliest of each of its eight children. Node 0 is the root, and node n has the children
/// 8n + 1 to 8n + 8. Up to eight places are one node.
#[derive(Clone, Debug)]
pub struct Soonest {
    nodes: Vec<Node>,
    /// The first of the leaves.
    leaves: usize,
    /// How many of the root's instants are in use.
    few: usize,
}

/// On a cache line of its own.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Node([Instant; WIDTH]);

impl Node {
    #[inline]
    fn first(&self) -> Instant {
        self.0.iter().fold(Instant::NEVER, |first, at| first.min(*at))
    }
    /// The first place from `from` on whose instant is not after `now`.
    #[inline]
    fn due(&self, from: usize, now: Instant) -> Option<usize> {
        (from..WIDTH).find(|place| self.0[*place] <= now)
    }
}

impl Soonest {
    /// So many places, all at [`Instant::NEVER`].
    pub fn new(places: usize) -> Self {
        let (mut leaves, mut room) = (0, WIDTH);
        while room < places {
            (leaves, room) = (WIDTH * leaves + 1, WIDTH * room);
        }
        let nodes = leaves + places.div_ceil(WIDTH).max(1);
        let few = if leaves == 0 { places } else { WIDTH };
        Self { nodes: alloc::vec![Node([Instant::NEVER; WIDTH]); nodes], leaves, few }
    }
    /// The earliest of all.
    #[inline]
    pub fn first(&self) -> Instant {
        let used = self.nodes[0].0[..self.few].iter();
        used.fold(Instant::NEVER, |first, at| first.min(*at))
    }
    /// What `place` has.
    #[inline]
    pub fn at(&self, place: usize) -> Instant {
        self.nodes[self.leaves + place / WIDTH].0[place % WIDTH]
    }
    /// Gives `place` another instant.
    #[inline]
    pub fn set(&mut self, place: usize, at: Instant) {
        if self.leaves == 0 {
            self.nodes[0].0[place] = at;
        } else {
            self.set_below(place, at);
        }
    }
    #[inline(never)]
    fn set_below(&mut self, place: usize, at: Instant) {
        let (mut node, mut place, mut at) = (self.leaves + place / WIDTH, place % WIDTH, at);
        loop {
            let before = core::mem::replace(&mut self.nodes[node].0[place], at);
            if node == 0 || before == at {
                return;
            }
            (node, place) = ((node - 1) / WIDTH, (node - 1) % WIDTH);
            let first = self.nodes[node].0[place];
            if at >= first && before > first {
                return;
            }
            if at >= first {
                at = self.nodes[WIDTH * node + 1 + place].first();
            }
        }
    }
    /// The first place from `from` on whose instant is not after `now`.
    #[inline]
    pub fn due(&self, from: usize, now: Instant) -> Option<usize> {
        if self.leaves == 0 {
            let used = &self.nodes[0].0[..self.few];
            return (from..used.len()).find(|place| used[*place] <= now);
        }
        self.due_below(from, now)
    }
    /// Calls `act` with each place whose instant is not after `now`, in order. Looks at no node in
    /// which there is none.
    #[inline]
    pub fn each_due(&self, now: Instant, mut act: impl FnMut(usize)) {
        if self.first() <= now {
            self.each_due_below(0, now, &mut act);
        }
    }
    fn each_due_below(&self, node: usize, now: Instant, act: &mut impl FnMut(usize)) {
        let used = if node == 0 { self.few } else { WIDTH };
        for place in 0..used {
            if self.nodes[node].0[place] > now {
                continue;
            }
            match node.checked_sub(self.leaves) {
                None => self.each_due_below(WIDTH * node + 1 + place, now, act),
                Some(leaf) => act(WIDTH * leaf + place),
            }
        }
    }
    #[inline(never)]
    fn due_below(&self, from: usize, now: Instant) -> Option<usize> {
        let (mut node, mut place) = (self.leaves + from / WIDTH, from % WIDTH);
        if node >= self.nodes.len() {
            return None;
        }
        // Up to a node with an instant behind, then down to its place.
        let mut due = self.nodes[node].due(place, now);
        while due.is_none() && node > 0 {
            (node, place) = ((node - 1) / WIDTH, (node - 1) % WIDTH + 1);
            due = self.nodes[node].due(place, now);
        }
        place = due?;
        while node < self.leaves {
            node = WIDTH * node + 1 + place;
            place = self.nodes[node].due(0, now)?;
        }
        Some(WIDTH * (node - self.leaves) + place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a plain list, for sizes around powers of two.
    #[test]
    fn it_is_the_earliest_of_a_list() {
        for places in [1, 3, 8, 9, 16, 64, 65, 513, 1024] {
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
                let mut all = Vec::new();
                soonest.each_due(now, |place| all.push(place));
                let due = (0..places).filter(|place| plain[*place] <= now);
                assert_eq!(all, due.collect::<Vec<_>>(), "{places} by {now}");
            }
        }
    }
}
