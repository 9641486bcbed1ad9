//! `maracas sim`: a scenario or a bare task set in the simulator.

mod charges;

use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use maracas_core::journal::{Reader, mend};
use maracas_core::{Duration, Instant};
use maracas_session::blocking::Blocked;
use maracas_session::case::{Case, Machine, Overrides};
use maracas_session::observe::Watch;
use maracas_session::simulation::{in_ticks, options, simulate};
use maracas_session::source::{Source, refuse_taskset};
use maracas_session::threads::Threads;
use maracas_session::{results, verdict};
use std::path::Path;

/// Simulate a scenario or a bare task set
///
/// The same file, options and seed give the same output, byte for byte. Exits 1 with the verdict
/// where the policy refuses, and 4 where a VCPU was not given what it was promised
/// (docs/output.md).
///
/// Example: maracas sim --taskset tasks.csv --cores 4 --policy g-edf --until 10s --json
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    overrides: Overrides,
    /// How long to simulate; without it, the scenario's duration or 10s
    #[arg(long, visible_alias = "duration", value_name = "TIME")]
    #[arg(value_parser = maracas_console::args::positive)]
    until: Option<Duration>,
    /// Seed of everything random, in place of the scenario's
    #[arg(long)]
    seed: Option<u64>,
    /// Be late on purpose: decisions come late by a random amount up to this
    #[arg(long, value_name = "TIME", value_parser = maracas_console::args::duration)]
    late: Option<Duration>,
    /// Show wakes only at switch-in, as a live machine does
    #[arg(long)]
    hidden_wakes: bool,
    #[command(flatten)]
    measured: charges::Measured,
    #[command(flatten)]
    results: results::Wanted,
}

pub(super) fn run(args: &Args) -> Outcome {
    let mut case = args.source.case(Machine::Sim, &args.overrides)?;
    case.seed = args.seed.unwrap_or(case.seed);
    output::leave_nothing_at_signals()?;
    if let Some(directory) = &args.results.csv {
        output::remove_if_empty_at_signals(directory);
    }
    let mut options = options(&case, args.until);
    options.late = args.late.unwrap_or(Duration::ZERO);
    options.hidden_wakes = args.hidden_wakes;
    args.measured.charge(&case, &mut options.overheads)?;
    let options = in_ticks(&case, options)?;
    let files = args.results.open(args.source.named()?, &case)?;
    args.results.say_assumptions(&case);
    let watch = Watch::new(&case, files);
    let watch = if args.results.talks() { watch.with_progress(options.until) } else { watch };
    let Some(done) = simulate(&case, &options, watch) else {
        return verdict::refuse(&case, args.results.json);
    };
    done.notes.iter().for_each(|line| output::note(line));
    let threads = (!done.acted.is_empty()).then(|| Threads::new(&case, &done.acted));
    let blocked = Blocked::new(&case, &done.blocking);
    args.results.show(&done.report, None, threads.as_ref(), blocked.as_ref())?;
    done.unwritten.answer(&done.report)
}

/// First bytes of a journal.
pub(super) const JOURNAL: &[u8] = b"MARACASJ";

/// What a file with these bytes is taken for.
pub(super) fn what_is(bytes: &[u8]) -> &'static str {
    if bytes.starts_with(JOURNAL) { "journal" } else { "scenario" }
}

/// Gives the journal in `bytes`, of `file`, an end where it has none, and says so: its run was
/// killed. What is no journal, or a damaged one, stays as it is.
pub(super) fn mended(file: &Path, mut bytes: Vec<u8>) -> Vec<u8> {
    let Some(cut) = mend(&mut bytes) else { return bytes };
    let ticks_per_ns = Reader::open(&bytes).map_or(1, |(header, _)| header.system.ticks_per_ns);
    let at = Instant::from_ticks(cut.at.ticks() / ticks_per_ns.max(1));
    let read = format!("{}: has no end: read up to byte {} ({at})", file.display(), cut.offset);
    let left_out = match cut.left_out {
        0 => String::new(),
        1 => ", 1 byte of a record that is not whole is left out".into(),
        bytes => format!(", {bytes} bytes of a record that is not whole are left out"),
    };
    output::note(&(read + &left_out));
    bytes
}

/// `bytes` of `file` where they are a journal, else that of the scenario in it, simulated on time;
/// the answer where its policy refuses it, which is said then. A journal without an end has one
/// then ([`mended`]).
///
/// # Errors
/// Where `file` is neither.
pub(super) fn journal_of(
    file: &Path,
    bytes: Vec<u8>,
    until: Option<Duration>,
) -> Result<Result<Vec<u8>, Answer>, Failure> {
    if bytes.starts_with(JOURNAL) {
        return Ok(Ok(mended(file, bytes)));
    }
    refuse_taskset(file)?;
    let case = Case::read(file, Machine::Sim, &Overrides::default())?;
    let simulated = simulate(&case, &options(&case, until), Watch::keeping(&case));
    match simulated {
        Some(done) => {
            done.notes.iter().for_each(|line| output::note(line));
            Ok(Ok(done.journal))
        }
        None => verdict::refuse(&case, false).map(Err),
    }
}
