//! Solutions of the DRAM law, kept by what runs together.
//!
//! A set of requestors is solved once, from the canonical start, with miss ratios rounded to few
//! steps. So a solution depends on the set alone, and never on the order in which a run came across
//! it. The law is symmetric: the set is kept sorted.
//!
//! Only latencies are taken from rounded miss ratios; how fast a program goes at this latency is
//! computed with its own. At a step of an eighth of an octave its pace is off by 2.6 % in the worst
//! case, streams that just saturate the bus, and by nothing where it misses always or hardly ever.

use super::dram::{Law, Requestor, Solved};
use super::requests::Requests;
use maracas_core::memory::{Dram, DramModel, Pattern};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// How many solutions are kept before all are forgotten and sought anew: some 20 MB.
const MOST: usize = 200_000;

/// A way of using memory: what of a program or device concerns the DRAM.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Kind {
    pub(super) pattern: Pattern,
    /// W.
    pub(super) outstanding: f64,
    /// wb.
    pub(super) writebacks: f64,
    /// Time per reference without misses, ns.
    pub(super) think_ns: f64,
}

/// A kind with a level of its miss ratio, packed so that a set is a slice of integers.
pub(super) type Entry = u32;

/// Bits of a number below its exponent and the first three digits of its mantissa: eighths of an
/// octave.
const CUT: u32 = 49;
/// A program that misses more seldom than this is no burden to any program, whatever the others
/// do.
const RARE: f64 = 1.0 / 1024.0;

/// The step of a miss ratio: an eighth of an octave, or always.
#[inline]
fn step(miss_ratio: f64) -> u16 {
    (miss_ratio.clamp(RARE, 1.0).to_bits() >> CUT) as u16
}

/// The miss ratio that stands for all of a step: its middle.
fn ratio_of_step(step: u16) -> f64 {
    let least = f64::from_bits(u64::from(step) << CUT);
    if least == 1.0 { 1.0 } else { f64::from_bits((u64::from(step) << CUT) + (1 << (CUT - 1))) }
}

/// What answers how long reads take beside each other.
#[derive(Debug)]
pub(super) enum Solver {
    Law(Law),
    Requests(Requests),
}

impl Solver {
    /// The one that `dram` names.
    pub(super) fn of(dram: &Dram) -> Self {
        match dram.model {
            DramModel::Law => Self::Law(Law::new(dram)),
            DramModel::Requests => Self::Requests(Requests::new(dram)),
        }
    }
    fn solve(&self, requestors: &[Requestor], out: &mut Vec<Solved>) {
        match self {
            Self::Law(law) => law.solve(requestors, out),
            Self::Requests(requests) => requests.solve(requestors, out),
        }
    }
}

/// A solver with its known solutions.
#[derive(Debug)]
pub(super) struct Solutions {
    solver: Solver,
    kinds: Vec<Kind>,
    /// By sorted set: where its answers begin in `answers`.
    known: HashMap<Box<[Entry]>, u32, BuildHasherDefault<Mixed>>,
    answers: Vec<Solved>,
    requestors: Vec<Requestor>,
    solved: Vec<Solved>,
    /// How often the law was solved.
    solves: u64,
    /// How often a solution was known.
    hits: u64,
}

impl Solutions {
    pub(super) fn new(solver: Solver) -> Self {
        Self {
            solver,
            kinds: Vec::new(),
            known: HashMap::default(),
            answers: Vec::new(),
            requestors: Vec::new(),
            solved: Vec::new(),
            solves: 0,
            hits: 0,
        }
    }

    /// The number of `kind`.
    pub(super) fn intern(&mut self, kind: Kind) -> u16 {
        self.known(&kind).unwrap_or_else(|| {
            self.kinds.push(kind);
            let at = u16::try_from(self.kinds.len() - 1);
            at.expect("a system has fewer than 65536 ways of using memory")
        })
    }
    /// The number of `kind`, where it has one.
    pub(super) fn known(&self, kind: &Kind) -> Option<u16> {
        self.kinds.iter().position(|other| other == kind).map(|at| at as u16)
    }

    /// A requestor of this kind that misses so often; `None` where it never does.
    #[inline]
    pub(super) fn entry(kind: u16, miss_ratio: f64) -> Option<Entry> {
        (miss_ratio > 0.0).then(|| u32::from(kind) << 16 | u32::from(step(miss_ratio)))
    }

    /// The steps of miss ratios up to this one, the highest first: a requestor of this kind there,
    /// the highest ratio and the one that stands for all of the step.
    pub(super) fn steps_below(
        kind: u16,
        miss_ratio: f64,
    ) -> impl Iterator<Item = (Entry, f64, f64)> {
        let first = if miss_ratio > 0.0 { step(miss_ratio) } else { 0 };
        let least = step(RARE);
        (least..=first).rev().map(move |at| {
            let next = f64::from_bits((u64::from(at) + 1) << CUT);
            let entry = u32::from(kind) << 16 | u32::from(at);
            (entry, next.min(miss_ratio), ratio_of_step(at))
        })
    }
    /// Z of a requestor: its time per miss in which it waits for no read, ns.
    pub(super) fn think_ns(&self, entry: Entry) -> f64 {
        self.kinds[(entry >> 16) as usize].think_ns / ratio_of_step(entry as u16)
    }

    /// How often the law was solved, and how often a solution was known.
    pub(super) const fn effort(&self) -> (u64, u64) {
        (self.solves, self.hits)
    }
    /// The set that was answered last is answered so many times more, by what was said then.
    pub(super) const fn answered_again(&mut self, times: u64) {
        self.hits += times;
    }

    /// The answers for a set, by its sorted order.
    pub(super) fn of(&mut self, set: &[Entry]) -> &[Solved] {
        debug_assert!(set.is_sorted());
        let at = match self.known.get(set) {
            Some(at) => {
                self.hits += 1;
                *at as usize
            }
            None => self.solve(set),
        };
        &self.answers[at..at + set.len()]
    }

    /// The share of time in which some read of a set waits for its data, if slots wait
    /// independently of each other. Against reads counted clock by clock that errs by eight points
    /// at most, in the sets of the test.
    pub(super) fn busy(&mut self, set: &[Entry]) -> f64 {
        let outstanding =
            |entry: &Entry, kinds: &[Kind]| kinds[(entry >> 16) as usize].outstanding.max(1.0);
        let slots: Vec<f64> = set.iter().map(|entry| outstanding(entry, &self.kinds)).collect();
        let solved = self.of(set).iter().zip(slots);
        let idle = solved.map(|(one, slots)| {
            let waits = (one.occupancy / slots).min(1.0);
            libm::pow(1.0 - waits, slots)
        });
        1.0 - idle.product::<f64>()
    }

    fn solve(&mut self, set: &[Entry]) -> usize {
        if self.known.len() >= MOST {
            self.known.clear();
            self.answers.clear();
        }
        self.solves += 1;
        self.requestors.clear();
        self.requestors.extend(set.iter().map(|entry| {
            let kind = self.kinds[(entry >> 16) as usize];
            Requestor {
                pattern: kind.pattern,
                outstanding: kind.outstanding,
                think_ns: kind.think_ns / ratio_of_step(*entry as u16),
                writebacks: kind.writebacks,
            }
        }));
        self.solver.solve(&self.requestors, &mut self.solved);
        let at = self.answers.len();
        self.answers.extend_from_slice(&self.solved);
        self.known.insert(set.into(), at as u32);
        at
    }
}

/// Multiplies and folds, word by word (the multiplier is 2^64 by the golden ratio; Knuth, volume 3,
/// section 6.4): the sets are short, and never chosen by an adversary.
#[derive(Clone, Copy, Debug)]
struct Mixed(u64);

impl Default for Mixed {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.write_u64(u64::from_ne_bytes(*word)));
        if !rest.is_empty() {
            let mut padded = [0; 8];
            padded[..rest.len()].copy_from_slice(rest);
            self.write_u64(u64::from_ne_bytes(padded));
        }
    }
    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::dram::DDR3_1333;
    use crate::memory::requests;

    fn kind(pattern: Pattern, outstanding: f64, think_ns: f64) -> Kind {
        Kind { pattern, outstanding, writebacks: 0.5, think_ns }
    }

    #[test]
    fn a_step_stands_for_its_miss_ratios() {
        let mut worst: f64 = 0.0;
        for (pattern, outstanding, think) in [
            (Pattern::Random, 1.0, 12.0),
            (Pattern::Random, 4.0, 12.0),
            (Pattern::Sequential, 10.0, 5.0),
            (Pattern::Jump, 2.0, 1.0),
            (Pattern::SameBank, 1.0, 30.0),
        ] {
            for cores in 1..=4 {
                for place in 0..200 {
                    let ratio = 0.005 * f64::from(place + 1);
                    let latency = |ratio: f64| {
                        let one = kind(pattern, outstanding, think);
                        let one = Requestor {
                            pattern,
                            outstanding,
                            think_ns: one.think_ns / ratio,
                            writebacks: one.writebacks,
                        };
                        let mut solved = Vec::new();
                        Law::new(&DDR3_1333).solve(&vec![one; cores], &mut solved);
                        solved[0].latency_ns
                    };
                    let (own, middle) = (latency(ratio), latency(ratio_of_step(step(ratio))));
                    let pace = |latency: f64| 1.0 / (think + ratio * latency / outstanding);
                    worst = worst.max((pace(own) / pace(middle) - 1.0).abs());
                }
            }
        }
        assert!(worst > 0.01 && worst < 0.027, "{worst}");
    }

    #[test]
    fn that_slots_wait_independently_errs_by_eight_points_at_most() {
        let mut worst: f64 = 0.0;
        for (pattern, outstanding, think) in [
            (Pattern::Random, 1.0, 50.0),
            (Pattern::Random, 1.0, 400.0),
            (Pattern::Sequential, 4.0, 100.0),
            (Pattern::SameBank, 1.0, 200.0),
        ] {
            for cores in [1, 2, 4] {
                let mut solutions = Solutions::new(Solver::Requests(Requests::new(&DDR3_1333)));
                let one = kind(pattern, outstanding, think);
                let number = solutions.intern(one);
                let set: Vec<_> =
                    (0..cores).filter_map(|_| Solutions::entry(number, 1.0)).collect();
                let requestor =
                    Requestor { pattern, outstanding, think_ns: think, writebacks: one.writebacks };
                let counted = requests::busy(&DDR3_1333, &vec![requestor; cores]);
                worst = worst.max((solutions.busy(&set) - counted).abs());
            }
        }
        assert!(worst > 0.07 && worst < 0.09, "{worst}");
    }

    #[test]
    fn steps_hold_what_they_stand_for() {
        for ratio in [1.0, 0.999, 0.5, 0.3, 0.01, 0.002] {
            assert_eq!(step(ratio_of_step(step(ratio))), step(ratio));
        }
        assert_eq!((ratio_of_step(step(1.0)), step(1e-9)), (1.0, step(RARE)));
        assert_eq!(Solutions::entry(3, 0.0), None);
    }

    #[test]
    fn a_set_is_solved_once_whatever_came_before() {
        let fresh = || {
            let mut solutions = Solutions::new(Solver::of(&DDR3_1333));
            let kinds = [(Pattern::Random, 1.0, 12.0), (Pattern::Sequential, 10.0, 5.0)];
            let kinds = kinds.map(|(pattern, w, think)| solutions.intern(kind(pattern, w, think)));
            assert_eq!(solutions.intern(kind(Pattern::Random, 1.0, 12.0)), kinds[0]);
            (solutions, kinds)
        };
        let (mut one, kinds) = fresh();
        let set = |ratio| [Solutions::entry(kinds[0], ratio), Solutions::entry(kinds[1], 1.0)];
        let set = |ratio| set(ratio).map(Option::unwrap_or_default);
        let first = one.of(&set(0.3)).to_vec();
        let (mut other, _) = fresh();
        other.of(&set(0.7));
        assert_eq!(other.of(&set(0.3)), first);
        assert_eq!(one.of(&set(0.31)), first);
        assert_eq!((one.solves, one.hits, other.solves, other.hits), (1, 1, 2, 0));
    }
}
