//! RTA-LC: N. Guan, M. Stigge, W. Yi, G. Yu, "New Response Time Bounds for Fixed Priority
//! Multiprocessor Scheduling", RTSS 2009, for deadlines up to the period.

use super::in_order;
use crate::parts::global::{Task, by_responses, response};
use alloc::vec::Vec;
use core::cmp::Reverse;
use maracas_core::admission::TestResult;

/// Accepts where a bound on each task's response time is found within its deadline. It suffices to
/// look at windows that begin when some core has been free: then at most m - 1 tasks carry work of
/// an earlier job into the window, those to which that adds most.
pub(super) fn test(tasks: &[Task], cores: usize) -> TestResult {
    let bound = |task: &Task, urgent: &[(Task, u128)]| {
        response(task, cores, |window| {
            // More than this does not delay it, whatever others do: it would have ended.
            let most = window - task.cost + 1;
            let new: Vec<u128> =
                urgent.iter().map(|(other, _)| most.min(begun(other, window))).collect();
            let mut more: Vec<u128> = urgent
                .iter()
                .zip(&new)
                .map(|((other, r), new)| most.min(carried(other, *r, window)).saturating_sub(*new))
                .collect();
            more.sort_unstable_by_key(|more| Reverse(*more));
            new.iter().chain(more.iter().take(cores - 1)).sum()
        })
    };
    by_responses("rta-lc", tasks, &in_order(tasks, bound))
}

/// The most that `other` does in a window in which it has no earlier job.
fn begun(other: &Task, window: u128) -> u128 {
    window / other.period * other.cost + other.cost.min(window % other.period)
}

/// The most that `other`, whose jobs take so long at most, does in a window into which an earlier
/// job reaches: its last job lies whole at the window's end, jobs before it a period apart, and the
/// first one reaches in, less than whole, with what it has left when its response time is at its
/// longest.
fn carried(other: &Task, response: u128, window: u128) -> u128 {
    let before = window.saturating_sub(other.cost);
    let (jobs, rest) = (before / other.period, before % other.period);
    let reaches = rest.saturating_sub(other.period - response).min(other.cost - 1);
    (jobs + 1) * other.cost + reaches
}
