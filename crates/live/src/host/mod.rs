//! What Linux can do for us, tried and not assumed: control groups, scheduling calls, starting
//! programs, and the probe that says what works on this host and why the rest does not.
//!
//! Nothing here decides when anything runs; the machine does, and calls what stands here.

pub mod cgroup;
pub mod chase;
pub(crate) mod claim;
pub mod classes;
pub mod costs;
pub(crate) mod futex;
pub mod hardware;
pub mod held;
pub mod launch;
pub(crate) mod perf;
pub mod platform;
pub mod probe;
pub mod resctrl;
pub mod rights;
pub(crate) mod run_directory;
pub mod sched;
pub(crate) mod shared_page;
pub mod snapshot;
pub mod switches;
pub(crate) mod sys;
pub(crate) mod wait;

use std::{fmt, fs, io};

/// A core as the kernel numbers it. The system's `CoreId` counts only the managed cores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HardwareCore(pub u32);

impl fmt::Display for HardwareCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The cores of a run as sensors number them.
pub type Cores = [(maracas_core::CoreId, HardwareCore)];

/// A process for certain: numbers are reused, so a number counts only with its start instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// Process (or thread) number.
    pub pid: i32,
    /// Start instant in clock ticks since boot (`/proc/<pid>/stat`, field 22).
    pub start: u64,
}

impl Identity {
    /// This process.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn own() -> io::Result<Identity> {
        Identity::of(std::process::id() as i32)
    }

    /// The process or thread that bears the number `pid` now.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    pub fn of(pid: i32) -> io::Result<Identity> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let start = start_of(&stat).ok_or_else(|| bad_data(format!("/proc/{pid}/stat")))?;
        Ok(Identity { pid, start })
    }

    /// Whether any thread of this very process may still act: it is not gone, its number not
    /// reused, and not every thread on its way out. What they had open is closed after that, which
    /// a run's counters may hold up for a fifth of a second (`close` in `machine/supervisor.rs`).
    /// One of which nothing can be read is alive.
    pub fn is_alive(&self) -> bool {
        self.stat().is_none_or(|stat| {
            stat.is_some_and(|stat| !(is_exiting(&stat) && self.are_all(&stat, is_exiting)))
        })
    }

    /// Whether it runs no more of its own code: gone, or being killed. Between the two may lie a
    /// second, where its ordinary threads get no core to end on. One of which nothing can be read
    /// is not.
    pub fn is_doomed(&self) -> bool {
        let ends = |stat: &str| is_exiting(stat) || is_killed(stat);
        self.stat().is_some_and(|stat| {
            stat.is_none_or(|stat| is_killed(&stat) || ends(&stat) && self.are_all(&stat, ends))
        })
    }

    /// What the kernel says of it: `None` where that cannot be read, `Some(None)` where it is gone.
    fn stat(&self) -> Option<Option<String>> {
        match fs::read_to_string(format!("/proc/{}/stat", self.pid)) {
            Ok(stat) => Some(Some(stat).filter(|stat| start_of(stat) == Some(self.start))),
            Err(error) => has_ended(&error).then_some(None),
        }
    }

    /// Whether this is so of every thread of the process, of which `stat` speaks, or it has ended.
    /// The kernel may leave out a thread of its list where another one ends meanwhile: where there
    /// are fewer than it counts, it is not.
    fn are_all(&self, stat: &str, so: impl Fn(&str) -> bool) -> bool {
        // Field 20 of proc_pid_stat(5).
        let count = after_name(stat).nth(17).and_then(|word| word.parse().ok());
        let threads = match fs::read_dir(format!("/proc/{}/task", self.pid)) {
            Ok(threads) => threads,
            Err(error) => return has_ended(&error),
        };
        let mut seen = 0_u64;
        for thread in threads {
            let stat = thread.and_then(|it| fs::read_to_string(it.path().join("stat")));
            if !stat.map_or_else(|error| has_ended(&error), |stat| so(&stat)) {
                return false;
            }
            seen += 1;
        }
        count.is_some_and(|count| seen >= count)
    }

    /// Whether it was stopped by a signal and not continued since.
    pub fn is_stopped(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid));
        stat.is_ok_and(|stat| start_of(&stat) == Some(self.start) && is_stopped(&stat))
    }

    /// Reads `"<pid>-<start>"`, the form in which directories carry an identity.
    pub fn parse(text: &str) -> Option<Identity> {
        let (pid, start) = text.split_once('-')?;
        Some(Identity { pid: pid.parse().ok()?, start: start.parse().ok()? })
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pid, self.start)
    }
}

/// The fields after the command name, which alone may contain blanks and parentheses.
pub(crate) fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rfind(')').map_or("", |end| &stat[end + 1..]).split_whitespace()
}

fn start_of(stat: &str) -> Option<u64> {
    // Field 22 of proc_pid_stat(5); the first two stand before the cut.
    after_name(stat).nth(19)?.parse().ok()
}

fn is_zombie(stat: &str) -> bool {
    matches!(after_name(stat).next(), Some("Z" | "X"))
}

fn is_stopped(stat: &str) -> bool {
    // Stopped by a debugger is `t`, and the debugger's affair.
    after_name(stat).next() == Some("T")
}

/// Whether a thread is to be killed.
fn is_killed(stat: &str) -> bool {
    // Field 31 of proc_pid_stat(5): the signals that wait for this thread; a SIGKILL does for each.
    const SIGKILL: u64 = 1 << (libc::SIGKILL - 1);
    let signals = after_name(stat).nth(28).and_then(|word| word.parse().ok()).unwrap_or(0u64);
    signals & SIGKILL != 0
}

/// Whether what was asked for in `/proc` is not there because its process or thread has ended.
fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// Whether a thread has ended or ends, and makes no more system calls.
fn is_exiting(stat: &str) -> bool {
    // Field 9 of proc_pid_stat(5): the flags (PF_EXITING of include/linux/sched.h).
    const PF_EXITING: u64 = 4;
    let flags = after_name(stat).nth(6).and_then(|word| word.parse().ok()).unwrap_or(0u64);
    is_zombie(stat) || flags & PF_EXITING != 0
}

fn bad_data(what: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what}: not in the expected form"))
}

/// An error of the kernel with the file or act that it concerned.
#[derive(Debug)]
struct Named {
    what: String,
    source: io::Error,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl std::error::Error for Named {}

/// Adds to an error of the kernel what it concerned; kind and [`os_code`] stay.
pub(crate) fn naming(what: impl fmt::Display) -> impl FnOnce(io::Error) -> io::Error {
    move |source| io::Error::new(source.kind(), Named { what: what.to_string(), source })
}

/// The kernel's error number, also of an error to which a path has been added.
pub fn os_code(error: &io::Error) -> Option<i32> {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Named>());
    inner.map_or(error.raw_os_error(), |named| os_code(&named.source))
}

#[cfg(test)]
pub(crate) mod tests;
