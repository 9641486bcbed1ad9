//! Which sets a decision has to look at, and when the next one is due.

use alloc::vec::Vec;
use maracas_core::Instant;

/// The sets that something happened to, and those that wait for an instant.
#[derive(Debug)]
pub(super) struct Agenda {
    /// By set, in fours of which the last is filled up with [`Instant::NEVER`]: when its window or
    /// the budget that runs in it ends.
    due: Vec<[Instant; 4]>,
    /// The earliest of them, as of the last decision.
    next: Instant,
    /// The sets to be looked at, a bit each. The host of a set has a higher place than the set.
    touched: u64,
    /// Those beyond the first 64; few hierarchies have so many.
    more: Vec<u64>,
}

/// Sets in a word of bits.
const BITS: usize = u64::BITS as usize;

impl Agenda {
    /// With so many sets, all of them to be looked at.
    pub(super) fn new(sets: usize) -> Self {
        let mut agenda = Self {
            due: alloc::vec![[Instant::NEVER; 4]; sets.div_ceil(4)],
            next: Instant::NEVER,
            touched: 0,
            more: alloc::vec![0; sets.saturating_sub(1) / BITS],
        };
        (0..sets).for_each(|set| agenda.touch(set));
        agenda
    }

    /// Something happened to a set.
    #[inline]
    pub(super) fn touch(&mut self, set: usize) {
        if set < BITS {
            self.touched |= 1 << set;
        } else {
            self.more[set / BITS - 1] |= 1 << (set % BITS);
        }
    }
    /// Touches the sets whose instants have come.
    #[inline]
    pub(super) fn wake(&mut self, now: Instant) {
        if self.next > now {
            return;
        }
        self.touched |= come(&self.due, now);
        for (word, due) in self.more.iter_mut().zip(self.due.chunks(BITS / 4).skip(1)) {
            *word |= come(due, now);
        }
    }
    /// The first touched set from the place `from` on.
    #[inline]
    pub(super) fn touched(&self, from: usize) -> Option<usize> {
        let left = if from < BITS { self.touched & u64::MAX << from } else { 0 };
        if left != 0 {
            return Some(left.trailing_zeros() as usize);
        }
        if self.more.is_empty() { None } else { self.touched_beyond(from.max(BITS)) }
    }
    #[cold]
    fn touched_beyond(&self, from: usize) -> Option<usize> {
        let is_touched = |set: &usize| self.more[set / BITS - 1] >> (set % BITS) & 1 != 0;
        (from..(self.more.len() + 1) * BITS).find(is_touched)
    }
    /// Takes out the touched set with the highest place.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<usize> {
        if !self.more.is_empty()
            && let Some(set) = self.pop_beyond()
        {
            return Some(set);
        }
        let set = self.touched.checked_ilog2()?;
        self.touched ^= 1 << set;
        Some(set as usize)
    }
    #[cold]
    fn pop_beyond(&mut self) -> Option<usize> {
        let word = self.more.iter().rposition(|bits| *bits != 0)?;
        let bit = self.more[word].ilog2();
        self.more[word] ^= 1 << bit;
        Some((word + 1) * BITS + bit as usize)
    }

    /// A set is to be looked at again at `at`.
    #[inline]
    pub(super) fn wait(&mut self, set: usize, at: Instant) {
        self.due[set / 4][set % 4] = at;
    }
    /// The earliest instant that a set waits for, once all wait: [`Self::wake`] goes by it.
    #[inline]
    pub(super) fn next(&mut self) -> Instant {
        let least =
            |first: Instant, &[a, b, c, d]: &[Instant; 4]| first.min(a.min(b).min(c.min(d)));
        self.next = self.due.iter().fold(Instant::NEVER, least);
        self.next
    }
}

/// Which of the first 64 instants have come, a bit each: without a branch that depends on them.
#[inline]
fn come(due: &[[Instant; 4]], now: Instant) -> u64 {
    let mut come = 0;
    for (place, four) in due.iter().take(BITS / 4).enumerate() {
        let [a, b, c, d] = four.map(|due| u64::from(due <= now));
        come |= (a | b << 1 | c << 2 | d << 3) << (4 * place);
    }
    come
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(agenda: &mut Agenda) -> Vec<usize> {
        core::iter::from_fn(|| agenda.pop()).collect()
    }

    #[test]
    fn a_set_is_looked_at_once_hosts_first() {
        let mut agenda = Agenda::new(4);
        assert_eq!(drained(&mut agenda), [3, 2, 1, 0]);
        for set in [2, 0, 2, 3, 0] {
            agenda.touch(set);
        }
        let next = |set: &usize| agenda.touched(set + 1);
        let touched: Vec<usize> = core::iter::successors(agenda.touched(0), next).collect();
        assert_eq!(touched, [0, 2, 3]);
        assert_eq!(drained(&mut agenda), [3, 2, 0]);
    }

    #[test]
    fn sets_wait_for_their_own_instants() {
        let at = Instant::from_ticks;
        let mut agenda = Agenda::new(3);
        drained(&mut agenda);
        assert_eq!(agenda.next(), Instant::NEVER);
        (0..).zip([7, 5, 7]).for_each(|(set, due)| agenda.wait(set, at(due)));
        assert_eq!(agenda.next(), at(5));
        agenda.wake(at(4));
        assert_eq!(agenda.touched(0), None);
        agenda.wake(at(5));
        assert_eq!(drained(&mut agenda), [1]);
        agenda.wait(1, at(9));
        assert_eq!(agenda.next(), at(7));
        agenda.wake(at(8));
        assert_eq!(drained(&mut agenda), [2, 0]);
    }

    #[test]
    fn there_may_be_more_sets_than_bits_in_a_word() {
        let mut agenda = Agenda::new(130);
        assert_eq!(drained(&mut agenda), (0..130).rev().collect::<Vec<_>>());
        for set in [129, 64, 63, 3] {
            agenda.wait(set, Instant::from_ticks(5));
        }
        assert_eq!(agenda.next(), Instant::from_ticks(5));
        agenda.wake(Instant::from_ticks(5));
        let found = [0, 4, 64, 65, 130].map(|from| agenda.touched(from));
        assert_eq!(found, [Some(3), Some(63), Some(64), Some(129), None]);
        assert_eq!(drained(&mut agenda), [129, 64, 63, 3]);
    }
}
