//! Overhead tables in the form of SchedCAT, as what the simulator charges.

use maracas_console::failure::Failure;
use maracas_console::output;
use maracas_core::Overheads;
use maracas_scenario::formats::overheads::{Key, Table};
use maracas_session::case::Case;
use std::path::PathBuf;

/// Measured overheads in place of the scenario's.
#[derive(clap::Args, Debug)]
pub(super) struct Measured {
    /// Charge what this table says for as many tasks as there are: CSV with a column TASK-COUNT and
    /// columns RELEASE, SCHEDULE and CXS in microseconds, as SchedCAT reads it (docs/formats.md)
    #[arg(long, value_name = "FILE")]
    overheads: Option<PathBuf>,
    /// Charge a migration what this table of cache delays says at most for --wss: CSV with a column
    /// WSS and columns L1, L2, L3 and MEM in microseconds
    #[arg(long, value_name = "FILE", requires = "wss")]
    cpmd: Option<PathBuf>,
    /// Working set of each task, in the unit of the table (SchedCAT: KiB)
    #[arg(long, value_name = "SIZE", requires = "cpmd")]
    wss: Option<u64>,
}

impl Measured {
    /// Puts the tables' costs into `overheads`, and says what is not charged.
    ///
    /// # Errors
    /// Whatever is wrong in a table, and where it is of the other kind.
    pub(super) fn charge(&self, case: &Case, overheads: &mut Overheads) -> Result<(), Failure> {
        if let Some(file) = &self.overheads {
            let table = read(file, Key::TaskCount)?;
            let tasks = case.without_service_vcpus().vcpus.len() as u64;
            table.charge(tasks, overheads);
            let about = |what: String| output::note(&format!("{}: {what}", file.display()));
            if !table.covers(tasks) && table.rows.len() > 1 {
                about(format!("{tasks} tasks lie outside its rows; costs are extrapolated"));
            }
            let left = table.uncharged().join(", ");
            if !left.is_empty() {
                about(format!("{left}: not charged by the simulator"));
            }
        }
        if let (Some(file), Some(wss)) = (&self.cpmd, self.wss) {
            let table = read(file, Key::WorkingSet)?;
            overheads.migration = table.greatest(wss);
            if !table.covers(wss) && table.rows.len() > 1 {
                let what = format!("WSS {wss} lies outside its rows; the cost is extrapolated");
                output::note(&format!("{}: {what}", file.display()));
            }
        }
        Ok(())
    }
}

fn read(file: &PathBuf, key: Key) -> Result<Table, Failure> {
    let table = Table::read(file).map_err(Failure::new)?;
    if table.key == key {
        return Ok(table);
    }
    let (found, wanted) = (table.key.column(), key.column());
    let option = match key {
        Key::TaskCount => "--cpmd",
        Key::WorkingSet => "--overheads",
    };
    let why = format!("its rows are by {found}, not by {wanted}; give it to {option}");
    Err(Failure::about(file.display(), why))
}
