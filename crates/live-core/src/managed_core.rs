//! One core as the decider asks it: the seam between deciding and what carries the machine law out.

use crate::{Core, Counts, Executor, Handle, Place, VcpuHandle};
use maracas_core::contract::{End, RunQueue};
use maracas_core::journal::Record;
use maracas_core::{Event, Instant, VcpuId};
use std::io;

/// One core, by whatever means the law is carried out there: by an agent in levels
/// ([`Core`]), or inside the kernel ([`crate::KernelCore`]).
///
/// After a decision the decider has every core whose run queue is another one [`follow`] it, brings
/// VCPU handles to their cores, lets all cores [`stop`] what may not go on, and then all [`start`]
/// what may.
///
/// [`follow`]: ManagedCore::follow
/// [`stop`]: ManagedCore::stop
/// [`start`]: ManagedCore::start
pub trait ManagedCore<H: Handle> {
    /// What a VCPU handle must know of this core to sit here.
    fn place(&self) -> Place<H::Site>;
    /// What is counted of each VCPU's memory traffic.
    fn counts(&self) -> Counts;
    /// Whether no VCPU may run here, since an allowance of memory is spent.
    fn is_closed(&self) -> bool;
    /// Whether the allowance is spent and that has not been reported.
    fn is_spent(&self) -> bool;
    /// Whether a VCPU that runs here must be stopped by this core's own agent before it can go to
    /// another core.
    fn must_stop(&self, vcpu: VcpuId) -> bool;
    /// Whether the guardian may have acted on what sits here, since this core's agent was stuck.
    fn was_relieved(&self) -> bool;

    /// Whether one VCPU more may come where so many are `there`.
    ///
    /// # Errors
    /// Why not, and the way out.
    fn has_room(&mut self, _there: usize) -> Result<(), String> {
        Ok(())
    }

    /// The VCPU handles that sit here.
    fn vcpu_handles(&mut self) -> &mut [VcpuHandle<H>];
    /// That of `vcpu`, if it is here.
    fn vcpu_handle(&mut self, vcpu: VcpuId) -> Option<&mut VcpuHandle<H>> {
        self.vcpu_handles().iter_mut().find(|vcpu_handle| vcpu_handle.id == vcpu)
    }
    /// The same with its meters up to date.
    fn read(&mut self, vcpu: VcpuId) -> Option<&VcpuHandle<H>>;
    /// Takes a VCPU handle in that was made to sit here: `sits` is the result of that. Whether it
    /// is confined to this core now; where it cannot be, that is reported.
    fn attach(&mut self, vcpu_handle: VcpuHandle<H>, sits: io::Result<bool>) -> bool;
    /// Gives a VCPU handle away; what it took here is reported.
    fn detach(&mut self, vcpu: VcpuId, end: End) -> Option<VcpuHandle<H>>;
    /// Threads came to a VCPU in ways that nothing reports: lists them, and takes all for runnable.
    fn list_threads(&mut self, vcpu: VcpuId);
    /// Sets all of a VCPU anew: the guardian may have acted on it.
    fn hold_again(&mut self, vcpu: VcpuId);
    /// A program is about to be started, or is: nothing is frozen meanwhile.
    fn hold(&mut self, begins: bool);
    /// A job of this VCPU was released.
    fn released(&mut self, vcpu: VcpuId);

    /// Follows this run queue from now on, as was decided at `decided`.
    fn follow(&mut self, run_queue: &RunQueue, decided: Instant);
    /// Stops what may not go on by what was decided at `now`. `woke` = when this core's own agent
    /// woke, where that is who decides.
    fn stop(&mut self, woke: Option<Instant>, now: Instant);
    /// Starts what may run, as [`ManagedCore::stop`].
    fn start(&mut self, woke: Option<Instant>, now: Instant);
    /// Stops and then starts, where no other core is concerned; `cause` as [`note_first`].
    ///
    /// [`note_first`]: ManagedCore::note_first
    fn carry_out(&mut self, woke: Option<Instant>, cause: Option<Instant>, now: Instant) {
        self.stop(woke, now);
        self.start(woke, now);
        self.note_first(cause, now);
    }
    /// After a decision was carried out here: is it a dispatch? `cause` is when what it answers
    /// happened, where that is known, and `decided` when it was decided.
    fn note_first(&mut self, cause: Option<Instant>, decided: Instant);
    /// Something changed on which the law depends.
    fn stir(&mut self);
    /// Whether something did, since this was asked last.
    fn take_stirred(&mut self) -> bool;
    /// When the decider is to look for the policy's sake.
    fn wake_at(&mut self, at: Instant);

    /// Puts what happened here into the outbox.
    fn drain(&mut self);
    /// What happened here and has not been reported to the policy.
    fn outbox(&mut self) -> &mut Vec<(Instant, Event)>;
    /// What was measured since this was asked last.
    fn take_notes(&mut self, into: &mut Vec<Record>);
    /// Reports what runs here without ending it.
    fn meter_running(&mut self);
    /// A service VCPU takes the core from what runs here.
    fn interrupt(&mut self);
    /// The run ends: notes what is not noted yet.
    fn end(&mut self);
}

impl<E: Executor> ManagedCore<E::Handle> for Core<E> {
    fn place(&self) -> Place<E::Site> {
        self.place()
    }
    fn counts(&self) -> Counts {
        self.counts()
    }
    fn is_closed(&self) -> bool {
        self.is_closed()
    }
    fn is_spent(&self) -> bool {
        self.is_spent()
    }
    /// What runs on another core than the decider's would run on after it was demoted, if only on
    /// surplus time, and the kernel would have to stop it for us.
    fn must_stop(&self, vcpu: VcpuId) -> bool {
        self.is_running(vcpu)
    }
    fn was_relieved(&self) -> bool {
        self.was_relieved()
    }
    fn vcpu_handles(&mut self) -> &mut [VcpuHandle<E::Handle>] {
        &mut self.vcpu_handles
    }
    fn read(&mut self, vcpu: VcpuId) -> Option<&VcpuHandle<E::Handle>> {
        self.read(vcpu)
    }
    fn attach(&mut self, vcpu_handle: VcpuHandle<E::Handle>, sits: io::Result<bool>) -> bool {
        self.attach(vcpu_handle, sits)
    }
    fn detach(&mut self, vcpu: VcpuId, end: End) -> Option<VcpuHandle<E::Handle>> {
        self.detach(vcpu, end)
    }
    fn list_threads(&mut self, vcpu: VcpuId) {
        if let Some(index) = self.index(vcpu) {
            self.rescan(index);
            self.vcpu_handles[index].suppose_runnable();
            self.stirred = true;
        }
    }
    fn hold_again(&mut self, vcpu: VcpuId) {
        if let Some(index) = self.index(vcpu) {
            self.hold_again(index);
        }
    }
    fn hold(&mut self, begins: bool) {
        self.hold(begins);
    }
    fn released(&mut self, vcpu: VcpuId) {
        self.released(vcpu);
    }
    fn follow(&mut self, run_queue: &RunQueue, decided: Instant) {
        self.follow(run_queue, decided);
    }
    fn stop(&mut self, woke: Option<Instant>, now: Instant) {
        self.act(woke, now, |core| {
            core.judge();
            core.stops();
        });
    }
    fn start(&mut self, woke: Option<Instant>, now: Instant) {
        self.act(woke, now, Self::starts);
    }
    fn note_first(&mut self, cause: Option<Instant>, decided: Instant) {
        self.note_first(cause, decided);
    }
    fn stir(&mut self) {
        self.stirred = true;
    }
    fn take_stirred(&mut self) -> bool {
        std::mem::take(&mut self.stirred)
    }
    fn wake_at(&mut self, at: Instant) {
        self.wake_at = at;
        self.set_alarm();
    }
    fn drain(&mut self) {
        self.drain();
    }
    fn outbox(&mut self) -> &mut Vec<(Instant, Event)> {
        &mut self.outbox
    }
    fn take_notes(&mut self, into: &mut Vec<Record>) {
        if self.has_notes() {
            into.extend(self.take_notes());
        }
    }
    fn meter_running(&mut self) {
        self.meter_running();
    }
    fn interrupt(&mut self) {
        self.interrupt();
    }
    fn end(&mut self) {
        self.end();
    }
}
