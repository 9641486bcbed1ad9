//! Blocking under the partitioned FMLP+.
//!
//! # Paper
//! B. Brandenburg, "The FMLP+", ECRTS 2014, and the author's thesis, UNC Chapel Hill,
//! 2011.
//! # How it works
//! Nothing delays a request but requests that were made before it, of which each other task has one
//! at most: one for the same resource, or one whose holder goes ahead of another user of that
//! resource on their core. Each time that a job begins or comes back from a wait, one section of
//! each less urgent task of its core may go ahead of it. Under EDF that is any task where the job
//! comes back, since others were released while it waited; where it begins, only tasks with longer
//! relative deadlines: what was released before it and is due after it has one.
//! # Where we differ from the paper
//! The paper bounds by a linear program how often each task comes within the response time; this is
//! the closed form of one request a task. Under EDF all waits count as execution.

use super::super::partitioned::Order;
use super::{Kind, Request, Setting, Task, Terms, total};

pub(super) fn terms(setting: &Setting) -> Terms {
    let delay = |place: usize| {
        let task = &setting.tasks[place];
        let late = |deadline| setting.order == Order::Fixed || deadline > task.deadline;
        let longest = |it: &Task| it.longest_of(|_| true);
        let at_return = total(setting.less_urgent(place).map(|(_, it)| longest(it)));
        let before = setting.less_urgent(place).filter(|(_, it)| late(it.deadline));
        let at_begin = total(before.map(|(_, it)| longest(it)));
        task.asks().saturating_mul(at_return).saturating_add(at_begin)
    };
    let waits = |place: usize| {
        let of = |it: &Request| it.count.saturating_mul(wait(setting, place, it.resource));
        total(setting.tasks[place].requests.iter().map(of))
    };
    let places = 0..setting.tasks.len();
    match setting.order {
        Order::Fixed => Terms {
            kind: Kind::Aware,
            waits: places.clone().map(|it| Some(waits(it))).collect(),
            delays: places.map(delay).collect(),
        },
        // A job is delayed anew after every wait, not once in a busy interval.
        Order::Deadline => Terms {
            kind: Kind::Oblivious,
            waits: places.clone().map(|it| Some(waits(it).saturating_add(delay(it)))).collect(),
            delays: places.map(|_| 0).collect(),
        },
    }
}

/// How long one request is incomplete at most, without its own section.
fn wait(setting: &Setting, place: usize, resource: u32) -> u64 {
    let before = setting.tasks().filter(|(other, _)| *other != place).map(|(other, task)| {
        let meets_user = setting.beside(other).any(|(_, user)| user.uses(resource));
        if meets_user { task.longest_of(|_| true) } else { task.longest_on(resource) }
    });
    total(before)
}
