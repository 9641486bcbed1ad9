//! Blocking under MPCP, with suspension.
//!
//! # Paper
//! R. Rajkumar, ICDCS 1990; the terms after K. Lakshmanan, D. de Niz, R. Rajkumar, "Coordinated
//! Task Scheduling, Allocation and Synchronization on Multiprocessors", RTSS 2009.
//! # How it works
//! A holder of a global resource is delayed by one section of each other task of its core with no
//! lower ceiling: one that comes back to its own priority does not run before the holder is done.
//! A request waits for one less urgent holder and for all requests of more urgent tasks in the
//! window. Each time that a job begins or comes back from a wait, one global section of each less
//! urgent task of its core may go ahead of it, and one local section with a ceiling as high.
//! # Where we differ from the paper
//! More urgent tasks bring what their jobs ask in a window that is longer by their deadline, since
//! the first of these may have been released before it.

use super::{Kind, Request, Setting, Task, Terms, total};
use alloc::vec::Vec;

pub(super) fn terms(setting: &Setting) -> Terms {
    let waits = setting.tasks().map(|(place, task)| {
        let of = |request: &Request| {
            let once = if is_local(setting, request.resource) {
                Some(0)
            } else {
                wait(setting, place, request.resource)
            };
            once?.checked_mul(request.count)
        };
        task.requests.iter().map(of).try_fold(0_u64, |sum, it| sum.checked_add(it?))
    });
    let delays = setting.tasks().map(|(place, task)| {
        let is_global = |resource| !is_local(setting, resource);
        let asks = task.requests.iter().filter(|it| is_global(it.resource)).map(|it| it.count);
        let global = setting.less_urgent(place).map(|(_, it)| it.longest_of(is_global));
        let as_high = |resource| is_local(setting, resource) && ceiling(setting, resource) <= place;
        let local = setting.less_urgent(place).map(|(_, it)| it.longest_of(as_high)).max();
        let once = total(global).saturating_add(local.unwrap_or(0));
        (asks.sum::<u64>() + 1).saturating_mul(once)
    });
    Terms { kind: Kind::Aware, waits: waits.collect(), delays: delays.collect() }
}

/// Whether the tasks of one core alone use it.
fn is_local(setting: &Setting, resource: u32) -> bool {
    let mut users = setting.tasks.iter().filter(|task| task.uses(resource));
    let first = users.next().map(|task| task.core);
    users.all(|task| Some(task.core) == first)
}

/// The most urgent task that uses it.
fn ceiling(setting: &Setting, resource: u32) -> usize {
    setting.tasks.iter().position(|task| task.uses(resource)).unwrap_or(usize::MAX)
}

/// How long a task holds a global resource at most.
fn hold(setting: &Setting, holder: usize, resource: u32) -> u64 {
    let least = ceiling(setting, resource);
    let ahead = |it| !is_local(setting, it) && ceiling(setting, it) <= least;
    let others = total(setting.beside(holder).map(|(_, it)| it.longest_of(ahead)));
    setting.tasks[holder].longest_on(resource).saturating_add(others)
}

/// How long one request waits at most.
fn wait(setting: &Setting, place: usize, resource: u32) -> Option<u64> {
    let users = || setting.tasks().filter(|(other, it)| *other != place && it.uses(resource));
    let less = users().filter(|(other, _)| *other > place);
    let one = less.map(|(other, _)| hold(setting, other, resource)).max().unwrap_or(0);
    let more = users().filter(|(other, _)| *other < place);
    let more: Vec<(&Task, u64)> =
        more.map(|(other, it)| (it, hold(setting, other, resource))).collect();
    let mut window = u128::from(one);
    loop {
        let taken = |(task, hold): &(&Task, u64)| {
            let jobs = (window + u128::from(task.deadline)).div_ceil(u128::from(task.period));
            let count: u64 =
                task.requests.iter().filter(|it| it.resource == resource).map(|it| it.count).sum();
            jobs * u128::from(count) * u128::from(*hold)
        };
        let next = u128::from(one) + more.iter().map(taken).sum::<u128>();
        if next > u128::from(setting.tasks[place].deadline) {
            return None;
        }
        if next == window {
            return u64::try_from(window).ok();
        }
        window = next;
    }
}
