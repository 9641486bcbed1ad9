//! What `sim` and `run` leave behind: the closing table or JSON, a journal, a trace,
//! lists.

use crate::case::Case;
use crate::commands::policies::default_of;
use crate::failure::Failure;
use crate::output::{self, Pending};
use maracas_trace::{Report, csv, table};
use std::fs;
use std::path::{Path, PathBuf};

/// The options that `sim` and `run` share.
#[derive(clap::Args, Debug)]
pub(crate) struct Wanted {
    /// The report as JSON in place of the table, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress and no notes
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Write the journal, which `maracas replay` and `maracas gantt` read
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// Write a trace that Perfetto opens (ui.perfetto.dev)
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write jobs.csv and pieces.csv, one line per job and per piece of a job, into a directory,
    /// which is made where it is not there
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,
}

/// The files that were asked for, open from the start so that a path that cannot be written is
/// known before anything runs.
pub(crate) struct Files {
    pub(crate) journal: Option<Pending>,
    pub(crate) trace: Option<Pending>,
    pub(crate) csv: Option<Csv>,
}

/// Names of the lists.
const JOBS: &str = "jobs.csv";
const PIECES: &str = "pieces.csv";

/// Two lists for spreadsheets, drawn from a whole journal.
pub(crate) struct Csv {
    jobs: Pending,
    pieces: Pending,
    /// Last, so that files under way are gone before it is looked at.
    made: Made,
}

/// A directory that was made for the lists; where none were written, it goes again.
struct Made(Option<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Fails where there is something in it, and shall.
            let _ = fs::remove_dir(path);
        }
    }
}

impl Csv {
    fn create(directory: &Path) -> Result<Self, Failure> {
        let made = Made((!directory.exists()).then(|| directory.to_path_buf()));
        if made.0.is_some() {
            fs::create_dir(directory).map_err(|error| {
                let why = format_args!("the directory cannot be made: {error}");
                Failure::about(directory.display(), why)
            })?;
        }
        let jobs = Pending::create(&directory.join(JOBS))?;
        Ok(Self { jobs, pieces: Pending::create(&directory.join(PIECES))?, made })
    }
    /// Writes both lists.
    ///
    /// # Errors
    /// Where the journal cannot be read or a file cannot be written.
    pub(crate) fn write(mut self, journal: &[u8]) -> Result<(), Failure> {
        csv::jobs(journal, &mut self.jobs)
            .and_then(|()| csv::pieces(journal, &mut self.pieces))
            .map_err(|error| Failure::about("--csv", error))?;
        self.jobs.commit()?;
        self.pieces.commit()?;
        drop(self.made);
        Ok(())
    }
}

impl Wanted {
    /// Opens what was asked for, given what is read: what it is and its path.
    ///
    /// # Errors
    /// Where a path cannot be written, is asked for twice, or is the one that is read.
    pub(crate) fn open(&self, read: (&str, &Path)) -> Result<Files, Failure> {
        let mut written = Vec::new();
        written.extend(self.journal.clone().map(|path| ("--journal", path)));
        written.extend(self.trace.clone().map(|path| ("--trace", path)));
        for list in [JOBS, PIECES] {
            written.extend(self.csv.as_ref().map(|directory| ("--csv", directory.join(list))));
        }
        output::keep_apart(&[read], &written)?;
        Ok(Files {
            journal: Pending::maybe(self.journal.as_ref())?,
            trace: Pending::maybe(self.trace.as_ref())?,
            csv: self.csv.as_deref().map(Csv::create).transpose()?,
        })
    }
    /// Whether progress and notes are shown.
    pub(crate) const fn talks(&self) -> bool {
        !self.json && !self.quiet
    }
    /// Says on standard error what was assumed where the file is silent.
    pub(crate) fn say_assumptions(&self, case: &Case) {
        if self.talks() {
            case.assumptions().iter().for_each(|text| output::note(text));
        }
    }
    /// Prints the report; `host` says on what it ran, live.
    ///
    /// # Errors
    /// Where standard output is gone.
    pub(crate) fn show(&self, report: &Report, host: Option<&str>) -> Result<(), Failure> {
        let fail = |error: &dyn std::fmt::Display| Failure::about("report", error);
        if self.json {
            let mut json = serde_json::to_value(report).map_err(|error| fail(&error))?;
            add_defaults(&mut json["params"], &report.policy);
            if let Some(host) = host {
                json["host"] = host.into();
            }
            return output::line(&format!("{json:#}"));
        }
        let mut text = Vec::new();
        table::write(report, style(), &mut text).map_err(|error| fail(&error))?;
        output::print(&String::from_utf8_lossy(&text))
    }
}

/// Adds to the parameters that were given the defaults of those that were not.
fn add_defaults(params: &mut serde_json::Value, policy: &str) {
    let Some(entry) = maracas_policies::find(policy) else { return };
    for param in entry.params {
        if let Some(default) = default_of(param.kind)
            && params[param.name].is_null()
        {
            params[param.name] = default.into();
        }
    }
}

/// How tables look here.
pub(crate) fn style() -> table::Style {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    let width = size.ok().map(|size| size.ws_col).filter(|columns| *columns > 0);
    table::Style { color: output::colours(), width }
}
