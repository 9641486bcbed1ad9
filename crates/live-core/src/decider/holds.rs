//! Holds: requests that nothing be frozen and nothing moved, and until when at the latest.

use super::Decider;
use crate::{Host, ManagedCore, Reply};
use maracas_core::{CoreId, Duration, Instant, VcpuId};

/// How long a hold may last at most. Starting a program or moving threads into a group takes
/// milliseconds; 900 ms were seen where the foreground kept it off its core. Who takes longer goes
/// on, but those who run meanwhile are frozen and moved as the policy says.
const LONGEST: Duration = Duration::from_secs(2);

/// One hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hold {
    number: u64,
    until: Instant,
}

impl<H: Host> Decider<H> {
    /// Nothing is frozen or moved until `number` is let go. Answers on which core `id` is; where
    /// the answer is not taken, nothing is held.
    pub(super) fn hold(&mut self, id: VcpuId, number: u64, reply: H::Reply<CoreId>, now: Instant) {
        self.hold_all(true);
        self.holds.push(Hold { number, until: now.saturating_add(LONGEST) });
        if reply.give(self.place(id)).is_err() {
            self.let_go(|hold| hold.number == number);
        }
    }

    /// The hold of this number ends. One whose time was over before is unknown.
    pub(super) fn unhold(&mut self, number: u64) {
        self.let_go(|hold| hold.number == number);
    }

    /// Ends the holds that were not ended in time.
    pub(super) fn expire_holds(&mut self, now: Instant) {
        self.let_go(|hold| hold.until <= now);
    }

    /// When the first hold is over.
    pub(super) fn holds_end(&self) -> Instant {
        self.holds.iter().map(|hold| hold.until).min().unwrap_or(Instant::NEVER)
    }

    fn let_go(&mut self, is_over: impl Fn(&Hold) -> bool) {
        while let Some(at) = self.holds.iter().position(&is_over) {
            self.holds.swap_remove(at);
            self.hold_all(false);
        }
    }

    /// One more asks on all cores that nothing be frozen, or one less.
    fn hold_all(&mut self, begins: bool) {
        self.held = if begins { self.held + 1 } else { self.held.saturating_sub(1) };
        self.cores.iter().for_each(|core| self.host.core(*core).hold(begins));
    }
}

#[cfg(test)]
mod tests;
