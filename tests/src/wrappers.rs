//! Policies around policies, that change nothing which may be seen.

use crate::follow::Followed;
use maracas_core::contract::{Event, Grant, Meters, Mode, Policy, RunQueue, Statistic};
use maracas_core::dispatch::{Readings, due};
use maracas_core::{CoreId, Duration, Instant, List, Plan};

/// Asks the policy again and again, at once and at instants when nothing happened, and holds it to
/// giving the same plan.
pub struct Nagging {
    inner: Box<dyn Policy>,
    every: Option<Duration>,
    inner_wake: Instant,
    metered: bool,
}

impl Nagging {
    /// Nags `inner` at each decision, and also every so often in between.
    #[must_use]
    pub const fn new(inner: Box<dyn Policy>, every: Option<Duration>) -> Self {
        Self { inner, every, inner_wake: Instant::NEVER, metered: false }
    }
}

impl Policy for Nagging {
    fn on_event(&mut self, at: Instant, event: &Event) {
        self.inner.on_event(at, event);
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        (plan.wake, plan.wake_metered) = (self.inner_wake, self.metered);
        self.inner.plan(now, plan);
        let once = plan.clone();
        for _ in 0..2 {
            self.inner.plan(now, plan);
            for core in (0..plan.cores() as u16).map(CoreId) {
                assert_eq!(
                    plan.run_queue(core),
                    once.run_queue(core),
                    "asked again at {now}, {core}"
                );
            }
            assert_eq!(plan.rehomed(), once.rehomed(), "asked again at {now}");
            assert_eq!(plan.verdicts(), once.verdicts(), "asked again at {now}");
            assert_eq!(
                (plan.service_request, plan.wake, plan.wake_metered),
                (once.service_request, once.wake, once.wake_metered),
                "asked again at {now}"
            );
        }
        (self.inner_wake, self.metered) = (plan.wake, plan.wake_metered);
        let extra = self.every.map_or(Instant::NEVER, |every| now.saturating_add(every));
        if extra < plan.wake {
            (plan.wake, plan.wake_metered) = (extra, false);
        }
    }
    fn meters(&self) -> Meters {
        self.inner.meters()
    }
    fn statistics(&self) -> Vec<Statistic> {
        self.inner.statistics()
    }
}

/// Cuts every run queue to what it would run now: its first runnable, unspent entry, as far as the
/// events say. With visible wakes and no lateness a slot is as good as a run queue, because every
/// event leads to a decision at its own instant.
pub struct DepthOne {
    inner: Box<dyn Policy>,
    plan: Plan,
    followed: Followed,
}

impl DepthOne {
    /// Cuts the run queues of `inner`, for a system with `cores` cores.
    #[must_use]
    pub fn new(inner: Box<dyn Policy>, cores: usize) -> Self {
        Self { inner, plan: Plan::new(cores), followed: Followed::default() }
    }

    fn first<'a, L: FromIterator<Grant>>(
        &self,
        mut grants: impl Iterator<Item = &'a Grant>,
        now: Instant,
        mode: Mode,
    ) -> L {
        let unspent = |grant: &&Grant| {
            grant.from <= now
                && self.followed.runnable(grant.vcpu)
                && self.followed.meter(grant.vcpu, mode) < grant.until.0
                && !grant.memory.is_reached(self.followed.memory(grant.vcpu))
        };
        grants.find(unspent).copied().into_iter().collect()
    }
    fn cut(&self, now: Instant, run_queue: &RunQueue) -> RunQueue {
        let foreground: Vec<_> = self.first(run_queue.foreground.iter(), now, Mode::Foreground);
        let background = if foreground.is_empty() && run_queue.background_allowed {
            self.first(run_queue.background.iter(), now, Mode::Background)
        } else {
            List::new()
        };
        RunQueue { foreground, background, ..*run_queue }
    }
}

impl Policy for DepthOne {
    fn on_event(&mut self, at: Instant, event: &Event) {
        self.followed.event(event);
        self.inner.on_event(at, event);
    }

    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        maracas_core::contract::decide(&mut *self.inner, now, &mut self.plan);
        for core in (0..plan.cores() as u16).map(CoreId) {
            let run_queue = self.cut(now, self.plan.run_queue(core));
            if *plan.run_queue(core) != run_queue {
                *plan.run_queue_mut(core) = run_queue;
            }
        }
        for (vcpu, verdict) in self.plan.verdicts() {
            plan.answer(*vcpu, verdict.clone());
        }
        for &vcpu in self.plan.rehomed() {
            plan.set_home(vcpu, self.plan.home(vcpu));
        }
        plan.service_request = self.plan.service_request;
        (plan.wake, plan.wake_metered) = (self.plan.wake, self.plan.wake_metered);
        // What is ahead is cut off until its instant.
        let due = self.plan.core_ids().map(|core| due(self.plan.run_queue(core), now)).min();
        if let Some(due) = due.filter(|due| *due < plan.wake) {
            (plan.wake, plan.wake_metered) = (due, false);
        }
    }

    fn meters(&self) -> Meters {
        self.inner.meters()
    }
}
