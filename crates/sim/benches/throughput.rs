//! Jobs per second on one core of the host, through the trait object and the plan: the path of the
//! command. Every job takes its whole budget; the utilisations are uniform draws scaled to a sum of
//! 90 % of the cores; ten simulated seconds. Two kinds of periods:
//!
//! * `automotive`: from {1, 2, 5, 10, 20, 50, 100} ms (Kramer, Ziegenbein, Hamann, WATERS 2015) in
//!   turn, all released together at 0, so that releases coincide;
//! * `log-uniform`: between 1 and 100 ms at 1 us grain (Emberson, Stafford, Davis, WATERS 2010), so
//!   that they hardly ever do.
//!
//! Where packing finds room for all, `run` and `qps` do what `p-edf` does. So they run once more at
//! U = m exactly (`full`, automotive periods), where their servers are at work.
//!
//! Each policy runs with nothing observed (`counters`), the same with half of the cores a hundredth
//! slower and every program in phases of 20 and 30 ms (`paces`), with the journal, with the table
//! that the command ends with, and with table, journal and Perfetto trace; the bytes go to a sink.
//!
//! `p-rm` runs with `admission = "none"`, since no test admits most such sets at 90 %.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use maracas_core::contract::{Observer, Policy};
use maracas_core::journal::{Header, Recorder};
use maracas_core::params::{Params, Value};
use maracas_core::{
    Cost, Duration, Instant, Pace, PacePhase, Plan, Program, System, Vcpu, Workload,
};
use maracas_sim::memory::{Contention, UnevenCores};
use maracas_sim::{Options, Outcome, run, run_with};
use maracas_trace::{Metrics, perfetto::Writer};
use std::hint::black_box;

const HORIZON: Instant = Instant::from_ticks(10_000_000_000);

/// SplitMix64 as a number in [0, 1).
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z >> 11) as f64 / (1u64 << 53) as f64
}

fn period(kind: &str, id: u32, state: &mut u64) -> Duration {
    if kind == "automotive" {
        return Duration::from_millis([1, 2, 5, 10, 20, 50, 100][id as usize % 7]);
    }
    Duration::from_micros((1_000.0 * 100f64.powf(uniform(state))) as u64)
}

fn taskset(kind: &str, tasks: u32, cores: usize) -> (System, Vec<Program>) {
    let mut state = 1;
    let weights: Vec<f64> = (0..tasks).map(|_| 0.5 + uniform(&mut state)).collect();
    let scale = 0.9 * cores as f64 / weights.iter().sum::<f64>();
    let mut programs = Vec::new();
    let vcpus = (0..tasks).map(|id| {
        let period = period(kind, id, &mut state);
        let budget = (period.ticks() as f64 * scale * weights[id as usize]) as u64;
        let vcpu = Vcpu::new(id, Duration::from_ticks(budget), period).periodic();
        let cost = Cost::Fixed(vcpu.reservation.budget);
        programs.push(Program::new(vcpu.id, Workload::Periodic { cost }));
        vcpu
    });
    (System::new(cores, vcpus.collect()), programs)
}

/// Automotive periods, and utilisations that are multiples of 1/1024 and sum to the cores. A tick
/// here is such that every budget is a whole number of them.
fn full_taskset(tasks: u32, cores: usize) -> (System, Vec<Program>) {
    let mut state = 1;
    let weights: Vec<f64> = (0..tasks).map(|_| 0.5 + uniform(&mut state)).collect();
    let (all, sum) = (1_024 * cores as u64, weights.iter().sum::<f64>());
    let mut shares: Vec<u64> =
        weights.iter().map(|weight| (all as f64 * weight / sum) as u64).collect();
    let missing = all - shares.iter().sum::<u64>();
    shares.iter_mut().take(missing as usize).for_each(|share| *share += 1);
    let vcpus = (0..tasks).zip(shares).map(|(id, share)| {
        // A millisecond is 1024 * 1000 ticks.
        let thousandths = period("automotive", id, &mut state).ticks() / 1_000;
        let [budget, period] = [share, 1_024].map(|part| Duration::from_ticks(part * thousandths));
        Vcpu::new(id, budget, period).periodic()
    });
    let vcpus: Vec<Vcpu> = vcpus.collect();
    let program = |vcpu: &Vcpu| {
        Program::new(vcpu.id, Workload::Periodic { cost: Cost::Fixed(vcpu.reservation.budget) })
    };
    let programs = vcpus.iter().map(program).collect();
    (System::new(cores, vcpus), programs)
}

/// The same cores, half of them a hundredth slower, with programs in phases.
fn paced(system: &System, programs: &[Program]) -> (System, UnevenCores) {
    let half = system.cores.len() / 2;
    let system = system.clone().uneven(&[(system.cores.len() - half, 1_000), (half, 990)]);
    let phase = |ms, ips: [u64; 2]| PacePhase { work: Duration::from_millis(ms), ips: ips.into() };
    let phases =
        vec![phase(20, [3_000_000_000, 2_970_000_000]), phase(30, [1_000_000_000, 995_000_000])];
    let paces = vec![Some(Pace { phases }); programs.len()];
    let model = UnevenCores::new(&system, &paces);
    (system, model)
}

fn build(policy: &str, system: &System) -> Box<dyn Policy> {
    let entry = maracas_policies::find(policy).expect("the bench names policies that exist");
    let mut params = Params::new();
    if policy == "p-rm" {
        params.set("admission", Value::Text("none".into()));
    }
    (entry.build)(system, &params).expect("the bench's sets can be packed")
}

fn simulate<O: Observer>(
    policy: &str,
    system: &System,
    programs: &[Program],
    observer: &mut O,
) -> Outcome {
    let mut policy = build(policy, system);
    run(system, programs, policy.as_mut(), &Options::new(HORIZON), observer)
}

fn simulate_with<O: Observer, C: Contention>(
    policy: &str,
    system: &System,
    programs: &[Program],
    observer: &mut O,
    model: C,
) -> Outcome {
    let mut policy = build(policy, system);
    run_with(system, programs, policy.as_mut(), &Options::new(HORIZON), observer, model)
}

/// Takes the journal's bytes away as a file writer would, without a disk's noise.
struct Journal(Recorder, u64);

impl Observer for Journal {
    fn event(&mut self, at: Instant, event: &maracas_core::Event) {
        self.0.event(at, event);
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        self.0.planned(now, plan);
        if self.0.bytes().len() > 1 << 16 {
            self.1 += black_box(self.0.bytes()).len() as u64;
            self.0.bytes().clear();
        }
    }
}

fn header(policy: &str, system: &System) -> Header {
    Header {
        policy: policy.into(),
        params: Params::new(),
        system: system.clone(),
        names: system.vcpus.iter().map(|vcpu| vcpu.id.to_string()).collect(),
        machine: "sim".into(),
        version: String::new(),
        seed: 0,
    }
}

fn throughput(criterion: &mut Criterion) {
    for (tasks, cores) in [(20, 4), (100, 16)] {
        for kind in ["automotive", "log-uniform"] {
            let set = taskset(kind, tasks, cores);
            let policies = ["p-edf", "g-edf", "p-rm", "run", "qps"];
            measure(criterion, &format!("{tasks} on {cores}, {kind}"), &set, &policies);
        }
        let set = full_taskset(tasks, cores);
        measure(criterion, &format!("{tasks} on {cores}, full"), &set, &["run", "qps"]);
    }
}

fn measure(
    criterion: &mut Criterion,
    name: &str,
    (system, programs): &(System, Vec<Program>),
    policies: &[&str],
) {
    let mut group = criterion.benchmark_group(name);
    for policy in policies {
        let jobs = simulate(policy, system, programs, &mut ()).released;
        group.throughput(Throughput::Elements(jobs));
        group.bench_function(BenchmarkId::new(*policy, "counters"), |bencher| {
            bencher.iter(|| simulate(policy, system, programs, &mut ()));
        });
        group.bench_function(BenchmarkId::new(*policy, "paces"), |bencher| {
            let (uneven, model) = paced(system, programs);
            bencher.iter(|| simulate_with(policy, &uneven, programs, &mut (), model.clone()));
        });
        group.bench_function(BenchmarkId::new(*policy, "journal"), |bencher| {
            bencher.iter(|| {
                let mut journal = Journal(Recorder::new(&header(policy, system)), 0);
                simulate(policy, system, programs, &mut journal);
                journal.1
            });
        });
        group.bench_function(BenchmarkId::new(*policy, "table"), |bencher| {
            bencher.iter(|| {
                let mut metrics = Metrics::new(&header(policy, system));
                simulate(policy, system, programs, &mut metrics);
                metrics.report(HORIZON)
            });
        });
        group.bench_function(BenchmarkId::new(*policy, "table, journal and trace"), |bencher| {
            bencher.iter(|| {
                let header = header(policy, system);
                let journal = Journal(Recorder::new(&header), 0);
                let trace = Writer::new(&header, std::io::sink());
                let mut all = (Metrics::new(&header), (journal, trace));
                simulate(policy, system, programs, &mut all);
                all.0.report(HORIZON)
            });
        });
    }
    group.finish();
}

fn short() -> Criterion {
    let seconds = std::time::Duration::from_secs;
    Criterion::default().sample_size(10).warm_up_time(seconds(1)).measurement_time(seconds(2))
}

criterion_group! {
    name = benches;
    config = short();
    targets = throughput
}
criterion_main!(benches);
