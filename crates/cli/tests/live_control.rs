//! A running system is asked and changed: by `maracas vcpu`, and by programs that ask for a VCPU
//! themselves. Other users are refused.
//!
//! Needs a host where budgets are enforced in full (`maracas doctor`), and for the last part root.

mod common;
mod live;

use common::text;
use live::measure::{Steal, widened};
use live::witness::repeated;
use live::{Run, Stage, Task, until};
use maracas_client as client;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// Under this variable this test program plays a client; its value says which.
const PART: &str = "MARACAS_CLIENT";
/// The user `nobody`, which did not start the run.
const OTHER_USER: u32 = 65534;

const SCENARIO: &str = r#"
version = 1
[platform]
cores = 2
[policy]
name = "maracas"
background = "off"
[[program]]
name = "first"
command = ["maracas", "work", "spin"]
output = "null"
budget = "2ms"
period = "10ms"
core = 0
[[program]]
name = "second"
command = ["maracas", "work", "spin"]
output = "null"
budget = "3ms"
period = "10ms"
core = 1
"#;

fn start(stage: &Stage, duration: &str) -> Run {
    stage.scratch.write("control.toml", SCENARIO);
    let run = stage.start(&["control.toml", "--json", "--duration", duration], &[]);
    run.socket();
    // Nothing can be stopped while a program is being started, which takes a slow host long.
    let has_run = |name| listed(&run, name).is_some_and(|it| it["foreground_ns"] != 0);
    until(Duration::from_secs(5), || has_run("first") && has_run("second"));
    run
}

/// `maracas vcpu` with these words, about this run.
fn vcpu(run: &Run, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_maracas"))
        .arg("vcpu")
        .args(words)
        .env("MARACAS_SOCKET", run.socket())
        .output()
        .unwrap()
}

/// The same with `--json`: the exit code and the answer.
fn asked(run: &Run, words: &[&str]) -> (Option<i32>, Value) {
    let output = vcpu(run, &[words, &["--json"]].concat());
    let json = serde_json::from_slice(&output.stdout);
    (output.status.code(), json.unwrap_or_else(|_| Value::String(text(&output.stderr))))
}

/// What `list` says of a VCPU; `None` where it is not there.
fn listed(run: &Run, name: &str) -> Option<Value> {
    let (code, list) = asked(run, &["list"]);
    assert_eq!(code, Some(0), "{list}");
    let vcpus = list["vcpus"].as_array().unwrap();
    vcpus.iter().find(|state| state["name"] == name).cloned()
}

/// The part of a core that a VCPU gets, and by what part of it that may be off for what was stolen:
/// the list has the meters, so that a rate can be taken between two lists.
fn rate_by_the_list(run: &Run, name: &str) -> (f64, f64) {
    thread::sleep(Duration::from_millis(300));
    let used = || (Instant::now(), listed(run, name).unwrap()["foreground_ns"].as_f64());
    let ((begin, first), stolen) = (used(), Steal::now());
    thread::sleep(Duration::from_secs(2));
    let (end, last) = used();
    let within = widened(0.05, &stolen.parts(), &[0]);
    let rate = (last.unwrap() - first.unwrap()) / (end - begin).as_nanos() as f64;
    eprintln!("{name} by the list: {rate:.3} of a core");
    (rate, within)
}

/// Ends a program that this test started.
struct Guest(Child);

impl Guest {
    fn policy_and_group(&self) -> (String, String) {
        let file = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", self.0.id()));
        let stat = file("stat").unwrap_or_default();
        let policy = stat.rsplit(' ').nth(11).unwrap_or_default().to_string();
        (policy, file("cgroup").unwrap_or_default())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_process_gets_a_vcpu_keeps_it_and_goes_back() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 6) else { return };
        let mut run = start(&stage, "6s");
        let spin = Command::new(env!("CARGO_BIN_EXE_maracas"))
            .args(["work", "spin"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let guest = Guest(spin);
        let before = guest.policy_and_group();
        let pid = guest.0.id().to_string();
        let promise = ["--budget", "1ms", "--period", "10ms"];
        let words = [&["create", "--pid", &pid, "--name", "guest", "--core", "0"], &promise[..]];
        let (code, said) = asked(&run, &words.concat());
        assert_eq!((code, &said["admitted"]), (Some(0), &Value::Bool(true)), "{said}");
        let (rate, within) = rate_by_the_list(&run, "guest");
        assert!((rate / 0.1 - 1.0).abs() < within, "{rate}");

        let twice = ["set", "guest", "--budget", "2ms", "--period", "10ms"];
        let (code, said) = asked(&run, &twice);
        assert_eq!((code, &said["admitted"]), (Some(0), &Value::Bool(true)), "{said}");
        assert_eq!(listed(&run, "guest").unwrap()["budget_ns"], 2_000_000);
        assert_eq!(vcpu(&run, &["destroy", "guest"]).status.code(), Some(0));
        assert!(listed(&run, "guest").is_none());
        // It is not ours to kill, and is as it was.
        assert_eq!(guest.policy_and_group(), before);
        let output = vcpu(&run, &["destroy", "gues"]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        let report = run.report();
        report.task("first").got_its_budget();
        report.task("second").got_its_budget();
    });
}

#[test]
fn what_is_not_admitted_comes_back_with_the_numbers() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 2) else { return };
        let mut run = start(&stage, "2s");
        let own = std::process::id().to_string();
        let much = ["--budget", "7ms", "--period", "10ms"];
        let create = [&["create", "--pid", &own, "--core", "0"], &much[..]].concat();
        let set = [&["set", "first"], &["--budget", "9500us", "--period", "10ms"][..]].concat();
        for words in [create, set] {
            let (code, said) = asked(&run, &words);
            assert_eq!(code, Some(1), "{words:?}: {said}");
            assert_eq!(said["admitted"], false);
            let numbers = said["numbers"].as_array().unwrap();
            let failed = numbers.iter().find(|number| number["accepted"] == false);
            let failed = failed.unwrap_or_else(|| panic!("no number says no: {said}"));
            let (value, bound) = (failed["value"].as_u64(), failed["bound"].as_u64());
            assert!(failed["test"].is_string() && value > bound && bound.is_some(), "{failed}");
            eprintln!("refused: {}", said["reason"]);
        }
        // Nothing of it stays, and (C, T) that make no sense are another matter.
        assert_eq!(asked(&run, &["list"]).1["vcpus"].as_array().unwrap().len(), 2);
        let output = vcpu(&run, &["set", "first", "--budget", "3ms", "--period", "2ms"]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        run.report();
    });
}

#[test]
fn a_changed_scenario_comes_into_the_run_whole_or_not_at_all() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 6) else { return };
        let mut run = start(&stage, "6s");
        let reload = |scenario: &str| {
            stage.scratch.write("control.toml", scenario);
            let mut command = Command::new(env!("CARGO_BIN_EXE_maracas"));
            let command = command.arg("reload").arg(stage.file("control.toml"));
            let output = command.env("MARACAS_SOCKET", run.socket()).output().unwrap();
            let said = text(&output.stdout) + &text(&output.stderr);
            (output.status.code(), said)
        };
        let budgets = || {
            let budget = |name| listed(&run, name).unwrap()["budget_ns"].as_u64().unwrap();
            (budget("first"), budget("second"))
        };
        let (code, said) = reload(SCENARIO);
        assert_eq!((code, said.trim()), (Some(0), "nothing to change"));

        let changed = SCENARIO.replace("2ms", "4ms").replace("3ms", "2ms");
        let (code, said) = reload(&changed);
        assert_eq!(code, Some(0), "{said}");
        for line in ["first: 2ms/10ms -> 4ms/10ms", "second: 3ms/10ms -> 2ms/10ms"] {
            assert!(said.lines().any(|said| said == line), "{line}: {said}");
        }
        assert_eq!(budgets(), (4_000_000, 2_000_000));
        // The new budget is 0.4 of a core and the old one 0.2, with no surplus time.
        let (rate, _) = rate_by_the_list(&run, "first");
        assert!(rate > 0.3, "{rate}");

        // Room is made first; it is taken back where what was to have it is refused.
        let (code, said) = reload(&changed.replace("4ms", "9500us").replace("2ms", "1ms"));
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("first: ") && said.contains("; nothing was changed"), "{said}");
        assert_eq!(budgets(), (4_000_000, 2_000_000));

        let more = changed.replace("\"second\"", "\"third\"").replace("4ms", "1ms");
        let (code, said) = reload(&more);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("third is in the file and does not run now"), "{said}");
        assert_eq!(budgets(), (4_000_000, 2_000_000));
        run.report();
    });
}

#[test]
fn another_user_is_refused() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 2) else { return };
        // A path that every user may reach, so that it is the runtime that refuses.
        let binary = stage.file("maracas");
        fs::copy(env!("CARGO_BIN_EXE_maracas"), &binary).unwrap();
        for path in [stage.scratch.path(), &binary] {
            fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let mut run = start(&stage, "2s");
        let own = std::process::id().to_string();
        let promise = ["--budget", "1ms", "--period", "10ms"];
        let create = [&["create", "--pid", &own], &promise[..]].concat();
        for words in [vec!["list"], create, vec!["destroy", "first"]] {
            let output = Command::new(&binary)
                .arg("vcpu")
                .args(&words)
                .env("MARACAS_SOCKET", run.socket())
                .current_dir("/")
                .uid(OTHER_USER)
                .gid(OTHER_USER)
                .output()
                .unwrap();
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{words:?}: {said}");
            eprintln!("{words:?}: {}", said.trim_end());
        }
        assert_eq!(asked(&run, &["list"]).1["vcpus"].as_array().unwrap().len(), 2);
        run.report();
    });
}

#[test]
fn a_program_inside_has_no_say_over_its_neighbours() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 5) else { return };
        let (maracas, said) = (env!("CARGO_BIN_EXE_maracas"), stage.file("said.txt"));
        let script = format!(
            "{maracas} vcpu list; echo list $?; {maracas} vcpu destroy first; echo destroy $?; \
         {maracas} vcpu set second --budget 1ms --period 10ms; echo set $?; \
         {maracas} vcpu create --pid $$ --budget 1ms --period 10ms; echo create $?; \
         exec {maracas} work spin"
        );
        let hostile = format!(
            "[[program]]\nname = \"hostile\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\n\
         output = {:?}\nbudget = \"2ms\"\nperiod = \"10ms\"\ncore = 1\n",
            said.display()
        );
        stage.scratch.write("inside.toml", format!("{SCENARIO}{hostile}"));
        let mut run = stage.start(&["inside.toml", "--json", "--duration", "5s"], &[]);
        let report = run.report();
        report.task("first").got_its_budget();
        let said = fs::read_to_string(said).unwrap();
        for line in ["list 0", "destroy 2", "set 2", "create 2"] {
            assert!(said.lines().any(|said| said == line), "{line}: {said}");
        }
        let refusals = said.matches("a program that was started on vcpu2 may not").count();
        assert_eq!(refusals, 3, "{said}");
    });
}

#[test]
fn a_program_that_asks_for_a_vcpu_gets_its_budget() {
    repeated(|| {
        if let Some(part) = env::var_os(PART) {
            play(&part.to_string_lossy());
            return;
        }
        let Some(stage) = Stage::enter(2, 6) else { return };
        let mut run = start(&stage, "6s");
        for part in ["spin", "jobs"] {
            let output = Command::new(env::current_exe().unwrap())
                .args(["--exact", "a_program_that_asks_for_a_vcpu_gets_its_budget", "--nocapture"])
                .env("MARACAS_SOCKET", run.socket())
                .env(PART, part)
                .output()
                .unwrap();
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{part}: {said}{}", text(&output.stdout));
            eprint!("{said}");
        }
        let report = run.report();
        let tasks = report.tasks();
        let created = |task: &&Task<'_>| !["first", "second"].contains(&task.name());
        let created: Vec<_> = tasks.iter().filter(created).collect();
        assert_eq!(created.len(), 2, "{}", report.0);
        created[0].got_its_budget();
        assert!(created[1].ns("completed") >= 50.0, "{}", report.0);
        // Jobs of a quarter of C; where the host takes the core for longer, one is late all the
        // same.
        let most = created[1].within(0.02) * created[1].ns("completed");
        assert!(created[1].ns("misses") <= most, "{}", report.0);
        report.task("first").got_its_budget();
    });
}

/// The client's side.
fn play(part: &str) {
    let ms = client::Duration::from_millis;
    match part {
        "spin" => {
            let vcpu = client::vcpu_create(ms(2), ms(10), 0).unwrap();
            let (begin, mut looks, mut foreground) = (Instant::now(), 0_u32, 0_u32);
            while begin.elapsed() < Duration::from_secs(2) {
                looks += 1;
                foreground += u32::from(client::mode() == client::Mode::Foreground);
            }
            client::vcpu_destroy().unwrap();
            eprintln!("{vcpu}: {foreground} of {looks} looks in the foreground");
            // Without background it runs on its budget or not at all, but for its last moments
            // before it is stopped.
            assert!(f64::from(foreground) > 0.9 * f64::from(looks));
        }
        "jobs" => {
            client::task_create(ms(2), ms(10), 0).unwrap();
            let mut last = None;
            for _ in 0..60 {
                let job = client::job_wait().unwrap();
                assert!(last.is_none_or(|last| job.id.index > last), "in order");
                last = Some(job.id.index);
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_micros(500) {}
                client::job_done().unwrap();
            }
            client::vcpu_destroy().unwrap();
        }
        other => panic!("no part {other}"),
    }
}
