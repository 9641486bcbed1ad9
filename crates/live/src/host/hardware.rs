//! The hardware as the kernel shows it: files, counters and known loads behind one trait, so that
//! probing can be tested on other machines' files too.
//!
//! [`ThisHardware`] is the host we are on. Tests stand others beside it; nothing else does.

mod counters;
pub mod loads;

pub use counters::{Count, Counter, EventCode, FASTEST_PER_US, SHORTEST_ALARM, Scope};
pub use loads::Load;

use super::HardwareCore;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// What is asked of a machine whose memory is to be sensed or steered.
///
/// Every path is absolute, as on the real machine (`/sys/bus/event_source/devices`, ...).
pub trait Hardware: Send + Sync {
    /// The content of a small text file.
    ///
    /// # Errors
    /// As the kernel says.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// Writes `text` into an existing file in one call, as control files want it.
    ///
    /// # Errors
    /// As the kernel says: a control file refuses what it does not understand.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;
    /// The names in a directory, in order.
    ///
    /// # Errors
    /// As the kernel says.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes a directory, which in control file systems makes a group.
    ///
    /// # Errors
    /// As the kernel says.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;
    /// Removes an empty directory, or a group of a control file system.
    ///
    /// # Errors
    /// As the kernel says.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;
    /// Locks a directory that several programs change in turn, against those that lock it too, as
    /// long as what is returned lives; `None` = there is no program to lock it against.
    ///
    /// # Errors
    /// `WouldBlock` where another program keeps it.
    fn lock(&self, _dir: &Path) -> io::Result<Option<fs::File>> {
        Ok(None)
    }
    /// Opens a counter, which counts from here on.
    ///
    /// # Errors
    /// As the kernel says: `NotFound` and `Unsupported` where there is no such event,
    /// `PermissionDenied` where the rights lack.
    fn open(&self, event: &EventCode, scope: Scope<'_>) -> io::Result<Box<dyn Counter>>;
    /// Does known work on a core and returns how long it took: what a counter is held against.
    ///
    /// # Errors
    /// Where the core cannot be used.
    fn load(&self, core: HardwareCore, load: Load) -> io::Result<Duration>;
}

/// The machine we run on.
#[derive(Clone, Copy, Default, Debug)]
pub struct ThisHardware;

impl Hardware for ThisHardware {
    fn read(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(path)
    }
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).open(path)?;
        io::Write::write_all(&mut file, text.as_bytes())
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().into_string()));
        let names: io::Result<Vec<_>> = names.collect();
        // What is no text is no name that the kernel gives.
        let mut names: Vec<_> = names?.into_iter().filter_map(Result::ok).collect();
        names.sort_unstable();
        Ok(names)
    }
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir(dir)
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }
    fn lock(&self, dir: &Path) -> io::Result<Option<fs::File>> {
        /// A program that takes something is done in milliseconds.
        const LONGEST: Duration = Duration::from_secs(1);
        const PAUSE: Duration = Duration::from_millis(2);
        let (file, start) = (fs::File::open(dir)?, Instant::now());
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(file)),
                Err(fs::TryLockError::Error(error)) => return Err(error),
                Err(fs::TryLockError::WouldBlock) if start.elapsed() < LONGEST => {
                    thread::sleep(PAUSE);
                }
                Err(fs::TryLockError::WouldBlock) => {
                    let what = format!("a program has it locked (flock) for more than {LONGEST:?}");
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, what));
                }
            }
        }
    }
    fn open(&self, event: &EventCode, scope: Scope<'_>) -> io::Result<Box<dyn Counter>> {
        counters::open(event, scope)
    }
    fn load(&self, core: HardwareCore, load: Load) -> io::Result<Duration> {
        loads::run(core, load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_directory_is_waited_for_and_then_refused() {
        let dir = std::env::temp_dir().join(format!("maracas-lock-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("made");
        let ours = ThisHardware.lock(&dir).expect("free");
        let reported = ThisHardware.lock(&dir).expect_err("ours").to_string();
        assert!(reported.contains("a program has it locked (flock)"), "{reported}");
        drop(ours);
        ThisHardware.lock(&dir).expect("free again");
        fs::remove_dir(&dir).expect("removed");
    }
}
