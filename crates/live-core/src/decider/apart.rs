//! Deciders of one group of cores each, beside that of all: what stands there of a group is lent to
//! the group's own decider and taken back.
//!
//! While it is lent, what happens on these cores is decided by the decider of the group: jobs are
//! released and done there, budgets end and come back, VCPUs go from one of them to another,
//! nothing else. Whatever concerns more than one group (VCPUs that come, go or change, programs
//! that are started, questions) is for the decider of all, which has taken everything back before
//! it looks. Both are the same code, over all cores or over some.

use super::Decider;
use crate::Host;
#[cfg(feature = "faults")]
use maracas_core::CoreId;
use maracas_core::contract::{Part, Plan, Policy};
use maracas_core::{CoreSet, Instant};

/// What a decider decides by.
pub(super) enum Whose {
    /// The policy.
    All(Box<dyn Policy>),
    /// A part of it.
    Group {
        /// The cores that it decides for.
        cores: CoreSet,
        /// What the policy lends to.
        part: Box<dyn Part>,
        /// A mistake that a test has planted.
        #[cfg(feature = "faults")]
        fault: Option<crate::Fault>,
    },
}

impl Whose {
    /// The policy, of all cores or of some.
    pub(super) fn get(&mut self) -> &mut dyn Policy {
        match self {
            Self::All(policy) => policy.as_mut(),
            Self::Group { part, .. } => part.as_mut(),
        }
    }
}

impl<H: Host> Decider<H> {
    /// A decider for each group of cores, to which nothing is lent yet, by their first cores; none
    /// where the policy decides for all. Each gets a host of its own.
    pub fn of_groups(&mut self, mut host: impl FnMut(&H, &CoreSet) -> H) -> Vec<Self> {
        let (all, capacity) = (self.plan.core_ids(), self.capacity);
        let (Some(apart), of) = (self.policy.get().apart(), &self.host) else {
            return Vec::new();
        };
        let of_group = |core| {
            let cores = apart.group(core);
            if cores.first() != Some(core) {
                return None;
            }
            let (plan, host) = (Plan::of_cores(&cores), host(of, &cores));
            let policy = Whose::Group {
                cores,
                part: apart.part(core),
                #[cfg(feature = "faults")]
                fault: None,
            };
            Some(Self { has_begun: true, ..Self::of(policy, plan, capacity, host) })
        };
        all.filter_map(of_group).collect()
    }

    /// The cores of the group that it decides for, if it is one's.
    pub const fn group(&self) -> Option<&CoreSet> {
        match &self.policy {
            Whose::All(_) => None,
            Whose::Group { cores, .. } => Some(cores),
        }
    }

    /// Plants a mistake in the decider of a group.
    #[cfg(feature = "faults")]
    pub const fn plant(&mut self, mistake: Option<crate::Fault>) {
        if let Whose::Group { fault, .. } = &mut self.policy {
            *fault = mistake;
        }
    }
    /// Whether what it decides for `core` is not said there, which is a mistake.
    #[cfg(feature = "faults")]
    pub(super) fn conceals(&self, core: CoreId, own: CoreId) -> bool {
        let Whose::Group { fault, .. } = &self.policy else { return false };
        *fault == Some(crate::Fault::UntoldCore) && core != own
    }

    /// Whether everything can be lent: nothing is under way that concerns more than one group, and
    /// when each core is due next is known.
    pub fn can_lend(&mut self) -> bool {
        let is_idle = self.held == 0
            && !self.behind
            && self.asked.is_empty()
            && self.destroyed.is_empty()
            && self.service_requests.is_idle()
            && self.plan.service_request.is_none()
            && !self.plan.wake_metered
            && self.plan.wake == self.core_wakes();
        is_idle && self.policy.get().apart().is_some_and(|apart| apart.is_settled())
    }
    /// When the first of its cores is due.
    fn core_wakes(&self) -> Instant {
        self.cores.iter().map(|core| self.plan.core_wake(*core)).min().unwrap_or(Instant::NEVER)
    }

    /// Lends what stands here of its cores to a decider of a group.
    pub fn lend(&mut self, own: &mut Self) {
        self.exchange(own, true);
        own.plan.wake = own.core_wakes();
    }
    /// Takes it back.
    pub fn take_back(&mut self, own: &mut Self) {
        self.exchange(own, false);
        self.plan.wake = self.core_wakes();
        // What waited for another of its agents is for those of all now.
        self.behind |= std::mem::take(&mut own.behind);
        let late = self.late_cause.into_iter().chain(own.late_cause.take());
        self.late_cause = late.min();
        // What its cores measured since its last decision.
        own.host.hand_over();
    }

    fn exchange(&mut self, own: &mut Self, lends: bool) {
        let Whose::Group { cores, part, .. } = &mut own.policy else { return };
        let Some(apart) = self.policy.get().apart() else { return };
        match lends {
            true => apart.lend(part.as_mut()),
            false => apart.take_back(part.as_mut()),
        }
        for core in cores.iter() {
            self.plan.exchange(&mut own.plan, core);
            std::mem::swap(self.jobs(core), &mut own.jobs[own.plan.place(core)]);
        }
        // They may have gone from one of several cores to another.
        if !lends && cores.len() > 1 {
            for core in cores.iter() {
                for vcpu in self.jobs[self.plan.place(core)].sitting() {
                    if let Some(known) = self.known.get_mut(&vcpu) {
                        known.slot = Some(core);
                    }
                }
            }
        }
    }
}
