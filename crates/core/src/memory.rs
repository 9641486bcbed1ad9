//! What programs and devices do to shared memory, and what they share: descriptions only.
//!
//! Scenario files are read into these types, the simulator's models work on them, and policies see
//! none of them: a policy knows memory by its counters alone ([`crate::counters`]). Everything is
//! an integer, as everywhere in this crate: picoseconds, bytes, thousandths.

use crate::{CoreSet, Duration};
use alloc::string::String;
use alloc::vec::Vec;
use core::num::{NonZeroU32, NonZeroU64};

/// Bytes of a cache line, and of one memory request, on every platform described here.
pub const LINE_BYTES: u64 = 64;
/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// In which order memory is accessed. It decides row hits and bank conflicts in DRAM.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pattern {
    /// A stride of one DRAM row: a new row each time, all banks in turn.
    Jump,
    /// The same through randomly placed page frames.
    JumpRandom,
    /// Uniformly random lines.
    Random,
    /// One line after another: a stream.
    Sequential,
    /// One bank that all requestors of this pattern share, a new row each time.
    SameBank,
    /// One bank of the requestor's own, a new row each time.
    PrivateBank,
}

/// How often a reference to the last-level cache misses, given what of the cache the program holds.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reuse {
    /// Always: no line is used again before it is evicted.
    Stream,
    /// By the share of the working set that is not resident: a walk in random order.
    Random,
    /// Always, unless nearly all of the working set is resident: a scan in order, again and again.
    Cyclic,
    /// Measured points (bytes held, misses per million references) by increasing bytes; linear in
    /// between, constant beyond the ends.
    Curve(Vec<(u64, u32)>),
}

/// How a program uses memory for as long as it does not change its ways.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MemoryUse {
    /// In which order.
    pub pattern: Pattern,
    /// Instructions from one reference to the last-level cache to the next, in thousandths.
    pub instructions_milli: u64,
    /// Time from one reference to the next while all of them hit, in picoseconds: computing, hits,
    /// and what a core spends on a miss outside the memory controller.
    pub think_ps: u64,
    /// W: misses outstanding at once, in thousandths. A core that overlaps computing with misses
    /// is described by a smaller think time and W as they act: time per miss = Z + L / W.
    pub outstanding_milli: u64,
    /// Write-backs per read miss, in thousandths.
    pub writebacks_milli: u64,
    /// Bytes that it goes through again and again.
    pub working_set: u64,
    /// How references miss.
    pub reuse: Reuse,
}

/// What a program does to memory: its phases, each for as much service as given, and again from
/// the first. One phase with [`Duration::MAX`] is a program that never changes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Profile {
    /// Never empty.
    pub phases: Vec<(Duration, MemoryUse)>,
}

impl Profile {
    /// A program that never changes its ways.
    pub fn steady(memory: MemoryUse) -> Self {
        Self { phases: alloc::vec![(Duration::MAX, memory)] }
    }
    /// Pages of the largest working set: what a recolouring has to copy.
    pub fn pages(&self) -> u64 {
        let sets = self.phases.iter().map(|(_, memory)| memory.working_set);
        sets.max().unwrap_or(0).div_ceil(PAGE_BYTES)
    }
}

/// A requestor that is no core: network, disk, graphics. Core counters do not see its requests,
/// the controller's do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// What users call it.
    pub name: String,
    /// In which order.
    pub pattern: Pattern,
    /// Lines read per second of an active device on an idle memory.
    pub reads_per_s: u64,
    /// Lines written per line read, in thousandths.
    pub writes_milli: u64,
    /// Requests outstanding at once, in thousandths.
    pub outstanding_milli: u64,
    /// It is active for this long, ...
    pub on: Duration,
    /// ... then pauses for this long, from the start of the run on. Zero = never pauses.
    pub off: Duration,
}

/// By what the simulator answers how long a read takes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DramModel {
    /// By a law that is solved: quick, and a few percent off.
    #[default]
    Law,
    /// By simulating requests, banks and bus clock by clock, from the timings alone: slow.
    Requests,
}

/// DRAM as its datasheet describes it (JEDEC names), and where measured, how it acts in effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dram {
    /// tCK: one clock of the bus, in picoseconds.
    pub clock_ps: u64,
    /// CL, in clocks.
    pub cas: u32,
    /// tRCD, in clocks.
    pub activate: u32,
    /// tRP, in clocks.
    pub precharge: u32,
    /// tRAS, in clocks.
    pub row_active: u32,
    /// tRFC, in clocks.
    pub refresh: u32,
    /// tREFI, in clocks.
    pub refresh_interval: u32,
    /// tWR, in clocks.
    pub write_recovery: u32,
    /// tWTR, in clocks.
    pub write_to_read: u32,
    /// CWL, in clocks.
    pub cas_write: u32,
    /// Transfers that bring one line (BL x prefetch), two to a clock.
    pub burst_transfers: u32,
    /// Independent channels.
    pub channels: u32,
    /// Ranks on a channel.
    pub ranks: u32,
    /// Banks in a rank.
    pub banks: u32,
    /// Latency of a row conflict on an idle memory in effect, in picoseconds, where it was fitted
    /// to a measurement; `None` = from the timings.
    pub conflict_latency_ps: Option<NonZeroU64>,
    /// Service time of the bus per row conflict in effect, in picoseconds; `None` = from the
    /// timings.
    pub conflict_service_ps: Option<NonZeroU64>,
    /// By what latencies are told.
    pub model: DramModel,
}

impl Dram {
    /// tRC = tRAS + tRP in picoseconds: the time between two rows of one bank.
    pub const fn row_cycle_ps(&self) -> u64 {
        (self.row_active as u64 + self.precharge as u64) * self.clock_ps
    }
    /// Time on the bus of one line, in picoseconds.
    pub const fn burst_ps(&self) -> u64 {
        self.burst_transfers as u64 * self.clock_ps / 2
    }
    /// r_min in bytes per second as MemGuard calculates it: every request to one bank and a new
    /// row, precharge + activate + CAS + transfer (Yun et al., RTAS 2013, "Guaranteed Bandwidth").
    /// tRAS and refresh are left out there, so a machine serves somewhat less.
    pub const fn guaranteed_bandwidth(&self) -> u64 {
        let clocks = self.precharge as u64 + self.activate as u64 + self.cas as u64;
        let worst_ps = clocks * self.clock_ps + self.burst_ps();
        (LINE_BYTES as u128 * 1_000_000_000_000 / worst_ps as u128) as u64
    }
}

/// Which line a full set gives up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replacement {
    /// Any, at random.
    Random,
    /// The least recently used.
    Lru,
}

/// The last-level cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cache {
    /// Bytes of one such cache.
    pub bytes: u64,
    /// Its ways.
    pub ways: u32,
    /// Slices among which physical addresses are hashed; 1 = none.
    pub slices: u32,
    /// Page colours: classes of pages that never share a set.
    pub colors: u32,
    /// Which line a full set gives up.
    pub replacement: Replacement,
    /// Cores that share one such cache, counted from core 0; `None` = all share the only one.
    pub cores_per_cache: Option<NonZeroU32>,
}

impl Cache {
    /// Lines that one colour holds.
    pub const fn lines_per_color(&self) -> u64 {
        self.bytes / LINE_BYTES / self.colors as u64
    }
    /// Which of these caches `core` uses, counted from 0.
    pub fn of_core(&self, core: usize) -> usize {
        self.cores_per_cache.map_or(0, |each| core / each.get() as usize)
    }
}

/// How the cache is split where it is not by page colours: ways of each core (resctrl, CAT).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partition {
    /// By the page colours of each core ([`crate::Core::colors`]).
    Colors,
    /// By ways: the bits of [`crate::Core::colors`] are ways.
    Ways,
}

/// The memory system of a platform with all that uses it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Cycles of the clock in which occupancy is counted, per microsecond.
    pub cycles_per_us: u64,
    /// DRAM and bus.
    pub dram: Dram,
    /// The last-level cache; `None` = every reference is a miss.
    pub cache: Option<Cache>,
    /// How the cache is split.
    pub partition: Partition,
    /// Requestors besides the cores.
    pub devices: Vec<Device>,
    /// What each program does, by its place among the programs; `None` = it touches no memory.
    pub programs: Vec<Option<Profile>>,
}

/// A part of a cache: one bit a page colour, or a way. No part is empty.
pub type CachePart = NonZeroU64;

/// The colours `first .. first + count` as a part; `None` where that is none, or beyond 64 colours.
pub const fn color_range(first: u32, count: u32) -> Option<CachePart> {
    if first + count > u64::BITS || count == 0 {
        return None;
    }
    CachePart::new((u64::MAX >> (u64::BITS - count)) << first)
}

/// Cores that share one last-level cache with `core`, of `cores` cores.
pub fn sharers(cache: &Cache, core: crate::CoreId, cores: usize) -> CoreSet {
    let cache_of = |core: u16| cache.of_core(usize::from(core));
    let all = (0..cores as u16).filter(|other| cache_of(*other) == cache_of(core.0));
    all.map(crate::CoreId).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CoreId;

    #[test]
    fn guaranteed_bandwidth_of_ddr2_800_is_memguard_s() {
        let ddr2 = Dram {
            clock_ps: 2500,
            cas: 5,
            activate: 5,
            precharge: 5,
            row_active: 18,
            refresh: 51,
            refresh_interval: 3120,
            write_recovery: 6,
            write_to_read: 3,
            cas_write: 4,
            burst_transfers: 8,
            channels: 1,
            ranks: 2,
            banks: 8,
            conflict_latency_ps: None,
            conflict_service_ps: None,
            model: DramModel::Law,
        };
        // algorithms.md D.1: 47.5 ns a line, 1.347 GB/s.
        assert_eq!(ddr2.guaranteed_bandwidth(), 64_000_000_000_000 / 47_500);
        assert_eq!((ddr2.row_cycle_ps(), ddr2.burst_ps()), (57_500, 10_000));
    }

    #[test]
    fn colors_and_sharers() {
        let bits = |first, count| color_range(first, count).map(CachePart::get);
        assert_eq!((bits(4, 4), bits(0, 64)), (Some(0xf0), Some(u64::MAX)));
        assert_eq!((bits(3, 0), bits(64, 0), bits(60, 5)), (None, None, None));
        let cache = Cache {
            bytes: 2 << 20,
            ways: 8,
            slices: 1,
            colors: 64,
            replacement: Replacement::Lru,
            cores_per_cache: NonZeroU32::new(2),
        };
        let shares =
            |core| sharers(&cache, CoreId(core), 4).iter().map(|c| c.0).collect::<Vec<_>>();
        assert_eq!((shares(0), shares(3)), (alloc::vec![0, 1], alloc::vec![2, 3]));
    }
}
