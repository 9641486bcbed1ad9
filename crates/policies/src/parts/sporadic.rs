//! The corrected sporadic server: a budget C in every period T, kept as chunks.
//!
//! B. Sprunt, L. Sha, J. Lehoczky, "Aperiodic Task Scheduling for Hard Real-Time Systems",
//! Real-Time Systems 1, 1989; corrected as M. Stanovich, T. Baker, A. Wang, M. Harbour, "Defects
//! of the POSIX Sporadic Server and How to Correct Them", RTAS 2010, asks: amounts always sum to
//! C, an overrun is charged to future chunks, and what is used of a chunk comes back one period
//! after the chunk became usable, never earlier.
//!
//! What may be said of consumption (algorithms.md F.4): a unit used from a chunk with time e is not
//! usable again before e + T; from an instant at which the server has nothing usable or is blocked,
//! it consumes at most C ceil(d/T) in the next d; *not* at most C in any window of length T.
//!
//! A program that blocks often takes its budget apart, and each chunk costs the machine a start and
//! a stop. So chunks shorter than `chunk_min` are joined with the next, as the tail of a full list
//! is: the joined chunk begins so late that nothing of it can be used before its own time. At any
//! instant less than `chunk_min`, and than an eighth of C, waits for that beyond its own time. What
//! is used of a chunk that waited comes back that much later, too, so a program that always wants
//! more gets (C - `chunk_min`) / T at least.

use maracas_core::params::{Kind, ParamSpec};
use maracas_core::{Duration, Instant, Short};

pub(crate) const CHUNK_MIN: ParamSpec = ParamSpec {
    name: "chunk_min",
    kind: Kind::Time("0ns"),
    help: "pieces of a budget shorter than this come back with the next piece, so that a program \
           that blocks often is started and stopped less often; one \
           that always wants more gets less by at most this, and an eighth of its budget, a \
           period. Live runs raise it to what starts and stops cost",
};

/// Pieces of a budget are joined up to this part of C at most, so that a VCPU keeps the rest of its
/// budget in time whatever starts and stops cost: eight starts a period are few beside thirty-two.
const JOINED_PART: u64 = 8;

/// The most chunks that are kept; Quest keeps 32, at least 2 are needed.
pub(crate) const CHUNKS_MAX: usize = 32;

/// `amount` may be used from `at` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Chunk {
    pub(crate) at: Instant,
    pub(crate) amount: Duration,
}

impl Chunk {
    fn end(&self) -> Instant {
        self.at + self.amount
    }
}

/// A sporadic server.
#[derive(Clone, Debug)]
pub(crate) struct Sporadic {
    budget: Duration,
    period: Duration,
    chunks: Short<Chunk>,
}

impl Sporadic {
    /// A server whose whole budget may be used from `at` on.
    pub(crate) fn new(budget: Duration, period: Duration, at: Instant) -> Self {
        let mut chunks = Short::default();
        chunks.push_back(Chunk { at, amount: budget });
        Self { budget, period, chunks }
    }
    pub(crate) const fn period(&self) -> Duration {
        self.period
    }
    /// What may be used at `now`: all chunks that have become usable.
    pub(crate) fn usable(&self, now: Instant) -> Duration {
        self.chunks.iter().take_while(|chunk| chunk.at <= now).map(|chunk| chunk.amount).sum()
    }
    /// When more than at `now` may be used.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        self.chunks.iter().map(|chunk| chunk.at).find(|at| *at > now)
    }

    /// Both at once.
    pub(crate) fn usable_and_next(&self, now: Instant) -> (Duration, Option<Instant>) {
        let mut usable = Duration::ZERO;
        for chunk in self.chunks.iter() {
            if chunk.at > now {
                return (usable, Some(chunk.at));
            }
            usable += chunk.amount;
        }
        (usable, None)
    }

    /// When the first of the budget may be used.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.chunks.front().map(|chunk| chunk.at)
    }
    /// When the last of the budget may be used.
    pub(crate) fn last(&self) -> Option<Instant> {
        self.chunks.back().map(|chunk| chunk.at)
    }

    /// Charges `used` from the first chunk on; an overrun goes on with future chunks. What comes
    /// back is joined where chunks are shorter than `chunk_min`.
    pub(crate) fn charge(&mut self, used: Duration, chunk_min: Duration) {
        if used.is_zero() {
            return;
        }
        let mut rest = used;
        let chunk_min = chunk_min.min(Duration::from_ticks(self.budget.ticks() / JOINED_PART));
        while let Some(head) = self.chunks.front_mut()
            && !rest.is_zero()
        {
            let (at, spent) = (head.at, rest.min(head.amount));
            let is_spent = spent == head.amount;
            if is_spent {
                self.chunks.pop_front();
            } else {
                *head = Chunk { at: at + spent, amount: head.amount - spent };
            }
            rest -= spent;
            // What is left of the only chunk before that is in use.
            let is_earlier = |second: &Chunk| second.at <= at + self.period;
            let joins = is_spent || self.chunks.second().is_some_and(is_earlier);
            let chunk_min = if joins { chunk_min } else { Duration::ZERO };
            self.give_back(Chunk { at: at + self.period, amount: spent }, chunk_min);
        }
        self.check();
    }

    /// The VCPU became runnable at `now`: what it saved while blocked may not come back before
    /// one period from now.
    pub(crate) fn unblock(&mut self, now: Instant) {
        let Some(mut head) = self.chunks.front().copied().filter(|head| head.at <= now) else {
            return;
        };
        head.at = now;
        while self.chunks.second().is_some_and(|second| second.at <= head.end()) {
            // The second cannot be reached before its time, since the head lasts until then.
            head.amount += self.chunks.pop_second().map_or(Duration::ZERO, |chunk| chunk.amount);
        }
        self.chunks.front_mut().into_iter().for_each(|chunk| *chunk = head);
        self.check();
    }

    /// Replaces C and T at `now`. What of the old budget is used and has not come back comes back
    /// at its own time, of a smaller budget the latest of that. What a greater one adds may be used
    /// with what may be, or else comes with the first of what is used: a budget made small and
    /// great again would come back at once otherwise.
    pub(crate) fn change(&mut self, budget: Duration, period: Duration, now: Instant) {
        let usable = self.usable(now);
        let used = self.budget - usable;
        let owed = used.min(budget);
        // Where something may be used, nothing that is used was dropped by a change before: what
        // was came no later than what stayed.
        let kept = if usable.is_zero() { Duration::ZERO } else { budget - owed };
        let (mut dropped, mut added) = (used - owed, budget - kept - owed);
        let old = core::mem::take(&mut self.chunks);
        if !kept.is_zero() {
            self.chunks.push_back(Chunk { at: now, amount: kept });
        }
        for chunk in old.iter().filter(|chunk| chunk.at > now) {
            let gone = dropped.min(chunk.amount);
            dropped -= gone;
            if gone < chunk.amount {
                let amount = chunk.amount - gone + core::mem::take(&mut added);
                self.put_back(Chunk { at: chunk.at, amount }, Duration::ZERO);
            }
        }
        (self.budget, self.period) = (budget, period);
        self.check();
    }

    fn give_back(&mut self, chunk: Chunk, chunk_min: Duration) {
        let is_later = |other: &&Chunk| other.at > chunk.at;
        if self.chunks.back().filter(is_later).is_none() {
            return self.put_back(chunk, chunk_min);
        }
        // What a change to a shorter period holds back comes after it, and must not keep it back.
        let all = core::mem::take(&mut self.chunks);
        let earlier = all.iter().filter(|other| !is_later(other));
        earlier.for_each(|other| self.chunks.push_back(*other));
        self.put_back(chunk, chunk_min);
        all.iter().filter(is_later).for_each(|other| self.put_back(*other, Duration::ZERO));
    }
    fn put_back(&mut self, chunk: Chunk, chunk_min: Duration) {
        let full = self.chunks.len() >= CHUNKS_MAX;
        match self.chunks.back_mut() {
            // Touching: one chunk again. Also joins the pieces of one preempted chunk.
            Some(tail) if tail.end() >= chunk.at => tail.amount += chunk.amount,
            // No room, or not worth a start: the tail waits, so that nothing comes earlier than it
            // may.
            Some(tail) if full || tail.amount < chunk_min => {
                tail.at = chunk.at - tail.amount;
                tail.amount += chunk.amount;
            }
            Some(_) | None => self.chunks.push_back(chunk),
        }
    }

    /// algorithms.md F.7: amounts sum to C and lie above zero, chunks are in order and do not
    /// overlap.
    fn check(&self) {
        let (mut sum, mut end) = (Duration::ZERO, Instant::ZERO);
        for chunk in self.chunks.iter() {
            assert!(chunk.at >= end, "{chunk:?} begins before {end}, the end of the one before");
            assert!(!chunk.amount.is_zero(), "an empty chunk at {}", chunk.at);
            (sum, end) = (sum + chunk.amount, chunk.end());
        }
        assert!(sum == self.budget, "chunks sum to {sum}, not to C = {}", self.budget);
        assert!(self.chunks.len() <= CHUNKS_MAX, "{} chunks", self.chunks.len());
    }
    #[cfg(test)]
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (u64, u64)> {
        self.chunks.iter().map(|chunk| (chunk.at.ticks(), chunk.amount.ticks()))
    }
}

#[cfg(test)]
mod tests;
