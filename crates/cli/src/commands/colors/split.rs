//! The split with the fewest misses, and what each VCPU needs.

use super::Counts;
use maracas_core::memory::{Cache, MemoryUse, Partition, color_range};
use maracas_session::case::Case;
use maracas_sim::memory::cache::CacheModel;
use std::fmt;

/// Colours or ways that a VCPU needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Needs {
    /// It touches no memory.
    NoMemory,
    /// One does as well as all.
    Any,
    /// So many.
    AtLeast(u32),
}

impl Needs {
    /// How many; 0 where any will do.
    pub(super) const fn count(self) -> u32 {
        match self {
            Self::NoMemory | Self::Any => 0,
            Self::AtLeast(count) => count,
        }
    }
    /// What can be asked for where a core has `most` at most; else nothing.
    pub(super) const fn fits_in(self, most: u32) -> u32 {
        if self.count() <= most { self.count() } else { 0 }
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory => f.pad("-"),
            Self::Any => f.pad("any"),
            Self::AtLeast(count) => f.pad(&count.to_string()),
        }
    }
}

/// How many parts the cache can be split into, as far as a scenario can say.
pub(super) const fn parts(cache: &Cache, partition: Partition) -> u32 {
    let parts = match partition {
        Partition::Colors => cache.colors,
        Partition::Ways => cache.ways,
    };
    if parts > u64::BITS { u64::BITS } else { parts }
}

/// Miss ratios in the long run, by how many parts of the cache there are.
struct Alone {
    model: CacheModel,
    parts: u32,
}

impl Alone {
    fn new(cache: &Cache, partition: Partition) -> Self {
        let model = CacheModel::new(cache, partition, &[None], 0);
        Self { model, parts: parts(cache, partition) }
    }
    /// Misses per reference of a program alone in `count` parts.
    fn misses(&self, memory: &MemoryUse, count: u32) -> f64 {
        self.model.best_miss_ratio(memory, color_range(0, count))
    }
}

/// What the programs of `vcpu` do to memory, each phase with its share of the program's time.
fn uses(case: &Case, vcpu: usize) -> Vec<(f64, &MemoryUse)> {
    let Some(memory) = &case.memory else { return Vec::new() };
    let own = case.programs.iter().zip(&memory.programs);
    let own = own.filter(|(program, _)| program.vcpu.0 as usize == vcpu);
    own.filter_map(|(_, profile)| profile.as_ref())
        .flat_map(|profile| {
            let length = |run: maracas_core::Duration| run.ticks() as f64;
            let whole: f64 = profile.phases.iter().map(|(run, _)| length(*run)).sum();
            profile.phases.iter().map(move |(run, memory)| (length(*run) / whole, memory))
        })
        .collect()
}

/// The fewest parts of each of the user's VCPUs with which no program on it misses more often than
/// with all of the cache, but for `tolerance`.
pub(super) fn needs(
    case: &Case,
    cache: &Cache,
    partition: Partition,
    tolerance: f64,
) -> Vec<Needs> {
    let alone = Alone::new(cache, partition);
    let of = |vcpu: usize| {
        let uses = uses(case, vcpu);
        let least = |memory: &MemoryUse| {
            let enough = alone.misses(memory, alone.parts) + tolerance;
            let count = (1..alone.parts).find(|count| alone.misses(memory, *count) <= enough);
            count.unwrap_or(alone.parts)
        };
        match uses.iter().map(|(_, memory)| least(memory)).max() {
            None => Needs::NoMemory,
            Some(1) => Needs::Any,
            Some(count) => Needs::AtLeast(count),
        }
    };
    (0..case.names.len() - case.service_vcpus).map(of).collect()
}

/// The parts of each core with which the references that were counted there wait least for
/// misses, and among equal ones the most even. What the scenario says that a VCPU needs is
/// given to the core that it used most.
///
/// # Errors
/// Where there are more cores than parts.
pub(super) fn shares(
    case: &Case,
    cache: &Cache,
    (partition, said): (Partition, &[u32]),
    counted: &Counts,
) -> Result<Vec<u32>, String> {
    let alone = Alone::new(cache, partition);
    let cores = case.system.cores.len();
    let group = cache.cores_per_cache.map_or(cores, |each| each.get() as usize);
    if group.min(cores) > alone.parts as usize {
        let parts = alone.parts;
        return Err(format!(
            "{} cores share a cache of {parts} parts; each needs one of its own",
            group.min(cores)
        ));
    }
    let mut shares = Vec::new();
    for first in (0..cores).step_by(group) {
        let members: Vec<_> = (first..cores.min(first + group)).collect();
        let costs: Vec<_> =
            members.iter().map(|core| costs(case, &alone, counted, *core, said)).collect();
        shares.extend(cheapest(&costs, alone.parts));
    }
    Ok(shares)
}

/// More than all misses of any simulation, and still far from the end of 64 bits in sums.
const TOO_FEW: u64 = 1 << 54;

/// Misses on `core` with 1, 2, ... parts. A miss counts by the share of it that is waited for,
/// 1 / W: one of ten at once costs a tenth of one that everything waits for.
fn costs(case: &Case, alone: &Alone, counted: &Counts, core: usize, said: &[u32]) -> Vec<u64> {
    let waits = |count: u32| -> f64 {
        let of = |vcpu: usize| {
            let uses = uses(case, vcpu);
            let whole: f64 = uses.iter().map(|(share, _)| share).sum();
            let wait = |memory: &MemoryUse| {
                alone.misses(memory, count) * 1e3 / memory.outstanding_milli as f64
            };
            let waits: f64 = uses.iter().map(|(share, memory)| share * wait(memory)).sum();
            let references = counted.usage[vcpu][core].references as f64;
            if whole > 0.0 { references * waits / whole } else { 0.0 }
        };
        (0..case.names.len()).map(of).sum()
    };
    let needed = asked_for(said, counted, core);
    let cost = |count: u32| if count < needed { TOO_FEW } else { waits(count) as u64 };
    (1..=alone.parts).map(cost).collect()
}

/// The most that a VCPU which used `core` more than any other is said to need.
fn asked_for(said: &[u32], counted: &Counts, core: usize) -> u32 {
    let mostly_here = |vcpu: usize| {
        let used = |core: usize| counted.usage[vcpu][core].service;
        used(core).ticks() > 0 && (0..counted.usage[vcpu].len()).all(|it| used(it) <= used(core))
    };
    let here = (0..said.len()).filter(|vcpu| mostly_here(*vcpu));
    here.map(|vcpu| said[vcpu]).max().unwrap_or(0)
}

/// `costs[core][n - 1]` is what `n` parts cost a core. Gives each at least one and all of `parts`
/// away: the least cost first, then the least sum of squares.
fn cheapest(costs: &[Vec<u64>], parts: u32) -> Vec<u32> {
    // best[p]: the cheapest way for the cores so far to use p parts.
    let mut best: Vec<Option<(u64, u64, Vec<u32>)>> = vec![None; parts as usize + 1];
    best[0] = Some((0, 0, Vec::new()));
    for core in costs {
        let mut next = vec![None; parts as usize + 1];
        for (used, (cost, squares, shares)) in
            best.iter().enumerate().filter_map(|(used, way)| Some((used, way.as_ref()?)))
        {
            for more in 1..=(parts as usize - used) {
                let squared = squares + (more * more) as u64;
                let way = (cost + core[more - 1], squared, shares);
                let slot: &mut Option<(u64, u64, Vec<u32>)> = &mut next[used + more];
                if slot.as_ref().is_none_or(|(cost, squares, _)| (way.0, way.1) < (*cost, *squares))
                {
                    let shares = [way.2.as_slice(), &[more as u32]].concat();
                    *slot = Some((way.0, way.1, shares));
                }
            }
        }
        best = next;
    }
    best[parts as usize].take().map_or_else(Vec::new, |(_, _, shares)| shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_split_uses_all_and_is_even_where_nothing_matters() {
        let flat = vec![5; 12];
        assert_eq!(cheapest(&[flat.clone(), flat.clone(), flat.clone()], 12), [4, 4, 4]);
        // A cliff at 7 parts, which a search step by step would not find.
        let cliff: Vec<u64> = (1..=12).map(|n| if n < 7 { 100 } else { 0 }).collect();
        assert_eq!(cheapest(&[flat.clone(), cliff.clone(), flat], 12), [2, 7, 3]);
        assert_eq!(cheapest(&[cliff.clone(), cliff], 12), [5, 7]);
    }
}
