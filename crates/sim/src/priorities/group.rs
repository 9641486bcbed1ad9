//! The cores that share a queue: which are free, and what waits for one.

use super::Key;
use maracas_core::{CoreId, CoreSet};
use std::hint::select_unpredictable;

/// Up to so many that wait, one is put in by steps from the first on; else its place is searched by
/// halves.
const FEW: usize = 32;

/// Cores that share a queue.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) cores: Vec<u32>,
    /// Of the job that each of them was given; [`Key::FIRST`] = it is free.
    given: Vec<Key>,
    /// Places of those that are free, as if they were cores.
    free: CoreSet,
    /// How many are free.
    vacant: usize,
    /// The first is the last entry.
    waiting: Vec<Key>,
    /// How many came to wait since the last selection.
    pub(super) fresh: u32,
    /// How often it was looked at.
    pub(super) decisions: u64,
    /// Whether the decision at hand looks at it.
    pub(super) touched: bool,
}

impl Group {
    pub(super) fn new(cores: &[CoreId]) -> Self {
        Self {
            cores: cores.iter().map(|core| u32::from(core.0)).collect(),
            given: vec![Key::FIRST; cores.len()],
            free: (0..cores.len() as u16).map(CoreId).collect(),
            vacant: cores.len(),
            waiting: Vec::new(),
            fresh: 0,
            decisions: 0,
            touched: false,
        }
    }
    /// The first that waits.
    #[inline]
    pub(super) fn first(&self) -> Option<Key> {
        self.waiting.last().copied()
    }
    /// The same, which waits no longer.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Key> {
        self.waiting.pop()
    }
    #[inline]
    pub(super) fn wait(&mut self, key: Key) {
        if self.waiting.len() > FEW {
            let place = self.waiting.partition_point(|other| *other > key);
            return self.waiting.insert(place, key);
        }
        self.waiting.push(key);
        let mut place = self.waiting.len() - 1;
        while place > 0 && self.waiting[place - 1].goes_before(key) {
            self.waiting[place] = self.waiting[place - 1];
            place -= 1;
        }
        self.waiting[place] = key;
    }
    /// How many of its cores are free.
    #[inline]
    pub(super) const fn vacant(&self) -> usize {
        self.vacant
    }
    /// The lowest core that is free.
    #[inline]
    pub(super) fn first_free(&self) -> usize {
        let Some(slot) = self.free.first() else {
            unreachable!("no more are selected than there are cores");
        };
        usize::from(slot.0)
    }
    #[inline]
    pub(super) fn is_free(&self, slot: usize) -> bool {
        self.free.contains(CoreId(slot as u16))
    }
    /// The core whose job is the least urgent, and that job's key.
    #[inline]
    pub(super) fn last(&self) -> (usize, Key) {
        let (mut last, mut key) = (0, self.given[0]);
        for (slot, given) in (1..).zip(&self.given[1..]) {
            let is_behind = key.goes_before(*given);
            last = select_unpredictable(is_behind, slot, last);
            key.deadline = select_unpredictable(is_behind, given.deadline, key.deadline);
            key.rank = select_unpredictable(is_behind, given.rank, key.rank);
        }
        (last, key)
    }
    /// A job was given the core at `slot`; which core that is.
    #[inline]
    pub(super) fn took(&mut self, slot: usize, key: Key) -> u32 {
        self.given[slot] = key;
        self.free.remove(CoreId(slot as u16));
        self.vacant -= 1;
        self.cores[slot]
    }
    /// The next decision looks at this group, whose place among all is `id`.
    #[inline]
    pub(super) fn touch(&mut self, id: u32, touched: &mut Vec<u32>) {
        if !std::mem::replace(&mut self.touched, true) {
            touched.push(id);
        }
    }
    /// The core at `slot` is free.
    #[inline]
    pub(super) fn vacated(&mut self, slot: usize) {
        self.given[slot] = Key::FIRST;
        self.free.insert(CoreId(slot as u16));
        self.vacant += 1;
    }
}
