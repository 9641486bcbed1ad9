//! One case: a policy with its parameters on a system with programs, memory and faults.

use crate::params::random_params;
use crate::{Dice, Mix, RandomSystem, build_with, generate_slow, memory_for, uneven_for};
use maracas_core::admission::{CoreVerdict, Verdict};
use maracas_core::contract::{Claims, Entry, Observer, Policy};
use maracas_core::memory::Memory;
use maracas_core::params::Params;
use maracas_core::{
    Arrival, Cost, Duration, Instant, Pace, Program, System, Vcpu, VcpuId, Workload,
};
use maracas_scenario::taskset::TaskSet;
use maracas_sim::{Change, Options, Outcome, Overheads, Subject, at_start, run_changing, simulate};
use std::fmt;

/// Parameters that give up nothing of what is claimed for the defaults, whatever they say.
pub(crate) const HARMLESS: [&str; 6] =
    ["packing", "ties", "rounding", "master", "work_conserving", "ahead"];

/// What is made difficult for the policy.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Faults {
    /// Decisions come late by up to this.
    pub late: Duration,
    /// Wakes are seen at switch-in only.
    pub hidden_wakes: bool,
    /// What is charged.
    pub overheads: Overheads,
    /// How often the policy is asked for nothing; `None` = never.
    pub nag: Option<Duration>,
}

/// One case: all that a run depends on.
#[derive(Clone)]
pub struct Case {
    /// The policy.
    pub entry: &'static Entry,
    /// Its parameters.
    pub params: Params,
    /// On what it runs, with what; without the policy's service VCPUs.
    pub random: RandomSystem,
    /// What the programs do to memory; `None` = nothing.
    pub memory: Option<Memory>,
    /// How fast the programs progress on the classes of cores, where those are uneven; of no
    /// account for one that uses memory, which has its own way to slow it down.
    pub paces: Vec<Option<Pace>>,
    /// Requests for other reservations; not with memory.
    pub changes: Vec<Change>,
    /// No miss is to be seen, though the entry's defaults or other systems may see some: the case
    /// is one that the policy's paper or a test covers.
    pub is_covered: bool,
    /// Under which faults.
    pub faults: Faults,
    /// How long.
    pub until: Instant,
    /// Seed of the run's random numbers.
    pub seed: u64,
}

impl Case {
    /// `entry` with its defaults on a system for some of its longest periods, without faults. The
    /// cores become of two classes where the policy needs them so.
    #[must_use]
    pub fn new(entry: &'static Entry, mut random: RandomSystem, seed: u64) -> Self {
        let paces =
            if entry.needs.classes == 2 { uneven_for(&mut random, seed) } else { Vec::new() };
        let longest = random.system.vcpus.iter().map(|vcpu| vcpu.reservation.period).max();
        let until = Instant::ZERO + longest.unwrap_or(Duration::from_ticks(10)) * 12;
        Self {
            entry,
            params: Params::new(),
            random,
            memory: None,
            paces,
            changes: Vec::new(),
            is_covered: false,
            faults: Faults::default(),
            until,
            seed,
        }
    }
    /// `entry` with its defaults on a system with a random memory.
    #[must_use]
    pub fn with_memory(entry: &'static Entry, seed: u64, mix: Mix) -> Self {
        let mut case = Self::new(entry, generate_slow(seed, mix), seed);
        case.memory = Some(memory_for(&mut case.random, seed));
        case
    }
    /// The same with random parameters.
    #[must_use]
    pub fn with_random_params(mut self, seed: u64) -> Self {
        self.params = random_params(self.entry, &mut self.random, &mut Dice::new(seed ^ 0x9a7a));
        self
    }
    /// The system with the service VCPUs that the policy needs.
    #[must_use]
    pub fn system(&self) -> System {
        let mut system = self.random.system.clone();
        self.entry.add_service_vcpus(&mut system, &self.params);
        system
    }
    /// The policy, built for this case; `None` where it refuses.
    #[must_use]
    pub fn policy(&self) -> Option<Box<dyn Policy>> {
        let programs = self.random.programs.clone();
        build_with(self.entry, &RandomSystem { system: self.system(), programs }, &self.params)
    }
    /// Runs `policy` on it under its faults.
    pub fn run(&self, policy: &mut dyn Policy, observer: &mut impl Observer) -> Outcome {
        let (system, programs) = (self.system(), &self.random.programs);
        let options = Options {
            until: self.until,
            seed: self.seed,
            late: self.faults.late,
            hidden_wakes: self.faults.hidden_wakes,
            overheads: self.faults.overheads,
            audit: true,
        };
        if !self.changes.is_empty() {
            return run_changing(&system, programs, &self.changes, policy, &options, observer);
        }
        let (memory, paces) = (self.memory.as_ref(), &self.paces);
        let subject = Subject { system: &system, programs, memory, paces, scripts: None };
        simulate(&subject, policy, &options, observer)
    }
    #[cfg(feature = "swarm")]
    pub(crate) fn remove_program(&mut self, place: usize) {
        self.random.programs.remove(place);
        if place < self.paces.len() {
            self.paces.remove(place);
        }
        if let Some(memory) = &mut self.memory {
            memory.programs.remove(place);
        }
    }
    #[cfg(feature = "swarm")]
    pub(crate) fn pin_some(&mut self, dice: &mut Dice) {
        let cores: Vec<_> = self.random.system.core_ids().collect();
        for vcpu in &mut self.random.system.vcpus {
            vcpu.pinned = dice.one_in(4).then(|| dice.pick(&cores));
        }
    }
    /// What the policy's admission says of it.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let start = at_start(&self.system(), &self.random.programs);
        (self.entry.admit)(&start, &self.params)
    }
    /// The claims of the entry that must hold in this case: a claim on timeliness is for default
    /// parameters, work within its budget, visible wakes, decisions on time and nothing charged.
    /// A schedulability test that accepts claims timeliness too.
    pub(crate) fn claims(&self, verdict: &Verdict) -> Claims {
        let Faults { late, hidden_wakes, overheads, .. } = self.faults;
        let all_stay = self.all_stay();
        let calm = late.is_zero() && !hidden_wakes && overheads.is_free();
        let plain = self.params == Params::new();
        let harmless = self.params.iter().all(|(name, _)| HARMLESS.contains(&name));
        let within = self.random.system.vcpus.iter().all(|vcpu| self.stays_within(vcpu));
        let Claims { partitioned, work_conserving, no_miss_when_admitted } = self.entry.claims;
        Claims {
            partitioned,
            work_conserving: work_conserving && calm && all_stay && plain,
            no_miss_when_admitted: (no_miss_when_admitted && harmless
                || self.is_proven(verdict) && harmless && all_stay
                || self.is_covered)
                && calm
                && within
                && self.memory.is_none(),
        }
    }
    /// Whether a sufficient test accepts what a job policy would run anyway, as G-EDF does.
    fn is_proven(&self, verdict: &Verdict) -> bool {
        let sufficient = |core: &CoreVerdict| {
            core.tests.iter().any(|result| result.accepted && result.test != "capacity")
        };
        self.entry.needs.jobs
            && !self.entry.needs.counters
            && !verdict.cores.is_empty()
            && verdict.cores.iter().all(sufficient)
    }
    /// The tasks as a table that users can run, where it says all of them.
    #[must_use]
    pub fn task_set(&self) -> Option<TaskSet> {
        let system = &self.random.system;
        let periodic = |vcpu: &Vcpu| matches!(vcpu.arrival, Arrival::Periodic { .. });
        let plain = self.memory.is_none()
            && system.ticks_per_ns == 1
            && self.all_stay()
            && self.changes.is_empty()
            && system.vcpus.iter().all(|vcpu| periodic(vcpu) && self.stays_within(vcpu));
        let mut tasks = system.vcpus.clone();
        (0..).zip(&mut tasks).for_each(|(id, task)| task.id = VcpuId(id));
        plain.then(|| TaskSet { tasks, ..TaskSet::default() })
    }
    /// Whether all programs are there from the start to the end.
    pub(crate) fn all_stay(&self) -> bool {
        let stays = |p: &Program| p.arrive == Instant::ZERO && p.depart == Instant::NEVER;
        self.random.programs.iter().all(stays)
    }
    fn stays_within(&self, vcpu: &Vcpu) -> bool {
        let mut own = self.random.programs.iter().filter(|program| program.vcpu == vcpu.id);
        let most = |cost| match cost {
            Cost::Fixed(most) | Cost::Uniform(_, most) => most,
            Cost::Exponential(mean) => mean * 10,
        };
        let fits = |program: &Program| match program.workload {
            Workload::Periodic { cost } => most(cost) <= vcpu.reservation.budget,
            Workload::Busy
            | Workload::RunSleep { .. }
            | Workload::EventDriven { .. }
            | Workload::Anytime { .. }
            | Workload::Script => !program.workload.has_jobs(),
        };
        own.next().is_none_or(fits) && own.next().is_none()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RandomSystem { system, programs } = &self.random;
        let cores = system.cores.len();
        let Self { entry, params, faults, until, .. } = self;
        let given: Vec<_> = params.iter().collect();
        writeln!(f, "{} {given:?} on {cores} cores until {until}, {faults:?}", entry.name)?;
        if system.ticks_per_ns > 1 {
            writeln!(f, "  times in ticks of 1/{} ns", system.ticks_per_ns)?;
        }
        if let Some(memory) = &self.memory {
            let colors: Vec<_> = system.cores.iter().map(|core| core.colors).collect();
            let Memory { dram, cache, partition, devices, .. } = memory;
            writeln!(f, "  {dram:?} {cache:?} {partition:?} {colors:?} {devices:?}")?;
        }
        if !system.is_even() {
            let classes = system.cores.iter().map(|core| system.classes[usize::from(core.class)]);
            let speeds: Vec<_> = classes.map(|class| class.speed_milli).collect();
            writeln!(f, "  speeds {speeds:?}")?;
        }
        for Change { at, vcpu, reservation: r, cost } in &self.changes {
            let (budget, period) = (r.budget.ticks(), r.period.ticks());
            writeln!(f, "  {vcpu} asks at {at} for ({budget}, {period}), {cost:?}")?;
        }
        for vcpu in &system.vcpus {
            let r = vcpu.reservation;
            let (id, budget, period) = (vcpu.id, r.budget.ticks(), r.period.ticks());
            writeln!(f, "  {id} ({budget}, {period}) {:?} {:?}", vcpu.arrival, vcpu.role)?;
            if (vcpu.pinned, vcpu.bandwidth, vcpu.colors) != (None, None, 0) {
                let (pinned, bandwidth, colors) = (vcpu.pinned, vcpu.bandwidth, vcpu.colors);
                writeln!(f, "    on {pinned:?}, {bandwidth:?} B/s, {colors} colours")?;
            }
            if (vcpu.class, vcpu.speedup_milli) != (None, None) {
                let (class, speedup) = (vcpu.class, vcpu.speedup_milli);
                writeln!(f, "    meant on {class:?}, speedup {speedup:?}")?;
            }
            let own = |program: &&(usize, &Program)| program.1.vcpu == vcpu.id;
            for (place, program) in programs.iter().enumerate().filter(|one| own(&one)) {
                let (from, to) = (program.arrive, program.depart);
                writeln!(f, "    {:?} from {from} to {to}", program.workload)?;
                let use_ = self.memory.as_ref().and_then(|memory| memory.programs[place].as_ref());
                if let Some(use_) = use_ {
                    writeln!(f, "      {use_:?}")?;
                } else if let Some(pace) = self.paces.get(place) {
                    writeln!(f, "      {pace:?}")?;
                }
            }
        }
        Ok(())
    }
}
