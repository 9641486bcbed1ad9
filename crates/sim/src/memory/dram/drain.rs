//! What writes to a single bank do to every other program.
//!
//! Writes wait in a queue that all share until there are enough of them; then a batch is drained
//! while reads wait. Writes that spread over the banks are drained quickly, and the law's D covers
//! them. Writes to one bank take a row cycle each, and all that time even those wait what never use
//! that bank.
//!
//! The rate of such writes is what their requestors could write if no other program were there. In
//! truth they are slowed down too, but then latency could fall when load is added: another reader
//! of that bank would spare the rest some draining. Measured on mixes, the difference is within the
//! noise.

use super::{Law, Requestor, Solved};
use maracas_core::memory::Pattern;

/// Writes per ns to single banks: the most that one bank gets counts, since banks work in parallel.
pub(super) struct Drains {
    /// To the bank that all requestors of [`Pattern::SameBank`] share.
    same_bank: f64,
    /// The most to a private bank, whose it is, and the most to another one.
    private: f64,
    whose: usize,
    next_private: f64,
}

impl Drains {
    /// Writes per ns to the busiest bank that is not requestor `i`'s own.
    pub(super) fn beside(&self, i: usize, pattern: Pattern) -> f64 {
        let same_bank = if pattern == Pattern::SameBank { 0.0 } else { self.same_bank };
        same_bank.max(if i == self.whose { self.next_private } else { self.private })
    }
}

impl Law {
    /// What each single bank could be written.
    pub(super) fn drains(&self, requestors: &[Requestor]) -> Drains {
        let mut most_per_read = 0.0_f64;
        let mut drains =
            Drains { same_bank: 0.0, private: 0.0, whose: usize::MAX, next_private: 0.0 };
        for (i, requestor) in requestors.iter().enumerate() {
            if requestor.pattern == Pattern::SameBank {
                drains.same_bank += self.could_write(requestor);
                most_per_read = most_per_read.max(requestor.writebacks);
            } else if requestor.pattern == Pattern::PrivateBank {
                let writes = self.could_write(requestor);
                if writes > drains.private {
                    drains.next_private = drains.private;
                    (drains.private, drains.whose) = (writes, i);
                } else {
                    drains.next_private = drains.next_private.max(writes);
                }
            }
        }
        // Together they can write no more than the bank takes.
        let ceiling = most_per_read / self.in_one_bank(most_per_read);
        drains.same_bank = drains.same_bank.min(ceiling);
        drains
    }

    /// Writes per ns of a requestor that has its bank to itself.
    fn could_write(&self, requestor: &Requestor) -> f64 {
        let cycle = self.in_one_bank(requestor.writebacks);
        let per_read = requestor.think_ns + cycle / requestor.outstanding;
        requestor.writebacks / per_read.max(cycle)
    }

    /// Time of one bank for a read and its write-backs.
    fn in_one_bank(&self, writebacks: f64) -> f64 {
        self.row_cycle * (1.0 + self.write_bank * writebacks)
    }

    /// What a read waits on average for so many writes per ns: those in progress wait for all of
    /// a batch, those that come meanwhile for the rest of it.
    pub(super) fn drain(&self, writes_per_ns: f64, own: &Requestor, mine: &Solved) -> f64 {
        let thinking = own.think_ns * own.outstanding;
        let rest = self.batch * thinking / (2.0 * thinking + self.batch);
        self.write_block * writes_per_ns * self.spread.channel * (mine.latency_ns + rest)
    }
}
