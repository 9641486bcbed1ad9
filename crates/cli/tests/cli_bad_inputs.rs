//! Bad input of every kind: exit code 2, exactly one line on standard error that names the thing,
//! nothing on standard output, and no file left behind.

mod common;
#[path = "../../../tests/shared/records.rs"]
mod records;

use common::{CHECK_AND_SIM, Edit, Scratch, expect_refusal, expect_refusals, maracas, text};
use records::{FIRST, payload_at, record_end};

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
workload = { kind = "busy" }
"#;

/// A task set that is fine.
const TASKS: &str = "cost_us,period_us\n2000,10000\n3000,12000\n";

/// What replaces what in [`GOOD`].
const EDITS: &[Edit] = &[
    ("malformed TOML", "[platform]", "[platform", "s.toml:2:"),
    ("unclosed string", "\"a\"", "\"a", "s.toml:9:"),
    ("a key twice", "cores = 1", "cores = 1\ncores = 2", "s.toml:4:"),
    ("no version", "version = 1\n", "", "version"),
    ("unknown version", "version = 1", "version = 99", "99"),
    ("negative budget", "budget = \"2ms\"", "budget = \"-2ms\"", "-2ms"),
    ("zero budget", "budget = \"2ms\"", "budget = \"0ms\"", "budget"),
    ("overflowing budget", "\"2ms\"", "\"99999999999999999999s\"", "too long"),
    ("budget without unit", "\"2ms\"", "\"2\"", "unit"),
    ("budget with a wrong unit", "\"2ms\"", "\"2 parsecs\"", "unit"),
    ("budget as a number", "\"2ms\"", "2", "budget"),
    ("budget finer than a nanosecond", "\"2ms\"", "\"0.5ns\"", "nanosecond"),
    ("budget with two points", "\"2ms\"", "\"1.2.3ms\"", "malformed"),
    ("no budget", "budget = \"2ms\"\n", "", "budget"),
    ("negative period", "\"10ms\"", "\"-10ms\"", "-10ms"),
    ("zero period", "\"10ms\"", "\"0ms\"", "period"),
    ("overflowing period", "\"10ms\"", "\"18446744073709551616ns\"", "too long"),
    ("no period", "period = \"10ms\"\n", "", "period"),
    ("budget above period", "\"2ms\"", "\"20ms\"", "20ms"),
    ("deadline above period", "\"10ms\"\n", "\"10ms\"\ndeadline = \"11ms\"\n", "11ms"),
    ("deadline below budget", "\"10ms\"\n", "\"10ms\"\ndeadline = \"1ms\"\n", "1ms"),
    ("unknown key", "budget = ", "budgte = ", "`budget`"),
    ("unknown table", "[platform]", "[platfrom]", "`platform`"),
    ("unknown policy", "\"maracas\"", "\"maraca\"", "\"maracas\""),
    ("unknown parameter", "\"maracas\"\n", "\"maracas\"\nbackgroud = \"fair\"\n", "backgroud"),
    ("bad parameter", "\"maracas\"\n", "\"maracas\"\nbackground = \"fairer\"\n", "one of"),
    ("zero cores", "cores = 1", "cores = 0", "0"),
    ("too many cores", "cores = 1", "cores = 2000", "2000"),
    ("negative cores", "cores = 1", "cores = -1", "-1"),
    ("zero duration", "\"50ms\"", "\"0s\"", "duration"),
    ("pinned beyond the cores", "\"10ms\"\n", "\"10ms\"\ncore = 3\n", "core"),
    ("unknown workload", "\"busy\"", "\"bussy\"", "`busy`"),
    ("unknown VCPU", "budget = \"2ms\"\nperiod = \"10ms\"", "vcpu = \"b\"", "b"),
    ("empty name", "\"a\"", "\"\"", "name"),
    ("empty command", "workload = ", "command = []\nworkload = ", "command"),
    ("stop before start", "workload = ", "start = \"20ms\"\nstop = \"10ms\"\nworkload = ", "10ms"),
    ("negative seed", "[run]", "[run]\nseed = -1", "seed"),
    ("no program", "[[program]]", "[[programs]]", "program"),
];

/// The same on [`GOOD`] with the memory of the paper's machine.
const MEMORY_EDITS: &[Edit] = &[
    ("unknown preset", "i5-2500k", "i5-2400", "i5-2500k"),
    ("colours beyond the cache", "2500k\"\n", "2500k\"\ncolors = [8, 8, 8, 9]\n", "33"),
    ("ways beyond the cache", "2500k\"\n", "2500k\"\nways = [4, 4, 4, 1]\n", "13"),
    ("colours and ways", "2500k\"\n", "2500k\"\nways = [1]\ncolors = [1]\n", "both"),
    ("colours of other cores", "2500k\"\n", "2500k\"\ncolors = [8, 8]\n", "there are 4"),
    ("a size without its power", "[policy]", "[platform.cache]\nsize = \"6MB\"\n[policy]", "MiB"),
    ("zero timing", "[policy]", "[platform.dram]\ntck = \"0ns\"\n[policy]", "above zero"),
    ("zero clocks", "[policy]", "[platform.dram]\ntrp = 0\n[policy]", "`trp` is 0"),
    ("nothing but refresh", "[policy]", "[platform.dram]\ntrefi = 9\n[policy]", "`trfc`"),
    ("unknown model", "\"m_jump\"", "\"m_jmp\"", "`m_jump`"),
    ("unknown pattern", "\"m_jump\"", "{ pattern = \"zig\" }", "bankp"),
    ("hits in no time", "\"m_jump\"", "{ model = \"hog\", think = \"0ns\" }", "think"),
    ("negative delay", "\"m_jump\"", "{ model = \"hog\", delay = \"-1ns\" }", "-1ns"),
    ("not a number", "\"m_jump\"", "{ model = \"hog\", outstanding = nan }", "nan"),
    ("an empty phase", "\"m_jump\"", "{ model = \"hog\", phases = [{ run = \"0s\" }] }", "run"),
    ("a rising curve", "\"m_jump\"", "{ curve = [[\"1KiB\", 0.1], [\"2KiB\", 1]] }", "rise"),
    ("a need beyond the cache", "memory = ", "colors = 33\nmemory = ", "33"),
    ("bandwidth without unit", "memory = ", "bandwidth = \"200\"\nmemory = ", "unit"),
    ("unknown criticality", "memory = ", "criticality = \"mid\"\nmemory = ", "\"mid\""),
    ("device without bandwidth", "[run]", "[[device]]\nname = \"d\"\n[run]", "bandwidth"),
    ("memguard around nothing", "\"maracas\"", "\"memguard\"", "memguard+maracas"),
    ("memguard around no policy", "\"maracas\"", "\"memguard+maraca\"", "\"memguard+maracas\""),
    (
        "an empty list",
        "\"maracas\"",
        "\"memguard+maracas\"\nbandwidth = []",
        "`bandwidth` is an empty list",
    ),
    (
        "a bandwidth in a list without unit",
        "\"maracas\"",
        "\"memguard+maracas\"\nbandwidth = [\"1GB/s\", \"2\"]",
        "unit",
    ),
    ("unknown way to throttle", "\"maracas\"", "\"maracas\"\nthrottle = \"on\"", "latency"),
    ("negative cost", "[run]", "[overheads]\nlock = \"-1us\"\n[run]", "-1us"),
    ("a fraction of nothing", "\"maracas\"", "\"maracas\"\nidle_mem = \"1/0\"", "s.toml:6:12: "),
    ("not a parameter", "\"maracas\"", "\"maracas\"\nidle_me = 1", "did you mean \"idle_mem\"?"),
    ("a burst of seven", "[policy]", "[platform.dram]\nburst = 7\n[policy]", "power of two"),
    (
        "a device with a program's name",
        "[run]",
        "[[device]]\nname = \"a\"\npattern = \"seq\"\n\
      bandwidth = \"1GB/s\"\n[run]",
        "`a` is taken",
    ),
    (
        "a device beyond the bus",
        "[run]",
        "[[device]]\nname = \"d\"\npattern = \"seq\"\n\
      bandwidth = \"90GB/s\"\n[run]",
        "s.toml:9:13: device d asks for 90000MB/s and would read ",
    ),
];

/// Values that each stand alone and that the policy cannot work with: its parameters, and where
/// the line points.
const COMBINATIONS: &[(&str, &str)] = &[
    ("maracas\"\nthrottle = \"rate", "s.toml:6:12: policy maracas: `throttle` = rate needs"),
    ("maracas\"\nthrottle = \"watch\"\nidle_mem = \"3/2", "s.toml:7:12: "),
    ("maracas\"\nthrottle = \"watch\"\nmem_period = \"0s", "s.toml:7:14: "),
    ("maracas\"\nbackground_slice = \"0s", "s.toml:6:20: "),
    ("maracas\"\nrecolor = \"low", "s.toml:6:11: "),
    ("round-robin\"\nquantum = \"0s", "s.toml:6:11: "),
    ("memguard+maracas\"\nbandwidth = \"1MB/s, 2MB/s", "s.toml:6:13: "),
    (
        "memguard+maracas\"\nr_min = \"1GB/s\"\nbandwidth = \"1MB/s\"\nweights = \"1",
        "s.toml:7:13: ",
    ),
    ("memguard+maracas\"\nweights = \"1", "s.toml:6:11: "),
    ("memguard+maracas\"\nperiod = \"0s", "s.toml:6:10: "),
];

#[test]
fn parameters_that_cannot_work_are_bad_input_and_no_refusal() {
    let good = GOOD.replacen("cores = 1", "preset = \"i5-2500k\"", 1) + "memory = \"m_jump\"\n";
    let scratch = Scratch::new();
    for (params, place) in COMBINATIONS {
        scratch.write("s.toml", good.replacen("maracas", params, 1));
        for command in ["check", "sim", "colors"] {
            expect_refusal(params, &scratch, &[command, "s.toml"], place);
        }
    }
    scratch.write("s.toml", &good);
    let set = ["check", "s.toml", "--set", "throttle=watch", "--set", "idle_mem=3/2"];
    expect_refusal("--set", &scratch, &set, "--set: `idle_mem` is 3/2");
    let over = ["check", "s.toml", "--policy", "memguard+p-rm", "--set", "q_min=0"];
    expect_refusal("out of range", &scratch, &over, "--set: `q_min` is 0, must lie between");
    // What admission says no to stays an answer.
    let much = "memguard+p-rm\"\nr_min = \"1GB/s\"\nbandwidth = \"1GB/s";
    let jobs = "period = \"10ms\"\njobs = \"periodic\"";
    let much = good.replacen("maracas", much, 1).replacen("period = \"10ms\"", jobs, 1);
    scratch.write(
        "s.toml",
        much.replacen("kind = \"busy\"", "kind = \"periodic\", cost = \"1ms\"", 1),
    );
    let output = maracas(scratch.path(), &["check", "s.toml"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}{}", text(&output.stderr));
    assert!(shown.ends_with("refused\n"), "{shown}");
}

#[test]
fn near_names_are_offered_for_unknown_ones_only() {
    let scratch = Scratch::new();
    scratch.write("s.toml", GOOD);
    let said = |set: &str| {
        let output = maracas(scratch.path(), &["check", "s.toml", "--set", set]);
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    assert!(!said("max_latency=0").contains("did you mean"));
    assert!(!said("idle_mem=1/0").contains("did you mean"));
    assert!(said("max_latenci=1").contains("did you mean \"max_latency\"?"));
    let far = said("zzzzzzzz=1");
    assert!(far.contains("`maracas policies maracas` lists all") && far.len() < 160, "{far}");
}

#[test]
fn the_good_scenario_is_good() {
    let scratch = Scratch::new();
    scratch.write("s.toml", GOOD);
    for arguments in [&["check", "s.toml"][..], &["sim", "s.toml", "--quiet"]] {
        let output = maracas(scratch.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

#[test]
fn bad_scenarios() {
    expect_refusals(GOOD, EDITS, &CHECK_AND_SIM);
    assert!(EDITS.len() >= 38);
}

#[test]
fn bad_memory_systems() {
    let good = GOOD.replacen("cores = 1", "preset = \"i5-2500k\"", 1) + "memory = \"m_jump\"\n";
    let scratch = Scratch::new();
    scratch.write("s.toml", &good);
    let output = maracas(scratch.path(), &["sim", "s.toml", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let [check, sim] = CHECK_AND_SIM;
    expect_refusals(&good, MEMORY_EDITS, &[check, sim, &["colors", "s.toml"]]);
    scratch.write("s.toml", GOOD);
    expect_refusal("no memory to split", &scratch, &["colors", "s.toml"], "no memory");
    let bare = good.replacen("i5-2500k", "ddr3-1333", 1);
    scratch.write("s.toml", bare.replacen("preset", "cores = 2\npreset", 1));
    expect_refusal("no cache to split", &scratch, &["colors", "s.toml"], "[platform.cache]");
    let few = ["colors", "s.toml", "--ways"];
    let cache = "[platform.cache]\nsize = \"1MiB\"\nways = 2\n[policy]";
    scratch.write("s.toml", good.replacen("[policy]", cache, 1).replacen("slices", "", 1));
    expect_refusal("more cores than ways", &scratch, &few, "4 cores");
}

#[test]
fn bad_mixes() {
    let good = "[platform]\npreset = \"p4080\"\n[[requestor]]\npattern = \"jump\"\n";
    let scratch = Scratch::new();
    scratch.write("m.toml", good);
    assert_eq!(maracas(scratch.path(), &["memory", "m.toml"]).status.code(), Some(0));
    for (name, from, to, wanted) in [
        ("unknown preset", "p4080", "p40", "p4080"),
        ("unknown pattern", "\"jump\"", "\"jmp\"", "`jump`"),
        ("no pattern", "pattern = \"jump\"", "", "pattern"),
        ("no memory", "preset = \"p4080\"", "cores = 2", "[platform]"),
        ("no requestor", "[[requestor]]\npattern = \"jump\"\n", "", "[[requestor]]"),
        ("negative think", "\"jump\"", "\"jump\"\nthink = \"-1ns\"", "-1ns"),
        ("zero outstanding", "\"jump\"", "\"jump\"\noutstanding = 0", "0.001"),
        ("not a number", "\"jump\"", "\"jump\"\nwritebacks = nan", "nan"),
        ("malformed TOML", "[platform]", "[platform", "m.toml:1:"),
    ] {
        scratch.write("m.toml", good.replacen(from, to, 1));
        expect_refusal(name, &scratch, &["memory", "m.toml"], wanted);
        expect_refusal(name, &scratch, &["memory", "m.toml", "--json"], wanted);
    }
    expect_refusal("missing file", &scratch, &["memory", "no.toml"], "no.toml");
    expect_refusal("missing file", &scratch, &["memory", "--json", "no.json"], "no.json");
    for (name, json, wanted) in [
        ("malformed JSON", "{", "not valid JSON"),
        ("NaN", "{\"W\": NaN}", "not valid JSON"),
        ("a field is missing", "{\"preset\": \"p4080\"}", "requestors"),
        ("a list in a list", "[[]]", "[0] must be an object"),
        ("unknown preset", "{\"preset\": \"p40\", \"requestors\": []}", "p4080"),
    ] {
        scratch.write("m.json", json);
        expect_refusal(name, &scratch, &["memory", "--json", "m.json"], wanted);
    }
    expect_refusal("JSON as TOML", &scratch, &["memory", "m.json"], "with --json");
    expect_refusal("JSON as TOML", &scratch, &["memory", "-"], "with --json");
    scratch.write("m.json", "{\"preset\": \"p4080\", \"preset\": \"ddr3-1333\"}");
    let twice = ["memory", "--json", "m.json"];
    expect_refusal("a key twice", &scratch, &twice, "\"preset\" stands twice");
    scratch.write("m.json", vec![b'['; 1 << 20]);
    expect_refusal("too deep", &scratch, &["memory", "--json", "m.json"], "recursion");
}

#[test]
fn duplicate_names() {
    let scratch = Scratch::new();
    let program = &GOOD[GOOD.find("[[program]]").unwrap()..];
    scratch.write("s.toml", format!("{GOOD}{program}"));
    expect_refusal("duplicate names", &scratch, &["check", "s.toml"], "s.toml:14:");
}

/// What is wrong, the arguments, and what the one line must say.
const COMMAND_LINES: &[(&str, &[&str], &str)] = &[
    ("no command", &[], "--help"),
    ("unknown command", &["chek", "s.toml"], "'check'"),
    ("unknown option", &["sim", "s.toml", "--util", "1s"], "--until"),
    ("no file", &["check"], "<FILE>"),
    ("a task set as scenario", &["check", "t.csv"], "--taskset"),
    ("a task set as scenario", &["sim", "t.csv"], "--taskset"),
    ("a task set as scenario", &["run", "t.csv"], "--taskset"),
    ("a task set as scenario", &["gantt", "t.csv"], "--taskset"),
    ("a task set live", &["check", "--taskset", "t.csv", "--machine", "live"], "simulated"),
    ("missing file", &["check", "nowhere.toml"], "nowhere.toml"),
    ("a directory", &["check", "."], "."),
    ("not text", &["check", "binary"], "UTF-8"),
    ("unknown policy", &["sim", "s.toml", "--policy", "p-edff"], "\"p-edf\""),
    ("unknown policy to explain", &["policies", "g-edff"], "\"g-edf\""),
    ("parameter without value", &["sim", "s.toml", "--set", "background"], "name=value"),
    ("unknown parameter", &["sim", "s.toml", "--set", "backgroud=fair"], "\"background\""),
    ("bad parameter", &["sim", "s.toml", "--set", "background=fairer"], "one of"),
    ("zero cores", &["sim", "s.toml", "--cores", "0"], "0 cores"),
    ("negative cores", &["sim", "s.toml", "--cores=-1"], "-1"),
    ("bad duration", &["sim", "s.toml", "--until", "10"], "unit"),
    ("zero duration", &["sim", "s.toml", "--until", "0s"], "longer"),
    ("bad seed", &["sim", "s.toml", "--seed", "x"], "x"),
    ("bad lateness", &["sim", "s.toml", "--late", "often"], "often"),
    ("unwritable journal", &["sim", "s.toml", "--journal", "no/such/j"], "no/such/j"),
    ("unwritable trace", &["sim", "s.toml", "--trace", "no/such/t"], "no/such/t"),
    ("unwritable SVG", &["gantt", "s.toml", "--svg", "no/such/x.svg"], "no/such/x.svg"),
    ("unwritable BTF", &["sim", "s.toml", "--trace", "no/such/t.btf"], "no/such/t.btf"),
    ("standard output as trace", &["sim", "s.toml", "--trace", "-"], "./-"),
    ("a directory as journal", &["sim", "s.toml", "--journal", "."], "directory"),
    ("one file twice", &["sim", "s.toml", "--journal", "x", "--trace", "x"], "two"),
    ("one file as trace, too", &["sim", "s.toml", "--journal", "x.st", "--trace", "x.st"], "two"),
    ("one file by two paths", &["sim", "s.toml", "--journal", "x", "--trace", "./x"], "two"),
    ("the journal is a list", &["sim", "s.toml", "--journal", "jobs.csv", "--csv", "."], "two"),
    ("journal over scenario", &["sim", "s.toml", "--journal", "s.toml"], "scenario itself"),
    ("trace over scenario", &["sim", "s.toml", "--trace", "./s.toml"], "scenario itself"),
    ("a hard link", &["sim", "s.toml", "--journal", "hard.toml"], "scenario itself"),
    ("a symbolic link", &["sim", "s.toml", "--journal", "soft.toml"], "scenario itself"),
    ("live journal over scenario", &["run", "l.toml", "--journal", "l.toml"], "itself"),
    ("picture over scenario", &["gantt", "s.toml", "--svg", "s.toml"], "scenario itself"),
    ("page over scenario", &["report", "s.toml", "-o", "s.toml"], "scenario itself"),
    ("unwritable page", &["report", "s.toml", "-o", "no/such/x"], "no/such/x"),
    ("a page without a name", &["report", "s.toml"], "--output"),
    ("list over task set", LIST_OVER_TASK_SET, "task set itself"),
    ("lists below nothing", &["sim", "s.toml", "--csv", "no/such"], "no/such"),
    ("a missing live program", &["check", "p.toml", "--machine", "live"], "no-such-program"),
    ("nothing to change", &["vcpu", "set", "a"], "--budget"),
    ("no such run", &["vcpu", "list", "--run", "1"], "process 1"),
    ("an option of another", &["sim", "s.toml", "--svg", "x"], "--svg"),
    ("an empty span", &["gantt", "s.toml", "--from", "2s", "--to", "1s"], "after"),
    ("neither file nor task set", &["sim"], "--taskset"),
    ("file and task set", &["sim", "s.toml", "--taskset", "t.csv"], "--taskset"),
    ("task set without policy", &["sim", "--taskset", "t.csv", "--cores", "1"], "--policy"),
    ("task set without cores", &["sim", "--taskset", "t.csv", "--policy", "p-edf"], "--cores"),
    ("bad machine", &["check", "s.toml", "--machine", "moon"], "moon"),
    ("too many live cores", &["check", "s.toml", "--machine", "live", "--cores", "128"], "128"),
    ("no journal", &["replay", "s.toml"], "not a maracas journal"),
    ("missing journal", &["replay", "nowhere"], "nowhere"),
    ("bad size", &["work", "hog", "--size", "2 miles"], "MB"),
    ("no threads", &["work", "spin", "--threads", "0"], "0"),
    ("zero report", &["work", "spin", "--report", "0s"], "longer"),
    ("program without command", &["run", "s.toml"], "command"),
    ("missing program", &["run", "p.toml"], "no-such-program"),
    ("unwritable live journal", &["run", "l.toml", "--journal", "no/such/j"], "no/such/j"),
    ("bad requirement", &["run", "l.toml", "--require", "most"], "most"),
    ("negative duration", &["run", "l.toml", "--duration=-5s"], "-5s"),
    ("budget above period", &vcpu("20ms", "10ms"), "20ms"),
    ("tiny period", &vcpu("1us", "2us"), "2us"),
    ("nothing to run on it", &["vcpu", "create", "--budget", "1ms", "--period", "10ms"], "--pid"),
    ("no seconds", &["bench", "enforce", "--seconds", "0"], "0"),
    ("unknown shell", &["completions", "dos"], "dos"),
    ("no directory for pages", &["man", "no/such"], "make the directory"),
];

#[test]
fn bad_command_lines() {
    let scratch = Scratch::new();
    scratch.write("s.toml", GOOD);
    let with_command = |program: &str| {
        GOOD.replace("workload = ", &format!("command = [\"{program}\"]\nworkload = "))
    };
    scratch.write("p.toml", with_command("no-such-program"));
    scratch.write("l.toml", with_command("true"));
    scratch.write("t.csv", TASKS);
    std::fs::create_dir(scratch.path().join("in")).unwrap();
    scratch.write("in/jobs.csv", TASKS);
    std::fs::hard_link(scratch.path().join("s.toml"), scratch.path().join("hard.toml")).unwrap();
    std::os::unix::fs::symlink("s.toml", scratch.path().join("soft.toml")).unwrap();
    scratch.write("binary", [0xff, 0xfe, 0x00]);
    for (name, arguments, wanted) in COMMAND_LINES {
        expect_refusal(name, &scratch, arguments, wanted);
    }
    assert_eq!(std::fs::read_to_string(scratch.path().join("s.toml")).unwrap(), GOOD);
    assert_eq!(std::fs::read_to_string(scratch.path().join("in/jobs.csv")).unwrap(), TASKS);
}

/// A simulation whose task set stands where a list would.
const LIST_OVER_TASK_SET: &[&str] =
    &["sim", "--taskset", "in/jobs.csv", "--policy", "p-edf", "--cores", "1", "--csv", "in"];

/// Beyond the end of a journal there is nothing to draw.
#[test]
fn beyond_the_end_of_a_journal() {
    let scratch = Scratch::new();
    scratch.write("s.toml", GOOD);
    let output = maracas(scratch.path(), &["sim", "s.toml", "--journal", "j", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    expect_refusal("beyond the end", &scratch, &["gantt", "j", "--from", "1s"], "ends at 50ms");
}

/// The directory for lists is made, and stays away where nothing is written into it.
#[test]
fn the_directory_for_lists() {
    let scratch = Scratch::new();
    scratch.write("s.toml", GOOD);
    scratch.write("bad.toml", GOOD.replace("2ms", "10ms").replace("[[program]]", TWICE));
    let refused = maracas(scratch.path(), &["sim", "bad.toml", "--csv", "lists"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    assert!(!scratch.path().join("lists").exists());
    let output = maracas(scratch.path(), &["sim", "s.toml", "--csv", "lists", "--duration", "9ms"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for name in ["lists/jobs.csv", "lists/pieces.csv"] {
        assert!(scratch.path().join(name).is_file(), "{name}");
    }
}

/// A second program that leaves no room for the first.
const TWICE: &str = "[[program]]\nname = \"b\"\nbudget = \"9ms\"\nperiod = \"10ms\"\n\
                     workload = { kind = \"busy\" }\n[[program]]";

/// A command line that asks for a VCPU.
const fn vcpu<'a>(budget: &'a str, period: &'a str) -> [&'a str; 8] {
    ["vcpu", "create", "--budget", budget, "--period", period, "--pid", "1"]
}

#[test]
fn no_run_to_talk_to() {
    let scratch = Scratch::new();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_maracas"))
        .args(["vcpu", "list"])
        .env("MARACAS_SOCKET", scratch.path().join("nowhere.sock"))
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with("maracas: ") && stderr.contains("nowhere.sock"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn bad_task_sets() {
    let cases = [
        ("empty", "", "empty"),
        ("no header", "2000,10000\n", "header"),
        ("no tasks", "cost_us,period_us\n", "no tasks"),
        ("unknown column", "cost_us,perid_us\n1,2\n", "`period_us`"),
        ("missing column", "cost_us\n1\n", "period_us"),
        ("not a number", "cost_us,period_us\nx,10\n", "x"),
        ("negative cost", "cost_us,period_us\n-1,10\n", "-1"),
        ("zero cost", "cost_us,period_us\n0,10\n", "zero"),
        ("cost above period", "cost_us,period_us\n11,10\n", "11"),
        ("too few values", "cost_us,period_us\n11\n", "2 columns"),
        ("overflow", "cost_us,period_us\n1,99999999999999999999\n", "long"),
    ];
    for (name, content, wanted) in cases {
        let scratch = Scratch::new();
        scratch.write("t.csv", content);
        let arguments =
            ["sim", "--taskset", "t.csv", "--cores", "1", "--policy", "p-edf", "--journal", "j"];
        expect_refusal(name, &scratch, &arguments, wanted);
    }
}

#[test]
fn bad_journals() {
    let scratch = Scratch::new();
    scratch.write("s.toml", GOOD);
    let output = maracas(scratch.path(), &["sim", "s.toml", "--journal", "j", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let good = std::fs::read(scratch.path().join("j")).unwrap();

    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x40;
    scratch.write("j", &flipped);
    expect_refusal("flipped byte", &scratch, &["replay", "j"], "byte ");

    // Read from its begin it looks as if it were cut there: fewer than 127 bytes follow.
    let mut lengthened = good.clone();
    lengthened[record_from(&good, good.len() - 120)] = 127;
    scratch.write("j", &lengthened);
    for command in [&["replay", "j"][..], &["gantt", "j"], &["report", "j", "-o", "page.html"]] {
        expect_refusal("damaged length", &scratch, command, "truncated");
        // Without its end, too: whole records follow.
        scratch.write("cut", &lengthened[..good.len() - 3]);
        let command: Vec<_> =
            command.iter().map(|word| if *word == "j" { "cut" } else { word }).collect();
        expect_refusal("damaged length and cut", &scratch, &command, "truncated");
    }

    // Magic, length of the header (one or two bytes), then the format version: raised by one, with
    // the header's checksum made to fit.
    scratch.write("j", with_next_version(&good));
    expect_refusal("other version", &scratch, &["replay", "j"], "version");

    scratch.write("j", &good[..8]);
    expect_refusal("magic alone", &scratch, &["replay", "j"], "truncated");
    scratch.write("j", "");
    expect_refusal("empty journal", &scratch, &["replay", "j"], "not a maracas journal");
}

/// What can be done with the journal of a killed run; that its exit codes and lines are these.
#[test]
fn a_journal_without_its_end_is_read_as_far_as_it_goes() {
    let scratch = Scratch::new();
    scratch.write("s.toml", GOOD);
    let output = maracas(scratch.path(), &["sim", "s.toml", "--journal", "j", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let good = std::fs::read(scratch.path().join("j")).unwrap();
    let cut = record_from(&good, good.len() / 2);
    scratch.write("j", &good[..cut + 3]);
    let run = |words: &[&str], code| {
        let output = maracas(scratch.path(), words);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{words:?}: {stdout}{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{words:?}: {stderr}");
        let said = format!("maracas: j: has no end: read up to byte {cut} (");
        assert!(stderr.starts_with(&said), "{words:?}: {stderr}");
        assert!(stderr.contains(", 3 bytes of a record"), "{words:?}: {stderr}");
        stdout
    };
    let replayed = run(&["replay", "j", "--trace", "t"], 1);
    assert!(replayed.starts_with("exact up to the cut at "), "{replayed}");
    assert!(replayed.ends_with("; the journal has no end\n"), "{replayed}");
    assert!(std::fs::metadata(scratch.path().join("t")).unwrap().len() > 0);
    let json: serde_json::Value =
        serde_json::from_str(&run(&["replay", "j", "--json"], 1)).unwrap();
    assert_eq!((&json["exact"], &json["difference"]), (&false.into(), &serde_json::Value::Null));
    assert_eq!((&json["cut"]["byte"], &json["cut"]["left_out_bytes"]), (&cut.into(), &3.into()));
    assert_eq!(json["cut"]["at_ns"], json["end_ns"]);
    let (records, events) = (json["records"].as_u64().unwrap(), json["events"].as_u64().unwrap());
    assert!(records >= events + json["decisions"].as_u64().unwrap() && events > 0, "{json}");
    assert!(run(&["gantt", "j", "--width", "80"], 0).contains('a'));
    assert_eq!(run(&["report", "j", "-o", "page.html"], 0), "");
    assert!(scratch.path().join("page.html").is_file());
    // The file is what it was.
    assert_eq!(std::fs::read(scratch.path().join("j")).unwrap(), good[..cut + 3]);
}

/// Where the first record at `from` or behind begins, with its length.
fn record_from(journal: &[u8], from: usize) -> usize {
    let mut at = FIRST;
    while at < from {
        at = record_end(journal, at);
    }
    at
}

/// The journal with the next format version, every checksum right.
fn with_next_version(journal: &[u8]) -> Vec<u8> {
    let mut journal = journal.to_vec();
    let (at, length) = payload_at(&journal, FIRST);
    journal[at] += 1;
    // The lower 32 bits are kept.
    let sum = maracas_core::fnv1a(0, &journal[at..at + length]);
    journal[at + length..at + length + 4].copy_from_slice(&(sum as u32).to_le_bytes());
    journal
}
