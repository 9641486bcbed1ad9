//! How the scheduler in the kernel counts reads of memory: on which cores, and after how many reads
//! an event of theirs overflows (a chunk).
//!
//! A meter lags by less than a chunk, so a core goes beyond its allowance by less than one and what
//! it reads until it has closed; and all that is read is counted, so what went beyond in one period
//! is missing in another. Each overflow is an interrupt. Hence a chunk is as small a part of the
//! smallest allowance as interrupts may take time for. A core that nothing closes could overflow
//! without end, so it is counted only by chunks that the fastest core does not fill too often.

use super::{EventCode, faults};
use crate::host::HardwareCore;
use maracas_core::Duration;
use maracas_core::admission::{ReadLimit, Readers, Regulation};
use maracas_kernel::Reads;
use maracas_live_core::FASTEST_PER_US;

/// What an overflow takes of its core: as much as MemGuard reckons for one (`INTERRUPT` of
/// `crates/policies/src/memguard/settings.rs`).
const INTERRUPT: Duration = Duration::from_micros(5);
/// Overflows of a core that is read for its allowance take a twentieth of it at most.
const PART: u64 = 20;
/// An allowance has as many chunks at least, since else it would be exceeded by half and more in a
/// period; and at most, since more would not show.
const CHUNKS: (u64, u64) = (4, 64);
/// The least chunk on a core that nothing closes: the kernel stops an event that overflows more
/// often than every 10 us (`kernel.perf_event_max_sample_rate`, kernel/events/core.c).
const OPEN: u64 = 10 * FASTEST_PER_US;

/// By what, how finely and where reads are counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counting {
    /// The event, which all of these cores have.
    pub event: EventCode,
    /// After how many reads it overflows.
    pub chunk: u64,
    /// The cores that are counted.
    pub cores: Vec<HardwareCore>,
}

impl Counting {
    /// Chooses for these cores, of which `regulation` limits some; on all of them where what VCPUs
    /// read matters everywhere: since they are limited themselves, or weighed (`everywhere`).
    ///
    /// # Errors
    /// Where a VCPU may read too little to be counted so: what it is, and the way out.
    pub fn choose(
        event: EventCode,
        cores: &[HardwareCore],
        regulation: Option<&Regulation>,
        everywhere: bool,
    ) -> Result<Self, String> {
        let limits = regulation.map_or(&[][..], |regulation| &regulation.most);
        let own = limits.iter().filter_map(|ReadLimit { whose, reads }| match whose {
            Readers::Vcpu(_) => Some(*reads),
            Readers::Cores(_) => None,
        });
        let smallest_own = own.min();
        let of_cores = regulation.map_or(&[][..], |regulation| &regulation.reads);
        let smallest = of_cores.iter().copied().flatten().chain(smallest_own).min();
        let chunk = regulation.zip(smallest).map_or(Reads::CHUNK, |(regulation, reads)| {
            reads.div_ceil(chunks(regulation.period)).clamp(1, Reads::CHUNK)
        });
        let is_limited = |place: &usize| of_cores.get(*place).is_some_and(Option::is_some);
        let open = if event == faults::EVENT { 1 } else { OPEN };
        if !everywhere && smallest_own.is_none() {
            let places = (0..cores.len()).filter(|place| is_limited(place) || chunk >= open);
            let cores = places.map(|place| cores[place]).collect();
            return Ok(Self { event, chunk, cores });
        }
        if let Some(reads) = smallest.filter(|reads| *reads < open) {
            return Err(format!(
                "{reads} reads of memory a period are too few to be counted on all cores inside \
                 the kernel, {open} or more are not; take a longer `period` or more bandwidth"
            ));
        }
        Ok(Self { event, chunk: chunk.max(open), cores: cores.to_vec() })
    }

    /// What the scheduler is to be given.
    pub(crate) const fn reads(&self) -> Reads {
        let EventCode { unit, config, config1, config2 } = self.event;
        Reads { unit, config: [config, config1, config2], chunk: self.chunk }
    }

    /// What is said of it, for a run on these cores.
    pub fn note(&self, cores: &[HardwareCore]) -> String {
        let left: Vec<_> = cores.iter().filter(|core| !self.cores.contains(core)).collect();
        let left: Vec<_> = left.iter().map(|core| core.to_string()).collect();
        let reads = if self.chunk == 1 { "read" } else { "reads" };
        let counted =
            format!("reads are counted inside the kernel, {} {reads} at a time", self.chunk);
        if left.is_empty() {
            return counted;
        }
        let cores = if left.len() == 1 { "core" } else { "cores" };
        format!("{counted}; not on {cores} {}, which nothing closes", left.join(", "))
    }
}

/// How many chunks an allowance for this time has.
fn chunks(period: Duration) -> u64 {
    // A tick of a live run is a nanosecond.
    let bearable = period.ticks() / (INTERRUPT.ticks() * PART);
    bearable.clamp(CHUNKS.0, CHUNKS.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::VcpuId;
    use maracas_core::contract::Meters;

    const CORES: [HardwareCore; 2] = [HardwareCore(4), HardwareCore(6)];
    const READS: EventCode = EventCode { unit: 4, config: 0x2e, config1: 0, config2: 0 };

    fn regulation(period_us: u64, reads: [Option<u64>; 2], own: Option<u64>) -> Regulation {
        let own = own.map(|reads| ReadLimit { whose: Readers::Vcpu(VcpuId(1)), reads });
        Regulation {
            period: Duration::from_micros(period_us),
            meters: Meters::default(),
            reads: reads.to_vec(),
            most: own.into_iter().collect(),
        }
    }

    fn chosen(regulation: &Regulation, event: EventCode) -> (u64, Vec<u32>) {
        let found = Counting::choose(event, &CORES, Some(regulation), false).expect("it fits");
        (found.chunk, found.cores.iter().map(|core| core.0).collect())
    }

    #[test]
    fn a_chunk_follows_the_smallest_allowance_and_what_interrupts_may_take() {
        let both = |period, reads| chosen(&regulation(period, reads, None), READS);
        // 64 MiB/s in the paper's millisecond: ten chunks, and never a read beyond the last.
        assert_eq!(both(1_000, [Some(1_048), Some(5_000)]), (105, vec![4, 6]));
        assert_eq!(both(10_000, [Some(10_485), Some(10_486)]), (164, vec![4, 6]));
        assert_eq!(both(100, [Some(10), Some(100)]).0, 3, "four chunks at least");
        assert_eq!(both(1_000, [Some(1), Some(100)]).0, 1);
        assert_eq!(both(1_000, [Some(1 << 40), Some(1 << 41)]).0, Reads::CHUNK);
    }

    #[test]
    fn a_core_that_nothing_closes_is_counted_where_it_cannot_overflow_too_often() {
        let one = |reads, event| chosen(&regulation(1_000, [None, Some(reads)], None), event);
        assert_eq!(one(1_048, READS), (105, vec![6]));
        assert_eq!(one(10 * OPEN, READS), (OPEN, vec![4, 6]));
        assert_eq!(one(1_048, faults::EVENT), (105, vec![4, 6]), "these come seldom");
        let counting = Counting { event: READS, chunk: 105, cores: vec![CORES[1]] };
        assert_eq!(
            counting.note(&CORES),
            "reads are counted inside the kernel, 105 reads at a time; not on core 4, which \
             nothing closes"
        );
        let all = Counting { chunk: 1, cores: CORES.to_vec(), ..counting };
        assert_eq!(all.note(&CORES), "reads are counted inside the kernel, 1 read at a time");
    }

    #[test]
    fn what_vcpus_read_is_counted_everywhere_or_refused() {
        let weighed = Counting::choose(READS, &CORES, None, true).expect("it fits");
        assert_eq!((weighed.chunk, weighed.cores.len()), (Reads::CHUNK, 2));
        let own = |reads, event| {
            let regulation = regulation(1_000, [None, None], Some(reads));
            Counting::choose(event, &CORES, Some(&regulation), false)
        };
        let found = own(OPEN, READS).expect("it fits");
        assert_eq!((found.chunk, found.cores.len()), (OPEN, 2));
        let why = own(OPEN - 1, READS).expect_err("too few");
        assert!(why.contains("2499 reads") && why.contains("longer `period`"), "{why}");
        assert_eq!(own(30, faults::EVENT).expect("these come seldom").chunk, 3);
    }
}
