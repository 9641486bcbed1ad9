//! What stands in for the decider of the live machine: it reports to the policy what the cores
//! report, has them follow its plan, moves VCPUs, and serves requests. It is written after
//! `crates/live/src/machine/decider.rs`, without the locks, the journal and service requests, which
//! it refuses.

use super::host::{Shared, SimCore, SimVcpu};
use super::rig::{Due, Request};
use crate::live::world::Program;
use maracas_core::contract::{End, Mode, Refused, ServiceRequest, decide};
use maracas_core::{CoreId, CoreSet, Event, Instant, Job, Plan, Policy, Vcpu, VcpuId};
use maracas_live_core::{Core, Demand, Executor, VcpuHandle};
use std::collections::BTreeMap;
use std::rc::Rc;

/// How long a hold may keep freezing off at most, in nanoseconds.
const LONGEST_HOLD: u64 = 2_000_000_000;
/// Releases of one VCPU that no program has learned of.
const UNOBSERVED_EACH: usize = 16;

/// A VCPU that the policy knows.
pub(super) struct Known {
    pub(super) vcpu: Vcpu,
    pub(super) slot: Option<CoreId>,
    pub(super) demand: Option<Demand>,
    pub(super) program: Program,
}

/// What was reported of a VCPU: service by mode.
pub(super) type Reported = BTreeMap<VcpuId, [u64; 2]>;

pub(super) struct Decider {
    pub(super) shared: Rc<Shared>,
    pub(super) policy: Box<dyn Policy>,
    pub(super) plan: Plan,
    has_begun: bool,
    pub(super) known: BTreeMap<VcpuId, Known>,
    pub(super) reported: Reported,
    /// How many refusals were reported to the policy.
    pub(super) failed: u64,
    /// A digest of all that was reported and decided.
    pub(super) digest: u64,
    pub(super) due: Vec<Due>,
    pub(super) held: u32,
    holds: Vec<(u64, u64)>,
    events: Vec<(Instant, Event)>,
    unobserved: Vec<Job>,
    leaving: Vec<VcpuId>,
    behind: bool,
    arrived: CoreSet,
    fed: bool,
    /// Decisions, for bounds.
    pub(super) decisions: u64,
    pub(super) reported_events: u64,
}

impl Decider {
    pub(super) fn new(shared: Rc<Shared>, policy: Box<dyn Policy>, cores: usize) -> Self {
        let plan = Plan::new(cores);
        Self {
            has_begun: false,
            shared,
            policy,
            plan,
            known: BTreeMap::new(),
            reported: Reported::new(),
            failed: 0,
            digest: 0,
            due: Vec::new(),
            held: 0,
            holds: Vec::new(),
            events: Vec::new(),
            unobserved: Vec::new(),
            leaving: Vec::new(),
            behind: false,
            arrived: CoreSet::EMPTY,
            fed: false,
            decisions: 0,
            reported_events: 0,
        }
    }

    /// One look at everything, by the agent of `own`; which agents are to look next.
    pub(super) fn round(&mut self, cores: &mut [Core<SimCore>], own: CoreId) -> CoreSet {
        let now = cores[0].exec.now();
        let asleep = std::mem::replace(&mut self.has_begun, true) && self.plan.wake > now;
        if !asleep && self.plan.wake_metered {
            cores.iter_mut().for_each(Core::meter_running);
        }
        self.fed = false;
        self.let_go(cores, |(_, until)| until <= now.ticks());
        self.listen(cores);
        self.serve_due(cores, now);
        self.releases(cores, now);
        let mut called = CoreSet::EMPTY;
        if self.fed || !asleep {
            called = self.decide(cores, own);
        } else {
            let stirred = stirred(cores);
            if !stirred.is_empty() {
                called = self.enact(cores, stirred, own, now);
            }
            self.announce();
        }
        if let Some((_, service_request)) = self.plan.service_request {
            let what = match service_request {
                ServiceRequest::Sample => Refused::Sample,
                ServiceRequest::Move { vcpu, .. } => Refused::Move(vcpu),
            };
            self.tell(now, &Event::Failed { core: own, what });
            called = called.union(self.decide(cores, own));
        }
        if cores.iter().any(Core::is_spent) {
            called.insert(own);
        }
        self.wake_up(cores, own);
        called
    }

    fn decide(&mut self, cores: &mut [Core<SimCore>], own: CoreId) -> CoreSet {
        let stirred = stirred(cores);
        let now = cores[0].exec.now();
        self.decisions += 1;
        decide(self.policy.as_mut(), now, &mut self.plan);
        self.mix(self.plan.wake.ticks());
        let called = self.enact(cores, stirred, own, now);
        self.announce();
        self.answer(cores);
        called
    }

    fn mix(&mut self, word: u64) {
        self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// Reads the records of all cores and reports to the policy.
    pub(super) fn listen(&mut self, cores: &mut [Core<SimCore>]) {
        for core in cores {
            core.drain();
            std::mem::swap(&mut core.outbox, &mut self.events);
            core.take_notes().for_each(drop);
            let mut events = std::mem::take(&mut self.events);
            events.drain(..).for_each(|(at, event)| self.tell(at, &event));
            self.events = events;
        }
    }

    pub(super) fn tell(&mut self, at: Instant, event: &Event) {
        self.policy.on_event(at, event);
        self.fed = true;
        self.reported_events += 1;
        self.mix(at.ticks());
        match event {
            Event::Ran(segment) => {
                let reported = self.reported.entry(segment.vcpu).or_default();
                reported[segment.mode as usize] += segment.usage.service.ticks();
                self.mix(segment.usage.service.ticks());
            }
            Event::Failed { .. } => self.failed += 1,
            Event::Released(_)
            | Event::Completed(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_)
            | Event::ServiceDone(_) => {}
        }
    }

    fn releases(&mut self, cores: &mut [Core<SimCore>], now: Instant) {
        let done = std::mem::take(&mut self.shared.world.borrow_mut().done);
        for (job, at) in done {
            let Some(known) = self.known.get_mut(&job.vcpu) else { continue };
            let Some(demand) = &mut known.demand else { continue };
            if !demand.complete(job.index) {
                continue;
            }
            if let Some(slot) = known.slot.filter(|_| !demand.is_pending())
                && let Some(vcpu_handle) = cores[usize::from(slot.0)].vcpu_handle(job.vcpu)
            {
                vcpu_handle.is_done = true;
            }
            self.tell(Instant::from_ticks(at).min(now), &Event::Completed(job));
        }
        let mut events = Vec::new();
        for known in self.known.values_mut() {
            let Some(demand) = &mut known.demand else { continue };
            let mut released = false;
            // The first job of a program that never learned of one is not presumed done.
            while let Some(event) = demand.next_event(now) {
                if let Event::Released(job) = &event.1 {
                    released = true;
                    let own = self.unobserved.iter().filter(|of| of.id.vcpu == job.id.vcpu).count();
                    if own < UNOBSERVED_EACH {
                        self.unobserved.push(*job);
                    }
                }
                events.push(event);
            }
            if let Some(slot) = known.slot.filter(|_| released) {
                cores[usize::from(slot.0)].released(known.vcpu.id);
            }
        }
        events.iter().for_each(|(at, event)| self.tell(*at, event));
    }

    fn serve_due(&mut self, cores: &mut [Core<SimCore>], now: Instant) {
        while let Some(place) = self.due.iter().position(|due| due.at <= now.ticks()) {
            let Due { request, .. } = self.due.remove(place);
            match request {
                Request::Create(vcpu, program) => {
                    self.tell(now, &Event::Arrived(vcpu.clone()));
                    let (id, slot, demand) = (vcpu.id, None, None);
                    self.known.insert(id, Known { vcpu, slot, demand, program });
                }
                Request::Set(id, budget) => {
                    if let Some(known) = self.known.get(&id) {
                        let mut vcpu = known.vcpu.clone();
                        vcpu.reservation.budget = budget;
                        self.tell(now, &Event::Changed(vcpu));
                    }
                }
                Request::Destroy(id) => {
                    if self.known.contains_key(&id) && !self.leaving.contains(&id) {
                        self.unobserved.retain(|job| job.id.vcpu != id);
                        self.tell(now, &Event::Left(id));
                        self.leaving.push(id);
                    }
                }
                Request::Attach(id) => {
                    self.attach(cores, id, now);
                    self.let_go(cores, |(number, _)| number == u64::from(id.0));
                }
            }
        }
    }

    /// A program is about to be started.
    fn hold(&mut self, cores: &mut [Core<SimCore>], number: u64, now: u64) {
        self.held += 1;
        self.holds.push((number, now + LONGEST_HOLD));
        cores.iter_mut().for_each(|core| core.hold(true));
    }

    fn let_go(&mut self, cores: &mut [Core<SimCore>], is_over: impl Fn((u64, u64)) -> bool) {
        while let Some(place) = self.holds.iter().position(|hold| is_over(*hold)) {
            self.holds.swap_remove(place);
            self.held -= 1;
            cores.iter_mut().for_each(|core| core.hold(false));
        }
    }

    /// A VCPU gets its VCPU handle, on the core where the plan has it.
    pub(super) fn attach(&mut self, cores: &mut [Core<SimCore>], id: VcpuId, now: Instant) {
        let Some(known) = self.known.get(&id) else { return };
        let home = known.slot.or_else(|| self.plan.home(id));
        let place = home.or_else(|| on_run_queue(&self.plan, id)).unwrap_or_default();
        let Some(known) = self.known.get_mut(&id) else { return };
        let group = self.shared.world.borrow_mut().add(id, usize::from(place.0), known.program);
        let handle = SimVcpu::new(Rc::clone(&self.shared), group);
        known.slot = Some(place);
        known.demand = Demand::new(&known.vcpu, now);
        let mut vcpu_handle = VcpuHandle::new(id, handle, true);
        vcpu_handle.has_jobs = known.demand.is_some();
        let core = &mut cores[usize::from(place.0)];
        let sits = vcpu_handle.sit(core.place());
        core.attach(vcpu_handle, sits);
        if let Some(index) = core.index(id) {
            core.rescan(index);
            core.vcpu_handles[index].suppose_runnable();
        }
        core.stirred = true;
        self.tell(now, &Event::Woke { vcpu: id, on_behalf: None, exact: true });
    }

    fn announce(&mut self) {
        let Self { unobserved, plan, known, shared, .. } = self;
        unobserved.retain(|job| {
            let run_queue = on_run_queue(plan, job.id.vcpu);
            let stands = run_queue.is_some()
                && known.get(&job.id.vcpu).is_some_and(|it| it.slot == run_queue);
            if stands {
                shared.world.borrow_mut().release(job.id.vcpu, job.id.index);
            }
            !stands
        });
    }

    /// Verdicts and ends.
    fn answer(&mut self, cores: &mut [Core<SimCore>]) {
        let now = cores[0].exec.now().ticks();
        let verdicts: Vec<_> =
            self.plan.verdicts().iter().map(|(id, verdict)| (*id, verdict.is_ok())).collect();
        for (id, is_ok) in verdicts {
            let Some(known) = self.known.get(&id) else { continue };
            let is_new = known.slot.is_none() && known.demand.is_none();
            if is_new && is_ok {
                // Its program is started while nothing is frozen.
                self.hold(cores, u64::from(id.0), now);
                self.due.push(Due { at: now + 1_000_000, request: Request::Attach(id) });
            } else if is_new {
                self.known.remove(&id);
            }
        }
        while let Some(id) = self.leaving.pop() {
            let slot = self.known.remove(&id).and_then(|known| known.slot);
            let Some(slot) = slot else { continue };
            let vcpu_handle = cores[usize::from(slot.0)].detach(id, End::Exited);
            if let Some(mut vcpu_handle) = vcpu_handle {
                // What is refused now the supervisor tries again.
                let refused = self.shared.refused.get();
                let _ = vcpu_handle.release();
                self.shared.refused.set(refused);
                let group = vcpu_handle.handle.group;
                self.shared.world.borrow_mut().end_group(group);
            }
        }
    }

    fn enact(
        &mut self,
        cores: &mut [Core<SimCore>],
        stirred: CoreSet,
        own: CoreId,
        decided: Instant,
    ) -> CoreSet {
        let dirty = *self.plan.dirty();
        for core in dirty.iter() {
            cores[usize::from(core.0)].follow(self.plan.run_queue(core), decided);
        }
        let called = self.moves(cores, own);
        let arrived = std::mem::take(&mut self.arrived);
        let touched = dirty.union(stirred).union(called).union(arrived);
        for core in touched.iter() {
            let core = &mut cores[usize::from(core.0)];
            core.judge();
            core.stops();
        }
        touched.iter().for_each(|core| cores[usize::from(core.0)].starts());
        touched.iter().for_each(|core| cores[usize::from(core.0)].note_first(None, decided));
        called
    }

    fn moves(&mut self, cores: &mut [Core<SimCore>], own: CoreId) -> CoreSet {
        let mut called = CoreSet::EMPTY;
        if self.held > 0 {
            self.behind = true;
            return called;
        }
        let all = std::mem::take(&mut self.behind);
        if all {
            let vcpu_handles = cores.iter_mut().flat_map(|core| &mut core.vcpu_handles);
            vcpu_handles.for_each(|vcpu_handle| vcpu_handle.is_leaving = false);
        }
        let cores_of_plan = (0..self.plan.cores() as u16).map(CoreId).filter(|_| all).collect();
        for to in self.plan.dirty().union(cores_of_plan).iter() {
            for place in 0.. {
                let run_queue = self.plan.run_queue(to);
                let grant = run_queue.foreground.iter().chain(&run_queue.background).nth(place);
                let Some(vcpu) = grant.map(|grant| grant.vcpu) else { break };
                called = called.union(self.bring(cores, vcpu, to, own));
            }
        }
        for place in 0..self.plan.rehomed().len() {
            let vcpu = self.plan.rehomed()[place];
            if let Some(to) = self.plan.home(vcpu) {
                called = called.union(self.bring(cores, vcpu, to, own));
            }
        }
        called
    }

    fn bring(
        &mut self,
        cores: &mut [Core<SimCore>],
        vcpu: VcpuId,
        to: CoreId,
        own: CoreId,
    ) -> CoreSet {
        let Some(known) = self.known.get_mut(&vcpu) else { return CoreSet::EMPTY };
        let Some(from) = known.slot.filter(|from| *from != to) else { return CoreSet::EMPTY };
        let there = &mut cores[usize::from(from.0)];
        if from != own && there.is_running(vcpu) {
            there.stirred = true;
            there
                .vcpu_handle(vcpu)
                .into_iter()
                .for_each(|vcpu_handle| vcpu_handle.is_leaving = true);
            cores[usize::from(to.0)].stirred = true;
            self.behind = true;
            return [from].into_iter().collect();
        }
        if let Some(mut vcpu_handle) = there.detach(vcpu, End::Moved) {
            known.slot = Some(to);
            self.arrived.insert(to);
            let core = &mut cores[usize::from(to.0)];
            let sits = vcpu_handle.sit(core.place());
            core.attach(vcpu_handle, sits);
        }
        CoreSet::EMPTY
    }

    fn wake_up(&mut self, cores: &mut [Core<SimCore>], own: CoreId) {
        let ids = (0..cores.len() as u16).map(CoreId);
        let is_known = ids.clone().any(|core| self.plan.core_wake(core) == self.plan.wake);
        let holds = self.holds.iter().map(|(_, until)| *until);
        let ends = holds.chain(self.due.iter().map(|due| due.at)).min();
        for id in ids {
            let here = |known: &&Known| known.slot.unwrap_or(own) == id;
            let demands = self.known.values().filter(here).filter_map(|it| it.demand.as_ref());
            let due = demands.map(Demand::next_due).min().unwrap_or(Instant::NEVER);
            let mut wake_at = self.plan.core_wake(id).min(due);
            if id == own {
                wake_at = wake_at.min(ends.map_or(Instant::NEVER, Instant::from_ticks));
                wake_at = if is_known { wake_at } else { wake_at.min(self.plan.wake) };
            }
            let core = &mut cores[usize::from(id.0)];
            core.wake_at = wake_at;
            core.set_alarm();
        }
    }
}

/// What a mode is called.
pub(super) const MODES: [Mode; 2] = [Mode::Foreground, Mode::Background];

fn stirred(cores: &mut [Core<SimCore>]) -> CoreSet {
    let stirred =
        cores.iter_mut().filter_map(|core| std::mem::take(&mut core.stirred).then_some(core.id));
    stirred.collect()
}

/// The core on whose run queue a VCPU stands.
fn on_run_queue(plan: &Plan, vcpu: VcpuId) -> Option<CoreId> {
    (0..plan.cores() as u16).map(CoreId).find(|core| {
        let run_queue = plan.run_queue(*core);
        run_queue.foreground.iter().chain(&run_queue.background).any(|grant| grant.vcpu == vcpu)
    })
}
