//! RTA of global EDF: M. Bertogna, M. Cirinei, "Response-Time Analysis for Globally Scheduled
//! Symmetric Multiprocessor Platforms", RTSS 2007.

use super::{Task, by_responses, others, response, tasks, work};
use alloc::vec::Vec;
use maracas_core::Vcpu;
use maracas_core::admission::TestResult;

/// Rounds over all tasks at most. A bound found is a bound whenever the search ends.
const ROUNDS: usize = 25;
/// Accepts where a bound on each task's response time is found within its deadline. What a task is
/// known to spare before its deadline lessens what it carries into the windows of others, whose
/// bounds then fall: so all are gone through again until nothing changes.
pub(crate) fn test(vcpus: &[Vcpu], cores: usize) -> TestResult {
    let tasks = tasks(vcpus);
    let mut responses: Vec<Option<u128>> = alloc::vec![None; tasks.len()];
    let mut spare = alloc::vec![0; tasks.len()];
    for _ in 0..ROUNDS {
        let before = spare.clone();
        for (place, task) in tasks.iter().enumerate() {
            responses[place] = bound(&tasks, place, &spare, cores);
            if let Some(response) = responses[place] {
                spare[place] = task.deadline - response;
            }
        }
        if spare == before || responses.iter().all(Option::is_some) {
            break;
        }
    }
    by_responses("rta", &tasks, &responses)
}

/// A bound on the response time of the task at `place`, if one is found within its deadline.
fn bound(tasks: &[Task], place: usize, spare: &[u128], cores: usize) -> Option<u128> {
    let task = &tasks[place];
    // No window changes what is due within a deadline, and the search looks at many.
    let due = |(other, spare)| (other, spare, urgent(other, spare, task.deadline));
    let others: Vec<(&Task, u128, u128)> =
        others(tasks, place).zip(others_of(spare, place)).map(due).collect();
    response(task, cores, |window| {
        // More than this does not delay it, whatever others do: it would have ended.
        let most = window - task.cost + 1;
        let part = |(other, spare, urgent): &(&Task, u128, u128)| {
            most.min(*urgent).min(work(other, *spare, window))
        };
        others.iter().map(part).sum()
    })
}

fn others_of(spare: &[u128], place: usize) -> impl Iterator<Item = u128> {
    spare.iter().enumerate().filter(move |(at, _)| *at != place).map(|(_, spare)| *spare)
}

/// The most that `other` does by deadlines within a window of `deadline` that ends at one of its
/// own.
fn urgent(other: &Task, spare: u128, deadline: u128) -> u128 {
    let (whole, rest) = (deadline / other.period, deadline % other.period);
    whole * other.cost + other.cost.min(rest.saturating_sub(spare))
}
