//! The memory meter of a core, the allowance that it is held against, and the closed core.
//!
//! # What the meter reads
//! Reads of memory by the VCPUs that ran here, all of which are reported in segments: a policy that
//! sums up its segments knows what the meter reads.
//! * Where VCPUs are counted, the sum of their counters on this core. The core's own monitor counts
//!   the host's other programs and the agents too: it serves as the alarm alone, and each time it
//!   fires the count is compared.
//! * Where only the core is counted, what its monitor counts while a VCPU of ours has something to
//!   run here; it is taken for reads of the VCPU that the law lets run.
//!
//! # How soon a core closes
//! Its monitor fires where it can (overflow), or a recording says when the allowance is reached;
//! else the counts are read every [`LOOK`] while an allowance is finite and any VCPU may run. So
//! are those of VCPUs with memory limits of their own. Looks are never so close that wakes alone
//! take more than a twentieth of the core, and neither are alarms that come too early in a row,
//! since the monitor counts others too ([`Rings`]).
//!
//! Each time that a core closes is noted in the journal ([`Note::Closed`]): by how much its meter
//! was beyond the limit when all was stopped, and the time from the limit to the last instruction.
//! When the limit was reached is taken from the mean rate since the last count, so it is rather too
//! early.

use super::Core;
use crate::{Executor, FASTEST_PER_US, Level, VcpuHandle};
use maracas_core::contract::{End, MemoryLimit, Refused, Segment, Usage};
use maracas_core::journal::{Note, Record};
use maracas_core::{Duration, Event, Instant, VcpuId};

/// How often counts are read where there is no alarm: a quarter of the millisecond within which a
/// core must close; 15 us a look are 6 % of a core while it is needed.
const LOOK: Duration = Duration::from_micros(250);
/// As many alarms may ring early one soon after the other: each comes closer to the limit, since
/// less is left for others to be counted in between.
const EARLY: u32 = 4;

/// Alarms of the monitor, of which not too many may come one soon after the other.
#[derive(Clone, Copy, Default, Debug)]
struct Rings {
    last: Instant,
    in_a_row: u32,
}

impl Rings {
    /// It rang.
    fn rang(&mut self, now: Instant, floor: Duration) {
        let soon = now.saturating_since(self.last) < floor;
        self.in_a_row = if soon { self.in_a_row.saturating_add(1) } else { 1 };
        self.last = now;
    }
    /// How many events the next one is away at least: as many as can be counted in `floor` once
    /// too many came in a row.
    const fn shortest(&self, floor: Duration) -> u64 {
        if self.in_a_row <= EARLY { 0 } else { floor.ticks() / 1000 * FASTEST_PER_US }
    }
}

/// A limit so far away that no run reaches it.
const UNBOUNDED: u64 = u64::MAX / 2;

/// What is counted of each VCPU's memory traffic.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Reads of memory.
    pub reads: bool,
    /// References to the last-level cache.
    pub references: bool,
}

/// The state of a core's meter.
#[derive(Default)]
pub(crate) struct Memory {
    counts: Counts,
    is_monitored: bool,
    /// What the monitor read last.
    seen: u64,
    /// The meter, and when it was read.
    reads: u64,
    counted_at: Instant,
    /// When the monitor is to fire, if it is.
    armed: Option<Armed>,
    rings: Rings,
    closed: bool,
    /// The allowance that was last reported as spent, if the meter is there still.
    spent: Option<MemoryLimit>,
    /// When it was spent, until that is reported.
    untold: Option<Instant>,
    closing: Option<Closing>,
    /// The VCPU that ran here last.
    last: Option<VcpuId>,
}

/// When a monitor is to fire.
#[derive(Clone, Copy, Debug)]
struct Armed {
    /// The core's meter then, if nothing else is counted meanwhile.
    goal: u64,
    /// Its own reading.
    limit: u64,
    /// It could not be set: the meter is looked at in its place.
    is_refused: bool,
}

/// A core that closes, until that is measured and noted.
#[derive(Clone, Copy, Debug)]
struct Closing {
    limit: MemoryLimit,
    /// The last count before the limit.
    before: (Instant, u64),
    /// When the limit was reached, where a recording says so.
    due: Option<Instant>,
    beyond: u64,
    /// The last instruction of the VCPU that ran.
    stopped: Option<Instant>,
}

impl Memory {
    /// The core's meter, as it was read last.
    pub(crate) const fn reads(&self) -> u64 {
        self.reads
    }
}

impl<E: Executor> Core<E> {
    /// What is counted of each VCPU's memory traffic.
    pub const fn counts(&self) -> Counts {
        self.memory.counts
    }
    /// Meters memory by the executor's monitor, if it has one, and by what is counted of the VCPUs
    /// that sit here.
    pub fn sense(&mut self, counts: Counts) {
        let now = self.exec.now();
        let is_monitored = self.exec.has_monitor();
        let mut memory = Memory { is_monitored, counts, counted_at: now, ..Memory::default() };
        if is_monitored {
            // What it counted before the run belongs to no VCPU.
            let read = self.exec.monitor_read(now).map(|count| memory.seen = count);
            self.trouble = self.trouble.take().or(read.err());
        }
        self.memory = memory;
    }

    /// Whether no VCPU may run here, since the allowance is spent.
    pub const fn is_closed(&self) -> bool {
        self.memory.closed
    }

    /// Whether the policy is to learn that the allowance is spent.
    pub const fn is_spent(&self) -> bool {
        self.memory.untold.is_some()
    }

    /// The monitor rang.
    pub fn meter_reported(&mut self) {
        // It fires once: where the limit is not reached, it must be set again. So it must where it
        // rang since it is in error, as others hold all counters: then that is refused.
        self.exec.monitor_rang();
        self.memory.armed = Some(Armed { goal: 0, limit: 0, is_refused: false });
        self.memory.rings.rang(self.exec.now(), self.waking.grain());
    }

    /// The VCPU that runs by the law as it was carried out last, as far as is known.
    fn head(&self) -> Option<usize> {
        let rank = |index: &usize| {
            let vcpu_handle = &self.vcpu_handles[*index];
            match vcpu_handle.level {
                Level::Foreground(priority) if vcpu_handle.is_runnable() => {
                    Some(usize::from(priority) + 1)
                }
                Level::Background if vcpu_handle.is_runnable() => Some(0),
                Level::Foreground(_) | Level::Background | Level::Watched | Level::Frozen => None,
            }
        };
        (0..self.vcpu_handles.len()).filter(|index| rank(index).is_some()).max_by_key(rank)
    }

    /// Brings the meters up to date: this core's and those of the VCPUs here.
    pub(crate) fn count_memory(&mut self) {
        let now = self.exec.now();
        if self.memory.counts.reads || self.memory.counts.references {
            for vcpu_handle in &mut self.vcpu_handles {
                // What is trapped was counted when that was reported.
                if vcpu_handle.level != Level::Frozen || !vcpu_handle.trapped {
                    self.memory.reads += vcpu_handle.count_memory();
                }
            }
        } else if self.memory.is_monitored {
            let count = match self.exec.monitor_read(now) {
                Ok(count) => count,
                Err(error) => return self.report(Err(error), Refused::Sample),
            };
            let gain = count.saturating_sub(self.memory.seen);
            self.memory.seen = count;
            if let Some(head) = self.head() {
                self.vcpu_handles[head].charge_reads(gain);
                self.memory.reads += gain;
            }
        }
        self.memory.counted_at = now;
    }

    /// Whether the core's counts are the core's alone, so that they must be read whenever another
    /// VCPU runs.
    const fn counts_by_core(&self) -> bool {
        self.memory.is_monitored && !self.memory.counts.reads
    }

    /// Closes the core where its allowance is spent, and opens it where it is not. To be called
    /// before it is judged which VCPUs may run.
    pub(crate) fn judge_allowance(&mut self) {
        let before = (self.memory.counted_at, self.memory.reads);
        if self.is_bounded || self.counts_by_core() {
            self.count_memory();
        }
        let (limit, reads) = (self.run_queue.allowance, self.memory.reads);
        if !limit.is_reached(reads) {
            self.memory.closed = false;
            self.memory.spent = None;
            return;
        }
        if self.memory.spent != Some(limit) {
            self.memory.spent = Some(limit);
            self.memory.untold = Some(self.exec.now());
        }
        if !std::mem::replace(&mut self.memory.closed, true) && !limit.is_reached(before.1) {
            let due = || self.exec.monitor_due(self.memory.armed?.limit);
            let (due, beyond) = (due(), reads - limit.0);
            self.memory.closing = Some(Closing { limit, before, due, beyond, stopped: None });
        }
    }

    /// Everything was stopped: how far beyond its limit is the meter of a core that closes?
    pub(crate) fn measure_closing(&mut self) {
        if self.memory.closing.is_some_and(|closing| closing.stopped.is_none()) {
            self.count_memory();
            let (now, reads) = (self.exec.now(), self.memory.reads);
            if let Some(closing) = &mut self.memory.closing {
                closing.beyond = reads - closing.limit.0;
                closing.stopped = Some(now);
            }
        }
    }

    /// A record says when a VCPU handle was last on the core before it was stopped at `at`.
    pub(crate) fn last_ran(&mut self, at: Instant, last_out: Instant) {
        let stopped = self.memory.closing.as_mut().and_then(|closing| closing.stopped.as_mut());
        if let Some(stopped) = stopped.filter(|stopped| at <= **stopped) {
            *stopped = last_out.min(*stopped);
        }
    }

    /// Lets the monitor ring, or this core's agent look, when a meter may reach its limit.
    pub(crate) fn watch_memory(&mut self, now: Instant) {
        if !self.is_bounded && !self.memory.is_monitored {
            return;
        }
        let rest = self.rest_of_memory();
        let by_core = self.counts_by_core();
        let floor = self.waking.grain();
        let next = now.saturating_add(self.waking.polling(LOOK));
        if !self.memory.is_monitored {
            self.look_at = self.look_at.min(rest.map_or(Instant::NEVER, |_| next));
            return;
        }
        let Memory { seen, reads, armed, rings, .. } = &mut self.memory;
        let shortest = rings.shortest(floor);
        let goal = rest.map(|rest| reads.saturating_add(rest));
        if goal != armed.map(|armed| armed.goal) {
            // Where the core is not what is counted, the monitor stands where it did at the last
            // look.
            let read = if by_core { Ok(*seen) } else { self.exec.monitor_read(now) };
            let reported = read.and_then(|count| {
                *seen = count;
                let limit = rest.map(|rest| count.saturating_add(rest.max(shortest)));
                let set = self.exec.monitor_arm(limit);
                let is_refused = set.is_err();
                let both = goal.zip(limit);
                *armed = both.map(|(goal, limit)| Armed { goal, limit, is_refused });
                set
            });
            self.report(reported, Refused::Sample);
        }
        let armed = self.memory.armed;
        let looks = |armed: &Armed| armed.is_refused || !self.exec.monitor_rings();
        if let Some(Armed { limit, .. }) = armed.filter(looks) {
            self.look_at = self.look_at.min(self.exec.monitor_due(limit).unwrap_or(next));
        }
    }

    /// How many reads are left until a VCPU must be stopped that may run now, whether it is known
    /// to sleep or not: nothing reports when it wakes. `None` = no limit.
    fn rest_of_memory(&self) -> Option<u64> {
        if !self.is_bounded {
            return None;
        }
        let runs = |vcpu_handle: &&VcpuHandle<E::Handle>| {
            matches!(vcpu_handle.level, Level::Foreground(_) | Level::Background)
        };
        let mut running = self.vcpu_handles.iter().filter(runs).peekable();
        running.peek()?;
        let allowance = self.run_queue.allowance;
        let whole = allowance.left(self.memory.reads).filter(|_| !self.memory.closed);
        let grants = || self.run_queue.foreground.iter().chain(&self.run_queue.background);
        let own = running.filter_map(|vcpu_handle| {
            let limit = grants().find(|it| it.vcpu == vcpu_handle.id)?.memory;
            limit.left(vcpu_handle.reads()).filter(|_| limit.0 >= vcpu_handle.reads())
        });
        own.chain(whole).filter(|rest| *rest < UNBOUNDED).min()
    }
}

// Telling.
impl<E: Executor> Core<E> {
    /// Reports what was counted of the VCPU handles whose segments were reported, as a part of the
    /// last of each.
    pub(crate) fn report_memory(&mut self) {
        let by_core = self.counts_by_core();
        if by_core
            && self.vcpu_handles.iter().any(|vcpu_handle| vcpu_handle.last_reported.is_some())
        {
            self.count_memory();
        }
        for vcpu_handle in &mut self.vcpu_handles {
            let Some(last) = vcpu_handle.last_reported else { continue };
            self.memory.reads += if by_core { 0 } else { vcpu_handle.count_memory() };
            if let Some((_, Event::Ran(segment))) = self.outbox.get_mut(last) {
                vcpu_handle.report_memory(&mut segment.usage);
                self.memory.last = Some(vcpu_handle.id);
            }
        }
    }

    /// Reports reads of a VCPU handle without a segment as one that took no time.
    pub(crate) fn report_reads(&mut self, index: usize, end: End) {
        if self.vcpu_handles[index].unreported_reads() == 0 {
            return;
        }
        let (at, core) = (self.exec.now(), self.id);
        let vcpu_handle = &mut self.vcpu_handles[index];
        let mut usage = Usage::default();
        vcpu_handle.report_memory(&mut usage);
        let (vcpu, mode) = (vcpu_handle.id, vcpu_handle.mode());
        let segment = Segment { vcpu, core, mode, from: at, to: at, usage, end };
        self.outbox.push((at, Event::Ran(segment)));
    }

    /// Reports that the allowance is spent, after all that was read has been reported.
    pub(crate) fn report_spent(&mut self) {
        // The segments that ended so are not reported yet.
        if !self.tracker.changes.is_empty() {
            return;
        }
        if let Some(at) = self.memory.untold.take() {
            (0..self.vcpu_handles.len()).for_each(|index| self.report_reads(index, End::Preempted));
            let last = self.outbox.last().map_or(at, |(last, _)| at.max(*last));
            self.outbox.push((last, Event::AllowanceSpent { core: self.id }));
        }
        let closed = self.memory.closing.take_if(|closing| closing.stopped.is_some());
        if let Some(Closing { limit, before, due, beyond, stopped: Some(at) }) = closed {
            // Up to the last instruction: what the agent took to count is no VCPU's time to read.
            let to = (at, limit.0.saturating_add(beyond));
            let reached = due.unwrap_or_else(|| interpolated(before, to, limit.0));
            let (core, vcpu) = (self.id, self.memory.last);
            let took_ns = at.saturating_since(reached).ticks();
            let note = Note::Closed { core, vcpu, beyond, took_ns };
            self.notes.push(Record::Note { at, note });
        }
    }
}

/// When a count reached `limit` that was `from` and is `to`, if it moved evenly.
pub(crate) fn interpolated(from: (Instant, u64), to: (Instant, u64), limit: u64) -> Instant {
    let span = u128::from(to.0.saturating_since(from.0).ticks());
    let gained = u128::from(to.1.saturating_sub(from.1)).max(1);
    let back = u128::from(to.1.saturating_sub(limit)) * span / gained;
    Instant::from_ticks(to.0.ticks().saturating_sub(back as u64))
}

#[cfg(test)]
mod tests;
