//! `maracas bench primitives`: what it measures, what it writes, and what it refuses. No test asks
//! how fast anything is.

mod common;

use common::{Scratch, maracas, repository, text};
use maracas_scenario::formats::overheads::Table;
use serde_json::Value;

/// A grid that is measured in a moment, with the given further options.
fn bench(scratch: &Scratch, options: &[&str]) -> std::process::Output {
    let small = ["bench", "primitives", "--quick", "--sets", "2", "--cores", "2", "--seconds", "2"];
    let small = [&small[..], &["--tasks", "6"], options].concat();
    let output = maracas(scratch.path(), &small);
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

fn json(scratch: &Scratch, options: &[&str]) -> Value {
    let output = bench(scratch, &[options, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_policy_is_measured_primitive_by_primitive() {
    let scratch = Scratch::new();
    let policies = "p-edf,g-edf,run,qps";
    let report = json(&scratch, &["--policies", policies, "--utilization", "50,100", "--locks"]);
    let cells = report["cells"].as_array().unwrap();
    let named = |name: &str, load: u64| {
        let found = cells.iter().find(|it| it["policy"] == name && it["utilization"] == load);
        found.unwrap_or_else(|| panic!("{name} at {load} %"))
    };
    for (name, load) in [("p-edf", 50), ("g-edf", 50), ("run", 100), ("qps", 100)] {
        let primitives = named(name, load)["primitives"].as_array().unwrap();
        let words: Vec<_> = primitives.iter().map(|it| it["primitive"].as_str().unwrap()).collect();
        for word in ["release", "completion", "schedule", "schedule-release", "call"] {
            assert!(words.contains(&word), "{name}: {words:?}");
        }
        assert_eq!(words.contains(&"tree-update"), name == "run", "{name}: {words:?}");
        for primitive in primitives {
            for how in ["warm", "cold"] {
                let number = |key: &str| primitive[how][key].as_u64();
                let Some(samples) = number("samples") else { continue };
                let sorted = ["median_ns", "p99_ns", "p999_ns", "max_ns"].map(number);
                assert!(samples > 0 && sorted.is_sorted(), "{name} {how}: {primitive}");
            }
        }
        let locks = named(name, load)["locks"].as_array().unwrap();
        assert_eq!(locks.len(), 8, "two kinds of lock, four costs: {locks:?}");
    }
    // Partitioned EDF has a lock for each of the two cores, and then none waits longer.
    let locks = named("p-edf", 50)["locks"].as_array().unwrap();
    assert!(locks[..4].iter().all(|row| row["lock"] == "global" && row["locks"] == 1.0));
    assert!(locks[4..].iter().all(|row| row["lock"] == "hierarchy"));
    assert!(locks[4]["requests"] == locks[0]["requests"], "the same work is done");
}

#[test]
fn what_is_measured_is_the_same_every_time() {
    let scratch = Scratch::new();
    let work = |seed: &str| {
        let report = json(&scratch, &["--policies", "run,qps", "--seed", seed]);
        let cells = report["cells"].as_array().unwrap().clone();
        let primitives = cells.iter().flat_map(|cell| cell["primitives"].as_array().unwrap());
        let counted = primitives
            .map(|it| format!("{} {} {}", it["primitive"], it["per_job"], it["warm"]["samples"]));
        counted.collect::<Vec<_>>()
    };
    let first = work("3");
    assert!(!first.is_empty());
    assert_eq!(first, work("3"));
    assert_ne!(first, work("4"));
}

#[test]
fn tables_have_the_documented_columns() {
    let scratch = Scratch::new();
    let options = ["--policies", "g-edf", "--tasks", "4", "--utilization", "60,80"];
    std::fs::create_dir(scratch.path().join("out")).unwrap();
    bench(&scratch, &[&options[..], &["--record", "out", "--schedcat", "out"]].concat());
    assert_eq!(scratch.names(), ["out"]);
    let document = std::fs::read_to_string(repository().join("docs/overheads.md")).unwrap();
    for (file, lines) in [("ecrts15-costs.csv", 4), ("ecrts15-locks.csv", 2 * 2 * 8)] {
        let table = std::fs::read_to_string(scratch.path().join("out").join(file)).unwrap();
        let (head, rows): (Vec<_>, Vec<_>) = table.lines().partition(|line| line.starts_with('#'));
        assert!(head.iter().any(|line| line.contains("clock:")), "{head:?}");
        let columns: Vec<_> = rows[0].split(',').collect();
        for column in &columns {
            assert!(document.contains(&format!("`{column}`")), "{column} is not documented");
        }
        assert!(rows.len() > lines, "{table}");
        assert!(rows.iter().all(|row| row.split(',').count() == columns.len()), "{table}");
    }
    let table = Table::read(scratch.path().join("out/g-edf-2.csv")).unwrap();
    assert_eq!(table.rows.iter().map(|row| row.key).collect::<Vec<_>>(), [4, 6]);
    assert!(table.cost("SCHEDULE", 6).is_some_and(|cost| !cost.is_zero()));
}

#[test]
fn what_cannot_be_measured_is_said() {
    let scratch = Scratch::new();
    let reported = |options: &[&str]| {
        let output = maracas(scratch.path(), &[&["bench", "primitives"], options].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        let line = text(&output.stderr);
        assert_eq!(line.trim_end().lines().count(), 1, "{line}");
        line
    };
    assert!(reported(&["--policies", "rum"]).contains("did you mean \"run\""));
    assert!(reported(&["--policies", "maracas"]).contains("is no policy for jobs"));
    assert!(reported(&["--cores", "8", "--tasks", "8"]).contains("never more tasks than cores"));
    assert!(reported(&["--cores", "0"]).contains("--cores 0"));
    assert!(reported(&["--policies", "run,qps,run"]).contains("--policies names run twice"));
    assert!(reported(&["--cores", "4,4"]).contains("--cores names 4 twice"));
    assert!(reported(&["--record", "nowhere"]).contains("cannot be written"));
    assert!(reported(&["--schedcat", "nowhere"]).contains("is no directory"));
    // Nothing fits partitioned onto full cores; the others are measured all the same.
    let output = bench(&scratch, &["--policies", "p-edf,g-edf", "--utilization", "100"]);
    let line = text(&output.stderr);
    assert!(line.contains("p-edf admits none of the sets at 1 of 1 points"), "{line}");
    assert!(text(&output.stdout).contains("g-edf"));
}
