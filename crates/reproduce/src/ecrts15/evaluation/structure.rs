//! Bounds from the structure that RUN and QPS make of a set, and what came of them.

use super::{CORES, Draw, Level, POLICIES, Policy, QPS, RUN, UNTIL, costs_of, has_short_job};
use crate::ecrts15::charged::charged_asking;
use crate::ecrts15::costs::Costs;
use crate::ecrts15::{part, with_interval};
use crate::findings::{Cell, Table};
use crate::stats::Mean;
use crate::{Error, Lab};
use maracas_core::{Duration, Instant};
use maracas_policies::interference::{self, Interference, Prices};
use maracas_sim::Overheads;
use maracas_sweep::{Charge, Subject, Tally};
use std::collections::BTreeMap;

/// What each thing costs that a structure bounds. A decision's cost has the update of the tree in
/// it; what caches have to load again is charged in no run, and bounds nothing here.
const fn prices(costs: &Overheads) -> Prices {
    Prices {
        release: costs.release,
        decision: costs.decision,
        context_switch: costs.context_switch,
        migration: costs.migration,
        cache_delay: Duration::ZERO,
    }
}

/// A set with what the structure that the policy made of it lets happen, and what did.
pub(super) struct Structured {
    most: Interference,
    /// What a job is charged at most on average by that.
    bound: Duration,
    /// What all jobs are.
    overhead: Duration,
    /// Whether it has a job that cannot be shortened by the bound.
    short: bool,
    /// With jobs shortened by the bound, charged as the sets that gave the other bound were.
    run: Tally,
    each: Each,
}

/// The same set with every job shortened by what it pays at most itself.
struct Each {
    /// That bound, over tasks on average.
    bound: Duration,
    /// Whether a job is not longer than its bound: then it makes no room for it, and nothing is
    /// claimed of the set.
    short: bool,
    missed: u64,
    /// The most that a job was charged, as a part of its bound.
    most: f64,
}

/// All sets that the policy admits, each with the bound of its own structure; none for a policy
/// without one.
pub(super) fn by_structure(
    lab: &Lab<'_>,
    costs: &Costs,
    subject: &Subject,
    halves: &[Vec<Draw>; 2],
) -> Result<Vec<Structured>, Error> {
    let Subject { entry, params } = subject;
    let one = |draw: &&Draw| -> Result<Option<Structured>, Error> {
        let most = interference::of(entry.name, &draw.set.system(CORES), params, UNTIL);
        let Some(Ok(most)) = most else { return Ok(None) };
        let overheads = costs_of(costs, subject, draw, Level::Most)?;
        let prices = prices(&overheads);
        let (bound, overhead) = (most.per_job(&prices), most.overhead(&prices));
        let charge = Charge { until: Instant::ZERO + UNTIL, seed: 0, overheads, bound };
        let run = maracas_sweep::trial::run(&draw.set, CORES, subject, &charge);
        let short = has_short_job(draw, bound);
        let Some(each) = each(subject, draw, overheads) else { return Ok(None) };
        Ok(run.accepted.then_some(Structured { most, bound, overhead, short, run, each }))
    };
    let all: Vec<&Draw> = halves.iter().flatten().collect();
    lab.map(&all, one).into_iter().filter_map(Result::transpose).collect()
}

/// Runs a set with every job shortened by what its structure lets that one pay at most.
fn each(subject: &Subject, draw: &Draw, overheads: Overheads) -> Option<Each> {
    let Subject { entry, params } = subject;
    let happens = interference::of_each_job(entry.name, &draw.set.system(CORES), params)?.ok()?;
    let prices = prices(&overheads);
    let bounds: Vec<Duration> = happens.iter().map(|happens| happens.overhead(&prices)).collect();
    let mut asked = draw.set.clone();
    let mut short = false;
    for (task, bound) in asked.tasks.iter_mut().zip(&bounds) {
        let budget = &mut task.reservation.budget;
        short |= *budget <= *bound;
        *budget = budget.saturating_sub(*bound).max(Duration::from_ticks(1));
    }
    let bound = Duration::ZERO;
    let charge = Charge { until: Instant::ZERO + UNTIL, seed: 0, overheads, bound };
    let (run, _, charged) = charged_asking(&draw.set, &asked, CORES, subject, &charge)?;
    let parts = charged.iter().zip(&bounds).map(|(most, bound)| part(most.ticks(), bound.ticks()));
    let sum: u64 = bounds.iter().map(|bound| bound.ticks()).sum();
    let bound = Duration::from_ticks(sum / bounds.len().max(1) as u64);
    Some(Each { bound, short, missed: run.missed, most: parts.fold(0.0, f64::max) })
}

/// What came of the bounds of single jobs, by depth.
pub(super) fn each_table(policies: &[Policy]) -> Table {
    let columns = [
        "policy",
        "depth",
        "sets",
        "a job's own bound (us)",
        "sets in which every job is longer",
        "of these with a miss",
        "most of a job's bound (%)",
    ];
    let title = "The bound of each job from the structure, and what came of it";
    let mut table = Table::new("each", title, &columns);
    for policy in [RUN, QPS] {
        for (depth, own) in by_depth(&policies[policy].structured) {
            let bounds: Vec<f64> =
                own.iter().map(|it| it.each.bound.ticks() as f64 / 1e3).collect();
            let found: Vec<(u64, f64)> = own.iter().filter_map(|it| it.by_each()).collect();
            table.row(vec![
                Cell::text(POLICIES[policy]),
                Cell::Number(depth as f64, 0),
                Cell::Number(own.len() as f64, 0),
                Cell::Text(with_interval(&Mean::of(&bounds), 0)),
                Cell::Number(found.len() as f64, 0),
                Cell::Number(found.iter().filter(|(missed, _)| *missed > 0).count() as f64, 0),
                Cell::Number(100.0 * found.iter().map(|(_, most)| *most).fold(0.0, f64::max), 0),
            ]);
        }
    }
    table
}

fn by_depth(sets: &[Structured]) -> BTreeMap<u64, Vec<&Structured>> {
    let mut depths: BTreeMap<u64, Vec<&Structured>> = BTreeMap::new();
    for set in sets {
        depths.entry(set.run.depth).or_default().push(set);
    }
    depths
}

/// What came of the bounds from structure, by depth.
pub(super) fn structure_table(policies: &[Policy]) -> Table {
    let columns = [
        "policy",
        "depth",
        "sets",
        "preemptions a job, bound",
        "preemptions, most of the bound (%)",
        "migrations, most of the bound (%)",
        "overhead of a job, bound (us)",
        "overhead, most of the bound (%)",
        "sets with a miss",
        "of these with a job shorter than the bound",
    ];
    let title = "The bound of the mean from the structure, and what came of it";
    let mut table = Table::new("structure", title, &columns);
    let percent = |part: f64| Cell::Number(100.0 * part, 0);
    let count = |count: usize| Cell::Number(count as f64, 0);
    for policy in [RUN, QPS] {
        for (depth, own) in by_depth(&policies[policy].structured) {
            let mean = |value: fn(&Structured) -> f64| {
                Mean::of(&own.iter().map(|it| value(it)).collect::<Vec<f64>>())
            };
            let most =
                |part: fn(&Structured) -> f64| own.iter().map(|it| part(it)).fold(0.0, f64::max);
            let missed = || own.iter().filter(|it| it.run.missed > 0);
            table.row(vec![
                Cell::text(POLICIES[policy]),
                count(depth as usize),
                count(own.len()),
                Cell::Text(with_interval(&mean(|it| part(it.most.preemptions, it.most.jobs)), 2)),
                percent(most(Structured::preempted)),
                percent(most(Structured::moved)),
                Cell::Text(with_interval(&mean(|it| it.bound.ticks() as f64 / 1e3), 1)),
                percent(most(Structured::charged)),
                count(missed().count()),
                count(missed().filter(|it| it.short).count()),
            ]);
        }
    }
    table
}

impl Structured {
    /// How much of what its structure allows happened: of preemptions, of moves (those of jobs and
    /// begins elsewhere), and of what all jobs and cores were charged.
    pub(super) fn preempted(&self) -> f64 {
        part(self.run.preemptions, self.most.preemptions)
    }
    pub(super) fn moved(&self) -> f64 {
        let moves = self.run.migrations + self.run.task_migrations;
        part(self.run.migrations, self.most.migrations)
            .max(part(moves, self.most.migrations + self.most.unbound_jobs))
    }
    pub(super) fn charged(&self) -> f64 {
        part(self.run.charged_ns, self.overhead.ticks())
    }
    /// Misses, and the most that a job was charged as a part of its own bound, where all jobs are
    /// longer than theirs.
    pub(super) fn by_each(&self) -> Option<(u64, f64)> {
        (!self.each.short).then_some((self.each.missed, self.each.most))
    }
    /// Whether a job was late with jobs shortened by the mean, and whether one cannot be.
    pub(super) const fn missed(&self) -> bool {
        self.run.missed > 0
    }
    pub(super) const fn is_short(&self) -> bool {
        self.short
    }
}
