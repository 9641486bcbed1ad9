//! Instructions a job in the simulator, counted by valgrind's callgrind: the same on every machine,
//! however busy. Only what [`counted`] does is counted: neither drawing the set nor building the
//! policy nor the report.
//!
//! Each figure below was counted once, and the test fails where one has grown by more than 3 %.
//! What makes the simulator cheaper lowers them; `--nocapture` prints the new ones. With shared
//! memory it is instructions for each time that speeds are resolved, everything included.

#![allow(clippy::print_stdout)] // The figures, to see with --nocapture.

use maracas_core::contract::{Observer, Policy};
use maracas_core::journal::{Header, Recorder};
use maracas_core::memory::{
    Cache, Memory, MemoryUse, Partition, Pattern, Profile, Replacement, Reuse, color_range,
};
use maracas_core::params::Params;
use maracas_core::{Cost, Duration, Instant, Program, System, Vcpu, VcpuId, Workload};
use maracas_sim::memory::{SharedMemory, dram::DDR3_1333};
use maracas_sim::{Options, run, run_with};
use maracas_tests::Dice;
use maracas_trace::Metrics;

#[path = "../shared/bounds.rs"]
mod bounds;
#[path = "../shared/callgrind.rs"]
mod callgrind;

/// Policy, tasks, cores, load in percent, and instructions a job: with nothing observed, with the
/// table, and with table and journal.
const FIGURES: [(&str, u32, usize, u64, [u64; 3]); 8] = [
    ("p-edf", 20, 4, 90, [993, 1_362, 9_245]),
    ("g-edf", 20, 4, 90, [1_014, 1_379, 8_738]),
    ("p-edf", 100, 16, 90, [1_167, 1_577, 10_047]),
    ("g-edf", 100, 16, 90, [1_267, 1_732, 9_382]),
    ("run", 20, 4, 100, [4_448, 5_926, 13_244]),
    ("qps", 20, 4, 100, [8_415, 10_634, 22_755]),
    ("run", 100, 16, 100, [5_356, 6_938, 14_962]),
    ("qps", 100, 16, 100, [11_249, 14_063, 29_804]),
];
/// How far a figure may grow, in percent.
const MARGIN: u64 = 3;
/// Jobs in a run, about.
const JOBS: u64 = 3_000;
/// Utilizations are multiples of this part of a core, so that a load of 100 % is one.
const PARTS: u64 = 1_024;

/// Log-uniform periods from 10 ms to 1 s, each job with its whole budget.
fn draw(tasks: u32, cores: usize, load: u64) -> (System, Vec<Program>, Instant) {
    let mut dice = Dice::new(u64::from(tasks));
    let weights: Vec<u64> = (0..tasks).map(|_| dice.between(500, 1_500)).collect();
    let (all, sum) = (cores as u64 * PARTS * load / 100, weights.iter().sum::<u64>());
    let mut shares: Vec<u64> = weights.iter().map(|weight| all * weight / sum).collect();
    let missing = all - shares.iter().sum::<u64>();
    shares.iter_mut().take(missing as usize).for_each(|share| *share += 1);
    let mut jobs_a_second = 0.0;
    let vcpus = (0..tasks).zip(shares).map(|(id, share)| {
        let milliseconds = 10.0 * 100_f64.powf(dice.between(0, 1_000) as f64 / 1_000.0);
        // So many ticks to a part of a core; a millisecond has PARTS * 1000.
        let ticks = (milliseconds * 1_000.0) as u64;
        jobs_a_second += 1_000.0 / milliseconds;
        let [budget, period] = [share * ticks, PARTS * ticks].map(Duration::from_ticks);
        Vcpu::new(id, budget, period).periodic()
    });
    let vcpus: Vec<Vcpu> = vcpus.collect();
    let program = |vcpu: &Vcpu| {
        Program::new(vcpu.id, Workload::Periodic { cost: Cost::Fixed(vcpu.reservation.budget) })
    };
    let programs = vcpus.iter().map(program).collect();
    let seconds = JOBS as f64 / jobs_a_second;
    let until = Instant::from_ticks((seconds * 1e6 * PARTS as f64) as u64);
    (System::new(cores, vcpus), programs, until)
}

/// What is counted; its name is what callgrind is told.
#[inline(never)]
fn counted(
    (system, programs, until): &(System, Vec<Program>, Instant),
    policy: &mut dyn Policy,
    observer: &mut dyn Observer,
) -> u64 {
    run(system, programs, policy, &Options::new(*until), observer).released
}

/// Simulates all rows; prints the number of jobs of each run.
fn simulate() {
    for (name, tasks, cores, load, _) in FIGURES {
        let set = draw(tasks, cores, load);
        let header = Header {
            policy: name.into(),
            params: Params::new(),
            system: set.0.clone(),
            names: set.0.vcpus.iter().map(|vcpu| vcpu.id.to_string()).collect(),
            machine: "sim".into(),
            version: String::new(),
            seed: 0,
        };
        let metrics = || Metrics::new(&header);
        let observers: [Box<dyn Observer>; 3] =
            [Box::new(()), Box::new(metrics()), Box::new((metrics(), Recorder::new(&header)))];
        for mut observer in observers {
            let entry = maracas_policies::find(name).expect("the rows name policies that exist");
            let mut policy = (entry.build)(&set.0, &Params::new()).expect("the sets are admitted");
            println!("jobs {}", counted(&set, &mut *policy, &mut *observer));
        }
    }
}

/// This program under callgrind, in a test: jobs and instructions of each run of what is counted.
fn count(test: &str, function: &str) -> Vec<(u64, u64)> {
    let name = format!("*instructions::{function}");
    let (output, totals) = callgrind::count(test, &name, None, &name);
    let jobs = output.lines().filter_map(|line| line.split_once("jobs ")?.1.parse().ok());
    jobs.zip(totals).collect()
}

fn can_count() -> bool {
    bounds::needs(callgrind::is_there(), "valgrind, to count instructions")
}

/// Optimized, as CI runs it; without optimization the figures say nothing.
#[test]
#[cfg_attr(debug_assertions, ignore = "counts optimized code: --release, as CI runs it")]
fn a_job_takes_no_more_instructions_than_before() {
    if callgrind::is_counted() {
        return simulate();
    }
    if !can_count() {
        return;
    }
    let counts = count("a_job_takes_no_more_instructions_than_before", "counted");
    assert_eq!(counts.len(), 3 * FIGURES.len());
    let mut grown = Vec::new();
    for ((name, tasks, cores, load, before), counts) in FIGURES.into_iter().zip(counts.chunks(3)) {
        let each: Vec<u64> = counts.iter().map(|(jobs, all)| all / jobs).collect();
        println!("(\"{name}\", {tasks}, {cores}, {load}, {each:?}),");
        for (before, now) in before.into_iter().zip(each) {
            if now * 100 > before * (100 + MARGIN) {
                grown.push(format!("{name}, {tasks} on {cores}, {load} %: {before} -> {now}"));
            }
        }
    }
    assert!(grown.is_empty(), "instructions a job have grown by more than 3 %: {grown:#?}");
}

/// Whether programs differ, colours of each core (0 = all are shared), and instructions for each
/// time that speeds are resolved.
const MEMORY: [(bool, [u32; 4], u64); 4] = [
    (true, [4, 4, 10, 14], 8_476),
    (true, [0; 4], 11_999),
    (false, [4, 4, 10, 14], 9_605),
    (false, [0; 4], 11_247),
];

/// What a program does: walks and scans in turn, or all the same scan.
fn memory_use(id: u32, mixed: bool) -> MemoryUse {
    let walks = mixed && id.is_multiple_of(2);
    MemoryUse {
        pattern: if walks { Pattern::Random } else { Pattern::Sequential },
        instructions_milli: 4_000,
        think_ps: if walks { 12_000 } else { 4_850 },
        outstanding_milli: if walks { 1_000 } else { 10_000 },
        writebacks_milli: 0,
        working_set: (1 + u64::from(id / 4)) << 20,
        reuse: if walks { Reuse::Random } else { Reuse::Cyclic },
    }
}

/// Sixteen programs that are always ready, on four cores of `i5-2500k`.
fn sharing(mixed: bool, colors: [u32; 4]) -> (System, Vec<Program>, Memory) {
    let vcpus = (0..16).map(|id| {
        let period = Duration::from_millis([50, 75, 100, 150][id as usize % 4]);
        Vcpu::new(id, Duration::from_ticks(period.ticks() / 10), period)
    });
    let mut system = System::new(4, vcpus.collect());
    let mut first = 0;
    for (core, count) in system.cores.iter_mut().zip(colors) {
        core.colors = color_range(first, count);
        first += count;
    }
    let programs = (0..16).map(|id| Program::new(VcpuId(id), Workload::Busy)).collect();
    let cache = Cache {
        bytes: 6 << 20,
        ways: 12,
        slices: 4,
        colors: 32,
        replacement: Replacement::Lru,
        cores_per_cache: None,
    };
    let memory = Memory {
        cycles_per_us: 3_300,
        dram: DDR3_1333,
        cache: Some(cache),
        partition: Partition::Colors,
        devices: Vec::new(),
        programs: (0..16).map(|id| Some(Profile::steady(memory_use(id, mixed)))).collect(),
    };
    (system, programs, memory)
}

/// What is counted, by its name.
#[inline(never)]
fn counted_with_memory(
    (system, programs): (&System, &[Program]),
    policy: &mut dyn Policy,
    model: SharedMemory,
) -> u64 {
    let until = Instant::from_ticks(10_000_000_000);
    run_with(system, programs, policy, &Options::new(until), &mut (), model).effort.changes
}

fn simulate_memory() {
    for (mixed, colors, _) in MEMORY {
        let (system, programs, memory) = sharing(mixed, colors);
        let entry = maracas_policies::find("maracas").expect("this policy exists");
        let mut policy = (entry.build)(&system, &Params::new()).expect("40 % fits");
        let model = SharedMemory::new(&system, &memory);
        let changes = counted_with_memory((&system, &programs), &mut *policy, model);
        println!("jobs {changes}");
    }
}

/// As [`a_job_takes_no_more_instructions_than_before`].
#[test]
#[cfg_attr(debug_assertions, ignore = "counts optimized code: --release, as CI runs it")]
fn shared_memory_takes_no_more_instructions_than_before() {
    if callgrind::is_counted() {
        return simulate_memory();
    }
    if !can_count() {
        return;
    }
    let counts =
        count("shared_memory_takes_no_more_instructions_than_before", "counted_with_memory");
    assert_eq!(counts.len(), MEMORY.len());
    let mut grown = Vec::new();
    for ((mixed, colors, before), (changes, all)) in MEMORY.into_iter().zip(counts) {
        let now = all / changes;
        println!("({mixed}, {colors:?}, {now}),");
        if now * 100 > before * (100 + MARGIN) {
            grown.push(format!("mixed {mixed}, colours {colors:?}: {before} -> {now}"));
        }
    }
    assert!(grown.is_empty(), "instructions have grown by more than 3 %: {grown:#?}");
}
