//! A pointer chase as a sensor: it reads memory itself, one line after the other, and what others
//! do shows in how long a line takes. The last resort: it needs no counter and no right, but on a
//! large machine one loading core does not move it beyond its own drift ([`usable`]).

use super::{Cores, Reading, Sensor, SensorKind};
use crate::host::HardwareCore;
use crate::host::hardware::loads::Lines;
use crate::host::hardware::{Count, Counter, Hardware, Load};
use maracas_core::{Duration, Instant};
use std::hint::black_box;
use std::sync::Arc;
use std::{io, thread, time};

/// Lines of one walk: 30 us at 150 ns a line.
const LINES: u64 = 200;
/// Parts of a walk. The median of them counts, so that an interrupt does not look like contention.
const PARTS: usize = 5;
/// Walks are at least so far apart, so that memory is not loaded by being asked (6 % of one core's
/// chasing); half of Algorithm 1's shortest interval between samples.
const REST: Duration = Duration::from_micros(500);
/// Its clock is nanoseconds.
const CYCLES_PER_US: u64 = 1000;

/// The sensor: requests are the lines that it read, occupancy is how long it waited for them.
struct Chase {
    lines: Arc<Lines>,
    line: u32,
    /// No walk before this.
    rested: Instant,
    sum: Reading,
    /// Requests of the cores, where they are counted.
    counters: Vec<(Box<dyn Counter>, Count)>,
}

/// Opens the sensor for so many managed cores. `counters` count what each core requests, by
/// `CoreId`; empty where nothing does, and then no core can be blamed.
///
/// # Errors
/// Where there is no memory to chase in.
pub fn open(cores: usize, counters: Vec<Box<dyn Counter>>) -> io::Result<Box<dyn Sensor>> {
    let lines = Lines::shared()?;
    let line = lines.start();
    let counters = counters.into_iter().map(|counter| (counter, Count::default())).collect();
    let sum = Reading { by_core: vec![0; cores], ..Reading::default() };
    Ok(Box::new(Chase { lines, line, rested: Instant::ZERO, sum, counters }))
}

impl Chase {
    /// Reads [`LINES`] lines and returns how long that took, in nanoseconds.
    fn walk(&mut self) -> u64 {
        let mut times = [0; PARTS];
        for time in &mut times {
            let start = time::Instant::now();
            self.line = black_box(self.lines.chase(self.line, LINES / PARTS as u64));
            *time = start.elapsed().as_nanos() as u64;
        }
        times.sort_unstable();
        times[PARTS / 2] * PARTS as u64
    }
}

impl Sensor for Chase {
    fn sensor_kind(&self) -> SensorKind {
        SensorKind::Chase
    }
    fn describe(&self) -> String {
        let counted = if self.counters.is_empty() { "nothing" } else { "a counter" };
        format!("pointer chase of {LINES} lines a sample; {counted} distinguishes the cores")
    }
    fn cycles_per_us(&self) -> u64 {
        CYCLES_PER_US
    }
    /// Asked again before it has rested, it has nothing new to say of latency.
    fn read(&mut self, now: Instant, into: &mut Reading) -> io::Result<()> {
        if now >= self.rested {
            self.sum.occupancy += self.walk();
            self.sum.requests += LINES;
            self.rested = now.saturating_add(REST);
        }
        for (requests, (counter, seen)) in self.sum.by_core.iter_mut().zip(&mut self.counters) {
            let count = counter.read()?;
            *requests = requests.saturating_add(count.since(seen));
            *seen = count;
        }
        into.clone_from(&self.sum);
        Ok(())
    }
    fn remark(&self) -> Option<String> {
        None
    }
}

/// Rounds of chasing alone and beside a load.
const ROUNDS: usize = 9;
/// Lines of a chase that is held against another: 3 ms, since short ones mostly feel their own
/// start.
const PROBE: u64 = 20_000;
/// How long the load on the other core lasts: longer than a probe, also where it slows that down.
const LOAD: time::Duration = time::Duration::from_millis(10);
/// After this the load surely runs.
const START: time::Duration = time::Duration::from_millis(1);

/// Whether a chase on the first of `cores` feels a known load on the second: how much, or why it
/// cannot be used. Takes about 0.2 s.
///
/// # Errors
/// A sentence for users: where there is no second core, the loads cannot be run, or the load does
/// not move the chase beyond its own drift.
pub fn usable(hardware: &dyn Hardware, cores: &Cores) -> Result<String, String> {
    let [(_, feeling), (_, loading), ..] = *cores else {
        return Err("no second managed core could load memory against it".into());
    };
    let rounds = alternate(hardware, feeling, loading)
        .map_err(|error| format!("the known loads cannot be run: {error}"))?;
    judge(rounds)
}

/// Nanoseconds a line, alone and beside the load, by rounds: what drifts drifts in both.
fn alternate(
    hardware: &dyn Hardware,
    feeling: HardwareCore,
    loading: HardwareCore,
) -> io::Result<[(u64, u64); ROUNDS]> {
    let probe = || {
        let took = hardware.load(feeling, Load::Chase { lines: PROBE })?;
        io::Result::Ok(took.as_nanos() as u64 / PROBE)
    };
    // The first of each prepares and is not counted.
    probe()?;
    let each = hardware.load(loading, Load::Scatter { lines: PROBE })?.as_nanos() as u64 / PROBE;
    let lines = LOAD.as_nanos() as u64 / each.max(1);
    let mut rounds = [(0, 0); ROUNDS];
    for (alone, loaded) in &mut rounds {
        *alone = probe()?;
        *loaded = thread::scope(|scope| {
            let load = scope.spawn(|| hardware.load(loading, Load::Scatter { lines }));
            thread::sleep(START);
            let loaded = probe();
            load.join().map_err(|_| io::Error::other("the loading thread died"))??;
            loaded
        })?;
    }
    Ok(rounds)
}

/// The load must move the median by more than the chase alone differs from round to round, without
/// its two extremes, and by more than a tenth, which it differs between runs.
fn judge(rounds: [(u64, u64); ROUNDS]) -> Result<String, String> {
    let (mut alone, mut loaded) = (rounds.map(|it| it.0), rounds.map(|it| it.1));
    alone.sort_unstable();
    loaded.sort_unstable();
    let (quiet, busy) = (alone[ROUNDS / 2], loaded[ROUNDS / 2]);
    let drift = (alone[ROUNDS - 2] - alone[1]).max(quiet / 10);
    let said = format!(
        "a line takes {quiet} ns alone and {busy} ns beside a load on another core, and {} to {} \
         ns by itself",
        alone[1],
        alone[ROUNDS - 2]
    );
    if busy > quiet + drift { Ok(said) } else { Err(said) }
}

#[cfg(test)]
mod tests;
