//! What each worker runs next: pieces of one set under one contender each.
//!
//! A worker goes through the contenders of the set that it drew, so that each set is drawn once.
//! When no set is left to be begun it takes over pieces of the others, from the set with most of
//! them left. So at the end no worker is idle for longer than one piece takes.
//!
//! Here is no thread, no lock and no clock: [`crate::run`] has them, and tests let workers pass by
//! in simulated time.

use std::sync::Arc;

/// A set that was drawn, under contenders of which some are still to be run.
#[derive(Debug)]
struct Open<S, R> {
    item: usize,
    set: Arc<S>,
    /// The contenders from this one on are still to be begun.
    next: usize,
    /// What contenders came to, by contender.
    came: Vec<Option<R>>,
}

/// What a worker is to do.
#[derive(Debug)]
pub(crate) enum Work<S> {
    /// Draw the set of this item and say so ([`Queue::drawn`]).
    Draw(usize),
    /// Run the set of this item under a contender, by its place, and say what came of it
    /// ([`Queue::came`]).
    Run(usize, Arc<S>, usize),
    /// Wait: a set is being drawn of which pieces may be left over.
    Wait,
    /// Nothing is left to be begun.
    None,
}

/// A set that every contender has run.
#[derive(Debug)]
pub(crate) struct Whole<S, R> {
    pub(crate) item: usize,
    pub(crate) set: Arc<S>,
    /// By contender.
    pub(crate) came: Vec<R>,
}

/// Items that are begun. `S` is a set, `R` what a contender makes of it; there is a contender.
#[derive(Debug)]
pub(crate) struct Queue<S, R> {
    contenders: usize,
    /// How many sets are being drawn.
    drawing: usize,
    /// At most one for each worker.
    open: Vec<Open<S, R>>,
}

impl<S, R> Queue<S, R> {
    pub(crate) const fn new(contenders: usize) -> Self {
        Self { contenders, drawing: 0, open: Vec::new() }
    }

    /// What a worker does next that drew the set of item `own` last; `next` gives the next item to
    /// be begun.
    pub(crate) fn take(
        &mut self,
        own: Option<usize>,
        next: impl FnOnce() -> Option<usize>,
    ) -> Work<S> {
        let contenders = self.contenders;
        let left = |open: &Open<S, R>| contenders - open.next;
        let mine = |open: &&mut Open<S, R>| Some(open.item) == own && left(open) > 0;
        if let Some(open) = self.open.iter_mut().find(mine) {
            return open.begin();
        }
        if let Some(item) = next() {
            self.drawing += 1;
            return Work::Draw(item);
        }
        match self.open.iter_mut().filter(|open| left(open) > 0).max_by_key(|open| left(open)) {
            Some(open) => open.begin(),
            None if self.drawing > 0 => Work::Wait,
            None => Work::None,
        }
    }

    /// The set of an item is there; `None` = it cannot be drawn, and nothing is left to be done
    /// with it.
    pub(crate) fn drawn(&mut self, item: usize, set: Option<S>) {
        self.drawing -= 1;
        let Some(set) = set.map(Arc::new) else { return };
        let came = (0..self.contenders).map(|_| None).collect();
        self.open.push(Open { item, set, next: 0, came });
    }

    /// What a contender came to; the set if that was the last one.
    pub(crate) fn came(&mut self, item: usize, contender: usize, what: R) -> Option<Whole<S, R>> {
        let place = self.open.iter().position(|open| open.item == item)?;
        let open = &mut self.open[place];
        open.came[contender] = Some(what);
        if open.came.iter().any(Option::is_none) {
            return None;
        }
        let Open { item, set, came, .. } = self.open.swap_remove(place);
        Some(Whole { item, set, came: came.into_iter().flatten().collect() })
    }
}

impl<S, R> Open<S, R> {
    fn begin(&mut self) -> Work<S> {
        self.next += 1;
        Work::Run(self.item, Arc::clone(&self.set), self.next - 1)
    }
}

#[cfg(test)]
mod tests;
