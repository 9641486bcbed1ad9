//! How soon a core's background is stopped when the policy throttles the core, measured.
//!
//! It begins at the instant of the decision and ends when everything is frozen: then no background
//! thread of the core can run an instruction any more. Noted in the journal ([`Note::Throttled`]):
//! the time until then and, where there are switch records, that until the last of its threads was
//! switched out before that, which is the last instruction (0 where none was on the core). On a
//! throttled core where no VCPU used surplus time none is stopped, and nothing is noted.
//!
//! Where a bandwidth limiter ([`Executor::has_bandwidth_limiter`]) is used in place of the freezer,
//! background goes on with less bandwidth, and the time is that until the hardware was set.

use super::Core;
use crate::{Executor, Level, VcpuHandle};
use maracas_core::contract::RunQueue;
use maracas_core::journal::{Note, Record};
use maracas_core::{Instant, VcpuId};
use std::io;

/// What is measured of a core that is being throttled.
#[derive(Debug, Default)]
pub(crate) struct Throttling {
    /// When that was decided, until it is noted.
    decided: Option<Instant>,
    /// The VCPUs that were stopped.
    stopped: Option<VcpuId>,
    /// When a thread of our own was last switched out since.
    last_out: Option<Instant>,
}

impl Throttling {
    /// Whether it is being measured how soon the core's background stops.
    pub(crate) const fn is_measured(&self) -> bool {
        self.decided.is_some()
    }
    /// A VCPU's surplus time ends.
    #[inline]
    pub(crate) fn stopped(&mut self, vcpu: VcpuId) {
        if self.decided.is_some() {
            self.stopped.get_or_insert(vcpu);
        }
    }
    /// A thread of ours was switched out; `frozen` is when everything was, once it is.
    pub(crate) fn switched_out(&mut self, at: Instant, frozen: Option<Instant>) {
        let before = frozen.is_none_or(|frozen| at <= frozen);
        if before && self.decided.is_some_and(|decided| decided <= at) {
            self.last_out = Some(at);
        }
    }
}

impl<E: Executor> Core<E> {
    /// Follows this run queue from now on, as was decided at `decided`.
    pub fn follow(&mut self, run_queue: &RunQueue, decided: Instant) {
        let closes = !self.is_throttled && !run_queue.background_allowed;
        // Field by field, so that the lists stay in the memory that they have.
        let RunQueue { foreground, background, background_allowed, allowance } = run_queue;
        self.run_queue.foreground.clone_from(foreground);
        self.run_queue.background.clone_from(background);
        self.run_queue.background_allowed = *background_allowed;
        self.run_queue.allowance = *allowance;
        self.is_throttled = !run_queue.background_allowed;
        // What a bandwidth limiter makes slow goes on.
        self.run_queue.background_allowed |= self.exec.has_bandwidth_limiter();
        self.is_bounded = self.run_queue.limits_memory();
        if closes {
            self.exec.clear_stamp();
            self.throttling = Throttling { decided: Some(decided), ..Throttling::default() };
        }
    }

    /// Lowers the bandwidth of a throttled core while only background runs there, where that is not
    /// stopped: foreground is never throttled.
    pub(crate) fn steer_bandwidth(&mut self) {
        if !self.exec.has_bandwidth_limiter() {
            return;
        }
        let background = |vcpu_handle: &&VcpuHandle<E::Handle>| {
            vcpu_handle.want == Level::Background && vcpu_handle.is_runnable()
        };
        let in_budget = |vcpu_handle: &VcpuHandle<E::Handle>| {
            matches!(vcpu_handle.want, Level::Foreground(_)) && vcpu_handle.is_runnable()
        };
        let head = self.vcpu_handles.iter().find(background).map(|vcpu_handle| vcpu_handle.id);
        let lower = self.is_throttled && !self.vcpu_handles.iter().any(in_budget);
        if let Some(head) = head.filter(|_| lower) {
            self.throttling.stopped(head);
        }
        if std::mem::replace(&mut self.is_lowered, lower) != lower {
            self.exec.lower_bandwidth(lower);
        }
        if self.exec.refused_bandwidth() {
            let error = io::Error::other("the core's bandwidth could not be set (resctrl)");
            self.trouble.get_or_insert(error);
        }
    }

    /// Everything was stopped: asks the freeze thread to say when it has done its part.
    pub(crate) fn measure_throttling(&mut self) {
        if self.throttling.decided.is_none() || self.exec.stamped().is_some() {
            return;
        }
        if self.throttling.stopped.is_some() {
            self.exec.stamp();
        } else {
            self.throttling.decided = None;
        }
    }

    /// Notes what was measured.
    pub(crate) fn note_throttling(&mut self) {
        let Some(decided) = self.throttling.decided else { return };
        let Some(at) = self.exec.stamped() else { return };
        let vcpu = self.throttling.stopped;
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
