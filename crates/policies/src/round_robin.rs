//! Round-robin: the VCPUs of a core take turns, a quantum each. The example of CONTRIBUTING.md.
//!
//! # Paper
//! L. Kleinrock. "Analysis of a Time-Shared Processor." Naval Research Logistics 11(1), 1964.
//! # Model
//! Any arrivals; a VCPU stays on the core where it was put.
//! # How it works
//! Core `id mod m` (or the pinned core) takes the VCPU to the end of its run queue. The first
//! runnable one runs until its meter reaches the limit `meter + quantum` or it blocks; then it goes
//! to the end of the run queue. Nothing is promised, so all time is background time: the live
//! machine raises only foreground grants to real-time priority. Nothing else concerns a core, so
//! that what stands here of one can be lent to a part, which decides for that core alone.
//! # Invariants
//! The run queue of a core holds each of its VCPUs once. Between two VCPUs of a core that are
//! always runnable, the service received differs by at most one quantum.
//! # Where we differ from the paper
//! The quantum is finite; the paper studies the limit of small ones.

use crate::parts::jobs::ByVcpu;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::mem;
use maracas_core::admission::{CoreVerdict, Objection, Verdict};
use maracas_core::contract::{
    Apart, Claims, End, Entry, Event, Grant, Limit, Needs, Part, Plan, Policy, Segment,
    no_service_vcpus,
};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{CoreId, CoreSet, Duration, Instant, System, Vcpu, VcpuId};

pub(crate) const ENTRY: Entry = Entry {
    name: "round-robin",
    paper: "Kleinrock, Analysis of a Time-Shared Processor, NRLQ 1964",
    summary: "the VCPUs of a core take turns, a quantum each; promises nothing",
    params: PARAMS,
    needs: Needs { budgets: false, ..Needs::BUDGETS },
    claims: Claims { partitioned: true, work_conserving: true, no_miss_when_admitted: false },
    service_vcpus: no_service_vcpus,
    admit,
    build,
};

const QUANTUM: ParamSpec = ParamSpec {
    name: "quantum",
    kind: Kind::Time("10ms"),
    help: "time on the core before the next VCPU has its turn",
};
const PARAMS: &[ParamSpec] = &[QUANTUM];

/// Where a VCPU is.
#[derive(Clone, Copy)]
struct Home {
    core: CoreId,
    /// Its place among the turns of that core.
    slot: u32,
}

/// What is known of one VCPU.
struct Turn {
    /// Turns of a core are numbered as VCPUs come to the end of its run queue; 0 before the first.
    number: u64,
    /// Background service received so far.
    meter: Duration,
}

/// What one core decides by itself. Its run queue stands in the plan alone, in the order of the
/// turns' numbers.
#[derive(Default)]
struct Line {
    turns: Vec<Turn>,
    /// Slots of VCPUs that left.
    free: Vec<u32>,
    /// The number of the last turn.
    last: u64,
    /// What goes to the end of the run queue, in this order.
    to_end: Vec<Grant>,
}

/// The turns of all cores, or of one.
struct Turns {
    quantum: Duration,
    /// Where all VCPUs are. Shared with what decides for one core, and changed only while it is
    /// not.
    homes: Arc<ByVcpu<Home>>,
    /// The core of the first line.
    first: CoreId,
    lines: Vec<Line>,
}

struct State {
    turns: Turns,
    arrived: Vec<(VcpuId, CoreId)>,
    left: Vec<(VcpuId, CoreId)>,
    /// Cores on which something goes to the end.
    news: CoreSet,
}

/// Everything is admitted: this policy promises nothing.
fn admit(system: &System, params: &Params) -> Verdict {
    if params.time(&QUANTUM).is_none_or(Duration::is_zero) {
        return no_quantum();
    }
    let on = |core| system.vcpus.iter().filter(move |v| host(v, system.cores.len()) == core);
    let cores = system.core_ids().map(|core| CoreVerdict {
        core: Some(core),
        vcpus: on(core).map(|v| v.id).collect(),
        tests: Vec::new(),
    });
    Verdict { cores: cores.collect(), ..Verdict::default() }
}

fn no_quantum() -> Verdict {
    let objection = Objection::to(QUANTUM.name, "is 0; give a time above 0, such as \"10ms\"");
    Verdict { objections: alloc::vec![objection], ..Verdict::default() }
}

fn build(system: &System, params: &Params) -> Result<Box<dyn Policy>, Verdict> {
    let quantum = params.time(&QUANTUM).filter(|quantum| !quantum.is_zero());
    let Some(quantum) = quantum else { return Err(no_quantum()) };
    let lines = system.cores.iter().map(|_| Line::default()).collect();
    let mut state = State {
        turns: Turns { quantum, homes: Arc::default(), first: CoreId(0), lines },
        arrived: Vec::new(),
        left: Vec::new(),
        news: CoreSet::EMPTY,
    };
    for vcpu in &system.vcpus {
        state.enter(vcpu, Duration::ZERO);
    }
    Ok(Box::new(state))
}

fn host(vcpu: &Vcpu, cores: usize) -> CoreId {
    let pinned = vcpu.pinned.filter(|core| usize::from(core.0) < cores);
    pinned.unwrap_or(CoreId((vcpu.id.0 as usize % cores) as u16))
}

impl Turns {
    fn on(&mut self, core: CoreId) -> &mut Line {
        &mut self.lines[usize::from(core.0 - self.first.0)]
    }
    /// `vcpu`, which has received `meter` so far, comes to `core`.
    fn add(&mut self, vcpu: VcpuId, core: CoreId, meter: Duration) {
        let until = Limit(meter + self.quantum);
        let (line, turn) = (self.on(core), Turn { number: 0, meter });
        line.to_end.push(Grant::new(vcpu, until));
        let slot = line.free.pop().unwrap_or(line.turns.len() as u32);
        match line.turns.get_mut(slot as usize) {
            Some(free) => *free = turn,
            None => line.turns.push(turn),
        }
        Arc::make_mut(&mut self.homes).insert(vcpu, Home { core, slot });
    }
    /// Lets a VCPU go; where it was, and what it has received.
    fn remove(&mut self, vcpu: VcpuId) -> Option<(CoreId, Duration)> {
        let Home { core, slot } = Arc::make_mut(&mut self.homes).remove(vcpu)?;
        let line = self.on(core);
        line.free.push(slot);
        Some((core, line.turns[slot as usize].meter))
    }
    /// What ran; the core, if it goes to the end there.
    fn ran(&mut self, segment: &Segment) -> Option<CoreId> {
        let (quantum, home) = (self.quantum, *self.homes.get(segment.vcpu)?);
        let line = self.on(home.core);
        let turn = &mut line.turns[home.slot as usize];
        turn.meter += segment.usage.service;
        if matches!(segment.end, End::LimitReached | End::MemorySpent | End::Blocked) {
            line.to_end.push(Grant::new(segment.vcpu, Limit(turn.meter + quantum)));
            return Some(home.core);
        }
        None
    }
    /// Brings the run queue of `core` in step.
    fn decide(&mut self, core: CoreId, plan: &mut Plan) {
        let Line { turns, last, to_end, .. } = &mut self.lines[usize::from(core.0 - self.first.0)];
        let slot = |vcpu| {
            let home = self.homes.get(vcpu).filter(|home| home.core == core);
            home.map(|home| home.slot as usize)
        };
        for grant in to_end.drain(..) {
            // It may have left since.
            let Some(own) = slot(grant.vcpu) else { continue };
            let number = turns[own].number;
            let is_behind =
                |other: &Grant| slot(other.vcpu).is_some_and(|slot| turns[slot].number > number);
            let run_queue = &mut plan.run_queue_mut(core).background;
            run_queue.take(is_behind, |other| other.vcpu == grant.vcpu);
            run_queue.push(grant);
            *last += 1;
            turns[own].number = *last;
        }
    }
}

impl State {
    /// `vcpu`, which has received `meter` so far, comes to its core.
    fn enter(&mut self, vcpu: &Vcpu, meter: Duration) {
        let core = host(vcpu, self.turns.lines.len());
        self.turns.add(vcpu.id, core, meter);
        self.arrived.push((vcpu.id, core));
        self.news.insert(core);
    }
    /// What it has received.
    fn leave(&mut self, vcpu: VcpuId) -> Option<Duration> {
        let (core, meter) = self.turns.remove(vcpu)?;
        self.left.push((vcpu, core));
        Some(meter)
    }
}

impl Policy for State {
    fn on_event(&mut self, _: Instant, event: &Event) {
        match event {
            Event::Arrived(vcpu) => self.enter(vcpu, Duration::ZERO),
            Event::Changed(vcpu) => {
                if let Some(meter) = self.leave(vcpu.id) {
                    self.enter(vcpu, meter);
                }
            }
            Event::Left(vcpu) => {
                self.leave(*vcpu);
            }
            Event::Ran(segment) => {
                if let Some(core) = self.turns.ran(segment) {
                    self.news.insert(core);
                }
            }
            Event::Released(_)
            | Event::Completed(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
    }

    fn plan(&mut self, _: Instant, plan: &mut Plan) {
        for (vcpu, core) in self.arrived.drain(..) {
            plan.set_home(vcpu, Some(core));
            plan.answer(vcpu, Ok(core));
        }
        for (vcpu, core) in self.left.drain(..) {
            plan.run_queue_mut(core).background.retain(|grant| grant.vcpu != vcpu);
        }
        while let Some(core) = self.news.pop_first() {
            self.turns.decide(core, plan);
        }
    }

    fn apart(&mut self) -> Option<&mut dyn Apart> {
        Some(self)
    }
}

/// The policy of one core. Without what it borrows it knows no VCPU.
struct Own(Turns);

impl Part for Own {}

impl Policy for Own {
    fn on_event(&mut self, _: Instant, event: &Event) {
        if let Event::Ran(segment) = event {
            self.0.ran(segment);
        }
    }
    fn plan(&mut self, _: Instant, plan: &mut Plan) {
        self.0.decide(self.0.first, plan);
    }
}

/// The part as it was made by [`State::part`].
fn own(part: &mut dyn Part) -> Option<&mut Turns> {
    let part: &mut dyn Any = part;
    part.downcast_mut().map(|Own(turns)| turns)
}

impl Apart for State {
    fn part(&self, core: CoreId) -> Box<dyn Part> {
        let (quantum, lines) = (self.turns.quantum, alloc::vec![Line::default()]);
        Box::new(Own(Turns { quantum, homes: Arc::default(), first: core, lines }))
    }
    fn is_settled(&self) -> bool {
        self.arrived.is_empty() && self.left.is_empty() && self.news.is_empty()
    }
    fn lend(&mut self, part: &mut dyn Part) {
        let Some(own) = own(part) else { return };
        own.homes = Arc::clone(&self.turns.homes);
        mem::swap(self.turns.on(own.first), &mut own.lines[0]);
    }
    fn take_back(&mut self, part: &mut dyn Part) {
        let Some(own) = own(part) else { return };
        own.homes = Arc::default();
        mem::swap(self.turns.on(own.first), &mut own.lines[0]);
        if !self.turns.on(own.first).to_end.is_empty() {
            self.news.insert(own.first);
        }
    }
}
