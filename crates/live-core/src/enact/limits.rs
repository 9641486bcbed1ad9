//! The limits of a core's run queue against the meters of its VCPU handles, as they were read last.

use super::Core;
use crate::{Executor, Level};
use maracas_core::Duration;
use maracas_core::contract::{End, Grant, Mode};

impl<E: Executor> Core<E> {
    /// Why a VCPU handle stops: the limit of its foreground time, which is said too, or something
    /// else.
    pub(super) fn reason(&self, index: usize) -> (End, Option<Duration>) {
        let vcpu_handle = &self.vcpu_handles[index];
        let is_own = |grant: &&Grant| grant.vcpu == vcpu_handle.id;
        let mode = vcpu_handle.mode();
        let grant = match mode {
            Mode::Foreground => self.run_queue.foreground.iter().find(is_own),
            Mode::Background => self.run_queue.background.iter().find(is_own),
        };
        let spent = |grant: &Grant| vcpu_handle.meter(mode) >= grant.until.0;
        match grant {
            Some(grant) if spent(grant) => {
                let limit = (mode == Mode::Foreground).then_some(grant.until.0);
                (End::LimitReached, limit)
            }
            Some(grant) if !vcpu_handle.has_memory(grant) => (End::MemorySpent, None),
            Some(_) | None => (End::Preempted, None),
        }
    }

    /// Whether any VCPU goes on beyond its limit, by the meters as they were just read. That may be
    /// so before the next look is due: a VCPU that was woken for something else, or whose core's
    /// run queue was changed by another agent, has counted anew from then.
    pub(super) fn has_ended(&self) -> bool {
        self.vcpu_handles.iter().any(|vcpu_handle| {
            let is_own = |grant: &&Grant| grant.vcpu == vcpu_handle.id;
            let spent = |grant: &Grant| vcpu_handle.meter(Mode::Foreground) >= grant.until.0;
            let is_raised = matches!(vcpu_handle.level, Level::Foreground(_));
            is_raised && self.run_queue.foreground.iter().find(is_own).is_some_and(spent)
        })
    }
}
