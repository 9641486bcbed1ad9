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

use crate::parts::jobs::ByVcpu;
use alloc::boxed::Box;
use alloc::vec::Vec;
use maracas_core::admission::{CoreVerdict, Objection, Verdict};
use maracas_core::contract::{
    Claims, End, Entry, Event, Grant, Limit, Needs, Plan, Policy, Segment, no_service_vcpus,
};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{CoreId, CoreSet, Duration, Instant, List, System, Vcpu, VcpuId};

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
    core: CoreId,
    /// Turns are numbered as VCPUs come to the end of a run queue.
    number: u64,
    /// Background service received so far.
    meter: Duration,
    /// Where its turn ends.
    until: Limit,
}

struct State {
    quantum: Duration,
    turns: ByVcpu<Turn>,
    /// By core, in the order of their numbers.
    run_queues: Vec<List<(u64, VcpuId)>>,
    next: u64,
    /// Turns that ended since the last plan: which core's, and from which place on its run queue
    /// the VCPU went to the end.
    ended: Vec<(CoreId, usize, Grant)>,
    /// Cores whose VCPUs are others than by the last plan.
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
    let mut state = State {
        quantum,
        turns: ByVcpu::default(),
        run_queues: alloc::vec![List::new(); system.cores.len()],
        next: 0,
        ended: Vec::new(),
        stale: CoreSet::EMPTY,
        arrived: Vec::new(),
    };
    for vcpu in &system.vcpus {
        state.enter(vcpu, Duration::ZERO, Limit(quantum));
    }
    Ok(Box::new(state))
}

fn host(vcpu: &Vcpu, cores: usize) -> CoreId {
    let pinned = vcpu.pinned.filter(|core| usize::from(core.0) < cores);
    pinned.unwrap_or(CoreId((vcpu.id.0 as usize % cores) as u16))
}

impl State {
    /// `vcpu`, which has run for `meter`, comes to the end of its core's run queue.
    fn enter(&mut self, vcpu: &Vcpu, meter: Duration, until: Limit) {
        let core = host(vcpu, self.run_queues.len());
        let number = self.next;
        self.next += 1;
        self.turns.insert(vcpu.id, Turn { core, number, meter, until });
        self.run_queues[core.0 as usize].push((number, vcpu.id));
        self.arrived.push((vcpu.id, core));
        self.stale.insert(core);
    }

    fn ran(&mut self, segment: &Segment) {
        let turn = self.turns.get_mut(segment.vcpu).filter(|turn| turn.core == segment.core);
        let Some(turn) = turn else { return };
        turn.meter += segment.usage.service;
        if matches!(segment.end, End::LimitReached | End::MemorySpent | End::Blocked) {
            let run_queue = &mut self.run_queues[turn.core.0 as usize];
            let place = run_queue.partition_point(|(number, _)| *number < turn.number);
            run_queue.remove(place);
            (turn.number, turn.until) = (self.next, Limit(turn.meter + self.quantum));
            self.next += 1;
            run_queue.push((turn.number, segment.vcpu));
            self.ended.push((turn.core, place, Grant::new(segment.vcpu, turn.until)));
        }
    }

    fn leave(&mut self, vcpu: VcpuId) -> Option<Turn> {
        let turn = self.turns.remove(vcpu)?;
        self.run_queues[turn.core.0 as usize].retain(|(_, other)| *other != vcpu);
        self.stale.insert(turn.core);
        Some(turn)
    }
}

impl Policy for State {
    fn on_event(&mut self, _: Instant, event: &Event) {
        match event {
            Event::Arrived(vcpu) => self.enter(vcpu, Duration::ZERO, Limit(self.quantum)),
            Event::Changed(vcpu) => {
                if let Some(turn) = self.leave(vcpu.id) {
                    self.enter(vcpu, turn.meter, turn.until);
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
        for (core, place, grant) in self.ended.drain(..) {
            if !self.stale.contains(core) {
                let run_queue = &mut plan.run_queue_mut(core).background;
                run_queue.remove(place);
                run_queue.push(grant);
            }
        }
        while let Some(core) = self.stale.pop_first() {
            let turns = self.run_queues[core.0 as usize].iter();
            let turns = turns.filter_map(|(_, vcpu)| Some((*vcpu, self.turns.get(*vcpu)?.until)));
            let run_queue = &mut plan.run_queue_mut(core).background;
            run_queue.clear();
            run_queue.extend(turns.map(|(vcpu, until)| Grant::new(vcpu, until)));
        }
    }
}
