//! Similar-min-fair: min-fair, and threads of similar speedup have similar shares.
//!
//! # Paper
//! C. Kim, J. Huh. "Fairness-oriented OS Scheduling Support for Multicore Systems." ICS 2016,
//! "Similar-Min-Fair Scheduling".
//! # Model
//! Min-fair's. Two threads are similar where their speedups differ by less than `similarity`.
//! # How it works
//! Shares by min-fair with `target`. Then by decreasing speedup: the first thread leads a group,
//! and all that follow within less than `similarity` of it belong to it; the next one leads the
//! next.
//! Inside a group the shares are made as equal as the bounds of its members allow (a water level
//! with floors), and their sum stays.
//! # Invariants
//! The sum of shares is N_f. No member falls below its required share, so min-fair's guarantee
//! holds; the sum of f * s + g is at most min-fair's. With similarity 0 this is min-fair.
//! # Where we differ from the paper
//! The slides even the shares of a group out; a plain average can take the member with the greatest
//! speedup below the target, which may be among the misses of up to 3 % that they report. The water
//! level stops at each one's required share (algorithms.md E.2). How groups are found is not said
//! either: by their leader, so that no two members differ by `similarity` or more. A thread that is
//! not known yet is in no group.

use super::shares::{Places, Speedup, TARGET, by_speedup, fair_bounds, greedy, joined, level};
use alloc::vec::Vec;
use maracas_core::contract::{Entry, no_service_vcpus};
use maracas_core::params::{Kind, ParamSpec, Params};

pub(crate) const ENTRY: Entry = Entry {
    name: "similar-min-fair",
    paper: "Kim and Huh, Fairness-oriented OS Scheduling Support for Multicore Systems, ICS 2016",
    summary: "uneven cores: min-fair, and threads of similar speedup share alike",
    params: PARAMS,
    needs: super::NEEDS,
    claims: super::CLAIMS,
    service_vcpus: no_service_vcpus,
    admit: super::admit_target,
    fits: None,
    build: |system, params| super::build_target(system, params, fast_shares),
};

const SIMILARITY: ParamSpec = ParamSpec {
    name: "similarity",
    kind: Kind::Fraction(1, 5),
    help: "threads whose speedups differ by less share alike; the paper's evaluation has 0.2",
};
const PARAMS: &[ParamSpec] = &joined::<{ super::PARAMS.len() + 2 }>(&[TARGET, SIMILARITY]);

/// The share of fast cores of every thread.
pub(super) fn fast_shares(
    places: Places,
    speedups: &[Option<Speedup>],
    params: &Params,
) -> Vec<u64> {
    let similarity = params.fraction(&SIMILARITY);
    let bounds = fair_bounds(places, speedups, params);
    let mut shares = greedy(places, speedups, &bounds);
    let order = by_speedup(speedups);
    let mut rest = &order[..];
    while let Some(&(_, leader)) = rest.first() {
        let near = rest.iter().position(|(_, member)| !leader.is_near(*member, similarity));
        // The leader is of its group even where no thread is near enough to be similar.
        let (group, others) = rest.split_at(near.unwrap_or(rest.len()).max(1));
        level(&mut shares, &bounds, group);
        rest = others;
    }
    shares
}
