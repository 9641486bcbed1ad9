//! A sweep in pieces that any executor may run.

use crate::errors::{error, raised};
use crate::table::Table;
use maracas_scenario::sweep::Sweep;
use maracas_studies::sweep;
use maracas_sweep::{Finished, Results, run, schedulable, summary};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

/// A sweep that has been read: which sets are drawn, and which policies run them.
#[pyclass(frozen, module = "maracas")]
pub(crate) struct Study(maracas_sweep::Study);

/// The sets of a study that are finished; it fills up in any order.
#[pyclass(frozen, module = "maracas")]
pub(crate) struct Gathered(Mutex<Results>);

impl Gathered {
    fn lock(&self) -> PyResult<MutexGuard<'_, Results>> {
        self.0.lock().map_err(error)
    }
    /// # Errors
    /// Where one is missing.
    fn all(&self) -> PyResult<MutexGuard<'_, Results>> {
        let results = self.lock()?;
        let (items, done) = (results.items(), results.done());
        if done < items {
            return Err(error(format!("{} of {items} sets are missing", items - done)));
        }
        Ok(results)
    }
}

#[pymethods]
impl Gathered {
    /// Takes in the lines of a piece, and keeps them in the folder's file where there is one.
    fn take(&self, py: Python<'_>, lines: &str, ledger: Option<&Ledger>) -> PyResult<()> {
        py.detach(|| {
            let mut results = self.lock()?;
            let read = |line: &str| {
                let finished = Finished::read(line, results.contenders());
                let finished = finished.filter(|it| it.item < results.items());
                finished.ok_or_else(|| error(format!("a piece brought no result: \"{line}\"")))
            };
            let piece = lines.lines().map(read).collect::<PyResult<Vec<_>>>()?;
            if let Some(ledger) = ledger {
                ledger.note(lines)?;
            }
            piece.iter().try_for_each(|finished| results.put(finished)).map_err(error)
        })
    }
    /// The first sets from this number on that are not there, at most so many.
    fn missing(&self, from_: usize, most: usize) -> PyResult<Vec<usize>> {
        Ok(self.lock()?.missing(from_).take(most).collect())
    }
}

#[pymethods]
impl Study {
    /// Reads the text of a sweep file; `file` is its name in errors.
    #[new]
    fn new(text: &str, file: &str, folder: PathBuf) -> PyResult<Self> {
        let sweep = Sweep::parse(text, file, &folder).map_err(error)?;
        maracas_sweep::Study::of(&sweep).map(Self).map_err(error)
    }
    /// How many sets there are, all points together.
    #[getter]
    fn items(&self) -> usize {
        self.0.items()
    }
    /// The labels of the policies.
    #[getter]
    fn policies(&self) -> Vec<String> {
        self.0.contenders.iter().map(|contender| contender.label.clone()).collect()
    }
    /// What reading files of task sets left out or took otherwise.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.0.notes.clone()
    }
    /// Runs these sets, one after the other: a line of numbers for each.
    fn run(&self, py: Python<'_>, items: Vec<usize>) -> PyResult<String> {
        let most = self.0.items();
        if let Some(item) = items.iter().find(|item| **item >= most) {
            return Err(error(format!("there is no set {item}; they are 0 to {}", most - 1)));
        }
        let line = |item: usize| run::item(&self.0, item).map(|finished| finished.line());
        py.detach(|| items.into_iter().map(line).collect::<Result<String, _>>()).map_err(error)
    }
    /// Nothing finished yet; what comes is kept in a file without a name where temporary files go.
    fn gather(&self) -> PyResult<Gathered> {
        let results = Results::of(&self.0, &std::env::temp_dir()).map_err(error)?;
        Ok(Gathered(Mutex::new(results)))
    }
    /// One row for each run (docs/sweep.md).
    fn runs(&self, gathered: &Gathered) -> PyResult<Table> {
        Table::of(&summary::run_columns(), summary::run_rows(&self.0, &*gathered.all()?))
    }
    /// One row for each point and policy.
    fn points(&self, gathered: &Gathered) -> PyResult<Table> {
        let standings = summary::standings(&self.0, &*gathered.all()?).map_err(error)?;
        Table::of(&summary::standing_columns(), summary::standing_rows(&self.0, &standings))
    }
    /// One row for each point, pair of policies and measure.
    fn pairs(&self, gathered: &Gathered) -> PyResult<Table> {
        let rivalries = summary::rivalries(&self.0, &*gathered.all()?).map_err(error)?;
        Table::of(&summary::rivalry_columns(), summary::rivalry_rows(&self.0, &rivalries))
    }
    /// One row for each point, policy, and test of it or its run.
    fn tests(&self, gathered: &Gathered) -> PyResult<Table> {
        let tested = schedulable::by_test(&self.0, &*gathered.all()?).map_err(error)?;
        Table::of(&schedulable::test_columns(), schedulable::test_rows(&self.0, &tested))
    }
    /// The same in one number for all utilizations.
    fn weighted(&self, gathered: &Gathered) -> PyResult<Table> {
        let tested = schedulable::by_test(&self.0, &*gathered.all()?).map_err(error)?;
        let weighted = schedulable::weighted(&tested);
        let rows = schedulable::weighted_rows(&self.0, &weighted);
        Table::of(&schedulable::weighted_columns(), rows)
    }
    /// The figures of the points, as names and SVG.
    fn figures(&self, gathered: &Gathered) -> PyResult<Vec<(String, String)>> {
        let results = &*gathered.all()?;
        let standings = summary::standings(&self.0, results).map_err(error)?;
        let tested = schedulable::by_test(&self.0, results).map_err(error)?;
        let figures = maracas_sweep::drawings::figures(&self.0, &standings, &tested);
        Ok(figures.iter().map(|figure| (figure.name.clone(), figure.svg())).collect())
    }
    /// Writes the files that `maracas sweep` writes into its folder.
    fn write(&self, py: Python<'_>, folder: PathBuf, gathered: &Gathered) -> PyResult<()> {
        py.detach(|| {
            let (study, results) = (&self.0, &*gathered.all()?);
            let standings = summary::standings(study, results).map_err(error)?;
            let rivalries = summary::rivalries(study, results).map_err(error)?;
            sweep::write(&folder, study, results, &standings, &rivalries).map_err(raised)
        })
        .map(drop)
    }
    /// Opens the file of a folder that keeps what is finished, and takes in what it holds. Runs one
    /// of these sets again, so that another program is noticed.
    fn open(&self, py: Python<'_>, folder: PathBuf) -> PyResult<(Ledger, Gathered)> {
        sweep::folder(&folder).map_err(raised)?;
        let path = folder.join(sweep::PROGRESS);
        let opened = || {
            let mut results = Results::of(&self.0, &folder)?;
            let ledger = maracas_sweep::Ledger::open(&path, &self.0.meaning(), &mut results)?;
            run::check_program(&self.0, &results)?;
            Ok((Ledger(Mutex::new(Some(ledger))), Gathered(Mutex::new(results))))
        };
        py.detach(opened).map_err(|failed: maracas_sweep::Error| error(failed))
    }
}

/// The file of a sweep's folder that keeps what is finished; no other sweep may open it meanwhile.
#[pyclass(frozen, module = "maracas")]
pub(crate) struct Ledger(Mutex<Option<maracas_sweep::Ledger>>);

impl Ledger {
    fn note(&self, lines: &str) -> PyResult<()> {
        let mut ledger = self.0.lock().map_err(error)?;
        let ledger = ledger.as_mut().ok_or_else(|| error("the folder of the sweep is closed"))?;
        ledger.note(lines).map_err(error)
    }
}

#[pymethods]
impl Ledger {
    /// Leaves the folder to others.
    fn close(&self) -> PyResult<()> {
        self.0.lock().map_err(error)?.take();
        Ok(())
    }
}
