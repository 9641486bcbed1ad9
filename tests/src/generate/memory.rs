//! Random memory systems with all that uses them.

use super::{Dice, RandomSystem};
use maracas_core::memory::{
    Cache, CachePart, Device, Dram, Memory, MemoryUse, Partition, Pattern, Profile, Replacement,
    Reuse, color_range,
};
use maracas_core::{Criticality, Duration};
use maracas_scenario::presets;
use std::num::{NonZero, NonZeroU32};

const PATTERNS: [Pattern; 6] = [
    Pattern::Jump,
    Pattern::JumpRandom,
    Pattern::Random,
    Pattern::Sequential,
    Pattern::SameBank,
    Pattern::PrivateBank,
];

/// Draws a memory system for `random`, what its programs do to it, and which of its cores and VCPUs
/// have which colours and criticality.
///
/// # Panics
/// Where no preset has a memory.
#[must_use]
pub fn memory_for(random: &mut RandomSystem, seed: u64) -> Memory {
    let mut dice = Dice::new(seed ^ 0xd12a);
    let preset = dice.one_in(3).then(|| {
        let platforms = presets::platforms().filter_map(presets::platform);
        let memories: Vec<_> = platforms.filter_map(|platform| platform.memory).collect();
        memories[dice.between(0, memories.len() as u64 - 1) as usize].clone()
    });
    let cache = match &preset {
        Some(preset) => preset.cache,
        None => dice.one_in(4).then_some(()).map_or_else(|| Some(cache(&mut dice)), |()| None),
    };
    let partition = if dice.one_in(3) { Partition::Ways } else { Partition::Colors };
    let longest = random.system.vcpus.iter().map(|vcpu| vcpu.reservation.period).max();
    let longest = longest.unwrap_or(Duration::from_ticks(1));
    let mut memory = Memory {
        cycles_per_us: dice.pick(&[800, 1_000, 3_300]),
        dram: preset.map_or_else(|| dram(&mut dice), |preset| preset.dram),
        cache,
        partition,
        devices: Vec::new(),
        programs: Vec::new(),
    };
    while dice.one_in(3) && memory.devices.len() < 3 {
        memory.devices.push(device(&mut dice, longest));
    }
    let bytes = cache.map_or(1 << 20, |cache| cache.bytes);
    memory.programs = (0..random.programs.len())
        .map(|_| (!dice.one_in(6)).then(|| profile(&mut dice, bytes, longest)))
        .collect();
    color(random, &memory, &mut dice);
    memory
}

/// Gives cores their parts of the cache, and VCPUs what they require of it.
fn color(random: &mut RandomSystem, memory: &Memory, dice: &mut Dice) {
    for vcpu in &mut random.system.vcpus {
        let low = dice.one_in(2);
        vcpu.criticality = if low { Criticality::Low } else { Criticality::High };
    }
    let Some(cache) = &memory.cache else { return };
    let parts = if memory.partition == Partition::Ways { cache.ways } else { cache.colors.min(64) };
    let cores = random.system.cores.len() as u32;
    let kind = dice.between(0, 3).min(2);
    for (core, place) in random.system.cores.iter_mut().zip(0..) {
        core.colors = match kind {
            1 if parts >= cores => color_range(place * (parts / cores), parts / cores),
            // Overlapping, scattered, and sometimes none.
            2 => {
                let all = color_range(0, parts).map_or(0, CachePart::get);
                CachePart::new(dice.roll() & dice.roll() & all)
            }
            _ => None,
        };
    }
    for vcpu in &mut random.system.vcpus {
        if kind == 1 && parts >= cores && dice.one_in(3) {
            vcpu.colors = dice.between(0, u64::from(parts / cores)) as u32;
        }
    }
}

/// Timings from DDR2 to DDR4, in any combination.
fn dram(dice: &mut Dice) -> Dram {
    let mut clocks = |low, high| dice.between(low, high) as u32;
    let (cas, activate, precharge) = (clocks(4, 19), clocks(4, 19), clocks(4, 19));
    let fitted = clocks(0, 3) == 0;
    Dram {
        clock_ps: u64::from(clocks(600, 2_500)),
        cas,
        activate,
        precharge,
        row_active: activate + clocks(4, 30),
        refresh: clocks(40, 420),
        refresh_interval: clocks(2_000, 9_000),
        write_recovery: clocks(5, 18),
        write_to_read: clocks(2, 9),
        cas_write: clocks(3, 16),
        burst_transfers: 8,
        channels: clocks(1, 3),
        ranks: clocks(1, 2),
        banks: [4, 8, 16][clocks(0, 2) as usize],
        conflict_latency_ps: NonZero::new(if fitted {
            u64::from(clocks(20_000, 80_000))
        } else {
            0
        }),
        conflict_service_ps: NonZero::new(if fitted {
            u64::from(clocks(5_000, 20_000))
        } else {
            0
        }),
        model: maracas_core::memory::DramModel::Law,
    }
}

fn cache(dice: &mut Dice) -> Cache {
    let (ways, colors) = (dice.pick(&[4, 8, 12, 16]), dice.pick(&[1, 8, 16, 64]));
    let sets_per_color = dice.pick(&[8, 32, 64]);
    Cache {
        bytes: u64::from(ways) * u64::from(colors) * sets_per_color * 64,
        ways,
        slices: dice.pick(&[1, 4]),
        colors,
        replacement: dice.pick(&[Replacement::Random, Replacement::Lru]),
        cores_per_cache: NonZeroU32::new(dice.pick(&[0, 1, 2])),
    }
}

fn device(dice: &mut Dice, longest: Duration) -> Device {
    let part = |dice: &mut Dice| Duration::from_ticks(dice.between(1, longest.ticks() * 2));
    Device {
        name: "device".into(),
        pattern: dice.pick(&PATTERNS),
        reads_per_s: dice.between(1, 20_000_000),
        writes_milli: dice.between(0, 1_500),
        outstanding_milli: dice.between(1_000, 8_000),
        on: part(dice),
        off: if dice.one_in(2) { Duration::ZERO } else { part(dice) },
    }
}

fn profile(dice: &mut Dice, cache_bytes: u64, longest: Duration) -> Profile {
    if dice.one_in(3) {
        let names: Vec<_> = presets::workloads().collect();
        return presets::workload(dice.pick(&names)).expect("a listed workload can be read");
    }
    let phases = dice.pick(&[1, 1, 2, 3]);
    let mut phase = |_| {
        let work = Duration::from_ticks(dice.between(1, longest.ticks()));
        let work = if phases == 1 { Duration::MAX } else { work };
        (work, memory_use(dice, cache_bytes))
    };
    Profile { phases: (0..phases).map(&mut phase).collect() }
}

fn memory_use(dice: &mut Dice, cache_bytes: u64) -> MemoryUse {
    let working_set = dice.between(64, cache_bytes * 2);
    let mut points: Vec<(u64, u32)> = (0..dice.between(1, 4))
        .map(|_| (dice.between(0, cache_bytes), dice.between(0, 1_000_000) as u32))
        .collect();
    points.sort_unstable();
    points.dedup_by_key(|point| point.0);
    // More bytes never miss more often.
    let mut misses: Vec<u32> = points.iter().map(|point| point.1).collect();
    misses.sort_unstable_by_key(|misses| std::cmp::Reverse(*misses));
    let curve = points.iter().zip(misses).map(|(point, misses)| (point.0, misses)).collect();
    let reuses = [Reuse::Stream, Reuse::Random, Reuse::Cyclic, Reuse::Curve(curve)];
    let reuse = reuses[dice.between(0, 3) as usize].clone();
    // A program that hits must compute: no core hits more than ten times a nanosecond.
    let least = if reuse == Reuse::Stream { 0 } else { 100 };
    MemoryUse {
        pattern: dice.pick(&PATTERNS),
        instructions_milli: dice.between(1, 100_000),
        think_ps: if dice.one_in(4) { least } else { dice.between(least, 60_000) },
        outstanding_milli: dice.between(1_000, 10_000),
        writebacks_milli: dice.between(0, 1_000),
        working_set,
        reuse,
    }
}
