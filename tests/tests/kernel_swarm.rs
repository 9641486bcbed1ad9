//! The machine whose law the kernel carries out, under the decider and every policy that fits, with
//! the law in C in the kernel's place: the contract tests, random cases, and planted mistakes.

#[path = "../shared/bounds.rs"]
mod bounds;

use maracas_core::contract::Entry;
use maracas_tests::kernel::contract::{PARTS, holds};
use maracas_tests::kernel::{fits, has_compiler};
use maracas_tests::{KernelCase, Kind, Mistake, Swarm};

/// Whether there is a compiler for the law; else that is a skip.
fn can_try() -> bool {
    let there = has_compiler().unwrap_or_else(|why| panic!("{why}"));
    bounds::needs(there, "a C compiler")
}

/// Holds every policy that fits to a part of the contract; fails with the case.
fn part(name: &str) {
    if !can_try() {
        return;
    }
    let part = PARTS.iter().find(|part| part.name == name).expect("there is such a part");
    let is_to_hold = |it: &&Entry| fits(it) && it.needs.counters == part.counts;
    let all: Vec<_> = maracas_policies::all().filter(is_to_hold).collect();
    assert!(all.len() > 10, "{} policies fit", all.len());
    for entry in all {
        holds(entry, part, part.seeds).unwrap_or_else(|why| panic!("{why}"));
    }
}

#[test]
fn claims_hold_on_time() {
    part("on time");
}

#[test]
fn invariants_hold_under_lateness() {
    part("late");
}

#[test]
fn sums_hold_where_ends_come_a_little_early() {
    part("a little early");
}

#[test]
fn what_reads_memory_is_held_to_its_limits() {
    part("memory");
}

#[test]
fn the_swarm_finds_nothing() {
    if !can_try() {
        return;
    }
    let swarm = Swarm { kind: Some(Kind::Kernel), policy: None };
    let failure = (0..50).find_map(|seed| swarm.failure(seed));
    assert!(failure.is_none(), "{}", failure.map_or_else(String::new, |f| f.to_string()));
}

#[test]
fn slots_are_used_again() {
    if !can_try() {
        return;
    }
    let reuses = |seed| {
        let played = KernelCase::draw(seed, None).check().unwrap_or_else(|why| panic!("{why}"));
        played.map_or(0, |played| played.reuses)
    };
    let reuses: u64 = (0..50).map(reuses).sum();
    assert!(reuses > 20, "{reuses} times");
}

#[test]
fn every_planted_mistake_is_found() {
    if !can_try() {
        return;
    }
    for mistake in Mistake::ALL {
        let found = (0..500).find_map(|seed| {
            let mut case = KernelCase::draw(seed, None);
            case.mistake = Some(mistake);
            Some((seed, case.check().err()?))
        });
        eprintln!("{mistake:?}: {found:?}");
        assert!(found.is_some(), "{mistake:?} is not found");
    }
}
