//! Phases: where a program changes what it does to memory, and how that repeats.

use super::model::Sums;
use maracas_live::profile::Slice;
use std::time::Duration;

/// Two stretches are alike when no rate differs by more than this share of the greater: a quarter
/// is more than what a steady program scatters by on a machine with others on it (measured: a fifth
/// for `m_jump`, whose misses depend on what prefetchers make of it).
const ALIKE: f64 = 0.25;
/// The fewest intervals that make a phase: fewer may be one interval cut by a change.
const SHORTEST: usize = 2;
/// The most phases that a model is given; beyond, stretches count as alike more easily.
const MOST: usize = 8;
/// An interval with less than this share of the longest one's service says too little by itself.
const WHOLE: f64 = 0.25;
/// A first stretch that never comes again is the program's start if it is shorter than this share
/// of the run.
const START: f64 = 0.2;

/// A stretch of a program's service that is like itself throughout.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    /// How much service it lasts on average.
    pub(super) run: Duration,
    pub(super) sums: Sums,
}

/// What intervals divide into.
#[derive(Clone, Debug)]
pub(super) struct Phases {
    /// One cycle of them; a single one is a program that does not change.
    pub(super) cycle: Vec<Phase>,
    /// Service of the start that was left out.
    pub(super) start: Duration,
}

/// Divides a run into phases.
pub(super) fn divide(slices: &[Slice]) -> Phases {
    let mut alike = ALIKE;
    loop {
        let phases = with_tolerance(slices, alike);
        // Beyond 1 everything is alike.
        if phases.cycle.len() <= MOST || alike >= 1.0 {
            return phases;
        }
        alike *= 1.5;
    }
}

fn with_tolerance(slices: &[Slice], alike: f64) -> Phases {
    let mut stretches = stretches(slices, alike);
    let whole: Duration = stretches.iter().map(|stretch| stretch.run).sum();
    let kinds = kinds(&stretches, alike);
    let mut start = Duration::ZERO;
    let mut kinds = &kinds[..];
    if let [first, rest @ ..] = kinds
        && !rest.is_empty()
        && !rest.contains(first)
        && stretches[0].run.as_secs_f64() < START * whole.as_secs_f64()
    {
        start = stretches.remove(0).run;
        kinds = rest;
    }
    Phases { cycle: cycle(&stretches, kinds), start }
}

/// Neighbouring intervals that are alike, as one.
fn stretches(slices: &[Slice], alike: f64) -> Vec<Phase> {
    let mut stretches: Vec<(usize, Phase)> = Vec::new();
    for one in whole(slices) {
        match stretches.last_mut() {
            Some((count, last)) if last.sums.is_like(&one.sums, alike) => {
                *count += 1;
                last.join(&one);
            }
            Some(_) | None => stretches.push((1, one)),
        }
    }
    join_short(&mut stretches);
    let mut joined: Vec<Phase> = Vec::new();
    for (_, stretch) in stretches {
        match joined.last_mut() {
            Some(last) if last.sums.is_like(&stretch.sums, alike) => last.join(&stretch),
            Some(_) | None => joined.push(stretch),
        }
    }
    joined
}

/// Intervals with those of little service given to the next: while a program sleeps, or others have
/// its core.
fn whole(slices: &[Slice]) -> Vec<Phase> {
    let longest = slices.iter().map(|slice| slice.service).max().unwrap_or_default();
    let mut joined: Vec<Phase> = Vec::new();
    for slice in slices.iter().filter(|slice| !slice.service.is_zero()) {
        let one = Phase { run: slice.service, sums: Sums::of(slice) };
        match joined.last_mut() {
            Some(last) if last.run < longest.mul_f64(WHOLE) => last.join(&one),
            Some(_) | None => joined.push(one),
        }
    }
    joined
}

/// Gives what is too short to its longer neighbour. Of an interval between two phases the neighbour
/// takes the time alone: what was counted in it is some of both.
fn join_short(stretches: &mut Vec<(usize, Phase)>) {
    while stretches.len() > 1 {
        let short = stretches.iter().position(|(count, _)| *count < SHORTEST);
        let Some(place) = short else { return };
        let (count, short) = stretches.remove(place);
        let length =
            |at: Option<usize>| at.and_then(|at| stretches.get(at)).map_or(0, |(count, _)| *count);
        let (before, after) = (length(place.checked_sub(1)), length(Some(place)));
        let into = if before >= after { place - 1 } else { place };
        let (counted, neighbour) = &mut stretches[into];
        if *counted < SHORTEST {
            neighbour.join(&short);
        } else {
            neighbour.run += short.run;
        }
        *counted += count;
    }
}

impl Phase {
    fn join(&mut self, other: &Self) {
        self.run += other.run;
        self.sums.add(&other.sums);
    }
}

/// The kind of each stretch: the number of the first one that is like it.
fn kinds(stretches: &[Phase], alike: f64) -> Vec<usize> {
    let mut kinds: Vec<usize> = Vec::new();
    for (place, stretch) in stretches.iter().enumerate() {
        let before = stretches[..place].iter();
        let first = before.enumerate().position(|(other, before)| {
            kinds[other] == other && before.sums.is_like(&stretch.sums, alike)
        });
        kinds.push(first.unwrap_or(place));
    }
    kinds
}

/// The shortest cycle of kinds that all stretches follow, each with its mean length. What began
/// before or ended after the run counts to the length only where there is nothing else.
fn cycle(stretches: &[Phase], kinds: &[usize]) -> Vec<Phase> {
    let repeats = |length: &usize| (0..kinds.len()).all(|at| kinds[at] == kinds[at % length]);
    let length = (1..=kinds.len()).find(repeats).unwrap_or(0);
    let last = stretches.len().saturating_sub(1);
    let phase = |at: usize| {
        let all: Vec<usize> = (at..stretches.len()).step_by(length).collect();
        let whole: Vec<usize> = all.iter().copied().filter(|at| *at != 0 && *at != last).collect();
        let counted = if whole.is_empty() { &all } else { &whole };
        let run: Duration = counted.iter().map(|at| stretches[*at].run).sum();
        let mut sums = Sums::default();
        all.iter().for_each(|at| sums.add(&stretches[*at].sums));
        Phase { run: run / counted.len().max(1) as u32, sums }
    };
    (0..length).map(phase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interval of 100 ms with so many references and reads per microsecond.
    fn slice(references: u64, reads: u64) -> Slice {
        let service = Duration::from_millis(100);
        Slice {
            service,
            instructions: Some(200_000_000),
            references: Some(references * 100_000),
            reads: Some(reads * 100_000),
            ..Slice::default()
        }
    }

    fn runs(phases: &Phases) -> Vec<u128> {
        phases.cycle.iter().map(|phase| phase.run.as_millis()).collect()
    }

    #[test]
    fn what_does_not_change_is_one_phase() {
        let slices: Vec<_> = (0..20).map(|at| slice(100 + at % 3, 50 + at % 2)).collect();
        let phases = divide(&slices);
        assert_eq!((runs(&phases), phases.start), (vec![2000], Duration::ZERO));
    }

    #[test]
    fn what_repeats_is_a_cycle_of_mean_lengths_without_its_start() {
        let (a, b, start) = (slice(100, 50), slice(20, 1), slice(5, 4));
        let mut slices = vec![start; 3];
        for (first, second) in [(4, 6), (6, 6), (5, 6), (2, 0)] {
            slices.extend(vec![a; first]);
            slices.extend(vec![b; second]);
        }
        let phases = divide(&slices);
        assert_eq!(phases.start, Duration::from_millis(300));
        // The first and the last stretch may have been cut: 600 and 500 make the mean.
        assert_eq!(runs(&phases), [550, 600]);
        let ratio = phases.cycle[1].sums.miss_ratio().expect("both are counted");
        assert!((ratio - 0.05).abs() < 1e-9);
    }

    #[test]
    fn what_lies_between_two_phases_is_counted_to_neither() {
        // Computing, between stretches that read; the change falls into an interval each time.
        let (read, compute, change) = (slice(100, 50), slice(0, 0), slice(60, 30));
        let mut slices = Vec::new();
        for _ in 0..4 {
            slices.extend(vec![read; 5]);
            slices.push(change);
            slices.extend(vec![compute; 4]);
        }
        let phases = divide(&slices);
        assert_eq!(runs(&phases), [600, 400]);
        assert_eq!(phases.cycle[1].sums.references, Some(0.0));
    }

    #[test]
    fn intervals_with_little_service_are_taken_together() {
        let little = |ms| Slice { service: Duration::from_millis(ms), ..slice(100, 50) };
        // Rates that differ wildly, and the same on the whole.
        let slices: Vec<_> = (0..30).map(|at| little([2, 150, 9][at % 3])).collect();
        assert_eq!(runs(&divide(&slices)), [30 * 161 / 3]);
    }

    #[test]
    fn a_single_odd_interval_is_no_phase_and_too_many_phases_are_joined() {
        let mut slices = vec![slice(100, 50); 8];
        slices.push(slice(60, 20));
        slices.extend(vec![slice(100, 50); 8]);
        assert_eq!(divide(&slices).cycle.len(), 1);
        let many: Vec<_> =
            (0..40).flat_map(|at| vec![slice(100 + 40 * at, 10 + 9 * at); 2]).collect();
        let phases = divide(&many);
        assert!((2..=MOST).contains(&phases.cycle.len()), "{}", phases.cycle.len());
        let whole: Duration = phases.cycle.iter().map(|phase| phase.run).sum();
        assert_eq!(whole + phases.start, Duration::from_secs(8));
    }

    #[test]
    fn nothing_makes_no_phase() {
        assert!(divide(&[]).cycle.is_empty());
        assert!(divide(&[Slice::default()]).cycle.is_empty());
    }
}
