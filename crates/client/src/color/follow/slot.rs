//! This process' place in the page of orders.

use super::super::swap::NoForks;
use super::super::sweep::Recolored;
use super::words;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;
use std::{ptr, thread};

const WORD: usize = size_of::<u64>();

/// An order as it stands in the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) number: u64,
    pub(super) mask: u64,
    pub(super) colors: u64,
}

/// A slot that is locked as long as this lives.
#[derive(Debug)]
pub(super) struct Slot {
    file: File,
    place: usize,
    /// Where the page's first word is mapped: an address for the kernel, which is never read here,
    /// since another process may truncate the file.
    futex: usize,
}

impl Slot {
    /// The first slot that is free. `None` where the file is no page of orders, where all slots are
    /// taken, or where another copy of this library in the process has one already.
    pub(super) fn claim(path: &Path) -> Option<Self> {
        // Not blocking, lest the path be a pipe without a reader; and never a controlling terminal.
        let (mut options, flags) = (OpenOptions::new(), libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = options.read(true).write(true).custom_flags(flags).open(path).ok()?;
        let found = file.metadata().ok()?;
        if !found.is_file() || found.len() < (words::WORDS * WORD) as u64 {
            return None;
        }
        // One at a time: of two copies in a process the second must see the number of the first, or
        // both would move memory, each the other's stack.
        lock(&file, 0, WORD, libc::F_OFD_SETLKW, libc::F_WRLCK)?;
        let pid = u64::from(std::process::id());
        let taken = |place| read(&file, word_of(place, words::PROCESS)) == Some(pid);
        let other = (0..words::PROCESSES).any(|place| taken(place) && !try_lock(&file, place));
        let free = || (0..words::PROCESSES).find(|place| try_lock(&file, *place));
        let place = if other { None } else { free() }?;
        let futex = map(&file)?;
        let slot = Self { file, place, futex };
        // What a dead process left here has no owner.
        slot.report(0, Recolored::default(), 0)?;
        slot.write(words::PROCESS, pid)?;
        lock(&slot.file, 0, WORD, libc::F_OFD_SETLK, libc::F_UNLCK)?;
        Some(slot)
    }

    /// The last order. `None` where the page has been cut short or removed.
    pub(super) fn order(&self) -> Option<Order> {
        self.check()?;
        // The number first: with an older mask it would be carried out wrongly.
        let number = read(&self.file, words::ORDER)?;
        let (mask, colors) = (read(&self.file, words::MASK)?, read(&self.file, words::COLORS)?);
        Some(Order { number, mask, colors })
    }

    /// Waits until there may be another order than `number`, or the time is over.
    pub(super) fn wait(&self, number: u64, time: Option<Duration>) -> Option<()> {
        // Even without need we look up now and then, whether the page is still there.
        let time = time.unwrap_or(super::LATE);
        let patience = libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: time.subsec_nanos() as libc::c_long,
        };
        let (address, patience) = (self.futex as *const u32, &raw const patience);
        let call = libc::SYS_futex;
        // SAFETY: the kernel alone follows the address.
        let waited =
            unsafe { libc::syscall(call, address, libc::FUTEX_WAIT, number as u32, patience) };
        let error = std::io::Error::last_os_error().raw_os_error();
        if waited != 0 && !matches!(error, Some(libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT)) {
            // Cut short: should that be so only for a moment, it is seen again.
            thread::sleep(super::SOON);
        }
        Some(())
    }

    /// Says how an order was carried out.
    pub(super) fn report(&self, number: u64, done: Recolored, error: i32) -> Option<()> {
        self.check()?;
        self.write(words::PAGES, done.pages)?;
        self.write(words::NANOS, done.nanos)?;
        self.write(words::LEFT, done.left)?;
        self.write(words::ERROR, u64::from(error.unsigned_abs()))?;
        self.write(words::FINISHED, number)
    }

    /// Whether the page is still there.
    fn check(&self) -> Option<()> {
        (self.file.metadata().ok()?.nlink() > 0).then_some(())
    }

    fn write(&self, word: usize, value: u64) -> Option<()> {
        let at = (word_of(self.place, word) * WORD) as u64;
        self.file.write_all_at(&value.to_ne_bytes(), at).ok()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: our own mapping, used no more.
        unsafe { libc::munmap(self.futex as *mut _, words::WORDS * WORD) };
    }
}

/// Maps the page in this process and none that it forks: a mapping keeps the file open, and with it
/// the lock, beyond this process' life. The address.
fn map(file: &File) -> Option<usize> {
    let (null, bytes, fd) = (ptr::null_mut(), words::WORDS * WORD, file.as_raw_fd());
    let _forks = NoForks::now();
    // SAFETY: a new mapping, which touches no memory of ours and outlives the descriptor.
    let base = unsafe { libc::mmap(null, bytes, libc::PROT_READ, libc::MAP_SHARED, fd, 0) };
    if base == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: advice on that mapping.
    unsafe { libc::madvise(base, bytes, libc::MADV_DONTFORK) };
    Some(base as usize)
}

const fn word_of(place: usize, word: usize) -> usize {
    words::SLOTS + place * words::SLOT + word
}

fn read(file: &File, word: usize) -> Option<u64> {
    let mut bytes = [0; WORD];
    file.read_exact_at(&mut bytes, (word * WORD) as u64).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

/// Locks a slot if nothing else has it.
fn try_lock(file: &File, place: usize) -> bool {
    let (start, length) = (word_of(place, 0) * WORD, words::SLOT * WORD);
    lock(file, start, length, libc::F_OFD_SETLK, libc::F_WRLCK).is_some()
}

/// Asks for a lock of some kind on some bytes, or gives it back; again where that is interrupted,
/// as it is by the freezer.
fn lock(file: &File, start: usize, length: usize, ask: i32, kind: i32) -> Option<()> {
    // SAFETY: a plain structure of numbers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    (lock.l_start, lock.l_len) = (start as libc::off_t, length as libc::off_t);
    loop {
        // SAFETY: the kernel reads the structure.
        if unsafe { libc::fcntl(file.as_raw_fd(), ask, &raw const lock) } == 0 {
            return Some(());
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return None;
        }
    }
}
