//! Who watches a machine.

use super::{DecisionCounts, End, Event, Mode, Plan, Segment, Usage};
use crate::{CoreId, Instant, Job, VcpuId};

/// Watches a machine: every event as it is given to the policy, every plan as it comes back.
/// Journals, metrics and traces are observers; so are the auditors of the tests.
pub trait Observer {
    /// An event was given to the policy; or happened, under one that need not be told of it
    /// ([`JobPriorities`](super::JobPriorities)).
    fn event(&mut self, at: Instant, event: &Event);
    /// The policy was asked and answered with `plan`.
    fn planned(&mut self, now: Instant, plan: &Plan);
    /// Whether it looks at plans. Where none does, a machine may make none, and says at the end by
    /// [`Observer::decided`] what decisions came to.
    fn reads_plans(&self) -> bool {
        true
    }
    /// What decisions came to, in place of each [`Observer::planned`].
    fn decided(&mut self, _: &DecisionCounts) {}
    /// Whether it may be told of jobs as wholes ([`Observer::job`]), in place of their events.
    /// Asked once, before the first event.
    fn takes_jobs(&self) -> bool {
        false
    }
    /// Called when a job is complete, in place of all its events. What is told of one VCPU comes in
    /// order; of different ones it need not.
    fn job(&mut self, run: &JobRun<'_>) {
        run.each_event(|at, event| self.event(at, event));
    }
}

/// A job that was complete by its deadline and was the only one of its VCPU while it was pending,
/// as nearly all are: told at once, in place of an event for each thing that happened.
#[derive(Clone, Copy, Debug)]
pub struct JobRun<'a> {
    /// The job.
    pub job: Job,
    /// When it was complete.
    pub completed: Instant,
    /// What ran of it, in order; the last one ends with it.
    pub pieces: &'a [Piece],
}

/// A [`Segment`] of a job that ran in the foreground and consumed nothing but time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// When it began.
    pub from: Instant,
    /// When it ended.
    pub to: Instant,
    /// Where.
    pub core: CoreId,
    /// Why it ended.
    pub end: End,
}

impl JobRun<'_> {
    /// Calls `tell` with the events that it stands for.
    pub fn each_event(&self, mut tell: impl FnMut(Instant, &Event)) {
        let ran = |piece: &Piece| Event::Ran(piece.segment(self.job.id.vcpu));
        tell(self.job.release, &Event::Released(self.job));
        let others = self.pieces.len().saturating_sub(1);
        self.pieces[..others].iter().for_each(|piece| tell(piece.to, &ran(piece)));
        tell(self.completed, &Event::Completed(self.job.id));
        self.pieces[others..].iter().for_each(|piece| tell(piece.to, &ran(piece)));
    }
}

impl Piece {
    /// It, as a segment of `vcpu`.
    pub fn segment(&self, vcpu: VcpuId) -> Segment {
        let Self { from, to, core, end } = *self;
        let usage = Usage { service: to - from, ..Usage::default() };
        Segment { vcpu, core, mode: Mode::Foreground, from, to, usage, end }
    }
}

/// Watches nothing.
impl Observer for () {
    fn event(&mut self, _: Instant, _: &Event) {}
    fn planned(&mut self, _: Instant, _: &Plan) {}
    fn reads_plans(&self) -> bool {
        false
    }
    fn takes_jobs(&self) -> bool {
        true
    }
    fn job(&mut self, _: &JobRun<'_>) {}
}

/// Two observers side by side.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn event(&mut self, at: Instant, event: &Event) {
        self.0.event(at, event);
        self.1.event(at, event);
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        self.0.planned(now, plan);
        self.1.planned(now, plan);
    }
    fn reads_plans(&self) -> bool {
        self.0.reads_plans() || self.1.reads_plans()
    }
    fn decided(&mut self, counts: &DecisionCounts) {
        self.0.decided(counts);
        self.1.decided(counts);
    }
    fn takes_jobs(&self) -> bool {
        self.0.takes_jobs() && self.1.takes_jobs()
    }
    fn job(&mut self, run: &JobRun<'_>) {
        self.0.job(run);
        self.1.job(run);
    }
}

impl<O: Observer + ?Sized> Observer for &mut O {
    fn event(&mut self, at: Instant, event: &Event) {
        (**self).event(at, event);
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        (**self).planned(now, plan);
    }
    fn reads_plans(&self) -> bool {
        (**self).reads_plans()
    }
    fn decided(&mut self, counts: &DecisionCounts) {
        (**self).decided(counts);
    }
    fn takes_jobs(&self) -> bool {
        (**self).takes_jobs()
    }
    fn job(&mut self, run: &JobRun<'_>) {
        (**self).job(run);
    }
}

impl<O: Observer> Observer for Option<O> {
    fn event(&mut self, at: Instant, event: &Event) {
        if let Some(observer) = self {
            observer.event(at, event);
        }
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        if let Some(observer) = self {
            observer.planned(now, plan);
        }
    }
    fn reads_plans(&self) -> bool {
        self.as_ref().is_some_and(O::reads_plans)
    }
    fn decided(&mut self, counts: &DecisionCounts) {
        if let Some(observer) = self {
            observer.decided(counts);
        }
    }
    fn takes_jobs(&self) -> bool {
        self.as_ref().is_none_or(O::takes_jobs)
    }
    fn job(&mut self, run: &JobRun<'_>) {
        if let Some(observer) = self {
            observer.job(run);
        }
    }
}
