//! `hog`: scans an array of integers in sequential order, over and over (MARACAS, RTSS 2016,
//! section VI.C: 2 MB). It sweeps others' lines out of a shared cache.

use super::pace::{Kernel, drive};
use maracas_console::args;
use maracas_console::failure::Failure;
use std::hint::black_box;

/// Scan an array of integers sequentially (MARACAS, section VI.C)
///
/// Example: maracas work hog --threads 2 --duration 5s
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Size of the array
    #[arg(long, default_value = "2MB", value_parser = args::size, value_name = "SIZE")]
    size: usize,
    /// Number of threads, each with an array of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    #[command(flatten)]
    common: super::Common,
}

/// Integers read between two looks at the clock.
const CHUNK: usize = 1 << 17;

struct Hog {
    array: Vec<u32>,
    at: usize,
    sum: u32,
}

impl Hog {
    fn new(bytes: usize) -> Self {
        // Written with something other than zero: untouched pages all map to one page of zeros.
        Self { array: (1..=(bytes / 4).max(1) as u32).collect(), at: 0, sum: 0 }
    }
}

impl Kernel for Hog {
    fn pass(&mut self) -> u64 {
        let end = (self.at + CHUNK).min(self.array.len());
        let chunk = black_box(&self.array[self.at..end]);
        self.sum = chunk.iter().fold(self.sum, |sum, word| sum.wrapping_add(*word));
        self.sum = black_box(self.sum);
        let read = end - self.at;
        self.at = end % self.array.len();
        read as u64
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    drive("hog", args.threads, &args.common, |_| Hog::new(args.size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_round_reads_every_integer() {
        let mut hog = Hog::new(2 << 20);
        let rounds = (2 << 20) / 4 / CHUNK;
        let read: u64 = (0..rounds).map(|_| hog.pass()).sum();
        assert_eq!((read, hog.at), ((2 << 20) / 4, 0));
        assert_eq!(hog.sum, (1..=(2u32 << 20) / 4).fold(0u32, u32::wrapping_add));
    }
}
