//! Requestors that are no cores: when they are active, and what they ask of memory.

use super::controller::Controller;
use super::count::{Count, fixed};
use super::dram::{Law, Requestor};
use super::solutions::{Entry, Kind, Solutions};
use maracas_core::memory::Device;
use maracas_core::{Duration, Instant};

/// A device at work. At every moment it is on or off.
#[derive(Clone, Debug)]
struct Active {
    /// Its place among all devices.
    place: usize,
    entry: Entry,
    writebacks: f64,
    on: Duration,
    off: Duration,
    active: bool,
    reads: Count,
    writes: Count,
    /// In the controller's queue: requests times cycles per tick, in units of 2^-48.
    queued: u64,
}

/// All devices.
#[derive(Clone, Debug)]
pub(super) struct Devices {
    all: Vec<Active>,
    /// Up to when each of them stays as it is.
    pub(super) until: Instant,
}

impl Devices {
    /// Those that ever ask for anything.
    pub(super) fn new(devices: &[Device], law: &Law, solutions: &mut Solutions) -> Self {
        let busy = devices.iter().enumerate().filter(|(_, device)| {
            device.reads_per_s > 0 && device.outstanding_milli > 0 && !device.on.is_zero()
        });
        let all = busy.map(|(place, device)| Active::new(place, device, law, solutions)).collect();
        Self { all, until: Instant::ZERO }
    }

    /// Turns them on and off. Whether any of them is not as it was.
    pub(super) fn turn(&mut self, now: Instant) -> bool {
        if now < self.until {
            return false;
        }
        let mut turned = false;
        self.until = Instant::NEVER;
        for device in self.all.iter_mut().filter(|device| !device.off.is_zero()) {
            let round = device.on + device.off;
            let place = now.ticks() % round.ticks();
            let active = place < device.on.ticks();
            turned |= active != device.active;
            device.active = active;
            let edge = if active { device.on } else { round };
            self.until = self.until.min(now.saturating_add(edge - Duration::from_ticks(place)));
        }
        turned
    }

    /// All of them, as requestors.
    pub(super) fn all(&self) -> impl Iterator<Item = Entry> {
        self.all.iter().map(|device| device.entry)
    }

    /// The active ones, as requestors.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.all.iter().filter(|device| device.active).map(|device| device.entry)
    }

    /// Sets the pace of the active ones: `solved` gives reads per ns and latency.
    pub(super) fn pace(
        &mut self,
        solved: impl Fn(Entry) -> (f64, f64),
        ns_per_tick: f64,
        cycles_per_tick: f64,
    ) {
        for device in self.all.iter_mut().filter(|device| device.active) {
            let (reads, latency) = solved(device.entry);
            device.reads.rate = fixed(reads * ns_per_tick);
            device.writes.rate = fixed(reads * device.writebacks * ns_per_tick);
            let requests = reads * (1.0 + device.writebacks);
            device.queued = fixed(requests * latency * cycles_per_tick);
        }
    }

    /// Lets `time` pass at this pace.
    pub(super) fn pass(&mut self, time: Duration, controller: &mut Controller) {
        for device in self.all.iter_mut().filter(|device| device.active) {
            let (reads, writes) = (device.reads.pass(time), device.writes.pass(time));
            controller.take_from_device(device.place, reads, writes);
            controller.queue(device.queued, time);
        }
    }
}

impl Active {
    fn new(place: usize, device: &Device, law: &Law, solutions: &mut Solutions) -> Self {
        let writebacks = device.writes_milli as f64 / 1e3;
        let kind = Kind {
            pattern: device.pattern,
            outstanding: device.outstanding_milli as f64 / 1e3,
            writebacks,
            think_ns: 0.0,
        };
        let think_ns = think_for(device.reads_per_s as f64 / 1e9, kind, law);
        let number = solutions.intern(Kind { think_ns, ..kind });
        Self {
            place,
            entry: Solutions::entry(number, 1.0).expect("a device always misses"),
            writebacks,
            on: device.on,
            off: device.off,
            active: true,
            reads: Count::default(),
            writes: Count::default(),
            queued: 0,
        }
    }
}

/// Z such that a requestor alone on an idle memory reads so many lines per ns; 0 where it cannot.
///
/// What it reads is 1 / (Z + L/W), and L moves little with Z: a few steps of putting Z where this L
/// wants it suffice.
fn think_for(reads_per_ns: f64, kind: Kind, law: &Law) -> f64 {
    let mut think_ns = 1.0 / reads_per_ns;
    let mut solved = Vec::with_capacity(1);
    for _ in 0..50 {
        let alone = Requestor {
            pattern: kind.pattern,
            outstanding: kind.outstanding,
            think_ns,
            writebacks: kind.writebacks,
        };
        law.solve(&[alone], &mut solved);
        let better = (1.0 / reads_per_ns - solved[0].latency_ns / kind.outstanding).max(0.0);
        if (better - think_ns).abs() <= 1e-6 * think_ns {
            return better;
        }
        think_ns = better;
    }
    think_ns
}
