//! The task sets that are compared on.
//!
//! Times are multiples of a quantum and utilizations of a hundredth, and periods of a hundred
//! quanta, so that every budget is a whole number of quanta and a load of exactly all cores is met:
//! PD2 is then optimal, what RUN, QPS and DP-WRAP derive are whole nanoseconds, and U-EDF's
//! allotments too.

use crate::Error;
use maracas_core::{Arrival, Duration, Rate};
use maracas_scenario::generate::Recipe;
use maracas_scenario::taskset::TaskSet;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Every time is a multiple of it.
pub(super) const QUANTUM: Duration = Duration::from_micros(100);
/// Utilizations are multiples of one part in so many.
const PARTS: u64 = 100;
/// From 10 to 100 ms, as in the studies of SchedCAT's authors; in quanta, which stand for
/// nanoseconds until a set is drawn.
const PERIODS: &str = "list:100ns,200ns,400ns,500ns,1us";
/// All periods divide it.
pub(super) const HYPERPERIOD: Duration = Duration::from_millis(200);
/// The longest period.
const LONGEST: Duration = Duration::from_millis(100);
/// Uniform among those with the sum. A task that asks for all of a core leaves no room for any
/// cost, whatever the policy.
const LOADS: &str = "randfixedsum:0.01..0.95";
/// Three tasks a core: of a third of a core each on full ones, so that packing matters.
pub(super) const TASKS_PER_CORE: usize = 3;

/// Whether deadlines are periods.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Deadlines {
    /// D = T.
    Implicit,
    /// D drawn from what lies between the later of C and T/2, and T.
    Constrained,
}

/// Cores and how much of them is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Point {
    pub(super) cores: usize,
    /// Of all cores.
    pub(super) percent: u64,
}

/// A set, released in two ways, each with how long to simulate it.
///
/// Released at once, all work is done after one hyperperiod and all tasks release again, so that
/// what follows repeats what was. With offsets that is so after the last task came; that a set
/// misses nothing is then seen from one more hyperperiod, if nothing is left undone before.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    pub(super) patterns: [(TaskSet, Duration); 2],
}

/// The set with that number at a point.
pub(super) fn draw(point: Point, number: u64, deadlines: Deadlines) -> Result<Draw, Error> {
    let Point { cores, percent } = point;
    let (loads, periods) = (LOADS.parse().map_err(Error)?, PERIODS.parse().map_err(Error)?);
    let total = Rate::new(cores as u64 * percent, 100);
    let grain = Duration::from_ticks(PARTS);
    let recipe =
        Recipe { grain, ..Recipe::new(total, Some(TASKS_PER_CORE * cores), loads, periods) };
    let seed = (number * 1_000 + percent) * 100 + cores as u64;
    let mut at_once = recipe.draw(seed).map_err(Error)?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut between = |least: u64, most: u64| least + random.next_u64() % (most - least + 1);
    let mut offsets = Vec::new();
    for task in &mut at_once.tasks {
        let (cost, period) = (task.reservation.budget.ticks(), task.reservation.period.ticks());
        let early = between(cost.max(period / 2), period);
        offsets.push(QUANTUM * between(0, period - 1));
        let deadline = if deadlines == Deadlines::Constrained { early } else { period };
        task.reservation.budget = QUANTUM * cost;
        task.reservation.period = QUANTUM * period;
        task.reservation.deadline = QUANTUM * deadline;
    }
    at_once.origin.clear();
    let mut shifted = at_once.clone();
    for (task, offset) in shifted.tasks.iter_mut().zip(offsets) {
        task.arrival = Arrival::Periodic { offset };
    }
    Ok(Draw { patterns: [(at_once, HYPERPERIOD), (shifted, HYPERPERIOD + LONGEST)] })
}

/// The same set with budgets longer by these bounds.
pub(super) fn longer(set: &TaskSet, bounds: &[Duration]) -> TaskSet {
    let mut longer = set.clone();
    for (task, bound) in longer.tasks.iter_mut().zip(bounds) {
        task.reservation.budget += *bound;
    }
    longer
}

/// The same set with budgets shorter by a tenth.
pub(super) fn shorter(set: &TaskSet) -> TaskSet {
    let mut shorter = set.clone();
    for task in &mut shorter.tasks {
        let budget = task.reservation.budget.ticks();
        task.reservation.budget = Duration::from_ticks(budget - budget / 10);
    }
    shorter
}

/// The tasks in words: C/D/T and the offset of each, in microseconds.
pub(super) fn words(set: &TaskSet) -> String {
    let task = |task: &maracas_core::Vcpu| {
        let us = |time: Duration| time.ticks() / 1_000;
        let r = &task.reservation;
        let offset = match task.arrival {
            Arrival::Periodic { offset } => us(offset),
            Arrival::Sporadic | Arrival::None => 0,
        };
        format!("{}/{}/{}+{offset}", us(r.budget), us(r.deadline), us(r.period))
    };
    set.tasks.iter().map(task).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_on_the_grid_and_as_full_as_said() {
        for number in 0..50 {
            let point = Point { cores: 4, percent: 95 };
            for deadlines in [Deadlines::Implicit, Deadlines::Constrained] {
                let Draw { patterns: [(set, _), (shifted, _)] } =
                    draw(point, number, deadlines).expect("it can be drawn");
                assert_eq!(set.tasks.len(), 12);
                let mut load = 0;
                for task in set.tasks.iter().chain(&shifted.tasks) {
                    let r = &task.reservation;
                    let times = [r.budget, r.deadline, r.period].map(Duration::ticks);
                    assert!(times.iter().all(|time| time % QUANTUM.ticks() == 0), "{task:?}");
                    assert!(times[0] <= times[1] && times[1] <= times[2], "{task:?}");
                    assert_eq!(HYPERPERIOD.ticks() % times[2], 0);
                    assert!(deadlines == Deadlines::Constrained || times[1] == times[2]);
                    load += times[0] * PARTS / times[2];
                }
                assert_eq!(load, 2 * 4 * 95);
                assert_ne!(set, shifted);
            }
        }
    }

    #[test]
    fn sets_differ_by_number_and_point_and_are_the_same_again() {
        let set = |cores, percent, number| {
            let drawn = draw(Point { cores, percent }, number, Deadlines::Implicit);
            words(&drawn.expect("it can be drawn").patterns[1].0)
        };
        assert_eq!(set(2, 50, 1), set(2, 50, 1));
        assert_ne!(set(2, 50, 1), set(2, 50, 2));
        assert_ne!(set(2, 50, 1), set(2, 60, 1));
    }
}
