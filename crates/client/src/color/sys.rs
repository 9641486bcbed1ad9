//! Memory of our own, and what the system says of memory.

use std::io;
use std::ops::Range;
use std::sync::LazyLock;
use std::{fs, ptr};

/// Bytes of a page.
pub(super) fn page_size() -> usize {
    static SIZE: LazyLock<usize> = LazyLock::new(|| {
        // SAFETY: a plain question, which every system answers.
        unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
    });
    *SIZE
}

/// Private anonymous memory without huge pages, given back when dropped.
#[derive(Debug)]
pub(super) struct Region {
    start: usize,
    bytes: usize,
}

impl Region {
    /// Room for whole pages; none of them has a frame yet.
    pub(super) fn map(pages: usize) -> io::Result<Self> {
        let bytes = pages.checked_mul(page_size()).filter(|bytes| *bytes > 0);
        let bytes = bytes.ok_or(io::ErrorKind::InvalidInput)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, which touches no other memory.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let region = Self { start: base as usize, bytes };
        // Refused only by kernels without huge pages, which is as well.
        let _ = region.advise(libc::MADV_NOHUGEPAGE);
        Ok(region)
    }

    pub(super) const fn start(&self) -> usize {
        self.start
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) const fn range(&self) -> Range<usize> {
        self.start..self.start + self.bytes
    }

    /// Gives advice about all of it.
    pub(super) fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: our own memory; no advice that is given here takes content that is in use.
        let result = unsafe { libc::madvise(self.start as *mut _, self.bytes, advice) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Gives every page a frame.
    pub(super) fn populate(&self) -> io::Result<()> {
        /// Since Linux 5.14.
        const MADV_POPULATE_WRITE: libc::c_int = 23;
        match self.advise(MADV_POPULATE_WRITE) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                for page in self.range().step_by(page_size()) {
                    // SAFETY: our own memory, of which nothing else knows.
                    unsafe { ptr::write_volatile(page as *mut u8, 0) };
                }
                Ok(())
            }
            result => result,
        }
    }

    /// Takes every frame away again: all of it reads as zeros.
    pub(super) fn empty(&self) -> io::Result<()> {
        /// For locked memory, since Linux 5.18.
        const MADV_DONTNEED_LOCKED: libc::c_int = 24;
        self.advise(libc::MADV_DONTNEED).or_else(|_| self.advise(MADV_DONTNEED_LOCKED))
    }

    /// Locks it into memory, or unlocks it: pages move only between memory that is alike in that.
    /// No page gets a frame by it.
    pub(super) fn lock(&self, locked: bool) -> io::Result<()> {
        let (start, bytes) = (self.start as *const libc::c_void, self.bytes);
        // SAFETY: our own memory.
        let result = unsafe {
            if locked {
                libc::mlock2(start, bytes, libc::MLOCK_ONFAULT as _)
            } else {
                libc::munlock(start, bytes)
            }
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: our own memory, to which no reference exists any more.
        unsafe { libc::munmap(self.start as *mut _, self.bytes) };
    }
}

/// Pages that a search may hold: half of what the kernel calls available, here and in the control
/// group whose memory is limited.
pub(super) fn search_limit() -> usize {
    let kib = |text: &str| text.split_whitespace().nth(1)?.parse::<usize>().ok();
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("MemAvailable:"));
    let host = line.and_then(kib).unwrap_or(0).saturating_mul(1024);
    host.min(group_limit().unwrap_or(usize::MAX)) / 2 / page_size()
}

/// What is left to our control group (version 2), if it is limited.
fn group_limit() -> Option<usize> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let number = |name: &str| {
        let file = format!("/sys/fs/cgroup/{path}/{name}");
        fs::read_to_string(file).ok()?.trim().parse::<usize>().ok()
    };
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

/// How many mappings this process has, and how many it may have.
pub(super) fn mappings() -> (usize, usize) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let most = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    // 65530 is the kernel's default where it cannot be read.
    (maps.lines().count(), most.trim().parse().unwrap_or(65_530))
}
