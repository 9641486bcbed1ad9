//! What runs are charged, and by how much jobs are longer for it.
//!
//! Costs of the policies' own code are those recorded, at the 99.9th percentile. The *bound* of a
//! task is what none of its jobs is charged more than in the runs of its set. Tests judge, and
//! policies schedule, budgets that are longer by it; jobs ask for what they asked before. Each task
//! has its own: PD2, DP-WRAP and U-EDF cut jobs at instants of other tasks, so that a long job is
//! charged more than a short one, and how much hangs on when these are released.

use super::contenders::{CLUSTERED, Contender};
use super::sets::{Draw, Point, TASKS_PER_CORE, longer, shorter};
use super::study::Outcome;
use crate::Error;
use crate::ecrts15::charged::charged_asking;
use crate::ecrts15::evaluation::{CONTEXT_SWITCH, MIGRATION};
use crate::ecrts15::{Cost, Costs};
use maracas_core::{Duration, Instant};
use maracas_scenario::taskset::TaskSet;
use maracas_sim::Overheads;
use maracas_sweep::Charge;

/// Bounds are multiples of it: budgets are then whole nanoseconds at every level of RUN and QPS,
/// over windows of any number of quanta, as 2 us are a nanosecond in each quantum of the least
/// common multiple of all periods.
const STEP: Duration = Duration::from_micros(2);
/// How often the bounds of a set are raised at most.
const RAISES: usize = 8;

/// Whose measured costs are a policy's: a cluster decides as global EDF does on its cores.
fn measured(policy: &'static str, cores: usize) -> (&'static str, usize) {
    if policy == CLUSTERED { ("g-edf", cores / 2) } else { (policy, cores) }
}

/// A set that is admitted with bounds that no job of its runs exceeds.
#[derive(Clone)]
pub(super) struct Bounded {
    /// What was admitted, released at once.
    pub(super) set: TaskSet,
    /// What it came to.
    pub(super) outcome: Outcome,
}

/// Looks for the bounds of a set; nothing where it is refused with those that its runs ask for, or
/// where they ask for more again and again.
pub(super) fn bounded(
    point: Point,
    drawn: &Draw,
    contender: &Contender,
    costs: &Costs,
) -> Result<Option<Bounded>, Error> {
    let subject = contender.subject(point.cores)?;
    let overheads = overheads(costs, contender.policy, point)?;
    let run = |set: &TaskSet, asked: &TaskSet, until: Duration| {
        let charge = Charge { until: Instant::ZERO + until, seed: 0, overheads, bound: NOTHING };
        charged_asking(set, asked, point.cores, &subject, &charge)
    };
    let mut bounds = vec![NOTHING; drawn.patterns[0].0.tasks.len()];
    for raise in 0..=RAISES {
        let (mut most, mut outcome) = (bounds.clone(), Outcome::ADMITTED);
        for (pattern, (set, until)) in (0..).zip(&drawn.patterns) {
            // Jobs without room for what they are charged are late, and late jobs are charged
            // more: so they ask for less at first.
            let asked = if raise == 0 { shorter(set) } else { set.clone() };
            let ran = run(&longer(set, &bounds), &asked, *until);
            let Some((_, tally, charged)) = ran else { return Ok(None) };
            for ((most, bound), it) in most.iter_mut().zip(&bounds).zip(charged) {
                *most = raised(*bound, it).max(*most);
            }
            outcome.count(pattern, &tally);
        }
        if raise > 0 && most == bounds {
            let set = longer(&drawn.patterns[0].0, &bounds);
            outcome.added = added(drawn, &bounds);
            return Ok(Some(Bounded { set, outcome }));
        }
        bounds = most;
    }
    Ok(None)
}

const NOTHING: Duration = Duration::ZERO;

/// A bound for a task of which a job was charged that much, and maybe more: what is charged to a
/// job that is cut before its end is seen up to there. So it is an eighth more, and a longer job
/// may be charged more again.
fn raised(bound: Duration, charged: Duration) -> Duration {
    if charged <= bound {
        return bound;
    }
    let least = charged.ticks() + charged.ticks() / 8;
    Duration::from_ticks(least.next_multiple_of(STEP.ticks()))
}

fn added(drawn: &Draw, bounds: &[Duration]) -> u64 {
    let tasks = drawn.patterns[0].0.tasks.iter().zip(bounds);
    tasks.map(|(task, it)| it.ticks() * 1_000_000 / task.reservation.period.ticks()).sum()
}

/// What a policy is charged at a point.
fn overheads(costs: &Costs, policy: &'static str, point: Point) -> Result<Overheads, Error> {
    let (name, cores) = measured(policy, point.cores);
    let tasks = TASKS_PER_CORE * cores;
    let cost = |primitive: &str| {
        let near = costs.near(name, primitive, (cores as u64, tasks as u64, point.percent));
        let missing = || Error(format!("there are no costs of `{primitive}` of {name}"));
        near.map(|line| Duration::from_nanos(line.p999 as u64)).ok_or_else(missing)
    };
    Ok(Overheads {
        context_switch: CONTEXT_SWITCH,
        migration: MIGRATION,
        decision: cost("schedule")?,
        release: cost("release")?,
        ..Overheads::FREE
    })
}

/// What the release or the decision of a policy costs, of sets that ask for 90 % of so many cores.
pub(super) fn measured_at_90<'a>(
    costs: &'a Costs,
    policy: &'static str,
    cores: usize,
    primitive: &'a str,
) -> Option<&'a Cost> {
    let (name, cores) = measured(policy, cores);
    costs.near(name, primitive, (cores as u64, (TASKS_PER_CORE * cores) as u64, 90))
}
