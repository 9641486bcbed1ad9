//! `docs/results.md` says what the experiments find.
//!
//! Optimized (`cargo test --release`, as CI runs it) all of them are run again; otherwise those
//! that are over in a moment.

use maracas_reproduce::document::{FIGURES, part, stale};
use maracas_reproduce::{Experiment, Lab, Setup, experiments};
use std::path::PathBuf;

/// Experiments of a few short runs.
const QUICK: [&str; 6] = [
    "maracas-table2",
    "maracas-fig2",
    "maracas-fig4",
    "maracas-fig5",
    "maracas-dma",
    "maracas-printed",
];

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn results() -> String {
    std::fs::read_to_string(docs().join("results.md")).expect("docs/results.md is there")
}

fn figure(name: &str) -> Option<String> {
    std::fs::read_to_string(docs().join(FIGURES).join(name)).ok()
}

#[test]
fn every_experiment_has_its_part_with_table_figure_and_verdicts() {
    let results = results();
    for experiment in experiments() {
        let name = experiment.name;
        let text = part(&results, name).unwrap_or_else(|| panic!("{name} is not in the document"));
        assert!(text.contains("| ---"), "{name} has no table");
        assert!(text.contains("\n- yes: ") || text.contains("\n- **no**: "), "{name}: no verdict");
        let drawn = text.lines().filter(|line| line.starts_with("!["));
        let files: Vec<_> = drawn
            .filter_map(|line| line.rsplit_once('/')?.1.strip_suffix(')').map(str::to_string))
            .collect();
        assert!(!files.is_empty(), "{name} has no figure");
        for file in files {
            let svg = figure(&file).unwrap_or_else(|| panic!("{file} is not there"));
            assert!(svg.starts_with("<svg "), "{file}");
        }
    }
}

#[test]
fn results_are_those_of_the_experiments() {
    let quick = cfg!(debug_assertions);
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let lab = Lab::new(jobs, None, &|_, _| {});
    let results = results();
    let mut problems = Vec::new();
    for experiment in experiments().filter(|it| !quick || QUICK.contains(&it.name)) {
        let findings = (experiment.run)(&lab).unwrap_or_else(|why| panic!("{why}"));
        problems.extend(stale(&results, experiment, &findings, &figure));
        problems.extend(unlisted(experiment, &lab.take_setups()));
    }
    let way_out = "cargo run --release -- reproduce all --write docs/results.md";
    assert!(problems.is_empty(), "\n{}\n{way_out}\n", problems.join("\n"));
}

/// Constants that were fitted and are used, by a word of the scenario, but not listed in the
/// document: a value of them must stand there.
fn unlisted(experiment: &Experiment, setups: &[Setup]) -> Vec<String> {
    const FITTED: [(&str, &str); 3] = [
        ("i5-2500k", "29.2 ns"),
        ("\"m_jump\"", "10.5 instructions"),
        ("core2-ddr2-800", "`outstanding`"),
    ];
    let listed = |value: &str| experiment.fitted.contains(value) || experiment.free.contains(value);
    let used = |word: &str| setups.iter().any(|setup| setup.text.contains(word));
    let missing = FITTED.iter().filter(|(word, value)| used(word) && !listed(value));
    missing.map(|(word, _)| format!("{} does not list what {word} has", experiment.name)).collect()
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let table2 = maracas_reproduce::find("maracas-table2").expect("it is there");
    let found = [1, 3].map(|jobs| (table2.run)(&Lab::new(jobs, None, &|_, _| {})));
    assert_eq!(found[0], found[1]);
}
