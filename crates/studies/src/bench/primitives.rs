//! `maracas bench primitives`: what each scheduling primitive of a policy costs on this machine.
//!
//! The policy's own code runs over event streams that the simulator recorded, with a clock around
//! each step. What is measured and how stands in `docs/overheads.md`.

mod host;
mod report;
mod schedcat;
mod sets;
mod study;

use host::Host;
use maracas_console::failure::{Answer, Failure, Outcome, did_you_mean};
use maracas_console::output::{self, Bar, Pending};
use maracas_core::contract::Entry;
use maracas_core::{Duration, MAX_CORES};
use maracas_stopwatch::{Clock, walked_bytes};
use maracas_sweep::admission::untested;
use maracas_sweep::primitives::Samples;
use maracas_sweep::primitives::hierarchy::parts;
use maracas_sweep::primitives::stream::Unlike;
use report::Head;
use sets::Point;
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;
use study::{LockRow, Run, Study};

/// Measure what releases, decisions, tree updates and budget timers of policies cost
///
/// The policy's own code runs over recorded event streams, on one core of this machine. The words
/// and columns are explained in docs/overheads.md.
///
/// Example: maracas bench primitives --policies run,qps --cores 4,16 --tasks 50,100 --quick
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The policies, such as run,qps
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[arg(default_value = "p-edf,g-edf,dp-wrap,u-edf,run,qps")]
    policies: Vec<String>,
    /// Numbers of cores [default: 16; with --record 2,4,8,16,32,64]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    cores: Vec<usize>,
    /// Numbers of tasks; those not above the number of cores are left out [default: 100; with
    /// --record 10,20,50,100,200,400]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    tasks: Vec<usize>,
    /// Loads of the sets in percent of all cores [default: 90,100; with --record
    /// 50,70,90,100]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100))]
    utilization: Vec<u64>,
    /// Seconds of simulated time of each stream, at most
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Task sets at each point, half of them with harmonic periods
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1000))]
    sets: u64,
    /// Seed of the task sets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Fewer sets and repetitions: rough numbers in a moment
    #[arg(long)]
    quick: bool,
    /// Study locks too: one for the whole system against one for each hierarchy
    #[arg(long)]
    locks: bool,
    /// Write the costs as a table for programs
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the costs as overhead tables for SchedCAT into this directory, one file for each
    /// policy and number of cores
    #[arg(long, value_name = "DIR")]
    schedcat: Option<PathBuf>,
    /// Write ecrts15-costs.csv and ecrts15-locks.csv into this directory, for `reproduce ecrts15`
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

/// How much is measured at each point.
#[derive(Clone, Copy, Debug)]
struct Effort {
    sets: usize,
    /// Jobs in each stream, at most.
    jobs: u64,
    /// Simulated time of each stream, at most.
    longest: Duration,
    /// From how many runs of a stream the times of its steps are taken.
    repetitions: usize,
    /// How many steps of each kind are timed with cold caches, over all sets.
    cold: usize,
    locks: bool,
}

impl Effort {
    fn of(args: &Args) -> Self {
        let sets = if args.quick { args.sets.min(2) } else { args.sets } as usize;
        let longest = Duration::from_secs(args.seconds);
        let locks = args.locks || args.record.is_some();
        let (jobs, repetitions, cold) = if args.quick { (500, 3, 40) } else { (1500, 8, 200) };
        Self { sets, jobs, longest, repetitions, cold, locks }
    }
}

/// What was measured of one policy at one point.
struct Cell {
    policy: &'static str,
    point: Point,
    /// Sets that the policy admitted.
    sets: usize,
    warm: Samples,
    cold: Samples,
    locks: Vec<LockRow>,
}

/// Measures everything.
pub fn primitives(args: &Args) -> Outcome {
    output::leave_nothing_at_signals()?;
    let files = Files::open(args)?;
    let (head, cells) = measured(args)?;
    files.write(&head, &cells)?;
    if args.json {
        output::line(&report::to_json(&head, args, &cells))?;
    } else if args.record.is_none() {
        output::print(&report::text(&head, &cells))?;
    }
    Ok(Answer::Yes)
}

/// The costs and the lock study of this machine as texts, as `--record` writes them; rough ones
/// where it is to be `quick`. They are taken by a thread of their own, since it stays on one core.
pub fn for_the_study(quick: bool) -> Result<(String, String), Failure> {
    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        args: Args,
    }
    // What the command would do without any other word; nothing is written here.
    let words = ["primitives", "--record", "."].into_iter().chain(quick.then_some("--quick"));
    let Alone { args } = <Alone as clap::Parser>::parse_from(words);
    let measuring = || {
        let (head, cells) = measured(&args)?;
        Ok((report::csv(&head, &cells), report::locks_csv(&head, &cells)))
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(measuring);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn measured(args: &Args) -> Result<(Head, Vec<Cell>), Failure> {
    let entries: Vec<_> = args.policies.iter().map(|name| entry(name)).collect::<Result<_, _>>()?;
    refuse_twice("--policies", &args.policies)?;
    let grid = grid(args)?;
    let effort = Effort::of(args);
    let host = Host::here();
    host::stay_on(super::measured_core()?)?;
    let clock = Clock::calibrate(effort.repetitions);
    let (began, mut bar, mut cells) = (Instant::now(), Bar::new("measuring"), Vec::new());
    for (place, point) in grid.iter().enumerate() {
        let drawn = (0..effort.sets).map(|number| sets::draw(*point, number, args.seed));
        let drawn: Vec<_> = drawn.collect::<Result<_, _>>().map_err(Failure::new)?;
        for (turn, entry) in entries.iter().enumerate() {
            let done = place * entries.len() + turn;
            bar.show(done as f64 / (grid.len() * entries.len()) as f64, began.elapsed());
            let cell = measure(entry, *point, &drawn, &effort, clock);
            cells.push(cell.map_err(|unlike| Failure::about(entry.name, unlike))?);
        }
    }
    bar.clear();
    say_what_is_left_out(&entries, &cells);
    cells.retain(|cell| cell.sets > 0);
    let head = Head { host, clock, how: how(args, &effort) };
    Ok((head, cells))
}

fn say_what_is_left_out(entries: &[&Entry], cells: &[Cell]) {
    for entry in entries {
        let own = || cells.iter().filter(|cell| cell.policy == entry.name);
        let left: Vec<_> = own().filter(|cell| cell.sets == 0).collect();
        let lightest = left.iter().map(|cell| cell.point.utilization).min();
        if let Some(lightest) = lightest {
            output::note(&format!(
                "{} admits none of the sets at {} of {} points, loads from {lightest} % on; these \
                 are left out",
                entry.name,
                left.len(),
                own().count()
            ));
        }
    }
}

fn measure(
    entry: &'static Entry,
    point: Point,
    drawn: &[maracas_scenario::taskset::TaskSet],
    effort: &Effort,
    clock: Clock,
) -> Result<Cell, Unlike> {
    let (mut whole, mut split) = (Study::default(), Study::default());
    for set in drawn {
        let until = sets::horizon(set, effort.jobs, effort.longest);
        let Some(run) = Run::record(entry, set.system(point.cores), until)? else { continue };
        if effort.locks {
            let parts = parts(entry, run.system(), &untested(entry)).unwrap_or_default();
            let each = parts.into_iter().map(|part| Run::record(entry, part, until).transpose());
            split.add(each.flatten().collect::<Result<_, _>>()?, until, effort, clock);
        }
        whole.add(vec![run], until, effort, clock);
    }
    let mut locks = Vec::new();
    if effort.locks && whole.sets() > 0 {
        locks = whole.locks("global");
        locks.extend(split.locks("hierarchy"));
    }
    let sets = whole.sets();
    Ok(Cell { policy: entry.name, point, sets, warm: whole.warm, cold: whole.cold, locks })
}

fn how(args: &Args, effort: &Effort) -> String {
    let Effort { sets, jobs, repetitions, cold, .. } = effort;
    format!(
        "{sets} sets a point from seed {}, up to {jobs} jobs or {} s each; each step over \
         {repetitions} runs; cold: about {cold} of each kind, {} KiB walked before each",
        args.seed,
        args.seconds,
        walked_bytes() / 1024
    )
}

fn entry(name: &str) -> Result<&'static Entry, Failure> {
    let known = || maracas_policies::ENTRIES.iter().filter(|entry| entry.needs.jobs);
    known().find(|entry| entry.name == name).ok_or_else(|| {
        let near = did_you_mean(name, known().map(|entry| entry.name));
        let all: Vec<_> = known().map(|entry| entry.name).collect();
        let all = all.join(", ");
        Failure::new(format!("\"{name}\" is no policy for jobs{near}; there are {all}"))
    })
}

/// The points to measure at.
fn grid(args: &Args) -> Result<Vec<Point>, Failure> {
    let all = args.record.is_some();
    let cores = chosen(&args.cores, if all { &[2, 4, 8, 16, 32, 64] } else { &[16] });
    let tasks = chosen(&args.tasks, if all { &[10, 20, 50, 100, 200, 400] } else { &[100] });
    let loads = if all { [50, 70, 90, 100].as_slice() } else { &[90, 100] };
    let loads = chosen(&args.utilization, loads);
    refuse_twice("--cores", &cores)?;
    refuse_twice("--tasks", &tasks)?;
    refuse_twice("--utilization", &loads)?;
    if let Some(cores) = cores.iter().find(|cores| !(1..=MAX_CORES).contains(*cores)) {
        return Err(Failure::new(format!("--cores {cores}: from 1 to {MAX_CORES} may be")));
    }
    if let Some(tasks) = tasks.iter().find(|tasks| !(1..=MOST_TASKS).contains(*tasks)) {
        return Err(Failure::new(format!("--tasks {tasks}: from 1 to {MOST_TASKS} may be")));
    }
    let mut grid = Vec::new();
    for &cores in &cores {
        for &tasks in tasks.iter().filter(|tasks| **tasks > cores) {
            grid.extend(loads.iter().map(|&utilization| Point { cores, tasks, utilization }));
        }
    }
    if grid.is_empty() {
        let line = "there are never more tasks than cores, and then nothing is to be scheduled; \
                    raise --tasks or lower --cores";
        return Err(Failure::new(line));
    }
    Ok(grid)
}

/// # Errors
/// Where a value stands twice: its rows could not be distinguished.
fn refuse_twice<T: PartialEq + Display>(option: &str, values: &[T]) -> Result<(), Failure> {
    let mut rest = values.iter().enumerate();
    let twice = rest.find_map(|(place, value)| values[..place].contains(value).then_some(value));
    twice.map_or(Ok(()), |value| {
        Err(Failure::new(format!("{option} names {value} twice; drop one of them")))
    })
}

fn chosen<T: Copy>(given: &[T], usual: &[T]) -> Vec<T> {
    if given.is_empty() { usual.to_vec() } else { given.to_vec() }
}

/// Ten times the largest set of the study; more would take hours.
const MOST_TASKS: usize = 4_000;

/// The files that were asked for, open from the start so that a path that cannot be written is
/// known before anything is measured.
struct Files {
    costs: Vec<Pending>,
    locks: Option<Pending>,
    /// Its directory; which files there will be is known only when all is measured.
    schedcat: Option<PathBuf>,
}

impl Files {
    fn open(args: &Args) -> Result<Self, Failure> {
        let mut costs = Vec::new();
        if let Some(path) = &args.csv {
            costs.push(Pending::create(path)?);
        }
        let mut locks = None;
        if let Some(directory) = &args.record {
            let (first, second) = recorded(directory);
            costs.push(Pending::create(&first)?);
            locks = Some(Pending::create(&second)?);
        }
        if let Some(directory) = args.schedcat.as_ref().filter(|directory| !directory.is_dir()) {
            let why = "is no directory; make it first";
            return Err(Failure::about(directory.display(), why));
        }
        Ok(Self { costs, locks, schedcat: args.schedcat.clone() })
    }
    fn write(self, head: &Head, cells: &[Cell]) -> Result<(), Failure> {
        let fail = |error| Failure::about("the table cannot be written", error);
        for mut file in self.costs {
            file.write_all(report::csv(head, cells).as_bytes()).map_err(fail)?;
            file.commit()?;
        }
        if let Some(mut file) = self.locks {
            file.write_all(report::locks_csv(head, cells).as_bytes()).map_err(fail)?;
            file.commit()?;
        }
        if let Some(directory) = self.schedcat {
            for (name, table) in schedcat::tables(cells) {
                output::write_file(&directory.join(name), &table.to_string())?;
            }
        }
        Ok(())
    }
}

fn recorded(directory: &Path) -> (PathBuf, PathBuf) {
    (directory.join("ecrts15-costs.csv"), directory.join("ecrts15-locks.csv"))
}
