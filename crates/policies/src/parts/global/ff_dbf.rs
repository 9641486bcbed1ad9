//! FF-DBF: S. Baruah, V. Bonifaci, A. Marchetti-Spaccamela, S. Stiller, "Improved Multiprocessor
//! Global Schedulability Analysis", Real-Time Systems 46(1), 2010.

use super::{Task, tasks};
use crate::parts::exact::Exact;
use maracas_core::admission::{Measure, TestResult};
use maracas_core::{PPB, Vcpu};

/// Speeds are tried in steps of one in so many from the greatest density on. Any speed that
/// passes is a proof; a finer search finds a few more. As in SchedCAT, so that verdicts compare.
const SPEEDS: u128 = 50;
/// Of all cores but one, one in so many must stay unused for a speed to be tried: the windows that
/// must be looked at grow as that falls. As in SchedCAT.
const UNUSED: u128 = 10;

/// A speed a/b of a core.
#[derive(Clone, Copy, Debug)]
struct Speed(u128, u128);

/// Accepts where, at some speed s from the greatest density to 1, what must be done within every
/// window of length t by cores of that speed is at most (m - (m - 1) s) t. The numbers are a
/// window's share of cores that comes closest to the bound, at the speed that passed, or that was
/// tried last.
pub(crate) fn test(vcpus: &[Vcpu], cores: usize) -> TestResult {
    let tasks = tasks(vcpus);
    let judge = |speed| judge(&tasks, speed, cores as u128);
    let mut last = None;
    for speed in speeds(&tasks) {
        let result = judge(speed);
        let ends = result.accepted;
        last = Some(result);
        if ends {
            break;
        }
    }
    let nothing = Measure::Ratio { value: 0, bound: PPB * cores as u64 };
    last.unwrap_or(TestResult { test: "ff-dbf", measure: nothing, accepted: true })
}

/// The greatest density, then the steps above it up to 1; none where there are no tasks.
fn speeds(tasks: &[Task]) -> impl Iterator<Item = Speed> {
    let denser = |a: &&Task, b: &&Task| (a.cost * b.deadline).cmp(&(b.cost * a.deadline));
    let densest = tasks.iter().max_by(denser).map(|task| Speed(task.cost, task.deadline));
    let steps = densest.map_or(SPEEDS, |Speed(a, b)| a * SPEEDS / b)..SPEEDS;
    densest.into_iter().chain(steps.map(|step| Speed(step + 1, SPEEDS)))
}

fn judge(tasks: &[Task], speed: Speed, m: u128) -> TestResult {
    let Speed(a, b) = speed;
    let bound = Exact::whole(m).minus(Exact::new(a, b).times(Exact::whole(m - 1)));
    let used =
        tasks.iter().fold(Exact::ZERO, |sum, task| sum.plus(Exact::new(task.cost, task.period)));
    let unused = Exact::new(1, UNUSED).times(Exact::whole((m - 1).max(1)));
    let result = |share: Exact, accepted| {
        let measure = Measure::Ratio { value: share.ppb_up(), bound: bound.ppb_down() };
        TestResult { test: "ff-dbf", measure, accepted }
    };
    if used.plus(unused) > bound {
        return result(used.plus(unused), false);
    }
    // What must be done is at most U t plus every C once: no later window can fail.
    let end = tasks.iter().map(|task| task.cost).sum::<u128>() * UNUSED;
    let mut closest = used;
    for task in tasks {
        // The demand grows up to deadlines, and its excess over the bound is greatest there.
        let mut window = task.deadline;
        while window <= end {
            let demand = tasks.iter().map(|task| demand(task, window, speed)).sum();
            let share = Exact::new(demand, window * b);
            closest = closest.max(share);
            if share > bound {
                return result(share, false);
            }
            window += task.period;
        }
    }
    result(closest, true)
}

/// What must be done of the task within a window, `b` times: of the job whose deadline lies beyond
/// its end, what cores of speed a/b cannot do after it.
fn demand(task: &Task, window: u128, Speed(a, b): Speed) -> u128 {
    let (jobs, rest) = (window / task.period, window % task.period);
    let beyond = task.deadline.saturating_sub(rest) * a;
    jobs * task.cost * b + (task.cost * b).saturating_sub(beyond)
}
