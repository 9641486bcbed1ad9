//! What the host's parts cost, as far as the state of a core depends on it.

use maracas_core::Duration;

/// Run queues a microsecond that a core reads at most: 16 GB/s, the fastest that we saw of one
/// core.
pub const FASTEST_PER_US: u64 = 250;

/// How late a real-time thread wakes from a timed sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeCost {
    /// The median.
    pub p50: Duration,
    /// What one wake in a hundred exceeds.
    pub p99: Duration,
}

impl WakeCost {
    /// That of bare metal, for cores on which nothing is enforced.
    pub const LEAST: Self = Self { p50: Duration::from_micros(5), p99: Duration::from_micros(20) };
}
