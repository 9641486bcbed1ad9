//! What a command is about: a scenario, or a bare task set in its place.

use crate::case::{Case, Machine, Overrides};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use maracas_console::failure::Failure;
use maracas_scenario::formats::Format;
use std::path::{Path, PathBuf};

/// A scenario or a task set.
#[derive(clap::Args, Debug)]
pub struct Source {
    /// The scenario
    #[arg(conflicts_with = "taskset")]
    file: Option<PathBuf>,
    /// A task set in place of a scenario: CSV with columns cost_us and period_us (docs/formats.md
    /// has the others), or what rt-app, SimSo or SchedCAT read; needs --policy and --cores
    #[arg(long, value_name = "FILE")]
    taskset: Option<PathBuf>,
    /// Format of the task set, where its name and its beginning mislead
    #[arg(long, requires = "taskset", value_parser = format())]
    format: Option<Format>,
}

/// A format by its name.
pub fn format() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name)).try_map(|name| name.parse::<Format>())
}

impl Source {
    /// What is read, in a word, and where it is.
    ///
    /// # Errors
    /// Where neither is named, or a task set stands in the place of a scenario.
    pub fn named(&self) -> Result<(&'static str, &Path), Failure> {
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
    pub fn case(&self, machine: Machine, overrides: &Overrides) -> Result<Case, Failure> {
        match (self.named()?, machine) {
            (("scenario", file), _) => Case::read(file, machine, overrides),
            ((_, file), Machine::Sim) => Case::tasks(file, self.format, overrides),
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
/// Where the name ends in `.csv`, `.json` or `.xml`.
pub fn refuse_taskset(file: &Path) -> Result<(), Failure> {
    let extension = file.extension().unwrap_or_default();
    if ["csv", "json", "xml"].iter().any(|known| extension.eq_ignore_ascii_case(known)) {
        let why = "this is no scenario; a task set goes to --taskset (of sim, check or tree; gantt \
                   draws the --journal of sim)";
        return Err(Failure::about(file.display(), why));
    }
    Ok(())
}
