//! BCL: M. Bertogna, M. Cirinei, G. Lipari, "Improved Schedulability Analysis of EDF on
//! Multiprocessor Platforms", ECRTS 2005.

use super::{Task, others, tasks};
use alloc::vec::Vec;
use maracas_core::admission::{Measure, TestResult};
use maracas_core::{PPB, Vcpu};

/// Accepts where no task k can be kept from its D_k - C_k spare ticks: the others' work in a
/// window of D_k, each counted up to these, stays below m times these, or reaches it with one that
/// counts in full. The numbers are shares of what m cores can take, of the task with the most.
pub(crate) fn test(vcpus: &[Vcpu], cores: usize) -> TestResult {
    let tasks = tasks(vcpus);
    let judged: Vec<_> = (0..tasks.len()).map(|place| judge(&tasks, place, cores)).collect();
    let accepted = judged.iter().all(|(_, accepted)| *accepted);
    let value = judged.iter().map(|(share, _)| *share).max().unwrap_or(0);
    TestResult { test: "bcl", measure: Measure::Ratio { value, bound: PPB }, accepted }
}

/// The share of `m (D - C)` that the others take of the task at `place`, in parts per billion, and
/// whether it is safe.
fn judge(tasks: &[Task], place: usize, cores: usize) -> (u64, bool) {
    let task = &tasks[place];
    let (spare, m) = (task.laxity(), cores as u128);
    let works: Vec<u128> = others(tasks, place).map(|other| work(other, task)).collect();
    let taken: u128 = works.iter().map(|work| spare.min(*work)).sum();
    let whole = works.iter().any(|work| (1..=spare).contains(work));
    let room = m * spare;
    let safe = taken < room || (taken == room && whole);
    let share = match room {
        // Without spare time it never is, by the paper, not even alone.
        0 => u64::from(!safe) * (PPB + 1),
        _ => u64::try_from((taken * u128::from(PPB)).div_ceil(room)).unwrap_or(u64::MAX),
    };
    (share, safe)
}

/// The most that `other` does by deadlines within a window that ends at a deadline of `task`, and
/// begins D_k before: jobs with deadlines aligned at its end, the first only as far as it fits.
fn work(other: &Task, task: &Task) -> u128 {
    // floor((D_k - D_i) / T_i) + 1, where D_i <= T_i.
    let jobs = (task.deadline + other.period - other.deadline) / other.period;
    let rest = task.deadline.saturating_sub(jobs * other.period);
    jobs * other.cost + other.cost.min(rest)
}
