//! Which lines requestors ask for, by their patterns, and where these lie in the memory.

use super::controller::BankPlace;
use maracas_core::memory::{Dram, Pattern};

/// Lines of a row: 8 KiB, as on the paper's machine (MARACAS, Table I) and in most DDR3 ranks.
const LINES_PER_ROW: u64 = 128;
/// Rows that a pattern of single banks takes at random.
const ROWS: u64 = 60_000;

/// Random numbers: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// Uniform from 0 to 1, 1 excluded.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }
}

/// Where a line lies.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) channel: usize,
    pub(super) at: BankPlace,
}

/// How lines are laid out: row over rank over bank over column, with bank and rank XOR-ed with low
/// bits of the row where there is a power of two of them, and moved on by the row otherwise.
#[derive(Clone, Copy)]
struct Layout {
    channels: u64,
    ranks: u64,
    banks: u64,
}

impl Layout {
    fn place(self, line: u64) -> Place {
        let row = line / LINES_PER_ROW;
        let channel = (line + row) % self.channels;
        let row = row / self.channels;
        let (bank, rank, row) =
            (row % self.banks, row / self.banks % self.ranks, row / self.banks / self.ranks);
        let (bank, rank) =
            (mixed(bank, row, self.banks), mixed(rank, row / self.banks, self.ranks));
        let at = BankPlace { rank: rank as usize, bank: bank as usize, row: row as u32 };
        Place { channel: channel as usize, at }
    }
}

fn mixed(number: u64, row: u64, of: u64) -> u64 {
    if of.is_power_of_two() { number ^ (row % of) } else { (number + row) % of }
}

/// The lines of one requestor.
pub(super) struct Walk {
    pattern: Pattern,
    requestor: u64,
    layout: Layout,
    /// Page frames of [`Pattern::JumpRandom`].
    frames: Vec<u64>,
    reads: u64,
    writes: u64,
    dice: Dice,
}

impl Walk {
    pub(super) fn new(pattern: Pattern, requestor: usize, seed: u64, dram: &Dram) -> Self {
        let requestor = requestor as u64;
        let mut dice = Dice(seed * 7_919 + requestor);
        let frames = (0..1_536).map(|_| dice.next() % (1 << 20)).collect();
        let [channels, ranks, banks] =
            [dram.channels, dram.ranks, dram.banks].map(|count| u64::from(count.max(1)));
        let layout = Layout { channels, ranks, banks };
        let reads = dice.next() % 100_000;
        Self { pattern, requestor, layout, frames, reads, writes: 0, dice }
    }

    pub(super) fn read(&mut self) -> Place {
        self.reads += 1;
        self.at(self.reads)
    }

    /// Lines evicted lie far from those read.
    pub(super) fn write(&mut self) -> Place {
        self.writes += 1;
        self.at(self.writes + (1 << 19) + 384)
    }

    fn at(&mut self, k: u64) -> Place {
        let base = (self.requestor << 24) + self.requestor * 37 * LINES_PER_ROW;
        let layout = self.layout;
        match self.pattern {
            Pattern::Jump => layout.place(base + k % 768 * LINES_PER_ROW + k / 768 % LINES_PER_ROW),
            Pattern::JumpRandom => {
                let frames = self.frames.len() as u64;
                layout.place(base + self.frames[(k % frames) as usize] * 64 + k / frames % 64)
            }
            Pattern::Random => layout.place(base + self.dice.next() % (1 << 23)),
            Pattern::Sequential => layout.place(base + k % (1 << 20)),
            Pattern::SameBank => self.new_row(0),
            Pattern::PrivateBank => self.new_row(self.requestor * 3 + 1),
        }
    }

    /// A new row of the bank with this number on the first channel.
    fn new_row(&mut self, bank: u64) -> Place {
        let Layout { ranks, banks, .. } = self.layout;
        let row = (self.dice.next() % ROWS) as u32;
        let (rank, bank) = (bank / banks % ranks, bank % banks);
        let at = BankPlace { rank: rank as usize, bank: bank as usize, row };
        Place { channel: 0, at }
    }
}
