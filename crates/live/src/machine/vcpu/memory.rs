//! What a VCPU does to memory: counters of its group on each core, opened beside its time's
//! where they were asked for. Where no group is counted but the core is, the core says whose its
//! counts are ([`Live::charge_reads`]).

use super::{Live, seat};
use crate::host::HardwareCore;
use crate::host::hardware::{Count, Counter, EventCode, Hardware, Scope, ThisHardware};
use crate::sense::VcpuEvents;
use maracas_core::contract::{Grant, Usage};
use std::fmt;
use std::os::fd::BorrowedFd;

/// One counter, and what it read last.
struct Counted {
    counter: Box<dyn Counter>,
    seen: Count,
}

impl Counted {
    fn open(event: EventCode, group: BorrowedFd<'_>, core: HardwareCore) -> Option<Self> {
        // Refused, it counts nothing, and a note at the end says so.
        let counter = ThisHardware.open(&event, Scope::Group(group, core)).ok()?;
        Some(Self { counter, seen: Count::default() })
    }
    /// What it counted since this was asked last, and whether it had to take turns for that.
    fn gain(&mut self) -> (u64, bool) {
        // What it refuses to tell is told with the next reading.
        let Ok(now) = self.counter.read() else { return (0, false) };
        let before = std::mem::replace(&mut self.seen, now);
        (now.since(&before), now.took_turns(&before))
    }
}

/// The counters of a group on one core.
#[derive(Default)]
pub(super) struct Counters {
    reads: Option<Counted>,
    references: Option<Counted>,
    refused: bool,
}

impl Counters {
    /// Those that were asked for.
    pub(super) fn open(events: VcpuEvents, group: BorrowedFd<'_>, core: HardwareCore) -> Self {
        let open = |event: Option<EventCode>| event.and_then(|it| Counted::open(it, group, core));
        let (reads, references) = (open(events.reads), open(events.references));
        let refused = reads.is_none() && events.reads.is_some()
            || references.is_none() && events.references.is_some();
        Self { reads, references, refused }
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [&self.reads, &self.references];
        let counts = counts.map(|it| it.as_ref().map(|it| it.seen.value));
        f.debug_struct("Counters").field("counts", &counts).field("refused", &self.refused).finish()
    }
}

/// The memory meter of a VCPU: what it did on all cores, in any mode.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Meter {
    reads: u64,
    references: u64,
    /// What the policy has been told of them.
    told: (u64, u64),
    /// Whether a counter ever had to take turns with others.
    took_turns: bool,
}

impl Live {
    /// Its memory meter, as it was read last.
    pub(crate) const fn reads(&self) -> u64 {
        self.memory.reads
    }
    /// Whether its memory meter, as it was read last, is below the mark of this grant.
    pub(crate) const fn has_memory(&self, grant: &Grant) -> bool {
        self.memory.reads < grant.memory || grant.memory == u64::MAX
    }
    /// Reads its counters on the core where it sits. By how much its memory meter moved on.
    pub(crate) fn count_memory(&mut self) -> u64 {
        let Some(seat) = seat(&mut self.seats, self.core) else { return 0 };
        let counters = [&mut seat.memory.reads, &mut seat.memory.references];
        let [reads, references] = counters.map(|it| it.as_mut().map_or((0, false), Counted::gain));
        self.memory.reads += reads.0;
        self.memory.references += references.0;
        self.memory.took_turns |= reads.1 || references.1;
        reads.0
    }
    /// Takes reads for its own that were counted of its core.
    pub(crate) const fn charge_reads(&mut self, reads: u64) {
        self.memory.reads += reads;
    }
    /// Adds to `usage` what the policy has not been told of.
    pub(crate) fn tell_memory(&mut self, usage: &mut Usage) {
        let Meter { reads, references, .. } = self.memory;
        let told = std::mem::replace(&mut self.memory.told, (reads, references));
        usage.reads += reads - told.0;
        usage.references += references - told.1;
    }
    /// Reads of memory that the policy has not been told of.
    pub(crate) const fn untold_reads(&self) -> u64 {
        self.memory.reads - self.memory.told.0
    }
    /// What is to be said of its counters at its end, if anything.
    pub(crate) fn memory_remark(&self) -> Option<&'static str> {
        if self.seats.iter().flatten().any(|seat| seat.memory.refused) {
            Some("memory not counted on every core: refused")
        } else if self.memory.took_turns {
            Some("memory extrapolated: others used the counters at times")
        } else {
            None
        }
    }
    /// What is to be said of its pages' colours at its end, if anything.
    pub(crate) fn color_remark(&self) -> Option<String> {
        // Nobody is waited for: who holds it starts a program.
        let page = self.colors.as_ref()?.try_lock().ok()?;
        page.remark().map(|text| format!("{}: {text}", self.name))
    }
}
