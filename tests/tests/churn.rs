//! Promises that survive what comes, leaves and changes: the smallest cases that were once broken,
//! and, optimized as CI runs it, a million jobs of each policy on full cores. `CHURN_JOBS` says
//! another number; `cargo xtask swarm --kind churn --cases 100000` runs so many systems.

#![allow(clippy::print_stdout)] // What the systems came to, to see with --nocapture.

use maracas_core::contract::Entry;
use maracas_core::params::{Params, Value};
use maracas_core::{Instant, VcpuId};
use maracas_policies::{ENTRIES, find};
use maracas_scenario::Scenario;
use maracas_sim::{Options, Outcome, at_start, run};
use maracas_tests::{Kind, Summary, Swarm, keeps_churn};

const JOBS: u64 = if cfg!(debug_assertions) { 10_000 } else { 1_000_000 };

fn jobs() -> u64 {
    std::env::var("CHURN_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(JOBS)
}

/// The swarm's systems from seed 0 on, under one policy after the other, none of them chosen.
#[test]
fn on_full_cores_nothing_that_was_let_in_misses() {
    let swarms = ENTRIES.iter().filter(|entry| keeps_churn(entry));
    let swarms: Vec<_> =
        swarms.map(|policy| Swarm { kind: Some(Kind::Churn), policy: Some(policy) }).collect();
    assert!(swarms.len() >= 8, "policies that keep their promises under churn are gone");
    let (first, second) = swarms.split_at(swarms.len() / 2);
    std::thread::scope(|scope| {
        for half in [first, second] {
            scope.spawn(|| half.iter().for_each(misses_nothing));
        }
    });
}

fn misses_nothing(swarm: &Swarm) {
    let mut summary = Summary::default();
    for seed in 0.. {
        if swarm.run(seed, &mut summary).is_err() {
            let failure = swarm.failure(seed).map(|failure| failure.to_string());
            panic!("{}", failure.unwrap_or_default());
        }
        if summary.sum(|_, _| true).jobs >= jobs() {
            break;
        }
    }
    let sum = summary.sum(|_, _| true);
    println!("{summary}");
    assert!(2 * sum.strict > sum.cases, "too few of these systems promise anything: {sum:?}");
}

/// A scenario under a policy until 200 ms.
fn simulate(text: &str, entry: &Entry, params: &Params) -> Outcome {
    let scenario = Scenario::parse(text, "case.toml").unwrap_or_else(|why| panic!("{why}"));
    let cores = scenario.platform.cores.expect("the case says how many cores");
    let (system, programs) = (scenario.system(cores).expect("a system"), scenario.sim_programs());
    let start = at_start(&system, &programs);
    let mut policy = (entry.build)(&start, params).unwrap_or_else(|why| panic!("{why:?}"));
    let options = Options::new(Instant::from_ticks(200_000_000));
    run(&system, &programs, &mut *policy, &options, &mut ())
}

/// One core: half of it leaves at 5 ms with its job done, half of it stays, and another half comes
/// then, with a shorter period.
const REPLACED: &str = r#"
version = 1
[platform]
cores = 1
[policy]
name = "p-edf"
[[program]]
name = "leaver"
budget = "5ms"
period = "10ms"
workload = { kind = "periodic", cost = "5ms" }
stop = "5ms"
[[program]]
name = "stayer"
budget = "5ms"
period = "10ms"
workload = { kind = "periodic", cost = "5ms" }
[[program]]
name = "newcomer"
budget = "2ms"
period = "4ms"
workload = { kind = "periodic", cost = "2ms" }
start = "5ms"
"#;

#[test]
fn what_stays_pays_for_no_newcomer() {
    for (name, admission) in [
        ("p-edf", None),
        ("g-edf", Some("gfb")),
        ("g-edf", None),
        ("u-edf", None),
        ("qps", None),
        ("sp-res", None),
        ("p-rm", Some("rta")),
        ("maracas", Some("rta")),
    ] {
        let mut params = Params::new();
        if let Some(word) = admission {
            params.set("admission", Value::Text(word.into()));
        }
        // Fixed priorities keep a core full only where periods divide each other.
        let text = match name {
            "p-rm" | "maracas" => REPLACED.replace("\"2ms\"", "\"2500us\"").replace("4ms", "5ms"),
            _ => REPLACED.into(),
        };
        let outcome = simulate(&text, find(name).expect("a policy"), &params);
        assert_eq!(outcome.missed, 0, "{name} {admission:?}");
        // All but qps, which says when to ask again, let it wait until there is room.
        let (id, verdict) = &outcome.admissions[0];
        assert_eq!((*id, verdict.is_ok()), (VcpuId(2), name != "qps"), "{name} {admission:?}");
        let jobs = if name == "qps" { 21 } else { 50 };
        assert!(outcome.completed > jobs - 1, "{name}: {} jobs", outcome.completed);
    }
}

/// Two cores and three tasks, together for two cores, of which none leaves: what U-EDF put off onto
/// the core that the last one needs must not be late for it.
#[test]
fn u_edf_lets_a_newcomer_begin_when_what_was_put_off_is_due() {
    let task = |name: &str, period: &str, start: &str| {
        format!(
            "[[program]]\nname = \"{name}\"\nbudget = \"3ms\"\nperiod = \"{period}\"\n\
             workload = {{ kind = \"periodic\", cost = \"3ms\" }}\nstart = \"{start}\"\n"
        )
    };
    let text = format!(
        "version = 1\n[platform]\ncores = 2\n[policy]\nname = \"u-edf\"\n{}{}{}",
        task("t0", "6ms", "1ms"),
        task("t1", "4ms", "2ms"),
        task("t2", "4ms", "10ms")
    );
    let outcome = simulate(&text, find("u-edf").expect("a policy"), &Params::new());
    assert!(outcome.admissions.iter().all(|(_, verdict)| verdict.is_ok()));
    assert_eq!((outcome.missed, outcome.admissions.len()), (0, 3));
    assert!(outcome.completed > 120, "{} jobs", outcome.completed);
}
