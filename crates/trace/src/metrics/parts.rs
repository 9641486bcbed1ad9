//! The parts of a budget that a block has split.
//!
//! What a sporadic server has left when its VCPU wakes may be used at once; what was used of a part
//! comes back one period after that part could be used (`crates/policies/src/parts/sporadic.rs`,
//! Stanovich, Baker, Wang and Harbour, RTAS 2010). So from a wake on each part is promised once in
//! each period that begins at an instant of its own, and a period of the VCPU lasts from the first
//! of these instants on, until the last of its parts was due.

use maracas_core::{Duration, Instant};
use std::collections::VecDeque;

/// More parts than this are joined, as the server joins them.
const MOST: usize = 32;

/// A part of the budget in its period that is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// From when on it may be used.
    pub(super) start: Instant,
    /// How much it is, in ticks.
    pub(super) amount: u64,
    /// How much of it was delivered; more, where it took too much.
    pub(super) delivered: u64,
}

impl Part {
    /// Of which nothing was delivered.
    pub(super) const fn new(start: Instant, amount: u64) -> Self {
        Self { start, amount, delivered: 0 }
    }
    fn left(&self) -> u64 {
        self.amount.saturating_sub(self.delivered)
    }
    /// Up to when it is used, where nothing else runs.
    fn end(&self) -> Instant {
        self.start + Duration::from_ticks(self.amount)
    }
}

/// All parts of a budget, in the order in which they may be used. No two begin further apart than
/// a period, but where a change to a shorter one has just held some back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Parts {
    list: VecDeque<Part>,
    period: Duration,
    /// When the VCPU's open period began.
    start: Instant,
    /// What was delivered of those of its parts that are over.
    delivered: u64,
    /// How many parts, the last ones, are of the next period already.
    rolled: usize,
}

/// What is over with a part's period, and what was delivered in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rolled {
    /// Nothing more: others of the VCPU's period are open.
    Part,
    /// The VCPU's period.
    All(u64),
    /// The part alone: the VCPU's period is from now on that of the parts after it.
    Apart(u64),
    /// Nothing: others, which a change to a shorter period has held back, come later than the
    /// part's next one, so that there was no period of all of them.
    Early,
}

impl Parts {
    fn of(list: VecDeque<Part>, period: Duration) -> Self {
        let start = list.front().map_or(Instant::ZERO, |part| part.start);
        Self { list, period, start, delivered: 0, rolled: 0 }
    }
    /// A budget that is whole, in its open period.
    pub(super) fn whole(budget: Part, period: Duration) -> Self {
        Self::of(VecDeque::from([budget]), period)
    }
    /// Whether the budget is in one part.
    pub(super) fn is_whole(&self) -> bool {
        self.list.len() == 1
    }
    /// The parts in their open periods.
    pub(super) fn open(&mut self) -> &[Part] {
        self.list.make_contiguous()
    }
    /// When the VCPU's open period began, or will.
    pub(super) const fn start(&self) -> Instant {
        self.start
    }
    /// What of the budget may be used at `at`.
    pub(super) fn usable(&self, at: Instant) -> u64 {
        self.list.iter().take_while(|part| part.start <= at).map(Part::left).sum()
    }
    /// What was delivered since the VCPU's open period began.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered + self.list.iter().map(|part| part.delivered).sum::<u64>()
    }

    /// When the first part ends its period.
    pub(super) fn due(&self) -> Instant {
        self.list.front().map_or(Instant::NEVER, |part| part.start.saturating_add(self.period))
    }
    /// The first part ends its period and begins the next one; from then on it is one with the
    /// part before it, if that touches it.
    pub(super) fn roll(&mut self) -> Rolled {
        let Some(part) = self.list.pop_front() else { return Rolled::Part };
        let next = Part::new(part.start + self.period, part.amount);
        if self.rolled == 0 && self.list.back().is_some_and(|last| last.start > next.start) {
            insert(&mut self.list, next);
            self.start = self.list.front().map_or(next.start, |part| part.start);
            return Rolled::Early;
        }
        if let Some(tail) = self.list.back_mut().filter(|tail| tail.end() >= next.start) {
            tail.amount += next.amount;
            if self.rolled == 0 {
                // The others make a whole budget with it, from the second one on.
                self.start = self.list.front().map_or(next.start, |part| part.start);
                return Rolled::Apart(part.delivered);
            }
        } else {
            self.list.push_back(next);
            self.rolled += 1;
        }
        self.delivered += part.delivered;
        if self.rolled < self.list.len() {
            return Rolled::Part;
        }
        self.rolled = 0;
        self.start = self.list.front().map_or(next.start, |part| part.start);
        Rolled::All(std::mem::take(&mut self.delivered))
    }
    /// After `at`, when a part may be used or ends its period next.
    pub(super) fn next(&self, at: Instant) -> Instant {
        let starts = self.list.iter().map(|part| part.start);
        starts.filter(|start| *start > at).chain([self.due()]).min().unwrap_or(Instant::NEVER)
    }
    /// So much is delivered from `at` on: of what may be used, the oldest first. What is more than
    /// all of that goes to the youngest of them.
    pub(super) fn serve(&mut self, at: Instant, mut amount: u64) {
        let usable = self.list.iter().take_while(|part| part.start <= at).count().max(1);
        for part in self.list.iter_mut().take(usable) {
            let given = amount.min(part.left());
            part.delivered += given;
            amount -= given;
        }
        if let Some(youngest) = self.list.get_mut(usable - 1) {
            youngest.delivered += amount;
        }
    }
}

/// The parts after a wake at `now`, where these were open.
pub(super) fn after_wake(open: &[Part], period: Duration, now: Instant) -> Parts {
    let (usable, mut later) = shared(open, period, now);
    let mut list = VecDeque::new();
    if usable > 0 {
        let mut head = Part::new(now, usable);
        // A later one cannot be reached before its time, since the head lasts until then.
        while let Some(next) = later.front().filter(|next| next.start <= head.end()) {
            head.amount += next.amount;
            later.pop_front();
        }
        list.push_back(head);
    }
    list.extend(later);
    Parts::of(list, period)
}

/// The parts from `now` on, where these were open and the reservation is another: what is used of
/// the old budget comes back at its own time, of a smaller one the latest of that; what a greater
/// one adds may be used with what may be, or else comes with the first of what is used
/// (`Sporadic::change`, there).
pub(super) fn after_change(
    open: &[Part],
    old: (u64, Duration),
    (budget, period): (u64, Duration),
    now: Instant,
) -> Parts {
    let (usable, later) = shared(open, old.1, now);
    let used = old.0.saturating_sub(usable);
    let owed = used.min(budget);
    let kept = if usable == 0 { 0 } else { budget - owed };
    let (mut dropped, mut added) = (used - owed, budget - kept - owed);
    let mut list = VecDeque::new();
    if kept > 0 {
        list.push_back(Part::new(now, kept));
    }
    for part in later {
        let gone = dropped.min(part.amount);
        dropped -= gone;
        if gone < part.amount {
            let amount = part.amount - gone + std::mem::take(&mut added);
            join(&mut list, Part::new(part.start, amount), MOST);
        }
    }
    Parts::of(list, period)
}

/// What may be used at `now`, and what later.
fn shared(open: &[Part], period: Duration, now: Instant) -> (u64, VecDeque<Part>) {
    let (begun, coming) = open.split_at(open.partition_point(|part| part.start <= now));
    let left: u64 = begun.iter().map(Part::left).sum();
    let used = begun.iter().map(|part| (part.start + period, part.amount - part.left()));
    // What comes back before the last part is over is one with it: nothing may be used between.
    let last = begun.last().filter(|_| coming.is_empty()).map_or(Instant::ZERO, Part::end);
    let (joined, used): (Vec<_>, Vec<_>) = used.partition(|(start, _)| *start <= last);
    let usable = left + joined.iter().map(|(_, amount)| amount).sum::<u64>();
    let later = coming.iter().map(|part| (part.start, part.amount)).chain(used);
    let mut later: Vec<_> = later.filter(|(_, amount)| *amount > 0).collect();
    // What a change to a shorter period has held back may come after what is used comes back.
    later.sort_by_key(|(start, _)| *start);
    let mut list = VecDeque::new();
    // What may be used now is one of as many parts.
    let most = MOST - usize::from(usable > 0);
    for (start, amount) in later {
        join(&mut list, Part::new(start, amount), most);
    }
    (usable, list)
}

/// Puts a part in before those that come later, and into those that it touches.
fn insert(list: &mut VecDeque<Part>, part: Part) {
    let later = list.split_off(list.partition_point(|other| other.start <= part.start));
    std::iter::once(part).chain(later).for_each(|part| join(list, part, MOST));
}

/// Puts a part behind the others; into the last one where they touch, or where there are as many as
/// there may be: then all of it waits, so that nothing comes earlier than it may.
fn join(list: &mut VecDeque<Part>, part: Part, most: usize) {
    let full = list.len() >= most;
    match list.back_mut() {
        Some(tail) if full || tail.end() >= part.start => {
            if tail.end() < part.start {
                tail.start = Instant::from_ticks(part.start.ticks() - tail.amount);
            }
            tail.amount += part.amount;
            tail.delivered += part.delivered;
        }
        Some(_) | None => list.push_back(part),
    }
}
