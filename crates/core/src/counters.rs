//! Performance monitoring: one set of named events for both machines.
//!
//! What runs is counted by VCPU and core in the [`Usage`] of its segments, the memory controller
//! system-wide in a [`Sample`]. Policies, tables and traces read events by these names and never
//! ask where a number came from: the simulator's model or a hardware counter. What a machine
//! cannot count reads 0.

use crate::contract::{Sample, Usage};

/// An event that is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Counter {
    /// Cycles of the core that a VCPU used.
    Cycles,
    /// Instructions retired.
    Instructions,
    /// References to the last-level cache.
    References,
    /// References that the last-level cache answered.
    Hits,
    /// References that it did not answer: reads of memory.
    Misses,
    /// Requests that the memory controller took: reads and write-backs.
    Requests,
    /// Sum over cycles of requests in the memory controller's queue.
    Occupancy,
}

impl Counter {
    /// Every event.
    pub const ALL: [Self; 7] = [
        Self::Cycles,
        Self::Instructions,
        Self::References,
        Self::Hits,
        Self::Misses,
        Self::Requests,
        Self::Occupancy,
    ];

    /// The word for it in tables, traces and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::References => "references",
            Self::Hits => "hits",
            Self::Misses => "misses",
            Self::Requests => "requests",
            Self::Occupancy => "occupancy",
        }
    }
}

impl Usage {
    /// What was counted of `counter`, at `cycles_per_us` cycles a microsecond. A VCPU has no
    /// occupancy of its own.
    pub const fn count(&self, counter: Counter, cycles_per_us: u64) -> Option<u64> {
        Some(match counter {
            Counter::Cycles => (self.service.ticks() as u128 * cycles_per_us as u128 / 1000) as u64,
            Counter::Instructions => self.instructions,
            Counter::References => self.references,
            Counter::Hits => self.references.saturating_sub(self.reads),
            Counter::Misses => self.reads,
            Counter::Requests => self.reads + self.writes,
            Counter::Occupancy => return None,
        })
    }
    /// What the memory meters of core and VCPU counted.
    #[inline]
    pub const fn metered(&self) -> u64 {
        match self.metered {
            Some(metered) => metered,
            None => self.reads,
        }
    }
    /// Adds what another segment consumed.
    #[inline]
    pub fn add(&mut self, other: &Self) {
        self.service += other.service;
        let counts = other.references | other.reads | other.writes | other.instructions;
        if counts != 0 || other.metered.is_some() {
            self.add_counts(other);
        }
    }
    #[inline(never)]
    fn add_counts(&mut self, other: &Self) {
        if self.metered.is_some() || other.metered.is_some() {
            self.metered = Some(self.metered() + other.metered());
        }
        self.references += other.references;
        self.reads += other.reads;
        self.writes += other.writes;
        self.instructions += other.instructions;
    }
}

impl Sample {
    /// What was counted of `counter` system-wide; `None` for what a controller does not count.
    pub const fn count(&self, counter: Counter) -> Option<u64> {
        match counter {
            Counter::Requests => Some(self.requests),
            Counter::Occupancy => Some(self.occupancy),
            Counter::Cycles
            | Counter::Instructions
            | Counter::References
            | Counter::Hits
            | Counter::Misses => None,
        }
    }
    /// Requests that the cores' own counters saw: less than all where devices use memory too.
    pub fn by_cores(&self) -> u64 {
        self.by_core.iter().sum()
    }
    /// Whether the average latency, occupancy / requests, is at least `cycles` (MARACAS,
    /// Algorithm 1, lines 8 and 9); a bus without requests has latency 0.
    pub fn latency_reaches(&self, cycles: u64) -> bool {
        self.requests > 0
            && u128::from(self.occupancy) >= u128::from(cycles) * u128::from(self.requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Duration;

    #[test]
    fn latency_is_occupancy_by_requests() {
        // MARACAS, Figure 3: occupancy 10, 3 requests, latency 10/3.
        let sample = Sample { requests: 3, occupancy: 10, ..Sample::default() };
        assert!(sample.latency_reaches(3) && !sample.latency_reaches(4));
        assert!(!Sample::default().latency_reaches(0));
        assert_eq!(sample.count(Counter::Occupancy), Some(10));
    }

    #[test]
    fn usage_reads_by_name() {
        let usage = Usage {
            service: Duration::from_nanos(2000),
            references: 10,
            reads: 4,
            writes: 3,
            metered: None,
            instructions: 99,
        };
        let read = |counter| usage.count(counter, 3300);
        assert_eq!(
            Counter::ALL.map(read),
            [6600, 99, 10, 6, 4, 7]
                .map(Some)
                .iter()
                .copied()
                .chain([None])
                .collect::<alloc::vec::Vec<_>>()[..]
        );
        let mut sum = usage;
        sum.add(&usage);
        assert_eq!((sum.reads, sum.instructions, sum.metered()), (8, 198, 8));
        sum.add(&Usage { metered: Some(5), ..usage });
        assert_eq!((sum.reads, sum.metered()), (12, 13));
    }
}
