//! The right to a core: two runs on one core could not keep what they promise.

use super::{HardwareCore, Identity, run_directory};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How long a run that has ended may take to close its files, which hold its cores: a fifth of a
/// second was measured on PREEMPT_RT.
const CLOSING: Duration = Duration::from_secs(2);

/// A core that is ours as long as this lives. It is a lock on a file beside the sockets, which no
/// other user may open and which the kernel releases however the run ends.
#[derive(Debug)]
pub(crate) struct Claim {
    path: PathBuf,
    _file: File,
}

/// What a run of these cores claims: they alone, or all up to the `last` that the host may have,
/// where it schedules all threads of the host.
pub(crate) fn needed(own: &[HardwareCore], last: Option<HardwareCore>) -> Vec<HardwareCore> {
    let mut needed = own.to_vec();
    let all = last.map_or(0, |last| last.0 + 1);
    needed.extend((0..all).map(HardwareCore).filter(|core| !own.contains(core)));
    needed
}

/// Why a core could not be claimed.
#[derive(Debug)]
pub(crate) enum Unclaimed {
    /// Another run has this core: that of this process, if it is known.
    Taken(HardwareCore, Option<u32>),
    /// There can be no such file.
    Host(io::Error),
}

impl Claim {
    /// Makes a core ours.
    ///
    /// # Errors
    /// [`Unclaimed::Taken`] with the run that has it; [`Unclaimed::Host`] where there can be no
    /// such file.
    pub(crate) fn take(core: HardwareCore) -> Result<Self, Unclaimed> {
        Self::take_in(&run_directory::directory(), core)
    }

    fn take_in(directory: &Path, core: HardwareCore) -> Result<Self, Unclaimed> {
        let host = Unclaimed::Host;
        run_directory::make_directory(directory).map_err(host)?;
        let (path, begun) = (directory.join(format!("core-{core}")), Instant::now());
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).mode(0o600);
            let mut file = options.custom_flags(libc::O_NOFOLLOW).open(&path).map_err(host)?;
            if !lock(&file).map_err(host)? {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                let run = text.trim().parse().ok();
                if run.is_some_and(has_ended) && begun.elapsed() < CLOSING {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                }
                return Err(Unclaimed::Taken(core, run));
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

/// Whether the process with this number has ended, though it may not have closed its files yet.
fn has_ended(pid: u32) -> bool {
    let run = i32::try_from(pid).ok().and_then(|pid| Identity::of(pid).ok());
    run.is_none_or(|run| !run.is_alive())
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
    forget_in(&run_directory::directory(), run)
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
    fn a_run_that_schedules_the_host_claims_all_of_it_its_own_cores_first() {
        let cores = |numbers: &[u32]| numbers.iter().copied().map(HardwareCore).collect::<Vec<_>>();
        assert_eq!(needed(&cores(&[2, 1]), None), cores(&[2, 1]));
        assert_eq!(needed(&cores(&[2, 1]), Some(HardwareCore(3))), cores(&[2, 1, 0, 3]));
    }

    #[test]
    fn a_core_has_one_run_which_the_refusal_names() {
        let directory = std::env::temp_dir().join(format!("maracas-claim-{}", std::process::id()));
        let core = HardwareCore(3);
        let claim = Claim::take_in(&directory, core).unwrap();
        let refusal = Claim::take_in(&directory, core).unwrap_err();
        let run = std::process::id();
        assert!(
            matches!(refusal, Unclaimed::Taken(at, Some(by)) if (at, by) == (core, run)),
            "{refusal:?}"
        );
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
