//! Starts a program inside its VCPU: in its group, on its core, without any descriptor or right
//! that would let it out, and held before its first instruction until the runtime lets it go.
//!
//! # What a started program may not do
//! Measured by the tests with a hostile program that runs as root:
//!
//! | way out | closed by |
//! |---|---|
//! | raise itself (FIFO, deadline, nice) | no `CAP_SYS_NICE`, `RLIMIT_RTPRIO` and `RLIMIT_NICE` 0 |
//! | run on another core | the cpuset of its VCPU; without one, the filter keeps its affinity |
//! | write itself into another group | `/sys` (all cgroup files) read-only in its mount namespace |
//! | remount, load code, new cpuset | no `CAP_SYS_ADMIN`, `SYS_MODULE`, `BPF`, `SYS_RAWIO`, ... |
//! | reach writable files through `/proc/<pid>/root` | Landlock domain, no `CAP_SYS_PTRACE` |
//! | kill or stop the runtime or its guardian | Landlock signal scope (Linux 6.12) |
//! | lower a neighbour's class or priority | a system call filter: only those of the caller |
//! | change the kernel's scheduling | `/proc/sys`, `/proc/irq`, `sysrq-trigger` read-only |
//! | regain rights by setuid or file capabilities | the bounding set, `no_new_privs` |
//!
//! | lower the runtime's class, affinity | the kernel asks for all rights that the target holds |
//! | lower the runtime's limits | a system call filter: no `prlimit` on other processes |
//! | gain all rights in a user namespace | the same filter: no new user namespaces |
//!
//! It keeps what ordinary programs run by root need ([`KEPT`]). No restriction of a process
//! prevents this: asking a service of the host that runs as root to start something for it.
//! Programs that are not trusted that far get a user of their own ([`Command::user`]).

mod account;
mod child;
mod fence;

use super::cgroup::Group;
use super::{HardwareCore, naming, rights, sys};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

pub use account::Account;
pub(crate) use child::Forked;
pub(crate) use child::fork;
pub use fence::KEPT;
pub(in crate::host) use fence::{Signals, trial as seal_trial};

/// How long a process may take until it is ready to become its program: milliseconds are usual,
/// 900 ms were seen beside a busy foreground. As long as a new guardian may take.
const STARTUP: Duration = Duration::from_secs(10);

/// How long a process that was killed on its way to its program is waited for.
const KILLED: Duration = Duration::from_secs(1);

/// Where a program's standard output and error go. Its standard input is always empty.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Output {
    /// Thrown away.
    Null,
    /// To ours.
    #[default]
    Inherit,
    /// Appended to a file, which is created.
    File(PathBuf),
}

/// Whose rights a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
}

/// What to start.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Command {
    /// The program (looked up on PATH; `maracas` means this executable) and its arguments.
    pub argv: Vec<OsString>,
    /// Its working directory; ours when `None`.
    pub dir: Option<PathBuf>,
    /// Added to our environment, or replacing parts of it.
    pub env: BTreeMap<OsString, OsString>,
    /// Where its output goes.
    pub output: Output,
    /// Its user; ours when `None`.
    pub user: Option<User>,
    /// The supplementary groups of `user`; without meaning where there is none.
    pub groups: Vec<u32>,
}

impl Command {
    /// Whether it is root's because we are, and not because the user said so.
    pub fn is_roots(&self) -> bool {
        // SAFETY: cannot fail.
        self.user.is_none() && unsafe { libc::geteuid() } == 0
    }

    /// Makes it a command of this user, with its groups, and with the variables that name it where
    /// the command does not set them itself. Where that is our own user and we could not change
    /// to another, nothing is left to be done.
    pub fn belongs_to(&mut self, account: &Account) {
        // SAFETY: cannot fail.
        let own = unsafe { libc::geteuid() };
        if own != 0 && own == account.user.uid {
            return;
        }
        self.user = Some(account.user);
        self.groups.clone_from(&account.groups);
        let Some((name, home)) = &account.known else { return };
        for (variable, value) in [("USER", name), ("LOGNAME", name), ("HOME", home)] {
            self.env.entry(variable.into()).or_insert_with(|| value.clone());
        }
    }
}

/// Under whose rights each of these programs is started, by its name: for the journal.
pub fn users<'a>(programs: impl IntoIterator<Item = (&'a str, &'a Command)>) -> String {
    let one = |(name, command): (&str, &Command)| match command.user {
        Some(User { uid, gid }) => format!("{name} as {uid}:{gid}"),
        // SAFETY: cannot fail.
        None => format!("{name} as {}:{}", unsafe { libc::geteuid() }, unsafe { libc::getegid() }),
    };
    programs.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Which ways out are closed to a started program; what is open is so because the host lacks it or
/// we lack the right to close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// It cannot raise its own scheduling class or change the kernel.
    pub rights: bool,
    /// It cannot write control group files or kernel settings.
    pub files: bool,
    /// It cannot signal or inspect processes that it did not start.
    pub signals: bool,
    /// It cannot leave its core.
    pub core: bool,
}

/// A started program, held before its first instruction until [`Child::release`].
#[derive(Debug)]
pub struct Child {
    /// Its process number.
    pub pid: i32,
    /// Polls readable when it has ended.
    pub pidfd: OwnedFd,
    /// How it is shut in.
    pub seal: Seal,
    gate: Option<File>,
    status: File,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Finds the program that a name means: itself if it holds a slash, this executable for
/// `maracas`, else the first executable of that name on PATH.
///
/// # Errors
/// `NotFound`, naming the program, before anything has been started.
pub fn resolve(command: &Command) -> io::Result<PathBuf> {
    let name = command.argv.first().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| not_found("no program given"))?;
    if name == "maracas" {
        // Another version may have taken its place since; the link leads to ours all the same.
        let own = env::current_exe()?;
        return Ok(if own.exists() { own } else { PathBuf::from("/proc/self/exe") });
    }
    let path = Path::new(name);
    if name.as_bytes().contains(&b'/') {
        let base = command.dir.as_deref().unwrap_or(Path::new("")).join(path);
        return match is_program(&base) {
            true => std::path::absolute(base),
            false => Err(not_found(format!("{}: no such program", path.display()))),
        };
    }
    let own = env::var_os("PATH").unwrap_or_default();
    let search = command.env.get(&OsString::from("PATH")).unwrap_or(&own);
    env::split_paths(search)
        .map(|dir| dir.join(path))
        .find(|file| is_program(file))
        .ok_or_else(|| not_found(format!("{}: no such program on PATH", path.display())))
}

/// Starts a program in its group, confined to its core, as `SCHED_OTHER`, and returns once all is
/// set and the program waits for [`Child::release`]. A fork holds the caller's memory map, for
/// which an agent of the same process may have to wait: call it from a thread that no program can
/// preempt meanwhile (an agent was seen blocked for 900 ms by one that was not real-time).
///
/// # Errors
/// `NotFound` for an unknown program; else the step that failed, and nothing runs on.
pub fn spawn(command: &Command, group: &Group, core: HardwareCore) -> io::Result<Child> {
    rights::raised(|| start(command, group, core))
}

/// With the rights that a starting process gives up itself, and that root's programs keep.
fn start(command: &Command, group: &Group, core: HardwareCore) -> io::Result<Child> {
    let program = resolve(command)?;
    group.confine(core)?;
    let plan = child::Preparation::new(command, &program, group, core)?;
    let (gate_read, gate_write) = pipe()?;
    let (status_read, status_write) = pipe()?;
    let forked =
        child::fork(group.dir_fd(), || plan.run(gate_read.as_raw_fd(), status_write.as_raw_fd()))?;
    // Our copies must go, or a child that dies would never be noticed.
    drop((gate_read, status_write));
    let pidfd = match forked.pidfd {
        Some(fd) => fd,
        None => sys::pidfd_open(forked.pid)?,
    };
    let mut child = Child {
        pid: forked.pid,
        pidfd,
        seal: Seal { rights: false, files: false, signals: false, core: false },
        gate: Some(File::from(gate_write)),
        status: File::from(status_read),
    };
    match child.ready(&program) {
        Ok(seal) => child.seal = seal,
        Err(error) => {
            sys::kill(child.pid, libc::SIGKILL)?;
            // One that waits in the kernel for what is never given up does not end; it is not
            // waited for.
            child.ends_within(KILLED);
            let _ = child.try_wait();
            return Err(error);
        }
    }
    Ok(child)
}

impl Child {
    /// Lets the program begin. Returns at once; the program begins when its VCPU runs.
    ///
    /// # Errors
    /// When it has been killed meanwhile.
    pub fn release(&mut self) -> io::Result<()> {
        self.gate.take().map_or(Ok(()), |mut gate| gate.write_all(&[1]))
    }

    /// Why the program could not be executed, if that has happened (it then has exit code 127).
    pub fn failure(&self) -> Option<io::Error> {
        let mut report = [0u8; child::REPORT];
        let length = read_now(&self.status, &mut report).ok()?;
        child::Report::parse(&report[..length]).map(child::Report::into_error)
    }

    /// How it ended, if it has; collects it. Never blocks.
    ///
    /// # Errors
    /// ECHILD when it was collected before.
    pub fn try_wait(&self) -> io::Result<Option<Exit>> {
        wait(self.pid, libc::WNOHANG)
    }

    /// Waits until it has ended, and collects it.
    ///
    /// # Errors
    /// ECHILD when it was collected before.
    pub fn wait(&self) -> io::Result<Exit> {
        wait(self.pid, 0)?.ok_or_else(|| io::Error::from_raw_os_error(libc::ECHILD))
    }

    /// Waits until it has ended, for this long at most, and does not collect it: whether it has.
    pub fn ends_within(&self, patience: Duration) -> bool {
        is_readable(self.pidfd.as_raw_fd(), patience)
    }

    /// Waits for the child's word that everything is set up, and not for ever: it may have to wait
    /// for a lock whose holder gets no core.
    fn ready(&mut self, program: &Path) -> io::Result<Seal> {
        let mut report = [0u8; child::REPORT];
        let named = naming(program.display());
        if !is_readable(self.status.as_raw_fd(), STARTUP) {
            let late = format!("not ready to begin {STARTUP:?} after its start");
            return Err(named(io::Error::new(io::ErrorKind::TimedOut, late)));
        }
        if let Err(error) = self.status.read_exact(&mut report) {
            return Err(named(error));
        }
        match child::Report::parse(&report) {
            Some(report) if report.is_ready() => {
                nonblocking(&self.status)?;
                Ok(report.seal())
            }
            Some(report) => Err(named(report.into_error())),
            None => Err(named(super::bad_data("report of the starting process"))),
        }
    }
}

/// Whether a descriptor is readable, or at its end, within `patience`; signals do not end that.
fn is_readable(fd: RawFd, patience: Duration) -> bool {
    let begun = Instant::now();
    loop {
        let rest = patience.saturating_sub(begun.elapsed()).as_millis() as i32;
        let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry of our own.
        match unsafe { libc::poll(&raw mut entry, 1, rest) } {
            0 => return false,
            1 => return true,
            _ if begun.elapsed() >= patience => return false,
            _ => {}
        }
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn not_found(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, message.into())
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel fills both ends, which nothing else owns.
    unsafe {
        sys::check(libc::c_long::from(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC)))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

fn nonblocking(file: &File) -> io::Result<()> {
    // SAFETY: our own descriptor.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    sys::check(libc::c_long::from(result)).map(drop)
}

fn read_now(mut file: &File, into: &mut [u8]) -> io::Result<usize> {
    file.read(into)
}

pub(crate) fn wait(pid: i32, flags: i32) -> io::Result<Option<Exit>> {
    let mut status = 0;
    loop {
        // SAFETY: our own child, and a status of our own.
        let result = unsafe { libc::waitpid(pid, &raw mut status, flags | libc::__WALL) };
        match sys::check(libc::c_long::from(result)) {
            Ok(0) => return Ok(None),
            Ok(_) if libc::WIFSIGNALED(status) => {
                return Ok(Some(Exit::Signal(libc::WTERMSIG(status))));
            }
            Ok(_) => return Ok(Some(Exit::Code(libc::WEXITSTATUS(status)))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
#[path = "tests/launch.rs"]
mod tests;
