//! FMLP+: the FIFO multiprocessor locking protocol, for partitioned policies.
//!
//! # Paper
//! B. Brandenburg. "The FMLP+: An Asymptotically Optimal Real-Time Locking Protocol for
//! Suspension-Aware Analysis." ECRTS 2014; the partitioned form is of the author's thesis,
//! "Scheduling and Locking in Multiprocessor Real-Time Operating Systems", UNC Chapel Hill, 2011.
//! # Model
//! Partitioned, any priorities of jobs; sections are not nested.
//! # How it works
//! Who asks first gets a resource first; those that wait are suspended. A holder runs ahead of all
//! jobs without a resource, and of holders that asked later.
//! # Invariants
//! No request is delayed by a later one. A holder is delayed by holders of its own core alone.
//! # Where we differ from the paper
//! A resource that one core alone uses is treated as all others are.

use super::{Place, Request, Rules, Setting};

pub(super) struct FmlpPlus;

impl Rules for FmlpPlus {
    fn turn(&self, request: &Request, _: &Setting) -> u64 {
        request.issued
    }
    fn place(&self, request: &Request, _: &Setting) -> Place {
        Place::Ahead(request.issued)
    }
}
