//! Tests with blocking terms, core by core.

use super::super::exact::Exact;
use super::{Kind, Setting, Task, Terms};
use alloc::vec;
use alloc::vec::Vec;
use maracas_core::admission::{Measure, TestResult};
use maracas_core::{CoreId, Duration, PPB};

/// Response times under fixed priorities, a result for each core.
///
/// Where waits count as execution: R = C + waits + delays + the sum over more urgent j of
/// ceil(R / `T_j`) (`C_j` + `waits_j`). Else the sum is of ceil((R + `J_j`) / `T_j`) `C_j`, with
/// the jitter `J_j` = `R_j` - `C_j` of jobs that suspend themselves or are delayed (J.-J. Chen and
/// others, "Many Suspensions, Many Problems: A Review of Self-Suspending Tasks in Real-Time
/// Systems", Real-Time Systems 55, 2019, section 4.2).
pub(super) fn fixed(
    setting: &Setting,
    terms: &Terms,
    cores: impl Iterator<Item = CoreId>,
) -> Vec<TestResult> {
    let mut responses: Vec<Option<u64>> = vec![None; setting.tasks.len()];
    for (place, task) in setting.tasks() {
        let urgent = setting.beside(place).filter(|(other, _)| *other < place);
        let urgent = urgent.map(|(other, it)| interference(it, other, terms, responses[other]));
        let urgent: Option<Vec<Interference>> = urgent.collect();
        let own = terms.bound(place).and_then(|bound| bound.checked_add(task.budget));
        responses[place] = match (own, urgent) {
            (Some(own), Some(urgent)) => fixed_point(own, task.deadline, &urgent),
            (None, _) | (_, None) => None,
        };
    }
    let result = |core| {
        let on = setting.tasks().filter(|(_, task)| task.core == core);
        let row = |(place, task): (usize, &Task)| {
            let response = responses[place].map(Duration::from_ticks);
            (task.id, response, Duration::from_ticks(task.deadline))
        };
        let list: Vec<_> = on.map(row).collect();
        let accepted = list.iter().all(|(_, response, _)| response.is_some());
        TestResult { test: "rta-blocking", measure: Measure::Responses(list), accepted }
    };
    cores.map(result).collect()
}

/// What a more urgent task takes: so much each time, every period, and by how much earlier than
/// the window its first release may lie.
type Interference = (u64, u64, u64);

/// `None` where nothing bounds it.
fn interference(
    task: &Task,
    place: usize,
    terms: &Terms,
    response: Option<u64>,
) -> Option<Interference> {
    match terms.kind {
        Kind::Oblivious => Some((task.budget.checked_add(terms.waits[place]?)?, task.period, 0)),
        Kind::Aware if terms.bound(place) == Some(0) => Some((task.budget, task.period, 0)),
        Kind::Aware => Some((task.budget, task.period, response? - task.budget)),
    }
}

fn fixed_point(own: u64, limit: u64, urgent: &[Interference]) -> Option<u64> {
    let mut response = u128::from(own);
    while response <= u128::from(limit) {
        let window = response;
        let taken = |&(cost, period, jitter): &Interference| {
            (window + u128::from(jitter)).div_ceil(u128::from(period)) * u128::from(cost)
        };
        response = u128::from(own) + urgent.iter().map(taken).sum::<u128>();
        if response == window {
            return u64::try_from(window).ok();
        }
    }
    None
}

/// Densities under EDF, waits counted as execution: for every deadline D of a task, the sum of
/// (C + waits) / min(D, T) over the tasks with no later one, and the longest delay by a task with a
/// later one over D, is at most 1 (T. P. Baker, "Stack-Based Scheduling of Realtime Processes",
/// Real-Time Systems 3, 1991, with densities).
pub(super) fn deadlines(
    setting: &Setting,
    terms: &Terms,
    cores: impl Iterator<Item = CoreId>,
) -> Vec<TestResult> {
    let result = |core| {
        let mut on: Vec<_> = setting.tasks().filter(|(_, task)| task.core == core).collect();
        on.sort_by_key(|(_, task)| task.deadline);
        let mut sum = Some(Exact::whole(0));
        let mut worst = Exact::whole(0);
        for (place, task) in on {
            let cost = terms.waits[place].and_then(|waits| waits.checked_add(task.budget));
            sum = sum
                .zip(cost)
                .map(|(sum, cost)| sum.plus(Exact::new(cost.into(), task.deadline.max(1).into())));
            let delay = Exact::new(terms.delays[place].into(), task.deadline.max(1).into());
            worst = worst.max(sum.map_or(Exact::whole(u128::from(u32::MAX)), |it| it.plus(delay)));
        }
        let accepted = worst <= Exact::whole(1);
        let measure = Measure::Ratio { value: worst.ppb_up(), bound: PPB };
        TestResult { test: "edf-blocking", measure, accepted }
    };
    cores.map(result).collect()
}
