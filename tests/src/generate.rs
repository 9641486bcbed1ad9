//! Random systems, small enough that instants coincide often.

mod churn;
mod exact;
mod memory;
mod uneven;

pub use churn::{Churn, churn};
pub use exact::{Exact, exact, off_the_grid};
pub use memory::memory_for;
pub use uneven::uneven_for;

use maracas_core::{
    Arrival, Cost, Duration, Instant, Program, Role, System, Vcpu, VcpuId, Workload,
};

/// A die of 2^64 faces: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// A die that always falls the same way from `seed` on.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }
    /// The next 64 bits.
    pub const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// A number from `low` to `high`, inclusive.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high - low + 1)
    }
    /// True once in `n` times on average.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.roll().is_multiple_of(n)
    }
    /// One of `items`.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.between(0, items.len() as u64 - 1) as usize]
    }
}

/// A platform with VCPUs, and what runs on them.
#[derive(Clone, Debug)]
pub struct RandomSystem {
    /// Cores and all VCPUs.
    pub system: System,
    /// What runs.
    pub programs: Vec<Program>,
}

/// What kind of system to draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mix {
    /// Every VCPU releases jobs, worked on by one program each, within their budgets.
    pub jobs_only: bool,
    /// VCPUs and programs may come and go.
    pub changes: bool,
    /// Several programs may share a VCPU, and jobs may ask more than their budget.
    pub unruly: bool,
    /// Upper bound of the sum of C/T, in hundredths of all cores.
    pub load: u64,
}

impl Mix {
    /// Tasks within their budgets, all there from the start.
    #[must_use]
    pub const fn tasks(load: u64) -> Self {
        Self { jobs_only: true, changes: false, unruly: false, load }
    }
    /// Every kind of program, all there from the start, one a VCPU.
    #[must_use]
    pub const fn programs(load: u64) -> Self {
        Self { jobs_only: false, changes: false, unruly: false, load }
    }
}

/// Periods with many common multiples, so that releases often fall together.
const PERIODS: [u64; 10] = [4, 5, 6, 8, 10, 12, 15, 20, 24, 30];
/// Tick lengths of those periods' unit: from "everything at the finest grain" to milliseconds.
const UNITS: [u64; 4] = [1, 7, 1_000, 1_000_000];

/// The same for systems with memory: below a microsecond nothing is seen of it.
const MEMORY_UNITS: [u64; 3] = [1_000, 10_000, 100_000];

/// Draws a system.
#[must_use]
pub fn generate(seed: u64, mix: Mix) -> RandomSystem {
    draw(seed, mix, &UNITS)
}

/// Draws a system whose periods are long enough for memory to matter, for [`memory_for`].
#[must_use]
pub fn generate_slow(seed: u64, mix: Mix) -> RandomSystem {
    draw(seed, mix, &MEMORY_UNITS)
}

fn draw(seed: u64, mix: Mix, units: &[u64]) -> RandomSystem {
    let mut dice = Dice::new(seed);
    let cores = dice.between(1, 4) as usize;
    let count = dice.between(1, 3 * cores as u64 + 1);
    let unit = dice.pick(units);
    let mut left = mix.load * cores as u64;
    let (mut vcpus, mut programs) = (Vec::new(), Vec::new());
    for id in 0..count as u32 {
        let period = dice.pick(&PERIODS) * unit;
        let fair = 2 * mix.load * cores as u64 / count;
        let share = dice.between(1, fair.clamp(1, 95)).min(left);
        let budget = period * share / 100;
        if budget == 0 {
            continue;
        }
        left -= share;
        let ticks = Duration::from_ticks;
        let mut vcpu = Vcpu::new(id, ticks(budget), ticks(period));
        let has_jobs = mix.jobs_only || dice.one_in(2);
        if has_jobs {
            let offset = ticks(if dice.one_in(3) { dice.between(0, period) } else { 0 });
            let sporadic = dice.one_in(4);
            vcpu.arrival = if sporadic { Arrival::Sporadic } else { Arrival::Periodic { offset } };
        }
        let first = programs.len();
        programs.push(program(&mut dice, &mut vcpu, mix, id));
        while mix.unruly && dice.one_in(4) {
            programs.push(program(&mut dice, &mut vcpu, mix, id));
        }
        if mix.changes {
            come_and_go(&mut dice, &mut programs[first..], 40 * unit);
        }
        vcpus.push(vcpu);
    }
    RandomSystem { system: System::new(cores, vcpus), programs }
}

fn program(dice: &mut Dice, vcpu: &mut Vcpu, mix: Mix, id: u32) -> Program {
    let budget = vcpu.reservation.budget;
    let period = vcpu.reservation.period;
    let most = if mix.unruly { budget * 2 } else { budget };
    let cost = match dice.between(0, 2) {
        0 => Cost::Fixed(budget),
        1 => Cost::Uniform(Duration::from_ticks(1), most),
        _ if mix.unruly => Cost::Exponential(budget),
        _ => Cost::Fixed(Duration::from_ticks(dice.between(1, budget.ticks()))),
    };
    let gap = Cost::Uniform(Duration::from_ticks(1), period);
    let jobs = vcpu.arrival != Arrival::None;
    let workload = match dice.between(0, 3) {
        0 if jobs && !mix.jobs_only => {
            Workload::Anytime { mandatory: cost, optional: Duration::from_ticks(budget.ticks()) }
        }
        _ if jobs => Workload::Periodic { cost },
        0 => Workload::Busy,
        1 => {
            let other = dice.between(0, u64::from(id)) as u32;
            vcpu.role = if other < id && dice.one_in(2) { Role::Io } else { vcpu.role };
            let on_behalf = (other < id).then_some(VcpuId(other));
            Workload::EventDriven { every: gap, cost, on_behalf }
        }
        _ => Workload::RunSleep { run: cost, sleep: gap },
    };
    Program::new(vcpu.id, workload)
}

fn come_and_go(dice: &mut Dice, programs: &mut [Program], span: u64) {
    for program in programs {
        if dice.one_in(3) {
            program.arrive = Instant::from_ticks(dice.between(0, span));
        }
        if dice.one_in(4) {
            let stay = Duration::from_ticks(dice.between(1, span));
            program.depart = program.arrive + stay;
        }
    }
}
