//! `maracas run`: a scenario with its real programs on this host.

use maracas_console::failure::Outcome;
use maracas_console::output;
use maracas_core::Duration;
use maracas_live::host::platform::Platform;
use maracas_session::case::{Case, Machine, Overrides};
use maracas_session::live::backend::{self, Backend};
use maracas_session::live::{self, Manner, Progress, Require, senses, steering};
use maracas_session::metrics::{Address, Endpoint};
use maracas_session::results::Ran;
use maracas_session::source::refuse_taskset;
use maracas_session::{results, verdict};
use std::path::PathBuf;

/// Run a scenario with its real programs on this host
///
/// Each program gets its budget in every period, whatever the others do. Exits 1 with the verdict
/// where the policy refuses, and 4 where a promise was not kept: a VCPU whose verdict is short or
/// over, or a run that lasted more than a second longer than asked (docs/output.md). Ctrl-C ends
/// the run in order. A program's own exit code is in the report; it does not change the run's.
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
    #[arg(value_parser = maracas_console::args::positive)]
    duration: Option<Duration>,
    /// What carries the budgets out (docs/sched-ext.md)
    #[arg(long, value_enum, default_value_t)]
    backend: Backend,
    /// Where this host has no such classes of cores as the file: slow equal cores down by duty
    /// cycles in their place
    #[arg(long)]
    emulate: bool,
    /// What measures for policies of uneven cores how far programs got; without it, instructions,
    /// but what programs count themselves where cores are slowed down
    #[arg(long, value_enum)]
    progress: Option<Progress>,
    /// Judge periods that stolen time spoiled (the hypervisor took the core) like all others
    #[arg(long)]
    strict: bool,
    /// What the host must offer: `full` refuses to run with any fallback
    #[arg(long, value_enum, default_value_t = Require::Any)]
    require: Require,
    #[command(flatten)]
    asked: senses::Asked,
    /// Serve Prometheus metrics while it runs, to this host alone: unix:/path, 127.0.0.1:PORT or
    /// `[::1]:PORT`
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<Address>,
    #[command(flatten)]
    results: results::Wanted,
}

/// A core that is slowed down by pauses differs from a full one in the part of a program's time
/// that pauses do not stretch, its waits; and waiting, where it shows in the time on a core at all,
/// is asking again and again: instructions, but no progress.
fn progress(asked: Option<Progress>, emulated: bool) -> Progress {
    asked.unwrap_or(if emulated { Progress::Own } else { Progress::Instructions })
}

pub(super) fn run(args: &Args) -> Outcome {
    refuse_taskset(&args.file)?;
    let in_kernel = args.backend == Backend::SchedExt;
    let overrides = Overrides { in_kernel, ..args.overrides.clone() };
    let mut case = Case::read(&args.file, Machine::Live, &overrides)?;
    let duration = args.duration.or(case.scenario.as_ref().and_then(|s| s.run.duration));
    let mut setup = live::setup(&case, duration)?;
    let emulation = live::place(&case, &mut setup, args.emulate)?;
    if !case.verdict.accepted() {
        return verdict::refuse(&case, args.results.json);
    }
    let mut notes = steering::notes(&case)?;
    let mut senses = args.asked.open(&case, &setup, args.require)?;
    let mut chosen = backend::choose(args.backend, &case, &setup, &senses)?;
    chosen.count(&mut setup, &mut senses);
    case.give_ahead(chosen.begins_ahead());
    let files = args.results.open(("scenario", &args.file), &case)?;
    let address = args.metrics.as_ref();
    address.map_or(Ok(()), Address::clear)?;
    let built = (case.entry.build)(&case.start, &case.params);
    let Ok(policy) = built else { return verdict::refuse(&case, args.results.json) };
    args.results.say_assumptions(&case);
    if args.results.talks() {
        notes.extend_from_slice(&senses.notes);
        notes.iter().for_each(|text| output::note(text));
        verdict::of_fine_reservations(&case).iter().for_each(|text| output::note(text));
        emulation.iter().for_each(|text| output::note(text));
        chosen.note().iter().for_each(|text| output::note(text));
    }
    let guarded = live::guard_with(address.and_then(Address::file))?.sensing(senses);
    let endpoint = address.map(|address| Endpoint::open(address, guarded.board.clone()));
    let endpoint = endpoint.transpose()?;
    endpoint.iter().filter(|_| args.results.talks()).for_each(Endpoint::announce);
    let mut means = live::prepare(&case, &setup, args.require, args.results.talks())?;
    means.instructions &= progress(args.progress, emulation.is_some()) == Progress::Instructions;
    let means = chosen.of(means);
    let (talks, warns) = (args.results.talks(), !args.results.quiet);
    let manner = Manner { talks, warns, strict: args.strict };
    let (report, unwritten) = live::run(&case, setup, means, policy, guarded, files, manner)?;
    let host = Platform::detect().map(|platform| platform.to_string()).ok();
    args.results.show(
        &report,
        Some(&Ran { host, backend: Some(chosen.word), emulation }),
        None,
        None,
    )?;
    unwritten.answer(&report)
}
