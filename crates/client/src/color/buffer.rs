//! New memory in frames of chosen colours.

use super::pool::Pool;
use super::sys::{Region, mappings, page_size};
use super::userfault::{Right, Userfault};
use super::{ColorSet, Error, Pagemap, Recolored, Report, cannot, recolor};
use std::ops::{Deref, DerefMut};
use std::{io, ptr, slice};

/// By what frames are put together to one piece of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Means {
    /// By moving frames into one mapping (`UFFDIO_MOVE`, Linux 6.8).
    Move,
    /// By moving mappings together (`mremap`): one mapping a page from then on, of the 65,530 that
    /// a process may have by default. Needs Linux 5.7.
    Remap,
}

/// So often a new buffer is mended; what is wrong then is the caller's to see.
const MENDS: usize = 3;

/// Memory in frames of chosen colours, zero at first, at one address from its start to its end.
///
/// A forked child shares the frames until one of both writes: the writer then gets a frame of any
/// colour. What else may move frames is in `docs/colors.md`; [`Buffer::verify`] looks.
#[derive(Debug)]
pub struct Buffer {
    region: Region,
    bytes: usize,
    set: ColorSet,
    means: Means,
    seen: usize,
}

impl Buffer {
    /// Finds frames of the colours for so many bytes, by the best means of this host.
    ///
    /// # Errors
    /// [`Error::Hidden`] without `CAP_SYS_ADMIN`; [`Error::NotFound`] where the frames cannot be
    /// found in half of the available memory; [`Error::Mappings`] where more mappings than the
    /// host allows would be needed.
    pub fn of_colors(bytes: usize, set: ColorSet) -> Result<Self, Error> {
        match Userfault::open(&Right::own()) {
            Ok(_) => Self::by(Means::Move, bytes, set),
            Err(_) => Self::by(Means::Remap, bytes, set),
        }
    }

    /// Like [`Buffer::of_colors`], by means of one's choice.
    ///
    /// # Errors
    /// As there; [`Error::NoMove`] where frames cannot be moved.
    pub fn by(means: Means, bytes: usize, set: ColorSet) -> Result<Self, Error> {
        let pages = bytes.div_ceil(page_size()).max(1);
        let pagemap = Pagemap::own()?;
        if means == Means::Remap {
            must_have_mappings(pages)?;
        }
        let region = Region::map(pages).map_err(cannot("map memory"))?;
        let mut pool = Pool::new(&pagemap, set);
        pool.need(pages)?;
        match means {
            Means::Move => fill(&region, &mut pool)?,
            Means::Remap => assemble(&region, &mut pool)?,
        }
        let seen = pool.seen();
        drop(pool);
        let mut made = Self { region, bytes, set, means, seen };
        made.mend()?;
        Ok(made)
    }

    /// Mends what the kernel did meanwhile: it moves pages to make room for huge ones
    /// (compaction).
    fn mend(&mut self) -> Result<(), Error> {
        for _ in 0..MENDS {
            if self.verify()?.wrong == 0 {
                break;
            }
            self.recolor(self.set)?;
        }
        Ok(())
    }

    /// Looks at every page.
    ///
    /// # Errors
    /// [`Error::Hidden`] where frame numbers may not be seen.
    pub fn verify(&self) -> Result<Report, Error> {
        super::verify(self.region.range(), self.set)
    }

    /// Puts it into frames of other colours, with the same content.
    ///
    /// # Errors
    /// As [`recolor`], with the means by which it was made.
    pub fn recolor(&mut self, set: ColorSet) -> Result<Recolored, Error> {
        let done = match self.means {
            Means::Move => recolor(self.region.range(), set)?,
            Means::Remap => self.replace(set)?,
        };
        self.set = set;
        Ok(done)
    }

    /// The colours that it has.
    pub const fn set(&self) -> ColorSet {
        self.set
    }

    /// How many frames were looked at to find these.
    pub const fn seen(&self) -> usize {
        self.seen
    }

    /// Recolours by mappings: nothing else can use the memory meanwhile.
    fn replace(&mut self, set: ColorSet) -> Result<Recolored, Error> {
        let (pagemap, began) = (Pagemap::own()?, crate::clock::processor_ns());
        let (mut wrong, mut done) = (Vec::new(), Recolored::default());
        pagemap.read(self.region.range(), |address, page| {
            if page.frame().is_none_or(|frame| !set.has(frame)) {
                wrong.push(address);
            }
        })?;
        let mut pool = Pool::new(&pagemap, set);
        pool.need(wrong.len())?;
        for page in wrong {
            let Some(spare) = pool.take() else { break };
            // SAFETY: a page of ours to which no reference exists.
            unsafe {
                ptr::copy_nonoverlapping(page as *const u8, spare as *mut u8, page_size());
            }
            put(spare, page).map_err(cannot("move memory"))?;
            done.pages += 1;
        }
        self.region.advise(libc::MADV_DOFORK).map_err(cannot("share memory with children"))?;
        done.nanos = crate::clock::processor_ns() - began;
        done.longest_nanos = done.nanos;
        done.left = pagemap.verify(self.region.range(), set)?.wrong as u64;
        Ok(done)
    }
}

/// Checks that each page may have a mapping of its own.
fn must_have_mappings(pages: usize) -> Result<(), Error> {
    let (now, limit) = mappings();
    let needed = pages.saturating_add(now);
    if needed > limit { Err(Error::Mappings { needed, limit }) } else { Ok(()) }
}

/// Moves frames of the pool into `region`.
fn fill(region: &Region, pool: &mut Pool<'_>) -> Result<(), Error> {
    let number = |number| Error::NoMove(io::Error::from_raw_os_error(number));
    let fault = Userfault::open(&Right::own()).map_err(Error::NoMove)?;
    region.empty().map_err(cannot("give memory back"))?;
    fault.register(&region.range()).map_err(number)?;
    for page in region.range().step_by(page_size()) {
        let Some(spare) = pool.take() else { break };
        while let Err(why) = fault.transfer(spare, page, page_size()) {
            if why != libc::EAGAIN {
                return Err(number(why));
            }
        }
    }
    Ok(())
}

/// Moves mappings of the pool together in place of `region`.
fn assemble(region: &Region, pool: &mut Pool<'_>) -> Result<(), Error> {
    for page in region.range().step_by(page_size()) {
        let Some(spare) = pool.take() else { break };
        put(spare, page).map_err(cannot("move memory"))?;
    }
    region.advise(libc::MADV_DOFORK).map_err(cannot("share memory with children"))
}

/// Moves the page at `spare` over the one at `page`.
fn put(spare: usize, page: usize) -> io::Result<()> {
    // The mapping there stays, empty: another thread might be given the gap, which is ours to
    // unmap.
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
    let size = page_size();
    // SAFETY: both are pages of our own, the second one is to be replaced.
    let moved = unsafe { libc::mremap(spare as *mut _, size, size, flags, page) };
    if moved == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        debug_assert!(self.bytes <= self.region.bytes());
        // SAFETY: our own memory, as long as `self` lives.
        unsafe { slice::from_raw_parts(self.region.start() as *const u8, self.bytes) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: our own memory, as long as `self` lives.
        unsafe { slice::from_raw_parts_mut(self.region.start() as *mut u8, self.bytes) }
    }
}
