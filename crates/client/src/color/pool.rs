//! Frames of the wanted colours, found by taking more than are needed.
//!
//! User space cannot ask for a frame; it can only take frames, look at their numbers and keep the
//! ones it wants. The others must be held until the search is over, or the kernel gives the same
//! ones again. So the search takes memory in rounds, as much as colours and luck should need, and
//! ends at a limit.

use super::sys::{Region, search_limit};
use super::{ColorSet, Error, Pagemap, cannot};
use std::ops::Range;

/// The most pages of a round: 16 MiB of 4 KiB, some 10 ms.
const ROUND: usize = 4096;
/// The least: below it a round is nothing but system calls.
const LEAST: usize = 64;

/// Pages found and pages held.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    pagemap: &'a Pagemap,
    set: ColorSet,
    regions: Vec<Region>,
    spares: Vec<usize>,
    locked: bool,
    /// Pages looked at, and how many may be.
    seen: usize,
    limit: usize,
    /// Pages found so far.
    found: usize,
}

impl<'a> Pool<'a> {
    pub(super) fn new(pagemap: &'a Pagemap, set: ColorSet) -> Self {
        let (regions, spares) = (Vec::new(), Vec::new());
        let limit = search_limit();
        Self { pagemap, set, regions, spares, locked: false, seen: 0, limit, found: 0 }
    }

    /// Searches until `wanted` pages are there. What is found is not locked, so a pool that is must
    /// be unlocked before.
    pub(super) fn need(&mut self, wanted: usize) -> Result<(), Error> {
        while self.spares.len() < wanted {
            let missing = wanted - self.spares.len();
            // A sixteenth more for bad luck; what is too much is kept for the next need.
            let likely = self.set.frames_for(missing + missing / 16 + 1);
            let pages = likely.clamp(LEAST, ROUND);
            if self.seen + pages > self.limit {
                let found = self.found;
                let wanted = found + missing;
                let (seen, limit) = (self.seen, self.limit);
                return Err(Error::NotFound { found, wanted, seen, limit });
            }
            self.round(pages)?;
        }
        Ok(())
    }

    fn round(&mut self, pages: usize) -> Result<(), Error> {
        let region = Region::map(pages).map_err(cannot("map memory"))?;
        // A child that is forked meanwhile would share the frames, which could then not be moved.
        region.advise(libc::MADV_DONTFORK).map_err(cannot("keep memory from children"))?;
        region.populate().map_err(cannot("take memory"))?;
        let (before, set, spares) = (self.spares.len(), self.set, &mut self.spares);
        self.pagemap.read(region.range(), |address, page| {
            if page.frame().is_some_and(|frame| set.has(frame)) {
                spares.push(address);
            }
        })?;
        self.seen += pages;
        self.found += self.spares.len() - before;
        self.regions.push(region);
        Ok(())
    }

    /// The next page of a wanted colour, which is the caller's from now on. In order of addresses
    /// within a round, from its end.
    pub(super) fn take(&mut self) -> Option<usize> {
        self.spares.pop()
    }

    /// Takes a page back that was not used.
    pub(super) fn put(&mut self, page: usize) {
        self.spares.push(page);
    }

    /// Makes its memory locked, or not.
    pub(super) fn lock(&mut self, locked: bool) -> std::io::Result<()> {
        self.locked = locked;
        self.regions.iter().try_for_each(|region| region.lock(locked))
    }

    pub(super) const fn is_locked(&self) -> bool {
        self.locked
    }

    /// What it holds.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.regions.iter().map(Region::range)
    }

    /// Pages that were looked at.
    pub(super) const fn seen(&self) -> usize {
        self.seen
    }
}
