//! A running system is scraped and watched: values move, and say what the report says at the end;
//! the socket is its owner's alone and is gone after the run, however it ended.
//!
//! Needs a host where budgets are enforced in full (`maracas doctor`).

mod common;
mod live;
mod pty;

use common::{repository, text};
use live::measure::{Steal, widened};
use live::witness::repeated;
use live::{Run, Stage, until};
use pty::{LEAVES, Terminal};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

/// The journal of a run, in its scratch directory.
const JOURNAL: &str = "run.journal";

fn start(stage: &Stage, socket: &Path, duration: &str) -> Run {
    let file = repository().join("examples/quickstart.toml");
    let address = format!("unix:{}", socket.display());
    let words = [file.to_str().unwrap(), "--json", "--duration", duration];
    let run =
        stage.start(&[&words[..], &["--metrics", &address, "--journal", JOURNAL]].concat(), &[]);
    run.socket();
    run
}

/// One scrape.
fn scrape(socket: &Path) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    answer
}

/// The value of a sample.
fn value(page: &str, sample: &str) -> f64 {
    let start = format!("{sample} ");
    let found = page.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok());
    found.unwrap_or_else(|| panic!("no {sample} in {page}"))
}

/// `maracas top` with these words, of this run.
fn top(run: &Run, words: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_maracas"))
        .arg("top")
        .args(words)
        .env("MARACAS_SOCKET", run.socket())
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    output
}

#[test]
fn a_scrape_moves_and_agrees_with_the_report() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 8) else { return };
        let socket = stage.file("metrics.sock");
        let mut run = start(&stage, &socket, "8s");
        let mode = fs::metadata(&socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "the socket is its owner's");
        thread::sleep(Duration::from_millis(1500));
        let (first, stolen) = (scrape(&socket), Steal::now());
        thread::sleep(Duration::from_secs(3));
        let second = scrape(&socket);
        let moved = |sample: &str| value(&second, sample) - value(&first, sample);
        let elapsed = moved("maracas_run_seconds");
        assert!(elapsed > 2.0, "{elapsed}");
        let names =
            [("control", 0, 0.2), ("vision", 1, 0.3), ("video", 2, 0.2), ("logger", 3, 0.2)];
        let within = widened(0.05, &stolen.parts(), &[0, 1]);
        for (name, id, promised) in names {
            let labels = format!("{{vcpu=\"{name}\",id=\"{id}\",mode=\"foreground\"}}");
            let rate = moved(&format!("maracas_vcpu_seconds_total{labels}")) / elapsed;
            eprintln!("{name}: {rate:.4} of a core in the foreground, {promised} promised");
            assert!((rate / promised - 1.0).abs() < within, "{name}: {rate}");
        }
        assert!(moved("maracas_decisions_total") > 0.0);
        assert!(moved("maracas_dispatch_latency_seconds_count") > 0.0);
        let report = run.report();
        assert!(!socket.exists(), "the socket is gone with the run");
        let whole = report.task("control").ns("foreground_ns") / 1e9;
        let last = "maracas_vcpu_seconds_total{vcpu=\"control\",id=\"0\",mode=\"foreground\"}";
        assert!(value(&second, last) < whole, "a sum never falls");
        report.task("control").got_its_budget();
        // Its journal, played to the end, says what its report says.
        let output = stage.maracas(&["top", "--journal", JOURNAL, "--json"]);
        let played: Value = serde_json::from_slice(&output.stdout).unwrap();
        let (total, dispatch) = (&report.0["total"], &report.0["dispatch"]);
        assert_eq!(total["decisions"], played["decisions"]);
        assert_eq!(dispatch["count"], played["dispatch"]["count"]);
        let percentile = |json: &Value, key: &str| json[key].as_f64().unwrap();
        for key in ["latency_p50_ns", "latency_p99_ns"] {
            let (exact, shown) = (percentile(dispatch, key), percentile(&played["dispatch"], key));
            assert!((exact..=exact * 1.125 + 1.0).contains(&shown), "{key}: {exact} {shown}");
        }
        for task in report.tasks() {
            let vcpus = played["vcpus"].as_array().unwrap();
            let vcpu = vcpus.iter().find(|vcpu| vcpu["name"] == task.name()).unwrap();
            for key in ["foreground_ns", "background_ns", "preemptions", "migrations"] {
                assert_eq!(vcpu[key].as_f64().unwrap(), task.ns(key), "{key} of {}", task.name());
            }
        }
    });
}

#[test]
fn top_shows_a_run_and_takes_nothing_from_it() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 7) else { return };
        let socket = stage.file("metrics.sock");
        let mut run = start(&stage, &socket, "7s");
        thread::sleep(Duration::from_millis(500));
        let plain = text(&top(&run, &["--once"]).stdout);
        eprint!("{plain}");
        assert!(plain.starts_with(&format!("run {}, policy maracas, ", run.pid())), "{plain}");
        for name in ["control", "vision", "video", "logger"] {
            assert!(plain.lines().any(|line| line.starts_with(name)), "{name}: {plain}");
        }
        let stolen = Steal::now();
        let json: Value = serde_json::from_slice(&top(&run, &["--json"]).stdout).unwrap();
        let share = |vcpu: usize| json["vcpus"][vcpu]["foreground_share"].as_f64().unwrap();
        let within = widened(0.1, &stolen.parts(), &[0, 1]);
        let off = [share(0) / 0.2 - 1.0, share(1) / 0.3 - 1.0];
        assert!(off.iter().all(|off| off.abs() < within), "{json}");
        assert_eq!((&json["cores"][0]["throttled"], &json["over"]), (&false.into(), &false.into()));
        // A line every look, until the run ends.
        let lines = text(&top(&run, &["--json", "--interval", "200ms"]).stdout);
        let at: Vec<f64> = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["at_ns"].as_f64().unwrap())
            .collect();
        assert!(at.len() > 5 && at.is_sorted(), "{at:?}");
        let report = run.report();
        for name in ["control", "vision"] {
            report.task(name).got_its_budget();
        }
    });
}

#[test]
fn the_view_ends_with_the_run_and_says_so() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 4) else { return };
        let socket = stage.file("metrics.sock");
        let mut run = start(&stage, &socket, "4s");
        let control = run.socket();
        let words = ["top", "--socket", control.to_str().unwrap(), "--interval", "200ms"];
        let mut terminal = Terminal::start(stage.scratch.path(), &words, &[]);
        terminal.shows(&format!("run {}, policy maracas", run.pid()));
        terminal.shows("control");
        run.finish();
        let (status, seen) = terminal.ends();
        assert!(status.success(), "{seen:?}");
        let reported = seen.rsplit(LEAVES).next().unwrap_or_default();
        assert!(reported.contains("the run has ended"), "{reported:?}");
    });
}

#[test]
fn a_killed_run_leaves_no_socket_and_the_next_one_gets_it() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 3) else { return };
        let socket = stage.file("metrics.sock");
        let mut run = start(&stage, &socket, "20s");
        scrape(&socket);
        run.kill();
        run.reap();
        let gone = until(Duration::from_secs(5), || !socket.exists());
        assert!(gone.is_some(), "the guardian removes the socket");
        // One that no guardian removed either is in no run's way.
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        until(Duration::from_secs(5), || run.host.leftovers().none());
        let mut run = start(&stage, &socket, "1s");
        scrape(&socket);
        run.finish();
    });
}
