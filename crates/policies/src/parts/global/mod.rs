//! What global policies share: how they give cores to jobs ([`dispatch`]), and schedulability tests
//! of EDF (here) and of fixed priorities ([`fixed`]) on identical cores, for deadlines up to the
//! period, periodic or sporadic releases. Each is sufficient: what it accepts misses nothing, what
//! it refuses may still miss nothing. Of EDF's none holds another: which accepts more depends on
//! the set. The density test is [`super::bounds::gfb`].

pub(crate) mod bak;
pub(crate) mod bcl;
pub(crate) mod dispatch;
pub(crate) mod ff_dbf;
pub(crate) mod fixed;
pub(crate) mod rta;
pub(crate) mod tardiness;

use super::test::Test;
use alloc::vec::Vec;
use maracas_core::admission::{Measure, TestResult};
use maracas_core::{Duration, Vcpu, VcpuId};

/// The test of global EDF that a user's word means; nothing but the capacity for `none`.
pub(crate) fn chosen(word: &str) -> Test {
    match word {
        "gfb" => Test::Gfb,
        "bak" => Test::GlobalBak,
        "bcl" => Test::GlobalBcl,
        "ff-dbf" => Test::GlobalFfDbf,
        "rta" => Test::GlobalRta,
        _ => Test::Capacity,
    }
}

/// The search for a response time grows by a deadline's part of so much at least: any value that
/// the recurrence does not exceed is a bound, not only the least.
const STEPS: u128 = 4096;

/// What the tests know of a task, in ticks.
#[derive(Clone, Copy, Debug)]
struct Task {
    id: VcpuId,
    /// C.
    cost: u128,
    /// D, at most T.
    deadline: u128,
    /// T.
    period: u128,
}

impl Task {
    /// What a job may spare: D - C.
    const fn laxity(&self) -> u128 {
        self.deadline.saturating_sub(self.cost)
    }
}

fn tasks(vcpus: &[Vcpu]) -> Vec<Task> {
    let task = |vcpu: &Vcpu| {
        let (r, ticks) = (&vcpu.reservation, u128::from);
        let deadline = r.deadline.min(r.period);
        let (cost, deadline) = (ticks(r.budget.ticks()), ticks(deadline.ticks()));
        Task { id: vcpu.id, cost, deadline, period: ticks(r.period.ticks()) }
    };
    vcpus.iter().map(task).collect()
}

/// Every task but the one at `place`.
fn others(tasks: &[Task], place: usize) -> impl Iterator<Item = &Task> {
    tasks.iter().enumerate().filter(move |(at, _)| *at != place).map(|(_, task)| task)
}

/// The most that `other` does in any window, where it is known to spare so much before its
/// deadline: its first job ends as late as it may, all others begin when they are released.
fn work(other: &Task, spare: u128, window: u128) -> u128 {
    let span = (window + other.laxity()).saturating_sub(spare);
    // Nearly all times fit one word: this is done more often than all else in a test, and products
    // of two words are dearer.
    match [span, other.period, other.cost].map(u64::try_from) {
        [Ok(span), Ok(period), Ok(cost)] => {
            u128::from(span / period) * u128::from(cost) + u128::from(cost.min(span % period))
        }
        _ => span / other.period * other.cost + other.cost.min(span % other.period),
    }
}

/// A bound on the response time of `task`, if one is found within its deadline, where others do so
/// much in a window in which it does not run: on `cores` cores, all of which they must take.
fn response(task: &Task, cores: usize, delay: impl Fn(u128) -> u128) -> Option<u128> {
    let least_step = task.deadline / STEPS;
    let mut response = task.cost;
    while response <= task.deadline {
        let next = task.cost + delay(response) / cores as u128;
        if next <= response {
            return Some(response);
        }
        response = next.max((response + least_step).min(task.deadline));
    }
    None
}

/// What a test by response times says.
fn by_responses(test: &'static str, tasks: &[Task], responses: &[Option<u128>]) -> TestResult {
    let ticks = |ticks: u128| Duration::from_ticks(u64::try_from(ticks).unwrap_or(u64::MAX));
    let row = |(task, response): (&Task, &Option<u128>)| {
        (task.id, response.map(ticks), ticks(task.deadline))
    };
    let list = tasks.iter().zip(responses).map(row).collect();
    let accepted = responses.iter().all(Option::is_some);
    TestResult { test, measure: Measure::Responses(list), accepted }
}

#[cfg(test)]
mod tests;
