//! Max-fair: every thread has the same share of fast cores, and the same of slow ones.
//!
//! # Paper
//! C. Kim, J. Huh. "Fairness-oriented OS Scheduling Support for Multicore Systems." ICS 2016;
//! there after Y. Kwon, C. Kim, S. Maeng, J. Huh. "Virtualizing Performance Asymmetric Multi-core
//! Systems." ISCA 2011.
//! # Model
//! N_f fast and N_s slow cores, n threads; a thread runs s times as fast on a fast core as on a
//! slow one. Which threads, cores and time fairness rules: the folder's head.
//! # How it works
//! f = N_f / n for every thread, whatever its speedup.
//! # Invariants
//! All shares are equal and their sum is N_f. This is what the performance of threads under the
//! other rules is measured by, so here MinFairness, Uniformity and throughput are 1 (algorithms.md
//! E.1).
//! # Where we differ from the paper
//! Nowhere in the shares; in how they are carried out: the folder's head.

use super::shares::{Places, Speedup};
use alloc::vec::Vec;
use maracas_core::contract::{Entry, no_service_vcpus};
use maracas_core::params::Params;

pub(crate) const ENTRY: Entry = Entry {
    name: "max-fair",
    paper: "Kim and Huh, Fairness-oriented OS Scheduling Support for Multicore Systems, ICS 2016",
    summary: "uneven cores: every thread has the same share of fast and of slow cores",
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
    alloc::vec![places.even(); speedups.len()]
}
