//! The loop: one instant after another, what happened, the law, and the decision. The law is
//! enacted in `law`, the policy spoken to in `decision`; `memory` holds the memory meters and asks
//! the contention model, `service_request` has service VCPUs do what the policy sent them for.

mod decision;
mod law;
mod locks;
mod memory;
mod script;
mod service_request;

use crate::agenda::{Agenda, Kind};
use crate::memory::{Contention, Resident};
use crate::rng::{Purpose, Stream};
use crate::workload::{Demands, Done, NONE, Standing, Start};
use crate::{Change, Options, Outcome};
use maracas_core::contract::{End, Event, Limit, Mode, Observer, ServiceRequest};
use maracas_core::dispatch::{Readings, Running};
use maracas_core::script::Scripts;
use maracas_core::{
    CoreId, CoreSet, Duration, Instant, JobId, Plan, Policy, Program, Soonest, System, VcpuId,
};
use memory::{MemoryMeter, Sampled};

/// One core and what runs on it.
#[derive(Clone, Copy, Debug)]
struct Core {
    /// The running VCPU, or `NONE`.
    running: u32,
    mode: Mode,
    until: Limit,
    /// When a grant that is ahead begins to count.
    due: Instant,
    /// When the segment began.
    from: Instant,
    /// Up to when the VCPU's meter and progress are accounted.
    synced: Instant,
    /// Until when the core works off charged overheads and its VCPU makes no progress.
    stalled: Instant,
    /// What the running segment's start was charged; given back if the segment stays empty.
    start_cost: Duration,
    switched: bool,
    /// The VCPU that ran last, and when it stopped.
    resident: (u32, Instant),
    idle_since: Instant,
    idle: Duration,
}

pub(crate) struct Machine<'a, C> {
    policy: &'a mut dyn Policy,
    observer: &'a mut dyn Observer,
    options: &'a Options,
    contention: C,
    now: Instant,
    agenda: Agenda,
    demands: Demands,
    changes: Vec<Change>,
    /// Those of them that were asked for and are not answered.
    asked: Vec<u32>,
    cores: Vec<Core>,
    /// When each core's VCPU ends its piece or reaches its limit, or a grant begins to count there.
    nexts: Soonest,
    /// What the law chose for the cores that are to run another one; scratch of one enactment.
    choices: Vec<(usize, Option<Running>)>,
    /// VCPUs that the enactment at hand takes from one core to another; scratch.
    moving: Vec<u32>,
    /// By core.
    meters: Vec<MemoryMeter>,
    /// Which VCPU ran where when the contention model was last asked.
    residents: Vec<Option<Resident>>,
    /// Whether the set of running programs may have changed since.
    set_changed: bool,
    plan: Plan,
    /// When the next decision is taken.
    due: Instant,
    /// Whether the policy got any event since it was last asked.
    reported: bool,
    /// Where the first of these things happened.
    decider: usize,
    /// Events that happened and are not reported yet; used only where decisions come late.
    inbox: Vec<(Instant, Event)>,
    lateness: Stream,
    /// The service request under way.
    service_request: Option<(VcpuId, ServiceRequest)>,
    /// What the memory controller had counted when it was last asked.
    sampled: Sampled,
    outcome: Outcome,
}

impl<'a, C: Contention> Machine<'a, C> {
    pub(crate) fn new(
        system: &System,
        programs: &[Program],
        policy: &'a mut dyn Policy,
        options: &'a Options,
        observer: &'a mut dyn Observer,
        mut contention: C,
    ) -> Self {
        let meters = policy.meters();
        contention.meter(meters);
        let count = system.cores.len();
        let mut agenda = Agenda::default();
        // A program that ends when it starts, or before, never comes.
        let comes = |program: &Program| program.arrive < program.depart;
        for (id, program) in programs.iter().enumerate().filter(|(_, program)| comes(program)) {
            agenda.push(program.arrive, Kind::Arrive, id as u32);
            if program.depart != Instant::NEVER {
                agenda.push(program.depart, Kind::Depart, id as u32);
            }
        }
        Self {
            policy,
            observer,
            options,
            contention,
            now: Instant::ZERO,
            agenda,
            demands: Demands::new(system, programs, options.seed),
            changes: Vec::new(),
            asked: Vec::new(),
            cores: vec![Core::IDLE; count],
            nexts: Soonest::new(count),
            choices: Vec::new(),
            moving: Vec::new(),
            meters: vec![MemoryMeter::NEW; count],
            residents: vec![None; if C::CONTENDS { count } else { 0 }],
            set_changed: false,
            plan: Plan::new(count),
            due: Instant::ZERO,
            reported: false,
            decider: 0,
            inbox: Vec::new(),
            lateness: Stream::new(options.seed, Purpose::Lateness, 0, 0),
            service_request: None,
            sampled: Sampled::new(meters),
            outcome: Outcome::default(),
        }
    }

    /// The same with requests to change.
    pub(crate) fn changing(mut self, changes: &[Change]) -> Self {
        for (id, change) in (0..).zip(changes) {
            self.agenda.push(change.at, Kind::Change, id);
        }
        self.changes = changes.to_vec();
        self
    }

    /// The same with what programs with the workload `Script` do.
    pub(crate) fn acting(mut self, scripts: &Scripts, system: &System) -> Self {
        self.demands.take_scripts(scripts, system);
        self
    }

    pub(crate) fn run(mut self) -> Outcome {
        let mut concerned = CoreSet::EMPTY;
        loop {
            let on_cores = self.nexts.first();
            let mut now = on_cores.min(self.agenda.next()).min(self.due);
            if C::CONTENDS {
                now = now.min(self.contention.next_change()).max(self.now);
            }
            if now >= self.options.until {
                break;
            }
            assert!(now >= self.now, "time ran backwards, from {} to {now}", self.now);
            self.now = now;
            if self.shares() {
                self.count_blocking();
            }
            if on_cores == now {
                self.cores_happen(&mut concerned);
            }
            while let Some((kind, id)) = self.agenda.due(now) {
                self.happen(kind, id, &mut concerned);
            }
            if !concerned.is_empty() && !self.may_wait(&concerned) {
                self.apply_law(&concerned);
                concerned.clear();
            }
            if self.due <= now {
                self.take_decision(&mut concerned);
            }
            if C::CONTENDS && (self.set_changed || self.contention.next_change() <= now) {
                self.resolve_contention();
            }
        }
        self.end()
    }

    /// Whether jobs share resources.
    #[inline]
    pub(super) fn shares(&self) -> bool {
        !C::BARE && self.demands.locks.is_some()
    }

    /// Closes the run: completions on the horizon, the running segments, what was not reported yet.
    fn end(mut self) -> Outcome {
        if self.options.until != Instant::NEVER {
            self.now = self.options.until;
        }
        self.count_blocking();
        let mut concerned = CoreSet::EMPTY;
        self.cores_happen(&mut concerned);
        self.meter();
        self.deliver();
        let now = self.now;
        self.outcome.end = now;
        self.outcome.effort = self.contention.effort();
        self.outcome.memory = self.contention.totals(now).cloned();
        self.outcome.acted = self.demands.acted(now);
        let locks = self.demands.locks.as_ref();
        self.outcome.blocking = locks.map(|locks| locks.outcome(now)).unwrap_or_default();
        for demand in self.demands.iter() {
            self.outcome.missed += demand.overdue(now);
        }
        for core in &self.cores {
            let open = if core.running == NONE { now - core.idle_since } else { Duration::ZERO };
            self.outcome.idle.push(core.idle + open);
        }
        self.outcome
    }

    /// Pieces that end and marks that are reached at this instant, by core.
    fn cores_happen(&mut self, concerned: &mut CoreSet) {
        let mut from = 0;
        while self.nexts.first() <= self.now
            && let Some(core) = self.nexts.due(from, self.now)
        {
            from = core + 1;
            self.settle(core);
            let Core { running: vcpu, mode, until, due, .. } = self.cores[core];
            if due <= self.now {
                self.begin_due(core, concerned);
            }
            if vcpu == NONE {
                self.nexts.set(core, self.cores[core].due);
                continue;
            }
            if self.demands.left(vcpu).is_zero() {
                self.finish_piece(vcpu, core, concerned);
                if !self.demands.of(vcpu).runnable() {
                    self.stop(core, End::Blocked);
                    concerned.insert(CoreId(core as u16));
                    continue;
                }
            }
            if until != Limit::NEVER && self.demands.meter(VcpuId(vcpu), mode) >= until.0 {
                if !self.goes_on(core) {
                    self.stop(core, End::LimitReached);
                }
                concerned.insert(CoreId(core as u16));
            } else if let Some(end) = self.memory_end(core) {
                self.stop(core, end);
                concerned.insert(CoreId(core as u16));
            } else {
                self.retime(core);
                assert!(
                    self.nexts.at(core) > self.now || C::CONTENDS && self.set_changed,
                    "core{core} makes no progress at {}",
                    self.now
                );
            }
        }
    }

    fn finish_piece(&mut self, vcpu: u32, core: usize, concerned: &mut CoreSet) {
        if self.shares() && self.pass_cut(vcpu, core, concerned) {
            return;
        }
        match self.demands.finish(vcpu, self.now) {
            Done::Plain => {}
            Done::Sleep(thread, until) => self.agenda.push(until, Kind::Wake, thread),
            Done::Completed(id, deadline) => self.complete(core, id, deadline),
            Done::Job => self.complete_jobs(vcpu, core),
            Done::ServiceRequest => self.finish_service_request(core),
            Done::Acts => self.perform(concerned),
        }
        // Another program of the VCPU may go on.
        self.set_changed = true;
    }

    #[inline]
    fn complete(&mut self, core: usize, id: JobId, deadline: Instant) {
        self.outcome.completed += 1;
        self.outcome.missed += u64::from(self.now > deadline);
        self.tell(core, &Event::Completed(id));
        if self.shares() {
            self.end_job(id.vcpu.0);
        }
    }

    fn complete_jobs(&mut self, vcpu: u32, core: usize) {
        while let Some((id, deadline)) = self.demands.complete(vcpu) {
            self.complete(core, id, deadline);
            if !self.demands.of(vcpu).has_pending() {
                return;
            }
        }
    }

    /// The first entry of the agenda happens.
    fn happen(&mut self, kind: Kind, id: u32, concerned: &mut CoreSet) {
        match kind {
            Kind::Release => self.release(id, concerned),
            Kind::Wake => {
                let vcpu = self.demands.vcpu_of(id);
                let was_runnable = self.demands.of(vcpu).runnable();
                let Some((on_behalf, next)) = self.demands.wake(id, self.now) else {
                    self.agenda.pop();
                    return self.perform(concerned);
                };
                match next {
                    Some(next) => self.agenda.put_off(next),
                    None => self.agenda.pop(),
                }
                self.woke(vcpu, was_runnable, on_behalf, concerned);
            }
            Kind::Arrive => {
                self.agenda.pop();
                let vcpu = self.demands.vcpu_of(id);
                if self.demands.arrive(id) {
                    let arrived = self.demands.of(vcpu).vcpu.clone();
                    self.tell(0, &Event::Arrived(arrived));
                } else {
                    self.start_programs(vcpu, concerned);
                }
            }
            Kind::Change => {
                self.agenda.pop();
                self.ask_for_change(id);
            }
            Kind::Depart => {
                self.agenda.pop();
                self.depart(id, concerned);
            }
        }
    }

    fn release(&mut self, vcpu: u32, concerned: &mut CoreSet) {
        let running = self.demands.of(vcpu).on;
        if running != NONE {
            // A release may cut short the optional part that the VCPU is running.
            self.settle(running as usize);
        }
        let core = if C::BARE { 0 } else { self.place_of(vcpu) };
        let Some((job, next)) = self.demands.release(vcpu, self.now) else {
            return self.agenda.pop();
        };
        if self.shares() {
            self.begin_job(vcpu);
        }
        self.agenda.put_off(next);
        self.outcome.released += 1;
        self.tell(core, &Event::Released(job));
        self.charge(core, self.options.overheads.release);
        if running != NONE {
            self.retime(running as usize);
        } else {
            self.concern(vcpu, concerned);
        }
    }

    fn depart(&mut self, thread: u32, concerned: &mut CoreSet) {
        let vcpu = self.demands.vcpu_of(thread);
        let on = self.demands.of(vcpu).on;
        if on != NONE {
            self.settle(on as usize);
        }
        let place = self.place_of(vcpu);
        let leaves = self.demands.depart(thread);
        self.contention.leave(thread);
        self.set_changed = true;
        self.complete_jobs(vcpu, place);
        if on != NONE && (leaves || !self.demands.of(vcpu).runnable()) {
            self.stop(on as usize, if leaves { End::Exited } else { End::Blocked });
            concerned.insert(CoreId(on as u16));
        } else if on != NONE {
            self.retime(on as usize);
        }
        if leaves {
            self.outcome.missed += self.demands.of(vcpu).overdue(self.now);
            self.demands.of_mut(vcpu).abandon();
            self.tell(place, &Event::Left(VcpuId(vcpu)));
        }
    }

    /// Starts the programs of an admitted VCPU that wait for it.
    fn start_programs(&mut self, vcpu: u32, concerned: &mut CoreSet) {
        if self.demands.of(vcpu).standing != Standing::In {
            return;
        }
        while let Some(thread) = self.demands.held(vcpu) {
            let was_runnable = self.demands.of(vcpu).runnable();
            match self.demands.start(thread, self.now) {
                Start::Works => self.woke(vcpu, was_runnable, None, concerned),
                Start::Event(at) => self.agenda.push(at, Kind::Wake, thread),
                Start::Release(at) => self.agenda.push(at, Kind::Release, vcpu),
                Start::Acts => self.perform(concerned),
                Start::Waits => {}
            }
        }
    }

    /// A program of `vcpu` has something to do, other than by a release.
    fn woke(
        &mut self,
        vcpu: u32,
        was_runnable: bool,
        on_behalf: Option<VcpuId>,
        concerned: &mut CoreSet,
    ) {
        if was_runnable {
            return;
        }
        // A service VCPU is woken by the machine itself, which knows what it does.
        if self.options.hidden_wakes && !self.demands.of(vcpu).carries() {
            self.demands.of_mut(vcpu).hidden = Some(on_behalf);
        } else {
            let woke = Event::Woke { vcpu: VcpuId(vcpu), on_behalf, exact: true };
            self.tell(self.place_of(vcpu), &woke);
        }
        self.concern(vcpu, concerned);
    }
}

impl Core {
    const IDLE: Self = Self {
        running: NONE,
        mode: Mode::Foreground,
        until: Limit::NEVER,
        due: Instant::NEVER,
        from: Instant::ZERO,
        synced: Instant::ZERO,
        stalled: Instant::ZERO,
        start_cost: Duration::ZERO,
        switched: false,
        resident: (NONE, Instant::ZERO),
        idle_since: Instant::ZERO,
        idle: Duration::ZERO,
    };
}
