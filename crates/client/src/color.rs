//! Page colours: memory in page frames of the user's choice, from user space.
//!
//! A cache that is indexed by physical addresses keeps a page only in the sets that its frame's
//! lowest bits name: the frame's *colour*. Programs in frames of different colours do not evict
//! each other's lines ([`caches`] says what colours this host's caches have).
//!
//! - [`Buffer::of_colors`] is new memory in frames of chosen colours; [`verify`] proves it, frame
//!   by frame.
//! - [`recolor`] puts memory that is in use into other frames, under the same addresses, with the
//!   same content, while the program's threads go on: a thread that touches a page during its move
//!   waits for some microseconds.
//! - A program that is started with `MARACAS_COLORS` follows the orders of a runtime by itself,
//!   with all of its memory: linked with this library, or with it preloaded ([`preload_path`]).
//!
//! # Rights
//! Frame numbers are visible with `CAP_SYS_ADMIN` alone, and taking a page away from the system
//! calls that may be using it needs `CAP_SYS_PTRACE` or `/dev/userfaultfd`. A program on a VCPU
//! gets both from the runtime, for itself.
//!
//! # Limits
//! Private anonymous memory only: no files, no shared memory, no huge pages. `docs/colors.md` has
//! the whole list, and what may move frames again later.

mod buffer;
mod find;
pub(crate) mod follow;
mod pagemap;
mod palette;
mod pool;
mod quarantine;
mod swap;
mod sweep;
mod sys;
mod userfault;

pub use buffer::{Buffer, Means};
pub use find::preload_path;
pub use pagemap::{Page, Pagemap};
pub use palette::{CacheColors, Indexing, caches};
pub use sweep::{Recolored, recolor};

use std::ops::Range;
use std::{fmt, io};

/// A set of page colours: which of how many.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ColorSet {
    mask: u64,
    colors: u32,
}

impl ColorSet {
    /// The colours whose bits are set in `mask`, of `colors` in all; a frame's colour is its
    /// number modulo `colors`.
    ///
    /// # Errors
    /// Where there are no colours, more than 64, none is wanted, or one that does not exist.
    pub const fn new(mask: u64, colors: u32) -> Result<Self, Error> {
        let exist = match colors {
            1..64 => (1 << colors) - 1,
            64 => u64::MAX,
            _ => 0,
        };
        if mask == 0 || mask & !exist != 0 {
            return Err(Error::NoSuchSet { mask, colors });
        }
        Ok(Self { mask, colors })
    }

    /// Whether a frame of this number has one of the colours.
    pub const fn has(&self, frame: u64) -> bool {
        self.mask >> (frame % self.colors as u64) & 1 == 1
    }

    /// The wanted colours, one bit each.
    pub const fn mask(&self) -> u64 {
        self.mask
    }

    /// How many colours there are.
    pub const fn colors(&self) -> u32 {
        self.colors
    }

    /// How many frames one must see, on average, to find `pages` of these colours.
    const fn frames_for(self, pages: usize) -> usize {
        (pages * self.colors as usize).div_ceil(self.mask.count_ones() as usize)
    }
}

impl fmt::Display for ColorSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} colours ({:#x})", self.mask.count_ones(), self.colors, self.mask)
    }
}

/// In what frames a piece of memory lies.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// Pages in all.
    pub pages: usize,
    /// Pages in frames of other colours.
    pub wrong: usize,
    /// Pages that have no frame: never touched, or swapped out.
    pub unseen: usize,
}

/// Looks at every page of `range` (addresses of this process).
///
/// # Errors
/// [`Error::Hidden`] where frame numbers may not be seen.
pub fn verify(range: Range<usize>, set: ColorSet) -> Result<Report, Error> {
    Pagemap::own()?.verify(range, set)
}

/// Why memory cannot be had in frames of certain colours.
#[derive(Debug)]
pub enum Error {
    /// There is no such set of colours.
    NoSuchSet {
        /// The wanted colours.
        mask: u64,
        /// Of how many.
        colors: u32,
    },
    /// Frame numbers are hidden from this process.
    Hidden,
    /// The kernel cannot move pages that are in use.
    NoMove(io::Error),
    /// The colours are too rare: the search ended at its limit of memory.
    NotFound {
        /// Pages of the colours that were found.
        found: usize,
        /// Pages that were wanted.
        wanted: usize,
        /// Pages that were looked at.
        seen: usize,
        /// How many may be: half of the memory that was available.
        limit: usize,
    },
    /// Pages need mappings of their own, and a process may not have so many.
    Mappings {
        /// How many would be needed, with those that are there.
        needed: usize,
        /// How many there may be (`vm.max_map_count`).
        limit: usize,
    },
    /// A system call failed: to do what, and the answer.
    System(&'static str, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchSet { mask, colors } => write!(
                f,
                "the colours {mask:#x} of {colors} are no set; take 1 to 64 colours and bits of \
                 existing ones"
            ),
            Self::Hidden => {
                write!(f, "page frame numbers are hidden here; needs CAP_SYS_ADMIN")
            }
            Self::NoMove(error) => write!(
                f,
                "memory in use cannot be moved ({error}); needs Linux 6.8 (UFFDIO_MOVE), and \
                 CAP_SYS_PTRACE or /dev/userfaultfd"
            ),
            Self::NotFound { found, wanted, seen, limit } => write!(
                f,
                "found {found} of {wanted} pages of the colours among {seen} ({limit} may be \
                 taken); ask for more colours or less memory"
            ),
            Self::Mappings { needed, limit } => write!(
                f,
                "{needed} mappings would be needed and {limit} may be; raise vm.max_map_count, \
                 or use Linux 6.8, which needs none"
            ),
            Self::System(what, error) => write!(f, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// The system's error number that says it best.
    pub(crate) fn number(&self) -> i32 {
        match self {
            Self::NoSuchSet { .. } => libc::EINVAL,
            Self::Hidden => libc::EPERM,
            Self::NotFound { .. } | Self::Mappings { .. } => libc::ENOMEM,
            Self::NoMove(error) | Self::System(_, error) => {
                error.raw_os_error().unwrap_or(libc::EIO)
            }
        }
    }
}

/// For `map_err`: names what a system call was to do.
fn cannot(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::System(what, error)
}

#[cfg(test)]
mod tests;
