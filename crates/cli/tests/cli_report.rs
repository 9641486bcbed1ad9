//! What a run reports of memory, and that journals, lists and the document keep the same.

mod common;

use common::{Scratch, maracas, repository, text};
use maracas_trace::Report;
use serde_json::Value;
use std::collections::BTreeSet;

/// Two readers of memory and a network-card.
const SCENARIO: &str = r#"version = 1
[platform]
preset = "i5-2500k"
cores = 2
[run]
duration = "95ms"
[[device]]
name = "network-card"
pattern = "seq"
bandwidth = "1GB/s"
outstanding = 4
[[program]]
name = "a"
budget = "2ms"
period = "10ms"
core = 0
workload = { kind = "busy" }
memory = "m_jump"
[[program]]
name = "b"
budget = "2ms"
period = "10ms"
core = 1
workload = { kind = "busy" }
memory = "lbm"
"#;

/// Policies, and what they get: with and without samples.
const POLICIES: [(&str, &[&str]); 4] = [
    ("maracas", &[]),
    ("maracas", &["--set", "throttle=latency", "--set", "mem_period=20ms"]),
    ("memguard+maracas", &["--set", "bandwidth=400MB/s", "--set", "reservation=hard"]),
    ("memguard+p-rm", &["--set", "bandwidth=400MB/s"]),
];

/// A fast core and a slow one.
const CLASSES: &str = "[[platform.class]]\nname = \"fast\"\ncores = 1\nspeed = 1\n\
                       [[platform.class]]\nname = \"slow\"\ncores = 1\nspeed = 0.5\n";

/// The scenario as `policy` takes it: some take no work without jobs, or no homes, and some no
/// equal cores.
fn scenario(policy: &str) -> String {
    if maracas_policies::find(policy).is_some_and(|entry| entry.needs.classes > 1) {
        return SCENARIO.replace("cores = 2\n", CLASSES);
    }
    if policy.ends_with("maracas") {
        return SCENARIO.into();
    }
    let jobs = SCENARIO.replace("kind = \"busy\"", "kind = \"periodic\", cost = \"2ms\"");
    jobs.replace("core = 0\n", "").replace("core = 1\n", "")
}

/// Simulates it; the report and the journal.
fn simulated(scratch: &Scratch, policy: &str, more: &[&str]) -> (Value, Report) {
    scratch.write("s.toml", scenario(policy));
    let mut words = vec!["sim", "s.toml", "--json", "--policy", policy];
    words.extend(["--journal", "j", "--csv", "."]);
    words.extend(more);
    let output = maracas(scratch.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", text(&output.stderr));
    let journal = std::fs::read(scratch.path().join("j")).unwrap();
    let report = Report::from_journal(&journal).unwrap();
    (serde_json::from_slice(&output.stdout).unwrap(), report)
}

#[test]
fn every_policy_is_measured_over_the_whole_run() {
    let scratch = Scratch::new();
    for (policy, more) in POLICIES {
        let (json, from_journal) = simulated(&scratch, policy, more);
        let mut report: Report = serde_json::from_value(json).unwrap();
        report.params = from_journal.params.clone();
        // Both come from JSON: reading it may change the last digit of a mean.
        let same = serde_json::to_vec(&from_journal).unwrap();
        assert_eq!(
            report,
            serde_json::from_slice(&same).unwrap(),
            "the report is a function of the journal"
        );
        let memory = report.memory.expect("the platform has memory");
        let device = &memory.devices[0];
        assert_eq!((device.name.as_str(), memory.devices.len()), ("network-card", 1));
        // 95 ms of 1 GB/s on an idle memory; here it is less.
        assert!((500_000..=1_484_375).contains(&device.requests), "{policy}: {device:?}");
        assert_eq!(memory.requests, memory.requests_by_cores + device.requests);
        assert_eq!(memory.requests, memory.reads + memory.writes);
        let by_cores: u64 = report.cores.iter().map(|core| core.requests).sum();
        assert_eq!(memory.requests_by_cores, by_cores, "{policy}");
        let latency = memory.occupancy as f64 / memory.requests as f64;
        assert_eq!(memory.latency_mean_cycles, Some(latency));
        assert_eq!(report.controller.is_some(), policy == "maracas" && !more.is_empty());
        if let Some(controller) = report.controller {
            assert_eq!(controller.samples, 4);
            assert!((80_000_000..90_000_000).contains(&controller.sampled_ns), "{controller:?}");
            assert!(controller.requests < memory.requests, "the end was not sampled");
        }
    }
}

#[test]
fn samples_are_listed() {
    let scratch = Scratch::new();
    for (policy, more) in POLICIES {
        let (_, report) = simulated(&scratch, policy, more);
        let list = std::fs::read_to_string(scratch.path().join("samples.csv")).unwrap();
        let mut lines = list.lines();
        let head = "time_ns,requests,occupancy,latency_cycles,requests_core0,requests_core1";
        assert_eq!(lines.next(), Some(head));
        let requests = lines.map(|line| line.split(',').nth(1).unwrap().parse::<u64>().unwrap());
        let requests: Vec<u64> = requests.collect();
        let sampled = report.controller.map_or((0, 0), |it| (it.samples, it.requests));
        assert_eq!((requests.len() as u64, requests.iter().sum()), sampled, "{policy}");
    }
}

#[test]
fn all_parameters_are_reported_in_their_order() {
    let scratch = Scratch::new();
    for (policy, more) in POLICIES {
        let (json, _) = simulated(&scratch, policy, more);
        let reported: Vec<&str> =
            json["params"].as_object().unwrap().keys().map(|it| &**it).collect();
        let entry = maracas_policies::find(policy).unwrap();
        let known: Vec<&str> = entry.params.iter().map(|param| param.name).collect();
        assert_eq!(reported, known, "{policy}");
        for (word, value) in more.iter().filter_map(|word| word.split_once('=')) {
            assert_eq!(json["params"][word], value, "{policy}");
        }
    }
    let (json, _) = simulated(&scratch, "memguard+maracas", POLICIES[2].1);
    assert_eq!(
        (&json["params"]["weights"], &json["params"]["throttle"]),
        (&"".into(), &"off".into())
    );
}

#[test]
fn every_figure_is_in_the_document() {
    let scratch = Scratch::new();
    let document = std::fs::read_to_string(repository().join("docs/output.md")).unwrap();
    let balance: (&str, &[&str]) = ("maracas", &["--set", "balance=vlb"]);
    let mut seen = 0;
    let none: &[&str] = &[];
    let plain = maracas_policies::all().map(|entry| (entry.name, none));
    for (policy, more) in POLICIES.into_iter().chain([balance]).chain(plain) {
        scratch.write("f.toml", scenario(policy));
        let mut words = vec!["sim", "f.toml", "--json", "--policy", policy];
        words.extend(more);
        let output = maracas(scratch.path(), &words);
        let report: Report = serde_json::from_slice(&output.stdout).unwrap();
        // Jobs that memory slows down need more than C: some policies let them take it.
        let code = if report.promise.kept { 0 } else { 4 };
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", text(&output.stderr));
        for statistic in &report.statistics {
            let percent =
                statistic.name.ends_with("0%") && statistic.name.starts_with("underrun errors");
            let named = document.contains(&format!("`{}`", statistic.name));
            assert!(
                named || percent,
                "{policy} counts \"{}\", unknown to docs/output.md",
                statistic.name
            );
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen}");
}

/// The keys of all objects in `json`.
fn keys(json: &Value, all: &mut BTreeSet<String>) {
    match json {
        Value::Object(fields) => {
            all.extend(fields.keys().cloned());
            fields.values().for_each(|value| keys(value, all));
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, all)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_field_of_a_check_is_in_the_document() {
    let scratch = Scratch::new();
    let document = std::fs::read_to_string(repository().join("docs/output.md")).unwrap();
    scratch.write("full.csv", "cost_us,period_us\n9000,10000\n9000,10000\n");
    let limits = repository().join("examples/limits.toml");
    let mut known = BTreeSet::new();
    for (words, admitted) in [
        (vec!["check", limits.to_str().unwrap()], true),
        (vec!["check", "--taskset", "full.csv", "--cores", "1", "--policy", "p-edf"], false),
        (vec!["check", "--taskset", "full.csv", "--cores", "1", "--policy", "p-rm"], false),
        (vec!["check", "--taskset", "full.csv", "--cores", "2", "--policy", "g-edf"], true),
    ] {
        let output = maracas(scratch.path(), &[&words[..], &["--json", "--suggest"]].concat());
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["admitted"], admitted, "{json:#}");
        let none = json["suggestions"].as_array().unwrap().is_empty();
        assert_eq!(none, admitted, "what is refused has proposals: {json:#}");
        keys(&json, &mut known);
    }
    assert!(known.contains("closest") && known.contains("simulated"), "{known:?}");
    for key in known {
        assert!(document.contains(&format!("`{key}`")), "{key} is in no document");
    }
}
