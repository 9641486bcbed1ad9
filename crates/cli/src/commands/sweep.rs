//! `maracas sweep`: many task sets under many policies.

mod text;

use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output::{self, Bar};
use maracas_scenario::sweep::Sweep;
use maracas_studies::sweep;
use maracas_sweep::{Ledger, Results, Study, run, summary};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// Compare policies on many task sets
///
/// A sweep file says which sets are drawn, which policies run them and on how many cores. All
/// policies run the same sets. The folder gets every run (runs.csv, runs.parquet), what came of it
/// for every point with confidence intervals (points.csv), paired comparisons of the policies
/// (pairs.csv), what their schedulability tests admit (tests.csv, weighted.csv) and figures. What
/// is finished is kept at once: after an interruption the same command goes on, and the files come
/// out the same, byte for byte, for any number of jobs.
///
/// Example: maracas sweep examples/sweeps/optimal.toml --out results
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The sweep file (docs/sweep.md)
    file: PathBuf,
    /// Folder for results; made where there is none
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Task sets to run at once; without it, one for each core of this host
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Points, pairs and tests as JSON in place of the table
    #[arg(long)]
    json: bool,
    /// No progress and no notes
    #[arg(long, short)]
    quiet: bool,
}

pub(super) fn run(args: &Args) -> Outcome {
    let study = Study::of(&Sweep::read(&args.file).map_err(Failure::new)?).map_err(Failure::new)?;
    let jobs = match args.jobs {
        Some(jobs) => usize::from(jobs),
        None => maracas_session::case::host_cores()?,
    };
    if !args.quiet {
        study.notes.iter().for_each(|note| output::note(note));
    }
    let folder = args.out.display();
    sweep::folder(&args.out)?;
    let mut results = Results::of(&study, &args.out).map_err(Failure::new)?;
    let path = args.out.join(sweep::PROGRESS);
    let ledger = Ledger::open(&path, &study.meaning(), &mut results).map_err(Failure::new)?;
    let (items, known) = (results.items(), results.done());
    if !args.quiet && known > 0 {
        output::note(&match items - known {
            0 => format!("{folder} holds all {items} sets"),
            _ => format!("{folder} holds {known} of {items} sets; the others are run"),
        });
    }
    keep_at_signals(&args.out, items)?;
    let far = Mutex::new((Bar::new("sweep"), Instant::now()));
    let progress = |done: usize| {
        DONE.store(done, Ordering::Relaxed);
        if let (false, Ok(mut far)) = (args.quiet, far.lock()) {
            let elapsed = far.1.elapsed();
            far.0.show(done as f64 / items as f64, elapsed);
        }
    };
    let results = run::all(&study, ledger, results, jobs, &progress);
    if let Ok(mut far) = far.lock() {
        far.0.clear();
    }
    let results = results.map_err(Failure::new)?;
    WRITING.store(true, Ordering::Relaxed);
    let standings = summary::standings(&study, &results).map_err(Failure::new)?;
    let rivalries = summary::rivalries(&study, &results).map_err(Failure::new)?;
    let figures = sweep::write(&args.out, &study, &results, &standings, &rivalries)?;
    if args.json {
        output::line(&format!("{:#}", sweep::json(&study, &results, &standings, &rivalries)?))?;
    } else {
        output::print(&text::table(&study, &standings))?;
    }
    if !args.quiet {
        let figures = match figures {
            0 => "no figure (a line takes two points)".into(),
            1 => "1 figure".into(),
            _ => format!("{figures} figures"),
        };
        output::note(&format!(
            "{folder} holds runs.csv, runs.parquet, points.csv, pairs.csv, tests.csv, weighted.csv \
             and {figures}"
        ));
    }
    Ok(Answer::Yes)
}

/// Sets that are finished.
static DONE: AtomicUsize = AtomicUsize::new(0);
/// Whether all are, and files are written: that takes a moment and is not interrupted.
static WRITING: AtomicBool = AtomicBool::new(false);

/// From here on SIGINT and SIGTERM end the program with a line that says how to go on.
fn keep_at_signals(folder: &Path, items: usize) -> Result<(), Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let fail = |error| Failure::about("a signal handler cannot be set", error);
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(fail)?;
    let folder = folder.display().to_string();
    let wait = move || {
        for signal in signals.forever() {
            if !WRITING.load(Ordering::Relaxed) {
                let done = DONE.load(Ordering::Relaxed);
                if output::errors_on_terminal() {
                    output::status("\r\x1b[K");
                }
                output::note(&format!(
                    "interrupted; {folder} keeps {done} of {items} sets, and the same command goes \
                     on from there"
                ));
                // As a shell reports a program that a signal ended.
                std::process::exit(128 + signal);
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map_err(fail)?;
    Ok(())
}
