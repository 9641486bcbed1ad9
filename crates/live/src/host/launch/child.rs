//! What a new process does from its birth to its program. Between `fork` and `execve` only the
//! calling thread exists and any lock may be held for ever, so everything is prepared before and
//! the child makes nothing but system calls: no allocation, no panic.

use super::{Command, Output, Seal, User};
use crate::host::cgroup::{Confinement, Group, cgroup_mounts};
use crate::host::launch::fence;
use crate::host::{HardwareCore, naming, sys};
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{env, io, ptr};

/// Bytes of a report.
pub(super) const REPORT: usize = 8;

/// What the child says over the status pipe: ready and how far sealed, or what failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    step: Step,
    seal: u8,
    errno: i32,
}

/// Where a child is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Ready,
    Policy,
    Group,
    Core,
    Output,
    Directory,
    Limits,
    Rights,
    User,
    Execute,
}

const STEPS: [(Step, &str); 10] = [
    (Step::Ready, "ready"),
    (Step::Policy, "cannot become SCHED_OTHER"),
    (Step::Group, "cannot enter its control group"),
    (Step::Core, "cannot be bound to its core"),
    (Step::Output, "cannot connect its output"),
    (Step::Directory, "cannot enter its working directory"),
    (Step::Limits, "cannot lower its limits"),
    (Step::Rights, "cannot give up its rights"),
    (Step::User, "cannot become its user"),
    (Step::Execute, "cannot be executed"),
];

impl Report {
    pub(super) fn parse(bytes: &[u8]) -> Option<Report> {
        let bytes: &[u8; REPORT] = bytes.try_into().ok()?;
        let (step, _) = *STEPS.get(usize::from(bytes[0]))?;
        let errno = i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        Some(Report { step, seal: bytes[1], errno })
    }

    pub(super) fn is_ready(self) -> bool {
        self.step == Step::Ready
    }

    pub(super) fn into_error(self) -> io::Error {
        let words =
            STEPS.iter().find(|(step, _)| *step == self.step).map_or("", |(_, words)| words);
        naming(words)(io::Error::from_raw_os_error(self.errno))
    }

    pub(super) fn seal(self) -> Seal {
        let bit = |bit: u8| self.seal & bit != 0;
        Seal { rights: bit(RIGHTS), files: bit(FILES), signals: bit(SIGNALS), core: bit(CORE) }
    }
}

const RIGHTS: u8 = 1;
const FILES: u8 = 2;
const SIGNALS: u8 = 4;
const CORE: u8 = 8;

/// Everything that the child needs, as the kernel wants it.
pub(super) struct Preparation {
    program: CString,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    /// What `argv` and `envp` point into.
    _texts: Vec<CString>,
    dir: Option<CString>,
    input: File,
    output: Option<File>,
    /// An output that the program's own user opens, with no more rights than it has.
    own_output: Option<CString>,
    join_files: Vec<RawFd>,
    core: HardwareCore,
    confined: bool,
    user: Option<User>,
    groups: Vec<u32>,
    fence: fence::Fence,
}

impl Preparation {
    pub(super) fn new(
        command: &Command,
        program: &Path,
        group: &Group,
        core: HardwareCore,
    ) -> io::Result<Preparation> {
        let mut texts = Vec::new();
        let confined = group.confinement() != Confinement::Affinity;
        let argv = pointers(&mut texts, command.argv.iter().map(OsString::as_os_str))?;
        let envp = environment(command);
        let envp = pointers(&mut texts, envp.iter().map(OsString::as_os_str))?;
        let mut own_output = None;
        let output = match &command.output {
            Output::Inherit => None,
            Output::File(path) if command.user.is_some() => {
                // The child enters another directory before it opens this.
                own_output = Some(sys::c_path(&std::path::absolute(path)?)?);
                None
            }
            Output::Null => Some(OpenOptions::new().write(true).open("/dev/null")?),
            Output::File(path) => {
                let file = OpenOptions::new().append(true).create(true).open(path);
                Some(file.map_err(naming(path.display()))?)
            }
        };
        Ok(Preparation {
            program: sys::c_path(program)?,
            argv,
            envp,
            _texts: texts,
            dir: command.dir.as_deref().map(sys::c_path).transpose()?,
            input: File::open("/dev/null")?,
            output,
            own_output,
            join_files: group.join_files().collect(),
            core,
            confined,
            user: command.user,
            groups: command.groups.clone(),
            fence: fence::Fence::new(&cgroup_mounts()?, confined)?,
        })
    }

    /// The child's whole life before its program. Never returns.
    pub(super) fn run(&self, gate: RawFd, status: RawFd) -> ! {
        let step = match self.set_up() {
            Ok(seal) => {
                close_others(gate.min(status), gate.max(status));
                report(status, Step::Ready, seal, 0);
                // A gate that closes without a word means that the runtime died: then so do we.
                if wait_at(gate) { self.execute() } else { leave(0) }
            }
            Err(step) => step,
        };
        report(status, step, 0, errno());
        leave(127)
    }

    fn set_up(&self) -> Result<u8, Step> {
        // SAFETY: plain calls on our own process.
        unsafe {
            clean_signals();
            // Ctrl-C and hang-ups of the terminal reach the runtime alone, which stops its
            // programs in order. Fails only for a session leader, which a new process is not.
            libc::setsid();
            let param = libc::sched_param { sched_priority: 0 };
            let other = libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_OTHER, &param);
            ok(other, Step::Policy)?;
            for door in &self.join_files {
                ok(libc::write(*door, c"0".as_ptr().cast(), 1) as libc::c_long, Step::Group)?;
            }
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(self.core.0 as usize, &mut set);
            let size = size_of::<libc::cpu_set_t>();
            ok(libc::syscall(libc::SYS_sched_setaffinity, 0, size, &raw const set), Step::Core)?;
            let files = self.fence.close_files();
            self.connect()?;
            let rights = self.give_up()?;
            // Landlock and the filter ask for no_new_privs, which the step before has set.
            let signals = self.fence.close_signals() == fence::Signals::Shut;
            let calls = self.fence.close_calls();
            let rights = rights && calls;
            // A cpuset keeps it on its core as long as its files are closed to it; without one
            // that is the affinity, which the filter keeps as it is.
            let core = if self.confined { files } else { calls };
            let bit = |is: bool, bit: u8| if is { bit } else { 0 };
            Ok(bit(rights, RIGHTS) | bit(files, FILES) | bit(signals, SIGNALS) | bit(core, CORE))
        }
    }

    /// Input, output and directory.
    unsafe fn connect(&self) -> Result<(), Step> {
        // SAFETY: descriptors and strings that we own.
        unsafe {
            ok(libc::dup2(self.input.as_raw_fd(), 0).into(), Step::Output)?;
            if let Some(output) = &self.output {
                ok(libc::dup2(output.as_raw_fd(), 1).into(), Step::Output)?;
                ok(libc::dup2(output.as_raw_fd(), 2).into(), Step::Output)?;
            }
            if let Some(dir) = &self.dir {
                ok(libc::chdir(dir.as_ptr()).into(), Step::Directory)?;
            }
        }
        Ok(())
    }

    /// The output that is the user's own to open: as a user with more rights it would create, or
    /// write to, what that user could not.
    unsafe fn open_output(&self) -> Result<(), Step> {
        let Some(path) = &self.own_output else { return Ok(()) };
        let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
        // SAFETY: a string of our own, and a new descriptor, closed when the program is executed.
        unsafe {
            let file = libc::open(path.as_ptr(), flags, 0o666);
            ok(file.into(), Step::Output)?;
            ok(libc::dup2(file, 1).into(), Step::Output)?;
            ok(libc::dup2(file, 2).into(), Step::Output)
        }
    }

    /// Limits, bounding set, user, capabilities, in the order in which each is still allowed.
    /// True when nothing dangerous is left; without rights to give up that is so anyway.
    unsafe fn give_up(&self) -> Result<bool, Step> {
        // SAFETY: plain arguments and structures of our own. Raw calls, since the C library's
        // setuid tries to reach threads that are not here.
        unsafe {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            for limit in [libc::RLIMIT_RTPRIO, libc::RLIMIT_NICE] {
                let result = libc::prlimit(0, limit, &raw const none, ptr::null_mut());
                ok(result.into(), Step::Limits)?;
            }
            // The kernel counts real-time ticks until a thread blocks, and would kill one that only
            // loops for those of many periods. Without the right to, what there is stays.
            let infinite =
                libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
            libc::prlimit(0, libc::RLIMIT_RTTIME, &raw const infinite, ptr::null_mut());
            if let Some(limit) = sys::files_before() {
                let result = libc::prlimit(0, libc::RLIMIT_NOFILE, limit, ptr::null_mut());
                ok(result.into(), Step::Limits)?;
            }
            fence::drop_bounding();
            if let Some(User { uid, gid }) = self.user {
                let (count, groups) = (self.groups.len(), self.groups.as_ptr());
                ok(libc::syscall(libc::SYS_setgroups, count, groups), Step::User)?;
                ok(libc::syscall(libc::SYS_setresgid, gid, gid, gid), Step::User)?;
                ok(libc::syscall(libc::SYS_setresuid, uid, uid, uid), Step::User)?;
                self.open_output()?;
            }
            ok(fence::drop_capabilities(), Step::Rights)?;
            ok(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into(), Step::Rights)?;
        }
        Ok(fence::rights_are_gone())
    }

    fn execute(&self) -> Step {
        // SAFETY: both arrays end in null and point into `_texts`, which outlive the call.
        unsafe {
            libc::execve(self.program.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr());
        }
        Step::Execute
    }
}

/// Of `linux/sched.h`; libc's constant has too few bits.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// A process just born.
pub(crate) struct Forked {
    pub(crate) pid: i32,
    pub(crate) pidfd: Option<OwnedFd>,
}

/// Forks, right into a v2 group where there is one; the new process runs `child` and ends.
/// `child` makes system calls only.
/// Kernels before 5.7 (and filters that forbid `clone3`) get a plain fork; the child joins its
/// groups through the doors in any case.
pub(crate) fn fork(group: Option<BorrowedFd<'_>>, child: impl FnOnce()) -> io::Result<Forked> {
    let mut pidfd: RawFd = -1;
    // SAFETY: the arguments are plain; the child runs `child`, which makes system calls only.
    unsafe {
        let mut arguments: libc::clone_args = std::mem::zeroed();
        arguments.flags = libc::CLONE_PIDFD as u64;
        arguments.pidfd = &raw mut pidfd as u64;
        arguments.exit_signal = libc::SIGCHLD as u64;
        if let Some(group) = group {
            arguments.flags |= CLONE_INTO_CGROUP;
            arguments.cgroup = group.as_raw_fd() as u64;
        }
        let size = size_of::<libc::clone_args>();
        let mut pid = libc::syscall(libc::SYS_clone3, &raw const arguments, size);
        if pid == -1 {
            pidfd = -1;
            let none = ptr::null::<libc::c_void>();
            pid = libc::syscall(libc::SYS_clone, libc::SIGCHLD, none, none, none, none);
        }
        if pid == 0 {
            child();
            leave(0);
        }
        let pid = sys::check(pid)? as i32;
        Ok(Forked { pid, pidfd: (pidfd >= 0).then(|| OwnedFd::from_raw_fd(pidfd)) })
    }
}

/// No signal blocked or ignored: the runtime's own handling is not the program's.
unsafe fn clean_signals() {
    // SAFETY: plain calls; a signal that cannot be reset (KILL, STOP) is refused harmlessly.
    unsafe {
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

fn ok(result: libc::c_long, step: Step) -> Result<(), Step> {
    if result == -1 { Err(step) } else { Ok(()) }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn report(status: RawFd, step: Step, seal: u8, errno: i32) {
    let errno = errno.to_le_bytes();
    let bytes = [step as u8, seal, 0, 0, errno[0], errno[1], errno[2], errno[3]];
    // SAFETY: a buffer of our own; a reader that is gone changes nothing.
    unsafe { libc::write(status, bytes.as_ptr().cast(), REPORT) };
}

/// Closes all but input, output and the two given: also the far ends of our own pipes and of
/// those of programs that wait beside us, or a dead runtime would not be noticed.
fn close_others(low: RawFd, high: RawFd) {
    /// Older kernels (before 5.9) lack the call; a runtime has fewer descriptors than this.
    const MANY: RawFd = 4096;
    for (first, last) in [(3, low - 1), (low + 1, high - 1), (high + 1, RawFd::MAX)] {
        // SAFETY: plain arguments; closing what is not open does nothing.
        unsafe {
            if first <= last && libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
                for fd in first..=last.min(MANY) {
                    libc::close(fd);
                }
            }
        }
    }
}

fn wait_at(gate: RawFd) -> bool {
    let mut byte = 0u8;
    loop {
        // SAFETY: one byte of our own.
        let length = unsafe { libc::read(gate, (&raw mut byte).cast(), 1) };
        if length != -1 || errno() != libc::EINTR {
            return length == 1;
        }
    }
}

fn leave(code: i32) -> ! {
    // SAFETY: ends the process without running anything of the parent's.
    unsafe { libc::_exit(code) }
}

/// A null-ended array into texts; a `CString`'s bytes stay where they are when it moves.
fn pointers<'a>(
    texts: &mut Vec<CString>,
    words: impl Iterator<Item = &'a OsStr>,
) -> io::Result<Vec<*const libc::c_char>> {
    let mut array = Vec::new();
    for word in words {
        let text = CString::new(word.as_bytes())?;
        array.push(text.as_ptr());
        texts.push(text);
    }
    array.push(ptr::null());
    Ok(array)
}

fn environment(command: &Command) -> Vec<OsString> {
    let mut variables: BTreeMap<OsString, OsString> = env::vars_os().collect();
    variables.extend(command.env.clone());
    let joined = |(mut name, value): (OsString, OsString)| {
        name.push("=");
        name.push(value);
        name
    };
    variables.into_iter().map(joined).collect()
}
