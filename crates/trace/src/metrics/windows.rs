//! What a VCPU was delivered in each of its own periods.

use super::judge::{Finding, Found, Judge, Period, is_taken_from_others};
use crate::pieces::consumed_by;
use crate::samples::Differences;
use maracas_core::{Duration, Instant, Reservation};
use std::collections::VecDeque;

/// Foreground service by period; one period is open at a time.
#[derive(Clone, Default, Debug)]
pub(super) struct Windows {
    budget: u64,
    period: Duration,
    /// The speed of the class on which C is meant, in thousandths; `None` = whichever core.
    meant_milli: Option<u32>,
    /// What is left of service on slower classes, in parts of 1 / `meant_milli` of a tick.
    rest: u64,
    /// The VCPU had something to run, or its first job.
    started: bool,
    /// The first instant of the open period; `None` until it starts, and while it has no
    /// reservation.
    open: Option<Instant>,
    /// Where the first period began; service before it is in none.
    begun: Instant,
    delivered: u64,
    lacking: Lacking,
    sums: Sums,
    /// The last time in which a limit of memory kept it from running, which may go on for ever.
    held: Option<(Instant, Instant)>,
    /// How long a period that has ended may still turn out to be none of those that count.
    grace: Duration,
    /// Such periods, the oldest first.
    recent: VecDeque<Closed>,
    /// delivered - C of the periods with full demand.
    pub(super) errors: Differences,
    /// Whole periods in which the VCPU was blocked or its jobs were done at any instant.
    pub(super) without_demand: u64,
    /// Whether the promise was kept in the periods with full demand.
    pub(super) judge: Judge,
}

/// Over all whole periods.
#[derive(Clone, Copy, Default, Debug)]
struct Sums {
    /// Delivered in those with full demand.
    full: u128,
    /// Delivered in the others.
    lacking: u128,
    /// C of all.
    promised: u128,
}

impl Sums {
    const fn delivered(self) -> u128 {
        self.full + self.lacking
    }
}

/// Demand that was not there.
#[derive(Clone, Copy, Default, Debug)]
struct Lacking {
    /// In the open period.
    open: bool,
    /// At this instant, of a period that is not open yet.
    later: Option<Instant>,
}

/// A period that has ended.
#[derive(Clone, Copy, Debug)]
struct Closed {
    start: Instant,
    period: Duration,
    budget: u64,
    delivered: u64,
    /// It was blocked, or its jobs were done, at some instant.
    lacking: bool,
    /// A limit of memory held it at some instant.
    held: bool,
}

impl Closed {
    fn end(&self) -> Instant {
        self.start + self.period
    }
}

impl Windows {
    /// Periods count so long after they have ended; see [`Windows::finish`].
    pub(super) const fn count_after(&mut self, grace: Duration) {
        self.grace = grace;
    }
    /// Whether C is time on cores of one class.
    #[inline]
    pub(super) const fn is_meant_on_a_class(&self) -> bool {
        self.meant_milli.is_some()
    }
    /// Sets (C, T), where C is time on a class of speed `meant_milli`; periods begin anew at `from`
    /// if the VCPU has started. Without a reservation there are none.
    pub(super) fn reserve(
        &mut self,
        reservation: &Reservation,
        meant_milli: Option<u32>,
        from: Instant,
    ) {
        self.budget = reservation.budget.ticks();
        (self.meant_milli, self.rest) = (meant_milli, 0);
        let none = reservation.is_none();
        self.period = if none { Duration::ZERO } else { reservation.period };
        (self.delivered, self.lacking) = (0, Lacking::default());
        let had_periods = self.open.take().is_some();
        if self.started && !self.period.is_zero() {
            self.open = Some(from);
            self.begun = if had_periods { self.begun } else { from };
        }
    }
    /// The VCPU has something to run for the first time.
    pub(super) fn begin(&mut self, at: Instant) {
        if !self.started && !self.period.is_zero() {
            (self.open, self.begun) = (Some(at), at);
        }
        self.started = true;
    }
    /// It was blocked until now and is no longer.
    pub(super) fn woke(&mut self, blocked: Instant, now: Instant) {
        self.close_until(now, Some(blocked));
        // A block that began in a period which is closed by now was counted there.
        self.lacking.open |= self.open.is_some_and(|start| now > start.max(blocked));
    }
    /// All its jobs were done at this instant: it asked for nothing more then. No period is closed
    /// by it, since what the VCPU ran until then may be reported later.
    pub(super) fn rested(&mut self, at: Instant) {
        let Some(start) = self.open else { return };
        if at >= start.saturating_add(self.period) {
            self.lacking.later = Some(at);
        } else {
            self.lacking.open |= at > start;
        }
    }
    /// Closes the periods that end at or before `now`. `blocked` says since when the VCPU has
    /// nothing to run.
    #[inline]
    pub(super) fn close_until(&mut self, now: Instant, blocked: Option<Instant>) {
        let Some(start) = self.open else { return };
        if start.saturating_add(self.period) <= now {
            self.close_from(start, now, blocked);
        }
    }

    fn close_from(&mut self, mut start: Instant, now: Instant, blocked: Option<Instant>) {
        while start.saturating_add(self.period) <= now {
            let end = start + self.period;
            let lacking = self.lacking.open || blocked.is_some_and(|since| since < end);
            self.close(start, lacking);
            start = end;
            let rested = self.lacking.later.take_if(|at| *at < start + self.period);
            self.lacking.open = rested.is_some_and(|at| at > start);
            let several = start.saturating_add(self.period) <= now;
            if several && blocked.is_some_and(|since| since <= start) {
                // Blocked throughout: all further whole periods at once.
                let more = (now - start).ticks() / self.period.ticks();
                self.without_demand += more;
                self.sums.promised += u128::from(self.budget) * u128::from(more);
                start += self.period * more;
            }
        }
        self.open = Some(start);
    }
    /// Foreground service on a core of speed `milli`, spread evenly over `[from, to)`; periods that
    /// ended before are closed.
    #[inline]
    pub(super) fn serve(&mut self, from: Instant, to: Instant, service: u64, milli: u32) {
        let service = self.as_meant(service, milli);
        let Some(start) = self.open else { return };
        let mut end = start.saturating_add(self.period);
        if end <= from {
            self.close_from(start, from, None);
            end = self.now().saturating_add(self.period);
        }
        if to <= self.begun {
            return;
        }
        let early = from < self.begun;
        let mut given = if early { consumed_by(service, from, to, self.begun) } else { 0 };
        while end < to {
            let by_end = consumed_by(service, from, to, end);
            self.delivered += by_end - given;
            given = by_end;
            self.close_until(end, None);
            end = end.saturating_add(self.period);
        }
        self.delivered += service - given;
    }

    /// Foreground service of a job between its release, up to which periods are closed, and its
    /// completion, where both are in the open period; false, with nothing done, where not.
    #[inline]
    pub(super) fn serve_job(&mut self, release: Instant, completed: Instant, service: u64) -> bool {
        let Some(start) = self.open else { return false };
        let is_within = self.begun <= release && completed <= start.saturating_add(self.period);
        if is_within {
            self.delivered += service;
        }
        is_within
    }

    /// `service` on a core of speed `milli` as time on the class on which C is meant. On a faster
    /// one it is worth no more: nothing is sure but that the program is not slower there.
    fn as_meant(&mut self, service: u64, milli: u32) -> u64 {
        let Some(meant) = self.meant_milli.filter(|meant| *meant > milli) else { return service };
        let (done, meant) = (u128::from(service) * u128::from(milli), u128::from(meant));
        let done = done + u128::from(self.rest);
        self.rest = (done % meant) as u64;
        (done / meant) as u64
    }

    #[inline(always)] // The end of nearly each job is in it.
    fn close(&mut self, start: Instant, lacking: bool) {
        let (period, budget, delivered) = (self.period, self.budget, self.delivered);
        let held = self.held.is_some_and(|(from, to)| from < start + period && start < to);
        let closed = Closed { start, period, budget, delivered, lacking, held };
        (self.delivered, self.lacking.open) = (0, false);
        if self.grace.is_zero() {
            return self.count(&closed);
        }
        self.defer(closed);
    }

    #[inline(never)]
    fn defer(&mut self, closed: Closed) {
        let end = closed.end();
        self.recent.push_back(closed);
        while let Some(first) = self.recent.front().copied()
            && first.end().saturating_add(self.grace) <= end
        {
            self.recent.pop_front();
            self.count(&first);
        }
    }

    #[inline(always)]
    fn count(&mut self, closed: &Closed) {
        let &Closed { start, period, budget, delivered, lacking, held } = closed;
        let found = match (lacking, held) {
            (true, _) => Found::NoDemand,
            (false, true) => Found::Held,
            (false, false) => Found::Kept,
        };
        self.judge.saw(Period { start, period, budget, delivered, found });
        self.sums.promised += u128::from(budget);
        if lacking {
            self.without_demand += 1;
            self.sums.lacking += u128::from(delivered);
            self.judge.pass(start, period, delivered, budget);
            return;
        }
        self.errors.add(delivered, budget);
        self.sums.full += u128::from(delivered);
        if held {
            self.judge.held += 1;
            self.judge.pass(start, period, delivered, budget);
        } else {
            self.judge.take(start, period, delivered, budget);
        }
    }

    /// The run is over, and promises held until `until`: periods that ended later count for
    /// nothing.
    pub(super) fn finish(&mut self, until: Instant) {
        for closed in std::mem::take(&mut self.recent) {
            if closed.end() <= until {
                self.count(&closed);
            }
        }
    }

    /// From `at` on a limit of memory keeps it from running.
    pub(super) fn hold(&mut self, at: Instant) {
        // Periods that are not closed yet may have been held before.
        let before = self.held.filter(|(_, to)| self.open.is_some_and(|start| *to > start));
        self.held = Some((before.map_or(at, |(from, _)| from.min(at)), Instant::NEVER));
    }
    /// It no longer does.
    pub(super) fn let_go(&mut self, at: Instant) {
        if let Some((_, to)) = &mut self.held {
            *to = at.min(*to);
        }
    }

    /// Whether there are periods on which can be decided now ([`Judge::settle`]).
    #[inline]
    pub(super) fn is_ripe(&self) -> bool {
        self.open.is_some_and(|now| self.judge.is_ripe(now))
    }
    /// The start of the open period; 0 where none is open.
    pub(super) fn now(&self) -> Instant {
        self.open.unwrap_or(Instant::ZERO)
    }

    /// What was delivered in the period that is open at `at`.
    pub(super) fn used_at(&self, at: Instant) -> u64 {
        let is_open = self.open.is_some_and(|start| at < start.saturating_add(self.period));
        if is_open { self.delivered } else { 0 }
    }

    /// Mean delivery over the periods with full demand, in ticks.
    pub(super) fn mean(&self) -> Option<f64> {
        let count = self.errors.count();
        (count > 0).then(|| self.sums.full as f64 / count as f64)
    }
    /// Mean delivery over all whole periods, in ticks.
    pub(super) fn mean_of_all(&self) -> Option<f64> {
        let count = self.errors.count() + self.without_demand;
        let sum = self.sums.delivered();
        (count > 0).then(|| sum as f64 / count as f64)
    }
    /// What became of the promise, on cores of which so much was stolen: a meter counts that too.
    pub(super) fn finding(&self, stolen: u64) -> Finding {
        let all = self.sums.delivered();
        let excess = all.saturating_sub(self.sums.promised + u128::from(stolen));
        // A server may bring one C into its first period.
        let takes_too_much =
            excess > u128::from(self.budget) && is_taken_from_others(excess, self.sums.promised);
        self.judge.finding(self.without_demand, takes_too_much)
    }
    /// Mean of delivered - C over all whole periods, as a part of C.
    pub(super) fn mean_off_of_all(&self) -> Option<f64> {
        let all = self.sums.delivered();
        let promised = self.sums.promised as f64;
        (self.sums.promised > 0).then(|| (all as f64 - promised) / promised)
    }
}
