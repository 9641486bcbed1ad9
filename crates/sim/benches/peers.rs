//! Our side of `cargo xtask bench peers`; does nothing without `--serve`.
//!
//! Reads one case a line from standard input and answers each with one line:
//!
//! ```text
//! WATCH POLICY CORES HORIZON COST:PERIOD COST:PERIOD ...  ->  JOBS LATE SECONDS | failed WHY
//! place POLICY CORES HORIZON COST:PERIOD COST:PERIOD ...  ->  CORE CORE ...     | failed WHY
//! ```
//! WATCH is `counters`, `table` or `all` (table, journal and Perfetto trace, whose bytes are thrown
//! away). `place` says on which core each task's first job stands.
//!
//! Times are in ticks; seconds are of CPU time, of all threads. What is timed is what the command
//! does with a task set that it has read: the policy is built and the set simulated, with nothing
//! observed, with the table of counts (jobs, misses, preemptions, migrations) that the command ends
//! with, or with the observers of `--journal` and `--trace` too.

use maracas_core::contract::Observer;
use maracas_core::journal::{Header, Recorder};
use maracas_core::params::Params;
use maracas_core::{CoreId, Cost, Duration, Event, Instant, Plan, Program, System, Vcpu, Workload};
use maracas_sim::{Options, Outcome, run};
use maracas_trace::{Metrics, perfetto::Writer};
use rustix::time::{ClockId, clock_gettime};
use std::io::{BufRead, Write};

/// Bytes of journal that are gathered before they go, as the command gathers them.
const PIECE: usize = 1 << 20;

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
        if self.0.bytes().len() >= PIECE {
            std::hint::black_box(self.0.bytes()).clear();
        }
    }
}

/// The core on whose run queue each VCPU was seen first.
struct Places(Vec<Option<usize>>);

impl Observer for Places {
    fn event(&mut self, _: Instant, _: &Event) {}
    fn planned(&mut self, _: Instant, plan: &Plan) {
        for core in 0..plan.cores() {
            let run_queue = plan.run_queue(CoreId(core as u16));
            for grant in run_queue.foreground.iter().chain(run_queue.background.iter()) {
                self.0[grant.vcpu.0 as usize].get_or_insert(core);
            }
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
    fn run(&self, until: Instant, observer: &mut dyn Observer) -> Option<Outcome> {
        let entry = maracas_policies::find(&self.policy)?;
        let mut policy = (entry.build)(&self.system, &Params::new()).ok()?;
        let options = Options::new(until);
        Some(run(&self.system, &self.programs, policy.as_mut(), &options, observer))
    }

    /// One run that is watched so.
    fn simulate(&self, watch: Watch) -> Option<Outcome> {
        if watch == Watch::Counters {
            return self.run(self.horizon, &mut ());
        }
        let header = self.header();
        let mut metrics = Metrics::new(&header);
        let outcome = if watch == Watch::All {
            let trace = Writer::new(&header, std::io::sink());
            let mut all = (&mut metrics, (Journal(Recorder::new(&header)), trace));
            let outcome = self.run(self.horizon, &mut all);
            let (_, (mut journal, trace)) = all;
            journal.0.end(self.horizon);
            trace.finish(self.horizon).expect("a sink takes all");
            outcome
        } else {
            self.run(self.horizon, &mut metrics)
        }?;
        let report = metrics.report(self.horizon);
        let total = (report.total.jobs, report.total.misses);
        assert_eq!(total, (outcome.released, outcome.missed));
        Some(outcome)
    }

    /// Jobs, late jobs and seconds of a run.
    fn timed(&self, watch: Watch) -> Option<String> {
        let start = cpu_time();
        let outcome = std::hint::black_box(self.simulate(watch));
        let seconds = cpu_time() - start;
        outcome.map(|outcome| format!("{} {} {seconds:.9}", outcome.released, outcome.missed))
    }

    /// The core of each task.
    fn places(&self) -> Option<String> {
        let period = |vcpu: &Vcpu| vcpu.reservation.period;
        let longest = self.system.vcpus.iter().map(period).max()?;
        let mut places = Places(vec![None; self.system.vcpus.len()]);
        self.run(Instant::ZERO + longest, &mut places)?;
        let place = |core: Option<usize>| core.map(|core| core.to_string());
        let places: Option<Vec<String>> = places.0.into_iter().map(place).collect();
        places.map(|places| places.join(" "))
    }
}

fn answer(line: &str) -> String {
    let parts = line.split_once(' ');
    let case = parts.and_then(|(word, rest)| Some((word, Case::read(rest)?)));
    let Some((word, case)) = case else { return "failed the case cannot be read".into() };
    let answer = match Watch::named(word) {
        Some(watch) => case.timed(watch),
        None => case.places(),
    };
    answer.unwrap_or_else(|| format!("failed {} refuses the set", case.policy))
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
