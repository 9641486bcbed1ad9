//! Task sets of other tools on the command line: converted, simulated, checked; measured overheads
//! charged; and sets that need finer ticks than a nanosecond.

mod common;

use common::{Scratch, maracas, text};
use maracas_core::params::Params;
use maracas_scenario::taskset::TaskSet;
use serde_json::Value;
use std::process::Output;

const RT_APP: &str = r#"{"tasks": {
    "camera": {"instance": 2, "run": 2000, "cpus": [1],
               "timer": {"ref": "unique", "period": 10000, "mode": "absolute"}},
    "radio": {"run": 300, "timer": {"ref": "unique", "period": 1000, "mode": "absolute"}}
}}"#;

fn good(output: &Output) -> (String, String) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    (out, err)
}

/// One line on standard error, exit code 2.
fn refused(output: &Output) -> String {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{out}{err}");
    assert_eq!((err.lines().count(), out.as_str()), (1, ""), "{err}");
    err
}

fn report(scratch: &Scratch, words: &[&str]) -> Value {
    let (out, _) = good(&maracas(scratch.path(), words));
    serde_json::from_str(&out).unwrap()
}

#[test]
fn sets_go_from_one_format_to_the_next_and_come_back() {
    let scratch = Scratch::new();
    scratch.write("w.json", RT_APP);
    let (csv, notes) = good(&maracas(scratch.path(), &["convert", "w.json", "--to", "csv"]));
    let expected = "name,cost_us,period_us,deadline_us,offset_us\ncamera-0,2000,10000,10000,0\n\
                    camera-1,2000,10000,10000,0\nradio,300,1000,1000,0\n";
    assert_eq!(csv, expected);
    assert_eq!(notes, "maracas: w.json: camera: `cpus` is left aside\n");
    for (from, to) in [("w.json", "simso"), ("s.simso", "rt-app"), ("s.rt-app", "csv")] {
        let out = format!("s.{to}");
        let words = ["convert", from, "--to", to, "-o", &out];
        good(&maracas(scratch.path(), &words));
    }
    assert_eq!(std::fs::read_to_string(scratch.path().join("s.csv")).unwrap(), expected);
    let words = ["convert", "s.csv", "--to", "schedcat", "--output", "s.xml"];
    let (_, losses) = good(&maracas(scratch.path(), &words));
    assert!(losses.contains("s.csv: in schedcat: 3 periodic tasks made sporadic"), "{losses}");
    let words = ["convert", "s.xml", "--to", "csv", "--jobs", "periodic"];
    let (csv, notes) = good(&maracas(scratch.path(), &words));
    assert!(csv.starts_with("cost_us,") && !csv.contains("sporadic"), "{csv}");
    assert!(notes.contains("tasks of SchedCAT are sporadic"), "{notes}");
}

/// The head of a file says how it was drawn; of what is no longer that draw it says so.
#[test]
fn a_changed_set_says_so_at_its_head() {
    let scratch = Scratch::new();
    let head = "# recipe total=1\n# seed 7\n";
    let rows = "cost_us,period_us,deadline_us,offset_us\n1.5,10,10,0\n2,10,10,3\n";
    scratch.write("drawn.csv", format!("{head}{rows}"));
    let convert = |words: &[&str]| {
        let words = [&["convert", "drawn.csv", "--to"], words].concat();
        good(&maracas(scratch.path(), &words))
    };
    for same in [&["csv"][..], &["csv", "--jobs", "periodic"]] {
        assert_eq!(convert(same), (format!("{head}{rows}"), String::new()));
    }
    let (csv, notes) = convert(&["csv", "--jobs", "sporadic"]);
    let lost = "1 offset lost: nothing is known of a sporadic task's first job";
    assert_eq!(notes, format!("maracas: drawn.csv: {lost}\n"));
    let head = format!("{head}# converted: --jobs sporadic\n# converted: {lost}\ncost_us");
    assert!(csv.starts_with(&head), "{csv}");
    let (json, _) = convert(&["rt-app"]);
    let rounded = "converted: in rt-app: 1 task with fractions of a microsecond";
    assert!(json.contains(rounded), "{json}");
    let (xml, notes) = convert(&["simso"]);
    assert!(!xml.contains("converted") && notes.contains("names the run too"), "{xml}{notes}");
}

#[test]
fn what_cannot_be_converted_is_one_line_and_leaves_nothing() {
    let scratch = Scratch::new();
    scratch.write("w.json", RT_APP);
    scratch.write("bad.json", "{\"tasks\": {\"a\": {\"run\": 1, \"iorun\": 2}}}");
    scratch.write("tight.csv", "cost_us,period_us\n0.5,0.9\n");
    let line = refused(&maracas(scratch.path(), &["convert", "bad.json", "--to", "csv"]));
    assert!(line.starts_with("maracas: bad.json:1:28: `iorun` takes"), "{line}");
    let words = ["convert", "tight.csv", "--to", "rt-app", "-o", "out.json"];
    let line = refused(&maracas(scratch.path(), &words));
    assert!(line.contains("task1 needs 500ns by 900ns"), "{line}");
    let words = ["convert", "w.json", "--to", "csv", "-o", "w.json"];
    let line = refused(&maracas(scratch.path(), &words));
    assert!(line.contains("is the task set itself"), "{line}");
    let words = ["convert", "w.json", "--to", "csv", "--deadline-class"];
    assert!(refused(&maracas(scratch.path(), &words)).contains("--deadline-class is for"));
    let words = ["convert", "w.json", "--from", "simso", "--to", "csv"];
    assert!(refused(&maracas(scratch.path(), &words)).contains("this is no XML"));
    let words = ["convert", "w.json", "--to", "yaml"];
    let output = maracas(scratch.path(), &words);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("schedcat"), "{}", text(&output.stderr));
    let line = refused(&maracas(scratch.path(), &["sim", "w.json"]));
    assert!(line.contains("--taskset"), "{line}");
    assert_eq!(scratch.names(), ["bad.json", "tight.csv", "w.json"]);
}

#[test]
fn every_format_is_simulated_with_its_names() {
    let scratch = Scratch::new();
    scratch.write("w.json", RT_APP);
    for to in ["csv", "simso", "schedcat"] {
        let out = format!("set.{to}");
        good(&maracas(scratch.path(), &["convert", "w.json", "--to", to, "-o", &out]));
    }
    for file in ["w.json", "set.csv", "set.simso", "set.schedcat"] {
        let tail = ["--policy", "g-edf", "--cores", "1", "--until", "1s", "--json"];
        let words = [&["sim", "--taskset", file], tail.as_slice()].concat();
        let report = report(&scratch, &words);
        let names: Vec<_> =
            report["tasks"].as_array().unwrap().iter().map(|task| &task["name"]).collect();
        let expected = match file {
            "set.schedcat" => ["task1", "task2", "task3"],
            _ => ["camera-0", "camera-1", "radio"],
        };
        assert_eq!(names, expected, "{file}");
        assert_eq!(report["total"]["misses"], 0, "{file}");
        let checked = maracas(
            scratch.path(),
            &["check", "--taskset", file, "--policy", "p-edf", "--cores", "1"],
        );
        assert!(good(&checked).0.contains("admitted"));
    }
    // SchedCAT's tasks are sporadic, which RUN takes.
    let words = ["check", "--taskset", "set.schedcat", "--policy", "run", "--cores", "1"];
    assert!(good(&maracas(scratch.path(), &words)).0.contains("admitted"));
}

/// (2, 3) ms thrice fills two cores and needs no finer ticks: all windows are multiples of 3 ms.
const THIRDS: &str = "cost_us,period_us\n2000,3000\n2000,3000\n2000,3000\n";
/// U = 2 exactly. First fit puts 3/5 and 1/3 into one server of rate 14/15, whose windows are
/// multiples of 1 ms, and 14/15 of that is no whole nanosecond.
const ODD: &str = "cost_us,period_us\n3000,5000\n8000,15000\n8000,15000\n1000,3000\n";

#[test]
fn sets_that_fill_their_cores_get_the_ticks_that_they_need() {
    let scratch = Scratch::new();
    scratch.write("thirds.csv", THIRDS);
    scratch.write("odd.csv", ODD);
    for (file, policy, finer) in [
        ("thirds.csv", "run", false),
        ("odd.csv", "run", true),
        ("odd.csv", "qps", true),
        ("odd.csv", "g-edf", false),
    ] {
        let words = [
            "sim",
            "--taskset",
            file,
            "--policy",
            policy,
            "--cores",
            "2",
            "--until",
            "2s",
            "--journal",
            "run.journal",
            "--csv",
            "lists",
            "--json",
        ];
        // Global EDF cannot keep what is asked for here, and says so.
        let simulated = maracas(scratch.path(), &words);
        let code = if policy == "g-edf" { 4 } else { 0 };
        let out = text(&simulated.stdout);
        assert_eq!(simulated.status.code(), Some(code), "{out}{}", text(&simulated.stderr));
        let judge = ["check", "--taskset", file, "--policy", policy, "--cores", "2"];
        let judged = maracas(scratch.path(), &judge);
        assert_eq!(text(&judged.stderr).contains("ticks a nanosecond"), finer, "{file} {policy}");
        if finer {
            let (verdict, _) = good(&judged);
            assert!(verdict.contains("task1 (3ms every 5ms)"), "{verdict}");
        }
        let report: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(report["duration_ns"], 2_000_000_000u64, "{file}");
        if policy == "g-edf" {
            continue;
        }
        assert_eq!(report["total"]["misses"], 0, "{file} {policy}");
        let replayed = maracas(scratch.path(), &["replay", "run.journal"]);
        assert!(good(&replayed).0.contains("until 2s"), "{}", text(&replayed.stdout));
        let words = ["gantt", "run.journal", "--from", "1s", "--to", "1.02s", "--ascii"];
        let (chart, _) = good(&maracas(scratch.path(), &words));
        assert!(chart.contains("1.02s") || chart.contains("20ms"), "{chart}");
        let jobs = std::fs::read_to_string(scratch.path().join("lists/jobs.csv")).unwrap();
        assert!(jobs.lines().count() > 1_000, "{file}: {} lines", jobs.lines().count());
    }
}

#[test]
fn without_finer_ticks_run_refuses_such_a_set() {
    let set = TaskSet::parse(ODD, "odd.csv").unwrap();
    let run = maracas_policies::find("run").unwrap();
    let verdict = (run.admit)(&set.system(2), &Params::new());
    let reasons: Vec<_> = verdict.refused.iter().map(|(_, why)| why.reason.as_str()).collect();
    assert!(!verdict.accepted() && reasons.len() == 1, "{verdict:?}");
    let scale = set.exact_scale().unwrap();
    assert!(reasons[0].contains(&format!("scale time by {scale} ")), "{reasons:?}");
}

#[test]
fn finer_ticks_reach_only_so_far() {
    let scratch = Scratch::new();
    scratch.write("odd.csv", ODD);
    let words = [
        "sim",
        "--taskset",
        "odd.csv",
        "--policy",
        "run",
        "--cores",
        "2",
        "--until",
        "3000000000s",
    ];
    let line = refused(&maracas(scratch.path(), &words));
    assert!(line.contains("ticks a nanosecond") && line.contains("simulate at most"), "{line}");
}

#[test]
fn measured_overheads_are_charged_by_the_number_of_tasks() {
    let scratch = Scratch::new();
    scratch.write("set.csv", "cost_us,period_us\n4000,10000\n4000,10000\n");
    scratch.write("costs.csv", "TASK-COUNT,RELEASE,CXS,TICK\n1,0,50,3\n3,0,150,3\n");
    scratch.write("cpmd.csv", "WSS,L3,MEM\n64,10,20\n");
    let base = ["sim", "--taskset", "set.csv", "--policy", "g-edf", "--cores", "1", "--json"];
    let free = report(&scratch, &base);
    let with =
        [base.as_slice(), &["--overheads", "costs.csv", "--cpmd", "cpmd.csv", "--wss", "64"]];
    let output = maracas(scratch.path(), &with.concat());
    let (out, notes) = good(&output);
    assert_eq!(notes, "maracas: costs.csv: TICK: not charged by the simulator\n");
    let charged: Value = serde_json::from_str(&out).unwrap();
    let response = |report: &Value| report["tasks"][0]["response_ns"]["max"].as_u64();
    let response = |report: &Value| {
        response(report).or_else(|| report["tasks"][0]["response_max_ns"].as_u64())
    };
    // Two tasks: 100 us a switch, half way between the rows.
    let (free, charged) = (response(&free), response(&charged));
    assert_eq!(charged.zip(free).map(|(charged, free)| charged - free), Some(100_000));
    let words = [base.as_slice(), &["--overheads", "cpmd.csv"]].concat();
    let line = refused(&maracas(scratch.path(), &words));
    assert!(line.contains("its rows are by WSS, not by TASK-COUNT"), "{line}");
}

/// What a table does not know is charged as the scenario says.
#[test]
fn costs_that_no_table_has_stay_the_scenarios() {
    let scratch = Scratch::new();
    let scenario = "version = 1\n[platform]\ncores = 1\n[overheads]\n\
                    context_switch = \"100us\"\n[policy]\nname = \"g-edf\"\n[run]\n\
                    duration = \"1s\"\n[[program]]\nname = \"a\"\nbudget = \"4ms\"\n\
                    period = \"10ms\"\nworkload = { kind = \"periodic\", cost = \"3ms\" }\n";
    scratch.write("s.toml", scenario);
    scratch.write("costs.csv", "TASK-COUNT,TICK\n1,0\n3,0\n");
    let words = ["sim", "s.toml", "--json"];
    let plain = report(&scratch, &words);
    let with = report(&scratch, &[&words[..], &["--overheads", "costs.csv"]].concat());
    assert_eq!(with, plain);
    scratch.write("costs.csv", "TASK-COUNT,CXS\n1,0\n3,0\n");
    let without = report(&scratch, &[&words[..], &["--overheads", "costs.csv"]].concat());
    assert_ne!(without, plain, "what the table has stands in its place");
}
