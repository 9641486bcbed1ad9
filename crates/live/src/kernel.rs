//! The scheduler in the kernel as the state of a core asks it ([`maracas_live_core::KernelCore`]),
//! and the one thread that decides for all cores then.
//!
//! The thread stands at the priority of an agent, on no core of its own. It is awake when the
//! policy wants to be asked, when something is asked of it, and when the kernel says that a budget
//! is spent or that a VCPU blocked or woke; what it missed meanwhile the kernel did by the run
//! queues that it has. The guardian watches that it wakes when it should.

use crate::agent::Agents;
use crate::clock::{Clock, monotonic_ns};
use crate::executor::vcpu::ThisVcpu;
use crate::executor::{Site, VcpuHandle, lock};
use crate::host::HardwareCore;
use crate::host::wait::{Poll, Token, Wakeup, wait};
use crate::sense::{Counting, VcpuEvents};
use maracas_core::contract::{End, Grant, Mode, RunQueue};
use maracas_core::{CoreId, Duration, Instant, VcpuId};
use maracas_kernel::{Event, Happened, Holds, Queue, Scheduler, VCPUS, Vcpu};
use maracas_live_core::{Counts, Kernel, KernelEvent, Ran, Reported, Slots, Taken};
use rustix::thread::gettid;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// One managed core under the scheduler in the kernel.
pub(crate) type KernelCore = maracas_live_core::KernelCore<ThisKernel>;

/// How often threads that wait without a budget are let run for once: the kernel ends a scheduler
/// under which one waits for 20 s (`timeout_ms` in `bpf/maracas.bpf.c`). Also how soon it is
/// noticed that it did so.
const TENDED: Duration = Duration::from_secs(2);
/// The thread's number among those whose heartbeats the guardian watches.
const THREAD: usize = 0;
/// How often it is looked at what a core holds, where that changes meanwhile: each time it was
/// charged, some microseconds ago at most.
const LOOKS: u32 = 4;
/// What has waited for so long is tended.
const WAITED: std::time::Duration = std::time::Duration::from_secs(1);

/// The scheduler, and what it said that no core has taken yet.
struct Shared {
    /// `None` = the run has ended.
    scheduler: Option<Scheduler>,
    clock: Clock,
    /// The kernel's number of each core, by its `CoreId`.
    numbers: Vec<HardwareCore>,
    /// Events by core.
    events: Vec<VecDeque<KernelEvent>>,
    reported: Reported,
    /// How often each VCPU woke, by what a core was told.
    wakes: BTreeMap<VcpuId, u16>,
    /// Of the VCPUs that have threads.
    slots: Slots,
}

impl Shared {
    fn scheduler(&mut self) -> io::Result<&mut Scheduler> {
        self.scheduler.as_mut().ok_or_else(|| io::Error::other("the scheduler has ended"))
    }

    /// Sorts all that the kernel has said by core.
    fn read(&mut self) -> io::Result<()> {
        while let Some(event) = self.scheduler()?.next_event()? {
            let core = self.numbers.iter().position(|number| number.0 == event.core);
            let Some(core) = core else { continue };
            let event = self.event(&event);
            self.events[core].extend(event);
        }
        Ok(())
    }

    /// `None` where it is said of a VCPU whose slot another one has by now.
    fn event(&mut self, event: &Event) -> Option<KernelEvent> {
        let at = self.clock.instant(event.at);
        Some(match event.what {
            Happened::Woke => KernelEvent::Woke(self.slots.vcpu(event.vcpu)?, at),
            Happened::Spent => KernelEvent::Spent(at),
            Happened::Ran { from, mode, meter, until, reads, end } => {
                let vcpu = self.slots.vcpu(event.vcpu)?;
                let from = self.clock.instant(from);
                let [meter, until] = [meter, until].map(Duration::from_nanos);
                let (mode, end) = (mode_of(mode), end_of(end));
                let spent = (end == End::LimitReached).then_some(until);
                let service = self.reported.service(vcpu, mode, meter, spent);
                let reads = self.reported.reads(vcpu, reads);
                let to = at;
                KernelEvent::Ran(Ran { vcpu, mode, from, to, meter, service, reads, until, end })
            }
        })
    }

    /// The number of a VCPU, which gets one where it has none.
    fn number(&mut self, vcpu: VcpuId) -> io::Result<u32> {
        if let Some(number) = self.slots.number(vcpu) {
            return Ok(number);
        }
        // What is said of who had the slot before is taken for its own.
        self.read()?;
        let Taken { number, before } = self.slots.take(vcpu).ok_or_else(|| no_slot(vcpu))?;
        if let Some(before) = before {
            self.reported.forget(before);
            self.wakes.remove(&before);
        }
        self.scheduler()?.clear(number);
        Ok(number)
    }

    /// Lets VCPUs go that have left and of which the kernel has nothing any more.
    fn let_go(&mut self) -> io::Result<()> {
        for number in self.slots.left() {
            let scheduler = self.scheduler()?;
            // A thread that was on its way into the queue when it left may be there still.
            scheduler.tend(number, true, std::time::Duration::ZERO)?;
            if scheduler.vcpu(number).is_idle {
                self.slots.let_go(number);
            }
        }
        Ok(())
    }

    /// What a core holds, as far as it has come by now.
    fn running(&mut self, core: HardwareCore) -> io::Result<Option<Ran>> {
        for _ in 0..LOOKS {
            let scheduler = self.scheduler()?;
            // In this order: what is charged in between is rather missed than counted twice.
            let Some(first) = scheduler.core(core.0)?.holds else { return Ok(None) };
            let vcpu = scheduler.vcpu(first.vcpu);
            let now = monotonic_ns();
            let core = scheduler.core(core.0)?;
            if let Some(holds) = core.holds.filter(|it| it.is_as(&first)) {
                let reads = vcpu.reads + core.pending;
                return Ok(self.open(&holds, now, &Vcpu { reads, ..vcpu }));
            }
        }
        Ok(None)
    }

    /// The segment that a core holds, at `now`, by the meter of time as it was charged last and
    /// the reads up to now.
    fn open(&mut self, holds: &Holds, now: u64, charged: &Vcpu) -> Option<Ran> {
        let (vcpu, mode) = (self.slots.vcpu(holds.vcpu)?, mode_of(holds.mode));
        let [from, to] = [holds.from, now].map(|at| self.clock.instant(at));
        let meter = holds.meter_at(now, charged.meters[mode as usize]);
        let [meter, until] = [meter, holds.until].map(Duration::from_nanos);
        let service = self.reported.service(vcpu, mode, meter, None);
        let reads = self.reported.reads(vcpu, charged.reads);
        Some(Ran { vcpu, mode, from, to, meter, service, reads, until, end: End::Metered })
    }
}

const fn mode_of(number: u32) -> Mode {
    if number == 0 { Mode::Foreground } else { Mode::Background }
}

/// An end by its number (`enum law_end`).
const fn end_of(number: u32) -> End {
    match number {
        1 => End::Blocked,
        3 => End::LimitReached,
        4 => End::MemorySpent,
        _ => End::Preempted,
    }
}

/// One core of this host, whose law the kernel carries out.
pub(crate) struct ThisKernel {
    id: CoreId,
    hardware: HardwareCore,
    /// Whether what VCPUs read here is counted.
    is_counted: bool,
    clock: Clock,
    shared: Arc<Mutex<Shared>>,
}

impl Kernel for ThisKernel {
    type Handle = ThisVcpu;

    fn now(&self) -> Instant {
        self.clock.now()
    }
    fn counts(&self) -> Counts {
        Counts { reads: self.is_counted, references: false }
    }
    fn site(&self) -> Site {
        Site { hardware: self.hardware, counts: VcpuEvents::default() }
    }
    fn next_event(&mut self) -> Option<KernelEvent> {
        let mut shared = lock(&self.shared);
        let core = usize::from(self.id.0);
        if shared.events[core].is_empty() {
            // Where that is refused, the thread learns of it before its next decision.
            let _ = shared.read();
        }
        let event = shared.events[core].pop_front();
        if let Some(KernelEvent::Woke(vcpu, _)) = event {
            let wakes = shared.wakes.entry(vcpu).or_default();
            *wakes = wakes.wrapping_add(1);
        }
        event
    }
    fn running(&mut self) -> io::Result<Option<Ran>> {
        lock(&self.shared).running(self.hardware)
    }
    fn meters(&mut self, vcpu: VcpuId) -> io::Result<[Duration; 2]> {
        let mut shared = lock(&self.shared);
        let Some(number) = shared.slots.number(vcpu) else { return Ok([Duration::ZERO; 2]) };
        Ok(shared.scheduler()?.vcpu(number).meters.map(Duration::from_nanos))
    }
    fn room(&mut self) -> usize {
        let mut shared = lock(&self.shared);
        // Where that is refused there is less room; whatever ended the scheduler ends the run.
        let _ = shared.let_go();
        shared.slots.room()
    }
    fn send(&mut self, run_queue: &RunQueue) -> io::Result<()> {
        let mut shared = lock(&self.shared);
        let queue = queue(run_queue, &self.clock, &shared.slots, &shared.wakes).ok_or_else(|| {
            let [foreground, background] = [run_queue.foreground.len(), run_queue.background.len()];
            io::Error::other(format!(
                "{}: its run queue has {foreground} entries in budget and {background} beside; the \
                 scheduler in the kernel has room for {} and {}; use --backend agents",
                self.id,
                maracas_kernel::FOREGROUND,
                maracas_kernel::BACKGROUND,
            ))
        })?;
        shared.scheduler()?.send(self.hardware.0, &queue)
    }
    fn settle(&mut self, vcpu: VcpuId) -> io::Result<()> {
        let mut shared = lock(&self.shared);
        let number = shared.number(vcpu)?;
        shared.scheduler()?.settle(number, self.hardware.0)
    }
    fn join(&mut self, tid: i32, vcpu: VcpuId) -> io::Result<()> {
        let mut shared = lock(&self.shared);
        let number = shared.number(vcpu)?;
        shared.scheduler()?.join(tid, number)
    }
    fn leave(&mut self, vcpu: VcpuId) -> io::Result<()> {
        let mut shared = lock(&self.shared);
        let Some(number) = shared.slots.leave(vcpu) else { return Ok(()) };
        shared.scheduler()?.tend(number, true, std::time::Duration::ZERO).map(drop)
    }
}

fn no_slot(vcpu: VcpuId) -> io::Error {
    io::Error::other(format!("{vcpu}: no slot is free in the scheduler in the kernel"))
}

/// A run queue as the kernel reads it, with instants by its own clock, and how often VCPUs woke by
/// what the policy knows; `None` where there is no room for it.
fn queue(
    run_queue: &RunQueue,
    clock: &Clock,
    slots: &Slots,
    wakes: &BTreeMap<VcpuId, u16>,
) -> Option<Queue> {
    let woke = |vcpu: &VcpuId| wakes.get(vcpu).copied().unwrap_or_default();
    let mut queue = Queue::new(run_queue.allowance.0, run_queue.background_allowed);
    // What has no slot has no threads: service VCPUs, and what waits for its program.
    let grant = |grant: &Grant| {
        Some(maracas_kernel::Grant {
            memory: grant.memory.0,
            from: if grant.is_ahead() { clock.monotonic_ns(grant.from) } else { 0 },
            lapses_after: grant.lapses.then(|| woke(&grant.vcpu)),
            silent: grant.silent,
            ..maracas_kernel::Grant::new(slots.number(grant.vcpu)?, grant.until.0.ticks())
        })
    };
    let RunQueue { foreground, background, .. } = run_queue;
    let mut has_room = foreground.iter().filter_map(grant).all(|it| queue.push_foreground(it));
    has_room &= background.iter().filter_map(grant).all(|it| queue.push_background(it));
    has_room.then_some(queue)
}

/// The cores of a run whose law the kernel carries out.
pub(crate) struct KernelCores {
    pub(crate) cores: Vec<Arc<Mutex<KernelCore>>>,
    shared: Arc<Mutex<Shared>>,
    clock: Clock,
    poll: Poll,
    /// Wakes the thread.
    pub(crate) wakeup: Arc<Wakeup>,
    /// Why the thread ended before the run did.
    trouble: Mutex<Option<io::Error>>,
}

impl KernelCores {
    /// Attaches the scheduler: from now on all threads of the host run under it, and reads of
    /// memory are counted as `counting` says.
    ///
    /// # Errors
    /// Where this was built without it, or the kernel refuses it or an event.
    pub(crate) fn open(
        numbers: &[HardwareCore],
        counting: Option<&Counting>,
        clock: &Clock,
    ) -> io::Result<Self> {
        let counted: Vec<u32> =
            counting.iter().flat_map(|counting| &counting.cores).map(|core| core.0).collect();
        let scheduler = match counting {
            None => Scheduler::attach(None, VCPUS)?,
            Some(it) => Scheduler::attach_counting(None, VCPUS, &it.reads(), &counted)?,
        };
        let (poll, wakeup) = (Poll::new()?, Arc::new(Wakeup::new()?));
        poll.add_edges(scheduler.fd(), Token::Records)?;
        poll.add(wakeup.fd(), Token::Wakeup)?;
        let shared = Arc::new(Mutex::new(Shared {
            scheduler: Some(scheduler),
            clock: clock.clone(),
            numbers: numbers.to_vec(),
            events: vec![VecDeque::with_capacity(1024); numbers.len()],
            reported: Reported::default(),
            wakes: BTreeMap::new(),
            slots: Slots::new(VCPUS, VCPUS),
        }));
        let core = |(id, hardware): (usize, &HardwareCore)| {
            let (id, hardware, clock) = (CoreId(id as u16), *hardware, clock.clone());
            let (is_counted, shared) = (counted.contains(&hardware.0), Arc::clone(&shared));
            let kernel = ThisKernel { id, hardware, is_counted, clock, shared };
            Arc::new(Mutex::new(KernelCore::new(id, kernel)))
        };
        let cores = numbers.iter().enumerate().map(core).collect();
        let trouble = Mutex::default();
        Ok(Self { cores, shared, clock: clock.clone(), poll, wakeup, trouble })
    }

    /// The life of the thread that decides. `agents` are none; what they would share it uses.
    pub(crate) fn live(&self, agents: &Agents<'_>) -> bool {
        if let Some(heartbeats) = &agents.heartbeats {
            heartbeats.is_in_kernel();
            heartbeats.wakes(THREAD, monotonic_ns());
        }
        let lived = self.decide(agents);
        agents.heartbeats.iter().for_each(|heartbeats| heartbeats.rest(THREAD));
        let has_ended_well = lived.is_ok();
        *lock(&self.trouble) = lived.err();
        has_ended_well
    }

    fn decide(&self, agents: &Agents<'_>) -> io::Result<()> {
        self.poll.add(agents.mail.fd(), Token::Mail)?;
        // A real-time thread is not under the scheduler at all: then this says nothing.
        let own = gettid().as_raw_nonzero().get();
        lock(&self.shared).scheduler()?.put_first(own)?;
        let mut ready = Vec::with_capacity(8);
        let mut own = CoreId(0);
        let mut tended = self.clock.now();
        while !agents.halt.load(Ordering::Acquire) {
            let now = self.clock.now();
            lock(&self.shared).read()?;
            agents.deciders.tell_all();
            // None where the run is ending after a panic.
            let Some(called) = agents.deciders.round(own, Some(now)) else { return Ok(()) };
            own = called.iter().next().unwrap_or_default();
            let cores = self.cores.iter().map(|core| lock(core).due());
            let due = cores.collect::<io::Result<Vec<_>>>()?.into_iter().min();
            if now >= tended.saturating_add(TENDED) {
                self.tend()?;
                tended = now;
            }
            if !called.is_empty() {
                continue;
            }
            let due = due.unwrap_or(Instant::NEVER).min(tended.saturating_add(TENDED));
            let now = self.clock.now();
            let [now_ns, due_ns] = [now, due.max(now)].map(|at| self.clock.monotonic_ns(at));
            let heartbeats = agents.heartbeats.iter();
            heartbeats.for_each(|it| it.sleeps_from(THREAD, now_ns, due_ns));
            wait(self.poll.fd(), Some(due.saturating_since(now)), &mut ready)?;
            agents.heartbeats.iter().for_each(|it| it.wakes(THREAD, monotonic_ns()));
            for token in &ready {
                match token {
                    Token::Mail => agents.mail.acknowledge(),
                    Token::Wakeup => self.wakeup.acknowledge(),
                    Token::Records
                    | Token::Vcpu(_)
                    | Token::Meter
                    | Token::Done
                    | Token::Guardian
                    | Token::Ended(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Lets what waits without a budget run for once, and what has left go, and sees whether the
    /// scheduler is there.
    fn tend(&self) -> io::Result<()> {
        let mut shared = lock(&self.shared);
        shared.scheduler()?.check()?;
        for number in shared.slots.numbers() {
            shared.scheduler()?.tend(number, false, WAITED)?;
        }
        shared.let_go()
    }

    /// Gives the host back to the kernel's own scheduler; the VCPU handles, and the first thing
    /// that was refused, if any was.
    pub(crate) fn release(&self) -> (Vec<VcpuHandle>, Option<io::Error>) {
        // Dropped at once: it detaches the scheduler where the kernel has one.
        lock(&self.shared).scheduler = None;
        let (mut released, mut trouble) = (Vec::new(), lock(&self.trouble).take());
        for core in &self.cores {
            let mut core = lock(core);
            released.append(&mut core.take_vcpu_handles());
            trouble = trouble.or(core.take_trouble());
        }
        (released, trouble)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::contract::{Limit, MemoryLimit};

    #[test]
    fn a_run_queue_is_sent_whole_or_refused() {
        let mut run_queue = RunQueue { background_allowed: false, ..RunQueue::default() };
        let until = Limit(Duration::from_nanos(7));
        let clock = Clock::start();
        let ahead = Instant::from_ticks(11);
        let wakes = BTreeMap::from([(VcpuId(3000), 5)]);
        let mut slots = Slots::new(VCPUS, VCPUS);
        let numbers = [3000, 4000].map(|id| slots.take(VcpuId(id)).map(|taken| taken.number));
        assert_eq!(numbers, [Some(0), Some(1)]);
        run_queue.foreground.push(Grant::new(VcpuId(7), until));
        run_queue.foreground.push(Grant::new(VcpuId(3000), until).silently());
        run_queue.foreground.push(Grant::new(VcpuId(3000), until).ahead(ahead).until_wake());
        let beside = Grant { memory: MemoryLimit(9), ..Grant::new(VcpuId(4000), until) };
        run_queue.background.push(beside);
        let mut expected = Queue::new(u64::MAX, false);
        // VCPU 7 has no slot.
        let grant = maracas_kernel::Grant::new(0, 7);
        assert!(expected.push_foreground(maracas_kernel::Grant { silent: true, ..grant }));
        let coming = grant.ahead(clock.monotonic_ns(ahead));
        let coming = maracas_kernel::Grant { lapses_after: Some(5), ..coming };
        assert!(expected.push_foreground(coming));
        let beside = maracas_kernel::Grant { memory: 9, ..maracas_kernel::Grant::new(1, 7) };
        assert!(expected.push_background(beside));
        assert_eq!(queue(&run_queue, &clock, &slots, &wakes), Some(expected));
        let one = Grant::new(VcpuId(3000), until);
        run_queue.foreground = vec![one; maracas_kernel::FOREGROUND + 1];
        assert!(queue(&run_queue, &clock, &slots, &wakes).is_none());
    }
}
