//! What this process may do, as far as memory is concerned: its rights, the numbers of its page
//! frames, and the place of its socket.

use crate::control;
use crate::host::naming;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::{fmt, io, ptr};

/// The rights on which sensing and steering rest.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Rights {
    /// Whether it is root's process.
    pub root: bool,
    /// The capabilities that are in force, of those that are asked for here.
    pub capabilities: Vec<&'static str>,
    /// `kernel.perf_event_paranoid`: 0 and below, anyone may count all of a core; `None` = this
    /// kernel counts nothing.
    pub paranoid: Option<i32>,
}

/// Name and number (include/uapi/linux/capability.h) of each capability that matters here.
const CAPABILITIES: [(&str, u32); 6] = [
    ("CAP_SYS_ADMIN", 21),
    ("CAP_SYS_NICE", 23),
    ("CAP_IPC_LOCK", 14),
    ("CAP_SYS_RESOURCE", 24),
    ("CAP_PERFMON", 38),
    ("CAP_KILL", 5),
];

impl Rights {
    /// Of this process.
    pub fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
        // SAFETY: cannot fail.
        let root = unsafe { libc::geteuid() } == 0;
        Self {
            root,
            capabilities: capabilities(&status),
            paranoid: paranoid.ok().and_then(|text| text.trim().parse().ok()),
        }
    }

    /// Whether all that happens on a core may be counted, whichever user's it is.
    pub fn may_count(&self) -> bool {
        let has = |name| self.capabilities.contains(&name);
        let anyone = self.paranoid.is_some_and(|level| level <= 0);
        anyone || has("CAP_PERFMON") || has("CAP_SYS_ADMIN")
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.root { "root" } else { "not root" })?;
        let all = if self.capabilities.is_empty() {
            "no capability that matters here".to_owned()
        } else {
            self.capabilities.join(", ")
        };
        write!(f, ", {all}")?;
        match self.paranoid {
            Some(level) => write!(f, "; kernel.perf_event_paranoid {level}"),
            None => write!(f, "; no kernel.perf_event_paranoid"),
        }
    }
}

/// Those in force by the line `CapEff` of `/proc/<pid>/status` (proc_pid_status(5)).
fn capabilities(status: &str) -> Vec<&'static str> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let held = CAPABILITIES.iter().filter(|(_, bit)| mask >> bit & 1 == 1);
    held.map(|(name, _)| *name).collect()
}

/// Looks up in which frame a page of ours lies.
///
/// # Errors
/// The kernel's refusal; `PermissionDenied` where it shows zeros in the place of numbers.
pub fn page_frame() -> io::Result<u64> {
    // Bits 0 to 54 of an entry are the frame's number (admin-guide/mm/pagemap.rst).
    const FRAME: u64 = (1 << 55) - 1;
    const PRESENT: u64 = 1 << 63;
    let path = "/proc/self/pagemap";
    let byte = Box::new(1u8);
    let place = ptr::from_ref(&*byte) as u64;
    // SAFETY: reads a byte of our own, so that its page is there.
    unsafe { ptr::read_volatile(&raw const *byte) };
    // SAFETY: plain arguments; the answer is positive on every Linux.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let mut entry = [0; 8];
    let file = File::open(path).map_err(naming(path))?;
    file.read_exact_at(&mut entry, place / page * 8).map_err(naming(path))?;
    let entry = u64::from_ne_bytes(entry);
    match entry & FRAME {
        0 if entry & PRESENT == 0 => Err(io::Error::other("the page just used is not in memory")),
        0 => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{path}: the kernel shows zeros in the place of frame numbers"),
        )),
        frame => Ok(frame),
    }
}

/// Makes a socket where runs have theirs, removes it, and says where that is.
///
/// # Errors
/// The kernel's refusal, with the directory.
pub fn socket() -> io::Result<String> {
    let directory = control::directory();
    let (shown, was_there) = (directory.display().to_string(), directory.exists());
    let path = directory.join(format!("doctor-{}.trial", std::process::id()));
    let bound = control::make_directory(&directory).and_then(|()| UnixListener::bind(&path));
    let _ = fs::remove_file(&path);
    if !was_there {
        // Not empty where a run has just begun there: then it stays.
        let _ = fs::remove_dir(&directory);
    }
    bound.map(|_| shown.clone()).map_err(naming(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_read_from_the_kernels_mask() {
        let held = capabilities("Name:\tx\nCapEff:\t0000004000a00000\nCapBnd:\tffffffffffffffff\n");
        assert_eq!(held, ["CAP_SYS_ADMIN", "CAP_SYS_NICE", "CAP_PERFMON"]);
        let mut rights = Rights { root: false, capabilities: held, paranoid: Some(2) };
        assert!(rights.may_count());
        let line = "not root, CAP_SYS_ADMIN, CAP_SYS_NICE, CAP_PERFMON; \
                    kernel.perf_event_paranoid 2";
        assert_eq!(rights.to_string(), line);
        rights.capabilities.clear();
        assert!(!rights.may_count());
        rights.paranoid = Some(0);
        assert!(rights.may_count(), "then anyone may");
    }

    #[test]
    fn frames_are_shown_or_refused_and_the_socket_leaves_nothing() {
        let rights = Rights::read();
        match page_frame() {
            Ok(frame) => assert!(frame > 0 && frame < 1 << 52, "{frame}"),
            Err(error) => {
                assert!(!rights.capabilities.contains(&"CAP_SYS_ADMIN"), "{error}");
            }
        }
        let directory = control::directory();
        let there = directory.exists();
        let (listed, socket) = (list(&directory), socket());
        assert!(socket.is_ok_and(|shown| shown == directory.display().to_string()));
        assert!(directory.exists() == there || !list(&directory).is_empty());
        assert!(list(&directory).iter().all(|name| listed.contains(name) || !is_ours(name)));
    }

    fn list(directory: &std::path::Path) -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    fn is_ours(name: &str) -> bool {
        name.starts_with(&format!("doctor-{}.", std::process::id()))
    }
}
