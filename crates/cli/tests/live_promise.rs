//! What was promised and not delivered is said, by the verdict and by the exit code.
//!
//! Needs a host where budgets are enforced in full (`maracas doctor`).

mod common;
mod live;

use live::measure::Thief;
use live::witness::repeated;
use live::{BROKEN, Report, Stage};
use maracas_live::host::platform::Platform;
use std::time::Duration;

const SCENARIO: &str = r#"
version = 1
[platform]
cores = 1
[policy]
name = "maracas"
background = "off"
[[program]]
name = "promised"
command = ["maracas", "work", "spin"]
output = "null"
budget = "2ms"
period = "10ms"
"#;

/// Where less than this part of the run was stolen, nothing but ourselves can break a promise.
const OWN: f64 = 0.999;

/// The scenario for 3 s: its exit code and its report.
fn play(stage: &Stage, scenario: &str, thief: impl FnOnce() -> Option<Thief>) -> (i32, Report) {
    stage.scratch.write("promise.toml", scenario);
    let mut run = stage.start(&["promise.toml", "--json", "--duration", "3s"], &[]);
    run.at(Duration::from_millis(700));
    let thief = thief();
    let code = run.finish();
    drop(thief);
    // What it says must be what the code says.
    let report = run.report();
    assert!(report.0["promise"]["kept"].is_boolean(), "{}", report.0);
    (code, report)
}

#[test]
fn a_broken_promise_has_an_exit_code_of_its_own() {
    repeated(|| {
        let Some(stage) = Stage::enter(1, 3) else { return };
        let core = Platform::detect().unwrap().cores[0];
        let (busy, period) = (Duration::from_millis(50), Duration::from_millis(100));
        let (code, report) = play(&stage, SCENARIO, || Some(Thief::spin(core, busy, period)));
        let task = report.task("promised");
        eprintln!("{}", report.0["tasks"][0]["verdict"]);
        assert_eq!(code, BROKEN, "half of its periods were taken");
        assert!(["short", "both"].contains(&task.verdict()), "{}", task.verdict());
    });
}

#[test]
fn a_promise_that_was_kept_is_a_success() {
    repeated(|| {
        let Some(stage) = Stage::enter(1, 3) else { return };
        // A hundredth of 20 ms is more than a wake costs on any host that we know.
        let long = SCENARIO.replace("\"2ms\"", "\"20ms\"").replace("\"10ms\"", "\"50ms\"");
        let (code, report) = play(&stage, &long, || None);
        let task = report.task("promised");
        eprintln!("{}", report.0["tasks"][0]["verdict"]);
        task.got_its_budget();
        assert_eq!(code == 0, task.verdict() == "kept", "exit code {code}: {}", task.verdict());
        // On a host that takes nothing from us there is no excuse but a wake or two that it made
        // late: of 60 periods none may be off.
        let off = |key: &str| report.0["tasks"][0]["verdict"][key].as_u64().unwrap();
        let late = off("short") + off("over");
        assert!(
            code == 0 || report.left(0) < OWN || late <= 4,
            "exit code {code}, {late} periods off"
        );
    });
}
