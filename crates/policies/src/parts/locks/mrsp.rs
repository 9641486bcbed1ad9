//! Blocking under MrsP.
//!
//! # Paper
//! A. Burns, A. J. Wellings, ECRTS 2013: response times as on one core, with critical sections that
//! last as many times longer as cores use the resource.
//! # How it works
//! A request spins for one section of each other core that uses the resource, as each has one
//! request at most and the holder runs wherever a job that spins would. A job is blocked once, when
//! it begins, by a less urgent one of its core that holds or spins for a resource with a ceiling as
//! high.
//! # Where we differ from the paper
//! Each core counts with its own longest section, not with the longest of all.

use super::{Kind, Request, Setting, Terms, total};

pub(super) fn terms(setting: &Setting) -> Terms {
    let waits = setting.tasks().map(|(place, task)| {
        let of = |it: &Request| it.count.saturating_mul(setting.once_each_core(place, it.resource));
        Some(total(task.requests.iter().map(of)))
    });
    let delays = setting.tasks().map(|(place, task)| {
        let as_high = |resource| {
            let mut more = setting.beside(place).filter(|(other, _)| *other < place);
            task.uses(resource) || more.any(|(_, it)| it.uses(resource))
        };
        let requests = setting.less_urgent(place).flat_map(|(_, other)| &other.requests);
        let lasts =
            |it: &Request| it.longest.saturating_add(setting.once_each_core(place, it.resource));
        requests.filter(|it| as_high(it.resource)).map(lasts).max().unwrap_or(0)
    });
    Terms { kind: Kind::Oblivious, waits: waits.collect(), delays: delays.collect() }
}
