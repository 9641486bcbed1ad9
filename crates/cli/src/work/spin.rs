//! `spin`: arithmetic in registers, no memory traffic. The plainest always-runnable program.

use super::pace::{Kernel, drive};
use crate::failure::Failure;
use std::hint::black_box;

/// Run arithmetic in registers, without memory traffic
///
/// Example: maracas work spin --threads 2 --duration 10s
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Number of threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    #[command(flatten)]
    common: super::Common,
}

/// Steps of one pass: about 0.1 ms at one step a nanosecond.
const STEPS: u64 = 100_000;

struct Spin {
    state: u64,
}

/// One step of Marsaglia's xorshift64 ("Xorshift RNGs", 2003): each depends on the one before,
/// so that its speed is that of the core alone.
pub(super) const fn step(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ (state << 17)
}

impl Kernel for Spin {
    fn pass(&mut self) -> u64 {
        for _ in 0..STEPS {
            self.state = step(self.state);
        }
        self.state = black_box(self.state);
        STEPS
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    drive("spin", args.threads, &args.common, |index| Spin { state: u64::from(index) + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_goes_on() {
        let mut spin = Spin { state: 1 };
        assert_eq!(spin.pass(), STEPS);
        assert!(spin.state != 1 && spin.state != 0);
    }
}
