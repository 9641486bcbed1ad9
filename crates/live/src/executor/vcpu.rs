//! One VCPU of this host: its group, its counters, and the thread that freezes it.

mod clocks;
mod memory;

use super::{Site, VcpuHandle};
use crate::clock::Clock;
use crate::colors::Colors;
use crate::executor::freeze_thread::FreezableGroup;
use crate::host::HardwareCore;
use crate::host::cgroup::Group;
use crate::host::perf::{Instructions, Service};
use crate::host::platform::is_preempt_rt;
use crate::host::sched::{self, KernelPolicy};
use crate::host::wait::{Poll, Token};
use crate::progress::Progress;
use crate::setup::Means;
use maracas_core::journal::{Note, Recolored};
use maracas_core::memory::CachePart;
use maracas_core::{CoreId, Instant, VcpuId};
use maracas_live_core::{Handle, Recoloring, priority};
use std::io;
use std::sync::Arc;

/// The VCPU's counter on one core, and how much of it was reported.
#[derive(Debug)]
struct Slot {
    service: Service,
    /// Whether the core's agent waits for births and ends of its threads there.
    listened: bool,
    seen_ns: u64,
    /// What it does with its time, where that is counted so.
    instructions: Option<Instructions>,
    /// What it does to memory.
    memory: memory::Counters,
}

/// What is done to a VCPU of this host goes through it.
#[derive(Debug)]
pub(crate) struct ThisVcpu {
    pub(crate) name: String,
    pub(crate) freezable_group: Arc<FreezableGroup>,
    group: Arc<Group>,
    clock: Clock,
    /// By which its programs are asked to recolour their pages, where they can be.
    pub(crate) colors: Option<Colors>,
    slots: Vec<Option<Slot>>,
    core: Option<CoreId>,
    means: Means,
    progress: Progress,
    /// Whether a counter of memory ever had to take turns with others.
    took_turns: bool,
    /// The program in it, if we started one; it stands for all where no group lists them.
    root: Option<i32>,
    /// The clocks that are read where there are no events, and what they read last: of the
    /// processes in it or, where only single threads are in it, of those.
    clocks: Vec<(i32, u64)>,
    /// To which core its group is confined.
    confined: HardwareCore,
    scratch: Vec<i32>,
}

/// How a VCPU handle comes to be.
pub(crate) struct Made {
    pub(crate) id: VcpuId,
    pub(crate) name: String,
    pub(crate) group: Arc<Group>,
    /// To which core its group is confined.
    pub(crate) confined: HardwareCore,
    /// The program in it, if we started one.
    pub(crate) root: Option<i32>,
    pub(crate) means: Means,
    pub(crate) progress: Progress,
    pub(crate) clock: Clock,
}

impl Made {
    /// The VCPU handle, at rest, on no core yet.
    pub(crate) fn vcpu_handle(self) -> VcpuHandle {
        let Self { id, name, group, confined, root, means, progress, clock } = self;
        let signalled = root.filter(|_| !means.freezer);
        let handle = ThisVcpu {
            name,
            freezable_group: Arc::new(FreezableGroup::new(Arc::clone(&group), signalled)),
            group,
            clock,
            colors: None,
            slots: Vec::new(),
            core: None,
            means,
            progress,
            took_turns: false,
            root,
            clocks: Vec::new(),
            confined,
            scratch: Vec::with_capacity(64),
        };
        VcpuHandle::new(id, handle, means.fifo)
    }
}

impl ThisVcpu {
    /// Has the poll wait for births and ends of its threads where it sits now, or not any more.
    pub(super) fn listen(&mut self, poll: &Poll, token: Token, to: bool) -> io::Result<()> {
        let Some(slot) = slot(&mut self.slots, self.core) else { return Ok(()) };
        if slot.listened == to {
            return Ok(());
        }
        let fd = slot.service.fd();
        if to {
            poll.add(fd, token)?
        } else {
            poll.remove(fd)?
        }
        slot.listened = to;
        Ok(())
    }

    /// Opens beforehand what it is counted by on cores to which it may be moved: that is most of
    /// what a first move there takes. What is refused is tried again when it comes there.
    pub(crate) fn prepare(&mut self, sites: impl Iterator<Item = (CoreId, Site)>) {
        if self.means.events {
            sites.for_each(|(core, site)| _ = self.slot_on(core, site));
        }
    }

    /// Its counters on a core, opened where it has none there.
    fn slot_on(&mut self, core: CoreId, site: Site) -> io::Result<&mut Slot> {
        let Site { hardware, counts } = site;
        let index = usize::from(core.0);
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        let place = &mut self.slots[index];
        if place.is_none() {
            let group = self.group.dir_fd().ok_or(io::ErrorKind::Unsupported)?;
            let service = Service::open(group, hardware.0)?;
            // Where it is refused, progress is reported as none, and a note at the end says why.
            let counted = self.progress.is_instructions();
            let instructions =
                counted.then(|| Instructions::of_group(group, hardware.0).ok()).flatten();
            let memory = memory::Counters::open(counts, group, hardware);
            let (listened, seen_ns) = (false, 0);
            let slot = Slot { service, listened, seen_ns, instructions, memory };
            *place = Some(slot);
        }
        place.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Confines its group to another core. On PREEMPT_RT a thread that was preempted while it holds
    /// a lock of the kernel's stays on its core until it lets go, and who confines it waits for
    /// that; at rest it would wait itself until nothing else runs there on its budget (5 to 32 ms
    /// were measured, by which a migration VCPU paid for 5 to 34 periods beforehand). So where that
    /// `may_stay`, threads go before all VCPUs meanwhile, which is a system call each way.
    fn leave(&mut self, core: HardwareCore, may_stay: bool) -> io::Result<()> {
        let mut tids = std::mem::take(&mut self.scratch);
        tids.clear();
        if may_stay {
            // What is not listed waits, as all would.
            let _ = self.group.threads(&mut tids);
        }
        // One that has ended is at rest.
        tids.iter().for_each(|tid| drop(sched::set_fifo(*tid, priority::LEAVING, true)));
        let confined = self.group.confine(core);
        let lower = |tid: &i32| sched::unless_gone(sched::set_other(*tid));
        let lowered = tids.iter().map(lower).fold(Ok(()), io::Result::and);
        self.scratch = tids;
        confined?;
        self.confined = core;
        lowered
    }

    /// What is to be said of its progress at its end, if anything.
    fn remark(&self) -> Option<String> {
        let counters = || self.slots.iter().flatten().map(|slot| slot.instructions.as_ref());
        let refused = self.progress.is_instructions() && counters().any(|one| one.is_none());
        self.progress.remark(refused, counters().flatten().any(|counter| counter.was_shared))
    }

    /// The program that stands for all, if the host cannot list the group.
    fn whole(&self) -> Option<i32> {
        self.root.filter(|_| self.group.path().is_none())
    }
}

impl Handle for ThisVcpu {
    type Site = Site;

    fn set_level(&mut self, tid: i32, level: u8) -> io::Result<()> {
        match level {
            0 => sched::set_other(tid),
            raised => sched::set_fifo(tid, raised, true),
        }
    }

    fn make_ordinary(&mut self, tid: i32) -> io::Result<()> {
        match sched::policy_of(tid)? {
            KernelPolicy::Other => Ok(()),
            KernelPolicy::Fifo { .. } | KernelPolicy::Foreign(_) => sched::set_other(tid),
        }
    }

    fn list(&mut self, tids: &mut Vec<i32>) -> io::Result<(Instant, Instant)> {
        let begun = self.clock.now();
        match self.whole() {
            Some(root) => {
                tids.clear();
                tids.push(root);
            }
            None => self.group.threads(tids)?,
        }
        let done = self.clock.now();
        if self.means.reads_clocks() {
            self.find_clocks()?;
        }
        Ok((begun, done))
    }

    fn ran(&mut self) -> io::Result<u64> {
        if let Some(slot) = slot(&mut self.slots, self.core) {
            let count = slot.service.count()?;
            Ok(count.saturating_sub(std::mem::replace(&mut slot.seen_ns, count)))
        } else if self.means.reads_clocks() {
            Ok(self.read_clocks())
        } else {
            Ok(0)
        }
    }

    /// Moving a cpuset costs 22 us (p50), an affinity 4 us; but a program can change its own
    /// affinity and not its cpuset.
    fn go(&mut self, core: CoreId, site: Site) -> io::Result<bool> {
        if self.means.events {
            self.slot_on(core, site)?;
        }
        let moved = self.confined != site.hardware;
        if moved {
            let may_stay = self.means.fifo && !self.means.kernel && is_preempt_rt();
            self.leave(site.hardware, may_stay)?;
        }
        Ok(moved)
    }

    fn arrive(&mut self, core: CoreId) {
        self.core = Some(core);
    }

    fn refusal(&self) -> io::Result<()> {
        self.freezable_group.refusal()
    }
    fn forget_freezer(&self) {
        self.freezable_group.forget();
    }
    fn thaw_now(&self) -> io::Result<()> {
        self.freezable_group.release()
    }

    fn reset(&mut self) {
        if self.means.reads_clocks() {
            self.read_clocks();
        }
    }

    fn recolor(&mut self, colors: CachePart) -> io::Result<Recoloring> {
        let Some(page) = &self.colors else { return Ok(Recoloring::None) };
        // Taken while a program is being started, which is soon done.
        let Ok(mut page) = page.try_lock() else { return Ok(Recoloring::Later) };
        if page.attached() == 0 {
            return Ok(Recoloring::None);
        }
        page.order_again(colors.get()).map(|()| Recoloring::Begun)
    }
    fn recolored(&mut self) -> Option<Recolored> {
        let done = self.colors.as_ref()?.try_lock().ok()?.finished()?;
        let (pages, took_ns, left) = (done.pages, done.nanos, done.left);
        let error = (done.error != 0).then_some(done.error.unsigned_abs());
        Some(Recolored { pages, took_ns, left, error })
    }
    fn remarks(&self, vcpu: VcpuId) -> Vec<Note> {
        let vcpu = Some(vcpu);
        let progress = self.remark().map(|text| Note::Progress { vcpu, text });
        let memory = self.memory_remark().map(str::to_string).into_iter();
        let memory = memory.chain(self.color_remark()).map(|text| Note::Sense { vcpu, text });
        progress.into_iter().chain(memory).collect()
    }

    fn progress(&mut self) -> u64 {
        let slot = slot(&mut self.slots, self.core);
        self.progress.gain(slot.and_then(|slot| slot.instructions.as_mut()))
    }

    fn memory(&mut self) -> (u64, u64) {
        self.count_memory()
    }
}

fn slot(slots: &mut [Option<Slot>], core: Option<CoreId>) -> Option<&mut Slot> {
    slots.get_mut(core?.0 as usize)?.as_mut()
}

#[cfg(test)]
mod tests;
