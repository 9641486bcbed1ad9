//! Which frame a page lies in: `/proc/PID/pagemap` (Documentation/admin-guide/mm/pagemap.rst).

use super::sys::page_size;
use super::{ColorSet, Error, Report, cannot};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Entries of one read: half a page of them, so that a read touches little of our own memory.
const CHUNK: usize = 256;

/// One entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page(u64);

impl Page {
    /// Its frame, unless the page has none now.
    pub const fn frame(self) -> Option<u64> {
        const PRESENT: u64 = 1 << 63;
        const FRAME: u64 = (1 << 55) - 1;
        if self.0 & PRESENT == 0 { None } else { Some(self.0 & FRAME) }
    }

    /// Whether no other process, and no other address, has the frame too (since Linux 4.2).
    pub const fn is_exclusive(self) -> bool {
        self.0 >> 56 & 1 == 1
    }
}

/// The frames of a process' memory.
#[derive(Debug)]
pub struct Pagemap(File);

impl Pagemap {
    /// This process'.
    ///
    /// # Errors
    /// Where `/proc` cannot be read.
    pub fn own() -> Result<Self, Error> {
        File::open("/proc/self/pagemap").map(Self).map_err(cannot("open /proc/self/pagemap"))
    }

    /// That of another process.
    ///
    /// # Errors
    /// Where the process is gone, or another's.
    pub fn of(pid: u32) -> Result<Self, Error> {
        let file = File::open(format!("/proc/{pid}/pagemap"));
        file.map(Self).map_err(cannot("open the process' pagemap"))
    }

    /// A file that a process with more rights has opened.
    pub(super) const fn given(file: File) -> Self {
        Self(file)
    }

    /// Hands every page of `range` to `each`, with its address. 70 to 220 ns a page on a virtual
    /// machine.
    ///
    /// # Errors
    /// [`Error::Hidden`] where a page is there and its frame number is 0.
    pub fn read(
        &self,
        range: Range<usize>,
        mut each: impl FnMut(usize, Page),
    ) -> Result<(), Error> {
        const WORD: usize = size_of::<u64>();
        let (mut page, end) = (range.start / page_size(), range.end.div_ceil(page_size()));
        let mut bytes = [0; CHUNK * WORD];
        while page < end {
            let count = CHUNK.min(end - page);
            let part = &mut bytes[..count * WORD];
            self.0.read_exact_at(part, (page * WORD) as u64).map_err(cannot("read a pagemap"))?;
            for (entry, place) in part.chunks_exact(WORD).zip(page..) {
                let entry = Page(u64::from_ne_bytes(entry.try_into().expect("8 bytes")));
                if entry.frame() == Some(0) {
                    return Err(Error::Hidden);
                }
                each(place * page_size(), entry);
            }
            page += count;
        }
        Ok(())
    }

    /// The frames of `range`, page by page.
    ///
    /// # Errors
    /// As [`Pagemap::read`].
    pub fn frames(&self, range: Range<usize>) -> Result<Vec<Option<u64>>, Error> {
        let mut frames = Vec::with_capacity(range.len() / page_size() + 1);
        self.read(range, |_, page| frames.push(page.frame()))?;
        Ok(frames)
    }

    /// Looks at every page of `range`.
    ///
    /// # Errors
    /// As [`Pagemap::read`].
    pub fn verify(&self, range: Range<usize>, set: ColorSet) -> Result<Report, Error> {
        let mut report = Report::default();
        self.read(range, |_, page| {
            report.pages += 1;
            match page.frame() {
                None => report.unseen += 1,
                Some(frame) => report.wrong += usize::from(!set.has(frame)),
            }
        })?;
        Ok(report)
    }
}
