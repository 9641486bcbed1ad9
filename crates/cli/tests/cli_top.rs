//! `maracas top` of a recorded run says what the report of the same run says, and refuses what it
//! cannot show in one line; `run --metrics` takes addresses of this host alone.

mod common;
mod pty;

use common::{Scratch, expect_refusal, maracas, repository, text};
use maracas_core::control::tallies::{CORE, MEMORY, RUN, Tally, VCPU};
use pty::{ENTERS, Terminal};
use serde_json::Value;

/// Two readers of memory beside each other, sampled and throttled; jobs that miss.
const SCENARIO: &str = r#"version = 1
[platform]
preset = "i5-2500k"
cores = 2
[policy]
name = "maracas"
background = "fair"
throttle = "latency"
max_latency = 60
mem_period = "20ms"
[run]
duration = "400ms"
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
memory = "m_jump"
[[program]]
name = "jobs"
budget = "1ms"
period = "10ms"
core = 1
workload = { kind = "periodic", cost = "3ms" }
memory = "m_jump"
"#;

fn simulated(scratch: &Scratch, scenario: &str) -> Value {
    scratch.write("s.toml", scenario);
    let output = maracas(scratch.path(), &["sim", "s.toml", "--json", "--journal", "s.journal"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn top(scratch: &Scratch) -> Value {
    let output = maracas(scratch.path(), &["top", "--journal", "s.journal", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every tally stands in what `top` shows of a run, core or VCPU, and is what the report says.
fn agree<T>(tallies: &[Tally<T>], report: &Value, shown: &Value) {
    for tally in tallies {
        let it = shown.get(tally.key).unwrap_or_else(|| panic!("no {} in {shown}", tally.key));
        let number = |place: &&str| report.pointer(place).and_then(Value::as_u64);
        let sum = tally.report.iter().map(number).sum::<Option<u64>>();
        // Of a core on which nothing was late a report says no causes.
        if let Some(sum) = sum.filter(|_| !tally.report.is_empty()) {
            assert_eq!(it.as_u64().unwrap_or(0), sum, "{}: {shown} against {report}", tally.key);
        }
    }
}

fn compare(report: &Value, shown: &Value) {
    let array = |value: &Value| value.as_array().unwrap().clone();
    agree(&RUN, report, shown);
    assert_eq!((&report["policy"], &shown["over"]), (&shown["policy"], &Value::Bool(true)));
    let (cores, tasks) = (array(&report["cores"]), array(&report["tasks"]));
    assert_eq!(
        (cores.len(), tasks.len()),
        (array(&shown["cores"]).len(), array(&shown["vcpus"]).len())
    );
    for (core, reported) in cores.iter().zip(array(&shown["cores"])) {
        agree(&CORE, core, &reported);
    }
    for (task, reported) in tasks.iter().zip(array(&shown["vcpus"])) {
        assert_eq!(task["name"], reported["name"]);
        agree(&VCPU, task, &reported);
    }
    if !shown["memory"].is_null() {
        agree(&MEMORY, report, &shown["memory"]);
    }
}

#[test]
fn gauges_of_a_simulated_run_are_the_numbers_of_its_report() {
    let scratch = Scratch::new();
    let report = simulated(&scratch, SCENARIO);
    let shown = top(&scratch);
    compare(&report, &shown);
    assert_eq!(shown["memory"]["max_latency_cycles"], 60);
    // The scenario is one where there is something to compare.
    let sum = |list: &str, key: &str| -> u64 {
        shown[list].as_array().unwrap().iter().map(|it| it[key].as_u64().unwrap()).sum()
    };
    assert!(sum("cores", "throttled_ns") > 0 && sum("vcpus", "reads") > 0, "{shown}");
    assert!(shown["misses"].as_u64() > Some(0), "{shown}");
    let shares = shown["cores"][0]["foreground_share"].as_f64().unwrap();
    let expected = report["cores"][0]["foreground_ns"].as_f64().unwrap() / 400e6;
    assert!((shares - expected).abs() < 1e-9, "without an interval, shares are of the whole run");
}

#[test]
fn gauges_of_every_example_are_the_numbers_of_its_report() {
    let scratch = Scratch::new();
    for example in ["global", "periodic", "uneven", "bandwidth"] {
        let path = repository().join(format!("examples/{example}.toml"));
        let path = path.to_str().unwrap();
        let words = ["sim", path, "--duration", "300ms", "--json", "--journal", "s.journal"];
        let output = maracas(scratch.path(), &words);
        assert!(output.status.success(), "{example}: {}", text(&output.stderr));
        compare(&serde_json::from_slice(&output.stdout).unwrap(), &top(&scratch));
    }
}

#[test]
fn a_plain_snapshot_is_for_people() {
    let scratch = Scratch::new();
    simulated(&scratch, SCENARIO);
    for words in
        [&["top", "--journal", "s.journal"][..], &["top", "--journal", "s.journal", "--once"]]
    {
        let output = maracas(scratch.path(), words);
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(shown.starts_with("s.journal, policy maracas, 0.4 s, over\n"), "{shown}");
        assert!(shown.contains(" of 60 cycles"), "{shown}");
        for name in ["a ", "b ", "jobs "] {
            assert!(shown.lines().any(|line| line.starts_with(name)), "{name}: {shown}");
        }
        assert!(!shown.contains('\u{1b}'), "no colours and no cursor where no terminal is");
    }
}

/// Chooses bright black (ECMA-48, "select graphic rendition").
const GREY: &str = "\u{1b}[0;90m";

const PLAY: [&str; 3] = ["top", "--journal", "s.journal"];

#[test]
fn a_terminal_is_drawn_on_and_given_back() {
    let scratch = Scratch::new();
    simulated(&scratch, SCENARIO);
    let mut terminal = Terminal::start(scratch.path(), &PLAY, &[]);
    terminal.shows("s.journal, policy maracas");
    terminal.shows("the journal ends here");
    terminal.press("?");
    terminal.shows("PgUp");
    terminal.press("q");
    let (status, seen) = terminal.ends();
    assert!(status.success() && seen.contains(ENTERS), "{seen:?}");
    // The keys stand in bright black, the line of cores that are throttled in red.
    assert!(seen.contains(GREY) && seen.contains("\u{1b}[0;31m"), "colours: {seen:?}");
    // Ctrl-C as a key, since the terminal makes no signal of it now; and the signals themselves.
    let mut terminal = Terminal::start(scratch.path(), &PLAY, &[("NO_COLOR", "1")]);
    terminal.shows("policy maracas");
    terminal.press("\u{3}");
    let (status, seen) = terminal.ends();
    assert!(status.success() && !seen.contains(GREY), "no colours: {seen:?}");
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut terminal = Terminal::start(scratch.path(), &PLAY, &[]);
        terminal.shows("policy maracas");
        terminal.signal(signal);
        assert!(terminal.ends().0.success());
    }
    // A snapshot takes no terminal, even where there is one.
    let terminal = Terminal::start(scratch.path(), &[&PLAY[..], &["--once"]].concat(), &[]);
    let (status, seen) = terminal.ends();
    assert!(status.success() && !seen.contains(ENTERS) && seen.contains("jobs"), "{seen:?}");
}

#[test]
fn a_journal_cut_short_is_shown_as_far_as_it_goes() {
    let scratch = Scratch::new();
    simulated(&scratch, SCENARIO);
    let whole = std::fs::read(scratch.path().join("s.journal")).unwrap();
    scratch.write("s.journal", &whole[..whole.len() / 2]);
    let output = maracas(scratch.path(), &["top", "--journal", "s.journal", "--json"]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("truncated"), "{}", text(&output.stderr));
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let at = shown["at_ns"].as_f64().unwrap();
    assert!((50e6..350e6).contains(&at) && shown["over"] == false, "{shown}");
}

#[test]
fn what_cannot_be_shown_is_refused_in_one_line() {
    let scratch = Scratch::new();
    scratch.write("no.journal", "not a journal");
    let good = std::fs::read(repository().join("examples/quickstart.toml")).unwrap();
    scratch.write("s.toml", good);
    let cases: &[(&[&str], &str)] = &[
        (&["top", "--socket", "./missing.sock"], "missing.sock"),
        (&["top", "4000000"], "no run with process 4000000"),
        (&["top", "--journal", "none.journal"], "none.journal"),
        (&["top", "--journal", "no.journal"], "not a maracas journal"),
        (&["top", "--interval", "1ms"], "too short"),
        (&["top", "--interval", "0s"], "longer than nothing"),
        (&["top", "--speed", "2"], "--journal"),
        (&["top", "12", "--socket", "x"], "cannot be used with"),
        (&["run", "s.toml", "--metrics", "0.0.0.0:9100"], "open to other hosts"),
        (&["run", "s.toml", "--metrics", "[::]:9100"], "open to other hosts"),
        (&["run", "s.toml", "--metrics", "localhost:9100"], "127.0.0.1:PORT"),
        (&["run", "s.toml", "--metrics", "unix:"], "names no socket"),
        (&["run", "s.toml", "--metrics", "unix:s.toml"], "no socket; name another path"),
    ];
    for (words, wanted) in cases {
        expect_refusal(&words.join(" "), &scratch, words, wanted);
    }
}
