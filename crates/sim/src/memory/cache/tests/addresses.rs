//! A set-associative cache that looks up every address: what the model is held against. It shares
//! nothing with the model but the description of the cache.

use maracas_core::memory::{Cache, CachePart, Replacement};

/// SplitMix64 (Steele, Lea and Flood, 2014): random numbers of the tests' own.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub(super) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }
    pub(super) fn shuffle(&mut self, lines: &mut [Line]) {
        for at in (1..lines.len()).rev() {
            lines.swap(at, self.below(at + 1));
        }
    }
}

/// A line of a program: its set among all of all slices, and its address.
#[derive(Clone, Copy)]
pub(super) struct Line {
    set: usize,
    address: u64,
}

const FREE: u64 = u64::MAX;
/// Addresses of a program are its number shifted by this plus the line.
const PROGRAM: u32 = 32;

pub(super) struct Addresses {
    cache: Cache,
    /// Address and time of the last use, by set and way.
    ways: Vec<(u64, u64)>,
    random: Random,
    now: u64,
}

impl Addresses {
    pub(super) fn new(cache: Cache, seed: u64) -> Self {
        let lines = (cache.bytes / 64) as usize;
        Self { cache, ways: vec![(FREE, 0); lines], random: Random(seed), now: 0 }
    }

    /// The lines of `program` in order: its pages go round the colours of `part`, each line of
    /// a page to a slice by a hash.
    pub(super) fn lines(&mut self, program: u64, bytes: u64, part: Option<CachePart>) -> Vec<Line> {
        let part = part.map_or(u64::MAX, CachePart::get);
        let colors = (0..u64::BITS).filter(|bit| part & (1 << bit) != 0).collect::<Vec<_>>();
        let sets = self.ways.len() / self.cache.ways as usize;
        let in_slice = sets / self.cache.slices as usize;
        assert_eq!(in_slice, self.cache.colors as usize * 64, "a page covers one colour");
        let line = |at: u64| {
            let (page, offset) = (at as usize / 64, at as usize % 64);
            let color = colors[page % colors.len()] as usize;
            let address = program << PROGRAM | at;
            let slice = Random(address).below(self.cache.slices as usize);
            Line { set: slice * in_slice + color * 64 + offset, address }
        };
        (0..bytes / 64).map(line).collect()
    }

    /// One reference; whether it misses.
    pub(super) fn refer(&mut self, line: Line) -> bool {
        self.now += 1;
        let ways = self.cache.ways as usize;
        let set = &mut self.ways[line.set * ways..][..ways];
        if let Some(way) = set.iter_mut().find(|way| way.0 == line.address) {
            way.1 = self.now;
            return false;
        }
        let at = set.iter().position(|way| way.0 == FREE).unwrap_or_else(|| {
            match self.cache.replacement {
                Replacement::Random => self.random.below(ways),
                Replacement::Lru => (0..ways).min_by_key(|way| set[*way].1).unwrap_or(0),
            }
        });
        set[at] = (line.address, self.now);
        true
    }

    /// The share of references that miss in one pass.
    pub(super) fn pass(&mut self, lines: &[Line]) -> f64 {
        let misses = lines.iter().filter(|line| self.refer(**line)).count();
        misses as f64 / lines.len() as f64
    }

    /// Lines that a program holds.
    pub(super) fn held(&self, program: u64) -> f64 {
        let own = |way: &&(u64, u64)| way.0 != FREE && way.0 >> PROGRAM == program;
        self.ways.iter().filter(own).count() as f64
    }
}
