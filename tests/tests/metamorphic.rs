//! Changes to a run that must not change its schedule.

use maracas_core::contract::{Entry, Policy};
use maracas_core::{Duration, Instant};
use maracas_policies::ENTRIES;
use maracas_sim::{Options, run};
use maracas_tests::{Case, DepthOne, Mix, Nagging, RandomSystem, Schedule, build, generate};

type Wrap<'a> = &'a dyn Fn(Box<dyn Policy>, &Case) -> Box<dyn Policy>;

/// The schedule of a case, its policy wrapped by `wrap`; `None` where the policy refuses.
fn schedule(case: &Case, wrap: Wrap<'_>) -> Option<Schedule> {
    let mut policy = wrap(build(case.entry, &case.random)?, case);
    let RandomSystem { system, programs } = &case.random;
    let options = Options { seed: case.seed, ..Options::new(case.until) };
    let mut schedule = Schedule::default();
    run(system, programs, &mut *policy, &options, &mut schedule);
    Some(schedule)
}

/// Holds that `wrap` leaves the schedules of `seeds` systems of every mix and policy as they are.
fn changes_nothing(entries: &[&'static Entry], mixes: &[Mix], seeds: u64, wrap: Wrap<'_>) {
    for entry in entries {
        let mut compared = 0;
        for (seed, mix) in (0..seeds).flat_map(|seed| mixes.iter().map(move |mix| (seed, mix))) {
            let mix = Mix { jobs_only: mix.jobs_only || entry.needs.jobs, ..*mix };
            let case = Case::new(entry, generate(seed, mix), seed);
            let Some(plain) = schedule(&case, &|policy, _| policy) else { continue };
            let wrapped = schedule(&case, wrap).expect("what was accepted once is again");
            for (core, (plain, wrapped)) in plain.cores.iter().zip(&wrapped.cores).enumerate() {
                let first = plain.iter().zip(wrapped).find(|(plain, wrapped)| plain != wrapped);
                assert_eq!(first, None, "core{core}, seed {seed}:\n{case}");
            }
            assert_eq!(plain, wrapped, "seed {seed}:\n{case}");
            compared += 1;
        }
        assert!(compared * 4 >= seeds, "{} accepted only {compared} systems", entry.name);
    }
}

fn entries() -> Vec<&'static Entry> {
    ENTRIES.iter().filter(|entry| !entry.needs.counters).collect()
}

#[test]
fn lines_of_depth_one_give_the_same_schedule() {
    // VCPUs whose programs depart may block unseen while they wait, and then a slot, unlike a
    // line, stands empty until the next event: such systems stay out.
    let unruly = Mix { unruly: true, ..Mix::programs(80) };
    changes_nothing(
        &entries(),
        &[Mix::tasks(90), Mix::programs(65), unruly],
        80,
        &|policy, case| {
            let vcpus = case.random.system.vcpus.iter().map(|vcpu| vcpu.id.0 as usize + 1).max();
            let cores = case.random.system.cores.len();
            Box::new(DepthOne::new(policy, cores, vcpus.unwrap_or(0)))
        },
    );
}

#[test]
fn questions_in_between_give_the_same_schedule() {
    let unruly = Mix { jobs_only: false, changes: true, unruly: true, load: 80 };
    changes_nothing(&entries(), &[Mix::tasks(90), unruly], 60, &|policy, case| {
        let often = Duration::from_ticks((case.until - Instant::ZERO).ticks() / 300 + 1);
        Box::new(Nagging::new(policy, Some(often)))
    });
}
