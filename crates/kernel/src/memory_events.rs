//! The events of cores whose overflows the scheduler counts as reads of memory.

use crate::Reads;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `struct perf_event_attr` as far as it is used (`PERF_ATTR_SIZE_VER1` of
/// include/uapi/linux/perf_event.h).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
}

/// Bits of `flags`: it counts from when it is enabled, and never takes turns with others.
const DISABLED: u64 = 1 << 0;
const PINNED: u64 = 1 << 2;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// Opens the event on a core, for whatever runs there. It overflows once it is enabled.
///
/// # Errors
/// As the kernel refuses: ENOENT where nothing counts it.
pub(crate) fn open(reads: &Reads, core: u32) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: reads.unit,
        size: size_of::<Attributes>() as u32,
        config: reads.config[0],
        config1: reads.config[1],
        config2: reads.config[2],
        sample_period: reads.chunk,
        flags: DISABLED | PINNED,
        ..Attributes::default()
    };
    let (everyone, no_group) = (-1 as libc::pid_t, -1 as libc::c_int);
    // SAFETY: the call reads the attributes, which are as long as they say, and makes a descriptor.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            everyone,
            core as libc::c_int,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which nothing else holds.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Whether an event that was enabled has a counter of its core.
///
/// # Errors
/// Where it has none, since others hold all of them: it counts nothing then, and says so by an
/// empty reading (perf_event_open(2), `pinned`).
pub(crate) fn check(event: &OwnedFd) -> io::Result<()> {
    let mut count = [0u8; 8];
    // SAFETY: the descriptor is open, and as much is written as there is room for.
    let read = unsafe { libc::read(event.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    match read {
        0 => Err(io::Error::other("other programs hold all counters")),
        1.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
