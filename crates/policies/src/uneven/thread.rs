//! What is known of one VCPU: what fairness calls a thread.

use super::estimate::{Class, Estimator};
use super::rounds::Account;
use crate::parts::activity::Activity;
use crate::parts::priority;
use crate::parts::sporadic::Sporadic;
use core::num::NonZeroU32;
use maracas_core::contract::{End, Grant, Limit, Mode, Segment};
use maracas_core::{CoreId, Duration, Instant, Job, Vcpu, VcpuId};

/// A reservation: a sporadic server at home on one core.
#[derive(Clone, Debug)]
pub(super) struct Guarantee {
    pub(super) home: CoreId,
    pub(super) server: Sporadic,
    /// Shorter pieces of the budget come back together.
    chunk_min: Duration,
    /// Smaller goes first among those at home there: rate-monotonic order.
    pub(super) urgency: (Duration, VcpuId),
    /// A reservation that has not set in.
    pub(super) becomes: Option<Vcpu>,
}

impl Guarantee {
    /// Of `vcpu` with what it is owed at `home`, all of which may be used from `at` on.
    pub(super) fn new(vcpu: &Vcpu, home: CoreId, at: Instant, chunk_min: Duration) -> Self {
        let r = &vcpu.reservation;
        let server = Sporadic::new(r.budget, r.period, at);
        Self { home, server, chunk_min, urgency: priority::of(vcpu), becomes: None }
    }
    /// It has another reservation from `at` on, if one waits for that.
    pub(super) fn settle(&mut self, at: Instant) {
        if let Some(vcpu) = self.becomes.take() {
            let r = &vcpu.reservation;
            self.server.change(r.budget, r.period, at);
            self.urgency = priority::of(&vcpu);
        }
    }
}

/// What is known of one VCPU.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) id: VcpuId,
    pub(super) pinned: Option<CoreId>,
    pub(super) weight: u32,
    /// The core on whose run queue it stands.
    pub(super) place: CoreId,
    pub(super) guarantee: Option<Guarantee>,
    /// Whether some of its budget may be used, as of the last decision.
    pub(super) in_budget: bool,
    activity: Activity,
    /// Its meters, as far as they were reported.
    meters: [Duration; 2],
    pub(super) account: Account,
    pub(super) estimator: Estimator,
    speedup_milli: Option<NonZeroU32>,
    /// How many classes of cores there are.
    classes: usize,
}

impl Thread {
    pub(super) fn new(vcpu: &Vcpu, place: CoreId, at: Instant, classes: usize) -> Self {
        Self {
            id: vcpu.id,
            pinned: vcpu.pinned,
            weight: vcpu.weight,
            place,
            guarantee: None,
            in_budget: false,
            activity: Activity::default(),
            meters: [Duration::ZERO; 2],
            account: Account::new(at),
            estimator: estimator(vcpu.speedup_milli, classes),
            classes,
            speedup_milli: vcpu.speedup_milli,
        }
    }
    /// Takes over what a request to change says besides the reservation.
    pub(super) fn describe(&mut self, vcpu: &Vcpu) {
        (self.pinned, self.weight) = (vcpu.pinned, vcpu.weight);
        if self.speedup_milli != vcpu.speedup_milli {
            self.speedup_milli = vcpu.speedup_milli;
            self.estimator = estimator(vcpu.speedup_milli, self.classes);
        }
    }
    pub(super) const fn runnable(&self) -> bool {
        self.activity.runnable()
    }
    /// Whether it has something to run and no budget for it.
    pub(super) const fn wants_surplus(&self) -> bool {
        self.runnable() && !self.in_budget
    }
    /// Whether it may have a slot on `core`.
    pub(super) fn may_sit(&self, core: CoreId) -> bool {
        self.pinned.is_none_or(|pin| pin == core)
    }
    /// Where its budget is spent, and until when, as of `now`.
    pub(super) fn budget_grant(&self, now: Instant) -> Option<Grant> {
        let usable = self.guarantee.as_ref()?.server.usable(now);
        let until = self.meters[Mode::Foreground as usize] + usable;
        Some(Grant::new(self.id, Limit(until)))
    }
    /// Looks at its budget; when to look again.
    pub(super) fn refresh(&mut self, now: Instant) -> Instant {
        let runnable = self.runnable();
        let Some(Guarantee { server, .. }) = &self.guarantee else {
            self.in_budget = false;
            return Instant::NEVER;
        };
        self.in_budget = !server.usable(now).is_zero();
        // A sleeper with budget left needs no look at its next chunk before it wakes.
        let matters = runnable || !self.in_budget;
        server.next(now).filter(|_| matters).unwrap_or(Instant::NEVER)
    }
    /// Until when its use counts if it leaves at `at`: what it ran last may not be reported yet.
    pub(super) fn counts_until(&self, at: Instant) -> Instant {
        let Some(Guarantee { server, .. }) = &self.guarantee else { return at };
        let untold = if self.runnable() { at + server.period() } else { at };
        untold.max(server.last().unwrap_or(at))
    }

    /// It woke at `at`.
    pub(super) fn wake(&mut self, at: Instant) {
        // If it is runnable as far as is known, either nothing changed or its block is not reported
        // yet: what it used before must be charged before the server learns of the wake.
        if !self.runnable() {
            self.account.woke(at);
            if let Some(guarantee) = &mut self.guarantee {
                guarantee.server.unblock(at);
            }
        }
        self.activity.wake(at);
    }
    pub(super) fn release(&mut self, job: &Job) {
        if self.activity.release(job) && !self.runnable() {
            self.wake(job.release);
        }
    }
    pub(super) fn complete(&mut self, id: maracas_core::JobId) {
        self.activity.complete(id);
    }
    /// It ran, on a core of class `side`.
    pub(super) fn ran(&mut self, segment: &Segment, side: Class) {
        let service = segment.usage.service;
        if !self.runnable() {
            // Its wake was not reported: it came when the segment began, at the latest.
            self.wake(segment.from);
        }
        self.meters[segment.mode as usize] += service;
        self.account.gained(side, service);
        self.estimator.ran(side, service, segment.usage.instructions);
        if let (Mode::Foreground, Some(guarantee)) = (segment.mode, &mut self.guarantee) {
            guarantee.server.charge(service, guarantee.chunk_min);
        }
        if matches!(segment.end, End::Blocked | End::Exited) {
            self.block(segment.to);
        }
    }
    fn block(&mut self, at: Instant) {
        let woken = self.activity.block(at);
        if self.runnable() {
            // The block of a wake before: the server learns of what came after it.
            if let (Some(at), Some(guarantee)) = (woken, &mut self.guarantee) {
                guarantee.server.unblock(at);
            }
            return;
        }
        self.account.slept(at);
        if let Some(at) = woken {
            self.wake(at);
        }
    }
}

fn estimator(speedup_milli: Option<NonZeroU32>, classes: usize) -> Estimator {
    match speedup_milli {
        None => Estimator::sampled(classes),
        Some(known) => Estimator::known(known.get()),
    }
}
