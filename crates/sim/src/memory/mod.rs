//! The seam for models of shared memory: what the running VCPUs do to each other's speed.
//!
//! One file a model. A model turns the set of running VCPUs into speeds; between two changes of
//! that set every VCPU progresses linearly.

mod none;

pub use none::NoContention;

use maracas_core::{CoreId, Duration, VcpuId};

/// A contention model.
pub trait Contention {
    /// False lets the machine leave out all of it: progress equals time.
    const CONTENDS: bool;
    /// The running set changed: who runs on which core, by core.
    fn resolve(&mut self, running: &[Option<VcpuId>]);
    /// The work that the VCPU on `core` does in `time`, rounded down.
    fn work_in(&self, core: CoreId, time: Duration) -> Duration;
    /// The time that the VCPU on `core` needs for `work`, rounded up.
    fn time_for(&self, core: CoreId, work: Duration) -> Duration;
}
