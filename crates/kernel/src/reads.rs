//! By what reads of memory are counted.

/// An event of each core that stands for reads of memory, and after how many of them it overflows.
///
/// # How many
/// A meter is behind what was read by less than a chunk, and an allowance is overshot by less than
/// one and what is read until the core has closed. Each overflow is an interrupt of some
/// microseconds, and the kernel stops an event for the rest of a tick that comes more often than
/// `kernel.perf_event_max_sample_rate` says, 100,000 times a second where nothing else is set
/// (kernel/events/core.c): what is read then is not counted. A core reads at most 250 lines a
/// microsecond (`FASTEST_PER_US` of `maracas_live_core`), so that [`Reads::CHUNK`] stays at a
/// quarter of that rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reads {
    /// The number of the unit that counts it (`type` in its directory of sysfs).
    pub unit: u32,
    /// The event and whatever else the unit's `format` puts into `config`, `config1`, `config2`.
    pub config: [u64; 3],
    /// After how many reads it overflows; at least 1.
    pub chunk: u64,
}

impl Reads {
    /// As many as the fastest core reads in 40 us.
    pub const CHUNK: u64 = 10_000;

    /// Page faults in place of reads: for tests, on machines that count nothing else.
    /// (`PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_PAGE_FAULTS`; include/uapi/linux/perf_event.h)
    #[must_use]
    pub const fn page_faults(chunk: u64) -> Self {
        Self { unit: 1, config: [2, 0, 0], chunk }
    }
}
