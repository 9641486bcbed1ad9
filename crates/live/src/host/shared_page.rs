//! The memory that runtime and guardian share: how it is laid out and mapped. What is written there
//! and read is said in `guardian::heartbeats`.

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The most agents that can be watched, one a core.
pub(crate) const HEARTBEATS: usize = maracas_core::MAX_CORES;

/// What runtime and guardian share of one agent; on a cache line of its own, since each agent
/// writes its own several thousand times a second.
#[repr(C, align(64))]
pub(crate) struct Heartbeat {
    /// Not begun, ended, asleep until, or awake since, as `guardian::heartbeats` codes it.
    pub(crate) state: AtomicU64,
    /// Since when the agent was awake when it went to sleep. Its own affair, as is the next.
    pub(crate) since_ns: AtomicU64,
    /// When it went to sleep.
    pub(crate) slept_ns: AtomicU64,
    /// How long the agent was stuck when its core was relieved last.
    pub(crate) stuck_ns: AtomicU64,
    /// The kernel's number of its core, plus one; 0 = not given.
    pub(crate) hardware: AtomicU32,
    /// Reliefs of its core that were begun.
    pub(crate) begun: AtomicU32,
    /// And that were finished.
    pub(crate) done: AtomicU32,
}

/// The whole of what they share.
#[repr(C)]
pub(crate) struct Page {
    /// One an agent.
    pub(crate) heartbeats: [Heartbeat; HEARTBEATS],
    /// How many of them are used; 0 = not given.
    pub(crate) agents: AtomicU32,
    /// When it is to begin to end (monotonic nanoseconds); 0 = not given.
    pub(crate) ends_ns: AtomicU64,
    /// Why the run must end: a cause and an agent; 0 = it must not.
    pub(crate) ending: AtomicU64,
    /// For how long that had lasted.
    pub(crate) ending_ns: AtomicU64,
    /// 1 = the kernel carries the law out, and the first agent is the thread that decides.
    pub(crate) in_kernel: AtomicU32,
}

/// A [`Page`] in a file of memory, mapped into this process.
#[derive(Debug)]
pub(crate) struct SharedPage {
    file: File,
    page: *const Page,
}

// SAFETY: the mapping lives as long as this value and holds nothing but atomics.
unsafe impl Send for SharedPage {}
// SAFETY: as above.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// New memory, all zeros.
    pub(crate) fn new() -> io::Result<Self> {
        let file = File::from(memfd_create(c"maracas heartbeats", MemfdFlags::CLOEXEC)?);
        file.set_len(size_of::<Page>() as u64)?;
        Self::map(file)
    }

    /// Maps the memory of another process.
    ///
    /// # Errors
    /// What the kernel says; `InvalidData` where the file is shorter than a page's layout.
    pub(crate) fn map(file: File) -> io::Result<Self> {
        if file.metadata()?.len() < size_of::<Page>() as u64 {
            return Err(super::bad_data("the memory that runtime and guardian share"));
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, which touches no memory of ours.
        let page = unsafe {
            mmap(std::ptr::null_mut(), size_of::<Page>(), access, MapFlags::SHARED, &file, 0)
        }?;
        Ok(Self { file, page: page.cast() })
    }

    /// The memory's file.
    pub(crate) const fn file(&self) -> &File {
        &self.file
    }

    /// What is in it.
    pub(crate) const fn page(&self) -> &Page {
        // SAFETY: mapped until `self` is dropped, page-aligned, of this size; all bit patterns are
        // valid values of its atomics.
        unsafe { &*self.page }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: mapped with this size by `SharedPage::map`, and no reference to it is left.
        let _ = unsafe { munmap(self.page.cast_mut().cast(), size_of::<Page>()) };
    }
}
