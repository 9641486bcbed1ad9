//! `maracas bench enforce`: how exactly a budget is kept, by us and by what the kernel offers, in
//! one run on one core.
//!
//! Each mechanism gives the same program (`work spin`, one thread) the same C every T, next to the
//! same noisy fair load on the same core. What the program got is measured from outside and the
//! same way for all: the kernel's switch records of its thread. With background time on, our
//! program also runs outside its budget, which switch records cannot distinguish; there the
//! journal's foreground segments are judged.
//!
//! What the hypervisor takes spoils periods of all mechanisms alike; it is found out (module
//! `stolen`) and taken out on all sides, and the figures with it are shown beside.

mod balance;
mod colors;
mod deadline;
mod groups;
mod memguard;
mod ours;
mod play;
pub mod primitives;
mod quota;
mod report;
mod stolen;
mod target;
mod throttle;
mod uneven;
mod verdict;
mod windows;

pub use balance::{Args as BalanceArgs, balance};
pub use colors::{Args as ColorsArgs, colors};
pub use memguard::{Args as MemguardArgs, memguard};
pub use primitives::{Args as PrimitivesArgs, primitives};
pub use throttle::{Args as ThrottleArgs, throttle};
pub use uneven::{Args as UnevenArgs, uneven};

use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use maracas_live::host::sched::set_deadline;
use maracas_live::host::switches::Switches;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use target::Spin;
use windows::{Judged, Run, judge};

/// Compare our budgets with SCHED_DEADLINE and CFS quota on this host
///
/// Needs the rights of `maracas run`. Takes four times --seconds for each of 2/10 and 20/100 ms.
///
/// Example: maracas bench enforce --seconds 10 --json
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Seconds for each mechanism
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

/// C and T in nanoseconds: 2/10 ms, below the kernel's tick of 4 ms (250 Hz), and 20/100 ms, above.
const CASES: [(u64, u64); 2] = [(2_000_000, 10_000_000), (20_000_000, 100_000_000)];

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mechanism {
    OursAlone,
    OursWithBackground,
    Deadline,
    Quota,
}

impl Mechanism {
    const ALL: [Self; 4] = [Self::OursAlone, Self::OursWithBackground, Self::Deadline, Self::Quota];

    const fn name(self) -> &'static str {
        match self {
            Self::OursAlone => "maracas, background off",
            Self::OursWithBackground => "maracas, background on",
            Self::Deadline => "SCHED_DEADLINE",
            Self::Quota => "CFS quota",
        }
    }
}

/// What was measured of one mechanism.
struct Measured {
    judged: Judged,
    /// How it was set up, and what the host refused on the way.
    how: String,
}

/// One mechanism's line: measured, or why not.
struct Line {
    mechanism: Mechanism,
    result: Result<Measured, String>,
}

/// One C and T with all its lines.
struct Case {
    budget: u64,
    period: u64,
    lines: Vec<Line>,
}

/// What every measurement needs to know.
struct Bench {
    core: usize,
    length: Duration,
    /// Raised by SIGINT and SIGTERM: what was set up on the host must be taken down first.
    stop: Arc<AtomicBool>,
}

/// Measures everything.
pub fn enforce(args: &Args) -> Outcome {
    let (core, length) = (measured_core()?, Duration::from_secs(args.seconds));
    let bench = Bench { core, length, stop: maracas_console::signals::stop_flag()? };
    let mut cases = Vec::new();
    for (budget, period) in CASES {
        let mut lines = Vec::new();
        for mechanism in Mechanism::ALL {
            if !args.json {
                let (c, t) = (budget / 1_000_000, period / 1_000_000);
                let name = mechanism.name();
                output::note(&format!("{c}/{t} ms, {name}: {} s", args.seconds));
            }
            let result = bench.measure(mechanism, budget, period);
            if bench.stop.load(Ordering::Relaxed) {
                return Err(Failure::new("interrupted; everything was taken down again"));
            }
            lines.push(Line { mechanism, result: result.map_err(|error| error.to_string()) });
        }
        cases.push(Case { budget, period, lines });
    }
    if args.json {
        output::line(&report::to_json(core, args.seconds, &cases))?;
    } else {
        output::print(&report::text(core, args.seconds, &cases))?;
    }
    Ok(Answer::Yes)
}

/// The last core that this process may use: the first ones take most interrupts.
fn measured_core() -> Result<usize, Failure> {
    let set = rustix::thread::sched_getaffinity(None)
        .map_err(|error| Failure::about("this host's cores cannot be counted", error))?;
    (0..rustix::thread::CpuSet::MAX_CPU)
        .rev()
        .find(|core| set.is_set(*core))
        .ok_or_else(|| Failure::new("this process may use no core"))
}

impl Bench {
    fn measure(&self, mechanism: Mechanism, budget: u64, period: u64) -> io::Result<Measured> {
        match mechanism {
            Mechanism::OursAlone => ours::measure(self, budget, period, false).map_err(other),
            Mechanism::OursWithBackground => {
                ours::measure(self, budget, period, true).map_err(other)
            }
            Mechanism::Deadline => self.by_deadline(budget, period),
            Mechanism::Quota => self.by_quota(budget, period),
        }
    }

    fn by_deadline(&self, budget: u64, period: u64) -> io::Result<Measured> {
        // The group must outlive the programs inside it, so it is made first and dropped last.
        let exclusive = deadline::Exclusive::of(self.core);
        let noise = Spin::start(self.core).map_err(other)?;
        let target = Spin::start(self.core).map_err(other)?;
        let how = match &exclusive {
            Ok(group) => {
                group.take(noise.id())?;
                group.take(target.id())?;
                format!("pinned, in the exclusive cpuset {}", group.path().display())
            }
            Err(refused) => {
                target::unpin(target.id()).map_err(other)?;
                format!("not pinned, since the host refuses an exclusive cpuset ({refused})")
            }
        };
        set_deadline(target.id(), budget, period)?;
        self.watch((&target, &noise), budget, period, how)
    }

    fn by_quota(&self, budget: u64, period: u64) -> io::Result<Measured> {
        let group = quota::Quota::of(budget, period)?;
        let noise = Spin::start(self.core).map_err(other)?;
        let target = Spin::start(self.core).map_err(other)?;
        group.take(target.id())?;
        let how = format!("pinned, in {}", group.path());
        self.watch((&target, &noise), budget, period, how)
    }

    /// Lets the target settle, records its switches and judges them.
    fn watch(
        &self,
        (target, noise): (&Spin, &Spin),
        budget: u64,
        period: u64,
        how: String,
    ) -> io::Result<Measured> {
        std::thread::sleep(SETTLE);
        let start = maracas_work::clock::monotonic_ns();
        let [runs, others] = self.record([target.id(), noise.id()])?;
        let window = (start, maracas_work::clock::monotonic_ns());
        let mut gaps = target.gaps().stolen(&runs);
        gaps.extend(noise.gaps().stolen(&others));
        let judged = judge(&runs, &gaps, window, budget, period).ok_or_else(|| {
            io::Error::other("no period can be distinguished; take more --seconds")
        })?;
        Ok(Measured { judged, how })
    }

    /// When the target and the noise ran, by their threads, from now on until the measurement's
    /// time is over.
    fn record(&self, threads: [u32; 2]) -> io::Result<[Vec<Run>; 2]> {
        let [target, noise] = threads;
        let mut switches = [Switches::of(target)?, Switches::of(noise)?];
        let began = Instant::now();
        while began.elapsed() < self.length && !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
            switches.iter_mut().for_each(Switches::drain);
        }
        let [target, noise] = switches;
        let runs = |of: Switches| -> io::Result<Vec<Run>> {
            Ok(of.finish()?.into_iter().map(|(from, to)| Run::whole(from, to)).collect())
        };
        Ok([runs(target)?, runs(noise)?])
    }
}

/// Time for a mechanism to settle before its periods count.
const SETTLE: Duration = Duration::from_millis(500);

fn other(failure: Failure) -> io::Error {
    match failure {
        Failure::Bad(line) => io::Error::other(line),
        Failure::OutputClosed => io::Error::from(io::ErrorKind::BrokenPipe),
    }
}
