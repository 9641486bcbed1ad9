//! What `sim` and `run` leave behind: the closing table or JSON, a journal, a trace,
//! lists.

mod drawn;

pub use drawn::{Drawn, write_trace};

use crate::blocking::Blocked;
use crate::case::Case;
use crate::threads::Threads;
use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output::{self, Pending};
use maracas_core::params::Kind;
use maracas_trace::{Report, table};
use std::path::{Path, PathBuf};

/// The options that `sim` and `run` share.
#[derive(clap::Args, Debug)]
pub struct Wanted {
    /// The report as JSON in place of the table, and nothing else
    #[arg(long)]
    pub json: bool,
    /// No progress and no notes
    #[arg(long, short)]
    pub quiet: bool,
    /// Write the journal, which `maracas replay` and `maracas gantt` read
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// Write a trace that Perfetto opens (ui.perfetto.dev); where the name ends in `.btf`, in the
    /// Best Trace Format, and in `.st`, as LITMUS^RT's sched_trace
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write jobs.csv, pieces.csv, samples.csv and speeds.csv, one line per job, per piece of a
    /// job, per sample of memory and per window of time on uneven cores, into a directory, which
    /// is made where it is not there
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,
}

/// The files that were asked for, open from the start so that a path that cannot be written is
/// known before anything runs.
pub struct Files {
    /// For the journal.
    pub journal: Option<Pending>,
    /// For the trace that is written while the machine runs, Perfetto's.
    pub trace: Option<Pending>,
    /// For what is drawn from the whole journal.
    pub drawn: Option<Drawn>,
}

/// What could not be written while a run went on, which it outlives, as do its other files.
#[derive(Default)]
pub struct Unwritten(Vec<Failure>);

impl Unwritten {
    /// Says at once that a file is lost, and goes on.
    pub fn lose(&mut self, failure: Failure) {
        if let Failure::Bad(line) = &failure {
            output::note(&format!("{line}; all else goes on"));
        }
        self.0.push(failure);
    }
    /// Takes in what is known at the end only.
    pub fn extend(&mut self, failures: impl IntoIterator<Item = Failure>) {
        self.0.extend(failures);
    }
    /// The answer of a run whose report is shown: as promises were kept; else, where a file could
    /// not be written, bad, with a line for each.
    ///
    /// # Errors
    /// Where promises were kept and a file could not be written.
    pub fn answer(mut self, report: &Report) -> Outcome {
        let answer = Answer::of(report);
        let last = if answer == Answer::Yes { self.0.pop() } else { None };
        for failure in self.0 {
            if let Failure::Bad(line) = failure {
                output::note(&line);
            }
        }
        last.map_or(Ok(answer), Err)
    }
}

/// On what a live run ran, for its report.
#[derive(Default)]
pub struct Ran {
    /// The host, in words.
    pub host: Option<String>,
    /// By what the machine law was carried out: `agents` or `sched-ext`.
    pub backend: Option<&'static str>,
    /// Which cores were slowed down to stand for slower ones, in a sentence.
    pub emulation: Option<String>,
}

impl Wanted {
    /// Opens what was asked for, given what is read: what it is and its path.
    ///
    /// # Errors
    /// Where a path cannot be written, is asked for twice, or is the one that is read; where the
    /// format of the trace cannot name the cores or VCPUs of `case`.
    pub fn open(&self, read: (&str, &Path), case: &Case) -> Result<Files, Failure> {
        let mut written = Vec::new();
        written.extend(self.journal.clone().map(|path| ("--journal", path)));
        written.extend(self.trace.clone().map(|path| ("--trace", path)));
        for list in drawn::LISTS {
            written.extend(self.csv.as_ref().map(|directory| ("--csv", directory.join(list))));
        }
        output::keep_apart(&[read], &written)?;
        let ordered = self.trace.as_ref().filter(|path| drawn::is_ordered(path));
        let streamed = self.trace.as_ref().filter(|path| !drawn::is_ordered(path));
        Ok(Files {
            journal: Pending::maybe(self.journal.as_ref())?,
            trace: Pending::maybe(streamed)?,
            drawn: Drawn::open(self.csv.as_deref(), ordered, &case.header(), self.talks())?,
        })
    }
    /// Whether progress and notes are shown.
    pub const fn talks(&self) -> bool {
        !self.json && !self.quiet
    }
    /// Says on standard error what was assumed where the file is silent.
    pub fn say_assumptions(&self, case: &Case) {
        if self.talks() {
            case.assumptions().iter().for_each(|text| output::note(text));
        }
    }
    /// Prints the report; `ran` says on what it ran, live, and `threads` what those with scripts
    /// came to, `blocked` how long jobs waited for resources.
    ///
    /// # Errors
    /// Where standard output is gone.
    pub fn show(
        &self,
        report: &Report,
        ran: Option<&Ran>,
        threads: Option<&Threads>,
        blocked: Option<&Blocked>,
    ) -> Result<(), Failure> {
        let fail = |error: &dyn std::fmt::Display| Failure::about("report", error);
        if self.json {
            let mut json = to_json(report)?;
            if let Some(Ran { host, backend, emulation }) = ran {
                json["host"] = host.clone().into();
                json["backend"] = (*backend).into();
                json["emulation"] = emulation.clone().into();
            }
            if let Some(threads) = threads {
                json["threads"] = threads.to_json();
            }
            if let Some(blocked) = blocked {
                json["resources"] = blocked.to_json();
            }
            return output::line(&format!("{json:#}"));
        }
        let mut text = Vec::new();
        table::write(report, style(), &mut text).map_err(|error| fail(&error))?;
        if let Some(emulation) = ran.and_then(|ran| ran.emulation.as_ref()) {
            text.extend_from_slice(format!("{emulation}\n").as_bytes());
        }
        if let Some(threads) = threads {
            text.extend_from_slice(threads.text().as_bytes());
        }
        if let Some(blocked) = blocked {
            text.extend_from_slice(blocked.text().as_bytes());
        }
        output::print(&String::from_utf8_lossy(&text))
    }
}

/// The report for programs: as it is, with every parameter of the policy.
///
/// # Errors
/// Where a number in it is none of JSON's.
pub fn to_json(report: &Report) -> Result<serde_json::Value, Failure> {
    let json = serde_json::to_value(report);
    let mut json = json.map_err(|error| Failure::about("report", error))?;
    json["params"] = params(report);
    Ok(json)
}

/// All parameters of the policy in the order in which it names them: as given, or the default; ""
/// where there is neither.
fn params(report: &Report) -> serde_json::Value {
    let entry = maracas_policies::find(&report.policy);
    let mut params = serde_json::Map::new();
    for param in entry.iter().flat_map(|entry| entry.params) {
        let default = || default_of(param.kind).unwrap_or_default();
        let value = report.params.get(param.name).cloned().unwrap_or_else(default);
        params.insert(param.name.into(), value.into());
    }
    let unknown = report.params.iter().filter(|(name, _)| !params.contains_key(*name));
    let unknown: Vec<_> = unknown.collect();
    params.extend(unknown.into_iter().map(|(name, value)| (name.clone(), value.clone().into())));
    params.into()
}

/// How tables look here.
pub fn style() -> table::Style {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    let width = size.ok().map(|size| size.ws_col).filter(|columns| *columns > 0);
    table::Style { color: output::colours(), width }
}

/// What holds where a parameter is not set, as it would be written; `None` where nothing does.
pub fn default_of(kind: Kind) -> Option<String> {
    match kind {
        Kind::Choice(words) => words.first().map(ToString::to_string),
        Kind::Time("") => None,
        Kind::Time(default) => Some(default.to_string()),
        Kind::Whole(default, ..) => Some(default.to_string()),
        Kind::Fraction(num, den) => Some(format!("{num}/{den}")),
        Kind::Flag(default) => Some(default.to_string()),
        Kind::List(..) => None,
    }
}
