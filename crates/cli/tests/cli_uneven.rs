//! Cores of uneven speed, and VCPUs without a budget: what is said of them.

mod common;

use common::{
    CHECK_AND_SIM, Edit, Scratch, expect_refusal, expect_refusals, maracas, repository, text,
};
use maracas_core::contract::Event;
use maracas_core::journal::{Reader, Record};

/// Three promises on a fast core and two slow ones.
const PROMISED: &str = r#"version = 1
[[platform.class]]
name = "fast"
cores = 1
speed = 1
[[platform.class]]
name = "slow"
cores = 2
speed = 0.5
[policy]
name = "maracas"
[run]
duration = "1s"
[[program]]
name = "a"
budget = "2ms"
period = "10ms"
class = "slow"
speedup = 1.5
core = 0
workload = { kind = "run-sleep", run = "8ms", sleep = "2ms" }
pace = { fast = "2G", slow = "1G" }
[[program]]
name = "b"
budget = "2ms"
period = "10ms"
core = 1
workload = { kind = "periodic", cost = "1ms" }
[[program]]
name = "c"
budget = "2ms"
period = "10ms"
core = 2
workload = { kind = "periodic", cost = "1ms" }
pace = { fast = "2G", slow = "1.6G" }
"#;

#[test]
fn a_policy_that_looks_at_no_class_says_so() {
    let scratch = Scratch::new();
    scratch.write("s.toml", PROMISED);
    for command in ["check", "sim"] {
        let output = maracas(scratch.path(), &[command, "s.toml"]);
        let (stdout, reported) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{stdout}{reported}");
        let instead = "; drop it, or take acfs, max-fair, max-perf, min-fair or similar-min-fair\n";
        let lines = [
            "maracas: policy maracas looks at no class of cores: a budget is time on whichever \
             core, fast or slow\n"
                .to_string(),
            format!("maracas: a: policy maracas does not keep `class`{instead}"),
            format!("maracas: a: policy maracas does not keep `speedup`{instead}"),
        ];
        for line in lines {
            assert!(reported.contains(&line), "{command}: {line} is not in: {reported}");
        }
    }
    let output = maracas(scratch.path(), &["check", "s.toml"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("core0: a (2ms every 10ms on slow)\n"), "{shown}");
    assert!(shown.contains("core1: b (2ms every 10ms)\n"), "{shown}");
    // Of cores of one class there is nothing to say.
    let class = "[[platform.class]]\nname = \"slow\"\ncores = 2\nspeed = 0.5\n";
    let equal = PROMISED.replacen(class, "", 1).replacen("cores = 1", "cores = 3", 1);
    let equal = equal.replacen("class = \"slow\"\nspeedup = 1.5\n", "", 1);
    scratch.write("s.toml", equal.replace("pace", "# pace"));
    let output = maracas(scratch.path(), &["check", "s.toml"]);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
fn what_a_budget_is_on_another_class_is_said_and_delivered() {
    let scratch = Scratch::new();
    let fast = PROMISED.replace("class = \"slow\"", "class = \"fast\"");
    let fast = fast.replace("\"maracas\"", "\"min-fair\"").replacen("core = 0", "core = 2", 1);
    let busy = "kind = \"run-sleep\", run = \"8ms\", sleep = \"2ms\"";
    scratch.write("s.toml", fast.replace(busy, "kind = \"busy\"").replace("core = 1\n", ""));
    let output = maracas(scratch.path(), &["check", "s.toml"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("a (2ms every 10ms on fast: 4ms here)"), "{shown}");
    // 4 ms of half the speed are the 2 ms that were promised, and no error.
    let output = maracas(scratch.path(), &["sim", "s.toml", "--quiet"]);
    let shown = text(&output.stdout);
    let row = shown.lines().find(|line| line.starts_with("a ")).unwrap();
    let row: Vec<&str> = row.split_whitespace().take(7).collect();
    assert_eq!(row, ["a", "2ms/10ms", "2ms", "0", "0", "0", "400ms"], "{shown}");
}

#[test]
fn policies_are_made_to_call_vcpus_by_name() {
    let scratch = Scratch::new();
    scratch.write("s.toml", PROMISED.replace("core = 1", "core = 0").replace("2ms", "9ms"));
    for (policy, said) in [
        ("p-edf", "  a has no jobs, and this policy"),
        ("min-fair", "  b is refused: b (9ms every 10ms) does not fit on core0, which it demands;"),
    ] {
        let shown = text(&maracas(scratch.path(), &["check", "s.toml", "--policy", policy]).stdout);
        assert!(shown.contains(said), "{shown}");
    }
}

#[test]
fn no_core_more_is_suggested_where_it_would_need_a_class() {
    let scratch = Scratch::new();
    scratch.write(
        "s.toml",
        PROMISED.replace("budget = \"2ms\"", "budget = \"6ms\"").replace("core = 2", "core = 1"),
    );
    let output = maracas(scratch.path(), &["check", "s.toml", "--suggest"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}{}", text(&output.stderr));
    assert!(shown.contains("lower budget") && !shown.contains("raise cores"), "{shown}");
}

#[test]
fn a_program_is_as_fast_as_its_pace_on_the_core_where_it_runs() {
    let scratch = Scratch::new();
    scratch.write("s.toml", PROMISED);
    let words = ["sim", "s.toml", "--until", "1s", "--journal", "j", "--quiet"];
    assert_eq!(maracas(scratch.path(), &words).status.code(), Some(0));
    let journal = std::fs::read(scratch.path().join("j")).unwrap();
    let (_, reader) = Reader::open(&journal).unwrap();
    let (mut service, mut instructions) = ([0_u64; 3], [0_u64; 3]);
    for record in reader {
        if let Record::Event { event: Event::Ran(segment), .. } = record.unwrap() {
            let vcpu = segment.vcpu.0 as usize;
            service[vcpu] += segment.usage.service.ticks();
            instructions[vcpu] += segment.usage.instructions;
        }
    }
    // 2 instructions a nanosecond on the fast core, 1.6 of 2 on a slow one.
    let [a, _, c] = [0, 1, 2].map(|vcpu| instructions[vcpu] as f64 / service[vcpu] as f64);
    assert!((a - 2.0).abs() < 0.001, "{a}");
    assert!((c - 1.6).abs() < 0.001, "{c}");
    // A job of 1 ms takes 1.25 ms there, and twice as long where nothing is said of the pace.
    assert_eq!([service[1], service[2]], [200_000_000, 125_000_000]);
}

#[test]
fn what_is_promised_nothing_stands_by_itself() {
    let file = repository().join("examples/uneven.toml");
    let file = file.to_str().unwrap();
    let scratch = Scratch::new();
    let output = maracas(scratch.path(), &["check", file]);
    let (shown, reported) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{shown}{reported}");
    let line = "  no budget, so that nothing is promised: batch, render, server, browser\n";
    assert!(shown.contains(line), "{shown}");
    let json = maracas(scratch.path(), &["check", file, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["without_budget"], serde_json::json!(["batch", "render", "server", "browser"]));
}

/// A scenario on cores of uneven speed that is fine.
const UNEVEN: &str = r#"version = 1
[[platform.class]]
name = "fast"
cores = 1
speed = 1
[[platform.class]]
name = "slow"
cores = 1
speed = 0.5
[policy]
name = "maracas"
[run]
duration = "50ms"
[[program]]
name = "a"
budget = "2ms"
period = "10ms"
workload = { kind = "busy" }
pace = { fast = "2G", slow = "1G" }
"#;

/// What replaces what in [`UNEVEN`].
const UNEVEN_EDITS: &[Edit] = &[
    ("classes in the wrong order", "speed = 1\n", "speed = 0.25\n", "s.toml:5:9: the first class"),
    ("a class that is not slower", "0.5", "1", "make them one class of 2 cores"),
    ("no speed", "0.5", "0", "`speed` is 0"),
    ("a speed above the first's", "0.5", "2", "`speed` is 2"),
    ("classes of one name", "\"slow\"", "\"fast\"", "s.toml:7:8: two classes"),
    ("other cores", "[policy]", "[platform]\ncores = 3\n[policy]", "the classes have 2 cores"),
    ("a pace without a class", ", slow = \"1G\"", "", "nothing of class slow"),
    ("a pace beyond the speed", "\"1G\"", "\"0.9G\"", "lower the `speed` of slow"),
    ("a pace that rises", "\"1G\"", "\"2.1G\"", "more than 2000000000"),
    ("a pace without its unit", "\"1G\"", "\"1T\"", "use k, M, G, such as"),
    ("a pace by name", "{ fast = \"2G\", slow = \"1G\" }", "\"alu\"", "phenom-ii-x6"),
    ("work without phases", "{ fast", "{ work = \"1s\", fast", "`work` is the length of a phase"),
    ("no phases", "{ fast = \"2G\", slow = \"1G\" }", "[]", "`pace` is empty"),
    ("unknown class", "workload", "class = \"slwo\"\nworkload", "did you mean `slow`?"),
    ("a slowdown", "workload", "speedup = 0.5\nworkload", "it must lie from 1 to 1000"),
    ("a class of nothing", "budget = \"2ms\"\nperiod = \"10ms\"", "class = \"slow\"", "`class`"),
    (
        "jobs without a period",
        "budget = \"2ms\"\nperiod = \"10ms\"\nworkload = { kind = \"busy\"",
        "workload = { kind = \"periodic\", cost = \"1ms\"",
        "s.toml:16:12: such a workload works on jobs",
    ),
    (
        "no budget",
        "budget = \"2ms\"\nperiod = \"10ms\"\n",
        "",
        "s.toml:14:1: a has no budget, and policy maracas gives no time without one; add \
         budget and period, or take acfs",
    ),
];

#[test]
fn bad_uneven_cores() {
    let scratch = Scratch::new();
    scratch.write("s.toml", UNEVEN);
    let output = maracas(scratch.path(), &["sim", "s.toml", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    expect_refusals(UNEVEN, UNEVEN_EDITS, &CHECK_AND_SIM);
    let third = "[[platform.class]]\nname = \"idle\"\ncores = 1\nspeed = 0.1\n[policy]\n";
    let three = UNEVEN.replacen("[policy]\n", third, 1).replacen("pace", "# pace", 1);
    scratch.write("s.toml", three.replacen("maracas", "max-perf", 1));
    let three = maracas(scratch.path(), &["check", "s.toml"]);
    assert!(!text(&three.stderr).contains("works on cores of"), "{}", text(&three.stderr));
    scratch.write("s.toml", UNEVEN);
    let cores = ["sim", "s.toml", "--cores", "4"];
    expect_refusal("--cores", &scratch, &cores, "the classes of [platform] have 2 cores and 4");
    let classes = "[[platform.class]]\nname = \"slow\"\ncores = 1\nspeed = 0.5\n";
    let one = UNEVEN.replacen(classes, "", 1).replacen(", slow = \"1G\"", "", 1);
    scratch.write("s.toml", one);
    let equal = "s.toml: policy min-fair works on cores of 2 classes or more, and these are all \
                 equal; give";
    expect_refusal("--policy", &scratch, &["sim", "s.toml", "--policy", "min-fair"], equal);
    scratch.write("s.csv", "cost_us,period_us\n2000,10000\n");
    let tasks = ["sim", "--taskset", "s.csv", "--cores", "2", "--policy", "max-fair"];
    expect_refusal("tasks", &scratch, &tasks, "write a scenario whose [platform] has so many");
}
