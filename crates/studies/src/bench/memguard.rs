//! `maracas bench memguard`: how soon a core that used up its memory bandwidth stands still, and
//! how well that keeps it to the bandwidth.
//!
//! One core runs a walk through an array that no cache holds, under MemGuard around MARACAS with a
//! bandwidth far below what the walk would take. It is measured two times: with the alarm of the
//! core's counter, and without, when the agent reads it again and again. Reads are counted by the
//! host's own monitors; where it has none, a recording at an even rate stands for them, so that the
//! mechanism is measured, but no bandwidth.

mod report;
mod reported;

use super::play::{play, recorded, replays};
use super::verdict::{self, Verdict};
use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use maracas_core::memory::LINE_BYTES;
use maracas_core::{Duration, Instant};
use maracas_live::Setup;
use maracas_live::host::platform::Platform;
use maracas_live::sense::{Meter, Senses};
use maracas_scenario::Scenario;
use maracas_session::case::{Case, Machine, Overrides};
use maracas_session::live::{self, senses::Asked};
use maracas_trace::table::time;
use reported::Reported;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicBool;

/// Measure how soon a core that used up its memory bandwidth stands still
///
/// A memory hog on one core under memguard+maracas, with the alarm of the core's counter and
/// without. Exits 1 where the median is above 1 ms, where the hog reads more than 2 % beyond its
/// bandwidth, or where a journal does not replay. Needs the rights of `maracas run`; where the host
/// counts no reads of memory, a recording stands for them and no bandwidth is judged.
///
/// Example: maracas bench memguard --seconds 5 --json
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Seconds for each of the two
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(3..=3600))]
    seconds: u64,
    /// The hog's bandwidth in MB/s (1e6 bytes)
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    bandwidth: u64,
    #[command(flatten)]
    asked: Asked,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

/// What a core may take to stand still: below a millisecond where the PMU allows it.
const STANDS_WITHIN: Duration = Duration::from_millis(1);
/// By what fraction more may be read than the bandwidth says: counts at the edges of the window.
const BEYOND: f64 = 0.02;
/// The hog writes its array first, which is no walk yet.
const SETTLE: Duration = Duration::from_secs(2);
/// Eight times the largest cache of most hosts. In random order, since monitors of some cores see
/// no prefetched line.
const ARRAY: &str = "256MB";

/// One way to notice that the bandwidth is used up.
struct Way {
    name: &'static str,
    reported: Reported,
    exact: bool,
}

/// Everything that was measured.
struct Measured {
    host: String,
    seconds: u64,
    asked_mb_s: u64,
    /// How reads were counted.
    counted: String,
    /// Whether they were this host's own.
    real: bool,
    ways: Vec<Way>,
    verdicts: Vec<Verdict>,
}

/// Measures everything.
pub fn memguard(args: &Args) -> Outcome {
    let stop = maracas_console::signals::stop_flag()?;
    let host = Platform::detect().map_err(|error| Failure::about("this host", error))?;
    let (mut ways, mut counted, mut real) = (Vec::new(), String::new(), true);
    for name in ["by alarm", "by asking"] {
        let case = case(args.bandwidth)?;
        let setup = live::setup(&case, Some(Duration::from_secs(args.seconds)))?;
        let (mut senses, how) = meters(args, &case, &setup)?;
        if !ways.is_empty() && real != how.is_none() {
            let why = "this host's counters worked once and not again; measure on a quiet host";
            return Err(Failure::new(why));
        }
        real = how.is_none();
        let alarms = senses.meters.iter().any(|meter| meter.fd().is_some());
        if counted.is_empty() {
            counted = how.unwrap_or_else(|| senses.notes.join("; "));
        }
        if name == "by asking" {
            senses.meters = senses.meters.into_iter().map(Asking::boxed).collect();
        } else if real && !alarms {
            continue;
        }
        if !args.json {
            output::note(&format!("{name}: {} s", args.seconds));
        }
        ways.push(run(name, &case, setup, senses, &stop)?);
    }
    let verdicts = verdicts(&ways, args.bandwidth, real);
    let measured = Measured {
        host: host.to_string(),
        seconds: args.seconds,
        asked_mb_s: args.bandwidth,
        counted,
        real,
        ways,
        verdicts,
    };
    if args.json {
        output::line(&report::to_json(&measured))?;
    } else {
        output::print(&report::text(&measured))?;
    }
    Ok(if verdict::hold(&measured.verdicts) { Answer::Yes } else { Answer::No })
}

/// The hog on one core.
fn case(mb_s: u64) -> Result<Case, Failure> {
    let text = format!(
        "version = 1\n[platform]\ncores = 1\n[policy]\nname = \"memguard+maracas\"\n\
         bandwidth = \"{mb_s}MB/s\"\nreclaim = false\n[[program]]\nname = \"hog\"\n\
         command = [\"maracas\", \"work\", \"mwalk\", \"--size\", \"{ARRAY}\", \"--quiet\"]\n\
         output = \"null\"\nbudget = \"5ms\"\nperiod = \"10ms\"\n"
    );
    let scenario = Scenario::parse(&text, "bench").map_err(Failure::new)?;
    Case::of(scenario, Machine::Live, &Overrides::default())
}

fn run(
    name: &'static str,
    case: &Case,
    setup: Setup,
    senses: Senses,
    stop: &AtomicBool,
) -> Result<Way, Failure> {
    let journal = play(case, setup, senses, |_| {}, stop)?;
    let reported = Reported::read(&journal, Instant::ZERO + SETTLE)?;
    Ok(Way { name, reported, exact: replays(&journal)? })
}

/// This host's own meters or, where it has none, those of a recording, and then why.
fn meters(args: &Args, case: &Case, setup: &Setup) -> Result<(Senses, Option<String>), Failure> {
    let found = args.asked.find(case, setup)?;
    if !found.senses.meters.is_empty() {
        return Ok((found.senses, None));
    }
    // Half of each period beyond the bandwidth.
    let lines_a_s = 2 * args.bandwidth * 1_000_000 / LINE_BYTES;
    let recording =
        format!("# repeat\ntime_us,requests,occupancy,core0\n1000000,{lines_a_s},0,{lines_a_s}\n");
    let senses = Senses { sensor: None, ..recorded(&recording, setup)? };
    let how = format!(
        "reads of memory are not counted here ({}): a recording at an even rate stands for them",
        found.uncounted
    );
    Ok((senses, Some(how)))
}

/// A meter that never signals, so that it must be read.
struct Asking(Box<dyn Meter>);

impl Asking {
    fn boxed(meter: Box<dyn Meter>) -> Box<dyn Meter> {
        Box::new(Self(meter))
    }
}

impl Meter for Asking {
    fn read(&mut self, now: Instant) -> io::Result<u64> {
        self.0.read(now)
    }
    fn arm(&mut self, _: Option<u64>) -> io::Result<()> {
        Ok(())
    }
    fn fd(&self) -> Option<RawFd> {
        None
    }
}

fn verdicts(ways: &[Way], asked_mb_s: u64, real: bool) -> Vec<Verdict> {
    let mut verdicts: Vec<_> = ways.iter().map(stands).collect();
    if real {
        verdicts.extend(ways.iter().map(|way| keeps(way, asked_mb_s)));
    }
    verdicts.push(Verdict {
        name: "replay",
        holds: ways.iter().all(|way| way.exact),
        text: "a fresh policy decides the same from each journal".into(),
    });
    verdicts
}

fn stands(way: &Way) -> Verdict {
    let said =
        |percent| way.reported.took(percent).map_or("-".into(), |it| time(it.ticks() as f64));
    Verdict {
        name: "stands",
        holds: way.reported.took(50).is_some_and(|median| median < STANDS_WITHIN),
        text: format!(
            "{}, the core stands still within {STANDS_WITHIN} of its mark in the median: p50 {}, \
             p99 {}, of {}",
            way.name,
            said(50),
            said(99),
            way.reported.closings.len()
        ),
    }
}

fn keeps(way: &Way, asked_mb_s: u64) -> Verdict {
    let read = way.reported.read_mb_s();
    Verdict {
        name: "keeps",
        holds: read > 0.0 && read <= asked_mb_s as f64 * (1.0 + BEYOND),
        text: format!(
            "{}, the hog reads no more than {} % beyond {asked_mb_s}MB/s: {read:.1}MB/s",
            way.name,
            BEYOND * 100.0
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::reported::Closing;
    use super::*;

    #[test]
    fn more_than_the_bandwidth_and_slow_cores_are_no() {
        let way = |took_us: &[u64], bytes: u64| Way {
            name: "by alarm",
            reported: Reported {
                closings: took_us
                    .iter()
                    .map(|us| Closing { took: Duration::from_micros(*us), beyond: 0 })
                    .collect(),
                reads: bytes / LINE_BYTES,
                window: Duration::from_secs(1),
            },
            exact: true,
        };
        let judged = |way: Way, real| {
            let verdicts = verdicts(&[way], 100, real);
            verdicts.iter().map(|it| (it.name, it.holds)).collect::<Vec<_>>()
        };
        let fine = [("stands", true), ("keeps", true), ("replay", true)];
        assert_eq!(judged(way(&[20, 900, 5000], 101_000_000), true), fine);
        assert_eq!(judged(way(&[20], 103_000_000), true)[1], ("keeps", false));
        assert_eq!(judged(way(&[20], 0), true)[1], ("keeps", false), "nothing was counted");
        assert_eq!(judged(way(&[20, 1000], 1), false), [("stands", true), ("replay", true)]);
        assert_eq!(judged(way(&[1000, 1001, 20], 1), false)[0], ("stands", false));
        assert_eq!(judged(way(&[], 1), false)[0], ("stands", false), "never closed");
    }
}
