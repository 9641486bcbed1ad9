//! FF-DBF: S. Baruah, V. Bonifaci, A. Marchetti-Spaccamela, S. Stiller, "Improved Multiprocessor
//! Global Schedulability Analysis", Real-Time Systems 46(1), 2010.

use super::{Task, tasks};
use crate::parts::exact::Exact;
use crate::parts::{bounds, qpa};
use maracas_core::admission::{Measure, TestResult};
use maracas_core::{PPB, Vcpu};

/// Speeds are tried in steps of one in so many from the greatest density on. Any speed that
/// passes is a proof; a finer search finds a few more. As in SchedCAT, so that verdicts compare.
const SPEEDS: u128 = 50;
/// Of all cores but one, one in so many must stay unused for a speed to be tried: the windows that
/// must be looked at grow as that falls. As in SchedCAT.
const UNUSED: u128 = 10;
/// How often the demand of a task in a window is worked out at most, all speeds together, so that
/// the test ends soon where periods are far apart. Ours: it changes no verdict of docs/results.md.
/// A speed that would need more is judged by density.
const LOOKS: u128 = 20_000_000;

/// A speed a/b of a core.
#[derive(Clone, Copy, Debug)]
struct Speed(u128, u128);

/// Accepts where, at some speed s from the greatest density to 1, what must be done within every
/// window of length t by cores of that speed is at most (m - (m - 1) s) t. The numbers are a
/// window's share of cores that comes closest to the bound, at the speed that passed, or that was
/// tried last. On one core that is what [`qpa`] asks, at any speed.
pub(crate) fn test(vcpus: &[Vcpu], cores: usize) -> TestResult {
    if cores == 1 {
        return TestResult { test: NAME, ..qpa::test(vcpus) };
    }
    let (tasks, mut looks) = (tasks(vcpus), LOOKS);
    let density = bounds::total(vcpus, bounds::density);
    let mut last = None;
    for speed in speeds(&tasks) {
        let result = judge(&tasks, speed, cores as u128, &density, &mut looks);
        let ends = result.accepted;
        last = Some(result);
        if ends {
            break;
        }
    }
    let nothing = Measure::Ratio { value: 0, bound: PPB * cores as u64 };
    last.unwrap_or(TestResult { test: NAME, measure: nothing, accepted: true })
}

/// What users call it.
const NAME: &str = "ff-dbf";

/// The greatest density, then the steps above it up to 1; none where there are no tasks.
fn speeds(tasks: &[Task]) -> impl Iterator<Item = Speed> {
    let denser = |a: &&Task, b: &&Task| (a.cost * b.deadline).cmp(&(b.cost * a.deadline));
    let densest = tasks.iter().max_by(denser).map(|task| Speed(task.cost, task.deadline));
    let steps = densest.map_or(SPEEDS, |Speed(a, b)| a * SPEEDS / b)..SPEEDS;
    densest.into_iter().chain(steps.map(|step| Speed(step + 1, SPEEDS)))
}

fn judge(tasks: &[Task], speed: Speed, m: u128, density: &Exact, looks: &mut u128) -> TestResult {
    let Speed(a, b) = speed;
    let bound = Exact::whole(m).minus(Exact::new(a, b).times(Exact::whole(m - 1)));
    let used =
        tasks.iter().fold(Exact::ZERO, |sum, task| sum.plus(Exact::new(task.cost, task.period)));
    let unused = Exact::new(1, UNUSED).times(Exact::whole(m - 1));
    let result = |share: Exact, bound: Exact, accepted| {
        let measure = Measure::Ratio { value: share.ppb_up(), bound: bound.ppb_down() };
        TestResult { test: NAME, measure, accepted }
    };
    if used.plus(unused) > bound {
        return result(used, bound.minus(unused), false);
    }
    // What must be done is at most U t plus every C once: no later window can fail.
    let left = u128::from(bound.minus(used).ppb_down());
    let costs = tasks.iter().map(|task| task.cost).sum::<u128>();
    let end = (costs * u128::from(PPB)).div_ceil(left);
    let windows = tasks.iter().map(|task| (end + task.period) / task.period).sum::<u128>();
    let needed = windows * tasks.len() as u128;
    if needed > *looks {
        // No task must do more in a window than its density of that, at no less speed.
        return result(*density, bound, *density <= bound);
    }
    let mut closest = used;
    for task in tasks {
        // The demand grows up to deadlines, and its excess over the bound is greatest there.
        let mut window = task.deadline;
        while window <= end {
            let demand = tasks.iter().map(|task| demand(task, window, speed)).sum();
            let share = Exact::new(demand, window * b);
            closest = closest.max(share);
            *looks -= tasks.len() as u128;
            if share > bound {
                return result(share, bound, false);
            }
            window += task.period;
        }
    }
    result(closest, bound, true)
}

/// What must be done of the task within a window, `b` times: of the job whose deadline lies beyond
/// its end, what cores of speed a/b cannot do after it.
fn demand(task: &Task, window: u128, Speed(a, b): Speed) -> u128 {
    let (jobs, rest) = (window / task.period, window % task.period);
    let beyond = task.deadline.saturating_sub(rest) * a;
    jobs * task.cost * b + (task.cost * b).saturating_sub(beyond)
}
