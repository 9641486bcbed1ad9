//! Deciders of one core each, beside that of all: what stands there of a core is lent to the core's
//! own decider and taken back.
//!
//! While it is lent, what happens on that core is decided by the decider of the core: jobs are
//! released and done there, budgets end and come back, nothing else. Whatever concerns more than
//! one core (VCPUs that come, go or change, programs that are started, questions) is for the
//! decider of all, which has taken everything back before it looks. Both are the same code, over
//! all cores or over one.

use super::Decider;
use crate::Host;
use maracas_core::contract::{Part, Plan, Policy};
use maracas_core::{CoreId, Instant};

/// What a decider decides by.
pub(super) enum Whose {
    /// The policy.
    All(Box<dyn Policy>),
    /// A part of it.
    One {
        /// The core that it decides for.
        core: CoreId,
        /// What the policy lends to.
        part: Box<dyn Part>,
    },
}

impl Whose {
    /// The policy, of all cores or of one.
    pub(super) fn get(&mut self) -> &mut dyn Policy {
        match self {
            Self::All(policy) => policy.as_mut(),
            Self::One { part, .. } => part.as_mut(),
        }
    }
}

impl<H: Host> Decider<H> {
    /// A decider for each core, to which nothing is lent yet; none where the policy decides for
    /// all. Each gets a host of its own.
    pub fn of_cores(&mut self, mut host: impl FnMut(&H, CoreId) -> H) -> Vec<Self> {
        let (cores, capacity) = (self.plan.core_ids(), self.capacity);
        let (Some(apart), of) = (self.policy.get().apart(), &self.host) else {
            return Vec::new();
        };
        let of_core = |core| {
            let policy = Whose::One { core, part: apart.part(core) };
            let own = Self::of(policy, Plan::of_core(core), capacity, host(of, core));
            Self { has_begun: true, ..own }
        };
        cores.map(of_core).collect()
    }

    /// Whether everything can be lent: nothing is under way that concerns more than one core.
    pub fn can_lend(&mut self) -> bool {
        let is_idle = self.held == 0
            && !self.behind
            && self.asked.is_empty()
            && self.destroyed.is_empty()
            && self.service_requests.is_idle()
            && self.plan.service_request.is_none()
            && self.plan.wake == Instant::NEVER;
        is_idle && self.policy.get().apart().is_some_and(|apart| apart.is_settled())
    }

    /// Lends what stands here of its core to a decider of one core.
    pub fn lend(&mut self, own: &mut Self) {
        self.exchange(own, true);
    }
    /// Takes it back.
    pub fn take_back(&mut self, own: &mut Self) {
        self.exchange(own, false);
        // What its core measured since its last decision.
        own.host.hand_over();
    }

    fn exchange(&mut self, own: &mut Self, lends: bool) {
        let Whose::One { core, part } = &mut own.policy else { return };
        let Some(apart) = self.policy.get().apart() else { return };
        match lends {
            true => apart.lend(part.as_mut()),
            false => apart.take_back(part.as_mut()),
        }
        let core = *core;
        self.plan.exchange(&mut own.plan, core);
        std::mem::swap(self.jobs(core), &mut own.jobs[0]);
    }
}
