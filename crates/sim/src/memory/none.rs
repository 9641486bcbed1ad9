//! No contention: a VCPU progresses by the time that it runs.

use super::Contention;
use maracas_core::{CoreId, Duration, VcpuId};

/// Every core at full speed, whatever runs beside it.
#[derive(Clone, Copy, Debug)]
pub struct NoContention;

impl Contention for NoContention {
    const CONTENDS: bool = false;
    fn resolve(&mut self, _: &[Option<VcpuId>]) {}
    #[inline]
    fn work_in(&self, _: CoreId, time: Duration) -> Duration {
        time
    }
    #[inline]
    fn time_for(&self, _: CoreId, work: Duration) -> Duration {
        work
    }
}
