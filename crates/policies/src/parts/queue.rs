//! Pending work in order of urgency, kept sorted as it changes.

use alloc::vec::Vec;
use core::cmp::Ordering;
use maracas_core::{Instant, VcpuId};

/// Up to so many keys a search goes from one to the next: a step costs a third of one by halves.
const FEW: usize = 16;

/// The urgency of one VCPU's next job: smaller runs first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) deadline: Instant,
    /// Decides among equal deadlines; [`Key::RUNNING`] wins.
    pub(crate) tie: u64,
    /// Decides what is left.
    pub(crate) vcpu: VcpuId,
}

impl Key {
    /// The tie value of a job that runs: ties never cause a switch (algorithms.md 0).
    pub(crate) const RUNNING: u64 = 0;
}

/// By deadline, tie and id. Nearly always deadlines differ, and nothing else is looked at.
impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let rest = || (self.tie, self.vcpu).cmp(&(other.tie, other.vcpu));
        self.deadline.cmp(&other.deadline).then_with(rest)
    }
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
    #[inline]
    fn lt(&self, other: &Self) -> bool {
        if self.deadline == other.deadline {
            return (self.tie, self.vcpu) < (other.tie, other.vcpu);
        }
        self.deadline < other.deadline
    }
}

/// A sorted small vector of keys. Each change touches only what it must: sorting anew at every
/// instant costs a factor of four to eight.
#[derive(Clone, Default, Debug)]
pub(crate) struct Queue {
    keys: Vec<Key>,
}

impl Queue {
    /// All keys, the most urgent first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Key> {
        self.keys.iter().copied()
    }
    #[inline]
    pub(crate) fn first(&self) -> Option<Key> {
        self.keys.first().copied()
    }
    /// The most urgent but for one.
    #[inline]
    pub(crate) fn second(&self) -> Option<Key> {
        self.keys.get(1).copied()
    }
    #[inline]
    pub(crate) fn last(&self) -> Option<Key> {
        self.keys.last().copied()
    }
    /// Whether there is one key and no more.
    #[inline]
    pub(crate) const fn is_single(&self) -> bool {
        self.keys.len() == 1
    }
    /// How many keys go before `key`.
    #[inline]
    fn before(&self, key: Key) -> usize {
        let goes_before = |other: &Key| *other < key;
        if self.keys.len() > FEW {
            return self.keys.partition_point(goes_before);
        }
        self.keys.iter().position(|other| !goes_before(other)).unwrap_or(self.keys.len())
    }
    /// Puts `key` in and says at which place.
    #[inline]
    pub(crate) fn insert(&mut self, key: Key) -> usize {
        let place = self.before(key);
        if place == self.keys.len() {
            self.keys.push(key);
        } else {
            self.keys.insert(place, key);
        }
        place
    }
    /// Where `key` stands.
    ///
    /// # Panics
    /// Where it is not there.
    #[inline]
    pub(crate) fn place(&self, key: Key) -> usize {
        let place = self.before(key);
        if self.keys.get(place) != Some(&key) {
            absent(key);
        }
        place
    }
    /// Takes `key` out and says from which place; panics like [`Queue::place`].
    #[inline]
    pub(crate) fn remove(&mut self, key: Key) -> usize {
        let place = self.place(key);
        if place + 1 == self.keys.len() {
            self.keys.pop();
        } else {
            self.keys.remove(place);
        }
        place
    }
    /// Gives `key` another tie value; from which place to which that moves it. Panics like
    /// [`Queue::place`].
    #[inline]
    pub(crate) fn retie(&mut self, key: Key, tie: u64) -> (usize, usize) {
        let (from, moved) = (self.place(key), Key { tie, ..key });
        let (before, behind) = (from.checked_sub(1), self.keys.get(from + 1));
        let stays = before.is_none_or(|before| self.keys[before] < moved)
            && behind.is_none_or(|behind| moved < *behind);
        if stays {
            self.keys[from] = moved;
            return (from, from);
        }
        self.keys.remove(from);
        (from, self.insert(moved))
    }
    /// Takes the last key out.
    #[inline]
    pub(crate) fn pop_last(&mut self) -> Option<Key> {
        self.keys.pop()
    }
    /// Takes the first key out.
    pub(crate) fn pop(&mut self) -> Option<Key> {
        match self.keys[..] {
            [] | [_] => self.keys.pop(),
            [..] => Some(self.keys.remove(0)),
        }
    }
    /// Gives the first key a new tie value that keeps it first.
    pub(crate) fn retie_first(&mut self, tie: u64) -> Option<Key> {
        let first = self.keys.first_mut()?;
        first.tie = tie;
        Some(*first)
    }
}

#[cold]
#[inline(never)]
fn absent(key: Key) -> ! {
    panic!("{key:?} is not in the queue")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_deadline_then_running_then_tie_then_id() {
        let key = |deadline, tie, vcpu| Key {
            deadline: Instant::from_ticks(deadline),
            tie,
            vcpu: VcpuId(vcpu),
        };
        let mut queue = Queue::default();
        assert_eq!(queue.insert(key(9, 1, 1)), 0);
        assert_eq!(queue.insert(key(9, 1, 0)), 0);
        assert_eq!(queue.insert(key(9, Key::RUNNING, 7)), 0);
        assert_eq!(queue.insert(key(8, 5, 9)), 0);
        assert_eq!(queue.remove(key(9, 1, 0)), 2);
        assert_eq!(queue.first(), Some(key(8, 5, 9)));
        // It stays before vcpu1, goes behind it, and comes back.
        for (from, to, moves) in [(Key::RUNNING, 1, (1, 2)), (1, 0, (2, 1)), (0, 0, (1, 1))] {
            assert_eq!(queue.retie(key(9, from, 7), to), moves);
        }
    }

    /// Against a sorted list, while it grows past what is searched key by key and shrinks again.
    #[test]
    fn it_is_a_sorted_list() {
        let (mut queue, mut plain) = (Queue::default(), Vec::new());
        let (mut number, mut longest) = (1_u32, 0);
        for turn in 0..4_000_u32 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let grows = (number >> 8) % 5 < if turn / 100 % 2 == 0 { 4 } else { 1 };
            if grows {
                let (deadline, tie) = (u64::from(number >> 28), u64::from(number >> 20 & 1));
                let key = Key { deadline: Instant::from_ticks(deadline), tie, vcpu: VcpuId(turn) };
                let place = plain.partition_point(|other: &Key| *other < key);
                assert_eq!(queue.insert(key), place);
                plain.insert(place, key);
            } else if !plain.is_empty() && turn % 3 == 0 {
                assert_eq!(queue.pop(), Some(plain.remove(0)));
            } else if !plain.is_empty() {
                let place = (number >> 16) as usize % plain.len();
                assert_eq!(queue.remove(plain[place]), place);
                plain.remove(place);
            }
            assert_eq!(
                (queue.first(), queue.last()),
                (plain.first().copied(), plain.last().copied())
            );
            assert_eq!(queue.is_single(), plain.len() == 1);
            assert!(queue.iter().eq(plain.iter().copied()) && plain.is_sorted(), "turn {turn}");
            longest = longest.max(plain.len());
        }
        assert!(longest > 2 * FEW, "{longest}");
    }
}
