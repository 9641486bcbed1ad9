//! What every machine owes a policy, held against the records of a run: the order in which service
//! requests are reported, that the policy does not learn of a spent allowance before the reads that
//! spent it, and that no two segments share a core.

use crate::support::Chosen;
use maracas_core::contract::{End, Mode, Observer, Segment, ServiceRequest};
use maracas_core::journal::{Record, Replay};
use maracas_core::memory::{Memory, Partition};
use maracas_core::{
    Duration, Event, Instant, Plan, Policy, Program, System, Vcpu, VcpuId, Workload,
};
use maracas_scenario::presets;
use maracas_sim::memory::SharedMemory;
use maracas_sim::{Options, Overheads, run_with};

/// How far a service VCPU is with its service request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ServiceVcpu {
    /// It woke for it.
    Away(VcpuId),
    /// What came of it has been reported.
    Answered(VcpuId),
}

/// What was reported of one core.
#[derive(Clone, Default)]
struct Reported {
    reads: u64,
    service: Duration,
    /// From when until when its segments go.
    segments: Vec<(Instant, Instant)>,
}

impl Reported {
    /// Until when its segments go.
    fn end(&self) -> Instant {
        self.segments.iter().map(|(_, to)| *to).max().unwrap_or_default()
    }
    /// Time in which two segments ran, by what they say: what a late record says is reported after
    /// what came after it, so all of them are looked at in their order.
    fn twice(&self) -> Duration {
        let mut segments = self.segments.clone();
        segments.sort_unstable();
        let (mut twice, mut until) = (Duration::ZERO, Instant::ZERO);
        for (from, to) in segments {
            twice += until.min(to).saturating_since(from);
            until = until.max(to);
        }
        twice
    }
}

/// What is known of a run so far.
pub(crate) struct Laws {
    service_vcpu: Option<ServiceVcpu>,
    sampled: bool,
    cores: Vec<Reported>,
    pub(crate) service_requests: usize,
    pub(crate) spent: usize,
}

impl Laws {
    fn new(cores: usize) -> Self {
        let cores = vec![Reported::default(); cores];
        Self { service_vcpu: None, sampled: false, cores, service_requests: 0, spent: 0 }
    }

    fn event(&mut self, at: Instant, event: &Event, plan: &Plan) {
        let sent = plan.service_request.map(|(service_vcpu, _)| service_vcpu);
        match event {
            Event::Woke { vcpu, exact: true, .. } if sent == Some(*vcpu) => {
                assert_eq!(self.service_vcpu, None, "{vcpu} went twice at {at}");
                (self.service_vcpu, self.sampled) = (Some(ServiceVcpu::Away(*vcpu)), false);
            }
            Event::Sampled(_) => {
                assert!(
                    matches!(self.service_vcpu, Some(ServiceVcpu::Away(_))),
                    "sampled by none at {at}"
                );
                self.sampled = true;
            }
            Event::ServiceDone(service_request) => {
                let sample = *service_request == ServiceRequest::Sample;
                assert_eq!(self.sampled, sample, "{service_request:?} at {at}");
                self.answer(at);
            }
            Event::AllowanceSpent { core } => {
                let (reported, limit) =
                    (self.cores[usize::from(core.0)].reads, plan.run_queue(*core).allowance);
                assert!(
                    limit.is_reached(reported),
                    "{core} spent {limit:?} at {at}, reported are {reported}"
                );
                self.spent += 1;
            }
            Event::Ran(segment) => self.ran(at, segment),
            Event::Failed { .. } if matches!(self.service_vcpu, Some(ServiceVcpu::Away(_))) => {
                self.service_vcpu = self.service_vcpu.map(|it| it.answered());
            }
            Event::Failed { .. }
            | Event::Utilized { .. }
            | Event::Woke { .. }
            | Event::Released(_)
            | Event::Completed(_)
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_) => {}
        }
    }

    fn answer(&mut self, at: Instant) {
        let Some(service_vcpu @ ServiceVcpu::Away(_)) = self.service_vcpu else {
            panic!("an answer without a service request at {at}: {:?}", self.service_vcpu);
        };
        (self.service_vcpu, self.sampled) = (Some(service_vcpu.answered()), false);
    }

    fn ran(&mut self, at: Instant, segment: &Segment) {
        let core = &mut self.cores[usize::from(segment.core.0)];
        core.reads += segment.usage.reads;
        core.service += segment.usage.service;
        if segment.to > segment.from {
            core.segments.push((segment.from, segment.to));
        }
        if let Some(ServiceVcpu::Away(vcpu)) = self.service_vcpu {
            assert_ne!(segment.vcpu, vcpu, "it ran before its answer at {at}");
        }
        if self.service_vcpu == Some(ServiceVcpu::Answered(segment.vcpu)) {
            assert_eq!(
                (segment.end, segment.mode, segment.to),
                (End::Blocked, Mode::Foreground, at)
            );
            assert!(
                !segment.usage.service.is_zero(),
                "a service request costs something: {segment:?}"
            );
            self.service_vcpu = None;
            self.service_requests += 1;
        }
    }

    /// At the end of a run: no core did more than one thing at a time. Records and agents read
    /// different clocks, and what no record showed is put where it may have been.
    fn end(&self) {
        for (core, reported) in self.cores.iter().enumerate() {
            let length = reported.end().saturating_since(Instant::ZERO);
            let twice = reported.twice();
            let part = |of: u64| Duration::from_ticks(length.ticks() / of);
            eprintln!(
                "core {core}: {} of {length} reported, twice {}, {} reads; \
 {} service requests, {} times spent",
                reported.service, twice, reported.reads, self.service_requests, self.spent
            );
            assert!(reported.service <= length + part(100), "core {core}: {}", reported.service);
            assert!(twice <= part(50), "core {core}: {twice} twice");
        }
    }
}

impl ServiceVcpu {
    const fn answered(self) -> Self {
        match self {
            Self::Away(vcpu) | Self::Answered(vcpu) => Self::Answered(vcpu),
        }
    }
}

/// Holds a run against the laws while it goes on.
struct Judge {
    laws: Laws,
    plan: Plan,
}

impl Observer for Judge {
    fn event(&mut self, at: Instant, event: &Event) {
        self.laws.event(at, event, &self.plan);
    }
    fn planned(&mut self, _: Instant, plan: &Plan) {
        self.plan.clone_from(plan);
    }
}

const NEVER: Instant = Instant::NEVER;

/// The same laws held against a simulated run: four cores, of which the memory is contended, under
/// samples, moves and allowances.
#[test]
fn the_simulator_keeps_the_same_laws() {
    let ms = Duration::from_millis;
    let platform = presets::platform("i5-2500k").expect("it is a preset");
    let platform = platform.memory.expect("it has a memory");
    let programs = ["m_jump", "compress", "mcf", "lbm"].map(presets::workload);
    let vcpus = (0..12).map(|id| Vcpu::new(id, ms(1 + u64::from(id) / 2), ms(50))).collect();
    let program = |id: u32| {
        let depart = if id % 3 == 2 { Instant::ZERO + ms(40 + 10 * u64::from(id)) } else { NEVER };
        Program { depart, ..Program::new(VcpuId(id), Workload::Busy) }
    };
    let memory = Memory {
        cycles_per_us: platform.cycles_per_us,
        dram: platform.dram,
        cache: None,
        partition: Partition::Colors,
        devices: Vec::new(),
        programs: programs.into_iter().cycle().take(12).collect(),
    };
    let bandwidth = ("bandwidth", "300MB/s, 200MB/s, 100MB/s, none");
    let shared = [("throttle", "latency"), ("mem_period", "50ms"), ("balance", "vlb")];
    let chosen = Chosen::new("memguard+maracas", &[&shared[..], &[bandwidth]].concat());
    let system = chosen.with_service_vcpus(System::new(4, vcpus));
    let overheads = Overheads {
        sample: Duration::from_micros(5),
        lock: Duration::from_micros(5),
        structure: Duration::from_micros(10),
        ..Overheads::FREE
    };
    let programs: Vec<_> = (0..12).map(program).collect();
    for late in [Duration::ZERO, Duration::from_micros(200)] {
        let until = Instant::ZERO + ms(400);
        let options = Options { overheads, late, ..Options::new(until) };
        let mut policy = chosen.build(&system);
        let mut reported = Judge { laws: Laws::new(4), plan: Plan::new(4) };
        let contention = SharedMemory::new(&system, &memory);
        run_with(&system, &programs, &mut *policy, &options, &mut reported, contention);
        reported.laws.end();
        assert!(
            reported.laws.service_requests > 5 && reported.laws.spent > 100,
            "nothing happened"
        );
    }
}

/// Whether a fresh policy that gets the events of the journal decides as the journal says. The
/// events must be lawful.
pub(crate) fn replays(records: &[Record], policy: &mut dyn Policy, cores: usize) -> bool {
    let mut replay = Replay::new(policy, cores);
    let mut laws = Laws::new(cores);
    let same = records.iter().all(|record| {
        if let Record::Event { at, event } = record {
            laws.event(*at, event, replay.plan());
        }
        replay.step(record).is_ok()
    });
    laws.end();
    same
}
