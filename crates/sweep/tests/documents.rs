//! `docs/sweep.md` says what every key and every column means.

use maracas_scenario::sweep::{POLICY, STEPS, SWEEP, Sweep, TASKS};
use maracas_sweep::{Study, schedulable, summary, table::Column};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document() -> String {
    std::fs::read_to_string(root().join("docs/sweep.md")).unwrap()
}

#[test]
fn every_key_stands_in_the_reference() {
    let document = document();
    for table in [&SWEEP, &TASKS, &POLICY] {
        for key in table.keys {
            assert!(document.contains(&format!("`{key}`")), "`{key}` of {}", table.table);
        }
        let heading = format!("### `{}`", table.table);
        assert!(document.contains(&heading), "{heading}");
    }
    for key in STEPS.keys {
        assert!(document.contains(&format!("{key} = ")), "`{key}` of {}", STEPS.table);
    }
}

#[test]
fn every_column_stands_in_the_reference() {
    let document = document();
    let stands = |column: &Column| {
        let name = column.name.trim_end_matches("_low").trim_end_matches("_high");
        document.contains(&format!("`{}`", column.name)) || document.contains(&format!("`{name}`"))
    };
    let mut columns = vec![summary::run_columns(), summary::standing_columns()];
    columns.extend([summary::rivalry_columns(), schedulable::test_columns()]);
    columns.push(schedulable::weighted_columns());
    for column in columns.iter().flatten() {
        assert!(stands(column), "{} is not in docs/sweep.md", column.name);
    }
}

#[test]
fn the_examples_can_be_run() {
    let folder = root().join("examples/sweeps");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        let study = Sweep::read(&file).map_err(|error| error.to_string());
        let study = study.and_then(|sweep| Study::of(&sweep).map_err(|error| error.to_string()));
        let study = study.unwrap_or_else(|error| panic!("{error}"));
        assert!(study.set(0).is_ok(), "{}", file.display());
    }
}
