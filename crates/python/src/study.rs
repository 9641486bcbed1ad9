//! A sweep in pieces that any executor may run.

use crate::errors::{error, raised};
use crate::table::Table;
use maracas_scenario::sweep::Sweep;
use maracas_studies::sweep;
use maracas_sweep::{Finished, run, summary};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A sweep that has been read: which sets are drawn, and which policies run them.
#[pyclass(frozen, module = "maracas")]
pub(crate) struct Study(maracas_sweep::Study);

impl Study {
    /// What whole lines say, by item.
    fn finished(&self, lines: &str) -> Vec<Option<Finished>> {
        let mut all = vec![None; self.0.items()];
        let contenders = self.0.contenders.len();
        for finished in lines.lines().filter_map(|line| Finished::read(line, contenders)) {
            if let Some(place) = all.get_mut(finished.item) {
                *place = Some(finished);
            }
        }
        all
    }
    /// # Errors
    /// Where one is missing.
    fn all(&self, lines: &str) -> PyResult<Vec<Finished>> {
        let all = self.finished(lines);
        let missing = all.iter().filter(|item| item.is_none()).count();
        if missing > 0 {
            return Err(error(format!("{missing} of {} sets are missing", all.len())));
        }
        Ok(all.into_iter().flatten().collect())
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
    /// Runs these sets, one after the other: a line of numbers for each.
    fn run(&self, py: Python<'_>, items: Vec<usize>) -> PyResult<String> {
        let most = self.0.items();
        if let Some(item) = items.iter().find(|item| **item >= most) {
            return Err(error(format!("there is no set {item}; they are 0 to {}", most - 1)));
        }
        let line = |item: usize| run::item(&self.0, item).map(|finished| finished.line());
        py.detach(|| items.into_iter().map(line).collect::<Result<String, _>>()).map_err(error)
    }
    /// The sets that the lines lack.
    fn missing(&self, lines: &str) -> Vec<usize> {
        let all = self.finished(lines);
        (0..).zip(&all).filter(|(_, it)| it.is_none()).map(|(item, _)| item).collect()
    }
    /// Runs, points and pairs (docs/sweep.md), of the lines of all sets in any order.
    fn tables(&self, lines: &str) -> PyResult<(Table, Table, Table)> {
        let (study, finished) = (&self.0, self.all(lines)?);
        let standings = summary::standings(study, &finished);
        let rivalries = summary::rivalries(study, &finished);
        let points = summary::standing_rows(study, &standings);
        Ok((
            Table::of(&summary::run_columns(), summary::run_rows(study, &finished))?,
            Table::of(&summary::standing_columns(), points)?,
            Table::of(&summary::rivalry_columns(), summary::rivalry_rows(study, &rivalries))?,
        ))
    }
    /// The figures of the points, as names and SVG.
    fn figures(&self, lines: &str) -> PyResult<Vec<(String, String)>> {
        let standings = summary::standings(&self.0, &self.all(lines)?);
        let figures = maracas_sweep::drawings::figures(&self.0, &standings);
        Ok(figures.iter().map(|figure| (figure.name.clone(), figure.svg())).collect())
    }
    /// Writes the files that `maracas sweep` writes into its folder.
    fn write(&self, py: Python<'_>, folder: PathBuf, lines: &str) -> PyResult<()> {
        let (study, finished) = (&self.0, self.all(lines)?);
        let standings = summary::standings(study, &finished);
        let rivalries = summary::rivalries(study, &finished);
        let write = || sweep::write(&folder, study, &finished, &standings, &rivalries);
        py.detach(write).map(drop).map_err(raised)
    }
    /// Opens the file of a folder that keeps what is finished, and says what it holds.
    fn open(&self, folder: &str) -> PyResult<(Ledger, String)> {
        let folder = Path::new(folder);
        sweep::folder(folder).map_err(raised)?;
        let path = folder.join(sweep::PROGRESS);
        let (items, contenders) = (self.0.items(), self.0.contenders.len());
        let opened = maracas_sweep::Ledger::open(&path, &self.0.meaning(), items, contenders);
        let (ledger, found) = opened.map_err(error)?;
        let lines = found.iter().flatten().map(Finished::line).collect();
        Ok((Ledger { ledger: Mutex::new(Some(ledger)), contenders }, lines))
    }
}

/// The file of a sweep's folder that keeps what is finished; no other sweep may open it meanwhile.
#[pyclass(frozen, module = "maracas")]
pub(crate) struct Ledger {
    ledger: Mutex<Option<maracas_sweep::Ledger>>,
    contenders: usize,
}

#[pymethods]
impl Ledger {
    /// Keeps what these lines say.
    fn note(&self, lines: &str) -> PyResult<()> {
        let mut ledger = self.ledger.lock().map_err(error)?;
        let ledger = ledger.as_mut().ok_or_else(|| error("the folder of the sweep is closed"))?;
        for finished in lines.lines().filter_map(|line| Finished::read(line, self.contenders)) {
            ledger.note(&finished).map_err(error)?;
        }
        Ok(())
    }
    /// Leaves the folder to others.
    fn close(&self) -> PyResult<()> {
        self.ledger.lock().map_err(error)?.take();
        Ok(())
    }
}
