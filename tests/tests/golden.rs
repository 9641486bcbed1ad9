//! Did any journal change? A few fixed runs of every policy, kept under `tests/golden/`: one small
//! schedule in full, and for larger ones the counters and a hash of the journal.
//!
//! `UPDATE_GOLDEN=1 cargo test -p maracas-tests --test golden` writes them anew. Look at what
//! changed before you commit it; a new policy's file comes to be in the same way.

use maracas_core::contract::{Entry, Mode, Observer, Sample, ServiceRequest, Statistic};
use maracas_core::journal::{Header, Recorder};
use maracas_core::memory::{Memory, Partition};
use maracas_core::params::Value;
use maracas_core::{CoreId, Cost, Duration, Event, Instant, Plan, Program, System, Vcpu, Workload};
use maracas_policies::ENTRIES;
use maracas_scenario::presets;
use maracas_sim::{Outcome, at_start};
use maracas_tests::{Case, Mix, RandomSystem, generate};
use std::fmt::{self, Write as _};
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(format!("{name}.txt"))
}

/// Four tasks on two cores, in milliseconds: U = 1/2 + 1/4 + 3/10 + 1/10.
fn small() -> RandomSystem {
    let ms = Duration::from_millis;
    let tasks = [(2, 4), (2, 8), (3, 10), (2, 20)];
    let vcpus: Vec<_> = (0..)
        .zip(tasks)
        .map(|(id, (budget, period))| Vcpu::new(id, ms(budget), ms(period)).periodic())
        .collect();
    let program = |vcpu: &Vcpu| {
        let cost = Cost::Fixed(vcpu.reservation.budget);
        Program::new(vcpu.id, Workload::Periodic { cost })
    };
    RandomSystem { programs: vcpus.iter().map(program).collect(), system: System::new(2, vcpus) }
}

/// The schedule in full, one segment a line.
#[derive(Default)]
struct Segments(String);

impl Observer for Segments {
    fn event(&mut self, _: Instant, event: &Event) {
        if let Event::Ran(segment) = event {
            let mode = if segment.mode == Mode::Foreground { "fg" } else { "bg" };
            let (vcpu, core, from, to) = (segment.vcpu, segment.core, segment.from, segment.to);
            writeln!(self.0, "{core} {from} {to} {vcpu} {mode} {:?}", segment.end)
                .expect("a string takes everything");
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

/// FNV-1a, 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

fn journal_line(case: &Case) -> String {
    let Some(mut policy) = case.policy() else { return "refused".into() };
    let mut recorder = Recorder::new(&Header {
        policy: case.entry.name.into(),
        params: case.params.clone(),
        system: at_start(&case.system(), &case.random.programs),
        names: Vec::new(),
        machine: "sim".into(),
        version: String::new(),
        seed: case.seed,
    });
    let outcome = case.run(&mut *policy, &mut recorder);
    recorder.end(outcome.end);
    let Outcome { released, completed, missed, decisions, events, context_switches, .. } = outcome;
    format!(
        "released {released} completed {completed} missed {missed} decisions {decisions} \
         events {events} switches {context_switches} journal {:016x}",
        hash(recorder.bytes())
    )
}

fn golden(entry: &'static Entry) -> String {
    let mut text = format!("{} on (2,4) (2,8) (3,10) (2,20) ms, 2 cores, 40 ms:\n", entry.name);
    let mut case = Case::new(entry, small(), 0);
    case.until = Instant::ZERO + Duration::from_millis(40);
    match case.policy() {
        None => text.push_str("refused\n"),
        Some(mut policy) => {
            let mut segments = Segments::default();
            case.run(&mut *policy, &mut segments);
            text.push_str(&segments.0);
        }
    }
    let jobs_only = entry.needs.jobs;
    let unruly = Mix { jobs_only, changes: true, unruly: true, load: 65 };
    for (name, mix) in [("tasks", Mix::tasks(60)), ("unruly", unruly)] {
        for seed in 0..6 {
            let case = Case::new(entry, generate(1_000 + seed, mix), seed);
            writeln!(text, "{name} {seed}: {}", journal_line(&case)).expect("a string takes all");
        }
    }
    text
}

/// Holds `now` to what is kept under `name`, or writes it there.
fn compare(name: &str, now: String) {
    let path = path(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return std::fs::write(&path, now).expect("tests/golden/ is there and can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let first = kept.lines().zip(now.lines()).find(|(kept, now)| kept != now);
    assert!(
        kept == now,
        "{} differs, first {first:?}; UPDATE_GOLDEN=1 writes it anew",
        path.display()
    );
}

#[test]
fn no_journal_changed() {
    for entry in ENTRIES.iter().filter(|entry| !entry.needs.counters) {
        compare(entry.name, golden(entry));
    }
}

/// What came of contention: samples, moves, and which cores were closed and when.
#[derive(Default)]
struct Doings {
    text: String,
    closed: Vec<CoreId>,
}

impl Doings {
    fn note(&mut self, line: fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("a string takes everything");
    }
}

impl Observer for Doings {
    fn event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Sampled(sample) => {
                let Sample { requests, occupancy, by_core } = sample;
                let latency = occupancy / (*requests).max(1);
                self.note(format_args!("{at} {requests} requests, {latency} cycles, {by_core:?}"));
            }
            Event::ServiceDone(ServiceRequest::Move { vcpu, to, .. }) => {
                self.note(format_args!("{at} {vcpu} to {to}"));
            }
            Event::ServiceDone(ServiceRequest::Sample)
            | Event::Ran(_)
            | Event::Released(_)
            | Event::Completed(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Utilized { .. }
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_)
            | Event::Failed { .. } => {}
        }
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        let cores = (0..plan.cores() as u16).map(CoreId);
        let closed: Vec<_> =
            cores.filter(|core| !plan.run_queue(*core).background_allowed).collect();
        if closed.len() != self.closed.len() {
            self.note(format_args!("{now} surplus time is withheld from {closed:?}"));
        }
        self.closed = closed;
    }
}

/// Twelve VCPUs on the four cores of the paper's machine, of which every third leaves. Without the
/// cache, whose model needs logarithms: these may differ in the last bit from platform to platform.
fn contended(name: &str, params: &[(&str, &str)]) -> Case {
    let (entry, ms) = (maracas_policies::find(name), Duration::from_millis);
    let entry = entry.expect("every policy is registered");
    let platform = presets::platform("i5-2500k").expect("it is a preset");
    let platform = platform.memory.expect("it has a memory");
    let programs = ["m_jump", "compress", "mcf", "lbm"].map(presets::workload);
    let vcpus: Vec<_> =
        (0..12).map(|id| Vcpu::new(id, ms(1 + u64::from(id) / 2), ms(50))).collect();
    let program = |vcpu: &Vcpu| {
        let leaves = vcpu.id.0 % 3 == 2;
        let depart = Instant::ZERO + ms(40 + 10 * u64::from(vcpu.id.0));
        let depart = if leaves { depart } else { Instant::NEVER };
        Program { depart, ..Program::new(vcpu.id, Workload::Busy) }
    };
    let programs_of = vcpus.iter().map(program).collect();
    let memory = Memory {
        cycles_per_us: platform.cycles_per_us,
        dram: platform.dram,
        cache: None,
        partition: Partition::Colors,
        devices: Vec::new(),
        programs: programs.into_iter().cycle().take(vcpus.len()).collect(),
    };
    let random = RandomSystem { system: System::new(4, vcpus), programs: programs_of };
    let mut case = Case::new(entry, random, 0);
    case.memory = Some(memory);
    case.until = Instant::ZERO + ms(400);
    for (name, value) in params {
        case.params.set(name, Value::Text((*value).into()));
    }
    assert_eq!(case.params.check(entry.params), Ok(()));
    case
}

fn golden_with_memory(case: &Case) -> String {
    let (mut policy, mut doings) = (case.policy().expect("it fits"), Doings::default());
    case.run(&mut *policy, &mut doings);
    for Statistic { name, core, value, .. } in
        policy.statistics().iter().filter(|statistic| statistic.value > 0)
    {
        let place = core.map_or_else(String::new, |core| format!(" on {core}"));
        doings.note(format_args!("{name}{place}: {value}"));
    }
    doings.note(format_args!("{}", journal_line(case)));
    doings.text
}

#[test]
fn no_journal_with_memory_changed() {
    let throttled = [("throttle", "latency"), ("mem_period", "50ms"), ("balance", "vlb")];
    compare("maracas-memory", golden_with_memory(&contended("maracas", &throttled)));
    let mut reserved = throttled.to_vec();
    reserved.extend([("bandwidth", "300MB/s, 200MB/s, 100MB/s, none"), ("spare", "share")]);
    let case = contended("memguard+maracas", &reserved);
    compare("memguard-maracas", golden_with_memory(&case));
}
