//! How long an access to memory takes: a walk through pages, in which each access must wait for the
//! one before, whose line holds where the next one is.

use std::hint::black_box;
use std::marker::PhantomData;
use std::time::Instant;

/// A walk through the first words of pages, in a ring.
#[derive(Debug)]
pub struct Chase<'a> {
    at: *const usize,
    count: usize,
    _pages: PhantomData<&'a mut [u8]>,
}

impl<'a> Chase<'a> {
    /// Through all of `pages`, in an order that no prefetcher follows: by steps that share no
    /// factor with their number. Their first words are overwritten.
    ///
    /// # Panics
    /// Where there is no page, or one that does not begin with a whole, aligned word.
    pub fn through(pages: Vec<&'a mut [u8]>) -> Self {
        let pages: Vec<*mut usize> = pages
            .into_iter()
            .map(|page| {
                assert!(page.len() >= size_of::<usize>(), "a page of {} bytes", page.len());
                let word: *mut usize = page.as_mut_ptr().cast();
                assert!(word.is_aligned(), "a page that is not aligned");
                word
            })
            .collect();
        let count = pages.len();
        assert!(count > 0, "there are no pages");
        let step = (count * 5 / 8..).find(|step| gcd(*step, count) == 1).unwrap_or(1);
        for place in 0..count {
            let next = pages[(place + step) % count];
            // SAFETY: the first word of a page that we alone may write to, aligned for it.
            unsafe { pages[place].write(next as usize) };
        }
        Self { at: pages[0], count, _pages: PhantomData }
    }

    /// Nanoseconds of an access, as the mean of `accesses`, after four rounds that are not counted.
    pub fn time(&mut self, accesses: usize) -> f64 {
        self.walk(self.count * 4);
        let began = Instant::now();
        self.walk(accesses);
        let nanos = began.elapsed().as_nanos() as f64 / accesses as f64;
        black_box(self.at);
        nanos
    }

    fn walk(&mut self, steps: usize) {
        for _ in 0..steps {
            // SAFETY: every first word is the address of another page's, which stays borrowed.
            self.at = unsafe { self.at.read_volatile() } as *const usize;
        }
    }
}

const fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_visits_every_page_once_a_round() {
        for count in [1, 2, 7, 8, 24] {
            let mut memory = vec![0_u64; count * 8];
            // SAFETY: words seen as their bytes.
            let bytes =
                unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), count * 64) };
            let mut chase = Chase::through(<[u8]>::chunks_exact_mut(bytes, 64).collect());
            let start = chase.at;
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..count {
                assert!(seen.insert(chase.at), "{count} pages: one twice");
                chase.walk(1);
            }
            assert_eq!(chase.at, start);
            assert!(chase.time(100) >= 0.0);
        }
    }
}
