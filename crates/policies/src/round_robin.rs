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
//! machine raises only foreground grants to real-time priority.
//! # Invariants
//! The run queue of a core holds each of its VCPUs once. Between two VCPUs of a core that are
//! always runnable, the service received differs by at most one quantum.
//! # Where we differ from the paper
//! The quantum is finite; the paper studies the limit of small ones.

use alloc::boxed::Box;
use alloc::vec::Vec;
use maracas_core::admission::{CoreVerdict, Objection, Verdict};
use maracas_core::contract::{
    Claims, End, Entry, Event, Grant, Limit, Needs, Plan, Policy, Segment, no_service_vcpus,
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

/// One VCPU in its core's run queue.
struct Turn {
    vcpu: VcpuId,
    /// Background service received so far.
    meter: Duration,
    /// Where its turn ends.
    until: Limit,
}

struct State {
    quantum: Duration,
    run_queues: Vec<Vec<Turn>>,
    stale: CoreSet,
    arrived: Vec<(VcpuId, CoreId)>,
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
    let run_queues = system.cores.iter().map(|_| Vec::new()).collect();
    let mut state = State { quantum, run_queues, stale: CoreSet::EMPTY, arrived: Vec::new() };
    for vcpu in &system.vcpus {
        state.enter(vcpu, state.first_turn(vcpu.id));
    }
    Ok(Box::new(state))
}

fn host(vcpu: &Vcpu, cores: usize) -> CoreId {
    let pinned = vcpu.pinned.filter(|core| usize::from(core.0) < cores);
    pinned.unwrap_or(CoreId((vcpu.id.0 as usize % cores) as u16))
}

impl State {
    fn first_turn(&self, vcpu: VcpuId) -> Turn {
        Turn { vcpu, meter: Duration::ZERO, until: Limit(self.quantum) }
    }

    fn enter(&mut self, vcpu: &Vcpu, turn: Turn) {
        let core = host(vcpu, self.run_queues.len());
        self.run_queues[core.0 as usize].push(turn);
        self.arrived.push((vcpu.id, core));
        self.stale.insert(core);
    }

    fn ran(&mut self, segment: &Segment) {
        let run_queue = &mut self.run_queues[segment.core.0 as usize];
        let Some(place) = run_queue.iter().position(|turn| turn.vcpu == segment.vcpu) else {
            return;
        };
        run_queue[place].meter += segment.usage.service;
        if matches!(segment.end, End::LimitReached | End::MemorySpent | End::Blocked) {
            let mut turn = run_queue.remove(place);
            turn.until = Limit(turn.meter + self.quantum);
            run_queue.push(turn);
            self.stale.insert(segment.core);
        }
    }

    fn leave(&mut self, vcpu: VcpuId) -> Option<Turn> {
        for (core, run_queue) in self.run_queues.iter_mut().enumerate() {
            if let Some(place) = run_queue.iter().position(|turn| turn.vcpu == vcpu) {
                self.stale.insert(CoreId(core as u16));
                return Some(run_queue.remove(place));
            }
        }
        None
    }
}

impl Policy for State {
    fn on_event(&mut self, _: Instant, event: &Event) {
        match event {
            Event::Arrived(vcpu) => self.enter(vcpu, self.first_turn(vcpu.id)),
            Event::Changed(vcpu) => {
                if let Some(turn) = self.leave(vcpu.id) {
                    self.enter(vcpu, turn);
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
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
    }

    fn plan(&mut self, _: Instant, plan: &mut Plan) {
        for (vcpu, core) in self.arrived.drain(..) {
            plan.set_home(vcpu, Some(core));
            plan.answer(vcpu, Ok(core));
        }
        while let Some(core) = self.stale.pop_first() {
            let turns = self.run_queues[core.0 as usize].iter();
            let grants = turns.map(|turn| Grant::new(turn.vcpu, turn.until));
            let run_queue = &mut plan.run_queue_mut(core).background;
            run_queue.clear();
            run_queue.extend(grants);
        }
    }
}
