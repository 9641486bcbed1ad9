//! Everything that can be wrong with an input has its own sentence at its own place.

use maracas_scenario::Scenario;
use maracas_scenario::formats::{self, Format, overheads};
use maracas_scenario::mix::Mix;
use maracas_scenario::taskset::TaskSet;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const MODEL: &str = "version = 1\n[[program]]\nname = \"a\"\nworkload = { kind = \"busy\" }\n";
const PROGRAM: &str =
    "version = 1\n[[program]]\nname = \"a\"\nbudget = \"2ms\"\nperiod = \"10ms\"\n";
const BUSY: &str = "version = 1\n[[program]]\nname = \"a\"\nbudget = \"2ms\"\nperiod = \"10ms\"\n\
                    workload = { kind = \"busy\" }\n";

const PRESET: &str = "version = 1\n[platform]\npreset = \"i5-2500k\"\n";
const MEMORY: &str = "version = 1\nplatform = { preset = \"i5-2500k\" }\n[[program]]\n\
                      name = \"a\"\nbudget = \"2ms\"\nperiod = \"10ms\"\n\
                      workload = { kind = \"busy\" }\n";
const DRAM: &str = "version = 1\n[platform]\nmhz = 3300\n[platform.dram]\ntck = \"1.5ns\"\ncl = 9\n\
                    trcd = 9\ntrp = 9\ntras = 24\ntrfc = 174\ntrefi = 5200\ntwr = 10\ntwtr = 5\n\
                    cwl = 7\n";

const TWO: &str = "version = 1\n[[platform.class]]\nname = \"fast\"\ncores = 1\nspeed = 1\n\
                   [[platform.class]]\nname = \"slow\"\ncores = 2\nspeed = 0.5\n";

/// An input as it stands in the table, the same written out, and what should be said.
struct Case {
    written: String,
    text: String,
    expected: String,
}

fn table(name: &str) -> (PathBuf, String, Vec<Case>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    let file = std::fs::read_to_string(&path).expect("the table stands beside this file");
    let head_lines = file.lines().take_while(|line| line.starts_with("# ")).count();
    let head: String = file.lines().take(head_lines).map(|line| format!("{line}\n")).collect();
    let mut cases = Vec::new();
    let mut written = String::new();
    for line in file.lines().skip(head_lines + 1) {
        if let Some(expected) = line.strip_prefix("=>") {
            let text = written.replace("@model\n", MODEL);
            let text = text.replace("@program\n", PROGRAM).replace("@busy\n", BUSY);
            let text = text.replace("@preset\n", PRESET).replace("@memory\n", MEMORY);
            let text = text.replace("@dram\n", DRAM).replace("@two\n", TWO);
            let expected = expected.trim().to_owned();
            cases.push(Case { written: std::mem::take(&mut written), text, expected });
        } else if !(line.is_empty() && written.is_empty()) {
            written += line;
            written.push('\n');
        }
    }
    (path, head, cases)
}

/// Holds every input of a table against its message, and asks that no two inputs be the same.
fn check(name: &str, least: usize, read: impl Fn(&str) -> Option<maracas_scenario::Error>) {
    let (path, mut anew, cases) = table(name);
    let mut wrong = Vec::new();
    let mut inputs = BTreeSet::new();
    let mut sentences = BTreeSet::new();
    for case in &cases {
        assert!(inputs.insert(&case.text), "twice in {name}:\n{}", case.written);
        let found = match read(&case.text) {
            Some(error) => {
                assert!(error.line > 0 && error.column > 0, "{error}");
                assert!(!error.message.contains(char::is_control), "{error:?}");
                sentences.insert(error.message.clone());
                error.to_string().replacen("x:", "", 1)
            }
            None => "accepted".into(),
        };
        anew += &format!("\n{}=> {found}\n", case.written);
        if found != case.expected || found == "accepted" {
            wrong.push(format!("{}expected {}\n   found {found}\n", case.written, case.expected));
        }
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, anew).expect("the table can be written");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(sentences.len() >= least, "{} different sentences in {name}", sentences.len());
}

#[test]
fn bad_scenarios_are_refused_with_their_own_sentence() {
    check("bad_scenarios.txt", 100, |text| Scenario::parse(text, "x").err());
}

#[test]
fn bad_memory_is_refused_with_its_own_sentence() {
    check("bad_memory.txt", 60, |text| Scenario::parse(text, "x").err());
}

#[test]
fn bad_classes_and_paces_are_refused_with_their_own_sentence() {
    check("bad_classes.txt", 50, |text| Scenario::parse(text, "x").err());
}

#[test]
fn bad_mixes_are_refused_with_their_own_sentence() {
    check("bad_mixes.txt", 15, |text| Mix::parse(text, "x").err());
}

#[test]
fn bad_task_sets_are_refused_with_their_own_sentence() {
    check("bad_tasksets.txt", 18, |text| TaskSet::parse(text, "x").err());
}

#[test]
fn bad_workloads_of_rt_app_are_refused_with_their_own_sentence() {
    check("bad_rt_app.txt", 40, |text| formats::parse(text, "x", Format::RtApp).err());
}

#[test]
fn bad_files_of_simso_are_refused_with_their_own_sentence() {
    check("bad_simso.txt", 25, |text| formats::parse(text, "x", Format::SimSo).err());
}

#[test]
fn bad_sets_of_schedcat_are_refused_with_their_own_sentence() {
    check("bad_schedcat.txt", 18, |text| formats::parse(text, "x", Format::SchedCat).err());
}

#[test]
fn bad_overhead_tables_are_refused_with_their_own_sentence() {
    check("bad_overheads.txt", 14, |text| overheads::Table::parse(text, "x").err());
}
