//! `maracas doctor` on whatever host this is: exit codes, the table, and the JSON that
//! `docs/doctor.md` shows.

#[path = "../../../tests/shared/bounds.rs"]
mod bounds;
mod common;

use common::{Scratch, maracas, repository, text};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Doctors load the cores: one at a time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn page() -> String {
    std::fs::read_to_string(repository().join("docs/doctor.md")).unwrap()
}

/// What the document shows between "```json" and "```".
fn documented() -> Value {
    let page = page();
    let (_, from) = page.split_once("```json\n").expect("an example");
    serde_json::from_str(from.split_once("```").expect("its end").0).expect("JSON")
}

/// Holds `real` against the documented shape: the same keys, and values of the same kind or null.
fn same_shape(path: &str, shown: &Value, real: &Value) {
    match (shown, real) {
        (Value::Object(shown), Value::Object(real)) => {
            let keys = |map: &serde_json::Map<String, Value>| {
                map.keys().cloned().collect::<std::collections::BTreeSet<_>>()
            };
            assert_eq!(keys(shown), keys(real), "{path}");
            for (key, value) in shown {
                same_shape(&format!("{path}.{key}"), value, &real[key]);
            }
        }
        (Value::Array(shown), Value::Array(real)) => {
            for (place, value) in real.iter().enumerate() {
                same_shape(&format!("{path}[{place}]"), &shown[0], value);
            }
        }
        (Value::Null, _) | (_, Value::Null) => {}
        _ => assert_eq!(
            std::mem::discriminant(shown),
            std::mem::discriminant(real),
            "{path}: {real}"
        ),
    }
}

/// The verdict's words and codes are those of the document.
fn hold_verdict(json: &Value) -> i32 {
    let code = match json["verdict"].as_str().expect("a word") {
        "full" => 0,
        "degraded" => 1,
        "simulation only" => 3,
        other => panic!("no verdict: {other}"),
    };
    assert_eq!(json["exit_code"], code);
    let reasons = json["why"].as_array().expect("a list");
    assert_eq!(reasons.is_empty(), code == 0, "{reasons:?}");
    code
}

#[test]
fn the_json_is_as_documented_and_the_exit_code_says_the_verdict() {
    let _turn = turn();
    let scratch = Scratch::new();
    let output = maracas(scratch.path(), &["doctor", "--json"]);
    assert_eq!(text(&output.stderr), "", "no progress line where there is no terminal");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    same_shape("doctor", &documented(), &json);
    assert_eq!(output.status.code(), Some(hold_verdict(&json)));
    let (page, rows) = (page(), json["capabilities"].as_array().expect("rows"));
    for row in rows {
        let name = row["capability"].as_str().expect("a name");
        assert!(page.contains(&format!("`{name}`")), "docs/doctor.md does not explain {name}");
        let (state, proof) = (row["state"].as_str(), row["proof"].as_str());
        assert!(state.is_some_and(|it| ["works", "missing", "untried", "fact"].contains(&it)));
        assert!(proof.is_some_and(|proof| !proof.is_empty()), "{name} proves nothing");
        if state == Some("missing") {
            assert_ne!(row["fallback"], "", "{name} is missing: then what?");
        }
    }
    // The best sensor that works is the one that is named.
    let works = |row: &&Value| {
        row["state"] == "works"
            && row["capability"].as_str().is_some_and(|it| it.starts_with("sensor "))
    };
    let best = rows.iter().find(works).and_then(|row| row["capability"].as_str());
    let best = best.and_then(|name| name.strip_prefix("sensor "));
    assert_eq!(json["sensor"].as_str(), best);
    assert!(scratch.names().is_empty());
}

#[test]
fn the_table_ends_with_the_verdict_and_the_help_says_the_codes() {
    let _turn = turn();
    let scratch = Scratch::new();
    let output = maracas(scratch.path(), &["doctor"]);
    let table = text(&output.stdout);
    let verdict = table.lines().find_map(|line| line.strip_prefix("this host: "));
    let code = match verdict {
        Some("full") => 0,
        Some("degraded") => 1,
        Some("simulation only") => 3,
        other => panic!("{other:?} in {table}"),
    };
    assert_eq!(output.status.code(), Some(code), "{table}");
    for section in ["reservations", "sensing", "steering", "host"] {
        assert!(table.lines().any(|line| line == section), "no section {section}: {table}");
    }
    let help = text(&maracas(scratch.path(), &["doctor", "--help"]).stdout);
    assert!(help.contains("0 full") && help.contains("3 simulation only"), "{help}");
    let output = maracas(scratch.path(), &["doctor", "--jsn"]);
    assert_eq!(output.status.code(), Some(2), "bad input is no verdict");
}

#[test]
fn without_rights_it_says_so_and_leaves_nothing() {
    let _turn = turn();
    let own_user =
        std::fs::metadata("/proc/self").map(|meta| std::os::unix::fs::MetadataExt::uid(&meta));
    if own_user.is_ok_and(|user| user != 0) {
        // Then the other tests are this one.
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_maracas"));
    command.args(["doctor", "--json"]).current_dir("/").env_remove("MARACAS_SOCKET");
    let output = match command.env_remove("XDG_RUNTIME_DIR").uid(65534).gid(65534).output() {
        Ok(output) => output,
        Err(error) => return bounds::refused(&error, "a build that every user may run"),
    };
    let json: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    let code = hold_verdict(&json);
    assert_eq!(output.status.code(), Some(code));
    assert_ne!(code, 0, "a user without rights may not raise threads: {json:#}");
    let row = |name: &str| {
        let rows = json["capabilities"].as_array().expect("rows").iter();
        rows.into_iter().find(|row| row["capability"] == name).expect(name).clone()
    };
    assert_eq!(row("SCHED_FIFO")["state"], "missing");
    assert_eq!(row("page frames")["state"], "missing");
    assert_ne!(row("page frames")["remedy"], "");
    assert!(row("rights")["proof"].as_str().is_some_and(|it| it.starts_with("not root")));
}
