//! `maracas bench throttle`: memory-aware scheduling of real programs under a recorded episode of
//! contention, judged in one run.
//!
//! Two cores of this host run the programs of `examples/throttle.toml` under MARACAS with
//! `throttle = latency`. What the policy samples is not this host's memory but the recorded
//! `examples/episode.csv`, so that cores are throttled and released the same way everywhere. How
//! fast surplus time ends, what budgets got, and whether every step follows Algorithm 1 is read off
//! the journal.

mod judge;
mod report;
mod reported;

use super::play::{play, recorded};
use super::verdict::{self, Verdict};
use judge::{Budget, Law, Stops};
use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use maracas_core::Duration;
use maracas_live::Setup;
use maracas_live::host::platform::Platform;
use maracas_live::sense::Senses;
use maracas_scenario::Scenario;
use maracas_session::case::{Case, Machine, Overrides};
use maracas_session::live;
use maracas_session::live::senses::played;
use maracas_trace::Report;
use reported::Reported;
use std::path::{Path, PathBuf};

/// Measure memory-aware scheduling of real programs under a recorded episode of contention
///
/// Plays examples/episode.csv to the programs of examples/throttle.toml on two cores. Exits 1 where
/// surplus time does not end within 100 us of the decision in the median, where a mean budget is
/// off by more than 0.5 %, where a step does not follow Algorithm 1, or where the journal does not
/// replay. Needs the rights of `maracas run`, two cores, and quiet.
///
/// Example: maracas bench throttle --seconds 12 --json
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Seconds of the episode, which lasts 12
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(4..=12))]
    seconds: u64,
    /// A recording of two cores in place of it (a CSV list or a journal)
    #[arg(long, value_name = "FILE")]
    episode: Option<PathBuf>,
    /// Write the journal, which `maracas replay` reads
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

/// The programs and the episode, wherever the binary is.
const SCENARIO: &str = include_str!("../../../../examples/throttle.toml");
const EPISODE: &str = include_str!("../../../../examples/episode.csv");

/// Everything that was measured.
struct Measured {
    host: String,
    seconds: u64,
    sensor: String,
    reported: Reported,
    stops: Vec<Stops>,
    budgets: Vec<Budget>,
    report: Report,
    verdicts: Vec<Verdict>,
}

/// Measures everything.
pub fn throttle(args: &Args) -> Outcome {
    let stop = maracas_console::signals::stop_flag()?;
    let host = Platform::detect().map_err(|error| Failure::about("this host", error))?;
    let mut journal_file = output::Pending::maybe(args.journal.as_ref())?;
    let scenario = Scenario::parse(SCENARIO, "examples/throttle.toml").map_err(Failure::new)?;
    let case = Case::of(scenario, Machine::Live, &Overrides::default())?;
    let law = Law::of(&case).ok_or_else(|| Failure::new("the policy is not Algorithm 1"))?;
    let setup = live::setup(&case, Some(Duration::from_secs(args.seconds)))?;
    let senses = episode(args.episode.as_deref(), &setup)?;
    let sensor = senses.sensor.as_ref().map(|it| it.describe()).unwrap_or_default();
    if !args.json {
        output::note(&format!("{sensor}: {} s", args.seconds));
    }
    let journal = play(&case, setup, senses, |_| {}, &stop)?;
    if let Some(file) = &mut journal_file {
        let fail = |error| Failure::about("--journal", error);
        std::io::Write::write_all(file, &journal).map_err(fail)?;
    }
    if let Some(file) = journal_file {
        file.commit()?;
    }
    let reported = Reported::read(&journal)?;
    let report = Report::from_journal(&journal).map_err(Failure::new)?;
    let stops = Stops::of(&reported, case.start.cores.len());
    let budgets = judge::budgets(&case, &report);
    let verdicts = judge::verdicts(&reported, &law, &stops, &budgets);
    let (host, seconds) = (host.to_string(), args.seconds);
    let measured = Measured { host, seconds, sensor, reported, stops, budgets, report, verdicts };
    if args.json {
        output::line(&report::to_json(&measured))?;
    } else {
        output::print(&report::text(&measured))?;
    }
    Ok(if verdict::hold(&measured.verdicts) { Answer::Yes } else { Answer::No })
}

/// The episode as senses: this file, or the one that is built in.
fn episode(file: Option<&Path>, setup: &Setup) -> Result<Senses, Failure> {
    let senses = match file {
        Some(file) => played(file, setup).map_err(Failure::new)?,
        None => recorded(EPISODE, setup)?,
    };
    // No core is held to a bandwidth, and a meter is read at every decision.
    Ok(Senses { meters: Vec::new(), ..senses })
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::Instant;
    use maracas_core::journal::Recorder;
    use maracas_session::case::Case;
    use maracas_sim::memory::SharedMemory;
    use maracas_sim::{Options, run_with};

    /// The judge on the simulator, which obeys at once and shares time exactly.
    #[test]
    fn a_simulation_of_the_same_scenario_passes() {
        let scenario = Scenario::parse(SCENARIO, "test").unwrap();
        let case = Case::of(scenario, Machine::Sim, &Overrides::default()).unwrap();
        let mut policy = (case.entry.build)(&case.start, &case.params).ok().unwrap();
        let mut recorder = Recorder::new(&case.header());
        let until = Instant::ZERO + Duration::from_secs(4);
        let memory = case.memory.as_ref().unwrap();
        let (system, programs, options) = (&case.system, &case.programs, Options::new(until));
        let shared = SharedMemory::new(system, memory);
        run_with(system, programs, policy.as_mut(), &options, &mut recorder, shared);
        recorder.end(until);
        let journal = recorder.bytes();
        let reported = Reported::read(journal).unwrap();
        let report = Report::from_journal(journal).unwrap();
        let stops = Stops::of(&reported, 2);
        let budgets = judge::budgets(&case, &report);
        assert_eq!(budgets.len(), 4, "all but the monitor");
        let verdicts = judge::verdicts(&reported, &Law::of(&case).unwrap(), &stops, &budgets);
        for verdict in &verdicts {
            assert!(verdict.holds, "{}: {}", verdict.name, verdict.text);
        }
        assert!(stops.iter().all(|core| core.closings > 10));
    }
}
