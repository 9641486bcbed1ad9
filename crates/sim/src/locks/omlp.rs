//! OMLP: the O(m) locking protocol, in its clustered form with clusters of one core.
//!
//! # Paper
//! B. Brandenburg, J. Anderson. "Real-Time Resource-Sharing under Clustered Scheduling: Mutex,
//! Reader-Writer, and k-Exclusion Locks." EMSOFT 2011.
//! # Model
//! Partitioned, any priorities of jobs; sections are not nested.
//! # How it works
//! Only the first pending job of a core may ask; others that come to a section wait until they are
//! that. Who asks first gets a resource first; those that wait are suspended. The first pending job
//! of a core on which another's request is not complete donates its priority: it is suspended until
//! the request is complete or a more urgent job takes its part. So a holder runs at once.
//! # Invariants
//! A core has one incomplete request at most. A holder is not delayed.
//! # Where we differ from the paper
//! With one core a cluster a donor is not noted: it is the first pending job whenever that is not
//! the one with the request.

use super::{Place, Request, Rules, Setting};

pub(super) struct Omlp;

impl Rules for Omlp {
    fn turn(&self, request: &Request, _: &Setting) -> u64 {
        request.issued
    }
    fn place(&self, _: &Request, _: &Setting) -> Place {
        Place::Ahead(0)
    }
    fn donates(&self) -> bool {
        true
    }
}
