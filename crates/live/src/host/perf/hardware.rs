//! Counters of hardware events, by their codes.
//!
//! # Alarms fire once
//! A counter with an alarm is two events of the core. One counts and is the meter. The other one is
//! the alarm: it is enabled for one overflow (`PERF_EVENT_IOC_REFRESH`), at which the kernel takes
//! it off its counter, so that it cannot fire again before it is armed. `REFRESH` adds to the
//! overflows that an event still has, so it is called only where the last one was used up, which
//! the alarm's ring shows. An alarm that is set again, or not wanted any more, gets another period
//! and keeps the one overflow that it has. Its period changes only while it is disabled: software
//! events overflow at once otherwise, and no event can overflow in between.

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
        Scope::AlarmedCore(core) => return Ok(Box::new(Alarmed::open(event, -1, core.0 as i32)?)),
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
    Ok(Box::new(Plain { file: file? }))
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

/// One that signals when it reaches a number: once each time that it is armed.
struct Alarmed {
    meter: Plain,
    alarm: Plain,
    ring: Ring,
    /// The alarm's distance as the kernel has it.
    period: u64,
    /// Whether the alarm still has its one overflow.
    loaded: bool,
    /// Up to where the ring was read.
    read_to: u64,
}

/// Bytes of a sample: its header and its time.
const SAMPLE: u64 = 16;

impl Alarmed {
    /// Of a thread or, with -1, of all; on a core or, with -1, on all.
    fn open(event: &EventCode, pid: i32, core: i32) -> io::Result<Self> {
        let flags = abi::PERF_FLAG_FD_CLOEXEC;
        let mut attr = attributes(event);
        // One that takes turns would count too little and signal too late.
        attr.set_pinned(1);
        let mut meter = Plain { file: open_with(&mut attr, pid, core, flags)? };
        attr.__bindgen_anon_1.sample_period = UNARMED;
        attr.sample_type = u64::from(abi::PERF_SAMPLE_TIME);
        attr.__bindgen_anon_2.wakeup_events = 1;
        attr.set_disabled(1);
        let alarm = Plain { file: open_with(&mut attr, pid, core, flags)? };
        let ring = Ring::map(&alarm.file, 1, libc::PROT_READ)?;
        // A pinned event that has no counter is in error from the start, and says so when it is
        // read.
        meter.read()?;
        Ok(Self { meter, alarm, ring, period: UNARMED, loaded: false, read_to: 0 })
    }

    /// Lets the alarm overflow once, `period` events from now.
    fn set(&mut self, period: u64) -> io::Result<()> {
        let fd = self.alarm.file.as_raw_fd();
        // SAFETY: the descriptor is an event of ours; the argument means it alone.
        check(unsafe { sys::ioctls::DISABLE(fd, 0) })?;
        self.notice();
        // The kernel takes the number's address, though the binding is typed otherwise.
        let address = (&raw const period).expose_provenance() as u64;
        // SAFETY: the descriptor is an event of ours, and the kernel only reads `period`.
        check(unsafe { sys::ioctls::PERIOD(fd, address) })?;
        self.period = period;
        // SAFETY: the descriptor is an event of ours; the arguments are numbers.
        let enabled = unsafe {
            if self.loaded { sys::ioctls::ENABLE(fd, 0) } else { sys::ioctls::REFRESH(fd, 1) }
        };
        self.loaded = true;
        check(enabled)
    }

    /// Looks whether the alarm used up its overflow.
    fn notice(&mut self) {
        self.loaded &= !self.has_overflowed();
    }

    /// Whether the alarm has overflowed since this was asked last.
    fn has_overflowed(&mut self) -> bool {
        let (head, mut overflowed) = (self.ring.head(), false);
        // Should more have come than the ring holds, then samples among it.
        if head.saturating_sub(self.read_to) > page_bytes() as u64 {
            (self.read_to, overflowed) = (head, true);
        }
        while self.read_to < head {
            let (is_sample, bytes) = Header::of(self.ring.word(self.read_to));
            overflowed |= is_sample;
            // Never nothing, whatever a kernel writes.
            self.read_to += bytes.max(8);
        }
        overflowed
    }
}

/// The header of a record: its kind, its mode and its size, from the lowest bits up.
struct Header;

impl Header {
    /// Whether it is that of a sample, and the record's size.
    const fn of(word: u64) -> (bool, u64) {
        let (kind, bytes) = (word as u32, word >> 48);
        (kind == abi::PERF_RECORD_SAMPLE && bytes == SAMPLE, bytes)
    }
}

impl Ring {
    /// Up to where the kernel has written, in bytes since the ring was mapped.
    fn head(&self) -> u64 {
        let page = self.base.as_ptr().cast::<abi::perf_event_mmap_page>();
        // SAFETY: the first page of the mapping is this structure and outlives `self`; the kernel
        // writes the field as a whole aligned word.
        let head = unsafe { AtomicU64::from_ptr(&raw mut (*page).data_head) };
        head.load(Ordering::Acquire)
    }

    /// The word at this position of a ring of one page.
    fn word(&self, position: u64) -> u64 {
        let at = page_bytes() + position as usize % page_bytes();
        // SAFETY: records are aligned to eight bytes and the ring's length is a multiple of that,
        // so the word lies inside the mapped data page. Should the kernel overwrite it right now,
        // then by another record.
        unsafe { self.base.as_ptr().add(at).cast::<u64>().read_volatile() }
    }
}

impl Counter for Alarmed {
    fn read(&mut self) -> io::Result<Count> {
        self.meter.read()
    }
    fn arm(&mut self, rest: u64) -> io::Result<()> {
        self.set(rest.clamp(SHORTEST_ALARM, UNARMED))?;
        // Where others hold all counters, it could not be put on one.
        self.alarm.read().map(drop)
    }
    fn disarm(&mut self) -> io::Result<()> {
        self.notice();
        // It keeps its counter, which others might not give back.
        if self.loaded && self.period != UNARMED { self.set(UNARMED) } else { Ok(()) }
    }
    fn fd(&self) -> Option<RawFd> {
        Some(self.alarm.file.as_raw_fd())
    }
    fn alarmed_at_ns(&self) -> Option<u64> {
        let last = self.ring.head().checked_sub(SAMPLE)?;
        let (is_sample, _) = Header::of(self.ring.word(last));
        is_sample.then(|| self.ring.word(last + 8))
    }
}

#[cfg(test)]
mod tests;
