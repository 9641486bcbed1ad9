//! A word in a file at which programs of other processes wait.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

/// The address of a file's first word, at which programs wait; never looked at by us.
#[derive(Debug)]
pub(crate) struct Futex {
    base: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: an address that only the kernel looks at, from whichever thread.
unsafe impl Send for Futex {}
// SAFETY: as above.
unsafe impl Sync for Futex {}

impl Futex {
    /// The first word of `file`, of which this many bytes are mapped.
    pub(crate) fn of(file: &File, bytes: usize) -> io::Result<Self> {
        let (null, fd) = (ptr::null_mut(), file.as_raw_fd());
        // SAFETY: a new mapping, which touches no memory of ours and outlives the descriptor.
        let base = unsafe { libc::mmap(null, bytes, libc::PROT_READ, libc::MAP_SHARED, fd, 0) };
        let mapped = NonNull::new(base).filter(|base| base.as_ptr() != libc::MAP_FAILED);
        mapped.map(|base| Self { base, bytes }).ok_or_else(io::Error::last_os_error)
    }

    /// The address, for the kernel.
    pub(crate) const fn address(&self) -> *mut libc::c_void {
        self.base.as_ptr()
    }

    /// Wakes the programs that wait. Where the file was truncated the kernel says `EFAULT`, and
    /// none can have waited.
    pub(crate) fn wake(&self) {
        // SAFETY: the kernel alone follows the address.
        unsafe { libc::syscall(libc::SYS_futex, self.address(), libc::FUTEX_WAKE, i32::MAX) };
    }
}

impl Drop for Futex {
    fn drop(&mut self) {
        // SAFETY: our own mapping, used no more.
        unsafe { libc::munmap(self.base.as_ptr(), self.bytes) };
    }
}
