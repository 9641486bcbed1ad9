//! Random task sets on exact grids: rates are multiples of 1 / G and all instants multiples of G
//! ticks, so that every budget which an optimal scheduler derives is a whole number of ticks.

use super::{Dice, RandomSystem};
use maracas_core::{Arrival, Cost, Duration, Program, System, Vcpu, Workload};

/// G: prime, harmonic and rich in divisors.
const GRAINS: [u64; 11] = [4, 5, 6, 8, 10, 12, 15, 20, 24, 30, 60];
/// Periods in steps of the grid.
const STEPS: [u64; 9] = [1, 2, 3, 4, 5, 6, 8, 10, 12];

/// What kind of sets to draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exact {
    /// At least and at most so many cores.
    pub cores: (u64, u64),
    /// At most so many tasks.
    pub tasks: u64,
    /// Whether most tasks need more than half a core.
    pub heavy: bool,
    /// U = m; else less.
    pub full: bool,
    /// Whether jobs are sporadic; else periodic.
    pub sporadic: bool,
    /// How many ticks the smallest step of time has, besides G of them.
    pub unit: u64,
}

/// Draws a task set. Where it is sporadic a nanosecond is one step of the grid, as releases are
/// whole nanoseconds.
///
/// # Panics
/// Where so many tasks can not fill the cores.
pub fn exact(dice: &mut Dice, kind: Exact) -> RandomSystem {
    let grain = dice.pick(&GRAINS);
    let cores = dice.between(kind.cores.0, kind.cores.1);
    let mut total = cores * grain;
    if !kind.full {
        // Little is left by heavy tasks, or each would get a core to itself.
        total -= dice.between(1, total / if kind.heavy { 8 } else { 2 });
    }
    let least = total.div_ceil(grain).max(3.min(total));
    assert!(least <= kind.tasks, "{kind:?}: {least} tasks are needed at least");
    let most = if kind.heavy { least + cores.div_ceil(2) } else { kind.tasks };
    let count = dice.between(least, most.min(kind.tasks).min(total));
    let step = grain * kind.unit;
    let finer = if kind.sporadic { dice.pick(&[1, 1, 7, 100]) } else { 1 };
    let (offsets, early) = (dice.one_in(4), dice.one_in(3));
    let (mut vcpus, mut programs) = (Vec::new(), Vec::new());
    for (id, load) in (0..).zip(loads(dice, kind.heavy, total, count, grain)) {
        let steps = dice.pick(&STEPS) * finer;
        let period = Duration::from_ticks(steps * step);
        let budget = Duration::from_ticks(steps * kind.unit * load);
        let offset = if offsets { dice.between(0, steps) * step } else { 0 };
        let periodic = Arrival::Periodic { offset: Duration::from_ticks(offset) };
        let arrival = if kind.sporadic { Arrival::Sporadic } else { periodic };
        let vcpu = Vcpu { arrival, ..Vcpu::new(id, budget, period) };
        let least = Duration::from_ticks(1);
        let cost = if early { Cost::Uniform(least, budget) } else { Cost::Fixed(budget) };
        programs.push(Program::new(vcpu.id, Workload::Periodic { cost }));
        vcpus.push(vcpu);
    }
    let mut system = System::new(cores as usize, vcpus);
    system.ticks_per_ns = if kind.sporadic { step } else { 1 };
    RandomSystem { system, programs }
}

/// `count` numbers from 1 to `grain` that sum to `total`: up to twice the mean of what is left, or
/// for heavy tasks close to it.
fn loads(dice: &mut Dice, heavy: bool, total: u64, count: u64, grain: u64) -> Vec<u64> {
    let mut left = total;
    let load = |others: u64| {
        let least = left.saturating_sub(others * grain).max(1);
        let most = (left - others).min(grain);
        let mean = left.div_ceil(others + 1);
        let (low, high) = if heavy { (mean * 3 / 4, mean * 5 / 4) } else { (1, 2 * mean) };
        let load = dice.between(low.clamp(least, most), high.clamp(least, most));
        left -= load;
        load
    };
    (0..count).rev().map(load).collect()
}

/// Lengthens every period by a few ticks and lowers budgets to what the rates then allow: no
/// budget of a server is a whole number of ticks any more.
pub fn off_the_grid(dice: &mut Dice, random: &mut RandomSystem) {
    for (vcpu, program) in random.system.vcpus.iter_mut().zip(&mut random.programs) {
        let reservation = &mut vcpu.reservation;
        let (budget, period) = (reservation.budget.ticks(), reservation.period.ticks());
        let longer = period + dice.between(0, period.min(50));
        let budget = u128::from(budget) * u128::from(longer) / u128::from(period);
        reservation.budget = Duration::from_ticks(budget as u64);
        reservation.period = Duration::from_ticks(longer);
        reservation.deadline = reservation.period;
        let budget = reservation.budget;
        if let Workload::Periodic { cost } = &mut program.workload {
            *cost = match *cost {
                Cost::Uniform(least, _) => Cost::Uniform(least, budget),
                Cost::Fixed(_) | Cost::Exponential(_) => Cost::Fixed(budget),
            };
        }
    }
}
