//! Built-in work: what it counts for the runtime is what it prints, and it ends when asked to.

mod common;

use common::{Scratch, text};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

fn work(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_maracas"));
    command.arg("work").args(arguments.split_whitespace()).args(["--json", "--quiet"]);
    command.env_remove("MARACAS_SOCKET").env_remove("MARACAS_PROGRESS");
    command
}

/// The iterations that the last line says.
fn iterations(stdout: &[u8]) -> u64 {
    let text = text(stdout);
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["kind"], "total");
    last["iterations"].as_u64().unwrap()
}

/// Does this work with a counter and returns its iterations and what the counter then says.
fn counted(scratch: &Scratch, arguments: &str) -> (u64, u64) {
    scratch.write("counter", 0_u64.to_ne_bytes());
    let counter = scratch.path().join("counter");
    let output = work(arguments).env("MARACAS_PROGRESS", &counter).output().unwrap();
    assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
    let bytes = fs::read(counter).unwrap().try_into().unwrap();
    (iterations(&output.stdout), u64::from_ne_bytes(bytes))
}

#[test]
fn iterations_are_the_progress_that_the_runtime_reads() {
    let scratch = Scratch::new();
    for name in ["spin", "m_jump", "mwalk", "hog", "mixed --steps 1000 --wait 100us"] {
        let (iterations, progress) = counted(&scratch, &format!("{name} --duration 50ms"));
        assert!(iterations > 0, "{name}");
        assert_eq!(progress, iterations, "{name}");
    }
    // The second thread is in a pass of 100,000 steps when the first one prints the end.
    let (iterations, progress) = counted(&scratch, "spin --threads 2 --duration 50ms");
    assert!((iterations..=iterations + 100_000).contains(&progress), "{progress} of {iterations}");
    // Jobs are of no fixed size; their steps are.
    for name in ["periodic --cost 1ms --period 5ms", "anytime --period 5ms --cells 100"] {
        let (jobs, progress) = counted(&scratch, &format!("{name} --duration 50ms"));
        assert!(progress > 50 * jobs && jobs > 0, "{name}: {progress} for {jobs} jobs");
    }
}

#[test]
fn work_runs_where_nothing_can_be_counted() {
    let scratch = Scratch::new();
    scratch.write("short", "1234567");
    for counter in ["short", "missing", "."] {
        let path = scratch.path().join(counter);
        let mut command = work("mixed --wait 0ms --duration 10ms");
        let output = command.env("MARACAS_PROGRESS", path).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(iterations(&output.stdout) > 0);
    }
    assert_eq!(fs::read(scratch.path().join("short")).unwrap(), b"1234567", "left as it was");
}

#[test]
fn mixed_work_changes_its_phase_and_ends_at_sigterm() {
    let child = work("mixed --wait 100ms --after 0s --then-wait 1ms")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let reported = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(reported.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    // With waits of 100 ms it could not have come beyond thirty.
    assert!(iterations(&output.stdout) > 30);
}

#[test]
fn half_a_phase_change_is_refused_in_words() {
    for half in ["--after 1s", "--then-wait 1ms", "--wait 2s"] {
        let output = work(&format!("mixed {half}")).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{half}");
        assert!(text(&output.stderr).contains("--"), "{half}: {}", text(&output.stderr));
    }
}
