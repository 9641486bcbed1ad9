//! What a core in the kernel read of memory, and what the journal says of it: each time that it
//! closed ([`Note::Closed`]), and each time that it lost its surplus time ([`Note::Throttled`]).
//!
//! The kernel says which segment spent an allowance, and not when in it. So the limit was reached
//! when a segment that reads evenly would have reached it, as on a core with an agent. What the
//! core went beyond by is counted.

use crate::enact::memory::interpolated;
use maracas_core::contract::{End, MemoryLimit, Mode, RunQueue, Segment};
use maracas_core::journal::{Note, Record};
use maracas_core::{CoreId, Instant, VcpuId};

/// The memory meter of a core, and what is being measured of it.
#[derive(Debug)]
pub(super) struct Memory {
    /// What the segments read that were reported.
    reads: u64,
    /// What it may read by the run queue that was sent last, and by the one before: the core may
    /// have spent that one when this one was on its way.
    allowances: [MemoryLimit; 2],
    last: Option<Last>,
    /// When it was decided that surplus time ends, until that is noted or known to be needless.
    decided: Option<Instant>,
}

/// The last segment that read.
#[derive(Clone, Copy, Debug)]
struct Last {
    vcpu: VcpuId,
    from: (Instant, u64),
    to: (Instant, u64),
}

impl Default for Memory {
    fn default() -> Self {
        let allowances = [MemoryLimit::NEVER; 2];
        Self { reads: 0, allowances, last: None, decided: None }
    }
}

impl Memory {
    /// What the segments read that were reported.
    pub(super) const fn reads(&self) -> u64 {
        self.reads
    }

    /// The core is to follow `run_queue` in place of `before`, as was decided at `decided`.
    pub(super) fn follow(&mut self, before: &RunQueue, run_queue: &RunQueue, decided: Instant) {
        let allowance = run_queue.allowance;
        if allowance.is_reached(self.reads) {
            // It is closed before anything is read, which is no closing to be measured.
            self.allowances = [MemoryLimit::NEVER; 2];
        } else if allowance != self.allowances[0] {
            self.allowances = [allowance, self.allowances[0]];
        }
        if run_queue.background_allowed {
            self.decided = None;
        } else if before.background_allowed {
            self.decided = Some(decided);
        }
    }

    /// A segment was reported. What is to be noted of it.
    pub(super) fn ran(&mut self, segment: &Segment) -> Option<Record> {
        let &Segment { vcpu, core, mode, from, to, usage, end } = segment;
        let before = self.reads;
        self.reads += usage.reads;
        if usage.reads > 0 {
            self.last = Some(Last { vcpu, from: (from, before), to: (to, self.reads) });
        }
        let decided = self.decided.filter(|decided| *decided <= to && end != End::Metered)?;
        // Whatever ran first after it says whether surplus time was used then.
        self.decided = None;
        let took_ns = to.saturating_since(decided).ticks();
        let last_out_ns = Some(took_ns);
        let note = Note::Throttled { core, vcpu: Some(vcpu), took_ns, last_out_ns };
        (mode == Mode::Background).then_some(Record::Note { at: to, note })
    }

    /// The core closed, and what spent its allowance was reported. What is to be noted of it.
    pub(super) fn closed(&self, core: CoreId) -> Option<Record> {
        let limit = self.allowances.into_iter().find(|limit| limit.is_reached(self.reads))?;
        let Last { vcpu, from, to } = self.last?;
        let reached = interpolated(from, to, limit.0).max(from.0);
        let took_ns = to.0.saturating_since(reached).ticks();
        let beyond = self.reads - limit.0;
        let note = Note::Closed { core, vcpu: Some(vcpu), beyond, took_ns };
        Some(Record::Note { at: to.0, note })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::contract::Usage;

    const CORE: CoreId = CoreId(1);
    const VCPU: VcpuId = VcpuId(4);

    fn at(us: u64) -> Instant {
        Instant::from_ticks(us * 1000)
    }

    fn segment(mode: Mode, from: u64, to: u64, reads: u64, end: End) -> Segment {
        let usage = Usage { reads, ..Usage::default() };
        Segment { vcpu: VCPU, core: CORE, mode, from: at(from), to: at(to), usage, end }
    }

    fn allowing(reads: u64, background_allowed: bool) -> RunQueue {
        let allowance = MemoryLimit(reads);
        RunQueue { allowance, background_allowed, ..RunQueue::default() }
    }

    fn note(record: Option<Record>) -> Option<(Instant, Note)> {
        record.and_then(|record| match record {
            Record::Note { at, note } => Some((at, note)),
            Record::Event { .. } | Record::Planned(_) | Record::Gap(_) | Record::End(_) => None,
        })
    }

    #[test]
    fn a_core_that_closes_says_by_how_much_it_was_beyond_and_since_when() {
        let mut memory = Memory::default();
        assert_eq!(memory.closed(CORE), None, "nothing was allowed");
        memory.follow(&RunQueue::default(), &allowing(100, true), at(0));
        assert_eq!(memory.ran(&segment(Mode::Foreground, 0, 50, 60, End::Preempted)), None);
        assert_eq!(memory.closed(CORE), None, "it is not spent");
        assert_eq!(memory.ran(&segment(Mode::Foreground, 60, 110, 50, End::MemorySpent)), None);
        // 10 of 50 beyond: the last fifth of 50 us.
        let beyond = Note::Closed { core: CORE, vcpu: Some(VCPU), beyond: 10, took_ns: 10_000 };
        assert_eq!(note(memory.closed(CORE)), Some((at(110), beyond.clone())));
        // The same where the next period's allowance was on its way.
        memory.follow(&allowing(100, true), &allowing(210, true), at(111));
        memory.follow(&allowing(210, true), &allowing(210, true), at(112));
        assert_eq!(note(memory.closed(CORE)), Some((at(110), beyond)));
        assert_eq!(memory.reads(), 110);
        // One that is spent when it is sent closes nothing that ran.
        memory.follow(&allowing(210, true), &allowing(105, true), at(113));
        assert_eq!(memory.closed(CORE), None);
    }

    #[test]
    fn surplus_time_that_ends_by_a_decision_says_how_soon() {
        let mut memory = Memory::default();
        let [before, after] = [true, false].map(|allowed| allowing(u64::MAX, allowed));
        let mut throttled = |ran: &[Segment]| {
            memory.follow(&after, &before, at(0));
            memory.follow(&before, &after, at(100));
            let mut notes: Vec<_> = ran.iter().filter_map(|it| memory.ran(it)).collect();
            note(notes.pop().filter(|_| notes.is_empty()))
        };
        let took_ns = 7_000;
        let (vcpu, last_out_ns) = (Some(VCPU), Some(took_ns));
        let soon = Note::Throttled { core: CORE, vcpu, took_ns, last_out_ns };
        let ends = segment(Mode::Background, 50, 107, 0, End::Preempted);
        let later = segment(Mode::Background, 300, 310, 0, End::Blocked);
        let metered = segment(Mode::Background, 50, 101, 0, End::Metered);
        let expected = Some((at(107), soon));
        assert_eq!(throttled(&[metered, ends, later]), expected);
        // What ended before is none of it, and neither is anything after time in budget.
        let early = segment(Mode::Background, 50, 99, 0, End::Blocked);
        let budget = segment(Mode::Foreground, 99, 140, 0, End::Blocked);
        assert_eq!(throttled(&[early, budget, later]), None);
    }
}
