//! What stands in for the decider of the live machine: it tells the policy what the cores tell,
//! has them follow its plan, moves VCPUs, and serves requests. It is written after
//! `crates/live/src/machine/brain.rs`, without the locks, the journal and errands, which it
//! refuses.

use super::host::{Shared, SimCore, SimVcpu};
use super::rig::{Due, Request};
use crate::live::world::Program;
use maracas_core::contract::{End, Errand, Mode, Refused, decide};
use maracas_core::{CoreId, CoreSet, Event, Instant, Job, Plan, Policy, Vcpu, VcpuId};
use maracas_live_core::{Body, Core, Demand, Executor};
use std::collections::BTreeMap;
use std::rc::Rc;

/// How long somebody may hold freezing off at most, in nanoseconds.
const LONGEST_HOLD: u64 = 2_000_000_000;
/// Releases of one VCPU that no program has heard of.
const UNHEARD_EACH: usize = 16;

/// A VCPU that the policy knows.
pub(super) struct Known {
    pub(super) vcpu: Vcpu,
    pub(super) seat: Option<CoreId>,
    pub(super) demand: Option<Demand>,
    pub(super) program: Program,
}

/// What was told of a VCPU: service by mode.
pub(super) type Told = BTreeMap<VcpuId, [u64; 2]>;

pub(super) struct Decider {
    pub(super) shared: Rc<Shared>,
    pub(super) policy: Box<dyn Policy>,
    pub(super) plan: Plan,
    has_begun: bool,
    pub(super) known: BTreeMap<VcpuId, Known>,
    pub(super) told: Told,
    /// How many refusals the policy was told of.
    pub(super) failed: u64,
    /// A digest of all that was told and decided.
    pub(super) digest: u64,
    pub(super) due: Vec<Due>,
    pub(super) held: u32,
    holds: Vec<(u64, u64)>,
    events: Vec<(Instant, Event)>,
    unheard: Vec<Job>,
    leaving: Vec<VcpuId>,
    behind: bool,
    arrived: CoreSet,
    fed: bool,
    /// Decisions, for bounds.
    pub(super) decisions: u64,
    pub(super) told_events: u64,
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
            told: Told::new(),
            failed: 0,
            digest: 0,
            due: Vec::new(),
            held: 0,
            holds: Vec::new(),
            events: Vec::new(),
            unheard: Vec::new(),
            leaving: Vec::new(),
            behind: false,
            arrived: CoreSet::EMPTY,
            fed: false,
            decisions: 0,
            told_events: 0,
        }
    }

    /// One look at everything, by the agent of `own`; which agents shall look next.
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
        if let Some((_, errand)) = self.plan.errand {
            let what = match errand {
                Errand::Sample => Refused::Sample,
                Errand::Move { vcpu, .. } => Refused::Move(vcpu),
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

    /// Reads the records of all cores and tells the policy.
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
        self.told_events += 1;
        self.mix(at.ticks());
        match event {
            Event::Ran(stint) => {
                let told = self.told.entry(stint.vcpu).or_default();
                told[stint.mode as usize] += stint.usage.service.ticks();
                self.mix(stint.usage.service.ticks());
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
            | Event::ErrandDone(_) => {}
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
            if let Some(seat) = known.seat.filter(|_| !demand.is_pending())
                && let Some(body) = cores[usize::from(seat.0)].body(job.vcpu)
            {
                body.is_done = true;
            }
            self.tell(Instant::from_ticks(at).min(now), &Event::Completed(job));
        }
        let mut events = Vec::new();
        for known in self.known.values_mut() {
            let Some(demand) = &mut known.demand else { continue };
            let mut released = false;
            // The first job of a program that never heard of one is not presumed done.
            while let Some(event) = demand.next_event(now) {
                if let Event::Released(job) = &event.1 {
                    released = true;
                    let own = self.unheard.iter().filter(|of| of.id.vcpu == job.id.vcpu).count();
                    if own < UNHEARD_EACH {
                        self.unheard.push(*job);
                    }
                }
                events.push(event);
            }
            if let Some(seat) = known.seat.filter(|_| released) {
                cores[usize::from(seat.0)].released(known.vcpu.id);
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
                    let (id, seat, demand) = (vcpu.id, None, None);
                    self.known.insert(id, Known { vcpu, seat, demand, program });
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
                        self.unheard.retain(|job| job.id.vcpu != id);
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

    /// A VCPU gets its body, on the core where the plan has it.
    pub(super) fn attach(&mut self, cores: &mut [Core<SimCore>], id: VcpuId, now: Instant) {
        let Some(known) = self.known.get(&id) else { return };
        let home = known.seat.or_else(|| self.plan.home(id));
        let place = home.or_else(|| on_line(&self.plan, id)).unwrap_or_default();
        let Some(known) = self.known.get_mut(&id) else { return };
        let group = self.shared.world.borrow_mut().add(id, usize::from(place.0), known.program);
        let handle = SimVcpu::new(Rc::clone(&self.shared), group);
        known.seat = Some(place);
        known.demand = Demand::new(&known.vcpu, now);
        let mut body = Body::new(id, handle, true);
        body.has_jobs = known.demand.is_some();
        let core = &mut cores[usize::from(place.0)];
        let sits = body.sit(core.place());
        core.seat(body, sits);
        if let Some(index) = core.index(id) {
            core.rescan(index);
            core.bodies[index].suppose_runnable();
        }
        core.stirred = true;
        self.tell(now, &Event::Woke { vcpu: id, on_behalf: None, exact: true });
    }

    fn announce(&mut self) {
        let Self { unheard, plan, known, shared, .. } = self;
        unheard.retain(|job| {
            let line = on_line(plan, job.id.vcpu);
            let stands =
                line.is_some() && known.get(&job.id.vcpu).is_some_and(|it| it.seat == line);
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
            let is_new = known.seat.is_none() && known.demand.is_none();
            if is_new && is_ok {
                // Its program is started while nothing is frozen.
                self.hold(cores, u64::from(id.0), now);
                self.due.push(Due { at: now + 1_000_000, request: Request::Attach(id) });
            } else if is_new {
                self.known.remove(&id);
            }
        }
        while let Some(id) = self.leaving.pop() {
            let seat = self.known.remove(&id).and_then(|known| known.seat);
            let Some(seat) = seat else { continue };
            let body = cores[usize::from(seat.0)].unseat(id, End::Exited);
            if let Some(mut body) = body {
                // What is refused now the keeper tries again.
                let refused = self.shared.refused.get();
                let _ = body.release();
                self.shared.refused.set(refused);
                let group = body.handle.group;
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
            cores[usize::from(core.0)].follow(self.plan.line(core), decided);
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
            let bodies = cores.iter_mut().flat_map(|core| &mut core.bodies);
            bodies.for_each(|body| body.is_leaving = false);
        }
        let cores_of_plan = (0..self.plan.cores() as u16).map(CoreId).filter(|_| all).collect();
        for to in self.plan.dirty().union(cores_of_plan).iter() {
            for place in 0.. {
                let line = self.plan.line(to);
                let grant = line.foreground.iter().chain(&line.background).nth(place);
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
        let Some(from) = known.seat.filter(|from| *from != to) else { return CoreSet::EMPTY };
        let there = &mut cores[usize::from(from.0)];
        if from != own && there.is_running(vcpu) {
            there.stirred = true;
            there.body(vcpu).into_iter().for_each(|body| body.is_leaving = true);
            cores[usize::from(to.0)].stirred = true;
            self.behind = true;
            return [from].into_iter().collect();
        }
        if let Some(mut body) = there.unseat(vcpu, End::Moved) {
            known.seat = Some(to);
            self.arrived.insert(to);
            let core = &mut cores[usize::from(to.0)];
            let sits = body.sit(core.place());
            core.seat(body, sits);
        }
        CoreSet::EMPTY
    }

    fn wake_up(&mut self, cores: &mut [Core<SimCore>], own: CoreId) {
        let ids = (0..cores.len() as u16).map(CoreId);
        let is_known = ids.clone().any(|core| self.plan.core_wake(core) == self.plan.wake);
        let holds = self.holds.iter().map(|(_, until)| *until);
        let ends = holds.chain(self.due.iter().map(|due| due.at)).min();
        for id in ids {
            let here = |known: &&Known| known.seat.unwrap_or(own) == id;
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

/// The core on whose line a VCPU stands.
fn on_line(plan: &Plan, vcpu: VcpuId) -> Option<CoreId> {
    (0..plan.cores() as u16).map(CoreId).find(|core| {
        let line = plan.line(*core);
        line.foreground.iter().chain(&line.background).any(|grant| grant.vcpu == vcpu)
    })
}
