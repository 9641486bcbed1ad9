//! One core of the live machine: its run queue, the VCPU handles on it, and the law carried out.
//!
//! [`Core::enforce`] is all that stands between a spent budget and its end. It is called before any
//! decision, changes nothing but this core, and waits for nothing.
//!
//! # Strict background
//! The law lets one background VCPU run: the first runnable one of the run queue. The kernel does
//! not report blocks and wakes when they happen, so each other VCPU is treated by what is believed
//! of it:
//!
//! * believed runnable: frozen, unless the foreground has the core: a VCPU that may use surplus
//!   time is frozen when its turn comes to wait for others in the background;
//! * believed blocked: left thawed, since freezing would wake it, and would break its system calls
//!   with `EINTR`. If it runs, the agent sees that when it next looks ([`alarm`]), and freezes it
//!   or, where it stands before the head, the head.
//!
//! # Memory
//! A core whose memory meter reached its allowance is closed ([`memory`]): no VCPU may run on it,
//! foreground is demoted and frozen like background.

pub(crate) mod alarm;
pub(crate) mod births;
pub(crate) mod clocks;
mod crowd;
pub(crate) mod dispatch;
pub(crate) mod lateness;
mod limits;
mod means;
pub(crate) mod memory;
mod ranks;
mod readings;
pub(crate) mod relief;
pub(crate) mod retry;
mod segments;
mod throttle;

use crate::{Executor, Handle, Level, Place, VcpuHandle, WakeCost};
use alarm::{Quiet, Waking};
use clocks::Looks;
use crowd::Crowd;
use dispatch::Dispatches;
use lateness::Lateness;
use maracas_core::contract::{End, Grant, Mode, Refused, RunQueue};
use maracas_core::journal::Record;
use maracas_core::{CoreId, Event, Instant, Rate, VcpuId, dispatch as law};
pub use means::Means;
use memory::Memory;
use ranks::Ranks;
use readings::Reading;
use relief::Relief;
use segments::{Change, Tracker};
use std::io;
use throttle::Throttling;

/// One managed core. What is to be done on it goes through its [`Executor`].
pub struct Core<E: Executor> {
    /// Its number.
    pub id: CoreId,
    /// Carries out.
    pub exec: E,
    /// The share of its time in which it runs programs.
    pub share: Rate,
    /// What it follows.
    pub run_queue: RunQueue,
    /// The VCPUs that sit here.
    pub vcpu_handles: Vec<VcpuHandle<E::Handle>>,
    /// What happened here and has not been reported to the policy.
    pub outbox: Vec<(Instant, Event)>,
    /// What a wake of its agent costs.
    pub waking: Waking,
    /// Something changed on which the law depends, and it was not applied since.
    pub stirred: bool,
    /// How many programs are being started: nothing is frozen meanwhile, since starting one holds
    /// the lock that freezing takes, for milliseconds, and a frozen group could not take it in.
    being_started: u32,
    /// When this core's agent should look for the policy's sake.
    pub wake_at: Instant,
    /// The first thing that the host refused.
    pub trouble: Option<io::Error>,
    /// The policy allows no surplus time here, and where there is a bandwidth limiter it goes on
    /// all the same.
    is_throttled: bool,
    /// Whether its bandwidth is lowered.
    is_lowered: bool,
    /// Whether anything on its run queue is held against a memory meter, as [`Core::follow`] found.
    is_bounded: bool,
    /// When the meters must be read, at the latest.
    look_at: Instant,
    /// The end of whose budget is expected then.
    awaited: Option<VcpuId>,
    /// How long nothing new was found here.
    quiet: Quiet,
    /// The time, while this core's agent acts here: it has read the counters when it woke, and they
    /// stand still, since nothing else runs here until it sleeps or waits for a lock.
    settled: Option<Instant>,
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
    /// A mistake that a test has planted.
    #[cfg(feature = "faults")]
    pub fault: Option<crate::Fault>,
}

impl<E: Executor> Core<E> {
    /// A core without VCPU handles, of which a wake costs its agent so much.
    pub fn new(id: CoreId, exec: E, means: Means, cost: WakeCost) -> Self {
        Self {
            id,
            exec,
            share: Rate::ONE,
            run_queue: RunQueue::default(),
            vcpu_handles: Vec::with_capacity(64),
            outbox: Vec::with_capacity(4096),
            waking: Waking::new(cost),
            stirred: false,
            being_started: u32::from(means.fifo && !means.freezer),
            means,
            looks: Looks::default(),
            wake_at: Instant::NEVER,
            trouble: None,
            is_throttled: false,
            is_lowered: false,
            is_bounded: false,
            look_at: Instant::NEVER,
            awaited: None,
            quiet: Quiet::default(),
            settled: None,
            asleep_until: Instant::NEVER,
            lateness: Lateness::default(),
            is_relieved: false,
            reliefs: 0,
            ranks: Ranks::default(),
            tracker: Tracker::new(),
            dispatches: Dispatches::default(),
            memory: Memory::default(),
            throttling: Throttling::default(),
            notes: Vec::with_capacity(64),
            #[cfg(feature = "faults")]
            fault: None,
        }
    }

    /// The VCPU handle of `vcpu`, if it is here.
    pub fn vcpu_handle(&mut self, vcpu: VcpuId) -> Option<&mut VcpuHandle<E::Handle>> {
        self.vcpu_handles.iter_mut().find(|vcpu_handle| vcpu_handle.id == vcpu)
    }

    /// A program is about to be started, or is: nothing is frozen meanwhile.
    pub fn hold(&mut self, begins: bool) {
        #[cfg(feature = "faults")]
        if self.fault == Some(crate::Fault::LeakedHold) && !begins {
            return;
        }
        self.being_started = self.being_started.saturating_add_signed(if begins { 1 } else { -1 });
        self.stirred = true;
    }

    /// How many programs are being started, and one more where nothing can be frozen at all.
    pub const fn holds(&self) -> u32 {
        self.being_started
    }

    /// A job of this VCPU was released: it does not block after the one that was done.
    pub fn released(&mut self, vcpu: VcpuId) {
        let Some(vcpu_handle) = self.vcpu_handle(vcpu) else { return };
        if std::mem::take(&mut vcpu_handle.is_done) && vcpu_handle.is_runnable() {
            self.stirred = true;
        }
    }

    /// What a VCPU handle must know of this core to sit here.
    pub fn place(&self) -> Place<E::Site> {
        Place { core: self.id, share: self.share, site: self.exec.site() }
    }

    /// Takes a VCPU handle in, at rest, that was made to sit here: `sits` is the result of that.
    /// Whether it is confined to this core now; where it cannot be, that is reported.
    pub fn attach(
        &mut self,
        mut vcpu_handle: VcpuHandle<E::Handle>,
        sits: io::Result<bool>,
    ) -> bool {
        let id = vcpu_handle.id;
        let moved = sits.as_ref().is_ok_and(|moved| *moved);
        let result = sits.and_then(|_| self.exec.listen(id, &mut vcpu_handle.handle, true));
        vcpu_handle.relisted = true;
        self.vcpu_handles.push(vcpu_handle);
        let index = self.vcpu_handles.len() - 1;
        self.own_threads(index);
        let sits = result.is_ok();
        if !sits {
            self.was_refused(index);
        }
        self.report(result, Refused::Move(id));
        if moved {
            // The records of neither core showed whose threads were born or died on the way.
            self.rescan(index);
        }
        sits
    }

    /// Gives a VCPU handle away, at rest: demoted, and frozen as it was. All that it took here is
    /// reported, where it goes to another core ([`End::Moved`]).
    pub fn detach(&mut self, vcpu: VcpuId, end: End) -> Option<VcpuHandle<E::Handle>> {
        let index = self.index(vcpu)?;
        self.count_memory();
        self.change(index, Level::Watched, end);
        self.note_leaving(index);
        self.drain();
        self.report_reads(index, end);
        let mut vcpu_handle = self.vcpu_handles.swap_remove(index);
        vcpu_handle.is_leaving = false;
        (vcpu_handle.last_closed, vcpu_handle.last_reported) = (None, None);
        for thread in vcpu_handle.threads() {
            self.tracker.owners.remove(&thread.tid);
        }
        Some(vcpu_handle)
    }

    /// This core's agent woke at `now`: reads the meters and stops the VCPUs that are spent, at
    /// once. `births` are the VCPUs whose threads were born or ended; `crossed` = the memory meter
    /// reported that it reached its limit; `relief` says what the guardian did here, if there is
    /// one. Whether there is anything to report to the policy.
    pub fn enforce(
        &mut self,
        now: Instant,
        births: &[VcpuId],
        crossed: bool,
        relief: Option<Relief>,
    ) -> bool {
        self.settle_all();
        self.settled = self.means.events.then_some(now);
        self.woken(now);
        self.recover(relief);
        for vcpu in births {
            if let Some(index) = self.index(*vcpu) {
                self.note_birth(index, now);
            }
        }
        self.rescan_again(now);
        self.try_again(now);
        if crossed {
            self.meter_reported();
        }
        // Else no budget can be spent: the agent was woken for something else.
        let is_due = now >= self.look_at || self.has_ended();
        if is_due || !births.is_empty() || crossed || self.stirred {
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
        self.settled = None;
        let news = self.has_news(now);
        // The next decision sets it anew; waking for it before brings nothing.
        self.wake_at = if self.wake_at <= now { Instant::NEVER } else { self.wake_at };
        self.quiet.looked(news);
        news
    }

    /// Carries out what was decided at `now`. Where this core's own agent does, which enforced at
    /// `woke`, and no record says that anything has run here since, neither counters nor the clock
    /// are read again: each is a system call on some hosts.
    pub fn act(&mut self, woke: Option<Instant>, now: Instant, action: impl FnOnce(&mut Self)) {
        let is_still = woke.is_some_and(|woke| self.means.events && self.stood_still(woke));
        self.settled = is_still.then_some(now);
        action(self);
        self.settled = None;
    }

    /// Reads the meter of a VCPU handle, unless it was read since any VCPU could run here.
    fn settle(&mut self, index: usize) -> io::Result<()> {
        let vcpu_handle = &mut self.vcpu_handles[index];
        // What is frozen is not read with the others.
        if self.settled.is_some() && vcpu_handle.level != Level::Frozen {
            Ok(())
        } else {
            vcpu_handle.settle()
        }
    }

    /// Reads the meters of all that may have run.
    fn settle_all(&mut self) {
        for index in 0..self.vcpu_handles.len() {
            let vcpu_handle = &mut self.vcpu_handles[index];
            if vcpu_handle.level == Level::Frozen {
                continue;
            }
            let (id, mode) = (vcpu_handle.id, vcpu_handle.mode());
            let before = vcpu_handle.threads().is_empty().then(|| vcpu_handle.meter(mode));
            let result = vcpu_handle.settle();
            // It ran though no thread of it is known: `exec` changes a thread's number.
            let is_unknown = before.is_some_and(|before| vcpu_handle.meter(mode) > before);
            self.report(result, Refused::Stop(id));
            if is_unknown {
                self.rescan(index);
                self.stirred = true;
            }
        }
    }

    /// What the machine law wants each VCPU handle to be now. No agent begins what is ahead.
    pub fn judge(&mut self) {
        let may_freeze = self.being_started == 0;
        // Nothing would end what is started here.
        if self.is_relieved {
            return self.vcpu_handles.iter_mut().for_each(|it| it.want = it.level);
        }
        self.judge_allowance();
        for vcpu_handle in &mut self.vcpu_handles {
            // Freezing a VCPU that is about to block would wake it up again: its meter counts.
            let frozen = may_freeze
                && vcpu_handle.is_runnable()
                && !vcpu_handle.is_done
                && !vcpu_handle.is_leaving;
            vcpu_handle.want = if frozen { Level::Frozen } else { Level::Watched };
        }
        self.ranks.order.clear();
        if self.is_closed() {
            return;
        }
        self.want();
        self.spare_freezing();
        self.ranks.assign(&mut self.vcpu_handles);
    }

    /// Readies the VCPUs that are entitled to run, as far as the kernel then runs the first of them
    /// that can. A VCPU with budget may have priority though another one stands before it: it is
    /// ready when that one blocks, which nothing reports. The background has no order there, so
    /// only its first runnable one may run; and in the foreground too, where there are no
    /// priorities.
    fn want(&mut self) {
        let Self { id, run_queue, vcpu_handles, ranks, means, memory, .. } = self;
        let most = ranks.crowd.most();
        // Up to the first behind which none is readied.
        law::each_entry(run_queue, memory.reads(), |grant, mode| {
            let Some(index) = position(vcpu_handles, grant.vcpu) else { return true };
            let vcpu_handle = &mut vcpu_handles[index];
            if !law::may_run(grant, mode, Instant::ZERO, &Reading(vcpu_handle)) {
                return true;
            }
            match mode {
                Mode::Foreground if !vcpu_handle.may_be_raised(*id, most) => return true,
                Mode::Foreground => {
                    vcpu_handle.want = Level::Foreground(0);
                    ranks.order.push((index, vcpu_handle.last_priority));
                }
                Mode::Background if matches!(vcpu_handle.want, Level::Foreground(_)) => {
                    return true;
                }
                Mode::Background => vcpu_handle.want = Level::Background,
            }
            !vcpu_handle.is_runnable() || mode == Mode::Foreground && means.fifo
        });
    }

    /// While the foreground has the core nothing in the background runs, frozen or not: what may
    /// use surplus time by this run queue is frozen when the foreground has ended, unless it is its
    /// turn then.
    fn spare_freezing(&mut self) {
        let in_budget = |vcpu_handle: &VcpuHandle<E::Handle>| {
            matches!(vcpu_handle.want, Level::Foreground(_)) && vcpu_handle.is_runnable()
        };
        if !self.run_queue.background_allowed
            || !self.means.fifo
            || !self.vcpu_handles.iter().any(in_budget)
        {
            return;
        }
        for vcpu_handle in &mut self.vcpu_handles {
            if vcpu_handle.want != Level::Frozen || vcpu_handle.level == Level::Frozen {
                continue;
            }
            let meter = vcpu_handle.meter(Mode::Background);
            let is_unspent = |grant: &Grant| {
                let is_own = grant.vcpu == vcpu_handle.id;
                is_own && meter < grant.until.0 && vcpu_handle.has_memory(grant)
            };
            if self.run_queue.background.iter().any(is_unspent) {
                vcpu_handle.want = Level::Watched;
            }
        }
    }
}

// Carrying it out: all stops, then all starts.
impl<E: Executor> Core<E> {
    /// Stops the VCPUs that may not go on.
    pub fn stops(&mut self) {
        for index in 0..self.vcpu_handles.len() {
            let vcpu_handle = &self.vcpu_handles[index];
            let lowered = match (vcpu_handle.level, vcpu_handle.want) {
                (Level::Foreground(_), Level::Foreground(_)) => false,
                (Level::Foreground(_), _) => true,
                (Level::Background | Level::Watched, Level::Frozen) => true,
                (Level::Background | Level::Watched | Level::Frozen, _) => false,
            };
            if lowered {
                let (id, want, (end, limit)) =
                    (vcpu_handle.id, vcpu_handle.want, self.reason(index));
                if want == Level::Frozen {
                    self.throttling.stopped(id);
                }
                self.change(index, want, end);
                self.note_end(index, limit);
            }
        }
        self.measure_closing();
        self.steer_bandwidth();
        self.measure_throttling();
    }

    /// Starts the VCPUs that may run, in the order of the run queue, and chooses when to look next.
    pub fn starts(&mut self) {
        if self.is_relieved {
            return;
        }
        for place in 0..self.ranks.order.len() {
            let index = self.ranks.order[place].0;
            self.start(index, self.vcpu_handles[index].want);
        }
        for index in 0..self.vcpu_handles.len() {
            let vcpu_handle = &self.vcpu_handles[index];
            let want = vcpu_handle.want;
            let may_run = matches!(want, Level::Watched | Level::Background);
            if may_run && (vcpu_handle.relisted || vcpu_handle.level != want) {
                self.start(index, want);
            }
        }
        // An agent that is awake chooses when it falls asleep.
        if self.asleep_until != Instant::ZERO {
            self.plan_look(self.exec.now());
            self.set_alarm();
        }
    }

    fn start(&mut self, index: usize, want: Level) {
        if self.vcpu_handles[index].level != want {
            self.change(index, want, End::Preempted);
        }
        let vcpu_handle = &mut self.vcpu_handles[index];
        let result = match want {
            // Threads that were born since are raised too.
            Level::Foreground(priority) => vcpu_handle.raise(priority),
            Level::Background | Level::Watched | Level::Frozen => Ok(()),
        };
        let id = vcpu_handle.id;
        self.own_threads(index);
        if result.is_err() {
            self.was_refused(index);
        }
        self.report(result, Refused::Start(id));
    }

    /// Sets a VCPU handle to `level`; the segment that ends thereby ends for the reason `end`. Acts
    /// first and counts afterwards: what is spent meanwhile belongs to the mode that ends.
    fn change(&mut self, index: usize, level: Level, end: End) {
        let vcpu_handle = &self.vcpu_handles[index];
        let (id, was, mode) = (vcpu_handle.id, vcpu_handle.level, vcpu_handle.mode());
        let (mut result, mut read_at) = (Ok(()), self.settled);
        // Raising brings the clocks up to date of what runs on another core, so counters are read
        // before, in the mode that they counted in. What runs from then on counts in the next mode:
        // the agent that acts may be another core's. Not what was frozen: a late freeze may switch
        // it out until it is let go, which is no block.
        if matches!(level, Level::Foreground(_)) && self.means.events {
            result = self.settle(index);
            if was != Level::Frozen {
                read_at = read_at.or_else(|| Some(self.exec.now()));
            }
        }
        let vcpu_handle = &mut self.vcpu_handles[index];
        let threads = vcpu_handle.threads().len();
        // Between other levels no class is set.
        let sets = [was, level].iter().any(|level| matches!(level, Level::Foreground(_)));
        let begun = (sets && Crowd::measures(threads)).then(|| self.exec.now());
        match level {
            Level::Foreground(priority) => {
                vcpu_handle.last_priority = priority;
                result = result.and_then(|()| vcpu_handle.raise(priority));
                if !self.means.events {
                    result = result.and_then(|()| vcpu_handle.settle());
                }
            }
            Level::Background | Level::Watched => result = vcpu_handle.demote(),
            Level::Frozen => {
                result = vcpu_handle.demote();
                self.exec.freeze(&vcpu_handle.handle, true);
            }
        }
        if let Some(begun) = begun {
            self.ranks.crowd.took(threads, self.exec.now().saturating_since(begun));
        }
        if was == Level::Frozen {
            self.exec.freeze(&vcpu_handle.handle, false);
        }
        result = result.and(vcpu_handle.handle.refusal());
        if !matches!(level, Level::Foreground(_)) {
            result = result.and(self.settle(index));
            self.dispatches.stopped(id);
        }
        let vcpu_handle = &mut self.vcpu_handles[index];
        vcpu_handle.level = level;
        vcpu_handle.motion.restart();
        vcpu_handle.frozen_from = mode;
        let (next, frozen) = (vcpu_handle.mode(), level == Level::Frozen);
        self.own_threads(index);
        let vcpu_handle = &self.vcpu_handles[index];
        if mode != next || frozen != (was == Level::Frozen) || end == End::Moved {
            let meter_ns = vcpu_handle.meter(mode).ticks();
            // What is stopped or started meanwhile runs no sooner than the agent sleeps; on some
            // hosts the clock is a system call.
            let at = read_at.unwrap_or_else(|| self.exec.now());
            self.vcpu_handles[index].settled_at = at;
            if self.means.events {
                let change = Change { at, vcpu: id, mode, meter_ns, end, next, frozen };
                self.tracker.changes.push_back(change);
            } else {
                self.report_clock(index, mode, end, at);
            }
        }
        if result.is_err() {
            self.was_refused(index);
        }
        self.report(result, if frozen { Refused::Stop(id) } else { Refused::Start(id) });
    }

    /// Where the VCPU handle of `vcpu` stands in `vcpu_handles`.
    pub fn index(&self, vcpu: VcpuId) -> Option<usize> {
        position(&self.vcpu_handles, vcpu)
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

/// Where the VCPU handle of `vcpu` stands among these.
fn position<H>(vcpu_handles: &[VcpuHandle<H>], vcpu: VcpuId) -> Option<usize> {
    vcpu_handles.iter().position(|handle| handle.id == vcpu)
}
