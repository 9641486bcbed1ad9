//! QPA: F. Zhang, A. Burns, "Schedulability Analysis for Real-Time Systems with EDF Scheduling",
//! IEEE Transactions on Computers 58(9), 2009: exact on one core for deadlines up to the period.

use super::bounds;
use super::exact::Exact;
use alloc::vec::Vec;
use maracas_core::admission::{Measure, TestResult};
use maracas_core::{PPB, Vcpu};

/// So many steps of each search at most. A set that needs more is judged by density: on a core that
/// is full but for less than about one in so many a busy interval may last as long as all periods
/// multiplied.
const STEPS: usize = 10_000;

/// C, D, T in ticks.
#[derive(Clone, Copy, Debug)]
struct Task {
    cost: u128,
    deadline: u128,
    period: u128,
}

impl Task {
    fn new(vcpu: &Vcpu) -> Self {
        let (r, ticks) = (&vcpu.reservation, u128::from);
        Self {
            cost: ticks(r.budget.ticks()),
            deadline: ticks(r.deadline.min(r.period).ticks()),
            period: ticks(r.period.ticks()),
        }
    }
    /// What it must do within `window` ticks: its jobs that are released and due in it.
    fn demand(&self, window: u128) -> u128 {
        let jobs = (window + self.period).saturating_sub(self.deadline) / self.period;
        jobs * self.cost
    }
    /// Its last deadline before `time`, if it has one.
    fn deadline_before(&self, time: u128) -> Option<u128> {
        let since = time.checked_sub(self.deadline + 1)?;
        Some(self.deadline + since / self.period * self.period)
    }
}

/// Accepts where U is at most 1 and no window, from any release on, has more to be done in it than
/// it is long. The numbers are the greatest share of a window that was found, or U.
pub(crate) fn test(vcpus: &[Vcpu]) -> TestResult {
    let load = bounds::total(vcpus, |vcpu| Exact::from(vcpu.reservation.utilization()));
    if load > Exact::ONE {
        return result(load);
    }
    let tasks: Vec<Task> = vcpus.iter().map(Task::new).collect();
    let share = busy_interval(&tasks).and_then(|length| fullest(&tasks, length));
    result(share.unwrap_or_else(|| bounds::total(vcpus, bounds::density)).max(load))
}

fn result(share: Exact) -> TestResult {
    let measure = Measure::Ratio { value: share.ppb_up(), bound: PPB };
    TestResult { test: "qpa", measure, accepted: share <= Exact::ONE }
}

/// How long the core is busy when all release at once, as often as they may: no longer window need
/// be looked at, for a job that is late is late in one such interval. `None` where that is not
/// found in so many steps.
fn busy_interval(tasks: &[Task]) -> Option<u128> {
    let mut length: u128 = tasks.iter().map(|task| task.cost).sum();
    for _ in 0..STEPS {
        let work = tasks.iter().map(|task| length.div_ceil(task.period) * task.cost).sum();
        if work == length {
            return Some(length);
        }
        length = work;
    }
    None
}

/// The share of the fullest of the windows below `length` that are looked at; above one if there is
/// any such. They are looked at from the last deadline on backwards: where h(t) <= t is to be done
/// in a window of t, none between h(t) and t has too much, since that would be no less to be done
/// within t.
fn fullest(tasks: &[Task], length: u128) -> Option<Exact> {
    let before = |time| tasks.iter().filter_map(|task: &Task| task.deadline_before(time)).max();
    let least = tasks.iter().map(|task| task.deadline).min();
    let (mut window, mut share) = (before(length), Exact::ZERO);
    for _ in 0..STEPS {
        let Some(t) = window else { return Some(share) };
        let demand = tasks.iter().map(|task| task.demand(t)).sum::<u128>();
        share = share.max(Exact::new(demand, t));
        if demand > t || Some(demand) <= least {
            return Some(share);
        }
        window = if demand < t { Some(demand) } else { before(t) };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::Duration;

    fn set(list: &[(u64, u64, u64)]) -> Vec<Vcpu> {
        let vcpu = |(id, &(c, d, t)): (usize, &(u64, u64, u64))| {
            let ticks = Duration::from_ticks;
            let mut vcpu = Vcpu::new(id as u32, ticks(c), ticks(t));
            vcpu.reservation.deadline = ticks(d);
            vcpu
        };
        list.iter().enumerate().map(vcpu).collect()
    }

    /// Every window up to two hyperperiods, one by one.
    fn by_force(list: &[(u64, u64, u64)]) -> bool {
        let lcm = list.iter().fold(1, |lcm, (_, _, t)| {
            (1..).map(|k| k * lcm).find(|multiple| multiple % t == 0).unwrap()
        });
        let jobs = |window: u64, &(c, d, t): &(u64, u64, u64)| -> u64 {
            (0..=window / t).filter(|k| k * t + d <= window).count() as u64 * c
        };
        let demand = |window| list.iter().map(|task| jobs(window, task)).sum::<u64>();
        (1..=2 * lcm).all(|window| demand(window) <= window)
    }

    #[test]
    fn it_says_what_every_window_says() {
        let mut rng = crate::testing::Rng(7);
        let (mut accepted, mut beyond_density) = (0, 0);
        for _ in 0..3_000 {
            let list: Vec<_> = (0..2 + rng.below(3))
                .map(|_| {
                    let t = [2_u64, 3, 4, 5, 6, 8, 10, 12][rng.below(8) as usize];
                    let c = 1 + rng.below(t.div_ceil(3));
                    (c, c + rng.below(t - c + 1), t)
                })
                .collect();
            let result = test(&set(&list));
            assert_eq!(result.accepted, by_force(&list), "{list:?}: {result}");
            let by_density = bounds::edf(&set(&list)).accepted;
            assert!(result.accepted || !by_density, "{list:?}: {result}");
            accepted += u32::from(result.accepted);
            beyond_density += u32::from(result.accepted && !by_density);
        }
        assert!((300..2_700).contains(&accepted) && beyond_density > 100, "{accepted}");
    }

    #[test]
    fn nothing_full_cores_and_nanoseconds_are_judged() {
        assert!(test(&[]).accepted);
        assert!(test(&set(&[(1, 1, 2), (1, 2, 2)])).accepted);
        assert!(!test(&set(&[(1, 1, 2), (1, 1, 2)])).accepted);
        assert!(!test(&set(&[(2, 3, 3), (2, 5, 5)])).accepted);
        // Three quarters of a core, in nanoseconds that share no divisor.
        let odd = [(250_000_007, 700_000_009, 1_000_000_007), (1_000_003, 2_000_003, 2_000_003)];
        assert!(test(&set(&odd)).accepted);
    }

    /// A core that is idle for one tick in 10,007 times 10,009.
    #[test]
    fn where_the_search_is_too_long_density_decides() {
        let list = |d| set(&[(5003, d, 10_007), (5005, 10_009, 10_009)]);
        let tasks: Vec<Task> = list(10_007).iter().map(Task::new).collect();
        assert_eq!(busy_interval(&tasks), None);
        assert!(test(&list(10_007)).accepted && !test(&list(10_006)).accepted);
    }
}
