//! What the memory controller counts: requests as they come in, and its queue in every cycle.

use super::count::{Count, WHOLE, fixed};
use maracas_core::Duration;
use maracas_core::contract::Sample;
use maracas_core::memory::Dram;

/// What the memory controller counted of a whole run.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MemoryTotals {
    /// Requests that it took: reads and write-backs.
    pub requests: u64,
    /// Sum over cycles of requests in its queue.
    pub occupancy: u64,
    /// Lines read, by cores and devices.
    pub reads: u64,
    /// Lines written, by cores and devices.
    pub writes: u64,
    /// Requests by core. Those of devices are in none.
    pub by_core: Vec<u64>,
    /// Requests by device, in the order of [`maracas_core::memory::Memory::devices`].
    pub by_device: Vec<u64>,
}

impl MemoryTotals {
    /// What was counted since `earlier`, as a monitor reads it.
    pub(crate) fn since(&self, earlier: &Self) -> Sample {
        let by_core = self.by_core.iter().enumerate();
        Sample {
            requests: self.requests - earlier.requests,
            occupancy: self.occupancy - earlier.occupancy,
            by_core: by_core
                .map(|(core, now)| now - earlier.by_core.get(core).copied().unwrap_or(0))
                .collect(),
        }
    }
}

/// The counters of the memory controller.
#[derive(Clone, Debug)]
pub(super) struct Controller {
    totals: MemoryTotals,
    /// Occupancy in units of 2^-48.
    queued: u128,
    /// The share of time in which some read waits at present, in units of 2^-48 a tick; `None` = it
    /// is not counted.
    busy: Option<Count>,
    was_busy: Duration,
    /// Of all channels.
    banks: f64,
}

impl Controller {
    pub(super) fn new(cores: usize, devices: usize) -> Self {
        let (by_core, by_device) = (vec![0; cores], vec![0; devices]);
        let totals = MemoryTotals { by_core, by_device, ..MemoryTotals::default() };
        Self { totals, queued: 0, busy: None, was_busy: Duration::ZERO, banks: 1.0 }
    }
    /// The same with the banks of `dram`; without that it has one.
    pub(super) fn with_banks(self, dram: &Dram) -> Self {
        let counts = [dram.channels, dram.ranks, dram.banks].map(|count| f64::from(count.max(1)));
        Self { banks: counts.iter().product(), ..self }
    }
    /// How many banks it has, of all channels.
    pub(super) const fn banks(&self) -> f64 {
        self.banks
    }
    /// Requests came in from a core.
    #[inline]
    pub(super) fn take(&mut self, core: usize, reads: u64, writes: u64) {
        self.count(reads, writes);
        self.totals.by_core[core] += reads + writes;
    }
    /// Requests came in from a device.
    pub(super) fn take_from_device(&mut self, device: usize, reads: u64, writes: u64) {
        self.count(reads, writes);
        self.totals.by_device[device] += reads + writes;
    }
    #[inline]
    const fn count(&mut self, reads: u64, writes: u64) {
        self.totals.requests += reads + writes;
        self.totals.reads += reads;
        self.totals.writes += writes;
    }
    /// For `time`, `length` units of 2^-48 requests stood in the queue, counted per cycle: times
    /// the cycles of a tick.
    #[inline]
    pub(super) const fn queue(&mut self, length: u64, time: Duration) {
        self.queued += length as u128 * time.ticks() as u128;
    }
    /// Counts for how long it is busy from now on.
    pub(super) fn watch(&mut self) {
        self.busy = Some(Count::default());
    }
    /// Whether that is counted.
    pub(super) const fn is_watched(&self) -> bool {
        self.busy.is_some()
    }
    /// Some read waits for this share of the time from now on.
    pub(super) fn set_busy(&mut self, share: f64) {
        if let Some(busy) = &mut self.busy {
            busy.rate = fixed(share.min(1.0));
        }
    }
    /// `time` passed.
    pub(super) fn pass(&mut self, time: Duration) {
        if let Some(busy) = &mut self.busy {
            self.was_busy += Duration::from_ticks(busy.pass(time));
        }
    }
    /// For how long it was busy so far, where that is counted.
    pub(super) fn busy(&self) -> Option<Duration> {
        self.busy.map(|_| self.was_busy)
    }
    pub(super) fn totals(&mut self) -> &MemoryTotals {
        self.totals.occupancy = (self.queued / u128::from(WHOLE)) as u64;
        &self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occupancy_adds_up_the_queue_in_every_cycle() {
        // MARACAS, Figure 3: r1 in the queue during [0, 2), r2 and r3 during [1, 5). One tick is
        // one cycle.
        let mut controller = Controller::new(2, 0);
        let cycles = Duration::from_ticks;
        controller.take(0, 1, 0);
        controller.queue(WHOLE, cycles(1));
        controller.take(1, 1, 1);
        controller.queue(3 * WHOLE, cycles(1));
        let first = controller.totals().clone();
        controller.queue(2 * WHOLE, cycles(3));
        let totals = controller.totals();
        assert_eq!((totals.occupancy, totals.requests), (10, 3));
        let sample = totals.since(&MemoryTotals::default());
        assert!(sample.latency_reaches(3) && !sample.latency_reaches(4), "10/3 cycles");
        assert_eq!((sample.by_core, totals.reads, totals.writes), (vec![1, 2], 2, 1));
        assert_eq!(totals.since(&first).occupancy, 6);
    }

    #[test]
    fn devices_are_seen_by_the_controller_alone() {
        let mut controller = Controller::new(1, 2);
        controller.take_from_device(1, 5, 2);
        let totals = controller.totals();
        assert_eq!((totals.requests, &totals.by_core[..]), (7, &[0][..]));
        assert_eq!(totals.by_device, [0, 7]);
    }
}
