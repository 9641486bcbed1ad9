//! Where the time of a core went.

use super::place;
use super::task::Task;
use crate::memory_gate::MemoryGate;
use maracas_core::contract::{Mode, Segment};
use maracas_core::dispatch::Readings;
use maracas_core::{Duration, Instant, VcpuId};
use std::collections::VecDeque;

/// The time of one core, in ticks.
#[derive(Clone, Default, Debug)]
pub(super) struct CoreTime {
    /// Foreground and background.
    pub(super) busy: [u64; 2],
    /// Background time as the VCPUs' meters charged it.
    pub(super) background_service: u64,
    throttled: u64,
    /// Requests to memory by whatever ran here.
    pub(super) requests: u64,
    /// Up to where what ran is reported.
    pub(super) busy_until: Instant,
    /// Calls of `plan` that changed the core's run queue.
    pub(super) decisions: u64,
    pub(super) memory_gate: MemoryGate,
    /// Since when a VCPU is kept out, and past such waits that may yet overlap a
    /// gap between segments.
    waiting_since: Option<Instant>,
    waits: VecDeque<(Instant, Instant)>,
}

/// The VCPUs' meters, as far as they were reported.
struct Meters<'a>(&'a [Task]);

impl Readings for Meters<'_> {
    fn runnable(&self, vcpu: VcpuId) -> bool {
        self.0.get(vcpu.0 as usize).is_some_and(Task::is_runnable)
    }
    fn meter(&self, vcpu: VcpuId, mode: Mode) -> Duration {
        self.0.get(vcpu.0 as usize).map_or(Duration::ZERO, |task| task.used[place(mode)].service)
    }
    fn memory(&self, vcpu: VcpuId) -> u64 {
        self.0.get(vcpu.0 as usize).map_or(0, Task::metered)
    }
}

impl CoreTime {
    #[inline]
    pub(super) fn ran(&mut self, segment: &Segment) {
        if self.waiting_since.is_some() || !self.waits.is_empty() {
            self.ran_after_waits(segment);
        }
        self.busy[place(segment.mode)] += segment.to.saturating_since(segment.from).ticks();
        if segment.usage.reads | segment.usage.writes != 0 {
            self.requests += segment.usage.reads + segment.usage.writes;
        }
        if segment.mode == Mode::Background {
            self.background_service += segment.usage.service.ticks();
        }
        self.busy_until = self.busy_until.max(segment.to);
    }

    /// It ran a job for so long, where no VCPU is ever kept out.
    #[inline]
    pub(super) fn ran_for(&mut self, length: Duration) {
        self.busy[place(Mode::Foreground)] += length.ticks();
    }

    /// A VCPU was kept out before `segment`, or is now.
    fn ran_after_waits(&mut self, segment: &Segment) {
        if segment.from > self.busy_until {
            self.throttled += self.waited(self.busy_until, segment.from);
        }
        let busy_until = self.busy_until.max(segment.to);
        while self.waits.front().is_some_and(|(_, to)| *to <= busy_until) {
            self.waits.pop_front();
        }
    }

    /// Looks again whether a VCPU is kept out.
    pub(super) fn review(&mut self, now: Instant, tasks: &[Task]) {
        let waiting = self.memory_gate.kept_out(now, &Meters(tasks)).next().is_some();
        if waiting {
            self.waiting_since.get_or_insert(now);
        } else if let Some(since) = self.waiting_since.take() {
            self.waits.push_back((since, now));
        }
    }

    /// Time throttled up to `end`.
    pub(super) fn throttled_until(&self, end: Instant) -> u64 {
        self.throttled + self.waited(self.busy_until, end)
    }

    /// How long within the gap `[from, to)` a VCPU was kept out.
    fn waited(&self, from: Instant, to: Instant) -> u64 {
        let open = self.waiting_since.map(|since| (since, to));
        self.waits
            .iter()
            .copied()
            .chain(open)
            .map(|(a, b)| b.min(to).saturating_since(a.max(from)).ticks())
            .sum()
    }
}
