//! Did any journal change? A few fixed runs of every policy, kept under `tests/golden/`: one small
//! schedule in full, and for larger ones the counters and a hash of the journal.
//!
//! `UPDATE_GOLDEN=1 cargo test -p maracas-tests --test golden` writes them anew. Look at what
//! changed before you commit it; a new policy's file comes to be in the same way.

use maracas_core::contract::{Entry, Mode, Observer, Policy};
use maracas_core::journal::{Header, Recorder};
use maracas_core::params::Params;
use maracas_core::{Cost, Duration, Event, Instant, Plan, Program, System, Vcpu, Workload};
use maracas_policies::ENTRIES;
use maracas_sim::{Options, Outcome, at_start, run};
use maracas_tests::{Case, Mix, RandomSystem, build, generate};
use std::fmt::Write as _;
use std::path::PathBuf;

fn path(entry: &Entry) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(format!("{}.txt", entry.name))
}

/// Four tasks on two cores, in milliseconds: U = 1/2 + 1/4 + 3/10 + 1/10.
fn small() -> RandomSystem {
    let ms = Duration::from_millis;
    let tasks = [(2, 4), (2, 8), (3, 10), (2, 20)];
    let vcpus: Vec<_> = (0..)
        .zip(tasks)
        .map(|(id, (budget, period))| Vcpu::new(id, ms(budget), ms(period)).periodic())
        .collect();
    let program = |vcpu: &Vcpu| {
        let cost = Cost::Fixed(vcpu.reservation.budget);
        Program::new(vcpu.id, Workload::Periodic { cost })
    };
    RandomSystem { programs: vcpus.iter().map(program).collect(), system: System::new(2, vcpus) }
}

/// The schedule in full, one stint a line.
#[derive(Default)]
struct Stints(String);

impl Observer for Stints {
    fn event(&mut self, _: Instant, event: &Event) {
        if let Event::Ran(stint) = event {
            let mode = if stint.mode == Mode::Foreground { "fg" } else { "bg" };
            let (vcpu, core, from, to) = (stint.vcpu, stint.core, stint.from, stint.to);
            writeln!(self.0, "{core} {from} {to} {vcpu} {mode} {:?}", stint.end)
                .expect("a string takes everything");
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

fn simulate(case: &Case, policy: &mut dyn Policy, observer: &mut impl Observer) -> Outcome {
    let RandomSystem { system, programs } = &case.random;
    let options = Options { seed: case.seed, audit: true, ..Options::new(case.until) };
    run(system, programs, policy, &options, observer)
}

/// FNV-1a, 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

fn journal_line(case: &Case) -> String {
    let Some(mut policy) = build(case.entry, &case.random) else { return "refused".into() };
    let mut recorder = Recorder::new(&Header {
        policy: case.entry.name.into(),
        params: Params::new(),
        system: at_start(&case.random.system, &case.random.programs),
        names: Vec::new(),
        machine: "sim".into(),
        version: String::new(),
        seed: case.seed,
    });
    let outcome = simulate(case, &mut *policy, &mut recorder);
    recorder.end(outcome.end);
    let Outcome { released, completed, missed, decisions, events, context_switches, .. } = outcome;
    format!(
        "released {released} completed {completed} missed {missed} decisions {decisions} \
         events {events} switches {context_switches} journal {:016x}",
        hash(recorder.bytes())
    )
}

fn golden(entry: &'static Entry) -> String {
    let mut text = format!("{} on (2,4) (2,8) (3,10) (2,20) ms, 2 cores, 40 ms:\n", entry.name);
    let mut case = Case::new(entry, small(), 0);
    case.until = Instant::ZERO + Duration::from_millis(40);
    match build(entry, &case.random) {
        None => text.push_str("refused\n"),
        Some(mut policy) => {
            let mut stints = Stints::default();
            simulate(&case, &mut *policy, &mut stints);
            text.push_str(&stints.0);
        }
    }
    let jobs_only = entry.needs.jobs;
    let unruly = Mix { jobs_only, changes: true, unruly: true, load: 65 };
    for (name, mix) in [("tasks", Mix::tasks(60)), ("unruly", unruly)] {
        for seed in 0..6 {
            let case = Case::new(entry, generate(1_000 + seed, mix), seed);
            writeln!(text, "{name} {seed}: {}", journal_line(&case)).expect("a string takes all");
        }
    }
    text
}

#[test]
fn no_journal_changed() {
    for entry in ENTRIES.iter().filter(|entry| !entry.needs.counters) {
        let (path, now) = (path(entry), golden(entry));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, now).expect("tests/golden/ is there and can be written");
            continue;
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let first = kept.lines().zip(now.lines()).find(|(kept, now)| kept != now);
        assert!(
            kept == now,
            "{} differs, first {first:?}; UPDATE_GOLDEN=1 writes it anew",
            path.display()
        );
    }
}
