//! RTA of fixed priorities: M. Bertogna, M. Cirinei, "Response-Time Analysis for Globally Scheduled
//! Symmetric Multiprocessor Platforms", RTSS 2007.

use super::in_order;
use crate::parts::global::{Task, by_responses, response, work};
use maracas_core::admission::TestResult;

/// Accepts where a bound on each task's response time is found within its deadline. What the more
/// urgent tasks are known to spare before theirs lessens what they carry into its window.
pub(super) fn test(tasks: &[Task], cores: usize) -> TestResult {
    let bound = |task: &Task, urgent: &[(Task, u128)]| {
        response(task, cores, |window| {
            // More than this does not delay it, whatever others do: it would have ended.
            let most = window - task.cost + 1;
            let part =
                |(other, r): &(Task, u128)| most.min(work(other, other.deadline - r, window));
            urgent.iter().map(part).sum()
        })
    };
    by_responses("rta", tasks, &in_order(tasks, bound))
}
