//! Random systems, policies and faults, one case a seed, on all cores, until something breaks or
//! time is up. Run it as `cargo xtask swarm`; `--help` lists what it takes.
#![allow(clippy::print_stdout)] // A command-line tool speaks on stdout.

use maracas_tests::{Failure, Kind, Summary, Swarm};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const HELP: &str = "\
cargo xtask swarm                a minute of random cases
  --cases N, --sets N            so many of them instead, from seed 0 on
  --seconds N                    for so long instead
  --seed N                       the case of one seed, to see a failure again
  --kind programs|heavy|churn|jobs|live|kernel
                                of this kind only; else of 16 seeds 2, 1, 4, 9 and none
                                of the last two; `kernel` needs a C compiler
  --policy NAME                  under this policy only
  --threads N                    on so many threads; else on all cores
";

/// Seeds that a thread takes at once.
const BATCH: u64 = 64;

/// What to do.
struct Task {
    swarm: Swarm,
    seeds: std::ops::Range<u64>,
    limit: Duration,
    threads: usize,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let task = match parse(&args) {
        Ok(task) => task,
        Err(why) => {
            eprintln!("{why}\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let is_kernel = task.swarm.kind == Some(Kind::Kernel);
    match maracas_tests::kernel::has_compiler() {
        Err(why) if is_kernel => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
        Ok(false) if is_kernel => {
            eprintln!("skipped: needs a C compiler");
            return ExitCode::SUCCESS;
        }
        Ok(_) | Err(_) => {}
    }
    let begun = Instant::now();
    let (summary, failure) = carry_out(&task, begun);
    print!("{summary}");
    if let Some(failure) = failure {
        eprintln!("{failure}");
        return ExitCode::FAILURE;
    }
    let (cases, seconds) = (summary.sum(|_, _| true).cases, begun.elapsed().as_secs_f64());
    let a_second = cases as f64 / seconds;
    println!("{cases} cases passed in {seconds:.1} s, {a_second:.0} a second");
    ExitCode::SUCCESS
}

fn parse(args: &[String]) -> Result<Task, String> {
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let limit = Duration::from_secs(60);
    let mut task = Task { swarm: Swarm::default(), seeds: 0..u64::MAX, limit, threads };
    let mut words = args.iter().map(String::as_str);
    while let Some(name) = words.next() {
        let value = words.next().ok_or_else(|| format!("`{name}` needs a value after it"))?;
        let number =
            || value.parse::<u64>().map_err(|_| format!("{name} {value}: `{value}` is no number"));
        match name {
            "--cases" | "--sets" => {
                (task.seeds, task.limit) = (0..number()?, Duration::MAX);
            }
            "--seconds" => task.limit = Duration::from_secs(number()?),
            "--seed" => {
                let seed = number()?;
                (task.seeds, task.limit) = (seed..seed.saturating_add(1), Duration::MAX);
            }
            "--threads" => task.threads = number()?.max(1) as usize,
            "--kind" => {
                let kind = Kind::ALL.into_iter().find(|kind| kind.word() == value);
                let all = Kind::ALL.map(Kind::word).join(", ");
                task.swarm.kind =
                    Some(kind.ok_or_else(|| format!("no kind `{value}`; there are {all}"))?);
            }
            "--policy" => {
                let found = maracas_policies::find(value);
                let unknown = || format!("no policy `{value}`; `maracas policies` lists them");
                task.swarm.policy = Some(found.ok_or_else(unknown)?);
            }
            other => return Err(format!("unknown argument `{other}`")),
        }
    }
    Ok(task)
}

/// Runs all seeds, several at once. All those below the lowest that fails are run, so that the same
/// failure is found however many threads there are.
fn carry_out(task: &Task, begun: Instant) -> (Summary, Option<Failure>) {
    let (next, done) = (AtomicU64::new(task.seeds.start), AtomicU64::new(0));
    let failed = AtomicU64::new(u64::MAX);
    let total = Mutex::new(Summary::default());
    let work = || {
        let mut summary = Summary::default();
        while begun.elapsed() < task.limit {
            let first = next.fetch_add(BATCH, Ordering::Relaxed);
            if first >= task.seeds.end.min(failed.load(Ordering::Relaxed)) {
                break;
            }
            for seed in first..task.seeds.end.min(first.saturating_add(BATCH)) {
                if seed > failed.load(Ordering::Relaxed) {
                    break;
                }
                if task.swarm.run(seed, &mut summary).is_err() {
                    failed.fetch_min(seed, Ordering::Relaxed);
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
        total.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(&summary);
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..task.threads).map(|_| scope.spawn(work)).collect();
        let mut progress = Progress::new(task, begun);
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(Duration::from_millis(50));
            progress.show(done.load(Ordering::Relaxed));
        }
        progress.end();
    });
    let failed = failed.into_inner();
    let failure = (failed < u64::MAX).then(|| task.swarm.failure(failed)).flatten();
    (total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner), failure)
}

/// A bar on a terminal, else a line every ten seconds.
struct Progress<'a> {
    task: &'a Task,
    begun: Instant,
    shown: Instant,
    terminal: bool,
}

impl<'a> Progress<'a> {
    fn new(task: &'a Task, begun: Instant) -> Self {
        Self { task, begun, shown: begun, terminal: std::io::stderr().is_terminal() }
    }
    fn show(&mut self, done: u64) {
        let every =
            if self.terminal { Duration::from_millis(200) } else { Duration::from_secs(10) };
        if self.shown.elapsed() < every {
            return;
        }
        self.shown = Instant::now();
        let seconds = self.begun.elapsed().as_secs_f64();
        let Task { seeds, limit, .. } = self.task;
        let part = if *limit == Duration::MAX {
            done as f64 / (seeds.end - seeds.start).max(1) as f64
        } else {
            seconds / limit.as_secs_f64().max(1.0)
        };
        let percent = (100.0 * part).min(100.0);
        let text = format!("{percent:3.0}% {done} cases, {seconds:.0} s");
        if self.terminal {
            let filled = (percent / 2.5) as usize;
            eprint!("\r[{:<40}] {text} ", "#".repeat(filled));
            std::io::stderr().flush().unwrap_or(());
        } else {
            eprintln!("{text}");
        }
    }
    fn end(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}
