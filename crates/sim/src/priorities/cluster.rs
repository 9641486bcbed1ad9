//! The cores that share a queue: which are free, and what waits for one.

use super::timers::Packed;
use maracas_core::{CoreId, CoreSet};
use std::hint::select_unpredictable;

/// Up to so many that wait, one is put in by steps from the first on; else its place is searched by
/// halves.
const FEW: usize = 32;

/// Cores that share a queue.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) cores: Vec<u32>,
    /// By the index of the core here, the key of the job that it is assigned to;
    /// [`Packed::FIRST`] = it is free.
    keys: Vec<Packed>,
    /// Indices of those that are free, as if they were cores.
    free: CoreSet,
    /// How many are free.
    vacant: usize,
    /// The first is the last entry.
    waiting: Vec<Packed>,
    /// How many came to wait since the last selection.
    pub(super) newly_waiting: u32,
    /// How many decisions found that another set of jobs is pending.
    pub(super) decisions: u64,
}

impl Cluster {
    pub(super) fn new(cores: &[CoreId]) -> Self {
        Self {
            cores: cores.iter().map(|core| u32::from(core.0)).collect(),
            keys: vec![Packed::FIRST; cores.len()],
            free: (0..cores.len() as u16).map(CoreId).collect(),
            vacant: cores.len(),
            waiting: Vec::new(),
            newly_waiting: 0,
            decisions: 0,
        }
    }
    /// The first that waits.
    #[inline]
    pub(super) fn first(&self) -> Option<Packed> {
        self.waiting.last().copied()
    }
    /// The same, which waits no longer.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Packed> {
        self.waiting.pop()
    }
    #[inline]
    pub(super) fn wait(&mut self, key: Packed) {
        if self.waiting.len() > FEW {
            let place = self.waiting.partition_point(|other| *other > key);
            return self.waiting.insert(place, key);
        }
        self.waiting.push(key);
        let mut place = self.waiting.len() - 1;
        while place > 0 && self.waiting[place - 1] < key {
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
    /// The lowest core that is free, by its index.
    #[inline]
    pub(super) fn first_free(&self) -> usize {
        let Some(index) = self.free.first() else {
            unreachable!("no more are selected than there are cores");
        };
        usize::from(index.0)
    }
    #[inline]
    pub(super) fn is_free(&self, index: usize) -> bool {
        self.free.contains(CoreId(index as u16))
    }
    /// The core whose job is the least urgent, by its index, and that job's key.
    #[inline]
    pub(super) fn last(&self) -> (usize, Packed) {
        let (mut last, mut key) = (0, self.keys[0]);
        for (index, other) in (1..).zip(&self.keys[1..]) {
            last = select_unpredictable(key < *other, index, last);
            key = key.max(*other);
        }
        (last, key)
    }
    /// The core of this index is assigned to a job; which core that is.
    #[inline]
    pub(super) fn assign(&mut self, index: usize, key: Packed) -> u32 {
        self.keys[index] = key;
        self.free.remove(CoreId(index as u16));
        self.vacant -= 1;
        self.cores[index]
    }
    /// The core of this index is free.
    #[inline]
    pub(super) fn release(&mut self, index: usize) {
        self.keys[index] = Packed::FIRST;
        self.free.insert(CoreId(index as u16));
        self.vacant += 1;
    }
}
