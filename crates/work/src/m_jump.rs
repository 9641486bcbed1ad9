//! `m_jump`: fills the memory bus with writes (MARACAS, RTSS 2016, section VI.B and Code 1).
//!
//! A 6 MB array; the first 4 of every 64 bytes are written; after every write the next one lies
//! 8 KB ahead, which no prefetcher follows. An optional delay between writes multiplies a
//! register and touches no memory.

use super::pace::{Kernel, drive};
use maracas_console::failure::Failure;
use std::hint::black_box;

/// Load the memory bus: 6 MB, 4 of every 64 bytes, 8 KB jumps (MARACAS, section VI.B)
///
/// Example: maracas work m_jump --delay 100 --report 500ms
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Register multiplications between two writes
    #[arg(long, default_value_t = 0)]
    delay: u32,
    /// Number of threads, each with an array of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    #[command(flatten)]
    common: super::Common,
}

// Bytes; all three from the paper, section VI.B.
const ARRAY: usize = 6 << 20;
const LINE: usize = 64;
const JUMP: usize = 8 << 10;

const WORDS: usize = ARRAY / 4;

/// Columns of 768 writes between two looks at the clock, without a delay; with one, each column
/// is long enough by itself.
const COLUMNS: usize = 8;

pub(super) struct MJump {
    array: Vec<u32>,
    delay: u32,
    column: usize,
    value: u32,
}

impl MJump {
    pub(super) fn new(delay: u32) -> Self {
        Self { array: vec![0; WORDS], delay, column: 0, value: 1 }
    }
    /// Writes every 8 KB from the next line on, through the whole array.
    pub(super) fn next_column(&mut self) -> u64 {
        let offset = self.column * LINE;
        self.column = (self.column + 1) % (JUMP / LINE);
        let mut register = self.value;
        // Unknown to the compiler, so that no multiplication is done beforehand.
        let factor: u32 = black_box(3);
        for word in self.array[offset / 4..].iter_mut().step_by(JUMP / 4) {
            *word = register;
            for _ in 0..self.delay {
                // The exclusive or keeps the compiler from merging several multiplications.
                register = register.wrapping_mul(factor) ^ 2;
            }
        }
        self.value = self.value.wrapping_add(2);
        black_box(self.array.as_mut_slice());
        (ARRAY / JUMP) as u64
    }
}

impl Kernel for MJump {
    fn pass(&mut self) -> u64 {
        let columns = if self.delay == 0 { COLUMNS } else { 1 };
        (0..columns).map(|_| self.next_column()).sum()
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    drive("m_jump", args.threads, &args.common, |_| MJump::new(args.delay))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_written_once_in_its_first_word() {
        let mut jump = MJump::new(0);
        let passes = JUMP / LINE / COLUMNS;
        let written: u64 = (0..passes).map(|_| jump.pass()).sum();
        assert_eq!(written, (ARRAY / LINE) as u64);
        for (index, word) in jump.array.iter().enumerate() {
            assert_eq!(*word != 0, index % (LINE / 4) == 0, "word {index}");
        }
    }
}
