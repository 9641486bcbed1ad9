//! The few raw calls that several files share.

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Turns the kernel's -1 into the error that it stands for.
pub(super) fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A descriptor that watches one process; unlike a number it can never name another.
pub(super) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain arguments; the kernel returns a new descriptor that nobody else owns.
    unsafe {
        let fd = check(libc::syscall(libc::SYS_pidfd_open, pid, 0))?;
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
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
pub(super) fn c_path(path: &Path) -> io::Result<CString> {
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
