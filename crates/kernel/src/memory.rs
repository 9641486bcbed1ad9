//! Maps of the scheduler in the memory of this process: what is read and written at every decision
//! costs no system call, and no more than what of it is used.

use libbpf_rs::MapHandle;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::sync::atomic::AtomicU64;

/// All values of an array map, as the words that they are; the kernel changes them meanwhile.
#[derive(Debug)]
pub(crate) struct Memory {
    words: &'static [AtomicU64],
}

impl Memory {
    /// The first `count` words of a map that may be mapped (`BPF_F_MMAPABLE`).
    ///
    /// # Errors
    /// As the kernel refuses.
    pub(crate) fn open(map: &MapHandle, count: usize) -> io::Result<Self> {
        let (bytes, protection) = (count * 8, libc::PROT_READ | libc::PROT_WRITE);
        let (none, fd) = (ptr::null_mut(), map.as_fd().as_raw_fd());
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base = unsafe { libc::mmap(none, bytes, protection, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: so many words are mapped, at the begin of a page, until this is dropped, which
        // lends them no longer than it lives; the kernel changes them, so they are atomic.
        let words = unsafe { std::slice::from_raw_parts(base.cast::<AtomicU64>(), count) };
        Ok(Self { words })
    }

    /// The words.
    pub(crate) const fn words(&self) -> &[AtomicU64] {
        self.words
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let base = self.words.as_ptr().cast_mut().cast();
        // SAFETY: the mapping is this value's own, and nothing that it lent is left.
        unsafe { libc::munmap(base, self.words.len() * 8) };
    }
}
