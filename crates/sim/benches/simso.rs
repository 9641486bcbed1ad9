//! Our side of `cargo xtask bench simso` and of `bench peers`; does nothing without `--serve`.
//!
//! Reads one case a line from standard input and answers each with one line:
//!
//! ```text
//! POLICY CORES HORIZON COST:PERIOD ...  ->  JOBS LATE SECONDS SECONDS_WITH_TABLE | failed WHY
//! WATCH POLICY CORES HORIZON COST:PERIOD ...  ->  JOBS LATE SECONDS | failed WHY
//! ```
//! WATCH is `counters`, `table` or `all` (table, journal and Perfetto trace, whose bytes are thrown
//! away): one run that is watched so. Without it each time is the median of some runs.
//!
//! Times are in ticks; seconds are of CPU time. What is timed is what the command does with a task
//! set that it has read: the policy is built and the set simulated, with nothing observed and with
//! the table of counts (jobs, misses, preemptions, migrations) that the command ends with.

use maracas_core::contract::Observer;
use maracas_core::journal::{Header, Recorder};
use maracas_core::params::Params;
use maracas_core::{Cost, Duration, Event, Instant, Plan, Program, System, Vcpu, Workload};
use maracas_sim::{Options, Outcome, run};
use maracas_trace::{Metrics, perfetto::Writer};
use rustix::time::{ClockId, clock_gettime};
use std::io::{BufRead, Write};

/// A case is repeated for so many seconds and at least so often, and the median is taken: one of
/// our runs takes milliseconds.
const AT_LEAST: (f64, usize) = (0.2, 5);

/// CPU time of this process in seconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// What a run is watched by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    Counters,
    Table,
    All,
}

impl Watch {
    fn named(word: &str) -> Option<Self> {
        match word {
            "counters" => Some(Self::Counters),
            "table" => Some(Self::Table),
            "all" => Some(Self::All),
            _ => None,
        }
    }
}

/// A journal whose bytes are thrown away when they are some.
struct Journal(Recorder);

impl Observer for Journal {
    fn event(&mut self, at: Instant, event: &Event) {
        self.0.event(at, event);
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        self.0.planned(now, plan);
        if self.0.bytes().len() > 1 << 16 {
            std::hint::black_box(self.0.bytes()).clear();
        }
    }
}

struct Case {
    policy: String,
    system: System,
    programs: Vec<Program>,
    horizon: Instant,
}

impl Case {
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let policy = words.next()?.to_string();
        let cores = words.next()?.parse().ok()?;
        let horizon = Instant::from_ticks(words.next()?.parse().ok()?);
        let ticks = |word: &str| word.parse().ok().map(Duration::from_ticks);
        let vcpu = |(id, word): (u32, &str)| {
            let (cost, period) = word.split_once(':')?;
            Some(Vcpu::new(id, ticks(cost)?, ticks(period)?).periodic())
        };
        let vcpus: Vec<Vcpu> = (0..).zip(words).map(vcpu).collect::<Option<_>>()?;
        let program = |vcpu: &Vcpu| {
            let cost = Cost::Fixed(vcpu.reservation.budget);
            Program::new(vcpu.id, Workload::Periodic { cost })
        };
        let programs = vcpus.iter().map(program).collect();
        Some(Self { policy, system: System::new(cores, vcpus), programs, horizon })
    }

    fn header(&self) -> Header {
        Header {
            policy: self.policy.clone(),
            params: Params::new(),
            system: self.system.clone(),
            names: self.system.vcpus.iter().map(|vcpu| vcpu.id.to_string()).collect(),
            machine: "sim".into(),
            version: String::new(),
            seed: 0,
        }
    }

    /// One run; `None` where the policy refuses the set.
    fn simulate(&self, watch: Watch) -> Option<Outcome> {
        let entry = maracas_policies::find(&self.policy)?;
        let mut policy = (entry.build)(&self.system, &Params::new()).ok()?;
        let (system, programs) = (&self.system, &self.programs);
        let options = Options::new(self.horizon);
        let mut run = |observer: &mut dyn Observer| {
            run(system, programs, policy.as_mut(), &options, observer)
        };
        if watch == Watch::Counters {
            return Some(run(&mut ()));
        }
        let header = self.header();
        let mut metrics = Metrics::new(&header);
        let outcome = if watch == Watch::All {
            let trace = Writer::new(&header, std::io::sink());
            let mut all = (&mut metrics, (Journal(Recorder::new(&header)), trace));
            run(&mut all)
        } else {
            run(&mut metrics)
        };
        let report = metrics.report(self.horizon);
        let total = (report.total.jobs, report.total.misses);
        assert_eq!(total, (outcome.released, outcome.missed));
        Some(outcome)
    }

    /// One run and its time.
    fn timed(&self, watch: Watch) -> (Option<Outcome>, f64) {
        let start = cpu_time();
        let outcome = std::hint::black_box(self.simulate(watch));
        (outcome, cpu_time() - start)
    }

    /// The median time of a run.
    fn seconds(&self, watch: Watch) -> f64 {
        let (least, count) = AT_LEAST;
        let mut times = Vec::new();
        while times.len() < count || times.iter().sum::<f64>() < least {
            times.push(self.timed(watch).1);
        }
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }
}

fn answer(line: &str) -> String {
    let first = line.split_once(' ');
    let watched = first.and_then(|(word, rest)| Some((Watch::named(word)?, rest)));
    let line = watched.map_or(line, |(_, rest)| rest);
    let Some(case) = Case::read(line) else { return "failed the case cannot be read".into() };
    let (outcome, seconds) = case.timed(watched.map_or(Watch::Counters, |(watch, _)| watch));
    let Some(outcome) = outcome else { return format!("failed {} refuses the set", case.policy) };
    if watched.is_some() {
        return format!("{} {} {seconds:.9}", outcome.released, outcome.missed);
    }
    let (counters, table) = (case.seconds(Watch::Counters), case.seconds(Watch::Table));
    format!("{} {} {counters:.9} {table:.9}", outcome.released, outcome.missed)
}

fn main() {
    if std::env::args().all(|argument| argument != "--serve") {
        return;
    }
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("the cases can be read");
        writeln!(out, "{}", answer(&line)).expect("the answers are read");
    }
}
