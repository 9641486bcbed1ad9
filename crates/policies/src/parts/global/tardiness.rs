//! How late jobs may be under global EDF, on cores that are not asked for more than they have:
//! J. P. Erickson, U. Devi, S. Baruah, "Improved Tardiness Bounds for Global EDF", ECRTS 2010, with
//! compliant vectors, for deadlines at the period's end; J. Erickson, N. Guan, S. Baruah,
//! "Tardiness Bounds for Global EDF with Deadlines Different from Periods", OPODIS 2010; after
//! U. C. Devi, J. H. Anderson, "Tardiness Bounds under Global EDF Scheduling on a Multiprocessor",
//! Real-Time Systems 38(2), 2008.
//!
//! With S_i = C_i (1 - D_i/T_i), no job of task i is later than x_i + C_i where for every i
//! m x_i + C_i is at least s = S_1 + ... + S_n + the m - 1 greatest of x_j U_j + C_j - S_j.

use super::{Task, tasks};
use alloc::vec::Vec;
use core::cmp::Reverse;
use maracas_core::admission::{Measure, TestResult};
use maracas_core::{Duration, Vcpu};

/// Bounds on how late jobs are. It accepts nothing: that no job is late it does not say. They hold
/// where the sum of C/T is at most the number of cores, and no C/T is above 1; for a set that is
/// there from the start and stays, whose jobs need C at most, with no overheads.
pub(crate) fn bounds(vcpus: &[Vcpu], cores: usize) -> TestResult {
    let (tasks, m) = (tasks(vcpus), cores as u128);
    let total = least(|total| needed(&tasks, m, total) <= total);
    let late = |task: &Task| {
        let late = spare(task, m, total) + task.cost;
        (task.id, Duration::from_ticks(u64::try_from(late).unwrap_or(u64::MAX)))
    };
    let late = tasks.iter().map(late).collect();
    TestResult { test: "tardiness", measure: Measure::Tardiness(late), accepted: false }
}

/// The least x of a task where s is so much, rounded up.
fn spare(task: &Task, m: u128, total: u128) -> u128 {
    total.saturating_sub(task.cost).div_ceil(m)
}

/// The least s that the vector with that s asks for, each term rounded up: with a greater s too, a
/// vector is compliant.
fn needed(tasks: &[Task], m: u128, total: u128) -> u128 {
    let early = |task: &Task| task.cost * (task.period - task.deadline) / task.period;
    let early_up = |task: &Task| (task.cost * (task.period - task.deadline)).div_ceil(task.period);
    let term = |task: &Task| {
        let share = (spare(task, m, total) * task.cost).div_ceil(task.period);
        share + task.cost - early(task)
    };
    let mut terms: Vec<u128> = tasks.iter().map(term).collect();
    terms.sort_unstable_by_key(|term| Reverse(*term));
    let greatest: u128 = terms.iter().take(m as usize - 1).sum();
    greatest + tasks.iter().map(early_up).sum::<u128>()
}

/// The least number from which on `holds` does, or one that holds near it: what is asked for grows
/// by less than s does, but for rounding.
fn least(holds: impl Fn(u128) -> bool) -> u128 {
    let mut high = 1;
    while !holds(high) {
        high *= 2;
    }
    let mut low = high / 2;
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::super::tests::set;
    use super::*;

    fn late(list: &[(u64, u64, u64)], cores: usize) -> Vec<u64> {
        let Measure::Tardiness(late) = bounds(&set(list), cores).measure else {
            panic!("it says how late jobs are")
        };
        late.iter().map(|(_, late)| late.ticks()).collect()
    }

    /// Three tasks of two thirds on two cores: s = 2/3 x + 2 with 2 x = s - 2 gives s = 2, x = 0.
    #[test]
    fn three_tasks_of_two_thirds_are_late_by_no_more_than_c() {
        assert_eq!(late(&[(2, 3, 3); 3], 2), [2, 2, 2]);
    }

    /// One great task beside small ones, in thousandths: s = 10000 + 1/2 x, with x = 0 for it and
    /// 2 x = s - 1000 for the others: 4500 + 1000.
    #[test]
    fn small_tasks_wait_for_great_ones() {
        let list = [(10_000, 20_000, 20_000), (1_000, 2_000, 2_000), (1_000, 2_000, 2_000)];
        assert_eq!(late(&list, 2), [10_000, 5_500, 5_500]);
    }

    /// With D = T/2 of C = 10, T = 40 each S is 5: s = 15 + 10 - 5 + x/4 with 2 x = s - 10.
    #[test]
    fn early_deadlines_make_later() {
        let list = [(10, 20, 40); 3];
        // s = 20 + (s - 10) / 8 = 150 / 7, rounded up 22, and x = 6.
        assert_eq!(late(&list, 2), [16, 16, 16]);
    }

    #[test]
    fn nothing_is_late_by_nothing() {
        assert_eq!(late(&[], 4), [0_u64; 0]);
    }
}
