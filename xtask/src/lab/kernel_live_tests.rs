use super::super::json::Json;
use super::super::outcome::Step;
use super::{CASES, Judged, budgets_of, jobs_of, judge, memory, plan};
use std::path::Path;

/// What is said where this is expected.
fn said(expected: &str) -> &str {
    expected.trim_start_matches("<=").split('|').next().unwrap_or_default()
}

/// What a guest says where all is as expected.
fn well() -> Vec<Step> {
    let of = |case: &super::Case| {
        let facts = case.facts.iter().map(|(name, value)| format!("fact {name} {}\n", said(value)));
        let throttled = memory::WELL.replace("390", "0");
        let report = match case.judged {
            Judged::No => "",
            Judged::Budgets => {
                r#"{"tasks": [{"name": "hostile", "budget_ns": 1000,
                    "delivered": {"mean_ns": 1004, "error_p99_ns": 5000}},
                    {"name": "neighbour", "budget_ns": 1000,
                    "delivered": {"mean_ns": 1000, "error_p99_ns": 5000}}]}"#
            }
            Judged::Memory | Judged::MemoryBeside => memory::WELL,
            Judged::Throttle => &throttled,
            Judged::Jobs | Judged::Late | Judged::Beside => {
                r#"{"duration_ns": 1000, "agents_ns": 50,
                    "tasks": [{"name": "a", "jobs": 900, "misses": 0, "tardiness_max_ns": 0}],
                    "dispatch": {"latency_p50_ns": 40000, "latency_p99_ns": 90000}}"#
            }
        };
        Step {
            name: case.words.replace(' ', "-"),
            out: facts.collect::<String>() + report,
            err: "why\n".into(),
            code: Some(0),
            ..Step::default()
        }
    };
    CASES.iter().map(of).collect()
}

#[test]
fn a_guest_as_expected_has_figures_and_no_problems() {
    let (figures, problems) = judge(&well());
    assert!(problems.is_empty(), "{problems:?}");
    let jobs = "global-run-30-sched-ext: 0 of 900 jobs missed by 0.00 ms at most, dispatch p50 \
                40 us p99 90 us, 5.0 % of a core";
    assert!(figures.iter().any(|figure| figure == jobs), "{figures:?}");
    assert!(figures[0].contains("hostile 1.00400 (err p99 5 us)"), "{figures:?}");
    let examples = Path::new("/x");
    assert_eq!(plan(examples, |name| name == "storm-4").lines().count(), 2);
    let plan = plan(examples, |_| true);
    assert_eq!(plan.lines().count(), CASES.len() + 1);
    assert!(
        plan.contains("step global-qps-6-agents 90 sh /lab/kernel-live.sh global qps 6 agents")
    );
    let faults = "/lab/kernel-live.sh memory 4 sched-ext /x/faults.toml\n";
    assert!(plan.contains(faults) && plan.contains(" throttle 4 sched-ext \n"), "{plan}");
}

#[test]
fn each_fact_that_is_not_so_is_a_problem() {
    for (place, case) in CASES.iter().enumerate() {
        for (name, value) in case.facts {
            let mut steps = well();
            let line = format!("fact {name} {}\n", said(value));
            steps[place].out = steps[place].out.replace(&line, &format!("fact {name} 99\n"));
            let (_, problems) = judge(&steps);
            assert_eq!(problems.len(), 1, "{}: {name}", case.words);
            assert!(problems[0].contains(name) && problems[0].ends_with("(why)"), "{problems:?}");
        }
    }
    assert_eq!(judge(&[]).1, ["no case was begun"]);
}

#[test]
fn budgets_and_jobs_that_are_off_are_problems() {
    let of = |name: &str, mean: u64| {
        let text = format!(
            r#"{{"tasks": [{{"name": "{name}", "budget_ns": 10000,
               "delivered": {{"mean_ns": {mean}, "error_p99_ns": 1}}}}]}}"#
        );
        budgets_of(&Json::read(&text).unwrap()).is_ok()
    };
    assert!(of("hostile", 10_050) && of("hostile", 9_000) && of("neighbour", 10_009));
    assert!(!of("hostile", 10_051) && !of("hostile", 100) && !of("neighbour", 9_989));
    let of = |misses: u64, jobs: u64, most_ms| {
        let text = format!(
            r#"{{"duration_ns": 10, "agents_ns": 1,
               "tasks": [{{"jobs": {jobs}, "misses": {misses},
               "tardiness_max_ns": {misses}000000}}],
               "dispatch": {{"latency_p50_ns": 1, "latency_p99_ns": 2}}}}"#
        );
        jobs_of(&Json::read(&text).unwrap(), most_ms).is_ok()
    };
    assert!(of(0, 300, Some(0.0)) && of(3, 300, None) && of(2, 300, Some(2.4)));
    assert!(!of(1, 300, Some(0.0)) && !of(0, 0, Some(0.0)) && !of(3, 300, Some(2.4)));
    assert!(jobs_of(&Json::read("{}").unwrap(), None).is_err());
    let refused = Json::read(r#"{"verdict": "refused", "capacity": "809/1000"}"#).unwrap();
    let figures = jobs_of(&refused, None);
    assert_eq!(figures.as_deref(), Ok("refused: 809/1000 of a core may be promised"));
    assert!(jobs_of(&refused, Some(0.0)).is_err());
}
