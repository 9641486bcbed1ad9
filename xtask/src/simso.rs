//! `cargo xtask bench simso`: the same task sets in SimSo and in our simulator, one after the
//! other in turns, and how many times faster we are.
//!
//! SimSo (Chéramy, Hladik, Déplanche, WATERS 2014) is the simulator that most papers of the field
//! use. It is installed by pip into a virtual environment below `target/` for this bench alone.
//! Both sides do what their user asks for: build the system, simulate it, and count jobs, misses,
//! preemptions and migrations.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// How often each side runs a set; the two take turns, and so does the one that begins.
const ROUNDS: usize = 3;
/// Sets that are tried where SimSo fails with one.
const TRIES: u64 = 20;
/// Parts of a core of which utilisations are multiples. A power of two, as are all units here:
/// SimSo's times are floats, and with exact ones its RUN does not fail where the load is whole.
const PARTS: u64 = 1024;
/// Ticks in a 64th of SimSo's millisecond, of which periods are multiples.
pub(crate) const GRAIN: u64 = 1 << 14;

/// What is compared: policy, load of each core in percent, tasks, cores, and milliseconds of
/// simulated time, with which SimSo takes some seconds.
const CASES: [(&str, u64, usize, usize, u64); 8] = [
    ("p-edf", 90, 20, 4, 1_000),
    ("g-edf", 90, 20, 4, 1_000),
    ("run", 90, 20, 4, 1_000),
    ("run", 100, 20, 4, 1_000),
    ("p-edf", 90, 100, 16, 300),
    ("g-edf", 90, 100, 16, 300),
    ("run", 90, 100, 16, 300),
    ("run", 100, 100, 16, 300),
];
const PERIODS: [&str; 2] = ["automotive", "log-uniform"];

/// The least ratio that the project promises, by the number of tasks.
const fn wanted(tasks: usize) -> f64 {
    if tasks <= 20 { 300.0 } else { 200.0 }
}

/// Runs the bench and prints its table.
///
/// # Errors
/// Where Python, pip or the network is missing, where a side ends early, and where the two do not
/// simulate the same number of jobs.
pub(crate) fn bench(root: &Path) -> Result<(), String> {
    let (mut theirs, mut ours) = (theirs(root)?, ours(&build_ours(root)?)?);
    println!(
        "{:<6} {:>4} {:>5} {:>5} {:<11} {:>6} {:>9} {:>10} {:>10}  times faster",
        "policy", "load", "tasks", "cores", "periods", "jobs", "SimSo/s", "ours/s", "with table"
    );
    let mut slow = Vec::new();
    for case in CASES {
        for periods in PERIODS {
            let row = compare(&mut theirs, &mut ours, case, periods)?;
            println!("{}", row.text);
            if row.ratio < wanted(case.2) {
                slow.push(format!("{} {} of {}", case.0, periods, case.2));
            }
        }
    }
    println!(
        "\njobs per second of CPU time; the ratio is that of our run with the table to SimSo's: \
         median of {ROUNDS}\nrounds, least and most. Loads are in percent and exact: 100 is U = m."
    );
    let verdict = if slow.is_empty() { "yes".into() } else { format!("no ({})", slow.join(", ")) };
    println!("300 times at 20 tasks and 200 times at 100: {verdict}");
    Ok(())
}

struct Row {
    text: String,
    ratio: f64,
}

/// Measures the first set with which SimSo does not fail.
fn compare(
    theirs: &mut Side,
    ours: &mut Side,
    case: (&str, u64, usize, usize, u64),
    periods: &str,
) -> Result<Row, String> {
    let (policy, load, tasks, cores, horizon) = case;
    let mut failures = Vec::new();
    for seed in 1..=TRIES {
        let drawn = draw(tasks, cores, load, periods, seed);
        let line = format!("{policy} {cores} {} {drawn}", horizon * 64 * GRAIN);
        let first = match theirs.ask(&line)? {
            Ok(first) => first,
            Err(why) => {
                failures.push(format!("set {seed}: {why}"));
                continue;
            }
        };
        let rounds = rounds(theirs, ours, &line, first)?;
        let what = format!("{policy} with {tasks} tasks on {cores} cores, {periods}, set {seed}");
        let (theirs, ours) = &rounds[0];
        let (their_jobs, our_jobs) = (theirs[0], ours[0]);
        if their_jobs != our_jobs {
            return Err(format!("{what}: {their_jobs} jobs in SimSo and {our_jobs} in ours"));
        }
        let mut row = row(case, periods, &rounds);
        if !failures.is_empty() {
            let (count, why) = (failures.len(), &failures[0]);
            let _ = write!(row.text, "\n  SimSo fails with {count} sets before this one ({why})");
        }
        let (their_late, our_late) = (theirs[1], ours[1]);
        if their_late != our_late {
            let _ = write!(row.text, "\n  late jobs: {their_late} in SimSo, {our_late} in ours");
        }
        return Ok(row);
    }
    Err(format!("SimSo fails with {TRIES} sets of {policy} ({})", failures[0]))
}

pub(crate) type Answer = Vec<f64>;

/// Both sides' answers to a case, in turns; SimSo's first one is there.
fn rounds(
    theirs: &mut Side,
    ours: &mut Side,
    line: &str,
    first: Answer,
) -> Result<Vec<(Answer, Answer)>, String> {
    let mut rounds = vec![(first, ours.ask(line)??)];
    while rounds.len() < ROUNDS {
        let answers = if rounds.len() % 2 == 0 {
            let theirs = theirs.ask(line)??;
            (theirs, ours.ask(line)??)
        } else {
            let ours = ours.ask(line)??;
            (theirs.ask(line)??, ours)
        };
        rounds.push(answers);
    }
    Ok(rounds)
}

fn row(case: (&str, u64, usize, usize, u64), periods: &str, rounds: &[(Answer, Answer)]) -> Row {
    let (policy, load, tasks, cores, _) = case;
    let jobs = rounds[0].1[0];
    let sorted = |of: &dyn Fn(&(Answer, Answer)) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let ratios = sorted(&|(theirs, ours)| theirs[2] / ours[3]);
    let rate = |of: &dyn Fn(&(Answer, Answer)) -> f64| jobs / sorted(of)[ROUNDS / 2];
    let ratio = ratios[ROUNDS / 2];
    let text = format!(
        "{policy:<6} {load:>4} {tasks:>5} {cores:>5} {periods:<11} {jobs:>6} {:>9.0} {:>10.0} \
         {:>10.0}  {ratio:.0} ({:.0} to {:.0})",
        rate(&|(theirs, _)| theirs[2]),
        rate(&|(_, ours)| ours[2]),
        rate(&|(_, ours)| ours[3]),
        ratios[0],
        ratios[ROUNDS - 1],
    );
    Row { text, ratio }
}

/// A set as `COST:PERIOD ...` in ticks, its load exact. Periods are those of the bench of our
/// simulator: {1, 2, 5, 10, 20, 50, 100} ms in turn (Kramer, Ziegenbein, Hamann, WATERS 2015), or
/// log-uniform from 1 to 100 ms (Emberson, Stafford, Davis, WATERS 2010).
pub(crate) fn draw(tasks: usize, cores: usize, load: u64, periods: &str, seed: u64) -> String {
    let mut state = seed;
    let mut uniform = || splitmix(&mut state) as f64 / (1u64 << 53) as f64;
    let weights: Vec<f64> = (0..tasks).map(|_| 0.5 + uniform()).collect();
    let all = (cores as u64 * PARTS * load / 100) as f64;
    let sum: f64 = weights.iter().sum();
    let mut shares: Vec<u64> =
        weights.iter().map(|weight| ((all * weight / sum) as u64).max(1)).collect();
    let missing = all as u64 - shares.iter().sum::<u64>();
    for place in 0..missing as usize {
        shares[place % tasks] += 1;
    }
    let task = |(place, share): (usize, u64)| {
        let period = match periods {
            "automotive" => 64 * [1, 2, 5, 10, 20, 50, 100][place % 7],
            _ => (64.0 * 100f64.powf(uniform())) as u64,
        };
        format!("{}:{}", share * period * (GRAIN / PARTS), period * GRAIN)
    };
    shares.into_iter().enumerate().map(task).collect::<Vec<_>>().join(" ")
}

/// SplitMix64, its upper 53 bits.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) >> 11
}

/// A process that answers a line by a line.
pub(crate) struct Side {
    name: &'static str,
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Side {
    pub(crate) fn start(name: &'static str, command: &mut Command) -> Result<Self, String> {
        let fail = |error: &dyn std::fmt::Display| format!("{name} does not start: {error}");
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| fail(&error))?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(fail(&"it has no pipes"));
        };
        Ok(Self { name, child, questions, answers: BufReader::new(answers) })
    }

    /// The numbers that the side answers, or why it failed.
    pub(crate) fn ask(&mut self, line: &str) -> Result<Result<Answer, String>, String> {
        let mut answer = String::new();
        let asked = writeln!(self.questions, "{line}");
        let read = asked.and_then(|()| self.answers.read_line(&mut answer));
        if !matches!(read, Ok(1..)) {
            return Err(format!("{} ended before it answered", self.name));
        }
        if let Some(why) = answer.strip_prefix("failed ") {
            return Ok(Err(why.trim().to_string()));
        }
        let numbers: Result<Answer, _> = answer.split_whitespace().map(str::parse).collect();
        match numbers {
            Ok(numbers) if numbers.len() >= 3 => Ok(Ok(numbers)),
            Ok(_) | Err(_) => Err(format!("{} answered `{}`", self.name, answer.trim())),
        }
    }
}

impl Drop for Side {
    /// A side that is asked nothing more would wait for ever.
    fn drop(&mut self) {
        // One that has ended already is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// SimSo, ready to be asked.
pub(crate) fn theirs(root: &Path) -> Result<Side, String> {
    let python = install(root)?;
    Side::start("SimSo", Command::new(python).arg(folder(root).join("side.py")))
}

/// Compiles our side; the program.
pub(crate) fn build_ours(root: &Path) -> Result<PathBuf, String> {
    println!("+ cargo bench --package maracas-sim --bench simso");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let built = Command::new(cargo)
        .args(["bench", "--package", "maracas-sim", "--bench", "simso", "--no-run"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    // Its last line is `  Executable benches/simso.rs (PATH)`.
    let text = String::from_utf8_lossy(&built.stderr);
    let path = text.lines().rev().find_map(|line| line.strip_suffix(')')?.rsplit_once('('));
    match path {
        Some((_, path)) if built.status.success() => Ok(root.join(path)),
        _ => Err(format!("cargo could not build our side:\n{text}")),
    }
}

/// Our side, ready to be asked.
pub(crate) fn ours(program: &Path) -> Result<Side, String> {
    Side::start("our side", Command::new(program).arg("--serve"))
}

fn folder(root: &Path) -> PathBuf {
    root.join("benches/simso")
}

/// The Python of an environment with SimSo in it, which is made where it is not there.
fn install(root: &Path) -> Result<PathBuf, String> {
    let environment = target(root).join("simso");
    let python = environment.join("bin/python");
    let requirements = folder(root).join("requirements.txt");
    let wanted = fs::read_to_string(&requirements)
        .map_err(|error| format!("{}: {error}", requirements.display()))?;
    let installed = environment.join("installed.txt");
    if fs::read_to_string(&installed).is_ok_and(|there| there == wanted) {
        return Ok(python);
    }
    println!("+ python3 -m venv {}", environment.display());
    succeed(
        Command::new("python3").args(["-m", "venv"]).arg(&environment),
        "no Python environment; install Python 3 with its venv module",
    )?;
    println!("+ pip install --requirement {}", requirements.display());
    succeed(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--requirement"])
            .arg(requirements),
        "pip cannot install SimSo; this bench needs a network once",
    )?;
    fs::write(&installed, wanted).map_err(|error| format!("{}: {error}", installed.display()))?;
    Ok(python)
}

/// Where cargo builds.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Runs `command`; where it fails, says `what` and the last line of its own words.
pub(crate) fn succeed(command: &mut Command, what: &str) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{what} ({error})"))?;
    if output.status.success() {
        return Ok(());
    }
    let words =
        [output.stderr, output.stdout].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let last =
        words.iter().flat_map(|text| text.lines().rev()).find(|line| !line.trim().is_empty());
    Err(format!("{what} ({})", last.unwrap_or("it does not say why").trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_exact_and_fixed() {
        for periods in PERIODS {
            for (tasks, cores, load) in [(20, 4, 90), (100, 16, 100)] {
                let set = draw(tasks, cores, load, periods, 7);
                assert_eq!(set, draw(tasks, cores, load, periods, 7));
                let parts = set.split(' ').map(|task| {
                    let (cost, period) = task.split_once(':').unwrap();
                    let [cost, period] = [cost, period].map(|text| text.parse::<u64>().unwrap());
                    assert!(0 < cost && cost <= period, "{task}");
                    assert_eq!(cost * PARTS % period, 0, "{task}");
                    cost * PARTS / period
                });
                let parts: Vec<u64> = parts.collect();
                assert_eq!(parts.len(), tasks);
                assert_eq!(parts.iter().sum::<u64>(), cores as u64 * PARTS * load / 100);
            }
        }
    }
}
