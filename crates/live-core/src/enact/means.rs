//! What a core can be asked to do.

/// What the host lets a core do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Means {
    /// Foreground by `SCHED_FIFO`. Without it only the one VCPU that the law names is not stopped.
    pub fifo: bool,
    /// VCPUs can be frozen, or stopped by signals where there is no `fifo`.
    pub freezer: bool,
    /// Switch records, and counters of VCPUs' time that can be read at any time. Without them
    /// clocks are read at the earliest exhaustion and every millisecond, and blocks and wakes are
    /// guessed.
    pub events: bool,
}

impl Means {
    /// All of it.
    pub const FULL: Self = Self { fifo: true, freezer: true, events: true };
}
