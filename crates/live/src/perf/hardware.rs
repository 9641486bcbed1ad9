//! Counters of hardware events, by their codes.

use super::{Ring, abi, check, open, page_bytes, sys};
use crate::host::hardware::{Count, Counter, EventCode, SHORTEST_ALARM, Scope};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// A period that no event reaches: at 10 events a nanosecond it takes two hours.
const UNARMED: u64 = 1 << 46;
/// Opens a counter, which counts from here on.
///
/// The kernel's own accesses are counted too: they wait in the same queues. Where the rights lack
/// for that, a process or a thread is counted in user mode alone.
pub(crate) fn hardware(event: &EventCode, scope: Scope<'_>) -> io::Result<Box<dyn Counter>> {
    let mut attr = attributes(event);
    let close = abi::PERF_FLAG_FD_CLOEXEC;
    let of_core = |core: u32| (-1, core as i32, close);
    let (pid, core, flags) = match scope {
        Scope::Core(core) => of_core(core.0),
        Scope::AlarmedCore(core) => {
            attr.__bindgen_anon_1.sample_period = UNARMED;
            attr.sample_type = u64::from(abi::PERF_SAMPLE_TIME);
            attr.__bindgen_anon_2.wakeup_events = 1;
            // One that takes turns would count too little and tell too late.
            attr.set_pinned(1);
            of_core(core.0)
        }
        Scope::Group(group, core) => {
            (group.as_raw_fd(), core.0 as i32, close | abi::PERF_FLAG_PID_CGROUP)
        }
        Scope::Process(pid) => {
            attr.set_inherit(1);
            (pid as i32, -1, close)
        }
        Scope::ThisThread => (0, -1, close),
    };
    let mut file = open_with(&mut attr, pid, core, flags);
    let of_threads = matches!(scope, Scope::Process(_) | Scope::ThisThread);
    if of_threads && file.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied) {
        attr.set_exclude_kernel(1);
        file = open_with(&mut attr, pid, core, flags);
    }
    let mut plain = Plain { file: file? };
    if !matches!(scope, Scope::AlarmedCore(_)) {
        return Ok(Box::new(plain));
    }
    let ring = Ring::map(&plain.file, 1, libc::PROT_READ)?;
    // A pinned event that has no counter is in error from the start, and says so when it is read.
    plain.read()?;
    Ok(Box::new(Alarmed { plain, ring, period: UNARMED }))
}

fn attributes(event: &EventCode) -> abi::perf_event_attr {
    let mut attr = super::attributes(event.config);
    attr.type_ = event.unit;
    attr.__bindgen_anon_3.config1 = event.config1;
    attr.__bindgen_anon_4.config2 = event.config2;
    attr.read_format =
        u64::from(abi::PERF_FORMAT_TOTAL_TIME_ENABLED | abi::PERF_FORMAT_TOTAL_TIME_RUNNING);
    attr
}

/// Leaves a hypervisor's accesses out where the unit can: those outside the cores refuse every
/// wish of that kind (`PERF_PMU_CAP_NO_EXCLUDE`).
fn open_with(attr: &mut abi::perf_event_attr, pid: i32, core: i32, flags: u32) -> io::Result<File> {
    attr.set_exclude_hv(1);
    match open(attr, pid, core, flags) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            attr.set_exclude_hv(0);
            open(attr, pid, core, flags)
        }
        result => result,
    }
}

/// A counter that is only read.
struct Plain {
    file: File,
}

impl Counter for Plain {
    fn read(&mut self) -> io::Result<Count> {
        let mut bytes = [0; 24];
        match self.file.read_exact(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let what = "the counter is gone: its core is off line, or others hold all counters";
                return Err(io::Error::new(error.kind(), what));
            }
            result => result?,
        }
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at * 8 + i]));
        Ok(Count { value: word(0), wanted_ns: word(1), counted_ns: word(2) })
    }
    fn arm(&mut self, _rest: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn disarm(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn fd(&self) -> Option<RawFd> {
        None
    }
}

/// One that tells when it reaches a number.
struct Alarmed {
    plain: Plain,
    ring: Ring,
    period: u64,
}

impl Alarmed {
    /// Overflows `period` events from now, and again and again at that distance.
    fn set(&mut self, period: u64) -> io::Result<()> {
        // The kernel takes the number's address, though the binding is typed otherwise.
        let address = (&raw const period).expose_provenance() as u64;
        // SAFETY: the descriptor is an event of ours, and the kernel only reads `period`.
        check(unsafe { sys::ioctls::PERIOD(self.plain.file.as_raw_fd(), address) })?;
        self.period = period;
        Ok(())
    }
}

impl Counter for Alarmed {
    fn read(&mut self) -> io::Result<Count> {
        self.plain.read()
    }
    fn arm(&mut self, rest: u64) -> io::Result<()> {
        self.set(rest.clamp(SHORTEST_ALARM, UNARMED))
    }
    fn disarm(&mut self) -> io::Result<()> {
        if self.period == UNARMED { Ok(()) } else { self.set(UNARMED) }
    }
    fn fd(&self) -> Option<RawFd> {
        Some(self.plain.file.as_raw_fd())
    }
    fn alarmed_at_ns(&self) -> Option<u64> {
        /// Bytes of a sample: its header and its time.
        const SAMPLE: u64 = 16;
        let base = self.ring.base.as_ptr();
        let page = base.cast::<abi::perf_event_mmap_page>();
        // SAFETY: the first page of the mapping is this structure and outlives `self`; the kernel
        // writes the field as a whole aligned word.
        let head = unsafe { AtomicU64::from_ptr(&raw mut (*page).data_head) };
        let last = head.load(Ordering::Acquire).checked_sub(SAMPLE)?;
        let word = |position: u64| {
            let at = page_bytes() + position as usize % page_bytes();
            // SAFETY: records are aligned to eight bytes and the ring's length is a multiple of
            // that, so the word lies inside the mapped data page. Should the kernel overwrite it
            // right now, then by another record of the same kind.
            unsafe { base.add(at).cast::<u64>().read_volatile() }
        };
        // The header is the kind, the mode and the size, from the lowest bits up.
        let header = word(last);
        let is_sample = header as u32 == abi::PERF_RECORD_SAMPLE && header >> 48 == SAMPLE;
        is_sample.then(|| word(last + 8))
    }
}

#[cfg(test)]
mod tests;
