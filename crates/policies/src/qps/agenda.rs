//! Which sets a decision has to look at, and when the next one is due.

use alloc::vec::Vec;
use maracas_core::Instant;

/// The sets that something happened to, and those that wait for an instant.
#[derive(Debug)]
pub(super) struct Agenda {
    /// By set: when its window or the budget that runs in it ends.
    due: Vec<Instant>,
    /// The earliest of them, or an instant that was the earliest and is no set's any more.
    next: Instant,
    /// Whether `next` is to be looked for.
    is_past: bool,
    /// The sets to be looked at, each once, the lowest place first. The host of a set has a higher
    /// place than the set.
    touched: Vec<usize>,
}

impl Agenda {
    /// With so many sets, all of them to be looked at.
    pub(super) fn new(sets: usize) -> Self {
        Self {
            due: alloc::vec![Instant::NEVER; sets],
            next: Instant::NEVER,
            is_past: false,
            touched: (0..sets).collect(),
        }
    }

    /// Something happened to a set.
    #[inline]
    pub(super) fn touch(&mut self, set: usize) {
        match self.touched.last() {
            Some(last) if set <= *last => {
                if let Err(place) = self.touched.binary_search(&set) {
                    self.touched.insert(place, set);
                }
            }
            _ => self.touched.push(set),
        }
    }
    /// Touches the sets whose instants have come.
    #[inline]
    pub(super) fn wake(&mut self, now: Instant) {
        if self.next > now {
            return;
        }
        for set in 0..self.due.len() {
            if self.due[set] <= now {
                self.touch(set);
            }
        }
    }
    /// The touched set at `place` from below, which stands while only hosts are touched.
    #[inline]
    pub(super) fn touched(&self, place: usize) -> Option<usize> {
        self.touched.get(place).copied()
    }
    /// Takes out the touched set with the highest place.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<usize> {
        self.touched.pop()
    }

    /// A set is to be looked at again at `at`.
    #[inline]
    pub(super) fn wait(&mut self, set: usize, at: Instant) {
        let before = core::mem::replace(&mut self.due[set], at);
        if at <= self.next {
            (self.next, self.is_past) = (at, false);
        } else if before == self.next {
            self.is_past = true;
        }
    }
    /// The earliest instant that a set waits for.
    #[inline]
    pub(super) fn next(&mut self) -> Instant {
        if core::mem::take(&mut self.is_past) {
            self.next = self.due.iter().copied().min().unwrap_or(Instant::NEVER);
        }
        self.next
    }
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
        let touched: Vec<usize> = (0..).map_while(|place| agenda.touched(place)).collect();
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
}
