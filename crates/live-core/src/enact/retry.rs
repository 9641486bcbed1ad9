//! What the host refused is tried again.
//!
//! A refusal is reported to the policy, which may plan otherwise. Where it does not, the VCPU is
//! still to be held as the law has it: a thread that could not be demoted would run beyond its
//! budget for ever, one that could not be thawed would never run. So the core's agent does again
//! what was refused: after a while ([`super::alarm::Waking::grain`]), and after twice as long each
//! time that it is refused once more, so that a host that refuses for good costs few wakes.

use super::Core;
use crate::{Executor, Handle, Level, VcpuHandle};
use maracas_core::contract::Refused;
use maracas_core::{Instant, VcpuId};

/// How often the wait is doubled: 26 ms at a grain of 100 us, three wakes of a hundred in a second.
const DOUBLINGS: u32 = 8;

/// What was refused of how a VCPU is to be held.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// How often in a row it was refused.
    tries: u32,
    at: Instant,
    /// When it was tried last.
    tried_at: Instant,
}

impl Default for Retry {
    fn default() -> Self {
        Self { tries: 0, at: Instant::NEVER, tried_at: Instant::ZERO }
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

    /// An action on this VCPU handle was refused: all of it is done again later.
    pub(crate) fn was_refused(&mut self, index: usize) {
        let (now, grain) = (self.exec.now(), self.waking.grain());
        let retry = &mut self.vcpu_handles[index].retry;
        if retry.at != Instant::NEVER {
            return;
        }
        let wait = |tries: u32| grain * (1 << tries.min(DOUBLINGS));
        // A freeze is refused some time after it was asked for.
        if retry.tried_at.saturating_add(wait(retry.tries) * 2) < now {
            retry.tries = 0;
        }
        retry.at = now.saturating_add(wait(retry.tries));
        retry.tries = retry.tries.saturating_add(1);
    }

    /// Does again what was refused, where it is time.
    pub(crate) fn try_again(&mut self, now: Instant) {
        for index in 0..self.vcpu_handles.len() {
            let vcpu_handle = &self.vcpu_handles[index];
            // A freeze is refused some time after it was asked for.
            let refusal = vcpu_handle.handle.refusal();
            if refusal.is_ok() && vcpu_handle.retry.at > now {
                continue;
            }
            let is_refused = refusal.is_err();
            let what = Refused::Stop(vcpu_handle.id);
            self.report(refusal, what);
            if is_refused {
                self.was_refused(index);
            } else if self.vcpu_handles[index].retry.at <= now && !self.is_relieved {
                let retry = &mut self.vcpu_handles[index].retry;
                (retry.at, retry.tried_at) = (Instant::NEVER, now);
                self.do_again(index);
            }
        }
    }

    fn do_again(&mut self, index: usize) {
        let place = self.place();
        let vcpu_handle = &mut self.vcpu_handles[index];
        // Its threads may not sit here yet. The kernel's locks for that are waited for:
        // it is seldom.
        let sat = vcpu_handle.sits_on(place.core);
        let sits = if sat { Ok(false) } else { vcpu_handle.sit(place) };
        let id = vcpu_handle.id;
        // As where it is attached.
        let sits = sits.and_then(|_| self.exec.listen(id, &mut vcpu_handle.handle, true));
        self.stirred |= sits.is_ok();
        let arrived = !sat && sits.is_ok();
        let held = match vcpu_handle.level {
            Level::Foreground(priority) => vcpu_handle.raise(priority),
            Level::Background | Level::Watched | Level::Frozen => vcpu_handle.demote(),
        };
        vcpu_handle.handle.forget_freezer();
        self.exec.freeze(&vcpu_handle.handle, vcpu_handle.level == Level::Frozen);
        let held = held.and(vcpu_handle.handle.refusal());
        self.own_threads(index);
        if sits.is_err() || held.is_err() {
            self.was_refused(index);
        }
        self.report(sits, Refused::Move(id));
        self.report(held, Refused::Stop(id));
        if arrived {
            self.rescan(index);
        }
    }
}
