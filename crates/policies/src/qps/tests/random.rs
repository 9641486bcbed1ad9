//! QPS on random sets: nothing is late, and the invariants hold at every instant.

use super::ENTRY;
use super::rig::{Rig, Source, Tally};
use crate::parts::exact::Exact;
use crate::testing::Rng;
use alloc::vec::Vec;
use maracas_core::params::Params;
use maracas_core::{Arrival, Rate, System};

/// Periods whose least common multiple is 120.
const PERIODS: [u64; 9] = [4, 5, 6, 8, 10, 12, 15, 20, 24];
const COMMON: u64 = 120;

/// Tasks (C, T) that ask for `load` / 120 of a core together, none for less than `light` / 120 as
/// long as that is possible.
fn exact_set(rng: &mut Rng, load: u64, core: u64) -> Vec<(u64, u64)> {
    let (mut left, mut set) = (load, Vec::new());
    let light = [1, 20, 40, 62][rng.below(4) as usize];
    let heavy = light + rng.below(core - light) + 1;
    while left > 0 {
        let period = PERIODS[rng.below(PERIODS.len() as u64) as usize];
        let part = COMMON / period;
        let (least, most) = (light.div_ceil(part), (heavy.min(left) / part).min(period));
        // What no short period can express, a long one takes.
        let (budget, period) = if most < least {
            (left.min(1 + rng.below(heavy)), COMMON)
        } else {
            (least + rng.below(most - least + 1), period)
        };
        left -= budget * (COMMON / period);
        set.push((budget, period));
    }
    set
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrivals {
    Synchronous,
    Offsets,
    Sporadic,
}

/// A random case by its seed: the platform, and tasks with their jobs. Releases are multiples of
/// `scale` ticks.
fn case(seed: u64, scale: u64, units: u64) -> (System, Vec<Source>) {
    let mut rng = Rng(seed);
    let cores = match seed % 8 {
        0 => 16,
        1 => 8 + rng.below(8),
        _ => 2 + rng.below(5),
    };
    // What a live machine leaves of a core, now and then.
    let core = if rng.one_in(6) { COMMON * 9 / 10 } else { COMMON };
    let whole = cores * core;
    let load = if rng.one_in(2) { whole } else { whole - rng.below(whole / 4) };
    let arrivals = match rng.below(5) {
        0 => Arrivals::Synchronous,
        1 => Arrivals::Offsets,
        _ => Arrivals::Sporadic,
    };
    let early = rng.one_in(4);
    let gap = 2 + rng.below(6);
    let set = exact_set(&mut rng, load, core);
    let source = |rng: &mut Rng, (c, t): (u64, u64)| {
        let mut at = if arrivals == Arrivals::Synchronous { 0 } else { rng.below(t) };
        let mut jobs = Vec::new();
        while at < units {
            let work = if early { 1 + rng.below(c * scale) } else { c * scale };
            jobs.push((at * scale, work));
            let late = arrivals == Arrivals::Sporadic && rng.one_in(gap);
            at += t + if late { 1 + rng.below(t) } else { 0 };
        }
        Source { budget: c * scale, period: t * scale, jobs: jobs.into() }
    };
    let sources = set.into_iter().map(|task| source(&mut rng, task)).collect();
    let capacity = Rate::new(core, COMMON);
    let system = System::new(cores as usize, Vec::new());
    (System { capacity, ticks_per_ns: scale, ..system }, sources)
}

/// Every third task has jobs that need up to twice their budget.
fn with_overruns(sources: &mut [Source], seed: u64) {
    let mut rng = Rng(seed ^ 0xc07);
    for task in sources.iter_mut().step_by(3) {
        for (_, work) in &mut task.jobs {
            if rng.one_in(3) {
                *work = task.budget + 1 + rng.below(task.budget);
            }
        }
    }
}

fn total(seeds: core::ops::Range<u64>, scale: u64, units: u64) -> Tally {
    const PARAMS: [&[(&str, &str)]; 6] = [
        &[],
        &[],
        &[("packing", "bfd"), ("split", "single")],
        &[("packing", "wfd"), ("master", "fixed")],
        &[("packing", "wfd"), ("enforcement", "none")],
        &[("split", "single"), ("master", "fixed")],
    ];
    let mut sum = Tally::default();
    for seed in seeds {
        let (system, sources) = case(seed, scale, units);
        let params = PARAMS[(seed / 3 % 6) as usize];
        let tally = Rig::new(system, sources, params).run(units * scale);
        let in_time = tally.late.is_empty() || scale != COMMON;
        assert!(in_time, "seed {seed} {params:?}: {tally:?}");
        if tally.majors == 0 {
            assert_eq!((tally.migrations, tally.mode_changes), (0, 0), "seed {seed}");
        }
        sum.jobs += tally.jobs;
        sum.late.extend(tally.late);
        sum.preemptions += tally.preemptions;
        sum.migrations += tally.migrations;
        sum.decisions += tally.decisions;
        sum.mode_changes += tally.mode_changes;
        sum.majors += tally.majors;
        sum.level = sum.level.max(tally.level);
        sum.tardiness = sum.tardiness.max(tally.tardiness);
    }
    sum
}

/// Sets on exact grids: as many as the literature draws.
const SETS: u64 = 2_000;

#[test]
fn nothing_is_late_and_the_invariants_hold() {
    let sum = total(0..SETS, COMMON, 240);
    assert!(sum.majors > 300 && sum.level >= 3 && sum.mode_changes > 3_000, "{sum:?}");
}

/// Jobs that need more than C make no others late, and no invariant breaks.
#[test]
fn overruns_harm_no_other_task() {
    let mut surplus = [0; 2];
    for seed in 0..SETS {
        let (system, mut sources) = case(seed, COMMON, 240);
        with_overruns(&mut sources, seed);
        let way = (seed % 2) as usize;
        let params = [("enforcement", ["surplus", "precise"][way])];
        let tally = Rig::new(system, sources, &params).run(240 * COMMON);
        let harmed = tally.late.iter().find(|(task, _)| !tally.overran.contains(task));
        assert_eq!(harmed, None, "seed {seed} {params:?}");
        surplus[way] += tally.surplus;
    }
    assert!(surplus[0] > 0 && surplus[1] == 0, "{surplus:?}");
}

/// Where budgets are no whole ticks, jobs may be late by a few ticks, on full cores.
#[test]
fn rounding_costs_a_few_ticks_at_most() {
    let sum = total(0..200, 1_000_003, 240);
    assert!(sum.tardiness < 8 && sum.majors > 300, "{sum:?}");
}

/// The verdict says what rounding may cost: nothing on an exact grid, and seven ticks where one
/// major set has its master in a minor one.
#[test]
fn the_verdict_says_what_rounding_may_cost() {
    let tolerance = |tasks: [(u64, u64); 3]| {
        let verdict = (ENTRY.admit)(&System::new(2, super::tasks(&tasks)), &Params::new());
        assert!(verdict.accepted());
        verdict.tolerance.ticks()
    };
    assert_eq!(tolerance([(2, 3), (4, 6), (6, 9)]), 0);
    assert_eq!(tolerance([(20, 31), (20, 30), (19, 29)]), 7);
}

/// A random set of a few ticks a period that fills two to four cores as far as it can: periods from
/// `shortest`, releases after random offsets, and where `sporadic` after random gaps too.
fn coarse(rng: &mut Rng, shortest: u64, sporadic: bool, until: u64) -> (System, Vec<Source>) {
    let cores = 2 + rng.below(3);
    let spread = 1 + rng.below(20);
    let (mut left, mut sources) = (Exact::from(Rate::new(cores, 1)), Vec::new());
    for _ in 0..40 {
        let period = shortest + rng.below(spread);
        let budget = 1 + rng.below(period);
        let rate = Exact::from(Rate::new(budget, period));
        if rate > left {
            continue;
        }
        left = left.minus(rate);
        let (mut at, mut jobs) = (rng.below(period), Vec::new());
        while at < until {
            jobs.push((at, budget));
            at += period + if sporadic && rng.one_in(4) { 1 + rng.below(period) } else { 0 };
        }
        sources.push(Source { budget, period, jobs: jobs.into() });
    }
    (System::new(cores as usize, Vec::new()), sources)
}

/// Budgets rounded in windows of a tick or two: what is undone at deadlines does not add up.
#[test]
fn few_ticks_a_period_stay_within_the_tolerance() {
    let mut rounded = 0;
    for seed in 0..SETS {
        let mut rng = Rng(seed ^ 0x71c6);
        let shortest = 2 + rng.below(6);
        let (system, sources) = coarse(&mut rng, shortest, seed % 2 == 1, 600);
        let vcpus: Vec<(u64, u64)> =
            sources.iter().map(|task| (task.budget, task.period)).collect();
        let mut asked = System { vcpus: super::tasks(&vcpus), ..system.clone() };
        asked.vcpus.iter_mut().for_each(|vcpu| vcpu.arrival = Arrival::Sporadic);
        let verdict = (ENTRY.admit)(&asked, &Params::new());
        assert!(verdict.accepted(), "seed {seed}: {verdict:?}");
        let tally = Rig::new(system, sources, &[]).run(700);
        let tolerance = verdict.tolerance.ticks();
        assert!(tally.undone <= tolerance, "seed {seed}: {vcpus:?} {tolerance}, {tally:?}");
        rounded += u64::from(tolerance > 0);
    }
    assert!(rounded > SETS / 4, "{rounded}");
}
