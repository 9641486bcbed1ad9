//! The VCPU handle of a VCPU: its threads, its meters, and how it is held at present. What is done
//! to it goes through its [`Handle`].

use crate::enact::births::Births;
use crate::enact::clocks::Motion;
use crate::enact::retry::Retry;
use crate::{Handle, Stretch, is_gone};
use maracas_core::contract::{Grant, Mode, Usage};
use maracas_core::{CoreId, Duration, Instant, Rate, VcpuId};
use std::io;

/// How often the threads are asked for while numbers vanish under our hands. A second time is
/// enough for a thread that changed its number by `exec`, since it is alone then.
const LISTINGS: usize = 3;

/// How a VCPU is held: what its threads and its group are set to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// `SCHED_FIFO` at this priority, thawed.
    Foreground(u8),
    /// `SCHED_OTHER`, thawed.
    Background,
    /// `SCHED_OTHER`, thawed, though it is not to run: it is believed blocked, or the foreground
    /// has the core.
    Watched,
    /// `SCHED_OTHER`, frozen.
    Frozen,
}

/// One thread of a VCPU.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    /// Its number.
    pub tid: i32,
    /// Its real-time priority as we set it; 0 = `SCHED_OTHER`, `None` = we do not know.
    priority: Option<u8>,
    /// Whether it had something to run when it was last seen. A wake is seen only when it is
    /// switched in.
    pub runnable: bool,
}

/// A core on which a VCPU may sit.
#[derive(Clone, Copy, Debug)]
pub struct Place<S> {
    /// Its number.
    pub core: CoreId,
    /// The share of its time in which it runs programs.
    pub share: Rate,
    /// What a VCPU must know of it to be counted and confined there.
    pub site: S,
}

/// What it did to memory: on all cores, in any mode.
#[derive(Clone, Copy, Default, Debug)]
struct Traffic {
    reads: u64,
    references: u64,
    /// What has been reported to the policy of them.
    reported: (u64, u64),
}

/// The job of a silent program, which is taken to end when it has received C.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SilentJob {
    /// There is none.
    None,
    /// It ends when the meter in the foreground reads this.
    EndsAt(Duration),
    /// It has ended, which its core has reported.
    Reported,
}

/// A VCPU that has a VCPU handle.
#[derive(Debug)]
pub struct VcpuHandle<H> {
    /// Which VCPU.
    pub id: VcpuId,
    /// What actions on it are carried out by.
    pub handle: H,
    /// In the order of their numbers.
    threads: Vec<Thread>,
    /// How many of them are [`Thread::runnable`]: asked several times a decision.
    runnable: usize,
    /// The times between which `threads` was read from the kernel last: births before the first and
    /// ends before the second are in it already.
    pub listed: (Instant, Instant),
    /// Its demand comes as jobs.
    pub has_jobs: bool,
    /// Its last job has just been reported done: it is about to block, though no record says so
    /// yet.
    pub is_done: bool,
    /// The agent of its core was called to move it away: it is stopped by that alone, since a VCPU
    /// that is frozen on the way falls into the trap where it arrives, for milliseconds.
    pub is_leaving: bool,
    /// It was read since the core was told which threads are whose.
    pub relisted: bool,
    /// It had too many threads to be raised, and has not few again.
    crowded: bool,
    /// How it is held.
    pub level: Level,
    /// What the machine law says it should be; set by `Core::judge`.
    pub want: Level,
    /// The mode in which it was when it was frozen last.
    pub frozen_from: Mode,
    /// Frozen as far as the records have been read: its threads run into the trap, no more.
    pub trapped: bool,
    /// The mode as far as the records have been read.
    pub read_mode: Mode,
    /// What has been reported to the policy of the meters.
    pub reported_ns: [u64; 2],
    /// How its threads came and went lately.
    pub births: Births,
    /// What was refused of how it is to be held, and when that is tried again.
    pub retry: Retry,
    /// How its clocks moved, where there are no events.
    pub motion: Motion,
    /// Where in the core's outbox its last closed segment stands.
    pub last_closed: Option<usize>,
    /// Where its last segment stands of which the progress has not been reported.
    pub last_reported: Option<usize>,
    /// Up to when its meters were read while it is raised; what it ran since is on none of them.
    pub settled_at: Instant,
    meter_ns: [u64; 2],
    core: Option<CoreId>,
    /// From counts on this core to its meters, which are in the time of the core that it stands
    /// for.
    stretch: Stretch,
    /// Threads may have real-time priority.
    fifo: bool,
    memory: Traffic,
    /// At its end the agent is to look whatever the limit.
    pub silent_job: SilentJob,
    /// The thread that is raised first next time, so that threads share the budget.
    turn: usize,
    /// Which priority it had last; used again where it still fits.
    pub last_priority: u8,
    scratch: Vec<i32>,
    spare: Vec<Thread>,
}

impl<H: Handle> VcpuHandle<H> {
    /// A VCPU handle at rest, on no core yet; `fifo` = its threads may have real-time priority.
    pub fn new(id: VcpuId, handle: H, fifo: bool) -> Self {
        Self {
            id,
            handle,
            threads: Vec::with_capacity(64),
            runnable: 0,
            listed: (Instant::ZERO, Instant::ZERO),
            has_jobs: false,
            is_done: false,
            is_leaving: false,
            relisted: false,
            crowded: false,
            level: Level::Watched,
            want: Level::Watched,
            frozen_from: Mode::Background,
            trapped: false,
            read_mode: Mode::Background,
            reported_ns: [0; 2],
            births: Births::default(),
            retry: Retry::default(),
            motion: Motion::default(),
            last_closed: None,
            last_reported: None,
            settled_at: Instant::ZERO,
            meter_ns: [0; 2],
            core: None,
            stretch: Stretch::new(Rate::ONE),
            fifo,
            memory: Traffic::default(),
            silent_job: SilentJob::None,
            turn: 0,
            last_priority: 0,
            scratch: Vec::with_capacity(64),
            spare: Vec::with_capacity(64),
        }
    }

    /// The mode in which its service counts now: whatever it gets without budget is surplus. What
    /// its threads take to stop when they are frozen (1 us each) belongs to the mode that was
    /// stopped, or many threads would live beyond their budget: 160 got a tenth more.
    pub const fn mode(&self) -> Mode {
        match self.level {
            Level::Foreground(_) => Mode::Foreground,
            Level::Background | Level::Watched => Mode::Background,
            Level::Frozen => self.frozen_from,
        }
    }
    /// Its meter of `mode`, as of the last [`VcpuHandle::settle`].
    pub const fn meter(&self, mode: Mode) -> Duration {
        Duration::from_nanos(self.meter_ns[mode as usize])
    }
    /// Its meter of `mode` reads this, as who counts it elsewhere says.
    pub const fn set_meter(&mut self, mode: Mode, reading: Duration) {
        self.meter_ns[mode as usize] = reading.ticks();
    }
    /// Its threads, in the order of their numbers.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }
    /// Whether any of its threads has something to run, as far as seen.
    pub const fn is_runnable(&self) -> bool {
        self.runnable > 0
    }
    /// Believes that something in it runs, until a record says otherwise.
    pub fn suppose_runnable(&mut self) {
        self.threads.iter_mut().for_each(|thread| thread.runnable = true);
        self.runnable = self.threads.len();
    }

    /// Goes to another core: it must be at rest, and no core may be locked, since confining waits
    /// for locks of the kernel that programs may hold. Moving a cpuset costs 22 us (p50), an
    /// affinity 4 us; but a program can change its own affinity and not its cpuset. Returns whether
    /// its group was moved: threads may have come and gone meanwhile.
    ///
    /// # Errors
    /// As the host refuses; it sits where it sat then, or there without its meter being read.
    pub fn sit(&mut self, Place { core, share, site }: Place<H::Site>) -> io::Result<bool> {
        let moved = self.handle.go(core, site)?;
        // What it took on the old core until it was moved is on the old meter.
        let settled = self.settle();
        self.core = Some(core);
        self.handle.arrive(core);
        self.stretch = Stretch::new(share);
        settled.map(|()| moved)
    }

    /// Whether its threads and meters are on `core`.
    pub fn sits_on(&self, core: CoreId) -> bool {
        self.core == Some(core)
    }

    /// Whether it may be raised on `core`: only where it is metered, or nothing would end it, and
    /// only with `most` threads at most. With half of that it is raised again: the distance makes a
    /// program that comes and goes across the bound pay for its way.
    pub fn may_be_raised(&mut self, core: CoreId, most: usize) -> bool {
        let bound = if self.crowded { most / 2 } else { most };
        self.crowded = self.threads.len() > bound;
        self.sits_on(core) && !self.crowded
    }

    /// Brings the meters up to date: what was counted since the last time belongs to the present
    /// mode.
    ///
    /// # Errors
    /// As the host refuses; nothing is lost then.
    pub fn settle(&mut self) -> io::Result<()> {
        let mode = self.mode() as usize;
        let counted_ns = self.handle.ran()?;
        self.meter_ns[mode] += self.stretch.advance(counted_ns);
        Ok(())
    }

    /// The service in what the kernel counted between two records.
    pub fn stretched(&self, counted_ns: u64) -> u64 {
        self.stretch.of(counted_ns)
    }
    /// What the kernel counts until the meter has moved on by `rest`.
    pub fn counted(&self, rest: Duration) -> Duration {
        Duration::from_nanos(self.stretch.raw(rest.ticks()))
    }
    /// Since when at the latest it ran, if it had `service_ns` here until `to`.
    pub fn began(&self, to: Instant, service_ns: u64) -> Instant {
        Instant::from_ticks(to.ticks().saturating_sub(self.stretch.raw(service_ns)))
    }

    /// Whether the job of a silent program has received C and its core has not reported that.
    pub fn has_just_received(&self) -> bool {
        matches!(self.silent_job, SilentJob::EndsAt(at) if self.meter(Mode::Foreground) >= at)
    }
    /// The same, which its core reports now.
    pub fn report_received(&mut self) -> bool {
        let received = self.has_just_received();
        if received {
            self.silent_job = SilentJob::Reported;
        }
        received
    }
    /// Whether the job of a silent program has received C.
    pub fn has_received(&self) -> bool {
        self.silent_job == SilentJob::Reported || self.has_just_received()
    }
    /// Believes that all of it is blocked, until its clocks move.
    pub fn suppose_blocked(&mut self) {
        self.threads.iter_mut().for_each(|thread| thread.runnable = false);
        self.runnable = 0;
    }
    /// Service of `mode` that has not been reported to the policy.
    pub const fn unreported_ns(&self, mode: Mode) -> u64 {
        self.meter_ns[mode as usize].saturating_sub(self.reported_ns[mode as usize])
    }

    /// How much the kernel counts in the present mode until the meter reads `until`, or until the
    /// agent is to look whatever the limit; as of the last settling.
    pub fn rest(&self, until: Duration) -> Duration {
        let mode = self.mode();
        let meter = self.meter(mode);
        let until = match self.silent_job {
            SilentJob::EndsAt(at) if mode == Mode::Foreground && at > meter => at.min(until),
            SilentJob::EndsAt(_) | SilentJob::None | SilentJob::Reported => until,
        };
        // While the mode lasts, the count moves as the meter does, or slower by the core's share.
        self.counted(until.saturating_sub(meter))
    }
    /// Raises all threads. Another thread comes first each time, since the first in the queue of a
    /// priority runs until it blocks.
    pub fn raise(&mut self, priority: u8) -> io::Result<()> {
        if self.threads.iter().all(|thread| thread.priority == Some(priority)) {
            return Ok(());
        }
        self.turn = self.turn.wrapping_add(1);
        self.set_class(priority)
    }

    /// Another process may have changed the classes of its threads: they are set anew next time.
    pub fn forget_classes(&mut self) {
        self.threads.iter_mut().for_each(|thread| thread.priority = None);
    }

    /// Takes real-time priority from all threads.
    pub fn demote(&mut self) -> io::Result<()> {
        self.set_class(0)
    }

    /// Sets all threads to `priority`, 0 = `SCHED_OTHER`; does what it can and returns the first
    /// refusal.
    ///
    /// A number that vanished says little: a thread that calls `exec` takes its leader's number and
    /// keeps its class, and no record shows it. So the kernel is asked for the threads that exist,
    /// and every one of them is set, whatever was believed of it.
    fn set_class(&mut self, priority: u8) -> io::Result<()> {
        if !self.fifo {
            return Ok(());
        }
        let mut result = Ok(());
        for _ in 0..LISTINGS {
            let (mut vanished, count) = (false, self.threads.len());
            for i in 0..count {
                let thread = &mut self.threads[self.turn.wrapping_add(i) % count];
                if thread.priority == Some(priority) {
                    continue;
                }
                let set = self.handle.set_level(thread.tid, priority);
                thread.priority = set.is_ok().then_some(priority);
                match set {
                    Err(error) if is_gone(&error) => vanished = true,
                    set => result = result.and(set),
                }
            }
            if !vanished {
                break;
            }
            result = result.and(self.rescan());
            self.threads.iter_mut().for_each(|thread| thread.priority = None);
        }
        result
    }

    /// Adds a thread that a record showed: it was born without real-time priority.
    pub fn born(&mut self, tid: i32) {
        if let Err(place) = self.place(tid) {
            self.threads.insert(place, Thread { tid, priority: Some(0), runnable: true });
            self.runnable += 1;
        }
    }
    /// Forgets a thread.
    pub fn died(&mut self, tid: i32) {
        if let Ok(place) = self.place(tid) {
            let thread = self.threads.remove(place);
            self.runnable -= usize::from(thread.runnable);
        }
    }
    /// Believes that the thread of this number has something to run, or that it has not; whether
    /// there is such a thread.
    pub fn suppose(&mut self, tid: i32, runnable: bool) -> bool {
        let Ok(place) = self.place(tid) else { return false };
        let before = std::mem::replace(&mut self.threads[place].runnable, runnable);
        self.runnable = self.runnable + usize::from(runnable) - usize::from(before);
        true
    }
    /// Where the thread of this number is, or would be.
    pub fn place(&self, tid: i32) -> Result<usize, usize> {
        self.threads.binary_search_by_key(&tid, |thread| thread.tid)
    }
    /// Asks the kernel which threads there are.
    ///
    /// # Errors
    /// As the kernel refuses; what was known stays then.
    pub fn rescan(&mut self) -> io::Result<()> {
        let mut tids = std::mem::take(&mut self.scratch);
        let listed = self.handle.list(&mut tids);
        if let Ok(listed) = listed {
            tids.sort_unstable();
            let mut known = std::mem::take(&mut self.threads);
            let mut threads = std::mem::take(&mut self.spare);
            merge(&known, &tids, &mut threads);
            known.clear();
            (self.threads, self.spare) = (threads, known);
            self.runnable = self.threads.iter().filter(|thread| thread.runnable).count();
            self.listed = listed;
            self.relisted = true;
        }
        self.scratch = tids;
        listed.map(|_| ())
    }

    /// Leaves every thread that exists as the kernel would have it without us. Repeats until no
    /// thread was born meanwhile. Does every step, whichever is refused, and returns the first
    /// refusal.
    pub fn release(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        loop {
            let before = self.threads.len();
            result = result.and(self.rescan());
            self.threads.iter_mut().for_each(|thread| thread.priority = None);
            result = result.and(self.demote());
            result = result.and(self.rescan());
            if self.threads.len() <= before {
                break;
            }
        }
        result.and(self.handle.thaw_now())
    }
}

/// The threads numbered `tids` into `threads`, with what is known of them; both are in order.
fn merge(known: &[Thread], tids: &[i32], threads: &mut Vec<Thread>) {
    threads.clear();
    let mut known = known.iter().peekable();
    for &tid in tids {
        while known.next_if(|thread| thread.tid < tid).is_some() {}
        let same = known.next_if(|thread| thread.tid == tid).copied();
        threads.push(same.unwrap_or(Thread { tid, priority: None, runnable: true }));
    }
}

// What it does to memory.
impl<H: Handle> VcpuHandle<H> {
    /// Its memory meter, as it was read last.
    pub const fn reads(&self) -> u64 {
        self.memory.reads
    }
    /// Whether its memory meter, as it was read last, is below the limit of this grant.
    pub const fn has_memory(&self, grant: &Grant) -> bool {
        !grant.memory.is_reached(self.memory.reads)
    }
    /// Reads its counters on the core where it sits. By how much its memory meter moved on.
    pub fn count_memory(&mut self) -> u64 {
        let (reads, references) = self.handle.memory();
        self.memory.reads += reads;
        self.memory.references += references;
        reads
    }
    /// Takes reads for its own that were counted of its core.
    pub const fn charge_reads(&mut self, reads: u64) {
        self.memory.reads += reads;
    }
    /// Adds to `usage` what has not been reported to the policy.
    pub fn report_memory(&mut self, usage: &mut Usage) {
        let Traffic { reads, references, .. } = self.memory;
        let reported = std::mem::replace(&mut self.memory.reported, (reads, references));
        usage.reads += reads - reported.0;
        usage.references += references - reported.1;
    }
    /// Reads of memory that have not been reported to the policy.
    pub const fn unreported_reads(&self) -> u64 {
        self.memory.reads - self.memory.reported.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_keeps_what_is_known_and_forgets_what_is_gone() {
        let thread = |tid, priority| Thread { tid, priority, runnable: false };
        let known = [thread(3, Some(45)), thread(7, Some(0)), thread(9, Some(45))];
        let mut merged = vec![thread(1, None)];
        merge(&known, &[2, 3, 9, 12], &mut merged);
        let reported: Vec<_> = merged.iter().map(|t| (t.tid, t.priority, t.runnable)).collect();
        let all = [(2, None, true), (3, Some(45), false), (9, Some(45), false), (12, None, true)];
        assert_eq!(reported, all);
    }
}
