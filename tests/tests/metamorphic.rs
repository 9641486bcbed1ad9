//! Changes to a run that must not change its schedule.

use maracas_core::contract::{Entry, Policy};
use maracas_core::params::Value;
use maracas_core::{Duration, Instant};
use maracas_tests::{Case, DepthOne, Mix, Nagging, Schedule, generate};
use std::collections::BTreeMap;

type Wrap<'a> = &'a dyn Fn(Box<dyn Policy>, &Case) -> Box<dyn Policy>;
/// What is changed in every case with memory.
type Change<'a> = &'a dyn Fn(Case) -> Case;

/// The schedule of a case, its policy wrapped by `wrap`; `None` where the policy refuses.
fn schedule(case: &Case, wrap: Wrap<'_>) -> Option<Schedule> {
    let mut policy = wrap(case.policy()?, case);
    let mut schedule = Schedule::default();
    case.run(&mut *policy, &mut schedule);
    Some(schedule)
}

/// Without memory every policy by itself, with it also with MemGuard around it.
fn cases(seed: u64, mix: Mix, memory: Option<Change<'_>>) -> Vec<Case> {
    let entries = maracas_policies::all().filter(|entry| memory.is_some() || !entry.needs.counters);
    let mix = |entry: &Entry| Mix { jobs_only: mix.jobs_only || entry.needs.jobs, ..mix };
    let case = |entry: &'static Entry| match memory {
        Some(change) => change(Case::with_memory(entry, seed, mix(entry)).with_random_params(seed)),
        None => Case::new(entry, generate(seed, mix(entry)), seed),
    };
    entries.map(case).collect()
}

/// Holds that `wrap` leaves the schedules of `seeds` systems of every mix and policy as they are.
fn changes_nothing(memory: Option<Change<'_>>, mixes: &[Mix], seeds: u64, wrap: Wrap<'_>) {
    let mut compared = BTreeMap::new();
    for (seed, mix) in (0..seeds).flat_map(|seed| mixes.iter().map(move |mix| (seed, mix))) {
        for case in cases(seed, *mix, memory) {
            let count = compared.entry(case.entry.name).or_insert(0);
            let Some(plain) = schedule(&case, &|policy, _| policy) else { continue };
            let wrapped = schedule(&case, wrap).expect("what was accepted once is again");
            for (core, (plain, wrapped)) in plain.cores.iter().zip(&wrapped.cores).enumerate() {
                let first = plain.iter().zip(wrapped).find(|(plain, wrapped)| plain != wrapped);
                assert_eq!(first, None, "core{core}, seed {seed}:\n{case}");
            }
            assert_eq!(plain, wrapped, "seed {seed}:\n{case}");
            *count += 1;
        }
    }
    for (name, compared) in compared {
        assert!(compared * 4 >= seeds, "{name} accepted only {compared} systems");
    }
}

fn depth_one(policy: Box<dyn Policy>, case: &Case) -> Box<dyn Policy> {
    Box::new(DepthOne::new(policy, case.random.system.cores.len()))
}

fn nagged(policy: Box<dyn Policy>, case: &Case) -> Box<dyn Policy> {
    let often = Duration::from_ticks((case.until - Instant::ZERO).ticks() / 300 + 1);
    Box::new(Nagging::new(policy, Some(often)))
}

const UNRULY: Mix = Mix { jobs_only: false, changes: true, unruly: true, load: 80 };

#[test]
fn lines_of_depth_one_give_the_same_schedule() {
    // VCPUs whose programs depart may block unseen while they wait, and then a slot, unlike a
    // line, stands empty until the next event: such systems stay out.
    let unruly = Mix { changes: false, ..UNRULY };
    changes_nothing(None, &[Mix::tasks(90), Mix::programs(65), unruly], 80, &depth_one);
}

/// Not while service requests are carried: which VCPU a migration takes depends on what was
/// reported of its use of its budget, and a slot's VCPU is still running when the wake of a more
/// urgent one is decided on.
#[test]
fn lines_of_depth_one_give_the_same_schedule_with_memory() {
    let calm = |mut case: Case| {
        for (name, word) in [("throttle", "off"), ("balance", "static"), ("recolor", "off")] {
            if case.entry.params.iter().any(|spec| spec.name == name) {
                case.params.set(name, Value::Text(word.into()));
            }
        }
        // Far ahead, the policy is not asked at each end; by one entry at a time it is.
        if case.entry.params.iter().any(|spec| spec.name == "ahead") {
            case.params.set("ahead", Value::Flag(false));
        }
        case
    };
    let mixes = [Mix::tasks(70), Mix::programs(55)];
    changes_nothing(Some(&calm), &mixes, 12, &depth_one);
}

#[test]
fn questions_in_between_give_the_same_schedule() {
    changes_nothing(None, &[Mix::tasks(90), UNRULY], 60, &nagged);
}

#[test]
fn questions_in_between_give_the_same_schedule_with_memory() {
    changes_nothing(Some(&|case| case), &[Mix::tasks(70), Mix { load: 60, ..UNRULY }], 12, &nagged);
}
