//! The buffer that known loads read: lines in a random circle, far more than any cache holds.

mod room;

use crate::host::naming;
use std::fs;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a line; on hosts with longer ones two of ours are one of theirs.
const LINE_BYTES: usize = 64;
/// Words of a line, of which the first holds the line that comes next.
const WORDS: usize = LINE_BYTES / size_of::<u32>();
/// How much greater than the last-level cache: one read in eight finds its line there.
const TIMES_CACHE: u64 = 8;
/// Where the host does not say how large its caches are: as large as most.
const USUAL_CACHE: u64 = 32 << 20;
/// More is not taken, since it would take too long to prepare (a third of a second), but for a
/// cache of more than half of it.
const MOST_BYTES: u64 = 1 << 30;
/// Multiplier and increment of a circle through all numbers below any power of two (Hull and
/// Dobell 1962: 1 modulo 4, and odd); the multiplier is that of Numerical Recipes' ranqd1.
const MULTIPLIER: u32 = 1_664_525;
const INCREMENT: u32 = 1_013_904_223;

/// Lines of memory, each of which names the next; all of them are one circle.
///
/// A linear congruence gives the order, with its bits turned by half a number: its low bits are
/// regular, and so become the high ones of the place, which no prefetcher follows.
pub struct Lines {
    base: NonNull<u32>,
    /// The buffer has `1 << bits` lines.
    bits: u32,
}

// SAFETY: the memory is written before the value is made and only read thereafter.
unsafe impl Send for Lines {}
// SAFETY: as above.
unsafe impl Sync for Lines {}

static SHARED: Mutex<Option<Arc<Lines>>> = Mutex::new(None);
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Gives the memory of known loads back, once no load uses it any more; the next load takes its
/// own.
pub fn release() {
    *SHARED.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

impl Lines {
    /// The buffer of this process, made when it is first asked for.
    ///
    /// # Errors
    /// Where there is no memory for it.
    pub fn shared() -> io::Result<Arc<Self>> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lines) = &*shared {
            return Ok(Arc::clone(lines));
        }
        let lines = Arc::new(Self::new(bits_of_this_host()?)?);
        *shared = Some(Arc::clone(&lines));
        Ok(lines)
    }

    /// A buffer of `1 << bits` lines, at least 16.
    fn new(bits: u32) -> io::Result<Self> {
        let bytes = LINE_BYTES << bits;
        // SAFETY: a new private mapping; no existing memory is touched.
        let base = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let base = libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0);
            if base == libc::MAP_FAILED {
                let what = format!("{} MiB for known loads", bytes >> 20);
                return Err(naming(what)(io::Error::last_os_error()));
            }
            // Both are wishes: with small pages a chase also waits for translations, and a child
            // that shares the pages would make them slow.
            libc::madvise(base, bytes, libc::MADV_HUGEPAGE);
            libc::madvise(base, bytes, libc::MADV_DONTFORK);
            base
        };
        let base = NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)?;
        let lines = Self { base, bits };
        for line in 0..1u32 << bits {
            // SAFETY: the line lies inside the mapping, which nothing else knows yet.
            unsafe { lines.base.as_ptr().add(line as usize * WORDS).write(lines.after(line)) };
        }
        Ok(lines)
    }

    /// The line after `line` in the circle.
    fn after(&self, line: u32) -> u32 {
        self.place(self.number(line).wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT))
    }
    /// The line of a number of the circle: its two halves change places.
    const fn place(&self, number: u32) -> u32 {
        let (half, number) = (self.bits / 2, number & self.mask());
        (number << half | number >> (self.bits - half)) & self.mask()
    }
    /// The number of a line: the other way round.
    const fn number(&self, line: u32) -> u32 {
        let half = self.bits / 2;
        (line >> half | line << (self.bits - half)) & self.mask()
    }
    const fn mask(&self) -> u32 {
        (1 << self.bits) - 1
    }

    /// Where to begin, another place each time: what was read last may still be in a cache.
    pub fn start(&self) -> u32 {
        // Multiples of the golden ratio lie evenly, however many there are (Knuth, TAOCP 3, 6.4).
        let run = RUNS.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.on_circle((run >> 32) as u32)
    }
    fn on_circle(&self, step: u32) -> u32 {
        // The state after `step` steps of the circle, by squaring the step (Knuth, TAOCP 2, 3.2.1).
        let (mut number, mut rest) = (0u32, step);
        let (mut multiplier, mut increment) = (MULTIPLIER, INCREMENT);
        while rest > 0 {
            if rest & 1 == 1 {
                number = number.wrapping_mul(multiplier).wrapping_add(increment);
            }
            increment = increment.wrapping_mul(multiplier.wrapping_add(1));
            multiplier = multiplier.wrapping_mul(multiplier);
            rest >>= 1;
        }
        self.place(number)
    }

    /// Follows the circle for `lines` lines and returns where it came to.
    pub fn chase(&self, start: u32, lines: u64) -> u32 {
        let mut line = start & self.mask();
        for _ in 0..lines {
            // SAFETY: every line names one of the buffer, and so does the masked start.
            line = unsafe { self.base.as_ptr().add(line as usize * WORDS).read() };
        }
        line
    }
    /// Reads the same lines, without waiting for one before it asks for the next.
    pub fn scatter(&self, start: u32, lines: u64) -> u32 {
        let (mut line, mut sum) = (start & self.mask(), 0u32);
        for _ in 0..lines {
            // SAFETY: `after` gives lines of the buffer.
            let next = unsafe { self.base.as_ptr().add(line as usize * WORDS).read() };
            sum = sum.wrapping_add(next);
            line = self.after(line);
        }
        sum
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and nothing else holds a pointer into it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), LINE_BYTES << self.bits) };
    }
}

fn bits_of_this_host() -> io::Result<u32> {
    // A container may take less than the host has, and is killed for more.
    let free = free_bytes().into_iter().chain(room::of_our_group()).min();
    bits(last_level_bytes().unwrap_or(USUAL_CACHE), free)
}

/// The size of the buffer, as a power of two of lines.
fn bits(cache: u64, free: Option<u64>) -> io::Result<u32> {
    let least = (2 * cache).next_power_of_two();
    let wanted = (cache * TIMES_CACHE).next_power_of_two().min(MOST_BYTES.max(least));
    // A quarter of what is free: programs want theirs too.
    let bytes = free.map_or(wanted, |free| ((free / 4 + 1).next_power_of_two() / 2).min(wanted));
    if bytes < least {
        let (cache, free) = (cache >> 20, free.unwrap_or(0) >> 20);
        let what = format!(
            "a known load must go far beyond the last-level cache of {cache} MiB, but only \
             {free} MiB of memory are free"
        );
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, what));
    }
    Ok((bytes / LINE_BYTES as u64).ilog2())
}

/// The largest cache of the first core, as sysfs shows it (`32768K`).
fn last_level_bytes() -> Option<u64> {
    let caches = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let size = |entry: io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(entry.ok()?.path().join("size")).ok()?;
        text.trim().strip_suffix('K')?.parse::<u64>().ok()
    };
    caches.filter_map(size).max().map(|kib| kib << 10)
}

/// What can be taken without driving others out of memory.
fn free_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_are_one_circle() {
        for bits in [4, 9, 14] {
            let lines = Lines::new(bits).unwrap();
            let mut seen = vec![false; 1 << bits];
            let mut line = 5;
            for _ in 0..1 << bits {
                assert!(!std::mem::replace(&mut seen[line as usize], true), "{line} of {bits}");
                assert_eq!(lines.place(lines.number(line)), line);
                line = lines.chase(line, 1);
            }
            assert_eq!(line, 5);
            assert_eq!(lines.on_circle(77), lines.chase(lines.on_circle(7), 70));
        }
    }

    #[test]
    fn neighbours_in_the_circle_are_far_apart() {
        let lines = Lines::new(16).unwrap();
        let page = |line: u32| line as usize * LINE_BYTES / 4096;
        let mut line = lines.start();
        let near = (0..4096).filter(|_| {
            let before = line;
            line = lines.chase(before, 1);
            page(before).abs_diff(page(line)) <= 1
        });
        // Of 1024 pages three are near: 12 of 4096 by chance.
        assert!(near.count() < 40);
        let starts: std::collections::BTreeSet<_> = (0..100).map(|_| lines.start()).collect();
        assert_eq!(starts.len(), 100, "every run begins elsewhere");
    }

    #[test]
    fn the_size_goes_by_the_cache_and_by_what_is_free() {
        let bytes = |cache_mib: u64, free_mib: u64| {
            bits(cache_mib << 20, Some(free_mib << 20))
                .map(|bits| (LINE_BYTES as u64) << bits >> 20)
        };
        let is = |cache, free, wanted| assert_eq!(bytes(cache, free).ok(), Some(wanted));
        is(8, 16_000, 64);
        is(32, 16_000, 256);
        // The 3D cache of one die; and more than half of a GiB, as some servers have.
        is(96, 250_000, 1024);
        is(504, 250_000, 1024);
        is(640, 250_000, 2048);
        is(32, 600, 128);
        let reported = bytes(32, 200).expect_err("too little").to_string();
        assert!(reported.ends_with("32 MiB, but only 200 MiB of memory are free"), "{reported}");
        assert_eq!(bits(32 << 20, None).ok(), Some(22), "no file says what is free");
    }

    #[test]
    fn this_host_says_its_sizes() {
        let bits = bits_of_this_host();
        match bits {
            Ok(bits) => {
                assert!(LINE_BYTES as u64 >> 6 << bits >= last_level_bytes().unwrap_or(0) >> 5)
            }
            Err(error) => assert!(error.to_string().contains("MiB of memory are free")),
        }
    }
}
