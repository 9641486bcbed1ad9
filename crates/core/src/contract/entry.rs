//! What is known of a policy outside its file: what it requires, what it claims, how it is built.

use super::Policy;
use crate::admission::Verdict;
use crate::params::{ParamSpec, Params};
use crate::{System, Vcpu, VcpuId};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What a policy requires of a machine. A machine that lacks it refuses or warns by name.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Needs {
    /// Demand must come as jobs whose ends are reported.
    pub jobs: bool,
    /// Wakes must be seen when they happen, not at switch-in.
    pub visible_wakes: bool,
    /// Memory counters must work.
    pub counters: bool,
    /// Every VCPU must have a reservation: no VCPU is given time that is promised none.
    pub budgets: bool,
    /// Progress must be counted: the instructions of [`super::Usage`], or a program's own units.
    pub progress: bool,
    /// Of how many classes the cores must be at least; 0 = it looks at no class.
    pub classes: u8,
}

impl Needs {
    /// Nothing but that every VCPU has a reservation.
    pub const BUDGETS: Self = Self {
        jobs: false,
        visible_wakes: false,
        counters: false,
        budgets: true,
        progress: false,
        classes: 0,
    };
}

/// What a policy claims, and the contract tests check.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Claims {
    /// No VCPU changes core unless the plan orders a service request.
    pub partitioned: bool,
    /// No core idles while an admitted VCPU is runnable anywhere (global), or on that core
    /// (partitioned).
    pub work_conserving: bool,
    /// No job of an admitted task set has more work undone at its deadline than the verdict's
    /// [`tolerance`](Verdict::tolerance) says, which is nothing wherever budgets are whole ticks,
    /// when every job stays within its budget. With default parameters: what an option gives up is
    /// said where it stands.
    pub no_miss_when_admitted: bool,
}

/// A policy's entry in the register: all that is known of it outside its file.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The word users write.
    pub name: &'static str,
    /// Authors, title, venue, year.
    pub paper: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// What it takes.
    pub params: &'static [ParamSpec],
    /// What it requires.
    pub needs: Needs,
    /// What it claims.
    pub claims: Claims,
    /// The service VCPUs that it needs besides the user's (roles `Monitor` and `Migration`), with
    /// ids from the given one on. Whatever makes a system for this policy adds them to it.
    pub service_vcpus: fn(&System, &Params, VcpuId) -> Vec<Vcpu>,
    /// Says whether the system would be admitted, with every test's numbers. Parameters have
    /// passed [`Params::check`].
    pub admit: fn(&System, &Params) -> Verdict,
    /// Builds the policy, or refuses with the verdict of `admit`.
    pub build: Build,
}

impl Entry {
    /// Says whether the system would be admitted: the policy's own verdict, and what holds under
    /// every policy. The one that users are shown.
    pub fn verdict(&self, system: &System, params: &Params) -> Verdict {
        (self.admit)(system, params).within_capacity(system)
    }
    /// Adds to `system`, which has none yet, the service VCPUs that the policy needs there, behind
    /// its own VCPUs.
    pub fn add_service_vcpus(&self, system: &mut System, params: &Params) {
        let service_vcpus = (self.service_vcpus)(system, params, system.next_vcpu());
        system.vcpus.extend(service_vcpus);
    }
}

/// For a policy that has no service requests.
pub const fn no_service_vcpus(_: &System, _: &Params, _: VcpuId) -> Vec<Vcpu> {
    Vec::new()
}

/// How a policy comes to be.
pub type Build = fn(&System, &Params) -> Result<Box<dyn Policy>, Verdict>;
