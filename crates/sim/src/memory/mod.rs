//! The seam for models of shared memory: what the running VCPUs do to each other's speed.
//!
//! One file a model. A model turns the set of running programs into speeds and counts; between two
//! changes, of that set or of the model's own, every program progresses linearly.
//!
//! * [`NoContention`]: everything runs at full speed and touches no memory.
//! * [`UnevenCores`]: every program at its pace on the class of its core; none touches memory.
//! * [`SharedMemory`]: the DRAM law (`dram`), or request by request (`requests`), and the
//!   last-level cache (`cache`), coupled.

pub mod bound;
pub mod cache;
mod clamp;
mod classes;
mod controller;
mod count;
mod devices;
pub mod dram;
mod none;
mod phases;
mod program;
pub mod requests;
mod shared;
mod solutions;

pub use classes::UnevenCores;
pub use controller::MemoryTotals;
pub use none::NoContention;
pub(crate) use none::is_bare;
pub use shared::SharedMemory;

use maracas_core::contract::{Meters, Usage};
use maracas_core::memory::CachePart;
use maracas_core::{CoreId, Duration, Instant, VcpuId};

/// What runs on a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resident {
    /// Which VCPU.
    pub vcpu: VcpuId,
    /// Which of the run's programs, by its place among them; service VCPUs on a service request
    /// come after the last.
    pub program: u32,
}

/// What the program on a core came to in some time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Progress {
    /// Work done, at most the time.
    pub work: Duration,
    /// What was counted; `service` stays zero, since time is the machine's to charge.
    pub counted: Usage,
}

/// What a model had to do, for benches.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Effort {
    /// How often speeds were resolved: other programs ran, or the model changed by itself.
    pub changes: u64,
    /// How often of these only because the cache's contents had moved.
    pub looks: u64,
    /// Sets of requestors for which the DRAM law was solved.
    pub solves: u64,
    /// Sets whose solution was known.
    pub known: u64,
}

/// A contention model.
///
/// The machine calls [`Contention::advance`] for every running core up to an instant before it
/// calls anything that takes this instant; only where cores are not [`Contention::COUPLED`] it
/// leaves out those that go on as they were.
pub trait Contention {
    /// False lets the machine leave out all of it: progress equals time.
    const CONTENDS: bool;
    /// Whether what runs on one core changes the speed of others. False lets the machine look only
    /// at cores whose program changed.
    const COUPLED: bool;
    /// Whether there is a memory controller whose counters can be read: [`Contention::totals`].
    const SAMPLES: bool;
    /// Whether nothing is asked for but jobs, law and policy ([`crate::run`] sees to that).
    const BARE: bool = false;
    /// Something changed by `now`: what runs on which core, by core, or the model by itself.
    fn resolve(&mut self, now: Instant, running: &[Option<Resident>]);
    /// When the model changes by itself next and wants to be asked again.
    fn next_change(&self) -> Instant;
    /// Lets the program on `core` progress for `time`. However a time is split, the sums of what
    /// is handed out are the same.
    fn advance(&mut self, core: CoreId, time: Duration) -> Progress;
    /// The least time in which [`Contention::advance`] would hand out `work`.
    fn time_for(&self, core: CoreId, work: Duration) -> Duration;
    /// The least time in which [`Contention::advance`] would count so much of what the meters count
    /// ([`Contention::meter`]): reads, where nothing else was asked for.
    fn time_to_meter(&self, core: CoreId, metered: u64) -> Duration;
    /// Has this counted from the start on.
    fn meter(&mut self, _: Meters) {}
    /// For how long some read waited for its data, from the start up to `now`; `None` = that is
    /// not counted.
    fn busy(&mut self, _: Instant) -> Option<Duration> {
        None
    }
    /// What the memory controller counted from the start up to `now`; `None` = there is none.
    fn totals(&mut self, now: Instant) -> Option<&MemoryTotals>;
    /// What it had to do so far.
    fn effort(&self) -> Effort {
        Effort::default()
    }
    /// Pages that must be copied to give `program` these page colours.
    fn pages_to_copy(&self, program: u32, colors: Option<CachePart>) -> u64;
    /// `program` has these page colours (or ways) from `now` on; `None` = as before. The model
    /// wants to be asked again at once where that changes anything.
    fn recolor(&mut self, now: Instant, program: u32, colors: Option<CachePart>);
    /// `program` is gone for good.
    fn leave(&mut self, program: u32);
}
