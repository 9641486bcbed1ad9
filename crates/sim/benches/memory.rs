//! Ten simulated minutes of 16 VCPUs on 4 cores with the full memory model: at most one second of
//! one core of the host, and where it goes.
//!
//! The machine is that of MARACAS: 6 MB of cache in 32 colours, split 4:4:10:14 or shared by all,
//! and one channel of DDR3-1333. Every VCPU runs one program that is always ready, so that all
//! surplus time is used: walks, scans, strides and programs with phases, four of each (`mixed`), or
//! the 15 hogs and the mwalk of the paper's section VI.D (`hogs`); a network card writes in bursts.
//! Budgets are 4 to 14 % of periods of 50 to 150 ms.

use criterion::{Criterion, criterion_group, criterion_main};
use maracas_core::memory::{
    Cache, Device, Memory, MemoryUse, Partition, Pattern, Profile, Replacement, Reuse, color_range,
};
use maracas_core::params::Params;
use maracas_core::{Duration, Instant, Program, System, Vcpu, VcpuId, Workload};
use maracas_sim::memory::{SharedMemory, dram::DDR3_1333};
use maracas_sim::{Options, Outcome, run_with};
use std::io::Write;

const HORIZON: Instant = Instant::from_ticks(600_000_000_000);
/// Section VI.D.
const SPLIT: [u32; 4] = [4, 4, 10, 14];
const MS: fn(u64) -> Duration = Duration::from_millis;

fn walk(mb_halves: u64) -> MemoryUse {
    MemoryUse {
        pattern: Pattern::Random,
        instructions_milli: 4_000,
        think_ps: 12_000,
        outstanding_milli: 1_000,
        writebacks_milli: 0,
        working_set: mb_halves << 19,
        reuse: Reuse::Random,
    }
}

fn scan(mb: u64) -> MemoryUse {
    MemoryUse {
        pattern: Pattern::Sequential,
        instructions_milli: 50_000,
        think_ps: 14_000,
        outstanding_milli: 4_000,
        writebacks_milli: 0,
        working_set: mb << 20,
        reuse: Reuse::Cyclic,
    }
}

fn stride(delay_ps: u64) -> MemoryUse {
    MemoryUse {
        pattern: Pattern::Jump,
        instructions_milli: 10_500,
        think_ps: 25_000 + delay_ps,
        outstanding_milli: 1_000,
        writebacks_milli: 1_000,
        working_set: 6 << 20,
        reuse: Reuse::Stream,
    }
}

/// Four kinds of programs in turn.
fn mixed(id: u32) -> Profile {
    let step = u64::from(id / 4);
    match id % 4 {
        0 => Profile::steady(walk(1 + step)),
        1 => Profile::steady(scan(1 + step % 2)),
        2 => Profile::steady(stride(step * 20_000)),
        _ => Profile { phases: vec![(MS(20), walk(2)), (MS(30), scan(2)), (MS(15), stride(0))] },
    }
}

/// MARACAS, section VI.D: 15 hogs and one mwalk.
fn hogs(id: u32) -> Profile {
    let scan = MemoryUse { think_ps: 4_850, outstanding_milli: 10_000, ..scan(2) };
    Profile::steady(if id == 15 { MemoryUse { writebacks_milli: 1_000, ..walk(2) } } else { scan })
}

/// What runs, and the colours of each core.
type Case = (fn(u32) -> Profile, [u32; 4]);

fn case((profile, split): Case) -> (System, Vec<Program>, Memory) {
    let vcpus = (0..16).map(|id| {
        let period = MS([50, 75, 100, 150][id as usize % 4]);
        let percent = 4 + u64::from(id * 7) % 11;
        Vcpu::new(id, Duration::from_ticks(period.ticks() / 100 * percent), period)
    });
    let mut system = System::new(4, vcpus.collect());
    let mut first = 0;
    for (core, count) in system.cores.iter_mut().zip(split) {
        core.colors = color_range(first, count);
        first += count;
    }
    let programs = (0..16).map(|id| Program::new(VcpuId(id), Workload::Busy)).collect();
    let memory = Memory {
        cycles_per_us: 3_300,
        dram: DDR3_1333,
        cache: Some(Cache {
            bytes: 6 << 20,
            ways: 12,
            slices: 4,
            colors: 32,
            replacement: Replacement::Lru,
            cores_per_cache: None,
        }),
        partition: Partition::Colors,
        devices: vec![Device {
            name: "net".into(),
            pattern: Pattern::Sequential,
            reads_per_s: 2_000_000,
            writes_milli: 1_000,
            outstanding_milli: 4_000,
            on: MS(30),
            off: MS(170),
        }],
        programs: (0..16).map(|id| Some(profile(id))).collect(),
    };
    (system, programs, memory)
}

fn simulate(of: Case) -> Outcome {
    let (system, programs, memory) = case(of);
    let entry = maracas_policies::find("maracas").expect("this policy exists");
    let mut policy = (entry.build)(&system, &Params::new()).expect("64 % fits everywhere");
    let model = SharedMemory::new(&system, &memory);
    run_with(&system, &programs, policy.as_mut(), &Options::new(HORIZON), &mut (), model)
}

fn memory(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ten minutes of 16 on 4");
    let cases: [(&str, Case); 4] = [
        ("mixed, colours", (mixed, SPLIT)),
        ("mixed, shared", (mixed, [0; 4])),
        ("hogs, colours", (hogs, SPLIT)),
        ("hogs, shared", (hogs, [0; 4])),
    ];
    for (name, case) in cases {
        let mut first = None;
        group.bench_function(name, |bencher| {
            let first = first.get_or_insert_with(|| {
                let begun = cpu_time();
                let outcome = simulate(case);
                report(name, cpu_time() - begun, &outcome);
                outcome
            });
            bencher.iter_custom(|times| {
                let begun = cpu_time();
                (0..times).for_each(|_| assert_eq!(simulate(case), *first, "two runs differ"));
                cpu_time() - begun
            });
        });
    }
    group.finish();
}

/// Processor time of this thread, whatever else the host does meanwhile; where the host does not
/// say (`/proc`, Linux), time by the clock.
fn cpu_time() -> std::time::Duration {
    static BEGUN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    match stat.split(' ').next().and_then(|ns| ns.parse().ok()) {
        Some(ns) => std::time::Duration::from_nanos(ns),
        None => BEGUN.get_or_init(std::time::Instant::now).elapsed(),
    }
}

/// Where the time went, in numbers of what was done.
fn report(name: &str, took: std::time::Duration, outcome: &Outcome) {
    let totals = outcome.memory.clone().unwrap_or_default();
    let effort = outcome.effort;
    let reported = writeln!(
        std::io::stdout(),
        "{name}: {:.3} s of processor time, {} events, {} decisions, {} context switches, {} times \
         speeds resolved ({} for the cache alone), {} sets solved and {} times known; \
         {} million requests at {:.1} ns",
        took.as_secs_f64(),
        outcome.events,
        outcome.decisions,
        outcome.context_switches,
        effort.changes,
        effort.looks,
        effort.solves,
        effort.known,
        totals.requests / 1_000_000,
        totals.occupancy as f64 / totals.requests as f64 / 3.3,
    );
    reported.expect("the bench can say what it did");
}

fn short() -> Criterion {
    let seconds = std::time::Duration::from_secs;
    Criterion::default().sample_size(10).warm_up_time(seconds(1)).measurement_time(seconds(5))
}

criterion_group! {
    name = benches;
    config = short();
    targets = memory
}
criterion_main!(benches);
