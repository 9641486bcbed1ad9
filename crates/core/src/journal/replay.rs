//! Gives a policy that was built anew the events of a journal, and compares its decisions.

use super::{Decision, PlanHash, Record};
use crate::contract::{Event, decide, decide_alone};
use crate::{Instant, Plan, Policy};
use alloc::boxed::Box;
use core::fmt;

/// A policy that is given the events of a journal, and the plan that it makes of them.
pub struct Replay<'a> {
    policy: &'a mut dyn Policy,
    plan: Plan,
    hash: PlanHash,
}

/// Why a replay is not exact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Differs {
    /// The policy decided this, and not what the journal says.
    Decided(Box<Decision>),
    /// So many records are missing here, so that nothing after can be compared.
    Lost(u64),
}

impl fmt::Debug for Replay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl<'a> Replay<'a> {
    /// Begins with `policy`, which was built anew for a system of so many cores.
    pub fn new(policy: &'a mut dyn Policy, cores: usize) -> Self {
        Self { policy, plan: Plan::new(cores), hash: PlanHash::default() }
    }

    /// Gives one record to the policy. Notes and the end mean nothing to it.
    ///
    /// # Errors
    /// Where the policy decides otherwise than the record says, or records are missing.
    ///
    /// # Panics
    /// As the policy does, where the records are not those of a lawful run.
    pub fn step(&mut self, record: &Record) -> Result<(), Differs> {
        match record {
            Record::Event { at, event } => self.event(*at, event),
            Record::Planned(theirs) => {
                match theirs.group.and_then(|core| Some((core, self.policy.apart()?))) {
                    Some((core, apart)) => decide_alone(apart, core, theirs.now, &mut self.plan),
                    None => decide(self.policy, theirs.now, &mut self.plan),
                }
                let ours = Decision::of(theirs.now, &self.plan, &mut self.hash);
                let ours = Decision { group: theirs.group, ..ours };
                if ours != *theirs {
                    return Err(Differs::Decided(Box::new(ours)));
                }
            }
            Record::Gap(lost) => return Err(Differs::Lost(*lost)),
            Record::Note { .. } | Record::End(_) => {}
        }
        Ok(())
    }
    /// Gives one event to the policy.
    pub fn event(&mut self, at: Instant, event: &Event) {
        self.policy.on_event(at, event);
    }
    /// Asks the policy; the hash of its whole plan ([`Decision::hash`]).
    pub fn decide(&mut self, now: Instant) -> u64 {
        decide(self.policy, now, &mut self.plan);
        self.hash.update(&self.plan)
    }

    /// The plan after the last decision.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }
    /// The policy as it is after the last record.
    pub fn policy(&self) -> &dyn Policy {
        self.policy
    }
}
