//! What a command is about: a scenario, or a bare task set in its place.

use crate::case::{Case, Machine, Overrides};
use crate::failure::Failure;
use std::path::{Path, PathBuf};

/// A scenario or a task set.
#[derive(clap::Args, Debug)]
pub(crate) struct Source {
    /// The scenario
    #[arg(conflicts_with = "taskset")]
    file: Option<PathBuf>,
    /// A task set in place of a scenario: CSV with columns cost_us and period_us and, where
    /// wanted, deadline_us and offset_us; needs --policy and --cores
    #[arg(long, value_name = "FILE")]
    taskset: Option<PathBuf>,
}

impl Source {
    /// What is read, in a word, and where it is.
    ///
    /// # Errors
    /// Where neither is named, or a task set stands in the place of a scenario.
    pub(crate) fn named(&self) -> Result<(&'static str, &Path), Failure> {
        match (&self.file, &self.taskset) {
            (Some(file), _) => {
                refuse_taskset(file)?;
                Ok(("scenario", file))
            }
            (None, Some(file)) => Ok(("task set", file)),
            (None, None) => {
                Err(Failure::new("name a scenario <FILE>, or a task set with --taskset FILE"))
            }
        }
    }

    /// The case for `machine`.
    ///
    /// # Errors
    /// As [`Source::named`] and [`Case::read`]; a task set is for the simulator only.
    pub(crate) fn case(&self, machine: Machine, overrides: &Overrides) -> Result<Case, Failure> {
        match (self.named()?, machine) {
            (("scenario", file), _) => Case::read(file, machine, overrides),
            ((_, file), Machine::Sim) => Case::tasks(file, overrides),
            ((_, file), Machine::Live) => {
                let why = "a task set names no programs and can be simulated only";
                Err(Failure::about(file.display(), why))
            }
        }
    }
}

/// Says where a task set belongs if one stands in the place of a scenario.
///
/// # Errors
/// Where the name ends in `.csv`.
pub(crate) fn refuse_taskset(file: &Path) -> Result<(), Failure> {
    if file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")) {
        let why = "this is no scenario; a task set goes to --taskset (of sim or check)";
        return Err(Failure::about(file.display(), why));
    }
    Ok(())
}
