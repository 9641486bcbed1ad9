//! What is known of the VCPUs, and of the cores that they are on.

use super::Ahead;
use super::background::{Interval, OfferRank, Order, Ratio};
use crate::parts::activity::Activity;
use crate::parts::ahead;
use crate::parts::by_core::ByCore;
use crate::parts::pibs::Pibs;
use crate::parts::priority;
use crate::parts::sporadic::Sporadic;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::{iter, mem};
use maracas_core::contract::{Grant, Limit};
use maracas_core::{CoreId, Duration, Instant, Job, JobId, Role, Soonest, Vcpu, VcpuId};

/// The two kinds of servers behind one face.
#[derive(Clone, Debug)]
pub(super) enum Server {
    Sporadic(Sporadic),
    Pibs { server: Box<Pibs>, declared: Duration },
}

impl Server {
    pub(super) fn new(vcpu: &Vcpu, at: Instant) -> Self {
        let r = &vcpu.reservation;
        match vcpu.role {
            Role::Main | Role::Monitor | Role::Migration => {
                Self::Sporadic(Sporadic::new(r.budget, r.period, at))
            }
            Role::Io => {
                let server = Pibs::new(r.utilization(), r.period, at);
                Self::Pibs { server: Box::new(server), declared: r.period }
            }
        }
    }
    pub(super) fn period(&self) -> Duration {
        match self {
            Self::Sporadic(server) => server.period(),
            Self::Pibs { server, .. } => server.period(),
        }
    }
    pub(super) fn wake(&mut self, at: Instant, served: Option<Duration>, idle: bool) {
        match self {
            Self::Sporadic(server) => server.unblock(at),
            Self::Pibs { server, declared } => server.wake(at, served.unwrap_or(*declared), idle),
        }
    }
    pub(super) fn charge(&mut self, used: Duration, blocked: bool, chunk_min: Duration) {
        match self {
            Self::Sporadic(server) => server.charge(used, chunk_min),
            Self::Pibs { server, .. } => server.charge(used, blocked),
        }
    }
    #[inline]
    pub(super) fn update(&mut self, now: Instant) {
        match self {
            Self::Sporadic(_) => {}
            Self::Pibs { server, .. } => server.update(now),
        }
    }
    pub(super) fn usable(&self, now: Instant) -> Duration {
        match self {
            Self::Sporadic(server) => server.usable(now),
            Self::Pibs { server, .. } => server.usable(),
        }
    }
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::Sporadic(server) => server.next(now),
            Self::Pibs { server, .. } => server.next().filter(|at| *at > now),
        }
    }
    /// Both at once.
    fn usable_and_next(&self, now: Instant) -> (Duration, Option<Instant>) {
        match self {
            Self::Sporadic(server) => server.usable_and_next(now),
            Self::Pibs { .. } => (self.usable(now), self.next(now)),
        }
    }
    /// When more than at `now` may be used whatever happens until then, and how much in all: the
    /// chunks that have come, and the next one. What is used before leaves less, and brings back
    /// later.
    fn coming(&self, now: Instant) -> Option<(Instant, Duration)> {
        match self {
            Self::Sporadic(server) => {
                let at = server.next(now)?;
                Some((at, server.usable(at)))
            }
            // What comes depends on what is used, and on the VCPU that it serves.
            Self::Pibs { .. } => None,
        }
    }
    /// What it may use from when on, by chunks, where each is used up, without a block: the reading
    /// of its meter at which each ends, where that reads `meter` now. From the second chunk on,
    /// whether it has come or not; in the same steps however much of the first is used, so that
    /// what was foreseen before is foreseen again.
    fn foreseen(
        &self,
        meter: Duration,
        chunk_min: Duration,
    ) -> impl Iterator<Item = (Instant, Duration)> + use<> {
        let mut server = match self {
            Self::Sporadic(server) => Some(server.clone()),
            Self::Pibs { .. } => None,
        };
        let mut until = meter;
        iter::from_fn(move || {
            let server = server.as_mut()?;
            let head = server.usable(server.first()?);
            server.charge(head, chunk_min);
            until += head;
            let at = server.first()?;
            Some((at, until + server.usable(at)))
        })
    }
    /// The instant from which a use of what is usable now counts as late.
    pub(super) fn first(&self) -> Option<Instant> {
        match self {
            Self::Sporadic(server) => server.first(),
            Self::Pibs { server, .. } => Some(server.eligible()),
        }
    }
    /// It begins on another core: what it saved here may not come back there at once (algorithms.md
    /// G.3, row 13).
    pub(super) fn moved(&mut self, at: Instant) {
        match self {
            Self::Sporadic(server) => server.unblock(at),
            Self::Pibs { server, .. } => server.moved(at),
        }
    }
    /// When all of the budget may be used, as far as use was reported.
    pub(super) fn last(&self) -> Option<Instant> {
        match self {
            Self::Sporadic(server) => server.last(),
            Self::Pibs { server, .. } => server.next(),
        }
    }
    pub(super) fn change(&mut self, vcpu: &Vcpu, at: Instant) {
        let r = &vcpu.reservation;
        match self {
            Self::Sporadic(server) => server.change(r.budget, r.period, at),
            Self::Pibs { server, declared } => {
                *declared = r.period;
                server.change(r.utilization(), r.period);
            }
        }
    }
}

/// What is known of one VCPU, in three cache lines of 64 bytes: two that events and looks need, and
/// one for background time and what changes seldom. With thousands of VCPUs each line is one more
/// that no near cache has.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct State {
    pub(super) id: VcpuId,
    pub(super) core: CoreId,
    pub(super) role: Role,
    /// Whether it stands in its core's `touched`.
    pub(super) touched: bool,
    pub(super) activity: Activity,
    /// Its foreground meter, as far as it was reported.
    pub(super) foreground: Duration,
    /// Its place on its core's foreground list.
    pub(super) place: u32,
    pub(super) seen: Seen,
    /// Whether its core's `asleep` holds an instant for it; if not, a look need not write there.
    pub(super) sleeps_on: bool,
    /// Its rank in the order of the background rule, of which `measure` is the rest.
    pub(super) offered: OfferRank,
    /// Whether its urgency may be another than when it was put at its place.
    pub(super) misplaced: bool,
    pub(super) server: Server,
    /// A reservation that sets in when the job under way is complete, which was promised the old
    /// one, or at that instant; what runs then, once that was metered.
    pub(super) becomes: Option<Box<(Instant, Vcpu)>>,
    /// Up to where it was granted its budget when it was looked at last.
    pub(super) granted: Limit,
    /// D, where that lies before the period's end.
    pub(super) deadline: Duration,
    /// What it is ordered by among those of its rank in the order of the background rule; not valid
    /// while it sleeps there.
    pub(super) measure: Ratio,
    /// Background CPU time for the fair rule.
    pub(super) bgt: Duration,
    pub(super) requests: u64,
    /// Its background meter, as far as it was reported.
    pub(super) background: Duration,
    /// It moved while it waited with budget: where its foreground meter stands when it has used
    /// C since, and the instant T after. In a box, since few have it, and since the table of VCPUs
    /// marks an empty place in the field with the most unused values: in place, this line would be
    /// read for every VCPU that is looked up.
    pub(super) delayed: Option<Box<(Duration, Instant)>>,
    /// It arrived at run time and has no BGT yet.
    pub(super) newcomer: bool,
}

const _: () = assert!(size_of::<Option<State>>() == 192);
const _: () = assert!(core::mem::offset_of!(State, server) == 64);
const _: () = assert!(core::mem::offset_of!(State, deadline) == 128);

/// What is known of the VCPUs of all cores, or of one.
pub(super) type States = ByCore<State>;

/// What a VCPU had when it was looked at last.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Seen {
    /// Nothing to run.
    #[default]
    Asleep,
    /// Something to run, but no budget for it.
    Spent,
    /// Something to run, and budget for it.
    OnBudget,
}

impl State {
    pub(super) fn new(vcpu: &Vcpu, core: CoreId, at: Instant) -> Self {
        Self {
            id: vcpu.id,
            core,
            role: vcpu.role,
            server: Server::new(vcpu, at),
            deadline: vcpu.reservation.deadline,
            foreground: Duration::ZERO,
            background: Duration::ZERO,
            bgt: Duration::ZERO,
            newcomer: false,
            requests: 0,
            delayed: None,
            activity: Activity::default(),
            place: 0,
            offered: OfferRank::ASLEEP,
            measure: Ratio::NONE,
            seen: Seen::Asleep,
            sleeps_on: false,
            misplaced: false,
            granted: Limit::NEVER,
            touched: false,
            becomes: None,
        }
    }
    /// Its place on its core's foreground list; nothing was seen of it there yet.
    pub(super) fn put(&mut self, place: usize) {
        (self.place, self.seen, self.sleeps_on) = (place as u32, Seen::Asleep, false);
    }
    /// Whether it could have run on its budget before `now` and still has some of that.
    pub(super) fn waits_with_budget(&self, now: Instant) -> bool {
        self.runnable()
            && !self.server.usable(now).is_zero()
            && self.server.first().is_some_and(|first| first < now)
    }
    /// Until when it may not move: a move delayed what it waited with, which another would again.
    pub(super) fn stays_until(&self, now: Instant) -> Option<Instant> {
        let (used, until) = *self.delayed.as_deref()?;
        (self.foreground < used && now < until).then_some(until)
    }
    /// It leaves at `at`: until when its use counts. What it ran last may not be reported yet.
    pub(super) fn counts_until(&self, at: Instant) -> Instant {
        let untold = if self.runnable() { at + self.server.period() } else { at };
        untold.max(self.server.last().unwrap_or(at))
    }
    /// Smaller goes first in the foreground: RM order, by the inherited period for I/O, and by
    /// deadlines that lie before the period's end; service VCPUs of service requests above all.
    pub(super) fn urgency(&self) -> (Duration, VcpuId) {
        let period = self.server.period();
        let span = match self.server {
            Server::Sporadic(_) if priority::serves_requests(self.role) => Duration::ZERO,
            Server::Sporadic(_) => self.deadline.min(period),
            // Before the end of a period that is not inherited, or a shorter one. Of a longer one
            // it holds more than its test counts for a deadline as early.
            Server::Pibs { declared, .. } if self.deadline < declared && period <= declared => {
                self.deadline.min(period)
            }
            Server::Pibs { .. } => period,
        };
        (span, self.id)
    }
    pub(super) fn intensity(&self) -> Ratio {
        Ratio::intensity(self.requests, self.service())
    }
    /// What it ran, in both modes.
    pub(super) fn service(&self) -> Duration {
        self.foreground + self.background
    }
    /// Whether it has something to run, as far as is known.
    pub(super) const fn runnable(&self) -> bool {
        self.activity.runnable()
    }
    pub(super) fn wake(&mut self, at: Instant, served: Option<Duration>) {
        // If it is runnable as far as is known, either nothing changed or its block is not reported
        // yet: what it used before must be charged before a sporadic server learns of the wake.
        if !self.runnable() || matches!(self.server, Server::Pibs { .. }) {
            let before = self.server.period();
            self.server.wake(at, served, !self.runnable());
            self.misplaced |= self.server.period() != before;
        }
        self.activity.wake(at);
    }
    pub(super) fn release(&mut self, job: &Job) {
        if self.activity.release(job) && !self.runnable() {
            self.wake(job.release, None);
        }
    }
    pub(super) fn complete(&mut self, id: JobId, at: Instant) {
        self.activity.complete(id);
        if self.activity.is_done()
            && let Some((due, _)) = self.becomes.as_deref_mut()
        {
            // What it used last is reported after its end: it takes effect with the next decision.
            *due = (*due).min(at);
        }
    }
    /// From `at` on it is promised what `vcpu` says.
    pub(super) fn change(&mut self, vcpu: &Vcpu, at: Instant) {
        let due = if self.activity.is_done() { at } else { at + self.server.period() };
        self.becomes = Some(Box::new((due, vcpu.clone())));
        if due <= at && !self.runnable() {
            self.settle(at);
        }
    }
    /// When a reservation that was granted is due to set in, if there is one.
    pub(super) fn settles(&self) -> Instant {
        self.becomes.as_ref().map_or(Instant::NEVER, |becomes| becomes.0)
    }
    /// Has a reservation that was granted set in.
    pub(super) fn settle(&mut self, now: Instant) {
        if let Some(becomes) = self.becomes.take() {
            let before = self.urgency();
            self.server.change(&becomes.1, now);
            self.deadline = becomes.1.reservation.deadline;
            self.misplaced |= self.urgency() != before;
        }
    }
    /// It blocked at `at`; reported late, it may have woken since. True if it sleeps.
    pub(super) fn block(&mut self, at: Instant) -> bool {
        let woken = self.activity.block(at);
        match woken {
            Some(woken) if self.runnable() => {
                let period = self.server.period();
                self.server.wake(woken, Some(period), false);
                return false;
            }
            Some(release) => self.wake(release, None),
            None => {}
        }
        !self.runnable()
    }
}

/// What is known of one core.
#[derive(Clone, Debug)]
pub(super) struct Local {
    /// Its VCPUs in RM order.
    pub(super) foreground: Vec<VcpuId>,
    /// By place there, what it may use now and what from later instants on, where that is granted
    /// ahead.
    granted: Vec<Vec<Grant>>,
    /// Its VCPUs in the order of the background rule.
    pub(super) background: Order,
    pub(super) interval: Interval,
    /// VCPUs of which something was learnt since they were looked at, once each.
    pub(super) touched: Vec<VcpuId>,
    /// Whether a VCPU came or went since all were put in order.
    pub(super) reordered: bool,
    /// Whether not all ends are told at once.
    pub(super) is_silent: bool,
    /// By place on the foreground list, when its next chunk may be used: of those for which the run
    /// queue must be looked at then, and of sleepers with budget left.
    pub(super) awake: Soonest,
    asleep: Soonest,
    /// How many have something to run, and how many of them are on a budget.
    waiting: usize,
    pub(super) on_budget: usize,
    /// Whether there may be newcomers without BGT.
    pub(super) newcomers: bool,
}

impl Default for Local {
    fn default() -> Self {
        Self {
            foreground: Vec::new(),
            granted: Vec::new(),
            background: Order::default(),
            interval: Interval::default(),
            touched: Vec::new(),
            reordered: true,
            is_silent: false,
            awake: Soonest::new(0),
            asleep: Soonest::new(0),
            waiting: 0,
            on_budget: 0,
            newcomers: false,
        }
    }
}

impl Local {
    /// Service VCPUs of service requests have no surplus time.
    pub(super) fn add(&mut self, vcpu: VcpuId, role: Role) {
        self.reordered = true;
        self.foreground.push(vcpu);
        if !priority::serves_requests(role) {
            self.background.add(vcpu);
        }
    }
    pub(super) fn remove(&mut self, vcpu: VcpuId) {
        self.reordered = true;
        self.foreground.retain(|other| *other != vcpu);
        self.background.remove(vcpu);
        self.touched.retain(|other| *other != vcpu);
        self.interval.drop(vcpu);
    }
    /// Whether it is in background mode: a VCPU waits, and none on a budget.
    pub(super) const fn in_background(&self) -> bool {
        self.waiting > 0 && self.on_budget == 0
    }

    /// Something was learnt of a VCPU that is here.
    pub(super) fn touch(&mut self, state: &mut State) {
        if !state.touched {
            state.touched = true;
            self.touched.push(state.id);
        }
    }
    /// Those whose next chunk may be used by `now` have changed too.
    pub(super) fn touch_due(&mut self, states: &mut States, now: Instant) {
        let mut touch = |place: usize| {
            let id = self.foreground[place];
            if let Some(state) = states.get_mut(id).filter(|state| !state.touched) {
                state.touched = true;
                self.touched.push(id);
            }
        };
        self.awake.each_due(now, &mut touch);
        self.asleep.each_due(now, touch);
    }
    /// All will be looked at: forgets what was seen of them.
    pub(super) fn begin_anew(&mut self) {
        let length = self.foreground.len();
        (self.awake, self.asleep) = (Soonest::new(length), Soonest::new(length));
        (self.waiting, self.on_budget) = (0, 0);
        self.touched.clear();
        self.granted.iter_mut().for_each(Vec::clear);
        self.granted.resize(length, Vec::new());
        self.reordered = false;
    }
    /// Takes in how one of them is at `now`; its grant.
    pub(super) fn look(&mut self, state: &mut State, now: Instant, ahead: Ahead) -> Grant {
        state.touched = false;
        state.server.update(now);
        let (usable, next) = state.server.usable_and_next(now);
        let (runs, spent) = (state.runnable(), usable.is_zero());
        let next = next.unwrap_or(Instant::NEVER);
        let place = state.place as usize;
        let grant = Grant::new(state.id, Limit(state.foreground + usable));
        let looks_at = match ahead {
            Ahead::Nothing => None,
            Ahead::Watched | Ahead::Unwatched | Ahead::Begun { .. } | Ahead::Silent { .. } => {
                self.grant_ahead(place, state, grant, now, ahead)
            }
        };
        // A sleeper with budget left needs no look at its next chunk before it wakes.
        let (awake, asleep) = match (looks_at, runs || spent) {
            (Some(at), _) => (at, next),
            (None, true) => (next, Instant::NEVER),
            (None, false) => (Instant::NEVER, next),
        };
        self.awake.set(place, awake);
        if state.sleeps_on || asleep != Instant::NEVER {
            state.sleeps_on = asleep != Instant::NEVER;
            self.asleep.set(place, asleep);
        }
        let seen = match (runs, spent) {
            (false, _) => Seen::Asleep,
            (true, true) => Seen::Spent,
            (true, false) => Seen::OnBudget,
        };
        let before = mem::replace(&mut state.seen, seen);
        if before != seen {
            self.count(before, seen, priority::serves_requests(state.role));
        }
        grant
    }
    /// A VCPU that counted as `before` counts as `after`.
    fn count(&mut self, before: Seen, after: Seen, serves_requests: bool) {
        let is_on = |seen| usize::from(seen == Seen::OnBudget);
        self.on_budget = self.on_budget + is_on(after) - is_on(before);
        let waits = |seen| usize::from(seen != Seen::Asleep && !serves_requests);
        self.waiting = self.waiting + waits(after) - waits(before);
    }

    /// Notes what the VCPU at `place` is granted now and ahead; when to look at it again, where
    /// that is not at its next chunk.
    fn grant_ahead(
        &mut self,
        place: usize,
        state: &State,
        grant: Grant,
        now: Instant,
        ahead: Ahead,
    ) -> Option<Instant> {
        let granted = &mut self.granted[place];
        granted.clear();
        granted.push(grant);
        // What a change that is to set in makes of it is not known before.
        let settles = state.settles();
        let coming = state.server.coming(now).filter(|(at, _)| *at < settles);
        let until = |amount| Grant::new(state.id, Limit(state.foreground + amount));
        granted.extend(coming.map(|(at, amount)| until(amount).ahead(at)));
        match ahead {
            Ahead::Silent { depth, chunk_min } => {
                let depth = if settles == Instant::NEVER { depth } else { 0 };
                grant_foreseen(granted, state, now, depth, chunk_min);
                if depth > 0
                    && let Some((last, others)) = granted.split_last_mut()
                    && last.lapses
                {
                    others.iter_mut().for_each(|grant| *grant = grant.silently());
                    // That of the last is told, if all have begun.
                    return Some(asks_at(&granted[granted.len() / 2..], now));
                }
            }
            Ahead::Begun { chunk_min } => grant_foreseen(granted, state, now, 0, chunk_min),
            Ahead::Nothing | Ahead::Watched | Ahead::Unwatched => {}
        }
        // What is ahead begins without a look, but for the chunk after it.
        let is_last = |(at, _)| state.server.next(at).is_none();
        (ahead != Ahead::Watched && coming.is_some_and(is_last)).then_some(Instant::NEVER)
    }

    /// What all are granted now and ahead, in their order.
    pub(super) fn granted(&self) -> impl Iterator<Item = Grant> {
        self.granted.iter().flatten().copied()
    }
}

/// When to ask again: three quarters of the way from the next begin of one of these chunks to the
/// one after it. By then this chunk, and what begins with it, is mostly used up; the thread that
/// decides takes the core for a while, a millisecond in the lab, and would take it from a budget.
fn asks_at(granted: &[Grant], now: Instant) -> Instant {
    let mut begins = granted.iter().map(|grant| grant.from).filter(|at| *at > now);
    let Some(first) = begins.next() else { return Instant::NEVER };
    let gap = begins.next().map_or(Duration::ZERO, |next| next - first);
    first + Duration::from_ticks(gap.ticks() / 4 * 3)
}

/// Grants what the VCPU has up to `depth` chunks farther, as they come if it goes on running; and
/// what of it has begun, of which it may have used some that is not reported yet.
///
/// What comes after a use that is to come comes later where the VCPU blocks before.
fn grant_foreseen(
    granted: &mut Vec<Grant>,
    state: &State,
    now: Instant,
    depth: usize,
    chunk_min: Duration,
) {
    // Nothing comes back before the last of what is there.
    if !state.runnable() || depth == 0 && state.server.next(now).is_some() {
        return;
    }
    let had = granted[0].until;
    let foreseen = state.server.foreseen(state.foreground, chunk_min);
    let foreseen = foreseen.skip_while(|(_, until)| Limit(*until) <= had);
    for (at, until) in foreseen.take(ahead::DEPTH) {
        // There is room for one beyond, if `depth` is 0.
        let is_beyond = granted.len() > depth;
        if is_beyond && at > now {
            break;
        }
        let Some(last) = granted.last_mut() else { break };
        if last.until < Limit(until) {
            let grant = Grant::new(state.id, Limit(until)).ahead(at).until_wake();
            if is_beyond && last.lapses {
                *last = grant;
            } else {
                granted.push(grant);
            }
        }
    }
}
