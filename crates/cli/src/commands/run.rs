//! `maracas run`: a scenario with its real programs on this host.

use crate::case::{Case, Machine, Overrides};
use crate::failure::{Answer, Outcome};
use crate::live::{self, Require};
use crate::source::refuse_taskset;
use crate::{results, verdict};
use maracas_core::Duration;
use maracas_live::host::platform::Platform;
use std::path::PathBuf;

/// Run a scenario with its real programs on this host
///
/// Each program gets its budget in every period, whatever the others do. Exits 1 with the verdict
/// where the policy refuses. Ctrl-C ends the run in order. A program's own exit code is told in a
/// note where it is not 0; it does not change the exit code of the run.
///
/// Example: maracas run examples/quickstart.toml --duration 10s --journal run.journal
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The scenario
    file: PathBuf,
    #[command(flatten)]
    overrides: Overrides,
    /// How long to run; without it, the scenario's duration, else until all programs have ended
    #[arg(long, visible_alias = "until", value_name = "TIME")]
    #[arg(value_parser = crate::args::positive)]
    duration: Option<Duration>,
    /// What the host must offer: `full` refuses to run with any fallback
    #[arg(long, value_enum, default_value_t = Require::Any)]
    require: Require,
    #[command(flatten)]
    results: results::Wanted,
}

pub(super) fn run(args: &Args) -> Outcome {
    refuse_taskset(&args.file)?;
    let case = Case::read(&args.file, Machine::Live, &args.overrides)?;
    let duration = args.duration.or(case.scenario.as_ref().and_then(|s| s.run.duration));
    let setup = live::setup(&case, duration)?;
    let files = args.results.open(("scenario", &args.file))?;
    let built = (case.entry.build)(&case.start, &case.params);
    let Some(policy) = built.ok().filter(|_| case.verdict.accepted()) else {
        return verdict::refuse(&case, args.results.json);
    };
    args.results.say_assumptions(&case);
    if args.results.talks() {
        verdict::note_fine_reservations(&case);
    }
    let guarded = live::guard()?;
    let means = live::prepare(&case, &setup, args.require, args.results.talks())?;
    let report = live::run(&case, setup, means, policy, guarded, files, args.results.talks())?;
    let host = Platform::detect().map(|platform| platform.to_string()).ok();
    args.results.show(&report, host.as_deref())?;
    Ok(Answer::Yes)
}
