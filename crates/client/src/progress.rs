//! The program's own count of the work that it has done, for the runtime to read.

use maracas_core::control::PROGRESS_VARIABLE;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, io, ptr};

/// Adds `units` to the progress of the VCPU on which the run started this program, so that a host
/// without instruction counters can tell how much faster the program runs on a fast core than on a
/// slow one. A few nanoseconds a call (the first one maps the counter); any number of threads and
/// forked children add to the same count. Does nothing where no run asks for progress
/// ([`counts_progress`]), so a program need not care whether MARACAS runs it.
///
/// A unit is a fixed amount of work of the program's own choice, the same on whatever core: an
/// iteration, a frame, a request, never a second. Speeds come from counts over some 30 ms, so
/// there should be a thousand units a second or more; count smaller ones in batches. Programs with
/// units of different sizes need not compare: each VCPU is compared to itself alone.
pub fn progress(units: u64) {
    if let Some(counter) = counter() {
        // No other memory is ordered by this number: the runtime reads it as it is.
        counter.fetch_add(units, Ordering::Relaxed);
    }
}

/// Whether [`progress`] counts: the run named a counter in `MARACAS_PROGRESS` and it could be
/// mapped. It never changes while the program runs.
pub fn counts_progress() -> bool {
    counter().is_some()
}

/// The counter, mapped at the first call. It is never unmapped: a thread may count until the
/// process ends. A forked child has the same mapping, a program that it executes finds the
/// variable again.
fn counter() -> Option<&'static AtomicU64> {
    static COUNTER: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
    *COUNTER.get_or_init(|| {
        // SAFETY: a plain question.
        let raised = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
        // A program with more rights than its caller writes to no file of its caller's choice.
        let path = env::var_os(PROGRESS_VARIABLE).filter(|_| !raised)?;
        map(Path::new(&path)).ok()
    })
}

/// Maps the first 8 bytes of a file as a counter that everyone who maps it shares.
fn map(path: &Path) -> io::Result<&'static AtomicU64> {
    const BYTES: usize = size_of::<AtomicU64>();
    // Not blocking, lest the path be a pipe without a reader; and never a controlling terminal.
    let (mut options, flags) = (OpenOptions::new(), libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.read(true).write(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    // Beyond the end of a file there is no memory to write to, whatever was mapped.
    if !found.is_file() || found.len() < BYTES as u64 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let (null, fd) = (ptr::null_mut(), file.as_raw_fd());
    // SAFETY: a new mapping, which touches no memory of ours and outlives the descriptor.
    let base = unsafe { libc::mmap(null, BYTES, protection, libc::MAP_SHARED, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: mapped with this length, aligned to a page, never unmapped, and all processes change
    // it by atomic operations alone.
    Ok(unsafe { AtomicU64::from_ptr(base.cast()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::{fs, thread};

    fn scratch(name: &str, content: &[u8]) -> PathBuf {
        let path = env::temp_dir().join(format!("maracas-progress-{}-{name}", std::process::id()));
        fs::write(&path, content).unwrap();
        path
    }

    #[test]
    fn threads_and_mappings_share_one_count() {
        let path = scratch("shared", &7_u64.to_ne_bytes());
        let counter = map(&path).unwrap();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..1000).for_each(|_| _ = counter.fetch_add(3, Ordering::Relaxed)));
            }
        });
        assert_eq!(map(&path).unwrap().load(Ordering::Relaxed), 6007, "as the runtime maps it");
        let bytes: [u8; 8] = fs::read(&path).unwrap().try_into().unwrap();
        assert_eq!(u64::from_ne_bytes(bytes), 6007, "and as it may read it");
        fs::remove_file(path).unwrap();
        counter.fetch_add(1, Ordering::Relaxed);
        assert_eq!(counter.load(Ordering::Relaxed), 6008, "the run may take the file away first");
    }

    #[test]
    fn what_is_no_counter_is_refused() {
        let short = scratch("short", &[0; 7]);
        let kind = |path: &Path| map(path).unwrap_err().kind();
        assert_eq!(kind(&short), io::ErrorKind::InvalidData);
        assert_eq!(kind(Path::new("/dev/null")), io::ErrorKind::InvalidData);
        fs::remove_file(&short).unwrap();
        assert_eq!(kind(&short), io::ErrorKind::NotFound);
        assert_eq!(kind(&env::temp_dir()), io::ErrorKind::IsADirectory);
    }
}
