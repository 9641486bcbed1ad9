//! What a decision costs by the number of cores and VCPUs: from the events since the last one to
//! the plan, through the trait object, without the simulator. And what it takes to admit and
//! simulate as much as is legal.
//!
//! A stream of events and calls is recorded from a simulation at 60 % of the cores, one periodic
//! job for each VCPU with a period between 10 and 100 ms (log-uniform at 1 us grain: Emberson,
//! Stafford, Davis, WATERS 2010) and a random first release, so that releases do not coincide. It
//! is played to a fresh policy; the last [`DECISIONS`] of it are timed, in processor time. After
//! criterion's own figures the medians are printed as a table; `SCALE_FIGURES=DIRECTORY` has them
//! drawn too.
//!
//! Two ways of deciding are timed. *One thread for all cores*, as in the simulator: what it knows
//! of all VCPUs goes through the caches of one core. And *each core alone*, by the part of the
//! policy that decides there on the live machine ([`Apart`]): what some cores are told and asked is
//! played to their parts, one core after the other, so that a cache holds what one core knows, as
//! each core's own does. There programs run between decisions and take some of that cache, which
//! is not in it; nor are locks.

#![allow(clippy::print_stdout)] // The medians are read on stdout.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use maracas_core::contract::{Apart, Entry, Observer, Part, RunQueue, decide};
use maracas_core::params::Params;
use maracas_core::{
    Arrival, CoreId, Cost, Duration, Event, Instant, MAX_CORES, Plan, Policy, Program, System,
    Vcpu, VcpuId, Workload,
};
use maracas_sim::{Options, run};
use maracas_sweep::figure::{Drawing, Figure, Line};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time;

const CORES: [usize; 3] = [8, 64, 256];
const VCPUS: [u32; 3] = [100, 1_000, 10_000];
const PARTITIONED: [&str; 4] = ["maracas", "p-edf", "p-rm", "round-robin"];
const GLOBAL: [&str; 1] = ["g-edf"];
/// How many decisions are timed: some milliseconds of them.
const DECISIONS: usize = 20_000;
/// How many cores are played alone: the first ones, which first-fit fills most.
const ALONE: usize = 4;
/// How many decisions of each of them are timed, after a quarter as many that are not.
const DECISIONS_ALONE: usize = 4_000;

/// SplitMix64 as a number in [0, 1).
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z >> 11) as f64 / (1u64 << 53) as f64
}

fn system(cores: usize, vcpus: u32) -> (System, Vec<Program>) {
    let mut state = 1;
    // One VCPU a core at most has a whole 60 %.
    let share = 0.6 * (cores as f64 / f64::from(vcpus)).min(1.0);
    let mut programs = Vec::new();
    let vcpus = (0..vcpus).map(|id| {
        let micros = (10_000.0 * 10f64.powf(uniform(&mut state))) as u64;
        let period = Duration::from_micros(micros);
        let budget = Duration::from_ticks((period.ticks() as f64 * share) as u64);
        let offset = Duration::from_ticks((period.ticks() as f64 * uniform(&mut state)) as u64);
        programs.push(Program::new(VcpuId(id), Workload::Periodic { cost: Cost::Fixed(budget) }));
        Vcpu { arrival: Arrival::Periodic { offset }, ..Vcpu::new(id, budget, period) }
    });
    (System::new(cores, vcpus.collect()), programs)
}

fn build(entry: &Entry, system: &System) -> Box<dyn Policy> {
    let built = (entry.build)(system, &Params::new());
    built.unwrap_or_else(|why| panic!("{} refuses: {:?}", entry.name, why.refused.first()))
}

/// The processor time of this thread: on a busy machine only that can be compared.
fn cpu_time() -> time::Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    time::Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// An event that a policy is given, or `None` where it is asked.
type Call = (Instant, Option<Event>);

/// Plays `calls`, of which so many ask; how long the last `timed` decisions took, with their
/// events.
fn play(
    policy: &mut dyn Policy,
    plan: &mut Plan,
    calls: &[Call],
    (decisions, timed): (usize, usize),
) -> time::Duration {
    let mut early = decisions - timed;
    let mut begun = None;
    for (at, event) in calls {
        if early == 0 && begun.is_none() {
            begun = Some(cpu_time());
        }
        match event {
            Some(event) => policy.on_event(*at, event),
            None => {
                decide(policy, *at, plan);
                early = early.saturating_sub(1);
            }
        }
    }
    black_box(&plan);
    begun.map_or(time::Duration::ZERO, |begun| cpu_time() - begun)
}

/// The events that a machine gave its policy and when it asked.
#[derive(Default)]
struct Stream {
    calls: Vec<Call>,
    decisions: usize,
}

impl Observer for Stream {
    fn event(&mut self, at: Instant, event: &Event) {
        self.calls.push((at, Some(event.clone())));
    }
    fn planned(&mut self, now: Instant, _: &Plan) {
        self.calls.push((now, None));
        self.decisions += 1;
    }
}

impl Stream {
    fn record(entry: &Entry, system: &System, programs: &[Program]) -> Self {
        // Two decisions a job or more, and a period's mean is 39 ms.
        let horizon = 39_000_000 * DECISIONS as u64 / programs.len() as u64;
        let horizon = Instant::from_ticks(horizon.max(150_000_000));
        let mut stream = Self::default();
        let mut policy = build(entry, system);
        run(system, programs, policy.as_mut(), &Options::new(horizon), &mut stream);
        assert!(stream.decisions >= DECISIONS, "{} decisions", stream.decisions);
        stream
    }
    /// Plays all of it to a fresh policy; how long the last decisions took, with their events.
    fn play(&self, entry: &Entry, system: &System) -> time::Duration {
        let mut policy = build(entry, system);
        let mut plan = Plan::new(system.cores.len());
        play(policy.as_mut(), &mut plan, &self.calls, (self.decisions, DECISIONS))
    }
}

/// What is played to one core's part.
#[derive(Default)]
struct Alone {
    core: CoreId,
    calls: Vec<Call>,
    decisions: usize,
    /// Whether something happened there since it was asked last.
    has_news: bool,
    /// When it is to be asked whatever happens.
    due: Option<Instant>,
    /// Its run queue at the end.
    last: RunQueue,
}

/// The events of some cores.
#[derive(Default)]
struct Streams {
    /// What all cores are told, up to the first decision.
    first: Vec<Call>,
    has_begun: bool,
    cores: Vec<Alone>,
    /// Where those VCPUs are that are on them, in `cores`.
    homes: BTreeMap<VcpuId, usize>,
}

impl Observer for Streams {
    fn event(&mut self, at: Instant, event: &Event) {
        let vcpu = event.happened_to().expect("the bench has no other events");
        if !self.has_begun {
            return self.first.push((at, Some(event.clone())));
        }
        let Some(place) = self.homes.get(&vcpu) else { return };
        let core = &mut self.cores[*place];
        core.calls.push((at, Some(event.clone())));
        core.has_news = true;
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        for core in &mut self.cores {
            if self.has_begun && (core.has_news || core.due.is_some_and(|due| due <= now)) {
                core.calls.push((now, None));
                core.decisions += 1;
                core.last.clone_from(plan.run_queue(core.core));
            }
            core.has_news = false;
            core.due = Some(plan.core_wake(core.core));
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            self.first.push((now, None));
        }
    }
}

impl Streams {
    fn record(entry: &Entry, system: &System, programs: &[Program]) -> Self {
        let mut streams = Self::default();
        for verdict in (entry.admit)(system, &Params::new()).cores {
            let Some(core) = verdict.core.filter(|_| streams.cores.len() < ALONE) else { break };
            streams.homes.extend(verdict.vcpus.iter().map(|id| (*id, streams.cores.len())));
            streams.cores.push(Alone { core, ..Alone::default() });
        }
        // A core has a VCPU at least, with two decisions a job or more and a mean period of 39 ms.
        let fewest = (programs.len() / system.cores.len()).max(1) as u64;
        let decisions = DECISIONS_ALONE + DECISIONS_ALONE / 4;
        let horizon = Instant::from_ticks(60_000_000 * decisions as u64 / fewest);
        let mut policy = build(entry, system);
        run(system, programs, policy.as_mut(), &Options::new(horizon), &mut streams);
        let fewest = streams.cores.iter().map(|core| core.decisions).min();
        assert!(fewest >= Some(decisions), "{}: {fewest:?} decisions of a core", entry.name);
        streams
    }
    /// Plays each core's calls to a part of a fresh policy; how long the last decisions took.
    fn play(&self, entry: &Entry, system: &System) -> time::Duration {
        let mut policy = build(entry, system);
        let mut plan = Plan::new(system.cores.len());
        play(policy.as_mut(), &mut plan, &self.first, (1, 0));
        let apart = policy.apart().expect("each core can decide alone");
        assert!(apart.is_settled(), "{} lends nothing", entry.name);
        let mut total = time::Duration::ZERO;
        for core in &self.cores {
            let mut own = Plan::of_core(core.core);
            let mut part = lent(apart, core.core);
            plan.exchange(&mut own, core.core);
            let count = (core.decisions, DECISIONS_ALONE);
            total += play(part.as_mut(), &mut own, &core.calls, count);
            assert!(*own.run_queue(core.core) == core.last, "{} decides otherwise", entry.name);
        }
        total
    }
}

/// The part of `core`, to which all is lent that is known of it.
fn lent(policy: &mut dyn Apart, core: CoreId) -> Box<dyn Part> {
    let mut part = policy.part(core);
    policy.lend(part.as_mut());
    part
}

/// Medians in ns by number of cores and number of VCPUs.
type Rows = [[u64; VCPUS.len()]; CORES.len()];

/// The same of each policy.
type Medians = Vec<(&'static str, Rows)>;

/// The medians as a table.
fn table(medians: &Medians) -> String {
    let heads = VCPUS.map(|vcpus| format!(" {vcpus} VCPUs |")).concat();
    let mut table = format!("| policy | cores |{heads}\n|---|---|---|---|---|\n");
    for (name, rows) in medians {
        for (cores, row) in CORES.iter().zip(rows) {
            let cells = row.map(|ns| format!(" {ns} |")).concat();
            table += &format!("| {name} | {cores} |{cells}\n");
        }
    }
    table
}

/// The medians as figures: over the VCPUs of the middle number of cores, and over the cores for
/// the middle number of VCPUs.
fn figures(medians: &Medians) -> [Figure; 2] {
    let (cores, vcpus) = (CORES.len() / 2, VCPUS.len() / 2);
    let figure = |name: &str, title, along: &str, points: &dyn Fn(usize, &Rows) -> _| {
        let line = |(policy, rows): &(&str, Rows)| {
            Line::new(*policy, (0..3).map(|at| points(at, rows)).collect())
        };
        let (along, left, right) = (along.into(), "ns from events to plan".into(), None);
        let lines = medians.iter().map(line).collect();
        let drawing = Drawing::Lines { along, logarithmic: true, share: false, left, right, lines };
        Figure { name: name.into(), title, drawing }
    };
    let over_vcpus = |at: usize, rows: &Rows| (f64::from(VCPUS[at]), rows[cores][at] as f64);
    let over_cores = |at: usize, rows: &Rows| (CORES[at] as f64, rows[at][vcpus] as f64);
    let of = |what: String| format!("What a decision costs on {what}");
    [
        figure("vcpus", of(format!("{} cores", CORES[cores])), "VCPUs", &over_vcpus),
        figure("cores", of(format!("m cores, {} VCPUs", VCPUS[vcpus])), "cores m", &over_cores),
    ]
}

/// Times a way of deciding at all sizes. `record` makes what `play` plays once for a sample, of
/// which so many decisions are timed.
fn rows<S>(
    criterion: &mut Criterion,
    name: &str,
    decisions: usize,
    record: impl Fn(&System, &[Program]) -> S,
    play: impl Fn(&S, &System) -> time::Duration,
) -> Rows {
    let mut group = criterion.benchmark_group(name);
    let mut rows = [[0; VCPUS.len()]; CORES.len()];
    for (row, cores) in rows.iter_mut().zip(CORES) {
        for (median, vcpus) in row.iter_mut().zip(VCPUS) {
            let (system, programs) = system(cores, vcpus);
            let stream = record(&system, &programs);
            let mut samples = Vec::new();
            let id = BenchmarkId::new(format!("{cores} cores"), vcpus);
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|times| {
                    let total: time::Duration = (0..times).map(|_| play(&stream, &system)).sum();
                    samples.push(total.as_nanos() as u64 / times / decisions as u64);
                    total / decisions as u32
                });
            });
            samples.sort_unstable();
            *median = samples.get(samples.len() / 2).copied().unwrap_or(0);
        }
    }
    group.finish();
    rows
}

fn decisions(criterion: &mut Criterion) {
    let (mut together, mut alone) = (Medians::new(), Medians::new());
    for name in PARTITIONED.into_iter().chain(GLOBAL) {
        let entry = maracas_policies::find(name).expect("the bench names policies that exist");
        let record =
            |system: &System, programs: &[Program]| Stream::record(entry, system, programs);
        let play = |stream: &Stream, system: &System| stream.play(entry, system);
        together.push((name, rows(criterion, name, DECISIONS, record, play)));
    }
    for name in PARTITIONED {
        let entry = maracas_policies::find(name).expect("the bench names policies that exist");
        let record =
            |system: &System, programs: &[Program]| Streams::record(entry, system, programs);
        let play = |streams: &Streams, system: &System| streams.play(entry, system);
        let (group, decisions) = (format!("{name}, each core alone"), ALONE * DECISIONS_ALONE);
        alone.push((name, rows(criterion, &group, decisions, record, play)));
    }
    println!("\nns from events to plan, median; one thread for all cores\n\n{}", table(&together));
    println!("each core alone, its caches warm\n\n{}", table(&alone));
    if let Some(folder) = std::env::var_os("SCALE_FIGURES") {
        for figure in figures(&together) {
            let file = std::path::Path::new(&folder).join(figure.file("scale"));
            std::fs::write(&file, figure.svg()).expect("the figures' folder can be written to");
        }
    }
}

/// As much as is legal: how long to admit it, and to simulate some of it.
fn largest(_: &mut Criterion) {
    let (cores, vcpus) = (MAX_CORES, 100_000);
    let (system, programs) = system(cores, vcpus);
    println!("{cores} cores, {vcpus} VCPUs, 50 simulated ms\n");
    println!("| policy | admit and build (s) | simulate (s) | decisions |\n|---|---|---|---|");
    for name in ["maracas", "p-edf", "p-rm", "round-robin"] {
        let entry = maracas_policies::find(name).expect("the bench names policies that exist");
        let begun = cpu_time();
        let mut policy = build(entry, &system);
        let built = (cpu_time() - begun).as_secs_f64();
        let begun = cpu_time();
        let options = Options::new(Instant::from_ticks(50_000_000));
        let outcome = run(&system, &programs, policy.as_mut(), &options, &mut ());
        let simulated = (cpu_time() - begun).as_secs_f64();
        println!("| {name} | {built:.2} | {simulated:.2} | {} |", outcome.decisions);
    }
}

fn short() -> Criterion {
    let millis = time::Duration::from_millis;
    Criterion::default().sample_size(10).warm_up_time(millis(1)).measurement_time(millis(200))
}

criterion_group! {
    name = benches;
    config = short();
    targets = decisions, largest
}
criterion_main!(benches);
