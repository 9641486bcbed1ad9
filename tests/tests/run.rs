//! RUN under the simulator: random periodic sets of all weights on up to 16 cores, half of them
//! with U = m exactly, under every packing. Time is scaled so that every budget is a whole number
//! of ticks.
//!
//! Optimized (`cargo test --release`, as CI runs it) it is 2000 sets; `RUN_SETS` says another
//! number.

use maracas_core::contract::{Observer, Policy};
use maracas_core::journal::Header;
use maracas_core::params::{Params, Value};
use maracas_core::{
    Arrival, Cost, Duration, Event, Instant, Plan, Program, System, Vcpu, Workload,
};
use maracas_policies::{find, run_tree};
use maracas_sim::{Options, Overheads, run};
use maracas_tests::{Case, DepthOne, Dice, Faults, Nagging, RandomSystem, Schedule, check};
use maracas_trace::Metrics;

/// All periods divide this.
const HYPERPERIOD: u64 = 120;
const PERIODS: [u64; 10] = [4, 5, 6, 8, 10, 12, 15, 20, 24, 30];
/// Every denominator of a rate that such sets can have divides this.
const SCALE: u64 = HYPERPERIOD;
/// Sets in a run of the tests.
const SETS: u64 = if cfg!(debug_assertions) { 300 } else { 2_000 };

fn params(packing: &str) -> Params {
    let mut params = Params::new();
    params.set("packing", Value::Text(packing.into()));
    params
}

/// What a set is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Traits {
    /// U = m.
    full: bool,
    offsets: bool,
    /// Jobs may need less than C.
    early: bool,
}

/// Tasks whose loads sum to U = m exactly, or to less.
fn draw(seed: u64) -> (System, Vec<Program>, Traits) {
    let mut dice = Dice::new(seed);
    let cores = dice.between(2, 16);
    let traits =
        Traits { full: seed.is_multiple_of(2), offsets: dice.one_in(4), early: dice.one_in(4) };
    let weight = dice.between(0, 2);
    let mut left = HYPERPERIOD * cores;
    if !traits.full {
        left -= dice.between(1, left / 4);
    }
    let mut set = Vec::new();
    while left > 0 {
        let period = dice.pick(&PERIODS);
        let budget = match weight {
            0 => dice.between(1, period),
            1 => dice.between(period / 2 + 1, period),
            _ => dice.between(1, period / 2),
        };
        let share = budget * HYPERPERIOD / period;
        if share <= left {
            left -= share;
            set.push((budget, period));
        } else if left <= HYPERPERIOD {
            set.push((left, HYPERPERIOD));
            left = 0;
        }
    }
    let ticks = |n| Duration::from_ticks(n * SCALE);
    let mut programs = Vec::new();
    let vcpus = (0..).zip(set).map(|(id, (budget, period))| {
        let offset = if traits.offsets { dice.between(0, period) } else { 0 };
        let arrival = Arrival::Periodic { offset: ticks(offset) };
        let vcpu = Vcpu { arrival, ..Vcpu::new(id, ticks(budget), ticks(period)) };
        let most = vcpu.reservation.budget;
        let least = Duration::from_ticks(1);
        let cost = if traits.early { Cost::Uniform(least, most) } else { Cost::Fixed(most) };
        programs.push(Program::new(vcpu.id, Workload::Periodic { cost }));
        vcpu
    });
    (System::new(cores as usize, vcpus.collect()), programs, traits)
}

/// What a run did.
struct Done {
    missed: u64,
    jobs: u64,
    preemptions: u64,
    migrations: u64,
    schedule: Schedule,
}

fn simulate(name: &str, packing: &str, system: &System, programs: &[Program]) -> Done {
    let entry = find(name).expect("the test names policies that exist");
    let params = params(packing);
    let mut policy = (entry.build)(system, &params).unwrap_or_else(|why| panic!("{why:?}"));
    // Three hyperperiods hold every task's longest wait for its first job.
    let until = Instant::from_ticks(3 * HYPERPERIOD * SCALE);
    let options = Options { audit: true, ..Options::new(until) };
    let mut metrics = Metrics::new(&Header {
        policy: name.into(),
        params,
        system: system.clone(),
        names: Vec::new(),
        machine: "sim".into(),
        version: String::new(),
        seed: 0,
    });
    let mut schedule = Schedule::default();
    let mut observers = (&mut metrics, &mut schedule);
    let outcome = run(system, programs, &mut *policy, &options, &mut observers);
    let total = metrics.report(until).total;
    let (preemptions, migrations) = (total.preemptions, total.migrations);
    Done { missed: outcome.missed, jobs: outcome.released, preemptions, migrations, schedule }
}

#[derive(Default, Debug)]
struct Summary {
    sets: u64,
    full: u64,
    jobs: u64,
    /// By number of reductions: sets, the most preemptions a job on average in hundredths.
    depths: Vec<(u64, u64)>,
}

fn holds(seed: u64, summary: &mut Summary) {
    let (system, programs, traits) = draw(seed);
    summary.sets += 1;
    summary.full += u64::from(traits.full);
    for packing in ["ffd", "bfd", "wfd"] {
        let tree = run_tree(&system, &params(packing)).unwrap_or_else(|why| panic!("{why:?}"));
        let done = simulate("run", packing, &system, &programs);
        assert_eq!(done.missed, 0, "seed {seed}, {packing}, {traits:?}");
        summary.jobs += done.jobs;
        let p = tree.depth() as usize;
        if p == 0 {
            let same = simulate("p-edf", packing, &system, &programs);
            assert_eq!(done.migrations, 0, "seed {seed}, {packing}");
            assert_eq!(done.schedule, same.schedule, "seed {seed}, {packing}");
        } else if !traits.offsets {
            // The paper's bound is for whole hyperperiods.
            let bound = (3 * p as u64 + 1) * done.jobs;
            assert!(2 * done.preemptions <= bound, "seed {seed}, {packing}: {}", done.preemptions);
        }
        summary.depths.resize(summary.depths.len().max(p + 1), (0, 0));
        let (sets, most) = &mut summary.depths[p];
        *sets += 1;
        *most = (*most).max(100 * done.preemptions / done.jobs.max(1));
    }
}

#[test]
fn nothing_is_missed_up_to_the_last_tick_of_every_core() {
    let sets = std::env::var("RUN_SETS").ok().and_then(|n| n.parse().ok()).unwrap_or(SETS);
    let mut summary = Summary::default();
    for seed in 0..sets {
        holds(seed, &mut summary);
    }
    assert!(summary.full >= sets / 2, "{summary:?}");
    let reduced: u64 = summary.depths.iter().skip(1).map(|(sets, _)| sets).sum();
    assert!(reduced >= sets && summary.depths.len() > 2, "{summary:?}");
}

/// Heavy tasks with periods that have nothing in common; `spare` parts per trillion of a core are
/// left over.
fn draw_uncommon(seed: u64, spare: u64) -> (System, Vec<Program>) {
    const WHOLE: u64 = 1_000_000_000_000;
    let mut dice = Dice::new(seed);
    let cores = dice.between(2, 8);
    let mut left = WHOLE * cores - spare;
    let (mut vcpus, mut programs) = (Vec::new(), Vec::new());
    while left > 0 {
        let period = dice.between(1_000, 60_000);
        let heavy = dice.between(period / 3, period - 1);
        let budget = heavy.min((u128::from(left) * u128::from(period) / u128::from(WHOLE)) as u64);
        if budget == 0 {
            break;
        }
        let share = (u128::from(budget) * u128::from(WHOLE)).div_ceil(u128::from(period));
        left -= share as u64;
        let (c, t) = (Duration::from_ticks(budget), Duration::from_ticks(period));
        let vcpu = Vcpu::new(vcpus.len() as u32, c, t).periodic();
        programs.push(Program::new(vcpu.id, Workload::Periodic { cost: Cost::Fixed(c) }));
        vcpus.push(vcpu);
    }
    (System::new(cores as usize, vcpus), programs)
}

/// By VCPU: its segments, in order.
struct Service(Vec<Vec<(u64, u64)>>);

impl Observer for Service {
    fn event(&mut self, _: Instant, event: &Event) {
        if let Event::Ran(segment) = event {
            let segments = &mut self.0[segment.vcpu.0 as usize];
            segments.push((segment.from.ticks(), segment.to.ticks()));
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

impl Service {
    /// The most work of a job that was undone at its deadline, up to `until`.
    fn most_undone(&self, system: &System, until: u64) -> u64 {
        let undone = |(vcpu, segments): (&Vcpu, &Vec<(u64, u64)>)| {
            let (c, t) = (vcpu.reservation.budget.ticks(), vcpu.reservation.period.ticks());
            let (mut most, mut done, mut next) = (0, 0, 0);
            for job in 1..=until / t {
                while segments.get(next).is_some_and(|(_, to)| *to <= job * t) {
                    done += segments[next].1 - segments[next].0;
                    next += 1;
                }
                let begun =
                    segments.get(next).map_or(0, |(from, _)| (job * t).saturating_sub(*from));
                most = most.max((job * c).saturating_sub(done + begun));
            }
            most
        };
        system.vcpus.iter().zip(&self.0).map(undone).max().unwrap_or(0)
    }
}

/// Simulates forty of the longest periods; misses, what was undone at most at a deadline, and what
/// the policy says that may be. `None` where it refuses.
fn rounded(seed: u64, spare: u64, rounding: &str) -> Option<(u64, u64, u64)> {
    let (system, programs) = draw_uncommon(seed, spare);
    let mut params = params(["ffd", "bfd", "wfd"][seed as usize % 3]);
    params.set("rounding", Value::Text(rounding.into()));
    let entry = find("run").expect("run is registered");
    let mut policy = (entry.build)(&system, &params).ok()?;
    let until = 40 * 60_000;
    let options = Options::new(Instant::from_ticks(until));
    let mut service = Service(vec![Vec::new(); system.vcpus.len()]);
    let outcome = run(&system, &programs, &mut *policy, &options, &mut service);
    let statistics = policy.statistics();
    let said = statistics.iter().find(|statistic| statistic.name == "rounding ticks");
    let said = said.expect("run says how it rounds").value;
    Some((outcome.missed, service.most_undone(&system, until), said))
}

#[test]
fn with_idle_time_in_reserve_rounding_makes_nothing_late() {
    let mut admitted = 0;
    for seed in 0..200 {
        // Two hundredths of a core: about one permille of each server is its reserve.
        let Some((missed, undone, said)) = rounded(seed, 20_000_000_000, "refuse") else {
            continue;
        };
        assert_eq!((missed, undone, said), (0, 0, 0), "seed {seed}");
        let (system, _) = draw_uncommon(seed, 20_000_000_000);
        let tree = run_tree(&system, &params(["ffd", "bfd", "wfd"][seed as usize % 3]));
        admitted += u64::from(tree.is_ok_and(|tree| tree.depth() > 0));
    }
    assert!(admitted >= 50, "only {admitted} of 200 sets were admitted and reduced");
}

#[test]
fn without_it_no_more_is_undone_than_the_policy_says() {
    let (mut late, mut most) = (0, 0);
    for seed in 0..200 {
        let done = rounded(seed, 0, "tolerate");
        let (missed, undone, said) = done.unwrap_or_else(|| panic!("seed {seed} is refused"));
        assert!(undone <= said, "seed {seed}: {undone} ticks undone, {said} said");
        late += u64::from(missed > 0);
        most = most.max(undone);
    }
    assert!(late > 0, "no set shows what rounding does; most undone: {most}");
}

/// Sets of the first sixty seeds that RUN has to reduce.
fn reduced_cases() -> Vec<Case> {
    let entry = find("run").expect("run is registered");
    let case = |seed| {
        let (system, programs, _) = draw(seed);
        let reduced = run_tree(&system, &Params::new()).is_ok_and(|tree| tree.depth() > 0);
        reduced.then(|| Case::new(entry, RandomSystem { system, programs }, seed))
    };
    let cases: Vec<Case> = (0..60).filter_map(case).collect();
    assert!(cases.len() > 20, "only {} of 60 sets are reduced", cases.len());
    cases
}

#[test]
fn reduced_sets_keep_the_contract_under_faults() {
    for mut case in reduced_cases() {
        let unit = Duration::from_ticks(SCALE / 4);
        let charged = Overheads {
            context_switch: unit,
            migration: unit,
            decision: unit,
            release: unit,
            ..Overheads::default()
        };
        for faults in [
            Faults::default(),
            Faults { late: unit * 5, hidden_wakes: true, ..Faults::default() },
            Faults { overheads: charged, nag: Some(unit * 3), ..Faults::default() },
        ] {
            case.faults = faults;
            let ran = check(&case).unwrap_or_else(|why| panic!("{why}\n{case}"));
            assert!(ran.is_some_and(|outcome| outcome.completed > 0), "{case}");
        }
    }
}

#[test]
fn reduced_sets_run_alike_on_slots_and_when_asked_again() {
    let schedule = |case: &Case, wrap: &dyn Fn(Box<dyn Policy>) -> Box<dyn Policy>| {
        let mut policy = wrap(case.policy().expect("the case was admitted"));
        let mut schedule = Schedule::default();
        case.run(&mut *policy, &mut schedule);
        schedule
    };
    for case in reduced_cases() {
        let cores = case.random.system.cores.len();
        let plain = schedule(&case, &|policy| policy);
        let slots = schedule(&case, &|policy| Box::new(DepthOne::new(policy, cores)));
        assert_eq!(plain, slots, "{case}");
        let often = Some(Duration::from_ticks(SCALE / 3));
        let nagged = schedule(&case, &|policy| Box::new(Nagging::new(policy, often)));
        assert_eq!(plain, nagged, "{case}");
    }
}
