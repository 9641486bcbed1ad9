//! Which process a number stands for.

use super::bad_data;
use maracas_core::control::INITIAL_PID_NAMESPACE;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::{fmt, fs, io};

/// A process for certain: numbers are reused, so a number counts only with its start instant, and
/// only in the pid namespace where it was given. Groups and files of runs may be seen from others:
/// a container may see the host's groups, and the host sees those of its containers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// Process (or thread) number.
    pub pid: i32,
    /// Start instant in clock ticks since boot (`/proc/<pid>/stat`, field 22).
    pub start: u64,
    /// The inode of its pid namespace (pid_namespaces(7)); `None` is the initial one.
    pub namespace: Option<u64>,
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
        Ok(Identity { pid, start, namespace: own_namespace() })
    }

    /// Whether any thread of this very process may still act: it is not gone, its number not
    /// reused, and not every thread on its way out. What they had open is closed after that, which
    /// a run's counters may hold up for a fifth of a second (`close` in `machine/supervisor.rs`).
    /// One of which nothing can be read is alive, and so is one of another pid namespace while any
    /// process may be there.
    pub fn is_alive(&self) -> bool {
        if self.is_foreign() {
            return self.namespace.is_none_or(may_be_inhabited);
        }
        self.stat().is_none_or(|stat| {
            stat.is_some_and(|stat| !(is_exiting(&stat) && self.are_all(&stat, is_exiting)))
        })
    }

    /// Whether it runs no more of its own code: gone, or being killed. Between the two may lie a
    /// second, where its ordinary threads get no core to end on. One of which nothing can be read
    /// is not.
    pub fn is_doomed(&self) -> bool {
        if self.is_foreign() {
            return !self.is_alive();
        }
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
        let is_known = !self.is_foreign();
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid));
        is_known && stat.is_ok_and(|stat| start_of(&stat) == Some(self.start) && is_stopped(&stat))
    }

    /// Whether its number is one of another pid namespace than this process'.
    pub fn is_foreign(&self) -> bool {
        self.namespace != own_namespace()
    }

    /// Reads `"<pid>-<start>"`, the form in which directories carry an identity, or, of another
    /// namespace than the initial one, `"<pid>-<start>-<inode>"`.
    pub fn parse(text: &str) -> Option<Identity> {
        let mut words = text.split('-');
        let (pid, start) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let namespace = words.next().map(str::parse).transpose().ok()?;
        words.next().is_none().then_some(Identity { pid, start, namespace })
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pid, self.start)?;
        self.namespace.map_or(Ok(()), |inode| write!(f, "-{inode}"))
    }
}

/// This process' pid namespace: its inode, and `None` for the initial one. Where `/proc` shows none
/// it counts as that, as before Linux 3.8.
pub fn own_namespace() -> Option<u64> {
    static OWN: OnceLock<Option<u64>> = OnceLock::new();
    *OWN.get_or_init(|| inode_of("self").ok().filter(|inode| *inode != INITIAL_PID_NAMESPACE))
}

/// The inode of the pid namespace of a process.
fn inode_of(pid: &str) -> io::Result<u64> {
    fs::metadata(format!("/proc/{pid}/ns/pid")).map(|meta| meta.ino())
}

/// Whether some process may live in the pid namespace with this inode. Only the initial namespace
/// shows all processes; elsewhere nothing is known.
fn may_be_inhabited(inode: u64) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    let names = processes.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut pids = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    own_namespace().is_some() || pids.any(|pid| may_be_in(&pid, inode))
}

/// The same of one process. Where we may not see its namespace it is none of another one if it has
/// one number only (`NSpid` of proc_pid_status(5)).
fn may_be_in(pid: &str, inode: u64) -> bool {
    match inode_of(pid) {
        Ok(of) => of == inode,
        Err(error) if has_ended(&error) => false,
        Err(_) => fs::read_to_string(format!("/proc/{pid}/status")).map_or_else(
            |error| !has_ended(&error),
            |status| {
                let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
                numbers.is_none_or(|numbers| numbers.split_whitespace().count() != 1)
            },
        ),
    }
}

/// The fields after the command name, which alone may contain blanks and parentheses.
pub(crate) fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rfind(')').map_or("", |end| &stat[end + 1..]).split_whitespace()
}

pub(super) fn start_of(stat: &str) -> Option<u64> {
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
pub(super) fn is_killed(stat: &str) -> bool {
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
pub(super) fn is_exiting(stat: &str) -> bool {
    // Field 9 of proc_pid_stat(5): the flags (PF_EXITING of include/linux/sched.h).
    const PF_EXITING: u64 = 4;
    let flags = after_name(stat).nth(6).and_then(|word| word.parse().ok()).unwrap_or(0u64);
    is_zombie(stat) || flags & PF_EXITING != 0
}
