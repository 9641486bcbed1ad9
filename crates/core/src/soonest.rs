//! The earliest of many instants, some of which change at a time.

use crate::Instant;
use alloc::vec::Vec;

/// How many instants a node has: as many as a cache line of 64 bytes holds.
const WIDTH: usize = 8;

/// Up to so many places stand in a row, and are looked at once the earliest was put off. An event
/// of the simulator takes fewer instructions so than with a tree (docs/results.md, "Instructions a
/// job").
const FEW: usize = 32;

/// An instant for each of some places, and the earliest of them at once. A change costs the
/// logarithm of how many there are, to base 8, in cache lines.
///
/// Few places are a row. More are a tree, of which the leaves hold the instants of the places,
/// eight each, and every node above them the earliest of each of its eight children. Node 0 is the
/// root, and node n has the children 8n + 1 to 8n + 8.
#[derive(Clone, Debug)]
pub struct Soonest {
    /// All places, where they are few.
    row: Vec<Instant>,
    /// The earliest of them; none of them is before it while it is `stale`.
    earliest: Instant,
    stale: bool,
    /// None where they are few.
    nodes: Vec<Node>,
    /// The first of the leaves.
    leaves: usize,
}

/// On a cache line of its own.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Node([Instant; WIDTH]);

#[inline]
fn first(node: &[Instant; WIDTH]) -> Instant {
    node.iter().fold(Instant::NEVER, |first, at| first.min(*at))
}

/// The earliest of a row. By fours, as else it is compiled to vectors of 128 bits, which have no
/// comparison of such numbers and take more instructions.
#[inline]
fn first_of_row(row: &[Instant]) -> Instant {
    let (fours, others) = row.as_chunks::<4>();
    let first = others.iter().fold(Instant::NEVER, |first, at| first.min(*at));
    fours.iter().fold(first, |first, &[a, b, c, d]| first.min(a.min(b).min(c.min(d))))
}

/// The first place from `from` on whose instant is not after `now`.
#[inline]
fn due(row: &[Instant], from: usize, now: Instant) -> Option<usize> {
    (from..row.len()).find(|place| row[*place] <= now)
}

impl Soonest {
    /// So many places, all at [`Instant::NEVER`].
    pub fn new(places: usize) -> Self {
        let (mut row, mut nodes, mut leaves) = (Vec::new(), Vec::new(), 0);
        if places <= FEW {
            row.resize(places, Instant::NEVER);
        } else {
            let mut room = WIDTH;
            while room < places {
                (leaves, room) = (WIDTH * leaves + 1, WIDTH * room);
            }
            nodes.resize(leaves + places.div_ceil(WIDTH), Node([Instant::NEVER; WIDTH]));
        }
        Self { row, earliest: Instant::NEVER, stale: false, nodes, leaves }
    }
    /// The earliest of all.
    #[inline]
    pub fn first(&mut self) -> Instant {
        if let Some(root) = self.nodes.first() {
            return first(&root.0);
        }
        if self.stale {
            (self.earliest, self.stale) = (first_of_row(&self.row), false);
        }
        self.earliest
    }
    /// What `place` has.
    #[inline]
    pub fn at(&self, place: usize) -> Instant {
        let leaf = || self.nodes[self.leaves + place / WIDTH].0[place % WIDTH];
        self.row.get(place).copied().unwrap_or_else(leaf)
    }
    /// Gives `place` another instant.
    #[inline]
    pub fn set(&mut self, place: usize, at: Instant) {
        let Some(own) = self.row.get_mut(place) else { return self.set_below(place, at) };
        let before = core::mem::replace(own, at);
        if at <= self.earliest {
            (self.earliest, self.stale) = (at, false);
        } else if before == self.earliest {
            self.stale = true;
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
            let known = self.nodes[node].0[place];
            if at >= known && before > known {
                return;
            }
            if at >= known {
                at = first(&self.nodes[WIDTH * node + 1 + place].0);
            }
        }
    }
    /// The first place from `from` on whose instant is not after `now`.
    #[inline]
    pub fn due(&self, from: usize, now: Instant) -> Option<usize> {
        if self.nodes.is_empty() {
            return due(&self.row, from, now);
        }
        self.due_below(from, now)
    }
    /// Calls `act` with each place whose instant is not after `now`, in order. Looks at no node in
    /// which there is none.
    #[inline]
    pub fn each_due(&self, now: Instant, mut act: impl FnMut(usize)) {
        if self.nodes.is_empty() {
            if self.earliest <= now {
                (0..self.row.len()).filter(|place| self.row[*place] <= now).for_each(act);
            }
        } else {
            self.each_due_below(0, now, &mut act);
        }
    }
    fn each_due_below(&self, node: usize, now: Instant, act: &mut impl FnMut(usize)) {
        for place in 0..WIDTH {
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
        let mut found = due(&self.nodes[node].0, place, now);
        while found.is_none() && node > 0 {
            (node, place) = ((node - 1) / WIDTH, (node - 1) % WIDTH + 1);
            found = due(&self.nodes[node].0, place, now);
        }
        place = found?;
        while node < self.leaves {
            node = WIDTH * node + 1 + place;
            place = due(&self.nodes[node].0, 0, now)?;
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
        for places in [1, 3, 8, 9, 32, 33, 64, 65, 513, 1024] {
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
                let first = plain.iter().copied().min().unwrap();
                assert_eq!(soonest.first(), first);
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
