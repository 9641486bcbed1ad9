//! How often jobs are preempted at most under RUN, from its tree.
//!
//! After p >= 1 reductions a job is preempted (3p + 1) / 2 times at most on average (Regnier et
//! al., RTSS 2011, its theorem on preemptions; rounded up here, as reductions are counted in
//! pairs); without one a server is EDF on a core of its own,
//! where a release preempts once at most. The policy is called for a release, for a completion and
//! once more for the segment that ends with it, for what a preemption ends, and where a dual has
//! spent its budget, once in each of its windows. Windows begin with releases; those of a sporadic
//! task's server are shorter than its period and count as jobs of it.

use super::reduce;
use crate::interference::{Interference, Part, Releases};
use crate::tree::{Kind, Subsystem};
use alloc::vec::Vec;
use maracas_core::admission::Verdict;
use maracas_core::params::Params;
use maracas_core::{Duration, System};

/// What can happen at most in `length` from the start, where all tasks begin together.
///
/// # Errors
/// The verdict, where the policy would not admit the system.
pub(crate) fn interference(
    system: &System,
    params: &Params,
    length: Duration,
) -> Result<Interference, Verdict> {
    let parts = interference_of_parts(system, params, &[Releases::new(system, length)])?;
    let sum = |sum: Interference, part: Part| sum.and(part.happens[0]);
    Ok(parts.into_iter().fold(Interference::default(), sum))
}

/// What can happen at most in each part of the tree, in each of some times.
///
/// # Errors
/// The verdict, where the policy would not admit the system.
pub(crate) fn interference_of_parts(
    system: &System,
    params: &Params,
    times: &[Releases<'_>],
) -> Result<Vec<Part>, Verdict> {
    let reduction = super::reduction(system, params)?;
    // A server of a sporadic task has a budget in each of its windows.
    let mut windowed = system.clone();
    for vcpu in &mut windowed.vcpus {
        let window = reduce::find(&reduction.tasks, vcpu.id).window;
        vcpu.reservation.period = window.map_or(vcpu.reservation.period, Duration::from_ticks);
    }
    let part = |part: &Subsystem| Part {
        tasks: part.root.tasks(),
        happens: times.iter().map(|time| of_subsystem(part, &time.of(&windowed))).collect(),
    };
    Ok(reduction.tree.subsystems.iter().map(part).collect())
}

fn of_subsystem(part: &Subsystem, releases: &Releases<'_>) -> Interference {
    let jobs: u64 = part.root.tasks().into_iter().map(|vcpu| releases.jobs(vcpu)).sum();
    let levels = u64::from(part.root.level);
    if levels == 0 {
        return Interference {
            jobs,
            preemptions: jobs,
            decisions: 4 * jobs,
            ..Interference::default()
        };
    }
    let preemptions = jobs * (3 * levels + 1).div_ceil(2);
    let mut spent = 0;
    part.root.walk(&mut |node| {
        if node.kind == Kind::Dual {
            spent += releases.windows(node);
        }
    });
    Interference {
        jobs,
        unbound_jobs: jobs,
        preemptions,
        migrations: preemptions,
        decisions: 3 * jobs + preemptions + spent,
    }
}
