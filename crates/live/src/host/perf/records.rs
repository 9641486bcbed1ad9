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
        let (head, tail) = (self.position(Field::Head), self.position(Field::Tail));
        let (head, mut at) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
        while at != head {
            let begin = at;
            let word = |place: usize| self.word(begin + 8 * place as u64);
            let record = parse(word, |ns| self.clock.instant(ns));
            // The upper half of the header's upper half is the record's size.
            at += (word(0) >> 48).max(8);
            tail.store(at, Ordering::Release);
            if record.is_some() {
                return record;
            }
        }
        None
    }

    /// The eight bytes of the ring at this position, a multiple of eight, as all records begin at
    /// one: they never lie across the ring's end.
    fn word(&self, at: u64) -> u64 {
        let place = (at & self.mask) as usize / 8;
        // SAFETY: it lies inside the mapped data pages, which are aligned; the kernel does not
        // write between tail and head, and what is read beyond a record's end is not used.
        unsafe { self.ring.base.as_ptr().add(self.data).cast::<u64>().add(place).read_volatile() }
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

/// Reads one record from its words, each of eight bytes; `None` for kinds that do not concern us
/// and for the idle thread.
fn parse(word: impl Fn(usize) -> u64, instant: impl Fn(u64) -> Instant) -> Option<Record> {
    let (low, high) = (|place| word(place) as u32, |place| (word(place) >> 32) as u32);
    let misc = high(0) & 0xffff;
    match low(0) {
        // Header; the other thread's pid and tid; then our own pid, tid and time.
        abi::PERF_RECORD_SWITCH_CPU_WIDE => {
            let tid = high(2) as i32;
            if tid <= 0 {
                return None;
            }
            let at = instant(word(3));
            if misc & OUT == 0 {
                Some(Record::In { tid, at })
            } else {
                Some(Record::Out { tid, at, preempted: misc & PREEMPTED != 0 })
            }
        }
        // Header; pid, parent's pid, tid, parent's tid; time.
        abi::PERF_RECORD_FORK => {
            let (parent, child) = (high(2) as i32, low(2) as i32);
            Some(Record::Fork { parent, child, at: instant(word(3)) })
        }
        abi::PERF_RECORD_EXIT => Some(Record::Exit { tid: low(2) as i32, at: instant(word(3)) }),
        // Header; event id, how many; then pid, tid and time.
        abi::PERF_RECORD_LOST => Some(Record::Lost { at: instant(word(4)) }),
        _ => None,
    }
}
