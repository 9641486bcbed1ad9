//! How long a dispatch takes, measured.
//!
//! A *dispatch* is a decision that puts another VCPU first on a core. It begins at the instant of
//! its cause (a nominal release, the policy's own nominal wake, the end that a program reported, a
//! reached limit) and ends when a thread of that VCPU is switched in there, by the kernel's own
//! record. In between lie the timer, the agent's wake, the decision, the move, the raise and, where
//! the VCPU waited frozen, its thaw. One that is overtaken by a later decision before it was
//! switched in is none; what follows on a run queue by the machine law alone is none either. A
//! grant that was sent ahead (`Grant::from`) is a dispatch whose cause is its instant, where the
//! VCPU had something to run by then and waited for no other on its budget.

use super::Core;
use crate::{Executor, Level};
use maracas_core::contract::{End, Mode, RunQueue, Segment};
use maracas_core::journal::{Note, Record};
use maracas_core::{CoreId, Instant, VcpuId};

/// The VCPU that was put first on a core and has not been seen there yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    vcpu: VcpuId,
    cause: Instant,
    /// When the decision was enacted: a switch-in before is no answer to it.
    enacted: Instant,
}

/// The dispatches of one core.
#[derive(Debug, Default)]
pub(crate) struct Dispatches {
    /// The VCPU that is to run here by the last decision.
    first: Option<VcpuId>,
    /// The one that the law had first before it.
    had: Option<VcpuId>,
    pending: Option<Pending>,
    /// What was sent ahead and has not run since its instant.
    ahead: Vec<(VcpuId, Instant)>,
    /// The end of the last segment on a budget, and whether another took the core from it.
    last: Option<(Instant, End)>,
    /// Measured and not yet in the journal: when it ended, the VCPU, since when.
    done: Vec<(Instant, VcpuId, Instant)>,
}

impl Dispatches {
    /// Another VCPU is first by a decision that was enacted at `enacted`.
    #[inline]
    fn begin(&mut self, vcpu: VcpuId, cause: Instant, enacted: Instant) {
        self.pending = Some(Pending { vcpu, cause, enacted });
    }
    /// Before a decision is carried out the law has this VCPU first.
    pub(crate) const fn had(&mut self, first: Option<VcpuId>) {
        self.had = first;
    }
    /// This VCPU is first by a decision that was made at `decided`, where none was seen before
    /// that had it there, nor the law by itself.
    pub(crate) fn put_first(
        &mut self,
        first: Option<VcpuId>,
        cause: Option<Instant>,
        decided: Instant,
    ) {
        if first == self.first {
            return;
        }
        self.first = first;
        self.pending = None;
        let cause = cause.filter(|_| self.had != first);
        if let (Some(vcpu), Some(cause)) = (first, cause) {
            self.begin(vcpu, cause, decided);
        }
    }
    /// A segment of this VCPU, which is reported when it has ended: one that was under way when it
    /// was put first is no answer to that, and leaves nothing to wait for.
    pub(crate) fn ran(&mut self, vcpu: VcpuId, from: Instant, to: Instant) {
        self.switched_in(vcpu, from);
        self.pending.take_if(|pending| pending.vcpu == vcpu && to >= pending.enacted);
    }
    /// This VCPU may not run in the foreground any more.
    #[inline]
    pub(crate) fn stopped(&mut self, vcpu: VcpuId) {
        self.first.take_if(|first| *first == vcpu);
        self.pending.take_if(|pending| pending.vcpu == vcpu);
    }
    /// A thread of this VCPU was switched in.
    #[inline]
    pub(crate) fn switched_in(&mut self, vcpu: VcpuId, at: Instant) {
        let waited = |pending: &mut Pending| pending.vcpu == vcpu && at >= pending.enacted;
        if let Some(pending) = self.pending.take_if(waited) {
            self.done.push((at, vcpu, pending.cause));
        }
    }
    /// This run queue was sent at `now`. What an earlier one had ahead, and has not begun, counts
    /// no more.
    pub(crate) fn sent(&mut self, run_queue: &RunQueue, now: Instant) {
        self.ahead.retain(|(_, at)| *at <= now);
        let to_come = run_queue.foreground.iter().filter(|grant| grant.from > now);
        self.ahead.extend(to_come.map(|grant| (grant.vcpu, grant.from)));
    }
    /// This VCPU has something to run from `at` on: what began before waits for that no more.
    pub(crate) fn woke(&mut self, vcpu: VcpuId, at: Instant) {
        self.ahead.retain(|(of, from)| *of != vcpu || *from > at);
    }
    /// The answer to a grant that was sent ahead is the first segment on a budget that ends after
    /// its instant, where none before it on this core did, but by giving way to it.
    pub(crate) fn ran_ahead(&mut self, segment: &Segment) {
        let Segment { vcpu, from, to, end, .. } = *segment;
        let begun = |(of, at): &mut (VcpuId, Instant)| *of == vcpu && *at < to;
        let cause = self.ahead.extract_if(.., begun).map(|(_, at)| at).max();
        if let Some(cause) = cause
            && self.last.is_none_or(|(last, end)| last <= cause || end == End::Preempted)
        {
            self.done.push((from, vcpu, cause));
        }
        if end != End::Metered {
            self.last = Some((to, end));
        }
    }
    /// Whether anything was measured that [`Dispatches::notes`] has not taken.
    pub(crate) const fn has_notes(&self) -> bool {
        !self.done.is_empty()
    }
    /// Takes what was measured, as notes for the journal.
    pub(crate) fn notes(&mut self, core: CoreId, seen: bool) -> impl Iterator<Item = Record> {
        self.done.drain(..).map(move |(at, vcpu, cause)| {
            let (vcpu, latency_ns) = (Some(vcpu), at.saturating_since(cause).ticks());
            Record::Note { at, note: Note::Dispatch { core, vcpu, latency_ns, seen } }
        })
    }
}

impl<E: Executor> Core<E> {
    /// After a decision was enacted here: is it a dispatch? `cause` is when what it answers
    /// happened, where that is known, and `decided` when it was decided.
    pub fn note_first(&mut self, cause: Option<Instant>, decided: Instant) {
        let first = self.run_queue.foreground.iter().find(|grant| {
            let vcpu_handle =
                self.vcpu_handles.iter().find(|vcpu_handle| vcpu_handle.id == grant.vcpu);
            // A VCPU with jobs that stands on a run queue has one, even if it was not yet notified
            // of it.
            vcpu_handle.is_some_and(|vcpu_handle| {
                matches!(vcpu_handle.level, Level::Foreground(_))
                    && (vcpu_handle.has_jobs || vcpu_handle.is_runnable())
            })
        });
        let first = first.map(|grant| grant.vcpu);
        if first == self.dispatches.first {
            return;
        }
        self.dispatches.first = first;
        self.dispatches.pending = None;
        let (Some(vcpu), Some(cause)) = (first, cause) else { return };
        let running = self.tracker.running();
        // The law had put it there before.
        if running.is_some_and(|(on, mode, _)| on == vcpu && mode == Mode::Foreground) {
            return;
        }
        self.dispatches.begin(vcpu, cause, decided);
        // It is on the core already, on surplus time; or no record would show it.
        let stays = running.is_some_and(|(on, _, now)| on == vcpu && now);
        if stays || !self.means.events {
            self.dispatches.switched_in(vcpu, self.exec.now());
        }
    }

    /// Whether anything was measured since [`Core::take_notes`] was asked last.
    pub(crate) const fn has_notes(&self) -> bool {
        !self.notes.is_empty() || self.dispatches.has_notes()
    }

    /// What was measured since this was asked last.
    pub fn take_notes(&mut self) -> impl Iterator<Item = Record> {
        self.notes.drain(..).chain(self.dispatches.notes(self.id, self.means.events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::contract::{Grant, Limit, Usage};

    fn at(us: u64) -> Instant {
        Instant::from_ticks(us * 1000)
    }

    #[test]
    fn a_dispatch_lasts_from_its_cause_to_the_first_switch_in_after_it_was_enacted() {
        let mut dispatches = Dispatches::default();
        dispatches.begin(VcpuId(3), at(100), at(120));
        for (vcpu, when) in [(3, 110), (4, 130), (3, 140), (3, 150)] {
            dispatches.switched_in(VcpuId(vcpu), at(when));
        }
        let notes: Vec<_> = dispatches.notes(CoreId(1), true).collect();
        let (core, vcpu) = (CoreId(1), Some(VcpuId(3)));
        let note = Note::Dispatch { core, vcpu, latency_ns: 40_000, seen: true };
        assert_eq!(notes, [Record::Note { at: at(140), note }]);
        assert_eq!(dispatches.notes(CoreId(1), true).count(), 0, "told once");
    }

    #[test]
    fn a_grant_ahead_is_answered_by_what_waited_for_nothing_else() {
        let mut dispatches = Dispatches::default();
        let grant = |vcpu, from| Grant::new(VcpuId(vcpu), Limit::NEVER).ahead(at(from));
        let foreground = vec![grant(3, 100), grant(4, 100), grant(5, 400)];
        dispatches.sent(&RunQueue { foreground, ..RunQueue::default() }, at(50));
        let mut ran = |vcpu, from, to, end| {
            let (mode, usage) = (Mode::Foreground, Usage::default());
            let (vcpu, core, [from, to]) = (VcpuId(vcpu), CoreId(0), [from, to].map(at));
            dispatches.ran_ahead(&Segment { vcpu, core, mode, from, to, usage, end });
            let notes = dispatches.notes(CoreId(0), true);
            let latency = |note| {
                let Record::Note { note: Note::Dispatch { latency_ns, .. }, .. } = note else {
                    panic!("{note:?}")
                };
                latency_ns
            };
            notes.map(latency).collect::<Vec<_>>()
        };
        assert_eq!(ran(6, 10, 103, End::Preempted), []);
        // It took the core from what was less urgent; the next one waited for it.
        assert_eq!(ran(3, 103, 200, End::LimitReached), [3_000]);
        assert_eq!(ran(4, 200, 300, End::LimitReached), []);
        // A timer that comes a little early is not late; what runs again has begun before.
        assert_eq!(ran(5, 399, 450, End::Metered), [0]);
        assert_eq!(ran(5, 399, 500, End::LimitReached), []);
        // What another plan takes back, or wakes after its instant, is none.
        let foreground = vec![grant(3, 600), grant(4, 700)];
        dispatches.sent(&RunQueue { foreground, ..RunQueue::default() }, at(500));
        dispatches.woke(VcpuId(3), at(610));
        dispatches.sent(&RunQueue::default(), at(650));
        assert!(dispatches.ahead.is_empty(), "{:?}", dispatches.ahead);
    }

    #[test]
    fn one_that_is_overtaken_is_none() {
        let mut dispatches = Dispatches::default();
        dispatches.begin(VcpuId(3), at(100), at(120));
        dispatches.begin(VcpuId(4), at(125), at(130));
        dispatches.switched_in(VcpuId(3), at(140));
        dispatches.switched_in(VcpuId(4), at(145));
        let notes: Vec<_> = dispatches.notes(CoreId(0), false).collect();
        let (core, vcpu) = (CoreId(0), Some(VcpuId(4)));
        let note = Note::Dispatch { core, vcpu, latency_ns: 20_000, seen: false };
        assert_eq!(notes, [Record::Note { at: at(145), note }]);
    }
}
