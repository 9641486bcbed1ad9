//! `maracas sweep`: what it writes, that nothing finished is lost, and what it refuses.

mod common;

use common::{Scratch, maracas, repository, text};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SWEEP: &str = r#"
[sweep]
cores = [2, 4]
utilization = { from = 0.8, to = 1.0, step = 0.1 }
sets = 10
duration = "500ms"
margin = "100us"
[tasks]
per_core = 4
loads = "uunifast"
periods = "log-uniform:10ms..100ms"
[overheads]
context_switch = "1us"
[[policy]]
name = "p-edf"
[[policy]]
name = "g-edf"
[[policy]]
name = "run"
label = "RUN, worst fit"
packing = "wfd"
[[policy]]
name = "qps"
"#;

/// Every file in a folder but the progress, which notes sets in the order in which they end.
fn results(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    let results = named.filter(|(name, _)| name != "sweep.progress");
    results.map(|(name, path)| (name, std::fs::read(path).unwrap())).collect()
}

/// Starts a sweep and waits until some sets are finished.
fn begun(scratch: &Scratch, folder: &str) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_maracas"))
        .args(["sweep", "s.toml", "--out", folder, "--jobs", "1"])
        .current_dir(scratch.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let progress = scratch.path().join(folder).join("sweep.progress");
    let patience = Instant::now() + Duration::from_secs(60);
    while lines(&progress) < 3 {
        assert!(Instant::now() < patience, "no set was finished");
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

/// Sets in a progress file.
fn lines(progress: &Path) -> usize {
    let content = std::fs::read_to_string(progress).unwrap_or_default();
    content.split_once("results\n").map_or(0, |(_, results)| results.matches('\n').count())
}

#[test]
fn a_sweep_writes_every_table_and_shows_one() {
    let scratch = Scratch::new();
    scratch.write("s.toml", SWEEP);
    let output = maracas(scratch.path(), &["sweep", "s.toml", "--out", "out"]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stdout.contains("4 cores, 16 tasks, 10 sets; 95 % confidence"), "{stdout}");
    assert!(stdout.lines().any(|line| line.contains("0.8  RUN, worst fit  100.0 % (72.2..100.0)")));
    let files = "runs.csv, runs.parquet, points.csv, pairs.csv, tests.csv, weighted.csv";
    assert!(stderr.contains(&format!("out holds {files} and ")), "{stderr}");
    let folder = scratch.path().join("out");
    let csv = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    // Two numbers of cores, three utilizations, ten sets, four policies.
    assert_eq!(csv("runs.csv").lines().count(), 1 + 6 * 10 * 4);
    assert_eq!(csv("points.csv").lines().count(), 1 + 6 * 4);
    assert_eq!(csv("pairs.csv").lines().count(), 1 + 6 * 6 * 10);
    for name in ["success-4-cores-4-tasks-per-core.svg", "tests-2-cores-4-tasks-per-core.svg"] {
        assert!(csv(name).starts_with("<svg "), "{name}");
    }
    // Again: nothing is run, and the JSON says what the tables say.
    let output = maracas(scratch.path(), &["sweep", "s.toml", "--out", "out", "--json"]);
    assert!(text(&output.stderr).contains("out holds all 60 sets"));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let points = json["points"].as_array().unwrap();
    let rows = csv("points.csv");
    for (point, row) in points.iter().zip(rows.lines().skip(1)) {
        // The label with its comma is quoted: what stands before it is not.
        let cells: Vec<_> = row.split(',').collect();
        assert_eq!(point["cores"].to_string(), cells[0]);
        assert_eq!(point["utilization"].as_f64(), cells[1].parse().ok());
    }
    assert_eq!((points.len(), json["pairs"].as_array().unwrap().len()), (24, 360));
}

#[test]
fn a_set_can_be_drawn_again_from_its_row() {
    let scratch = Scratch::new();
    scratch.write(
        "s.toml",
        SWEEP
            .replace("[overheads]\ncontext_switch = \"1us\"\n", "")
            .replace("margin = \"100us\"\n", ""),
    );
    let output = maracas(scratch.path(), &["sweep", "s.toml", "--out", "out", "--quiet"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let runs = std::fs::read_to_string(scratch.path().join("out/runs.csv")).unwrap();
    let mut rows = runs.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let header = rows.next().unwrap();
    let place = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let row = rows.find(|row| row[place("policy")] == "g-edf" && row[0] == "4").unwrap();
    let recipe: maracas_scenario::generate::Recipe =
        "total=16/5 tasks=16 loads=uunifast periods=log-uniform:10ms..100ms grain=1ms"
            .parse()
            .unwrap();
    assert_eq!((row[1], row[place("set_tasks")]), ("0.8", "16"));
    let set = recipe.draw(row[place("seed")].parse().unwrap()).unwrap();
    scratch.write("set.csv", set.to_string());
    let words = ["sim", "--taskset", "set.csv", "--cores", "4", "--policy", "g-edf"];
    let output = maracas(scratch.path(), &[&words[..], &["--until", "500ms", "--json"]].concat());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for (column, field) in
        [("released", "jobs"), ("preemptions", "preemptions"), ("migrations", "migrations")]
    {
        assert_eq!(report["total"][field].to_string(), row[place(column)], "{column}");
    }
}

#[test]
fn killed_half_way_it_goes_on_and_gives_the_same_files() {
    let scratch = Scratch::new();
    // Long enough to be killed while it runs.
    scratch.write("s.toml", SWEEP.replace("500ms", "2s"));
    let whole = maracas(scratch.path(), &["sweep", "s.toml", "--out", "whole", "--jobs", "2"]);
    assert!(whole.status.success(), "{}", text(&whole.stderr));
    let mut child = begun(&scratch, "killed");
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    let progress = scratch.path().join("killed/sweep.progress");
    let kept = lines(&progress);
    assert!((3..60).contains(&kept), "{kept}");
    assert_eq!(scratch.names(), ["killed", "s.toml", "whole"]);
    // What the end of the machine may leave: half a line.
    let mut bytes = std::fs::read(&progress).unwrap();
    bytes.extend(b"59 16 4000");
    std::fs::write(&progress, bytes).unwrap();
    let output = maracas(scratch.path(), &["sweep", "s.toml", "--out", "killed", "--jobs", "1"]);
    let stderr = text(&output.stderr);
    assert!(stderr.contains(&format!("killed holds {kept} of 60 sets")), "{stderr}");
    assert_eq!((output.status.code(), output.stdout), (Some(0), whole.stdout));
    let (wanted, found) =
        (results(&scratch.path().join("whole")), results(&scratch.path().join("killed")));
    assert!(wanted.contains_key("runs.parquet") && wanted.len() >= 8, "{:?}", wanted.keys());
    for (name, content) in &wanted {
        assert!(found.get(name) == Some(content), "{name} differs");
    }
    assert_eq!(found.len(), wanted.len());
}

#[test]
fn a_single_point_has_no_figure_and_says_why() {
    let scratch = Scratch::new();
    let range = "{ from = 0.8, to = 1.0, step = 0.1 }";
    let point = SWEEP.replace("[2, 4]", "1").replace(range, "0.8").replace("sets = 10", "sets = 1");
    scratch.write("s.toml", point);
    let output = maracas(scratch.path(), &["sweep", "s.toml", "--out", "out"]);
    let stderr = text(&output.stderr);
    assert!(text(&output.stdout).starts_with("1 core, 4 tasks, 1 set; 95 % confidence\n"));
    assert!(
        stderr.ends_with(
            "pairs.csv, tests.csv, weighted.csv and no figure (a line takes two points)\n"
        ),
        "{stderr}"
    );
    // Five tables, one of them twice, and what the page shows.
    assert_eq!(results(&scratch.path().join("out")).len(), 7);
}

#[test]
fn interrupted_it_says_how_to_go_on() {
    let scratch = Scratch::new();
    scratch.write("s.toml", SWEEP.replace("500ms", "2s"));
    let child = begun(&scratch, "out");
    let id = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("maracas: interrupted; out keeps "), "{stderr}");
    assert!(stderr.contains(" of 60 sets, and the same command goes on from there"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1);
}

#[test]
fn what_is_wrong_is_one_line_and_exit_code_2() {
    let scratch = Scratch::new();
    let reported = |file: &str, folder: &str| {
        scratch.write("s.toml", file);
        let output = maracas(scratch.path(), &["sweep", "s.toml", "--out", folder]);
        let stderr = text(&output.stderr);
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
        stderr
    };
    let line = reported(&SWEEP.replace("sets =", "set ="), "out");
    assert!(line.contains("s.toml:5:1: unknown key `set`; did you mean `sets`?"), "{line}");
    let line = reported(&SWEEP.replace("\"qps\"", "\"qqs\""), "out");
    assert!(line.contains("unknown policy \"qqs\"; did you mean `qps`?"), "{line}");
    assert!(!scratch.path().join("out").exists(), "nothing is made for a file that is wrong");
    let line = reported(SWEEP, "s.toml");
    assert!(line.contains("s.toml: cannot be made: "), "{line}");
    // Results that another sweep left without its progress are not overwritten.
    std::fs::create_dir(scratch.path().join("kept")).unwrap();
    scratch.write("kept/runs.csv", "mine\n");
    let line = reported(SWEEP, "kept");
    assert!(line.contains("kept: holds runs.csv and no sweep.progress; name another"), "{line}");
    assert_eq!(std::fs::read_to_string(scratch.path().join("kept/runs.csv")).unwrap(), "mine\n");
    let quick = SWEEP.replace("sets = 10", "sets = 1");
    scratch.write("s.toml", &quick);
    assert!(maracas(scratch.path(), &["sweep", "s.toml", "--out", "out"]).status.success());
    let line = reported(&quick.replace("[tasks]", "seed = 3\n[tasks]"), "out");
    let other = |seed| format!("\"sets 1, duration 500ms, seed {seed}, margin 100us\"");
    let (then, now) = (other(1), other(3));
    let wanted =
        format!("is of another sweep: it has {then} and the file says {now}; name another");
    assert!(line.starts_with("maracas: out/sweep.progress: "), "{line}");
    assert!(line.contains(&wanted), "{line}");
}

#[test]
fn the_examples_run_and_show_what_they_say() {
    let folder = repository().join("examples/sweeps");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        let head = std::fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let command = format!("#   maracas sweep examples/sweeps/{name} --out results\n");
        assert!(head.contains(&command), "{name} does not say how it is run");
        let scratch = Scratch::new();
        // A tenth of the sets: what it shows is tried by hand.
        scratch.write(&name, head.replace("sets = 50", "sets = 5"));
        let output = maracas(scratch.path(), &["sweep", &name, "--out", "out", "--json"]);
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        for point in json["points"].as_array().unwrap() {
            if ["run", "qps"].contains(&point["policy"].as_str().unwrap()) {
                assert_eq!(point["success"], 1.0, "{point}");
            }
        }
    }
}

#[test]
fn what_is_left_out_of_files_is_said_once_for_all_of_them() {
    let scratch = Scratch::new();
    let tasks = "{ \"tasks\": { \"a\": { \"cpus\": [0], \"run\": 2000, \"timer\": \
        { \"ref\": \"t\", \"period\": 10000 } } } }";
    scratch.write("a.json", tasks);
    scratch.write("b.json", tasks);
    let files = "[sweep]\ncores = 1\nduration = \"100ms\"\n[tasks]\n\
        files = [\"a.json\", \"b.json\"]\n[[policy]]\nname = \"p-edf\"\n";
    scratch.write("s.toml", files);
    let output = maracas(scratch.path(), &["sweep", "s.toml", "--out", "out"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(said.matches("a.json and 1 more: a: `cpus` is left aside").count(), 1, "{said}");
    let output = maracas(scratch.path(), &["sweep", "s.toml", "--out", "out", "--quiet"]);
    assert_eq!(text(&output.stderr), "");
}
