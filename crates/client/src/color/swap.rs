//! Puts pages into other frames while a program uses them.
//!
//! One page at a time is taken away from the program, copied into a frame of a wanted colour, and
//! put back: `UFFDIO_MOVE` out, copy, `UFFDIO_MOVE` in. A thread that touches the page meanwhile,
//! in user mode or within a system call, waits in the kernel. No thread is stopped, no signal is
//! sent, no system call is interrupted, and no mapping is split for good. The kernel refuses to
//! take pages that are pinned for a device (`FOLL_PIN`: buffers registered with io_uring, RDMA,
//! `O_DIRECT` where it pins) or that another process has too. It does not see plain references
//! (`FOLL_GET`: `O_DIRECT` on NFS, for one): what a device writes by one after its page was taken
//! is lost.
//!
//! # What other threads may do meanwhile
//! While pages are registered here, the kernel blocks every thread that changes mappings among them
//! until its event was read, and refuses every move until then. So a page that is taken is the
//! program's page of that address and no other, and whatever happens while it is away is known
//! before it is put back:
//! - `mremap`: it is put where the page has gone.
//! - `munmap`, `madvise(MADV_DONTNEED)`: the content is dropped, as it was to be. After the event
//!   of `madvise` was read, its caller has yet to empty the memory: a page of it that was taken
//!   just then would come back with its content. So that memory is left alone for a while
//!   ([`super::quarantine`]).
//! - `mprotect`: where a frame may not be moved any more, the content is copied.
//! - `fork`: a child would not find the page that is away, so `fork` waits for the end of the
//!   batch (`pthread_atfork`). A bare `clone` system call does not.
//!
//! # What this thread may not do meanwhile
//! Touch memory that is moved: it would wait for itself. So between the opening and the closing of
//! a [`Userfault`] the code here uses nothing but the stack, which is never moved, the pages given,
//! and bare system calls: even the C library's `memcpy` and `close` read variables of their own.

use super::sys::page_size;
use super::userfault::{Event, Right, Userfault};
use crate::clock::monotonic_ns;
use std::cell::UnsafeCell;
use std::io;
use std::ops::Range;
use std::sync::Once;

/// Pages of a batch, for whose time forks and `madvise` calls wait: about a quarter of a
/// millisecond.
pub(super) const BATCH: usize = 32;

/// How often a frame is tried to be put back before the content is given up for lost, with a yield
/// between: some seconds.
const PATIENCE: usize = 1_000_000;

/// A page, and the frame that it is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Item {
    /// The address of the page.
    pub(super) page: usize,
    /// Where the frame is now: a page of our own, which the content is copied to.
    pub(super) spare: usize,
    /// What became of it.
    pub(super) fate: Fate,
}

/// What became of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It stays where it was: why, as an error number.
    Kept(i32),
    /// It has the new frame.
    Moved,
    /// It has a new frame of any colour.
    Copied,
    /// The program gave it up meanwhile.
    Gone,
}

impl Fate {
    /// Whether the frame that it was to have is still ours.
    pub(super) const fn leaves_spare(self) -> bool {
        !matches!(self, Self::Moved)
    }
}

/// Gives each page its frame; all are in order and [`BATCH`] at most, and lie in `mapping`, as far
/// as it is known. What they had is in `stash` afterwards, a place of ours for so many pages, which
/// must be empty.
pub(super) fn exchange(
    right: &Right,
    mapping: &Range<usize>,
    items: &mut [Item],
    stash: usize,
) -> io::Result<Exchanged> {
    let size = page_size();
    let places = stash..stash + items.len() * size;
    let _forks = NoForks::now();
    let fault = Userfault::open(right)?;
    // All of the mapping: a part would split it, and older kernels resize no two mappings at once.
    let charged = fault.register(mapping).and_then(|()| fault.register(&places));
    if let Err(why) = charged {
        items.iter_mut().for_each(|item| item.fate = Fate::Kept(why));
        return Ok(Exchanged::default());
    }
    let (mut longest, mut observed) = (0, Observed::default());
    for (item, place) in items.iter_mut().zip(places.step_by(size)) {
        // What has changed may be elsewhere by now, and not in our charge.
        if observed.anything {
            item.fate = Fate::Kept(libc::EAGAIN);
            continue;
        }
        let began = monotonic_ns();
        let taken = fault.has(item.page, size);
        item.fate = match taken.and_then(|()| fault.transfer(item.page, place, size)) {
            Ok(()) => {
                // SAFETY: two pages of ours, the one just filled with the frame that it took.
                unsafe { copy(place as *const u64, item.spare as *mut u64, size) };
                give(&fault, item.spare, item.page, size, &mut observed)
            }
            Err(why) => Fate::Kept(why),
        };
        longest = longest.max(monotonic_ns() - began);
    }
    // The event of a thread that waits now is read before the thread is woken.
    if fault.unregister(mapping).is_err() || !observed.out(&fault, stash) {
        observed.removal(mapping.start, mapping.end);
    }
    fault.close();
    Ok(Exchanged { longest_nanos: longest, removed: observed.removed })
}

/// How a batch went.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Exchanged {
    /// The longest time for which a page was away.
    pub(super) longest_nanos: u64,
    /// Memory whose content is being given up by other threads, which have not done it yet.
    pub(super) removed: [Option<Range<usize>>; REMOVED],
}

/// So many pieces of memory are kept apart; further ones make the last one longer.
const REMOVED: usize = 8;

/// What other threads did meanwhile.
#[derive(Default)]
struct Observed {
    anything: bool,
    removed: [Option<Range<usize>>; REMOVED],
}

impl Observed {
    /// The next thing, if there is one.
    fn next(&mut self, fault: &Userfault) -> Option<Event> {
        let event = fault.event()?;
        self.anything = true;
        match event {
            Event::Removed { start, end } => self.removal(start, end),
            // The event of a thread that gives up memory there is not read by the end of the batch.
            Event::Remapped { to, len, .. } => self.removal(to, to + len),
            Event::Unmapped { .. } => {}
        }
        Some(event)
    }

    fn removal(&mut self, start: usize, end: usize) {
        let known = |held: &Option<Range<usize>>| {
            held.as_ref().is_none_or(|held| held.start <= start && end <= held.end)
        };
        let place = self.removed.iter().position(known).unwrap_or(REMOVED - 1);
        let so_far = self.removed[place].take().unwrap_or(start..end);
        self.removed[place] = Some(so_far.start.min(start)..so_far.end.max(end));
    }

    /// Reads the events of all threads that wait, and of those that are about to: as long as there
    /// are any, the kernel refuses whatever else is asked. `ours` is a page that needs nothing.
    /// False where it takes too long.
    fn out(&mut self, fault: &Userfault, ours: usize) -> bool {
        for _ in 0..PATIENCE {
            while self.next(fault).is_some() {}
            if fault.has(ours, page_size()) != Err(libc::EAGAIN) {
                return true;
            }
            yield_now();
        }
        false
    }
}

/// Copies a page word by word; volatile, or the compiler would call `memcpy`.
unsafe fn copy(from: *const u64, to: *mut u64, bytes: usize) {
    for word in 0..bytes / size_of::<u64>() {
        // SAFETY: within the two pages that the caller vouches for.
        unsafe { to.add(word).write_volatile(from.add(word).read_volatile()) };
    }
}

/// Puts the content at `spare` where `page` belongs by now.
fn give(
    fault: &Userfault,
    spare: usize,
    mut page: usize,
    size: usize,
    observed: &mut Observed,
) -> Fate {
    for _ in 0..PATIENCE {
        match fault.transfer(spare, page, size) {
            Ok(()) => return Fate::Moved,
            Err(libc::EAGAIN) => {
                while let Some(event) = observed.next(fault) {
                    match event.moves(page) {
                        Some(to) => page = to,
                        None => return Fate::Gone,
                    }
                }
                yield_now();
            }
            Err(_) => match fault.copy(spare, page, size) {
                Ok(()) => return Fate::Copied,
                Err(_) => yield_now(),
            },
        }
    }
    // The program would go on with a page of zeros. It must not.
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

fn yield_now() {
    // SAFETY: no arguments.
    unsafe { libc::sched_yield() };
}

/// While it lives, `fork` waits, possibly with locks of the allocator: nothing may be allocated.
pub(super) struct NoForks;

/// The lock between forks and batches. The system's own kind: it is let go by the handlers that
/// run on both sides of a fork, which a guard cannot do.
struct Lock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a lock is made to be used by several threads.
unsafe impl Sync for Lock {}

static FORKS: Lock = Lock(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));

extern "C" fn lock_forks() {
    // SAFETY: an initialized lock that is never destroyed.
    unsafe { libc::pthread_mutex_lock(FORKS.0.get()) };
}

extern "C" fn unlock_forks() {
    // SAFETY: locked by this thread, or by the one that it was forked from.
    unsafe { libc::pthread_mutex_unlock(FORKS.0.get()) };
}

/// Has forks wait for [`NoForks`] from now on.
pub(super) fn know_forks() {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(|| {
        let (before, after) = (Some(lock_forks as _), Some(unlock_forks as _));
        // SAFETY: handlers without arguments that live as long as the process.
        unsafe { libc::pthread_atfork(before, after, after) };
    });
}

impl NoForks {
    /// Waits for a fork that is under way.
    pub(super) fn now() -> Self {
        know_forks();
        lock_forks();
        Self
    }
}

impl Drop for NoForks {
    fn drop(&mut self) {
        unlock_forks();
    }
}
