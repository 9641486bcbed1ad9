//! The experiments of "Experimental evaluation of optimal schedulers based on partitioned
//! proportionate fairness" (Compagnin, Mezzetti and Vardanega, ECRTS 2015), one file each, and
//! what they share.
//!
//! The slides print no numbers, only curves and conclusions; so ours stand beside what they say in
//! words. Task sets are drawn on a grid on which every budget of RUN and QPS is a whole number of
//! nanoseconds (`maracas generate` draws the same ones): U = m is met exactly, and a miss is a
//! miss.

pub(crate) mod charged;
mod costs;
pub(crate) mod evaluation;
mod interference;
mod locks;
mod primitives;
mod regression;
mod scaling;
mod shape;

use crate::findings::number;
use crate::stats::Mean;
use crate::{Error, Experiment};
use maracas_core::params::{Params, Value};
use maracas_core::{Duration, Instant, Rate};
use maracas_scenario::generate::Recipe;
use maracas_scenario::taskset::TaskSet;
use maracas_sim::Overheads;
use maracas_sweep::{Charge, Subject, Tally};

pub(crate) use costs::Cost;
pub use costs::Costs;

/// All of them.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    primitives::EXPERIMENT,
    interference::EXPERIMENT,
    evaluation::EXPERIMENT,
    shape::EXPERIMENT,
    scaling::EXPERIMENT,
    locks::EXPERIMENT,
];

/// The periods that the study calls harmonic (its scripts; algorithms.md B.7). They repeat every
/// 200 ms.
const HARMONIC: &str = "list:25ms,50ms,100ms,200ms";
/// Its periods that are not.
const UNIFORM: &str = "uniform:25ms..200ms";

/// G of all sets: utilizations are multiples of a millionth.
const GRAIN: Duration = Duration::from_millis(1);

/// A policy as the study packs for it: RUN and P-EDF by worst fit, QPS by first fit (algorithms.md
/// B.7), or as `name` says after a slash.
fn subject(name: &str) -> Result<Subject, Error> {
    let (name, packing) = match name.split_once('/') {
        Some((name, packing)) => (name, Some(packing)),
        None if ["run", "p-edf"].contains(&name) => (name, Some("wfd")),
        None if name == "qps" => (name, Some("ffd")),
        None => (name, None),
    };
    let entry = maracas_policies::find(name)
        .ok_or_else(|| Error(format!("there is no policy \"{name}\"")))?;
    let mut params = Params::new();
    if let Some(packing) = packing {
        params.set("packing", Value::Text(packing.into()));
    }
    Ok(Subject { entry, params })
}

/// All of `names`.
fn subjects(names: &[&str]) -> Result<Vec<Subject>, Error> {
    names.iter().map(|name| subject(name)).collect()
}

/// How sets for `cores` cores with a load of `percent` of them are drawn; `tasks` where their
/// number is fixed.
fn recipe(
    cores: usize,
    percent: u64,
    tasks: Option<usize>,
    loads: &str,
    periods: &str,
) -> Result<Recipe, Error> {
    let total = Rate::new(cores as u64 * percent, 100);
    let (loads, periods) = (loads.parse().map_err(Error)?, periods.parse().map_err(Error)?);
    Ok(Recipe { grain: GRAIN, ..Recipe::new(total, tasks, loads, periods) })
}

/// Up to `ms` milliseconds, nothing charged.
fn free_until(ms: u64) -> Charge {
    Charge {
        until: Instant::ZERO + Duration::from_millis(ms),
        seed: 0,
        overheads: Overheads::FREE,
        bound: Duration::ZERO,
    }
}

/// `set` under each of `subjects`.
fn trials(set: &TaskSet, cores: usize, subjects: &[Subject], charge: &Charge) -> Vec<Tally> {
    let trial = |subject| maracas_sweep::trial::run(set, cores, subject, charge);
    subjects.iter().map(trial).collect()
}

/// Whether every job was in time.
const fn all_met(tally: &Tally) -> bool {
    tally.accepted && tally.missed == 0
}

/// `count` of a tally for each job that was released.
fn per_job(tally: &Tally, count: u64) -> f64 {
    count as f64 / tally.released.max(1) as f64
}

/// `found` as a part of `most`; more than all of it where nothing may be.
fn part(found: u64, most: u64) -> f64 {
    if found == 0 { 0.0 } else { found as f64 / most as f64 }
}

/// A mean with its interval, for tables: `0.812 +- 0.011`; the mean alone where there is but one
/// value, or all are equal.
fn with_interval(mean: &Mean, decimals: usize) -> String {
    if mean.half_width == 0.0 {
        return number(mean.mean, decimals);
    }
    format!("{} +- {}", number(mean.mean, decimals), number(mean.half_width, decimals))
}
