//! A program's phases: in which it is, and how much work that still takes. Shared by all models in
//! which programs have phases.

use super::count::{Count, WHOLE};
use maracas_core::Duration;

/// Where a program is in its phases. Each lasts for so much work; after the last comes the first.
/// A phase ends at the first tick at which its work is done; the part of that tick which is beyond
/// belongs to no phase.
#[derive(Clone, Debug)]
pub(super) struct Phases {
    /// By phase; never empty.
    works: Box<[Duration]>,
    at: usize,
    /// Work until the end of the phase in units of 2^-48; the last phase of all has no end.
    left: u128,
}

/// No end.
const ENDLESS: u128 = u128::MAX;

impl Phases {
    /// At the begin of the first of phases that take so much work each; [`Duration::MAX`] = it
    /// never ends.
    ///
    /// # Panics
    /// Where there are none.
    pub(super) fn new(works: impl IntoIterator<Item = Duration>) -> Self {
        let mut phases = Self { works: works.into_iter().collect(), at: 0, left: 0 };
        assert!(!phases.works.is_empty(), "a program has at least one phase");
        phases.begin();
        phases
    }

    /// The place of the present one.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    fn begin(&mut self) {
        let work = self.works[self.at];
        let ends = work != Duration::MAX;
        self.left =
            if ends { u128::from(work.ticks().max(1)) * u128::from(WHOLE) } else { ENDLESS };
    }

    /// Goes on with the next phase where this one is over.
    pub(super) fn turn(&mut self) {
        if self.left == 0 {
            self.at = (self.at + 1) % self.works.len();
            self.begin();
        }
    }

    /// Works for `time` at this rate.
    #[inline]
    pub(super) fn pass(&mut self, work: &Count, time: Duration) {
        if self.left != ENDLESS {
            let done = u128::from(work.rate) * u128::from(time.ticks());
            self.left = self.left.saturating_sub(done);
        }
    }

    /// Time until the end of the phase at this rate.
    pub(super) fn ends_in(&self, work: &Count) -> Duration {
        if self.left == ENDLESS { Duration::MAX } else { work.rate_time(self.left) }
    }
}
