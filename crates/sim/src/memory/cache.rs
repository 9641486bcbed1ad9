//! The last-level cache: how much of it each program holds, and how often references then miss.
//!
//! Pure arithmetic on lines and rates; no address is ever looked up. Three questions:
//! * What does a program miss alone in its part of the cache, because more of its lines fall on
//!   some sets than these have ways? ([`CacheModel::best_miss_ratio`], `sets`)
//! * What does it miss, given the lines that it holds at present? ([`CacheModel::miss_ratio`])
//! * How do these lines grow by its own misses and shrink by others'? ([`CacheModel::advance`],
//!   `region`) Reloading after a context switch and cold starts follow by themselves.
//!
//! A part of the cache is a set of page colours of one cache, or with [`Partition::Ways`] of ways.
//! Parts may overlap. Programs bring their lines into all of their part, and most into where they
//! lack most of them.
//!
//! Miss ratios are rounded to [`level`]s, so that solutions of the DRAM law can be kept by level.
//! They hold for as long as [`CacheModel::next_change_ns`] says.
//!
//! # How well
//! Against a cache that looks up every address (the tests; 6 MB, 12 ways, 4 slices, 32 colours):
//! miss ratios alone within 0.03; lines lost to another's pass within 2 %; miss ratios of two
//! programs taking turns within 0.07 (a walk) and 0.11 (what runs beside it); of four at once
//! within 0.04 under random replacement, within 0.13 under LRU, where lines used often stay longer
//! than here.

mod region;
mod sets;

use super::clamp::Clamp;
use libm::log;
use maracas_core::memory::{
    Cache, CachePart, LINE_BYTES, MemoryUse, Partition, Replacement, Reuse,
};
use region::{Drift, Inflow, Placed, Region};
use sets::Sets;
use std::mem::{Discriminant, discriminant};

/// Miss ratios hold until a program's lines have moved by this share of what it can hold. A reload
/// misses every line once, whatever the steps, which only decide how soon: so a few will do.
const MOVE: f64 = 0.25;
/// They hold for ever where the lines go no further than this share of what it can hold, nor its
/// miss ratio further than this: twice the width of a [`level`].
const NEAR: f64 = 1.0 / 32.0;
/// Sets count as filled up where less than this share of all lines is left to those that run: most
/// sets are full then, and it is of no use to wait for the last.
const NEARLY_FULL: f64 = 0.15;
/// Over how much of what it can hold the slope of a program's miss ratio is taken.
const SLOPE: f64 = 1.0 / 64.0;

/// The last-level caches of a machine with what programs hold in them.
#[derive(Clone, Debug)]
pub struct CacheModel {
    partition: Partition,
    replacement: Replacement,
    /// Colours, or ways, of one cache.
    divisions: u32,
    /// Lines of one cache.
    lines: f64,
    /// By ways with [`Partition::Ways`], otherwise the only one.
    sets: Vec<Sets>,
    /// By core: its cache, and its part of it.
    cores: Vec<(usize, u64)>,
    /// By program: its own part, 0 = that of the core.
    own: Vec<Option<u64>>,
    regions: Vec<Region>,
    /// By program: what [`CacheModel::miss_ratio`] was asked last.
    steady: Vec<Steady>,
    room: Room,
}

/// What is kept from one call to the next: mostly the same programs run, and nothing is allocated.
#[derive(Clone, Default, Debug)]
struct Room {
    /// For which programs `placed` is; none = all of it is to be filled anew, as after any change
    /// of regions, parts of caches, or programs' steady states.
    running: Vec<Running>,
    /// By region.
    placed: Vec<Placed>,
    /// Of each that runs, and how many lines it holds.
    drifts: Vec<(Drift, f64)>,
}

/// A program that runs, and into which part of which cache it brings its lines.
#[derive(Clone, Copy, Debug)]
struct Running {
    core: usize,
    program: usize,
    cache: usize,
    part: u64,
    /// Lines of the part.
    lines: f64,
}

impl Running {
    const NONE: Self =
        Self { core: usize::MAX, program: usize::MAX, cache: usize::MAX, part: 0, lines: 0.0 };
}

/// A program alone in its part, as it is in the long run; and the miss ratio that was given for it
/// last.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Steady {
    part: u64,
    /// Lines of the part.
    lines: f64,
    /// Lines of the working set, and those of them that it can hold at most.
    wanted: f64,
    limit: f64,
    /// How often it then still misses.
    ratio: f64,
    /// When asked last: how much more often it would miss per line less, and the answer.
    slope: f64,
    reported: f64,
    /// And per miss, what share of its lines it used again.
    reuse: f64,
    /// Up to so many lines it misses always.
    always: f64,
    /// Near its balance: by how much fewer lines come per nanosecond for each line that it gains.
    follows: f64,
    /// For which working set and reuse this is; `None` where it must be found anew each time.
    of: Option<(u64, Discriminant<Reuse>)>,
}

impl Steady {
    /// Nothing is known of the program: it may fill its part.
    const UNKNOWN: Self = Self {
        part: 0,
        lines: 0.0,
        wanted: f64::INFINITY,
        limit: f64::INFINITY,
        ratio: 1.0,
        slope: 0.0,
        reported: 1.0,
        reuse: 0.0,
        always: 0.0,
        follows: 0.0,
        of: None,
    };
}

impl CacheModel {
    /// Empty caches. `core_parts` are the parts of the cores, by core, `None` = all; bits beyond
    /// the cache's colours (or ways) mean nothing. Programs are known by their index below
    /// `programs`.
    ///
    /// # Panics
    /// Where the cache has no ways.
    #[must_use]
    pub fn new(
        cache: &Cache,
        partition: Partition,
        core_parts: &[Option<CachePart>],
        programs: usize,
    ) -> Self {
        let (divisions, ways) = match partition {
            Partition::Colors => (cache.colors, vec![cache.ways]),
            Partition::Ways => (cache.ways, (1..=cache.ways).collect()),
        };
        let mut model = Self {
            partition,
            replacement: cache.replacement,
            divisions,
            lines: (cache.bytes / LINE_BYTES) as f64,
            sets: ways
                .iter()
                .map(|ways| Sets::new(*ways, cache.slices, cache.replacement))
                .collect(),
            cores: Vec::new(),
            own: vec![None; programs],
            regions: Vec::new(),
            steady: vec![Steady::UNKNOWN; programs],
            room: Room::default(),
        };
        let caches = core_parts.len().checked_sub(1).map_or(0, |last| cache.of_core(last) + 1);
        for each in 0..caches {
            model.regions.push(Region::new(each, model.all(), programs));
        }
        for (core, part) in core_parts.iter().enumerate() {
            let bits = model.clean(*part);
            model.cores.push((cache.of_core(core), bits));
            model.split(bits);
        }
        model
    }

    /// The miss ratio of `program` on `core` with what it holds at present, as a [`level`].
    /// [`CacheModel::advance`] takes `use_` for what the program does until it is asked again. What
    /// it held before it changed its ways counts as held.
    #[must_use]
    pub fn miss_ratio(&mut self, program: usize, use_: &MemoryUse, core: usize) -> f64 {
        let part = self.colors_of(program, core);
        let known = &self.steady[program];
        if known.part != part || known.of.is_none() || known.of != key(use_) {
            self.steady[program] = self.steady_in(use_, part);
            self.room.running.clear();
        }
        let steady = &self.steady[program];
        let cache = self.cores[core].0;
        let held = self.resident(program, cache, part).at_most(steady.limit);
        let ratio = self.ratio_with(use_, steady, held);
        let less = (held - SLOPE * steady.limit).at_least(0.0);
        let slope = (self.ratio_with(use_, steady, less) - ratio) / (held - less).at_least(1.0);
        let steady = &mut self.steady[program];
        (steady.slope, steady.follows) = (slope, 0.0);
        steady.reported = ratio_of(level(ratio));
        steady.reuse = (1.0 / steady.reported - 1.0) / held.at_least(1.0);
        // It misses what it lacks: most where others have taken most.
        let own = |region: &&mut Region| region.cache == cache && part & region.bits != 0;
        for region in self.regions.iter_mut().filter(own) {
            let share = region.lines / steady.lines;
            let lacks = (steady.wanted * share - region.held[program]).at_least(0.0);
            let missed = lacks / (steady.wanted - held);
            region.reported[program] = region.held[program];
            region.missed[program] = if missed.is_finite() { missed.at_most(1.0) } else { share };
        }
        steady.reported
    }

    /// The miss ratio in the long run of a program alone in these colours (or ways) of one cache,
    /// `None` = all, as a [`level`]: none but its own lines ever take its place.
    #[must_use]
    pub fn best_miss_ratio(&self, use_: &MemoryUse, part: Option<CachePart>) -> f64 {
        ratio_of(level(self.steady_in(use_, self.clean(part)).ratio))
    }

    /// Lets `dt_ns` pass, in which programs run on cores and miss at constant rates:
    /// `(core, program, misses per nanosecond)`. Programs that do not run only lose. What a
    /// program misses once it holds all that its sets can hold of its working set replaces its
    /// own lines, and does not harm others.
    pub fn advance(&mut self, dt_ns: f64, running: &[(usize, usize, f64)]) {
        if running.is_empty() {
            return;
        }
        self.place(running);
        for (region, placed) in self.regions.iter_mut().zip(&mut self.room.placed) {
            if !placed.inflows.is_empty() && !placed.full {
                region.advance(&self.sets[region.kind], self.replacement, dt_ns, placed);
            }
        }
    }

    /// For how long the miss ratios given last may be held constant, in nanoseconds: until the
    /// lines of a running program have moved by a quarter of what it can hold, or it comes to hold
    /// all of that. Infinite at equilibrium, and where only programs run that miss always.
    #[must_use]
    pub fn next_change_ns(&mut self, running: &[(usize, usize, f64)]) -> f64 {
        if running.is_empty() {
            return f64::INFINITY;
        }
        self.place(running);
        let Room { placed, drifts, .. } = &mut self.room;
        drifts.clear();
        drifts.resize(running.len(), (Drift::NONE, 0.0));
        for (region, placed) in self.regions.iter().zip(placed) {
            if placed.inflows.is_empty() {
                continue;
            }
            if placed.full {
                placed.inflows.iter().for_each(|inflow| drifts[inflow.at].1 += inflow.held);
                continue;
            }
            let flow = region.flow(&self.sets[region.kind], self.replacement, placed);
            for inflow in &placed.inflows {
                let drift = &mut drifts[inflow.at];
                drift.0.add(&flow.drift(inflow));
                drift.1 += inflow.held;
            }
        }
        let mut next = f64::INFINITY;
        for (at, (core, program, misses)) in running.iter().enumerate() {
            let (drift, held) = self.room.drifts[at];
            // With colours what it holds where it brings lines is what it holds at all.
            let held = match self.partition {
                Partition::Colors => held,
                Partition::Ways => self.resident(*program, self.cores[*core].0, self.all()),
            };
            next = self.time_to_move(*program, held, *misses, &drift).at_most(next);
        }
        next
    }

    /// `program` moves to a part of its own, by which core it may run; `None` = that of the core
    /// that it runs on. With colours its pages move, so its lines are gone; with ways its lines
    /// stay where they are, and still hit, until others take their place.
    pub fn recolor(&mut self, program: usize, part: Option<CachePart>) {
        let bits = self.clean(part);
        self.own[program] = part.map(|_| bits);
        self.split(bits);
        if self.partition == Partition::Colors {
            self.empty(program);
        }
    }

    /// The part of the cache into which `program` brings its lines on `core`.
    #[must_use]
    pub fn colors_of(&self, program: usize, core: usize) -> u64 {
        self.own[program].unwrap_or(self.cores[core].1)
    }

    /// `program` is gone, with its lines and what was its own part.
    pub fn drop_program(&mut self, program: usize) {
        self.own[program] = None;
        self.steady[program] = Steady::UNKNOWN;
        self.room.running.clear();
        self.empty(program);
    }

    /// Lines that `program` holds, in all caches.
    #[must_use]
    pub fn lines_held(&self, program: usize) -> f64 {
        self.regions.iter().map(|region| region.held[program]).sum()
    }

    fn empty(&mut self, program: usize) {
        for region in &mut self.regions {
            region.empty(program);
        }
    }

    fn all(&self) -> u64 {
        1_u64.checked_shl(self.divisions).map_or(u64::MAX, |beyond| beyond - 1)
    }
    /// The bits of a part that mean something; all where none is left.
    fn clean(&self, part: Option<CachePart>) -> u64 {
        let bits = part.map_or(0, |part| part.get() & self.all());
        if bits == 0 { self.all() } else { bits }
    }
    fn lines_in(&self, bits: u64) -> f64 {
        self.lines * f64::from(bits.count_ones()) / f64::from(self.divisions)
    }
    /// The place of the [`Sets`] of a part.
    fn sets_of(&self, bits: u64) -> usize {
        match self.partition {
            Partition::Colors => 0,
            Partition::Ways => bits.count_ones() as usize - 1,
        }
    }

    /// Splits regions until each lies within `bits` or outside.
    fn split(&mut self, bits: u64) {
        self.room.running.clear();
        let mut split = Vec::new();
        for region in self.regions.drain(..) {
            let parts = [bits, !bits].into_iter().filter(|bits| region.bits & bits != 0);
            split.extend(parts.map(|bits| region.part(bits)));
        }
        self.regions = split;
        for at in 0..self.regions.len() {
            let bits = self.regions[at].bits;
            let lines = self.lines_in(bits);
            let kind = self.sets_of(bits);
            let region = &mut self.regions[at];
            region.lines = lines;
            (region.sets, region.kind) = (lines / f64::from(self.sets[kind].ways()), kind);
        }
    }

    /// Lines of `program` in this part of a cache that hit when it runs there: pages of other
    /// colours are not its own, but a hit needs no way of one's own (Intel CAT).
    fn resident(&self, program: usize, cache: usize, part: u64) -> f64 {
        let part = match self.partition {
            Partition::Colors => part,
            Partition::Ways => self.all(),
        };
        let own = |region: &&Region| region.cache == cache && region.bits & part != 0;
        self.regions.iter().filter(own).map(|region| region.held[program]).sum()
    }

    fn steady_in(&self, use_: &MemoryUse, part: u64) -> Steady {
        let sets = &self.sets[self.sets_of(part)];
        let lines = self.lines_in(part);
        let in_sets = lines / f64::from(sets.ways());
        let working_set = (use_.working_set / LINE_BYTES) as f64;
        let trials = sets.trials_of(working_set / in_sets);
        let fits = sets.kept(trials) * in_sets;
        let (wanted, limit, ratio) = match &use_.reuse {
            // What it is said to go through does not matter: it never comes again.
            Reuse::Stream => (f64::INFINITY, lines, 1.0),
            Reuse::Random => (working_set, fits, sets.random_order(trials)),
            Reuse::Cyclic => (working_set, fits, sets.same_order(trials)),
            Reuse::Curve(points) => (working_set, fits, curve(points, fits * LINE_BYTES as f64)),
        };
        let always = if use_.reuse == Reuse::Cyclic { sets.always * wanted } else { 0.0 };
        let of = key(use_);
        Steady { part, lines, wanted, limit, ratio, reported: ratio, always, of, ..Steady::UNKNOWN }
    }

    /// The miss ratio of a program that holds so many lines.
    fn ratio_with(&self, use_: &MemoryUse, steady: &Steady, held: f64) -> f64 {
        if steady.limit - held <= 1.0 {
            return steady.ratio;
        }
        let ratio = match &use_.reuse {
            Reuse::Stream => 1.0,
            Reuse::Random => 1.0 - held / steady.wanted,
            Reuse::Cyclic => self.sets[self.sets_of(steady.part)].scan_with(held / steady.wanted),
            Reuse::Curve(points) => curve(points, held * LINE_BYTES as f64),
        };
        ratio.at_least(steady.ratio)
    }

    /// What the running programs bring into each region: `(core, program, misses per nanosecond)`.
    /// Where the same ones do so as before, only how fast is new.
    fn place(&mut self, running: &[(usize, usize, f64)]) {
        let stale = self.locate(running);
        let Self { regions, steady, sets, room, .. } = self;
        room.placed.resize_with(regions.len(), Placed::default);
        for (region, placed) in regions.iter().zip(&mut room.placed) {
            if region.bits & stale != 0 {
                fill(region, &room.running, steady, placed);
                placed.together_at_most =
                    region.together_at_most(&sets[region.kind], &placed.inflows);
            }
            if placed.full {
                continue;
            }
            for inflow in &mut placed.inflows {
                let Running { program, part, lines, .. } = room.running[inflow.at];
                let misses = running[inflow.at].2;
                let steady = &steady[program];
                let known = steady.part == part;
                let here = if known { region.missed[program] } else { region.lines / lines };
                inflow.rate = misses * here;
                // A program that misses nothing uses all of its lines all the time.
                inflow.reuse =
                    if steady.reported > 0.0 { misses * steady.reuse } else { f64::INFINITY };
                inflow.unused = None;
                inflow.follows = steady.follows;
            }
        }
    }

    /// Where the running programs bring their lines. Returns the parts where those that do are not
    /// the same as before.
    fn locate(&mut self, running: &[(usize, usize, f64)]) -> u64 {
        let mut stale = 0;
        if self.room.running.len() != running.len() {
            self.room.running.clear();
            self.room.running.resize(running.len(), Running::NONE);
            stale = u64::MAX;
        }
        for (at, (core, program, _)) in running.iter().enumerate() {
            let before = self.room.running[at];
            if (before.core, before.program) != (*core, *program) {
                let (cache, part) = (self.cores[*core].0, self.colors_of(*program, *core));
                stale |= before.part | part;
                let lines = self.lines_in(part);
                self.room.running[at] =
                    Running { core: *core, program: *program, cache, part, lines };
            }
        }
        stale
    }

    /// After how many nanoseconds the lines of a program have moved far enough.
    fn time_to_move(&mut self, program: usize, held: f64, misses: f64, drift: &Drift) -> f64 {
        self.steady[program].follows = 0.0;
        let steady = &self.steady[program];
        if drift.turnover.is_infinite() || steady.wanted.is_infinite() {
            return f64::INFINITY;
        }
        let limit = steady.limit.at_most(self.lines);
        // A program that misses always does so whatever it loses, and until it holds enough.
        let unobserved = if steady.reported < 1.0 { 0.0 } else { steady.always - held };
        if unobserved > 0.0 && (drift.gain < 0.0 || steady.always >= limit) {
            return f64::INFINITY;
        }
        let references = if steady.reported > 0.0 { misses / steady.reported } else { 0.0 };
        let slope = steady.slope;
        let follows = slope * references;
        // At these rates it comes to E* in the end. But as its lines move so do its misses, and
        // they lead it to where both agree, nearer by this factor (a step of Newton's).
        let nearer = |follows: f64| 1.0 / (1.0 + follows * drift.turnover);
        let balance = nearer(follows * (1.0 - drift.own));
        let lacks = limit - held;
        let near = |gain: f64, tolerance: f64| {
            let star = gain.abs() * drift.turnover;
            let reach = star * balance;
            // A program that comes to hold all it can has no balance to stay at before.
            let balanced = gain < 0.0 || reach < 0.75 * lacks || star <= NEAR * limit;
            balanced && reach <= NEAR * limit && reach * slope <= tolerance
        };
        // A program that is about to hold all it can is looked at when it does.
        let far = (MOVE * limit).at_least(unobserved);
        let soon = lacks.at_least(NEAR / 4.0 * limit).at_most(far);
        let target = |gain: f64| if gain > 0.0 { soon } else { far };
        let step = |gain: f64| {
            let star = gain.abs() * drift.turnover;
            let step = (star * nearer(follows)).at_least(1.0).at_most(target(gain));
            -drift.turnover * log((1.0 - step / star).at_least(f64::EPSILON))
        };
        if near(drift.gain, 2.0 * NEAR) {
            self.steady[program].follows = follows;
            return if !near(drift.gain, NEAR) {
                (4.0 * drift.turnover * balance).at_least(drift.filling)
            } else if near(drift.full, NEAR) {
                f64::INFINITY
            } else {
                // It loses no lines, or few, until sets are full.
                step(drift.full).at_least(drift.filling)
            };
        }
        if drift.filling > NEARLY_FULL * drift.turnover {
            // As long as sets fill up gains only fall, and losses grow from little.
            let full = if drift.gain > 0.0 { drift.filling } else { drift.filling / 2.0 };
            return (target(drift.gain) / drift.gain.abs()).at_most(full);
        }
        step(drift.gain)
    }
}

/// Which of the running programs bring lines into `region`, and how many at most.
fn fill(region: &Region, running: &[Running], steady: &[Steady], placed: &mut Placed) {
    placed.inflows.clear();
    placed.full = false;
    for (at, running) in running.iter().enumerate() {
        let Running { program, cache, part, lines, .. } = *running;
        if cache != region.cache || part & region.bits == 0 {
            continue;
        }
        let steady = &steady[program];
        let known = steady.part == part;
        let share = region.lines / if known { steady.lines } else { lines };
        let of = |lines: f64| if known { lines * share } else { f64::INFINITY };
        let (wanted, limit) = (of(steady.wanted), of(steady.limit).at_most(region.lines));
        placed.inflows.push(Inflow { at, program, wanted, limit, ..Inflow::NONE });
    }
}

/// What distinguishes how programs reuse their lines; curves only by all of their points.
fn key(use_: &MemoryUse) -> Option<(u64, Discriminant<Reuse>)> {
    let curve = matches!(use_.reuse, Reuse::Curve(_));
    (!curve).then(|| (use_.working_set, discriminant(&use_.reuse)))
}

/// Binary digits of a miss ratio that count after its first: steps of 1/64 from a half to 1, finer
/// below, and no ratio is moved by more than 1.6 % of itself.
const DIGITS: u32 = 5;
/// Below 2^-OCTAVES there are no misses.
const OCTAVES: u64 = 13;
/// The place of 2^-OCTAVES among numbers of so many digits (IEEE 754: bias 1023).
const LEAST: u64 = (1023 - OCTAVES) << DIGITS;
/// Digits that do not count.
const CUT: u32 = f64::MANTISSA_DIGITS - 1 - DIGITS;

/// The level of a miss ratio: the key under which what follows from it may be kept. 0 = none.
#[must_use]
pub fn level(ratio: f64) -> u16 {
    let rounded = (ratio.clamp(0.0, 1.0).to_bits() + (1 << (CUT - 1))) >> CUT;
    (rounded + 1).saturating_sub(LEAST) as u16
}

/// The miss ratio that stands for all of a level.
#[must_use]
pub fn ratio_of(level: u16) -> f64 {
    if level == 0 { 0.0 } else { f64::from_bits((u64::from(level) - 1 + LEAST) << CUT) }
}

/// Misses per reference by measured points, linear in between and constant beyond.
fn curve(points: &[(u64, u32)], bytes: f64) -> f64 {
    let ratio = |point: &(u64, u32)| f64::from(point.1) / 1e6;
    let above = points.partition_point(|point| (point.0 as f64) < bytes);
    match (above.checked_sub(1).map(|below| &points[below]), points.get(above)) {
        (Some(low), Some(high)) => {
            let part = (bytes - low.0 as f64) / (high.0 - low.0) as f64;
            ratio(low) + (ratio(high) - ratio(low)) * part
        }
        (Some(end), None) | (None, Some(end)) => ratio(end),
        (None, None) => 1.0,
    }
}

#[cfg(test)]
mod tests;
