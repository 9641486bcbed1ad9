//! A program's use of memory: in which phase it is, how fast it goes, what was counted.

use super::Progress;
use super::clamp::Clamp;
use super::count::{Count, WHOLE, fixed};
use super::phases::Phases;
use maracas_core::Duration;
use maracas_core::contract::{Metered, Usage};
use maracas_core::memory::{CachePart, MemoryUse, Pattern};

/// What a program does in one phase.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub(super) memory: MemoryUse,
    /// The number of its kind on each class of cores.
    pub(super) kinds: Box<[u16]>,
    /// wb.
    pub(super) writebacks: f64,
    /// References per ns at speed 1.
    reference: f64,
    /// Time per reference without misses on the fastest class, ns.
    think_ns: f64,
    /// What the meters count per read, where that is not reads. A count of its own: a read and a
    /// write-back that come to a whole in one tick would pass a limit together.
    crowded: f64,
    /// 1 / W.
    per_outstanding: f64,
    /// 1 / `reference`.
    per_reference: f64,
    /// Instructions per reference.
    instructions: f64,
}

impl Phase {
    /// What is done in a phase; `best` are the miss ratio and the latency at speed 1.
    pub(super) fn new(memory: &MemoryUse, kinds: Box<[u16]>, best: (f64, f64)) -> Self {
        let mut phase = Self {
            memory: memory.clone(),
            kinds,
            writebacks: memory.writebacks_milli as f64 / 1e3,
            reference: 0.0,
            think_ns: memory.think_ps as f64 / 1e3,
            crowded: 0.0,
            per_outstanding: 1e3 / memory.outstanding_milli.max(1) as f64,
            per_reference: 0.0,
            instructions: memory.instructions_milli as f64 / 1e3,
        };
        phase.reference = phase.references_per_ns(best.0, best.1, 1.0);
        phase.per_reference = 1.0 / phase.reference;
        phase
    }

    /// References per ns where it misses so often at this latency, on a core that stretches
    /// thinking so much. A program that neither thinks nor misses refers once a picosecond: there
    /// is no smaller time to describe it by.
    pub(super) fn references_per_ns(&self, miss_ratio: f64, latency_ns: f64, stretch: f64) -> f64 {
        let waiting_ns = miss_ratio * latency_ns * self.per_outstanding;
        1.0 / (self.think_ns * stretch + waiting_ns).at_least(1e-3)
    }

    fn speed(&self, references: f64) -> f64 {
        let full = references >= self.reference;
        if full { 1.0 } else { (references * self.per_reference).at_most(1.0) }
    }
}

/// A program that uses memory.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    /// By phase.
    doings: Vec<Phase>,
    phases: Phases,
    /// Pages of its largest working set.
    pub(super) pages: u64,
    /// Its page colours; `None` = it never ran, or pages have none.
    pub(super) colors: Option<CachePart>,
    work: Count,
    references: Count,
    reads: Count,
    writes: Count,
    instructions: Count,
    /// What the memory meters count, and its count where that is not reads.
    metered: Metered,
    bank: Count,
}

impl Tenant {
    pub(super) fn new(doings: Vec<Phase>, phases: Phases, pages: u64) -> Self {
        Self {
            doings,
            phases,
            pages,
            colors: None,
            work: Count::default(),
            references: Count::default(),
            reads: Count::default(),
            writes: Count::default(),
            instructions: Count::default(),
            metered: Metered::Reads,
            bank: Count::default(),
        }
    }

    /// Has this counted, of a memory with so many banks in all. A pattern that takes all of them
    /// loads them alike.
    pub(super) fn meter(&mut self, metered: Metered, banks: f64) {
        self.metered = metered;
        for phase in self.doings.iter_mut().filter(|_| metered != Metered::Reads) {
            let writes = if metered.has_writes() { phase.writebacks } else { 0.0 };
            let share = match phase.memory.pattern {
                // All that it does is counted as one.
                Pattern::Jump | Pattern::JumpRandom | Pattern::Random | Pattern::Sequential
                    if !metered.is_of_banks() =>
                {
                    1.0
                }
                Pattern::SameBank | Pattern::PrivateBank => 1.0,
                Pattern::Jump | Pattern::JumpRandom | Pattern::Random | Pattern::Sequential => {
                    1.0 / banks
                }
            };
            phase.crowded = (1.0 + writes) * share;
        }
    }

    /// What it does at present.
    pub(super) fn phase(&self) -> &Phase {
        &self.doings[self.phases.at()]
    }

    /// The place of its phase.
    pub(super) const fn place(&self) -> usize {
        self.phases.at()
    }

    /// Goes on with the next phase where this one is over.
    pub(super) fn turn(&mut self) {
        self.phases.turn();
    }

    /// Sets its pace: it refers to the cache so often per ns, and so many of these miss.
    pub(super) fn pace(&mut self, references: f64, miss_ratio: f64, ns_per_tick: f64) {
        let phase = &self.doings[self.phases.at()];
        let per_tick = references * ns_per_tick;
        let reads = per_tick * miss_ratio;
        self.work.rate = fixed(phase.speed(references));
        self.references.rate = fixed(per_tick);
        self.reads.rate = fixed(reads);
        // Many programs write nothing back, and most meters count reads.
        let share = |of: f64| if of == 0.0 { 0 } else { fixed(reads * of) };
        self.writes.rate = share(phase.writebacks);
        self.instructions.rate = fixed(per_tick * phase.instructions);
        self.bank.rate = share(phase.crowded);
    }

    /// Reads per tick.
    pub(super) fn read_rate(&self) -> f64 {
        self.reads.rate as f64 / WHOLE as f64
    }

    #[inline]
    pub(super) fn advance(&mut self, time: Duration) -> Progress {
        self.phases.pass(&self.work, time);
        let (reads, writes) = (self.reads.pass(time), self.writes.pass(time));
        Progress {
            work: Duration::from_ticks(self.work.pass(time)),
            counted: Usage {
                service: Duration::ZERO,
                references: self.references.pass(time),
                reads,
                writes,
                metered: match self.metered {
                    Metered::Reads => None,
                    Metered::Requests | Metered::BankReads | Metered::BankRequests => {
                        Some(self.bank.pass(time))
                    }
                },
                instructions: self.instructions.pass(time),
            },
        }
    }
    #[inline]
    pub(super) fn time_for(&self, work: Duration) -> Duration {
        self.work.time_for(work.ticks())
    }
    #[inline]
    pub(super) fn time_to_meter(&self, metered: u64) -> Duration {
        match self.metered {
            Metered::Reads => self.reads.time_for(metered),
            Metered::Requests | Metered::BankReads | Metered::BankRequests => {
                self.bank.time_for(metered)
            }
        }
    }
    /// Time until the end of its phase at this pace.
    pub(super) fn phase_ends_in(&self) -> Duration {
        self.phases.ends_in(&self.work)
    }
}
