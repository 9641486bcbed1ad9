//! Mounts the file system where that was not done, and unmounts it again.

use crate::host::hardware::Hardware;
use crate::host::{Identity, sys};
use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

/// Where the kernel makes a directory for it.
pub(super) const PLACE: &str = "/sys/fs/resctrl";
/// The type of the file system.
const TYPE: &str = "resctrl";

/// The name of the mounting run.
pub(super) trait Mounts: Send + Sync {
    /// Mounts the file system with this source, which only names the run that did it.
    fn mount(&self, source: &str, place: &Path) -> io::Result<()>;
    /// Unmounts it.
    fn unmount(&self, place: &Path) -> io::Result<()>;
}

/// The kernel itself.
pub(super) struct Kernel;

impl Mounts for Kernel {
    fn mount(&self, source: &str, place: &Path) -> io::Result<()> {
        let (source, place) = (CString::new(source)?, sys::c_path(place)?);
        let kind = CString::new(TYPE)?;
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        let (source, place, kind) = (source.as_ptr(), place.as_ptr(), kind.as_ptr());
        // SAFETY: three strings of our own that end in zero, and no data.
        let done = unsafe { libc::mount(source, place, kind, flags, std::ptr::null()) };
        sys::check(done.into()).map(drop)
    }

    fn unmount(&self, place: &Path) -> io::Result<()> {
        let place = sys::c_path(place)?;
        // SAFETY: a string of our own that ends in zero.
        sys::check(unsafe { libc::umount2(place.as_ptr(), 0) }.into()).map(drop)
    }
}

/// One mount of the file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mounted {
    /// Where.
    pub(super) root: PathBuf,
    /// The run that mounted it, where it was one of ours.
    pub(super) by: Option<Identity>,
    /// Whether bandwidth is held in MB/s by the kernel's own controller (option `mba_MBps`).
    pub(super) in_megabytes: bool,
}

/// Where it is mounted, as this process sees it.
pub(super) fn mounted(hardware: &dyn Hardware) -> Option<Mounted> {
    find(&hardware.read(Path::new("/proc/self/mountinfo")).ok()?)
}

/// The first mount of it that `/proc/self/mountinfo` (proc_pid_mountinfo(5)) shows.
pub(super) fn find(mountinfo: &str) -> Option<Mounted> {
    let one = |line: &str| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut kind = kind.split_whitespace();
        let (name, source, options) = (kind.next()?, kind.next()?, kind.next().unwrap_or(""));
        let root = mount.split_whitespace().nth(4).filter(|_| name == TYPE)?;
        Some(Mounted {
            root: PathBuf::from(root),
            by: source.strip_prefix(super::PREFIX).and_then(Identity::parse),
            in_megabytes: options.split(',').any(|option| option == "mba_MBps"),
        })
    };
    mountinfo.lines().find_map(one)
}
