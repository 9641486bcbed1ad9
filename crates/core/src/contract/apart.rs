//! Policies whose cores can decide alone, or in groups.

use super::{Plan, Policy};
use crate::{CoreId, CoreSet, Instant, VcpuId};
use alloc::boxed::Box;
use core::any::Any;

/// A policy that can lend what it has of a group of cores to a [`Part`], a policy of these cores,
/// and take it back. Often a core is a group by itself.
///
/// While it is lent the part is told what happens to the VCPUs of its cores (`Ran`, `Released`,
/// `Completed`, `Woke`, `Failed`), and is asked for the run queues of its cores. It says what the
/// policy would say, had that been told the same and been asked for these cores
/// ([`Apart::plan_alone`]); so a journal of parts is one of the policy. Whatever else happens is
/// for the policy, which has taken all cores back before.
pub trait Apart: Policy {
    /// The cores that decide together with `core`, itself among them. Each core is in one group,
    /// the same as long as the policy lives.
    fn group(&self, core: CoreId) -> CoreSet {
        core::iter::once(core).collect()
    }
    /// A part of the group of `core` to which nothing is lent.
    fn part(&self, core: CoreId) -> Box<dyn Part>;
    /// On which core of its group a VCPU waits that has neither a home nor been on a run queue;
    /// `None` = the machine need not know, since the plan gives all VCPUs homes.
    fn begins_on(&self, _vcpu: VcpuId) -> Option<CoreId> {
        None
    }
    /// Whether nothing is under way that concerns more than one group: no VCPU waits for an answer,
    /// and no event for a decision. Only then anything is lent.
    fn is_settled(&self) -> bool;
    /// Lends what it has of the cores of `part`. That costs the same whatever it is.
    fn lend(&mut self, part: &mut dyn Part);
    /// Takes it back.
    fn take_back(&mut self, part: &mut dyn Part);
    /// Decides, with nothing lent, as the part of the group of `core` does: for that group alone,
    /// and `plan.wake` is when that group is to be asked again. So journals of parts are replayed;
    /// called by [`decide_alone`](super::decide_alone). Where nothing happens but by events, the
    /// plan of all cores is that of the group to which they came.
    fn plan_alone(&mut self, _core: CoreId, now: Instant, plan: &mut Plan) {
        self.plan(now, plan);
    }
}

/// What a group of cores decides alone. The policy that made it ([`Apart::part`]) knows its type.
pub trait Part: Policy + Any {}
