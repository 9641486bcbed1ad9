//! Blocking under OMLP with clusters of one core.
//!
//! # Paper
//! B. Brandenburg, J. Anderson, EMSOFT 2011.
//! # How it works
//! A core has one incomplete request at most, and holders run at once: a request waits for one
//! section of each other core. Waits count as execution. What less urgent tasks add to a busy
//! interval is the one request that was incomplete when it began.
//! # Where we differ from the paper
//! The paper has m - 1 times the longest section of all; this has the longest of each core.

use super::super::partitioned::Order;
use super::{Kind, Request, Setting, Terms, total};

pub(super) fn terms(setting: &Setting) -> Terms {
    let waits = setting.tasks().map(|(place, task)| {
        let of = |it: &Request| it.count.saturating_mul(setting.once_each_core(place, it.resource));
        Some(total(task.requests.iter().map(of)))
    });
    let delays = setting.tasks().map(|(place, task)| {
        let late = |deadline| setting.order == Order::Fixed || deadline > task.deadline;
        let others = setting.less_urgent(place).filter(|(_, other)| late(other.deadline));
        let requests = others.flat_map(|(_, other)| &other.requests);
        let lasts =
            |it: &Request| it.longest.saturating_add(setting.once_each_core(place, it.resource));
        requests.map(lasts).max().unwrap_or(0)
    });
    Terms { kind: Kind::Oblivious, waits: waits.collect(), delays: delays.collect() }
}
