//! Task sets drawn on the command line, and what the other commands do with them.

mod common;

use common::{Scratch, maracas, text};
use maracas_scenario::taskset::TaskSet;
use std::path::Path;

fn drawn(directory: &Path, arguments: &str) -> String {
    let words: Vec<&str> = ["generate"].into_iter().chain(arguments.split(' ')).collect();
    let output = maracas(directory, &words);
    assert_eq!(output.status.code(), Some(0), "{arguments}: {}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout)
}

fn refused(directory: &Path, arguments: &str) -> String {
    let words: Vec<&str> = ["generate"].into_iter().chain(arguments.split(' ')).collect();
    let output = maracas(directory, &words);
    let reported = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments}: {reported}");
    assert_eq!((reported.lines().count(), text(&output.stdout).as_str()), (1, ""), "{reported}");
    reported
}

#[test]
fn a_set_says_how_it_was_drawn_and_is_drawn_again_from_that() {
    let scratch = Scratch::new();
    let arguments = "--cores 4 --tasks 20 --utilization 90% --seed 7 --offsets";
    let set = drawn(scratch.path(), arguments);
    let head: Vec<&str> = set.lines().take(3).collect();
    let recipe =
        "# recipe total=3.6 tasks=20 loads=randfixedsum periods=harmonic grain=1ms offsets";
    assert_eq!(head, ["# maracas generator version 1", recipe, "# seed 7"]);
    assert_eq!(drawn(scratch.path(), arguments), set);
    assert_ne!(drawn(scratch.path(), &arguments.replace("seed 7", "seed 8")), set);
    assert_eq!(drawn(scratch.path(), &arguments.replace("90%", "3.6")), set);
    drawn(scratch.path(), &format!("{arguments} -o set.csv"));
    assert_eq!(std::fs::read_to_string(scratch.path().join("set.csv")).unwrap(), set);
    let read = TaskSet::parse(&set, "set.csv").unwrap();
    let recipe: maracas_scenario::generate::Recipe = read.origin[1][7..].parse().unwrap();
    assert_eq!(recipe.draw(7).unwrap(), read);
}

#[test]
fn what_was_drawn_is_simulated() {
    let scratch = Scratch::new();
    drawn(scratch.path(), "--cores 2 --tasks 7 --utilization 100% --periods short -o full.csv");
    let sim = |policy: &str| {
        let words = ["sim", "--taskset", "full.csv", "--cores", "2", "--policy", policy];
        let output =
            maracas(scratch.path(), &[&words[..], &["--duration", "1s", "--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    // Two whole cores, in whole nanoseconds: nothing is idle and nothing late.
    for policy in ["run", "qps"] {
        let report = sim(policy);
        assert_eq!(report["total"]["misses"], 0, "{policy}: {}", report["total"]);
        assert_eq!(report["total"]["foreground_ns"], 2_000_000_000_u64, "{policy}");
    }
}

#[test]
fn several_sets_fill_a_new_directory() {
    let scratch = Scratch::new();
    let arguments = "--cores 8 --utilization 75% --loads medium --count 3 --seed 9";
    drawn(scratch.path(), &format!("{arguments} -o sets"));
    let directory = scratch.path().join("sets");
    let names = ["set-09.csv", "set-10.csv", "set-11.csv"];
    for (name, seed) in names.iter().zip(9..) {
        let set = std::fs::read_to_string(directory.join(name)).unwrap();
        let alone = format!("--cores 8 --utilization 75% --loads medium --seed {seed}");
        assert_eq!(drawn(scratch.path(), &alone), set);
    }
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 3);
    let reported = refused(scratch.path(), &format!("{arguments} -o sets"));
    assert!(reported.contains("sets: is not empty; name a new directory"), "{reported}");
    let reported = refused(scratch.path(), &format!("{arguments} -o sets/set-09.csv"));
    assert!(reported.contains("name a directory"), "{reported}");
    std::fs::create_dir(scratch.path().join("empty")).unwrap();
    drawn(scratch.path(), &format!("{arguments} -o empty"));
    assert_eq!(scratch.names(), ["empty", "sets"]);
}

#[test]
fn refusals_leave_nothing() {
    let scratch = Scratch::new();
    for (arguments, says) in [
        ("--cores 4 --tasks 9", "--utilization <U>"),
        ("--cores 0 --tasks 9 --utilization 90%", "0 is not in 1..=1024"),
        ("--cores 4 --tasks 9 --utilization 110%", "asks for 4.4 cores of 4; lower it"),
        ("--cores 4 --tasks 9 --utilization much", "--utilization: `much` is no number"),
        ("--cores 4 --tasks 3 --utilization 90%", "reach a total of 3, below 3.6"),
        ("--cores 4 --utilization 90%", "randfixedsum needs the number of tasks"),
        ("--cores 16 --tasks 20 --utilization 95% --loads uunifast", "take randfixedsum"),
        ("--cores 4 --tasks 9 --utilization 90% --loads lihgt", "did you mean `light`?"),
        ("--cores 4 --tasks 9 --utilization 90% --periods 20ms", "unknown periods `20ms`"),
        ("--cores 4 --tasks 9 --utilization 90% --count 3", "--out <FILE|DIR>"),
        ("--cores 4 --tasks 9 --utilization 90% --grain 10ms", "25ms is no multiple"),
        ("--cores 4 --tasks 9 --utilization 90% -o no/such/set.csv", "cannot be written"),
        ("--cores 4 --tasks 9 --utilization 90% --count 2 -o no/such", "cannot be written"),
        ("--cores 4 --tasks 3 --utilization 90% --count 2 -o sets", "below 3.6"),
    ] {
        let reported = refused(scratch.path(), arguments);
        assert!(reported.contains(says), "{arguments}\n{reported}");
        assert!(reported.len() < 400, "{reported}");
    }
    assert!(scratch.names().is_empty(), "{:?}", scratch.names());
}
