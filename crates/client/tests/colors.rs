//! Page colours on this host, where frame numbers are visible.

#[path = "../../../tests/shared/bounds.rs"]
mod bounds;

use bounds::{found, skip};
use maracas_client::color::{
    Buffer, ColorSet, Error, Means, Pagemap, Recolored, Report, recolor, verify,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// The set, where this host lets us see frames and move them; else says why not.
fn set(mask: u64, colors: u32) -> Option<ColorSet> {
    let set = ColorSet::new(mask, colors).expect("there are such colours");
    let tried = Buffer::by(Means::Move, 1, set);
    found(tried, "sight of page frames and the right to move pages").map(|_| set)
}

/// So many pages may have been moved by the kernel between our moving and our looking: it makes
/// room for huge pages beside us (compaction; seen here under load).
const COMPACTED: usize = 4;

/// Content that no two pages have in common.
fn pattern(buffer: &mut [u8]) {
    for (word, number) in buffer.chunks_exact_mut(8).zip(1_u64..) {
        word.copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    }
}

fn holds_pattern(buffer: &[u8]) -> bool {
    buffer
        .chunks_exact(8)
        .zip(1_u64..)
        .all(|(word, number)| *word == number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes())
}

#[test]
fn a_buffer_lies_in_frames_of_its_colours_by_either_means() {
    let Some(set) = set(0b1010, 16) else { return };
    for means in [Means::Move, Means::Remap] {
        let mut buffer = Buffer::by(means, 1 << 20, set).expect("frames are found");
        assert!(buffer.iter().all(|byte| *byte == 0), "new memory is zero");
        pattern(&mut buffer);
        let pages = (1 << 20) / 4096;
        let Report { pages: seen, wrong, unseen } = buffer.verify().expect("it is seen");
        assert!((seen, unseen) == (pages, 0) && wrong <= COMPACTED, "{wrong} wrong");
        let frames = Pagemap::own().unwrap().frames(buffer.as_ptr_range_usize()).unwrap();
        let wrong = frames.iter().filter(|frame| ![1, 3].contains(&(frame.unwrap() % 16))).count();
        assert!(wrong <= COMPACTED, "{wrong} wrong");
        let other = ColorSet::new(1 << 7, 16).unwrap();
        let done = buffer.recolor(other).expect("frames are found");
        assert!(done.pages >= (pages - COMPACTED) as u64, "{means:?}: {done:?}");
        assert!(buffer.verify().unwrap().wrong <= COMPACTED, "{means:?}");
        assert!(holds_pattern(&buffer), "{means:?}");
    }
}

/// The addresses of a buffer.
trait Addresses {
    fn as_ptr_range_usize(&self) -> std::ops::Range<usize>;
}

impl Addresses for [u8] {
    fn as_ptr_range_usize(&self) -> std::ops::Range<usize> {
        let start = self.as_ptr() as usize;
        start..start + self.len()
    }
}

#[test]
fn memory_in_use_is_recoloured_while_threads_count_in_it() {
    let Some(_) = set(1, 4) else { return };
    const WORDS: usize = 1 << 17;
    let memory: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
    let over = AtomicBool::new(false);
    let start = memory.as_ptr() as usize;
    let range = start..start + WORDS * 8;
    let (rounds, moved) = thread::scope(|scope| {
        let count = || {
            let mut rounds = 0_u64;
            while !over.load(Ordering::Relaxed) {
                memory.iter().for_each(|word| _ = word.fetch_add(1, Ordering::Relaxed));
                rounds += 1;
            }
            rounds
        };
        let threads = [scope.spawn(count), scope.spawn(count)];
        let mut moved = Recolored::default();
        for round in 0..8_u64 {
            let set = ColorSet::new(1 << (round % 4), 4).unwrap();
            let done = recolor(range.clone(), set).expect("frames are found");
            assert!(done.left <= COMPACTED as u64, "{done:?}");
            assert!(verify(range.clone(), set).unwrap().wrong <= COMPACTED);
            moved.pages += done.pages;
        }
        over.store(true, Ordering::Relaxed);
        (threads.map(|thread| thread.join().unwrap()).iter().sum::<u64>(), moved)
    });
    assert!(moved.pages >= 8 * 200, "{moved:?}");
    let wrong = memory.iter().filter(|word| word.load(Ordering::Relaxed) != rounds).count();
    assert_eq!(wrong, 0, "of {WORDS} counters, each at {rounds}");
}

#[test]
fn locked_memory_is_moved_too_and_stays_locked() {
    let Some(set) = set(0b11, 4) else { return };
    let mut memory = vec![0_u8; 64 * 4096];
    pattern(&mut memory);
    let range = memory.as_ptr_range_usize();
    // SAFETY: memory of our own.
    let locked = unsafe { libc::mlock(range.start as *const _, range.len()) };
    if locked != 0 {
        return skip("the right to lock memory");
    }
    let done = recolor(range.clone(), set).expect("frames are found");
    assert!(done.left <= COMPACTED as u64, "{done:?}");
    assert!(holds_pattern(&memory));
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut within = false;
    let mut flags = "";
    for line in maps.lines() {
        if let Some((start, end)) = line.split(' ').next().and_then(|word| word.split_once('-')) {
            let address = |text| usize::from_str_radix(text, 16).unwrap_or(0);
            within = (address(start)..address(end)).contains(&(range.start + 4096));
        }
        if within && line.starts_with("VmFlags:") {
            flags = line;
        }
    }
    assert!(flags.split(' ').any(|flag| flag == "lo"), "{flags}");
}

/// Takes the right to lock any amount of memory from the calling thread, and what it may lock is
/// `bytes` in all. False where that is not possible.
fn may_lock_only(bytes: u64) -> bool {
    /// `_LINUX_CAPABILITY_VERSION_3`, and its structures of `linux/capability.h`.
    const VERSION: u32 = 0x2008_0522;
    const IPC_LOCK: u32 = 14;
    let (mut header, mut sets) = ([VERSION, 0], [[0_u32; 3]; 2]);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: structures of our own, of the length that the kernel expects.
    unsafe {
        let got = libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr());
        sets[0][0] &= !(1 << IPC_LOCK);
        let read = libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit);
        limit.rlim_cur = bytes.min(limit.rlim_max);
        (got, read) == (0, 0)
            && libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) == 0
            && libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_mut_ptr()) == 0
    }
}

/// Anonymous memory in one mapping, with content; for the rest of the process.
fn mapping(pages: usize) -> &'static mut [u8] {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let bytes = pages * 4096;
    // SAFETY: a new mapping of this length, which is never unmapped.
    unsafe {
        let base = libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0);
        assert_ne!(base, libc::MAP_FAILED);
        std::slice::from_raw_parts_mut(base.cast(), bytes)
    }
}

#[test]
fn a_limit_of_locked_memory_is_none_for_memory_that_is_not_locked() {
    let Some(_) = set(1, 16) else { return };
    // The first pages are locked; the frames for the rest are sought among 16 MiB, more than a
    // process may lock here. Those for the first ones seldom are, and then these stay.
    const LOCKED: usize = 16;
    let memory = mapping(1024);
    pattern(memory);
    let range = memory.as_ptr_range_usize();
    // SAFETY: memory of our own.
    if unsafe { libc::mlock(range.start as *const _, LOCKED * 4096) } != 0 {
        return skip("the right to lock memory");
    }
    let recolored = thread::spawn(move || {
        let able = may_lock_only(8 << 20);
        able.then(|| [1, 2].map(|mask| recolor(range.clone(), ColorSet::new(mask, 16).unwrap())))
    });
    let Some(recolored) = recolored.join().unwrap() else {
        return skip("the right to give up rights");
    };
    for done in recolored {
        let done = done.expect("no lock is needed beyond what is locked");
        assert!(done.left <= (LOCKED + COMPACTED) as u64, "{done:?}");
    }
    assert!(holds_pattern(memory));
}

#[test]
fn what_cannot_be_had_is_refused_with_numbers() {
    let Some(set) = set(1, 64) else { return };
    // More than half of any memory there is.
    match Buffer::by(Means::Remap, 1 << 30, set) {
        Err(Error::Mappings { needed, limit }) => assert!(needed > 262_144 && limit < needed),
        // Hosts may allow more mappings.
        Err(Error::NotFound { found, wanted, .. }) => assert!(found < wanted),
        other => panic!("{other:?}"),
    }
}

#[test]
fn memory_that_is_not_ours_to_move_stays() {
    let Some(set) = set(1, 2) else { return };
    static TEXT: [u8; 8192] = [1; 8192];
    let range = TEXT.as_slice().as_ptr_range_usize();
    let done = recolor(range.clone(), set).expect("nothing has to be found");
    assert_eq!(done.pages, 0);
    assert_eq!(done.left, verify(range, set).unwrap().wrong as u64);
}
