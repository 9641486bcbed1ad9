//! Schedulability tests of global fixed priorities. `rta` accepts all that `bcl` does.

mod bcl;
mod rta;
mod rta_lc;

use super::{Task, tasks};
use crate::parts::priority::{self, By};
use alloc::vec::Vec;
use maracas_core::Vcpu;
use maracas_core::admission::TestResult;

/// One of the tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fixed {
    /// By Bertogna, Cirinei and Lipari.
    Bcl,
    /// By Bertogna and Cirinei.
    Rta,
    /// By Guan, Stigge, Yi and Yu.
    RtaLc,
}

impl Fixed {
    /// What it says of `vcpus` on so many cores, with priorities by that span, then by id.
    pub(crate) fn run(self, vcpus: &[Vcpu], cores: usize, by: By) -> TestResult {
        let mut ordered = vcpus.to_vec();
        ordered.sort_by_key(|vcpu| (priority::span(vcpu, by), vcpu.id));
        let tasks = tasks(&ordered);
        match self {
            Self::Bcl => bcl::test(&tasks, cores),
            Self::Rta => rta::test(&tasks, cores),
            Self::RtaLc => rta_lc::test(&tasks, cores),
        }
    }
}

/// A bound for each of `tasks`, which stand in priority order, from those of the more urgent ones;
/// none from the first on for which none is found.
fn in_order(
    tasks: &[Task],
    bound: impl Fn(&Task, &[(Task, u128)]) -> Option<u128>,
) -> Vec<Option<u128>> {
    let mut urgent: Vec<(Task, u128)> = Vec::with_capacity(tasks.len());
    let bounds = tasks.iter().enumerate().map(|(place, task)| {
        let found = if urgent.len() == place { bound(task, &urgent) } else { None };
        urgent.extend(found.map(|response| (*task, response)));
        found
    });
    bounds.collect()
}

#[cfg(test)]
mod tests;
