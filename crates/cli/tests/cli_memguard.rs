//! MemGuard around MARACAS, simulated: what it promises to VCPUs with a budget, what it does not,
//! and what is said of that.

mod common;

use common::{Scratch, maracas, text};
use serde_json::Value;

/// One core, or two, of a platform under MemGuard around MARACAS.
fn scenario(platform: &str, policy: &str, programs: &str) -> String {
    format!(
        "version = 1\n[platform]\n{platform}\n[policy]\nname = \"memguard+maracas\"\n{policy}\n\
         [run]\nduration = \"4s\"\n{programs}"
    )
}

const ONE: &str = "preset = \"ddr3-1333\"\nmhz = 3300\ncores = 1";
const TWO: &str = "preset = \"core2-ddr2-800\"\ncores = 2";

fn program(name: &str, more: &str) -> String {
    format!("[[program]]\nname = \"{name}\"\n{more}\n")
}

/// A program that always reads one bank, a new row each time: what r_min is about.
fn reader(name: &str, core: u32, outstanding: u32, writebacks: u32) -> String {
    program(
        name,
        &format!(
            "budget = \"90ms\"\nperiod = \"100ms\"\ncore = {core}\n\
             workload = {{ kind = \"busy\" }}\n\
             memory = {{ pattern = \"bank1\", instructions = 10, outstanding = {outstanding}, \
             writebacks = {writebacks}, working_set = \"64MiB\" }}"
        ),
    )
}

fn report(text_of: &str) -> Value {
    let scratch = Scratch::new();
    scratch.write("s.toml", text_of);
    let output = maracas(scratch.path(), &["sim", "s.toml", "--json"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    serde_json::from_str(&out).unwrap()
}

fn misses(report: &Value, task: usize) -> u64 {
    report["tasks"][task]["misses"].as_u64().unwrap()
}

/// What a task read, in 1e6 bytes per second.
fn read(report: &Value, task: usize) -> f64 {
    let of = |mode: &str| report["tasks"][task][mode]["misses"].as_u64().unwrap();
    (of("foreground") + of("background")) as f64 * 64.0 / 4e6
}

#[test]
fn what_waits_for_memory_takes_no_more_than_its_budget() {
    // h stops itself 0.7 ms into each period for want of memory. Had it kept its budget it would
    // use it beside the next one, 20 ms in a row.
    let h = "budget = \"10ms\"\nperiod = \"20ms\"\nbandwidth = \"40MB/s\"\n\
             workload = { kind = \"busy\" }\n[program.memory]\npattern = \"rand\"\n\
             instructions = 10\nthink = \"1ns\"\nworking_set = \"1GiB\"\n\
             phases = [{ run = \"1ms\" }, { run = \"19ms\", think = \"1ms\", writebacks = 0 }]";
    let l =
        "budget = \"6ms\"\nperiod = \"21ms\"\nworkload = { kind = \"periodic\", cost = \"6ms\" }";
    let policy = "background = \"off\"\nperiod = \"20ms\"";
    let report = report(&scenario(ONE, policy, &(program("h", h) + &program("l", l))));
    assert!(report["tasks"][1]["jobs"].as_u64().unwrap() > 180);
    assert_eq!(misses(&report, 1), 0);
}

/// f reads nothing and has 0.8 ms in 9.3 to spare; hog reads as much as it may, most of it in
/// surplus time.
fn beside_hog(bandwidth: &str, policy: &str, hog: &str) -> u64 {
    let f = "budget = \"8500us\"\nperiod = \"9300us\"\noffset = \"150us\"\n\
             workload = { kind = \"periodic\", cost = \"8500us\" }";
    let hog = format!(
        "budget = \"10us\"\nperiod = \"100ms\"\n{hog}workload = {{ kind = \"busy\" }}\n\
         memory = {{ pattern = \"seq\", instructions = 10, outstanding = 10, \
         working_set = \"64MiB\" }}"
    );
    let policy = format!("admission = \"rta\"\nbandwidth = \"{bandwidth}\"\n{policy}");
    misses(&report(&scenario(ONE, &policy, &(program("f", f) + &program("hog", &hog)))), 0)
}

#[test]
fn surplus_time_closes_no_core_to_the_foreground() {
    assert!(beside_hog("200MB/s", "", "") > 40, "a known loss where nothing is kept");
    assert_eq!(beside_hog("200MB/s", "foreground = \"64kB/s\"", ""), 0);
}

#[test]
fn the_foreground_closes_a_core_unless_a_limit_of_its_own_stops_what_reads() {
    let off = "background = \"off\"";
    let late = beside_hog("10MB/s", off, "");
    assert!(late > 0, "a known loss: admission counts time alone");
    assert_eq!(beside_hog("10MB/s", off, "bandwidth = \"9MB/s\"\n"), 0);
}

#[test]
fn a_least_bandwidth_is_given_where_every_core_is_limited_hard_and_only_reads() {
    let policy = "r_min = \"1GB/s\"\nbandwidth = \"500MB/s\"\nreservation = \"hard\"";
    let both = |writebacks| reader("a", 0, 10, 0) + &reader("b", 1, 10, writebacks);
    let reads = report(&scenario(TWO, policy, &both(0)));
    assert!((read(&reads, 0) - 500.0).abs() < 0.5, "{}", read(&reads, 0));

    // Known losses: write-backs are not counted, and soft neighbours donate by prediction.
    let writes = read(&report(&scenario(TWO, policy, &both(1))), 0);
    assert!(writes < 400.0, "{writes}");
    let beside = |kind: &str| {
        let bursts = |name: &str, core: u32, sleep: u32| {
            let busy = reader(name, core, 10, 0);
            let often =
                format!("{{ kind = \"run-sleep\", run = \"250us\", sleep = \"{sleep}us\" }}");
            busy.replace("{ kind = \"busy\" }", &often)
        };
        let policy = format!(
            "r_min = \"1GB/s\"\nbandwidth = \"450MB/s, 250MB/s, 50MB/s, 250MB/s\"\n\
             reservation = \"hard, {kind}, {kind}, {kind}\"\npredictor = \"last\""
        );
        let platform = TWO.replace("cores = 2", "cores = 4");
        let programs = reader("a", 0, 1, 0)
            + &bursts("b", 1, 1500)
            + &reader("c", 2, 10, 0)
            + &bursts("d", 3, 1513);
        read(&report(&scenario(&platform, &policy, &programs)), 0)
    };
    let (soft, hard) = (beside("soft"), beside("hard"));
    assert!(soft < 0.8 * hard, "{soft} beside soft cores, {hard} beside hard ones");
}

#[test]
fn spare_bandwidth_is_none_while_a_core_without_limit_is_busy() {
    let policy = "bandwidth = \"none, 200MB/s\"\nspare = \"share\"";
    let programs = reader("a", 0, 10, 0) + &reader("b", 1, 10, 0);
    let beside = read(&report(&scenario(TWO, policy, &programs)), 1);
    assert!((beside - 200.0).abs() < 0.5, "{beside}");
    let alone = read(&report(&scenario(TWO, policy, &reader("b", 1, 10, 0))), 0);
    assert!(alone > 300.0, "{alone}");
}

#[test]
fn costs_and_pages_that_the_policy_is_not_given_are_refused() {
    let costs = "[overheads]\nlock = \"6us\"\nstructure = \"11us\"\npage_copy = \"3us\"\n\
                 sample = \"60us\"\n";
    let walk = "budget = \"20ms\"\nperiod = \"100ms\"\nworkload = { kind = \"busy\" }\n\
                memory = { model = \"mwalk\", working_set = \"4MiB\" }";
    let platform = "preset = \"i5-2500k\"\ncores = 2\ncolors = [16, 16]";
    let reported = [
        ("throttle = \"latency\"", "`monitor_budget` is 50us, but `sample` in [overheads] is 60us"),
        ("monitor_budget = \"60us\"", "`lock_cost` is 5us, but `lock` in [overheads] is 6us"),
        ("lock_cost = \"6us\"", "`struct_cost` is 10us, but `structure` in [overheads] is 11us"),
        ("struct_cost = \"11us\"", "`page_cost` is 2us, but `page_copy` in [overheads] is 3us"),
        ("page_cost = \"3us\"", "`pages_max` is 512, but walk has 1024 pages (4 MiB) that move"),
    ];
    let scratch = Scratch::new();
    let mut policy = "balance = \"vlb\"\n".to_string();
    for (param, why) in reported {
        policy += param;
        policy.push('\n');
        let programs = program("walk", walk) + costs;
        scratch.write("s.toml", scenario(platform, &policy, &programs).replace("memguard+", ""));
        for command in ["check", "sim"] {
            let output = maracas(scratch.path(), &[command, "s.toml"]);
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert_eq!((output.status.code(), out.as_str()), (Some(2), ""), "{err}");
            assert!(
                err.contains(why) && err.contains("raise") && err.lines().count() == 1,
                "{err}"
            );
        }
    }
    // Given, pinned, or never moved, it is fine.
    for (param, core) in [("pages_max = 1024", ""), ("", "core = 0\n"), ("balance", "")] {
        let policy =
            if param == "balance" { policy.replace("vlb", "static") } else { policy.clone() };
        let param = if param == "balance" { "" } else { param };
        let programs = program("walk", &format!("{core}{walk}")) + costs;
        let file = scenario(platform, &format!("{policy}{param}"), &programs);
        scratch.write("s.toml", file.replace("memguard+", ""));
        let output = maracas(scratch.path(), &["check", "s.toml"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

#[test]
fn counters_without_memory_are_reported_in_one_line() {
    let busy = program("a", "budget = \"1ms\"\nperiod = \"9ms\"\nworkload = { kind = \"busy\" }");
    let scratch = Scratch::new();
    let guarded = scenario("cores = 1", "", &busy);
    let watched = guarded.replace("memguard+maracas\"", "maracas\"\nthrottle = \"latency\"");
    let plain = guarded.replace("memguard+", "");
    for (file, lines) in [(&guarded, 1), (&watched, 1), (&plain, 0)] {
        scratch.write("s.toml", file);
        for command in ["check", "sim"] {
            let output = maracas(scratch.path(), &[command, "s.toml"]);
            let err = text(&output.stderr);
            let notes = err.lines().filter(|line| line.contains("the scenario has no memory"));
            assert_eq!((output.status.code(), notes.count()), (Some(0), lines), "{err}");
        }
    }
}
