//! What a VCPU does to memory: counters of its group on each core, opened beside its time's
//! where they were asked for. Where no group is counted but the core is, the core says whose its
//! counts are ([`maracas_live_core::VcpuHandle::charge_reads`]).

use super::{ThisVcpu, slot};
use crate::host::HardwareCore;
use crate::host::hardware::{Count, Counter, EventCode, Hardware, Scope, ThisHardware};
use crate::sense::VcpuEvents;
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
        // What it refuses to give now is reported with the next reading.
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

impl ThisVcpu {
    /// Reads its counters on the core where it sits: reads and references since the last time.
    pub(super) fn count_memory(&mut self) -> (u64, u64) {
        let Some(slot) = slot(&mut self.slots, self.core) else { return (0, 0) };
        let counters = [&mut slot.memory.reads, &mut slot.memory.references];
        let [reads, references] = counters.map(|it| it.as_mut().map_or((0, false), Counted::gain));
        self.took_turns |= reads.1 || references.1;
        (reads.0, references.0)
    }
    /// What is to be said of its counters at its end, if anything.
    pub(super) fn memory_remark(&self) -> Option<&'static str> {
        if self.slots.iter().flatten().any(|slot| slot.memory.refused) {
            Some("memory not counted on every core: refused")
        } else if self.took_turns {
            Some("memory extrapolated: others used the counters at times")
        } else {
            None
        }
    }
    /// What is to be said of its pages' colours at its end, if anything.
    pub(super) fn color_remark(&self) -> Option<String> {
        // This does not wait: the holder starts a program.
        let page = self.colors.as_ref()?.try_lock().ok()?;
        page.remark().map(|text| format!("{}: {text}", self.name))
    }
}
