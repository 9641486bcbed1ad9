//! Task sets and overhead tables of other tools: read and written.
//!
//! One file a format. Readers refuse what a task set cannot mean where it changes what is
//! scheduled, and list the rest in [`TaskSet::notes`]; writers list what their format cannot say.
//! The reference for users, key by key, is `docs/formats.md`.

mod csv;
mod decimal;
mod json;
pub mod overheads;
mod requirements;
mod rt_app;
mod schedcat;
mod simso;
pub(crate) mod task;
mod xml;

use crate::error::{Error, Source, did_you_mean, quoted, read_text};
use crate::taskset::TaskSet;
pub use csv::COLUMNS;
pub use rt_app::Scripted;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// A form in which task sets are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Our own table ([`crate::taskset`]).
    Csv,
    /// JSON of rt-app, the workload generator of the Linux scheduler's developers.
    RtApp,
    /// XML of the simulator SimSo.
    SimSo,
    /// XML of SchedCAT, the collection of schedulability tests.
    SchedCat,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Csv, Self::RtApp, Self::SimSo, Self::SchedCat];

    /// The word users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::RtApp => "rt-app",
            Self::SimSo => "simso",
            Self::SchedCat => "schedcat",
        }
    }

    /// The format of a file: by the extensions `.csv` and `.json`, else by how it begins.
    pub fn of(path: &Path, text: &str) -> Self {
        let extension = path.extension().unwrap_or_default();
        let text = text.trim_start_matches('\u{feff}').trim_start();
        if extension.eq_ignore_ascii_case("csv") {
            Self::Csv
        } else if extension.eq_ignore_ascii_case("json") || text.starts_with(['{', '[', '/']) {
            Self::RtApp
        } else if extension.eq_ignore_ascii_case("xml") || text.starts_with('<') {
            if text.contains("<simulation") { Self::SimSo } else { Self::SchedCat }
        } else {
            Self::Csv
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        let hint = || did_you_mean(word, Self::ALL.map(Self::name), "formats");
        Self::ALL.into_iter().find(|format| format.name() == word).ok_or_else(hint)
    }
}

impl TaskSet {
    /// Reads and checks a file of any known format ([`Format::of`]).
    ///
    /// # Errors
    /// Where the file cannot be read or says something wrong; the first error in it.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        read(path.as_ref(), None)
    }

    /// Reads and checks a table of comma-separated values; `file` is its name in errors.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place and the way out.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        parse(text, file, Format::Csv)
    }
}

/// Reads and checks a file of this format, or of the one that it looks like.
///
/// # Errors
/// Where the file cannot be read or says something wrong; the first error in it.
pub fn read(path: &Path, format: Option<Format>) -> Result<TaskSet, Error> {
    let text = read_text(path)?;
    let format = format.unwrap_or_else(|| Format::of(path, &text));
    parse(&text, &path.display().to_string(), format)
}

/// Reads and checks a text of this format; `file` is its name in errors.
///
/// # Errors
/// The first thing that is wrong, with its place and the way out.
pub fn parse(text: &str, file: &str, format: Format) -> Result<TaskSet, Error> {
    let source = Source::new(file, text);
    match format {
        Format::Csv => csv::read(&source),
        Format::RtApp => rt_app::read(&source),
        Format::SimSo => simso::read(&source),
        Format::SchedCat => schedcat::read(&source),
    }
}

/// What a file holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Loads {
    /// Tasks.
    Tasks(TaskSet),
    /// Threads of rt-app that wait for each other or take locks, which no task set can say.
    Scripts(Scripted),
}

/// Reads and checks a file of this format, or of the one that it looks like ([`parse_loads`]).
///
/// # Errors
/// Where the file cannot be read or says something wrong; the first error in it.
pub fn read_loads(path: &Path, format: Option<Format>) -> Result<Loads, Error> {
    let text = read_text(path)?;
    parse_loads(&text, &path.display().to_string(), format)
}

/// As [`parse`], of this format or of the one that it looks like; threads of rt-app that a task
/// set cannot say come as scripts.
///
/// # Errors
/// As [`parse`].
pub fn parse_loads(text: &str, file: &str, format: Option<Format>) -> Result<Loads, Error> {
    let format = format.unwrap_or_else(|| Format::of(Path::new(file), text));
    if format == Format::RtApp {
        let mended = rt_app::Mended::of(text);
        let mended_text = mended.as_ref().map_or(text, |mended| &mended.text);
        let source = Source::new(file, mended_text);
        let read = rt_app::read_scripts(&source).map_err(|error| match &mended {
            Some(mended) => mended.moved(text, error),
            None => error,
        });
        if let Some(mut scripts) = read? {
            scripts.notes.extend(mended.as_ref().map(|_| {
                "`suspend` without a value, which is no JSON, is read as rt-app's `workgen` read \
                 it until May 2025: of its own name"
                    .into()
            }));
            return Ok(Loads::Scripts(scripts));
        }
    }
    parse(text, file, format).map(Loads::Tasks)
}

/// A task set as written.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Written {
    /// The file.
    pub text: String,
    /// What of the set the format does not say, as sentences for the user.
    pub losses: Vec<String>,
    /// What the file says beyond the set, in such sentences.
    pub additions: Vec<String>,
}

/// How to write, where a format has more than one way.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Style {
    /// rt-app: threads of SCHED_DEADLINE with `dl-runtime`, `dl-period` and `dl-deadline`.
    pub deadline_class: bool,
}

/// Writes a set in this format.
///
/// # Errors
/// Where the format cannot say it at all: which task, why, and the way out. Also where the set is
/// empty.
pub fn write(set: &TaskSet, format: Format, style: Style) -> Result<Written, String> {
    if set.tasks.is_empty() {
        return Err("there is no task to write".into());
    }
    let mut written = match format {
        Format::Csv => Written { text: set.to_string(), ..Written::default() },
        Format::RtApp => rt_app::write(set, style)?,
        Format::SimSo => simso::write(set),
        Format::SchedCat => schedcat::write(set),
    };
    if set.resources.is_some() {
        written.losses.push("resources and critical sections are lost: they are only read".into());
    }
    Ok(written)
}

/// A set of checked tasks with their names; each name stands beside its place in the file.
fn named(source: &Source<'_>, set: TaskSet, names: Vec<(usize, String)>) -> Result<TaskSet, Error> {
    let mut set = set;
    let texts = names.iter().map(|(_, name)| task::clean_name(name)).collect();
    set.set_names(texts).map_err(|twice| {
        let (at, name) = &names[twice];
        let shown = quoted(name);
        source.error(*at, format!("another task is called {shown} too; rename one"))
    })?;
    for ((_, name), kept) in names.iter().zip(&set.names) {
        if !name.is_empty() && name != kept {
            let name = quoted(name).replace(char::is_control, " ");
            set.notes.push(format!("{kept}: written {name}, with characters that CSV lacks"));
        }
    }
    Ok(set)
}
