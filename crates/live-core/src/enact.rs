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
pub(crate) mod clocks;
mod dispatch;
mod lateness;
pub(crate) mod memory;
mod ranks;
pub(crate) mod relief;
mod stints;
mod throttle;

use crate::{Body, Executor, Handle, Place, Post, WakeCost};
use alarm::Waking;
use clocks::Looks;
use dispatch::Dispatches;
use lateness::Lateness;
use maracas_core::contract::{End, Grant, Line, Mode, Refused};
use maracas_core::journal::Record;
use maracas_core::{CoreId, Duration, Event, Instant, Rate, VcpuId, dispatch as law};
use memory::Memory;
use ranks::Ranks;
use relief::Relief;
use std::io;
use stints::{Change, Tracker};
use throttle::Throttling;

/// What the host lets a core do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Means {
    /// Foreground by `SCHED_FIFO`. Without it only the one VCPU that the law names is not stopped.
    pub fifo: bool,
    /// VCPUs can be frozen, or stopped by signals where there is no `fifo`.
    pub freezer: bool,
    /// Switch records, and counters of VCPUs' time that can be read at any time. Without them
    /// clocks are read at the earliest exhaustion and every millisecond, and blocks and wakes are
    /// guessed.
    pub events: bool,
}

impl Means {
    /// All of it.
    pub const FULL: Self = Self { fifo: true, freezer: true, events: true };
}

/// One managed core. What is to be done on it goes through its [`Executor`].
pub struct Core<E: Executor> {
    /// Its number.
    pub id: CoreId,
    /// Carries out.
    pub exec: E,
    /// The share of its time in which it runs programs.
    pub share: Rate,
    /// What it follows.
    pub line: Line,
    /// The VCPUs that sit here.
    pub bodies: Vec<Body<E::Handle>>,
    /// What happened here and the policy has not been told.
    pub outbox: Vec<(Instant, Event)>,
    /// What a wake of its agent costs.
    pub waking: Waking,
    /// Something changed on which the law depends, and it was not applied since.
    pub stirred: bool,
    /// How many programs are being started: nothing is frozen meanwhile, since starting one holds
    /// the lock that freezing takes, for milliseconds, and a frozen group could not take it in.
    without_brakes: u32,
    /// When this core's agent shall look for the policy's sake.
    pub wake_at: Instant,
    /// The first thing that the host refused.
    pub trouble: Option<io::Error>,
    /// The policy allows no surplus time here, and where there is a valve it goes on all the same.
    is_throttled: bool,
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
    /// Who may run by the law, in its order, and in which mode; kept so that no enforcement asks
    /// for memory.
    entitled: Vec<(VcpuId, Mode)>,
    means: Means,
    /// At the clocks, where there are no events.
    looks: Looks,
    tracker: Tracker,
    dispatches: Dispatches,
    memory: Memory,
    throttling: Throttling,
    /// What was measured and is not in the journal yet.
    notes: Vec<Record>,
    /// A mistake that a test has planted.
    #[cfg(feature = "faults")]
    pub fault: Option<crate::Fault>,
}

impl<E: Executor> Core<E> {
    /// A core without bodies, of which a wake costs its agent so much.
    pub fn new(id: CoreId, exec: E, means: Means, cost: WakeCost) -> Self {
        Self {
            id,
            exec,
            share: Rate::ONE,
            line: Line::default(),
            bodies: Vec::with_capacity(64),
            outbox: Vec::with_capacity(4096),
            waking: Waking::new(cost),
            stirred: false,
            without_brakes: u32::from(means.fifo && !means.freezer),
            means,
            looks: Looks::default(),
            wake_at: Instant::NEVER,
            trouble: None,
            is_throttled: false,
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
            entitled: Vec::with_capacity(64),
            tracker: Tracker::new(),
            dispatches: Dispatches::default(),
            memory: Memory::default(),
            throttling: Throttling::default(),
            notes: Vec::with_capacity(64),
            #[cfg(feature = "faults")]
            fault: None,
        }
    }

    /// The body of `vcpu`, if it is here.
    pub fn body(&mut self, vcpu: VcpuId) -> Option<&mut Body<E::Handle>> {
        self.bodies.iter_mut().find(|body| body.id == vcpu)
    }

    /// A program is about to be started, or is: nothing is frozen meanwhile.
    pub fn hold(&mut self, begins: bool) {
        #[cfg(feature = "faults")]
        if self.fault == Some(crate::Fault::LeakedHold) && !begins {
            return;
        }
        let count = self.without_brakes;
        self.without_brakes = if begins { count + 1 } else { count.saturating_sub(1) };
        self.stirred = true;
    }

    /// How many programs are being started, and one more where nothing can be frozen at all.
    pub const fn holds(&self) -> u32 {
        self.without_brakes
    }

    /// A job of this VCPU was released: it does not block after the one that was done.
    pub fn released(&mut self, vcpu: VcpuId) {
        let Some(body) = self.body(vcpu) else { return };
        if std::mem::take(&mut body.is_done) && body.is_runnable() {
            self.stirred = true;
        }
    }

    /// What a body must know of this core to sit here.
    pub fn place(&self) -> Place<E::Site> {
        Place { core: self.id, share: self.share, site: self.exec.site() }
    }

    /// Takes a body in, at rest, that was made to sit here: `sits` says how that went. Whether it
    /// is confined to this core now; where it cannot be, that is told.
    pub fn seat(&mut self, mut body: Body<E::Handle>, sits: io::Result<bool>) -> bool {
        let id = body.id;
        let moved = sits.as_ref().is_ok_and(|moved| *moved);
        let result = sits.and_then(|_| self.exec.listen(id, &mut body.handle, true));
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
    pub fn unseat(&mut self, vcpu: VcpuId, end: End) -> Option<Body<E::Handle>> {
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
    /// that it reached its mark; `relief` tells what the guardian did here, if there is one.
    /// Whether there is anything to tell the policy.
    pub fn enforce(
        &mut self,
        now: Instant,
        births: &[VcpuId],
        crossed: bool,
        relief: Option<Relief>,
    ) -> bool {
        self.settle_all();
        self.is_settled = self.means.events;
        self.woken(now);
        self.recover(relief);
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
                self.looks.looked(now, self.exec.now());
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
    pub fn judge(&mut self) {
        let brakes = self.without_brakes == 0;
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
        let (line, mut entitled) =
            (std::mem::take(&mut self.line), std::mem::take(&mut self.entitled));
        let readings = Known(&self.bodies);
        let all = law::entitled(&line, self.memory.reads(), &readings);
        entitled.clear();
        entitled.extend(all.map(|running| (running.vcpu, running.mode)));
        self.want(&entitled);
        self.entitled = entitled;
        self.spare_freezing(&line);
        self.line = line;
        self.ranks.assign(&self.line, &mut self.bodies);
    }

    /// Wants those at work who are entitled to run, as far as the kernel then runs the first of
    /// them that can. Who has a budget may have priority though somebody before it runs: it is
    /// ready when that one blocks, which nothing reports. The background has no order there, so
    /// only its first runnable one is let run; and in the foreground too, where there are no
    /// priorities.
    fn want(&mut self, entitled: &[(VcpuId, Mode)]) {
        let (id, fifo) = (self.id, self.means.fifo);
        for (vcpu, mode) in entitled {
            let Some(body) = self.body(*vcpu) else { continue };
            match mode {
                Mode::Foreground if !body.may_be_raised(id) => continue,
                Mode::Foreground => body.want = Post::Foreground(0),
                Mode::Background if matches!(body.want, Post::Foreground(_)) => continue,
                Mode::Background => body.want = Post::Background,
            }
            if body.is_runnable() && (*mode == Mode::Background || !fifo) {
                return;
            }
        }
    }

    /// While the foreground has the core nothing in the background runs, frozen or not: what may
    /// use surplus time by this line is frozen when the foreground has ended, unless it is its turn
    /// then.
    fn spare_freezing(&mut self, line: &Line) {
        let in_budget =
            |body: &Body<E::Handle>| matches!(body.want, Post::Foreground(_)) && body.is_runnable();
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
impl<E: Executor> Core<E> {
    /// Stops whoever may not go on.
    pub fn stops(&mut self) {
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
    pub fn starts(&mut self) {
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
            self.plan_look(self.exec.now());
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
                self.exec.freeze(&body.handle, true);
            }
        }
        if was == Post::Frozen {
            self.exec.freeze(&body.handle, false);
        }
        result = result.and(body.handle.refusal());
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
            let at = self.exec.now();
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
    pub fn index(&self, vcpu: VcpuId) -> Option<usize> {
        self.bodies.iter().position(|body| body.id == vcpu)
    }

    /// What could not be enacted becomes an event of its own.
    fn report(&mut self, result: io::Result<()>, what: Refused) {
        if let Err(error) = result {
            self.trouble.get_or_insert(error);
            let at = self.exec.now();
            self.outbox.push((at, Event::Failed { core: self.id, what }));
        }
    }
}

/// What is known of the bodies of a core, as the law asks for it.
struct Known<'a, H>(&'a [Body<H>]);

impl<H: Handle> law::Readings for Known<'_, H> {
    fn runnable(&self, vcpu: VcpuId) -> bool {
        self.of(vcpu).is_some_and(Body::is_runnable)
    }
    fn meter(&self, vcpu: VcpuId, mode: Mode) -> Duration {
        self.of(vcpu).map_or(Duration::ZERO, |body| body.meter(mode))
    }
    fn memory(&self, vcpu: VcpuId) -> u64 {
        self.of(vcpu).map_or(0, Body::reads)
    }
}

impl<H> Known<'_, H> {
    fn of(&self, vcpu: VcpuId) -> Option<&Body<H>> {
        self.0.iter().find(|body| body.id == vcpu)
    }
}
