//! One core of the live machine: its line, the bodies on it, and the law carried out.
//!
//! [`Core::enforce`] is all that stands between a spent budget and its end. It is called before any
//! decision, changes nothing but this core, and asks nobody.
//!
//! # Strict background
//! The law lets one background VCPU run: the first runnable one of the line. Blocks and wakes are
//! not told by the kernel when they happen, so each other VCPU is held by what is believed of it:
//!
//! * believed runnable: frozen, unless the foreground has the core: what may use surplus time at
//!   all is frozen when its turn comes to wait for others in the background;
//! * believed blocked: left thawed, since freezing would wake it, and would break its system calls
//!   with `EINTR`. If it runs, the agent sees that when it next looks ([`alarm`]), and freezes it
//!   or, where it stands before the head, the head.
//!
//! # Memory
//! A core whose memory meter reached its allowance is closed ([`memory`]): nobody is wanted on it,
//! foreground is demoted and frozen like everybody else.

pub(crate) mod alarm;
pub(crate) mod births;
pub(crate) mod brake;
pub(crate) mod clocks;
mod dispatch;
mod lateness;
mod memory;
mod ranks;
mod relief;
mod stints;
pub(crate) mod throttle;

use crate::agent::wait::{Bell, Poll, Token};
use crate::clock::Clock;
use crate::guardian::Hearts;
use crate::host::costs::WakeCost;
use crate::host::{HardwareCore, sys};
use crate::machine::Means;
use crate::machine::vcpu::{Live, Place, Post};
use crate::perf::Switches;
use alarm::Waking;
use brake::Brakes;
use clocks::Looks;
use dispatch::Dispatches;
use lateness::Lateness;
use maracas_core::contract::{End, Grant, Line, Mode, Refused};
use maracas_core::journal::Record;
use maracas_core::{CoreId, Duration, Event, Instant, Rate, VcpuId};
use memory::Memory;
use ranks::Ranks;
use std::io;
use std::sync::Arc;
use stints::{Change, Tracker};
use throttle::{Throttling, Valve};

/// One managed core. Locked by whoever acts on it; only agents do while they live.
pub(crate) struct Core {
    pub(crate) id: CoreId,
    pub(crate) hardware: HardwareCore,
    /// The share of its time in which it runs programs.
    pub(crate) share: Rate,
    pub(crate) line: Line,
    pub(crate) bodies: Vec<Live>,
    /// What happened here and the policy has not been told.
    pub(crate) outbox: Vec<(Instant, Event)>,
    pub(crate) poll: Poll,
    /// Wakes this core's agent.
    pub(crate) bell: Arc<Bell>,
    /// What a wake of it costs.
    pub(crate) waking: Waking,
    pub(crate) brakes: Arc<Brakes>,
    /// Something changed on which the law depends, and it was not applied since.
    pub(crate) stirred: bool,
    /// How many programs are being started: nothing is frozen meanwhile, since starting one holds
    /// the lock that freezing takes, for milliseconds, and a frozen group could not take it in.
    pub(crate) without_brakes: u32,
    /// When this core's agent shall look for the policy's sake.
    pub(crate) wake_at: Instant,
    /// The first thing that the host refused.
    pub(crate) trouble: Option<io::Error>,
    /// Lowers the bandwidth of this core while it is throttled, where its background goes on.
    pub(crate) valve: Option<Arc<dyn Valve>>,
    /// Whether its bandwidth is lowered.
    is_lowered: bool,
    /// When the meters must be read, at the latest.
    look_at: Instant,
    /// The end of whose budget is expected then.
    awaited: Option<VcpuId>,
    /// How many looks in a row found nothing new.
    quiet_looks: u32,
    /// This core's agent has read the counters and enforces: they stand still, since nothing else
    /// runs here until it sleeps or waits for a lock.
    is_settled: bool,
    /// Until when this core's agent sleeps; the beginning of time while it is awake.
    asleep_until: Instant,
    /// How late budgets ended.
    lateness: Lateness,
    /// A neighbour has stopped everything here, since this core's agent is stuck.
    is_relieved: bool,
    /// How often the guardian did, as far as is known.
    reliefs: u32,
    ranks: Ranks,
    means: Means,
    /// At the clocks, where there are no events.
    looks: Looks,
    tracker: Tracker,
    dispatches: Dispatches,
    memory: Memory,
    throttling: Throttling,
    /// What was measured and is not in the journal yet.
    notes: Vec<Record>,
    clock: Clock,
}

impl Core {
    /// A core without bodies.
    pub(crate) fn open(
        id: CoreId,
        hardware: HardwareCore,
        clock: Clock,
        means: Means,
        cost: WakeCost,
    ) -> io::Result<Self> {
        sys::open_many();
        let switches = means.events.then(|| Switches::open(hardware.0)).transpose()?;
        let (poll, bell) = (Poll::new()?, Arc::new(Bell::new()?));
        if let Some(switches) = &switches {
            poll.add(switches.fd(), Token::Records)?;
        }
        poll.add(bell.fd(), Token::Bell)?;
        Ok(Self {
            id,
            hardware,
            share: Rate::ONE,
            line: Line::default(),
            bodies: Vec::with_capacity(64),
            outbox: Vec::with_capacity(4096),
            poll,
            bell,
            waking: Waking::new(cost),
            brakes: Arc::new(Brakes::new(clock.clone())),
            stirred: false,
            without_brakes: u32::from(means.fifo && !means.freezer),
            means,
            looks: Looks::default(),
            wake_at: Instant::NEVER,
            trouble: None,
            valve: None,
            is_lowered: false,
            look_at: Instant::NEVER,
            awaited: None,
            quiet_looks: 0,
            is_settled: false,
            asleep_until: Instant::NEVER,
            lateness: Lateness::default(),
            is_relieved: false,
            reliefs: 0,
            ranks: Ranks::default(),
            tracker: Tracker::new(switches),
            dispatches: Dispatches::default(),
            memory: Memory::default(),
            throttling: Throttling::default(),
            notes: Vec::with_capacity(64),
            clock,
        })
    }

    /// The clock of the machine.
    pub(crate) const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The body of `vcpu`, if it is here.
    pub(crate) fn body(&mut self, vcpu: VcpuId) -> Option<&mut Live> {
        self.bodies.iter_mut().find(|body| body.id == vcpu)
    }

    /// What a body must know of this core to sit here.
    pub(crate) fn place(&self) -> Place {
        let (core, hardware, share) = (self.id, self.hardware, self.share);
        Place { core, hardware, share, counts: self.memory.counts }
    }

    /// Takes a body in, at rest, that was made to sit here: `sits` says how that went. Whether it
    /// is confined to this core now; where it cannot be, that is told.
    pub(crate) fn seat(&mut self, mut body: Live, sits: io::Result<bool>) -> bool {
        let id = body.id;
        let moved = sits.as_ref().is_ok_and(|moved| *moved);
        let poll = &self.poll;
        let result = sits.and_then(|_| body.listen_by(|fd| poll.add(fd, Token::Vcpu(id))));
        body.relisted = true;
        self.bodies.push(body);
        let index = self.bodies.len() - 1;
        self.own_threads(index);
        let sits = result.is_ok();
        self.report(result, Refused::Move(id));
        if moved {
            // Neither core's records told whose were born or died on the way.
            self.rescan(index);
        }
        sits
    }

    /// Gives a body away, at rest: demoted, and frozen as it was. All that it took here is told,
    /// where it goes to another core ([`End::Moved`]).
    pub(crate) fn unseat(&mut self, vcpu: VcpuId, end: End) -> Option<Live> {
        let index = self.bodies.iter().position(|body| body.id == vcpu)?;
        self.count_memory();
        self.change(index, Post::Watched, end);
        self.hear_leaving(index);
        self.drain();
        self.tell_reads(index, end);
        let mut body = self.bodies.swap_remove(index);
        body.is_leaving = false;
        (body.last_closed, body.last_told) = (None, None);
        for thread in &body.threads {
            self.tracker.owners.remove(&thread.tid);
        }
        Some(body)
    }

    /// This core's agent woke at `now`: reads the meters and stops whoever is spent, at once.
    /// `births` are the VCPUs whose threads were born or ended; `crossed` = the memory meter told
    /// that it reached its mark; `hearts` tell whether the guardian acted here. Whether there is
    /// anything to tell the policy.
    pub(crate) fn enforce(
        &mut self,
        now: Instant,
        births: &[VcpuId],
        crossed: bool,
        hearts: Option<&Hearts>,
    ) -> bool {
        self.settle_all();
        self.is_settled = self.means.events;
        self.woken(now);
        self.recover(hearts);
        for vcpu in births {
            if let Some(index) = self.index(*vcpu) {
                self.hear_birth(index, now);
            }
        }
        self.hear_again(now);
        if crossed {
            self.meter_told();
        }
        // Nobody's budget can be spent before: it was woken for something else.
        if now >= self.look_at || !births.is_empty() || crossed || self.stirred {
            self.judge();
            self.stops();
            self.look_at_clocks();
            self.drain();
            if self.stirred {
                self.judge();
                self.stops();
            }
            self.starts();
            if !self.means.events {
                self.looks.looked(now, self.clock.now());
            }
        }
        self.is_settled = false;
        let news = self.has_news(now);
        self.quiet_looks = if news { 0 } else { self.quiet_looks.saturating_add(1) };
        news
    }

    /// Reads the meter of a body, unless it was read since anybody could run here.
    fn settle(&mut self, index: usize) -> io::Result<()> {
        let body = &mut self.bodies[index];
        // What is frozen is not read with the others.
        if self.is_settled && body.post != Post::Frozen { Ok(()) } else { body.settle() }
    }

    /// Reads the meters of all that may have run.
    fn settle_all(&mut self) {
        for index in 0..self.bodies.len() {
            let body = &mut self.bodies[index];
            if body.post == Post::Frozen {
                continue;
            }
            let (id, mode, before) = (body.id, body.mode(), body.meter(body.mode()));
            let result = body.settle();
            // It ran though we know of nobody in it: a thread that calls `exec` changes its number.
            let is_unknown = body.threads.is_empty() && body.meter(mode) > before;
            self.report(result, Refused::Stop(id));
            if is_unknown {
                self.rescan(index);
                self.stirred = true;
            }
        }
    }

    /// Whether the policy is to be told anything, or wants to be asked.
    fn has_news(&self, now: Instant) -> bool {
        let told = !self.has_tidings() && self.tracker.changes.is_empty();
        !told || self.stirred || self.is_spent() || self.wake_at <= now
    }

    /// What the machine law wants each body to be now.
    pub(crate) fn judge(&mut self) {
        let (id, brakes) = (self.id, self.without_brakes == 0);
        // Nobody would end what is started here.
        if self.is_relieved {
            return self.bodies.iter_mut().for_each(|body| body.want = body.post);
        }
        self.judge_allowance();
        for body in &mut self.bodies {
            // Freezing who is about to block would wake it up again; its meter is looked at.
            let frozen = brakes && body.is_runnable() && !body.is_done && !body.is_leaving;
            body.want = if frozen { Post::Frozen } else { Post::Watched };
        }
        if self.is_closed() {
            return;
        }
        let line = std::mem::take(&mut self.line);
        let (fifo, mut taken) = (self.means.fifo, false);
        for grant in &line.foreground {
            if let Some(body) = self.body(grant.vcpu)
                && body.meter(Mode::Foreground) < grant.until.0
                && body.has_memory(grant)
                && body.may_be_raised(id)
            {
                body.want = Post::Foreground(0);
                // Without priorities only the first may run, and the law is kept by stopping.
                if !fifo && body.is_runnable() {
                    taken = true;
                    break;
                }
            }
        }
        if (line.background_allowed || self.valve.is_some()) && !taken {
            for grant in &line.background {
                let Some(body) = self.body(grant.vcpu) else { continue };
                let in_budget = matches!(body.want, Post::Foreground(_));
                let unspent = body.meter(Mode::Background) < grant.until.0;
                if !in_budget && unspent && body.has_memory(grant) {
                    body.want = Post::Background;
                    if body.is_runnable() {
                        break;
                    }
                }
            }
        }
        self.spare_freezing(&line);
        self.line = line;
        self.ranks.assign(&self.line, &mut self.bodies);
    }

    /// While the foreground has the core nothing in the background runs, frozen or not: what may
    /// use surplus time by this line is frozen when the foreground has ended, unless it is its turn
    /// then.
    fn spare_freezing(&mut self, line: &Line) {
        let in_budget =
            |body: &Live| matches!(body.want, Post::Foreground(_)) && body.is_runnable();
        if !line.background_allowed || !self.means.fifo || !self.bodies.iter().any(in_budget) {
            return;
        }
        for grant in &line.background {
            let Some(body) = self.body(grant.vcpu) else { continue };
            let unspent = body.meter(Mode::Background) < grant.until.0 && body.has_memory(grant);
            if unspent && body.want == Post::Frozen && body.post != Post::Frozen {
                body.want = Post::Watched;
            }
        }
    }
}

// Carrying it out: all stops, then all starts.
impl Core {
    /// Stops whoever may not go on.
    pub(crate) fn stops(&mut self) {
        for index in 0..self.bodies.len() {
            let body = &self.bodies[index];
            let lowered = match (body.post, body.want) {
                (Post::Foreground(_), Post::Foreground(_)) => false,
                (Post::Foreground(_), _) => true,
                (Post::Background | Post::Watched, Post::Frozen) => true,
                (Post::Background | Post::Watched | Post::Frozen, _) => false,
            };
            if lowered {
                let (id, want, end) = (body.id, body.want, self.reason(index));
                if want == Post::Frozen {
                    self.throttling.stopped(id);
                }
                let limit = self.limit(index).filter(|_| end == End::MarkReached);
                self.change(index, want, end);
                self.note_end(index, limit);
            }
        }
        self.measure_closing();
        self.steer_bandwidth();
        self.measure_throttling();
    }

    /// Starts whoever may run, in the order of the line, and chooses when to look next.
    pub(crate) fn starts(&mut self) {
        if self.is_relieved {
            return;
        }
        let line = std::mem::take(&mut self.line);
        for grant in &line.foreground {
            let Some(index) = self.index(grant.vcpu) else { continue };
            if let want @ Post::Foreground(_) = self.bodies[index].want {
                self.start(index, want);
            }
        }
        for index in 0..self.bodies.len() {
            let want = self.bodies[index].want;
            if matches!(want, Post::Watched | Post::Background) {
                self.start(index, want);
            }
        }
        self.line = line;
        // An agent that is awake chooses when it falls asleep.
        if self.asleep_until != Instant::ZERO {
            self.plan_look(self.clock.now());
            self.set_alarm();
        }
    }

    fn start(&mut self, index: usize, want: Post) {
        if self.bodies[index].post != want {
            self.change(index, want, End::Preempted);
        }
        let body = &mut self.bodies[index];
        let result = match want {
            // Threads that were born since are raised too.
            Post::Foreground(priority) => body.raise(priority),
            Post::Background | Post::Watched | Post::Frozen => Ok(()),
        };
        let id = body.id;
        self.own_threads(index);
        self.report(result, Refused::Start(id));
    }

    /// Sets a body to `post`; the stint that ends thereby ends for the reason `end`. Acts first and
    /// counts afterwards: what is spent meanwhile belongs to the mode that ends.
    fn change(&mut self, index: usize, post: Post, end: End) {
        let body = &self.bodies[index];
        let (id, was, mode) = (body.id, body.post, body.mode());
        let mut result = Ok(());
        // Raising brings the clocks up to date of what runs on another core; counters are read
        // before, in the mode that they counted in.
        if matches!(post, Post::Foreground(_)) && self.means.events {
            result = self.settle(index);
        }
        let body = &mut self.bodies[index];
        match post {
            Post::Foreground(priority) => {
                body.last_priority = priority;
                result = result.and_then(|()| body.raise(priority));
                if !self.means.events {
                    result = result.and_then(|()| body.settle());
                }
            }
            Post::Background | Post::Watched => result = body.demote(),
            Post::Frozen => {
                result = body.demote();
                self.brakes.post(&body.brake, true);
            }
        }
        if was == Post::Frozen {
            self.brakes.post(&body.brake, false);
        }
        result = result.and(body.brake.refusal());
        if !matches!(post, Post::Foreground(_)) {
            result = result.and(self.settle(index));
            self.dispatches.stopped(id);
        }
        let body = &mut self.bodies[index];
        body.post = post;
        body.motion.restart();
        body.frozen_from = mode;
        let frozen = post == Post::Frozen;
        self.own_threads(index);
        let body = &self.bodies[index];
        if mode != body.mode() || frozen != (was == Post::Frozen) || end == End::Moved {
            let meter_ns = body.meter(mode).ticks();
            let at = self.clock.now();
            let next = body.mode();
            if self.means.events {
                let change = Change { at, vcpu: id, mode, meter_ns, end, next, frozen };
                self.tracker.changes.push_back(change);
            } else {
                self.tell_clock(index, mode, end, at);
            }
        }
        let what = if frozen { Refused::Stop(id) } else { Refused::Start(id) };
        self.report(result, what);
    }

    /// Why a body stops: its mark, or something else.
    fn reason(&self, index: usize) -> End {
        let body = &self.bodies[index];
        let grants = match body.mode() {
            Mode::Foreground => &self.line.foreground,
            Mode::Background => &self.line.background,
        };
        let spent = |grant: &Grant| body.meter(body.mode()) >= grant.until.0;
        match grants.iter().find(|grant| grant.vcpu == body.id) {
            Some(grant) if spent(grant) => End::MarkReached,
            Some(grant) if !body.has_memory(grant) => End::MemorySpent,
            Some(_) | None => End::Preempted,
        }
    }

    /// The meter reading at which the foreground time of a body ends, by the line.
    fn limit(&self, index: usize) -> Option<Duration> {
        let body = &self.bodies[index];
        let own = |grant: &&Grant| grant.vcpu == body.id;
        let grant = self.line.foreground.iter().find(own);
        grant.filter(|_| body.mode() == Mode::Foreground).map(|grant| grant.until.0)
    }

    /// Where the body of `vcpu` stands in `bodies`.
    pub(crate) fn index(&self, vcpu: VcpuId) -> Option<usize> {
        self.bodies.iter().position(|body| body.id == vcpu)
    }

    /// What could not be enacted becomes an event of its own.
    fn report(&mut self, result: io::Result<()>, what: Refused) {
        if let Err(error) = result {
            self.trouble.get_or_insert(error);
            let at = self.clock.now();
            self.outbox.push((at, Event::Failed { core: self.id, what }));
        }
    }
}
