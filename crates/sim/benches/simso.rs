//! Our side of `cargo xtask bench simso`; does nothing without `--serve`.
//!
//! Reads one case a line from standard input and answers each with one line:
//!
//! ```text
//! POLICY CORES HORIZON COST:PERIOD ...  ->  JOBS LATE SECONDS SECONDS_WITH_TABLE | failed WHY
//! ```
//! Times are in ticks; seconds are of CPU time. What is timed is what the command does with a task
//! set that it has read: the policy is built and the set simulated, with nothing observed and with
//! the table of counts (jobs, misses, preemptions, migrations) that the command ends with.

use maracas_core::journal::Header;
use maracas_core::params::Params;
use maracas_core::{Cost, Duration, Instant, Program, System, Vcpu, Workload};
use maracas_sim::{Options, Outcome, run};
use maracas_trace::Metrics;
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

    /// One run, with the table or without; `None` where the policy refuses the set.
    fn simulate(&self, table: bool) -> Option<Outcome> {
        let entry = maracas_policies::find(&self.policy)?;
        let mut policy = (entry.build)(&self.system, &Params::new()).ok()?;
        let (system, programs) = (&self.system, &self.programs);
        let options = Options::new(self.horizon);
        if !table {
            return Some(run(system, programs, policy.as_mut(), &options, &mut ()));
        }
        let mut metrics = Metrics::new(&self.header());
        let outcome = run(system, programs, policy.as_mut(), &options, &mut metrics);
        let report = metrics.report(self.horizon);
        let total = (report.total.jobs, report.total.misses);
        assert_eq!(total, (outcome.released, outcome.missed));
        Some(outcome)
    }

    /// The median time of a run.
    fn seconds(&self, table: bool) -> f64 {
        let (least, count) = AT_LEAST;
        let mut times = Vec::new();
        while times.len() < count || times.iter().sum::<f64>() < least {
            let start = cpu_time();
            std::hint::black_box(self.simulate(table));
            times.push(cpu_time() - start);
        }
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }
}

fn answer(line: &str) -> String {
    let Some(case) = Case::read(line) else { return "failed the case cannot be read".into() };
    let Some(outcome) = case.simulate(false) else {
        return format!("failed {} refuses the set", case.policy);
    };
    let (counters, table) = (case.seconds(false), case.seconds(true));
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
