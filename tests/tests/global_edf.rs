//! The schedulability tests of global EDF: they say what another implementation says of a thousand
//! sets, and whatever one of them accepts misses nothing under the simulator, released
//! periodically, with offsets or sporadically, whichever of equal deadlines goes first.

use maracas_core::contract::{Entry, Observer};
use maracas_core::params::{Params, Value};
use maracas_core::{
    Arrival, Cost, Duration, Event, Instant, Plan, Program, System, Vcpu, Workload,
};
use maracas_policies::find;
use maracas_sim::{Options, run};
use maracas_tests::Dice;

/// The sets, with the verdicts of another implementation: see its first lines.
const SETS: &str = include_str!("../data/global-edf.csv");
/// In the order of the file's columns.
const TESTS: [&str; 5] = ["gfb", "bak", "bcl", "ff-dbf", "rta"];
/// How many of its longest periods every set is simulated for.
const PERIODS: u64 = 20;

struct Set {
    cores: usize,
    accepted: Vec<bool>,
    /// C, D, T.
    tasks: Vec<[u64; 3]>,
}

fn sets() -> Vec<Set> {
    let number = |text: &str| text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
    let task = |text: &str| {
        let parts: Vec<u64> = text.split(':').map(number).collect();
        <[u64; 3]>::try_from(parts).unwrap_or_else(|parts| panic!("{parts:?}"))
    };
    let set = |line: &str| {
        let mut columns = line.split(',');
        let mut next = || columns.next().unwrap_or_else(|| panic!("{line}"));
        let (cores, accepted) = (number(next()) as usize, next().chars().map(|c| c == '1'));
        Set {
            cores,
            accepted: accepted.collect(),
            tasks: next().split_whitespace().map(task).collect(),
        }
    };
    SETS.lines().filter(|line| !line.starts_with('#')).map(set).collect()
}

fn system(set: &Set, arrival: impl Fn(u64) -> Arrival) -> System {
    let vcpu = |(id, &[c, d, t]): (usize, &[u64; 3])| {
        let mut vcpu = Vcpu::new(id as u32, Duration::from_ticks(c), Duration::from_ticks(t));
        vcpu.reservation.deadline = Duration::from_ticks(d);
        vcpu.arrival = arrival(t);
        vcpu
    };
    System::new(set.cores, set.tasks.iter().enumerate().map(vcpu).collect())
}

fn g_edf() -> &'static Entry {
    find("g-edf").unwrap_or_else(|| panic!("no g-edf"))
}

fn with(params: &[(&str, &str)]) -> Params {
    let mut given = Params::new();
    params.iter().for_each(|(name, value)| given.set(name, Value::Text((*value).into())));
    given
}

#[test]
fn they_say_what_another_implementation_says() {
    let sets = sets();
    assert_eq!(sets.len(), 1000);
    let mut accepted = [0; TESTS.len()];
    for (line, set) in sets.iter().enumerate() {
        let system = system(set, |_| Arrival::Sporadic);
        for (place, name) in TESTS.into_iter().enumerate() {
            let verdict = (g_edf().admit)(&system, &with(&[("admission", name)]));
            let says = verdict.accepted();
            assert_eq!(says, set.accepted[place], "set {line}, {name}: {:?}", verdict.refused);
            accepted[place] += u32::from(says);
        }
    }
    // Each has sets that it accepts and sets that it refuses.
    assert!(accepted.iter().all(|count| (50..950).contains(count)), "{accepted:?}");
}

struct Nothing;

impl Observer for Nothing {
    fn event(&mut self, _: Instant, _: &Event) {}
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

/// How many jobs of the set miss, of how many; of one that asks for more than the cores, none run.
fn missed(system: &System, ties: &str, seed: u64) -> Option<(u64, u64)> {
    let program = |vcpu: &Vcpu| {
        let cost = Cost::Fixed(vcpu.reservation.budget);
        Program::new(vcpu.id, Workload::Periodic { cost })
    };
    let programs: Vec<_> = system.vcpus.iter().map(program).collect();
    let mut policy = (g_edf().build)(system, &with(&[("ties", ties)])).ok()?;
    let longest = system.vcpus.iter().map(|vcpu| vcpu.reservation.period).max();
    let until = Instant::ZERO + longest.unwrap_or_default() * PERIODS;
    let options = Options { seed, ..Options::new(until) };
    let outcome = run(system, &programs, &mut *policy, &options, &mut Nothing);
    Some((outcome.missed, outcome.released))
}

#[test]
fn what_one_of_them_accepts_misses_nothing() {
    let ties = ["index", "reverse-index", "shorter-period", "longer-period"];
    let (mut jobs, mut late) = (0, 0);
    for (seed, set) in (0..).zip(sets()) {
        let mut dice = Dice::new(seed);
        let offsets: Vec<u64> = set.tasks.iter().map(|[_, _, t]| dice.between(0, *t)).collect();
        let zero = Arrival::Periodic { offset: Duration::ZERO };
        let mut shifted = system(&set, |_| zero);
        for (vcpu, offset) in shifted.vcpus.iter_mut().zip(offsets) {
            vcpu.arrival = Arrival::Periodic { offset: Duration::from_ticks(offset) };
        }
        let tried = [system(&set, |_| zero), shifted, system(&set, |_| Arrival::Sporadic)];
        for tried in &tried {
            let accepted = set.accepted.contains(&true);
            let ran = missed(tried, ties[seed as usize % ties.len()], seed);
            let Some((missed, released)) = ran else {
                assert!(!accepted, "set {seed} asks for too much");
                continue;
            };
            assert!(!accepted || missed == 0, "set {seed}: {missed} of {released} missed");
            jobs += u64::from(accepted) * released;
            late += u64::from(missed > 0);
        }
    }
    assert!(jobs > 100_000, "{jobs} jobs");
    assert!(late > 20, "no comparison: of all sets only {late} miss anything");
}
