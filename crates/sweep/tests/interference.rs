//! That no run exceeds what the structure of RUN and QPS lets happen.

use maracas_core::params::{Params, Value};
use maracas_core::{Duration, Instant, Rate};
use maracas_policies::interference::{self, Interference, Prices};
use maracas_scenario::generate::Recipe;
use maracas_scenario::taskset::TaskSet;
use maracas_sim::Overheads;
use maracas_sweep::{Charge, Subject, Tally, trial};

const SETS: u64 = 1_000;
/// Two hyperperiods of the harmonic sets.
const UNTIL: Duration = Duration::from_millis(400);
/// About what a decision, a switch and a move cost on a present machine (docs/results.md).
const PRICES: Prices = Prices {
    release: Duration::from_nanos(60),
    decision: Duration::from_nanos(400),
    context_switch: Duration::from_nanos(1_600),
    migration: Duration::from_nanos(4_400),
    cache_delay: Duration::ZERO,
};

/// Sets of the ECRTS 2015 study's kinds (algorithms.md B.7), half of them full.
fn set(seed: u64) -> (usize, TaskSet) {
    let of = |choices: &[u64], shift: u32| choices[(seed >> shift) as usize % choices.len()];
    let cores = of(&[2, 4, 8, 16], 0) as usize;
    let kinds = ["light", "medium", "heavy", "mixed", "uniform:0.3..0.9"];
    let loads = kinds[(seed >> 2) as usize % kinds.len()].parse().unwrap();
    let periods = ["list:25ms,50ms,100ms,200ms", "uniform:25ms..200ms", "uniform:10ms..100ms"];
    let periods = periods[(seed >> 3) as usize % periods.len()].parse().unwrap();
    let total = Rate::new(cores as u64 * of(&[100, 95, 100, 90], 4), 100);
    let recipe = Recipe { exact: true, ..Recipe::new(total, None, loads, periods) };
    (cores, recipe.draw(seed).unwrap())
}

/// The largest part of each bound that a run came to.
#[derive(Default, Debug)]
struct Reached {
    runs: u64,
    with_levels: u64,
    preemptions: f64,
    decisions: f64,
    charged: f64,
}

impl Reached {
    fn see(&mut self, run: &Tally, bound: &Interference, prices: Option<&Prices>) {
        assert_eq!(run.released, bound.jobs);
        assert!(run.preemptions <= bound.preemptions, "{run:?} {bound:?}");
        assert!(run.migrations <= bound.migrations, "{run:?} {bound:?}");
        let moves = run.migrations + run.task_migrations;
        assert!(moves <= bound.migrations + bound.unbound_jobs, "{run:?} {bound:?}");
        assert!(run.decisions <= bound.decisions, "{run:?} {bound:?}");
        let part = |found: u64, most: u64| found as f64 / most.max(1) as f64;
        self.runs += 1;
        self.with_levels += u64::from(run.depth > 0);
        self.preemptions = self.preemptions.max(part(run.preemptions, bound.preemptions));
        self.decisions = self.decisions.max(part(run.decisions, bound.decisions));
        if let Some(prices) = prices {
            let most = bound.overhead(prices).ticks();
            assert!(run.charged_ns <= most, "{run:?} {bound:?}");
            self.charged = self.charged.max(part(run.charged_ns, most));
        }
    }
}

/// Every other set with costs charged, and its jobs shortened by what the bound says of one.
fn no_run_exceeds_its_bound(policy: &str, params: &Params) -> Reached {
    let entry = maracas_policies::find(policy).unwrap();
    let subject = Subject { entry, params: params.clone() };
    let mut reached = Reached::default();
    for seed in 0..SETS {
        let (cores, set) = set(seed);
        let bound = interference::of(policy, &set.system(cores), params, UNTIL);
        let Ok(bound) = bound.expect("all tasks begin together") else { continue };
        let prices = Some(&PRICES).filter(|_| seed % 2 == 1);
        let charge = Charge {
            until: Instant::ZERO + UNTIL,
            seed,
            overheads: prices.map_or(Overheads::FREE, |prices| Overheads {
                release: prices.release,
                decision: prices.decision,
                context_switch: prices.context_switch,
                migration: prices.migration,
                ..Overheads::FREE
            }),
            bound: prices.map_or(Duration::ZERO, |prices| bound.per_job(prices)),
        };
        reached.see(&trial::run(&set, cores, &subject, &charge), &bound, prices);
    }
    assert!(reached.runs > SETS / 2 && reached.with_levels > SETS / 4, "{reached:?}");
    assert!(reached.charged > 0.0, "{reached:?}");
    reached
}

#[test]
fn no_run_of_run_exceeds_its_bound() {
    let reached = no_run_exceeds_its_bound("run", &Params::new());
    assert!(reached.preemptions > 0.3 && reached.decisions > 0.3, "{reached:?}");
}

#[test]
fn no_run_of_qps_exceeds_its_bound() {
    let reached = no_run_exceeds_its_bound("qps", &Params::new());
    assert!(reached.preemptions > 0.3 && reached.decisions > 0.3, "{reached:?}");
}

/// Without jobs in the time that others leave idle the bound is lower.
#[test]
fn no_run_of_qps_that_leaves_time_idle_exceeds_its_bound() {
    let mut params = Params::new();
    params.set("work_conserving", Value::Flag(false));
    let reached = no_run_exceeds_its_bound("qps", &params);
    assert!(reached.preemptions > 0.3 && reached.decisions > 0.3, "{reached:?}");
}

fn no_run_acts_more_often(policy: &str, sets: u64) -> Reached {
    let entry = maracas_policies::find(policy).unwrap();
    let subject = Subject { entry, params: Params::new() };
    let mut reached = Reached::default();
    for seed in 0..sets {
        let (cores, set) = set(seed);
        let bound = interference::calls(policy, &set.system(cores), &subject.params, UNTIL);
        let Some(bound) = bound else { continue };
        let until = Instant::ZERO + UNTIL;
        let charge = Charge { until, seed, overheads: Overheads::FREE, bound: Duration::ZERO };
        reached.see(&trial::run(&set, cores, &subject, &charge), &bound.happens, None);
    }
    assert!(reached.runs > sets / 2 && reached.decisions > 0.05, "{reached:?}");
    reached
}

#[test]
fn no_policy_acts_more_often_than_its_structure_says() {
    for policy in ["g-edf", "g-rm", "u-edf", "dp-wrap", "pd2"] {
        let reached = no_run_acts_more_often(policy, SETS / 5);
        eprintln!("{policy}: {reached:?}");
        assert!(reached.preemptions > 0.05, "{policy}: {reached:?}");
    }
}
