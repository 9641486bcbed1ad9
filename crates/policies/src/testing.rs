//! A machine for this room's tests: one tick at a time, by the law, and as hostile as asked.
//!
//! Events wait in one queue a core and may be given late; decisions may come late, too often or not
//! at all; limits may be overrun. With [`Manners::PERFECT`] it is an exact simulator.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use maracas_core::admission::NotAdmitted;
use maracas_core::contract::{
    End, Entry, Limit, Mode, Refused, Sample, Segment, ServiceRequest, Usage, decide,
};
use maracas_core::dispatch::{self, Readings, Running};
use maracas_core::params::{Params, Value};
use maracas_core::{
    CoreId, Duration, Event, Instant, Job, JobId, Plan, Policy, System, Vcpu, VcpuId,
};

/// Splitmix64.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }
}

/// How the machine behaves: each field is "one in so many", 0 = never.
#[derive(Clone, Copy)]
pub(crate) struct Manners {
    /// A tick without telling what happened.
    pub(crate) silent: u64,
    /// A tick without a decision, though something happened.
    pub(crate) late: u64,
    /// A decision that nothing calls for.
    pub(crate) extra: u64,
    /// A segment reported in the middle.
    pub(crate) metered: u64,
    /// A tick past a limit.
    pub(crate) overrun: u64,
    /// A service request that fails.
    pub(crate) failing: u64,
}

impl Manners {
    pub(crate) const PERFECT: Self =
        Self { silent: 0, late: 0, extra: 0, metered: 0, overrun: 0, failing: 0 };
    pub(crate) const HOSTILE: Self =
        Self { silent: 3, late: 3, extra: 4, metered: 5, overrun: 6, failing: 5 };
}

#[derive(Clone, Default)]
pub(crate) struct Model {
    pub(crate) meters: [u64; 2],
    pub(crate) awake: bool,
    /// Uncompleted jobs: index, work left, deadline.
    pub(crate) jobs: VecDeque<(u32, u64, u64)>,
    pub(crate) released: u32,
    pub(crate) misses: u64,
    /// Finish instants of completed jobs.
    pub(crate) finished: Vec<u64>,
    /// Memory requests a tick.
    pub(crate) requests: u64,
    /// Instructions a tick on a core of each class, the fastest first.
    pub(crate) instructions: [u64; 2],
    home: CoreId,
}

impl Model {
    fn runnable(&self) -> bool {
        self.awake || !self.jobs.is_empty()
    }
}

struct World<'a>(&'a [Model]);
impl Readings for World<'_> {
    fn runnable(&self, vcpu: VcpuId) -> bool {
        self.0[vcpu.0 as usize].runnable()
    }
    fn meter(&self, vcpu: VcpuId, mode: Mode) -> Duration {
        Duration::from_ticks(self.0[vcpu.0 as usize].meters[mode as usize])
    }
}

#[derive(Clone, Copy)]
struct Run {
    running: Running,
    from: u64,
    service: u64,
}

pub(crate) struct Machine {
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) plan: Plan,
    pub(crate) now: u64,
    pub(crate) models: Vec<Model>,
    pub(crate) manners: Manners,
    pub(crate) rng: Rng,
    cores: Vec<Option<Run>>,
    classes: Vec<u8>,
    pub(crate) answers: Vec<(VcpuId, Result<CoreId, NotAdmitted>)>,
    outboxes: Vec<VecDeque<(u64, Event)>>,
    /// The VCPU that is away, until the answer was given, and the ticks that are left to do.
    service_request: Option<(VcpuId, ServiceRequest, u64)>,
    /// Ticks of a service VCPU's time that every service request takes, above 0.
    pub(crate) service_request_cost: u64,
    /// Service requests that were done, and when.
    pub(crate) service_requests: Vec<(u64, ServiceRequest)>,
    /// By tick, what ran on each core, and how.
    pub(crate) trace: Vec<Vec<Option<(u32, Mode)>>>,
}

impl Machine {
    /// A machine for `system`, which the policy must admit.
    pub(crate) fn new(entry: &Entry, params: &Params, system: &System, manners: Manners) -> Self {
        let policy = (entry.build)(system, params);
        let policy = policy.unwrap_or_else(|why| panic!("{}: {why:?}", entry.name));
        Self {
            policy,
            plan: Plan::new(system.cores.len()),
            now: 0,
            models: alloc::vec![Model::default(); system.vcpus.len()],
            manners,
            rng: Rng(1),
            cores: alloc::vec![None; system.cores.len()],
            classes: system.cores.iter().map(|core| core.class).collect(),
            answers: Vec::new(),
            outboxes: alloc::vec![VecDeque::new(); system.cores.len()],
            service_request: None,
            service_request_cost: 1,
            service_requests: Vec::new(),
            trace: Vec::new(),
        }
    }

    pub(crate) fn tell(&mut self, core: CoreId, event: Event) {
        self.outboxes[core.0 as usize].push_back((self.now, event));
    }
    pub(crate) fn wake(&mut self, vcpu: u32) {
        let model = &mut self.models[vcpu as usize];
        if !model.runnable() {
            model.awake = true;
            let (core, vcpu) = (model.home, VcpuId(vcpu));
            self.tell(core, Event::Woke { vcpu, on_behalf: None, exact: true });
        }
        self.models[vcpu as usize].awake = true;
    }
    pub(crate) fn release(&mut self, vcpu: u32, work: u64, deadline: u64) {
        let now = Instant::from_ticks(self.now);
        let model = &mut self.models[vcpu as usize];
        let id = JobId { vcpu: VcpuId(vcpu), index: model.released };
        model.jobs.push_back((model.released, work, deadline));
        model.released += 1;
        let (core, deadline) = (model.home, Instant::from_ticks(deadline));
        self.tell(core, Event::Released(Job { id, release: now, deadline }));
    }
    /// Takes a VCPU away.
    pub(crate) fn remove(&mut self, vcpu: u32) {
        let core = self.models[vcpu as usize].home;
        self.models[vcpu as usize].awake = false;
        self.models[vcpu as usize].jobs.clear();
        if let Some(running) = self.core_of(vcpu) {
            self.stop(running, End::Exited);
        }
        self.tell(core, Event::Left(VcpuId(vcpu)));
    }
    /// Lets a VCPU block if it runs: what does not run cannot.
    pub(crate) fn sleep(&mut self, vcpu: u32) {
        if let Some(core) = self.core_of(vcpu) {
            self.models[vcpu as usize].awake = false;
            self.stop(core, End::Blocked);
        }
    }
    fn core_of(&self, vcpu: u32) -> Option<usize> {
        self.cores.iter().position(|run| run.is_some_and(|run| run.running.vcpu.0 == vcpu))
    }
    /// Adds a model for a VCPU that asks to be admitted.
    pub(crate) fn arrive(&mut self, vcpu: Vcpu) {
        assert_eq!(vcpu.id.0 as usize, self.models.len());
        self.models.push(Model::default());
        self.tell(CoreId(0), Event::Arrived(vcpu));
    }

    /// Gives the events, decides, enacts, and lets one tick pass.
    pub(crate) fn tick(&mut self) {
        let (manners, due) = (self.manners, self.plan.wake.ticks() <= self.now);
        if due && self.plan.wake_metered {
            (0..self.cores.len()).for_each(|core| self.stop(core, End::Metered));
        }
        let reported = !self.rng.one_in(manners.silent) && self.deliver();
        let asked = reported || due || self.now == 0;
        if asked && !self.rng.one_in(manners.late) || self.rng.one_in(manners.extra) {
            self.decide();
            self.stop_displaced();
        }
        // What was given ahead begins without a decision.
        let just_begun = |core| {
            let (before, now) = (self.now.saturating_sub(1), self.now);
            let run_queue = self.plan.run_queue(core);
            dispatch::due(run_queue, Instant::from_ticks(before)).ticks() == now
        };
        if self.plan.core_ids().any(just_begun) {
            self.stop_displaced();
        }
        // A stop is an event too: with perfect manners it is answered at the same instant.
        while manners.silent == 0 && self.deliver() {
            self.decide();
            self.stop_displaced();
        }
        self.dispatch();
        let row = self.cores.iter().map(|run| run.map(|r| (r.running.vcpu.0, r.running.mode)));
        self.trace.push(row.collect());
        self.run_one_tick();
    }

    fn deliver(&mut self) -> bool {
        let mut reported = false;
        loop {
            let filled: Vec<_> =
                (0..self.outboxes.len()).filter(|core| !self.outboxes[*core].is_empty()).collect();
            if filled.is_empty() {
                return reported;
            }
            let core = filled[self.rng.below(filled.len() as u64) as usize];
            if let Some((at, event)) = self.outboxes[core].pop_front() {
                self.policy.on_event(Instant::from_ticks(at), &event);
                if matches!(event, Event::ServiceDone(_) | Event::Failed { .. }) {
                    self.service_request = None;
                }
            }
            reported = true;
        }
    }

    fn decide(&mut self) {
        let now = Instant::from_ticks(self.now);
        decide(&mut *self.policy, now, &mut self.plan);
        assert_eq!(self.plan.audit(), Ok(()));
        let before = self.plan.clone();
        self.begin_service_request();
        self.answers.extend_from_slice(before.verdicts());
        for vcpu in (0..self.models.len() as u32).map(VcpuId) {
            self.models[vcpu.0 as usize].home = self.plan.home(vcpu).unwrap_or_default();
        }
        decide(&mut *self.policy, now, &mut self.plan);
        assert!(self.plan.dirty().is_empty(), "a second call changed {:?}", self.plan.dirty());
        assert!(self.plan.verdicts().is_empty() && self.plan.rehomed().is_empty());
        assert_eq!(
            (self.plan.wake, self.plan.service_request),
            (before.wake, before.service_request)
        );
        for core in (0..self.cores.len() as u16).map(CoreId) {
            assert_eq!(self.plan.run_queue(core), before.run_queue(core));
        }
    }

    /// Sends the service VCPU where the policy wants a service request. What stands in the plan
    /// while one is away is that one.
    fn begin_service_request(&mut self) {
        if let Some((service_vcpu, service_request, _)) = self.service_request {
            assert_eq!(
                self.plan.service_request,
                Some((service_vcpu, service_request)),
                "one service request at a time"
            );
        } else if let Some((service_vcpu, service_request)) = self.plan.service_request {
            self.service_request = Some((service_vcpu, service_request, self.service_request_cost));
            self.wake(service_vcpu.0);
        }
    }

    /// The service VCPU that runs on `core` did its service request, or could not.
    fn end_service_request(&mut self, core: usize) {
        let Some((service_vcpu, service_request, _)) = self.service_request else { return };
        self.models[service_vcpu.0 as usize].awake = false;
        self.stop(core, End::Blocked);
        let core = CoreId(core as u16);
        let what = match service_request {
            ServiceRequest::Sample => Refused::Sample,
            ServiceRequest::Move { vcpu, .. } => Refused::Move(vcpu),
        };
        if self.rng.one_in(self.manners.failing) {
            return self.tell(core, Event::Failed { core, what });
        }
        self.service_requests.push((self.now, service_request));
        if service_request == ServiceRequest::Sample {
            let sample = self.counted();
            self.tell(core, Event::Sampled(sample));
        }
        self.tell(core, Event::ServiceDone(service_request));
    }

    /// Any counts at all.
    fn counted(&mut self) -> Sample {
        let by_core = (0..self.cores.len()).map(|_| self.rng.below(100)).collect();
        let requests = self.rng.below(200);
        Sample { requests, occupancy: requests * self.rng.below(360), by_core }
    }

    fn lawful(&self, core: usize) -> Option<Running> {
        let (run_queue, now) =
            (self.plan.run_queue(CoreId(core as u16)), Instant::from_ticks(self.now));
        dispatch::next(run_queue, now, 0, &World(&self.models))
    }

    fn stop_displaced(&mut self) {
        for core in 0..self.cores.len() {
            let lawful = self.lawful(core);
            if let Some(run) = self.cores[core]
                && lawful.map(|r| (r.vcpu, r.mode)) != Some((run.running.vcpu, run.running.mode))
                && self.models[run.running.vcpu.0 as usize].runnable()
            {
                self.stop(core, End::Preempted);
            }
        }
    }

    fn dispatch(&mut self) {
        self.stop_displaced();
        for core in 0..self.cores.len() {
            let running = self.lawful(core);
            match (&mut self.cores[core], running) {
                (Some(run), Some(running)) => run.running.until = running.until,
                (slot, running) => {
                    let from = self.now;
                    *slot = running.map(|running| Run { running, from, service: 0 });
                }
            }
        }
        for (i, a) in self.cores.iter().enumerate() {
            for b in self.cores[..i].iter().flatten() {
                assert!(a.is_none_or(|a| a.running.vcpu != b.running.vcpu), "on two cores");
            }
        }
    }

    fn run_one_tick(&mut self) {
        self.now += 1;
        for core in 0..self.cores.len() {
            let Some(run) = &mut self.cores[core] else { continue };
            run.service += 1;
            let (vcpu, mode, until) = (run.running.vcpu, run.running.mode, run.running.until);
            let model = &mut self.models[vcpu.0 as usize];
            model.meters[mode as usize] += 1;
            let spent = Limit(Duration::from_ticks(model.meters[mode as usize])) >= until;
            let completed = model.jobs.front_mut().and_then(|job| {
                job.1 -= 1;
                (job.1 == 0).then_some((job.0, job.2))
            });
            if let Some((index, deadline)) = completed {
                model.jobs.pop_front();
                model.finished.push(self.now);
                model.misses += u64::from(self.now > deadline);
                self.tell(CoreId(core as u16), Event::Completed(JobId { vcpu, index }));
            }
            if let Some((_, _, left)) =
                self.service_request.as_mut().filter(|(one, ..)| *one == vcpu)
            {
                *left -= 1;
                if *left == 0 {
                    self.end_service_request(core);
                    continue;
                }
            }
            if !self.models[vcpu.0 as usize].runnable() {
                self.stop(core, End::Blocked);
            } else if spent && !self.rng.one_in(self.manners.overrun) {
                self.stop(core, End::LimitReached);
            } else if self.rng.one_in(self.manners.metered) {
                self.stop(core, End::Metered);
            }
        }
    }

    fn stop(&mut self, core: usize, end: End) {
        let Some(run) = self.cores[core].take() else { return };
        let vcpu = run.running.vcpu;
        let model = &self.models[vcpu.0 as usize];
        let usage = Usage {
            service: Duration::from_ticks(run.service),
            reads: run.service * model.requests,
            instructions: run.service * model.instructions[usize::from(self.classes[core] > 0)],
            ..Usage::default()
        };
        let (from, to) = (Instant::from_ticks(run.from), Instant::from_ticks(self.now));
        let mode = run.running.mode;
        let segment = Segment { vcpu, core: CoreId(core as u16), mode, from, to, usage, end };
        if end == End::Metered {
            self.cores[core] = Some(Run { from: self.now, service: 0, ..run });
        }
        if run.service > 0 {
            self.tell(segment.core, Event::Ran(segment));
        }
    }

    /// Which VCPU ran on `core`, one letter a tick: `a` for vcpu0 in the foreground, `A` in the
    /// background, `.` for no VCPU.
    pub(crate) fn schedule(&self, core: usize) -> alloc::string::String {
        let letter = |slot: &Option<(u32, Mode)>| match slot {
            Some((vcpu, Mode::Foreground)) => char::from(b'a' + *vcpu as u8),
            Some((vcpu, Mode::Background)) => char::from(b'A' + *vcpu as u8),
            None => '.',
        };
        self.trace.iter().map(|row| letter(&row[core])).collect()
    }
}

/// Runs synchronous periodic tasks (C, T) until `until` with perfect manners.
pub(crate) fn periodic(
    entry: &Entry,
    params: &[(&str, &str)],
    cores: usize,
    tasks: &[(u64, u64)],
    until: u64,
) -> Machine {
    let ticks = Duration::from_ticks;
    let vcpus = (0..).zip(tasks).map(|(id, &(c, t))| Vcpu::new(id, ticks(c), ticks(t)).periodic());
    let system = System::new(cores, vcpus.collect());
    let mut machine = Machine::new(entry, &with(params), &system, Manners::PERFECT);
    while machine.now < until {
        for (id, &(c, t)) in (0..).zip(tasks) {
            if machine.now.is_multiple_of(t) {
                machine.release(id, c, machine.now + t);
            }
        }
        machine.tick();
    }
    machine
}

/// Parameters from words.
pub(crate) fn with(params: &[(&str, &str)]) -> Params {
    let mut given = Params::new();
    for (name, value) in params {
        let text = || Value::Text((*value).into());
        let whole = || value.parse().map_or_else(|_| text(), Value::Whole);
        given.set(name, value.parse().map_or_else(|_| whole(), Value::Flag));
    }
    given
}
