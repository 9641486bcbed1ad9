//! The ring of switch, fork and exit records of one core.

use super::{Ring, abi, attributes, open, page_bytes};
use crate::clock::Clock;
use maracas_core::Instant;
use maracas_live_core::Record;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages of records: 256 KiB hold 8192 switches, which is 100 ms at 80 000 switches per second.
const DATA_PAGES: usize = 64;
/// The longest record that we ask for is a fork, 48 bytes.
const LONGEST: usize = 64;
/// Switched out while still runnable; absent where the thread blocked.
const OUT: u32 = abi::PERF_RECORD_MISC_SWITCH_OUT;
const PREEMPTED: u32 = abi::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;

/// The records of one core.
#[derive(Debug)]
pub(crate) struct Switches {
    file: File,
    ring: Ring,
    /// Where the data begins in the mapping.
    data: usize,
    mask: u64,
    clock: Clock,
}

impl Switches {
    /// Starts to record what happens on the hardware core `core`.
    pub(crate) fn open(core: u32, clock: Clock) -> io::Result<Self> {
        let mut attr = attributes(u64::from(abi::PERF_COUNT_SW_DUMMY));
        attr.sample_type = u64::from(abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME);
        attr.set_context_switch(1);
        attr.set_task(1);
        attr.set_sample_id_all(1);
        attr.set_watermark(1);
        // Wakes the agent before records are lost, however long it has nothing else to do.
        attr.__bindgen_anon_2.wakeup_watermark = (DATA_PAGES * page_bytes() / 2) as u32;
        let file = open(&mut attr, -1, core as i32, abi::PERF_FLAG_FD_CLOEXEC)?;
        let ring = Ring::map(&file, DATA_PAGES, libc::PROT_READ | libc::PROT_WRITE)?;
        let mask = (DATA_PAGES * page_bytes()) as u64 - 1;
        Ok(Self { file, ring, data: page_bytes(), mask, clock })
    }
    /// The descriptor to wait for.
    pub(crate) fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }
    /// Takes the next record that concerns us, if there is one.
    pub(crate) fn next(&mut self) -> Option<Record> {
        loop {
            let (head, tail) = (self.position(Field::Head), self.position(Field::Tail));
            let (head, at) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
            if at == head {
                return None;
            }
            let mut bytes = [0; LONGEST];
            self.copy(at, &mut bytes[..8]);
            let size = u64::from(u16::from_ne_bytes([bytes[6], bytes[7]]));
            self.copy(at, &mut bytes[..LONGEST.min(size as usize)]);
            tail.store(at + size.max(8), Ordering::Release);
            if let Some(record) = parse(&bytes, |ns| self.clock.instant(ns)) {
                return Some(record);
            }
        }
    }

    fn copy(&self, from: u64, into: &mut [u8]) {
        let length = self.mask as usize + 1;
        let at = (from & self.mask) as usize;
        let (first, rest) = into.split_at_mut(into.len().min(length - at));
        // SAFETY: both parts lie inside the mapped data pages, the first from the masked position
        // to their end at most, the rest at their begin; the kernel does not write between tail
        // and head.
        unsafe {
            let data = self.ring.base.as_ptr().add(self.data);
            data.add(at).copy_to_nonoverlapping(first.as_mut_ptr(), first.len());
            data.copy_to_nonoverlapping(rest.as_mut_ptr(), rest.len());
        }
    }

    fn position(&self, field: Field) -> &AtomicU64 {
        let page = self.ring.base.as_ptr().cast::<abi::perf_event_mmap_page>();
        // SAFETY: the first page of the mapping is this structure and outlives `self`; the kernel
        // and we access both fields as whole aligned words.
        unsafe {
            AtomicU64::from_ptr(match field {
                Field::Head => &raw mut (*page).data_head,
                Field::Tail => &raw mut (*page).data_tail,
            })
        }
    }
}

enum Field {
    Head,
    Tail,
}

/// Reads one record; `None` for kinds that do not concern us and for the idle thread.
fn parse(bytes: &[u8; LONGEST], instant: impl Fn(u64) -> Instant) -> Option<Record> {
    let word =
        |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let misc = u32::from(u16::from_ne_bytes([bytes[4], bytes[5]]));
    match word(0) {
        // Header; the other thread's pid and tid; then our own pid, tid and time.
        abi::PERF_RECORD_SWITCH_CPU_WIDE => {
            let (tid, at) = (word(20) as i32, instant(long(24)));
            if tid <= 0 {
                None
            } else if misc & OUT == 0 {
                Some(Record::In { tid, at })
            } else {
                Some(Record::Out { tid, at, preempted: misc & PREEMPTED != 0 })
            }
        }
        // Header; pid, parent's pid, tid, parent's tid; time.
        abi::PERF_RECORD_FORK => {
            let (parent, child) = (word(20) as i32, word(16) as i32);
            Some(Record::Fork { parent, child, at: instant(long(24)) })
        }
        abi::PERF_RECORD_EXIT => Some(Record::Exit { tid: word(16) as i32, at: instant(long(24)) }),
        // Header; event id, how many; then pid, tid and time.
        abi::PERF_RECORD_LOST => Some(Record::Lost { at: instant(long(32)) }),
        _ => None,
    }
}
