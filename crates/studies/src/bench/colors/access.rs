//! Pages of one colour against pages of all colours: the conflict in the cache.

use super::failed;
use maracas_client::color::{Buffer, CacheColors, ColorSet};
use maracas_console::failure::Failure;
use maracas_live::host::chase::Chase;

/// Accesses of one measurement, and measurements of which the median counts.
const ACCESSES: usize = 100_000;
const RUNS: usize = 15;

/// So many pages, one line of each at the same place, read in turn.
pub(super) struct Conflict {
    pub(super) pages: usize,
    /// Nanoseconds an access, where all pages have one colour.
    pub(super) one: f64,
    /// Where they have all colours alike.
    pub(super) all: f64,
}

impl Conflict {
    pub(super) fn ratio(&self) -> f64 {
        self.one / self.all.max(f64::MIN_POSITIVE)
    }
}

/// Whether pages of one colour get into each other's way: with more of them than the cache has ways
/// and no more of all colours than it can hold, an access takes half as long again; not for one
/// number of pages alone, which may be chance.
pub(super) fn is_seen(conflicts: &[Conflict], cache: &CacheColors, colors: u32) -> bool {
    let fits = cache.ways + 1..=cache.ways * colors as usize;
    let slow = |conflict: &&Conflict| fits.contains(&conflict.pages) && conflict.ratio() >= 1.5;
    conflicts.iter().filter(slow).count() >= 2
}

/// Half as many pages as the cache has ways, and more and more of them.
pub(super) fn measure(cache: &CacheColors, colors: u32) -> Result<Vec<Conflict>, Failure> {
    let ways = cache.ways;
    let counts = [ways / 2, ways, ways * 3 / 2, ways * 2, ways * 4, ways * 8];
    let each = |pages: usize| -> Result<Conflict, Failure> {
        let one = ColorSet::new(1, colors).map_err(failed)?;
        let mut same = Buffer::of_colors(pages * 4096, one).map_err(failed)?;
        let mut mixed: Vec<Buffer> = Vec::new();
        // As many of each colour, not as chance has it.
        for color in 0..colors {
            let share =
                pages / colors as usize + usize::from((color as usize) < pages % colors as usize);
            if share > 0 {
                let set = ColorSet::new(1 << color, colors).map_err(failed)?;
                mixed.push(Buffer::of_colors(share * 4096, set).map_err(failed)?);
            }
        }
        let one = time(&mut [&mut same]);
        let all = time(&mut mixed.iter_mut().collect::<Vec<_>>());
        Ok(Conflict { pages, one, all })
    };
    counts.into_iter().filter(|pages| *pages > 1).map(each).collect()
}

/// Nanoseconds of an access to the first line of each page in turn.
fn time(buffers: &mut [&mut Buffer]) -> f64 {
    let pages = buffers.iter_mut().flat_map(|buffer| buffer.chunks_exact_mut(4096));
    let mut chase = Chase::through(pages.collect());
    let mut times: Vec<f64> = (0..RUNS).map(|_| chase.time(ACCESSES)).collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}
