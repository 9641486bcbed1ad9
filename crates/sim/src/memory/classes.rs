//! Cores of uneven speed, without a model of memory: a program progresses by its pace on the class
//! of the core where it runs, and nothing else slows it down.
//!
//! A piece of work is time on a core of class 0, the fastest. On class c a program does
//! `ips[c] / ips[0]` of work per time and counts `ips[c]` instructions per second, in its present
//! phase; phases last for so much work wherever it is done. A program without a pace runs at the
//! speed of the class and counts a thousand million instructions per second at full speed: every
//! policy sees it progress.
//!
//! # Exactness
//! All is counted in integers of 2^-48, so no sum depends on how time is split. Rates are rounded
//! up: C of work is done on a slower core in C * `ips[0] / ips[c]`, rounded up to whole ticks, and
//! never one tick later.

use super::count::{Count, ratio};
use super::phases::Phases;
use super::{Contention, Effort, MemoryTotals, Progress, Resident};
use maracas_core::contract::Usage;
use maracas_core::memory::CachePart;
use maracas_core::{CoreId, Duration, Instant, Pace, System};

/// Instructions per second of a program without a pace, for each thousandth of speed.
const NOMINAL_IPS_PER_MILLI: u64 = 1_000_000;

/// The machine's cores by class, and the pace of every program.
#[derive(Clone, Debug)]
pub struct UnevenCores {
    cores: Vec<Slot>,
    classes: usize,
    /// By program.
    runners: Vec<Runner>,
    /// A program without a pace that has done nothing yet.
    nominal: Runner,
    next: Instant,
    changes: u64,
}

/// A core and what runs there.
#[derive(Clone, Copy, Debug)]
struct Slot {
    class: usize,
    program: Option<usize>,
    /// When the program's phase ends.
    ends: Instant,
}

/// A program on its way.
#[derive(Clone, Debug)]
struct Runner {
    phases: Phases,
    /// By phase and class: work per tick and instructions per tick, in units of 2^-48.
    rates: Box<[(u64, u64)]>,
    work: Count,
    instructions: Count,
}

impl Slot {
    fn empty(class: u8) -> Self {
        Self { class: class.into(), program: None, ends: Instant::NEVER }
    }
}

impl Runner {
    fn new(pace: &Pace, system: &System) -> Self {
        let ticks_per_s = 1_000_000_000 * system.ticks_per_ns;
        let rates = pace.phases.iter().flat_map(|phase| {
            let ips = phase.ips.get(..system.classes.len()).unwrap_or_default();
            assert!(
                !ips.is_empty() && ips.iter().all(|own| (1..=ips[0]).contains(own)),
                "a phase has its instructions per second on each of {} classes, none 0 and none \
                 greater than the first; these are {:?}",
                system.classes.len(),
                phase.ips
            );
            ips.iter().map(|own| (ratio(*own, ips[0]), ratio(*own, ticks_per_s)))
        });
        Self {
            rates: rates.collect(),
            phases: Phases::new(pace.phases.iter().map(|phase| phase.work)),
            work: Count::default(),
            instructions: Count::default(),
        }
    }

    /// Goes on, on a core of this class of so many. Returns in what time its phase ends.
    fn go_on(&mut self, class: usize, classes: usize) -> Duration {
        self.phases.turn();
        (self.work.rate, self.instructions.rate) = self.rates[self.phases.at() * classes + class];
        self.phases.ends_in(&self.work)
    }
}

impl UnevenCores {
    /// The cores of `system`. Programs are known by their place among those of the run; one whose
    /// pace is `None`, or what comes after the last, runs at the speed of the core's class.
    ///
    /// # Panics
    /// Where a pace has no phases, or a phase not the instructions per second on every class, of
    /// which none is 0 and none greater than the first.
    #[must_use]
    pub fn new(system: &System, paces: &[Option<Pace>]) -> Self {
        let speeds = system.classes.iter().map(|class| u64::from(class.speed_milli));
        let nominal = Pace::steady(speeds.map(|milli| milli * NOMINAL_IPS_PER_MILLI).collect());
        let nominal = Runner::new(&nominal, system);
        let runner = |pace: &Option<Pace>| {
            pace.as_ref().map_or_else(|| nominal.clone(), |pace| Runner::new(pace, system))
        };
        Self {
            cores: system.cores.iter().map(|core| Slot::empty(core.class)).collect(),
            classes: system.classes.len(),
            runners: paces.iter().map(runner).collect(),
            nominal,
            next: Instant::NEVER,
            changes: 0,
        }
    }

    #[inline]
    fn runner_on(&self, core: CoreId) -> Option<&Runner> {
        self.cores[core.0 as usize].program.map(|program| &self.runners[program])
    }
}

impl Contention for UnevenCores {
    const CONTENDS: bool = true;
    const COUPLED: bool = false;
    const SAMPLES: bool = false;

    fn resolve(&mut self, now: Instant, running: &[Option<Resident>]) {
        self.changes += 1;
        self.next = Instant::NEVER;
        for (slot, resident) in self.cores.iter_mut().zip(running) {
            let program = resident.map(|resident| resident.program as usize);
            if slot.program != program || slot.ends <= now {
                *slot = Slot { program, ends: Instant::NEVER, ..*slot };
                if let Some(program) = program {
                    if program >= self.runners.len() {
                        self.runners.resize(program + 1, self.nominal.clone());
                    }
                    let left = self.runners[program].go_on(slot.class, self.classes);
                    slot.ends = now.saturating_add(left);
                }
            }
            self.next = self.next.min(slot.ends);
        }
    }

    #[inline]
    fn next_change(&self) -> Instant {
        self.next
    }

    #[inline]
    fn advance(&mut self, core: CoreId, time: Duration) -> Progress {
        let Some(program) = self.cores[core.0 as usize].program else {
            return Progress { work: time, ..Progress::default() };
        };
        let runner = &mut self.runners[program];
        runner.phases.pass(&runner.work, time);
        let instructions = runner.instructions.pass(time);
        Progress {
            work: Duration::from_ticks(runner.work.pass(time)),
            counted: Usage { instructions, ..Usage::default() },
        }
    }

    #[inline]
    fn time_for(&self, core: CoreId, work: Duration) -> Duration {
        self.runner_on(core).map_or(work, |runner| runner.work.time_for(work.ticks()))
    }

    #[inline]
    fn time_to_meter(&self, _: CoreId, _: u64) -> Duration {
        Duration::MAX
    }

    fn totals(&mut self, _: Instant) -> Option<&MemoryTotals> {
        None
    }

    fn effort(&self) -> Effort {
        Effort { changes: self.changes, ..Effort::default() }
    }

    fn pages_to_copy(&self, _: u32, _: Option<CachePart>) -> u64 {
        0
    }

    fn recolor(&mut self, _: Instant, _: u32, _: Option<CachePart>) {}

    fn leave(&mut self, _: u32) {}
}
