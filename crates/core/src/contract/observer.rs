//! Who watches a machine.

use super::{DecisionCounts, Event, Plan, Segment};
use crate::{Instant, Job, JobId};

/// Watches a machine: every event as it is given to the policy, every plan as it comes back.
/// Journals, metrics and traces are observers; so are the auditors of the tests.
///
/// Most machines call [`Observer::event`] alone. One that defines [`Observer::released`],
/// [`Observer::completed`] or [`Observer::ran`] does the same there as in `event`.
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
    /// [`Event::Released`], as a machine may report it that knows nothing but jobs: an observer of
    /// many jobs need not tell events apart then.
    fn released(&mut self, at: Instant, job: &Job) {
        self.event(at, &Event::Released(*job));
    }
    /// [`Event::Completed`], likewise.
    fn completed(&mut self, at: Instant, job: JobId) {
        self.event(at, &Event::Completed(job));
    }
    /// [`Event::Ran`], likewise.
    fn ran(&mut self, at: Instant, segment: &Segment) {
        self.event(at, &Event::Ran(*segment));
    }
}

/// Watches nothing.
impl Observer for () {
    fn event(&mut self, _: Instant, _: &Event) {}
    fn planned(&mut self, _: Instant, _: &Plan) {}
    fn reads_plans(&self) -> bool {
        false
    }
    fn released(&mut self, _: Instant, _: &Job) {}
    fn completed(&mut self, _: Instant, _: JobId) {}
    fn ran(&mut self, _: Instant, _: &Segment) {}
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
    fn released(&mut self, at: Instant, job: &Job) {
        self.0.released(at, job);
        self.1.released(at, job);
    }
    fn completed(&mut self, at: Instant, job: JobId) {
        self.0.completed(at, job);
        self.1.completed(at, job);
    }
    fn ran(&mut self, at: Instant, segment: &Segment) {
        self.0.ran(at, segment);
        self.1.ran(at, segment);
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
    fn released(&mut self, at: Instant, job: &Job) {
        (**self).released(at, job);
    }
    fn completed(&mut self, at: Instant, job: JobId) {
        (**self).completed(at, job);
    }
    fn ran(&mut self, at: Instant, segment: &Segment) {
        (**self).ran(at, segment);
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
    fn released(&mut self, at: Instant, job: &Job) {
        if let Some(observer) = self {
            observer.released(at, job);
        }
    }
    fn completed(&mut self, at: Instant, job: JobId) {
        if let Some(observer) = self {
            observer.completed(at, job);
        }
    }
    fn ran(&mut self, at: Instant, segment: &Segment) {
        if let Some(observer) = self {
            observer.ran(at, segment);
        }
    }
}
