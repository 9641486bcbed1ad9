//! Puts memory that is in use into frames of other colours.

use super::pool::Pool;
use super::swap::{BATCH, Fate, Item, exchange};
use super::sys::{Region, page_size};
use super::userfault::Right;
use super::{ColorSet, Error, Pagemap, cannot, quarantine};
use crate::clock::processor_ns;
use std::ops::Range;
use std::{fs, io, mem, ptr, thread};

/// How recolouring went.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Recolored {
    /// Pages that were put into other frames.
    pub pages: u64,
    /// Pages that stayed in frames of other colours: shared with another process, in use by a
    /// device, or beyond the pages that could be found.
    pub left: u64,
    /// Processor time that it took, in nanoseconds.
    pub nanos: u64,
    /// The longest time in nanoseconds for which a page was away, so that a thread could wait.
    pub longest_nanos: u64,
}

/// Puts the memory of `range` (addresses of this process) into frames of the colours, under the
/// same addresses, with the same content, whichever threads use it meanwhile. What is no private
/// anonymous writable memory stays, and so do frames that are shared with a forked process or
/// pinned for a device. The range gets no huge pages from here on.
///
/// # Errors
/// [`Error::Hidden`] and [`Error::NoMove`] where the rights lack, [`Error::NotFound`] where the
/// colours are too rare; what was moved until then stays moved.
pub fn recolor(range: Range<usize>, set: ColorSet) -> Result<Recolored, Error> {
    let (pagemap, right) = (Pagemap::own()?, Right::own());
    let start = range.start - range.start % page_size();
    let bytes = range.end.saturating_sub(start);
    // SAFETY: advice about huge pages, which changes no content.
    unsafe { libc::madvise(start as *mut _, bytes, libc::MADV_NOHUGEPAGE) };
    thread::scope(|scope| {
        let work = || {
            let mut sweep = Sweep::new(&pagemap, &right, set)?;
            let began = processor_ns();
            sweep.over(&range)?;
            let mut done = sweep.done;
            done.nanos = processor_ns() - began;
            done.left = pagemap.verify(range.clone(), set)?.wrong as u64;
            Ok(done)
        };
        // On a thread of its own: neither its stack nor a signal's handler may touch the range.
        let worker = quietly(|| thread::Builder::new().spawn_scoped(scope, work));
        let worker = worker.map_err(cannot("start a thread"))?;
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Calls `start`, whose new threads get no signals.
pub(super) fn quietly<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: sets of our own; the thread's mask is put back as it was.
    unsafe {
        let (mut all, mut before) = (mem::zeroed(), mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let result = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        result
    }
}

/// Wrong pages that are gathered before frames are sought for them: so that a search is worth it,
/// and its frames are soon used.
const GATHERED: usize = 1024;

/// A walk over memory of this process, on a thread that gets no signals.
#[derive(Debug)]
pub(super) struct Sweep<'a> {
    pagemap: &'a Pagemap,
    right: &'a Right,
    set: ColorSet,
    pool: Pool<'a>,
    /// Where frames go that are given up.
    stash: Region,
    /// What has been done so far.
    pub(super) done: Recolored,
}

impl<'a> Sweep<'a> {
    pub(super) fn new(
        pagemap: &'a Pagemap,
        right: &'a Right,
        set: ColorSet,
    ) -> Result<Self, Error> {
        let stash = Region::map(BATCH).map_err(cannot("map memory"))?;
        stash.advise(libc::MADV_DONTFORK).map_err(cannot("keep memory from children"))?;
        // Where the program locks all its memory, new memory has frames at once.
        stash.empty().map_err(cannot("give memory back"))?;
        let pool = Pool::new(pagemap, set);
        Ok(Self { pagemap, right, set, pool, stash, done: Recolored::default() })
    }

    /// Goes over all memory of the process within `wanted`.
    pub(super) fn over(&mut self, wanted: &Range<usize>) -> Result<(), Error> {
        let maps = fs::read_to_string("/proc/self/maps");
        let maps = maps.map_err(cannot("read /proc/self/maps"))?;
        let own = own_memory();
        for mapping in movable(&maps) {
            let within = mapping.start.max(wanted.start)..mapping.end.min(wanted.end);
            let kept = own.iter().cloned().chain(self.pool.ranges()).chain([self.stash.range()]);
            for piece in without(within, kept.collect()) {
                // The mapping as it is, but for what must not be in our charge.
                let around = without(mapping.clone(), own.clone());
                let around = around.into_iter().find(|part| part.contains(&piece.start));
                self.piece(&around.unwrap_or(piece.clone()), piece)?;
            }
        }
        Ok(())
    }

    /// One piece of memory, all of it within a mapping.
    fn piece(&mut self, mapping: &Range<usize>, piece: Range<usize>) -> Result<(), Error> {
        let (mut wrong, mut left) = (Vec::new(), 0);
        self.pagemap.read(piece, |address, page| {
            if page.frame().is_some_and(|frame| !self.set.has(frame)) {
                if page.is_exclusive() { wrong.push(address) } else { left += 1 }
            }
        })?;
        self.done.left += left;
        for pages in wrong.chunks(GATHERED) {
            // What was locked for memory before may be more than the program may lock once the
            // pool has grown.
            if self.pool.is_locked() {
                self.change_lock();
            }
            if let Err(error) = self.pool.need(pages.len()) {
                self.done.left += pages.len() as u64;
                return Err(error);
            }
            // The pool may have grown where the program has just given memory up.
            let own: Vec<_> = self.pool.ranges().collect();
            let theirs = |page: &&usize| !own.iter().any(|range| range.contains(*page));
            let pages: Vec<_> = pages.iter().filter(theirs).copied().collect();
            for batch in pages.chunks(BATCH) {
                let free = quarantine::without(batch);
                self.done.left += (batch.len() - free.len()) as u64;
                self.batch(mapping, &free)?;
            }
        }
        Ok(())
    }

    /// At most [`BATCH`] pages; a second time for those that a child of ours had too until it
    /// ended, and for those that are locked into memory, or not, other than the pool.
    fn batch(&mut self, mapping: &Range<usize>, pages: &[usize]) -> Result<(), Error> {
        let stayed = self.exchange(mapping, pages)?;
        let unlike = |(_, why): &&(usize, i32)| *why == libc::EINVAL;
        if stayed.iter().any(|page| unlike(&page)) {
            self.change_lock();
        }
        let pages: Vec<_> = stayed.iter().map(|(page, _)| *page).collect();
        let free = quarantine::without(&pages);
        self.done.left += (pages.len() - free.len()) as u64;
        let pages = free;
        pages.iter().for_each(|page| claim(*page));
        if pages.is_empty() {
            return Ok(());
        }
        self.done.left += self.exchange(mapping, &pages)?.len() as u64;
        Ok(())
    }

    /// Exchanges frames, and returns the pages that stayed, with the reasons.
    fn exchange(
        &mut self,
        mapping: &Range<usize>,
        pages: &[usize],
    ) -> Result<Vec<(usize, i32)>, Error> {
        // On the stack, which is never moved.
        let mut items = [Item { page: 0, spare: 0, fate: Fate::Kept(0) }; BATCH];
        let mut count = 0;
        for (item, page) in items.iter_mut().zip(pages) {
            let Some(spare) = self.pool.take() else { break };
            (item.page, item.spare) = (*page, spare);
            count += 1;
        }
        let place = self.stash.start();
        let went = exchange(self.right, mapping, &mut items[..count], place);
        let went = went.map_err(|error| {
            items[..count].iter().for_each(|item| self.pool.put(item.spare));
            Error::NoMove(error)
        })?;
        // The frames that were given up go back to the system only now that the range is no longer
        // registered: before, this thread would wait for itself.
        self.stash.empty().map_err(cannot("give memory back"))?;
        self.done.longest_nanos = self.done.longest_nanos.max(went.longest_nanos);
        went.removed.into_iter().flatten().for_each(quarantine::add);
        let mut stayed = Vec::new();
        for item in &items[..count] {
            match item.fate {
                Fate::Moved => self.done.pages += 1,
                Fate::Copied => self.done.left += 1,
                Fate::Gone => {}
                Fate::Kept(why) => stayed.push((item.page, why)),
            }
            if item.fate.leaves_spare() {
                self.pool.put(item.spare);
            }
        }
        Ok(stayed)
    }

    /// Makes the pool what it was not: locked, or not. Where the program may lock no more it is
    /// unlocked again, and locked pages stay.
    fn change_lock(&mut self) {
        let locked = !self.pool.is_locked();
        if self.lock(locked).is_err() {
            let _ = self.lock(false);
        }
    }

    /// Locks the pool and the stash, or unlocks both.
    ///
    /// # Errors
    /// Where the program may lock no more; some of both may be locked then.
    fn lock(&mut self, locked: bool) -> io::Result<()> {
        self.stash.lock(locked)?;
        self.pool.lock(locked)
    }
}

/// Makes a page this process' own again where its child, with which it was shared, has ended; a
/// page that is not there any more stays so.
fn claim(page: usize) {
    /// Since Linux 5.14.
    const MADV_POPULATE_WRITE: libc::c_int = 23;
    // SAFETY: a write fault that writes nothing.
    unsafe { libc::madvise(page as *mut _, page_size(), MADV_POPULATE_WRITE) };
}

/// The writable private anonymous memory among the lines of `/proc/self/maps`
/// (proc_pid_maps(5)). The unnamed memory right behind a shared library's file is left out: the
/// library's variables, a few pages that the thread which moves the others may need.
fn movable(maps: &str) -> Vec<Range<usize>> {
    let (mut found, mut library_end) = (Vec::new(), None);
    for mapping in maps.lines().filter_map(Mapping::parse) {
        let follows = library_end == Some(mapping.range.start) && mapping.name.is_empty();
        let is_library = mapping.name.contains(".so") && mapping.is_file;
        library_end = (is_library || follows).then_some(mapping.range.end);
        if mapping.is_movable() && !follows {
            found.push(mapping.range);
        }
    }
    found
}

/// One line of `/proc/self/maps`.
struct Mapping<'a> {
    range: Range<usize>,
    rights: &'a str,
    is_file: bool,
    name: &'a str,
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (rights, inode) = (words.next()?, words.nth(2)?);
        let address = |text| usize::from_str_radix(text, 16).ok();
        let (range, is_file) = (address(start)?..address(end)?, inode != "0");
        Some(Self { range, rights, is_file, name: words.next().unwrap_or("") })
    }

    fn is_movable(&self) -> bool {
        let anonymous =
            matches!(self.name, "" | "[heap]" | "[stack]") || self.name.starts_with("[anon:");
        self.rights == "rw-p" && !self.is_file && anonymous
    }
}

/// The parts of a range that none of the others touches, in order.
fn without(range: Range<usize>, mut others: Vec<Range<usize>>) -> Vec<Range<usize>> {
    others.sort_unstable_by_key(|other| other.start);
    let (mut parts, mut start) = (Vec::new(), range.start);
    for other in others {
        if start < other.start.min(range.end) {
            parts.push(start..other.start.min(range.end));
        }
        start = start.max(other.end);
    }
    if start < range.end {
        parts.push(start..range.end);
    }
    parts
}

/// What the calling thread uses whatever it does: its stack, and the memory of the C library for
/// it, into which the kernel writes as well (rseq(2)).
fn own_memory() -> Vec<Range<usize>> {
    let size = page_size();
    let (mut base, mut length) = (ptr::null_mut(), 0);
    // SAFETY: the thread's own attributes, filled and destroyed here; errno's address is asked for
    // and not used.
    let (thread, errno) = unsafe {
        let mut attributes: libc::pthread_attr_t = mem::zeroed();
        let thread = libc::pthread_self();
        if libc::pthread_getattr_np(thread, &raw mut attributes) == 0 {
            libc::pthread_attr_getstack(&raw const attributes, &raw mut base, &raw mut length);
            libc::pthread_attr_destroy(&raw mut attributes);
        }
        (thread as usize, libc::__errno_location() as usize)
    };
    let page = |address: usize| address - address % size;
    let stack = page(base as usize)..(base as usize + length).next_multiple_of(size);
    // Some C libraries (glibc) have thread variables at the end of the stack's memory; others
    // beyond it, and there some pages more than they are known to use are left alone.
    let (low, high) = (thread.min(errno), thread.max(errno));
    if stack.contains(&low) && stack.contains(&high) {
        return vec![stack];
    }
    vec![stack, page(low) - 2 * size..page(high) + 4 * size]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writable_private_anonymous_memory_is_moved() {
        let of = |line: &str| movable(line).first().map(|range| range.len());
        assert_eq!(of("7f00-7f80 rw-p 00000000 00:00 0"), Some(0x80));
        assert_eq!(of("7f00-7f80 rw-p 00000000 00:00 0                  [heap]"), Some(0x80));
        assert_eq!(of("7f00-7f80 rw-p 00000000 00:00 0 [anon:glibc: malloc]"), Some(0x80));
        for other in [
            "7f00-7f80 r--p 00000000 00:00 0",
            "7f00-7f80 ---p 00000000 00:00 0",
            "7f00-7f80 rw-s 00000000 00:00 0",
            "7f00-7f80 rw-p 00001000 fe:00 42 /usr/lib/libc.so.6",
            "7f00-7f80 rw-p 00000000 00:0f 42 /anon_hugepage (deleted)",
            "7f00-7f80 rw-p 00000000 00:00 0 [vvar]",
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn variables_of_libraries_stay_and_those_of_the_program_do_not() {
        let maps = "\
1000-2000 rw-p 00003000 fe:00 10 /usr/bin/program
2000-3000 rw-p 00000000 00:00 0
5000-6000 rw-p 001d3000 fe:00 11 /usr/lib/libc.so.6
6000-7000 rw-p 00000000 00:00 0
7000-8000 rw-p 00000000 00:00 0
9000-a000 rw-p 00000000 00:00 0
";
        assert_eq!(movable(maps), [0x2000..0x3000, 0x9000..0xa000]);
    }

    #[test]
    fn ranges_are_cut_around_others() {
        let cut = |range: Range<usize>, others: &[(usize, usize)]| -> Vec<(usize, usize)> {
            let others = others.iter().map(|(start, end)| *start..*end).collect();
            without(range, others).into_iter().map(|part| (part.start, part.end)).collect()
        };
        assert_eq!(cut(10..20, &[]), [(10, 20)]);
        assert_eq!(cut(10..20, &[(14, 16), (0, 5), (18, 30)]), [(10, 14), (16, 18)]);
        assert_eq!(cut(10..20, &[(0, 12), (11, 13)]), [(13, 20)]);
        assert_eq!(cut(10..20, &[(25, 30)]), [(10, 20)]);
        assert_eq!(cut(10..20, &[(0, 30)]), []);
        assert_eq!(cut(20..20, &[]), []);
    }

    #[test]
    fn a_thread_knows_its_own_memory() {
        let local = 0_u8;
        let at = ptr::from_ref(&local) as usize;
        assert!(own_memory().iter().any(|range| range.contains(&at)));
    }
}
