//! Max-perf: the threads that gain most from a fast core have the fast cores.
//!
//! # Paper
//! C. Kim, J. Huh. "Fairness-oriented OS Scheduling Support for Multicore Systems." ICS 2016;
//! there as the common aim of earlier schedulers, the first of them R. Kumar, K. I. Farkas,
//! N. P. Jouppi, P. Ranganathan, D. M. Tullsen. "Single-ISA Heterogeneous Multi-Core
//! Architectures." MICRO 2003.
//! # Model
//! N_f fast and N_s slow cores, n threads; a thread runs s times as fast on a fast core as on a
//! slow one. Which threads, cores and time fairness rules: the folder's head.
//! # How it works
//! Threads by decreasing s: each has as much of the fast cores as it can use, c at most, until
//! none is left. Ties go to the lower id.
//! # Invariants
//! The sum of shares is N_f, and the sum of f * s + g over all threads is the greatest that any
//! shares give, for a thread's gain is linear in its share. Nothing is lost to rounding: greedy
//! hand-out is optimal in whole parts too.
//! # Where we differ from the paper
//! Threads whose speedup is measured keep their sampling floor on both classes, and one that is
//! not known yet has the equal share until it is: the greatest sum is that within these bounds.

use super::shares::{Places, Speedup, greedy};
use alloc::vec::Vec;
use maracas_core::contract::{Entry, no_service_vcpus};
use maracas_core::params::Params;

pub(crate) const ENTRY: Entry = Entry {
    name: "max-perf",
    paper: "Kim and Huh, Fairness-oriented OS Scheduling Support for Multicore Systems, ICS 2016",
    summary: "uneven cores: fast cores go to the threads that gain most from them",
    params: super::PARAMS,
    needs: super::NEEDS,
    claims: super::CLAIMS,
    service_vcpus: no_service_vcpus,
    admit: super::admit,
    fits: None,
    build: |system, params| super::build(system, params, fast_shares),
};

/// The share of fast cores of every thread.
pub(super) fn fast_shares(places: Places, speedups: &[Option<Speedup>], _: &Params) -> Vec<u64> {
    let bounds: Vec<_> = speedups.iter().map(|speedup| places.bounds(*speedup, 0)).collect();
    greedy(places, speedups, &bounds)
}
