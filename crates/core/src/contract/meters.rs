//! What of memory a policy has counted.

/// What the memory meters of cores and VCPUs count: those that
/// [`RunQueue::allowance`](super::RunQueue::allowance) and [`Grant::memory`](super::Grant::memory)
/// are readings of. Whatever it is, it comes as [`Usage::metered`](super::Usage::metered).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Metered {
    /// Reads of memory: last-level cache misses.
    #[default]
    Reads,
    /// Reads and write-backs.
    Requests,
    /// Of the reads, those to one bank of the memory: in each segment, to the bank that gets most.
    /// So the meter of a core counts as much as any bank had of it, and more only where what runs
    /// there one after another crowds different banks.
    BankReads,
    /// The same of reads and write-backs.
    BankRequests,
}

impl Metered {
    /// Whether write-backs count.
    pub const fn has_writes(self) -> bool {
        matches!(self, Self::Requests | Self::BankRequests)
    }
    /// Whether single banks are counted.
    pub const fn is_of_banks(self) -> bool {
        matches!(self, Self::BankReads | Self::BankRequests)
    }
}

/// What a policy has counted of memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Meters {
    /// What the meters of cores and VCPUs count.
    pub counts: Metered,
    /// Whether [`Event::Utilized`](super::Event::Utilized) must come.
    pub controller: bool,
}
