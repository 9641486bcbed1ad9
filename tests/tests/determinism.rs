//! The same run twice gives the same bytes, for every policy, with every fault at once.

use maracas_core::Duration;
use maracas_core::contract::Entry;
use maracas_core::journal::{Header, Recorder};
use maracas_core::params::Params;
use maracas_policies::ENTRIES;
use maracas_sim::{Options, Outcome, Overheads, run};
use maracas_tests::{Case, Mix, RandomSystem, build, generate};

fn journal(case: &Case) -> Option<(Vec<u8>, Outcome)> {
    let mut policy = build(case.entry, &case.random)?;
    let RandomSystem { system, programs } = &case.random;
    let mut recorder = Recorder::new(&Header {
        policy: case.entry.name.into(),
        params: Params::new(),
        system: system.clone(),
        names: Vec::new(),
        machine: "sim".into(),
        version: String::new(),
        seed: case.seed,
    });
    let tick = Duration::from_ticks(1);
    let options = Options {
        seed: case.seed,
        late: tick * 3,
        overheads: Overheads {
            context_switch: tick,
            migration: tick,
            decision: tick,
            release: tick,
        },
        ..Options::new(case.until)
    };
    let outcome = run(system, programs, &mut *policy, &options, &mut recorder);
    recorder.end(outcome.end);
    Some((std::mem::take(recorder.bytes()), outcome))
}

#[test]
fn twice_the_same_bytes() {
    for entry in ENTRIES.iter().filter(|entry| !entry.needs.counters) {
        let mut compared = 0;
        for seed in 0..40 {
            let jobs_only = entry.needs.jobs;
            let mix = Mix { jobs_only, changes: true, unruly: true, load: 60 };
            let case = Case::new(entry, generate(seed, mix), seed);
            let once = journal(&case);
            assert_eq!(once, journal(&case), "seed {seed}:\n{case}");
            compared += u64::from(once.is_some());
        }
        assert!(compared >= 10, "{} accepted only {compared} of 40 systems", entry.name);
    }
}

#[test]
fn another_seed_gives_another_run() {
    let entry: &'static Entry = maracas_policies::find("g-edf").expect("g-edf is registered");
    let random = generate(3, Mix { unruly: true, ..Mix::tasks(60) });
    let runs = [0, 1].map(|seed| journal(&Case::new(entry, random.clone(), seed)));
    assert!(runs[0].is_some() && runs[0] != runs[1]);
}
