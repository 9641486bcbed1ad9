//! Threads that execute scripts: they work, wait for time and for each other, and take locks.
//!
//! Pure state: it knows threads by their numbers, is told when one has done its piece of work or
//! when its alarm went off, and answers by effects, which the machine carries out.
//!
//! # What takes time
//! A thread acts when it runs. Steps that take no time of their own (a lock, a signal) are done at
//! the end of the work before them. After a wake without any before them they take [`MIN_STEP`],
//! and so does coming back to one that was done already since the last work, wake or [`MIN_STEP`].
//!
//! # Order
//! Locks, conditions and semaphores serve who came first. A lock that is given back belongs at once
//! to the first that waits for it. A condition has no memory, a semaphore has.
//!
//! # Jobs
//! Where a policy orders jobs, a thread brings them as a server does: a job is released when the
//! thread has something to do and a period has passed since the one before, and is complete when
//! the thread waits, for a lock too, comes late to a timer, or has worked for C. So no job needs
//! more than C, none comes early and none suspends itself; a thread that wakes again within a
//! period waits for its end.

#[cfg(test)]
mod tests;
mod waiting;

use crate::workload::NONE;
use maracas_core::script::{MIN_STEP, Script, Scripts, Step};
use maracas_core::{Arrival, Duration, Instant, Reservation, System};
use std::collections::BTreeSet;
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
pub struct ThreadOutcome {
    /// Work done, with the moments in which it only acted.
    pub work: Duration,
    /// Passes of its phases, whose last step was done.
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
struct ThreadState {
    state: State,
    /// The next step: its phase, and its place there.
    place: (usize, usize),
    /// Passes of this phase, and of all.
    turns: u32,
    rounds: u32,
    /// Its present step is the last of a pass.
    at_last: bool,
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
    acted: ThreadOutcome,
}

/// All threads and what they share.
#[derive(Clone, Debug)]
pub(crate) struct ScriptedThreads {
    scripts: Arc<Scripts>,
    threads: Vec<ThreadState>,
    /// When each timer last came.
    timers: Vec<Option<Instant>>,
    locks: Vec<Lock>,
    conditions: Vec<Waiters>,
    semaphores: Vec<Semaphore>,
    barriers: Vec<Barrier>,
    effects: Vec<Effect>,
}

impl ScriptedThreads {
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
            threads: (0..scripts.threads.len()).map(|it| ThreadState::new(server(it))).collect(),
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

    /// The machine starts: a thread that no other forks begins.
    pub(crate) fn start(&mut self, thread: u32, now: Instant) {
        if !self.scripts.threads[thread as usize].forked {
            self.begin(thread, now);
        }
    }

    /// A thread has done the piece of work that was asked for.
    pub(crate) fn worked(&mut self, thread: u32, now: Instant) {
        let own = self.own(thread);
        own.owed = own.owed.saturating_sub(own.piece);
        own.acted.work += own.piece;
        if let Some(server) = &mut own.server {
            server.left = server.left.saturating_sub(own.piece);
        }
        if own.owed.is_zero() {
            self.execute(thread, now);
        } else {
            self.go(thread, now, false);
        }
    }

    /// A thread's alarm went off.
    pub(crate) fn alarm(&mut self, thread: u32, now: Instant) {
        match self.own(thread).state {
            State::Held => self.go(thread, now, true),
            State::Waits(On::Time) => {
                self.own(thread).since = now;
                self.ready(thread, now);
            }
            State::Away | State::Works | State::Waits(_) | State::Over => {}
        }
    }

    /// What each thread came to by `now`, given what is left of the piece of work of each.
    pub(crate) fn acted(
        &self,
        now: Instant,
        left: impl Fn(usize) -> Duration,
    ) -> Vec<ThreadOutcome> {
        let of = |(place, own): (usize, &ThreadState)| {
            let mut acted = own.acted.clone();
            let since = own.since;
            let named = |what: &str, name: &str| AtEnd::Waits(format!("{what} {name}"), since);
            let scripts = &self.scripts;
            acted.at_end = match own.state {
                State::Away => AtEnd::Unforked,
                State::Works => {
                    acted.work += own.piece.saturating_sub(left(place));
                    AtEnd::Ready
                }
                State::Held => AtEnd::Ready,
                State::Over => AtEnd::Over,
                State::Waits(On::Time) => AtEnd::Sleeps,
                State::Waits(On::Lock(it)) => {
                    acted.waited_for_lock(now - own.lock_since);
                    AtEnd::Waits(format!("lock {}", scripts.locks[it as usize]), own.lock_since)
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
        self.threads.iter().enumerate().map(of).collect()
    }

    fn own(&mut self, thread: u32) -> &mut ThreadState {
        &mut self.threads[thread as usize]
    }

    /// A thread begins its script, for the first time or anew, or sleeps until it is to begin. As
    /// in rt-app its delay counts from the start of the machine, also where it is forked.
    fn begin(&mut self, thread: u32, now: Instant) {
        let scripts = Arc::clone(&self.scripts);
        let script = &scripts.threads[thread as usize];
        for step in script.steps() {
            if let Step::Timer { timer, .. } = step {
                let timer = *timer as usize;
                if scripts.timers[timer].own == Some(thread) {
                    self.timers[timer] = None;
                }
            }
        }
        let own = self.own(thread);
        (own.place, own.turns, own.rounds) = ((0, 0), 0, 0);
        (own.since, own.state) = (now, State::Waits(On::Time));
        if script.start > now {
            self.effects.push(Effect::Alarm(thread, script.start));
        } else {
            self.ready(thread, now);
        }
    }

    /// A thread can go on: with its next work, or with a moment in which to act.
    fn ready(&mut self, thread: u32, now: Instant) {
        let scripts = Arc::clone(&self.scripts);
        let script = &scripts.threads[thread as usize];
        let own = self.own(thread);
        own.count_pass();
        own.owed = match own.next(script) {
            Some(Step::Run(work)) if !work.is_zero() => {
                own.advance(script);
                *work
            }
            Some(_) | None => MIN_STEP,
        };
        self.go(thread, now, true);
    }

    /// A thread works off what it owes, as far as its budget allows.
    fn go(&mut self, thread: u32, now: Instant, woke: bool) {
        let own = &mut self.threads[thread as usize];
        (own.state, own.piece) = (State::Works, own.owed);
        let mut released = false;
        if let Some(server) = &mut own.server {
            if !server.open || server.left.is_zero() {
                if std::mem::take(&mut server.open) {
                    self.effects.push(Effect::Complete(thread));
                }
                let period = server.reservation.period;
                let next = server.released.map_or(now, |last| last.saturating_add(period));
                if next > now {
                    own.state = State::Held;
                    self.effects.extend([Effect::Block(thread), Effect::Alarm(thread, next)]);
                    return;
                }
                (server.open, server.released) = (true, Some(now));
                server.left = server.reservation.budget;
                released = true;
                self.effects.push(Effect::Release(thread));
            }
            own.piece = own.owed.min(server.left);
        }
        let (left, woke) = (own.piece, woke && !released);
        self.effects.push(Effect::Work { thread, left, woke });
    }

    /// A thread does its next steps, up to its next work or wait, or to a step that it has done
    /// already within this call. Such a step is the first or begins a phase: to any other leads
    /// only the one before.
    fn execute(&mut self, thread: u32, now: Instant) {
        let scripts = Arc::clone(&self.scripts);
        let script = &scripts.threads[thread as usize];
        let first = self.own(thread).place;
        let mut begun = BTreeSet::new();
        loop {
            let own = self.own(thread);
            own.count_pass();
            let Some(step) = own.next(script) else {
                self.end_activation(thread, now);
                self.own(thread).state = State::Over;
                return self.effects.push(Effect::Block(thread));
            };
            own.advance(script);
            if let Step::Run(work) = step {
                if !work.is_zero() {
                    own.owed = *work;
                    return self.go(thread, now, false);
                }
            } else if self.does(thread, step, now) {
                return self.effects.push(Effect::Block(thread));
            }
            let own = self.own(thread);
            let (phase, step) = own.place;
            let again = (phase, step) == first || (step == 0 && !begun.insert(phase));
            if again && own.next(script).is_some() {
                own.count_pass();
                own.owed = MIN_STEP;
                return self.go(thread, now, false);
            }
        }
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
                self.own(thread).relock = *lock;
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
                    matches!(self.threads[**it as usize].state, State::Away | State::Over)
                };
                match threads.iter().find(is_free) {
                    Some(child) => self.begin(*child, now),
                    None => self.own(thread).acted.unforked += 1,
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
        self.own(thread).since = begins;
        false
    }

    fn sleep(&mut self, thread: u32, now: Instant, until: Instant) {
        self.wait(thread, On::Time, now);
        self.effects.push(Effect::Alarm(thread, until));
    }

    /// A thread waits by its own will: what it did since its wake is over.
    fn wait(&mut self, thread: u32, on: On, now: Instant) {
        self.end_activation(thread, now);
        let own = self.own(thread);
        (own.state, own.since) = (State::Waits(on), now);
    }

    fn end_activation(&mut self, thread: u32, now: Instant) {
        let own = &mut self.threads[thread as usize];
        let response = now.saturating_since(own.since);
        own.acted.activations += 1;
        own.acted.response_sum += response;
        own.acted.response_max = own.acted.response_max.max(response);
        self.close(thread);
    }

    /// The thread's job is complete, if it has one.
    fn close(&mut self, thread: u32) {
        let server = self.own(thread).server.as_mut();
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
        let own = self.own(thread);
        own.state = State::Waits(On::Lock(lock));
        own.lock_since = now;
        false
    }

    /// A thread gives a lock back, if it holds it: to the first that waits.
    fn give_back(&mut self, thread: u32, lock: u32, now: Instant) {
        if let Some(next) = self.locks[lock as usize].give_back(thread) {
            let own = self.own(next);
            let waited = now - own.lock_since;
            own.acted.waited_for_lock(waited);
            self.ready(next, now);
        }
    }

    /// A thread that waited for others is woken by one; it first takes its lock again.
    fn woken(&mut self, thread: u32, now: Instant) {
        let own = self.own(thread);
        own.since = now;
        let relock = own.relock.take();
        if relock.is_none_or(|lock| self.take_lock(thread, lock, now)) {
            self.ready(thread, now);
        }
    }
}

impl ThreadState {
    fn new(server: Option<Server>) -> Self {
        Self {
            state: State::Away,
            place: (0, 0),
            turns: 0,
            rounds: 0,
            at_last: false,
            owed: Duration::ZERO,
            piece: Duration::ZERO,
            relock: None,
            since: Instant::ZERO,
            lock_since: Instant::ZERO,
            server,
            acted: ThreadOutcome::default(),
        }
    }

    /// The step to be done next; `None` where all loops are done.
    fn next<'a>(&self, script: &'a Script) -> Option<&'a Step> {
        let over = script.loops.is_some_and(|loops| self.rounds >= loops);
        (!over).then(|| &script.phases[self.place.0].steps[self.place.1])
    }

    /// Goes to the step after the next.
    fn advance(&mut self, script: &Script) {
        let (at, step) = self.place;
        let phase = &script.phases[at];
        self.at_last = step + 1 == phase.steps.len();
        self.place.1 = if self.at_last { 0 } else { step + 1 };
        if !self.at_last {
            return;
        }
        self.turns = self.turns.saturating_add(1);
        if phase.loops.is_some_and(|loops| self.turns >= loops) {
            (self.turns, self.place) = (0, (at + 1, 0));
            if at + 1 == script.phases.len() {
                // A script that goes on for ever counts its rounds no further than fits.
                (self.place, self.rounds) = ((0, 0), self.rounds.saturating_add(1));
            }
        }
    }

    /// The present step is done: so is the pass of its phase, if it is the last there.
    fn count_pass(&mut self) {
        self.acted.loops += u64::from(std::mem::take(&mut self.at_last));
    }
}

impl ThreadOutcome {
    fn waited_for_lock(&mut self, time: Duration) {
        self.lock_waits += 1;
        self.lock_sum += time;
        self.lock_max = self.lock_max.max(time);
    }
}
