//! The machine law: which VCPU a core runs.
//!
//! *At every instant a core, unless closed, runs the first runnable, unspent foreground entry of
//! its run queue; else, if background is allowed, the first runnable, unspent background entry;
//! else it idles.* An entry whose instant is to come ([`Grant::from`](field@Grant::from)) is not
//! there until then, and one that [lapses](Grant::lapses) no more after its VCPU woke.
//!
//! The simulator calls [`next`], and so does the policy `memguard`, which must know what its own
//! plan runs. The live machine, which does not see every block and wake at once, readies all that
//! are [`entitled`]. Traces ask which VCPUs were [`kept_out`]. The scheduler in the kernel has the
//! law in C (`bpf/law.h`).

use crate::contract::{Grant, Limit, MemoryLimit, Mode, RunQueue};
use crate::{Duration, Instant, List, VcpuId};

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
    /// Whether the VCPU, having had nothing to run, got something since the policy was told last:
    /// its grants that lapse then do not count. A machine that asks the policy at each wake need
    /// not say.
    fn has_woken(&self, _vcpu: VcpuId) -> bool {
        false
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
    /// Until its memory meter reads this.
    pub memory: MemoryLimit,
}

/// The machine law for one core at `now`. `memory_meter` is the core's cumulative memory traffic.
#[inline(always)] // Asked after every event of the simulator.
pub fn next(
    run_queue: &RunQueue,
    now: Instant,
    memory_meter: u64,
    readings: &impl Readings,
) -> Option<Running> {
    let runs = |grant: &Grant, mode| {
        readings.runnable(grant.vcpu)
            && counts(grant, now, readings)
            && is_unspent(grant, mode, readings)
    };
    // Mode by mode, not by `entries`: every event of the simulator asks, and most run queues have
    // few entries.
    if !is_closed(run_queue, memory_meter, Mode::Foreground) {
        let first = run_queue.foreground.iter().find(|grant| runs(grant, Mode::Foreground));
        if let Some(grant) = first {
            return Some(running((grant, Mode::Foreground)));
        }
    }
    if is_closed(run_queue, memory_meter, Mode::Background) || run_queue.background.is_empty() {
        return None;
    }
    let first = run_queue.background.iter().find(|grant| runs(grant, Mode::Background));
    first.map(|grant| running((grant, Mode::Background)))
}

/// When a grant begins to count that is ahead at `now`, at the earliest: the law may choose another
/// VCPU then. [`Instant::NEVER`] where none is ahead.
pub fn due(run_queue: &RunQueue, now: Instant) -> Instant {
    let all = by_mode(&run_queue.foreground, Some(&run_queue.background));
    let ahead = all.map(|(grant, _)| grant.from).filter(|from| *from > now);
    ahead.min().unwrap_or(Instant::NEVER)
}

/// All VCPUs that may run at `now`, in the order of the law: [`next`] is the first of them that is
/// runnable. A machine that does not see at once when a VCPU blocks or wakes readies those behind
/// the first too.
#[inline]
pub fn entitled<'a>(
    run_queue: &'a RunQueue,
    now: Instant,
    memory_meter: u64,
    readings: &'a impl Readings,
) -> impl Iterator<Item = Running> + 'a {
    let may_run = move |(grant, mode): &(&Grant, Mode)| may_run(grant, *mode, now, readings);
    entries(run_queue, memory_meter).filter(may_run).map(running)
}

/// Goes through the entries that count now, in the order of the law, as long as `goes_on` says so.
/// As a loop, which takes fewer instructions than an iterator over both lists.
#[inline]
pub fn each_entry(
    run_queue: &RunQueue,
    memory_meter: u64,
    mut goes_on: impl FnMut(&Grant, Mode) -> bool,
) {
    let is_open = |mode| !is_closed(run_queue, memory_meter, mode);
    let all = !is_open(Mode::Foreground)
        || run_queue.foreground.iter().all(|grant| goes_on(grant, Mode::Foreground));
    if all && is_open(Mode::Background) {
        _ = run_queue.background.iter().all(|grant| goes_on(grant, Mode::Background));
    }
}

/// Whether one of [`each_entry`] is [`entitled`] at `now`.
#[inline]
pub fn may_run(grant: &Grant, mode: Mode, now: Instant, readings: &impl Readings) -> bool {
    counts(grant, now, readings) && is_unspent(grant, mode, readings)
}

/// The entries that would be [`entitled`] at `now` and have something to run, were it not for
/// memory or for closed background: in the order of the law, each with its VCPU. A VCPU that
/// stands on the run queue twice may be kept out by one entry and run by the other.
pub fn kept_out<'a>(
    run_queue: &'a RunQueue,
    now: Instant,
    memory_meter: u64,
    readings: &'a impl Readings,
) -> impl Iterator<Item = VcpuId> + 'a {
    let waits = move |(grant, mode): &(&Grant, Mode)| {
        let closed = is_closed(run_queue, memory_meter, *mode);
        (closed || !has_memory(grant, readings))
            && counts(grant, now, readings)
            && readings.runnable(grant.vcpu)
            && has_service(grant, *mode, readings)
    };
    let all = by_mode(&run_queue.foreground, Some(&run_queue.background));
    all.filter(waits).map(|(grant, _)| grant.vcpu)
}

/// Whether [`kept_out`] may name a VCPU, whatever the VCPUs' meters read.
pub fn may_keep_out(run_queue: &RunQueue, memory_meter: u64) -> bool {
    is_closed(run_queue, memory_meter, Mode::Background) || run_queue.has_memory_limits()
}

/// Whether no entry of `mode` counts now.
#[inline]
const fn is_closed(run_queue: &RunQueue, memory_meter: u64, mode: Mode) -> bool {
    run_queue.allowance.is_reached(memory_meter)
        || (matches!(mode, Mode::Background) && !run_queue.background_allowed)
}

/// The entries of a run queue that count now, in the order of the law; none where the core is
/// closed.
#[inline]
fn entries(run_queue: &RunQueue, memory_meter: u64) -> impl Iterator<Item = (&Grant, Mode)> {
    let is_open = |mode| !is_closed(run_queue, memory_meter, mode);
    by_mode(
        if is_open(Mode::Foreground) { &run_queue.foreground } else { &[] },
        is_open(Mode::Background).then_some(&run_queue.background),
    )
}

/// The grants of a run queue in the order of the law.
#[inline]
fn by_mode<'a>(
    foreground: &'a [Grant],
    background: Option<&'a List<Grant>>,
) -> impl Iterator<Item = (&'a Grant, Mode)> {
    let background = background.into_iter().flatten().map(|grant| (grant, Mode::Background));
    foreground.iter().map(|grant| (grant, Mode::Foreground)).chain(background)
}

/// Whether the grant has begun and has not lapsed.
#[inline]
pub fn counts(grant: &Grant, now: Instant, readings: &impl Readings) -> bool {
    grant.from <= now && !(grant.lapses && readings.has_woken(grant.vcpu))
}

/// Whether the grant has not ended by its VCPU's meters.
#[inline]
fn is_unspent(grant: &Grant, mode: Mode, readings: &impl Readings) -> bool {
    has_service(grant, mode, readings) && has_memory(grant, readings)
}

/// Whether the grant has not ended by its VCPU's meter of `mode`.
#[inline]
fn has_service(grant: &Grant, mode: Mode, readings: &impl Readings) -> bool {
    grant.until == Limit::NEVER || readings.meter(grant.vcpu, mode) < grant.until.0
}

/// Whether the grant has not ended by its VCPU's memory meter.
#[inline]
fn has_memory(grant: &Grant, readings: &impl Readings) -> bool {
    grant.memory == MemoryLimit::NEVER || !grant.memory.is_reached(readings.memory(grant.vcpu))
}

#[inline]
const fn running((grant, mode): (&Grant, Mode)) -> Running {
    Running { vcpu: grant.vcpu, mode, until: grant.until, memory: grant.memory }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

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
            next(run_queue, Instant::ZERO, memory, &Fixed).map(|r| (r.vcpu.0, r.mode))
        };
        // vcpu0 is blocked, vcpu1 is spent (10 of 10), vcpu2 has one tick left.
        assert_eq!(run(&run_queue, 0), Some((2, Mode::Foreground)));
        // It has read memory 5 times.
        run_queue.foreground[2].memory = MemoryLimit(5);
        assert_eq!(run(&run_queue, 0), Some((1, Mode::Background)));
        run_queue.foreground[2].memory = MemoryLimit(6);
        assert_eq!(run(&run_queue, 0), Some((2, Mode::Foreground)));
        run_queue.foreground.pop();
        assert_eq!(run(&run_queue, 0), Some((1, Mode::Background)));
        run_queue.background_allowed = false;
        assert_eq!(run(&run_queue, 0), None);
        run_queue.background_allowed = true;
        run_queue.allowance = MemoryLimit(7);
        assert_eq!(run(&run_queue, 6), Some((1, Mode::Background)));
        assert_eq!(run(&run_queue, 7), None);
    }

    #[test]
    fn kept_out_is_what_memory_alone_hinders() {
        let mut run_queue = RunQueue {
            foreground: alloc::vec![grant(0, 99), grant(1, 10), grant(2, 11)],
            background: alloc::vec![grant(0, 99), grant(1, 4), grant(2, 3)].into(),
            ..RunQueue::default()
        };
        let kept = |run_queue: &RunQueue, memory| {
            let kept: alloc::vec::Vec<_> =
                kept_out(run_queue, Instant::ZERO, memory, &Fixed).map(|vcpu| vcpu.0).collect();
            assert!(kept.is_empty() || may_keep_out(run_queue, memory), "{run_queue:?}");
            kept
        };
        assert_eq!(kept(&run_queue, u64::MAX - 1), []);
        run_queue.background_allowed = false;
        assert_eq!(kept(&run_queue, 0), [1], "vcpu0 is blocked, vcpu2 is spent there");
        run_queue.background_allowed = true;
        run_queue.allowance = MemoryLimit(7);
        assert_eq!((kept(&run_queue, 6), kept(&run_queue, 7)), (alloc::vec![], alloc::vec![2, 1]));
        // It has read memory 5 times.
        run_queue.foreground[2].memory = MemoryLimit(6);
        assert_eq!(kept(&run_queue, 0), []);
        run_queue.foreground[2].memory = MemoryLimit(5);
        assert_eq!(kept(&run_queue, 0), [2]);
    }

    #[test]
    fn a_grant_ahead_is_not_there_until_its_instant() {
        let at = Instant::from_ticks;
        let mut run_queue = RunQueue {
            foreground: alloc::vec![grant(1, 10), grant(1, 14).ahead(at(9)), grant(2, 11)],
            background: alloc::vec![grant(1, 4).ahead(at(7)), grant(2, 4)].into(),
            ..RunQueue::default()
        };
        let run = |run_queue: &RunQueue, now| {
            let next = next(run_queue, at(now), 0, &Fixed);
            let first = entitled(run_queue, at(now), 0, &Fixed).next();
            assert_eq!(next, first, "nothing that may run is blocked here");
            next.map(|run| (run.vcpu.0, run.mode, run.until.0.ticks()))
        };
        assert_eq!(run(&run_queue, 8), Some((2, Mode::Foreground, 11)));
        assert_eq!(run(&run_queue, 9), Some((1, Mode::Foreground, 14)));
        let due = |now| due(&run_queue, at(now));
        assert_eq!([due(0), due(6), due(7), due(9)], [at(7), at(7), at(9), Instant::NEVER]);
        run_queue.foreground.clear();
        assert_eq!(run(&run_queue, 6), Some((2, Mode::Background, 4)));
        assert_eq!(run(&run_queue, 7), Some((1, Mode::Background, 4)));
        // Closed memory keeps nothing out that is not there yet.
        run_queue.allowance = MemoryLimit(0);
        let kept = |now| kept_out(&run_queue, at(now), 0, &Fixed).map(|vcpu| vcpu.0).collect();
        let (before, after): (Vec<_>, Vec<_>) = (kept(6), kept(7));
        assert_eq!((before, after), (alloc::vec![2], alloc::vec![1, 2]));
    }
}
