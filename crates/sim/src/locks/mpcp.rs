//! MPCP: the multiprocessor priority ceiling protocol.
//!
//! # Paper
//! R. Rajkumar. "Real-Time Synchronization Protocols for Shared Memory Multiprocessors." ICDCS
//! 1990. The ceiling of a global resource as in K. Lakshmanan, D. de Niz, R. Rajkumar, "Coordinated
//! Task Scheduling, Allocation and Synchronization on Multiprocessors", RTSS 2009.
//! # Model
//! Partitioned fixed priorities; sections are not nested.
//! # How it works
//! A resource that tasks of several cores use is global: its holder runs ahead of all jobs without
//! such a resource, by the priority of the most urgent task that uses it. Those that wait are
//! suspended, the most urgent gets it next. A resource of one core has the immediate ceiling.
//! # Invariants
//! A holder is delayed by holders of its own core alone. A local resource is free when a job asks.
//! # Where we differ from the paper
//! The paper has the priority ceiling protocol for local resources; the immediate ceiling has the
//! same bound. Among equal ceilings the first request goes first.

use super::{Place, Request, Rules, Setting};

pub(super) struct Mpcp;

impl Rules for Mpcp {
    fn turn(&self, request: &Request, setting: &Setting) -> u64 {
        u64::from(setting.rank(request.vcpu))
    }
    fn place(&self, request: &Request, setting: &Setting) -> Place {
        let ceiling = setting.ceiling(request.resource, |_| true);
        let home = setting.home(request.vcpu);
        let is_local = setting.users(request.resource).all(|user| setting.home(user) == home);
        if is_local { Place::Ceiling(ceiling) } else { Place::Ahead(u64::from(ceiling)) }
    }
}
