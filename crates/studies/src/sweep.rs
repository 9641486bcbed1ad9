//! The files of a finished sweep (docs/sweep.md).

use maracas_console::failure::Failure;
use maracas_console::output::{self, Pending};
use maracas_sweep::summary::{self, Rivalry, Standing};
use maracas_sweep::{Results, Study, drawings, page, schedulable, table};
use std::path::Path;

/// The file in the folder that holds what is finished.
pub const PROGRESS: &str = "sweep.progress";
/// Every run, one a line.
const RUNS: &str = "runs.csv";
/// What else a sweep writes beside figures.
const TABLES: [&str; 5] = [PARQUET, POINTS, PAIRS, TESTS, WEIGHTED];
const PARQUET: &str = "runs.parquet";
const POINTS: &str = "points.csv";
const PAIRS: &str = "pairs.csv";
const TESTS: &str = "tests.csv";
const WEIGHTED: &str = "weighted.csv";
/// What the page of `maracas report` shows.
pub const PAGE: &str = "page.json";

/// Makes the folder of a sweep where there is none.
///
/// # Errors
/// Where it cannot be made. Where the folder holds files of the names of ours that no sweep left
/// there.
pub fn folder(folder: &Path) -> Result<(), Failure> {
    let is_ours = folder.join(PROGRESS).exists();
    let mut names = [RUNS, PAGE].into_iter().chain(TABLES);
    if let Some(name) = names.find(|name| !is_ours && folder.join(name).exists()) {
        let why =
            format!("holds {name} and no {PROGRESS}; name another directory, or move that file");
        return Err(Failure::about(folder.display(), why));
    }
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::about(folder.display(), format_args!("cannot be made: {error}")))
}

/// Writes tables, figures and what `maracas report` shows of them into the folder; says how many
/// figures there are.
///
/// # Errors
/// Where a file cannot be written, or the results cannot be read.
pub fn write(
    folder: &Path,
    study: &Study,
    results: &Results,
    standings: &[Standing],
    rivalries: &[Rivalry],
) -> Result<usize, Failure> {
    let file = |name: &str, fill: &dyn Fn(&mut Pending) -> Result<(), maracas_sweep::Error>| {
        let path = folder.join(name);
        let mut pending = Pending::create(&path)?;
        let reported =
            |error| Failure::about(path.display(), format_args!("cannot be written: {error}"));
        fill(&mut pending).map_err(reported)?;
        pending.commit()
    };
    let columns = summary::run_columns();
    file(RUNS, &|out| table::csv(&columns, summary::run_rows(study, results), out))?;
    file(PARQUET, &|out| table::parquet(&columns, summary::run_rows(study, results), out))?;
    let columns = summary::standing_columns();
    file(POINTS, &|out| table::csv(&columns, summary::standing_rows(study, standings), out))?;
    let columns = summary::rivalry_columns();
    file(PAIRS, &|out| table::csv(&columns, summary::rivalry_rows(study, rivalries), out))?;
    let tested = schedulable::by_test(study, results).map_err(Failure::new)?;
    let columns = schedulable::test_columns();
    file(TESTS, &|out| table::csv(&columns, schedulable::test_rows(study, &tested), out))?;
    let (columns, weighted) = (schedulable::weighted_columns(), schedulable::weighted(&tested));
    let rows = || schedulable::weighted_rows(study, &weighted);
    file(WEIGHTED, &|out| table::csv(&columns, rows(), out))?;
    let figures = drawings::figures(study, standings, &tested);
    for figure in &figures {
        output::write_file(&folder.join(format!("{}.svg", figure.name)), &figure.svg())?;
    }
    let data = page::data(study, results, standings, &tested).map_err(Failure::new)?;
    output::write_file(&folder.join(PAGE), &format!("{data}\n"))?;
    Ok(figures.len())
}

/// Points, pairs, and what is schedulable by test, as JSON.
///
/// # Errors
/// Where the results cannot be read.
pub fn json(
    study: &Study,
    results: &Results,
    standings: &[Standing],
    rivalries: &[Rivalry],
) -> Result<serde_json::Value, Failure> {
    let table = |columns: &[table::Column], rows: table::Rows<'_>| {
        table::json(columns, rows).map_err(Failure::new)
    };
    let tested = schedulable::by_test(study, results).map_err(Failure::new)?;
    let weighted = schedulable::weighted(&tested);
    let weighted = schedulable::weighted_rows(study, &weighted);
    Ok(serde_json::json!({
        "points": table(&summary::standing_columns(), summary::standing_rows(study, standings))?,
        "pairs": table(&summary::rivalry_columns(), summary::rivalry_rows(study, rivalries))?,
        "tests": table(&schedulable::test_columns(), schedulable::test_rows(study, &tested))?,
        "weighted": table(&schedulable::weighted_columns(), weighted)?,
    }))
}
