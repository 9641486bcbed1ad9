//! What the decider asks of the machine around it: cores, time, requests, the journal, the sensor.

use crate::{Handle, ManagedCore, Request, VcpuHandle};
use maracas_core::contract::{Observer, Sample};
use maracas_core::journal::Record;
use maracas_core::{CoreId, Instant, Job, VcpuId};
use std::io;
use std::ops::DerefMut;

/// What a host's VCPUs are acted on by.
pub type HandleOf<H> = <H as Host>::Handle;
/// A VCPU handle of a host.
pub type VcpuHandleOf<H> = VcpuHandle<HandleOf<H>>;
/// How a reply of a host is called.
pub type ReplyOf<H, T> = <H as Host>::Reply<T>;

/// The machine around a decider. As with an [`Executor`](crate::Executor), each call is one action
/// and what it returns is the answer; nothing here decides. Its [`Observer`] is the journal: every
/// event that the policy is told, every plan after it was carried out.
pub trait Host: Observer + Sized {
    /// What VCPUs are acted on by.
    type Handle: Handle;
    /// By what the law is carried out on a core.
    type Core: ManagedCore<Self::Handle> + ?Sized;
    /// Where an answer to a caller goes.
    type Reply<T>: Reply<T>;

    /// One of the cores, as no other thread has it now.
    fn core(&mut self, core: CoreId) -> impl DerefMut<Target = Self::Core>;
    /// The time, since the run began.
    fn now(&self) -> Instant;
    /// Appends what was asked for since the last call, in its order.
    fn take_requests(&mut self, into: &mut Vec<Request<Self>>);
    /// Lets the program of a job's VCPU begin with it.
    fn release(&mut self, job: &Job);
    /// A VCPU sits on this core from now on: its jobs are done there.
    fn sits(&mut self, _vcpu: VcpuId, _core: CoreId) {}
    /// Takes over what is left of a VCPU that ended and whose end is not waited for.
    fn leave(&mut self, vcpu: VcpuId, handle: Option<Box<VcpuHandleOf<Self>>>);

    /// Whether memory can be sampled at all.
    fn can_sample(&self) -> bool {
        false
    }
    /// What was counted of memory since the last sample, by core; `None` = nothing is counted.
    ///
    /// # Errors
    /// Where the counters cannot be read.
    fn sample(&mut self, _now: Instant) -> io::Result<Option<Sample>> {
        Ok(None)
    }
    /// What is to be said of the counting of memory at the end of a run.
    fn sample_remark(&self) -> Option<String> {
        None
    }

    /// Puts a note into the journal.
    fn record(&mut self, _record: &Record) {}
    /// Nothing more comes from the decider until it is asked again: what it has for the journal is
    /// handed over.
    fn hand_over(&mut self) {}
    /// Ends the journal.
    fn end(&mut self, _at: Instant) {}
}

/// Where an answer goes. Who asked may have given up meanwhile.
pub trait Reply<T> {
    /// Whether who asked has given up. What is not begun yet need not be then.
    fn is_withdrawn(&self) -> bool;
    /// Gives the answer; never waits.
    ///
    /// # Errors
    /// The answer, where it is not taken: what was done for it is to be undone.
    fn give(self, answer: T) -> Result<(), T>;
}
