//! Memory of our own, and what the system says of memory.

use std::io;
use std::ops::Range;
use std::path::Path;
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
/// groups whose memory is limited.
pub(super) fn search_limit() -> usize {
    let kib = |text: &str| text.split_whitespace().nth(1)?.parse::<usize>().ok();
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("MemAvailable:"));
    let host = line.and_then(kib).unwrap_or(0).saturating_mul(1024);
    host.min(group_limit().unwrap_or(usize::MAX)) / 2 / page_size()
}

/// Bytes that are left to our control groups, if one of them is limited.
fn group_limit() -> Option<usize> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    left(Path::new("/sys/fs/cgroup"), &groups)
}

/// Bytes that are left to the control groups of `groups`, lines as of `/proc/self/cgroup`
/// (cgroups(7)), and to those above them; the hierarchies are mounted below `root` at their usual
/// places. A group alone says little: its own memory may be limited above it only.
fn left(root: &Path, groups: &str) -> Option<usize> {
    groups.lines().filter_map(|line| left_on(root, line)).min()
}

/// As [`left`], of one line.
fn left_on(root: &Path, line: &str) -> Option<usize> {
    let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
    let path = Path::new(path.trim_start_matches('/'));
    let mounts: &[&str] = match controllers {
        // Version 2: alone, or beside version 1.
        "" => &["", "unified"],
        "memory" => &["memory"],
        _ => &[],
    };
    let of_mount = |mount: &&str| {
        let mount = root.join(mount);
        path.ancestors().filter_map(|group| left_in(&mount.join(group))).min()
    };
    mounts.iter().filter_map(of_mount).min()
}

/// Bytes that are left to one control group, of either version, if it is limited. What it caches
/// of files and has not used lately is as good as free, as in `MemAvailable`.
fn left_in(group: &Path) -> Option<usize> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<usize>().ok();
    let limits = ["memory.max", "memory.high", "memory.limit_in_bytes"];
    let limit = limits.into_iter().filter_map(number).min()?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = read("memory.stat").unwrap_or_default();
    let cached = |name| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    // Version 1 counts the groups below only in the first of them.
    let cached = cached("total_inactive_file ").or_else(|| cached("inactive_file ")).unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(cached)))
}

/// How many mappings this process has, and how many it may have.
pub(super) fn mappings() -> (usize, usize) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let most = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    // 65530 is the kernel's default where it cannot be read.
    (maps.lines().count(), most.trim().parse().unwrap_or(65_530))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A tree of control groups in a directory of its own.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let name = format!("maracas-groups-{name}-{}", std::process::id());
            let tree = Self(std::env::temp_dir().join(name));
            for (file, content) in files {
                let file = tree.0.join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, content).unwrap();
            }
            tree
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_limit_above_our_group_counts() {
        // Our own group has the controller of memory not at all.
        let tree = Tree::new(
            "two",
            &[
                ("a/memory.max", "1000\n"),
                ("a/memory.high", "max\n"),
                ("a/memory.current", "900\n"),
                ("a/memory.stat", "anon 300\ninactive_file 600\n"),
                ("a/b/memory.max", "max\n"),
                ("a/b/memory.high", "500\n"),
                ("a/b/memory.current", "200\n"),
                ("a/b/c/cpuset.cpus", "0\n"),
            ],
        );
        let left = |groups| left(&tree.0, groups);
        assert_eq!(left("0::/a/b/c\n"), Some(300), "memory.high of b");
        assert_eq!(left("0::/a\n"), Some(700), "memory.max of a, without its cache");
        assert_eq!(left("0::/\n"), None);
        assert_eq!(left("1:memory:/a/b/c\n"), None, "no memory mounted by itself");
    }

    #[test]
    fn a_limit_of_version_1_counts() {
        let tree = Tree::new(
            "one",
            &[
                ("memory/a/memory.limit_in_bytes", "2000\n"),
                ("memory/a/memory.usage_in_bytes", "1900\n"),
                ("memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 50\n"),
                ("memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
                ("memory/a/b/memory.usage_in_bytes", "10\n"),
                ("unified/a/memory.max", "40\n"),
                ("unified/a/memory.current", "10\n"),
            ],
        );
        let left = |groups| left(&tree.0, groups);
        assert_eq!(left("4:memory:/a/b\n1:cpu:/a\n0::/\n"), Some(150));
        assert_eq!(left("4:memory:/a/b\n0::/a\n"), Some(30), "memory of version 2");
    }
}
