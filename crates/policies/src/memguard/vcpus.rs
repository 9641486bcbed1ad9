//! What is known of the VCPUs: whether they have something to run, their meters, and the memory
//! budgets of those that have one.
//!
//! A VCPU at its memory limit can not run, however runnable the machine finds it. A server that
//! kept its budget meanwhile would use it beside the next one and take twice what its neighbours
//! were promised that it takes. So the inner policy learns that it blocked, of no wake and no
//! release of it meanwhile, and of a wake when its limit rises.

use alloc::vec::Vec;
use maracas_core::contract::{End, MemoryLimit, Mode, Segment};
use maracas_core::dispatch::Readings;
use maracas_core::{Duration, Event, Instant, VcpuId};

/// One VCPU, as far as it was reported.
#[derive(Clone, Default, Debug)]
struct Known {
    /// When it had something to run for the last time, and when nothing.
    awake: Option<Instant>,
    asleep: Option<Instant>,
    meters: [Duration; 2],
    /// Its memory meter.
    memory: u64,
    /// Reads a period; `None` = as many as it likes.
    quota: Option<u64>,
    /// `memory` when its period began.
    base: u64,
    /// Since when the inner policy waits to learn that it may go on.
    stopped: Option<Instant>,
    /// Its wakes and releases since then.
    held: Vec<Event>,
}

impl Known {
    fn limit(&self) -> MemoryLimit {
        let at = |quota| MemoryLimit(self.base.saturating_add(quota));
        self.quota.map_or(MemoryLimit::NEVER, at)
    }
    fn at_limit(&self) -> bool {
        self.limit().is_reached(self.memory)
    }
}

/// All VCPUs, by id.
#[derive(Clone, Default, Debug)]
pub(super) struct Vcpus {
    known: Vec<Known>,
    /// Budgets that were asked for and not yet answered by the inner policy.
    asked: Vec<(VcpuId, Option<u64>)>,
}

impl Vcpus {
    fn of(&mut self, vcpu: VcpuId) -> &mut Known {
        let index = vcpu.0 as usize;
        if self.known.len() <= index {
            self.known.resize_with(index + 1, Known::default);
        }
        &mut self.known[index]
    }

    pub(super) fn woke(&mut self, vcpu: VcpuId, at: Instant) {
        let known = self.of(vcpu);
        known.awake = known.awake.max(Some(at));
    }
    /// It ran; returns how the segment ended for the inner policy.
    pub(super) fn ran(&mut self, segment: &Segment) -> End {
        let known = self.of(segment.vcpu);
        known.meters[segment.mode as usize] += segment.usage.service;
        known.memory += segment.usage.metered();
        match segment.end {
            End::Blocked | End::Exited => {
                known.asleep = known.asleep.max(Some(segment.to));
                segment.end
            }
            End::Preempted | End::LimitReached | End::MemorySpent | End::Moved | End::Metered => {
                known.awake = known.awake.max(Some(segment.to));
                if !known.at_limit() {
                    return segment.end;
                }
                known.stopped = known.stopped.max(Some(segment.to));
                End::Blocked
            }
        }
    }
    /// It woke or had a release. True if it is at its limit: then the inner policy must learn of
    /// that when it may go on.
    pub(super) fn hold(&mut self, vcpu: VcpuId, at: Instant, event: &Event) -> bool {
        let known = self.of(vcpu);
        if known.at_limit() {
            known.stopped = known.stopped.max(Some(at));
            known.held.push(event.clone());
        }
        known.at_limit()
    }
    /// What the inner policy must learn of those whose limits rose at `rise`: that they woke, and
    /// what was held.
    pub(super) fn risen(&mut self, rise: Instant) -> Vec<(Instant, Event)> {
        let mut reported = Vec::new();
        for (id, known) in (0..).map(VcpuId).zip(&mut self.known) {
            let Some(since) = known.stopped.filter(|_| !known.at_limit()) else { continue };
            let at = since.max(rise);
            known.stopped = None;
            if !known.held.iter().any(|event| matches!(event, Event::Woke { .. })) {
                reported.push((at, Event::Woke { vcpu: id, on_behalf: None, exact: true }));
            }
            reported.extend(known.held.drain(..).map(|event| (at, event)));
        }
        reported
    }
    pub(super) fn left(&mut self, vcpu: VcpuId) {
        let known = self.of(vcpu);
        (known.awake, known.quota, known.stopped) = (None, None, None);
        known.held.clear();
        self.asked.retain(|(asking, _)| *asking != vcpu);
    }

    /// It asks for so many reads a period; `None` = for no limit.
    pub(super) fn ask(&mut self, vcpu: VcpuId, quota: Option<u64>) {
        self.asked.push((vcpu, quota));
    }
    /// What it asked for first was granted or refused. True if its limit changed.
    pub(super) fn answered(&mut self, vcpu: VcpuId, granted: bool) -> bool {
        let place = self.asked.iter().position(|(asking, _)| *asking == vcpu);
        let Some((_, quota)) = place.map(|place| self.asked.remove(place)) else { return false };
        granted && self.set_quota(vcpu, quota)
    }
    /// Gives it so many reads a period; `None` = no limit. True if its limit changed.
    pub(super) fn set_quota(&mut self, vcpu: VcpuId, quota: Option<u64>) -> bool {
        let known = self.of(vcpu);
        let before = known.limit();
        if known.quota.is_none() {
            known.base = known.memory;
        }
        // What it read while that was allowed is not owed.
        known.base = known.base.max(known.memory.saturating_sub(quota.unwrap_or(0)));
        known.quota = quota;
        known.limit() != before
    }
    /// Whether any VCPU has a budget.
    pub(super) fn any_limited(&self) -> bool {
        self.known.iter().any(|known| known.quota.is_some())
    }
    /// Every VCPU's budget anew. Reads beyond a limit are owed to the new period. True if a limit
    /// changed.
    pub(super) fn replenish(&mut self) -> bool {
        let mut changed = false;
        for known in self.known.iter_mut().filter(|known| known.quota.is_some()) {
            let base = known.limit().0.min(known.memory);
            changed |= base != known.base;
            known.base = base;
        }
        changed
    }
    /// Reading of its memory meter up to which it may run.
    pub(super) fn limit(&self, vcpu: VcpuId) -> MemoryLimit {
        self.known.get(vcpu.0 as usize).map_or(MemoryLimit::NEVER, Known::limit)
    }
}

impl Readings for Vcpus {
    /// Reported late, an event may be overtaken by later ones: the latest one counts, and of two of
    /// one instant the wake. No VCPU runs at its memory limit.
    fn runnable(&self, vcpu: VcpuId) -> bool {
        let known = self.known.get(vcpu.0 as usize);
        known.is_some_and(|known| {
            known.awake.is_some() && known.awake >= known.asleep && !known.at_limit()
        })
    }
    fn meter(&self, vcpu: VcpuId, mode: Mode) -> Duration {
        self.known.get(vcpu.0 as usize).map_or(Duration::ZERO, |known| known.meters[mode as usize])
    }
    fn memory(&self, vcpu: VcpuId) -> u64 {
        self.known.get(vcpu.0 as usize).map_or(0, |known| known.memory)
    }
}
