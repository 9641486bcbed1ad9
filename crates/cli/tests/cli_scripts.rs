//! Threads of rt-app that wait for each other, on the command line.

mod common;

use common::{Scratch, maracas, repository, text};
use serde_json::Value;

const EXAMPLE: &str = "examples/pipeline.json";

fn json(words: &[&str]) -> Value {
    let output = maracas(&repository(), words);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_str(&text(&output.stdout)).unwrap()
}

/// A frame every 20 ms for a second: each policy lets all of them through, and what a thread worked
/// is what its VCPU was given.
#[test]
fn the_example_runs_under_policies_of_vcpus_and_of_jobs() {
    for policy in ["maracas", "p-edf", "g-edf", "u-edf", "round-robin"] {
        let common = ["sim", "--taskset", EXAMPLE, "--cores", "2", "--until", "1s", "--json"];
        let report = json(&[&common[..], &["--policy", policy]].concat());
        let threads = report["threads"].as_array().unwrap();
        let names: Vec<_> = threads.iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["camera", "filter", "worker-0", "worker-1", "flusher"]);
        let loops = |place: usize| threads[place]["loops"].as_u64().unwrap();
        // The fiftieth waits for its timer when the run ends.
        assert_eq!(loops(0), 49, "{policy}");
        assert!(loops(1) >= 48 && loops(2) + loops(3) >= 46, "{policy}: {threads:?}");
        for (thread, task) in threads.iter().zip(report["tasks"].as_array().unwrap()) {
            let given = ["foreground_ns", "background_ns"].map(|it| task[it].as_u64().unwrap());
            assert_eq!(thread["work_ns"].as_u64(), Some(given[0] + given[1]), "{policy}: {thread}");
        }
    }
}

#[test]
fn the_table_says_what_threads_did_and_the_notes_what_was_assumed() {
    let words = ["sim", "--taskset", EXAMPLE, "--cores", "2", "--until", "1s", "--policy", "p-edf"];
    let output = maracas(&repository(), &words);
    let (out, notes) = (text(&output.stdout), text(&output.stderr));
    let head = "thread worked loops active resp mean resp max locks lock mean lock max at the end";
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(out.lines().any(|line| words(line) == head), "{out}");
    assert!(out.contains("waits for semaphore "), "{out}");
    // The camera's period is its own; what takes locks has none under a policy of jobs.
    assert!(out.contains("1.5ms/20ms"), "{out}");
    let given =
        "filter, worker-0, worker-1 and 1 more: without a period of their own; each is given ";
    assert!(notes.contains(given), "{notes}");
    assert!(notes.contains("p-edf orders jobs"), "{notes}");
    let check = ["check", "--taskset", EXAMPLE, "--cores", "2", "--policy", "p-edf"];
    assert_eq!(maracas(&repository(), &check).status.code(), Some(0));
}

#[test]
fn a_deadlock_is_said_and_ends_with_the_run() {
    let scratch = Scratch::new();
    let thread = |a: &str, b: &str| {
        format!(
            "{{ \"run0\": 10, \"lock1\": \"{a}\", \"run1\": 100, \"lock2\": \"{b}\", \"run2\": 1 }}"
        )
    };
    let (x, y) = (thread("a", "b"), thread("b", "a"));
    scratch.write("dead.json", format!("{{ \"tasks\": {{ \"x\": {x}, \"y\": {y} }} }}"));
    let words = ["sim", "--taskset", "dead.json", "--cores", "2", "--policy", "g-edf", "-q"];
    let output = maracas(scratch.path(), &words);
    let out = text(&output.stdout);
    assert!(out.contains("waits for lock a since") && out.contains("waits for lock b since"));
    let said = "every thread that is not done waits for another: nothing goes on";
    assert!(out.contains(said), "{out}");
}

#[test]
fn what_makes_tasks_of_it_refuses_it() {
    let output = maracas(&repository(), &["convert", EXAMPLE, "--to", "csv"]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("takes no fixed time, which a task set cannot say"), "{err}");
}
