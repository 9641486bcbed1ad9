//! `cargo xtask bench peers`: the same task sets in other simulators and in ours, in one run.
//!
//! The peers are SimSo (Chéramy, Hladik, Déplanche, WATERS 2014), the simulator that most papers of
//! the field use, and SchedCAT's simulation of global EDF in C++ (its folder `native`). All sides
//! run each set once a round, and another one begins each round. All times are CPU time without the
//! start of a process. A row is *warm* where a process has simulated the set before, and *cold*
//! where each run is the first one of a new process.

mod sets;
mod sides;
mod table;

use sets::{COLD, Case, PERIODS};
use sides::{Answer, Programs, Side};
use std::path::Path;
use std::time::Instant;
use table::Row;

/// Who simulates: the peers, and ours watched by nothing, by the table, and by table, journal and
/// trace.
const SIDES: [&str; 5] = ["SchedCAT", "SimSo", "counters", "table", "all"];
const SCHEDCAT: usize = 0;
const SIMSO: usize = 1;
const COUNTERS: usize = 2;
const TABLE: usize = 3;

/// How much is simulated.
struct Extent {
    rounds: usize,
    /// Tasks and cores.
    sizes: &'static [(usize, usize)],
    /// Jobs of a warm run, about, and of SimSo's, which would take minutes; its rate hardly depends
    /// on them (docs/results.md).
    warm: u64,
    simso: u64,
    /// Jobs of a cold run.
    cold: u64,
}

const SIZES: [(usize, usize); 2] = [(20, 4), (100, 16)];
const WHOLE: Extent = Extent { rounds: 5, sizes: &SIZES, warm: 100_000, simso: 2_000, cold: COLD };
/// What takes a minute: to see that all sides work.
const QUICK: Extent =
    Extent { rounds: 3, sizes: SIZES.split_at(1).0, warm: 20_000, simso: 500, cold: 500 };

/// What the command is asked for.
struct Options {
    extent: Extent,
    /// Every run as a line, in place of tables.
    csv: bool,
    periods: &'static str,
}

impl Options {
    fn read(args: &[&str]) -> Result<Self, String> {
        let mut options = Self { extent: WHOLE, csv: false, periods: PERIODS[0] };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "--quick" => options.extent = QUICK,
                "--csv" => options.csv = true,
                "--periods" => {
                    let word = args.next().copied().unwrap_or_default();
                    let known = PERIODS.into_iter().find(|known| *known == word);
                    options.periods = known.ok_or_else(|| {
                        format!("--periods is `{word}`; give {}", PERIODS.join(" or "))
                    })?;
                }
                other => {
                    return Err(format!(
                        "bench peers does not know `{other}`; it takes --quick, --csv and \
                         --periods {}",
                        PERIODS.join("|")
                    ));
                }
            }
        }
        Ok(options)
    }
}

/// Runs the bench and prints its tables, as docs/results.md has them.
///
/// # Errors
/// Where an option is unknown, where a side that is there cannot be built or ends early, and where
/// two sides do not simulate the same jobs.
pub(crate) fn bench(root: &Path, args: &[&str]) -> Result<(), String> {
    let Options { extent, csv, periods } = Options::read(args)?;
    let programs = Programs::build(root)?;
    let cases = sets::cases(extent.sizes, periods);
    let mut warm = programs.all()?;
    // A process of its own, which simulates nothing else meanwhile.
    let mut beside = programs.start(SCHEDCAT)?;
    if csv {
        println!("policy,load,tasks,cores,periods,state,side,round,jobs,late,seconds");
    }
    let (began, count) = (Instant::now(), 2 * cases.len());
    let mut rows = Vec::new();
    for case in &cases {
        let placed = case.placed(ours(&mut warm)?)?;
        for is_warm in [true, false] {
            let state = if is_warm { "warm" } else { "cold" };
            let (at, seconds) = (rows.len() + 1, began.elapsed().as_secs());
            eprintln!("{at} of {count}: {}, {state}, after {seconds} s", case.name());
            let mut row = Row::new(case, state);
            if is_warm {
                let reference = cases.iter().find(|it| it.is_reference() && row.has_aim());
                let reference = reference.zip(beside.as_mut());
                measure_warm(&placed, reference, &extent, &mut warm, &mut row)?;
            } else {
                measure_cold(&placed, &extent, &programs, &mut row)?;
            }
            row.check()?;
            if csv {
                print!("{}", row.csv(periods));
            }
            rows.push(row);
        }
    }
    if !csv {
        print!("{}", table::text(&rows, &extent, periods));
    }
    Ok(())
}

/// Our side among those that stay.
fn ours(sides: &mut [Option<Side>; SIDES.len()]) -> Result<&mut Side, String> {
    sides[COUNTERS].as_mut().ok_or_else(|| "our side is not there".into())
}

/// Jobs of a run of this side.
const fn jobs(side: usize, all: u64, simso: u64) -> u64 {
    if side == SIMSO { simso } else { all }
}

/// By processes that have simulated the set before: the first round is not taken down. Right after
/// our counters SchedCAT simulates the reference, if there is one, as the host's speed is another
/// minutes later.
fn measure_warm(
    placed: &Case,
    mut reference: Option<(&Case, &mut Side)>,
    extent: &Extent,
    sides: &mut [Option<Side>; SIDES.len()],
    row: &mut Row,
) -> Result<(), String> {
    for round in 0..=extent.rounds {
        for place in 0..SIDES.len() {
            let side = (round + place) % SIDES.len();
            let Some(process) = &mut sides[side] else { continue };
            let line = placed.line(side, jobs(side, extent.warm, extent.simso));
            let answer = process.ask(&line)?;
            let beside = match (side, &mut reference) {
                (COUNTERS, Some((case, process))) => {
                    process.ask(&case.line(SCHEDCAT, extent.warm))?.ok()
                }
                _ => None,
            };
            if round > 0 {
                row.note_beside(answer.as_ref().ok().zip(beside.as_ref()));
                row.note(side, answer);
            }
        }
    }
    Ok(())
}

/// By a new process for each run.
fn measure_cold(
    placed: &Case,
    extent: &Extent,
    programs: &Programs,
    row: &mut Row,
) -> Result<(), String> {
    for round in 0..extent.rounds {
        for place in 0..SIDES.len() {
            let side = (round + place) % SIDES.len();
            let Some(mut process) = programs.start(side)? else { continue };
            let answer: Result<Answer, String> = process.ask(&placed.line(side, extent.cold))?;
            row.note(side, answer);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_refused_by_name() {
        let options = Options::read(&["--csv", "--quick", "--periods", "automotive"]).unwrap();
        assert!(options.csv && options.periods == "automotive");
        assert_eq!(options.extent.rounds, QUICK.rounds);
        let why = Options::read(&["--fast"]).err().unwrap();
        assert!(why.contains("--fast") && why.contains("--quick"), "{why}");
        let why = Options::read(&["--periods"]).err().unwrap();
        assert!(why.contains("log-uniform or automotive"), "{why}");
    }
}
