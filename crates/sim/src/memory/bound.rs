//! How long work can take at most beside the others, by the same laws by which it is simulated.
//!
//! A program goes the slower the longer its reads take and the more of its references miss. Both
//! are bounded here over everything that may happen in a run:
//!
//! * **Misses.** A program that has its part of the cache to itself misses, once its lines are
//!   there, as it does alone in that part; what it loses until then is found by letting the model
//!   of the cache fill that part, at the longest latency, and is charged to every job
//!   ([`Bound::reload`]). Any other program is taken to miss as often as it can at all.
//! * **Latency.** On each other core runs whichever program makes the reads the longest, on its
//!   budget or on surplus time, or none; and devices never pause. All such mixes are tried; where
//!   they are more than [`MIXES`], all programs that may run on other cores are taken to run at
//!   once, and `CROWD` is added.
//!
//! # Why this is a bound
//! The law ([`super::dram`]) takes a requestor's time per reference for a function of what all do.
//! What others do is at most what is tried here: W and write-backs are given, and they miss at most
//! as often. So what is needed is that
//!
//! 1. no time per reference is longer than beside the worst choice of others that do their most or
//!    nothing at all (the corners of all they can do), and
//! 2. no program's time per reference grows where it misses less.
//!
//! With each term of the law taken for itself both hold, but for two that fall where others are
//! slowed down: rows lost to others, and writes waited for. So there is no proof, and that a
//! newcomer never shortens others' reads is even wrong: hill climbing finds mixes in which it does,
//! by 2.3 % of the time per reference, which is why idle cores are tried too. Against 1 and 2
//! themselves the same search (`tests/dram_search.rs`, 40 climbs of 3,000 steps from the worst of
//! 40,000 mixes) finds nothing above rounding errors.
//!
//! What the simulator adds to the law is counted exactly:
//!
//! * It solves up to a last step of 1e-5 from below, here it is solved as nearly as numbers go;
//!   `MARGIN` is for what it may come to from above.
//! * It takes latencies at steps of the miss ratio, an eighth of an octave wide. Time per reference
//!   in a step is at most that with its highest ratio and the latency of its middle. Four steps are
//!   tried so; of the others 2 says that ratio times latency is no more than at the next one, but
//!   for the width of a step (`EDGE`).
//! * It rounds miss ratios to levels, in a monotone way, so the level of the most is the most.
//! * It hands out work in whole ticks: one tick a job.
//!
//! Throttling and MemGuard only ever take load away from others, so the bound holds with them; what
//! MemGuard takes from the program itself comes on top ([`crate::jobs`]). What its limits on others
//! spare the program is in [`limited`]. Throttling spares it nothing that is certain: it takes away
//! surplus time alone, once a sample has shown that latencies are too high, and until then all run.

pub mod limited;

use self::limited::{Limit, Line};
use super::cache::{CacheModel, level, ratio_of};
use super::dram::Law;
use super::shared::{LATEST_NS, SOONEST_NS, kind_of, stretches};
use super::solutions::{Entry, Solutions, Solver};
use maracas_core::memory::{CachePart, Memory, MemoryUse, Partition, Profile, Reuse, sharers};
use maracas_core::{CoreId, CoreSet, Duration, Program, System};

/// How many mixes are tried for one program on one core: a tenth of a second's work.
pub const MIXES: usize = 4_096;

/// What the simulator's own solutions of the law may be above the exact ones: 6e-6 is the most that
/// the search finds.
const MARGIN: f64 = 1.0001;

/// Where all are taken to run at once: by how much fewer of them may be worse. The search finds
/// 2.3 %.
const CROWD: f64 = 1.05;

/// The highest ratio of a step over its middle: 9/8 over 17/16.
const EDGE: f64 = 18.0 / 17.0;
/// Steps that are tried one by one.
const STEPS: usize = 4;

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
    /// Reads in a second of work at most: more than what it comes to alone in a second, where it
    /// misses more often than at its reference speed.
    pub reads_per_s_of_work: u64,
    /// Programs that run beside it then, by their place among the run's.
    pub beside: Vec<u32>,
    /// Whether `beside` is a mix that can run, and not all that may ever run on other cores.
    pub is_mix: bool,
    /// What limits on others give: each is a bound of its own.
    pub lines: Vec<Line>,
}

impl Bound {
    /// How long `work` takes at most, on cores that do nothing else for it.
    #[must_use]
    pub fn time_for(&self, work: Duration) -> Duration {
        let ticks = u128::from(work.ticks()) * u128::from(self.slowdown_ppm);
        let ticks = u64::try_from(ticks.div_ceil(1_000_000)).unwrap_or(u64::MAX);
        // A job is complete at a whole tick.
        Duration::from_ticks(ticks.saturating_add(self.reload.ticks()).saturating_add(1))
    }
    /// The same where the work is done within `window` from its begin, and others are limited.
    #[must_use]
    pub fn time_within(&self, work: Duration, window: Duration) -> Duration {
        let limited = self.lines.iter().map(|line| line.time_for(work, window));
        limited.fold(self.time_for(work), Duration::min)
    }
    /// No other slows it down.
    fn none() -> Self {
        Self {
            slowdown_ppm: 1_000_000,
            reload: Duration::ZERO,
            latency_ps: 0,
            miss_ppm: 0,
            reads_per_s: 0,
            reads_per_s_of_work: 0,
            beside: Vec::new(),
            is_mix: true,
            lines: Vec::new(),
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

/// One whose work is slowed down on a core, and the mixes beside which it may run.
struct Slowed<'a> {
    use_: &'a MemoryUse,
    stretch: f64,
    mixes: &'a [Vec<Way>],
}

impl Way {
    const fn key(&self) -> (u32, u32, Entry) {
        (self.vcpu, self.program, self.entry)
    }
    /// Whether none waits longer for `other` than for this one.
    fn outweighs(&self, other: &Self) -> bool {
        let ((pattern, w, writes, think), theirs) = (self.load, other.load);
        pattern == theirs.0 && w >= theirs.1 && writes >= theirs.2 && think <= theirs.3
    }
}

/// Bounds the work of every program of a run; `None` for those that touch no memory and run on
/// equal cores. `places` are the cores on which each program may ever run, by program; `limits`
/// what they do at most.
///
/// # Panics
/// Where `programs` and `places` are not equally many.
#[must_use]
pub fn bounds(
    system: &System,
    memory: &Memory,
    programs: &[Program],
    places: &[CoreSet],
    limits: &[Limit],
) -> Vec<Option<Bound>> {
    assert_eq!(programs.len(), places.len(), "every program has its places");
    let mut mixes = Mixes::new(system, memory, programs, places);
    mixes.limits = limits;
    let with_lines = |program| {
        let bound = mixes.bound(program)?;
        let slowed = bound.slowdown_ppm > 1_000_000;
        Some(Bound { lines: if slowed { mixes.lines(program) } else { Vec::new() }, ..bound })
    };
    (0..programs.len()).map(with_lines).collect()
}

/// What is known of all programs while their mixes are tried.
struct Mixes<'a> {
    system: &'a System,
    memory: &'a Memory,
    programs: &'a [Program],
    places: &'a [CoreSet],
    limits: &'a [Limit],
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
        let law = Law::new(&memory.dram).exactly();
        let mut solutions = Solutions::new(Solver::Law(law.clone()));
        let devices = super::devices::Devices::new(&memory.devices, &law, &mut solutions);
        let colors: Vec<_> = system.cores.iter().map(|core| core.colors).collect();
        let cache = memory
            .cache
            .as_ref()
            .map(|cache| CacheModel::new(cache, memory.partition, &colors, memory.programs.len()));
        let devices = devices.all().collect();
        let ways = vec![Vec::new(); system.cores.len()];
        let limits = &[];
        let mut mixes =
            Self { system, memory, programs, places, limits, cache, solutions, devices, ways };
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
                let ratio = self.misses(program, use_, core).most();
                let kind = kind_of(use_, stretch);
                let (w, writes) = (kind.outstanding, kind.writebacks);
                let kind = self.solutions.intern(kind);
                let Some(entry) = Solutions::entry(kind, ratio) else { continue };
                let think_ns = self.solutions.think_ns(entry);
                let load = (use_.pattern as u8, w, writes, think_ns);
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

    /// How often `program` can miss on `core` at most.
    fn misses(&self, program: usize, use_: &MemoryUse, core: CoreId) -> Misses {
        let Some(cache) = &self.cache else { return Misses { steady: 1.0, fills: None } };
        let always = match &use_.reuse {
            Reuse::Stream | Reuse::Random | Reuse::Cyclic => 1.0,
            Reuse::Curve(points) => {
                points.iter().map(|(_, misses)| f64::from(*misses) / 1e6).fold(0.0, f64::max)
            }
        };
        let always = ratio_of(level(always));
        let own = self.own_part(program, core);
        let alone = own.map_or(always, |part| cache.best_miss_ratio(use_, Some(part)));
        let fills = own.filter(|_| alone < always);
        Misses { steady: alone.min(always), fills }
    }

    /// The part of the cache that `program` has to itself on `core`, where it has one: no other
    /// program ever has a colour or a way of it, and it does the same all the time.
    fn own_part(&self, program: usize, core: CoreId) -> Option<CachePart> {
        let cache = self.memory.cache.as_ref()?;
        let steady = self.profile(program).is_some_and(|profile| profile.phases.len() == 1);
        if self.places[program].len() != 1 || !steady {
            return None;
        }
        let part =
            |core: CoreId| self.system.cores[usize::from(core.0)].colors.unwrap_or(CachePart::MAX);
        let (own, near) = (part(core), sharers(cache, core, self.system.cores.len()));
        let meets = |other: usize| {
            let there = self.places[other].iter().filter(|core| near.contains(*core));
            self.profile(other).is_some() && { there }.any(|core| part(core).get() & own.get() != 0)
        };
        let alone = (0..self.programs.len()).all(|other| other == program || !meets(other));
        // A core that may change its colours leaves lines behind: only those named by the system.
        alone.then_some(own)
    }
}

/// How often a program misses at most, as [`level`]s.
#[derive(Clone, Copy, Debug)]
struct Misses {
    /// Once its lines are there.
    steady: f64,
    /// The part of the cache that is its own, where its lines stay there; until they do it may miss
    /// always.
    fills: Option<CachePart>,
}

impl Misses {
    fn most(self) -> f64 {
        if self.fills.is_some() { 1.0 } else { self.steady }
    }
}

/// Looks at the cache while it fills, after which it is taken never to be full: those of four
/// seconds at least.
const LOOKS: usize = 400;
/// Latencies at which it is filled, from the least to the most, less one: the pace decides when the
/// simulator looks.
const PACES: u32 = 4;

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
        let of_work = bounds.iter().map(|bound| bound.reads_per_s_of_work).max();
        bounds.sort_by_key(|bound| bound.slowdown_ppm);
        let worst = bounds.pop().unwrap_or_else(Bound::none);
        let (reload, reads_per_s, reads_per_s_of_work) = (reload?, reads_per_s?, of_work?);
        let worst = Bound { reload, reads_per_s, reads_per_s_of_work, ..worst };
        (self.profile(program).is_some() || worst.slowdown_ppm > 1_000_000).then_some(worst)
    }

    /// The longest that work of one phase takes on one core.
    fn bound_of(&mut self, program: usize, use_: &MemoryUse, core: CoreId) -> Bound {
        let stretch = self.stretch(core);
        let misses = self.misses(program, use_, core);
        let best = self.cache.as_ref().map_or(1.0, |cache| cache.best_miss_ratio(use_, None));
        let reference = self.soonest(use_, best);
        let (mixes, is_mix) = self.mixes_beside(program, core);
        let of = Slowed { use_, stretch, mixes: &mixes };
        let (steady_ns, place, latency) = self.slowest(&of, misses.steady);
        let reload = misses.fills.map(|part| self.fill_ns(&of, part, core, steady_ns));
        let (worst, place, latency, steady) = match reload {
            // It is never at rest.
            Some(None) => {
                let (worst, place, latency) = self.slowest(&of, 1.0);
                (worst, place, latency, 1.0)
            }
            Some(Some(_)) | None => (steady_ns, place, latency, misses.steady),
        };
        let margin = if is_mix { MARGIN } else { MARGIN * CROWD };
        let slowdown = if worst > reference { worst / reference * margin } else { 1.0 };
        let reload_ns = reload.flatten().unwrap_or(0.0) * margin;
        let (most, ticks_per_ns) = (misses.most(), self.system.ticks_per_ns as f64);
        let per_s = |reference_ns: f64| (most / reference_ns * 1e9 * MARGIN).ceil() as u64;
        Bound {
            slowdown_ppm: (slowdown * 1e6).ceil() as u64,
            reload: Duration::from_ticks((reload_ns * ticks_per_ns).ceil() as u64),
            latency_ps: (latency * 1e3).ceil() as u64,
            miss_ppm: (steady * 1e6).ceil() as u32,
            reads_per_s: per_s(self.soonest(use_, most)),
            reads_per_s_of_work: per_s(reference),
            beside: mixes[place].iter().map(|way| way.program).collect(),
            is_mix,
            lines: Vec::new(),
        }
    }

    /// The longest time per reference, ns, where so many miss or fewer; beside which mix, and the
    /// latency of its reads then.
    fn slowest(&mut self, of: &Slowed<'_>, ratio: f64) -> (f64, usize, f64) {
        // It never misses: only a slower core makes it slower.
        let mut worst = (time_of(of.use_, of.stretch, 0.0, 0.0), 0, 0.0);
        let steps = self.own_steps(of, ratio);
        for (place, mix) in of.mixes.iter().enumerate() {
            for (own, ratio) in &steps {
                let latency = self.latency(mix, *own);
                let takes = time_of(of.use_, of.stretch, *ratio, latency);
                if takes > worst.0 {
                    worst = (takes, place, latency);
                }
            }
        }
        worst
    }

    /// The steps of its miss ratio up to `ratio` that must be tried, each with the highest ratio
    /// for which it stands.
    fn own_steps(&mut self, of: &Slowed<'_>, ratio: f64) -> Vec<(Entry, f64)> {
        let kind = self.solutions.intern(kind_of(of.use_, of.stretch));
        // What reads always does so in each step of its life.
        let steady = of.use_.reuse == Reuse::Stream || self.cache.is_none();
        let steps = Solutions::steps_below(kind, ratio).take(if steady { 1 } else { STEPS + 1 });
        let highest =
            |(place, (own, top, middle))| (own, if place < STEPS { top } else { middle * EDGE });
        steps.enumerate().map(highest).collect()
    }

    /// The latency of reads of `own` beside `mix` and all devices, ns.
    fn latency(&mut self, mix: &[Way], own: Entry) -> f64 {
        let mut set: Vec<Entry> = mix.iter().map(|way| way.entry).collect();
        set.extend(&self.devices);
        set.push(own);
        set.sort_unstable();
        let place = set.binary_search(&own).expect("it is in there");
        self.solutions.of(&set)[place].latency_ns
    }

    /// The time in ns that a program loses until its own part of the cache is filled, against
    /// references of `steady_ns` each; `None` where it takes too long. Its lines are never taken,
    /// so it does so once, from an empty cache.
    fn fill_ns(
        &mut self,
        of: &Slowed<'_>,
        part: CachePart,
        core: CoreId,
        steady_ns: f64,
    ) -> Option<f64> {
        let kind = self.solutions.intern(kind_of(of.use_, of.stretch));
        let octaves = (0..=10).filter_map(|at| Solutions::entry(kind, 0.5_f64.powi(at)));
        let octaves: Vec<Entry> = octaves.collect();
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for mix in of.mixes {
            for own in &octaves {
                let latency = self.latency(mix, *own);
                (least, most) = (least.min(latency), most.max(latency));
            }
        }
        let mut lost = 0.0_f64;
        for pace in 0..=PACES {
            let latency = least + (most - least) * f64::from(pace) / f64::from(PACES);
            lost = lost.max(self.fill_at(of, part, core, (steady_ns, latency))?);
        }
        // At a pace in between it may just miss a look.
        let each = time_of(of.use_, of.stretch, 1.0, most);
        Some(lost + SOONEST_NS * (1.0 - steady_ns / each).max(0.0))
    }

    /// The same where reads take so long.
    fn fill_at(
        &self,
        of: &Slowed<'_>,
        part: CachePart,
        core: CoreId,
        (steady_ns, latency): (f64, f64),
    ) -> Option<f64> {
        let colors: Vec<_> = self.system.cores.iter().map(|core| core.colors).collect();
        let cache = self.memory.cache.as_ref()?;
        let mut cache = CacheModel::new(cache, self.memory.partition, &colors, 1);
        if self.memory.partition == Partition::Colors {
            cache.recolor(0, Some(part));
        }
        let (core, rest) = (usize::from(core.0), cache.best_miss_ratio(of.use_, Some(part)));
        let mut lost = 0.0;
        for _ in 0..LOOKS {
            let ratio = cache.miss_ratio(0, of.use_, core);
            if ratio <= rest {
                return Some(lost);
            }
            let each = time_of(of.use_, of.stretch, ratio, latency);
            let running = [(core, 0, ratio / each)];
            let time = cache.next_change_ns(&running).clamp(SOONEST_NS, LATEST_NS);
            lost += time * (1.0 - steady_ns / each).max(0.0);
            cache.advance(time, &running);
        }
        None
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
            // The core may idle.
            let mut longer = mixes.clone();
            for mix in &mixes {
                let taken =
                    |way: &Way| way.vcpu == own || mix.iter().any(|it: &Way| it.vcpu == way.vcpu);
                for way in ways.iter().filter(|way| !taken(way)) {
                    let mut mix: Vec<Way> = mix.iter().copied().chain([*way]).collect();
                    mix.sort_by_key(Way::key);
                    longer.push(mix);
                }
            }
            // Which of them is on which core makes no difference.
            let key = |mix: &Vec<Way>| mix.iter().map(Way::key).collect::<Vec<_>>();
            longer.sort_by_cached_key(key);
            longer.dedup_by_key(|mix| key(mix));
            if longer.len() > MIXES {
                return (vec![self.all_beside(own, &others)], false);
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
