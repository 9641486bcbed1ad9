//! The swarm: a random system under a random policy with random faults, for each seed one case.

use crate::{Auditor, Dice, Mix, Nagging, RandomSystem, build_with, generate};
use maracas_core::contract::{Claims, Entry};
use maracas_core::params::{Kind, Params, Value};
use maracas_core::{Cost, Duration, Instant, Program, Vcpu, Workload};
use maracas_sim::{Options, Outcome, Overheads, at_start, run};
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
    /// On what it runs, with what.
    pub random: RandomSystem,
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
        Self { entry, params: Params::new(), random, faults: Faults::default(), until, seed }
    }
    fn random(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x5eed);
        let entries: Vec<_> =
            maracas_policies::ENTRIES.iter().filter(|entry| !entry.needs.counters).collect();
        let entry = dice.pick(&entries);
        let mix = Mix {
            jobs_only: entry.needs.jobs || dice.one_in(3),
            changes: dice.one_in(3),
            unruly: dice.one_in(3),
            load: dice.pick(&[40, 60, 75, 90, 100]),
        };
        let mut case = Self::new(entry, generate(dice.roll(), mix), seed);
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
            },
            nag: dice.one_in(3).then_some(unit),
        };
        if dice.one_in(2) {
            case.params = random_params(entry, &mut dice);
        }
        case
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
            no_miss_when_admitted: self.entry.claims.no_miss_when_admitted && calm && within,
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
        for vcpu in &system.vcpus {
            let r = vcpu.reservation;
            let (id, budget, period) = (vcpu.id, r.budget.ticks(), r.period.ticks());
            writeln!(f, "  {id} ({budget}, {period}) {:?} {:?}", vcpu.arrival, vcpu.role)?;
            for program in programs.iter().filter(|program| program.vcpu == vcpu.id) {
                let (from, to) = (program.arrive, program.depart);
                writeln!(f, "    {:?} from {from} to {to}", program.workload)?;
            }
        }
        Ok(())
    }
}

/// A value for each parameter whose values can be listed.
fn random_params(entry: &Entry, dice: &mut Dice) -> Params {
    let mut params = Params::new();
    for spec in entry.params {
        match spec.kind {
            Kind::Choice(words) => params.set(spec.name, Value::Text(dice.pick(words).into())),
            Kind::Flag(_) => params.set(spec.name, Value::Flag(dice.one_in(2))),
            Kind::Time(_) | Kind::Whole(..) | Kind::Fraction(..) => {}
        }
    }
    params
}

/// Runs a case under the auditor; `None` where the policy refuses the system.
///
/// # Errors
/// What was wrong.
pub fn check(case: &Case) -> Result<Option<Outcome>, String> {
    quietly(|| {
        let Some(mut policy) = build_with(case.entry, &case.random, &case.params) else {
            return Ok(None);
        };
        let RandomSystem { system, programs } = &case.random;
        let claims = case.claims();
        let start = at_start(system, programs);
        let mut auditor = Auditor::new(system, &start, claims, case.faults.late);
        if case.entry.name == "maracas" {
            auditor = auditor.servers();
        }
        if case.faults.nag.is_some() {
            policy = Box::new(Nagging::new(policy, case.faults.nag));
        }
        let options = Options {
            until: case.until,
            seed: case.seed,
            late: case.faults.late,
            hidden_wakes: case.faults.hidden_wakes,
            overheads: case.faults.overheads,
            audit: true,
        };
        let outcome = run(system, programs, &mut *policy, &options, &mut auditor);
        auditor.verdict(&outcome)?;
        if claims.no_miss_when_admitted && outcome.missed > 0 {
            return Err(format!("{} deadlines missed, though admitted", outcome.missed));
        }
        Ok(Some(outcome))
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
            case.random.programs.retain(|program| program.vcpu != vcpu.id);
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
            with(&|case| _ = case.random.programs.remove(place));
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
}
