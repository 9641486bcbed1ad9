//! How utilisations are drawn.

use super::fixed_sum::Slice;
use super::random::Random;
use super::words::decimal;
use super::{Grid, MAX_TASKS, Recipe};
use crate::error::counted;
use maracas_core::Rate;

/// How utilisations are drawn. Written as `uunifast`, `randfixedsum:0.01..0.9`, `light`, ...
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Loads {
    /// All utilisations at once, uniform among those with the total and none above 1; by drawing
    /// again where one is above (UUniFast-Discard: Bini and Buttazzo 2005, Davis and Burns 2009).
    UUniFast,
    /// All utilisations at once, uniform among those with the total and none outside the range
    /// (Stafford; Emberson, Stafford and Davis 2010).
    RandFixedSum(Range),
    /// One utilisation after another, each by the law, until the total is reached (as SchedCAT
    /// does).
    OneByOne(Law),
}

/// What utilisations lie between, bounds included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The smallest.
    pub least: Rate,
    /// The largest.
    pub most: Rate,
}

/// The distribution of a single utilisation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Law {
    /// Uniform in one of these ranges, each taken as often as its weight says. One range: uniform.
    Mix(Vec<(u32, Range)>),
    /// Exponential with this mean, drawn again where it is above 1.
    Exponential(Rate),
}

/// UUniFast is refused where it keeps fewer of its draws: one in ten thousand.
const HOPELESS: f64 = 1e-4;

impl Loads {
    /// What draws them on the grid.
    ///
    /// # Errors
    /// Where there are no such utilisations, or they would not be found.
    pub(super) fn sampler(&self, recipe: &Recipe, grid: Grid) -> Result<Sampler, String> {
        Ok(match self {
            Self::UUniFast => {
                let slice = Range::WHOLE.slice("uunifast", recipe, grid)?;
                let kept = slice.acceptance();
                if kept < HOPELESS {
                    return Err(format!(
                        "uunifast would keep {kept:.1e} of its draws of {} tasks with a total of \
                         {}, since most have one above 1; take randfixedsum, which draws from the \
                         same distribution and discards none",
                        slice.tasks,
                        decimal(recipe.total)
                    ));
                }
                Sampler::Discard(slice)
            }
            Self::RandFixedSum(range) => {
                Sampler::FixedSum(range.slice("randfixedsum", recipe, grid)?)
            }
            Self::OneByOne(law) => Sampler::OneByOne {
                law: law.on(recipe, grid)?,
                total: grid.total,
                most: recipe.tasks.unwrap_or(usize::MAX),
                exact: recipe.exact,
            },
        })
    }
}

impl Range {
    /// From nothing to a whole core.
    pub const WHOLE: Self = Self { least: Rate::ZERO, most: Rate::ONE };

    /// The bounds in units of 1 / G, rounded inwards; nothing is below one unit.
    fn on(self, grid: Grid) -> Result<(u64, u64), String> {
        let scaled = |rate: Rate| u128::from(rate.num()) * u128::from(grid.steps);
        let least = scaled(self.least).div_ceil(u128::from(self.least.den())).max(1);
        let most = scaled(self.most) / u128::from(self.most.den());
        if least > most || self.most > Rate::ONE {
            let (range, steps) = (self, grid.steps);
            return Err(format!(
                "no multiple of 1/{steps} up to 1 lies within {range}; widen it or refine the grain"
            ));
        }
        Ok((least as u64, most as u64))
    }

    /// The utilisations within the range that have the recipe's total; `method` asks.
    fn slice(self, method: &str, recipe: &Recipe, grid: Grid) -> Result<Slice, String> {
        let (least, most) = self.on(grid)?;
        let Some(tasks) = recipe.tasks else {
            return Err(format!("{method} needs the number of tasks; give it, such as 20"));
        };
        within(tasks)?;
        let (n, total) = (tasks as u64, decimal(recipe.total));
        let as_rate = |steps: u64| decimal(Rate::new(steps, grid.steps));
        if grid.total < n * least {
            let needed = as_rate(n * least);
            return Err(format!(
                "{} of at least {} need a total of {needed}, above {total}; take fewer tasks or \
                 raise the total",
                counted(tasks, "task"),
                as_rate(least)
            ));
        }
        if grid.total > n * most {
            let reached = as_rate(n * most);
            return Err(format!(
                "{} of at most {} reach a total of {reached}, below {total}; take more tasks or \
                 lower the total",
                counted(tasks, "task"),
                as_rate(most)
            ));
        }
        Ok(Slice { tasks, total: grid.total, least, most })
    }
}

/// # Errors
/// Where a set may not have so many tasks.
fn within(tasks: usize) -> Result<(), String> {
    if (1..=MAX_TASKS).contains(&tasks) {
        return Ok(());
    }
    Err(format!("{tasks} tasks are not within 1..{MAX_TASKS}; change the number"))
}

impl Law {
    /// The law on the grid, where sets can be drawn by it.
    fn on(&self, recipe: &Recipe, grid: Grid) -> Result<StepLaw, String> {
        let (law, highest) = match self {
            Self::Mix(parts) => {
                let on = |(weight, range): &(u32, Range)| Ok((*weight, range.on(grid)?));
                let parts: Vec<_> = parts.iter().map(on).collect::<Result<_, String>>()?;
                let highest = parts.iter().map(|(_, (_, most))| *most).max().unwrap_or(0);
                if parts.iter().all(|(weight, _)| *weight == 0) {
                    return Err("no range has a weight above 0; raise one".into());
                }
                (StepLaw::Mix(parts), highest)
            }
            Self::Exponential(mean) if *mean == Rate::ZERO || *mean > Rate::ONE => {
                return Err(format!(
                    "the mean {} is not above 0 and up to 1; change it",
                    decimal(*mean)
                ));
            }
            Self::Exponential(mean) => {
                let mean = mean.num() as f64 / mean.den() as f64 * grid.steps as f64;
                (StepLaw::Exponential { mean, most: grid.steps }, grid.steps)
            }
        };
        let total = decimal(recipe.total);
        match recipe.tasks {
            Some(_) if recipe.exact => {
                return Err("tasks are drawn until the total is met exactly; drop `tasks` or \
                            `exact`, or take randfixedsum"
                    .into());
            }
            Some(0) => return Err("0 tasks make no set; raise the number".into()),
            Some(tasks) => within(tasks)?,
            None => {
                let expected = grid.total as f64 / law.mean();
                if expected > MAX_TASKS as f64 {
                    return Err(format!(
                        "a total of {total} takes about {expected:.0} such tasks, more than \
                         {MAX_TASKS}; lower the total or take heavier tasks"
                    ));
                }
            }
        }
        // Else a set whose first task is dropped would be empty.
        if highest > grid.total && !recipe.exact {
            let highest = decimal(Rate::new(highest, grid.steps));
            return Err(format!(
                "a task may draw up to {highest}, more than the total of {total}; raise the total \
                 or ask for `exact`, which trims it"
            ));
        }
        Ok(law)
    }
}

/// What draws utilisations in units of 1 / G.
pub(super) enum Sampler {
    Discard(Slice),
    FixedSum(Slice),
    OneByOne { law: StepLaw, total: u64, most: usize, exact: bool },
}

impl Sampler {
    pub(super) fn draw(&self, random: &mut Random) -> Vec<u64> {
        match self {
            Self::Discard(slice) => slice.uunifast_discard(random),
            Self::FixedSum(slice) => slice.randfixedsum(random),
            Self::OneByOne { law, total, most, exact } => {
                let (mut left, mut loads) = (*total, Vec::new());
                while left > 0 && loads.len() < *most {
                    let load = law.draw(random);
                    if load > left {
                        loads.extend(exact.then_some(left));
                        break;
                    }
                    loads.push(load);
                    left -= load;
                }
                loads
            }
        }
    }
}

/// The distribution of a single utilisation in units of 1 / G.
pub(super) enum StepLaw {
    /// Weights, and bounds of the ranges.
    Mix(Vec<(u32, (u64, u64))>),
    Exponential {
        mean: f64,
        most: u64,
    },
}

impl StepLaw {
    fn draw(&self, random: &mut Random) -> u64 {
        match self {
            Self::Mix(parts) => {
                let sum: u64 = parts.iter().map(|(weight, _)| u64::from(*weight)).sum();
                let mut place = random.below(sum);
                let mut range = (1, 1);
                for (weight, bounds) in parts {
                    range = *bounds;
                    if place < u64::from(*weight) {
                        break;
                    }
                    place -= u64::from(*weight);
                }
                random.between(range.0, range.1)
            }
            // What lies outside is drawn again, as SchedCAT does.
            Self::Exponential { mean, most } => loop {
                let steps = libm::round(-mean * libm::log(1.0 - random.unit()));
                if (1.0..=*most as f64).contains(&steps) {
                    return steps as u64;
                }
            },
        }
    }

    /// The mean, for exponentials without the cut at 1.
    fn mean(&self) -> f64 {
        match self {
            Self::Mix(parts) => {
                let sum: f64 = parts.iter().map(|(weight, _)| f64::from(*weight)).sum();
                let part = |(weight, (least, most)): &(u32, (u64, u64))| {
                    f64::from(*weight) / sum * (*least as f64 + *most as f64) / 2.0
                };
                parts.iter().map(part).sum()
            }
            Self::Exponential { mean, .. } => *mean,
        }
    }
}
