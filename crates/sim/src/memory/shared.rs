//! Shared memory: cache and DRAM coupled.
//!
//! The cache says how often each running program misses, with what it holds at present; the DRAM
//! law says how long these misses take beside each other. Hence each one's pace:
//!
//! ```text
//! references per ns = 1 / (think + m L / W)        m: misses per reference, L: latency, W: MLP
//! reads = m references,   writes = wb reads,   instructions = references * (instructions each)
//! ```
//!
//! The law is linear in what a program is described by: Z = think / m is the time per miss in which
//! it waits for no read.
//!
//! # Speed
//! A program's work is time at its reference speed: alone on an otherwise idle memory, missing as
//! seldom as it can with the whole cache to itself. Its speed is its references per ns over those;
//! it never exceeds 1. Phases last for so much work.
//!
//! # Uneven cores
//! A core of a slower class stretches the time that a program thinks, never the time that memory
//! takes. So a program that waits for memory loses little there, and none loses more than the
//! classes' ratio. Work stays time on class 0. Programs without a profile go by [`UnevenCores`].
//!
//! # When things change
//! When other programs run, when the cache's contents have moved noticeably, when a phase ends,
//! when a device begins or pauses. In between, all rates are constant and everything is counted in
//! integers of 2^-48, so no count depends on how time is split.
//!
//! # Colours
//! A program gets pages of the colours of the core on which it first runs, and keeps them wherever
//! it goes until it is recoloured. Ways stay with the cores. Copying pages to other colours takes
//! the migration VCPU's time, but adds nothing to the traffic of the memory.

use super::cache::CacheModel;
use super::controller::Controller;
use super::count::fixed;
use super::devices::Devices;
use super::dram::{Law, Solved};
use super::phases::Phases;
use super::program::{Phase, Tenant};
use super::solutions::{Entry, Kind, Solutions, Solver};
use super::{Contention, Effort, MemoryTotals, Progress, Resident, UnevenCores};
use maracas_core::contract::Meters;
use maracas_core::memory::{CachePart, Memory, MemoryUse, Partition, Profile, Reuse, color_range};
use maracas_core::{CoreId, Duration, Instant, Pace, System};

/// The machine's memory system with all that uses it.
pub struct SharedMemory {
    ns_per_tick: f64,
    cycles_per_ns: f64,
    /// By program; `None` = it touches no memory.
    tenants: Vec<Option<Tenant>>,
    cores: Vec<Slot>,
    /// By class: how many times longer a program thinks there than on the fastest.
    stretches: Vec<f64>,
    /// Programs that touch no memory; `None` = they run at full speed and count nothing.
    others: Option<UnevenCores>,
    /// Which of these runs, by core; scratch.
    others_running: Vec<Option<Resident>>,
    cache: Option<CacheModel>,
    /// Whether programs keep the colours of their first core.
    keeps_colors: bool,
    /// Every page colour of the cache; `None` = it is not split by colours.
    palette: Option<CachePart>,
    devices: Devices,
    solutions: Solutions,
    controller: Controller,
    /// Up to when cache and devices are accounted.
    since: Instant,
    next: Instant,
    /// Programs that are gone; their lines are given up at the next change.
    gone: Vec<u32>,
    /// The set of requestors; scratch.
    set: Vec<Entry>,
    /// What the cache is given: core, program, misses per ns; scratch.
    misses: Vec<(usize, usize, f64)>,
    changes: u64,
    /// Changes because the cache's contents have moved, and when that is next.
    looks: u64,
    look: Instant,
}

/// A core and what sits there.
#[derive(Clone, Copy, Debug)]
struct Slot {
    class: usize,
    /// Its part of the cache; `None` = all of it.
    colors: Option<CachePart>,
    /// The program that uses memory there.
    program: Option<u32>,
    /// Its requestor, if it misses at all.
    entry: Option<Entry>,
    /// How long the reads of its last requestor take, ns; 0 where it did not miss.
    latency_ns: f64,
    miss_ratio: f64,
    /// The programs for which the cache was asked for it: program, phase and lines held then.
    asked: Option<(u32, usize, f64)>,
    /// What its pace was computed from: program, phase, miss ratio and latency.
    paced: Option<(u32, usize, f64, f64)>,
    /// In the controller's queue: requests times cycles per tick, in units of 2^-48.
    queued: u64,
    /// Lines read since the last change.
    reads: u64,
}

/// What two parts have in common.
fn common(one: Option<CachePart>, other: Option<CachePart>) -> Option<CachePart> {
    CachePart::new(one?.get() & other?.get())
}

impl SharedMemory {
    /// The memory system `memory` on the cores of `system`. Programs are known by their place among
    /// those of the run; what comes after the last of `memory.programs` touches no memory, and runs
    /// at the speed of the core's class.
    ///
    /// # Panics
    /// Where a program has a profile without phases.
    #[must_use]
    pub fn new(system: &System, memory: &Memory) -> Self {
        let colors: Vec<_> = system.cores.iter().map(|core| core.colors).collect();
        let programs = memory.programs.len();
        let cache = memory
            .cache
            .as_ref()
            .map(|cache| CacheModel::new(cache, memory.partition, &colors, programs));
        let law = Law::new(&memory.dram);
        let mut solutions = Solutions::new(Solver::of(&memory.dram));
        let devices = Devices::new(&memory.devices, &law, &mut solutions);
        let palette = match (&memory.cache, memory.partition) {
            (Some(cache), Partition::Colors) => color_range(0, cache.colors.min(u64::BITS)),
            (Some(_), Partition::Ways) | (None, _) => None,
        };
        let of_palette = |part: &Option<_>| common(*part, palette).is_some();
        let keeps_colors = colors.iter().any(of_palette);
        let mut model = Self {
            ns_per_tick: 1.0 / system.ticks_per_ns as f64,
            cycles_per_ns: memory.cycles_per_us as f64 / 1e3,
            tenants: Vec::new(),
            cores: system.cores.iter().map(|core| Slot::new(core.class, core.colors)).collect(),
            stretches: stretches(system),
            others: None,
            others_running: Vec::new(),
            cache,
            keeps_colors,
            palette,
            devices,
            solutions,
            controller: Controller::new(colors.len(), memory.devices.len())
                .with_banks(&memory.dram),
            since: Instant::ZERO,
            next: Instant::ZERO,
            gone: Vec::new(),
            set: Vec::new(),
            misses: Vec::new(),
            changes: 0,
            looks: 0,
            look: Instant::NEVER,
        };
        let tenants = memory.programs.iter();
        model.tenants = tenants.map(|use_| use_.as_ref().map(|use_| model.tenant(use_))).collect();
        if system.cores.iter().any(|core| model.stretches[usize::from(core.class)] != 1.0) {
            model.others = Some(UnevenCores::new(system, &[]));
        }
        model
    }

    /// The same, where programs that touch no memory have these paces, by program. The pace of one
    /// that does touch memory is of no account: its memory says how fast it is. Where no program
    /// has a pace, nothing changes.
    ///
    /// # Panics
    /// As [`UnevenCores::new`].
    #[must_use]
    pub fn with_paces(mut self, system: &System, paces: &[Option<Pace>]) -> Self {
        if paces.iter().any(Option::is_some) {
            self.others = Some(UnevenCores::new(system, paces));
        }
        self
    }
}

/// By class: how many times longer thinking takes than on the fastest.
pub(super) fn stretches(system: &System) -> Vec<f64> {
    let speeds = system.classes.iter().map(|class| f64::from(class.speed_milli));
    let fastest = system.classes.first().map_or(1.0, |class| f64::from(class.speed_milli));
    speeds.map(|speed| fastest / speed).collect()
}

/// Where the lines that a program holds have moved by less than this share, its last miss ratio is
/// used again.
const SAME_LINES: f64 = 1.0 / 1_024.0;

impl Slot {
    /// The miss ratio of the program that sits here.
    fn ask(&mut self, cache: &mut CacheModel, program: u32, tenant: &Tenant, core: usize) -> f64 {
        let held = cache.lines_held(program as usize);
        if let Some((who, phase, before)) = self.asked
            && (who, phase) == (program, tenant.place())
            && (held - before).abs() <= SAME_LINES * before
        {
            return self.miss_ratio;
        }
        self.asked = Some((program, tenant.place(), held));
        cache.miss_ratio(program as usize, &tenant.phase().memory, core)
    }
    fn new(class: u8, colors: Option<CachePart>) -> Self {
        Self {
            class: usize::from(class),
            colors,
            program: None,
            entry: None,
            latency_ns: 0.0,
            miss_ratio: 0.0,
            asked: None,
            paced: None,
            queued: 0,
            reads: 0,
        }
    }
}

/// How a program uses memory on a core that stretches thinking so much.
pub(super) fn kind_of(memory: &MemoryUse, stretch: f64) -> Kind {
    Kind {
        pattern: memory.pattern,
        outstanding: memory.outstanding_milli.max(1) as f64 / 1e3,
        writebacks: memory.writebacks_milli as f64 / 1e3,
        think_ns: memory.think_ps as f64 / 1e3 * stretch,
    }
}

impl SharedMemory {
    fn tenant(&mut self, profile: &Profile) -> Tenant {
        let Self { stretches, solutions, cache, .. } = self;
        let doings = profile.phases.iter().map(|(_, memory)| {
            let kinds = stretches.iter().map(|by| solutions.intern(kind_of(memory, *by)));
            let kinds: Box<[u16]> = kinds.collect();
            let best = cache.as_ref().map_or(1.0, |cache| cache.best_miss_ratio(memory, None));
            let latency = Solutions::entry(kinds[0], best)
                .map_or(0.0, |alone| solutions.of(&[alone])[0].latency_ns);
            Phase::new(memory, kinds, (best, latency))
        });
        let works = profile.phases.iter().map(|(work, _)| *work);
        Tenant::new(doings.collect(), Phases::new(works), profile.pages())
    }

    fn tenant_on(&self, core: CoreId) -> Option<&Tenant> {
        let program = self.cores[core.0 as usize].program?;
        self.tenants[program as usize].as_ref()
    }

    /// Accounts cache and devices up to `now`, with what was read meanwhile.
    fn pass(&mut self, now: Instant) {
        let time = now.saturating_since(self.since);
        if time.is_zero() {
            return;
        }
        self.since = now;
        self.controller.pass(time);
        self.devices.pass(time, &mut self.controller);
        let ns = time.ticks() as f64 * self.ns_per_tick;
        self.misses.clear();
        for (core, slot) in self.cores.iter_mut().enumerate() {
            let reads = std::mem::take(&mut slot.reads);
            if let Some(program) = slot.program {
                self.misses.push((core, program as usize, reads as f64 / ns));
            }
        }
        if let Some(cache) = &mut self.cache {
            cache.advance(ns, &self.misses);
        }
    }

    /// Gives up what departed programs held.
    fn clear_out(&mut self) {
        for program in self.gone.drain(..) {
            if let Some(cache) = &mut self.cache {
                cache.drop_program(program as usize);
            }
        }
    }

    /// Slots what runs, each with what it does now and how often it misses. Whether there are
    /// requestors, and all are where they were.
    fn slot(&mut self, running: &[Option<Resident>]) -> bool {
        let mut same = true;
        self.set.clear();
        for (core, resident) in running.iter().enumerate() {
            let slot = &mut self.cores[core];
            let before = slot.entry.take();
            slot.program = None;
            let program = resident.map_or(u32::MAX, |resident| resident.program);
            let Some(Some(tenant)) = self.tenants.get_mut(program as usize) else {
                slot.asked = None;
                same &= before.is_none();
                continue;
            };
            slot.program = Some(program);
            tenant.turn();
            slot.miss_ratio = match &mut self.cache {
                None => 1.0,
                Some(cache) => {
                    if tenant.colors.is_none() {
                        tenant.colors = common(slot.colors, self.palette).or(self.palette);
                        if self.keeps_colors {
                            cache.recolor(program as usize, tenant.colors);
                        }
                    }
                    slot.ask(cache, program, tenant, core)
                }
            };
            slot.entry = Solutions::entry(tenant.phase().kinds[slot.class], slot.miss_ratio);
            same &= slot.entry == before;
            self.set.extend(slot.entry);
        }
        self.set.extend(self.devices.entries());
        same && !self.set.is_empty()
    }

    /// Slots what runs and touches no memory. Returns when that changes by itself.
    fn slot_others(&mut self, now: Instant, running: &[Option<Resident>]) -> Instant {
        let Some(others) = &mut self.others else { return Instant::NEVER };
        self.others_running.clear();
        let slots = self.cores.iter().zip(running);
        self.others_running.extend(
            slots.map(|(slot, resident)| if slot.program.is_some() { None } else { *resident }),
        );
        others.resolve(now, &self.others_running);
        others.next_change()
    }

    /// Sets every program's pace by the law; `same` = by what it said last.
    fn pace(&mut self, same: bool) {
        let Self { set, solutions, tenants, stretches, .. } = self;
        let mut solved: &[Solved] = &[];
        if same {
            let times = if self.controller.is_watched() { 2 } else { 1 };
            solutions.answered_again(times);
        } else {
            set.sort_unstable();
            if self.controller.is_watched() {
                self.controller.set_busy(solutions.busy(set));
            }
            solved = solutions.of(set);
        }
        let cycles_per_tick = self.cycles_per_ns * self.ns_per_tick;
        let answer = |entry: Entry| {
            let place = set.binary_search(&entry).expect("every entry is in the set");
            // Equal entries are equal requestors: whichever answer is found is every program's.
            (solved[place].reads_per_ns, solved[place].latency_ns)
        };
        for slot in &mut self.cores {
            let Some(program) = slot.program else {
                slot.paced = None;
                continue;
            };
            let Some(tenant) = &mut tenants[program as usize] else { continue };
            let (miss_ratio, latency) = match slot.entry {
                Some(_) if same => (slot.miss_ratio, slot.latency_ns),
                Some(entry) => (slot.miss_ratio, answer(entry).1),
                None => (0.0, 0.0),
            };
            slot.latency_ns = latency;
            let basis = Some((program, tenant.place(), miss_ratio, latency));
            if slot.paced == basis {
                continue;
            }
            slot.paced = basis;
            let phase = tenant.phase();
            let stretch = stretches[slot.class];
            let references = phase.references_per_ns(miss_ratio, latency, stretch);
            let requests = references * miss_ratio * (1.0 + phase.writebacks);
            slot.queued = fixed(requests * latency * cycles_per_tick);
            tenant.pace(references, miss_ratio, self.ns_per_tick);
        }
        if !same {
            self.devices.pace(answer, self.ns_per_tick, cycles_per_tick);
        }
    }

    /// In what time a phase ends at this pace, and when the cache is looked at again.
    fn changes_in(&mut self) -> [Duration; 2] {
        let mut phase_ends = Duration::MAX;
        let (mut reuses, mut fills) = (false, false);
        self.misses.clear();
        for (core, slot) in self.cores.iter().enumerate() {
            let Some(program) = slot.program else { continue };
            let Some(tenant) = &self.tenants[program as usize] else { continue };
            phase_ends = phase_ends.min(tenant.phase_ends_in());
            // A program that misses nothing at present may lose lines to the others.
            let per_ns = tenant.read_rate() / self.ns_per_tick;
            self.misses.push((core, program as usize, per_ns));
            reuses |= tenant.phase().memory.reuse != Reuse::Stream;
            fills |= per_ns > 0.0;
        }
        let mut look = Duration::MAX;
        if let (Some(cache), true) = (&mut self.cache, reuses && fills) {
            let ns = cache.next_change_ns(&self.misses).clamp(SOONEST_NS, LATEST_NS);
            look = Duration::from_ticks((ns / self.ns_per_tick).ceil() as u64);
        }
        [phase_ends, look]
    }
}

/// The cache is not looked at again before this: the time of some 150 misses in a row, less than
/// any program reloads in.
pub(super) const SOONEST_NS: f64 = 10_000.0;
/// ... and again after this, where it seems to be at rest: misses given within a level or two are
/// then computed anew. A hundred looks a second cost nothing.
pub(super) const LATEST_NS: f64 = 10_000_000.0;

impl Contention for SharedMemory {
    const CONTENDS: bool = true;
    const COUPLED: bool = true;
    const SAMPLES: bool = true;

    fn resolve(&mut self, now: Instant, running: &[Option<Resident>]) {
        self.changes += 1;
        self.looks += u64::from(now == self.look);
        self.pass(now);
        self.clear_out();
        let turned = self.devices.turn(now);
        // Before the first time nothing was solved, not even for devices alone.
        let same = self.slot(running) && !turned && self.changes > 1;
        self.pace(same);
        let others = self.slot_others(now, running);
        let [phase, look] = self.changes_in().map(|time| now.saturating_add(time));
        (self.next, self.look) = (self.devices.until.min(phase).min(look).min(others), look);
    }

    fn next_change(&self) -> Instant {
        self.next
    }

    #[inline]
    fn advance(&mut self, core: CoreId, time: Duration) -> Progress {
        let slot = &mut self.cores[core.0 as usize];
        let tenant = slot.program.and_then(|program| self.tenants[program as usize].as_mut());
        let Some(tenant) = tenant else {
            let alone = Progress { work: time, ..Progress::default() };
            return self.others.as_mut().map_or(alone, |others| others.advance(core, time));
        };
        let progress = tenant.advance(time);
        slot.reads += progress.counted.reads;
        self.controller.take(core.0 as usize, progress.counted.reads, progress.counted.writes);
        self.controller.queue(slot.queued, time);
        progress
    }

    #[inline]
    fn time_for(&self, core: CoreId, work: Duration) -> Duration {
        let others = || self.others.as_ref().map_or(work, |others| others.time_for(core, work));
        self.tenant_on(core).map_or_else(others, |tenant| tenant.time_for(work))
    }

    #[inline]
    fn time_to_meter(&self, core: CoreId, metered: u64) -> Duration {
        self.tenant_on(core).map_or(Duration::MAX, |tenant| tenant.time_to_meter(metered))
    }

    fn meter(&mut self, meters: Meters) {
        let tenants = self.tenants.iter_mut().flatten();
        let banks = self.controller.banks();
        tenants.for_each(|tenant| tenant.meter(meters.counts, banks));
        if meters.controller {
            self.controller.watch();
        }
    }

    fn busy(&mut self, now: Instant) -> Option<Duration> {
        self.pass(now);
        self.controller.busy()
    }

    fn totals(&mut self, now: Instant) -> Option<&MemoryTotals> {
        self.pass(now);
        Some(self.controller.totals())
    }

    fn effort(&self) -> Effort {
        let (solves, known) = self.solutions.effort();
        Effort { changes: self.changes, looks: self.looks, solves, known }
    }

    fn pages_to_copy(&self, program: u32, colors: Option<CachePart>) -> u64 {
        let tenant = self.tenants.get(program as usize).and_then(Option::as_ref);
        let Some(colors) = common(colors, self.palette) else { return 0 };
        // A program that never ran has no pages yet.
        let moves = |tenant: &&Tenant| tenant.colors.is_some_and(|own| own != colors);
        tenant.filter(moves).map_or(0, |tenant| tenant.pages)
    }

    fn recolor(&mut self, now: Instant, program: u32, colors: Option<CachePart>) {
        self.pass(now);
        let colors = if self.palette.is_none() { colors } else { common(colors, self.palette) };
        let Some(Some(tenant)) = self.tenants.get_mut(program as usize) else { return };
        if colors.is_none() || tenant.colors == colors {
            return;
        }
        tenant.colors = colors;
        if let Some(cache) = &mut self.cache {
            cache.recolor(program as usize, colors);
            self.cores.iter_mut().for_each(|slot| slot.asked = None);
            self.next = now;
        }
    }

    fn leave(&mut self, program: u32) {
        if self.tenants.get(program as usize).is_some_and(Option::is_some) {
            self.gone.push(program);
        }
    }
}
