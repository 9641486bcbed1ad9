//! How often jobs are preempted at most under QPS, from its hierarchy, on whole cores and where the
//! master is the class that the paper names (`master` is not `fixed`).
//!
//! What stops a job stops one item of its set. Where that is a master, its set leaves the parallel
//! phase: one of its classes stops, and with it one item, which may be a master again. So whatever
//! stops something stops one job in the end, on the way down. What stopped starts again. A master
//! that starts sends one class of its set to another core, and a job of that class may be there
//! already in time that the other class left idle: with `work_conserving` one job a level is moved.
//! So an item of a set with `l` levels below it is stopped at the cost of `1 + l` preemptions, or
//! of one where no class uses what the other left.
//!
//! Items of a set are stopped by its jobs' releases, once each, and in every window of a major set
//! four times at most, one of them in its host:
//! - its master's budget is released there, which is a release among the host's items;
//! - it is spent, and a class stops;
//! - the class that has the core to itself spends its budget, and the other one takes over: once,
//!   as the last one keeps the core. Twice, where a late job's class goes before it.
//!
//! That the master's first start moves a job too is counted as a fifth. Windows end at deadlines
//! of tasks in the set or below it.
//!
//! The policy is called for a release, for a completion and once more for the segment that ends
//! with it, for what a preemption ends, and four times a window of a major set: where one of its
//! three budgets is spent and at its end.

use super::{MASTER, WORK_CONSERVING, qps_tree};
use crate::interference::{Interference, Part, Releases};
use crate::tree::{Kind, Node, Subsystem};
use alloc::vec::Vec;
use maracas_core::admission::Verdict;
use maracas_core::params::Params;
use maracas_core::{Duration, Rate, System};

/// Whether [`interference`] speaks of such systems: where a core is not whole both classes of a set
/// may stop at once, and a fixed master is alone and in parallel by turns.
pub(crate) fn covers(system: &System, params: &Params) -> bool {
    system.capacity == Rate::ONE && params.choice(&MASTER) != "fixed"
}

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

/// What can happen at most in each hierarchy, in each of some times.
///
/// # Errors
/// The verdict, where the policy would not admit the system.
pub(crate) fn interference_of_parts(
    system: &System,
    params: &Params,
    times: &[Releases<'_>],
) -> Result<Vec<Part>, Verdict> {
    let tree = qps_tree(system, params)?;
    let moves_idle = params.flag(&WORK_CONSERVING);
    let counting = |releases| Counting { releases, moves_idle };
    let part = |part: &Subsystem| Part {
        tasks: part.root.tasks(),
        happens: times.iter().map(|time| counting(time).of_set(&part.root, None)).collect(),
    };
    Ok(tree.subsystems.iter().map(part).collect())
}

struct Counting<'a> {
    releases: &'a Releases<'a>,
    /// Whether a class may use what the other one leaves idle.
    moves_idle: bool,
}

impl Counting<'_> {
    /// Jobs that are moved where a set's master or one of its items starts: one a level.
    fn of_start(&self, levels: u32) -> u64 {
        if self.moves_idle { u64::from(levels) } else { 0 }
    }
    /// Preemptions where an item of a set is stopped and starts again.
    fn of_stop(&self, set: &Node) -> u64 {
        1 + self.of_start(set.level)
    }

    /// What happens in a set and below it. It is major where it has a host.
    fn of_set(&self, set: &Node, host: Option<&Node>) -> Interference {
        let (mut jobs, mut below) = (0, Interference::default());
        for item in &set.children {
            if let Kind::Task(vcpu) = item.kind {
                jobs += self.releases.jobs(vcpu);
            }
            for guest in &item.children {
                below = below.and(self.of_set(guest, Some(set)));
            }
        }
        let windows = host.map_or(0, |_| self.releases.windows(set));
        let of_window = 3 * self.of_stop(set)
            + self.of_start(set.level + 1)
            + host.map_or(0, |host| self.of_stop(host));
        let preemptions = jobs * self.of_stop(set) + windows * of_window;
        let is_alone = host.is_none() && set.level == 0;
        below.and(Interference {
            jobs,
            unbound_jobs: if host.is_some() { jobs } else { 0 },
            preemptions,
            migrations: if is_alone { 0 } else { preemptions },
            decisions: 3 * jobs + preemptions + 4 * windows,
        })
    }
}
