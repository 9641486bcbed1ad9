//! Threads that act out scripts: they work, wait for time and for each other, and take locks.
//!
//! Pure state: it knows threads by their numbers, is told when one has done its piece of work or
//! when its alarm went off, and answers by effects, which the machine carries out.
//!
//! # What takes time
//! A thread acts when it runs. Steps that take no time of their own (a lock, a signal) are done at
//! the end of the work before them; after a wake without any before them they take [`LEAST`], and
//! so does each pass of a loop that neither works nor waits.
//!
//! # Order
//! Locks, conditions and semaphores serve who came first. A lock that is given back belongs at once
//! to the first that waits for it. A condition has no memory, a semaphore has.
//!
//! # Jobs
//! Where a policy orders jobs, a thread brings them as a server does: a job is released when the
//! thread has something to do and a period has passed since the one before, and is complete when
//! the thread waits, for a lock too, or has worked for C. So no job needs more than C, none comes
//! early and none suspends itself; a thread that wakes again within a period waits for its end.

#[cfg(test)]
mod tests;
mod waiting;

use crate::workload::NONE;
use maracas_core::script::{LEAST, Script, Scripts, Step};
use maracas_core::{Arrival, Duration, Instant, Reservation, System};
use std::sync::Arc;
use waiting::{Barrier, Lock, Semaphore, Waiters};

/// What follows from what a thread did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// The thread has a piece of work of this length.
    Work {
        thread: u32,
        left: Duration,
        /// It was blocked, and no release says that it is no more.
        woke: bool,
    },
    /// The thread has nothing to do.
    Block(u32),
    /// The thread is to be called again then.
    Alarm(u32, Instant),
    /// A job of the thread is released.
    Release(u32),
    /// The thread's job is complete.
    Complete(u32),
}

/// What a thread came to.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Acted {
    /// Work done, with the moments in which it only acted.
    pub work: Duration,
    /// Passes of its phases.
    pub loops: u64,
    /// How often it did something from a wake to the next wait.
    pub activations: u64,
    /// The sum of how long these took.
    pub response_sum: Duration,
    /// The longest.
    pub response_max: Duration,
    /// How often it waited for a lock.
    pub lock_waits: u64,
    /// For how long in all; the wait in which the run ended counts too.
    pub lock_sum: Duration,
    /// The longest.
    pub lock_max: Duration,
    /// Forks that were not done, as all threads to be forked ran.
    pub unforked: u64,
    /// What it was about when the run ended.
    pub at_end: AtEnd,
}

/// What a thread was about when the run ended.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum AtEnd {
    /// No thread forked it.
    #[default]
    Unforked,
    /// It worked, or waited for a core or its budget.
    Ready,
    /// It waited for a time.
    Sleeps,
    /// It waited for another thread, at this thing, since then.
    Waits(String, Instant),
    /// All its loops were done.
    Over,
}

/// For what a thread waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum On {
    Time,
    Lock(u32),
    Condition(u32),
    Semaphore(u32),
    Barrier(u32),
}

/// What a thread is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Away,
    Works,
    Waits(On),
    /// It has work, and its period is not over.
    Held,
    Over,
}

/// How the jobs of a thread come.
#[derive(Clone, Copy, Debug)]
struct Server {
    reservation: Reservation,
    released: Option<Instant>,
    /// Budget of the open job.
    left: Duration,
    open: bool,
}

/// One thread.
#[derive(Clone, Debug)]
struct Actor {
    state: State,
    /// The next step: its phase, and its place there.
    phase: usize,
    step: usize,
    /// Passes of this phase, and of all.
    turns: u32,
    rounds: u32,
    /// Work left of the present step.
    owed: Duration,
    /// How much of it the machine has been asked for.
    piece: Duration,
    /// The lock to be taken again after a condition.
    relock: Option<u32>,
    /// Since when it is active, or waits by its own will.
    since: Instant,
    /// Since when it waits for a lock.
    lock_since: Instant,
    server: Option<Server>,
    acted: Acted,
}

/// All threads and what they share.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    scripts: Arc<Scripts>,
    actors: Vec<Actor>,
    /// When each timer last came.
    timers: Vec<Option<Instant>>,
    locks: Vec<Lock>,
    conditions: Vec<Waiters>,
    semaphores: Vec<Semaphore>,
    barriers: Vec<Barrier>,
    effects: Vec<Effect>,
}

impl Stage {
    /// The threads before they begin.
    pub(crate) fn new(scripts: &Scripts, system: &System) -> Self {
        let server = |thread: usize| {
            let vcpu = system.vcpus.iter().find(|vcpu| vcpu.id.0 as usize == thread)?;
            (vcpu.arrival != Arrival::None).then_some(Server {
                reservation: vcpu.reservation,
                released: None,
                left: Duration::ZERO,
                open: false,
            })
        };
        let barrier = |it: &maracas_core::script::Barrier| Barrier::new(it.threads);
        Self {
            actors: (0..scripts.threads.len()).map(|it| Actor::new(server(it))).collect(),
            timers: vec![None; scripts.timers.len()],
            locks: vec![Lock::default(); scripts.locks.len()],
            conditions: vec![Waiters::default(); scripts.conditions.len()],
            semaphores: vec![Semaphore::default(); scripts.semaphores.len()],
            barriers: scripts.barriers.iter().map(barrier).collect(),
            effects: Vec::new(),
            scripts: Arc::new(scripts.clone()),
        }
    }

    /// What followed since this was last asked, in order.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The machine starts: a thread that no other forks begins, or sleeps until it does.
    pub(crate) fn start(&mut self, thread: u32, now: Instant) {
        let script = &self.scripts.threads[thread as usize];
        let (forked, start) = (script.forked, script.start);
        if forked {
            return;
        }
        if start > now {
            self.actor(thread).state = State::Waits(On::Time);
            self.effects.push(Effect::Alarm(thread, start));
        } else {
            self.begin(thread, now);
        }
    }

    /// A thread has done the piece of work that was asked for.
    pub(crate) fn worked(&mut self, thread: u32, now: Instant) {
        let actor = self.actor(thread);
        actor.owed = actor.owed.saturating_sub(actor.piece);
        actor.acted.work += actor.piece;
        if let Some(server) = &mut actor.server {
            server.left = server.left.saturating_sub(actor.piece);
        }
        if actor.owed.is_zero() {
            self.act(thread, now);
        } else {
            self.go(thread, now, false);
        }
    }

    /// A thread's alarm went off.
    pub(crate) fn alarm(&mut self, thread: u32, now: Instant) {
        match self.actor(thread).state {
            State::Held => self.go(thread, now, true),
            State::Waits(On::Time) => {
                self.actor(thread).since = now;
                self.ready(thread, now);
            }
            State::Away | State::Works | State::Waits(_) | State::Over => {}
        }
    }

    /// What each thread came to by `now`, given what is left of the piece of work of each.
    pub(crate) fn acted(&self, now: Instant, left: impl Fn(usize) -> Duration) -> Vec<Acted> {
        let of = |(place, actor): (usize, &Actor)| {
            let mut acted = actor.acted.clone();
            let since = actor.since;
            let named = |what: &str, name: &str| AtEnd::Waits(format!("{what} {name}"), since);
            let scripts = &self.scripts;
            acted.at_end = match actor.state {
                State::Away => AtEnd::Unforked,
                State::Works => {
                    acted.work += actor.piece.saturating_sub(left(place));
                    AtEnd::Ready
                }
                State::Held => AtEnd::Ready,
                State::Over => AtEnd::Over,
                State::Waits(On::Time) => AtEnd::Sleeps,
                State::Waits(On::Lock(it)) => {
                    acted.waited_for_lock(now - actor.lock_since);
                    AtEnd::Waits(format!("lock {}", scripts.locks[it as usize]), actor.lock_since)
                }
                State::Waits(On::Condition(it)) => {
                    named("condition", &scripts.conditions[it as usize])
                }
                State::Waits(On::Semaphore(it)) => {
                    named("semaphore", &scripts.semaphores[it as usize])
                }
                State::Waits(On::Barrier(it)) => {
                    named("barrier", &scripts.barriers[it as usize].name)
                }
            };
            acted
        };
        self.actors.iter().enumerate().map(of).collect()
    }

    fn actor(&mut self, thread: u32) -> &mut Actor {
        &mut self.actors[thread as usize]
    }

    /// A thread begins its script, for the first time or anew.
    fn begin(&mut self, thread: u32, now: Instant) {
        let scripts = Arc::clone(&self.scripts);
        for (last, timer) in self.timers.iter_mut().zip(&scripts.timers) {
            if timer.own == Some(thread) {
                *last = None;
            }
        }
        let actor = self.actor(thread);
        (actor.phase, actor.step, actor.turns, actor.rounds) = (0, 0, 0, 0);
        (actor.since, actor.state) = (now, State::Works);
        self.ready(thread, now);
    }

    /// A thread can go on: with its next work, or with a moment in which to act.
    fn ready(&mut self, thread: u32, now: Instant) {
        let scripts = Arc::clone(&self.scripts);
        let script = &scripts.threads[thread as usize];
        let actor = self.actor(thread);
        actor.owed = match actor.next(script) {
            Some(Step::Run(work)) if !work.is_zero() => {
                actor.advance(script);
                *work
            }
            Some(_) | None => LEAST,
        };
        self.go(thread, now, true);
    }

    /// A thread works off what it owes, as far as its budget allows.
    fn go(&mut self, thread: u32, now: Instant, woke: bool) {
        let actor = &mut self.actors[thread as usize];
        (actor.state, actor.piece) = (State::Works, actor.owed);
        let mut released = false;
        if let Some(server) = &mut actor.server {
            if !server.open || server.left.is_zero() {
                if std::mem::take(&mut server.open) {
                    self.effects.push(Effect::Complete(thread));
                }
                let period = server.reservation.period;
                let next = server.released.map_or(now, |last| last.saturating_add(period));
                if next > now {
                    actor.state = State::Held;
                    self.effects.extend([Effect::Block(thread), Effect::Alarm(thread, next)]);
                    return;
                }
                (server.open, server.released) = (true, Some(now));
                server.left = server.reservation.budget;
                released = true;
                self.effects.push(Effect::Release(thread));
            }
            actor.piece = actor.owed.min(server.left);
        }
        let (left, woke) = (actor.piece, woke && !released);
        self.effects.push(Effect::Work { thread, left, woke });
    }

    /// A thread does its next steps, up to its next work or wait.
    fn act(&mut self, thread: u32, now: Instant) {
        let scripts = Arc::clone(&self.scripts);
        let script = &scripts.threads[thread as usize];
        let mut passes = 0;
        while passes < 2 {
            let actor = self.actor(thread);
            let Some(step) = actor.next(script) else {
                self.end_activation(thread, now);
                self.actor(thread).state = State::Over;
                return self.effects.push(Effect::Block(thread));
            };
            passes += u32::from(actor.advance(script));
            if let Step::Run(work) = step {
                if !work.is_zero() {
                    actor.owed = *work;
                    return self.go(thread, now, false);
                }
            } else if self.does(thread, step, now) {
                return self.effects.push(Effect::Block(thread));
            }
        }
        self.actor(thread).owed = LEAST;
        self.go(thread, now, false);
    }

    /// Does a step that is no work. Returns whether the thread waits then.
    fn does(&mut self, thread: u32, step: &Step, now: Instant) -> bool {
        match step {
            Step::Run(_) => return false,
            Step::Sleep(time) if time.is_zero() => return false,
            Step::Sleep(time) => self.sleep(thread, now, now.saturating_add(*time)),
            Step::Timer { timer, period } => {
                return self.wait_for_timer(thread, *timer, *period, now);
            }
            Step::Lock(lock) => return !self.take_lock(thread, *lock, now),
            Step::Unlock(lock) => {
                self.give_back(thread, *lock, now);
                return false;
            }
            Step::Wait { condition, lock } => {
                if let Some(lock) = lock {
                    self.give_back(thread, *lock, now);
                }
                self.actor(thread).relock = *lock;
                self.conditions[*condition as usize].push_back(thread);
                self.wait(thread, On::Condition(*condition), now);
            }
            Step::Signal(condition) => {
                let woken = self.conditions[*condition as usize].pop_front();
                woken.into_iter().for_each(|other| self.woken(other, now));
                return false;
            }
            Step::Broadcast(condition) => {
                let woken = std::mem::take(&mut self.conditions[*condition as usize]);
                woken.into_iter().for_each(|other| self.woken(other, now));
                return false;
            }
            Step::Post(semaphore) => {
                let woken = self.semaphores[*semaphore as usize].post();
                woken.into_iter().for_each(|other| self.woken(other, now));
                return false;
            }
            Step::Take(semaphore) => {
                if self.semaphores[*semaphore as usize].take(thread) {
                    return false;
                }
                self.wait(thread, On::Semaphore(*semaphore), now);
            }
            Step::Barrier(barrier) => {
                if let Some(others) = self.barriers[*barrier as usize].meet(thread) {
                    others.into_iter().for_each(|other| self.woken(other, now));
                    return false;
                }
                self.wait(thread, On::Barrier(*barrier), now);
            }
            Step::Fork(threads) => {
                let is_free = |it: &&u32| {
                    matches!(self.actors[**it as usize].state, State::Away | State::Over)
                };
                match threads.iter().find(is_free) {
                    Some(child) => self.begin(*child, now),
                    None => self.actor(thread).acted.unforked += 1,
                }
                return false;
            }
        }
        true
    }

    /// A thread waits for its timer, if it does not come late. Returns whether it does.
    fn wait_for_timer(&mut self, thread: u32, timer: u32, period: Duration, now: Instant) -> bool {
        let scripts = Arc::clone(&self.scripts);
        let last = &mut self.timers[timer as usize];
        let start = scripts.threads[thread as usize].start;
        let next = last.unwrap_or(start).saturating_add(period);
        *last = Some(next);
        if next > now {
            self.sleep(thread, now, next);
            return true;
        }
        let begins = if scripts.timers[timer as usize].absolute { next } else { now };
        self.timers[timer as usize] = Some(begins);
        self.end_activation(thread, now);
        self.actor(thread).since = begins;
        false
    }

    fn sleep(&mut self, thread: u32, now: Instant, until: Instant) {
        self.wait(thread, On::Time, now);
        self.effects.push(Effect::Alarm(thread, until));
    }

    /// A thread waits by its own will: what it did since its wake is over.
    fn wait(&mut self, thread: u32, on: On, now: Instant) {
        self.end_activation(thread, now);
        let actor = self.actor(thread);
        (actor.state, actor.since) = (State::Waits(on), now);
    }

    fn end_activation(&mut self, thread: u32, now: Instant) {
        let actor = &mut self.actors[thread as usize];
        let response = now.saturating_since(actor.since);
        actor.acted.activations += 1;
        actor.acted.response_sum += response;
        actor.acted.response_max = actor.acted.response_max.max(response);
        self.close(thread);
    }

    /// The thread's job is complete, if it has one.
    fn close(&mut self, thread: u32) {
        let server = self.actor(thread).server.as_mut();
        if let Some(server) = server.filter(|server| server.open) {
            server.open = false;
            self.effects.push(Effect::Complete(thread));
        }
    }

    /// A thread asks for a lock. Returns whether it has it.
    fn take_lock(&mut self, thread: u32, lock: u32, now: Instant) -> bool {
        if self.locks[lock as usize].take(thread) {
            return true;
        }
        self.close(thread);
        let actor = self.actor(thread);
        actor.state = State::Waits(On::Lock(lock));
        actor.lock_since = now;
        false
    }

    /// A thread gives a lock back, if it holds it: to the first that waits.
    fn give_back(&mut self, thread: u32, lock: u32, now: Instant) {
        if let Some(next) = self.locks[lock as usize].give_back(thread) {
            let actor = self.actor(next);
            let waited = now - actor.lock_since;
            actor.acted.waited_for_lock(waited);
            self.ready(next, now);
        }
    }

    /// A thread that waited for others is woken by one; it first takes its lock again.
    fn woken(&mut self, thread: u32, now: Instant) {
        let actor = self.actor(thread);
        actor.since = now;
        let relock = actor.relock.take();
        if relock.is_none_or(|lock| self.take_lock(thread, lock, now)) {
            self.ready(thread, now);
        }
    }
}

impl Actor {
    fn new(server: Option<Server>) -> Self {
        Self {
            state: State::Away,
            phase: 0,
            step: 0,
            turns: 0,
            rounds: 0,
            owed: Duration::ZERO,
            piece: Duration::ZERO,
            relock: None,
            since: Instant::ZERO,
            lock_since: Instant::ZERO,
            server,
            acted: Acted::default(),
        }
    }

    /// The step to be done next; `None` where all loops are done.
    fn next<'a>(&self, script: &'a Script) -> Option<&'a Step> {
        let over = script.loops.is_some_and(|loops| self.rounds >= loops);
        (!over).then(|| &script.phases[self.phase].steps[self.step])
    }

    /// Goes to the step after the next. Returns whether a pass of a phase is over.
    fn advance(&mut self, script: &Script) -> bool {
        let phase = &script.phases[self.phase];
        self.step += 1;
        if self.step < phase.steps.len() {
            return false;
        }
        self.step = 0;
        self.acted.loops += 1;
        self.turns = self.turns.saturating_add(1);
        if phase.loops.is_some_and(|loops| self.turns >= loops) {
            (self.turns, self.phase) = (0, self.phase + 1);
            if self.phase == script.phases.len() {
                // A script that goes on for ever counts its rounds no further than fits.
                (self.phase, self.rounds) = (0, self.rounds.saturating_add(1));
            }
        }
        true
    }
}

impl Acted {
    fn waited_for_lock(&mut self, time: Duration) {
        self.lock_waits += 1;
        self.lock_sum += time;
        self.lock_max = self.lock_max.max(time);
    }
}
