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
//! machine raises only foreground grants to real-time priority. A core decides alone, unless a VCPU
//! comes, goes or changes.
//! # Invariants
//! The run queue of a core holds each of its VCPUs once. Between two VCPUs of a core that are
//! always runnable, the service received differs by at most one quantum.
//! # Where we differ from the paper
//! The quantum is finite; the paper studies the limit of small ones.

use crate::parts::by_core::ByCore;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use maracas_core::admission::{CoreVerdict, Objection, Verdict};
use maracas_core::contract::{
    Apart, Claims, End, Entry, Event, Grant, Limit, Needs, Part, Plan, Policy, Segment,
    no_service_vcpus,
};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{CoreId, Duration, Instant, System, Vcpu, VcpuId};

pub(crate) const ENTRY: Entry = Entry {
    name: "round-robin",
    paper: "Kleinrock, Analysis of a Time-Shared Processor, NRLQ 1964",
    summary: "the VCPUs of a core take turns, a quantum each; promises nothing",
    params: PARAMS,
    needs: Needs { budgets: false, ..Needs::BUDGETS },
    claims: Claims { partitioned: true, work_conserving: true, no_miss_when_admitted: false },
    service_vcpus: no_service_vcpus,
    admit,
    fits: None,
    build,
};

const QUANTUM: ParamSpec = ParamSpec {
    name: "quantum",
    kind: Kind::Time("10ms"),
    help: "time on the core before the next VCPU has its turn",
};
const PARAMS: &[ParamSpec] = &[QUANTUM];

/// What is known of one VCPU.
struct Turn {
    core: CoreId,
    /// Turns are numbered as VCPUs come to the end of a run queue; 0 before the first.
    number: u64,
    /// Background service received so far.
    meter: Duration,
}

/// The policy of all cores, or of one. The run queues stand in the plan alone, in the order of the
/// turns' numbers.
struct State {
    quantum: Duration,
    cores: usize,
    turns: ByCore<Turn>,
    next: u64,
    arrived: Vec<(VcpuId, CoreId)>,
    left: Vec<(VcpuId, CoreId)>,
    /// What goes to the end of a run queue, in this order.
    to_end: Vec<Grant>,
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
    let mut state = State::new(quantum, CoreId(0), system.cores.len());
    for vcpu in &system.vcpus {
        state.enter(vcpu, Duration::ZERO);
    }
    Ok(Box::new(state))
}

fn host(vcpu: &Vcpu, cores: usize) -> CoreId {
    let pinned = vcpu.pinned.filter(|core| usize::from(core.0) < cores);
    pinned.unwrap_or(CoreId((vcpu.id.0 as usize % cores) as u16))
}

impl State {
    /// Of so many cores from `first` on, without a VCPU.
    fn new(quantum: Duration, first: CoreId, cores: usize) -> Self {
        Self {
            quantum,
            cores,
            turns: ByCore::new(first, cores),
            next: 1,
            arrived: Vec::new(),
            left: Vec::new(),
            to_end: Vec::new(),
        }
    }

    /// `vcpu`, which has received `meter` so far, comes to its core.
    fn enter(&mut self, vcpu: &Vcpu, meter: Duration) {
        let core = host(vcpu, self.cores);
        self.turns.insert(vcpu.id, core, Turn { core, number: 0, meter });
        self.arrived.push((vcpu.id, core));
        self.to_end.push(Grant::new(vcpu.id, Limit(meter + self.quantum)));
    }

    fn ran(&mut self, segment: &Segment) {
        let Some(turn) = self.turns.get_mut(segment.vcpu) else { return };
        turn.meter += segment.usage.service;
        if matches!(segment.end, End::LimitReached | End::MemorySpent | End::Blocked) {
            self.to_end.push(Grant::new(segment.vcpu, Limit(turn.meter + self.quantum)));
        }
    }

    fn leave(&mut self, vcpu: VcpuId) -> Option<Turn> {
        let turn = self.turns.remove(vcpu)?;
        self.left.push((vcpu, turn.core));
        Some(turn)
    }
}

impl Policy for State {
    fn on_event(&mut self, _: Instant, event: &Event) {
        match event {
            Event::Arrived(vcpu) => self.enter(vcpu, Duration::ZERO),
            Event::Changed(vcpu) => {
                if let Some(turn) = self.leave(vcpu.id) {
                    self.enter(vcpu, turn.meter);
                }
            }
            Event::Left(vcpu) => {
                self.leave(*vcpu);
            }
            Event::Ran(segment) => self.ran(segment),
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
        for grant in self.to_end.drain(..) {
            let Some(Turn { core, number, .. }) = self.turns.get(grant.vcpu) else { continue };
            let is_behind = |other: &Grant| {
                self.turns.get(other.vcpu).is_some_and(|turn| turn.number > *number)
            };
            let run_queue = &mut plan.run_queue_mut(*core).background;
            run_queue.take(is_behind, |other| other.vcpu == grant.vcpu);
            run_queue.push(grant);
            self.turns.get_mut(grant.vcpu).into_iter().for_each(|turn| turn.number = self.next);
            self.next += 1;
        }
    }

    fn apart(&mut self) -> Option<&mut dyn Apart> {
        Some(self)
    }
}

impl Part for State {}

/// The part as it was made by [`Apart::part`].
fn own(part: &mut dyn Part) -> Option<&mut State> {
    let part: &mut dyn Any = part;
    part.downcast_mut()
}

impl Apart for State {
    fn part(&self, core: CoreId) -> Box<dyn Part> {
        Box::new(Self::new(self.quantum, core, 1))
    }
    fn is_settled(&self) -> bool {
        self.arrived.is_empty() && self.left.is_empty() && self.to_end.is_empty()
    }
    fn lend(&mut self, part: &mut dyn Part) {
        let Some(own) = own(part) else { return };
        self.turns.lend(&mut own.turns);
        own.next = self.next;
    }
    fn take_back(&mut self, part: &mut dyn Part) {
        let Some(own) = own(part) else { return };
        self.turns.take_back(&mut own.turns);
        // Turns that begin from now on are behind all of that core.
        self.next = self.next.max(own.next);
        self.to_end.append(&mut own.to_end);
    }
}
