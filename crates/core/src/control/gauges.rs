//! What a running system shows of itself: sums since its start, and its present state.
//!
//! Gauges are read from the journal, as the report is, and say the same. No gauge is a rate: a
//! reader that needs one takes two gauges and divides the difference by the time between them.

use crate::buckets::Buckets;
use crate::contract::Mode;
use crate::{CoreId, Duration, Instant, Reservation, VcpuId};
use alloc::string::String;
use alloc::vec::Vec;

/// A running system as of [`Gauges::at`]. All instants and durations are nanoseconds, whatever a
/// tick is.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Gauges {
    /// The latest instant in the journal, counted from the start.
    pub at: Instant,
    /// The run has ended.
    pub over: bool,
    /// The policy's word.
    pub policy: String,
    /// On what it runs, in words; empty where the journal does not say.
    pub host: String,
    /// By what memory is sensed, in words; empty where nothing is.
    pub sensor: String,
    /// The cores, by id.
    pub cores: Vec<CoreGauges>,
    /// The VCPUs that are there now, by id.
    pub vcpus: Vec<VcpuGauges>,
    /// What the policy's monitor sampled of memory; `None` before its first sample.
    pub memory: Option<MemoryGauges>,
    /// How long dispatches took.
    pub dispatch: Histogram,
    /// How often the policy was asked for its plan.
    pub decisions: u64,
    /// Jobs unfinished at their deadline, of all VCPUs that ever were.
    pub misses: u64,
    /// Migrations of jobs, or of VCPUs where they have no jobs, and jobs that began on another core
    /// than the one before, of all VCPUs that ever were.
    pub migrations: u64,
    /// What the machine could not do (`Event::Failed`).
    pub failures: u64,
    /// Journal records that were lost; where this is not 0, every sum is a lower bound.
    pub lost_records: u64,
    /// What the policy counted of its own doings, where the journal has it.
    pub statistics: Vec<StatisticGauge>,
}

/// One core.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CoreGauges {
    /// Its number.
    pub core: CoreId,
    /// Time in which a VCPU ran on budget.
    pub foreground: Duration,
    /// Time in which a VCPU ran on surplus.
    pub background: Duration,
    /// Time in which only a closed descriptor server kept a VCPU from running.
    pub throttled: Duration,
    /// Surplus time may not be used now.
    pub is_throttled: bool,
    /// Its allowance of memory is spent: nothing runs until there is a new one.
    pub is_closed: bool,
    /// Requests to memory by all segments on this core; 0 where they cannot be counted.
    pub requests: u64,
    /// Requests to memory from here, as the policy's monitor sampled them.
    pub sampled: u64,
    /// The same of the last sample.
    pub last_sampled: u64,
    /// Decisions that changed its run queue.
    pub decisions: u64,
    /// Alarms that were enforced late enough to be reported one by one.
    pub late: u64,
    /// By how much the latest of them was.
    pub longest_late: Duration,
    /// Of all their lateness, the part that the hypervisor took.
    pub stolen: Duration,
    /// How often it was stuck and relieved.
    pub reliefs: u64,
}

/// One VCPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VcpuGauges {
    /// Its number.
    pub vcpu: VcpuId,
    /// Its name.
    pub name: String,
    /// (C, T, D).
    pub reservation: Reservation,
    /// Where and how it ran last; `None` before it did.
    pub last: Option<(CoreId, Mode)>,
    /// Time in the foreground, as its meter charged it.
    pub foreground: Duration,
    /// Time in the background, as its meter charged it.
    pub background: Duration,
    /// What it used of C in its present period, as far as its segments are reported.
    pub used: Duration,
    /// Periods in which it always had something to run and got less than C by more than the
    /// tolerance, and not because time was stolen.
    pub short_periods: u64,
    /// The same with more than C.
    pub over_periods: u64,
    /// Periods that were off because the hypervisor took the core.
    pub stolen_periods: u64,
    /// Jobs released.
    pub jobs: u64,
    /// Jobs unfinished at their deadline.
    pub misses: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Migrations, as [`Gauges::migrations`] counts them.
    pub migrations: u64,
    /// Instructions retired, or the units of progress that its program counts; 0 where neither is.
    pub instructions: u64,
    /// References to the last-level cache; 0 where they cannot be counted, as all that follow.
    pub references: u64,
    /// Reads of memory.
    pub reads: u64,
    /// Write-backs to memory.
    pub writes: u64,
}

/// Memory as the policy's monitor sampled it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemoryGauges {
    /// How many samples there were.
    pub samples: u64,
    /// Requests that memory took, in all samples.
    pub requests: u64,
    /// Sum over cycles of requests under way, in all samples.
    pub occupancy: u64,
    /// Requests of the last sample.
    pub last_requests: u64,
    /// Occupancy of the last sample; by requests, the average latency in cycles.
    pub last_occupancy: u64,
    /// How long before the last sample the one before was taken; the time since the start where it
    /// is the first.
    pub last_span: Duration,
    /// The average latency from which on the policy throttles, in cycles; `None` where it goes by
    /// another number or by none.
    pub max_latency: Option<u64>,
}

/// Something that the policy counted of its own doings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatisticGauge {
    /// What is counted.
    pub name: String,
    /// On which core, where it is about one.
    pub core: Option<CoreId>,
    /// Of which VCPU, where it is about one.
    pub vcpu: Option<VcpuId>,
    /// How many.
    pub value: u64,
}

/// A distribution of durations, each known to an eighth of itself: finer than dispatch latencies of
/// two runs agree.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Histogram {
    /// Nanoseconds.
    pub(crate) counts: Buckets<3>,
    /// The sum of all durations.
    pub(crate) sum: Duration,
}

impl Histogram {
    /// Takes in one duration.
    pub fn add(&mut self, duration: Duration) {
        self.counts.add(duration.ticks());
        self.sum = self.sum.checked_add(duration).unwrap_or(Duration::MAX);
    }
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.count()
    }
    /// Their sum.
    pub const fn sum(&self) -> Duration {
        self.sum
    }
    /// How many are shorter than `2^power` nanoseconds, for powers from three on.
    pub fn shorter_than(&self, power: u32) -> u64 {
        self.counts.below(power)
    }
    /// The shortest duration that at least `percent` % do not exceed (nearest rank), at most an
    /// eighth too long; `None` where there are none.
    pub fn percentile(&self, percent: u64) -> Option<Duration> {
        let rank = (self.count() * percent).div_ceil(100).max(1);
        self.counts.ranked(rank).map(Duration::from_ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_at_most_an_eighth_too_long() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.percentile(50), histogram.count()), (None, 0));
        (1..=1000).for_each(|us| histogram.add(Duration::from_micros(us)));
        for (percent, exact) in [(1, 10_000), (50, 500_000), (99, 990_000), (100, 1_000_000)] {
            let found = histogram.percentile(percent).unwrap().ticks();
            assert!((exact..=exact * 9 / 8).contains(&found), "p{percent}: {found}");
        }
        assert_eq!((histogram.count(), histogram.sum()), (1000, Duration::from_micros(500_500)));
        histogram.add(Duration::MAX);
        assert_eq!(histogram.percentile(100), Some(Duration::MAX));
        assert_eq!(histogram.sum(), Duration::MAX, "a sum that does not fit stands at its end");
    }
}
