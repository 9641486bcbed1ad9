//! Live runs through the command line. Where the host lacks the rights, the test says so and ends.

mod common;

use common::{Scratch, maracas, repository, text};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Two runs on the same cores would take each other's budgets: one live test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why live runs cannot be tested here, if so.
fn skipped() -> bool {
    let output = maracas(&repository(), &["doctor", "--json"]);
    let json: Option<serde_json::Value> = serde_json::from_slice(&output.stdout).ok();
    let rung = json.as_ref().and_then(|json| json["rung"].as_str()).unwrap_or("no answer");
    let full = rung.starts_with("full");
    if !full {
        eprintln!("skipped: needs a host where live runs are fully enforced; here: {rung}");
    }
    !full
}

/// Waits while another run manages the cores; whether they are free now.
fn cores_are_free() -> bool {
    let scratch = Scratch::new();
    scratch.write("probe.toml", PROBE);
    for _ in 0..60 {
        let output = maracas(scratch.path(), &["run", "probe.toml", "--quiet"]);
        let stderr = text(&output.stderr);
        if !stderr.contains("managed by another run") {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    eprintln!("skipped: another run manages the cores for half a minute");
    false
}

/// A run that is over at once and uses all cores of the quickstart.
const PROBE: &str = r#"version = 1
[platform]
cores = 2
[run]
duration = "10ms"
[[program]]
name = "probe"
command = ["true"]
budget = "1ms"
period = "10ms"
"#;

#[test]
fn quickstart_runs_live_and_its_journal_replays() {
    let _alone = alone();
    if skipped() || !cores_are_free() {
        return;
    }
    let scratch = Scratch::new();
    let file = repository().join("examples/quickstart.toml");
    let file = file.to_str().unwrap();
    let words = ["run", file, "--duration", "3s", "--json", "--journal", "j", "--trace", "t"];
    let output = maracas(scratch.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["machine"], "live");
    assert!(json["host"].as_str().is_some_and(|host| host.contains("Linux")));
    assert_eq!(json["lost_records"], 0);
    for task in json["tasks"].as_array().unwrap() {
        let (name, budget) = (&task["name"], task["budget_ns"].as_f64().unwrap());
        let mean = task["delivered"]["mean_ns"].as_f64().unwrap();
        let median = task["delivered"]["error_p50_ns"].as_f64().unwrap();
        eprintln!("{name}: mean {mean} of {budget} ns, median error {median} ns");
        // Live notes, section 11.9: mean and median are the host-proof figures.
        assert!((mean / budget - 1.0).abs() < 0.005, "{name}: mean {mean} of {budget}");
        assert!(median < 30_000.0, "{name}: median error {median} ns");
    }
    let output = maracas(scratch.path(), &["replay", "j"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(std::fs::metadata(scratch.path().join("t")).unwrap().len() > 10_000);
    assert_eq!(scratch.names(), ["j", "t"]);
}

#[test]
fn a_running_system_is_asked_and_changed() {
    use std::process::{Command, Stdio};
    let _alone = alone();
    if skipped() || !cores_are_free() {
        return;
    }
    let scratch = Scratch::new();
    let file = repository().join("examples/quickstart.toml");
    let run = Command::new(env!("CARGO_BIN_EXE_maracas"))
        .args(["run", file.to_str().unwrap(), "--duration", "4s", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let socket = find_socket(run.id());
    let ask = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_maracas"))
            .args(words)
            .current_dir(scratch.path())
            .env("MARACAS_SOCKET", &socket)
            .output()
            .unwrap();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, list) = ask(&["vcpu", "list"]);
    assert!(code == Some(0) && list.contains("control"), "{list}");
    let (code, said) = ask(&["vcpu", "set", "control", "--budget", "1ms", "--period", "10ms"]);
    assert!(code == Some(0) && said.starts_with("admitted"), "{said}");
    let (code, said) = ask(&["vcpu", "set", "control", "--budget", "9.9ms", "--period", "10ms"]);
    assert!(code == Some(1) && said.starts_with("refused"), "{said}");
    let (code, said) = ask(&["vcpu", "set", "controll", "--budget", "1ms", "--period", "10ms"]);
    assert!(code == Some(2) && said.contains("\"control\""), "{said}");
    let (code, said) = ask(&["vcpu", "destroy", "logger"]);
    assert!(code == Some(0), "{said}");
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// The socket of the run with this process number.
fn find_socket(pid: u32) -> std::path::PathBuf {
    let directory = std::path::Path::new("/run/maracas");
    let entries = std::fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path());
    let begins = format!("{pid}-");
    let mut own = entries.filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begins))
    });
    own.next().unwrap_or_else(|| panic!("run {pid} has no socket in {}", directory.display()))
}
