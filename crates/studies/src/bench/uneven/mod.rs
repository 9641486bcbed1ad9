//! `maracas bench uneven`: the policies for uneven cores on real programs, judged in one run.
//!
//! Two cores of this host, the second slowed down to half its speed by a duty cycle, and four
//! programs that wait for different parts of their time, so that each loses something else on the
//! slow core. First each is measured alone on each core: the truth. Then all run under each
//! policy, which knows nothing of them, and one of them changes its ways half-way. What the policy
//! took their speedups to be, and how far each program got, is read off the journal.

mod judge;
mod measure;
mod play;
mod report;
mod workers;

use super::verdict::{self, Verdict};
use judge::{Alone, MAX_FAIR, MAX_PERF, MIN_FAIR, Row, Run, Truth};
use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use maracas_core::{CoreId, VcpuId};
use maracas_live::host::platform::Platform;
use measure::Window;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use workers::Variant;

/// Run four programs of different speedups on two cores of this host, one of them slowed down
///
/// Measures each program alone, then all under max-fair, min-fair and max-perf. Exits 1 where an
/// estimate of a speedup is off by more than 10 %, where min-fair misses its target by more than
/// 3 %, or where max-perf does not. Needs the rights of `maracas run`, two cores, and quiet.
///
/// Example: maracas bench uneven --seconds 20 --json
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Seconds under each policy
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(8..=3600))]
    seconds: u64,
    /// What min-fair keeps for every program, as a part of its performance under equal sharing
    #[arg(long, default_value_t = 0.85, value_parser = target)]
    target: f64,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

fn target(text: &str) -> Result<f64, String> {
    let target = text.parse().ok().filter(|target| (0.0..=1.0).contains(target));
    target.ok_or_else(|| "a part of 1, such as 0.85".into())
}

/// Everything that was measured.
struct Measured {
    host: String,
    emulation: String,
    seconds: u64,
    /// How many seconds of each phase are not judged: the policy is still learning.
    settle: f64,
    target: f64,
    runs: Vec<Run>,
    /// Which part of the two cores' time the programs had in each run.
    had: Vec<f64>,
    /// The place of the run whose estimates are shown.
    shown: usize,
    rows: Vec<Row>,
    verdicts: Vec<Verdict>,
}

/// How long a policy may learn: three of its share updates of 2 s (slides, "sampling"). Short runs
/// have half of each phase.
const SETTLE: Duration = Duration::from_secs(6);

/// What of a program's time alone is not looked at: it starts, and touches its memory first.
const START: Duration = Duration::from_millis(500);

const EMULATION: &str = "two equal cores; the second is emulated at half speed by a duty cycle";

/// Measures everything.
pub fn uneven(args: &Args) -> Outcome {
    let stop = maracas_console::signals::stop_flag()?;
    let platform = Platform::detect().map_err(|error| Failure::about("this host", error))?;
    let length = Duration::from_secs(args.seconds);
    let settle = SETTLE.min(length / 4);
    let truths = truths(args, length / 6, &stop)?;
    let runs = together(args, length, &stop)?;
    let phases = [Duration::ZERO, length / 2]
        .map(|begin| Window { from: ns(begin + settle), to: ns(begin + length / 2) });
    let rows = judge::rows(&truths, &runs, phases);
    let verdicts = judge::verdicts(&rows, &runs, args.target);
    let measured = Measured {
        host: platform.to_string(),
        emulation: EMULATION.into(),
        seconds: args.seconds,
        settle: settle.as_secs_f64(),
        target: args.target,
        had: runs.iter().map(|run| run.part_of_cores(phases)).collect(),
        shown: runs.iter().position(|run| run.policy == MIN_FAIR).unwrap_or(0),
        runs,
        rows,
        verdicts,
    };
    if args.json {
        output::line(&report::to_json(&measured))?;
    } else {
        output::print(&report::text(&measured))?;
    }
    Ok(if verdict::hold(&measured.verdicts) { Answer::Yes } else { Answer::No })
}

fn ns(at: Duration) -> u64 {
    at.as_nanos() as u64
}

fn say(args: &Args, what: &str) {
    if !args.json {
        output::note(what);
    }
}

/// All programs under each policy.
fn together(args: &Args, length: Duration, stop: &AtomicBool) -> Result<Vec<Run>, Failure> {
    let run = |policy| {
        say(args, &format!("all under {policy}: {} s", args.seconds));
        let target = format!("\ntarget = \"{}\"", args.target);
        let target = if policy == MIN_FAIR { target.as_str() } else { "" };
        let reported = play::together(&format!("name = \"{policy}\"{target}"), length, stop)?;
        Ok(Run { policy, reported })
    };
    [MAX_FAIR, MIN_FAIR, MAX_PERF].into_iter().map(run).collect()
}

/// Measures every program in each of its phases alone on the fast core and alone on the slow one.
/// The other core runs the next program meanwhile, as it will under the policies.
fn truths(
    args: &Args,
    length: Duration,
    stop: &AtomicBool,
) -> Result<Vec<(Variant, Truth)>, Failure> {
    let variants = Variant::all();
    let next = |place: usize| variants[(place + 1) % variants.len()];
    let unknown = Truth::default();
    let mut truths: Vec<_> = variants.iter().map(|variant| (*variant, unknown)).collect();
    for (place, variant) in variants.iter().enumerate() {
        let (done, all) = (place + 1, variants.len());
        say(args, &format!("each alone, {done} of {all}: {:.1} s", length.as_secs_f64()));
        let reported = play::alone([*variant, next(place)], length + START, stop)?;
        let window = Window { from: ns(START), to: ns(START + length) };
        let alone = |core: u16| {
            let work = reported.work(VcpuId(core.into()), Some(CoreId(core)), window);
            let per_core_second = work.per_core_second();
            let known = per_core_second.is_finite() && per_core_second > 0.0;
            let alone = Alone { per_core_second, per_second: work.units / window.seconds() };
            known.then_some(alone).ok_or_else(|| Failure::new("a program counted no progress"))
        };
        truths[place].1.fast = alone(0)?;
        truths[(place + 1) % all].1.slow = alone(1)?;
    }
    Ok(truths)
}
