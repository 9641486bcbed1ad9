//! `maracas generate`: random task sets as files.

use clap::value_parser;
use maracas_console::args;
use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use maracas_core::{Duration, MAX_CORES};
use maracas_scenario::generate::{self, Loads, Periods, Recipe};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Draw random task sets
///
/// Writes CSV, which sim, check and sweep read. Utilizations are multiples of a millionth of a
/// core (finer with a coarser --grain) and sum exactly to what is asked for. The same options and
/// seed give the same bytes on every machine; the file says both at its head.
///
/// Example: maracas generate --cores 4 --tasks 20 --utilization 90% --seed 1 -o set.csv
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The cores that --utilization is a part of
    #[arg(long, value_name = "M", value_parser = value_parser!(u16).range(1..=MAX_CORES as i64))]
    cores: u16,
    /// The sum of all utilizations: a percentage of the cores (90%), or in cores (3.6)
    #[arg(long, value_name = "U")]
    utilization: String,
    /// How many tasks; where --loads draws them one by one, at most so many
    #[arg(long, value_name = "N")]
    tasks: Option<usize>,
    /// How utilizations are drawn.
    /// All at once: randfixedsum, randfixedsum:LEAST..MOST, uunifast.
    /// One by one: light, medium, heavy, mixed, exponential-light, bimodal-light (or -medium,
    /// -heavy), uniform:0.1..0.4, exponential:0.25, bimodal:8*0.001..0.5,1*0.5..0.9
    #[arg(long, value_name = "WORDS", default_value = "randfixedsum")]
    loads: Loads,
    /// Where tasks are drawn one by one: trim the last, so that the sum is met exactly
    #[arg(long)]
    exact: bool,
    /// How periods are drawn: harmonic (25, 50, 100, 200 ms), harmonic:5ms,10ms,20ms, automotive,
    /// short, moderate, long, log-uniform:10ms..1s, uniform:3ms..33ms, list:8ms,3*10ms
    #[arg(long, value_name = "WORDS", default_value = "harmonic")]
    periods: Periods,
    /// Draw only periods that divide this one
    #[arg(long, value_name = "TIME", value_parser = args::positive)]
    hyperperiod: Option<Duration>,
    /// What periods are multiples of; utilizations are multiples of one nanosecond in it
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = args::positive)]
    grain: Duration,
    /// Jobs come at least a period apart instead of exactly
    #[arg(long)]
    sporadic: bool,
    /// Periodic tasks begin anywhere within their period instead of together
    #[arg(long)]
    offsets: bool,
    /// What makes this set this one; of several sets, the first one's
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Draw K sets, with this seed and those after it, into the directory named by --out
    #[arg(long, value_name = "K", requires = "out")]
    #[arg(value_parser = value_parser!(u64).range(1..=MOST_SETS))]
    count: Option<u64>,
    /// Where to; without it, standard output. With --count a directory, new or empty, that gets
    /// one file a seed, numbered alike: set-001.csv, ...
    #[arg(long, short, value_name = "FILE|DIR")]
    out: Option<PathBuf>,
}

/// All sets are drawn before the first is written, and so many of 400 tasks are 100 MB; larger
/// studies are for `maracas sweep`, which keeps none.
const MOST_SETS: u64 = 10_000;

pub(super) fn run(args: &Args) -> Outcome {
    let total = generate::utilization(&args.utilization, args.cores.into())
        .map_err(|why| Failure::about("--utilization", why))?;
    let recipe = Recipe {
        total,
        tasks: args.tasks,
        loads: args.loads.clone(),
        exact: args.exact,
        periods: args.periods.clone(),
        hyperperiod: args.hyperperiod,
        grain: args.grain,
        sporadic: args.sporadic,
        offsets: args.offsets,
    };
    if args.out.is_some() {
        output::leave_nothing_at_signals()?;
    }
    let set = |seed: u64| recipe.draw(seed).map(|set| set.to_string()).map_err(Failure::new);
    let Some(count) = args.count else {
        match &args.out {
            Some(path) => output::write_file(path, &set(args.seed)?)?,
            None => output::print(&set(args.seed)?)?,
        }
        return Ok(Answer::Yes);
    };
    let last = args.seed.checked_add(count - 1).ok_or_else(|| {
        let (seed, most) = (args.seed, u64::MAX);
        Failure::new(format!("--count {count} from --seed {seed} passes {most}; lower one"))
    })?;
    let directory = args.out.as_deref().unwrap_or(Path::new("."));
    refuse_filled(directory)?;
    // Names of one length, so that they sort by seed.
    let width = last.to_string().len();
    let file = |seed: u64| Ok((format!("set-{seed:0width$}.csv"), set(seed)?));
    let files = (args.seed..=last).map(file).collect::<Result<Vec<_>, Failure>>()?;
    output::write_directory(directory, &files)?;
    Ok(Answer::Yes)
}

/// # Errors
/// Where the directory cannot take files that belong together.
fn refuse_filled(directory: &Path) -> Result<(), Failure> {
    let why = match fs::read_dir(directory).map(Iterator::count) {
        Ok(0) => return Ok(()),
        Ok(_) => "is not empty; name a new directory".into(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            "is a file; with --count, name a directory".into()
        }
        Err(error) => format!("cannot be read: {error}"),
    };
    Err(Failure::about(directory.display(), why))
}
