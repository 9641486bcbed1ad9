//! What runs are charged, and by how much jobs are taken to be longer for it.
//!
//! Costs of the policies' own code are those recorded, at the 99.9th percentile. The *bound* of a
//! policy on a platform is the most that any job of some sets apart was charged. Tests judge, and
//! policies schedule, budgets that are longer by it; jobs ask for what they asked before.

use super::contenders::{CLUSTERED, CONTENDERS, policies};
use super::sets::{Deadlines, Point, TASKS_PER_CORE, draw, longer};
use super::study::{CORES, PERCENT};
use crate::ecrts15::Costs;
use crate::ecrts15::charged::charged;
use crate::ecrts15::evaluation::{CONTEXT_SWITCH, MIGRATION};
use crate::{Error, Lab};
use maracas_core::{Duration, Instant};
use maracas_sim::Overheads;
use maracas_sweep::{Charge, Subject, trial};

/// Bounds are multiples of it: budgets are then whole nanoseconds at every level of RUN and QPS,
/// over windows of any number of quanta, as 2 us are a nanosecond in each quantum of the least
/// common multiple of all periods.
const STEP: Duration = Duration::from_micros(2);
/// Sets of each point from which bounds are taken; their numbers are the first that no study takes.
const SAMPLES: u64 = 3;
const FIRST_SAMPLE: u64 = 1 << 20;
/// How often a bound is raised at most.
const RAISES: usize = 6;

/// What the runs of a study are charged.
pub(super) struct Charges {
    /// Nothing where there are none.
    costs: Option<Costs>,
    bounds: Vec<(&'static str, usize, Duration)>,
}

/// Whose measured costs are a policy's: a cluster decides as global EDF does on its cores.
fn measured(policy: &'static str, cores: usize) -> (&'static str, usize) {
    if policy == CLUSTERED { ("g-edf", cores / 2) } else { (policy, cores) }
}

impl Charges {
    /// Nothing is charged.
    pub(super) const fn none() -> Self {
        Self { costs: None, bounds: Vec::new() }
    }
    /// These costs, with the bounds that they make.
    pub(super) fn of(lab: &Lab<'_>, costs: &Costs) -> Result<Self, Error> {
        let mut charges = Self { costs: Some(costs.clone()), bounds: Vec::new() };
        for cores in CORES {
            for policy in policies() {
                let bound = charges.bound_from(lab, policy, cores)?;
                charges.bounds.push((policy, cores, bound));
            }
        }
        Ok(charges)
    }
    /// By how much jobs of a policy are longer on so many cores.
    pub(super) fn bound(&self, policy: &str, cores: usize) -> Duration {
        let own = self.bounds.iter().find(|it| (it.0, it.1) == (policy, cores));
        own.map_or(Duration::ZERO, |it| it.2)
    }
    /// How a set of that point is run under a policy.
    pub(super) fn at(
        &self,
        policy: &'static str,
        point: Point,
        until: Duration,
    ) -> Result<Charge, Error> {
        let overheads = match &self.costs {
            None => Overheads::FREE,
            Some(costs) => overheads(costs, policy, point)?,
        };
        let (until, bound) = (Instant::ZERO + until, self.bound(policy, point.cores));
        Ok(Charge { until, seed: 0, overheads, bound })
    }

    /// The most that a job of some sets is charged that the policy keeps in time where nothing is,
    /// with jobs longer by as much.
    fn bound_from(
        &self,
        lab: &Lab<'_>,
        policy: &'static str,
        cores: usize,
    ) -> Result<Duration, Error> {
        let standing = CONTENDERS.iter().find(|it| it.policy == policy && it.run.stands());
        let standing = standing.ok_or_else(|| Error(format!("{policy} is not compared")))?;
        let subject = standing.subject(cores)?;
        let samples: Vec<(Point, u64)> = PERCENT
            .iter()
            .flat_map(|percent| {
                let point = Point { cores, percent: *percent };
                (FIRST_SAMPLE..FIRST_SAMPLE + SAMPLES).map(move |number| (point, number))
            })
            .collect();
        let mut bound = Duration::ZERO;
        for _ in 0..RAISES {
            let most = |sample: &(Point, u64)| self.most(*sample, policy, &subject, bound);
            let most = lab.map(&samples, most).into_iter().collect::<Result<Vec<_>, _>>()?;
            let most = most.into_iter().max().unwrap_or_default();
            let most = STEP * most.ticks().div_ceil(STEP.ticks());
            if most <= bound {
                break;
            }
            bound = most;
        }
        Ok(bound)
    }
    /// The most that a job of a set is charged; nothing where the policy does not keep it in time
    /// though nothing is charged, or does not take it with jobs longer by the bound.
    fn most(
        &self,
        (point, number): (Point, u64),
        policy: &'static str,
        subject: &Subject,
        bound: Duration,
    ) -> Result<Duration, Error> {
        let [(set, until), _] = draw(point, number, Deadlines::Implicit)?.patterns;
        let charge = Charge { bound, ..self.at(policy, point, until)? };
        let free = Charge { overheads: Overheads::FREE, bound: Duration::ZERO, ..charge };
        if !trial::run(&set, point.cores, subject, &free).success() {
            return Ok(Duration::ZERO);
        }
        let run = charged(&longer(&set, bound), point.cores, subject, &charge);
        Ok(run.map_or(Duration::ZERO, |run| run.largest))
    }
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

/// What a decision takes on average, in nanoseconds, of a set that asks for 90 % of so many cores.
pub(super) fn decision(costs: &Costs, policy: &'static str, cores: usize) -> Option<f64> {
    let (name, cores) = measured(policy, cores);
    let tasks = TASKS_PER_CORE * cores;
    costs.near(name, "schedule", (cores as u64, tasks as u64, 90)).map(|line| line.mean)
}
