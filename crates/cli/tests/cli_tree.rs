//! `maracas tree`: what it prints for the worked examples, and what it refuses.

mod common;

use common::{Scratch, maracas, text};
use serde_json::Value;

/// A task set of such (C, T) in milliseconds.
fn csv(tasks: &[(u64, u64)]) -> String {
    let rows: String =
        tasks.iter().map(|(c, t)| format!("{},{}\n", c * 1_000, t * 1_000)).collect();
    format!("cost_us,period_us\n{rows}")
}

fn tree(tasks: &[(u64, u64)], policy: &str, cores: &str, more: &[&str]) -> (Option<i32>, String) {
    let scratch = Scratch::new();
    scratch.write("t.csv", csv(tasks));
    let mut words = vec!["tree", "--taskset", "t.csv", "--cores", cores, "--policy", policy];
    words.extend(more);
    let output = maracas(scratch.path(), &words);
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// Vector A3.
#[test]
fn the_reduction_tree_of_a3() {
    let expected = "\
t.csv: 5 tasks on 3 cores under run, packing = ffd
                                     level  rate
core0 to core2: reduced 2 times
unit server                              2  1             1.000000
├ dual of                                2  3/5           0.600000
│ server                                 1  2/5           0.400000
│ └ dual of                              1  2/5           0.400000
│   server                               0  3/5           0.600000
│   └ task5  3ms every 5ms                  3/5           0.600000
├ dual of                                2  1/5           0.200000
│ server                                 1  4/5           0.800000
│ ├ dual of                              1  2/5           0.400000
│ │ server                               0  3/5           0.600000
│ │ └ task1  3ms every 5ms                  3/5           0.600000
│ └ dual of                              1  2/5           0.400000
│   server                               0  3/5           0.600000
│   └ task2  3ms every 5ms                  3/5           0.600000
└ dual of                                2  1/5           0.200000
  server                                 1  4/5           0.800000
  ├ dual of                              1  2/5           0.400000
  │ server                               0  3/5           0.600000
  │ └ task3  3ms every 5ms                  3/5           0.600000
  └ dual of                              1  2/5           0.400000
    server                               0  3/5           0.600000
    └ task4  3ms every 5ms                  3/5           0.600000
levels 2, subsystems 1, partitioned cores 0, cores used 3 of 3, idle 0
";
    assert_eq!(tree(&[(3, 5); 5], "run", "3", &[]), (Some(0), expected.into()));
}

/// Vector B2.
#[test]
fn the_processor_hierarchy_of_b2() {
    let expected = "\
t.csv: 4 tasks on 3 cores under qps, packing = ffd
                                     level  rate
core0 to core2: a hierarchy of 2 levels
set of core2                             2  1             1.000000
├ task3  3ms every 4ms                      3/4           0.750000
└ master of                              2  1/4           0.250000
  set of core1                           1  5/4           1.250000  x = 1/4
  ├ task2  3ms every 4ms                    3/4           0.750000
  └ master of                            1  1/2           0.500000
    set of core0                         0  3/2           1.500000  x = 1/2
    ├ task1  3ms every 4ms                  3/4           0.750000
    └ task4  3ms every 4ms                  3/4           0.750000
levels 2, subsystems 1, partitioned cores 0, cores used 3 of 3, idle 0
";
    assert_eq!(tree(&[(3, 4); 4], "qps", "3", &[]), (Some(0), expected.into()));
}

#[test]
fn parameters_idle_time_and_empty_cores_show() {
    let (code, page) = tree(&[(1, 2), (1, 3)], "run", "4", &["--set", "packing=bfd"]);
    assert_eq!(code, Some(0), "{page}");
    assert!(page.contains("packing = bfd"), "{page}");
    assert!(page.contains("unit server                              0  1"), "{page}");
    assert!(page.contains("idle 1/6") && page.contains("core1 to core3: empty"), "{page}");
}

#[test]
fn a_hundred_tasks_and_seven_levels_fit_eighty_columns() {
    let many: Vec<_> = (0..100).map(|task| (8 + task % 17, 100)).collect();
    let deep: Vec<_> = std::iter::repeat_n((9, 10), 48).chain([(8, 10); 6]).collect();
    for (tasks, cores) in [(&many, "16"), (&deep, "48")] {
        for policy in ["run", "qps"] {
            let (code, page) = tree(tasks, policy, cores, &[]);
            assert_eq!(code, Some(0), "{page}");
            let rows = page.lines().filter(|line| line.contains("  0.") || line.contains("  1."));
            let widest = rows.map(|line| line.chars().count()).max();
            assert!(widest <= Some(80), "{widest:?}\n{page}");
            for task in 1..=tasks.len() {
                assert_eq!(
                    page.matches(&format!(" task{task}  ")).count(),
                    1,
                    "task{task}\n{page}"
                );
            }
        }
    }
}

#[test]
fn json_says_the_same() {
    let (code, json) = tree(&[(3, 4); 4], "qps", "3", &["--json"]);
    assert_eq!(code, Some(0), "{json}");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["levels"], &json["idle"]), (&2.into(), &"0".into()));
    let root = &json["subsystems"][0]["root"];
    assert_eq!((&root["kind"], &root["core"]), (&"set".into(), &2.into()));
    let master = &root["children"][1];
    assert_eq!((&master["kind"], &master["rate"]), (&"master".into(), &"1/4".into()));
    assert_eq!(master["children"][0]["rate"], "5/4");
}

#[test]
fn a_picture_is_written_whole() {
    let scratch = Scratch::new();
    scratch.write("t.csv", csv(&[(3, 5); 5]));
    let words = ["tree", "--taskset", "t.csv", "--cores", "3", "--policy", "run", "--svg"];
    let output = maracas(scratch.path(), &[&words[..], &["t.svg"]].concat());
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), String::new()));
    let svg = std::fs::read_to_string(scratch.path().join("t.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");
    assert_eq!(svg.matches("class=\"round\"").count(), 8 + 1, "8 duals and the legend");
    let output = maracas(scratch.path(), &[&words[..], &["t.csv"]].concat());
    assert_eq!(output.status.code(), Some(2), "the task set would be overwritten");
}

#[test]
fn refusals_are_verdicts_and_other_policies_are_named() {
    let (code, verdict) = tree(&[(3, 4); 4], "run", "2", &[]);
    assert_eq!(code, Some(1), "{verdict}");
    assert!(verdict.contains("capacity") && verdict.ends_with("refused\n"), "{verdict}");
    let (code, line) = tree(&[(3, 4); 4], "g-edf", "3", &[]);
    assert_eq!(code, Some(2));
    assert_eq!(line, "maracas: g-edf has no tree; these have: qps, run\n");
}

/// A scenario names its policy itself.
#[test]
fn a_scenario_has_a_tree_too() {
    let scratch = Scratch::new();
    let program = |name: &str| {
        format!(
            "[[program]]\nname = \"{name}\"\nbudget = \"2ms\"\nperiod = \"3ms\"\n\
             workload = {{ kind = \"periodic\", cost = \"2ms\" }}\n"
        )
    };
    let head = "version = 1\n[platform]\ncores = 2\n[policy]\nname = \"run\"\n";
    let programs: String = ["left", "middle", "right"].map(program).concat();
    scratch.write("s.toml", format!("{head}{programs}"));
    let output = maracas(scratch.path(), &["tree", "s.toml"]);
    let page = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{page}{}", text(&output.stderr));
    for name in ["left", "middle", "right"] {
        assert!(page.contains(&format!("└ {name}  2ms every 3ms")), "{page}");
    }
    assert!(page.contains("reduced once"), "{page}");
}
