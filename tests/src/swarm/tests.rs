use super::shrink::shrink;
use super::{Kind, Summary, Swarm};
use crate::check::{check, check_counting};
use crate::{Case, Mix, generate};
use maracas_core::contract::{Claims, Entry};
use std::collections::BTreeMap;

const PROGRAMS: Swarm = Swarm { kind: Some(Kind::Programs), policy: None };

#[test]
fn a_failing_case_is_made_small() {
    let honest = maracas_policies::find("g-edf").expect("g-edf is registered");
    let claims = Claims { partitioned: true, ..Claims::default() };
    let lying: &'static Entry = Box::leak(Box::new(Entry { claims, ..*honest }));
    let cases = (0..200).map(|seed| Case::new(lying, generate(seed, Mix::tasks(95)), seed));
    let found =
        cases.into_iter().find(|case| case.random.system.vcpus.len() > 6 && check(case).is_err());
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
    for kind in Kind::ALL {
        let swarm = Swarm { kind: Some(kind), policy: None };
        let mut ran = 0;
        for seed in 0..100 {
            let case = swarm.case(seed);
            assert_eq!(case.to_string(), swarm.case(seed).to_string());
            ran += u32::from(matches!(check(&case), Ok(Some(outcome)) if outcome.events > 10));
        }
        assert!(ran >= 60, "only {ran} of 100 cases of {kind:?} ran at all");
    }
}

/// Everything that is audited happens: else the audits would be worth nothing.
#[test]
fn cases_come_to_everything_that_is_audited() {
    let mut ran = 0;
    let mut counted = BTreeMap::new();
    // The more policies there are, the fewer cases each of them gets.
    let cases = 100 * maracas_policies::ENTRIES.len() as u64;
    for seed in 0..cases {
        let Ok(Some(checked)) = check_counting(&PROGRAMS.case(seed)) else { continue };
        ran += 1;
        let reads = checked.outcome.memory.map_or(0, |totals| totals.reads);
        let statistics =
            checked.statistics.iter().map(|statistic| (statistic.name, statistic.value));
        for (name, value) in statistics.chain([("reads", reads)]) {
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

/// Heavy sets are reduced and overpacked, more than once, and sets that fill all cores are common.
#[test]
fn heavy_cases_and_job_cases_are_hard() {
    let swarm = Swarm::default();
    let mut summary = Summary::default();
    for seed in 0..2_000 {
        swarm.run(seed, &mut summary).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    for policy in ["run", "qps"] {
        let jobs = summary.sum(|kind, name| kind == Kind::Jobs && name == policy);
        let ran = jobs.cases - jobs.refused;
        assert!(5 * jobs.full > 2 * ran && 2 * jobs.strict > ran, "{policy}: {jobs:?}");
        let heavy = summary.sum(|kind, name| kind == Kind::Heavy && name.ends_with(policy));
        let ran = heavy.cases - heavy.refused;
        assert!(3 * heavy.levels[0] > ran && heavy.levels[1] > 0, "{policy}: {heavy:?}");
    }
}
