//! The agents: one real-time thread on each managed core, asleep until something there needs it.
//!
//! An agent that wakes first *enforces*: whoever reached his mark on this core stops, by the law
//! and the line that the core has already. Only then it tries to take the [`Brain`]. Whoever holds
//! it reads the records of all cores, tells the policy, and enacts the plan on all cores: raising a
//! thread of another core costs 4 us, waking the agent there three times that. Who finds the brain
//! taken goes back to sleep, for the holder looks again after letting go ([`Council::consult`]).

pub(crate) mod wait;

use crate::enact::Core;
use crate::guardian::Hearts;
use crate::machine::brain::Brain;
use maracas_core::{CoreId, Duration, VcpuId};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use wait::{Bell, Token, wait};

/// The agents' real-time priority: above all programs, below the guardian (99).
pub(crate) const PRIORITY: u8 = 98;

/// How many decisions an agent takes in a row, where others keep bringing news, before it looks
/// after its own core again: 60 to 200 us.
const ROUNDS: usize = 4;

/// What all agents share.
pub(crate) struct Council<'a> {
    pub(crate) cores: &'a [Mutex<Core>],
    pub(crate) brain: Mutex<Brain<'a>>,
    /// One bell an agent.
    pub(crate) bells: Vec<Arc<Bell>>,
    /// Rings when the mailbox has a request; the first core's agent listens.
    pub(crate) mail: &'a Bell,
    /// Told the guardian that the agents live; `None` where there is no guardian.
    pub(crate) hearts: Option<Hearts>,
    /// Something happened that no decision has seen.
    pub(crate) unseen: AtomicBool,
    /// Agents shall end.
    pub(crate) halt: AtomicBool,
    /// What those that have ended took of their cores, in nanoseconds.
    taken_ns: AtomicU64,
}

impl<'a> Council<'a> {
    /// A council of the agents of `cores`, none of which lives yet.
    pub(crate) fn new(
        cores: &'a [Mutex<Core>],
        brain: Brain<'a>,
        mail: &'a Bell,
        hearts: Option<Hearts>,
    ) -> io::Result<Self> {
        let bells = cores.iter().map(|core| Arc::clone(&lock(core).bell)).collect();
        if let Some(first) = cores.first() {
            lock(first).poll.add(mail.fd(), Token::Mail)?;
        }
        let (unseen, halt) = (AtomicBool::new(false), AtomicBool::new(false));
        let (brain, taken_ns) = (Mutex::new(brain), AtomicU64::new(0));
        Ok(Self { cores, brain, bells, mail, hearts, unseen, halt, taken_ns })
    }

    /// The life of the agent of `core`.
    pub(crate) fn live(&self, core: CoreId) -> io::Result<()> {
        let (own, index) = (&self.cores[usize::from(core.0)], usize::from(core.0));
        let (poll, clock) = {
            let own = lock(own);
            (own.poll.fd(), own.clock().clone())
        };
        let mut ready = Vec::with_capacity(64);
        let mut births = Vec::with_capacity(64);
        // The first decision is due at once.
        self.consult(core, true);
        while !self.halt.load(Ordering::Acquire) {
            let due_ns = clock.monotonic_ns(lock(own).sleep());
            self.hearts.iter().for_each(|hearts| hearts.sleeps(index, due_ns));
            wait(poll, Some(due_ns), &mut ready)?;
            let now_ns = clock.monotonic_ns(clock.now());
            self.hearts.iter().for_each(|hearts| hearts.wakes(index, now_ns));
            let news = self.enforce(core, &ready, &mut births);
            self.consult(core, news);
        }
        if let Some(hearts) = &self.hearts {
            hearts.rest(index);
        }
        Ok(())
    }

    /// Looks at the agent's own core; whether there is anything to decide.
    fn enforce(&self, core: CoreId, ready: &[Token], births: &mut Vec<VcpuId>) -> bool {
        births.clear();
        let own = &self.cores[usize::from(core.0)];
        let (mut crossed, mut mail) = (false, false);
        for token in ready {
            match token {
                Token::Vcpu(vcpu) => births.push(*vcpu),
                Token::Meter => crossed = true,
                Token::Mail => {
                    self.mail.hush();
                    mail = true;
                }
                Token::Bell => self.bells[usize::from(core.0)].hush(),
                // Half of the ring is full: it is read with the next decision.
                Token::Records => mail = true,
                Token::Guardian | Token::Ended(_) => {}
            }
        }
        lock(own).enforce(births, crossed) || mail
    }

    /// Decides, where there is something to decide, unless another agent does: then that one will
    /// look again. Where the news do not end the next core's agent goes on, for who decides does
    /// not enforce.
    fn consult(&self, core: CoreId, news: bool) {
        if news {
            self.unseen.store(true, Ordering::SeqCst);
        }
        for _ in 0..ROUNDS {
            if !self.unseen.load(Ordering::SeqCst) {
                return;
            }
            match self.brain.try_lock() {
                Ok(mut brain) => {
                    self.unseen.store(false, Ordering::SeqCst);
                    let called = brain.round(core);
                    drop(brain);
                    called.iter().for_each(|core| self.call(core));
                }
                Err(TryLockError::WouldBlock) => return,
                // Another agent panicked in there: the run is ending.
                Err(TryLockError::Poisoned(_)) => return,
            }
        }
        if self.unseen.load(Ordering::SeqCst) {
            let next = (usize::from(core.0) + 1) % self.bells.len();
            self.bells[next].ring();
        }
    }

    /// Lets the agent of `core` look at its own core and decide.
    fn call(&self, core: CoreId) {
        self.unseen.store(true, Ordering::SeqCst);
        self.bells[usize::from(core.0)].ring();
    }

    /// A thread of the machine has ended and took so long of its core.
    pub(crate) fn took(&self, time: Duration) {
        self.taken_ns.fetch_add(time.ticks(), Ordering::Relaxed);
    }
    /// What all that have ended took.
    pub(crate) fn taken(&self) -> Duration {
        Duration::from_nanos(self.taken_ns.load(Ordering::Relaxed))
    }

    /// Lets all agents end.
    pub(crate) fn stop(&self) {
        self.halt.store(true, Ordering::Release);
        self.bells.iter().for_each(|bell| bell.ring());
        self.cores.iter().for_each(|core| lock(core).brakes.stop());
    }
}

/// The state of a core stays usable when an agent panicked: it is needed to release the threads.
pub(crate) fn lock(core: &Mutex<Core>) -> MutexGuard<'_, Core> {
    core.lock().unwrap_or_else(PoisonError::into_inner)
}
