//! `maracas bench balance`: load balancing of real programs, held against its promises.
//!
//! Sixteen VCPUs run on two cores until one of them ends, which leaves one core with more slack for
//! each of its VCPUs than the other. The policy then has a VCPU moved. What the move cost, which
//! VCPUs it delayed and what surplus time each had before and after is read off the journal.

mod content;
mod judge;
mod report;
mod story;

use super::play::play;
use super::verdict::{self, Verdict};
use content::{Content, Outputs};
use judge::{Late, Periods};
use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use maracas_core::{CoreId, Duration, Instant, VcpuId};
use maracas_live::host::platform::Platform;
use maracas_live::sense::Senses;
use maracas_scenario::Scenario;
use maracas_session::case::{Case, Machine, Overrides};
use maracas_session::live;
use std::path::PathBuf;
use story::{Move, Story};

/// Run sixteen VCPUs on two cores of this host under load balancing, and end one of them
///
/// Exits 1 where no VCPU moves after the end, where a move makes more than one period late or
/// costs more than admission counts (C_m), or where the journal does not replay. Needs the rights
/// of `maracas run`, two cores, and quiet.
///
/// Example: maracas bench balance --json
#[derive(clap::Args, Debug)]
pub struct Args {
    /// How often it is done; 5 seconds each
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Split the cache by page colours, so that a VCPU that moves is recoloured; needs visible page
    /// frames, and libmaracas_client.so beside this program
    #[arg(long)]
    colors: bool,
    /// Write the journal of the last round, which `maracas replay` reads
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

/// The programs, wherever the binary is.
const SCENARIO: &str = include_str!("../../../../examples/balance.toml");

/// The same on a split cache, with programs that use memory.
fn with_colors() -> String {
    let split =
        "preset = \"i5-2500k\"\ncores = 2\ncolors = [16, 16]\n\n[live]\ncache = \"colors\"\n";
    let split = SCENARIO.replacen("cores = 2\n", split, 1);
    let walk = r#""mwalk", "--size", "512kB", "--hash", "--json", "--report", "200ms""#;
    split.replace(r#""spin", "--quiet""#, walk)
}

/// When all programs run.
const BEGUN: Duration = Duration::from_millis(1000);
/// Time after the end until surplus time is looked at: a core's migration VCPU makes one move in
/// each of its periods of 100 ms.
const SETTLE: Duration = Duration::from_millis(1000);
/// And until when before the run ends.
const REST: Duration = Duration::from_millis(300);

/// Which VCPU is asked to end, and when; and when all end.
#[derive(Clone, Copy, Debug)]
struct Script {
    leaver: VcpuId,
    reported: Instant,
    end: Instant,
}

impl Script {
    fn of(case: &Case) -> Option<Self> {
        let scenario = case.scenario.as_ref()?;
        let leaver = scenario.programs.iter().find(|program| program.stop != Instant::NEVER)?;
        let end = Instant::ZERO + scenario.run.duration?;
        Some(Self { leaver: leaver.vcpu, reported: leaver.stop, end })
    }
}

/// What is on two cores.
type Pair<T> = [T; 2];

const CORES: Pair<CoreId> = [CoreId(0), CoreId(1)];

/// A move and the VCPUs that it delayed.
#[derive(Clone, Debug)]
struct Moved {
    what: Move,
    /// U of the VCPU, in percent.
    percent: f64,
    late: Vec<Late>,
    /// What its program said of its memory, where the cache was split by page colours.
    content: Option<Content>,
}

/// One run.
#[derive(Debug)]
struct Round {
    /// When the program was asked to end.
    reported: Instant,
    /// All moves that were done and held, in order.
    moves: Vec<Moved>,
    /// Moves that were not worth it any more when the pages had been recoloured, and were undone.
    undone: usize,
    /// Moves that were ordered and not done, or did not hold.
    given_up: Vec<Move>,
    /// Whether a move could make slack more even after the end. Where the one that ends was blocked
    /// for a moment before, others have moved already, and then none may be left to move.
    is_due: bool,
    /// Whether a move of another VCPU came after the end.
    moved: bool,
    most: Duration,
    exact: bool,
    decisions: u64,
    /// Periods that were judged, and those that were late without a move.
    periods: u64,
    late_elsewhere: Vec<Late>,
    /// Slack per VCPU by the reservations: before the end, without a move, and after.
    slack: [Pair<f64>; 3],
    /// Surplus time that a VCPU had in the mean, as a part of a core: before the end, and after.
    surplus: [Pair<Option<f64>>; 2],
}

impl Round {
    fn of(script: Script, story: &Story, outputs: Option<&Outputs>) -> Result<Self, Failure> {
        let Script { leaver, reported, end } = script;
        let begun = Instant::ZERO + BEGUN;
        let (before, after) = ((begun, reported), (reported + SETTLE, end - REST));
        let gone = story.lives.get(&leaver).and_then(|life| life.left);
        gone.ok_or_else(|| {
            Failure::new("the program that was asked to end did not; run it again")
        })?;
        let periods = Periods::of(story);
        let done = || story.moves.iter().filter(|it| it.done.is_some() && it.holds);
        let moves: Vec<Moved> = done()
            .filter(|it| it.from != it.to)
            .map(|it| Moved {
                what: *it,
                percent: percent(story, it),
                late: periods.late_by(story, it).collect(),
                content: outputs.and_then(|outputs| outputs.around(it)),
            })
            .collect();
        let answers = |it: &Moved| it.what.ordered >= reported && it.what.vcpu != leaver;
        let by_moves = |late: &Late| moves.iter().any(|moved| moved.late.contains(late));
        Ok(Self {
            reported,
            undone: done().filter(|it| it.from == it.to).count(),
            given_up: story
                .moves
                .iter()
                .filter(|it| it.done.is_none() || !it.holds)
                .copied()
                .collect(),
            is_due: story.could_even(after.0, reported),
            moved: moves.iter().any(answers),
            most: story.most().unwrap_or_default(),
            exact: story.exact,
            decisions: story.decisions,
            periods: periods.judged,
            late_elsewhere: periods.late.iter().copied().filter(|late| !by_moves(late)).collect(),
            slack: [(begun, reported), (after.0, reported), (after.0, after.0)]
                .map(|(there, placed)| CORES.map(|core| story.spv(core, there, placed))),
            surplus: [before, after]
                .map(|(from, to)| CORES.map(|core| story.surplus(core, from, to))),
            moves,
        })
    }
}

impl Round {
    /// Whether the VCPUs had much less surplus time than was left of their cores.
    fn was_disturbed(&self) -> bool {
        const QUIET: f64 = 0.9;
        let slack: f64 = self.slack[0].iter().chain(&self.slack[2]).sum();
        let surplus: f64 = self.surplus.iter().flatten().flatten().sum();
        surplus < slack * QUIET
    }
}

fn percent(story: &Story, moved: &Move) -> f64 {
    let vcpu = story.vcpus().find(|vcpu| vcpu.id == moved.vcpu);
    vcpu.map_or(0.0, |vcpu| {
        let reservation = &vcpu.reservation;
        reservation.budget.ticks() as f64 * 100.0 / reservation.period.ticks() as f64
    })
}

/// Everything that was measured.
struct Measured {
    host: String,
    /// The cache was split by page colours.
    colors: bool,
    /// What was said of the costs of moves.
    notes: Vec<String>,
    rounds: Vec<Round>,
}

impl Measured {
    fn moves(&self) -> impl Iterator<Item = (&Round, &Moved)> {
        self.rounds.iter().flat_map(|round| round.moves.iter().map(move |moved| (round, moved)))
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let count = self.rounds.len();
        let due = || self.rounds.iter().filter(|round| round.is_due);
        let (dues, moved) = (due().count(), due().filter(|round| round.moved).count());
        let even = match count - dues {
            0 => String::new(),
            even => format!(" ({even} more left nothing to even out)"),
        };
        let all = self.moves().count();
        let late = self.moves().map(|(_, moved)| moved.late.len()).max().unwrap_or(0);
        let cost = self.moves().map(|(_, moved)| moved.what.cost).max().unwrap_or_default();
        let most = self.rounds.iter().map(|round| round.most).min().unwrap_or_default();
        let within = self.moves().all(|(round, moved)| moved.what.cost <= round.most);
        let reported = all > 0 && self.moves().all(|(_, moved)| !moved.what.cost.is_zero());
        let exact = self.rounds.iter().filter(|round| round.exact).count();
        let gap = |[one, other]: Pair<f64>| (one - other).abs();
        let evens = |round: &&Round| gap(round.slack[2]) < gap(round.slack[1]);
        let evened = due().filter(evens).count();
        let mut verdicts = vec![
            Verdict {
                name: "moves",
                holds: dues > 0 && moved == dues,
                text: format!("a VCPU moves after the end: in {moved} of {dues} rounds{even}"),
            },
            Verdict {
                name: "late",
                holds: late <= 1,
                text: format!(
                    "at most one period is late by a move: {late} at most in {all} moves"
                ),
            },
            Verdict {
                name: "cost",
                holds: within && reported,
                text: if reported {
                    format!("every move costs at most C_m: {cost} at most, C_m is {most}")
                } else {
                    "every move costs at most C_m: none was paid for by its migration VCPU".into()
                },
            },
            Verdict {
                name: "evened",
                holds: dues > 0 && evened == dues,
                text: format!(
                    "slack per VCPU is more even by the move: in {evened} of {dues} rounds"
                ),
            },
            Verdict {
                name: "replay",
                holds: exact == count,
                text: format!("the journal replays with equal plans: in {exact} of {count} rounds"),
            },
        ];
        if self.colors {
            verdicts.extend([self.recolored(), content::verdict(self)]);
        }
        verdicts
    }

    /// Whether every VCPU that moved got the colours of the core that it came to.
    fn recolored(&self) -> Verdict {
        let all: Vec<_> = self.moves().map(|(_, moved)| moved.what.recolored).collect();
        let done: Vec<_> = all.iter().flatten().filter(|it| it.left == 0).collect();
        let pages = done.iter().map(|it| it.pages).max().unwrap_or(0);
        let took = done.iter().map(|it| it.took_ns).max().unwrap_or_default();
        let took = Duration::from_nanos(took);
        let (some, count) = (done.len(), all.len());
        Verdict {
            name: "recolored",
            holds: some == count && count > 0,
            text: format!(
                "a VCPU that moves is recoloured: in {some} of {count} moves, {pages} pages in \
                 {took} at most"
            ),
        }
    }
}

/// Measures everything.
pub fn balance(args: &Args) -> Outcome {
    let stop = maracas_console::signals::stop_flag()?;
    let host = Platform::detect().map_err(|error| Failure::about("this host", error))?;
    let mut file = output::Pending::maybe(args.journal.as_ref())?;
    let (mut notes, mut rounds) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        let text = if args.colors { with_colors() } else { SCENARIO.into() };
        let mut scenario = Scenario::parse(&text, "examples/balance.toml").map_err(Failure::new)?;
        let outputs = args.colors.then(|| Outputs::of(&mut scenario)).transpose()?;
        let case = Case::of(scenario, Machine::Live, &Overrides::default())?;
        let script = Script::of(&case).ok_or_else(|| Failure::new("no program is asked to end"))?;
        let length = script.end - Instant::ZERO;
        if !args.json {
            output::note(&format!("round {round} of {}: {length}", args.rounds));
        }
        let setup = live::setup(&case, Some(length))?;
        let journal = play(&case, setup, Senses::default(), |_| {}, &stop)?;
        if let Some(file) = file.take_if(|_| round == args.rounds) {
            keep(file, &journal)?;
        }
        rounds.push(Round::of(script, &Story::read(&journal)?, outputs.as_ref())?);
        notes = case.assumptions().to_vec();
    }
    let measured = Measured { host: host.to_string(), colors: args.colors, notes, rounds };
    let verdicts = measured.verdicts();
    if args.json {
        output::line(&report::to_json(&measured, &verdicts))?;
    } else {
        output::print(&report::text(&measured, &verdicts))?;
    }
    Ok(if verdict::hold(&verdicts) { Answer::Yes } else { Answer::No })
}

fn keep(mut file: output::Pending, journal: &[u8]) -> Result<(), Failure> {
    let written = std::io::Write::write_all(&mut file, journal);
    written.map_err(|error| Failure::about("--journal", error))?;
    file.commit()
}

#[cfg(test)]
mod tests;
