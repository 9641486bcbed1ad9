//! The few raw calls that several files share.

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
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

/// Sends a signal; a process that is gone already is no error.
pub(super) fn kill(pid: i32, signal: i32) -> io::Result<()> {
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
