//! Where the time of a core went.

use super::place;
use super::task::Task;
use maracas_core::Instant;
use maracas_core::contract::{Grant, Line, Mode, Stint};
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
    /// Calls of `plan` that changed the core's line.
    pub(super) decisions: u64,
    pub(super) door: Door,
    /// Since when a VCPU is kept out, and past such waits that may yet overlap a
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
    /// Some grant ends at a reading of its VCPU's memory meter.
    has_memory_marks: bool,
    foreground: Vec<Grant>,
    background: Vec<Grant>,
}

impl Door {
    /// Whether it keeps any VCPU out, or may do so without a further word.
    pub(super) const fn may_keep_out(&self) -> bool {
        self.background_closed || self.spent || self.has_memory_marks
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
    pub(super) fn line_changed(&mut self, line: &Line) {
        self.background_closed = !line.background_allowed;
        self.spent &= line.allowance <= self.allowance;
        self.allowance = line.allowance;
        self.has_memory_marks = has_memory_marks(line);
        self.foreground.clone_from(&line.foreground);
        self.background.clone_from(&line.background);
    }
    /// Whether a VCPU would run by the machine law, were it not for memory or the closed door.
    fn keeps_out(&self, tasks: &[Task]) -> bool {
        let waits = |grants: &[Grant], mode: Mode, closed: bool| {
            grants.iter().any(|grant| {
                tasks.get(grant.vcpu.0 as usize).is_some_and(|task| {
                    task.is_runnable()
                        && task.used[place(mode)].service < grant.until.0
                        && (closed || task.has_spent(grant))
                })
            })
        };
        waits(&self.foreground, Mode::Foreground, self.spent)
            || waits(&self.background, Mode::Background, self.spent || self.background_closed)
    }
}

/// Whether some grant ends at a reading of its VCPU's memory meter.
pub(crate) fn has_memory_marks(line: &Line) -> bool {
    let mut grants = line.foreground.iter().chain(&line.background);
    grants.any(|grant| grant.memory != u64::MAX)
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

    /// Looks again whether a VCPU is kept out.
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
