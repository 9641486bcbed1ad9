//! The agenda: what is due when, ordered by (instant, kind, id).

use maracas_core::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// What may be due. The order of the kinds is the order of work within one instant: what leaves
/// makes room first, what arrives is there before anything is released or woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A program ends (id: program).
    Depart,
    /// A program starts (id: program).
    Arrive,
    /// A VCPU asks for another reservation (id: the request).
    Change,
    /// A program's sleep ends, or an outside event comes for it (id: program).
    Wake,
    /// A VCPU's job is released (id: VCPU).
    Release,
}

const KINDS: [Kind; 5] = [Kind::Depart, Kind::Arrive, Kind::Change, Kind::Wake, Kind::Release];

/// Instant, kind and id packed in that order into one word: one comparison orders two entries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry(u128);

impl Entry {
    const fn new(at: Instant, kind: Kind, id: u32) -> Self {
        Self((at.ticks() as u128) << 64 | (kind as u128) << 32 | id as u128)
    }
    const fn at(self) -> Instant {
        Instant::from_ticks((self.0 >> 64) as u64)
    }
    const fn kind(self) -> Kind {
        KINDS[(self.0 >> 32) as u8 as usize]
    }
    const fn id(self) -> u32 {
        self.0 as u32
    }
}

/// A heap of what is due.
#[derive(Clone, Default, Debug)]
pub(crate) struct Agenda(BinaryHeap<Reverse<Entry>>);

impl Agenda {
    pub(crate) fn push(&mut self, at: Instant, kind: Kind, id: u32) {
        self.0.push(Reverse(Entry::new(at, kind, id)));
    }
    /// When the first entry is due.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        self.0.peek().map_or(Instant::NEVER, |entry| entry.0.at())
    }
    /// The first entry, if it is due by `now`.
    #[inline]
    pub(crate) fn due(&self, now: Instant) -> Option<(Kind, u32)> {
        let entry = self.0.peek()?.0;
        (entry.at() <= now).then(|| (entry.kind(), entry.id()))
    }
    /// Takes the first entry away.
    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }
    /// Puts the first entry off to `at`, in place.
    #[inline]
    pub(crate) fn put_off(&mut self, at: Instant) {
        if let Some(mut top) = self.0.peek_mut() {
            let entry = top.0;
            top.0 = Entry::new(at, entry.kind(), entry.id());
            // Dropping the guard sifts the entry down to its new place.
            drop::<PeekMut<'_, _>>(top);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_by_instant_kind_and_id() {
        let at = Instant::from_ticks;
        let mut agenda = Agenda::default();
        agenda.push(at(5), Kind::Release, 0);
        agenda.push(at(5), Kind::Depart, 9);
        agenda.push(at(5), Kind::Release, 7);
        agenda.push(at(3), Kind::Wake, 1);
        let mut order = Vec::new();
        while let Some((kind, id)) = agenda.due(at(5)) {
            order.push((agenda.next().ticks(), kind, id));
            if id == 0 { agenda.put_off(at(6)) } else { agenda.pop() }
        }
        assert_eq!(
            order,
            [
                (3, Kind::Wake, 1),
                (5, Kind::Depart, 9),
                (5, Kind::Release, 0),
                (5, Kind::Release, 7)
            ]
        );
        assert_eq!(agenda.next(), at(6));
    }
}
