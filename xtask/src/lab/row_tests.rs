use super::super::json::Json;
use super::super::machine::Said;
use super::super::scenario::{Scenario, named};
use super::{Row, json, table};
use std::time::Duration;

fn report(mean: u64, agents: u64, seconds: u64) -> String {
    format!(
        r#"{{"duration_ns": {seconds}000000000, "agents_ns": {agents}, "tasks": [{{"name": "a",
        "budget_ns": 2000000, "delivered": {{"mean_ns": {mean}, "error_p50_ns": 1500}}}}]}}"#
    )
}

fn run(report: &str, code: i32) -> String {
    format!("@@begin run\n@@out\n{report}\n@@err\nmaracas: a word\n@@end run {code} 1.0 6.0\n")
}

fn judge(scenario: &Scenario, steps: &str, end: &str) -> Row {
    let text = format!("@@up 6.1 {}\n{steps}{end}", scenario.cores);
    let lines = text.lines().map(Into::into).collect();
    let said = Said { lines, wall: Duration::from_secs(20), is_late: !end.contains("@@done") };
    Row::of(scenario, "6.1-cloud", &said)
}

const DONE: &str = "@@kernel 0\n@@done\n";

#[test]
fn a_run_as_expected_has_no_problems_and_its_figures_in_the_table() {
    let row = judge(named("plain").unwrap(), &run(&report(2_001_000, 500_000_000, 5), 0), DONE);
    assert!(row.problems.is_empty(), "{:?}", row.problems);
    let text = table(&[row]);
    for part in ["plain", "1.0005", "10.0", "as expected", "icount1"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn means_codes_lengths_and_lockups_are_judged() {
    let plain = named("plain").unwrap();
    let of = |mean, seconds, code, end| {
        judge(plain, &run(&report(mean, 1, seconds), code), end).problems.concat()
    };
    assert!(of(2_003_000, 5, 0, DONE).contains("a: mean +0.150 % off C"));
    assert!(of(1_990_000, 5, 4, DONE).contains("a: mean -0.500 % off C"));
    assert!(of(2_000_000, 7, 0, DONE).contains("took 7.0 of 5 s"));
    assert!(of(2_000_000, 5, 2, DONE).contains("exit code 2: maracas: a word"));
    assert!(of(2_000_000, 5, 137, DONE).contains("not done in its time"));
    assert!(of(2_000_000, 5, 0, "@@kernel 1\nsoft lockup\n@@done\n").contains("soft lockup"));
    assert!(of(2_000_000, 5, 4, DONE).is_empty());
    let hotplug = |code, mean| {
        let steps = run(&report(mean, 1, 5), code) + "@@hotplug 0 1\n";
        judge(named("hotplug").unwrap(), &steps, DONE).problems
    };
    assert_eq!(hotplug(0, 1_000_000), ["exit code 0, but a mean is 50.0 % off C"]);
    assert!(hotplug(4, 1_000_000).is_empty() && hotplug(0, 1_999_000).is_empty());
    let slow = named("slow").unwrap();
    assert!(judge(slow, &run(&report(2_003_000, 1, 5), 0), DONE).problems.is_empty());
    assert!(judge(plain, &run("", 0), DONE).problems[0].contains("no report"));
}

#[test]
fn what_agents_take_is_judged_by_the_median() {
    let cost = named("cost").unwrap();
    let runs = |parts: [u64; 3]| {
        let steps = parts.map(|part| run(&report(2_000_000, part * 50_000_000, 5), 0));
        judge(cost, &steps.concat(), DONE).problems
    };
    assert!(runs([30, 9, 8]).is_empty());
    assert_eq!(runs([30, 12, 8]), ["agents take 12.0 % of a core, above 10 %"]);
}

#[test]
fn a_guest_that_hangs_fails_with_its_last_lines() {
    let row = judge(named("plain").unwrap(), "@@begin run\nlast words\n", "");
    assert!(row.problems[0].contains("stuck in run") && row.problems[0].contains("last words"));
    assert!(table(&[row]).contains("FAILED"));
}

#[test]
fn failed_tests_missing_hotplug_and_missing_cores_are_problems() {
    let step = "@@begin tests live\n@@out\nfailures:\n    a\n\
                test result: FAILED. 2 passed; 1 failed\n\
                @@err\nskipped: needs a view\n@@end tests live 101 1 2\n";
    let row = judge(named("tests").unwrap(), step, DONE);
    assert!(row.problems.contains(&"test failed: live::a".to_string()), "{:?}", row.problems);
    let row = judge(named("hotplug").unwrap(), &run(&report(1, 1, 5), 4), DONE);
    assert_eq!(row.problems, ["core 1 did not go off line and come back"]);
    let said = Said { lines: vec!["@@up 6.1 1".into()], wall: Duration::ZERO, is_late: false };
    let row = Row::of(named("plain").unwrap(), "7.3", &said);
    assert!(row.problems.concat().contains("1 cores came up"), "{:?}", row.problems);
}

#[test]
fn rows_are_valid_json() {
    let row = judge(named("plain").unwrap(), &run(&report(2_003_000, 1, 5), 0), DONE);
    let text = json(&[row, Row::failed(named("v1").unwrap(), "7.3", "a \"b\"".into())]);
    let rows = Json::read(&text).unwrap();
    assert_eq!(rows.list()[1].get("problems").unwrap().list()[0].text(), Some("a \"b\""));
    let vcpu = &rows.list()[0].get("vcpus").unwrap().list()[0];
    assert_eq!(vcpu.get("delivered").unwrap().number(), Some(1.0015));
}
