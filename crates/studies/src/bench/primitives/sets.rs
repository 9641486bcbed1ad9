//! The task sets that are measured.

use maracas_core::{Duration, Instant, Rate};
use maracas_scenario::generate::Recipe;
use maracas_scenario::taskset::TaskSet;

/// One point of the grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Point {
    pub(super) cores: usize,
    pub(super) tasks: usize,
    /// Of the whole set, in percent of all cores.
    pub(super) utilization: u64,
}

/// Harmonic periods and others in turn (ECRTS 2015, slide 11).
const PERIODS: [&str; 2] = ["harmonic", "log-uniform:10ms..100ms"];

/// The set with this number at `point`.
///
/// # Errors
/// Why none can be drawn there.
pub(super) fn draw(point: Point, number: usize, seed: u64) -> Result<TaskSet, String> {
    let total = Rate::new(point.cores as u64 * point.utilization, 100);
    // Uniform among all with this sum in which no task asks for more than a core.
    let (loads, periods) = ("randfixedsum".parse()?, PERIODS[number % PERIODS.len()].parse()?);
    let recipe = Recipe::new(total, Some(point.tasks), loads, periods);
    recipe.draw(seed.wrapping_add(number as u64))
}

/// When the set has released about so many jobs, at most `longest` after the start.
pub(super) fn horizon(set: &TaskSet, jobs: u64, longest: Duration) -> Instant {
    let rate: f64 = set.tasks.iter().map(|task| 1.0 / task.reservation.period.ticks() as f64).sum();
    let ticks = (jobs as f64 / rate) as u64;
    Instant::ZERO + Duration::from_ticks(ticks).min(longest)
}
