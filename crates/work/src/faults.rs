//! `faults`: page faults, one after the other. What counts page faults in place of reads of memory
//! (`sense = "faults"`, docs/sensing.md) has something to count.

use super::pace::{Kernel, drive};
use super::spin;
use maracas_console::failure::Failure;
use std::hint::black_box;

/// Fault one page of memory after the other, for trials with `sense = "faults"`
///
/// Example: maracas work faults --steps 10000 --duration 5s
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Steps of arithmetic in registers between two faults, about a nanosecond each
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    steps: u32,
    #[command(flatten)]
    common: super::Common,
}

/// Pages of a pass.
const PAGES: usize = 64;
/// The smallest page of any architecture that we run on.
const PAGE: usize = 4096;
/// So much is mapped anew each time that it is allocated, and given back: the allocator keeps what
/// is smaller (`DEFAULT_MMAP_THRESHOLD_MAX`, mallopt(3): 32 MiB).
const BYTES: usize = 64 << 20;

struct Faults {
    steps: u32,
    state: u64,
}

impl Kernel for Faults {
    fn pass(&mut self) -> u64 {
        // Pages of zeros come when they are touched. Where the kernel takes huge pages for such
        // memory, the first brings all.
        let mut memory = vec![0u8; BYTES];
        for page in memory.chunks_exact_mut(PAGE).take(PAGES) {
            page[0] = black_box(1);
            self.state = (0..self.steps).fold(self.state, |state, _| spin::step(state));
        }
        self.state = black_box(self.state);
        PAGES as u64
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    drive("faults", 1, &args.common, |_| Faults { steps: args.steps, state: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Faults of this thread so far that read nothing from a disk (`minflt`, proc_pid_stat(5)).
    fn faulted() -> u64 {
        let text = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, numbers) = text.rsplit_once(')').unwrap();
        numbers.split_whitespace().nth(7).unwrap().parse().unwrap()
    }

    #[test]
    fn every_pass_faults_its_pages_anew() {
        let huge = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        let each = if huge.is_ok_and(|it| it.contains("[always]")) { 1 } else { PAGES as u64 };
        let mut work = Faults { steps: 1, state: 1 };
        let before = faulted();
        assert_eq!(work.pass() + work.pass(), 2 * PAGES as u64);
        assert!(faulted() - before >= 2 * each);
        assert_ne!(work.state, 1);
    }
}
