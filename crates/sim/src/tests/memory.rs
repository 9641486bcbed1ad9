//! Shared memory: progress, counters, limits and allowances, by hand-worked rates.

use super::*;
use crate::memory::SharedMemory;
use crate::memory::dram::{DDR3_1333, Law, Requestor};
use maracas_core::contract::{End, MemoryLimit, Segment, Usage};
use maracas_core::journal::{Header, Recorder};
use maracas_core::memory::{
    Cache, Device, Memory, MemoryUse, Partition, Pattern, Profile, Replacement, Reuse, color_range,
};
use maracas_core::params::Params;

/// A program that misses always: one miss at a time, no time between them, a write-back each.
pub(super) fn strides() -> MemoryUse {
    MemoryUse {
        pattern: Pattern::Jump,
        instructions_milli: 10_500,
        think_ps: 0,
        outstanding_milli: 1_000,
        writebacks_milli: 1_000,
        working_set: 6 << 20,
        reuse: Reuse::Stream,
    }
}

/// A random walk over `kb`.
pub(super) fn walk(kb: u64) -> MemoryUse {
    MemoryUse {
        pattern: Pattern::Random,
        instructions_milli: 4_000,
        think_ps: 12_000,
        writebacks_milli: 0,
        working_set: kb << 10,
        reuse: Reuse::Random,
        ..strides()
    }
}

/// 2 MB in 32 colours.
pub(super) fn cache() -> Cache {
    Cache {
        bytes: 2 << 20,
        ways: 16,
        slices: 4,
        colors: 32,
        replacement: Replacement::Random,
        cores_per_cache: None,
    }
}

pub(super) fn memory(uses: Vec<Option<MemoryUse>>) -> Memory {
    Memory {
        cycles_per_us: 3_300,
        dram: DDR3_1333,
        cache: None,
        partition: Partition::Colors,
        devices: Vec::new(),
        programs: uses.into_iter().map(|one| one.map(Profile::steady)).collect(),
    }
}

/// Keeps what ran, and what else was reported.
#[derive(Default)]
pub(super) struct Reported {
    pub(super) segments: Vec<Segment>,
    pub(super) log: Log,
}

impl Observer for Reported {
    fn event(&mut self, at: Instant, event: &Event) {
        if let Event::Ran(segment) = event {
            self.segments.push(*segment);
        }
        self.log.event(at, event);
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

impl Reported {
    pub(super) fn sum(&self, of: impl Fn(&Segment) -> bool) -> Usage {
        let mut sum = Usage::default();
        self.segments
            .iter()
            .filter(|segment| of(segment))
            .for_each(|segment| sum.add(&segment.usage));
        sum
    }
}

pub(super) fn simulate_with(
    system: &System,
    programs: &[Program],
    memory: &Memory,
    policy: &mut dyn Policy,
    options: Options,
) -> (Outcome, Reported) {
    let mut reported = Reported::default();
    let options = Options { audit: true, ..options };
    let model = SharedMemory::new(system, memory);
    let outcome = run_with(system, programs, policy, &options, &mut reported, model);
    (outcome, reported)
}

/// Each VCPU alone on its core.
fn apart(count: u16) -> Script {
    let run_queue = |core| (core, Script::run_queue(&[always(u32::from(core))], &[]));
    Script::new(vec![(0, (0..count).map(run_queue).collect())])
}

fn latency(requestors: &[(Pattern, f64)]) -> f64 {
    let requestor = |(pattern, think_ns): &(Pattern, f64)| Requestor {
        pattern: *pattern,
        outstanding: 1.0,
        think_ns: *think_ns,
        writebacks: 1.0,
    };
    let mut solved = Vec::new();
    let all: Vec<_> = requestors.iter().map(requestor).collect();
    Law::new(&DDR3_1333).solve(&all, &mut solved);
    solved[0].latency_ns
}

const MS: u64 = 1_000_000;

#[test]
fn alone_a_program_runs_at_its_reference_speed() {
    let system = System::new(1, vec![task(0, 3 * MS, 10 * MS)]);
    let (outcome, reported) = simulate_with(
        &system,
        &[job(0, 3 * MS)],
        &memory(vec![Some(strides())]),
        &mut apart(1),
        Options::new(at(10 * MS)),
    );
    assert_eq!(reported.segments[0].to, at(3 * MS));
    let reads = (3.0e6 / latency(&[(Pattern::Jump, 0.0)])) as u64;
    let usage = reported.segments[0].usage;
    assert!(usage.reads.abs_diff(reads) <= 1, "{usage:?}, {reads} expected");
    assert_eq!((usage.references, usage.writes), (usage.reads, usage.reads));
    assert!(usage.instructions.abs_diff(reads * 21 / 2) <= 11);
    let totals = outcome.memory.expect("there is a memory model");
    assert_eq!((totals.requests, &totals.by_core[..]), (2 * usage.reads, &[2 * usage.reads][..]));
}

#[test]
fn finer_ticks_count_the_same() {
    let reads = |ticks_per_ns: u64| {
        let mut system = System::new(1, vec![server(0)]);
        system.ticks_per_ns = ticks_per_ns;
        let options = Options::new(at(MS * ticks_per_ns));
        let memory = memory(vec![Some(strides())]);
        let (outcome, reported) =
            simulate_with(&system, &[busy(0)], &memory, &mut apart(1), options);
        (reported.sum(|_| true).reads, outcome.memory.map_or(0, |totals| totals.occupancy))
    };
    let (one, twelve) = (reads(1), reads(12));
    assert_eq!(one.0, twelve.0);
    assert!(one.1 > 6_000_000 && one.1.abs_diff(twelve.1) <= 1, "{one:?} {twelve:?}");
}

#[test]
fn beside_another_it_slows_down_by_the_law() {
    let system = System::new(2, vec![task(0, 3 * MS, 90 * MS), server(1)]);
    let thinking = MemoryUse { think_ps: 40_000, ..strides() };
    let (_, reported) = simulate_with(
        &system,
        &[job(0, 3 * MS), busy(1)],
        &memory(vec![Some(strides()), Some(thinking)]),
        &mut apart(2),
        Options::new(at(80 * MS)),
    );
    let alone = latency(&[(Pattern::Jump, 0.0)]);
    let beside = latency(&[(Pattern::Jump, 0.0), (Pattern::Jump, 40.0)]);
    assert!(beside > alone * 1.02, "{beside} {alone}");
    let took = reported.segments[0].to.ticks();
    assert!(took.abs_diff((3.0e6 * beside / alone) as u64) <= 2, "{took}");
}

#[test]
fn a_program_without_a_profile_is_left_alone() {
    let system = System::new(2, vec![task(0, 3 * MS, 10 * MS), server(1)]);
    let (outcome, reported) = simulate_with(
        &system,
        &[job(0, 3 * MS), busy(1)],
        &memory(vec![None, Some(strides())]),
        &mut apart(2),
        Options::new(at(10 * MS)),
    );
    let usage = reported.segments[0].usage;
    assert_eq!((reported.segments[0].to, usage.reads, usage.references), (at(3 * MS), 0, 0));
    assert_eq!(outcome.memory.expect("there is a memory model").by_core[0], 0);
}

/// Two cores that share everything, a card, phases, jobs, sleeps and background.
fn busy_case() -> (System, Vec<Program>, Memory, Script) {
    let system = System::new(2, vec![task(0, MS, 5 * MS), server(1), server(2), server(3)]);
    let programs = [job(0, MS), busy(1), run_sleep(2, MS / 3, MS / 7), busy(3)];
    let mut memory = memory(vec![Some(walk(700)), Some(strides()), Some(walk(300)), None]);
    memory.programs[3] =
        Some(Profile { phases: vec![(ticks(MS / 2), walk(1500)), (ticks(MS / 4), strides())] });
    memory.cache = Some(cache());
    memory.devices.push(Device {
        name: "net".into(),
        pattern: Pattern::Sequential,
        reads_per_s: 5_000_000,
        writes_milli: 500,
        outstanding_milli: 2_000,
        on: ticks(MS / 3),
        off: ticks(MS),
    });
    let run_queues = |turn: u64| {
        let fore = [always(0), grant(1, 3 * MS * (turn + 1))];
        vec![(0, Script::run_queue(&fore, &[])), (1, Script::run_queue(&[always(2)], &[always(3)]))]
    };
    let script = Script::new((0..8).map(|turn| (turn * 5 * MS, run_queues(turn))).collect());
    (system, programs.to_vec(), memory, script)
}

#[test]
fn counters_add_up() {
    let (system, programs, memory, mut script) = busy_case();
    let options = Options::new(at(40 * MS));
    let (outcome, reported) = simulate_with(&system, &programs, &memory, &mut script, options);
    let totals = outcome.memory.expect("there is a memory model");
    for core in system.core_ids() {
        let usage = reported.sum(|segment| segment.core == core);
        assert_eq!(usage.reads + usage.writes, totals.by_core[core.0 as usize]);
    }
    let all = reported.sum(|_| true);
    assert!(all.references > all.reads && all.reads > 100_000, "{all:?}");
    assert_eq!(totals.requests, totals.reads + totals.writes);
    // 31 bursts of a third of a millisecond, the last one cut off, of 5 run queues a us at the
    // most.
    let (reads, writes) = (totals.reads - all.reads, totals.writes - all.writes);
    assert!(reads > 30 * 1_000 && reads < 31 * 1_667, "{reads}");
    assert!(writes.abs_diff(reads / 2) <= 1);
    let latency = totals.occupancy as f64 / totals.requests as f64 / 3.3;
    assert!((26.0..200.0).contains(&latency), "{latency}");
}

#[test]
fn two_runs_are_the_same_bytes() {
    let bytes = || {
        let (system, programs, memory, mut script) = busy_case();
        let mut recorder = Recorder::new(&Header {
            policy: "script".into(),
            params: Params::new(),
            system: system.clone(),
            names: Vec::new(),
            machine: "sim".into(),
            version: String::new(),
            seed: 0,
        });
        let options = Options::new(at(40 * MS));
        let model = SharedMemory::new(&system, &memory);
        run_with(&system, &programs, &mut script, &options, &mut recorder, model);
        std::mem::take(recorder.bytes())
    };
    let first = bytes();
    assert!(first.len() > 1_000);
    assert!(first == bytes());
}

#[test]
fn reading_the_meters_changes_nothing() {
    let by = |metered: bool| {
        let (system, programs, memory, mut script) = busy_case();
        if metered {
            let last = script.steps.last().map_or(0, |step| step.0);
            let mut wakes: Vec<_> = (0..last).step_by(77_777).map(|at| (at, Vec::new())).collect();
            script.steps.append(&mut wakes);
            script.steps.sort_by_key(|step| step.0);
        }
        script.metered = metered;
        let options = Options::new(at(40 * MS));
        let (outcome, reported) = simulate_with(&system, &programs, &memory, &mut script, options);
        let sums = system.vcpus.iter().map(|vcpu| reported.sum(|segment| segment.vcpu == vcpu.id));
        (outcome.completed, outcome.memory, sums.collect::<Vec<_>>(), reported.segments)
    };
    let (whole, split) = (by(false), by(true));
    assert_eq!((&whole.0, &whole.1, &whole.2), (&split.0, &split.1, &split.2));
    let metered = split.3.iter().filter(|segment| segment.end == End::Metered);
    let (count, reads) = metered.fold((0, 0), |(n, reads), one| (n + 1, reads + one.usage.reads));
    assert!(count > 500 && reads > 100_000, "{count} {reads}");
}

#[test]
fn an_allowance_closes_the_core_at_the_first_nanosecond() {
    let latency = latency(&[(Pattern::Jump, 0.0)]);
    let spent = |reads: u64| (reads as f64 * latency).ceil() as u64;
    let run_queue = |allowance| {
        vec![(
            0,
            RunQueue { allowance: MemoryLimit(allowance), ..Script::run_queue(&[always(0)], &[]) },
        )]
    };
    let system = System::new(1, vec![server(0)]);
    let mut script = Script::new(vec![
        (0, run_queue(1_000)),
        (MS, run_queue(1_500)),
        (2 * MS, run_queue(1_500)),
    ]);
    let (_, reported) = simulate_with(
        &system,
        &[busy(0)],
        &memory(vec![Some(strides())]),
        &mut script,
        Options::new(at(3 * MS)),
    );
    assert_eq!(reported.segments.len(), 2, "{}", reported.log.0);
    let ends: Vec<_> = reported.segments.iter().map(|one| (one.end, one.usage.reads)).collect();
    assert_eq!(ends, [(End::Preempted, 1_000), (End::Preempted, 500)]);
    let (first, second) = (reported.segments[0].to.ticks(), reported.segments[1].to.ticks());
    assert!(first.abs_diff(spent(1_000)) <= 1, "{first}");
    // Work goes on where it stopped: the two segments together take what 1500 reads take.
    assert!((first + second - MS).abs_diff(spent(1_500)) <= 2, "{second}");
    let spent = format!(
        "{first}:v0@0[0,{first})Preempted {first}:AllowanceSpent {{ core: core0 }} \
         {second}:v0@0[{MS},{second})Preempted {second}:AllowanceSpent {{ core: core0 }}"
    );
    assert_eq!(reported.log.0.trim_end(), format!("0:wakev0 {spent}"));
}

#[test]
fn an_allowance_that_is_spent_when_it_is_set_is_reported_at_once() {
    let run_queue = |allowance| {
        vec![(
            0,
            RunQueue { allowance: MemoryLimit(allowance), ..Script::run_queue(&[always(0)], &[]) },
        )]
    };
    let system = System::new(1, vec![server(0)]);
    let mut script =
        Script::new(vec![(0, run_queue(u64::MAX)), (MS, run_queue(7)), (2 * MS, run_queue(9))]);
    let (_, reported) = simulate_with(
        &system,
        &[busy(0)],
        &memory(vec![Some(strides())]),
        &mut script,
        Options::new(at(3 * MS)),
    );
    assert_eq!(
        reported.log.0.trim_end(),
        "0:wakev0 1000000:v0@0[0,1000000)Preempted 1000000:AllowanceSpent { core: core0 } \
         2000000:AllowanceSpent { core: core0 }"
    );
}

#[test]
fn a_memory_mark_ends_the_grant_and_the_next_of_the_line_runs() {
    let first = Grant { memory: MemoryLimit(1_000), ..always(0) };
    let system = System::new(1, vec![server(0), server(1)]);
    let (_, reported) = simulate_with(
        &system,
        &[busy(0), busy(1)],
        &memory(vec![Some(strides()), Some(walk(100))]),
        &mut Script::fixed(&[first], &[always(1)]),
        Options::new(at(MS)),
    );
    let spent = reported.segments[0];
    assert_eq!((spent.end, spent.usage.reads), (End::MemorySpent, 1_000));
    let expected = (1e3 * latency(&[(Pattern::Jump, 0.0)])).ceil() as u64;
    assert!(spent.to.ticks().abs_diff(expected) <= 1);
    assert_eq!((reported.segments[1].vcpu, reported.segments[1].from), (VcpuId(1), spent.to));
}

#[test]
fn a_program_reloads_after_another_used_its_cache() {
    // 10 ms of a walk, alone on its core and then in turn with one that sweeps the cache.
    let finished = |other: MemoryUse| {
        let system = System::new(1, vec![task(0, MS, 400 * MS), server(1)]);
        let run_queue = |turn: u64| {
            let (walk, sweep) = (grant(0, 2 * MS * (turn + 1)), grant(1, 2 * MS * (turn + 1)));
            (turn * 4 * MS, vec![(0, Script::run_queue(&[walk, sweep], &[]))])
        };
        let mut memory = memory(vec![Some(walk(1024)), Some(other)]);
        memory.cache = Some(cache());
        let (outcome, reported) = simulate_with(
            &system,
            &[job(0, 10 * MS), busy(1)],
            &memory,
            &mut Script::new((0..40).map(run_queue).collect()),
            Options::new(at(160 * MS)),
        );
        assert_eq!(outcome.completed, 1);
        let usage = reported.sum(|segment| segment.vcpu == VcpuId(0));
        (usage.service.ticks(), usage.reads)
    };
    let small = MemoryUse { working_set: 64, ..walk(1) };
    let (quiet, few) = finished(small);
    let sweep = MemoryUse { outstanding_milli: 8_000, pattern: Pattern::Sequential, ..strides() };
    let (disturbed, many) = finished(sweep);
    // A cold start costs the 16384 run queues of 1 MB once, at an idle row conflict each.
    assert!((10 * MS + 800_000..10 * MS + 1_100_000).contains(&quiet), "{quiet}");
    assert!((15_000..18_500).contains(&few), "{few}");
    assert!(disturbed > quiet + MS && many > 2 * few, "{disturbed} {many}");
}

#[test]
fn colors_keep_programs_apart_and_recolored_ones_reload() {
    let misses = |colors: [Option<CachePart>; 2]| {
        let mut system = System::new(2, vec![server(0), server(1)]);
        for (core, colors) in system.cores.iter_mut().zip(colors) {
            core.colors = colors;
        }
        let mut memory = memory(vec![Some(walk(512)), Some(strides())]);
        memory.cache = Some(cache());
        let options = Options::new(at(60 * MS));
        let programs = [busy(0), busy(1)];
        let (_, reported) = simulate_with(&system, &programs, &memory, &mut apart(2), options);
        reported.sum(|segment| segment.vcpu == VcpuId(0)).reads
    };
    let half = |first| color_range(first, 16);
    let (shared, split) = (misses([None, None]), misses([half(0), half(16)]));
    assert!(shared > 10 * split, "{shared} {split}");
}

#[test]
fn phases_last_for_work_not_for_time() {
    // 2 ms of work as strides, then 1 ms without memory, beside one that slows the strides down.
    let quiet = MemoryUse { reuse: Reuse::Curve(vec![(0, 0)]), think_ps: 1_000, ..strides() };
    let phases = Profile { phases: vec![(ticks(2 * MS), strides()), (ticks(MS), quiet)] };
    let mut memory = memory(vec![None, Some(strides())]);
    memory.programs[0] = Some(phases);
    memory.cache = Some(cache());
    let system = System::new(2, vec![task(0, 6 * MS, 90 * MS), server(1)]);
    let (_, reported) = simulate_with(
        &system,
        &[job(0, 6 * MS), busy(1)],
        &memory,
        &mut apart(2),
        Options::new(at(50 * MS)),
    );
    let slow = latency(&[(Pattern::Jump, 0.0); 2]) / latency(&[(Pattern::Jump, 0.0)]);
    let expected = 2e6 + 4e6 * slow;
    let took = reported.segments[0].to.ticks();
    assert!((took as f64 - expected).abs() < 5.0, "{took} {expected}");
}

#[test]
fn devices_are_seen_by_the_controller_and_felt_by_cores() {
    let device = |off| Device {
        name: "gpu".into(),
        pattern: Pattern::Random,
        reads_per_s: 40_000_000,
        writes_milli: 0,
        outstanding_milli: 16_000,
        on: ticks(MS),
        off: ticks(off),
    };
    let run_with_device = |devices: Vec<Device>, program: MemoryUse| {
        let system = System::new(1, vec![server(0)]);
        let memory = Memory { devices, ..memory(vec![Some(program)]) };
        let options = Options::new(at(8 * MS));
        let (outcome, reported) =
            simulate_with(&system, &[busy(0)], &memory, &mut apart(1), options);
        (outcome.memory.expect("there is a memory model"), reported.sum(|_| true).reads)
    };
    // Beside a program that hardly ever reads, the device has the rate that it is said to have.
    let idle = MemoryUse { think_ps: 1_000_000_000, ..strides() };
    let (totals, own) = run_with_device(vec![device(0)], idle.clone());
    assert!((totals.reads - own).abs_diff(320_000) < 700, "{}", totals.reads - own);
    assert!(totals.by_core[0] < 20);
    let (totals, own) = run_with_device(vec![device(3 * MS)], idle);
    assert!((totals.reads - own).abs_diff(80_000) < 200, "{}", totals.reads - own);
    let (quiet, disturbed) =
        (run_with_device(Vec::new(), strides()), run_with_device(vec![device(0)], strides()));
    assert!(quiet.1 * 10 > disturbed.1 * 11, "{} {}", quiet.1, disturbed.1);
}
