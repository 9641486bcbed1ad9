//! The policy and everything that is reported to it, as a state without I/O: the agent that has it
//! decides for all cores, or for the group of them to which the decider of all has lent what stands
//! there ([`apart`]).
//!
//! What happens comes in by [`Decider::round`]: what the cores have reported, what was asked for,
//! the releases that are due. What is to be done goes out through the [`Host`], whose answers come
//! back as the results of the calls.

mod answers;
mod apart;
mod enactment;
mod holds;
mod jobs;
#[cfg(test)]
mod rig;
mod service_request;

use crate::VcpuHandleOf;
use crate::{
    Demand, Ended, Handle, HandleOf, Host, ManagedCore, Place, Refusal, Reply, ReplyOf, Request,
};
use apart::Whose;
use holds::Hold;
use jobs::Jobs;
use maracas_core::contract::{End, Statistic, decide};
use maracas_core::journal::{Note, Record};
use maracas_core::{
    CoreId, CoreSet, Duration, Event, Instant, JobId, Plan, Policy, Rate, Reservation, System,
    Vcpu, VcpuId,
};
use service_request::{ANSWERS, ServiceRequests};
use std::collections::BTreeMap;

/// Whether an event is what a decision can answer, rather than how an earlier one worked out.
const fn is_cause(event: &Event) -> bool {
    match event {
        Event::Released(_)
        | Event::Completed(_)
        | Event::AllowanceSpent { .. }
        | Event::Sampled(_)
        | Event::Utilized { .. }
        | Event::Arrived(_)
        | Event::Left(_)
        | Event::Changed(_) => true,
        Event::Ran(segment) => matches!(segment.end, End::LimitReached | End::MemorySpent),
        // A wake is seen when it is answered; where nothing was awake, nothing was decided.
        Event::Woke { .. } | Event::ServiceDone(_) | Event::Failed { .. } => false,
    }
}

/// The core on whose run queue a VCPU stands.
fn on_run_queue(plan: &Plan, vcpu: VcpuId) -> Option<CoreId> {
    plan.core_ids().find(|core| jobs::stands(plan.run_queue(*core), vcpu))
}

/// A VCPU that the policy knows.
struct Known {
    name: String,
    vcpu: Vcpu,
    /// On which core its VCPU handle is, once it has one.
    slot: Option<CoreId>,
}

/// A caller that waits for a verdict.
struct Asked<R> {
    id: VcpuId,
    new: bool,
    reservation: Reservation,
    reply: R,
}

/// The policy, its plan, and what lies around them.
pub struct Decider<H: Host> {
    /// The machine around it.
    pub host: H,
    policy: Whose,
    plan: Plan,
    /// The cores that it decides for, in increasing order.
    cores: Vec<CoreId>,
    /// The policy was asked once.
    has_begun: bool,
    /// How much of one core may be given away, to one VCPU too.
    capacity: Rate,
    known: BTreeMap<VcpuId, Known>,
    /// By core, from the plan's first on.
    jobs: Vec<Jobs>,
    asked: Vec<Asked<ReplyOf<H, Result<CoreId, Refusal>>>>,
    requests: Vec<Request<H>>,
    /// What the policy is given in this round, before it is.
    events: Vec<(Instant, Event)>,
    /// What the cores measured, on its way to the journal.
    notes: Vec<Record>,
    /// When the first of what this round's decision answers happened.
    cause: Option<Instant>,
    /// The same of an earlier decision that could not be carried out in full yet.
    late_cause: Option<Instant>,
    /// VCPU handles of VCPUs that ended, for the callers that dispose of them.
    destroyed: Vec<(VcpuId, ReplyOf<H, Ended<H>>)>,
    fed: bool,
    /// What runs was metered in this round, for the decision that comes next.
    metered: bool,
    /// How many ask that nothing be frozen or moved.
    held: u32,
    holds: Vec<Hold>,
    /// Moves were put off meanwhile, or made for a service request: the plan and the slots may
    /// differ.
    behind: bool,
    /// Where VCPU handles came to sit in this decision: the law is applied there, whatever the run
    /// queue.
    arrived: CoreSet,
    service_requests: ServiceRequests,
}

impl<H: Host> Decider<H> {
    /// Of this policy, for a system that it was built for; `names` of its VCPUs, in their order.
    pub fn new(policy: Box<dyn Policy>, system: &System, names: &[String], host: H) -> Self {
        let mut known = BTreeMap::new();
        for (place, vcpu) in system.vcpus.iter().enumerate() {
            let name = names.get(place).cloned().unwrap_or_else(|| vcpu.id.to_string());
            known.insert(vcpu.id, Known { name, vcpu: vcpu.clone(), slot: None });
        }
        let plan = Plan::new(system.cores.len());
        Self { known, ..Self::of(Whose::All(policy), plan, system.capacity, host) }
    }

    /// Without any VCPU.
    fn of(policy: Whose, plan: Plan, capacity: Rate, host: H) -> Self {
        let cores = match &policy {
            Whose::All(_) => plan.core_ids().collect(),
            Whose::Group { cores, .. } => cores.iter().collect(),
        };
        Self {
            host,
            policy,
            cores,
            has_begun: false,
            capacity,
            known: BTreeMap::new(),
            jobs: plan.core_ids().map(|_| Jobs::default()).collect(),
            plan,
            asked: Vec::new(),
            requests: Vec::with_capacity(64),
            events: Vec::with_capacity(4096),
            notes: Vec::with_capacity(64),
            cause: None,
            late_cause: None,
            destroyed: Vec::new(),
            fed: false,
            metered: false,
            held: 0,
            holds: Vec::with_capacity(16),
            behind: false,
            arrived: CoreSet::EMPTY,
            service_requests: ServiceRequests::default(),
        }
    }

    /// Its plan, as it stands.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }
    /// How many ask that nothing be frozen or moved.
    pub const fn held(&self) -> u32 {
        self.held
    }
    /// On which core a VCPU sits.
    fn slot(&self, vcpu: VcpuId) -> Option<CoreId> {
        match &self.policy {
            Whose::All(_) => self.known.get(&vcpu).and_then(|known| known.slot),
            Whose::Group { cores, .. } => match cores.only() {
                Some(core) => Some(core),
                None => cores.iter().find(|core| self.jobs[self.plan.place(*core)].seats(vcpu)),
            },
        }
    }
    /// The jobs of the VCPUs on a core.
    fn jobs(&mut self, core: CoreId) -> &mut Jobs {
        &mut self.jobs[self.plan.place(core)]
    }

    /// One look at everything: requests, releases, records; then a decision, if any is due, and its
    /// enactment. `own` is the core of the agent that looks, `woke` when it woke, where that is why
    /// it looks: each reading of the clock is a system call on some hosts. The agents of the cores
    /// that it names are to look next: there runs what is to be moved.
    pub fn round(&mut self, own: CoreId, woke: Option<Instant>) -> CoreSet {
        let now = woke.unwrap_or_else(|| self.host.now());
        // The first decision is due at once: programs begin where it has their VCPUs.
        let due = if self.has_begun { self.plan.wake } else { Instant::ZERO };
        self.has_begun = true;
        let asleep = due > now;
        self.cause = (!asleep).then_some(due);
        self.metered = !asleep && self.plan.wake_metered;
        if self.metered {
            self.cores.iter().for_each(|core| self.host.core(*core).meter_running());
        }
        self.fed = false;
        self.expire_holds(now);
        self.listen();
        self.requests_and_releases(now);
        let mut called = CoreSet::EMPTY;
        if self.fed || !asleep {
            self.decide(own, woke, &mut called);
        } else {
            let mut stirred = self.stirred();
            if !stirred.is_empty() {
                self.enact(&mut stirred, own, woke, now, &mut called);
            }
            self.announce();
        }
        for _ in 0..ANSWERS {
            if !self.run_service_request(own, &mut called) {
                break;
            }
            let mut more = CoreSet::EMPTY;
            self.decide(own, None, &mut more);
            called.insert_all(&more);
        }
        // The new plan's allowance was spent already: nothing else would report it.
        if self.cores.iter().any(|core| self.host.core(*core).is_spent()) {
            called.insert(own);
        }
        self.wake_up(own);
        called
    }

    /// Asks the policy and has the cores do what it says. The agents of the cores that it puts into
    /// `called`, which must be empty, are to look next. `woke` as in [`Decider::round`].
    fn decide(&mut self, own: CoreId, woke: Option<Instant>, called: &mut CoreSet) {
        // What was fed may carry later instants than the round's beginning.
        let mut now = self.host.now();
        let metered = std::mem::take(&mut self.metered);
        if self.plan.wake_metered && self.plan.wake <= now && !metered {
            // That instant has come since the round began.
            self.cores.iter().for_each(|core| self.host.core(*core).meter_running());
            self.listen();
            now = self.host.now();
        }
        let mut stirred = self.stirred();
        decide(self.policy.get(), now, &mut self.plan);
        self.enact(&mut stirred, own, woke, now, called);
        self.announce();
        // Written down when it is carried out, so that no dispatch waits for it.
        self.host.planned(now, &self.plan);
        self.answer();
    }

    /// Reads the records of all cores and reports to the policy.
    fn listen(&mut self) {
        for place in 0..self.cores.len() {
            let mut core = self.host.core(self.cores[place]);
            core.drain();
            std::mem::swap(core.outbox(), &mut self.events);
            core.take_notes(&mut self.notes);
            drop(core);
            self.notes.iter().for_each(|note| self.host.record(note));
            self.notes.clear();
            self.feed();
        }
    }

    /// The cores on which something changed that the law depends on, since this was asked last.
    fn stirred(&mut self) -> CoreSet {
        let mut stirred = CoreSet::EMPTY;
        for core in &self.cores {
            if self.host.core(*core).take_stirred() {
                stirred.insert(*core);
            }
        }
        stirred
    }

    fn feed(&mut self) {
        if self.events.is_empty() {
            return;
        }
        let mut events = std::mem::take(&mut self.events);
        events.iter().for_each(|(at, event)| self.tell(*at, event));
        events.clear();
        self.events = events;
    }

    fn tell(&mut self, at: Instant, event: &Event) {
        self.policy.get().on_event(at, event);
        self.host.event(at, event);
        self.fed = true;
        if is_cause(event) {
            self.cause = Some(self.cause.map_or(at, |cause| cause.min(at)));
        }
    }

    fn requests_and_releases(&mut self, now: Instant) {
        self.host.take_requests(&mut self.requests);
        if !self.requests.is_empty() {
            let mut requests = std::mem::take(&mut self.requests);
            requests.drain(..).for_each(|request| self.serve(request, now));
            self.requests = requests;
        }
        if self.jobs.iter().any(Jobs::are_silent) {
            for (core, jobs) in self.plan.core_ids().zip(&mut self.jobs) {
                if jobs.are_silent() {
                    jobs.presume_complete(now, &mut *self.host.core(core), &mut self.events);
                }
            }
        }
        for (core, jobs) in self.plan.core_ids().zip(&mut self.jobs) {
            if jobs.due() <= now {
                jobs.release(now, &mut *self.host.core(core), &mut self.events);
            }
        }
        self.feed();
    }

    fn serve(&mut self, request: Request<H>, now: Instant) {
        if request.is_withdrawn() {
            return;
        }
        match request {
            Request::Create { name, vcpu, reply } => {
                if let Err(why) = self.can_have(&vcpu) {
                    drop(reply.give(Err(Refusal::Host(why))));
                    return;
                }
                let (id, reservation) = (vcpu.id, vcpu.reservation);
                let note = Note::Name { vcpu: id, name: name.clone() };
                self.host.record(&Record::Note { at: now, note });
                self.tell(now, &Event::Arrived(vcpu.clone()));
                self.known.insert(id, Known { name, vcpu, slot: None });
                self.asked.push(Asked { id, new: true, reservation, reply });
            }
            Request::Set { id, reservation, reply } => match self.known.get(&id) {
                Some(known) => {
                    let vcpu = Vcpu { reservation, ..known.vcpu.clone() };
                    self.tell(now, &Event::Changed(vcpu));
                    self.asked.push(Asked { id, new: false, reservation, reply });
                }
                None => drop(reply.give(Err(Refusal::Unknown(id)))),
            },
            Request::Attach(vcpu_handle) => self.attach(*vcpu_handle, now),
            Request::Hold { id, number, reply } => self.hold(id, number, reply, now),
            Request::Unhold(number) => self.unhold(number),
            Request::Rescan(id) => {
                if let Some(slot) = self.known.get(&id).and_then(|known| known.slot) {
                    self.host.core(slot).list_threads(id);
                }
                self.tell(now, &Event::Woke { vcpu: id, on_behalf: None, exact: true });
            }
            Request::Destroy { id, reply } => {
                if self.known.contains_key(&id) {
                    self.jobs.iter_mut().for_each(|jobs| jobs.forget(id));
                    self.tell(now, &Event::Left(id));
                    self.destroyed.push((id, reply));
                } else {
                    let _ = reply.give(Err(Refusal::Unknown(id)));
                }
            }
            Request::List { reply } => drop(reply.give(self.list())),
            Request::Completed { job, at } => self.completed(job, at.min(now)),
        }
    }

    /// On which core a VCPU is, or is to begin.
    fn place(&mut self, id: VcpuId) -> CoreId {
        let home = self.slot(id).or_else(|| self.plan.home(id));
        let place = home.or_else(|| on_run_queue(&self.plan, id));
        place.or_else(|| self.policy.get().apart()?.begins_on(id)).unwrap_or_default()
    }

    /// Notifies programs of their releases, as soon as they may learn of them.
    fn announce(&mut self) {
        if self.jobs.iter().all(Jobs::are_observed) {
            return;
        }
        let Self { jobs, host, plan, .. } = self;
        for (core, jobs) in plan.core_ids().zip(jobs) {
            jobs.announce(plan.run_queue(core), |job| host.release(job));
        }
    }

    /// A VCPU handle arrives: on the core where the plan has its VCPU.
    fn attach(&mut self, mut vcpu_handle: VcpuHandleOf<H>, now: Instant) {
        let id = vcpu_handle.id;
        let place = self.place(id);
        let Some(known) = self.known.get_mut(&id) else { return };
        known.slot = Some(place);
        let demand = Demand::new(&known.vcpu, now);
        vcpu_handle.has_jobs = demand.is_some();
        self.jobs(place).add(id, demand);
        self.host.sits(id, place);
        let sits = vcpu_handle.sit(self.place_on(place));
        // The guardian may have frozen it while its program was being started.
        let relieved = self.cores.iter().any(|core| self.host.core(*core).was_relieved());
        let mut core = self.host.core(place);
        core.attach(vcpu_handle, sits);
        core.list_threads(id);
        core.vcpu_handle(id).into_iter().for_each(|vcpu_handle| vcpu_handle.handle.reset());
        if relieved {
            core.hold_again(id);
        }
        core.stir();
        drop(core);
        self.tell(now, &Event::Woke { vcpu: id, on_behalf: None, exact: true });
    }
}

// Ends of jobs and of the run.
impl<H: Host> Decider<H> {
    fn completed(&mut self, job: JobId, at: Instant) {
        let Some(slot) = self.slot(job.vcpu) else { return };
        let jobs = &mut self.jobs[self.plan.place(slot)];
        let ended = jobs.complete(job, &mut *self.host.core(slot));
        for index in ended {
            self.tell(at, &Event::Completed(JobId { index, ..job }));
        }
    }

    /// Notes what is to be said of a VCPU handle at its end.
    fn remark(&mut self, notes: Vec<Note>) {
        let at = self.host.now();
        notes.into_iter().for_each(|note| self.host.record(&Record::Note { at, note }));
    }

    /// The orderly end of the journal: the meters once more, then the end record. Notes the
    /// policy's own statistics. `agents` is what the agents, which have ended, took.
    pub fn finish(&mut self, agents: Duration) -> Vec<Statistic> {
        for core in &self.cores {
            let mut core = self.host.core(*core);
            core.meter_running();
            core.end();
        }
        self.listen();
        let now = self.host.now();
        decide(self.policy.get(), now, &mut self.plan);
        self.host.planned(now, &self.plan);
        for place in 0..self.cores.len() {
            let mut core = self.host.core(self.cores[place]);
            let notes = core.vcpu_handles().iter().flat_map(|it| it.handle.remarks(it.id));
            let notes = notes.collect();
            drop(core);
            self.remark(notes);
        }
        let sensed = self.host.sample_remark();
        let sensed = sensed.map(|text| Note::Sense { vcpu: None, text });
        let agents = Note::Agents { took_ns: agents.ticks() };
        self.remark(sensed.into_iter().chain([agents]).collect());
        self.host.end(now);
        self.policy.get().statistics()
    }

    /// VCPUs with jobs of which no program ever reported an end.
    pub fn silent(&self) -> Vec<VcpuId> {
        let mut silent: Vec<_> = self.jobs.iter().flat_map(Jobs::silent).collect();
        silent.sort_unstable();
        silent
    }
}

#[cfg(test)]
mod tests;
