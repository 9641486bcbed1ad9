//! Schedulability tests of global EDF on identical cores, for deadlines up to the period, periodic
//! or sporadic releases. Each is sufficient: what it accepts misses nothing, what it refuses may
//! still miss nothing. None of them holds another: which accepts more depends on the set. The
//! density test is [`super::bounds::gfb`].

pub(crate) mod bak;
pub(crate) mod bcl;
pub(crate) mod ff_dbf;
pub(crate) mod rta;

use alloc::vec::Vec;
use maracas_core::{Vcpu, VcpuId};

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

#[cfg(test)]
mod tests;
