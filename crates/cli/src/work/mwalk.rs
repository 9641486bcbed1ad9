//! `mwalk`: writes the elements of an array in a pseudo-random order, which defeats hardware
//! prefetching (MARACAS, RTSS 2016, section VI.C). Its default array of 1 MB fits a share of the
//! last-level cache.

use super::pace::{Kernel, drive};
use crate::failure::Failure;
use std::hint::black_box;

/// Walk an array in pseudo-random order, writing (MARACAS, section VI.C)
///
/// Example: maracas work mwalk --size 2MB --json
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Size of the array
    #[arg(long, default_value = "1MB", value_parser = crate::args::size, value_name = "SIZE")]
    size: usize,
    /// Number of threads, each with an array of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
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
}

impl Mwalk {
    fn new(bytes: usize) -> Self {
        let words = (bytes / 4).max(1);
        let mask = words.next_power_of_two() as u64 - 1;
        Self { array: vec![0; words], mask, at: 0, value: 1 }
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
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    drive("mwalk", args.threads, &args.common, |_| Mwalk::new(args.size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_visits_every_element() {
        for bytes in [4 * STEPS as usize, 3 * STEPS as usize] {
            let mut walk = Mwalk::new(bytes);
            walk.pass();
            assert!(walk.array.iter().all(|word| *word != 0), "{bytes} bytes");
        }
    }
}
