//! Whether a VCPU got what it was promised, period by period.
//!
//! # The rule
//! * **Judged** are the whole periods in which the VCPU always had something to run and was not
//!   held by a limit of memory. (A VCPU that used up its own bandwidth, or whose core used up its
//!   allowance, is kept from its budget by its own limit.)
//! * A judged period is **off** where `|delivered - C|` is more than the tolerance: 1 % of C or,
//!   where that is more, twice what a wake costs on this host (the median that the machine
//!   reported, the largest so far). It is **short** or **over** by its sign.
//! * An off period is **stolen** where time that the hypervisor took explains it. Agents report by
//!   how much they enforced an alarm late and how much of that was stolen. A period is explained
//!   where the stolen time so reported, on the cores where the VCPU ran, of lateness that overlaps
//!   the period or the one before, is at least its error less the tolerance. Stolen periods are not
//!   judged, unless everything is (`strict`).
//! * What pays back counts as what it pays back. A period does that where it follows off periods
//!   directly and its error has the other sign and is no larger than what is left of theirs, but
//!   for the tolerance: it is stolen where they were, judged where they were judged, whatever was
//!   stolen meanwhile, and not judged where they ran too long in periods that are not judged. (What
//!   ran 10 ms too long for a C of 2 ms is due nothing in the next five periods.) Else the mean
//!   would count an error and not what made up for it, or the other way round.
//! * The promise is **kept** where the mean of the judged periods is within 0.5 % of C and at most
//!   1 % of them are off. Where fewer than half of the periods had full demand, those that had it
//!   are chance and their mean says nothing; then the promise is broken only where those that are
//!   off are more than 1 % of all whole periods, or where all whole periods together were given
//!   more than C by more than a tenth and by more than one C in all: a job that needs more than C
//!   takes it from others, whether it asks for more afterwards or not. (Less than a tenth may be
//!   what switching costs, beside a job that needs all of C.)

use super::causes::Thefts;
use maracas_core::{CoreSet, Duration, Instant};
use std::collections::VecDeque;

/// Of C: how far a period may be from it, in parts of one.
const PERIOD_PART: u64 = 100;
/// Of judged periods: one in so many may be off.
const OFF_PART: u64 = 100;
/// Of C: how far the mean may be from it, one part in so many (0.5 %).
const MEAN_PART: u64 = 200;
/// Of C: how far the mean of all periods may be above it, with full demand or not.
const EXCESS_PART: u64 = 10;

/// Verdicts on the periods of one VCPU; times in ticks.
#[derive(Clone, Default, Debug)]
pub(super) struct Judge {
    /// Errors below this cannot be distinguished from what waking a thread costs.
    floor: u64,
    /// Stolen periods are judged like all others.
    strict: bool,
    /// Off periods for which it is not yet known whether they were stolen.
    open: VecDeque<Off>,
    /// Judged periods, those that are still open among them.
    judged: Sums,
    pub(super) short: Side,
    pub(super) over: Side,
    /// Periods that stolen time explains.
    pub(super) stolen: u64,
    /// Periods with full demand that a limit of memory held.
    pub(super) held: u64,
    /// Periods with full demand that paid back what periods took that are not judged.
    paid_back: u64,
    /// The off periods that were decided on last.
    row: Option<Row>,
    /// All periods in their order, where they are kept.
    kept: Option<Vec<Period>>,
}

/// Periods, the sum of their errors and of C in them.
#[derive(Clone, Copy, Default, Debug)]
struct Sums {
    periods: u64,
    error: i128,
    budget: u128,
}

/// One whole period of a VCPU, for those who draw it; times in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period {
    pub(crate) start: Instant,
    pub(crate) period: Duration,
    /// C.
    pub(crate) budget: u64,
    pub(crate) delivered: u64,
    pub(crate) found: Found,
}

/// What was found of a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// Within the tolerance, or not decided on yet.
    Kept,
    /// The VCPU was blocked, or its jobs were done, at some instant.
    NoDemand,
    /// A limit of memory held it.
    Held,
    Short,
    Over,
    /// Off, and explained by stolen time.
    Stolen,
}

/// Periods that are off to one side.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Side {
    /// How many.
    pub(super) periods: u64,
    /// The largest error.
    pub(super) worst: u64,
}

/// Periods in a row that are off by the same: one that is never served has them without end.
#[derive(Clone, Copy, Debug)]
struct Off {
    /// Of the first.
    start: Instant,
    count: u64,
    period: Duration,
    /// How much longer a part of its budget was due than the first.
    spread: Duration,
    budget: u64,
    error: i64,
    tolerance: u64,
    /// No period to be judged, but one that took too much, which those after it pay back.
    unjudged: bool,
}

/// What became of a VCPU's promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Finding {
    Kept,
    /// Too many periods short, too many over, or the mean is so.
    Broken {
        short: bool,
        over: bool,
    },
    /// No period was judged, or too few of them.
    NoDemand,
    /// There was no whole period.
    NoPeriod,
    Held,
    Stolen,
}

/// Off periods that follow each other directly and count alike.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Of the last of them.
    end: Instant,
    /// The sum of their errors.
    error: i64,
    counts: Counts,
}

/// As what an off period counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Counts {
    Judged,
    Stolen,
    Unjudged,
}

impl Off {
    fn goes_on_with(&self, next: &Self) -> bool {
        let same =
            |of: &Self| (of.period, of.spread, of.budget, of.error, of.tolerance, of.unjudged);
        same(self) == same(next) && self.start + self.period * self.count == next.start
    }
}

impl Row {
    /// Whether the next period makes up for what these are off.
    const fn is_paid_back_by(&self, off: &Off) -> bool {
        let size = off.error.unsigned_abs();
        self.error.signum() == -off.error.signum()
            && size <= self.error.unsigned_abs() + off.tolerance
    }
}

/// Whether stolen time explains how far a period is off.
fn is_stolen(off: &Off, cores: CoreSet, thefts: &Thefts) -> bool {
    let from = Instant::from_ticks(off.start.ticks().saturating_sub(off.period.ticks()));
    let stolen = thefts.between(cores, from, off.start + off.period + off.spread);
    stolen > 0 && stolen.saturating_add(off.tolerance) >= off.error.unsigned_abs()
}

impl Judge {
    /// From now on errors below `floor` are not distinguished from the cost of a wake.
    pub(super) const fn tolerate(&mut self, floor: u64) {
        self.floor = floor;
    }
    /// Stolen periods are judged like all others.
    pub(super) const fn be_strict(&mut self) {
        self.strict = true;
    }
    /// All periods are kept for those who draw them.
    pub(super) fn keep(&mut self) {
        self.kept = Some(Vec::new());
    }
    /// The periods that were kept.
    pub(super) fn into_kept(self) -> Vec<Period> {
        self.kept.unwrap_or_default()
    }
    /// Whether stolen periods are judged like all others.
    pub(super) const fn is_strict(&self) -> bool {
        self.strict
    }
    /// Learns of a period before anything is decided on it.
    pub(super) fn saw(&mut self, period: Period) {
        if let Some(kept) = &mut self.kept {
            kept.push(period);
        }
    }
    /// Notes what was found of the period that starts at `start`.
    fn found(&mut self, start: Instant, found: Found) {
        let Some(kept) = &mut self.kept else { return };
        let place = kept.partition_point(|period| period.start < start);
        if let Some(period) = kept.get_mut(place).filter(|period| period.start == start) {
            period.found = found;
        }
    }
    /// How far a period may be from a C of `budget`.
    pub(super) const fn tolerance(&self, budget: u64) -> u64 {
        let part = budget / PERIOD_PART;
        if part > self.floor { part } else { self.floor }
    }

    /// Takes in a period with full demand.
    /// (`spread`: see [`Off`]).
    pub(super) fn take(
        &mut self,
        start: Instant,
        period: Duration,
        spread: Duration,
        delivered: u64,
        budget: u64,
    ) {
        let error = delivered as i64 - budget as i64;
        self.judged.periods += 1;
        self.judged.error += i128::from(error);
        self.judged.budget += u128::from(budget);
        self.open((start, period, spread), error, budget, false);
    }

    /// Takes in a period that is not judged: what it took too much, later ones pay back.
    pub(super) fn pass(&mut self, start: Instant, period: Duration, delivered: u64, budget: u64) {
        if delivered > budget {
            let spread = Duration::ZERO;
            self.open((start, period, spread), (delivered - budget) as i64, budget, true);
        }
    }

    /// Keeps a period that is off by more than the tolerance until it is decided on.
    fn open(
        &mut self,
        (start, period, spread): (Instant, Duration, Duration),
        error: i64,
        budget: u64,
        unjudged: bool,
    ) {
        let tolerance = self.tolerance(budget);
        if error.unsigned_abs() <= tolerance {
            return;
        }
        let off = Off { start, count: 1, period, spread, budget, error, tolerance, unjudged };
        match self.open.back_mut() {
            Some(last) if last.goes_on_with(&off) => last.count += 1,
            _ => self.open.push_back(off),
        }
    }

    /// Whether a period can be settled at `now`: its lateness is reported when the alarm was
    /// enforced, which two periods later it was; else it touches none of its own.
    pub(super) fn is_ripe(&self, now: Instant) -> bool {
        self.open.front().is_some_and(|off| {
            let end = off.start.saturating_add(off.period).saturating_add(off.spread);
            end.saturating_add(off.period).saturating_add(off.period) <= now
        })
    }

    /// Decides on the periods that are ripe at `now`; at [`Instant::NEVER`] on all.
    pub(super) fn settle(&mut self, now: Instant, cores: CoreSet, thefts: &Thefts) {
        let all = now == Instant::NEVER;
        while all || self.is_ripe(now) {
            let Some(off) = self.next() else { return };
            let counts = self.counts(&off, cores, thefts);
            if off.unjudged {
                continue;
            }
            self.found(
                off.start,
                match (counts, off.error) {
                    (Counts::Stolen, _) => Found::Stolen,
                    (Counts::Unjudged, _) => Found::NoDemand,
                    (Counts::Judged, ..0) => Found::Short,
                    (Counts::Judged, 0..) => Found::Over,
                },
            );
            self.stolen += u64::from(counts == Counts::Stolen);
            self.paid_back += u64::from(counts == Counts::Unjudged);
            if counts == Counts::Judged || counts == Counts::Stolen && self.strict {
                let side = if off.error < 0 { &mut self.short } else { &mut self.over };
                side.periods += 1;
                side.worst = side.worst.max(off.error.unsigned_abs());
            } else {
                self.judged.periods -= 1;
                self.judged.error -= i128::from(off.error);
                self.judged.budget -= u128::from(off.budget);
            }
        }
    }

    /// As what a period counts, which goes on with the row of those before it.
    fn counts(&mut self, off: &Off, cores: CoreSet, thefts: &Thefts) -> Counts {
        let row = self.row.filter(|row| row.end == off.start);
        let counts = match row.filter(|row| row.is_paid_back_by(off)) {
            _ if off.unjudged => Counts::Unjudged,
            Some(row) => row.counts,
            None if is_stolen(off, cores, thefts) => Counts::Stolen,
            None => Counts::Judged,
        };
        let before = row.filter(|row| row.counts == counts).map_or(0, |row| row.error);
        let end = off.start + off.period;
        self.row = Some(Row { end, error: before + off.error, counts });
        counts
    }

    /// The first of the periods that are open.
    fn next(&mut self) -> Option<Off> {
        let first = self.open.front_mut()?;
        let off = *first;
        first.count -= 1;
        first.start = off.start + off.period;
        if first.count == 0 {
            self.open.pop_front();
        }
        Some(off)
    }

    /// How many periods count: with full demand, neither held nor (unless strict) stolen.
    pub(super) const fn judged(&self) -> u64 {
        self.judged.periods
    }
    /// Mean of `delivered - C`, as a part of C; `None` where nothing was judged.
    pub(super) fn mean_off(&self) -> Option<f64> {
        let Sums { error, budget, .. } = self.judged;
        (budget > 0).then(|| error as f64 / budget as f64)
    }

    /// What came of it, when all is settled and `idle` periods were without full demand; whether
    /// all periods together took too much.
    pub(super) fn finding(&self, idle: u64, takes_too_much: bool) -> Finding {
        let off = self.short.periods + self.over.periods;
        let spoiled = self.held + self.paid_back + if self.strict { 0 } else { self.stolen };
        let Sums { periods: judged, error, budget } = self.judged;
        let full = judged + spoiled;
        let stand_for_all = full >= idle;
        let of = if stand_for_all { judged } else { full + idle };
        let mean_is_off = stand_for_all && is_mean_off(error.unsigned_abs(), budget);
        if off * OFF_PART > of || mean_is_off {
            let (short, over) = (self.short.periods > 0, self.over.periods > 0);
            return Finding::Broken {
                short: short || !over && error < 0,
                over: over || !short && error > 0,
            };
        }
        match (judged, self.held, self.stolen) {
            _ if !stand_for_all && takes_too_much => Finding::Broken { short: false, over: true },
            _ if !stand_for_all => Finding::NoDemand,
            (1.., ..) => Finding::Kept,
            (0, 1.., _) => Finding::Held,
            (0, 0, 1..) => Finding::Stolen,
            (0, 0, 0) if full + idle == 0 => Finding::NoPeriod,
            (0, 0, 0) => Finding::NoDemand,
        }
    }
}

/// Whether the mean of periods that together are off by `error` from a `budget` is.
fn is_mean_off(error: u128, budget: u128) -> bool {
    error * u128::from(MEAN_PART) > budget
}
/// Whether periods, with full demand or not, together took so much more that others lack it.
pub(super) fn is_taken_from_others(excess: u128, budget: u128) -> bool {
    excess * u128::from(EXCESS_PART) > budget
}

#[cfg(test)]
mod tests;
