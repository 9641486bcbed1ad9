//! Where the time of a core went.

use super::place;
use super::task::Task;
use maracas_core::contract::{Grant, Line, Mode, Stint};
use maracas_core::{Instant, VcpuId};
use std::collections::VecDeque;

/// The time of one core, in ticks.
#[derive(Clone, Default, Debug)]
pub(super) struct CoreTime {
    /// Foreground and background.
    pub(super) busy: [u64; 2],
    /// Background time as the VCPUs' meters charged it.
    pub(super) background_service: u64,
    throttled: u64,
    /// Requests to memory by whoever ran here.
    pub(super) requests: u64,
    busy_until: Instant,
    /// Calls of `plan` that changed the core's line.
    pub(super) decisions: u64,
    pub(super) door: Door,
    /// Since when somebody waits at the closed door, and past such waits that may yet overlap a
    /// gap between stints.
    waiting_since: Option<Instant>,
    waits: VecDeque<(Instant, Instant)>,
}

/// What keeps VCPUs of a line from running, besides the VCPUs before them.
#[derive(Clone, Default, Debug)]
pub(super) struct Door {
    background_closed: bool,
    allowance: u64,
    /// The allowance was spent.
    pub(super) spent: bool,
    foreground: Vec<VcpuId>,
    background: Vec<VcpuId>,
}

impl Door {
    pub(super) const fn is_closed(&self) -> bool {
        self.background_closed || self.spent
    }
    pub(super) fn line_changed(&mut self, line: &Line) {
        self.background_closed = !line.background_allowed;
        self.spent &= line.allowance <= self.allowance;
        self.allowance = line.allowance;
        let copy = |to: &mut Vec<VcpuId>, from: &[Grant]| {
            to.clear();
            to.extend(from.iter().map(|grant| grant.vcpu));
        };
        copy(&mut self.foreground, &line.foreground);
        copy(&mut self.background, &line.background);
    }
    fn keeps_out(&self, tasks: &[Task]) -> bool {
        let waits = |ids: &[VcpuId]| {
            ids.iter().any(|id| tasks.get(id.0 as usize).is_some_and(Task::is_runnable))
        };
        (self.is_closed() && waits(&self.background)) || (self.spent && waits(&self.foreground))
    }
}

impl CoreTime {
    #[inline]
    pub(super) fn ran(&mut self, stint: &Stint) {
        if stint.from > self.busy_until {
            self.throttled += self.waited(self.busy_until, stint.from);
        }
        self.busy[place(stint.mode)] += stint.to.saturating_since(stint.from).ticks();
        self.requests += stint.usage.reads + stint.usage.writes;
        if stint.mode == Mode::Background {
            self.background_service += stint.usage.service.ticks();
        }
        self.busy_until = self.busy_until.max(stint.to);
        while self.waits.front().is_some_and(|(_, to)| *to <= self.busy_until) {
            self.waits.pop_front();
        }
    }

    /// Looks again whether the closed door keeps somebody out.
    pub(super) fn review(&mut self, now: Instant, tasks: &[Task]) {
        let waiting = self.door.keeps_out(tasks);
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

    /// How long within the gap `[from, to)` somebody was kept out.
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
