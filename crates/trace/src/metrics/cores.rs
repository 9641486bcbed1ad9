//! Where the time of a core went.

use super::place;
use super::task::Task;
use maracas_core::contract::{Grant, Mode, RunQueue, Segment};
use maracas_core::{Instant, List};
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
    busy_until: Instant,
    /// Calls of `plan` that changed the core's run queue.
    pub(super) decisions: u64,
    pub(super) memory_gate: MemoryGate,
    /// Since when a VCPU is kept out, and past such waits that may yet overlap a
    /// gap between segments.
    waiting_since: Option<Instant>,
    waits: VecDeque<(Instant, Instant)>,
}

/// What keeps VCPUs of a run queue from running, besides the VCPUs before them.
#[derive(Clone, Default, Debug)]
pub(super) struct MemoryGate {
    background_closed: bool,
    allowance: u64,
    /// The allowance was spent.
    pub(super) spent: bool,
    /// Some grant ends at a reading of its VCPU's memory meter.
    has_memory_limits: bool,
    foreground: Vec<Grant>,
    background: List<Grant>,
}

impl MemoryGate {
    /// Whether it keeps any VCPU out, or may do so without a further word.
    pub(super) const fn may_keep_out(&self) -> bool {
        self.background_closed || self.spent || self.has_memory_limits
    }
    /// Whether surplus time may not be used.
    pub(super) const fn is_background_closed(&self) -> bool {
        self.background_closed
    }
    /// The foreground grants of a core whose allowance of memory is spent: its VCPUs are kept from
    /// their budgets.
    pub(super) fn kept_from_budgets(&self) -> &[Grant] {
        if self.spent { &self.foreground } else { &[] }
    }
    pub(super) fn run_queue_changed(&mut self, run_queue: &RunQueue) {
        self.background_closed = !run_queue.background_allowed;
        self.spent &= run_queue.allowance <= self.allowance;
        self.allowance = run_queue.allowance;
        self.has_memory_limits = has_memory_limits(run_queue);
        self.foreground.clone_from(&run_queue.foreground);
        self.background.clone_from(&run_queue.background);
    }
    /// Whether a VCPU would run by the machine law, were it not for memory or the closed memory
    /// gate.
    fn keeps_out(&self, tasks: &[Task]) -> bool {
        let waits = |grant: &Grant, mode: Mode, closed: bool| {
            tasks.get(grant.vcpu.0 as usize).is_some_and(|task| {
                task.is_runnable()
                    && task.used[place(mode)].service < grant.until.0
                    && (closed || task.has_spent(grant))
            })
        };
        let closed = self.spent || self.background_closed;
        self.foreground.iter().any(|grant| waits(grant, Mode::Foreground, self.spent))
            || self.background.iter().any(|grant| waits(grant, Mode::Background, closed))
    }
}

/// Whether some grant ends at a reading of its VCPU's memory meter.
pub(crate) fn has_memory_limits(run_queue: &RunQueue) -> bool {
    let mut grants = run_queue.foreground.iter().chain(&run_queue.background);
    grants.any(|grant| grant.memory != u64::MAX)
}

impl CoreTime {
    #[inline]
    pub(super) fn ran(&mut self, segment: &Segment) {
        if segment.from > self.busy_until {
            self.throttled += self.waited(self.busy_until, segment.from);
        }
        self.busy[place(segment.mode)] += segment.to.saturating_since(segment.from).ticks();
        self.requests += segment.usage.reads + segment.usage.writes;
        if segment.mode == Mode::Background {
            self.background_service += segment.usage.service.ticks();
        }
        self.busy_until = self.busy_until.max(segment.to);
        while self.waits.front().is_some_and(|(_, to)| *to <= self.busy_until) {
            self.waits.pop_front();
        }
    }

    /// Looks again whether a VCPU is kept out.
    pub(super) fn review(&mut self, now: Instant, tasks: &[Task]) {
        let waiting = self.memory_gate.keeps_out(tasks);
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
