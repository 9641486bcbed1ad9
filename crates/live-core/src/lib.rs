//! The live machine without its host: what one core does, as a state that neither calls the kernel
//! nor reads a clock, takes no lock and has no unsafe code.
//!
//! [`Core`] is the state of one managed core: its run queue, the VCPUs that sit on it, what is
//! known of their threads and meters, and what has not been reported to the policy yet. What
//! happens is given to it with the time ([`Core::enforce`], [`Core::follow`], [`Core::attach`], the
//! records that [`Executor::next_record`] hands over). For what is to be done it asks an
//! [`Executor`]: raise, demote, freeze, read a meter, sleep until. Each call is one action, and
//! what it returns is its answer: a reading, the time, or the host's refusal.
//!
//! An action is a call and not an entry in a queue, since the next step depends on its answer: what
//! a meter reads after its threads were demoted, or that a thread was gone. So no state between an
//! action and its answer has to be described, and nothing is allocated for it.
//!
//! Which VCPU may run is said by [`maracas_core::dispatch`] alone. The executor decides nothing:
//! one carries actions out on a stock Linux host (in the room `live`), another on a host that is
//! simulated (in the room `tests`), where the same code is tried with lateness, refusals and
//! deaths.
#![forbid(unsafe_code)]

mod cost;
mod decider;
mod demand;
mod enact;
mod executor;
#[cfg(test)]
mod fake;
#[cfg(feature = "faults")]
mod fault;
mod host;
mod kernel_core;
mod managed_core;
pub mod priority;
pub mod protocol;
mod record;
mod request;
mod stretch;
mod vcpu_handle;

pub use cost::{FASTEST_PER_US, WakeCost};
pub use decider::Decider;
pub use demand::Demand;
pub use enact::alarm::Waking;
pub use enact::memory::Counts;
pub use enact::relief::Relief;
pub use enact::{Core, Means};
pub use executor::{Executor, Handle, Recoloring, is_gone};
#[cfg(feature = "faults")]
pub use fault::Fault;
pub use host::{HandleOf, Host, Reply, ReplyOf, VcpuHandleOf};
pub use kernel_core::{Kernel, KernelCore, KernelEvent, Ran, Reported, Slots, Taken};
pub use managed_core::ManagedCore;
pub use record::Record;
pub use request::{Ended, Refusal, Request, VcpuStatus};
pub use stretch::Stretch;
pub use vcpu_handle::{Level, Place, SilentJob, Thread, VcpuHandle};
