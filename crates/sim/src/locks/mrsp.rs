//! MrsP: the multiprocessor resource sharing protocol.
//!
//! # Paper
//! A. Burns, A. J. Wellings. "A Schedulability Compatible Multiprocessor Resource Sharing Protocol
//! - MrsP." ECRTS 2013.
//! # Model
//! Partitioned fixed priorities; sections are not nested.
//! # How it works
//! A resource has a ceiling on each core, the priority of the most urgent task there that uses it.
//! A job has it from its request on, and spins until it is its turn; who asks first has it first.
//! Where the holder is preempted, a core on which a job spins for the resource runs the holder in
//! that job's place, of several such cores that of the first request.
//! # Invariants
//! For each resource a core has one job at most that spins for it or holds it. The holder runs
//! wherever one that waits for it would.
//! # Where we differ from the paper
//! A holder that is helped goes back to its own core as soon as it is first there.

use super::{Place, Request, Rules, Setting};

pub(super) struct Mrsp;

impl Rules for Mrsp {
    fn turn(&self, request: &Request, _: &Setting) -> u64 {
        request.issued
    }
    fn place(&self, request: &Request, setting: &Setting) -> Place {
        let home = setting.home(request.vcpu);
        Place::Ceiling(setting.ceiling(request.resource, |user| setting.home(user) == home))
    }
    fn spins(&self) -> bool {
        true
    }
    fn helps(&self) -> bool {
        true
    }
}
