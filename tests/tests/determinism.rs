//! The same run twice gives the same bytes, for every policy, with every fault at once.

use maracas_core::contract::Entry;
use maracas_core::journal::{Header, Recorder};
use maracas_core::{Duration, Policy};
use maracas_sim::{Options, Outcome, Overheads, run};
use maracas_tests::{Case, Faults, Mix, generate};

type Run<'a> = &'a dyn Fn(&mut dyn Policy, &mut Recorder) -> Outcome;

fn journal_of(case: &Case, run: Run<'_>) -> Option<(Vec<u8>, Outcome)> {
    let mut policy = case.policy()?;
    let mut recorder = Recorder::new(&Header {
        policy: case.entry.name.into(),
        params: case.params.clone(),
        system: case.system(),
        names: Vec::new(),
        machine: "sim".into(),
        version: String::new(),
        seed: case.seed,
    });
    let outcome = run(&mut *policy, &mut recorder);
    recorder.end(outcome.end);
    Some((std::mem::take(recorder.bytes()), outcome))
}

fn journal(case: &Case) -> Option<(Vec<u8>, Outcome)> {
    journal_of(case, &|policy, recorder| case.run(policy, recorder))
}

/// The case with every fault at once.
fn faulty(mut case: Case, tick: Duration) -> Case {
    case.faults = Faults {
        late: tick * 3,
        overheads: Overheads {
            context_switch: tick,
            migration: tick,
            decision: tick,
            release: tick,
            sample: tick,
            lock: tick,
            structure: tick,
            page_copy: tick,
        },
        ..Faults::default()
    };
    case
}

#[test]
fn twice_the_same_bytes() {
    for entry in maracas_policies::all() {
        let mut compared = 0;
        for seed in 0..20 {
            let jobs_only = entry.needs.jobs;
            let mix = Mix { jobs_only, changes: true, unruly: true, load: 60 };
            let plain = Case::new(entry, generate(seed, mix), seed);
            let memory = Case::with_memory(entry, seed, mix).with_random_params(seed);
            let unit = Duration::from_ticks(memory.until.ticks() / 2_000 + 1);
            for case in [faulty(plain, Duration::from_ticks(1)), faulty(memory, unit)] {
                let once = journal(&case);
                assert!(once == journal(&case), "seed {seed}:\n{case}");
                compared += u64::from(once.is_some());
            }
        }
        assert!(compared >= 10, "{} accepted only {compared} of 40 systems", entry.name);
    }
}

/// A run in which no option asks for anything is simulated by a machine that was compiled without
/// what they ask for: its journal and what it counts are those of the machine with everything.
#[test]
fn a_bare_run_is_what_it_is_when_it_is_audited() {
    for entry in maracas_policies::all().filter(|entry| entry.needs.classes < 2) {
        let mut compared = 0;
        for seed in 0..20 {
            let (jobs_only, load) = (entry.needs.jobs, 50 + 10 * (seed % 6));
            let mix = Mix { jobs_only, changes: true, unruly: true, load };
            let case = Case::new(entry, generate(seed, mix), seed).with_random_params(seed);
            let (system, programs) = (case.system(), &case.random.programs);
            let [bare, audited] = [false, true].map(|audit| {
                let options = Options { seed, audit, ..Options::new(case.until) };
                let simulate = |policy: &mut dyn Policy, recorder: &mut Recorder| {
                    run(&system, programs, policy, &options, recorder)
                };
                journal_of(&case, &simulate)
            });
            assert!(bare == audited, "seed {seed}:\n{case}");
            compared += u64::from(bare.is_some());
        }
        assert!(compared >= 5, "{} accepted only {compared} of 20 systems", entry.name);
    }
}

#[test]
fn another_seed_gives_another_run() {
    let entry: &'static Entry = maracas_policies::find("g-edf").expect("g-edf is registered");
    let random = generate(3, Mix { unruly: true, ..Mix::tasks(60) });
    let runs = [0, 1].map(|seed| journal(&Case::new(entry, random.clone(), seed)));
    assert!(runs[0].is_some() && runs[0] != runs[1]);
}
