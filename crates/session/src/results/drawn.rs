//! What is drawn from a whole journal, once it is there: lists, and traces whose records stand in
//! the order of time.

use maracas_console::failure::Failure;
use maracas_console::output::{self, Pending};
use maracas_core::journal::Header;
use maracas_trace::{TraceError, btf, csv, perfetto, sched_trace};
use std::fs;
use std::path::{Path, PathBuf};

/// Names of the lists.
pub(super) const LISTS: [&str; 4] = ["jobs.csv", "pieces.csv", "samples.csv", "speeds.csv"];

/// The format of a trace, by how its file's name ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Any other ending.
    Perfetto,
    /// `.btf`
    Btf,
    /// `.st`
    SchedTrace,
}

impl Format {
    fn of(path: &Path) -> Self {
        match path.extension() {
            Some(ending) if ending.eq_ignore_ascii_case("btf") => Self::Btf,
            Some(ending) if ending.eq_ignore_ascii_case("st") => Self::SchedTrace,
            _ => Self::Perfetto,
        }
    }
    fn check(self, header: &Header) -> Result<(), Failure> {
        let checked = if self == Self::SchedTrace { sched_trace::check(header) } else { Ok(()) };
        checked.map_err(about_trace)
    }
    /// Writes it, and says what could not be said where there are readers for that (`talks`).
    fn write(self, journal: &[u8], mut file: Pending, talks: bool) -> Result<(), Failure> {
        let written = match self {
            Self::Perfetto => perfetto::from_journal(journal, &mut file).map(|()| Vec::new()),
            Self::Btf => btf::from_journal(journal, &mut file),
            Self::SchedTrace => sched_trace::from_journal(journal, &mut file),
        };
        let remarks = written.map_err(about_trace)?;
        remarks.iter().filter(|_| talks).for_each(|remark| output::note(remark));
        file.commit()
    }
}

fn about_trace(error: TraceError) -> Failure {
    about("--trace", error)
}

/// What the option could not be given; an error of the output names its file.
fn about(option: &str, error: TraceError) -> Failure {
    match error {
        TraceError::Io(error) => Failure::new(error),
        error @ (TraceError::Journal(_) | TraceError::Format(_)) => Failure::about(option, error),
    }
}

/// Whether the format of a trace with this name wants its records in the order of time.
pub(super) fn is_ordered(path: &Path) -> bool {
    Format::of(path) != Format::Perfetto
}

/// Writes the trace of `journal`, which was read from `read`, to `file`, in the format that its
/// name ends with.
///
/// # Errors
/// Where the journal cannot be read, the format cannot say it, or the file cannot be written.
pub fn write_trace(journal: &[u8], read: &Path, file: &Path) -> Result<(), Failure> {
    output::keep_apart(&[("journal", read)], &[("--trace", file.to_path_buf())])?;
    Format::of(file).write(journal, Pending::create(file)?, true)
}

/// What is drawn from a whole journal.
pub struct Drawn {
    csv: Option<Csv>,
    trace: Option<(Format, Pending)>,
    talks: bool,
}

impl Drawn {
    /// Opens the lists in a directory and a trace, where they are asked for; `None` where neither
    /// is. `talks` is whether notes are shown.
    ///
    /// # Errors
    /// Where a file cannot be written, or the format of the trace cannot name what `header` has.
    pub(super) fn open(
        directory: Option<&Path>,
        trace: Option<&PathBuf>,
        header: &Header,
        talks: bool,
    ) -> Result<Option<Self>, Failure> {
        let open = |path: &PathBuf| {
            let format = Format::of(path);
            format.check(header)?;
            Ok((format, Pending::create(path)?))
        };
        let trace = trace.map(open).transpose()?;
        let csv = directory.map(Csv::create).transpose()?;
        Ok((csv.is_some() || trace.is_some()).then_some(Self { csv, trace, talks }))
    }
    /// Writes all of it that can be written: where the journal cannot be read, the format of the
    /// trace cannot say it, or a file cannot be written, why.
    #[must_use]
    pub fn write(self, journal: &[u8]) -> Vec<Failure> {
        let mut failures = self.csv.map_or_else(Vec::new, |csv| csv.write(journal));
        let trace = self.trace.map(|(format, file)| format.write(journal, file, self.talks));
        failures.extend(trace.and_then(Result::err));
        failures
    }
}

/// Lists for spreadsheets.
struct Csv {
    /// In the order of [`LISTS`].
    files: [Pending; 4],
    /// Last, so that files under way are gone before it is looked at.
    made: Made,
}

/// A directory that was made for the lists; where none were written, it goes again.
struct Made(Option<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Fails where there is something in it, and must.
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
        let [jobs, pieces, samples, speeds] = LISTS.map(|it| Pending::create(&directory.join(it)));
        Ok(Self { files: [jobs?, pieces?, samples?, speeds?], made })
    }
    /// Writes each list that can be written; why the others cannot.
    fn write(self, journal: &[u8]) -> Vec<Failure> {
        type Fill = fn(&[u8], &mut Pending) -> Result<(), TraceError>;
        let fill: [Fill; 4] = [
            |journal, file| csv::jobs(journal, file),
            |journal, file| csv::pieces(journal, file),
            |journal, file| csv::samples(journal, file),
            |journal, file| csv::speeds(journal, file),
        ];
        let write = |(mut file, fill): (Pending, Fill)| {
            fill(journal, &mut file).map_err(|error| about("--csv", error))?;
            file.commit()
        };
        let lists = self.files.into_iter().zip(fill);
        let failures = lists.filter_map(|list| write(list).err()).collect();
        drop(self.made);
        failures
    }
}
