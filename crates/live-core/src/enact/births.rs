//! Births and ends of threads wake the agent, so that a new thread is raised at once. A program
//! that does nothing but fork could keep the agent busy so, and what the agent takes is its
//! neighbours' time: births of one VCPU may cost a fiftieth of a core
//! ([`super::alarm::Waking::births`]). Beyond a burst the agent waits for that VCPU's births once
//! an interval; what is born meanwhile is raised then, or when the agent looks for another reason.

use super::Core;
use crate::Executor;
use maracas_core::Instant;

/// How many births and ends in a row wake the agent: eight threads that come and go with a job.
const BURST: u64 = 16;

/// What the births of a VCPU have cost lately.
#[derive(Debug, Default)]
pub struct Births {
    /// When all wakes so far are paid for, each by one interval (a leaky bucket).
    paid_at: Instant,
    /// Until when its event is not listened to.
    rescan_at: Option<Instant>,
}

impl Births {
    /// When it is time to wait for them again; [`Instant::NEVER`] = they are waited for.
    pub(crate) fn listen_again_at(&self) -> Instant {
        self.rescan_at.unwrap_or(Instant::NEVER)
    }
}

impl<E: Executor> Core<E> {
    /// Threads of this VCPU handle were born or have ended.
    pub(crate) fn note_birth(&mut self, index: usize, now: Instant) {
        let interval = self.waking.births();
        let births = &mut self.vcpu_handles[index].births;
        births.paid_at = births.paid_at.max(now).saturating_add(interval);
        if births.paid_at.saturating_since(now) > interval * BURST {
            births.rescan_at = Some(now.saturating_add(interval));
            self.listen(index, false);
        }
    }

    /// Waits for births again where it is time; what happened meanwhile makes the event readable at
    /// once.
    pub(crate) fn rescan_again(&mut self, now: Instant) {
        if self.vcpu_handles.iter().all(|it| it.births.listen_again_at() > now) {
            return;
        }
        for index in 0..self.vcpu_handles.len() {
            let births = &mut self.vcpu_handles[index].births;
            if births.rescan_at.is_some_and(|until| until <= now) {
                births.rescan_at = None;
                self.listen(index, true);
            }
        }
    }

    /// Waits again for births in a VCPU handle that goes to another core, if that was switched off.
    pub(crate) fn note_leaving(&mut self, index: usize) {
        if self.vcpu_handles[index].births.rescan_at.take().is_some() {
            self.listen(index, true);
        }
    }

    fn listen(&mut self, index: usize, to: bool) {
        let vcpu_handle = &mut self.vcpu_handles[index];
        let result = self.exec.listen(vcpu_handle.id, &mut vcpu_handle.handle, to);
        self.trouble = self.trouble.take().or(result.err());
    }
}
