//! What is suggested for systems whose jobs are late beside others that use memory: a second check
//! admits it and the simulator shows no late job; and where nothing is suggested, none of ten
//! random changes of budgets would have done. Optimized, as CI runs it, 300 systems;
//! `SUGGEST_SYSTEMS` says another number.

use maracas_core::Instant;
use maracas_scenario::Scenario;
use maracas_session::case::{Case, Machine, Overrides};
use maracas_session::fit::fit;
use maracas_sim::jobs::Answer;
use maracas_sim::{Options, Outcome, simulate};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn systems() -> u64 {
    let given = std::env::var("SUGGEST_SYSTEMS").ok().and_then(|n| n.parse().ok());
    given.unwrap_or(if cfg!(debug_assertions) { 12 } else { 300 })
}

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high - low + 1)
    }
    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.between(0, from.len() as u64 - 1) as usize]
    }
}

const PRESETS: [&str; 5] = ["i5-2500k", "ddr3-1333", "ddr4-2400", "core2-ddr2-800", "p4080"];
const MODELS: [&str; 8] = ["libquantum", "lbm", "mwalk", "canny", "hog", "soplex", "mcf", "gcc"];
const POLICIES: [(&str, &str); 6] = [
    ("p-edf", ""),
    ("p-edf", "enforcement = \"precise\"\n"),
    ("p-rm", "admission = \"rta\"\n"),
    ("maracas", "admission = \"rta\"\n"),
    ("memguard+maracas", "admission = \"rta\"\nreclaim = false\n"),
    ("memguard+p-edf", "reservation = \"hard\"\n"),
];

/// One or two programs with jobs on each of two to four cores, and sometimes one on surplus time or
/// a budget that never ends.
fn scenario(dice: &mut Dice) -> String {
    let (policy, params) = dice.pick(&POLICIES);
    let (preset, cores) = (dice.pick(&PRESETS), dice.between(2, 4));
    let mut text = format!("version = 1\n[platform]\npreset = \"{preset}\"\ncores = {cores}\n");
    text += &format!("[policy]\nname = \"{policy}\"\n{params}");
    if policy.starts_with("memguard") {
        text += &format!("bandwidth = \"{}MB/s\"\n", dice.pick(&[50, 200, 800, 3_000]));
    }
    for core in 0..cores {
        for place in 0..dice.between(1, 2) {
            let (model, period) = (dice.pick(&MODELS), *dice.pick(&[5, 10, 20, 40]));
            let cost = period * 10 * dice.between(1, 30);
            let budget = cost * dice.between(100, 150) / 100;
            text += &format!(
                "[[program]]\nname = \"job{core}-{place}\"\nbudget = \"{budget}us\"\n\
                 period = \"{period}ms\"\ncore = {core}\nmemory = \"{model}\"\n\
                 workload = {{ kind = \"periodic\", cost = \"{cost}us\" }}\n"
            );
        }
    }
    if policy.ends_with("maracas") && dice.between(0, 1) == 0 {
        let (model, core) = (dice.pick(&MODELS), dice.between(0, cores - 1));
        text += &format!(
            "[[program]]\nname = \"busy\"\nbudget = \"1ms\"\nperiod = \"20ms\"\ncore = {core}\n\
             memory = \"{model}\"\nworkload = {{ kind = \"busy\" }}\n"
        );
    }
    text
}

fn case(text: &str) -> Result<Case, String> {
    let scenario = Scenario::parse(text, "it.toml").map_err(|why| why.to_string())?;
    Case::of(scenario, Machine::Sim, &Overrides::default()).map_err(|why| format!("{why:?}"))
}

fn all_in_time(case: &Case) -> bool {
    case.verdict.accepted() && case.jobs.iter().all(|one| one.answer == Answer::InTime)
}

/// Thirty of the longest periods.
fn run(case: &Case) -> Outcome {
    let longest = case.start.vcpus.iter().map(|vcpu| vcpu.reservation.period).max();
    let options = Options::new(Instant::ZERO + longest.expect("there are VCPUs") * 30);
    let mut policy = (case.entry.build)(&case.start, &case.params).expect("it was admitted");
    simulate(&case.subject(), policy.as_mut(), &options, &mut ())
}

/// The file with each budget multiplied by one to three.
fn with_other_budgets(text: &str, dice: &mut Dice) -> String {
    let line = |line: &str| {
        let budget = line.strip_prefix("budget = \"").and_then(|rest| rest.strip_suffix("us\""));
        match budget.and_then(|us| us.parse::<u64>().ok()) {
            Some(us) => format!("budget = \"{}us\"\n", us * dice.between(100, 300) / 100),
            None => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

/// A file with other budgets in which all jobs are in time, of ten that are tried.
fn guessed(text: &str, dice: &mut Dice) -> Option<String> {
    let fits = |other: &String| case(other).is_ok_and(|other| all_in_time(&other));
    (0..10).map(|_| with_other_budgets(text, dice)).find(fits)
}

/// What came of all systems.
#[derive(Default, Debug)]
struct Tally {
    refused: u64,
    in_time: u64,
    fitted: u64,
    by_budgets: u64,
    /// Of these, where guesses find budgets too: what shows that guesses can.
    guessed: u64,
    by_bandwidths: u64,
    by_splits: u64,
    by_limits: u64,
    binds: u64,
    jobs: u64,
}

fn try_one(seed: u64, tally: &Mutex<Tally>) {
    let mut dice = Dice(seed);
    let text = scenario(&mut dice);
    let first = case(&text).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{text}"));
    let count = || tally.lock().expect("no other system failed");
    if !first.verdict.accepted() {
        count().refused += 1;
        return;
    }
    if all_in_time(&first) {
        let outcome = run(&first);
        assert_eq!(outcome.missed, 0, "seed {seed}:\n{text}");
        let mut tally = count();
        (tally.in_time, tally.jobs) = (tally.in_time + 1, tally.jobs + outcome.completed);
        return;
    }
    match fit(&first, &text, &Overrides::default()) {
        Ok(found) => {
            let again = case(&found.text).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            assert!(all_in_time(&again), "seed {seed}: {:?}\n{text}", found.changes);
            let outcome = run(&again);
            assert_eq!(outcome.missed, 0, "seed {seed}: {:?}\n{text}", found.changes);
            let says = |word: &str| found.changes.iter().any(|change| change.contains(word));
            let limits = says("limits on what each core reads");
            let by_budgets = !says("[policy]") && !says("[platform]");
            let guesses = by_budgets && guessed(&text, &mut dice).is_some();
            let mut tally = count();
            tally.by_limits += u64::from(limits);
            tally.by_bandwidths += u64::from(!limits && says("bandwidth = "));
            tally.by_splits += u64::from(says("a part of the cache for each core"));
            tally.by_budgets += u64::from(by_budgets);
            tally.guessed += u64::from(guesses);
            (tally.fitted, tally.jobs) = (tally.fitted + 1, tally.jobs + outcome.completed);
        }
        Err(why) => {
            assert!(!why.is_empty(), "seed {seed}:\n{text}");
            if let Some(other) = guessed(&text, &mut dice) {
                panic!("seed {seed}: \"{why}\" binds, and yet this fits:\n{other}");
            }
            count().binds += 1;
        }
    }
}

#[test]
fn what_is_suggested_is_admitted_and_keeps_every_job_in_time() {
    let (next, tally) = (AtomicU64::new(0), Mutex::new(Tally::default()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let seeds = std::iter::repeat_with(|| next.fetch_add(1, Relaxed));
                seeds.take_while(|seed| *seed < systems()).for_each(|seed| try_one(seed, &tally));
            });
        }
    });
    let tally = tally.into_inner().expect("no system failed");
    eprintln!("{tally:?}");
    let Tally { fitted, by_budgets, guessed, by_bandwidths, by_splits, by_limits, binds, .. } =
        tally;
    assert!(fitted > systems() / 6 && binds > 0, "{tally:?}");
    if !cfg!(debug_assertions) {
        assert!(by_budgets > 0 && by_bandwidths > 0 && by_splits > 0, "{tally:?}");
        assert!(by_limits > 0, "{tally:?}");
        assert!(guessed > by_budgets / 4, "guesses are no good: {tally:?}");
    }
}
