//! The agents: one real-time thread on each managed core, asleep until something there needs it.
//!
//! An agent that wakes first *enforces*: the VCPUs that reached their limit on this core stop, by
//! the law and the run queue that the core has already. Only then it tries to decide
//! ([`crate::deciders`]): for its own group of cores, where the policy lets groups decide alone,
//! else for all.
//! The agent that decides for all reads the records of all cores, reports to the policy, and enacts
//! the plan on all cores: raising a thread of another core costs 4 us, waking the agent there three
//! times that. An agent that finds others at it goes back to sleep, for they look again after
//! letting go ([`Agents::consult`]).

use crate::deciders::Deciders;
use crate::executor::freeze_thread::FreezeQueue;
use crate::executor::{Core, lock};
use crate::guardian::stuck::{NEIGHBOUR_PATIENCE, Neighbours};
use crate::guardian::{Cause, Ending, Heartbeats};
use crate::host::sched;
use crate::host::wait::{Token, Wakeup, wait};
use crate::machine::handle::Mailbox;
use crate::machine::jobs::Done;
use crate::machine::this_host::Decider;
use maracas_core::{CoreId, Duration, Instant, VcpuId};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// How many decisions an agent takes in a row, where others keep bringing news, before it looks
/// after its own core again: 60 to 200 us.
const ROUNDS: usize = 4;

/// How long an agent sleeps at most while the guardian is at work on its core: what it sets right
/// may be undone again.
const RELIEF_LOOK: Duration = Duration::from_millis(5);

/// For so long an agent that has ended is not taken for stuck: letting its VCPUs go takes
/// milliseconds.
const HANDOVER: Duration = Duration::from_secs(1);

/// What all agents share.
pub(crate) struct Agents<'a> {
    pub(crate) cores: &'a [Arc<Mutex<Core>>],
    pub(crate) deciders: Deciders<Decider>,
    /// One wake-up an agent.
    pub(crate) wakeups: Vec<Arc<Wakeup>>,
    /// What the freeze thread of each core is asked to do.
    freeze_queues: Vec<Arc<FreezeQueue>>,
    /// Signalled when the mailbox has a request; the first core's agent waits for it.
    pub(crate) mail: &'a Wakeup,
    /// Jobs that are done, of the VCPUs of each core.
    done: &'a [Done],
    /// Says to the guardian that the agents live; `None` where there is no guardian.
    pub(crate) heartbeats: Option<Heartbeats>,
    /// Agents are to end.
    pub(crate) halt: AtomicBool,
    /// What those that have ended took of their cores, in nanoseconds.
    taken_ns: AtomicU64,
}

impl<'a> Agents<'a> {
    /// The agents of `cores`, none of which lives yet.
    pub(crate) fn new(
        cores: &'a [Arc<Mutex<Core>>],
        deciders: Deciders<Decider>,
        mailbox: &'a Mailbox,
        heartbeats: Option<Heartbeats>,
    ) -> io::Result<Self> {
        let wakeups = cores.iter().map(|core| Arc::clone(&lock(core).exec.wakeup)).collect();
        let freeze_queues =
            cores.iter().map(|core| Arc::clone(&lock(core).exec.freeze_queue)).collect();
        let (mail, done) = (mailbox.wakeup(), &mailbox.jobs.done);
        if let Some(first) = cores.first() {
            lock(first).exec.poll.add(mail.fd(), Token::Mail)?;
        }
        for (core, done) in cores.iter().zip(done.iter()) {
            lock(core).exec.poll.add(done.wakeup.fd(), Token::Done)?;
        }
        let (halt, taken_ns) = (AtomicBool::new(false), AtomicU64::new(0));
        Ok(Self { cores, deciders, wakeups, freeze_queues, mail, done, heartbeats, halt, taken_ns })
    }

    /// The life of the agent of `core`.
    pub(crate) fn live(&self, core: CoreId) -> io::Result<()> {
        let (own, index) = (&self.cores[usize::from(core.0)], usize::from(core.0));
        let (poll, clock, hardware) = {
            let own = lock(own);
            (own.exec.poll.fd(), own.exec.clock.clone(), own.exec.hardware)
        };
        let mut ready = Vec::with_capacity(64);
        let mut births = Vec::with_capacity(64);
        let mut neighbours = Neighbours::default();
        let ns = |at: Instant| clock.monotonic_ns(at);
        self.heartbeats.iter().for_each(|heartbeats| heartbeats.wakes(index, ns(clock.now())));
        // The first decision is due at once.
        self.deciders.tell_all();
        self.consult(core, clock.now());
        while !self.halt.load(Ordering::Acquire) {
            let (now, mut due) = lock(own).sleep();
            if let Some(heartbeats) = &self.heartbeats {
                if heartbeats.is_being_relieved(index) {
                    due = due.min(now.saturating_add(RELIEF_LOOK));
                }
                let look_ns = neighbours.look_again_ns(index).unwrap_or(u64::MAX);
                due = due.min(clock.instant(look_ns)).max(now);
                heartbeats.sleeps_from(index, ns(now), ns(due));
            }
            wait(poll, Some(due.saturating_since(now)), &mut ready)?;
            let now = clock.now();
            self.heartbeats.iter().for_each(|heartbeats| heartbeats.wakes(index, ns(now)));
            if !sched::is_on(hardware) {
                self.leave(core);
                break;
            }
            if self.enforce(core, now, &ready, &mut births) {
                self.deciders.tell(core);
            }
            self.consult(core, now);
            self.look_around(core, ns(now), &mut neighbours);
        }
        // What is raised still is let go by the thread that waits for the agents; until then the
        // guardian watches.
        let rest = clock.now().saturating_add(HANDOVER);
        self.heartbeats.iter().for_each(|heartbeats| heartbeats.sleeps(index, ns(rest)));
        match self.halt.load(Ordering::Acquire) {
            true => Ok(()),
            // The supervisor reads this and ends the run.
            false => Err(io::Error::other("driven off the core")),
        }
    }

    /// The agent was driven off its core: the kernel does so while a core goes off line, and takes
    /// what runs there along, at its real-time priority, to where no meter counts it. That would
    /// keep the other core from going on, and this one from going off line. So all of it is taken
    /// down, and the run ends.
    fn leave(&self, core: CoreId) {
        let agent = usize::from(core.0);
        if let Some(heartbeats) = &self.heartbeats {
            heartbeats.ask_end(&Ending {
                cause: Cause::Away,
                agent,
                lasted: std::time::Duration::ZERO,
            });
        }
        let freeze_queue = &self.freeze_queues[agent];
        lock(&self.cores[agent]).take_down(|vcpu| freeze_queue.post(&vcpu.freezable_group, true));
    }

    /// Acts for neighbours that are stuck: stops what runs on their cores.
    fn look_around(&self, core: CoreId, now_ns: u64, neighbours: &mut Neighbours) {
        let (Some(heartbeats), own) = (&self.heartbeats, usize::from(core.0)) else { return };
        for (agent, late) in neighbours.overdue(heartbeats, own, now_ns, NEIGHBOUR_PATIENCE) {
            // Held by an agent that is stuck itself: the guardian sees to it.
            let Some(Ok(mut stuck)) = self.cores.get(agent).map(|it| it.try_lock()) else {
                continue;
            };
            let (late, freeze_queue) =
                (Duration::from_nanos(late.as_nanos() as u64), &self.freeze_queues[own]);
            stuck.relieve(late, |vcpu| freeze_queue.post(&vcpu.freezable_group, true));
        }
    }

    /// Looks at the agent's own core; whether there is anything to decide.
    fn enforce(
        &self,
        core: CoreId,
        now: Instant,
        ready: &[Token],
        births: &mut Vec<VcpuId>,
    ) -> bool {
        births.clear();
        let own = &self.cores[usize::from(core.0)];
        let (mut crossed, mut news) = (false, false);
        for token in ready {
            match token {
                Token::Vcpu(vcpu) => births.push(*vcpu),
                Token::Meter => crossed = true,
                Token::Mail => {
                    self.mail.acknowledge();
                    self.deciders.tell_all();
                }
                Token::Done => {
                    self.done[usize::from(core.0)].wakeup.acknowledge();
                    news = true;
                }
                Token::Wakeup => self.wakeups[usize::from(core.0)].acknowledge(),
                // Half of the ring is full: it is read with the next decision.
                Token::Records => news = true,
                Token::Guardian | Token::Ended(_) => {}
            }
        }
        let relief =
            self.heartbeats.as_ref().map(|heartbeats| heartbeats.relief(usize::from(core.0)));
        let (mut own, now) = match own.try_lock() {
            Ok(own) => (own, now),
            // While it waited for another agent, what it enforces ran on.
            Err(_) => {
                let own = lock(own);
                let now = own.exec.clock.now();
                (own, now)
            }
        };
        own.enforce(now, births, crossed, relief) || news
    }

    /// Decides, where there is something to decide, unless another agent does: then that one will
    /// look again. Where new causes keep coming the next core's agent goes on, for an agent that
    /// decides does not enforce. The agent woke at `now`.
    fn consult(&self, core: CoreId, now: Instant) {
        let mut woke = Some(now);
        for _ in 0..ROUNDS {
            let Some(called) = self.deciders.round(core, woke.take()) else { return };
            called.iter().for_each(|core| self.wakeups[usize::from(core.0)].ring());
        }
        if let Some(heir) = self.deciders.heir(core, self.wakeups.len()) {
            self.wakeups[usize::from(heir.0)].ring();
        }
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
        self.wakeups.iter().for_each(|wakeup| wakeup.ring());
        self.cores.iter().for_each(|core| lock(core).exec.freeze_queue.stop());
    }
}
