//! `cargo xtask bench peers`: the same task sets in other simulators and in ours, in one run.
//!
//! SimSo as in `bench simso`, which lends its sides and its sets; and SchedCAT's simulation of
//! global EDF in C++ (github.com/brandenburg/schedcat, `native`), compiled where `SCHEDCAT` says
//! that its source is. All times are CPU time. A row is *warm* where a process has simulated the
//! set before, and *cold* where each run is the first one of a new process.

use crate::simso::{Answer, GRAIN, Side, build_ours, draw, ours, succeed, target, theirs};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How often each side runs a set; they take turns.
const ROUNDS: usize = 5;
/// Jobs of a warm run, about.
const WARM: u64 = 100_000;
/// Jobs of a cold run.
const COLD: u64 = 5_000;
const SIZES: [(usize, usize); 2] = [(20, 4), (100, 16)];
const LOADS: [u64; 2] = [90, 100];
const POLICIES: [&str; 4] = ["p-edf", "g-edf", "run", "qps"];
/// How ours is watched: nothing, the table, and table, journal and trace.
const WATCHES: [&str; 3] = ["counters", "table", "all"];
/// Where SchedCAT's source is.
const SCHEDCAT: &str = "SCHEDCAT";
/// The seed of the sets. With some sets and U = m SimSo fails; it is then left out.
const SEED: u64 = 1;

/// Runs the bench and prints its table, as docs/results.md has it.
///
/// # Errors
/// Where a side cannot be built or ends early.
pub(crate) fn bench(root: &Path) -> Result<(), String> {
    let programs = Programs { ours: build_ours(root)?, schedcat: schedcat(root)? };
    if programs.schedcat.is_none() {
        println!("SchedCAT is left out: {SCHEDCAT}=PATH says where its source is");
    }
    let mut warm =
        Sides { ours: programs.ours()?, schedcat: programs.schedcat()?, simso: theirs(root)? };
    println!(
        "| policy, load | tasks on cores | SchedCAT | SimSo | counters | with table \
         | table, journal, trace | with table to SchedCAT | to SimSo |\n\
         |---|---|---|---|---|---|---|---|---|"
    );
    for (tasks, cores) in SIZES {
        for load in LOADS {
            for policy in POLICIES {
                let set = draw(tasks, cores, load, "log-uniform", SEED);
                let case = Case { policy, cores, set };
                let name = format!("| {policy}, {load} %");
                let size = format!("{tasks} on {cores}");
                println!("{name}, warm | {size} {}", case.warm(&mut warm)?.row());
                println!("{name}, cold | {size} {}", case.cold(&programs)?.row());
            }
        }
    }
    println!(
        "\nJobs a second of CPU time in millions, of SimSo in thousands: medians of {ROUNDS} \
         rounds,\nof ratios the least and most too. SimSo simulates {COLD} jobs, and no cold ones."
    );
    Ok(())
}

/// What is compiled.
struct Programs {
    ours: PathBuf,
    schedcat: Option<PathBuf>,
}

impl Programs {
    fn ours(&self) -> Result<Side, String> {
        ours(&self.ours)
    }
    fn schedcat(&self) -> Result<Option<Side>, String> {
        let start = |path| Side::start("SchedCAT", &mut Command::new(path));
        self.schedcat.as_ref().map(start).transpose()
    }
}

/// The sides that stay.
struct Sides {
    ours: Side,
    schedcat: Option<Side>,
    simso: Side,
}

/// One task set under one policy.
struct Case {
    policy: &'static str,
    cores: usize,
    set: String,
}

/// Jobs a second of each side, round by round; empty where it cannot simulate the case.
#[derive(Default)]
struct Rates {
    ours: [Vec<f64>; WATCHES.len()],
    schedcat: Vec<f64>,
    simso: Vec<f64>,
}

impl Case {
    /// The case as a line, over the time in which about so many jobs are released.
    fn line(&self, jobs: u64) -> String {
        let periods = self.set.split(' ').filter_map(|task| task.split_once(':')?.1.parse().ok());
        let rate: f64 = periods.map(|period: f64| 1.0 / period).sum();
        let horizon = (jobs as f64 / rate / GRAIN as f64).ceil() as u64 * GRAIN;
        format!("{} {} {horizon} {}", self.policy, self.cores, self.set)
    }

    /// By processes that have simulated the set before.
    fn warm(&self, sides: &mut Sides) -> Result<Rates, String> {
        let (line, short) = (self.line(WARM), self.line(COLD));
        let mut rates = Rates::default();
        for round in 0..=ROUNDS {
            // The first round warms.
            let mut ignored = Rates::default();
            let rates = if round == 0 { &mut ignored } else { &mut rates };
            for (watch, rates) in WATCHES.into_iter().zip(&mut rates.ours) {
                note(sides.ours.ask(&format!("{watch} {line}"))?, rates);
            }
            if let Some(schedcat) = &mut sides.schedcat {
                note(schedcat.ask(&line)?, &mut rates.schedcat);
            }
            if round > 0 && self.policy != "qps" {
                note(sides.simso.ask(&short)?, &mut rates.simso);
            }
        }
        Ok(rates)
    }

    /// By a new process for each run.
    fn cold(&self, programs: &Programs) -> Result<Rates, String> {
        let line = self.line(COLD);
        let mut rates = Rates::default();
        for _ in 0..ROUNDS {
            for (watch, rates) in WATCHES.into_iter().zip(&mut rates.ours) {
                note(programs.ours()?.ask(&format!("{watch} {line}"))?, rates);
            }
            if let Some(mut schedcat) = programs.schedcat()? {
                note(schedcat.ask(&line)?, &mut rates.schedcat);
            }
        }
        Ok(rates)
    }
}

/// Takes in an answer, if it is one: a policy may refuse a set, and SimSo fail with it.
fn note(answer: Result<Answer, String>, rates: &mut Vec<f64>) {
    if let Ok(answer) = answer {
        rates.push(answer[0] / answer[2]);
    }
}

impl Rates {
    fn row(&self) -> String {
        let [counters, table, all] = &self.ours;
        let rate = |rates: &Vec<f64>, unit: f64, digits: usize| {
            let middle = middle(rates.clone()).map(|[_, median, _]| median / unit);
            middle.map_or("-".into(), |rate| format!("{rate:.digits$}"))
        };
        let ratio = |theirs: &Vec<f64>, digits: usize| {
            let ratios = table.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
            middle(ratios).map_or("-".into(), |[least, median, most]| {
                format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
            })
        };
        format!(
            "| {} | {} | {} | {} | {} | {} | {} |",
            rate(&self.schedcat, 1e6, 2),
            rate(&self.simso, 1e3, 1),
            rate(counters, 1e6, 2),
            rate(table, 1e6, 2),
            rate(all, 1e6, 2),
            ratio(&self.schedcat, 2),
            ratio(&self.simso, 0),
        )
    }
}

/// Least, median and most.
fn middle(mut all: Vec<f64>) -> Option<[f64; 3]> {
    all.sort_by(f64::total_cmp);
    Some([*all.first()?, all[all.len() / 2], *all.last()?])
}

/// Compiles SchedCAT's simulation beside our driver for it; `None` where its source is not named.
fn schedcat(root: &Path) -> Result<Option<PathBuf>, String> {
    let Some(source) = std::env::var_os(SCHEDCAT).map(PathBuf::from) else { return Ok(None) };
    let native = source.join("native");
    let folder = target(root).join("schedcat");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let program = folder.join("side");
    println!("+ g++, for {}", native.display());
    let mut compile = Command::new("g++");
    compile.args(["-O3", "-march=native", "-DNDEBUG", "-I"]).arg(native.join("include"));
    compile.arg(root.join("benches/schedcat/side.cpp"));
    let parts = ["src/edf/sim.cpp", "src/schedule_sim.cpp", "src/tasks.cpp"];
    compile.args(parts.map(|part| native.join(part)));
    compile.args(["-lgmpxx", "-lgmp", "-o"]).arg(&program);
    succeed(&mut compile, "SchedCAT cannot be compiled; it needs g++ and libgmp-dev")?;
    Ok(Some(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_lasts_for_so_many_jobs() {
        let set = draw(20, 4, 90, "log-uniform", SEED);
        let case = Case { policy: "g-edf", cores: 4, set };
        let line = case.line(COLD);
        let words: Vec<&str> = line.split(' ').collect();
        let horizon: u64 = words[2].parse().unwrap();
        let jobs = |task: &&str| horizon.div_ceil(task.split_once(':').unwrap().1.parse().unwrap());
        let jobs: u64 = words[3..].iter().map(jobs).sum();
        assert!((COLD..COLD + 21).contains(&jobs), "{jobs}");
    }

    #[test]
    fn rates_become_a_row() {
        let mut rates = Rates::default();
        for (ours, theirs) in [(2e6, 4e6), (3e6, 4e6), (4e6, 5e6)] {
            rates.ours[1].push(ours);
            rates.schedcat.push(theirs);
        }
        assert_eq!(rates.row(), "| 4.00 | - | - | 3.00 | - | 0.75 (0.50 to 0.80) | - |");
    }
}
