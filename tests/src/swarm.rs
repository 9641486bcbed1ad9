//! The swarm: a random system under a random policy with random faults, for each seed one case.

use crate::params::random_params;
use crate::{
    Auditor, Dice, GuardAudit, MaracasAudit, MemoryAudit, Mix, Nagging, RandomSystem, build_with,
    generate, generate_slow, memory_for,
};
use maracas_core::contract::{Claims, Entry, Figure, Observer, Policy};
use maracas_core::memory::Memory;
use maracas_core::params::Params;
use maracas_core::{Cost, Duration, Instant, Program, System, Vcpu, VcpuId, Workload};
use maracas_sim::memory::SharedMemory;
use maracas_sim::{Options, Outcome, Overheads, at_start, run, run_with};
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

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
    /// On what it runs, with what; without the policy's carriers.
    pub random: RandomSystem,
    /// What the programs do to memory; `None` = nothing.
    pub memory: Option<Memory>,
    /// Under which faults.
    pub faults: Faults,
    /// How long.
    pub until: Instant,
    /// Seed of the run's random numbers.
    pub seed: u64,
}

impl Case {
    /// `entry` with its defaults on a system for some of its longest periods, without faults.
    #[must_use]
    pub fn new(entry: &'static Entry, random: RandomSystem, seed: u64) -> Self {
        let longest = random.system.vcpus.iter().map(|vcpu| vcpu.reservation.period).max();
        let until = Instant::ZERO + longest.unwrap_or(Duration::from_ticks(10)) * 12;
        let (params, faults) = (Params::new(), Faults::default());
        Self { entry, params, random, memory: None, faults, until, seed }
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
    /// The system with the carriers that the policy needs.
    #[must_use]
    pub fn system(&self) -> System {
        let mut system = self.random.system.clone();
        let first = system.vcpus.iter().map(|vcpu| vcpu.id.0 + 1).max().unwrap_or(0);
        let carriers = (self.entry.carriers)(&system, &self.params, VcpuId(first));
        system.vcpus.extend(carriers);
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
        match &self.memory {
            None => run(&system, programs, policy, &options, observer),
            Some(memory) => {
                let model = SharedMemory::new(&system, memory);
                run_with(&system, programs, policy, &options, observer, model)
            }
        }
    }
    fn random(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x5eed);
        let entries: Vec<_> = maracas_policies::all().collect();
        // The policies with the most to go wrong come most often.
        let rich: Vec<_> =
            entries.iter().filter(|e| e.name.ends_with("maracas")).copied().collect();
        let entry = if dice.one_in(2) { dice.pick(&rich) } else { dice.pick(&entries) };
        let mix = Mix {
            jobs_only: entry.needs.jobs || dice.one_in(3),
            changes: dice.one_in(3),
            unruly: dice.one_in(3),
            load: dice.pick(&[40, 60, 75, 90, 100]),
        };
        let drawn = dice.roll();
        let mut case = if dice.one_in(2) {
            Self::with_memory(entry, drawn, mix)
        } else {
            Self::new(entry, generate(drawn, mix), seed)
        };
        case.seed = seed;
        if entry.claims.partitioned && dice.one_in(4) {
            case.pin_some(&mut dice);
        }
        let unit = Duration::from_ticks(case.until.ticks() / 400 + 1);
        let some = |dice: &mut Dice, odds| if dice.one_in(odds) { unit } else { Duration::ZERO };
        case.faults = Faults {
            late: some(&mut dice, 3) * dice.between(1, 8),
            hidden_wakes: !entry.needs.visible_wakes && dice.one_in(4),
            overheads: Overheads {
                context_switch: some(&mut dice, 5),
                migration: some(&mut dice, 5),
                decision: some(&mut dice, 8),
                release: some(&mut dice, 8),
                sample: some(&mut dice, 5),
                lock: some(&mut dice, 5),
                structure: some(&mut dice, 8),
                page_copy: if dice.one_in(8) {
                    Duration::from_ticks(unit.ticks() / 100)
                } else {
                    Duration::ZERO
                },
            },
            nag: dice.one_in(3).then_some(unit),
        };
        if dice.one_in(3) {
            return case;
        }
        let roll = dice.roll();
        case.with_random_params(roll)
    }
    fn remove_program(&mut self, place: usize) {
        self.random.programs.remove(place);
        if let Some(memory) = &mut self.memory {
            memory.programs.remove(place);
        }
    }
    fn pin_some(&mut self, dice: &mut Dice) {
        let cores: Vec<_> = self.random.system.core_ids().collect();
        for vcpu in &mut self.random.system.vcpus {
            vcpu.pinned = dice.one_in(4).then(|| dice.pick(&cores));
        }
    }
    /// The claims of the entry that must hold in this case: a claim on timeliness is for default
    /// parameters, work within its budget, visible wakes, decisions on time and nothing charged.
    fn claims(&self) -> Claims {
        let Faults { late, hidden_wakes, overheads, .. } = self.faults;
        let stays = |p: &Program| p.arrive == Instant::ZERO && p.depart == Instant::NEVER;
        let calm = late.is_zero()
            && !hidden_wakes
            && overheads.is_free()
            && self.params == Params::new()
            && self.random.programs.iter().all(stays);
        let within = self.random.system.vcpus.iter().all(|vcpu| self.stays_within(vcpu));
        Claims {
            partitioned: self.entry.claims.partitioned,
            work_conserving: self.entry.claims.work_conserving && calm,
            no_miss_when_admitted: self.entry.claims.no_miss_when_admitted
                && calm
                && within
                && self.memory.is_none(),
        }
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
            | Workload::Anytime { .. } => !program.workload.has_jobs(),
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
        if let Some(memory) = &self.memory {
            let colors: Vec<_> = system.cores.iter().map(|core| core.colors).collect();
            let Memory { dram, cache, partition, devices, .. } = memory;
            writeln!(f, "  {dram:?} {cache:?} {partition:?} {colors:?} {devices:?}")?;
        }
        for vcpu in &system.vcpus {
            let r = vcpu.reservation;
            let (id, budget, period) = (vcpu.id, r.budget.ticks(), r.period.ticks());
            writeln!(f, "  {id} ({budget}, {period}) {:?} {:?}", vcpu.arrival, vcpu.role)?;
            if (vcpu.pinned, vcpu.bandwidth, vcpu.colors) != (None, 0, 0) {
                let (pinned, bandwidth, colors) = (vcpu.pinned, vcpu.bandwidth, vcpu.colors);
                writeln!(f, "    on {pinned:?}, {bandwidth} B/s, {colors} colours")?;
            }
            let own = |program: &&(usize, &Program)| program.1.vcpu == vcpu.id;
            for (place, program) in programs.iter().enumerate().filter(|one| own(&one)) {
                let (from, to) = (program.arrive, program.depart);
                writeln!(f, "    {:?} from {from} to {to}", program.workload)?;
                if let Some(memory) = &self.memory {
                    writeln!(f, "      {:?}", memory.programs[place])?;
                }
            }
        }
        Ok(())
    }
}

/// Runs a case under the auditor; `None` where the policy refuses the system.
///
/// # Errors
/// What was wrong.
pub fn check(case: &Case) -> Result<Option<Outcome>, String> {
    check_counting(case).map(|ran| ran.map(|(outcome, _)| outcome))
}

/// The same, with what the policy counted of its own doings.
///
/// # Errors
/// What was wrong.
pub fn check_counting(case: &Case) -> Result<Option<(Outcome, Vec<Figure>)>, String> {
    quietly(|| {
        let Some(mut policy) = case.policy() else { return Ok(None) };
        let (system, programs) = (case.system(), &case.random.programs);
        let claims = case.claims();
        let start = at_start(&system, programs);
        let mut auditor = Auditor::new(&system, &start, claims, case.faults.late);
        if case.entry.name.ends_with("maracas") {
            auditor = auditor.servers();
        }
        if case.faults.nag.is_some() {
            policy = Box::new(Nagging::new(policy, case.faults.nag));
        }
        let memory = MemoryAudit::new(&system, programs, case.memory.as_ref());
        // MemGuard tells its inner policy that a VCPU which used up its own bandwidth blocked: what
        // that policy then holds for runnable cannot be read off the machine's events.
        let told_all = !case.entry.name.starts_with("memguard+")
            || system.vcpus.iter().all(|vcpu| vcpu.bandwidth == 0);
        let maracas = case.entry.name.ends_with("maracas") && told_all;
        let maracas = maracas.then(|| MaracasAudit::new(case.entry, &case.params, &system));
        let wrapped = case.entry.name.starts_with("memguard+") && case.faults.late.is_zero();
        let guard = wrapped.then(|| GuardAudit::new(case.entry, &case.params, &system)).flatten();
        let mut observers = ((auditor, memory), (maracas, guard));
        let outcome = case.run(&mut *policy, &mut observers);
        let ((auditor, memory), (maracas, guard)) = observers;
        auditor.verdict(&outcome)?;
        memory.verdict(&outcome)?;
        maracas.map_or(Ok(()), MaracasAudit::verdict)?;
        guard.map_or(Ok(()), GuardAudit::verdict)?;
        if claims.no_miss_when_admitted && outcome.missed > 0 {
            return Err(format!("{} deadlines missed, though admitted", outcome.missed));
        }
        Ok(Some((outcome, policy.figures())))
    })
}

/// Runs the case of `seed`.
///
/// # Errors
/// What was wrong, the line that reproduces it, and the smallest case that shows it.
pub fn swarm_case(seed: u64) -> Result<(), String> {
    let case = Case::random(seed);
    let Err(why) = check(&case) else { return Ok(()) };
    let smallest = shrink(case);
    let reason = check(&smallest).err().unwrap_or_default();
    Err(format!(
        "{why}\nreproduce: cargo xtask swarm --seed {seed}\nsmallest: {reason}\n{smallest}"
    ))
}

/// Takes away from a failing case whatever can go while it still fails.
fn shrink(mut case: Case) -> Case {
    // Enough for every single part of the largest systems to be tried several times.
    let mut tries = 400;
    'smaller: loop {
        for smaller in simpler(&case) {
            tries -= 1;
            if tries == 0 {
                return case;
            }
            if check(&smaller).is_err() {
                case = smaller;
                continue 'smaller;
            }
        }
        return case;
    }
}

/// Every case that is one step simpler.
fn simpler(case: &Case) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut with = |change: &dyn Fn(&mut Case)| {
        let mut simpler = case.clone();
        change(&mut simpler);
        cases.push(simpler);
    };
    for vcpu in &case.random.system.vcpus {
        with(&|case| {
            case.random.system.vcpus.retain(|other| other.id != vcpu.id);
            while let Some(place) = case.random.programs.iter().position(|p| p.vcpu == vcpu.id) {
                case.remove_program(place);
            }
        });
    }
    if case.until.ticks() > 1 {
        for (num, den) in [(1, 2), (9, 10)] {
            with(&|case| case.until = Instant::from_ticks(case.until.ticks() * num / den));
        }
    }
    if case.random.system.cores.len() > 1 {
        with(&|case| case.random.system.cores.truncate(case.random.system.cores.len() - 1));
    }
    with(&|case| case.params = Params::new());
    for (name, _) in case.params.iter() {
        with(&|case| case.params = without(&case.params, name));
    }
    with(&|case| case.memory = None);
    if let Some(memory) = &case.memory {
        with(&|case| case.memory = Some(Memory { devices: Vec::new(), ..memory.clone() }));
        with(&|case| case.memory = Some(Memory { cache: None, ..memory.clone() }));
    }
    if case.faults != Faults::default() {
        with(&|case| case.faults.late = Duration::ZERO);
        with(&|case| case.faults.hidden_wakes = false);
        with(&|case| case.faults.overheads = Overheads::default());
        with(&|case| case.faults.nag = None);
    }
    for place in 0..case.random.programs.len() {
        let program = case.random.programs[place];
        let others = case.random.programs.iter().filter(|other| other.vcpu == program.vcpu);
        if others.count() > 1 {
            with(&|case| case.remove_program(place));
        }
        if program.arrive > Instant::ZERO || program.depart < Instant::NEVER {
            with(&|case| {
                let workload = program.workload;
                case.random.programs[place] = Program::new(program.vcpu, workload);
            });
        }
    }
    // A step that changes nothing would be taken for ever.
    cases.retain(|simpler| simpler.to_string() != case.to_string());
    cases
}

/// The parameters without one of them.
fn without(params: &Params, name: &str) -> Params {
    let mut fewer = Params::new();
    let others = params.iter().filter(|(other, _)| *other != name);
    others.for_each(|(name, value)| fewer.set(name, value.clone()));
    fewer
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Turns a panic inside `work` into an error, without a word on stderr: shrinking provokes many.
fn quietly<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(false);
    result.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string));
        Err(text.unwrap_or_else(|| "panicked without a word".into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_failing_case_is_made_small() {
        let honest = maracas_policies::find("g-edf").expect("g-edf is registered");
        let claims = Claims { partitioned: true, ..Claims::default() };
        let lying: &'static Entry = Box::leak(Box::new(Entry { claims, ..*honest }));
        let cases = (0..200).map(|seed| Case::new(lying, generate(seed, Mix::tasks(95)), seed));
        let found = cases
            .into_iter()
            .find(|case| case.random.system.vcpus.len() > 6 && check(case).is_err());
        let case = found.expect("global EDF migrates");
        let small = shrink(case.clone());
        assert!(check(&small).is_err());
        // Two cores and two tasks are the least that makes a task change core under g-edf.
        let least = (small.random.system.cores.len(), small.random.system.vcpus.len());
        assert_eq!(least, (2, 2), "{small}");
        assert!(small.until < case.until);
    }

    #[test]
    fn a_seed_is_a_case_and_most_cases_run() {
        let mut ran = 0;
        for seed in 0..100 {
            let case = Case::random(seed);
            assert_eq!(case.to_string(), Case::random(seed).to_string());
            ran += u32::from(matches!(check(&case), Ok(Some(outcome)) if outcome.events > 10));
        }
        assert!(ran >= 60, "only {ran} of 100 cases ran at all");
    }

    /// Everything that is audited happens: else the audits would be worth nothing.
    #[test]
    fn cases_come_to_everything_that_is_audited() {
        let mut ran = 0;
        let mut counted = BTreeMap::new();
        // The more policies there are, the fewer cases each of them gets.
        let cases = 100 * maracas_policies::ENTRIES.len() as u64;
        for seed in 0..cases {
            let case = Case::random(seed);
            let Ok(Some((outcome, figures))) = check_counting(&case) else { continue };
            ran += 1;
            let reads = outcome.memory.map_or(0, |totals| totals.reads);
            let figures = figures.iter().map(|figure| (figure.name, figure.value));
            for (name, value) in figures.chain([("reads", reads)]) {
                *counted.entry(name).or_insert(0) += u32::from(value > 0);
            }
        }
        assert!(3 * ran > 2 * cases, "only {ran} of {cases} cases ran");
        for (name, least) in [
            ("reads", 100),
            ("samples", 10),
            ("throttle steps up", 5),
            ("throttle steps down", 1),
            ("moves", 3),
            ("late periods", 1),
            ("throttled periods", 20),
            ("reclaimed requests", 20),
            ("underruns", 1),
            ("spare phases", 5),
        ] {
            let cases = counted.get(name).copied().unwrap_or(0);
            assert!(cases >= least, "{name} in only {cases} cases: {counted:?}");
        }
    }
}
