//! What a scenario asks of a host's memory and a live run cannot do, or leaves aside: refused in
//! one line at its place, or said. Nothing is run here, so no rights are needed.

mod common;

use common::{Scratch, expect_refusal, maracas, text};

/// A scenario that is fine.
const GOOD: &str = r#"version = 1
[platform]
cores = 1
[policy]
name = "maracas"
[run]
duration = "50ms"
[[program]]
name = "a"
budget = "2ms"
period = "10ms"
command = ["true"]
workload = { kind = "busy" }
"#;

/// What a live run could not keep, on a host without counters as on any: `--sense off`.
#[test]
fn promises_about_memory_that_a_live_run_cannot_keep() {
    let scratch = Scratch::new();
    let expect = |words: &[&str], wanted: &str| {
        let run = [&["run", "s.toml", "--journal", "j"], words].concat();
        expect_refusal("run", &scratch, &run, wanted);
        let check = [&["check", "s.toml", "--machine", "live"], words].concat();
        expect_refusal("check", &scratch, &check, wanted);
    };
    let guarded = "name = \"memguard+maracas\"\nbandwidth = \"1GB/s\"";
    scratch.write("s.toml", GOOD.replacen("name = \"maracas\"", guarded, 1));
    let core = "s.toml:5:8: policy memguard+maracas holds cores to a bandwidth";
    expect(&["--sense", "off"], core);
    expect(
        &["--sense", "off"],
        "(sense = off); take maracas, play a recording with --sense replay",
    );
    let with = |more: &str, program: &str| {
        let guarded = GOOD.replacen("name = \"maracas\"", "name = \"memguard+maracas\"", 1);
        let more = format!("{more}[policy]");
        scratch.write("s.toml", guarded.replacen("[policy]", &more, 1) + program);
    };
    with("", "bandwidth = \"1GB/s\"\n");
    expect(&["--sense", "off"], "s.toml:14:13: a: reads of memory are not counted VCPU by VCPU");
    scratch.write("r.csv", "time_us,requests,occupancy,core0\n100,1,1,1\n");
    expect(&["--sense", "replay:r.csv"], "(a recording does not have them)");
    with("preset = \"i5-2500k\"\ncolors = [8]\n", "colors = 4\n");
    expect(&[], "s.toml:16:10: a needs 4 colours of the cache, which a live run leaves whole");
    expect(&[], "[live] cache = \"colors\", or drop `colors`");
}

#[test]
fn sensors_that_there_are_not() {
    let scratch = Scratch::new();
    let with = |sense: &str| {
        let live = format!("[live]\nsense = \"{sense}\"\n[run]");
        scratch.write("s.toml", GOOD.replacen("[run]", &live, 1));
    };
    let run = ["run", "s.toml", "--journal", "j"];
    let check = ["check", "s.toml", "--machine", "live"];
    for (name, sense, wanted) in [
        ("unknown", "imc", "s.toml:7:9: `sense` cannot be \"imc\""),
        ("missing recording", "replay:no.csv", "s.toml:7:9: no.csv"),
        ("a directory", "replay:.", "s.toml:7:9: "),
        ("no recording", "replay:s.toml", "s.toml:7:9: s.toml, line 1: "),
        ("recorded on more cores", "replay:two.csv", "recorded on 2 cores, but this run manages 1"),
        ("recorded on fewer cores", "replay:none.csv", "recorded on 0 cores"),
        ("an empty recording", "replay:empty.csv", "has no rows"),
    ] {
        scratch.write("two.csv", "time_us,requests,occupancy,core0,core1\n1,1,1,1,1\n");
        scratch.write("none.csv", "time_us,requests,occupancy\n1,1,1\n");
        scratch.write("empty.csv", "time_us,requests,occupancy,core0\n");
        with(sense);
        expect_refusal(name, &scratch, &run, wanted);
        expect_refusal(name, &scratch, &check, wanted);
    }
    // Beside the scenario, wherever maracas is started.
    std::fs::create_dir(scratch.path().join("deeper")).unwrap();
    with("replay:../gone.csv");
    std::fs::rename(scratch.path().join("s.toml"), scratch.path().join("deeper/s.toml")).unwrap();
    let deeper = ["run", "deeper/s.toml"];
    expect_refusal("beside", &scratch, &deeper, "deeper/s.toml:7:9: deeper/../gone.csv: ");
    scratch.write("s.toml", GOOD);
    let asked = |word| ["run", "s.toml", "--sense", word];
    expect_refusal("unknown", &scratch, &asked("imc"), "no sensor \"imc\"; take auto, off, ");
    expect_refusal("no file", &scratch, &asked("replay:"), "replays no file; name one");
    expect_refusal("missing", &scratch, &asked("replay:no.csv"), "--sense: no.csv");
    let full = ["run", "s.toml", "--set", "throttle=watch", "--sense", "off", "--require", "full"];
    expect_refusal("full", &scratch, &full, "--require full: memory is not sampled (sense = off)");
}

/// What splits the cache or slows cores down, where this host has it and where not.
#[test]
fn actuators_that_a_host_may_lack() {
    let scratch = Scratch::new();
    let with = |platform: &str, live: &str| {
        let live = format!("preset = \"i5-2500k\"\n{platform}[live]\n{live}\n[policy]");
        scratch.write("s.toml", GOOD.replacen("[policy]", &live, 1));
    };
    let check = ["check", "s.toml", "--machine", "live"];
    let reported = || {
        let output = maracas(scratch.path(), &check);
        (output.status.code(), text(&output.stderr))
    };
    for (platform, live, place) in
        [("ways = [6]\n", "cache = \"ways\"", "7:9"), ("", "throttle_by = \"mba\"", "6:15")]
    {
        with(platform, live);
        if std::path::Path::new("/sys/fs/resctrl").exists() {
            assert_eq!(reported().0, Some(0), "{live}");
            continue;
        }
        let wanted = format!("s.toml:{place}: ");
        expect_refusal(live, &scratch, &check, &wanted);
        expect_refusal(live, &scratch, &check, "resource control (resctrl), which this kernel");
        expect_refusal(live, &scratch, &["run", "s.toml", "--journal", "j"], &wanted);
    }
    with("colors = [8]\n", "cache = \"colors\"");
    let (code, said) = reported();
    let wanted = if code == Some(0) {
        "[platform] splits by 32 colours; this host's: "
    } else {
        "s.toml:7:9: no program's pages can have colours here: "
    };
    assert!(said.contains(wanted), "{code:?}: {said}");
}

/// What the live machine does without, and says so.
#[test]
fn what_a_live_run_leaves_aside() {
    let scratch = Scratch::new();
    let platform = "preset = \"i5-2500k\"\ncolors = [8]\n[policy]";
    let program = "criticality = \"low\"\nworkload = ";
    let good = GOOD.replacen("[policy]", platform, 1).replacen("workload = ", program, 1);
    scratch.write("s.toml", &good);
    let reported = |words: &[&str]| {
        let words = [&["check", "s.toml", "--machine", "live", "--sense", "off"], words].concat();
        let output = maracas(scratch.path(), &words);
        let reported = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{reported}");
        reported
    };
    let said = reported(&[]);
    for part in ["leaves aside", "the criticality of a", "memory, its split by colours too"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("sampled"), "no samples were asked for: {said}");
    let said = reported(&["--set", "throttle=latency"]);
    assert!(said.contains("is not sampled (sense = off): no core is ever throttled"), "{said}");
    assert!(said.contains("memory but its clock of 3300 MHz"), "{said}");
    // As in simulation.
    scratch.write("s.toml", good + "bandwidth = \"1GB/s\"\n");
    let said = reported(&[]);
    assert!(said.contains("policy maracas does not keep `bandwidth`; take memguard"), "{said}");
}
