//! A decider for each core, where the policy has one for each.
//!
//! What concerns more than one core is decided for all cores together: what is asked for, holds,
//! moves, service requests, what still waits for an answer. While there is nothing of that and the
//! policy splits, each core has a decider of its own, which is the same state with that core's
//! VCPUs in it, its run queue and its policy. To decide for all cores again, each is joined first.
//! As nothing is in two deciders at once, none of them looks at what another one has.

use super::{Decider, Known};
use crate::Host;
use maracas_core::{Event, Instant, Plan, Policy, VcpuId};

/// For how many events of one core there is room without asking for memory: of one decision.
const ROOM: usize = 256;

/// Stands where a policy was that is elsewhere.
struct Elsewhere;

impl Policy for Elsewhere {
    fn on_event(&mut self, _: Instant, _: &Event) {}
    fn plan(&mut self, _: Instant, _: &mut Plan) {}
}

impl<H: Host> Decider<H> {
    /// Gives `take` a decider for each core, in their order, where none of what is under way
    /// concerns more than one core; whether that was so. Until each has come back
    /// ([`Decider::join`]), this one is asked for nothing.
    pub fn split(&mut self, take: impl FnMut(Self)) -> bool {
        if !self.is_splittable() {
            return false;
        }
        let Some(policies) = self.policy.split() else { return false };
        if !self.has_parts() {
            let policies = self.plan.core_ids().zip(policies);
            policies.for_each(|(core, policy)| self.policy.join(core, policy));
            return false;
        }
        for (part, policy) in self.parts.iter_mut().zip(policies) {
            part.policy = policy;
            part.swap_run_queue(&mut self.plan);
        }
        let first = self.plan.core_ids().next().unwrap_or_default();
        let place = |known: &Known| known.slot.map(|slot| usize::from(slot.0 - first.0));
        for job in self.unobserved.drain(..) {
            let place = self.known.get(&job.id.vcpu).and_then(place);
            place.into_iter().for_each(|place| self.parts[place].unobserved.push(job));
        }
        for (id, known) in std::mem::take(&mut self.known) {
            let known_by = match place(&known) {
                Some(place) => &mut self.parts[place].known,
                // Nothing happens to it before it has a VCPU handle.
                None => &mut self.known,
            };
            known_by.insert(id, known);
        }
        self.parts.drain(..).for_each(take);
        true
    }

    /// Takes back the decider of a core that [`Decider::split`] handed out, in the same order.
    pub fn join(&mut self, mut part: Self) {
        part.host.flush();
        part.swap_run_queue(&mut self.plan);
        let policy = std::mem::replace(&mut part.policy, Box::new(Elsewhere));
        let core = part.plan.core_ids().next().unwrap_or_default();
        self.policy.join(core, policy);
        self.known.append(&mut part.known);
        self.unobserved.append(&mut part.unobserved);
        self.parts.push(part);
    }

    /// Exchanges the run queue of its core, of which it is the decider, with those of all.
    fn swap_run_queue(&mut self, all: &mut Plan) {
        self.cores().for_each(|core| self.plan.swap_run_queue(core, all));
    }

    /// Whether nothing is under way that concerns more than one core, or no core yet.
    fn is_splittable(&self) -> bool {
        let is_home = |(id, known): (&VcpuId, &Known)| {
            known.slot.is_none_or(|slot| self.plan.home(*id) == Some(slot))
        };
        let is_planned = self.has_begun && !self.fed && !self.behind;
        let is_asked = !(self.asked.is_empty() && self.destroyed.is_empty());
        let is_held = !self.holds.is_empty();
        let serves = self.plan.service_request.is_some() || self.service_requests.is_away();
        let wakes = self.plan.wake != Instant::NEVER || self.plan.wake_metered;
        let moves = self.late_cause.is_some() || !self.arrived.is_empty();
        let is_under_way = is_asked || is_held || serves || wakes || moves;
        self.plan.cores() > 1 && is_planned && !is_under_way && self.known.iter().all(is_home)
    }

    /// Whether there is a decider for each core; makes them, at first.
    fn has_parts(&mut self) -> bool {
        if self.parts.is_empty() {
            let part = |core| {
                let host = self.host.part(core)?;
                let policy = Box::new(Elsewhere);
                let part = Self::of(policy, Plan::of_core(core), self.capacity, host, ROOM);
                Some(Self { has_begun: true, ..part })
            };
            self.parts = self.cores().map_while(part).collect();
        }
        self.parts.len() == self.plan.cores()
    }
}
