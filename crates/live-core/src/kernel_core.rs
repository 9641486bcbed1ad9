//! One core on which the kernel carries the machine law out: it is sent run queues, and says what
//! ran.
//!
//! Nothing is enforced here. A budget that is spent, a block and a wake take effect inside the
//! kernel by the run queue that it has, whenever this side learns of them ([`Kernel`]); a plan that
//! comes late leaves the law as it was.
//!
//! What is reported of a VCPU's service are differences of its meter in the kernel ([`Reported`]),
//! so that their sum is what the meter read at the last end of a segment, or the limit there. Its
//! reads of memory are too, where the kernel counts them: the core's meter is the sum of what its
//! segments read, here as there.

mod memory;
mod slots;

use crate::enact::dispatch::Dispatches;
use crate::enact::lateness::Ends;
use crate::{Counts, Handle, Level, ManagedCore, Place, VcpuHandle, is_gone};
use maracas_core::contract::{End, Grant, Mode, Refused, RunQueue, Segment, Usage};
use maracas_core::journal::Record;
use maracas_core::{CoreId, Duration, Event, Instant, Rate, VcpuId};
use memory::Memory;
pub use slots::{Slots, Taken};
use std::collections::BTreeMap;
use std::io;

/// Carries out, for one core, what [`KernelCore`] asks of the scheduler in the kernel. It decides
/// nothing.
pub trait Kernel {
    /// What actions on one VCPU beside the scheduler are carried out by.
    type Handle: Handle;

    /// The time, since the run began.
    fn now(&self) -> Instant;
    /// What it counts of each VCPU's memory traffic.
    fn counts(&self) -> Counts;
    /// What a VCPU must know of this core to be confined there.
    fn site(&self) -> <Self::Handle as Handle>::Site;
    /// Takes the next event of this core, in the order of time; `None` where all are taken.
    fn next_event(&mut self) -> Option<KernelEvent>;
    /// The segment that is open on this core, as far as it has come; `None` where it idles.
    ///
    /// # Errors
    /// Where the kernel cannot be read.
    fn running(&mut self) -> io::Result<Option<Ran>>;
    /// The meters of a VCPU by mode, as of its last segment.
    ///
    /// # Errors
    /// Where the kernel cannot be read.
    fn meters(&mut self, vcpu: VcpuId) -> io::Result<[Duration; 2]>;

    /// How many VCPUs may be there at once now ([`Slots::room`]).
    fn room(&mut self) -> usize;
    /// The core follows this run queue from now on. What it has of VCPUs that have no slot
    /// yet is left out: they have no threads.
    ///
    /// # Errors
    /// Where the kernel refuses, or has no room for it.
    fn send(&mut self, run_queue: &RunQueue) -> io::Result<()>;
    /// A VCPU stands on this core from now on: its threads are woken here. It gets a slot where it
    /// has none.
    ///
    /// # Errors
    /// Where the kernel refuses, or has no room for it.
    fn settle(&mut self, vcpu: VcpuId) -> io::Result<()>;
    /// A thread, and what it will fork, belongs to a VCPU, which gets a slot where it has none.
    ///
    /// # Errors
    /// As the kernel refuses; see [`is_gone`] for a thread that has ended.
    fn join(&mut self, tid: i32, vcpu: VcpuId) -> io::Result<()>;
    /// The threads of a VCPU belong to none any more, and its slot is free as soon as the kernel
    /// has nothing of it.
    ///
    /// # Errors
    /// As the kernel refuses; it is tried again then.
    fn leave(&mut self, vcpu: VcpuId) -> io::Result<()>;
}

/// What the kernel says of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelEvent {
    /// A segment ended.
    Ran(Ran),
    /// A VCPU has something to run from this instant on.
    Woke(VcpuId, Instant),
    /// The core's allowance of reads is spent; this comes after the segment that spent it, once for
    /// each allowance.
    Spent(Instant),
}

/// A segment as the kernel knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ran {
    /// The VCPU that ran.
    pub vcpu: VcpuId,
    /// In which mode.
    pub mode: Mode,
    /// When it began.
    pub from: Instant,
    /// When it ended.
    pub to: Instant,
    /// What the meter of the mode read then.
    pub meter: Duration,
    /// Of that, what no earlier segment reported ([`Reported`]).
    pub service: Duration,
    /// What it read of memory and no earlier segment reported ([`Reported`]).
    pub reads: u64,
    /// Where its grant ended.
    pub until: Duration,
    /// Why it ended.
    pub end: End,
}

/// What has been reported of the meters of all VCPUs. One for all cores, since a VCPU may have run
/// on several before what it did on the first is read.
#[derive(Default, Debug)]
pub struct Reported {
    service: BTreeMap<VcpuId, [Duration; 2]>,
    reads: BTreeMap<VcpuId, u64>,
}

impl Reported {
    /// The service up to this reading that has not been reported; it counts as reported. `spent` is
    /// the limit at which a segment ended, if it did: the kernel's timer may come a little early,
    /// and what is left then is as good as spent. It counts as had, and is had with the next grant,
    /// whose limit is a reading of the same meter. Else a policy would give it back as a budget of
    /// its own, and what it has left would fall to pieces.
    pub fn service(
        &mut self,
        vcpu: VcpuId,
        mode: Mode,
        meter: Duration,
        spent: Option<Duration>,
    ) -> Duration {
        let reported = &mut self.service.entry(vcpu).or_default()[mode as usize];
        let meter = spent.map_or(meter, |limit| meter.max(limit));
        let service = meter.saturating_sub(*reported);
        *reported = (*reported).max(meter);
        service
    }

    /// The reads of memory up to this reading that have not been reported; they count as reported.
    pub fn reads(&mut self, vcpu: VcpuId, meter: u64) -> u64 {
        let reported = self.reads.entry(vcpu).or_default();
        let reads = meter.saturating_sub(*reported);
        *reported = (*reported).max(meter);
        reads
    }

    /// Nothing will be reported of this VCPU any more.
    pub fn forget(&mut self, vcpu: VcpuId) {
        self.service.remove(&vcpu);
        self.reads.remove(&vcpu);
    }
}

/// One core.
pub struct KernelCore<K: Kernel> {
    id: CoreId,
    kernel: K,
    run_queue: RunQueue,
    /// The kernel has another run queue than this.
    is_unsent: bool,
    memory: Memory,
    vcpu_handles: Vec<VcpuHandle<K::Handle>>,
    outbox: Vec<(Instant, Event)>,
    stirred: bool,
    wake_at: Instant,
    /// The first thing that was refused.
    trouble: Option<io::Error>,
    dispatches: Dispatches,
    ends: Ends,
    notes: Vec<Record>,
}

impl<K: Kernel> KernelCore<K> {
    /// A core on which nothing runs yet.
    pub fn new(id: CoreId, kernel: K) -> Self {
        Self {
            id,
            kernel,
            run_queue: RunQueue::default(),
            is_unsent: false,
            memory: Memory::default(),
            vcpu_handles: Vec::with_capacity(64),
            outbox: Vec::with_capacity(4096),
            stirred: false,
            wake_at: Instant::NEVER,
            trouble: None,
            dispatches: Dispatches::default(),
            ends: Ends::default(),
            notes: Vec::new(),
        }
    }

    /// When the decider is to look for the sake of this core.
    ///
    /// # Errors
    /// Why the kernel has not the run queue that it should: nothing is promised then.
    pub fn due(&mut self) -> io::Result<Instant> {
        match self.trouble.take_if(|_| self.is_unsent) {
            Some(error) => Err(error),
            None => Ok(self.wake_at),
        }
    }
    /// The first thing that was refused, once.
    pub const fn take_trouble(&mut self) -> Option<io::Error> {
        self.trouble.take()
    }
    /// Lets go of all VCPU handles: the run has ended.
    pub fn take_vcpu_handles(&mut self) -> Vec<VcpuHandle<K::Handle>> {
        std::mem::take(&mut self.vcpu_handles)
    }

    fn index(&self, vcpu: VcpuId) -> Option<usize> {
        self.vcpu_handles.iter().position(|vcpu_handle| vcpu_handle.id == vcpu)
    }

    /// What was refused becomes an event of its own.
    fn report(&mut self, result: io::Result<()>, what: Refused) -> bool {
        let Err(error) = result else { return true };
        self.trouble.get_or_insert(error);
        let at = self.kernel.now();
        self.outbox.push((at, Event::Failed { core: self.id, what }));
        false
    }

    fn take_event(&mut self, event: KernelEvent) {
        match event {
            KernelEvent::Woke(vcpu, at) => {
                self.of(vcpu, VcpuHandle::suppose_runnable);
                self.dispatches.woke(vcpu, at);
                // What lapses by a wake says which one the sender knew of; so it is sent again even
                // where the policy decides the same.
                let lapses = |grant: &Grant| grant.vcpu == vcpu && grant.lapses;
                if self.run_queue.foreground.iter().any(lapses) {
                    (self.is_unsent, self.stirred) = (true, true);
                }
                self.outbox.push((at, Event::Woke { vcpu, on_behalf: None, exact: true }));
            }
            KernelEvent::Ran(ran) => self.take_segment(ran),
            KernelEvent::Spent(at) => {
                self.notes.extend(self.memory.closed(self.id));
                self.outbox.push((at, Event::AllowanceSpent { core: self.id }));
            }
        }
    }

    fn take_segment(&mut self, ran: Ran) {
        let Ran { vcpu, mode, from, to, meter, service, reads, until, end } = ran;
        // As `Reported` counts it: what is left of a budget that was ended counts as had.
        let had = if end == End::LimitReached { meter.max(until) } else { meter };
        self.of(vcpu, |vcpu_handle| {
            vcpu_handle.set_meter(mode, had);
            vcpu_handle.charge_reads(reads);
            if end == End::Blocked {
                vcpu_handle.suppose_blocked();
            }
        });
        if mode == Mode::Foreground {
            self.dispatches.ran(vcpu, from, to);
            if end == End::LimitReached {
                self.dispatches.stopped(vcpu);
                self.ends.add(meter.saturating_sub(until));
            }
        }
        let usage = Usage { service, reads, ..Usage::default() };
        let segment = Segment { vcpu, core: self.id, mode, from, to, usage, end };
        if mode == Mode::Foreground {
            self.dispatches.ran_ahead(&segment);
        }
        self.notes.extend(self.memory.ran(&segment));
        self.outbox.push((to, Event::Ran(segment)));
    }

    /// Does something to a VCPU handle, unless it has gone to another core meanwhile.
    fn of(&mut self, vcpu: VcpuId, act: impl FnOnce(&mut VcpuHandle<K::Handle>)) {
        if let Some(index) = self.index(vcpu) {
            act(&mut self.vcpu_handles[index]);
        }
    }

    /// The first entry in budget that has something to run and began by `now`.
    fn first(&self, now: Instant) -> Option<VcpuId> {
        let waits = |grant: &&Grant| {
            let own = self.vcpu_handles.iter().find(|it| it.id == grant.vcpu);
            let has_budget = |it: &&VcpuHandle<_>| it.meter(Mode::Foreground) < grant.until.0;
            grant.from <= now
                && own.filter(has_budget).is_some_and(|it| it.has_jobs || it.is_runnable())
        };
        self.run_queue.foreground.iter().find(waits).map(|grant| grant.vcpu)
    }

    /// The mode in which the law lets a VCPU run here, if it does.
    fn mode(&self, vcpu_handle: &VcpuHandle<K::Handle>) -> Option<Mode> {
        if self.is_closed() {
            return None;
        }
        let now = self.kernel.now();
        let allows = |grant: &Grant, mode| {
            grant.vcpu == vcpu_handle.id
                && grant.from <= now
                && vcpu_handle.meter(mode) < grant.until.0
                && vcpu_handle.has_memory(grant)
        };
        let RunQueue { foreground, background, background_allowed, .. } = &self.run_queue;
        if foreground.iter().any(|grant| allows(grant, Mode::Foreground)) {
            return Some(Mode::Foreground);
        }
        let may = *background_allowed && background.iter().any(|it| allows(it, Mode::Background));
        may.then_some(Mode::Background)
    }
}

impl<K: Kernel> ManagedCore<K::Handle> for KernelCore<K> {
    fn place(&self) -> Place<<K::Handle as Handle>::Site> {
        Place { core: self.id, share: Rate::ONE, site: self.kernel.site() }
    }
    fn counts(&self) -> Counts {
        self.kernel.counts()
    }
    fn is_closed(&self) -> bool {
        self.run_queue.allowance.is_reached(self.memory.reads())
    }
    /// The kernel tells it with what spent it, or when it takes a run queue by which it is.
    fn is_spent(&self) -> bool {
        false
    }
    /// Wherever it runs, the kernel stops it by the next run queue, and nowhere else starts it
    /// before.
    fn must_stop(&self, _: VcpuId) -> bool {
        false
    }
    fn was_relieved(&self) -> bool {
        false
    }
    fn has_room(&mut self, there: usize) -> Result<(), String> {
        let room = self.kernel.room();
        if there < room {
            return Ok(());
        }
        Err(format!(
            "{there} VCPUs are there, and the scheduler in the kernel has room for {room} at once \
             now; end one of them, or start the run with --backend agents"
        ))
    }

    fn vcpu_handles(&mut self) -> &mut [VcpuHandle<K::Handle>] {
        &mut self.vcpu_handles
    }
    fn read(&mut self, vcpu: VcpuId) -> Option<&VcpuHandle<K::Handle>> {
        let index = self.index(vcpu)?;
        let meters = self.kernel.meters(vcpu);
        let listed = self.vcpu_handles[index].rescan();
        if let Ok([foreground, background]) = meters {
            self.vcpu_handles[index].set_meter(Mode::Foreground, foreground);
            self.vcpu_handles[index].set_meter(Mode::Background, background);
        }
        let mode = self.mode(&self.vcpu_handles[index]);
        self.vcpu_handles[index].level = match mode {
            Some(Mode::Foreground) => Level::Foreground(0),
            Some(Mode::Background) => Level::Background,
            None => Level::Watched,
        };
        self.report(meters.map(drop).and(listed), Refused::Sample);
        self.vcpu_handles.get(index)
    }
    fn attach(&mut self, vcpu_handle: VcpuHandle<K::Handle>, sits: io::Result<bool>) -> bool {
        let id = vcpu_handle.id;
        self.vcpu_handles.push(vcpu_handle);
        let settled = sits.and_then(|_| self.kernel.settle(id));
        // What was sent of it before it had a slot was left out.
        let RunQueue { foreground, background, .. } = &self.run_queue;
        self.is_unsent |= foreground.iter().chain(background).any(|grant| grant.vcpu == id);
        self.report(settled, Refused::Move(id))
    }
    fn detach(&mut self, vcpu: VcpuId, end: End) -> Option<VcpuHandle<K::Handle>> {
        let index = self.index(vcpu)?;
        self.drain();
        if end == End::Exited {
            let left = self.kernel.leave(vcpu);
            self.report(left, Refused::Stop(vcpu));
        }
        Some(self.vcpu_handles.swap_remove(index))
    }
    /// Each thread that is born of one which belongs to the VCPU does so too, by what its parent is
    /// when it becomes runnable at first; by then it is listed. So it is enough to go on until all
    /// that are listed belonged to it before. The scheduler in the kernel never sees a real-time
    /// thread, as that of a process that was running already may be: each is made an ordinary one.
    fn list_threads(&mut self, vcpu: VcpuId) {
        let Some(index) = self.index(vcpu) else { return };
        let mut known: Vec<i32> = Vec::new();
        let mut result = Ok(());
        loop {
            let vcpu_handle = &mut self.vcpu_handles[index];
            result = result.and(vcpu_handle.rescan());
            let new = vcpu_handle.threads().iter().map(|thread| thread.tid);
            let new: Vec<_> = new.filter(|tid| !known.contains(tid)).collect();
            if new.is_empty() || result.is_err() {
                break;
            }
            for tid in &new {
                let handle = &mut self.vcpu_handles[index].handle;
                let joined = self.kernel.join(*tid, vcpu).and_then(|()| handle.make_ordinary(*tid));
                result =
                    result.and(joined.or_else(|it| if is_gone(&it) { Ok(()) } else { Err(it) }));
            }
            known.extend(new);
        }
        self.vcpu_handles[index].suppose_runnable();
        self.report(result, Refused::Start(vcpu));
    }
    fn hold_again(&mut self, _: VcpuId) {}
    /// Nothing is frozen here.
    fn hold(&mut self, _: bool) {}
    fn released(&mut self, _: VcpuId) {}

    fn follow(&mut self, run_queue: &RunQueue, decided: Instant) {
        let first = self.first(self.kernel.now());
        self.dispatches.had(first);
        self.memory.follow(&self.run_queue, run_queue, decided);
        self.run_queue.clone_from(run_queue);
        self.is_unsent = true;
    }
    /// The kernel does, when it gets the run queue.
    fn stop(&mut self, _: Option<Instant>, _: Instant) {}
    fn start(&mut self, _: Option<Instant>, _: Instant) {
        if std::mem::take(&mut self.is_unsent) {
            let sent = self.kernel.send(&self.run_queue);
            self.dispatches.sent(&self.run_queue, self.kernel.now());
            let first = self.run_queue.foreground.iter().chain(&self.run_queue.background).next();
            let first = first.map(|grant| grant.vcpu).unwrap_or_default();
            self.is_unsent = !self.report(sent, Refused::Start(first));
        }
    }
    fn note_first(&mut self, cause: Option<Instant>, decided: Instant) {
        self.dispatches.put_first(self.first(decided), cause, decided);
    }
    fn stir(&mut self) {
        self.stirred = true;
    }
    fn take_stirred(&mut self) -> bool {
        std::mem::take(&mut self.stirred)
    }
    fn wake_at(&mut self, at: Instant) {
        self.wake_at = at;
    }

    fn drain(&mut self) {
        while let Some(event) = self.kernel.next_event() {
            self.take_event(event);
        }
    }
    fn outbox(&mut self) -> &mut Vec<(Instant, Event)> {
        &mut self.outbox
    }
    fn take_notes(&mut self, into: &mut Vec<Record>) {
        into.append(&mut self.notes);
        into.extend(self.dispatches.notes(self.id, true));
    }
    fn meter_running(&mut self) {
        self.drain();
        match self.kernel.running() {
            Ok(None) => {}
            Ok(Some(ran)) => self.take_segment(Ran { end: End::Metered, ..ran }),
            Err(error) => _ = self.report(Err(error), Refused::Sample),
        }
    }
    /// What runs here goes on: a service VCPU has no threads.
    fn interrupt(&mut self) {
        self.meter_running();
    }
    fn end(&mut self) {
        self.drain();
        let note = self.ends.note(self.id);
        self.notes.push(Record::Note { at: self.kernel.now(), note });
    }
}
