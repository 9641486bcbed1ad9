//! How soon a core's background is stopped when the policy throttles the core, measured.
//!
//! It begins at the instant of the decision and ends when everything is frozen: then no background
//! thread of the core can run an instruction any more. Noted in the journal ([`Note::Throttled`]):
//! the time until then and, where there are switch records, that until the last of its threads was
//! switched out before that, which is the last instruction (0 where none was on the core). A throttled core on which nobody used surplus time stops nobody, and
//! nothing is noted.
//!
//! Where a [`Valve`] is used in place of the freezer, background goes on with less bandwidth, and
//! the time is that until the hardware was told.

use super::Core;
use crate::host::resctrl::{Level, Mba};
use crate::machine::vcpu::{Live, Post};
use maracas_core::contract::Line;
use maracas_core::journal::{Note, Record};
use maracas_core::{CoreId, Instant, VcpuId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, io};

/// What lowers the bandwidth of throttled cores, where their background is not stopped instead.
pub(crate) trait Valve: fmt::Debug + Send + Sync {
    /// Lowers the bandwidth of `core` as far as it can, or gives it back.
    ///
    /// # Errors
    /// As the kernel says.
    fn set(&self, core: CoreId, lowered: bool) -> io::Result<()>;
}

impl Valve for Mba {
    fn set(&self, core: CoreId, lowered: bool) -> io::Result<()> {
        let level = if lowered { Level::Lowest } else { Level::Full };
        Self::set(self, core, level).map_err(io::Error::other)
    }
}

/// What is measured of a core that is being throttled.
#[derive(Debug, Default)]
pub(super) struct Throttling {
    /// When that was decided, until it is noted.
    decided: Option<Instant>,
    /// Who was stopped.
    stopped: Option<VcpuId>,
    /// When a thread of our own was last switched out since.
    last_out: Option<Instant>,
    /// Becomes the instant, in ticks, at which everything was frozen; 0 until then.
    frozen: Arc<AtomicU64>,
}

impl Throttling {
    /// Somebody's surplus time ends.
    pub(super) fn stopped(&mut self, vcpu: VcpuId) {
        if self.decided.is_some() {
            self.stopped.get_or_insert(vcpu);
        }
    }
    /// A thread of ours was switched out.
    pub(super) fn switched_out(&mut self, at: Instant) {
        let frozen = self.frozen.load(Ordering::Acquire);
        let before = frozen == 0 || at.ticks() <= frozen;
        if before && self.decided.is_some_and(|decided| decided <= at) {
            self.last_out = Some(at);
        }
    }
}

impl Core {
    /// Follows this line from now on, as was decided at `decided`.
    pub(crate) fn follow(&mut self, line: &Line, decided: Instant) {
        let closes = self.line.background_allowed && !line.background_allowed;
        self.line.clone_from(line);
        if closes {
            let frozen = Arc::clone(&self.throttling.frozen);
            frozen.store(0, Ordering::Release);
            self.throttling =
                Throttling { decided: Some(decided), frozen, ..Throttling::default() };
        }
    }

    /// Lowers the bandwidth of a throttled core while it has nobody to run but background, where
    /// that is not stopped: foreground is never throttled.
    pub(super) fn steer_bandwidth(&mut self) {
        let Some(valve) = &self.valve else { return };
        let background = |body: &&Live| body.want == Post::Background && body.is_runnable();
        let in_budget =
            |body: &Live| matches!(body.want, Post::Foreground(_)) && body.is_runnable();
        let head = self.bodies.iter().find(background).map(|body| body.id);
        let lower = !self.line.background_allowed && !self.bodies.iter().any(in_budget);
        if let Some(head) = head.filter(|_| lower) {
            self.throttling.stopped(head);
        }
        if std::mem::replace(&mut self.is_lowered, lower) != lower {
            self.brakes.bandwidth(valve, self.id, lower);
        }
        if self.brakes.refused_bandwidth() {
            let error = io::Error::other("the core's bandwidth could not be set (resctrl)");
            self.trouble.get_or_insert(error);
        }
    }

    /// Everything was stopped: asks the brake thread to say when it has done its part.
    pub(super) fn measure_throttling(&mut self) {
        if self.throttling.decided.is_none() || self.throttling.frozen.load(Ordering::Acquire) != 0
        {
            return;
        }
        if self.throttling.stopped.is_some() {
            self.brakes.stamp(&self.throttling.frozen);
        } else {
            self.throttling.decided = None;
        }
    }

    /// Notes what was measured.
    pub(super) fn note_throttling(&mut self) {
        let frozen = self.throttling.frozen.load(Ordering::Acquire);
        let Some(decided) = self.throttling.decided.filter(|_| frozen != 0) else { return };
        let vcpu = self.throttling.stopped;
        let at = Instant::from_ticks(frozen);
        let ns = |at: Instant| at.saturating_since(decided).ticks();
        let last = self.throttling.last_out.map_or(0, ns);
        let last_out_ns = self.means.events.then_some(last);
        self.throttling.decided = None;
        let note = Note::Throttled { core: self.id, vcpu, took_ns: ns(at), last_out_ns };
        self.notes.push(Record::Note { at, note });
    }
}

#[cfg(test)]
mod tests;
