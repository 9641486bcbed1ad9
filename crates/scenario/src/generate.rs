//! Random task sets, by the field's methods.
//!
//! # The grid
//! With a grain of G ticks, utilisations are whole multiples of 1 / G and periods whole multiples
//! of G ticks. So all budgets are whole numbers of ticks, sums of utilisations are exact, U = m can
//! be met exactly, and every budget that RUN or QPS derives is whole too. At the usual grain of
//! 1 ms, utilisations are whole millionths of a core.
//!
//! # The methods
//! [`Loads`] says how utilisations are drawn, [`Periods`] how periods are; both are written as
//! compact words (`randfixedsum:0.01..0.9`, `log-uniform:10ms..1s`) on the command line, in sweep
//! files and in the sets themselves. `docs/tasksets.md` lists all words with their papers.
//!
//! # The same bytes for ever
//! A recipe and a seed give the same set on every machine: all randomness is xoshiro256++, all
//! logarithms and powers are computed in software. Loads, periods and offsets each have their own
//! stream of the seed, so that two recipes that differ in their periods share their utilisations.

mod fixed_sum;
mod loads;
mod periods;
mod random;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod uniformity;
mod words;

pub use loads::{Law, Loads, Range};
pub use periods::Periods;
pub use words::utilization;

use crate::taskset::TaskSet;
use maracas_core::{Arrival, Duration, MAX_CORES, Rate, Vcpu};
use random::{Purpose, Random};
use words::decimal;

/// Written into every set; changes whenever the same recipe and seed would give another set.
pub const VERSION: u32 = 1;

/// No set is larger: several times the 400 tasks of the largest published studies.
pub const MAX_TASKS: usize = 4096;

/// The longest grain, 1 s: whole numbers of 1 / G of all cores are exact in floats up to 2^53.
const MAX_GRAIN: Duration = Duration::from_secs(1);

/// What kind of sets to draw.
///
/// Its words (`Display`, `FromStr`) are `key=value` pairs and flags:
/// `total=18/5 tasks=20 loads=uunifast periods=harmonic grain=1ms offsets`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recipe {
    /// What the utilisations sum to, in cores: exactly, or where `loads` draws tasks one by one
    /// and `exact` is not set, at most. A multiple of 1 / G.
    pub total: Rate,
    /// How many tasks. For `loads` that draw one by one: at most so many, and `None` = as many as
    /// the total holds.
    pub tasks: Option<usize>,
    /// How utilisations are drawn.
    pub loads: Loads,
    /// Matters where `loads` draws tasks one by one: the task that would exceed the total is
    /// trimmed so that it is met exactly; else that task is dropped, which ends the set.
    pub exact: bool,
    /// How periods are drawn.
    pub periods: Periods,
    /// Where given, only periods that divide it are drawn, so that it is a hyperperiod of every
    /// set.
    pub hyperperiod: Option<Duration>,
    /// G: periods are multiples of it.
    pub grain: Duration,
    /// Whether jobs are sporadic; else periodic.
    pub sporadic: bool,
    /// Whether periodic tasks begin at a random multiple of the grain within their period; else all
    /// begin together.
    pub offsets: bool,
}

impl Recipe {
    /// Periodic tasks that begin together, on a grid of 1 ms.
    pub const fn new(total: Rate, tasks: Option<usize>, loads: Loads, periods: Periods) -> Self {
        Self {
            total,
            tasks,
            loads,
            exact: false,
            periods,
            hyperperiod: None,
            grain: Duration::from_millis(1),
            sporadic: false,
            offsets: false,
        }
    }

    /// Whether sets can be drawn. Where they can for one seed, they can for all.
    ///
    /// # Errors
    /// Where the recipe cannot be met: says why and the way out.
    pub fn check(&self) -> Result<(), String> {
        self.samplers().map(|_| ())
    }

    /// The set of this seed. Task i is `VcpuId(i)`, with an implicit deadline.
    ///
    /// # Errors
    /// As [`Recipe::check`].
    pub fn draw(&self, seed: u64) -> Result<TaskSet, String> {
        let (loads, periods) = self.samplers()?;
        let mut lengths = Random::new(seed, Purpose::Periods);
        let mut starts = Random::new(seed, Purpose::Offsets);
        let task = |(id, load): (u32, u64)| {
            // In grains; the budget load / G * period is then so many ticks.
            let period = periods.draw(&mut lengths);
            let mut task = Vcpu::new(id, Duration::from_ticks(load * period), self.grain * period);
            let offset = if self.offsets { starts.below(period) } else { 0 };
            task.arrival = if self.sporadic {
                Arrival::Sporadic
            } else {
                Arrival::Periodic { offset: self.grain * offset }
            };
            task
        };
        let loads = loads.draw(&mut Random::new(seed, Purpose::Loads));
        let tasks = (0..).zip(loads).map(task).collect();
        let version = format!("maracas generator version {VERSION}");
        let origin = vec![version, format!("recipe {self}"), format!("seed {seed}")];
        Ok(TaskSet { tasks, origin, ..TaskSet::default() })
    }

    fn samplers(&self) -> Result<(loads::Sampler, periods::Sampler), String> {
        if self.sporadic && self.offsets {
            return Err("sporadic tasks have no offsets; drop `sporadic` or `offsets`".into());
        }
        let loads = self.loads.sampler(self, self.grid()?)?;
        Ok((loads, self.periods.sampler(self.grain, self.hyperperiod)?))
    }

    /// The total in units of 1 / G, after checks of everything that the grid needs.
    fn grid(&self) -> Result<Grid, String> {
        let (grain, total) = (self.grain, self.total);
        if grain.is_zero() || grain > MAX_GRAIN {
            return Err(format!("the grain {grain} is not within 1ns..{MAX_GRAIN}; 1ms is usual"));
        }
        let steps = grain.ticks();
        if total == Rate::ZERO {
            return Err("the total utilization is 0; raise it".into());
        }
        let most = MAX_CORES as u64;
        if total > Rate::new(most, 1) {
            let total = decimal(total);
            return Err(format!("the total utilization {total} exceeds {most} cores; lower it"));
        }
        if !steps.is_multiple_of(total.den()) {
            let near = Rate::new(total.floor_of(grain).ticks().max(1), steps);
            let (total, near) = (decimal(total), decimal(near));
            return Err(format!(
                "the total utilization {total} is no multiple of 1/{steps}, which the grain \
                 {grain} asks for; take {near}"
            ));
        }
        Ok(Grid { steps, total: total.floor_of(grain).ticks() })
    }
}

/// Utilisations as whole numbers.
#[derive(Clone, Copy)]
struct Grid {
    /// G: a whole core.
    steps: u64,
    /// The total utilization in units of 1 / G.
    total: u64,
}
