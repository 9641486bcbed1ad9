//! What threads wait at: each serves who came first.

use super::NONE;
use std::collections::VecDeque;

/// Threads in the order in which they came.
pub(super) type Waiters = VecDeque<u32>;

/// A lock.
#[derive(Clone, Debug)]
pub(super) struct Lock {
    /// Whose it is, or `NONE`.
    holder: u32,
    waiting: Waiters,
}

impl Default for Lock {
    fn default() -> Self {
        Self { holder: NONE, waiting: Waiters::new() }
    }
}

impl Lock {
    /// Takes it if it is free, else waits; whether it was. Who has it already waits for itself.
    pub(super) fn take(&mut self, thread: u32) -> bool {
        let free = self.holder == NONE;
        if free {
            self.holder = thread;
        } else {
            self.waiting.push_back(thread);
        }
        free
    }
    /// Gives it on to the first that waits, and returns that one. Who does not have it gives
    /// nothing.
    pub(super) fn give_back(&mut self, thread: u32) -> Option<u32> {
        if self.holder != thread {
            return None;
        }
        let next = self.waiting.pop_front();
        self.holder = next.unwrap_or(NONE);
        next
    }
}

/// A counting semaphore, at first 0.
#[derive(Clone, Default, Debug)]
pub(super) struct Semaphore {
    count: u64,
    waiting: Waiters,
}

impl Semaphore {
    /// Adds one, or returns the first that waits for it.
    pub(super) fn post(&mut self) -> Option<u32> {
        let next = self.waiting.pop_front();
        self.count += u64::from(next.is_none());
        next
    }
    /// Takes one, or waits; whether there was one.
    pub(super) fn take(&mut self, thread: u32) -> bool {
        let there = self.count > 0;
        if there {
            self.count -= 1;
        } else {
            self.waiting.push_back(thread);
        }
        there
    }
}

/// A meeting point.
#[derive(Clone, Debug)]
pub(super) struct Barrier {
    threads: u32,
    waiting: Waiters,
}

impl Barrier {
    pub(super) const fn new(threads: u32) -> Self {
        Self { threads, waiting: Waiters::new() }
    }
    /// Comes; returns the others where it is the last.
    pub(super) fn meet(&mut self, thread: u32) -> Option<Waiters> {
        if self.waiting.len() as u32 + 1 == self.threads {
            return Some(std::mem::take(&mut self.waiting));
        }
        self.waiting.push_back(thread);
        None
    }
}
