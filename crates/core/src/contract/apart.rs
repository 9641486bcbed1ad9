//! Policies whose cores can decide alone.

use super::Policy;
use crate::CoreId;
use alloc::boxed::Box;
use core::any::Any;

/// A policy that can lend what it has of a core to a [`Part`], a policy of that core, and take it
/// back.
///
/// While it is lent the part is told what happens to the VCPUs of its core (`Ran`, `Released`,
/// `Completed`, `Woke`, `Failed`), and is asked for the run queue of its core. It says what the
/// policy would say, had that been told the same; so a journal of parts is one of the policy.
/// Whatever else happens is for the policy, which has taken all cores back before.
pub trait Apart {
    /// A part of `core` to which nothing is lent.
    fn part(&self, core: CoreId) -> Box<dyn Part>;
    /// Whether nothing is under way that concerns more than one core: no VCPU waits for an answer,
    /// and no event for a decision. Only then anything is lent.
    fn is_settled(&self) -> bool;
    /// Lends what it has of the core of `part`. That costs the same whatever it is.
    fn lend(&mut self, part: &mut dyn Part);
    /// Takes it back.
    fn take_back(&mut self, part: &mut dyn Part);
}

/// What one core decides alone. The policy that made it ([`Apart::part`]) knows its type.
pub trait Part: Policy + Any {}
