//! No contention: a VCPU progresses by the time that it runs.

use super::{Contention, MemoryTotals, Progress, Resident};
use maracas_core::contract::Usage;
use maracas_core::memory::CachePart;
use maracas_core::{CoreId, Duration, Instant};

/// Every core at full speed, whatever runs beside it.
#[derive(Clone, Copy, Debug)]
pub struct NoContention;

impl Contention for NoContention {
    const CONTENDS: bool = false;
    const COUPLED: bool = false;
    const SAMPLES: bool = false;
    fn resolve(&mut self, _: Instant, _: &[Option<Resident>]) {}
    fn next_change(&self) -> Instant {
        Instant::NEVER
    }
    #[inline]
    fn advance(&mut self, _: CoreId, time: Duration) -> Progress {
        Progress { work: time, counted: Usage::default() }
    }
    #[inline]
    fn time_for(&self, _: CoreId, work: Duration) -> Duration {
        work
    }
    #[inline]
    fn time_to_meter(&self, _: CoreId, _: u64) -> Duration {
        Duration::MAX
    }
    fn totals(&mut self, _: Instant) -> Option<&MemoryTotals> {
        None
    }
    fn pages_to_copy(&self, _: u32, _: Option<CachePart>) -> u64 {
        0
    }
    fn recolor(&mut self, _: Instant, _: u32, _: Option<CachePart>) {}
    fn leave(&mut self, _: u32) {}
}
