//! The few raw calls that several files share.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Turns the kernel's -1 into the error that it stands for.
pub(super) fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A descriptor that watches one process; unlike a number it can never name another.
pub(crate) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain arguments; the kernel returns a new descriptor that nothing else owns.
    unsafe {
        let fd = check(libc::syscall(libc::SYS_pidfd_open, pid, 0))?;
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
}

/// Lets us collect our children ourselves: where a starter left SIGCHLD ignored, the kernel throws
/// their ends away, and none is noticed.
pub(crate) fn keep_children() {
    // SAFETY: structures of our own; a handler that was set stays.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGCHLD, std::ptr::null(), &raw mut action);
        action.sa_flags &= !libc::SA_NOCLDWAIT;
        if action.sa_sigaction == libc::SIG_IGN {
            action.sa_sigaction = libc::SIG_DFL;
        }
        libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut());
    }
}

/// What we could open before [`open_many`].
static FILES_BEFORE: OnceLock<libc::rlimit> = OnceLock::new();

/// Lets us open as many files as we may at most: every VCPU takes some on each core it was on, and
/// one without its meter is never raised.
pub(crate) fn open_many() {
    FILES_BEFORE.get_or_init(|| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: structures of our own. A refusal leaves the limit as it is.
        unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
            let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised);
        }
        limit
    });
}

/// The limit of open files that programs must have: ours before we raised it.
pub(super) fn files_before() -> Option<&'static libc::rlimit> {
    FILES_BEFORE.get()
}

/// A file that another process left open for us under this number, for which nothing else here has
/// a use.
pub(crate) fn inherited(fd: RawFd) -> io::Result<File> {
    // SAFETY: plain arguments; that the number is open is asked first.
    unsafe {
        check(libc::c_long::from(libc::fcntl(fd, libc::F_GETFD)))?;
        Ok(File::from_raw_fd(fd))
    }
}

/// Lets the process that `command` starts begin in a session of its own, out of reach of a
/// terminal's signals, at a real-time priority where that is allowed, with `keeps` open.
pub(crate) fn start_apart(command: &mut Command, priority: u8, keeps: RawFd) {
    // SAFETY: only calls that are safe between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::setsid();
            let top = libc::sched_param { sched_priority: i32::from(priority) };
            libc::sched_setscheduler(0, libc::SCHED_FIFO, &top);
            check(libc::c_long::from(libc::fcntl(keeps, libc::F_SETFD, 0))).map(drop)
        });
    }
}

/// Takes no notice of a signal from here on.
pub(crate) fn ignore(signal: i32) {
    // SAFETY: plain arguments.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Waits until an entry is ready or `timeout_ms` are over (-1 = for as long as it takes), and says
/// how many are. An entry of -1 never is.
pub(crate) fn poll(set: &mut [libc::pollfd], timeout_ms: i32) -> io::Result<usize> {
    // SAFETY: the array is the caller's and has this length.
    let ready = unsafe { libc::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, timeout_ms) };
    check(libc::c_long::from(ready)).map(|ready| ready as usize)
}

/// Sends what the socket takes at once, and says how many bytes that was.
pub(crate) fn send_now(socket: RawFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the buffer is the caller's.
    let sent = unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), flags) };
    check(sent as libc::c_long).map(|sent| sent as usize)
}

/// Ends a socket's stream in both directions.
pub(crate) fn shut_down(socket: RawFd) {
    // SAFETY: plain arguments.
    unsafe { libc::shutdown(socket, libc::SHUT_RDWR) };
}

/// Whether another open file holds a lock in this range of bytes.
pub(crate) fn is_locked(file: &File, bytes: Range<usize>) -> bool {
    // SAFETY: a plain structure of numbers, which the kernel reads and fills.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        (lock.l_start, lock.l_len) = (bytes.start as libc::off_t, bytes.len() as libc::off_t);
        let asked = libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock);
        asked == 0 && lock.l_type != libc::F_UNLCK as libc::c_short
    }
}

/// The processor time of a whole process, by the kernel's own numbering of such clocks
/// (include/linux/posix-timers.h). Those of foreign threads cannot be read so.
pub(crate) fn process_ns(pid: i32) -> Option<u64> {
    clock_ns((!pid << 3) | CPUCLOCK_SCHED)
}

/// The processor time of a thread of this process, by the same numbering.
pub(crate) fn own_thread_ns(tid: i32) -> Option<u64> {
    clock_ns((!tid << 3) | CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD)
}

/// include/linux/posix-timers.h: what a clock counts, and whether it is one thread's.
const CPUCLOCK_SCHED: i32 = 2;
const CPUCLOCK_PERTHREAD: i32 = 4;

/// What a clock shows; `None` where it is not there (any more).
fn clock_ns(clock: i32) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure that we give.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Sends a signal to a process that is held; that it has ended is no error.
pub(crate) fn signal(process: &OwnedFd, signal: i32) {
    let null = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: plain arguments; the descriptor names this process and no other.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), signal, null, 0) };
}

/// Sends a signal; a process that is gone already is no error.
pub(crate) fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: plain arguments.
    match check(libc::c_long::from(unsafe { libc::kill(pid, signal) })) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A path as the kernel wants it.
pub(crate) fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// Writes one extended attribute.
pub(super) fn set_attribute(path: &Path, name: &str, value: &str) -> io::Result<()> {
    let (path, name) = (c_path(path)?, CString::new(name)?);
    // SAFETY: both strings end in zero and the value's length is its own.
    let result = unsafe {
        libc::setxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0)
    };
    check(libc::c_long::from(result)).map(drop)
}

/// Reads one extended attribute, at most a path's length.
pub(super) fn attribute(path: &Path, name: &str) -> io::Result<String> {
    let (path, name) = (c_path(path)?, CString::new(name)?);
    let mut value = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer is as long as we say.
    let length = unsafe {
        libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len())
    };
    value.truncate(check(length as libc::c_long)? as usize);
    String::from_utf8(value).map_err(|_| super::bad_data("extended attribute"))
}

#[cfg(test)]
mod tests {
    use crate::host::launch::{Exit, fork, wait};

    #[test]
    fn children_can_be_collected_where_their_ends_were_ignored() {
        // In a process of its own: how a signal is taken is the whole process' affair.
        let ignoring = fork(None, || {
            // SAFETY: system calls on values of our own; both processes end here.
            unsafe {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                super::keep_children();
                // Not the C library's fork: it takes locks that threads of the test process may
                // have held when this copy of it was made.
                let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32;
                if child == 0 {
                    libc::_exit(7);
                }
                let mut status = 0;
                let collected = libc::waitpid(child, &raw mut status, 0) == child;
                libc::_exit(if collected { libc::WEXITSTATUS(status) } else { 1 })
            }
        });
        let exit = wait(ignoring.unwrap().pid, 0).unwrap();
        assert_eq!(exit, Some(Exit::Code(7)));
    }
}
