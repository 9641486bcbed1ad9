//! How long work can take at most beside the others, by the same laws by which it is simulated.
//!
//! A program goes the slower the longer its reads take and the more of its references miss. Both
//! are bounded here over everything that may happen in a run:
//!
//! * **Misses.** A program that has its part of the cache to itself misses, once its lines are
//!   there, as it does alone in that part; bringing them there again is charged to every job
//!   ([`Bound::reload`]). Any other program is taken to miss as often as it can at all.
//! * **Latency.** On each other core runs whichever program makes the reads the longest, on its
//!   budget or on surplus time, and devices never pause. All such mixes are tried; where they are
//!   more than [`MIXES`], all programs that may run on other cores are taken to run at once.
//!
//! It is sound as far as the DRAM law is monotone ([`super::dram`], "What happens when load is
//! added"): no read gets shorter when another requestor comes in or misses more often.
//! `MARGIN` covers what that leaves open.
//!
//! Throttling and MemGuard only ever take load away from others, so the bound holds with them; what
//! MemGuard takes from the program itself comes on top ([`crate::jobs`]).

use super::cache::CacheModel;
use super::dram::Law;
use super::shared::{SOONEST_NS, kind_of, stretches};
use super::solutions::{Entry, Solutions};
use maracas_core::memory::{LINE_BYTES, Memory, MemoryUse, Partition, Profile, Reuse, sharers};
use maracas_core::{CoreId, CoreSet, Duration, Program, System};

/// How many mixes are tried for one program on one core: a tenth of a second's work.
pub const MIXES: usize = 4_096;

/// By how much a bound is raised: the law may be off its fixed point by 1e-5, adding load was seen
/// to shorten others' reads by up to 2e-4 a requestor (`tests/dram_load.rs`), and a miss ratio is
/// given to within 1.6 % of itself (`cache::level`), which is latency's share of the time at most.
const MARGIN: f64 = 1.02;

/// The longest that a program's work can take.
#[derive(Clone, PartialEq, Debug)]
pub struct Bound {
    /// Time that a unit of work takes at most, in millionths: 1,430,000 = 1.43 times as long as
    /// alone.
    pub slowdown_ppm: u64,
    /// Time to bring its lines back into the cache, once a job, in ticks; zero where all its
    /// references are taken to miss as it is.
    pub reload: Duration,
    /// The latency of a read by which that was found, in picoseconds.
    pub latency_ps: u64,
    /// References that miss, in millionths.
    pub miss_ppm: u32,
    /// Reads per second that it can come to at most, alone.
    pub reads_per_s: u64,
    /// Programs that run beside it then, by their place among the run's.
    pub beside: Vec<u32>,
    /// Whether `beside` is a mix that can run, and not all that may ever run on other cores.
    pub is_mix: bool,
}

impl Bound {
    /// How long `work` takes at most, on cores that do nothing else for it.
    #[must_use]
    pub fn time_for(&self, work: Duration) -> Duration {
        let ticks = u128::from(work.ticks()) * u128::from(self.slowdown_ppm);
        let ticks = u64::try_from(ticks.div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Duration::from_ticks(ticks.saturating_add(self.reload.ticks()))
    }
    /// No other slows it down.
    fn none() -> Self {
        Self {
            slowdown_ppm: 1_000_000,
            reload: Duration::ZERO,
            latency_ps: 0,
            miss_ppm: 0,
            reads_per_s: 0,
            beside: Vec::new(),
            is_mix: true,
        }
    }
}

/// One way in which a program may use memory on a core of another class or in another phase.
#[derive(Clone, Copy, Debug)]
struct Way {
    program: u32,
    vcpu: u32,
    entry: Entry,
    /// What makes others wait: pattern by number, W, write-backs, Z.
    load: (u8, f64, f64, f64),
}

impl Way {
    /// Whether none waits longer for `other` than for this one.
    fn outweighs(&self, other: &Self) -> bool {
        let ((pattern, w, writes, think), theirs) = (self.load, other.load);
        pattern == theirs.0 && w >= theirs.1 && writes >= theirs.2 && think <= theirs.3
    }
}

/// Bounds the work of every program of a run; `None` for those that touch no memory and run on
/// equal cores. `places` are the cores on which each program may ever run, by program.
///
/// # Panics
/// Where `programs` and `places` are not equally many.
#[must_use]
pub fn bounds(
    system: &System,
    memory: &Memory,
    programs: &[Program],
    places: &[CoreSet],
) -> Vec<Option<Bound>> {
    assert_eq!(programs.len(), places.len(), "every program has its places");
    let mut mixes = Mixes::new(system, memory, programs, places);
    (0..programs.len()).map(|program| mixes.bound(program)).collect()
}

/// What is known of all programs while their mixes are tried.
struct Mixes<'a> {
    system: &'a System,
    memory: &'a Memory,
    programs: &'a [Program],
    places: &'a [CoreSet],
    cache: Option<CacheModel>,
    solutions: Solutions,
    devices: Vec<Entry>,
    /// By core: how the programs that may run there use memory.
    ways: Vec<Vec<Way>>,
}

impl<'a> Mixes<'a> {
    fn new(
        system: &'a System,
        memory: &'a Memory,
        programs: &'a [Program],
        places: &'a [CoreSet],
    ) -> Self {
        let law = Law::new(&memory.dram);
        let mut solutions = Solutions::new(law.clone());
        let devices = super::devices::Devices::new(&memory.devices, &law, &mut solutions);
        let colors: Vec<u64> = system.cores.iter().map(|core| core.colors).collect();
        let cache = memory
            .cache
            .as_ref()
            .map(|cache| CacheModel::new(cache, memory.partition, &colors, memory.programs.len()));
        let devices = devices.all().collect();
        let ways = vec![Vec::new(); system.cores.len()];
        let mut mixes = Self { system, memory, programs, places, cache, solutions, devices, ways };
        for core in system.core_ids() {
            mixes.ways[usize::from(core.0)] = mixes.ways_on(core);
        }
        mixes
    }

    fn profile(&self, program: usize) -> Option<&'a Profile> {
        self.memory.programs.get(program).and_then(Option::as_ref)
    }

    fn stretch(&self, core: CoreId) -> f64 {
        stretches(self.system)[usize::from(self.system.cores[usize::from(core.0)].class)]
    }

    /// How the programs that may run on `core` use memory there at worst. Where all are bound to
    /// this core, only one of them runs at a time, and one that is outweighed need not be tried.
    fn ways_on(&mut self, core: CoreId) -> Vec<Way> {
        let stretch = self.stretch(core);
        let mut ways: Vec<Way> = Vec::new();
        for program in (0..self.programs.len()).filter(|it| self.places[*it].contains(core)) {
            let bound = self.places[program].len() == 1;
            for (_, use_) in self.profile(program).iter().flat_map(|profile| &profile.phases) {
                // While its lines come back it may miss always.
                let (ratio, lines) = self.most_misses(program, use_, core);
                let ratio = if lines > 0 { 1.0 } else { ratio };
                let kind = kind_of(use_, stretch);
                let load =
                    (use_.pattern as u8, kind.outstanding, kind.writebacks, kind.think_ns / ratio);
                let kind = self.solutions.intern(kind);
                let Some(entry) = Solutions::entry(kind, ratio) else { continue };
                let vcpu = self.programs[program].vcpu.0;
                let way = Way { program: program as u32, vcpu, entry, load };
                if bound && ways.iter().any(|other| self.is_bound(other) && other.outweighs(&way)) {
                    continue;
                }
                ways.retain(|other| !(bound && self.is_bound(other) && way.outweighs(other)));
                ways.push(way);
            }
        }
        ways
    }

    fn is_bound(&self, way: &Way) -> bool {
        self.places[way.program as usize].len() == 1
    }

    /// The most of its references that `program` can miss on `core`, and how many lines it has to
    /// bring back first for that.
    fn most_misses(&self, program: usize, use_: &MemoryUse, core: CoreId) -> (f64, u64) {
        let Some(cache) = &self.cache else { return (1.0, 0) };
        let always = match &use_.reuse {
            Reuse::Stream | Reuse::Random | Reuse::Cyclic => 1.0,
            Reuse::Curve(points) => {
                points.iter().map(|(_, misses)| f64::from(*misses) / 1e6).fold(0.0, f64::max)
            }
        };
        // With a level of rounding.
        let always = (always * MARGIN).min(1.0);
        let Some(part) = self.own_part(program, core) else { return (always, 0) };
        let alone = (cache.best_miss_ratio(use_, part) * MARGIN).min(1.0);
        let lines = use_.working_set.div_ceil(LINE_BYTES).min(self.lines_of(part));
        if alone < always { (alone, lines) } else { (always, 0) }
    }

    /// The part of the cache that `program` has to itself on `core`, where it has one: no other
    /// program ever has a colour or a way of it, and it does the same all the time.
    fn own_part(&self, program: usize, core: CoreId) -> Option<u64> {
        let cache = self.memory.cache.as_ref()?;
        let steady = self.profile(program).is_some_and(|profile| profile.phases.len() == 1);
        if self.places[program].len() != 1 || !steady {
            return None;
        }
        let part = |core: CoreId| match self.system.cores[usize::from(core.0)].colors {
            0 => u64::MAX,
            colors => colors,
        };
        let (own, near) = (part(core), sharers(cache, core, self.system.cores.len()));
        let meets = |other: usize| {
            let there = self.places[other].iter().filter(|core| near.contains(*core));
            self.profile(other).is_some() && { there }.any(|core| part(core) & own != 0)
        };
        let alone = (0..self.programs.len()).all(|other| other == program || !meets(other));
        // A core that may change its colours leaves lines behind: only those named by the system.
        alone.then(|| self.system.cores[usize::from(core.0)].colors)
    }

    fn lines_of(&self, part: u64) -> u64 {
        let Some(cache) = &self.memory.cache else { return 0 };
        let (divisions, lines) = match self.memory.partition {
            Partition::Colors => (cache.colors, cache.bytes / LINE_BYTES),
            Partition::Ways => (cache.ways, cache.bytes / LINE_BYTES),
        };
        let own = if part == 0 { divisions } else { part.count_ones().min(divisions) };
        lines * u64::from(own) / u64::from(divisions.max(1))
    }
}

/// Miss ratios below the most are tried too, half an octave apart: a stream that misses more seldom
/// loses its rows more often, and each of its reads takes longer. Below an eighth even reads that
/// take three times as long weigh less.
const SELDOM: [f64; 7] = [1.0, 0.707, 0.5, 0.354, 0.25, 0.177, 0.125];

/// Misses for each line that is brought back: sets fill unevenly, and a line that came back may be
/// replaced again before all are there.
const FILLS: f64 = 2.0;

impl Mixes<'_> {
    fn bound(&mut self, program: usize) -> Option<Bound> {
        let cores: Vec<CoreId> = self.places[program].iter().collect();
        let bounds = cores.iter().flat_map(|core| match self.profile(program) {
            Some(profile) => {
                let uses = profile.phases.iter().map(|(_, use_)| use_);
                uses.map(|use_| self.bound_of(program, use_, *core)).collect()
            }
            None => vec![Bound::by_class(self.stretch(*core))],
        });
        let mut bounds: Vec<Bound> = bounds.collect();
        let reload = bounds.iter().map(|bound| bound.reload).max();
        let reads_per_s = bounds.iter().map(|bound| bound.reads_per_s).max();
        bounds.sort_by_key(|bound| bound.slowdown_ppm);
        let worst = bounds.pop().unwrap_or_else(Bound::none);
        let worst = Bound { reload: reload?, reads_per_s: reads_per_s?, ..worst };
        (self.profile(program).is_some() || worst.slowdown_ppm > 1_000_000).then_some(worst)
    }

    /// The longest that work of one phase takes on one core.
    fn bound_of(&mut self, program: usize, use_: &MemoryUse, core: CoreId) -> Bound {
        let stretch = self.stretch(core);
        let (ratio, lines) = self.most_misses(program, use_, core);
        let best = self.cache.as_ref().map_or(1.0, |cache| cache.best_miss_ratio(use_, 0));
        let reference = self.soonest(use_, best);
        let kind = self.solutions.intern(kind_of(use_, stretch));
        let (mixes, is_mix) = self.mixes_beside(program, core);
        let (mut worst, mut latest, mut beside) = (0.0, 0.0, Vec::new());
        let most = if lines > 0 { 1.0 } else { ratio };
        let steady = lines > 0 || use_.reuse == Reuse::Stream;
        let seldom = if steady { &SELDOM[..1] } else { &SELDOM };
        // While its lines come back it may miss always.
        let filling = if lines > 0 { Solutions::entry(kind, 1.0) } else { None };
        let mut fills = 0.0_f64;
        for mix in mixes {
            let mut ask = |own: Entry| {
                let mut set: Vec<Entry> = mix.iter().map(|way| way.entry).collect();
                set.extend(&self.devices);
                set.push(own);
                set.sort_unstable();
                let place = set.binary_search(&own).expect("it is in there");
                self.solutions.of(&set)[place].latency_ns
            };
            fills = filling.map_or(fills, |own| fills.max(ask(own)));
            for part in seldom {
                let Some(own) = Solutions::entry(kind, ratio * part) else { continue };
                let latency = ask(own);
                let takes = time_of(use_, stretch, ratio * part, latency);
                if takes > worst {
                    (worst, latest) = (takes, latency);
                    beside = mix.iter().map(|way| way.program).collect();
                }
            }
        }
        // It never misses: only a slower core makes it slower.
        worst = f64::max(worst, time_of(use_, stretch, 0.0, 0.0));
        let slowdown = if worst > reference { worst / reference * MARGIN } else { 1.0 };
        // The simulator looks at the cache no sooner; until then it goes on missing as before.
        let unseen_ns = if lines > 0 { SOONEST_NS } else { 0.0 };
        let reload_ns = lines as f64 * FILLS * fills / outstanding(use_) * MARGIN + unseen_ns;
        Bound {
            slowdown_ppm: (slowdown * 1e6).ceil() as u64,
            reload: Duration::from_ticks(
                (reload_ns * self.system.ticks_per_ns as f64).ceil() as u64
            ),
            latency_ps: (latest * 1e3).ceil() as u64,
            miss_ppm: (ratio * 1e6).ceil() as u32,
            reads_per_s: (most / self.soonest(use_, most) * 1e9 * MARGIN).ceil() as u64,
            beside,
            is_mix,
        }
    }

    /// The shortest time per reference on the fastest core: alone on the memory, missing so often.
    fn soonest(&mut self, use_: &MemoryUse, ratio: f64) -> f64 {
        let kind = self.solutions.intern(kind_of(use_, 1.0));
        let alone = Solutions::entry(kind, ratio);
        let latency = alone.map_or(0.0, |alone| self.solutions.of(&[alone])[0].latency_ns);
        time_of(use_, 1.0, ratio, latency)
    }

    /// The programs that may run on the other cores while `program` runs on `core`; whether these
    /// are mixes that can run.
    fn mixes_beside(&self, program: usize, core: CoreId) -> (Vec<Vec<Way>>, bool) {
        let own = self.programs[program].vcpu.0;
        let others: Vec<&[Way]> = self
            .system
            .core_ids()
            .filter(|other| *other != core)
            .map(|other| &self.ways[usize::from(other.0)][..])
            .filter(|ways| ways.iter().any(|way| way.vcpu != own))
            .collect();
        let mut mixes = vec![Vec::new()];
        for ways in &others {
            let mut longer = Vec::new();
            for mix in &mixes {
                let taken =
                    |way: &Way| way.vcpu == own || mix.iter().any(|it: &Way| it.vcpu == way.vcpu);
                let before = longer.len();
                for way in ways.iter().filter(|way| !taken(way)) {
                    longer.push(mix.iter().copied().chain([*way]).collect());
                }
                if longer.len() == before {
                    longer.push(mix.clone());
                }
                if longer.len() > MIXES {
                    return (vec![self.all_beside(own, &others)], false);
                }
            }
            mixes = longer;
        }
        (mixes, true)
    }

    /// All programs that may run on one of `others`, each once in each way.
    fn all_beside(&self, own: u32, others: &[&[Way]]) -> Vec<Way> {
        let mut all: Vec<Way> = Vec::new();
        for way in others.iter().flat_map(|ways| ways.iter()).filter(|way| way.vcpu != own) {
            let known = |other: &Way| (other.program, other.entry) == (way.program, way.entry);
            if !all.iter().any(known) {
                all.push(*way);
            }
        }
        all
    }
}

/// W.
fn outstanding(use_: &MemoryUse) -> f64 {
    use_.outstanding_milli.max(1) as f64 / 1e3
}

/// Time per reference in ns where so many miss, each read takes so long, and the core stretches
/// thinking so much; never below a picosecond, as in the simulator.
fn time_of(use_: &MemoryUse, stretch: f64, ratio: f64, latency_ns: f64) -> f64 {
    let thinking = use_.think_ps as f64 / 1e3 * stretch;
    (thinking + ratio * latency_ns / outstanding(use_)).max(1e-3)
}

impl Bound {
    /// Of a program that touches no memory, on a core that stretches its work so much.
    fn by_class(stretch: f64) -> Self {
        Self { slowdown_ppm: (stretch * 1e6).ceil() as u64, ..Self::none() }
    }
}
