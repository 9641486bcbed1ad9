//! No contention: a VCPU progresses by the time that it runs.

use super::{Contention, MemoryTotals, Progress, Resident};
use crate::Options;
use maracas_core::contract::Usage;
use maracas_core::memory::CachePart;
use maracas_core::{CoreId, Duration, Instant, Overheads, System};

/// Every core at full speed, whatever runs beside it. `IS_BARE` = in a run of which `is_bare` is
/// true: what that rules out is left out of the machine, which is compiled once for each model.
#[derive(Clone, Copy, Debug)]
pub struct NoContention<const IS_BARE: bool>;

/// Whether nothing is asked for but jobs, law and policy: decisions come at once, wakes are seen,
/// nothing is charged or audited, and nothing is shared.
pub(crate) fn is_bare(system: &System, options: &Options) -> bool {
    let Options { late, hidden_wakes, overheads, audit, until: _, seed: _ } = *options;
    let free = late.is_zero() && overheads == Overheads::FREE;
    free && !hidden_wakes && !audit && system.resources.is_none()
}

impl<const IS_BARE: bool> Contention for NoContention<IS_BARE> {
    const CONTENDS: bool = false;
    const COUPLED: bool = false;
    const SAMPLES: bool = false;
    const BARE: bool = IS_BARE;
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
