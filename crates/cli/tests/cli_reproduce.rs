//! `maracas reproduce`: what there is, what it writes, and how it compares.

mod common;

use common::{Scratch, maracas, text};

#[test]
fn the_list_names_every_experiment_with_its_kind() {
    let scratch = Scratch::new();
    let output = maracas(scratch.path(), &["reproduce", "list", "--json"]);
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<_> = list.as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    let known: Vec<_> = maracas_reproduce::experiments().map(|it| it.name).collect();
    assert_eq!(names, known);
    let shown = text(&maracas(scratch.path(), &["reproduce", "list"]).stdout);
    let reported =
        |line: &str| line.split_whitespace().take(2).eq(["maracas-table2", "calibrates"]);
    assert!(shown.lines().any(reported), "{shown}");
}

#[test]
fn tables_figures_and_scenarios_are_written_and_the_scenarios_run() {
    let scratch = Scratch::new();
    let output = maracas(scratch.path(), &["reproduce", "maracas-table2", "--out", "out"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("E1 traffic (GB)"));
    assert!(text(&output.stderr).contains("out/maracas-table2 holds "), "{}", text(&output.stderr));
    let folder = scratch.path().join("out/maracas-table2");
    let csv = std::fs::read_to_string(folder.join("maracas-table2.csv")).unwrap();
    assert_eq!(csv.lines().count(), 10, "nine numbers and the headings");
    assert!(folder.join("maracas-table2.svg").exists() && folder.join("README.md").exists());
    let e1 = folder.join("scenarios/E1.toml");
    let output = maracas(scratch.path(), &["sim", e1.to_str().unwrap(), "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let instructions = report["tasks"][2]["foreground"]["instructions"].as_f64().unwrap() / 1e8;
    let ours = csv.lines().nth(3).unwrap().split(',').nth(1).unwrap();
    assert_eq!(instructions, ours.parse::<f64>().unwrap(), "{csv}");
}

#[test]
fn a_document_is_written_and_checked() {
    let scratch = Scratch::new();
    scratch.write("results.md", "# By hand\n");
    let reproduce = |option: &str| {
        maracas(scratch.path(), &["reproduce", "maracas-table2", option, "results.md"])
    };
    assert_eq!(reproduce("--check").status.code(), Some(1));
    assert!(reproduce("--write").status.success());
    assert!(reproduce("--check").status.success());
    let path = scratch.path().join("results.md");
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(written.starts_with("# By hand\n") && written.contains("figures/maracas-table2.svg"));
    std::fs::remove_file(scratch.path().join("figures/maracas-table2.svg")).unwrap();
    let output = reproduce("--check");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("figures/maracas-table2.svg is missing"));
    scratch.write("results.md", written.replacen("E1 traffic", "E1 trafic", 1));
    let output = reproduce("--check");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("maracas-table2 differs, first at: | E1 trafic"));
}

#[test]
fn unknown_experiments_are_answered_with_the_nearest() {
    let scratch = Scratch::new();
    let output = maracas(scratch.path(), &["reproduce", "maracas-tabel2"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean \"maracas-table2\"?"));
}
