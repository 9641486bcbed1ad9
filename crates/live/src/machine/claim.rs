//! The right to a core: two runs on one core could not keep what they promise.

use super::Error;
use crate::control;
use crate::host::{HardwareCore, Identity};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A core that is ours as long as this lives. It is a lock on a file beside the sockets, which no
/// other user may open and which the kernel releases however the run ends.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
    _file: File,
}

impl Claim {
    /// Makes a core ours.
    ///
    /// # Errors
    /// [`Error::Taken`] with the run that has it; [`Error::Host`] where there can be no such file.
    pub(super) fn take(core: HardwareCore) -> Result<Self, Error> {
        Self::take_in(&control::directory(), core)
    }

    fn take_in(directory: &Path, core: HardwareCore) -> Result<Self, Error> {
        let host = |error| Error::Host("claim a core", error);
        control::make_directory(directory).map_err(host)?;
        let path = directory.join(format!("core-{core}"));
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).mode(0o600);
            let mut file = options.custom_flags(libc::O_NOFOLLOW).open(&path).map_err(host)?;
            if !lock(&file).map_err(host)? {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                return Err(Error::Taken(core, text.trim().parse().ok()));
            }
            // Its last holder may have removed the file after we opened it: then it is no lock.
            let there = fs::metadata(&path).map(|meta| meta.ino()).ok();
            if there == Some(file.metadata().map_err(host)?.ino()) {
                let named = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
                return named.map(|()| Self { path, _file: file }).map_err(host);
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // While it is still locked: no later holder's file is removed.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the files by which a run that is dead had its cores, and returns which. A living run's
/// are locked and stay.
pub(crate) fn forget(run: Identity) -> Vec<PathBuf> {
    forget_in(&control::directory(), run)
}

fn forget_in(directory: &Path, run: Identity) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let forgotten = |path: &PathBuf| {
        let core = path.file_name()?.to_str()?.strip_prefix("core-")?;
        core.parse::<u32>().ok()?;
        let mut options = OpenOptions::new();
        let mut file = options.read(true).custom_flags(libc::O_NOFOLLOW).open(path).ok()?;
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        let own = text.trim().parse() == Ok(run.pid) && lock(&file).ok()?;
        // Another may have removed it meanwhile and a new run have made its own.
        let same = fs::metadata(path).ok()?.ino() == file.metadata().ok()?.ino();
        (own && same && fs::remove_file(path).is_ok()).then_some(())
    };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| forgotten(path).is_some()).collect()
}

/// Whether the lock is ours now.
fn lock(file: &File) -> io::Result<bool> {
    // SAFETY: our own descriptor.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_has_one_run_which_the_refusal_names() {
        let directory = std::env::temp_dir().join(format!("maracas-claim-{}", std::process::id()));
        let core = HardwareCore(3);
        let claim = Claim::take_in(&directory, core).unwrap();
        let refusal = Claim::take_in(&directory, core).unwrap_err().to_string();
        let run = std::process::id();
        assert_eq!(refusal, format!("core 3 is managed by run {run}; end it first"));
        let other = Claim::take_in(&directory, HardwareCore(4)).unwrap();
        drop(claim);
        // What a dead run left is forgotten, and no other's.
        let dead = Identity { pid: 1, ..Identity::own().unwrap() };
        fs::write(directory.join("core-3"), "1").unwrap();
        fs::write(directory.join("core-5"), "2").unwrap();
        assert_eq!(forget_in(&directory, dead), [directory.join("core-3")]);
        assert!(forget_in(&directory, Identity::own().unwrap()).is_empty(), "it is locked");
        fs::remove_file(directory.join("core-5")).unwrap();
        // A file that a killed run left has no owner.
        fs::write(directory.join("core-3"), "1").unwrap();
        drop((Claim::take_in(&directory, core).unwrap(), other));
        fs::remove_dir(&directory).expect("nothing is left in it");
    }
}
