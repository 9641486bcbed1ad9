//! What a VCPU was delivered in each of its own periods.
//!
//! Of a VCPU with jobs they follow each other from the first release on, of another one from its
//! last wake on, or from where a new reservation set in. Where it woke with a part of its budget
//! used, they overlap by parts ([`Parts`]).

use super::judge::{Finding, Found, Judge, Period, is_taken_from_others};
use super::parts::{self, Part, Parts, Rolled};
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
    /// The parts of the budget, where a block has split it; `open` and `delivered` are theirs then.
    parts: Option<Box<Parts>>,
    lacking: Lacking,
    sums: Sums,
    /// Of periods that a wake or a change has cut, what makes no whole one yet, in parts of
    /// [`WHOLE`]: that does not depend on T, which may change.
    cut: u64,
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

/// A whole period, in the parts in which those are counted that were cut.
const WHOLE: u64 = 1 << 32;

/// Over all whole periods, and those that were cut.
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
    /// How long it was: T, or what it was where a wake or a change has cut it.
    length: Duration,
    /// T.
    period: Duration,
    /// How much later than the first the last part of its budget could be used.
    spread: Duration,
    budget: u64,
    delivered: u64,
    /// It was blocked, or its jobs were done, at some instant.
    lacking: bool,
    /// A limit of memory held it at some instant.
    held: bool,
}

impl Closed {
    /// When the last part of its budget was due.
    fn end(&self) -> Instant {
        self.start + self.length + self.spread
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
    /// if the VCPU has started, up to which they are closed. Without a reservation there are none.
    pub(super) fn reserve(
        &mut self,
        reservation: &Reservation,
        meant_milli: Option<u32>,
        from: Instant,
        by_jobs: bool,
    ) {
        let before = (self.budget, self.period);
        let is_cut = !reservation.is_none() && !by_jobs && self.open.is_some();
        let after = (reservation.budget.ticks(), reservation.period);
        let parts = is_cut.then(|| parts::after_change(self.parts(), before, after, from));
        let had_periods = self.open.is_some();
        match &parts {
            // Until the rest of the budget comes, there is no period of it.
            Some(parts) if parts.start().saturating_since(from) > after.1 => {
                self.cut(from);
                self.begun = parts.start();
            }
            Some(parts) => self.cut(parts.start()),
            None => (self.open, self.parts) = (None, None),
        }
        self.budget = after.0;
        (self.meant_milli, self.rest) = (meant_milli, 0);
        self.period = if reservation.is_none() { Duration::ZERO } else { after.1 };
        (self.delivered, self.lacking) = (0, Lacking::default());
        if let Some(parts) = parts {
            self.begin_with(parts);
        } else if self.started && !self.period.is_zero() {
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
    pub(super) fn woke(&mut self, blocked: Instant, now: Instant, by_jobs: bool) {
        self.close_until(now, Some(blocked));
        let Some(start) = self.open else { return };
        if by_jobs {
            // A block that began in a period which is closed by now was counted there.
            self.lacking.open |= now > start.max(blocked);
        } else {
            let period = self.period;
            let parts = parts::after_wake(self.parts(), period, now);
            self.cut(parts.start());
            self.begin_with(parts);
        }
    }
    /// The parts of the budget in the open period.
    fn parts(&mut self) -> &[Part] {
        let (start, amount, delivered) = (self.now(), self.budget, self.delivered);
        let whole = Part { start, amount, delivered };
        self.parts.get_or_insert_with(|| Box::new(Parts::whole(whole, self.period))).open()
    }
    /// The open period ends at `end`, or before: it is not judged.
    fn cut(&mut self, end: Instant) {
        let Some(start) = self.open else { return };
        let delivered = self.parts.take().map_or(self.delivered, |parts| parts.delivered());
        self.delivered = delivered;
        self.close(start, end.saturating_since(start), Duration::ZERO, true);
    }
    fn begin_with(&mut self, parts: Parts) {
        self.open = Some(parts.start());
        self.parts = (!parts.is_whole()).then(|| Box::new(parts));
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

    /// The same where the budget is in parts.
    #[cold]
    fn close_parts(&mut self, now: Instant, blocked: Option<Instant>) {
        while let Some(parts) = &mut self.parts
            && parts.due() <= now
        {
            let (start, due) = (parts.start(), parts.due());
            let rolled = parts.roll();
            let next = parts.start();
            self.open = Some(next);
            match rolled {
                Rolled::Part | Rolled::Early => {}
                Rolled::Apart(delivered) => {
                    let is_whole = parts.is_whole();
                    let rest = parts.delivered();
                    self.delivered = delivered;
                    self.close(start, next.saturating_since(start), Duration::ZERO, true);
                    if is_whole {
                        (self.parts, self.delivered) = (None, rest);
                        return self.close_until(now, blocked);
                    }
                }
                Rolled::All(delivered) => {
                    self.delivered = delivered;
                    let spread = due.saturating_since(start + self.period);
                    let lacking = blocked.is_some_and(|since| since < due);
                    self.close(start, self.period, spread, lacking);
                    if blocked.is_some_and(|since| since <= start) {
                        // All of it has come back.
                        self.parts = None;
                        return self.close_until(now, blocked);
                    }
                }
            }
        }
    }
    fn close_from(&mut self, mut start: Instant, now: Instant, blocked: Option<Instant>) {
        if self.parts.is_some() {
            return self.close_parts(now, blocked);
        }
        while start.saturating_add(self.period) <= now {
            let end = start + self.period;
            let lacking = self.lacking.open || blocked.is_some_and(|since| since < end);
            self.close(start, self.period, Duration::ZERO, lacking);
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
        self.serve_meant(from, to, service);
    }
    /// The same, where `service` is meant as C is.
    #[inline]
    fn serve_meant(&mut self, from: Instant, to: Instant, service: u64) {
        let Some(start) = self.open else { return };
        if self.parts.is_some() {
            return self.serve_parts(from, to, service);
        }
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

    /// The same where the budget is in parts.
    #[cold]
    fn serve_parts(&mut self, from: Instant, to: Instant, service: u64) {
        self.close_until(from, None);
        if to <= self.begun {
            return;
        }
        let mut at = from.max(self.begun);
        let mut given = if at > from { consumed_by(service, from, to, at) } else { 0 };
        while let Some(parts) = &mut self.parts {
            let next = parts.next(at).min(to);
            let by_next = consumed_by(service, from, to, next);
            parts.serve(at, by_next - given);
            if next >= to {
                return;
            }
            (at, given) = (next, by_next);
            self.close_until(at, None);
        }
        // It is whole again.
        self.serve_meant(at, to, service - given);
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
    fn close(&mut self, start: Instant, length: Duration, spread: Duration, lacking: bool) {
        let (period, budget, delivered) = (self.period, self.budget, self.delivered);
        let end = start + length + spread;
        let held = self.held.is_some_and(|(from, to)| from < end && start < to);
        let closed = Closed { start, length, period, spread, budget, delivered, lacking, held };
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
        let &Closed { start, length, period, spread, budget, delivered, lacking, held } = closed;
        let found = match (lacking, held) {
            (true, _) => Found::NoDemand,
            (false, true) => Found::Held,
            (false, false) => Found::Kept,
        };
        if !length.is_zero() {
            self.judge.saw(Period { start, period: length, budget, delivered, found });
        }
        if lacking {
            return self.lack(closed);
        }
        self.sums.promised += u128::from(budget);
        self.errors.add(delivered, budget);
        self.sums.full += u128::from(delivered);
        if held {
            self.judge.held += 1;
            self.judge.pass(start, period, delivered, budget);
        } else {
            self.judge.take(start, period, spread, delivered, budget);
        }
    }
    /// Counts a period in which the VCPU did not ask for all of its budget.
    #[inline(always)]
    fn lack(&mut self, closed: &Closed) {
        let &Closed { start, length, period, budget, delivered, .. } = closed;
        self.sums.lacking += u128::from(delivered);
        if length != period {
            return self.lack_cut(closed);
        }
        self.without_demand += 1;
        self.sums.promised += u128::from(budget);
        self.judge.pass(start, length, delivered, budget);
    }
    /// The same of one that was cut: together these make whole ones. One whose budget was in parts
    /// may be cut after more than T, where some of them are of the next one.
    #[cold]
    fn lack_cut(&mut self, closed: &Closed) {
        let &Closed { start, length, period, budget, delivered, .. } = closed;
        let of_period = |amount: u64| {
            let (amount, length) = (u128::from(amount), u128::from(length.ticks()));
            amount * length / u128::from(period.ticks())
        };
        self.sums.promised += of_period(budget);
        let cut = u128::from(self.cut) + of_period(WHOLE);
        self.without_demand += (cut / u128::from(WHOLE)) as u64;
        self.cut = (cut % u128::from(WHOLE)) as u64;
        let due = if length > period { 2 * budget } else { budget };
        self.judge.pass(start, length, delivered, due);
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

    /// How much of C is used at `at`, as far as is known.
    pub(super) fn used_at(&self, at: Instant) -> u64 {
        match (&self.parts, self.open) {
            (Some(parts), _) => self.budget.saturating_sub(parts.usable(at)),
            // All of it comes back at once.
            (None, Some(start)) if at < start => self.budget,
            (None, Some(start)) if at < start.saturating_add(self.period) => self.delivered,
            (None, _) => 0,
        }
    }

    /// Mean delivery over the periods with full demand, in ticks.
    pub(super) fn mean(&self) -> Option<f64> {
        let count = self.errors.count();
        (count > 0).then(|| self.sums.full as f64 / count as f64)
    }
    /// Mean delivery over all periods, in ticks; those that were cut count by their length.
    pub(super) fn mean_of_all(&self) -> Option<f64> {
        let count = self.errors.count() + self.without_demand;
        let all = count as f64 + self.cut as f64 / WHOLE as f64;
        let sum = self.sums.delivered();
        (count > 0).then(|| sum as f64 / all)
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
    /// Mean of delivered - C over all periods, as a part of C; those that were cut count by their
    /// length.
    pub(super) fn mean_off_of_all(&self) -> Option<f64> {
        let all = self.sums.delivered();
        let promised = self.sums.promised as f64;
        (self.sums.promised > 0).then(|| (all as f64 - promised) / promised)
    }
}
