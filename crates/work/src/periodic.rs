//! `periodic`: jobs of a fixed cost in CPU time. Under `maracas run` the runtime releases them and
//! learns of each job's end; elsewhere the program releases them by its own clock and says so.

use super::Common;
use super::pace::{Progress, rounded};
use super::releases::Releases;
use super::spin::step;
use maracas_console::args;
use maracas_console::failure::Failure;
use maracas_console::signals::stop_flag;
use maracas_core::Duration;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use std::hint::black_box;
use std::sync::atomic::Ordering;

/// Run jobs of a fixed cost, released by the runtime or by its own clock
///
/// Example: maracas work periodic --cost 2ms --period 10ms --duration 5s
#[derive(clap::Args, Debug)]
pub struct Args {
    /// CPU time of each job
    #[arg(long, default_value = "2ms", value_parser = args::positive, value_name = "TIME")]
    cost: Duration,
    /// Time between releases where no runtime releases the jobs
    #[arg(long, default_value = "20ms", value_parser = args::positive, value_name = "TIME")]
    period: Duration,
    #[command(flatten)]
    common: Common,
}

/// Steps between two readings of the thread's CPU clock: about 5 us, so that a job overruns its
/// cost by no more.
const STEPS: u32 = 5_000;

/// CPU time of this thread so far, in nanoseconds.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Burns CPU time until the thread's clock has advanced by `cost`. Steps are its progress: a job,
/// which takes its time on whatever core, says nothing of speed.
fn burn(cost: Duration) {
    let end = thread_cpu_ns().saturating_add(cost.ticks());
    let mut state = 1;
    while thread_cpu_ns() < end {
        for _ in 0..STEPS {
            state = step(state);
        }
        state = black_box(state);
        maracas_client::progress(STEPS.into());
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let stop = stop_flag()?;
    let mut releases = Releases::begin(args.period)?;
    let mut progress = Progress::new("periodic", &args.common);
    let mut jobs = 0u64;
    let extra = |releases: &Releases| {
        vec![
            ("late", Value::from(releases.late())),
            ("worst_response_ms", rounded(releases.worst_response_ns() as f64 / 1e6)),
        ]
    };
    while !stop.load(Ordering::Relaxed) && !progress.over() {
        if !releases.wait(&stop)? {
            break;
        }
        burn(args.cost);
        releases.done()?;
        jobs += 1;
        progress.look(|| jobs, || extra(&releases))?;
    }
    progress.last(jobs, extra(&releases))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_takes_its_cost_in_cpu_time() {
        let before = thread_cpu_ns();
        burn(Duration::from_millis(2));
        let took = thread_cpu_ns() - before;
        assert!(took >= 2_000_000, "{took} ns");
    }
}
