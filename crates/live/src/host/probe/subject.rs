//! The throw-away process that is frozen, killed and counted: it spins and writes the time.

use crate::host::cgroup::Group;
use crate::host::launch::{Forked, fork};
use crate::host::{HardwareCore, sched, sys};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{io, ptr, thread};

/// A spinning process in a group; killed and collected when dropped.
pub(super) struct Subject {
    pub(super) pid: i32,
    /// The child's clock reading in its latest turn, on a page shared with it.
    page: *mut AtomicU64,
}

// SAFETY: what the pointer leads to is atomic, and unmapped only when no borrow is left.
unsafe impl Sync for Subject {}

const PAGE: usize = 4096;

/// How long the process may wait for its core. Beside real-time threads of others it may get but
/// the 50 ms a second that the kernel keeps for ordinary ones.
const PATIENCE: Duration = Duration::from_secs(2);

impl Subject {
    pub(super) fn start(group: &Group, core: HardwareCore) -> io::Result<Subject> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let sharing = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping of our own, zeroed by the kernel.
        let page = unsafe { libc::mmap(ptr::null_mut(), PAGE, protection, sharing, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page: *mut AtomicU64 = page.cast();
        let join_files: Vec<i32> = group.join_files().collect();
        let Forked { pid, .. } = fork(group.dir_fd(), || {
            // SAFETY: system calls and one shared word only; it ends with its parent's thread.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
                for join_file in &join_files {
                    libc::write(*join_file, c"0".as_ptr().cast(), 1);
                }
                loop {
                    (*page).store(now_ns(), Ordering::Relaxed);
                }
            }
        })?;
        let subject = Subject { pid, page };
        // Best effort: in a group without a cpuset it may spin anywhere.
        let _ = sched::set_affinity(pid, core);
        subject.runs_after(0)?;
        Ok(subject)
    }

    /// The child's latest clock reading.
    pub(super) fn latest_ns(&self) -> u64 {
        // SAFETY: the page lives as long as we do.
        unsafe { (*self.page).load(Ordering::Relaxed) }
    }

    /// Waits until the child has run after an instant, and returns when it was seen to.
    pub(super) fn runs_after(&self, instant_ns: u64) -> io::Result<u64> {
        let patience = Instant::now() + PATIENCE;
        loop {
            let latest = self.latest_ns();
            if latest > instant_ns {
                return Ok(latest);
            }
            if Instant::now() > patience {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the process does not run"));
            }
            thread::yield_now();
        }
    }

    /// Whether it has ended, waiting a little.
    pub(super) fn ends(&self) -> bool {
        let patience = Instant::now() + PATIENCE;
        while Instant::now() < patience {
            // SAFETY: our own child; WNOWAIT leaves it for `drop` to collect.
            let result = unsafe {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
                let kind = libc::P_PID;
                libc::waitid(kind, self.pid as libc::id_t, &raw mut info, flags) == 0
                    && info.si_pid() == self.pid
            };
            if result {
                return true;
            }
            thread::yield_now();
        }
        false
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // Cannot fail for a child of ours that has not been collected.
        let _ = sys::kill(self.pid, libc::SIGKILL);
        // SAFETY: our own child and our own mapping.
        unsafe {
            libc::waitpid(self.pid, ptr::null_mut(), 0);
            libc::munmap(self.page.cast(), PAGE);
        }
    }
}

/// Usable after `fork`.
pub(super) use crate::clock::monotonic_ns as now_ns;
