//! `maracas profile`: from a program to a model that the simulator takes. What counts is skipped
//! where the host counts no reads of memory.

#[path = "../../../tests/shared/bounds.rs"]
mod bounds;
mod common;

use bounds::found;
use common::{Scratch, expect_refusal, maracas, text};
use maracas_live::host::hardware::{EventCode, ThisHardware};
use maracas_live::host::platform::Platform;
use maracas_live::host::probe::group_counters;
use maracas_live::sense::VcpuEvents;
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// Whether this host counts what a profile is made of, tried on a group of our own.
fn counts() -> bool {
    static ONCE: OnceLock<Result<String, String>> = OnceLock::new();
    let tried = ONCE.get_or_init(|| {
        let core = *Platform::detect().expect("readable").cores.last().expect("a core");
        // Misses of the last-level cache (`perf_event_open(2)`): type 0, 3.
        let misses = EventCode { unit: 0, config: 3, config1: 0, config2: 0 };
        let events = VcpuEvents { reads: Some(misses), ..VcpuEvents::default() };
        group_counters(&ThisHardware, core, &events).map_err(|error| error.to_string())
    });
    found(tried.as_ref(), "counters of memory reads and cgroup v2").is_some()
}

/// Runs `maracas profile` with these arguments, where the host counts.
fn profile(scratch: &Scratch, arguments: &[&str]) -> Value {
    let output = maracas(scratch.path(), &[&["profile", "--json"], arguments].concat());
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn what_cannot_be_profiled_is_refused_in_a_line() {
    let scratch = Scratch::new();
    let refused = |name, arguments: &[&str], wanted| {
        expect_refusal(name, &scratch, &[&["profile"], arguments].concat(), wanted);
    };
    refused("no program", &["--", "./no-such-program"], "no such program");
    refused(
        "coarse",
        &["--interval", "1s", "--duration", "2s", "--", "maracas"],
        "fewer than three readings",
    );
    let output = ["--output", "no/such/folder.toml", "--", "maracas"];
    refused("no folder", &output, "cannot be written");
}

#[test]
fn a_walk_through_memory_is_distinguished_from_computing_and_predicted() {
    if !counts() {
        return;
    }
    let scratch = Scratch::new();
    let walk = ["--alone", "--duration", "3s", "--interval", "20ms", "--output", "walk.toml", "--"];
    let walk = [&walk[..], &["maracas", "work", "mwalk", "--size", "64MB"]].concat();
    let walk = profile(&scratch, &walk);
    let phase = &walk["phases"][0];
    let rate = number(&phase["references_per_us"]);
    // It writes a word of 64 MB at a time, all over the place.
    assert!(rate > 1.0, "{walk:#}");
    assert!((0.01..=1.0).contains(&number(&phase["miss_ratio"])), "{walk:#}");
    assert!(number(&walk["working_set_bytes"]) > 60e6, "{walk:#}");
    let model = std::fs::read_to_string(scratch.path().join("walk.toml")).expect("it was written");
    assert_eq!(walk["toml"], model);
    // What the model says of the time between references is what was counted.
    if let (Some(latency), Some(outstanding)) =
        (phase["latency_ns"].as_f64(), phase["outstanding"].as_f64())
    {
        let wait = number(&phase["miss_ratio"]) * latency / outstanding;
        let (law, counted) = (number(&phase["think_ns"]) + wait, 1e3 / rate);
        assert!((law / counted - 1.0).abs() < 0.01, "{law} ns, {counted} ns: {walk:#}");
    }
    // Others on the machine may have made phases of it: what stands before them is the first.
    scratch.write("first.toml", model.split("phases = [").next().expect("there is a first"));
    predicted(&scratch, phase);

    let spin =
        ["--alone", "--duration", "3s", "--interval", "20ms", "--", "maracas", "work", "spin"];
    let spin = profile(&scratch, &spin);
    let spinning = spin["phases"].get(0).map_or(0.0, |phase| number(&phase["references_per_us"]));
    assert!(spinning < rate / 10.0, "{spin:#}");
}

/// Holds what the simulator makes of `first.toml` on another platform against the model: as many
/// references as the law allows at that platform's latency and misses, and fewer beside another.
fn predicted(scratch: &Scratch, phase: &Value) {
    let program = |name: &str, core, memory| {
        format!(
            "[[program]]\nname = \"{name}\"\ncore = {core}\nbudget = \"50ms\"\nperiod = \
             \"100ms\"\nworkload = {{ kind = \"busy\" }}\nmemory = \"{memory}\"\n"
        )
    };
    let head = "version = 1\n[platform]\npreset = \"i5-2500k\"\n[policy]\nname = \"maracas\"\n";
    let alone = head.to_string() + &program("walk", 0, "first.toml");
    let beside = alone.clone() + &program("jump", 1, "m_jump");
    let done = |scenario: &str| {
        scratch.write("s.toml", scenario);
        let output = maracas(scratch.path(), &["sim", "s.toml", "--duration", "1s", "--json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let of = |what: &str| {
            let task = &report["tasks"][0];
            number(&task["foreground"][what]) + number(&task["background"][what])
        };
        // In cycles of the preset's 3.3 GHz.
        let latency_ns = number(&report["memory"]["latency_mean_cycles"]) / 3.3;
        (of("references"), of("misses"), latency_ns)
    };
    let (references, misses, latency_ns) = done(&alone);
    let outstanding = phase["outstanding"].as_f64().unwrap_or(1.0);
    let each_ns = number(&phase["think_ns"]) + misses / references * latency_ns / outstanding;
    let law = 1e9 / each_ns;
    assert!((references / law - 1.0).abs() < 0.05, "{references} references, {law} by the law");
    let (slowed, _, latency_beside_ns) = done(&beside);
    assert!(latency_beside_ns > latency_ns, "{latency_beside_ns} beside another, {latency_ns}");
    assert!(slowed < references, "{slowed} beside another, {references} alone");
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// A profile that goes on, with the number of its program's process; `None` after a skip.
fn underway(scratch: &Scratch) -> Option<(Child, i32)> {
    if !counts() {
        return None;
    }
    scratch.write(
        "program.sh",
        "trap '' TERM INT\necho $$ > pid.new\nmv pid.new pid\nwhile :; do :; done\n",
    );
    let mut child = Command::new(env!("CARGO_BIN_EXE_maracas"))
        .args(["profile", "--output", "model.toml", "--duration", "60s", "--"])
        .args(["/bin/sh", "program.sh"])
        .current_dir(scratch.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let pid = scratch.path().join("pid");
    let begun = Instant::now();
    while !pid.exists() && child.try_wait().expect("it is ours").is_none() {
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().expect("it lives");
        }
        thread::sleep(Duration::from_millis(20));
    }
    let pid = std::fs::read_to_string(&pid).expect("the program began");
    Some((child, pid.trim().parse().expect("a number")))
}

/// Whether the process goes away, or at least is no more than a name.
fn goes(pid: i32) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(30) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if !status.contains("program.sh")
            && !status.contains("(sh) R")
            && !status.contains("(sh) S")
        {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn a_killed_profile_leaves_no_program_behind() {
    let scratch = Scratch::new();
    let Some((mut child, pid)) = underway(&scratch) else { return };
    child.kill().expect("it lives");
    child.wait().expect("it ended");
    assert!(goes(pid), "process {pid} lives on");
}

#[test]
fn an_interrupted_profile_ends_its_program_and_leaves_no_file() {
    let scratch = Scratch::new();
    let Some((mut child, pid)) = underway(&scratch) else { return };
    // SAFETY: a plain signal to a child that was not waited for.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
    assert_eq!(child.wait().expect("it ends").code(), Some(2));
    assert!(goes(pid), "process {pid} lives on");
    assert_eq!(scratch.names(), ["pid", "program.sh"]);
}

#[test]
fn a_program_that_is_over_too_soon_or_fails_leaves_no_file() {
    let counted = counts();
    let scratch = Scratch::new();
    for (program, wanted) in
        [("/bin/true", "was on the core for"), ("/bin/false", "ended with code 1")]
    {
        let arguments = ["profile", "--alone", "--output", "m.toml", "--", program];
        let output = maracas(scratch.path(), &arguments);
        assert_eq!(output.status.code(), Some(2));
        let stderr = text(&output.stderr);
        // Where nothing is counted it says that, and leaves as little.
        assert!(!counted || stderr.contains(wanted), "{stderr}");
        assert_eq!(scratch.names(), [] as [&str; 0], "nothing half-done");
    }
}
