//! Files that cannot be written to the end: the report and the other files outlive them. And what a
//! signal leaves of files under way: nothing.

mod common;

use common::{Scratch, maracas, repository, text};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Simulates the example that README runs.
fn simulated(scratch: &Scratch, words: &[&str]) -> Output {
    let file = repository().join("examples/quickstart.toml").display().to_string();
    maracas(scratch.path(), &[&["sim", &file][..], words].concat())
}

const FULL: &str = "/dev/full: cannot be written: No space left on device";

#[test]
fn the_report_and_the_other_files_outlive_a_full_disk() {
    let scratch = Scratch::new();
    let good = simulated(&scratch, &["--until", "2s"]);
    for (full, others) in [("--journal", ["--trace", "t"]), ("--trace", ["--journal", "j"])] {
        let words = ["--until", "2s", full, "/dev/full", "--csv", "lists", others[0], others[1]];
        let output = simulated(&scratch, &words);
        assert_eq!(output.status.code(), Some(2), "{full}");
        assert_eq!(text(&output.stdout), text(&good.stdout), "{full}");
        let says = text(&output.stderr);
        assert_eq!(says.lines().last(), Some(format!("maracas: {FULL}").as_str()), "{full}");
        let lists = scratch.path().join("lists");
        for file in [scratch.path().join(others[1]), lists.join("jobs.csv")] {
            std::fs::remove_file(&file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        }
    }
}

/// A run of hours must not wait with it for its end.
#[test]
fn it_is_said_when_it_happens() {
    let scratch = Scratch::new();
    for full in ["--journal", "--trace"] {
        let output = simulated(&scratch, &["--until", "60s", "--quiet", full, "/dev/full"]);
        let says = format!("maracas: {FULL}; all else goes on\nmaracas: {FULL}\n");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), says), "{full}");
    }
}

#[test]
fn a_broken_promise_keeps_its_exit_code() {
    let scratch = Scratch::new();
    let words = ["--until", "2s", "--late", "20ms", "--quiet", "--journal", "/dev/full"];
    let output = simulated(&scratch, &words);
    let says = format!("maracas: {FULL}\n");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(4), says));
    assert!(text(&output.stdout).contains("NOT KEPT"));
}

/// Interrupts a command as soon as something hidden is under way; its exit code, and the names that
/// are left. `None` where it was faster.
fn interrupted(scratch: &Scratch, words: &[&str]) -> Option<(Option<i32>, Vec<String>)> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_maracas"))
        .args(words)
        .current_dir(scratch.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let hidden = || scratch.names().iter().any(|name| name.starts_with('.'));
    let since = Instant::now();
    while !hidden() && child.try_wait().unwrap().is_none() {
        assert!(since.elapsed() < Duration::from_secs(60), "nothing is under way");
        thread::sleep(Duration::from_micros(200));
    }
    let was_alive = child.try_wait().unwrap().is_none();
    if was_alive {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    }
    let code = child.wait().unwrap().code();
    (was_alive && code != Some(0)).then(|| (code, scratch.names()))
}

/// Tries until a command is met while it writes.
fn leaves_nothing(words: &[&str], prepare: impl Fn(&Scratch)) {
    for _ in 0..20 {
        let scratch = Scratch::new();
        prepare(&scratch);
        let before = scratch.names();
        if let Some((code, left)) = interrupted(&scratch, words) {
            assert_eq!((code, left), (Some(130), before), "{words:?}");
            return;
        }
    }
    panic!("{words:?} was never met while it wrote");
}

#[test]
fn a_signal_leaves_nothing_of_a_directory_of_sets() {
    let words = "generate --cores 2 --tasks 3 --utilization 90% --count 3000 -o sets";
    leaves_nothing(&words.split(' ').collect::<Vec<_>>(), |_| {});
}

#[test]
fn a_signal_leaves_nothing_of_the_trace_of_a_journal() {
    leaves_nothing(&["replay", "j", "--trace", "t"], |scratch| {
        let made = simulated(scratch, &["--until", "60s", "--quiet", "--journal", "j"]);
        assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    });
}
