//! From counts to a workload model: what the simulator's law takes.
//!
//! The law (docs/scenario.md, `memory`): the time from one reference to the last-level cache to the
//! next is Z + m L / W, with Z the time while all references hit, m the misses per reference, L the
//! latency of memory and W the misses under way at once. Counted are the time per reference, m, W
//! and the share of cycles with a miss under way: of the time per reference that share is m L / W,
//! and the rest is Z, whatever L was while it was counted. Where that share is not counted, L is
//! the latency of a chase.

use super::phases::Phase;
use maracas_live::profile::Slice;
use std::time::Duration;

/// Counts of some service, added up; `None` where the host does not count them.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Sums {
    pub(super) service_ns: f64,
    pub(super) instructions: Option<f64>,
    pub(super) references: Option<f64>,
    pub(super) reads: Option<f64>,
    /// Cycles with misses under way.
    pub(super) waited: Option<f64>,
    /// Occupancy by cycles with any, of the intervals in which both were counted.
    pub(super) outstanding: Option<Ratio>,
    /// Cycles with any by all cycles, of other intervals.
    pub(super) waiting: Option<Ratio>,
    /// Misses that nearer caches answered, by references; of others again.
    pub(super) nearer: Option<Ratio>,
}

/// Two counts of the same intervals.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Ratio {
    of: f64,
    by: f64,
}

impl Ratio {
    pub(super) fn new(of: Option<u64>, by: Option<u64>) -> Option<Self> {
        Some(Self { of: of? as f64, by: by? as f64 })
    }
    fn value(self) -> Option<f64> {
        (self.by > 0.0).then(|| self.of / self.by)
    }
    /// What was counted in either.
    fn sum(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => Some(Self { of: one.of + other.of, by: one.by + other.by }),
            (one, other) => one.or(other),
        }
    }
}

impl Sums {
    pub(super) fn of(slice: &Slice) -> Self {
        let count = |value: Option<u64>| value.map(|value| value as f64);
        Self {
            service_ns: slice.service.as_nanos() as f64,
            instructions: count(slice.instructions),
            references: count(slice.references),
            reads: count(slice.reads),
            outstanding: Ratio::new(slice.occupancy, slice.waiting),
            waited: count(slice.waiting),
            waiting: Ratio::new(slice.waiting, slice.cycles),
            nearer: Ratio::new(slice.nearer, slice.references),
        }
    }
    pub(super) fn add(&mut self, other: &Self) {
        // Of nothing so far, everything is counted that the other counts.
        if self.service_ns == 0.0 {
            *self = *other;
            return;
        }
        let sum = |one: Option<f64>, other: Option<f64>| Some(one? + other?);
        self.service_ns += other.service_ns;
        self.instructions = sum(self.instructions, other.instructions);
        self.references = sum(self.references, other.references);
        self.reads = sum(self.reads, other.reads);
        self.outstanding = Ratio::sum(self.outstanding, other.outstanding);
        self.waited = sum(self.waited, other.waited);
        self.waiting = Ratio::sum(self.waiting, other.waiting);
        self.nearer = Ratio::sum(self.nearer, other.nearer);
    }
    /// References, or where they are not counted the reads in their place.
    pub(super) fn references_or_reads(&self) -> Option<f64> {
        self.references.or(self.reads)
    }
    /// Misses per reference, at most 1: prefetches are misses that nothing referred to.
    pub(super) fn miss_ratio(&self) -> Option<f64> {
        let (reads, references) = (self.reads?, self.references?);
        (references > 0.0).then(|| (reads / references).min(1.0))
    }
    /// Misses under way while there are any.
    pub(super) fn outstanding(&self) -> Option<f64> {
        self.outstanding.and_then(Ratio::value).map(|outstanding| outstanding.max(1.0))
    }
    /// The share of its time in which it waited for memory: of the cycles with misses under way
    /// what is left of the occupancy without those that caches answered.
    pub(super) fn waiting(&self, hits: Hits) -> Option<f64> {
        let share = self.waiting.and_then(Ratio::value)?.min(1.0);
        let occupancy = self.waited? * self.outstanding()?;
        let references = self.references.unwrap_or_default();
        let nearer = self.nearer.and_then(Ratio::value).unwrap_or_default() * references;
        let answered = references - self.reads.unwrap_or_default();
        let cached = hits.nearer_cycles * nearer + hits.last_level_cycles * answered.max(0.0);
        Some(share * (1.0 - cached / occupancy.max(1.0)).max(0.0))
    }
    /// Whether references and reads come at the same rates but for a share of `alike` of the
    /// greater, and instructions but for twice that. Rates are by instruction where those are
    /// counted, since others on the machine change the time that the same work takes.
    pub(super) fn is_like(&self, other: &Self, alike: f64) -> bool {
        let (own, others) = match (self.instructions, other.instructions) {
            (Some(own), Some(others)) if own > 0.0 && others > 0.0 => (own, others),
            (Some(_) | None, _) => (self.service_ns, other.service_ns),
        };
        let near = |one: Option<f64>, two: Option<f64>, alike: f64| match (one, two) {
            (Some(one), Some(two)) => {
                let (one, two) = (one / own, two / others);
                (one - two).abs() <= alike * one.max(two) || one.max(two) < NOTHING
            }
            (None, _) | (_, None) => true,
        };
        near(self.references, other.references, alike)
            && near(self.reads, other.reads, alike)
            && near(Some(self.service_ns), Some(other.service_ns), 2.0 * alike)
    }
}

/// References by instruction or nanosecond that are none: one in ten thousand makes a program no
/// slower than 2 %.
const NOTHING: f64 = 1e-4;

/// For how many cycles misses are under way that caches answer, where the occupancy counts them
/// too.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Hits {
    pub(super) nearer_cycles: f64,
    pub(super) last_level_cycles: f64,
}

/// What is known of the machine on which it was counted.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Machine {
    /// Latency of memory with nothing else on it, in nanoseconds.
    pub(super) latency_ns: Option<f64>,
    /// Bytes of the last-level cache.
    pub(super) cache_bytes: Option<u64>,
    pub(super) hits: Hits,
}

/// How its references miss.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Reuse {
    Stream,
    Random,
    /// Points (bytes held, misses per reference).
    Curve(Vec<(u64, f64)>),
}

/// The model of one phase.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Model {
    pub(super) run: Duration,
    /// Per reference.
    pub(super) instructions: Option<f64>,
    pub(super) think_ns: f64,
    pub(super) outstanding: Option<f64>,
    pub(super) reuse: Reuse,
    /// Misses per reference as counted.
    pub(super) ratio: f64,
    /// How long its own misses took, in nanoseconds, where their waiting was counted.
    pub(super) latency_ns: Option<f64>,
    /// References per microsecond of service.
    pub(super) rate: f64,
}

/// Above this share of misses a reference always misses; below this distance from the law of random
/// reuse, the point is on it: what counting scatters by.
const ALWAYS: f64 = 0.95;
const NEAR: f64 = 0.05;
/// Fewer references in a microsecond are none: timers and switches make as many, and a miss of 150
/// ns every 10 us makes a program 1.5 % slower.
const FEWEST_PER_US: f64 = 0.1;

impl Model {
    /// Whether it touches memory to speak of.
    pub(super) fn uses_memory(&self) -> bool {
        self.rate >= FEWEST_PER_US
    }
}

/// The model of a phase; `None` where nothing was counted of it. `points` were counted with less of
/// the cache.
pub(super) fn model(
    phase: &Phase,
    machine: &Machine,
    working_set: Option<u64>,
    points: &[(u64, f64)],
) -> Option<Model> {
    let sums = &phase.sums;
    // Computing without any is as good as with one.
    let references = sums.references_or_reads()?.max(1.0);
    let rate = references * 1e3 / sums.service_ns;
    let ratio = if sums.references.is_some() { sums.miss_ratio().unwrap_or(0.0) } else { 1.0 };
    let each_ns = sums.service_ns / references;
    let waiting = sums.waiting(machine.hits);
    let (outstanding, wait_ns) = match (sums.outstanding(), waiting) {
        (Some(outstanding), Some(share)) => (Some(outstanding), share * each_ns),
        (counted, _) => waits(counted, each_ns, ratio * machine.latency_ns.unwrap_or(0.0)),
    };
    // Of few misses among many hits it would be scatter.
    let own = waiting.and(outstanding).filter(|_| ratio >= NEAR);
    let instructions = sums.instructions.map(|instructions| instructions / references);
    Some(Model {
        run: phase.run,
        instructions,
        think_ns: (each_ns - wait_ns).max(0.0),
        outstanding,
        reuse: reuse(ratio, machine.cache_bytes, working_set, points),
        ratio,
        latency_ns: own.map(|outstanding| wait_ns * outstanding / ratio),
        rate,
    })
}

/// W, and how long a reference waits for memory, in nanoseconds, where that was not counted: one
/// after the other it would be `chased_ns`. More waiting than time means that more misses were
/// under way than the counters saw (prefetches).
fn waits(counted: Option<f64>, each_ns: f64, chased_ns: f64) -> (Option<f64>, f64) {
    let least = chased_ns / each_ns;
    let outstanding = if least > counted.unwrap_or(1.0) { Some(least) } else { counted };
    (outstanding, chased_ns / outstanding.unwrap_or(1.0))
}

fn reuse(
    ratio: f64,
    cache_bytes: Option<u64>,
    working_set: Option<u64>,
    points: &[(u64, f64)],
) -> Reuse {
    if !points.is_empty() {
        return Reuse::Curve(falling(points));
    }
    if ratio >= ALWAYS {
        return Reuse::Stream;
    }
    let (Some(cache), Some(set)) = (cache_bytes, working_set.filter(|set| *set > 0)) else {
        return Reuse::Curve(vec![(cache_bytes.or(working_set).unwrap_or(1 << 20), ratio)]);
    };
    let random = (1.0 - cache as f64 / set as f64).max(0.0);
    if (ratio - random).abs() <= NEAR {
        Reuse::Random
    } else {
        Reuse::Curve(vec![(cache.min(set), ratio)])
    }
}

/// Points in the order of their bytes whose misses never rise, as more cache cannot harm: what
/// rises was scatter.
fn falling(points: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let mut points = points.to_vec();
    points.sort_by_key(|(bytes, _)| *bytes);
    points.dedup_by_key(|(bytes, _)| *bytes);
    let mut least = f64::INFINITY;
    for (_, ratio) in &mut points {
        least = least.min(*ratio);
        *ratio = least;
    }
    points
}

/// W from how the time per reference grew with the latency of memory: the slope of a straight line
/// through the points (L, time per reference) is m / W. `None` where the load did not move the
/// latency by a tenth: nothing can be read off then.
pub(super) fn fitted_outstanding(points: &[(f64, f64)], ratio: f64) -> Option<f64> {
    let (least, most) = points
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(least, most), (l, _)| (least.min(*l), most.max(*l)));
    if points.len() < 2 || most < least * 1.1 || ratio <= 0.0 {
        return None;
    }
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (l, t) = (mean(|(l, _)| *l), mean(|(_, t)| *t));
    let covariance: f64 = points.iter().map(|(x, y)| (x - l) * (y - t)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - l).powi(2)).sum();
    let slope = covariance / variance;
    (slope > 0.0).then(|| ratio / slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One second; of `outstanding` misses while there were any, in `share` of the cycles.
    fn phase(references: f64, reads: f64, counted: Option<(u64, u64)>) -> Phase {
        let sums = Sums {
            service_ns: 1e9,
            instructions: Some(references * 20.0),
            references: Some(references),
            reads: Some(reads),
            outstanding: Ratio::new(counted.map(|(outstanding, _)| outstanding), Some(1)),
            waited: counted.map(|(_, share_percent)| share_percent as f64 * 3e7),
            waiting: Ratio::new(counted.map(|(_, share_percent)| share_percent), Some(100)),
            nearer: None,
        };
        Phase { run: Duration::from_secs(1), sums }
    }

    const MACHINE: Machine = Machine {
        latency_ns: Some(100.0),
        cache_bytes: Some(32 << 20),
        hits: Hits { nearer_cycles: 0.0, last_level_cycles: 0.0 },
    };

    #[test]
    fn think_time_is_what_waiting_for_memory_leaves() {
        // 10 million references a second, half of them misses, two at once: 100 ns each, of which
        // 0.5 x 120 / 2 are waiting, though the idle machine answers in 100 ns.
        let phase = phase(1e7, 5e6, Some((2, 30)));
        let model = model(&phase, &MACHINE, Some(64 << 20), &[]).expect("it reads");
        assert!((model.think_ns - 70.0).abs() < 1e-6, "{model:?}");
        assert!((model.latency_ns.expect("it was counted") - 120.0).abs() < 1e-6, "{model:?}");
        assert_eq!((model.instructions, model.outstanding), (Some(20.0), Some(2.0)));
        // Half of the set is held: the law of random reuse.
        assert_eq!(model.reuse, Reuse::Random);
    }

    #[test]
    fn waiting_for_caches_is_not_waiting_for_memory() {
        // In half of the 3e9 cycles one miss is under way; 0.3e9 of those belong to hits in the
        // last-level cache and 0.45e9 to hits before it, which are four to a reference.
        let mut phase = phase(1e7, 4e6, Some((1, 50)));
        phase.sums.nearer = Ratio::new(Some(4), Some(1));
        let hits = Hits { nearer_cycles: 11.25, last_level_cycles: 50.0 };
        assert!((phase.sums.waiting(hits).expect("counted") - 0.25).abs() < 1e-9);
        let machine = Machine { hits, ..MACHINE };
        let model = model(&phase, &machine, Some(64 << 20), &[]).expect("it reads");
        assert!((model.think_ns - 75.0).abs() < 1e-6, "{model:?}");
        assert!((model.latency_ns.expect("counted") - 62.5).abs() < 1e-6, "{model:?}");
    }

    #[test]
    fn without_counts_of_waiting_a_chase_gives_the_latency() {
        let uncounted = |references, reads| {
            let phase = phase(references, reads, None);
            model(&phase, &MACHINE, Some(1 << 30), &[]).expect("it reads")
        };
        let slow = uncounted(5e6, 5e6);
        assert_eq!((slow.outstanding, slow.latency_ns), (None, None));
        assert!((slow.think_ns - 100.0).abs() < 1e-6, "{slow:?}");
        // 50 million misses a second of 100 ns each: five at once.
        let fast = uncounted(5e7, 5e7);
        assert!((fast.outstanding.expect("it follows") - 5.0).abs() < 1e-9);
        assert_eq!((fast.think_ns, fast.reuse), (0.0, Reuse::Stream));
    }

    #[test]
    fn what_takes_turns_is_added_up_by_itself() {
        let slice = |occupancy, cycles| Slice {
            service: Duration::from_millis(100),
            references: Some(10),
            waiting: Some(50),
            occupancy,
            cycles,
            ..Slice::default()
        };
        let mut sums = Sums::default();
        for slice in [slice(Some(150), None), slice(None, Some(200)), slice(Some(50), None)] {
            sums.add(&Sums::of(&slice));
        }
        let waiting = sums.waiting(Hits::default());
        assert_eq!((sums.outstanding(), waiting), (Some(2.0), Some(0.25)));
        assert_eq!((sums.references, sums.reads), (Some(30.0), None));
    }

    #[test]
    fn one_point_that_fits_no_law_stays_a_point_and_more_make_a_falling_curve() {
        let odd = phase(1e7, 3e6, None);
        let reuse = |points: &[(u64, f64)]| {
            model(&odd, &MACHINE, Some(64 << 20), points).expect("it reads").reuse
        };
        assert_eq!(reuse(&[]), Reuse::Curve(vec![(32 << 20, 0.3)]));
        let points = [(8 << 20, 0.5), (2 << 20, 0.9), (4 << 20, 0.4)];
        let falling = vec![(2 << 20, 0.9), (4 << 20, 0.4), (8 << 20, 0.4)];
        assert_eq!(reuse(&points), Reuse::Curve(falling));
    }

    #[test]
    fn computing_is_a_long_time_between_references() {
        let computing = model(&phase(0.0, 0.0, Some((1, 0))), &MACHINE, None, &[]);
        let computing = computing.expect("it was counted");
        assert!((computing.think_ns - 1e9).abs() < 1.0, "{computing:?}");
        assert!(!computing.uses_memory());
        let uncounted = Phase { run: Duration::ZERO, sums: Sums::default() };
        assert_eq!(model(&uncounted, &MACHINE, None, &[]), None);
    }

    #[test]
    fn outstanding_misses_are_the_slope_under_load() {
        // Z = 40, m = 0.5, W = 4.
        let time = |latency: f64| (latency, 40.0 + 0.5 * latency / 4.0);
        let fitted = fitted_outstanding(&[time(100.0), time(150.0), time(300.0)], 0.5);
        assert!((fitted.expect("it moved") - 4.0).abs() < 1e-9);
        assert_eq!(fitted_outstanding(&[time(100.0), time(105.0)], 0.5), None, "it did not move");
        assert_eq!(fitted_outstanding(&[time(100.0)], 0.5), None);
        assert_eq!(fitted_outstanding(&[(100.0, 60.0), (200.0, 50.0)], 0.5), None, "faster?");
    }
}
