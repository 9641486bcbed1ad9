//! Everything that leaves the program: standard output (the only place that writes to it), files
//! that appear whole or not at all, and the progress line on standard error.

use crate::failure::Failure;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Writes `text` to standard output and flushes it.
///
/// # Errors
/// [`Failure::OutputClosed`] where the reader is gone; otherwise what the system said.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Failure::OutputClosed
        } else {
            Failure::about("standard output", error)
        }
    })
}

/// Writes `text` and a line end to standard output.
///
/// # Errors
/// As [`print()`].
pub fn line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// Says something beside the result: a warning, a fallback taken. One line on standard error.
pub fn note(text: &str) {
    // A closed standard error leaves no place to report it.
    let _ = writeln!(io::stderr(), "maracas: {}", without_numbers(text));
}

/// `text` without the numbers that the standard library adds to the system's words.
fn without_numbers(text: &str) -> String {
    let mut pieces = text.split(" (os error ");
    let mut plain = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        plain += piece.split_once(')').map_or(piece, |(_, rest)| rest);
    }
    plain
}

/// Writes a live view to standard error.
pub fn status(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Whether standard error is a terminal.
pub fn errors_on_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Whether standard output shows colours: a terminal that has some, and the user has not set
/// NO_COLOR.
pub fn colours() -> bool {
    let is_plain = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
    io::stdout().is_terminal()
        && !is_plain
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// How text is marked on a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paint {
    /// Accepted, present.
    Good,
    /// Refused, missing.
    Bad,
    /// Headings.
    Strong,
}

/// `text` in colour where colours are shown, else unchanged.
pub fn paint(paint: Paint, text: &str) -> String {
    if !colours() {
        return text.to_string();
    }
    let code = match paint {
        Paint::Good => "32",
        Paint::Bad => "31",
        Paint::Strong => "1",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Holds the files that are written apart from each other and from those that are read, however
/// their paths are spelled. `written` gives each its option.
///
/// # Errors
/// Where one file would be destroyed by another.
pub fn keep_apart(read: &[(&str, &Path)], written: &[(&str, PathBuf)]) -> Result<(), Failure> {
    for (place, (option, path)) in written.iter().enumerate() {
        let Some(spot) = Spot::of(path) else { continue };
        let same = |other: &Path| Spot::of(other).as_ref() == Some(&spot);
        if let Some((what, _)) = read.iter().find(|(_, other)| same(other)) {
            let path = path.display();
            let line = format!("{option} {path} is the {what} itself; name another file");
            return Err(Failure::new(line));
        }
        if let Some((other, _)) = written[..place].iter().find(|(_, other)| same(other)) {
            return Err(Failure::new(format!("{other} and {option} name the same file; name two")));
        }
    }
    Ok(())
}

/// One file, whatever its path is.
#[derive(PartialEq, Eq)]
enum Spot {
    /// Device and inode of a file that is there.
    Inode(u64, u64),
    /// Where a file will be.
    Path(PathBuf),
}

impl Spot {
    /// `None` for what writing does not destroy (`/dev/null`, a pipe) and for what cannot be
    /// written anyway.
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        match fs::metadata(path) {
            Ok(meta) => meta.is_file().then(|| Self::Inode(meta.dev(), meta.ino())),
            Err(_) => {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                let parent = parent.unwrap_or(Path::new("."));
                let parent = fs::canonicalize(parent).unwrap_or_else(|_| parent.to_path_buf());
                Some(Self::Path(parent.join(path.file_name()?)))
            }
        }
    }
}

/// A file that appears under its name only when [`Pending::commit`] is called. It is opened at
/// once, so that a path that cannot be written is known before any work is done.
#[derive(Debug)]
pub struct Pending {
    file: Option<BufWriter<File>>,
    path: PathBuf,
    /// The file itself, where the path is a symbolic link to it.
    target: PathBuf,
    /// Where it is written meanwhile; `None` for what is no regular file (`/dev/null`, a pipe).
    temporary: Option<PathBuf>,
}

impl Pending {
    /// Opens `path` for writing.
    ///
    /// # Errors
    /// Where the path is a directory or its directory cannot be written.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let fail = |error: &dyn std::fmt::Display| {
            Failure::about(path.display(), format_args!("cannot be written: {error}"))
        };
        if path == Path::new("-") {
            return Err(fail(&"standard output is for the report; name a file, or ./-"));
        }
        let (path, target) = (path.to_path_buf(), behind_link(path));
        let special = match fs::metadata(&path) {
            Ok(meta) if meta.is_dir() => return Err(fail(&"it is a directory; name a file")),
            Ok(meta) => !meta.is_file(),
            Err(_) => false,
        };
        if special {
            let file = File::options().write(true).open(&path).map_err(|error| fail(&error))?;
            let file = Some(BufWriter::new(file));
            return Ok(Self { file, path, target, temporary: None });
        }
        let name = target.file_name().ok_or_else(|| fail(&"it names no file"))?;
        let hidden = format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id());
        let temporary = target.with_file_name(hidden);
        // Held from before it is there, so that a signal finds it on the list.
        let mut listed = under_way();
        let file = File::options()
            .write(true)
            .create_new(true)
            .open(&temporary)
            .map_err(|error| fail(&error))?;
        listed.push(temporary.clone());
        drop(listed);
        let file = Some(BufWriter::new(file));
        Ok(Self { file, path, target, temporary: Some(temporary) })
    }

    /// Opens the path if there is one.
    ///
    /// # Errors
    /// As [`Pending::create`].
    pub fn maybe(path: Option<&PathBuf>) -> Result<Option<Self>, Failure> {
        path.map(|path| Self::create(path)).transpose()
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// Where the last bytes or the renaming fail; then no file is left.
    pub fn commit(mut self) -> Result<(), Failure> {
        let finish = |mut file: BufWriter<File>| {
            file.flush()?;
            let Some(temporary) = &self.temporary else { return Ok(()) };
            // A signal finds it either on the list or in its place.
            let mut listed = under_way();
            fs::rename(temporary, &self.target)?;
            listed.retain(|path| path != temporary);
            Ok(())
        };
        let result = self.file.take().map_or(Ok(()), finish);
        if result.is_ok() {
            self.temporary = None;
        }
        result.map_err(|error| Failure::new(self.named(&error)))
    }

    /// The system's error with the path, of which it says nothing.
    fn named(&self, error: &io::Error) -> io::Error {
        let line = format!("{}: cannot be written: {error}", self.path.display());
        io::Error::new(error.kind(), line)
    }
}

/// What `path` stands for: the file that a symbolic link names, so that the link stays one.
fn behind_link(path: &Path) -> PathBuf {
    let target = if path.is_symlink() { fs::canonicalize(path).ok() } else { None };
    target.unwrap_or_else(|| path.to_path_buf())
}

/// Its errors name the path.
impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.as_mut().map_or(Ok(0), |file| file.write(bytes));
        written.map_err(|error| self.named(&error))
    }
    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.as_mut().map_or(Ok(()), Write::flush);
        flushed.map_err(|error| self.named(&error))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // Nothing more can be done where even removing fails; the name says what it is.
            let _ = fs::remove_file(&temporary);
            under_way().retain(|path| *path != temporary);
        }
    }
}

/// Files under way, and directories of them, by their temporary names.
static UNDER_WAY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn under_way() -> MutexGuard<'static, Vec<PathBuf>> {
    // A list of paths is whole whatever happened to the thread that held it.
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Directories that go with the files under way in them.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Where a signal ends the program, `directory` goes too if it is empty then. For one that will be
/// made; one that is there stays.
pub fn remove_if_empty_at_signals(directory: &Path) {
    if !directory.exists() {
        MADE.lock().unwrap_or_else(PoisonError::into_inner).push(directory.to_path_buf());
    }
}

/// From here on SIGINT and SIGTERM end the program without leaving half-written files. For
/// commands that compute and cannot be stopped in order.
///
/// # Errors
/// Where the handlers cannot be set.
pub fn leave_nothing_at_signals() -> Result<(), Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let fail = |error| Failure::about("a signal handler cannot be set", error);
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(fail)?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            // Held to the end: what is written into a directory waits for it.
            let listed = under_way();
            for path in listed.iter() {
                let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
            }
            for path in MADE.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                // Fails where there is something in it, and must.
                let _ = fs::remove_dir(path);
            }
            note("interrupted; nothing was written");
            // As a shell reports a program that a signal ended.
            std::process::exit(128 + signal);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map_err(fail)?;
    Ok(())
}

/// Writes `text` whole to `path`.
///
/// # Errors
/// As [`Pending::create`] and [`Pending::commit`].
pub fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    let mut file = Pending::create(path)?;
    file.write_all(text.as_bytes()).map_err(Failure::new)?;
    file.commit()
}

/// Writes files of these names and contents into `directory`, all of them or none: into a hidden
/// one beside it, which then takes its name. One that is there must be empty.
///
/// # Errors
/// Where the directory or a file in it cannot be written; then nothing is left.
pub fn write_directory(directory: &Path, files: &[(String, String)]) -> Result<(), Failure> {
    let fail = |error: io::Error| {
        Failure::about(directory.display(), format_args!("cannot be written: {error}"))
    };
    let name = directory.file_name().ok_or_else(|| {
        Failure::about(directory.display(), "it names no directory; name a new one")
    })?;
    let hidden = format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id());
    let hidden = directory.with_file_name(hidden);
    // Each step holds the list, so that a signal's removal meets no file that comes meanwhile.
    let mut listed = under_way();
    fs::create_dir(&hidden).map_err(fail)?;
    listed.push(hidden.clone());
    drop(listed);
    let write = |(name, text): &(String, String)| {
        let _listed = under_way();
        fs::write(hidden.join(name), text)
    };
    let written = files.iter().try_for_each(write);
    let mut listed = under_way();
    let written = written.and_then(|()| fs::rename(&hidden, directory));
    listed.retain(|path| *path != hidden);
    written.map_err(|error| {
        // Nothing more can be done where even removing fails; the name says what it is.
        let _ = fs::remove_dir_all(&hidden);
        fail(error)
    })
}

/// How far a long computation is, on standard error: one line rewritten on a terminal, a plain
/// line now and then elsewhere.
#[derive(Debug)]
pub struct Bar {
    what: &'static str,
    terminal: bool,
    next: Duration,
    shown: bool,
}

impl Bar {
    /// Shows nothing yet.
    pub fn new(what: &'static str) -> Self {
        let terminal = io::stderr().is_terminal();
        // Nothing for what is over in a moment.
        let next = Duration::from_millis(if terminal { 500 } else { 5_000 });
        Self { what, terminal, next, shown: false }
    }
    /// Shows that the part `done` of 1 is done after the time `elapsed`, where it is time to.
    pub fn show(&mut self, done: f64, elapsed: Duration) {
        if elapsed < self.next {
            return;
        }
        self.next = elapsed + Duration::from_millis(if self.terminal { 200 } else { 5_000 });
        let done = done.clamp(0.0, 1.0);
        let percent = done * 100.0;
        if self.terminal {
            let full = (done * 40.0) as usize;
            let (full, empty) = ("#".repeat(full), ".".repeat(40 - full));
            let _ = write!(io::stderr(), "\r{} [{full}{empty}] {percent:3.0} %", self.what);
            self.shown = true;
        } else {
            note(&format!("{} {percent:.0} % after {:.0} s", self.what, elapsed.as_secs_f64()));
        }
    }
    /// Takes the line away again.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_carry_no_error_numbers() {
        assert_eq!(without_numbers("x: Not found (os error 2); y"), "x: Not found; y");
        assert_eq!(without_numbers("x (os error 2) y (os error 13)"), "x y");
        assert_eq!(without_numbers("plain (text)"), "plain (text)");
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let directory = std::env::temp_dir().join(format!("maracas-out-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("a.json");
        let mut pending = Pending::create(&path).unwrap();
        pending.write_all(b"half").unwrap();
        drop(pending);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        write_file(&path, "whole").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        let missing = Pending::create(&directory.join("no/such/a.json")).unwrap_err();
        assert!(matches!(missing, Failure::Bad(line) if line.contains("cannot be written")));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_symbolic_link_stays_one_and_its_file_is_written() {
        let directory = std::env::temp_dir().join(format!("maracas-link-{}", std::process::id()));
        fs::create_dir_all(directory.join("there")).unwrap();
        let (file, link) = (directory.join("there/a.json"), directory.join("b.json"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink("there/a.json", &link).unwrap();
        write_file(&link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_named_by_its_path() {
        let mut full = Pending::create(Path::new("/dev/full")).unwrap();
        let error = full.write_all(&[0; 1 << 16]).unwrap_err();
        assert!(error.to_string().starts_with("/dev/full: cannot be written: "), "{error}");
    }
}
