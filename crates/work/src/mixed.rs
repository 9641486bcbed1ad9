//! `mixed`: units of work that compute and then wait for an answer, so that a slow core slows
//! down only a part of each.
//!
//! A unit is a fixed number of kernel steps, X on a full core, and then a wait of mean length Y
//! until a device would have answered: wall time, which no slow core stretches, spent asking the
//! clock again and again. On a core that runs only in the share d of its time (a duty cycle that
//! stands for a slower core) a unit takes X / d + Y, so that the program's speedup from there to a
//! full core is (X / d + Y) / (X + Y): 1 / d without waits, near 1 with long ones. This holds where
//! waits are not shorter than the duty cycle: an answer that comes while the core is stopped is
//! seen when it goes on, so that shorter waits, too, are stretched, up to Y / d. Progress is one
//! unit for each.

use super::m_jump::MJump;
use super::pace::{Kernel, drive, std_duration};
use super::spin::step;
use maracas_console::args;
use maracas_console::failure::Failure;
use maracas_core::Duration;
use std::hint::black_box;
use std::time::Instant;

/// Compute and wait by turns: a program that a slow core slows down only in part
///
/// With --after, the wait changes then: a program with two phases.
///
/// Example: maracas work mixed --kernel spin --wait 1ms --after 12s --then-wait 200us
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What the computing part does: arithmetic in registers, or writes that fill the memory bus
    #[arg(long, value_enum, default_value_t = Computing::Spin)]
    kernel: Computing,
    /// Steps of the computing part of each unit; m_jump takes whole columns of 768 writes
    /// [default: 700000 for spin, 98304 (once through its array) for m_jump, about 1 ms each]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    steps: Option<u64>,
    /// Mean wall time until the answer that ends each unit; single ones vary by up to a half
    #[arg(long, default_value = "1ms", value_parser = wait, value_name = "TIME")]
    wait: Duration,
    /// How long after the start of the program the wait changes
    #[arg(long, value_parser = args::duration, requires = "then_wait", value_name = "TIME")]
    after: Option<Duration>,
    /// The mean wait from then on
    #[arg(long, value_parser = wait, requires = "after", value_name = "TIME")]
    then_wait: Option<Duration>,
    #[command(flatten)]
    common: super::Common,
}

#[derive(Clone, Copy, clap::ValueEnum, Debug)]
enum Computing {
    /// Arithmetic in registers.
    Spin,
    /// Writes that fill the memory bus.
    #[value(name = "m_jump")]
    MJump,
}

/// The program looks at its signals between units alone, so that none may take long.
fn wait(text: &str) -> Result<Duration, String> {
    let wait = maracas_console::args::duration(text)?;
    if wait > Duration::from_secs(1) { Err("may be 1s at most".into()) } else { Ok(wait) }
}

/// What computes.
enum Steps {
    Spin(u64),
    MJump(MJump),
}

impl Steps {
    /// Takes `steps` steps, or the few more that whole columns are; the same work at every call.
    fn take(&mut self, steps: u64) -> u64 {
        match self {
            Self::Spin(state) => {
                for _ in 0..steps {
                    *state = step(*state);
                }
                *state = black_box(*state);
                steps
            }
            Self::MJump(jump) => {
                let mut written = 0;
                while written < steps {
                    written += jump.next_column();
                }
                written
            }
        }
    }
}

/// Pauses between two looks at the clock: some 3 us in which few instructions retire, so that
/// counters of instructions, too, see the computing part and hardly the wait.
const PAUSES: u32 = 128;

struct Mixed {
    computing: Steps,
    steps: u64,
    wait: Duration,
    /// The phase change that lies ahead.
    then: Option<(Instant, Duration)>,
    /// State of the pseudo-random sequence that the waits follow.
    random: u64,
}

impl Mixed {
    fn new(args: &Args) -> Self {
        let (computing, default) = match args.kernel {
            // About 1 ms on a core of 2.6 GHz that finishes a step in four cycles.
            Computing::Spin => (Steps::Spin(1), 700_000),
            Computing::MJump => (Steps::MJump(MJump::new(0)), 128 * 768),
        };
        let change = |(after, wait)| Some((Instant::now().checked_add(std_duration(after))?, wait));
        Self {
            computing,
            steps: args.steps.unwrap_or(default),
            wait: args.wait,
            then: args.after.zip(args.then_wait).and_then(change),
            random: 1,
        }
    }
    /// The next wait: from a half to one and a half of the mean, evenly spread, the same sequence
    /// in every run. Waits of one length would let the units fall in step with the duty cycle of
    /// a core, and then where the pauses fall would decide the speed.
    fn next_wait(&mut self, now: Instant) -> std::time::Duration {
        if let Some((_, wait)) = self.then.take_if(|(at, _)| *at <= now) {
            self.wait = wait;
        }
        self.random = step(self.random);
        let mean = self.wait.ticks();
        let part = (u128::from(mean) * u128::from(self.random >> 32)) >> 32;
        std::time::Duration::from_nanos(mean / 2 + part as u64)
    }
}

impl Kernel for Mixed {
    fn pass(&mut self) -> u64 {
        self.computing.take(self.steps);
        let asked = Instant::now();
        let wait = self.next_wait(asked);
        while asked.elapsed() < wait {
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
        1
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    drive("mixed", 1, &args.common, |_| Mixed::new(args))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &str) -> Result<Args, String> {
        let words = line.split_whitespace();
        let line = Line::try_parse_from(std::iter::once("mixed").chain(words));
        line.map(|line| line.args).map_err(|error| error.to_string())
    }

    #[test]
    fn waits_have_the_mean_asked_for_and_stay_within_a_half_of_it() {
        let mut mixed = Mixed::new(&args("--wait 1ms").unwrap());
        let now = Instant::now();
        let waits: Vec<u64> = (0..10_000).map(|_| mixed.next_wait(now).as_nanos() as u64).collect();
        assert!(waits.iter().all(|wait| (500_000..=1_500_000).contains(wait)));
        let mean = waits.iter().sum::<u64>() / 10_000;
        assert!((990_000..1_010_000).contains(&mean), "{mean} ns");
        mixed.wait = Duration::ZERO;
        assert!(mixed.next_wait(now).is_zero());
    }

    #[test]
    fn the_wait_changes_once_its_time_has_come() {
        let mut mixed = Mixed::new(&args("--wait 1s --after 60min --then-wait 1ms").unwrap());
        let half = std::time::Duration::from_millis(500);
        assert!(mixed.next_wait(Instant::now()) >= half);
        let later = Instant::now() + std::time::Duration::from_secs(3600);
        assert!(mixed.next_wait(later) < half);
        assert!(mixed.next_wait(Instant::now()) < half, "there is no way back");
    }

    #[test]
    fn a_unit_is_a_fixed_number_of_steps_and_its_wait() {
        let mut mixed = Mixed::new(&args("--steps 3 --wait 2ms").unwrap());
        let begun = Instant::now();
        assert_eq!(mixed.pass(), 1);
        assert!(begun.elapsed() >= std::time::Duration::from_millis(1), "half of the mean wait");
        assert!(matches!(mixed.computing, Steps::Spin(state) if state == step(step(step(1)))));
        let mut memory = Mixed::new(&args("--kernel m_jump --steps 769 --wait 0ms").unwrap());
        assert_eq!((memory.steps, memory.computing.take(769)), (769, 2 * 768), "two columns");
    }

    #[test]
    fn half_a_phase_change_and_long_waits_are_refused() {
        assert!(args("--after 2s").unwrap_err().contains("--then-wait"));
        assert!(args("--then-wait 2ms").unwrap_err().contains("--after"));
        assert!(args("--wait 2s").unwrap_err().contains("may be 1s at most"));
    }
}
