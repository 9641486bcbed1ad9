//! BAK: T. P. Baker, "Multiprocessor EDF and Deadline Monotonic Schedulability Analysis", RTSS
//! 2003: the test for EDF, with each task's load counted up to one core.

use super::{Task, tasks};
use crate::parts::exact::Exact;
use alloc::vec::Vec;
use maracas_core::Vcpu;
use maracas_core::admission::{Measure, TestResult};

/// Accepts where for every task k, with L = C_k / D_k, the loads that the tasks can bring to a
/// window in which k misses sum up to at most m (1 - L) + L. The numbers are those of the task
/// that comes closest to missing, or misses most.
pub(crate) fn test(vcpus: &[Vcpu], cores: usize) -> TestResult {
    let tasks = tasks(vcpus);
    let judged: Vec<_> = tasks.iter().map(|task| judge(&tasks, task, cores)).collect();
    let accepted = judged.iter().all(|(load, bound)| load <= bound);
    // Between 0 and m + n, which a fraction without a sign can be.
    let excess =
        |(load, bound): &&(Exact, Exact)| load.plus(Exact::whole(cores as u128)).minus(*bound);
    let closest = judged.iter().max_by_key(excess);
    let (value, bound) = closest.map_or((0, 0), |(load, bound)| (load.ppb_up(), bound.ppb_down()));
    TestResult { test: "bak", measure: Measure::Ratio { value, bound }, accepted }
}

/// The sum of the loads where `task` misses, and its bound.
fn judge(tasks: &[Task], task: &Task, cores: usize) -> (Exact, Exact) {
    let density = Exact::new(task.cost, task.deadline);
    let load = tasks.iter().fold(Exact::ZERO, |sum, other| sum.plus(load(other, task)));
    let m = cores as u128;
    (load, Exact::whole(m).minus(Exact::whole(m - 1).times(density)))
}

/// beta of the paper: the most that `other` takes of a window of which `task`, missing its
/// deadline at the end, had less than C_k / D_k; at most one core.
fn load(other: &Task, task: &Task) -> Exact {
    let steady = Exact::new(other.cost, other.period);
    let span = task.deadline + other.period - other.deadline;
    let within = steady.times(Exact::new(span, task.deadline));
    // A task heavier than L may carry work into the window.
    let carried = (other.cost * task.deadline).saturating_sub(task.cost * other.period);
    let carried = Exact::new(carried, task.deadline * task.deadline);
    within.plus(carried).min(Exact::ONE)
}
