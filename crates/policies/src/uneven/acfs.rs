//! ACFS: all threads progress in proportion to their weights, each measured by what it would do
//! alone on a fast core.
//!
//! # Paper
//! J. C. Saez, A. Pousa, F. Castro, D. Chaver, M. Prieto-Matias. "Towards Completely Fair
//! Scheduling on Asymmetric Single-ISA Multicore Processors." Journal of Parallel and Distributed
//! Computing 102, 2017, DOI 10.1016/j.jpdc.2016.12.011.
//! # Model
//! N_f fast and N_s slow cores, of two classes; a thread with f of the time on fast cores and g on
//! slow ones, together at most 1, progresses by p = f + g / s, s times as fast on a fast core as on
//! a slow one. `weight` says what p is to be in proportion to. Which threads, cores and time
//! fairness rules: the folder's head.
//! # How it works
//! The greatest x is taken for which every thread can have p = min(x * weight, 1), found by halves.
//! For a given x the least time of fast cores is asked for: slow time goes to the threads with the
//! least speedups first, for one of slow time saves 1 / s of fast time, and to each as much as
//! leaves it p within its time; what is missing then is fast time.
//! # Invariants
//! No thread has more than all of its time, and no class gives unpinned threads more than it has;
//! all that it has is given away where there are as many threads as cores. Threads below all
//! of a fast core have equal p / weight, but for rounding and for sampling floors, which come
//! first, and but for slow time that no thread needs for that: what has time left gets it. No other
//! shares give the least p / weight a greater value.
//! # Where we differ from the paper
//! We follow its abstract: threads of equal priority are slowed down alike, and priorities are
//! kept. That p is counted against a fast core, that threads differ in it as their weights do, and
//! the shares by which that is so, are ours, as rounds and estimates are the folder's. What is not
//! known yet counts as one with the speedup of the classes.

use super::shares::{Places, Speeds, Speedup, joined};
use super::{Sharing, kinds};
use alloc::boxed::Box;
use alloc::vec::Vec;
use maracas_core::admission::{Objection, Verdict};
use maracas_core::contract::{Entry, no_service_vcpus};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{Policy, System};

pub(crate) const ENTRY: Entry = Entry {
    name: "acfs",
    paper: "Saez, Pousa, Castro, Chaver and Prieto-Matias, Towards Completely Fair Scheduling on \
            Asymmetric Single-ISA Multicore Processors, JPDC 2017",
    summary: "uneven cores: threads progress in proportion to their weights",
    params: PARAMS,
    needs: super::NEEDS,
    claims: super::CLAIMS,
    service_vcpus: no_service_vcpus,
    admit,
    fits: None,
    build,
};

const PROGRESS: ParamSpec = ParamSpec {
    name: "progress",
    kind: Kind::Choice(&["weighted", "equal"]),
    help: "what threads progress in proportion to: weighted = their `weight`, equal = nothing: all \
           alike",
};
const PARAMS: &[ParamSpec] = &joined::<{ super::PARAMS.len() + 1 }>(&[PROGRESS]);

fn admit(system: &System, params: &Params) -> Verdict {
    match objection(system) {
        Some(why) => Verdict { objections: alloc::vec![why], ..Verdict::default() },
        None => super::admit(system, params),
    }
}

fn build(system: &System, params: &Params) -> Result<Box<dyn Policy>, Verdict> {
    match objection(system) {
        Some(why) => Err(Verdict { objections: alloc::vec![why], ..Verdict::default() }),
        None => super::build_sharing(system, params, Sharing::ByWeight(chosen)),
    }
}

fn objection(system: &System) -> Option<Objection> {
    let classes = kinds(system).len();
    (classes > 2).then(|| {
        let why = alloc::format!(
            "acfs schedules cores of two classes, and these are of {classes}; use max-fair or \
             min-fair, which weigh no threads"
        );
        why.into()
    })
}

/// What the share of a thread depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// As known or assumed. Where it is measured, the thread must have time on both classes.
    speedup: Speedup,
    weight: u32,
}

impl Claim {
    /// Of a thread with these speeds, on classes with such ones in thousandths, the fastest first.
    pub(super) fn new(speeds: Option<Speeds>, classes: &[u32], weight: u32) -> Self {
        let speed = |class: Option<&u32>| class.map_or(1000, |speed| u64::from(*speed));
        let assumed = || Speedup::new(speed(classes.first()), speed(classes.last()), true);
        Self { speedup: speeds.map_or_else(assumed, Speeds::speedup), weight }
    }
}

/// The shares that the user chose.
fn chosen(places: Places, claims: &[Claim], params: &Params) -> Vec<[u64; 2]> {
    if params.choice(&PROGRESS) == "weighted" {
        return shares(places, claims);
    }
    let alike: Vec<Claim> = claims.iter().map(|claim| Claim { weight: 1, ..*claim }).collect();
    shares(places, &alike)
}

/// The shares of fast and of slow cores of every thread.
fn shares(places: Places, claims: &[Claim]) -> Vec<[u64; 2]> {
    let heaviest = claims.iter().map(|claim| claim.weight).max().unwrap_or(1).max(1);
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by(|a, b| claims[*a].speedup.compare(claims[*b].speedup));
    let at = |x: u128| {
        let progress = |claim: &Claim| {
            let wanted = x * u128::from(claim.weight) / u128::from(heaviest);
            wanted.min(places.whole().into()) as u64
        };
        let wanted: Vec<u64> = claims.iter().map(progress).collect();
        cheapest(places, claims, &order, &wanted)
    };
    // At the most every thread would have all of a fast core.
    let (mut low, mut high) = (0, u128::from(places.whole()) * u128::from(heaviest));
    let mut best = at(0).unwrap_or_default();
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        match at(middle) {
            Some(shares) => (low, best) = (middle, shares),
            None => high = middle - 1,
        }
    }
    hand_out(places, &mut best);
    best
}

/// Gives what is left of the cores to threads with time left: it is theirs in the end, as cores do
/// not idle, and what is due to the others must not count on it.
fn hand_out(places: Places, shares: &mut [[u64; 2]]) {
    for (class, cores) in [places.fast, places.slow].into_iter().enumerate() {
        let given: u64 = shares.iter().map(|share| share[class]).sum();
        let mut left = cores * places.whole() - given;
        for share in shares.iter_mut() {
            let more = (places.whole() - share[0] - share[1]).min(left);
            share[class] += more;
            left -= more;
        }
    }
}

/// The shares with which every thread progresses by so many parts of all of a fast core, or by what
/// its floors alone bring where that is more, and of fast cores as little as can be; `None` where
/// the cores have not as much. `order` is by increasing speedup.
fn cheapest(
    places: Places,
    claims: &[Claim],
    order: &[usize],
    wanted: &[u64],
) -> Option<Vec<[u64; 2]>> {
    let floors = |claim: &Claim| {
        let is_sampled = claim.speedup.is_sampled();
        let floor = |class| if is_sampled { places.floor(class) } else { 0 };
        [floor(0), floor(1)]
    };
    let mut shares: Vec<[u64; 2]> = claims.iter().map(floors).collect();
    let given = |class: usize| shares.iter().map(|share| share[class]).sum::<u64>();
    let mut fast_left = (places.fast * places.whole()).checked_sub(given(0))?;
    let mut slow_left = (places.slow * places.whole()).checked_sub(given(1))?;
    for &place in order {
        let (share, speedup) = (&mut shares[place], claims[place].speedup);
        let time = places.whole() - share[0] - share[1];
        let missing = wanted[place].saturating_sub(share[0] + speedup.of_slow(share[1])).min(time);
        let slow = speedup.most_slow(missing, time).min(slow_left);
        let fast = missing.saturating_sub(speedup.of_slow(slow)).min(time - slow);
        share[0] += fast;
        share[1] += slow;
        slow_left -= slow;
        fast_left = fast_left.checked_sub(fast)?;
    }
    Some(shares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use maracas_core::Duration;

    fn claim(milli: u64, weight: u32) -> Claim {
        Claim { speedup: Speedup::new(milli, 1000, false), weight }
    }
    /// p / weight of every thread, in parts of all of a fast core.
    fn rates(claims: &[Claim], shares: &[[u64; 2]]) -> Vec<u64> {
        let rate = |(claim, [fast, slow]): (&Claim, &[u64; 2])| {
            (fast + claim.speedup.of_slow(*slow)) / u64::from(claim.weight)
        };
        claims.iter().zip(shares).map(rate).collect()
    }

    /// One fast core and one slow one of half its speed do 1.5 together: 3/14, 3/7 and 6/7.
    #[test]
    fn progress_is_as_one_to_two_to_four() {
        let claims = [1, 2, 4].map(|weight| claim(2000, weight));
        let places = Places::new(3, 1, 1);
        let shares = shares(places, &claims);
        let due = places.whole() / 14 * 3;
        assert!(rates(&claims, &shares).iter().all(|rate| rate.abs_diff(due) <= 4), "{shares:?}");
    }

    /// Of two threads one has four times the other's weight: all of the fast core is half of what
    /// that asks for, and the other has all of the slow one.
    #[test]
    fn none_has_more_than_all_of_a_fast_core() {
        let places = Places::new(2, 1, 1);
        let whole = places.whole();
        assert_eq!(shares(places, &[claim(2000, 1), claim(2000, 4)]), [[0, whole], [whole, 0]]);
    }

    /// The one that loses least on slow cores has them.
    #[test]
    fn slow_cores_go_to_the_least_speedups() {
        let places = Places::new(2, 1, 1);
        let shares = shares(places, &[claim(3000, 1), claim(1200, 1)]);
        let [[_, first], [_, second]] = shares[..] else { panic!("{shares:?}") };
        assert!(first < second, "{shares:?}");
    }

    #[test]
    fn whatever_the_weights_no_rate_could_be_greater() {
        let mut rng = Rng(2017);
        let mut capped = 0;
        for case in 0..2_000 {
            let (n, fast, slow) = (1 + rng.below(8), 1 + rng.below(3), 1 + rng.below(4));
            let claims: Vec<Claim> = (0..n)
                .map(|_| {
                    let speedup = Speedup::new(1000 + rng.below(3000), 1000, rng.one_in(3));
                    Claim { speedup, weight: 1 + rng.below(9) as u32 }
                })
                .collect();
            let places = Places::new(n as usize, fast as usize, slow as usize);
            let (round, update) = (Duration::from_millis(30), Duration::from_secs(2));
            let places = places.sampling(round, update);
            let whole = places.whole();
            let shares = shares(places, &claims);
            let sum = |class: usize| shares.iter().map(|share| share[class]).sum::<u64>();
            assert!(sum(0) <= places.fast * whole && sum(1) <= places.slow * whole, "{case}");
            assert!(shares.iter().all(|[fast, slow]| fast + slow <= whole), "{case}: {shares:?}");
            if n >= fast + slow {
                assert_eq!((sum(0), sum(1)), (fast * whole, slow * whole), "{case}: {shares:?}");
            }
            let rates = rates(&claims, &shares);
            // It does what it would alone on a fast core, but for what its floor takes.
            let is_whole = |(claim, [fast, slow]): (&Claim, &[u64; 2])| {
                fast + claim.speedup.of_slow(*slow) + places.floor(1) + 8 >= whole
            };
            let is_whole: Vec<bool> = claims.iter().zip(&shares).map(is_whole).collect();
            let others = rates.iter().zip(&is_whole).filter(|(_, is_whole)| !**is_whole);
            let least = others.map(|(rate, _)| *rate).min().unwrap_or(u64::MAX);
            let near = least / 1_000_000 + 8;
            for (rate, share) in rates.iter().zip(&shares) {
                // No more than the least of the others, but for what floors bring, slow time that
                // is left, and of fast time less than a step of the search.
                let no_more = rate.saturating_sub(least) <= near;
                let is_slow = share[0] <= places.floor(0) + whole / 10_000;
                assert!(no_more || is_slow, "{case}: {claims:?} {rates:?} {shares:?}");
            }
            capped += is_whole.iter().filter(|is_whole| **is_whole).count();
        }
        assert!(capped > 100, "{capped}");
    }
}
