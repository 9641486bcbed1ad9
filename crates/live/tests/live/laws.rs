//! What every machine owes a policy, held against the records of a run: the order in which errands
//! are told, that nobody learns of a spent allowance before the reads that spent it, and that no
//! two stints share a core.

use crate::support::Chosen;
use maracas_core::contract::{End, Errand, Mode, Observer, Stint};
use maracas_core::journal::{Record, Replay};
use maracas_core::memory::{Memory, Partition};
use maracas_core::{
    Duration, Event, Instant, Plan, Policy, Program, System, Vcpu, VcpuId, Workload,
};
use maracas_scenario::presets;
use maracas_sim::memory::SharedMemory;
use maracas_sim::{Options, Overheads, run_with};

/// How far a carrier is with its errand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Carrier {
    /// It woke for it.
    Away(VcpuId),
    /// What came of it has been told.
    Answered(VcpuId),
}

/// What was told of one core.
#[derive(Clone, Copy, Default)]
struct Told {
    reads: u64,
    /// Until when its stints go.
    to: Instant,
    service: Duration,
    /// Time in which two stints ran, by what they say.
    twice: Duration,
}

/// What is known of a run so far.
pub(crate) struct Laws {
    carrier: Option<Carrier>,
    sampled: bool,
    cores: Vec<Told>,
    pub(crate) errands: usize,
    pub(crate) spent: usize,
}

impl Laws {
    fn new(cores: usize) -> Self {
        let cores = vec![Told::default(); cores];
        Self { carrier: None, sampled: false, cores, errands: 0, spent: 0 }
    }

    fn event(&mut self, at: Instant, event: &Event, plan: &Plan) {
        let sent = plan.errand.map(|(carrier, _)| carrier);
        match event {
            Event::Woke { vcpu, exact: true, .. } if sent == Some(*vcpu) => {
                assert_eq!(self.carrier, None, "{vcpu} went twice at {at}");
                (self.carrier, self.sampled) = (Some(Carrier::Away(*vcpu)), false);
            }
            Event::Sampled(_) => {
                assert!(matches!(self.carrier, Some(Carrier::Away(_))), "sampled by none at {at}");
                self.sampled = true;
            }
            Event::ErrandDone(errand) => {
                let sample = *errand == Errand::Sample;
                assert_eq!(self.sampled, sample, "{errand:?} at {at}");
                self.answer(at);
            }
            Event::AllowanceSpent { core } => {
                let (told, mark) =
                    (self.cores[usize::from(core.0)].reads, plan.line(*core).allowance);
                assert!(told >= mark, "{core} spent {mark} at {at}, told are {told}");
                self.spent += 1;
            }
            Event::Ran(stint) => self.ran(at, stint),
            Event::Failed { .. } if matches!(self.carrier, Some(Carrier::Away(_))) => {
                self.carrier = self.carrier.map(|it| it.answered());
            }
            Event::Failed { .. }
            | Event::Woke { .. }
            | Event::Released(_)
            | Event::Completed(_)
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_) => {}
        }
    }

    fn answer(&mut self, at: Instant) {
        let Some(carrier @ Carrier::Away(_)) = self.carrier else {
            panic!("an answer without an errand at {at}: {:?}", self.carrier);
        };
        (self.carrier, self.sampled) = (Some(carrier.answered()), false);
    }

    fn ran(&mut self, at: Instant, stint: &Stint) {
        let core = &mut self.cores[usize::from(stint.core.0)];
        core.reads += stint.usage.reads;
        core.service += stint.usage.service;
        if stint.to > stint.from {
            core.twice += core.to.min(stint.to).saturating_since(stint.from);
            core.to = core.to.max(stint.to);
        }
        if let Some(Carrier::Away(vcpu)) = self.carrier {
            assert_ne!(stint.vcpu, vcpu, "it ran before its answer at {at}");
        }
        if self.carrier == Some(Carrier::Answered(stint.vcpu)) {
            assert_eq!((stint.end, stint.mode, stint.to), (End::Blocked, Mode::Foreground, at));
            assert!(!stint.usage.service.is_zero(), "an errand costs something: {stint:?}");
            self.carrier = None;
            self.errands += 1;
        }
    }

    /// At the end of a run: no core did more than one thing at a time. Records and agents read
    /// different clocks, and what no record told of is put where it may have been.
    fn end(&self) {
        for (core, told) in self.cores.iter().enumerate() {
            let length = told.to.saturating_since(Instant::ZERO);
            let part = |of: u64| Duration::from_ticks(length.ticks() / of);
            eprintln!(
                "core {core}: {} of {length} told, twice {}, {} reads; {} errands, {} times spent",
                told.service, told.twice, told.reads, self.errands, self.spent
            );
            assert!(told.service <= length + part(100), "core {core}: {}", told.service);
            assert!(told.twice <= part(50), "core {core}: {} twice", told.twice);
        }
    }
}

impl Carrier {
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
    let system = chosen.with_carriers(System::new(4, vcpus));
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
        let mut told = Judge { laws: Laws::new(4), plan: Plan::new(4) };
        let contention = SharedMemory::new(&system, &memory);
        run_with(&system, &programs, &mut *policy, &options, &mut told, contention);
        told.laws.end();
        assert!(told.laws.errands > 5 && told.laws.spent > 100, "nothing happened");
    }
}

/// Whether a fresh policy that is told what the journal tells decides as the journal says. What is
/// told must be lawful.
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
