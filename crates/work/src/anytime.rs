//! `anytime`: numeric integration whose result gets better the longer it runs. Each job first
//! computes a coarse result that must be there (the mandatory part), then refines it with what
//! background time there is. Quality is the error against the exact value.

use super::Common;
use super::pace::{Extra, Progress, rounded};
use super::releases::Releases;
use maracas_console::args;
use maracas_console::failure::Failure;
use maracas_console::signals::stop_flag;
use maracas_core::Duration;
use serde_json::Value;
use std::hint::black_box;
use std::sync::atomic::Ordering;

/// Integrate numerically: a mandatory part per job, better results with background time
///
/// Under `maracas run` the runtime releases the jobs; elsewhere its own clock does.
///
/// Example: maracas work anytime --period 50ms --duration 5s
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Time between releases where no runtime releases the jobs
    #[arg(long, default_value = "50ms", value_parser = args::positive, value_name = "TIME")]
    period: Duration,
    /// Cells of the mandatory part; the optional part triples them again and again
    #[arg(
        long,
        default_value_t = 10_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000)
    )]
    cells: u64,
    #[command(flatten)]
    common: Common,
}

/// Integral of 4 sqrt(1 - x^2) over [0, 1] = pi by the midpoint rule. Tripling the cells keeps
/// every old midpoint, so a refinement only adds points; the error falls with cells^-1.5 (the
/// slope at x = 1 is infinite), slowly enough to see what time buys.
struct Integral {
    /// Cells of the last complete result.
    cells: u64,
    /// Sum over their midpoints.
    sum: f64,
    /// Old cells already split in the refinement under way, and the sum of their new points.
    split: u64,
    added: f64,
}

/// Function values between two questions whether to go on: some 20 us.
const CHUNK: u64 = 4_096;

/// Cells beyond which double precision no longer distinguishes results.
const FINEST: u64 = 10_000_000_000;

fn height(x: f64) -> f64 {
    4.0 * (1.0 - x * x).sqrt()
}

impl Integral {
    fn mandatory(cells: u64) -> Self {
        let width = 1.0 / cells as f64;
        let sum = (0..cells).map(|i| height((i as f64 + 0.5) * width)).sum();
        // In function values, which the mandatory and the optional part have in common.
        maracas_client::progress(cells);
        Self { cells, sum: black_box(sum), split: 0, added: 0.0 }
    }
    /// Does one chunk of the refinement under way.
    fn refine(&mut self) {
        let width = 1.0 / (3 * self.cells) as f64;
        let end = (self.split + CHUNK / 2).min(self.cells);
        for i in self.split..end {
            let left = 3.0 * i as f64;
            self.added += height((left + 0.5) * width) + height((left + 2.5) * width);
        }
        maracas_client::progress(2 * (end - self.split));
        self.split = end;
        if end == self.cells {
            self.sum += self.added;
            (self.cells, self.split, self.added) = (3 * self.cells, 0, 0.0);
        }
    }
    fn error(&self) -> f64 {
        (self.sum / self.cells as f64 - std::f64::consts::PI).abs()
    }
}

/// What has come out so far.
#[derive(Default)]
struct Results {
    jobs: u64,
    /// Error and cells of the last job.
    last: (f64, u64),
    error_sum: f64,
    /// Chunks of refinement, and how many of them in the background.
    chunks: u64,
    background: u64,
}

impl Results {
    fn extra(&self) -> Extra {
        vec![
            ("error", Value::from(self.last.0)),
            ("cells", Value::from(self.last.1)),
            ("mean_error", Value::from(self.error_sum / self.jobs.max(1) as f64)),
            ("in_background", rounded(self.background as f64 / self.chunks.max(1) as f64)),
        ]
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let stop = stop_flag()?;
    let mut releases = Releases::begin(args.period)?;
    let mut progress = Progress::new("anytime", &args.common);
    let mut results = Results::default();
    while !stop.load(Ordering::Relaxed) && !progress.over() {
        if !releases.wait(&stop)? {
            break;
        }
        let mut integral = Integral::mandatory(args.cells);
        releases.done()?;
        while !stop.load(Ordering::Relaxed) && integral.cells < FINEST && releases.spare() {
            integral.refine();
            results.chunks += 1;
            results.background += u64::from(releases.in_background());
        }
        results.jobs += 1;
        results.error_sum += integral.error();
        results.last = (integral.error(), integral.cells);
        progress.look(|| results.jobs, || results.extra())?;
    }
    progress.last(results.jobs, results.extra())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refining_lowers_the_error_as_the_rule_says() {
        let mut integral = Integral::mandatory(1_000);
        let coarse = integral.error();
        while integral.cells < 27_000 {
            integral.refine();
        }
        // 27 times the cells: error / 27^1.5 = 140.3, and the nested sum equals the plain one.
        let ratio = coarse / integral.error();
        assert!((135.0..145.0).contains(&ratio), "{ratio}");
        let plain = Integral::mandatory(27_000).error();
        assert!((integral.error() / plain - 1.0).abs() < 1e-6);
    }
}
