//! What `check` says of jobs beside others that use memory is what `sim` shows: for every example
//! and on every platform that is known by name, under every policy for jobs or budgets.

mod common;

use common::{Scratch, maracas, repository, text};
use serde_json::Value;
use std::path::Path;

/// What `check` says of each VCPU's jobs, and which of them `sim` shows to be late.
struct Judged {
    verdict: String,
    answers: Vec<(String, String)>,
    late: Vec<String>,
    jobs: u64,
}

fn json(directory: &Path, words: &[&str]) -> Value {
    let output = maracas(directory, words);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|why| panic!("{words:?}: {why}: {}", text(&output.stderr)))
}

fn judge(directory: &Path, file: &str, policy: &[&str]) -> Option<Judged> {
    let check = [&["check", file][..], policy].concat();
    let checked = json(directory, &[&check[..], &["--json"]].concat());
    if checked["admitted"] == false {
        return None;
    }
    let named = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_string();
    let jobs = checked["jobs"].as_array().cloned().unwrap_or_default();
    let answers = jobs.iter().map(|one| (named(one, "vcpu"), named(one, "answer"))).collect();
    let sim = [&["sim", file, "--json", "--until", "400ms"][..], policy].concat();
    let ran = json(directory, &sim);
    let tasks = ran["tasks"].as_array().expect("a run has tasks");
    let late = tasks.iter().filter(|task| task["misses"].as_u64().unwrap_or(0) > 0);
    Some(Judged {
        verdict: named(&checked, "verdict"),
        answers,
        late: late.map(|task| named(task, "name")).collect(),
        jobs: ran["total"]["jobs"].as_u64().unwrap_or(0),
    })
}

impl Judged {
    /// No VCPU that is late was said to be in time, and where there are any the verdict says so.
    fn holds(&self, of: &str) {
        for name in &self.late {
            let said = self.answers.iter().find(|(vcpu, _)| vcpu == name);
            let said = said.map(|(_, answer)| answer.as_str());
            assert!(
                matches!(said, Some("late" | "may be late" | "unknown")),
                "{of}: {name} {said:?}"
            );
        }
        let late = self.answers.iter().any(|(_, answer)| answer == "late");
        assert_eq!(self.verdict.ends_with("admitted, budgets kept, jobs late"), late, "{of}");
        let certain = self.answers.iter().all(|(_, answer)| answer == "in time");
        assert_eq!(self.verdict == "admitted", certain, "{of}: {}", self.verdict);
    }
}

#[test]
fn every_example_is_judged_with_its_memory() {
    let folder = std::fs::read_dir(repository().join("examples")).unwrap();
    let files = folder.map(|file| file.unwrap().path());
    let mut judged = 0;
    for path in files.filter(|path| path.extension().is_some_and(|end| end == "toml")) {
        let words = std::fs::read_to_string(&path).unwrap();
        // Without memory nothing is said of jobs here.
        if !words.contains("\nmemory = ") {
            continue;
        }
        let file = path.to_str().unwrap();
        judge(&repository(), file, &[]).unwrap_or_else(|| panic!("{file} is refused")).holds(file);
        judged += 1;
    }
    assert!(judged >= 6, "{judged} examples have memory");
}

/// Four programs with jobs, each of which uses a part of its budget.
fn scenario(preset: &str, part_percent: u64, cores: usize) -> String {
    let mut file = format!("version = 1\n[platform]\npreset = \"{preset}\"\n");
    let programs = [("libquantum", 6, 20), ("lbm", 10, 40), ("mwalk", 4, 10), ("canny", 20, 80)];
    for (place, (model, budget, period)) in programs.iter().enumerate() {
        let (core, cost) = (place % cores, budget * 10 * part_percent);
        file += &format!(
            "[[program]]\nname = \"{model}\"\nbudget = \"{budget}ms\"\nperiod = \"{period}ms\"\n\
             core = {core}\nworkload = {{ kind = \"periodic\", cost = \"{cost}us\" }}\n\
             memory = \"{model}\"\n"
        );
    }
    file
}

#[test]
fn every_platform_is_judged_under_every_policy() {
    let scratch = Scratch::new();
    let policies = [
        &["--policy", "maracas"][..],
        &["--policy", "p-rm"],
        &["--policy", "p-edf"],
        &["--policy", "g-edf"],
        &["--policy", "g-edf", "--set", "admission=gfb"],
        &["--policy", "run"],
        &["--policy", "qps"],
        &["--policy", "u-edf"],
        &["--policy", "round-robin"],
        &["--policy", "memguard+p-edf", "--set", "bandwidth=300MB/s", "--set", "reclaim=false"],
    ];
    let (mut late, mut in_time, mut jobs) = (0, 0, 0);
    for preset in maracas_scenario::presets::platforms() {
        let platform = maracas_scenario::presets::platform(preset).unwrap();
        if platform.memory.is_none() || !platform.classes.is_empty() {
            continue;
        }
        for (policy, part) in policies.iter().flat_map(|it| [(it, 12), (it, 100)]) {
            // Policies that bind no VCPU to a core refuse pins.
            let global = ["g-edf", "run", "qps", "u-edf"].contains(&policy[1]);
            let cores = platform.cores.unwrap_or(2).min(4);
            let file = scenario(preset, part, cores);
            let file: String = if global {
                file.lines()
                    .filter(|line| !line.starts_with("core"))
                    .flat_map(|l| [l, "\n"])
                    .collect()
            } else {
                file
            };
            scratch.write("it.toml", &file);
            let of = format!("{preset}, {part} %, {policy:?}");
            let Some(judged) = judge(scratch.path(), "it.toml", policy) else { continue };
            assert_eq!(judged.answers.len(), 4, "{of}: something is left out");
            judged.holds(&of);
            late += judged.late.len();
            in_time += judged.answers.iter().filter(|(_, answer)| answer == "in time").count();
            jobs += judged.jobs;
        }
    }
    assert!(late > 20 && in_time > 20, "{late} late, {in_time} in time, of {jobs} jobs");
}

/// A job that fills its budget alone, beside a program on another core that floods the memory.
const ALONE_IT_FITS: &str = r#"
version = 1
[platform]
preset = "core2-ddr2-800"
[policy]
name = "p-edf"
[[program]]
name = "a"
budget = "8ms"
period = "10ms"
core = 0
workload = { kind = "periodic", cost = "8ms" }
memory = "libquantum"
[[program]]
name = "b"
budget = "8ms"
period = "10ms"
core = 2
workload = { kind = "periodic", cost = "4ms" }
memory = "lbm"
"#;

#[test]
fn a_job_that_cannot_be_done_beside_another_is_said_to_be_late() {
    let scratch = Scratch::new();
    scratch.write("it.toml", ALONE_IT_FITS);
    let output = maracas(scratch.path(), &["check", "it.toml"]);
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    assert!(stdout.contains("a needs at most "), "{stdout}");
    for part in [" beside b, of 8ms promised: ", " x C; its jobs are late, ", " simulated\n"] {
        assert!(stdout.contains(part), "`{part}` is not in {stdout}");
    }
    assert!(stdout.contains(" x the 4ms of its work alone"), "{stdout}");
    assert!(stdout.ends_with("admitted, budgets kept, jobs late\n"), "{stdout}");
}

#[test]
fn what_is_suggested_is_admitted_and_no_job_is_late_in_it() {
    let scratch = Scratch::new();
    let split = "[platform]\npreset = \"i5-2500k\"\n";
    let (mut fitted, mut bound) = (0, 0);
    let policies = [
        ("p-edf", "enforcement = \"precise\"\n"),
        ("maracas", ""),
        ("memguard+maracas", "bandwidth = \"200MB/s\"\nreclaim = false\n"),
    ];
    for seed in 0..16_u64 {
        let (policy, params) = policies[(seed % 3) as usize];
        let mut text = format!("version = 1\n{split}[policy]\nname = \"{policy}\"\n{params}");
        let models = ["libquantum", "lbm", "mwalk", "canny", "hog", "soplex", "mcf", "gcc"];
        for core in 0..4 {
            let model = models[(seed * 5 + core * 3 + seed / 8) as usize % models.len()];
            let cost = 500 + (seed * 7 + core * 11) % 13 * 100 * (1 + seed / 12);
            text += &format!(
                "[[program]]\nname = \"job{core}\"\nbudget = \"{cost}us\" # its work\n\
                 period = \"10ms\"\ncore = {core}\nworkload = {{ kind = \"periodic\", \
                 cost = \"{cost}us\" }}\nmemory = \"{model}\"\n"
            );
        }
        scratch.write("it.toml", &text);
        let first = json(scratch.path(), &["check", "it.toml", "--suggest", "--json"]);
        assert_ne!(first["verdict"], "admitted", "{seed}: nothing slows anything down");
        if let Some(why) = first["fit"]["binds"].as_str() {
            assert!(!why.is_empty(), "{seed}");
            bound += 1;
            continue;
        }
        let changes = first["fit"]["changes"].as_array().expect("it is a fit");
        assert!(!changes.is_empty(), "{seed}");
        scratch.write("fit.toml", first["fit"]["scenario"].as_str().expect("it is whole"));
        let again = json(scratch.path(), &["check", "fit.toml", "--json"]);
        assert_eq!(again["verdict"], "admitted", "{seed}: {changes:?}");
        let ran = json(scratch.path(), &["sim", "fit.toml", "--json", "--until", "300ms"]);
        assert_eq!(ran["total"]["misses"], 0, "{seed}: {changes:?}");
        fitted += 1;
    }
    eprintln!("{fitted} fitted, {bound} bound");
    assert!(fitted >= 10 && bound >= 1, "{fitted} fitted, {bound} bound");
    // For people: the changes in comments, so that all of it is a scenario.
    let short = ALONE_IT_FITS.replace("p-edf", "maracas").replace("8ms", "3ms");
    scratch.write("it.toml", short.replace("\"4ms\"", "\"1ms\""));
    let shown = text(&maracas(scratch.path(), &["check", "it.toml", "--suggest"]).stdout);
    let changes = "# in time with these changes:\n#   a: raise budget from 3ms to ";
    assert!(shown.contains(changes), "{shown}");
}

#[test]
fn limits_on_others_let_a_job_fit_that_is_late_beside_them() {
    let scratch = Scratch::new();
    let example = repository().join("examples/limits.toml");
    let file = example.to_str().unwrap();
    let before = json(scratch.path(), &["check", file, "--suggest", "--json"]);
    assert_eq!(before["verdict"], "admitted, budgets kept, jobs late");
    let late = json(scratch.path(), &["sim", file, "--json"]);
    assert!(late["total"]["misses"].as_u64().unwrap() > 100, "{late}");
    let changes = before["fit"]["changes"].to_string();
    assert!(changes.contains("limits on what each core reads"), "{changes}");
    let fitted = before["fit"]["scenario"].as_str().expect("there is one");
    scratch.write("fit.toml", fitted);
    let after = json(scratch.path(), &["check", "fit.toml", "--json"]);
    assert_eq!(after["verdict"], "admitted", "{changes}");
    let control = after["jobs"].as_array().unwrap().iter().find(|one| one["vcpu"] == "control");
    let control = control.expect("it has jobs");
    assert_eq!(control["within_limits"], true, "{control}");
    assert!(control["needs_ns"].as_u64().unwrap() < 9_000_000, "{control}");
    let ran = json(scratch.path(), &["sim", "fit.toml", "--json"]);
    let (jobs, misses) = (&ran["total"]["jobs"], &ran["total"]["misses"]);
    assert!(jobs.as_u64().unwrap() >= 199 && *misses == 0, "{jobs} jobs, {misses} late");
    // Lent reservations limit others too, less so; spare bandwidth limits nothing.
    let lent = fitted.replace("reclaim = false", "reclaim = true");
    for (text, limited) in [
        (lent, true),
        (fitted.replace("reclaim = false", "reclaim = false\nspare = \"share\""), false),
    ] {
        scratch.write("other.toml", &text);
        let other = json(scratch.path(), &["check", "other.toml", "--json"]);
        let one = other["jobs"].as_array().unwrap().iter().find(|one| one["vcpu"] == "control");
        assert_eq!(one.expect("it has jobs")["within_limits"], limited, "{text}");
    }
    scratch.write("fit.toml", fitted);
    let shown = text(&maracas(scratch.path(), &["check", "fit.toml"]).stdout);
    assert!(shown.contains(" beside flood1, flood2, flood3 within limits, of 9ms"), "{shown}");
}

#[test]
fn a_live_check_judges_jobs_by_the_memory_of_the_file() {
    let scratch = Scratch::new();
    let command = "command = [\"true\"]\nworkload =";
    let file = ALONE_IT_FITS
        .replace("workload =", command)
        .replace("core2-ddr2-800\"", "i5-2500k\"\ncores = 2");
    let file = file.replace("core = 2", "core = 1").replace("p-edf", "maracas");
    scratch.write(
        "live.toml",
        file.replace("8ms", "3ms").replace("memory = \"lbm\"", "memory = \"mine.toml\""),
    );
    let model = "pattern = \"rand\" # not measured\nwritebacks = 0 # not measured\n\
                 working_set = \"64MiB\"\ninstructions = 10\nthink = \"1ns\"\noutstanding = 8\n\
                 reuse = \"stream\"\n";
    scratch.write("mine.toml", model);
    let output = maracas(scratch.path(), &["check", "live.toml", "--machine", "live"]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    if !stdout.contains("core0") {
        // Fewer than two cores, or nothing by which programs could be run.
        eprintln!("skipped: needs a host that can run it: {stderr}");
        return;
    }
    assert!(
        stdout.contains("a needs at most ") && stdout.contains(" beside b, of 3ms"),
        "{stdout}"
    );
    assert!(stderr.contains("jobs are judged by the memory in this file"), "{stderr}");
    let missing = "b: not measured in its model: pattern, writebacks";
    assert!(stderr.contains(missing), "{stderr}");
    scratch.write(
        "live.toml",
        file.replace("8ms", "3ms")
            .lines()
            .filter(|line| !line.starts_with("memory") && !line.starts_with("preset"))
            .flat_map(|line| [line, "\n"])
            .collect::<String>(),
    );
    let output = maracas(scratch.path(), &["check", "live.toml", "--machine", "live"]);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("[platform] has no memory"), "{stderr}");
}
