//! One core of the live machine: its line, the bodies on it, and the law carried out.
//!
//! [`Core::enforce`] is all that stands between a spent budget and its end. It is called before any
//! decision, changes nothing but this core, and asks nobody.
//!
//! # Strict background
//! The law lets one background VCPU run: the first runnable one of the line. Blocks and wakes are
//! not told by the kernel when they happen, so each other VCPU is held by what is believed of it:
//!
//! * believed runnable: frozen;
//! * believed blocked: left thawed (freezing would wake it, and would break its system calls with
//!   `EINTR`), with a *tripwire*: its budget event fires after [20 us](crate::machine::vcpu) of
//!   service, and the agent freezes it or, where it stands before the head, the head.
//!
//! Where the head itself blocks, the agent sees it when it next looks: after [`WATCH`] at the
//! latest.
//!
//! # Memory
//! A core whose memory meter reached its allowance is closed ([`memory`]): nobody is wanted on it,
//! foreground is demoted and frozen like everybody else.

pub(crate) mod births;
pub(crate) mod brake;
mod clocks;
mod dispatch;
mod memory;
mod ranks;
mod stints;
pub(crate) mod throttle;

use crate::agent::wait::{Alarm, Poll, Token};
use crate::clock::Clock;
use crate::host::{HardwareCore, sys};
use crate::machine::Means;
use crate::machine::vcpu::{Live, Place, Post};
use crate::perf::Switches;
use brake::Brakes;
use dispatch::Dispatches;
use maracas_core::contract::{End, Grant, Line, Mark, Mode, Refused};
use maracas_core::journal::Record;
use maracas_core::{CoreId, Duration, Event, Instant, Rate, VcpuId};
use memory::Memory;
use ranks::Ranks;
use std::io;
use std::sync::Arc;
use stints::{Change, Tracker};
use throttle::{Throttling, Valve};

/// How long a core may idle unseen after its background head blocked while another waits: 0.7 %
/// of a core for the agent at worst (15 us a look), as much as a 2 ms rotation costs.
const WATCH: Duration = Duration::from_millis(2);
/// How long after the earliest exhaustion the agent looks by itself, should an overflow be missed.
const BACKSTOP: Duration = Duration::from_millis(1);

/// How long an agent sleeps at most, so that the guardian sees it live ([`crate::guardian::BEAT`],
/// with room for a late wake).
const PULSE: Duration = Duration::from_millis(90);

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
    pub(crate) alarm: Alarm,
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
    look_at: Instant,
    /// When this core's own agent must look, whatever others do here meanwhile: it beats then.
    pulse_at: Instant,
    ranks: Ranks,
    means: Means,
    /// When the clocks were read last, where there are no events.
    looked_at: Instant,
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
    ) -> io::Result<Self> {
        sys::open_many();
        let switches = means.events.then(|| Switches::open(hardware.0)).transpose()?;
        let (poll, alarm) = (Poll::new()?, Alarm::new()?);
        if let Some(switches) = &switches {
            poll.add(switches.fd(), Token::Records)?;
        }
        poll.add(alarm.fd(), Token::Alarm)?;
        Ok(Self {
            id,
            hardware,
            share: Rate::ONE,
            line: Line::default(),
            bodies: Vec::with_capacity(64),
            outbox: Vec::with_capacity(4096),
            poll,
            alarm,
            brakes: Arc::new(Brakes::new(clock.clone())?),
            stirred: false,
            without_brakes: u32::from(means.fifo && !means.freezer),
            means,
            looked_at: Instant::ZERO,
            wake_at: Instant::NEVER,
            trouble: None,
            valve: None,
            is_lowered: false,
            look_at: Instant::NEVER,
            pulse_at: Instant::ZERO,
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

    /// Takes a body in, at rest. Whether it is confined to this core now; where it cannot be, that
    /// is told.
    pub(crate) fn seat(&mut self, mut body: Live) -> bool {
        let (id, poll) = (body.id, &self.poll);
        let (core, hardware, share) = (self.id, self.hardware, self.share);
        let place = Place { core, hardware, share, counts: self.memory.counts };
        let result = body.sit(place, |fd| poll.add(fd, Token::Budget(id)));
        let moved = result.as_ref().is_ok_and(|moved| *moved);
        body.relisted = true;
        self.bodies.push(body);
        let index = self.bodies.len() - 1;
        self.own_threads(index);
        let sits = result.is_ok();
        self.report(result.map(drop), Refused::Move(id));
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
        let result = body.disarm();
        (body.last_closed, body.last_told) = (None, None);
        for thread in &body.threads {
            self.tracker.owners.remove(&thread.tid);
        }
        self.report(result, Refused::Move(vcpu));
        Some(body)
    }

    /// The events of these VCPUs fired: stops who is spent, at once. `look` at all that may run
    /// where no event told (the alarm rang). Called by this core's own agent alone.
    pub(crate) fn enforce(&mut self, fired: &[VcpuId], look: bool) {
        if look {
            let now = self.clock.now();
            self.pulse_at = now.saturating_add(PULSE);
            if fired.is_empty() && now < self.look_at {
                // It rang for a decision, or for the pulse: nobody's budget can be spent.
                return self.set_alarm();
            }
            self.hear_again();
        }
        for index in 0..self.bodies.len() {
            let body = &mut self.bodies[index];
            let has_fired = fired.contains(&body.id);
            let mut armed_ns = None;
            if has_fired {
                armed_ns = body.fired();
                body.is_done = false;
                // It ran just now, whatever the last record said.
                if !body.is_runnable() {
                    body.suppose_runnable();
                }
            }
            let may_run = matches!(body.post, Post::Foreground(_) | Post::Background);
            if has_fired || look && may_run {
                let (id, result) = (body.id, body.settle());
                let is_birth = has_fired && armed_ns.is_none_or(|at_ns| !body.has_reached(at_ns));
                self.report(result, Refused::Stop(id));
                if is_birth {
                    self.hear_birth(index);
                }
                // It ran though we know of nobody in it.
                if has_fired && self.bodies[index].threads.is_empty() {
                    self.rescan(index);
                }
            }
        }
        self.judge();
        self.stops();
        self.starts();
    }

    /// What the machine law wants each body to be now.
    pub(crate) fn judge(&mut self) {
        let (id, brakes) = (self.id, self.without_brakes == 0);
        self.judge_allowance();
        for body in &mut self.bodies {
            // Freezing who is about to block would wake him up again; the tripwire stands.
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
        self.line = line;
        self.ranks.assign(&self.line, &mut self.bodies);
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
                self.change(index, want, end);
            }
        }
        self.measure_closing();
        self.steer_bandwidth();
        self.measure_throttling();
    }

    /// Starts whoever may run, in the order of the line, and arms every budget event.
    pub(crate) fn starts(&mut self) {
        let now = self.clock.now();
        let line = std::mem::take(&mut self.line);
        self.look_at = Instant::NEVER;
        for grant in &line.foreground {
            let Some(index) = self.index(grant.vcpu) else { continue };
            if let want @ Post::Foreground(_) = self.bodies[index].want {
                self.start(index, want, grant.until);
                let body = &self.bodies[index];
                let first = self.look_at == Instant::NEVER;
                if grant.until != Mark::NEVER && (first || body.is_runnable()) {
                    let rest = grant.until.0.saturating_sub(body.meter(Mode::Foreground));
                    let spent_at = now.saturating_add(body.counted(rest));
                    self.look_at = self.look_at.min(spent_at.saturating_add(BACKSTOP));
                }
            }
        }
        for index in 0..self.bodies.len() {
            let want = self.bodies[index].want;
            if want == Post::Watched {
                self.start(index, want, Mark::NEVER);
            }
        }
        for grant in &line.background {
            let Some(index) = self.index(grant.vcpu) else { continue };
            match self.bodies[index].want {
                Post::Background => self.start(index, Post::Background, grant.until),
                Post::Frozen if line.background_allowed || self.valve.is_some() => {
                    self.look_at = self.look_at.min(now.saturating_add(WATCH));
                }
                Post::Frozen | Post::Watched | Post::Foreground(_) => {}
            }
        }
        self.line = line;
        self.look_by_clock(now);
        self.look_for_the_deaf(now);
        self.watch_memory();
        self.set_alarm();
    }

    /// Lets the agent of this core look at `look_at`, `wake_at` or `pulse_at`, whichever comes
    /// first. The pulse stays where it is: an agent of another core that decides for this one many
    /// times a second would put it off for ever, and the guardian takes an agent that does not
    /// beat for dead.
    pub(crate) fn set_alarm(&mut self) {
        let at = self.look_at.min(self.wake_at).min(self.pulse_at);
        if let Err(error) = self.alarm.set(self.clock.monotonic_ns(at)) {
            self.trouble.get_or_insert(error);
        }
    }

    fn start(&mut self, index: usize, want: Post, until: Mark) {
        if self.bodies[index].post != want {
            self.change(index, want, End::Preempted);
        }
        let body = &mut self.bodies[index];
        let armed = match want {
            // Threads that were born since are raised too.
            Post::Foreground(priority) => body.raise(priority).and_then(|()| body.arm(until.0)),
            Post::Background if body.is_runnable() => body.arm(until.0),
            Post::Background | Post::Watched if self.without_brakes == 0 => body.arm_tripwire(),
            Post::Background | Post::Watched => body.disarm(),
            Post::Frozen => Ok(()),
        };
        let id = body.id;
        self.own_threads(index);
        self.report(armed, Refused::Start(id));
    }

    /// Sets a body to `post`; the stint that ends thereby ends for the reason `end`. Acts first and
    /// counts afterwards: what is spent meanwhile belongs to the mode that ends.
    fn change(&mut self, index: usize, post: Post, end: End) {
        let body = &mut self.bodies[index];
        let (id, was, mode) = (body.id, body.post, body.mode());
        let mut result;
        match post {
            Post::Foreground(priority) => {
                body.last_priority = priority;
                result = body.settle().and_then(|()| body.raise(priority));
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
            result = result.and(body.settle());
            self.dispatches.stopped(id);
        }
        body.post = post;
        body.frozen_from = mode;
        let frozen = post == Post::Frozen;
        if frozen {
            result = result.and(body.disarm());
        }
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
