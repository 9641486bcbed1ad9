//! The machine law: which VCPU a core runs.
//!
//! *At every instant a core, unless closed, runs the first runnable, unspent foreground entry of
//! its run queue; else, if background is allowed, the first runnable, unspent background entry;
//! else it idles.*
//!
//! The simulator calls [`next`]. The live machine, which does not see every block and wake at once,
//! readies all that are [`entitled`]. Traces hold what was recorded against both.

use crate::contract::{Grant, Limit, Mode, RunQueue};
use crate::{Duration, VcpuId};

/// What the law needs to know of the VCPUs.
pub trait Readings {
    /// Whether the VCPU has something to run.
    fn runnable(&self, vcpu: VcpuId) -> bool;
    /// The VCPU's meter of `mode`: cumulative service in that mode, on all cores.
    fn meter(&self, vcpu: VcpuId, mode: Mode) -> Duration;
    /// The VCPU's memory meter: cumulative reads of memory, on all cores. A machine without such
    /// a meter reads 0, so that no memory limit is ever reached there.
    fn memory(&self, _vcpu: VcpuId) -> u64 {
        0
    }
}

/// What a core runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Running {
    /// The VCPU.
    pub vcpu: VcpuId,
    /// In which mode.
    pub mode: Mode,
    /// Until its meter of that mode reads this.
    pub until: Limit,
    /// Until its memory meter reads this; `u64::MAX` = never.
    pub memory: u64,
}

/// The machine law for one core. `memory_meter` is the core's cumulative memory traffic.
#[inline]
pub fn next(run_queue: &RunQueue, memory_meter: u64, readings: &impl Readings) -> Option<Running> {
    let runs = |(grant, mode): &(&Grant, Mode)| {
        readings.runnable(grant.vcpu) && is_unspent(grant, *mode, readings)
    };
    entries(run_queue, memory_meter).find(runs).map(running)
}

/// All VCPUs that may run, in the order of the law: [`next`] is the first of them that is runnable.
/// A machine that does not see at once when a VCPU blocks or wakes readies those behind the first
/// too.
#[inline]
pub fn entitled<'a>(
    run_queue: &'a RunQueue,
    memory_meter: u64,
    readings: &'a impl Readings,
) -> impl Iterator<Item = Running> + 'a {
    let unspent = |(grant, mode): &(&Grant, Mode)| is_unspent(grant, *mode, readings);
    entries(run_queue, memory_meter).filter(unspent).map(running)
}

/// The entries of a run queue that count now, in the order of the law; none where the core is
/// closed.
#[inline]
fn entries(run_queue: &RunQueue, memory_meter: u64) -> impl Iterator<Item = (&Grant, Mode)> {
    let is_open = memory_meter < run_queue.allowance;
    let foreground = if is_open { &run_queue.foreground[..] } else { &[] };
    let background = (is_open && run_queue.background_allowed).then_some(&run_queue.background);
    let background = background.into_iter().flatten().map(|grant| (grant, Mode::Background));
    foreground.iter().map(|grant| (grant, Mode::Foreground)).chain(background)
}

/// Whether the grant has not ended by its VCPU's meters.
#[inline]
pub fn is_unspent(grant: &Grant, mode: Mode, readings: &impl Readings) -> bool {
    (grant.until == Limit::NEVER || readings.meter(grant.vcpu, mode) < grant.until.0)
        && (grant.memory == u64::MAX || readings.memory(grant.vcpu) < grant.memory)
}

#[inline]
const fn running((grant, mode): (&Grant, Mode)) -> Running {
    Running { vcpu: grant.vcpu, mode, until: grant.until, memory: grant.memory }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;
    impl Readings for Fixed {
        fn runnable(&self, vcpu: VcpuId) -> bool {
            vcpu.0 != 0
        }
        fn meter(&self, _: VcpuId, mode: Mode) -> Duration {
            Duration::from_ticks(if mode == Mode::Foreground { 10 } else { 3 })
        }
        fn memory(&self, _: VcpuId) -> u64 {
            5
        }
    }

    fn grant(vcpu: u32, until: u64) -> Grant {
        Grant::new(VcpuId(vcpu), Limit(Duration::from_ticks(until)))
    }

    #[test]
    fn the_law() {
        let mut run_queue = RunQueue {
            foreground: alloc::vec![grant(0, 99), grant(1, 10), grant(2, 11)],
            background: [grant(0, 99), grant(1, 4)].into_iter().collect(),
            ..RunQueue::default()
        };
        let run = |run_queue: &RunQueue, memory| {
            next(run_queue, memory, &Fixed).map(|r| (r.vcpu.0, r.mode))
        };
        // vcpu0 is blocked, vcpu1 is spent (10 of 10), vcpu2 has one tick left.
        assert_eq!(run(&run_queue, 0), Some((2, Mode::Foreground)));
        // It has read memory 5 times.
        run_queue.foreground[2].memory = 5;
        assert_eq!(run(&run_queue, 0), Some((1, Mode::Background)));
        run_queue.foreground[2].memory = 6;
        assert_eq!(run(&run_queue, 0), Some((2, Mode::Foreground)));
        run_queue.foreground.pop();
        assert_eq!(run(&run_queue, 0), Some((1, Mode::Background)));
        run_queue.background_allowed = false;
        assert_eq!(run(&run_queue, 0), None);
        run_queue.background_allowed = true;
        run_queue.allowance = 7;
        assert_eq!(run(&run_queue, 6), Some((1, Mode::Background)));
        assert_eq!(run(&run_queue, 7), None);
    }
}
