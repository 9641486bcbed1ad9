//! RTA of global EDF: M. Bertogna, M. Cirinei, "Response-Time Analysis for Globally Scheduled
//! Symmetric Multiprocessor Platforms", RTSS 2007.

use super::{Task, others, tasks};
use alloc::vec::Vec;
use maracas_core::admission::{Measure, TestResult};
use maracas_core::{Duration, Vcpu};

/// Rounds over all tasks at most. A bound found is a bound whenever the search ends.
const ROUNDS: usize = 25;
/// The search for a response time grows by a deadline's part of so much at least: any value that
/// the recurrence does not exceed is a bound, not only the least.
const STEPS: u128 = 4096;

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
            responses[place] = response(&tasks, place, &spare, cores);
            if let Some(response) = responses[place] {
                spare[place] = task.deadline - response;
            }
        }
        if spare == before || responses.iter().all(Option::is_some) {
            break;
        }
    }
    let ticks = |ticks: u128| Duration::from_ticks(u64::try_from(ticks).unwrap_or(u64::MAX));
    let row = |(task, response): (&Task, &Option<u128>)| {
        (task.id, response.map(ticks), ticks(task.deadline))
    };
    let accepted = responses.iter().all(Option::is_some);
    let list = tasks.iter().zip(&responses).map(row).collect();
    TestResult { test: "rta", measure: Measure::Responses(list), accepted }
}

/// A bound on the response time of the task at `place`, if one is found within its deadline.
fn response(tasks: &[Task], place: usize, spare: &[u128], cores: usize) -> Option<u128> {
    let task = &tasks[place];
    let least_step = task.deadline / STEPS;
    let mut response = task.cost;
    while response <= task.deadline {
        // More than this does not delay it, whatever others do: it would have ended.
        let most = response - task.cost + 1;
        let delay: u128 = others(tasks, place)
            .zip(others_of(spare, place))
            .map(|(other, spare)| {
                most.min(work(other, spare, response)).min(urgent(other, spare, task.deadline))
            })
            .sum();
        let next = task.cost + delay / cores as u128;
        if next <= response {
            return Some(response);
        }
        response = next.max((response + least_step).min(task.deadline));
    }
    None
}

fn others_of(spare: &[u128], place: usize) -> impl Iterator<Item = u128> {
    spare.iter().enumerate().filter(move |(at, _)| *at != place).map(|(_, spare)| *spare)
}

/// The most that `other` does in any window: its first job ends as late as it may, all others
/// begin when they are released.
fn work(other: &Task, spare: u128, window: u128) -> u128 {
    let span = (window + other.laxity()).saturating_sub(spare);
    span / other.period * other.cost + other.cost.min(span % other.period)
}

/// The most that `other` does by deadlines within a window of `deadline` that ends at one of its
/// own.
fn urgent(other: &Task, spare: u128, deadline: u128) -> u128 {
    let rest = (deadline % other.period).saturating_sub(spare);
    deadline / other.period * other.cost + other.cost.min(rest)
}
