//! What the host refused is tried again.
//!
//! A refusal is told to the policy, which may plan otherwise. Where it does not, the VCPU is still
//! to be held as the law has it: a thread that could not be demoted would run beyond its budget
//! for ever, one that could not be thawed would never run. So the core's agent does again what was
//! refused: after [`alarm::Waking::grain`], and after twice as long each time that it is refused
//! once more, so that a host that refuses for good costs few wakes.

use super::Core;
use crate::{Executor, Handle, Level, VcpuHandle};
use maracas_core::contract::Refused;
use maracas_core::{Instant, VcpuId};

/// How often the wait is doubled: 26 ms at a grain of 100 us, three wakes of a hundred in a second.
const DOUBLINGS: u32 = 8;

/// What was refused of how a VCPU is to be held.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    tries: u32,
    at: Instant,
}

impl Default for Retry {
    fn default() -> Self {
        Self { tries: 0, at: Instant::NEVER }
    }
}

impl Retry {
    /// When it is tried again; [`Instant::NEVER`] = nothing was refused.
    pub const fn at(&self) -> Instant {
        self.at
    }
}

impl<E: Executor> Core<E> {
    /// The VCPU handle of `vcpu`, if it is here, with its meters up to date; what is refused only
    /// makes them a little older, and is told.
    pub fn read(&mut self, vcpu: VcpuId) -> Option<&VcpuHandle<E::Handle>> {
        let index = self.index(vcpu)?;
        let result = self.vcpu_handles[index].settle();
        self.report(result, Refused::Sample);
        self.vcpu_handles.get(index)
    }

    /// An action on this VCPU handle was refused, or was not.
    pub(crate) fn answered(&mut self, index: usize, was_refused: bool) {
        if !was_refused {
            self.vcpu_handles[index].retry = Retry::default();
            return;
        }
        let (now, grain) = (self.exec.now(), self.waking.grain());
        let retry = &mut self.vcpu_handles[index].retry;
        retry.at = now.saturating_add(grain * (1 << retry.tries.min(DOUBLINGS)));
        retry.tries = retry.tries.saturating_add(1);
    }

    /// Does again what was refused, where it is time.
    pub(crate) fn try_again(&mut self, now: Instant) {
        for index in 0..self.vcpu_handles.len() {
            let vcpu_handle = &self.vcpu_handles[index];
            // Who freezes tells of a refusal some time later.
            let refusal = vcpu_handle.handle.refusal();
            let is_refused = refusal.is_err();
            let what = Refused::Stop(vcpu_handle.id);
            self.report(refusal, what);
            if is_refused {
                self.answered(index, true);
            } else if self.vcpu_handles[index].retry.at <= now && !self.is_relieved {
                self.do_again(index);
            }
        }
    }

    fn do_again(&mut self, index: usize) {
        let place = self.place();
        let vcpu_handle = &mut self.vcpu_handles[index];
        // Its threads may not sit here yet. The kernel's locks for that are waited for: nobody
        // else is raised on its account, and it is seldom.
        let sits = match vcpu_handle.sits_on(place.core) {
            true => Ok(false),
            false => vcpu_handle.sit(place),
        };
        self.stirred |= sits.is_ok();
        let moved = sits.as_ref().is_ok_and(|moved| *moved);
        let id = vcpu_handle.id;
        let held = match vcpu_handle.level {
            Level::Foreground(priority) => vcpu_handle.raise(priority),
            Level::Background | Level::Watched | Level::Frozen => vcpu_handle.demote(),
        };
        vcpu_handle.handle.forget_freezer();
        self.exec.freeze(&vcpu_handle.handle, vcpu_handle.level == Level::Frozen);
        let held = held.and(vcpu_handle.handle.refusal());
        self.own_threads(index);
        self.answered(index, sits.is_err() || held.is_err());
        self.report(sits.map(drop), Refused::Move(id));
        self.report(held, Refused::Stop(id));
        if moved {
            self.rescan(index);
        }
    }

    /// Looks when something is to be tried again.
    pub(crate) fn retry_at(&mut self) {
        let first = self.vcpu_handles.iter().map(|vcpu_handle| vcpu_handle.retry.at).min();
        self.look_at = self.look_at.min(first.unwrap_or(Instant::NEVER));
    }
}
