//! `mwalk`: writes the elements of an array in a pseudo-random order, which defeats hardware
//! prefetching (MARACAS, RTSS 2016, section VI.C). Its default array of 1 MB fits a share of the
//! last-level cache.

use super::pace::{Extra, Kernel, drive};
use maracas_console::args;
use maracas_console::failure::Failure;
use std::hint::black_box;

/// Walk an array in pseudo-random order, writing (MARACAS, section VI.C)
///
/// Example: maracas work mwalk --size 2MB --json
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Size of the array
    #[arg(long, default_value = "1MB", value_parser = args::size, value_name = "SIZE")]
    size: usize,
    /// Number of threads, each with an array of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Hold as much memory again that is never written, and print its hash in each line: it stays
    /// the same whatever is done to the program's frames
    #[arg(long)]
    hash: bool,
    #[command(flatten)]
    common: super::Common,
}

/// Writes between two looks at the clock.
const STEPS: u64 = 16_384;

struct Mwalk {
    array: Vec<u32>,
    mask: u64,
    at: u64,
    value: u32,
    /// What is hashed.
    kept: Vec<u64>,
}

impl Mwalk {
    fn new(bytes: usize, hash: bool) -> Self {
        let words = (bytes / 4).max(1);
        let mask = words.next_power_of_two() as u64 - 1;
        let kept = if hash { bytes / 8 } else { 0 };
        // Fibonacci hashing (Knuth, vol. 3, 6.4): no two pages are alike.
        let kept = (0..kept as u64).map(|word| word.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        Self { array: vec![0; words], mask, at: 0, value: 1, kept }
    }
}

impl Kernel for Mwalk {
    fn pass(&mut self) -> u64 {
        let mut done = 0;
        while done < STEPS {
            // A linear congruential generator modulo a power of two visits every residue once in
            // its period (Knuth, vol. 2, 3.2.1.2: odd increment, multiplier 1 mod 4).
            self.at = self.at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) & self.mask;
            // Residues beyond an array that is no power of two are passed over.
            if let Some(word) = self.array.get_mut(self.at as usize) {
                *word = self.value;
                done += 1;
            }
        }
        self.value = self.value.wrapping_add(1);
        black_box(self.array.as_mut_slice());
        done
    }
    fn extra(&self) -> Extra {
        if self.kept.is_empty() {
            return Extra::new();
        }
        vec![("hash", format!("{:016x}", super::hash(black_box(&self.kept))).into())]
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    drive("mwalk", args.threads, &args.common, |_| Mwalk::new(args.size, args.hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_visits_every_element() {
        for bytes in [4 * STEPS as usize, 3 * STEPS as usize] {
            let mut walk = Mwalk::new(bytes, false);
            walk.pass();
            assert!(walk.array.iter().all(|word| *word != 0), "{bytes} bytes");
        }
    }
}
