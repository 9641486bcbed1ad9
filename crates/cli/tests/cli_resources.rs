//! Shared resources, from the file to the report: bounds in the verdict, blocking in the table and
//! the JSON, and where they are refused.

mod common;

use common::{Scratch, maracas, repository, text};
use serde_json::Value;

const EXAMPLE: &str = "examples/resources.toml";

/// A set of SchedCAT: two tasks that share resource 1.
const SCHEDCAT: &str = "<taskset>\n\
    <task id=\"1\" period=\"10000\" wcet=\"2000\"><resources>\
    <requirement res_id=\"1\" max_writes=\"2\" max_write_length=\"100\"/></resources></task>\n\
    <task id=\"2\" period=\"20000\" wcet=\"4000\"><resources>\
    <requirement res_id=\"1\" max_reads=\"1\" max_read_length=\"300\" max_writes=\"0\"/>\
    </resources></task>\n</taskset>\n";

fn json(words: &[&str]) -> Value {
    let output = maracas(&repository(), words);
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

#[test]
fn bounds_stand_in_the_verdict_and_hold_in_the_run() {
    let checked = json(&["check", EXAMPLE, "--json"]);
    let bound = |name: &str| {
        let list = checked["blocking"].as_array().expect("a list").iter();
        let of = list.clone().find(|it| it["vcpu"] == name).expect("every VCPU is there");
        of["bound_ns"].as_u64().expect("a time")
    };
    // Two sections of less urgent tasks of its core go ahead of control: 500 us and 800 us.
    assert_eq!(bound("control"), 1_300_000);
    let ran = json(&["sim", EXAMPLE, "--json"]);
    assert_eq!(ran["resources"]["protocol"], "mpcp");
    let rows = ran["resources"]["vcpus"].as_array().expect("a list");
    assert_eq!(rows.len(), 4);
    for row in rows {
        let name = row["name"].as_str().expect("a name");
        assert_eq!(row["bound_ns"], bound(name));
        assert!(row["blocked_max_ns"].as_u64() <= row["bound_ns"].as_u64(), "{row}");
    }
    let blocked: u64 = rows.iter().filter_map(|row| row["blocked_max_ns"].as_u64()).sum();
    assert!(blocked > 0, "someone was blocked");
    for protocol in ["fmlp+", "omlp", "mrsp"] {
        let ran = json(&["sim", EXAMPLE, "--json", "--locks", protocol]);
        assert_eq!(ran["resources"]["protocol"], protocol);
    }
    let output = maracas(&repository(), &["sim", EXAMPLE]);
    let shown = text(&output.stdout);
    assert!(shown.contains("resources under mpcp:"), "{shown}");
    assert!(shown.contains("longest blocked"), "{shown}");
}

#[test]
fn a_live_run_and_policies_that_know_no_resources_refuse_them() {
    let output = maracas(&repository(), &["check", EXAMPLE, "--machine", "live"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("resources.toml:14:9: resources are shared in simulation only"),
        "{said}"
    );
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    let output = maracas(&repository(), &["sim", EXAMPLE, "--policy", "c-edf"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("refused"), "{}", text(&output.stdout));
}

#[test]
fn sets_of_schedcat_share_by_the_protocol_that_is_named() {
    let scratch = Scratch::new();
    scratch.write("set.xml", SCHEDCAT);
    let words = ["sim", "--taskset", "set.xml", "--cores", "2", "--policy", "p-edf", "--json"];
    let output = maracas(scratch.path(), &words);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("say by which protocol with --locks mpcp"), "{said}");
    let output = maracas(scratch.path(), &[&words[..], &["--locks", "omlp"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let ran: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(ran["resources"]["protocol"], "omlp");
    assert_eq!(ran["resources"]["vcpus"][0]["name"], "task1");
}

#[test]
fn a_suggested_budget_holds_the_sections_and_a_period_names_its_deadline() {
    let scratch = Scratch::new();
    let program = |name: &str, budget: &str, period: &str, more: &str| {
        format!(
            "[[program]]\nname = \"{name}\"\nbudget = \"{budget}\"\nperiod = \"{period}\"\n\
             workload = {{ kind = \"periodic\", cost = \"{budget}\" }}\n{more}\n"
        )
    };
    let head = |policy: &str| format!("[platform]\ncores = 1\n[policy]\nname = \"{policy}\"\n");
    let section = |length: &str| {
        format!("sections = [{{ resource = \"bus\", at = \"1ms\", length = \"{length}\" }}]")
    };
    let shared = format!(
        "version = 1\nlocks = \"mpcp\"\n{}admission = \"rta\"\n[[resource]]\nname = \"bus\"\n{}{}",
        head("p-rm"),
        program("a", "5ms", "10ms", &section("4ms")),
        program("b", "7ms", "12ms", &section("6ms")),
    );
    scratch.write("s.toml", shared);
    let shown = text(&maracas(scratch.path(), &["check", "s.toml", "--suggest"]).stdout);
    assert!(!shown.contains("a: lower budget"), "{shown}");
    let apart = format!(
        "version = 1\n{}{}{}",
        head("p-edf"),
        program("a", "6ms", "10ms", ""),
        program("b", "6ms", "12ms", "deadline = \"12ms\""),
    );
    scratch.write("d.toml", apart);
    let shown = text(&maracas(scratch.path(), &["check", "d.toml", "--suggest"]).stdout);
    let raise = "b: raise period from 12ms to 15ms (25 % more), and its deadline (line 17) with it";
    assert!(shown.contains(raise), "{shown}");
}
