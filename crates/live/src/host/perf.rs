//! Kernel events: the service and the instructions of a VCPU on a core, and the switch records of a
//! core.
//!
//! Both count and record in the kernel; an agent only reads. Time stamps are `CLOCK_MONOTONIC`.

mod hardware;
mod instructions;
mod records;

pub(crate) use hardware::hardware;
pub(crate) use instructions::{Instructions, TRIAL_STEPS, trial};
pub(crate) use records::Switches;

use super::{HardwareCore, sched};
use perf_event_open_sys as sys;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::time::Duration;
use sys::bindings as abi;

/// The service of one VCPU on one core: a counter of the time that all threads of its group ran
/// there, kernel time included.
///
/// It counts from its opening to its end and is never reset, so that its reading is a meter. It
/// never overflows: an event that is driven by a timer of the kernel fires again and again until it
/// is set anew, and where its interrupt takes longer than its period no thread on that core ever
/// gets so far. Forks and exits in the group make it readable, so that new threads are raised at
/// once.
///
/// A reading is a system call, and most readings find what the one before found: of the VCPUs of a
/// core that may have run since, one did. The kernel renews the page before the ring whenever the
/// group comes on the core, so a count that was read there by a thread outside the group holds for
/// as long as the page stays as it was.
#[derive(Debug)]
pub(crate) struct Service {
    file: File,
    core: HardwareCore,
    /// `poll` needs it; of what is in it, only the page before the records is read.
    ring: Ring,
    /// How often the page had been renewed when the count was read on that core, and the count.
    last: Cell<Option<(u32, u64)>>,
}

impl Service {
    /// Opens the counter for the group whose v2 directory `group` is, on the hardware core `core`.
    pub(crate) fn open(group: BorrowedFd<'_>, core: u32) -> io::Result<Self> {
        let mut attr = attributes(u64::from(abi::PERF_COUNT_SW_TASK_CLOCK));
        attr.set_task(1);
        attr.set_watermark(1);
        attr.__bindgen_anon_2.wakeup_watermark = 1;
        let flags = abi::PERF_FLAG_PID_CGROUP | abi::PERF_FLAG_FD_CLOEXEC;
        let file = open(&mut attr, group.as_raw_fd(), core as i32, flags)?;
        // A read-only mapping is overwritten in a circle: it never fills up.
        let ring = Ring::map(&file, 1, libc::PROT_READ)?;
        Ok(Self { file, core: HardwareCore(core), ring, last: Cell::new(None) })
    }
    /// The descriptor to wait for.
    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
    /// The time counted so far, in nanoseconds. Where the group runs on another core right now this
    /// interrupts that core (3 us).
    pub(crate) fn count(&self) -> io::Result<u64> {
        let renewals = self.ring.renewals();
        if let Some((then, count)) = self.last.get()
            && then == renewals
        {
            return Ok(count);
        }
        // This thread has the core, so the group has not. Asked before the count is read: what the
        // group runs from here on renews the page, wherever this thread goes meanwhile.
        let holds = pages_are_renewed() && sched::is_on(self.core);
        let count = self.read()?;
        self.last.set(holds.then_some((renewals, count)));
        Ok(count)
    }
    fn read(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        (&self.file).read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

/// Whether this kernel renews an event's page when what it counts comes on a core: tried once, by
/// an event on the calling thread and a sleep. Linux does (`task_clock_event_add` in
/// kernel/events/core.c), but no manual promises it.
fn pages_are_renewed() -> bool {
    static TRIED: OnceLock<bool> = OnceLock::new();
    *TRIED.get_or_init(|| {
        let mut attr = attributes(u64::from(abi::PERF_COUNT_SW_TASK_CLOCK));
        let renewed = open(&mut attr, 0, -1, abi::PERF_FLAG_FD_CLOEXEC).and_then(|file| {
            let ring = Ring::map(&file, 1, libc::PROT_READ)?;
            let before = ring.renewals();
            std::thread::sleep(Duration::from_nanos(1));
            Ok(ring.renewals() != before)
        });
        renewed.unwrap_or(false)
    })
}

/// A mapping of an event's ring: one page of positions, then the data.
#[derive(Debug)]
struct Ring {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and stays where it is until dropped.
unsafe impl Send for Ring {}

impl Ring {
    fn map(file: &File, data_pages: usize, protection: i32) -> io::Result<Self> {
        let bytes = (1 + data_pages) * page_bytes();
        // SAFETY: a new shared mapping of an event's descriptor; no existing memory is touched.
        let base = unsafe {
            let null = std::ptr::null_mut();
            libc::mmap(null, bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { base, bytes })
    }
    /// How often the kernel has begun or ended to renew the first page (`lock` in
    /// `struct perf_event_mmap_page`).
    fn renewals(&self) -> u32 {
        let page = self.base.as_ptr().cast::<abi::perf_event_mmap_page>();
        // SAFETY: the first page of the mapping is this structure and outlives `self`; the kernel
        // writes the field as a whole aligned word.
        unsafe { (&raw const (*page).lock).read_volatile() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, and nothing else holds a pointer into it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Attributes of a software event that starts to count at once and uses our clock.
fn attributes(config: u64) -> abi::perf_event_attr {
    let mut attr = abi::perf_event_attr {
        type_: abi::PERF_TYPE_SOFTWARE,
        size: size_of::<abi::perf_event_attr>() as u32,
        config,
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attr.set_use_clockid(1);
    attr
}

fn open(attr: &mut abi::perf_event_attr, pid: i32, core: i32, flags: u32) -> io::Result<File> {
    // SAFETY: the attributes are ours and their size is given; the descriptor is new.
    unsafe {
        let fd = sys::perf_event_open(attr, pid, core, -1, libc::c_ulong::from(flags));
        check(fd)?;
        Ok(File::from_raw_fd(fd))
    }
}

fn page_bytes() -> usize {
    // SAFETY: a plain question.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

fn check(result: i32) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
