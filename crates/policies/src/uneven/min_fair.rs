//! Min-fair: no thread falls below a target; then the threads that gain most from a fast core have
//! the fast cores.
//!
//! # Paper
//! C. Kim, J. Huh. "Fairness-oriented OS Scheduling Support for Multicore Systems." ICS 2016,
//! "Min-Fair Scheduling".
//! # Model
//! N_f fast and N_s slow cores, n threads; a thread runs s times as fast on a fast core as on a
//! slow one. A thread's performance f * s + g is measured by the one that equal shares would give
//! it; `target` is the least fraction of that. Which threads, cores and time fairness rules: the
//! folder's head.
//! # How it works
//! Every thread gets its required share, the least with which it has the target; none for a thread
//! whose time on slow cores is enough. What is left goes greedily to the greatest speedups, up to
//! c.
//! # Invariants
//! The sum of shares is N_f. Required shares are rounded up, so with exact speedups no thread is
//! below the target. They never exceed the equal share, so every target up to 1 can be met, and
//! sampling floors, which raise a share or leave one room above the equal share, take nothing from
//! any thread's required share. With target 0 this is max-perf. The sum of f * s + g is at most
//! max-perf's and at least max-fair's, in whole parts as in fractions.
//! # Where we differ from the paper
//! The slides name the steps, not the formula for the required share, nor what performance is
//! measured by: algorithms.md E.1 and E.2 say why it must be equal shares. A thread that is not
//! known yet has the equal share, which meets every target whatever its speedup is.

use super::shares::{Places, Speedup, TARGET, fair_bounds, greedy, joined};
use alloc::vec::Vec;
use maracas_core::contract::{Entry, no_service_vcpus};
use maracas_core::params::{ParamSpec, Params};

pub(crate) const ENTRY: Entry = Entry {
    name: "min-fair",
    paper: "Kim and Huh, Fairness-oriented OS Scheduling Support for Multicore Systems, ICS 2016",
    summary: "uneven cores: every thread reaches a target of its fair performance, then max-perf",
    params: PARAMS,
    needs: super::NEEDS,
    claims: super::CLAIMS,
    service_vcpus: no_service_vcpus,
    admit: super::admit_target,
    fits: None,
    build: |system, params| super::build_target(system, params, fast_shares),
};

const PARAMS: &[ParamSpec] = &joined::<{ super::PARAMS.len() + 1 }>(&[TARGET]);

/// The share of fast cores of every thread.
pub(super) fn fast_shares(
    places: Places,
    speedups: &[Option<Speedup>],
    params: &Params,
) -> Vec<u64> {
    greedy(places, speedups, &fair_bounds(places, speedups, params))
}
