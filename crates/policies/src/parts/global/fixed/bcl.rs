//! BCL of fixed priorities: M. Bertogna, M. Cirinei, G. Lipari, "New Schedulability Tests for
//! Real-Time Task Sets Scheduled by Deadline Monotonic on Multiprocessors", OPODIS 2005; in whole
//! ticks as in "Schedulability Analysis of Global Scheduling Algorithms on Multiprocessor
//! Platforms" by the same, IEEE Transactions on Parallel and Distributed Systems 20(4), 2009.

use crate::parts::global::{Task, work};
use maracas_core::PPB;
use maracas_core::admission::{Measure, TestResult};

/// Accepts where no task can be kept from running for D - C + 1 ticks of a window of D: the more
/// urgent ones' work in it, each counted up to these, stays below m times these. The numbers are
/// shares of that, of the task with the most.
pub(super) fn test(tasks: &[Task], cores: usize) -> TestResult {
    let shares = tasks.iter().enumerate().map(|(place, task)| {
        let late = task.laxity() + 1;
        let part = |other: &Task| late.min(work(other, 0, task.deadline));
        let taken: u128 = tasks[..place].iter().map(part).sum();
        (taken, late * cores as u128)
    });
    let (mut value, mut accepted) = (0, true);
    for (taken, room) in shares {
        let share = u64::try_from((taken * u128::from(PPB)).div_ceil(room)).unwrap_or(u64::MAX);
        accepted &= taken < room;
        value = value.max(if taken < room { share } else { share.max(PPB + 1) });
    }
    TestResult { test: "bcl", measure: Measure::Ratio { value, bound: PPB }, accepted }
}
