//! Jobs per second on one core of the host, through the trait object and the plan: the path of the
//! command. The task sets are fixed: periods from {1, 2, 5, 10, 20, 50, 100} ms (the automotive
//! ones of Kramer, Ziegenbein, Hamann, WATERS 2015, from 1 to 100 ms) in turn, equal utilisations
//! that sum to 90 % of the cores, every job as long as its budget, ten simulated seconds.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use maracas_core::contract::Observer;
use maracas_core::journal::{Header, Recorder};
use maracas_core::params::Params;
use maracas_core::{Cost, Duration, Instant, Plan, Program, System, Vcpu, Workload};
use maracas_sim::{Options, Outcome, run};
use std::hint::black_box;

const PERIODS_MS: [u64; 7] = [1, 2, 5, 10, 20, 50, 100];
const HORIZON: Instant = Instant::from_ticks(10_000_000_000);

fn taskset(tasks: u32, cores: usize) -> (System, Vec<Program>) {
    let mut programs = Vec::new();
    let vcpus = (0..tasks).map(|id| {
        let period = Duration::from_millis(PERIODS_MS[id as usize % PERIODS_MS.len()]);
        let budget = period.ticks() * 9 * cores as u64 / (10 * u64::from(tasks));
        let vcpu = Vcpu::new(id, Duration::from_ticks(budget), period).periodic();
        let cost = Cost::Fixed(vcpu.reservation.budget);
        programs.push(Program::new(vcpu.id, Workload::Periodic { cost }));
        vcpu
    });
    let system = System::new(cores, vcpus.collect());
    (system, programs)
}

fn simulate<O: Observer>(
    policy: &str,
    system: &System,
    programs: &[Program],
    observer: &mut O,
) -> Outcome {
    let entry = maracas_policies::find(policy).expect("the bench names policies that exist");
    let mut policy = (entry.build)(system, &Params::new()).expect("the bench's sets are admitted");
    run(system, programs, policy.as_mut(), &Options::new(HORIZON), observer)
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
        let (system, programs) = taskset(tasks, cores);
        let mut group = criterion.benchmark_group(format!("{tasks} tasks on {cores} cores"));
        for policy in ["p-edf", "g-edf", "p-rm"] {
            let Some(entry) = maracas_policies::find(policy) else { continue };
            if !(entry.admit)(&system, &Params::new()).accepted() && policy != "g-edf" {
                continue;
            }
            let jobs = simulate(policy, &system, &programs, &mut ()).released;
            group.throughput(Throughput::Elements(jobs));
            group.bench_function(BenchmarkId::new(policy, "counters"), |bencher| {
                bencher.iter(|| simulate(policy, &system, &programs, &mut ()));
            });
            group.bench_function(BenchmarkId::new(policy, "journal"), |bencher| {
                bencher.iter(|| {
                    let mut journal = Journal(Recorder::new(&header(policy, &system)), 0);
                    simulate(policy, &system, &programs, &mut journal);
                    journal.1
                });
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).measurement_time(std::time::Duration::from_secs(3));
    targets = throughput
}
criterion_main!(benches);
