//! The occupancy that policies estimate from misses alone against that of the simulator's cache.

use maracas_core::VcpuId;
use maracas_core::memory::{Cache, MemoryUse, Partition, Pattern, Replacement, Reuse};
use maracas_sim::memory::cache::CacheModel;

extern crate alloc;

// A part of the policies that none of them shows to the outside. It knows of nothing but the core.
#[path = "../../crates/policies/src/parts/occupancy.rs"]
mod occupancy;

use occupancy::Estimate;

const MB: u64 = 1 << 20;
const LINES: u64 = 6 * MB / 64;

fn walk(working_set: u64) -> MemoryUse {
    MemoryUse {
        pattern: Pattern::Random,
        instructions_milli: 1000,
        think_ps: 1000,
        outstanding_milli: 1000,
        writebacks_milli: 0,
        working_set,
        reuse: Reuse::Random,
    }
}

/// Walks of 1, 2, 4 and 8 MB run, one after the other for 2 ms each or all at once, with a
/// reference in 10 ns each, and an estimate learns of every turn. The largest difference once the
/// cache is full, as a share of it.
fn largest_difference(replacement: Replacement, at_once: bool) -> f64 {
    let cache = Cache {
        bytes: 6 * MB,
        ways: 12,
        slices: 4,
        colors: 32,
        replacement,
        cores_per_cache: None,
    };
    let walks = [walk(MB), walk(2 * MB), walk(4 * MB), walk(8 * MB)];
    let mut model = CacheModel::new(&cache, Partition::Colors, &[None; 4], 4);
    let mut estimate = Estimate::new(LINES);
    let mut largest = 0.0_f64;
    for turn in 0..2000 {
        let who = if at_once { 0..4 } else { turn % 4..turn % 4 + 1 };
        let (mut left, mut misses) = (if at_once { 0.1e6 } else { 2e6 }, [0.0; 4]);
        while left > 0.0 {
            let rate = |at: usize| (at, at, 0.1 * model.miss_ratio(at, &walks[at], at));
            let running = who.clone().map(rate).collect::<Vec<_>>();
            let step = model.next_change_ns(&running).min(left);
            model.advance(step, &running);
            running.iter().for_each(|(_, program, rate)| misses[*program] += rate * step);
            left -= step;
        }
        for program in who {
            estimate.ran(VcpuId(program as u32), misses[program] as u64);
        }
        for (program, _) in walks.iter().enumerate().filter(|_| turn >= 400) {
            let estimated = estimate.lines(VcpuId(program as u32)) as f64;
            largest = largest.max((estimated - model.lines_held(program)).abs());
        }
    }
    largest / LINES as f64
}

/// Where any line may go, turns one after the other are what the estimate is made for. Turns at
/// once count as if they had come one after the other, so it errs by what one turn brings: here by
/// up to a tenth of the cache in 0.1 ms. Nor does it know that under LRU those that wait lose
/// first.
#[test]
fn misses_alone_show_what_holds_the_cache() {
    let bounds = [
        (Replacement::Random, false, 0.001),
        (Replacement::Random, true, 0.03),
        (Replacement::Lru, false, 0.25),
        (Replacement::Lru, true, 0.03),
    ];
    for (replacement, at_once, bound) in bounds {
        let difference = largest_difference(replacement, at_once);
        assert!(
            difference < bound,
            "{replacement:?}, at once {at_once}: {difference} of the cache"
        );
    }
}
