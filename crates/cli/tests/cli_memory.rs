//! Memory on the command line: mixes, splits of the cache, and the VCPUs that carry service
//! requests.

mod common;

use common::{Scratch, maracas, repository, text};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn json(directory: &Path, words: &[&str]) -> Value {
    let output = maracas(directory, words);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

const MIX: &str = r#"{"preset": "ddr3-1333", "requestors": [
    {"pattern": "jump", "W": 1, "Z_ns": 0, "wb": 1},
    {"pattern": "seq", "W": 2.5, "Z_ns": 3.1, "wb": 0}]}"#;

#[test]
fn a_mix_is_the_same_from_toml_from_json_and_from_standard_input() {
    let scratch = Scratch::new();
    scratch.write("m.json", MIX);
    let from_json = json(scratch.path(), &["memory", "--json", "m.json"]);
    scratch.write(
        "m.toml",
        "[platform]\npreset = \"ddr3-1333\"\n[[requestor]]\npattern = \"jump\"\nwritebacks = 1\n\
         [[requestor]]\npattern = \"seq\"\noutstanding = 2.5\nthink = \"3.1ns\"\n",
    );
    assert_eq!(json(scratch.path(), &["memory", "m.toml", "--json"]), from_json);

    let mut child = Command::new(env!("CARGO_BIN_EXE_maracas"))
        .args(["memory", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(format!("[{MIX}, {MIX}]").as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list, Value::from(vec![from_json.clone(), from_json.clone()]));

    let each = from_json["requestors"].as_array().unwrap();
    let reads: Vec<_> = each.iter().map(|one| number(&one["read_Mps"])).collect();
    let latencies: Vec<_> = each.iter().map(|one| number(&one["read_lat_ns"])).collect();
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    // Little's law, bytes of reads and writes, the mean over reads.
    assert!(
        each.iter().zip(&reads).zip(&latencies).all(|((one, reads), latency)| {
            near(number(&one["occupancy"]), reads * latency / 1e3)
        })
    );
    assert!(near(number(&from_json["total_GBps"]), (2.0 * reads[0] + reads[1]) * 0.064));
    let sum: f64 = reads.iter().zip(&latencies).map(|(reads, latency)| reads * latency).sum();
    assert!(near(number(&from_json["read_lat_ns"]), sum / (reads[0] + reads[1])));

    let table = text(&maracas(scratch.path(), &["memory", "m.toml"]).stdout);
    assert!(table.contains("jump") && table.contains("GB/s"), "{table}");
    // 64 bytes in 3 x 9 clocks of 1.5 ns and a burst of 6 ns.
    assert!(
        table.ends_with("r_min 1376MB/s from the timings: all requests new rows of one bank\n")
    );
    assert_eq!(table.lines().count(), 5, "{table}");
}

/// What a data file says of a program's bandwidth alone: `# Reads 1.6 GB/s alone on ...`.
fn reported(name: &str) -> Option<f64> {
    let path = format!("crates/scenario/data/workloads/{name}.toml");
    let file = std::fs::read_to_string(repository().join(path)).unwrap();
    let (_, after) = file.split_once("Reads ")?;
    after.split(' ').next()?.parse().ok()
}

#[test]
fn spec_programs_read_alone_what_their_files_say() {
    let scratch = Scratch::new();
    let mut seen = 0;
    for name in maracas_scenario::presets::workloads() {
        let Some(expected) = reported(name) else { continue };
        scratch.write(
            "s.toml",
            format!(
                "version = 1\n[platform]\npreset = \"core2-ddr2-800\"\n[run]\nduration = \"9s\"\n\
                 [[program]]\nname = \"a\"\nbudget = \"10ms\"\nperiod = \"10ms\"\n\
                 workload = {{ kind = \"busy\" }}\nmemory = \"{name}\"\n"
            ),
        );
        let report = json(scratch.path(), &["sim", "s.toml", "--json"]);
        let misses = |mode: &str| number(&report["tasks"][0][mode]["misses"]);
        let reads = (misses("foreground") + misses("background")) * 64.0 / 9e9;
        // Filling the cache at the start takes some milliseconds; whole phases fit 9 s but for one.
        assert!((reads / expected - 1.0).abs() < 0.02, "{name}: {reads} GB/s, not {expected}");
        seen += 1;
    }
    assert_eq!(seen, 19);
}

/// A walk that is swept out of a shared cache by three scans.
const SWEPT: &str = r#"version = 1
[platform]
preset = "i5-2500k"
[policy]
name = "maracas"
[run]
duration = "1s"
[[program]]
name = "walk"
budget = "50ms"
period = "100ms"
core = 0
workload = { kind = "busy" }
memory = "mwalk"
"#;

fn swept() -> String {
    let scans = (1..4).map(|core| {
        format!(
            "[[program]]\nname = \"scan{core}\"\nbudget = \"80ms\"\nperiod = \"100ms\"\n\
             core = {core}\nworkload = {{ kind = \"busy\" }}\n\
             memory = {{ model = \"hog\", working_set = \"8MiB\" }}\n"
        )
    });
    SWEPT.to_string() + &scans.collect::<String>()
}

fn instructions(vcpu: &Value, when: &str) -> f64 {
    number(&vcpu[when]["instructions"])
}

#[test]
fn what_loses_by_a_split_is_named_and_what_is_asked_for_is_kept_in_ways() {
    let scratch = Scratch::new();
    let asking = swept().replacen("memory = \"mwalk\"", "memory = \"mwalk\"\ncolors = 8", 1);
    scratch.write("s.toml", asking);
    let proposal = json(scratch.path(), &["colors", "s.toml", "--ways", "--json"]);
    // 8 of 32 colours are 3 of 12 ways.
    assert!(proposal["vcpus"][0]["minimum"].as_u64() >= Some(3), "{proposal}");
    assert!(proposal["split"][0].as_u64() >= Some(3), "{proposal}");

    let example = repository().join("examples/colors.toml");
    let words = ["colors", example.to_str().unwrap(), "--policy", "round-robin", "--json"];
    let proposal = json(scratch.path(), &words);
    let shown = text(&maracas(scratch.path(), &words[..4]).stdout);
    for vcpu in proposal["vcpus"].as_array().unwrap() {
        let (name, change) = (vcpu["name"].as_str().unwrap(), number(&vcpu["change"]));
        let named = shown.contains(&format!("{name} loses by it: "));
        assert_eq!(named, change < -0.01, "{name} {change}: {shown}");
    }
    assert!(shown.contains("loses by it"), "{shown}");
    assert!(shown.lines().skip(1).all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn a_proposed_split_keeps_its_word_when_it_is_pasted() {
    let scratch = Scratch::new();
    scratch.write("s.toml", swept());
    for (option, key) in [(None, "colors"), (Some("--ways"), "ways")] {
        let words: Vec<_> = ["colors", "s.toml", "--json"].into_iter().chain(option).collect();
        let proposal = json(scratch.path(), &words);
        let walk = &proposal["vcpus"][0];
        assert_eq!((walk["name"].as_str(), proposal["by"].as_str()), (Some("walk"), Some(key)));
        let ratio = |when: &str| number(&walk[when]["miss_ratio"]);
        assert!(ratio("before") > 0.2 && ratio("after") < 0.05, "{proposal}");
        let total = |when: &str| number(&proposal["instructions"][when]);
        assert!(total("after") > total("before"), "{proposal}");
        let split: Vec<u64> =
            proposal["split"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        assert_eq!(split.iter().sum::<u64>(), proposal["parts"].as_u64().unwrap());
        let needs = walk["needs"].as_u64().unwrap();
        assert!(split[0] >= needs && needs > 1, "{proposal}");
        // It is proposed as the least that it may get, and costs no other anything here.
        assert_eq!(
            (walk["minimum"].as_u64(), proposal["toml"][1]["at"].as_str()),
            (Some(needs), Some("walk"))
        );
        assert_eq!(proposal["toml"][1]["line"], format!("colors = {needs}"));
        let change = instructions(walk, "after") / instructions(walk, "before") - 1.0;
        assert!((number(&walk["change"]) - change).abs() < 1e-9 && change > 0.1, "{proposal}");

        let line = proposal["toml"][0]["line"].as_str().unwrap();
        let pasted = swept().replacen("\"i5-2500k\"", &format!("\"i5-2500k\"\n{line}"), 1);
        scratch.write("pasted.toml", pasted);
        let report = json(scratch.path(), &["sim", "pasted.toml", "--json"]);
        let reported = &walk["after"];
        for (counter, name) in [("references", "references"), ("misses", "misses")] {
            let of = |mode: &str| report["tasks"][0][mode][counter].as_u64().unwrap();
            assert_eq!(
                reported[name].as_u64(),
                Some(of("foreground") + of("background")),
                "{name}"
            );
        }
    }
    let shown = text(&maracas(scratch.path(), &["colors", "s.toml"]).stdout);
    assert!(shown.contains("add to the scenario:") && shown.contains("colors = ["), "{shown}");
}

#[test]
fn service_vcpus_stand_beside_the_users_vcpus() {
    let scratch = Scratch::new();
    let scenario = swept()
        .replacen("\"maracas\"", "\"maracas\"\nthrottle = \"latency\"\nbalance = \"vlb\"", 1)
        .replacen("\"walk\"", "\"monitor\"", 1);
    scratch.write("s.toml", scenario);
    let verdict = json(scratch.path(), &["check", "s.toml", "--json"]);
    let cores = verdict["by_core"].as_array().unwrap();
    let on_0: Vec<_> =
        cores[0]["vcpus"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    // The user took the name of one of them.
    for name in ["monitor", "monitor_", "migration-core0"] {
        assert!(on_0.contains(&name), "{name} is not in {on_0:?}");
    }
    let report = json(scratch.path(), &["sim", "s.toml", "--json", "--journal", "j"]);
    let names: Vec<_> =
        report["tasks"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names[..4], ["monitor", "scan1", "scan2", "scan3"]);
    assert_eq!(names[4], "monitor_");
    assert_eq!(names.len(), 9);
    assert_eq!(maracas(scratch.path(), &["replay", "j"]).status.code(), Some(0));
}

#[test]
fn suggestions_are_about_the_users_vcpus() {
    let scratch = Scratch::new();
    let crowded = swept()
        .replacen("\"maracas\"", "\"maracas\"\nthrottle = \"latency\"\nbalance = \"vlb\"", 1)
        .replacen("\"50ms\"", "\"99ms\"", 1);
    scratch.write("s.toml", crowded);
    let output = maracas(scratch.path(), &["check", "s.toml", "--suggest"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}{}", text(&output.stderr));
    assert!(shown.contains("walk: "), "{shown}");
    assert!(!shown.contains("monitor: ") && !shown.contains("migration-core0: "), "{shown}");
}
