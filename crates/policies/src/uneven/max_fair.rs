//! (to be written)

use super::shares::{Places, Speedup};
use alloc::vec::Vec;
use maracas_core::contract::{Entry, no_carriers};
use maracas_core::params::Params;

pub(crate) const ENTRY: Entry = Entry {
    name: "max-fair",
    paper: "Kim and Huh, Fairness-oriented OS Scheduling Support for Multicore Systems, ICS 2016",
    summary: "(to be written)",
    params: super::PARAMS,
    needs: super::NEEDS,
    claims: super::CLAIMS,
    carriers: no_carriers,
    admit: super::admit,
    build: |system, params| super::build(system, params, fast_shares),
};

/// The share of fast cores of every thread.
fn fast_shares(places: Places, _speedups: &[Option<Speedup>], _params: &Params) -> Vec<u64> {
    alloc::vec![places.even(); places.threads as usize]
}
