//! When a thread ran, seen from outside and the same way whatever schedules it: the kernel's switch
//! records (`PERF_RECORD_SWITCH`, perf_event_open(2)) with instants of the monotonic clock.

use perf_event_open_sys::bindings as perf;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages of the ring: 256 KB hold 8000 switches, seconds at any rate seen; it is emptied ten
/// times a second.
const RING_PAGES: usize = 64;

/// The switch records of one thread.
pub struct Switches {
    _fd: OwnedFd,
    map: *mut u8,
    length: usize,
    page: usize,
    tail: u64,
    since: Option<u64>,
    runs: Vec<(u64, u64)>,
    lost: bool,
}

impl Switches {
    /// Begins to record the switches of thread `tid`.
    ///
    /// # Errors
    /// Where the kernel gives no perf events (needs CAP_PERFMON or perf_event_paranoid <= 1).
    pub fn of(tid: u32) -> io::Result<Self> {
        let mut attr = perf::perf_event_attr {
            size: std::mem::size_of::<perf::perf_event_attr>() as u32,
            type_: perf::PERF_TYPE_SOFTWARE,
            config: u64::from(perf::PERF_COUNT_SW_DUMMY),
            sample_type: u64::from(perf::PERF_SAMPLE_TID) | u64::from(perf::PERF_SAMPLE_TIME),
            clockid: libc::CLOCK_MONOTONIC,
            ..perf::perf_event_attr::default()
        };
        attr.set_context_switch(1);
        attr.set_sample_id_all(1);
        attr.set_use_clockid(1);
        let flags = u64::from(perf::PERF_FLAG_FD_CLOEXEC);
        // SAFETY: `attr` is a whole perf_event_attr of the size that it states.
        let fd = unsafe {
            perf_event_open_sys::perf_event_open(&raw mut attr, tid as i32, -1, -1, flags)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: a plain question about a constant of the host.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let length = (RING_PAGES + 1) * page;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping of the ring of `fd`; unmapped in `drop`.
        let map = unsafe {
            let null = std::ptr::null_mut();
            libc::mmap(null, length, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = map.cast();
        Ok(Self { _fd: fd, map, length, page, tail: 0, since: None, runs: Vec::new(), lost: false })
    }

    const fn control(&self) -> *mut perf::perf_event_mmap_page {
        self.map.cast()
    }

    /// Takes in what the kernel wrote since the last call.
    pub fn drain(&mut self) {
        // SAFETY: the control page is mapped for as long as `self` lives; its two positions are
        // shared with the kernel by acquire and release, as perf_event_open(2) asks.
        let (head, tail) = unsafe {
            let control = self.control();
            (
                AtomicU64::from_ptr((&raw mut (*control).data_head).cast()),
                AtomicU64::from_ptr((&raw mut (*control).data_tail).cast()),
            )
        };
        let head = head.load(Ordering::Acquire);
        while self.tail < head {
            let header = self.word(self.tail);
            let (kind, misc, size) = (header as u32, (header >> 32) as u16, (header >> 48) as u16);
            match kind {
                // pid and tid, then the time.
                perf::PERF_RECORD_SWITCH => {
                    let time = self.word(self.tail + 16);
                    self.switched(time, u32::from(misc) & perf::PERF_RECORD_MISC_SWITCH_OUT != 0);
                }
                perf::PERF_RECORD_LOST => self.lost = true,
                _ => {}
            }
            self.tail += u64::from(size.max(8));
        }
        tail.store(self.tail, Ordering::Release);
    }

    /// The 8 bytes at a position of the ring; records are multiples of 8 bytes.
    fn word(&self, position: u64) -> u64 {
        let data = RING_PAGES * self.page;
        let offset = self.page + position as usize % data;
        // SAFETY: `offset` lies on a multiple of 8 inside the mapping, page size being one.
        unsafe { self.map.add(offset).cast::<u64>().read_volatile() }
    }

    fn switched(&mut self, time: u64, out: bool) {
        if !out {
            self.since = Some(time);
        } else if let Some(since) = self.since.take() {
            self.runs.push((since, time));
        }
    }

    /// From when to when it ran so far, in nanoseconds of the monotonic clock.
    ///
    /// # Errors
    /// Where the ring overflowed, so that runs are missing.
    pub fn finish(mut self) -> io::Result<Vec<(u64, u64)>> {
        self.drain();
        if self.lost {
            return Err(io::Error::other("switch records were lost; the host is too busy"));
        }
        Ok(std::mem::take(&mut self.runs))
    }
}

impl Drop for Switches {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `of`, not used after this.
        unsafe { libc::munmap(self.map.cast(), self.length) };
    }
}
