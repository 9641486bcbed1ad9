//! `spin`: arithmetic in registers, no memory traffic. The plainest always-runnable program.

use super::pace::{Kernel, drive};
use crate::clock::monotonic_ns;
use maracas_console::failure::Failure;
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::path::PathBuf;

/// Run arithmetic in registers, without memory traffic
///
/// Example: maracas work spin --threads 2 --duration 10s
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Number of threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Append to this file when it stood still: begin and end on the monotonic clock in
    /// nanoseconds, a line each
    #[arg(long, value_name = "FILE", hide = true)]
    gaps: Option<PathBuf>,
    #[command(flatten)]
    common: super::Common,
}

/// Steps of one pass: about 0.1 ms at one step a nanosecond.
const STEPS: u64 = 100_000;

struct Spin {
    state: u64,
    gaps: Option<Gaps>,
}

/// Steps between two looks at the clock: a microsecond.
const STEPS_OF_A_LOOK: u64 = 1_000;

/// Standing still for less than this is an interrupt: on the slowest hosts measured a timer's takes
/// 50 us.
const LEAST_GAP_NS: u64 = 100_000;

/// Writes down when the program stood still.
struct Gaps {
    file: File,
    last: u64,
}

impl Gaps {
    fn look(&mut self) {
        let now = monotonic_ns();
        if now - self.last <= LEAST_GAP_NS {
            self.last = now;
            return;
        }
        // A reader of the file misses a line that could not be written, and nothing else.
        let _ = self.file.write_all(format!("{} {now}\n", self.last).as_bytes());
        self.last = monotonic_ns();
    }
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
        for _ in 0..STEPS / STEPS_OF_A_LOOK {
            for _ in 0..STEPS_OF_A_LOOK {
                self.state = step(self.state);
            }
            self.gaps.iter_mut().for_each(Gaps::look);
        }
        self.state = black_box(self.state);
        STEPS
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let open = |path: &PathBuf| {
        let file = File::options().append(true).open(path);
        file.map_err(|error| Failure::about(path.display(), error))
    };
    let file = args.gaps.as_ref().map(open).transpose()?;
    drive("spin", args.threads, &args.common, |index| {
        let file = file.as_ref().and_then(|file| file.try_clone().ok());
        let gaps = file.map(|file| Gaps { file, last: monotonic_ns() });
        Spin { state: u64::from(index) + 1, gaps }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_goes_on() {
        let mut spin = Spin { state: 1, gaps: None };
        assert_eq!(spin.pass(), STEPS);
        assert!(spin.state != 1 && spin.state != 0);
    }

    #[test]
    fn standing_still_is_written_down() {
        let path = std::env::temp_dir().join(format!("maracas-gaps-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        let mut gaps = Gaps { file, last: monotonic_ns() };
        std::thread::sleep(std::time::Duration::from_millis(2));
        gaps.look();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let words: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let [from, to, ..] = words[..] else { panic!("{text}") };
        assert!(to - from >= 2_000_000, "{text}");
    }
}
