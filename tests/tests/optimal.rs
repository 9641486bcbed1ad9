//! Every policy that claims to be optimal, under the simulator and all auditors: on random sets on
//! exact grids, half of them with U = m, on up to 16 cores, periodic, with offsets and, where the
//! policy takes them, sporadic, nothing is missed.
//!
//! Optimized, there are 2000 sets a policy: `cargo test --release -p maracas-tests --test optimal`.

#![allow(clippy::print_stdout)] // What the sets came to, for a run with --nocapture.

use maracas_core::Instant;
use maracas_core::contract::Entry;
use maracas_core::params::{Kind, Params, Value};
use maracas_policies::ENTRIES;
use maracas_tests::{Case, Checked, Dice, Exact, check_counting, exact, is_optimal};

const SETS: u64 = if cfg!(debug_assertions) { 400 } else { 2_000 };

/// What the sets of one policy came to.
#[derive(Default, Debug)]
struct Sum {
    full: u64,
    sporadic: u64,
    jobs: u64,
    /// By levels of the tree.
    levels: Vec<u64>,
}

/// The case of a seed, full or not, under every packing in turn.
fn case(entry: &'static Entry, seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let kind = Exact {
        cores: if dice.one_in(3) { (5, 16) } else { (2, 5) },
        tasks: 40,
        heavy: dice.one_in(2),
        full: seed.is_multiple_of(2),
        sporadic: dice.one_in(2),
        unit: dice.pick(&[1, 1_000]),
    };
    let mut case = Case::new(entry, exact(&mut dice, kind), seed);
    if !case.verdict().objections.is_empty() {
        case = Case::new(entry, exact(&mut dice, Exact { sporadic: false, ..kind }), seed);
    }
    let packing = entry.params.iter().find(|spec| spec.name == "packing");
    if let Some(Kind::Choice(words)) = packing.map(|spec| spec.kind) {
        case.params = Params::new();
        case.params.set("packing", Value::Text(dice.pick(words).into()));
    }
    case.until = Instant::from_ticks(case.until.ticks() / 4);
    case
}

#[test]
fn optimal_policies_miss_nothing_on_exact_grids() {
    for entry in ENTRIES.iter().filter(|entry| is_optimal(entry)) {
        let mut sum = Sum::default();
        for seed in 0..SETS {
            let case = case(entry, seed);
            let ran = check_counting(&case);
            let ran = ran.unwrap_or_else(|why| panic!("seed {seed}: {why}\n{case}"));
            let Checked { outcome, statistics, claims } =
                ran.unwrap_or_else(|| panic!("seed {seed} is refused: {case}"));
            assert!(claims.no_miss_when_admitted && outcome.missed == 0, "seed {seed}: {case}");
            // What DP-WRAP tolerates of tasks that wait is more than shows in these sets.
            let is_exact = case.verdict().tolerance.is_zero() || entry.name == "dp-wrap";
            assert!(is_exact, "seed {seed}: {case}");
            let statistic =
                |name| statistics.iter().find(|f| f.name == name).map_or(0, |f| f.value);
            // algorithms.md B.8, 4: every window's budgets are spent when it ends.
            assert_eq!(
                (statistic("short windows"), statistic("rounded windows")),
                (0, 0),
                "{case}"
            );
            sum.full += u64::from(seed.is_multiple_of(2));
            sum.sporadic += u64::from(case.random.system.ticks_per_ns > 1);
            sum.jobs += outcome.released;
            let levels = statistic("levels") as usize;
            sum.levels.resize(sum.levels.len().max(levels + 1), 0);
            sum.levels[levels] += 1;
        }
        println!("{}: {sum:?}", entry.name);
        let has_levels = ["run", "qps"].contains(&entry.name);
        assert!(!has_levels || sum.levels.len() > 2, "{}: {sum:?}", entry.name);
        assert!(entry.name != "qps" || sum.sporadic > SETS / 4, "{sum:?}");
    }
}
