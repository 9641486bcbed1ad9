//! What the view remembers, for its sparklines.

use super::rates::Rates;
use maracas_core::control::Gauges;
use std::collections::VecDeque;

/// How many looks are remembered: more than any terminal has columns.
const LOOKS: usize = 512;

/// The last values of something, the latest last.
#[derive(Clone, Default, Debug)]
pub(super) struct Series(VecDeque<u64>);

impl Series {
    fn push(&mut self, value: u64) {
        if self.0.len() == LOOKS {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }
    /// The last `count` values or fewer, the latest last.
    pub(super) fn last(&self, count: usize) -> Vec<u64> {
        self.0.iter().skip(self.0.len().saturating_sub(count)).copied().collect()
    }
    /// The highest value that is remembered.
    pub(super) fn highest(&self) -> u64 {
        self.0.iter().copied().max().unwrap_or(0)
    }
}

/// What is remembered, look by look.
#[derive(Clone, Default, Debug)]
pub(super) struct History {
    /// Cycles.
    pub(super) latency: Series,
    /// How many cores may not use surplus time.
    pub(super) throttled: Series,
    /// How many there were since the look before.
    pub(super) migrations: Series,
    /// How many per mille of its time each core was busy.
    pub(super) cores: Vec<Series>,
}

impl History {
    /// Remembers one look.
    pub(super) fn remember(&mut self, before: Option<&Gauges>, now: &Gauges, rates: &Rates) {
        if let Some(latency) = rates.latency {
            self.latency.push(latency as u64);
        }
        self.throttled.push(throttled(now) as u64);
        let moved = before.map_or(0, |before| now.migrations.saturating_sub(before.migrations));
        self.migrations.push(moved);
        self.cores.resize(now.cores.len(), Series::default());
        for (series, core) in self.cores.iter_mut().zip(&rates.cores) {
            series.push((core.busy() * 1000.0) as u64);
        }
    }
}

/// How many cores may not use surplus time now.
pub(super) fn throttled(gauges: &Gauges) -> usize {
    gauges.cores.iter().filter(|core| core.is_throttled).count()
}
