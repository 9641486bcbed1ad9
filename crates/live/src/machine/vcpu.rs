//! The body of a VCPU: its threads, its group, its meter, and how it is held at present.

mod clocks;
mod memory;

use crate::agent::wait::Token;
use crate::clock::monotonic_ns;
use crate::enact::births::Births;
use crate::enact::brake::Brake;
use crate::enact::clocks::Motion;
use crate::host::HardwareCore;
use crate::host::cgroup::Group;
use crate::host::sched;
use crate::machine::{Colors, Means, Progress, Stretch, VcpuStatus};
use crate::perf::{Instructions, Service};
use crate::sense::VcpuEvents;
use maracas_core::contract::Mode;
use maracas_core::{CoreId, Duration, Instant, Rate, VcpuId};
use std::io;
use std::sync::Arc;

/// With more threads than this a VCPU is never raised: raising and lowering costs the agent 1 to
/// 2 us a thread, twice a period, so that 256 take half a millisecond from everybody on the core.
const MOST_RAISED: usize = 256;
/// With so few it may be raised again. The distance makes a program that comes and goes across the
/// bound pay for its way.
const FEW_AGAIN: usize = MOST_RAISED / 2;
/// How often the threads are asked for while numbers vanish under our hands. A second time is
/// enough for a thread that changed its number by `exec`, since it is alone then.
const LISTINGS: usize = 3;

/// How a VCPU is held: what its threads and its group are set to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Post {
    /// `SCHED_FIFO` at this priority, thawed.
    Foreground(u8),
    /// `SCHED_OTHER`, thawed.
    Background,
    /// `SCHED_OTHER`, thawed, though it shall not run: it is believed blocked, or the foreground
    /// has the core.
    Watched,
    /// `SCHED_OTHER`, frozen.
    Frozen,
}

/// One thread of a VCPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    /// Its number.
    pub(crate) tid: i32,
    /// Its real-time priority as we set it; 0 = `SCHED_OTHER`, `None` = we do not know.
    priority: Option<u8>,
    /// Whether it had something to run when it was last seen. A wake is seen only when it is
    /// switched in.
    pub(crate) runnable: bool,
}

/// A core on which a VCPU may sit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) core: CoreId,
    /// Its number in the kernel.
    pub(crate) hardware: HardwareCore,
    /// The share of its time in which it runs programs.
    pub(crate) share: Rate,
    /// What is counted of whoever sits there.
    pub(crate) counts: VcpuEvents,
}

/// The VCPU's counter on one core, and how much of it is in the meters.
#[derive(Debug)]
struct Seat {
    service: Service,
    /// Whether the core's agent waits for births and ends of its threads there.
    listened: bool,
    seen_ns: u64,
    /// What it does with its time, where that is counted so.
    instructions: Option<Instructions>,
    /// What it does to memory.
    memory: memory::Counters,
}

/// A VCPU that has a body.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) id: VcpuId,
    pub(crate) name: String,
    pub(crate) brake: Arc<Brake>,
    group: Arc<Group>,
    /// In the order of their numbers.
    pub(crate) threads: Vec<Thread>,
    /// The monotonic times between which `threads` was read from the kernel last: births before the
    /// first and ends before the second are in it already.
    pub(crate) listed_ns: (u64, u64),
    /// Its demand comes as jobs.
    pub(crate) has_jobs: bool,
    /// Its last job has just been told done: it is about to block, though no record says so yet.
    pub(crate) is_done: bool,
    /// The agent of its core was called to move it away: it is stopped by that alone, since who is
    /// frozen on the way falls into the trap where he arrives, for milliseconds.
    pub(crate) is_leaving: bool,
    /// It was read since the core was told whose threads are whose.
    pub(crate) relisted: bool,
    /// It had too many threads to be raised, and has not few again.
    crowded: bool,
    pub(crate) post: Post,
    /// What the machine law says it should be; set by `Core::judge`.
    pub(crate) want: Post,
    /// The mode in which it was when it was frozen last.
    pub(crate) frozen_from: Mode,
    /// Frozen as far as the records have been read: its threads run into the trap, no more.
    pub(crate) trapped: bool,
    /// The mode as far as the records have been read.
    pub(crate) read_mode: Mode,
    /// What the policy has been told of the meters.
    pub(crate) told_ns: [u64; 2],
    /// How its threads came and went lately.
    pub(crate) births: Births,
    /// How its clocks moved, where there are no events.
    pub(crate) motion: Motion,
    /// Where in the core's outbox its last closed stint stands.
    pub(crate) last_closed: Option<usize>,
    /// Where its last stint stands of which the progress has not been told.
    pub(crate) last_told: Option<usize>,
    /// By which its programs are asked to recolour their pages, where they can be.
    pub(crate) colors: Option<Colors>,
    meter_ns: [u64; 2],
    seats: Vec<Option<Seat>>,
    core: Option<CoreId>,
    /// From counts on this core to its meters, which are in the time of the core that it stands
    /// for.
    stretch: Stretch,
    means: Means,
    progress: Progress,
    memory: memory::Meter,
    /// The program in it, if we started one; it stands for all where no group lists them.
    root: Option<i32>,
    /// The clocks that are read where there are no events, and what they read last: of the
    /// processes in it or, where only single threads are in it, of those.
    clocks: Vec<(i32, u64)>,
    /// To which core its group is confined.
    confined: HardwareCore,
    /// The foreground reading at which the agent shall look whatever the mark: there a job of a
    /// silent program ends.
    pub(crate) look_at: Option<Duration>,
    /// The thread that is raised first next time, so that threads share the budget.
    turn: usize,
    /// Which priority it had last; used again where it still fits.
    pub(crate) last_priority: u8,
    scratch: Vec<i32>,
    spare: Vec<Thread>,
}

impl Live {
    /// A body at rest, on no core yet; `confined` is where its group is confined to, and `root` the
    /// program in it if we started one.
    pub(crate) fn new(
        id: VcpuId,
        name: String,
        group: Arc<Group>,
        confined: HardwareCore,
        root: Option<i32>,
        means: Means,
        progress: Progress,
    ) -> Self {
        Self {
            id,
            name,
            brake: Arc::new(Brake::new(Arc::clone(&group), root.filter(|_| !means.freezer))),
            group,
            threads: Vec::with_capacity(64),
            listed_ns: (0, 0),
            has_jobs: false,
            is_done: false,
            is_leaving: false,
            relisted: false,
            crowded: false,
            post: Post::Watched,
            want: Post::Watched,
            frozen_from: Mode::Background,
            trapped: false,
            read_mode: Mode::Background,
            told_ns: [0; 2],
            births: Births::default(),
            motion: Motion::default(),
            last_closed: None,
            last_told: None,
            colors: None,
            meter_ns: [0; 2],
            seats: Vec::new(),
            core: None,
            stretch: Stretch::new(Rate::ONE),
            means,
            progress,
            memory: memory::Meter::default(),
            root,
            clocks: Vec::new(),
            confined,
            look_at: None,
            turn: 0,
            last_priority: 0,
            scratch: Vec::with_capacity(64),
            spare: Vec::with_capacity(64),
        }
    }

    /// The mode in which its service counts now: whatever it gets without budget is surplus. What
    /// its threads take to stop when they are frozen (1 us each) belongs to the mode that was
    /// stopped, or many threads would live beyond their budget: 160 got a tenth more.
    pub(crate) const fn mode(&self) -> Mode {
        match self.post {
            Post::Foreground(_) => Mode::Foreground,
            Post::Background | Post::Watched => Mode::Background,
            Post::Frozen => self.frozen_from,
        }
    }
    /// Its meter of `mode`, as of the last [`Live::settle`].
    pub(crate) const fn meter(&self, mode: Mode) -> Duration {
        Duration::from_nanos(self.meter_ns[mode as usize])
    }
    /// Whether any of its threads has something to run, as far as seen.
    pub(crate) fn is_runnable(&self) -> bool {
        self.threads.iter().any(|thread| thread.runnable)
    }
    /// Believes that something in it runs, until a record says otherwise.
    pub(crate) fn suppose_runnable(&mut self) {
        self.threads.iter_mut().for_each(|thread| thread.runnable = true);
    }

    /// Goes to another core: it must be at rest, and no core may be locked, since confining waits
    /// for locks of the kernel that programs may hold. Moving a cpuset costs 22 us (p50), an
    /// affinity 4 us; but a program can change its own affinity and not its cpuset. Tells whether
    /// its group was moved: threads may have come and gone meanwhile.
    pub(crate) fn sit(
        &mut self,
        Place { core, hardware, share, counts }: Place,
    ) -> io::Result<bool> {
        if self.means.events {
            self.seat_on(core, hardware, counts)?;
        }
        let moved = self.confined != hardware;
        if moved {
            self.group.confine(hardware)?;
            self.confined = hardware;
        }
        // What it took on the old core until it was moved is on the old meter.
        let settled = self.settle();
        self.core = Some(core);
        self.stretch = Stretch::new(share);
        settled.map(|()| moved)
    }

    /// Has `event` told of what becomes readable when threads are born or end where it sits now.
    pub(crate) fn listen_by(
        &mut self,
        event: impl FnOnce(i32) -> io::Result<()>,
    ) -> io::Result<()> {
        match seat(&mut self.seats, self.core) {
            Some(seat) if !seat.listened => {
                event(seat.service.fd())?;
                seat.listened = true;
                Ok(())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Opens beforehand what it is counted by on cores to which it may be moved: that is most of
    /// what a first move there takes. What is refused is tried again when it comes there.
    pub(crate) fn prepare(
        &mut self,
        cores: impl Iterator<Item = (CoreId, HardwareCore)>,
        counts: VcpuEvents,
    ) {
        if self.means.events {
            cores.for_each(|(core, hardware)| _ = self.seat_on(core, hardware, counts));
        }
    }

    /// Its counters on a core, opened where it has none there.
    fn seat_on(
        &mut self,
        core: CoreId,
        hardware: HardwareCore,
        counts: VcpuEvents,
    ) -> io::Result<&mut Seat> {
        let index = usize::from(core.0);
        if self.seats.len() <= index {
            self.seats.resize_with(index + 1, || None);
        }
        let place = &mut self.seats[index];
        if place.is_none() {
            let group = self.group.dir_fd().ok_or(io::ErrorKind::Unsupported)?;
            let service = Service::open(group, hardware.0)?;
            // Refused, it is told as progress of nothing, and a note at the end says why.
            let counted = self.progress.is_instructions();
            let instructions =
                counted.then(|| Instructions::of_group(group, hardware.0).ok()).flatten();
            let memory = memory::Counters::open(counts, group, hardware);
            let (listened, seen_ns) = (false, 0);
            let seat = Seat { service, listened, seen_ns, instructions, memory };
            *place = Some(seat);
        }
        place.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Whether it may be raised on `core`: only where it is metered, or nothing would end it, and
    /// only while raising it costs little.
    pub(crate) fn may_be_raised(&mut self, core: CoreId) -> bool {
        let bound = if self.crowded { FEW_AGAIN } else { MOST_RAISED };
        self.crowded = self.threads.len() > bound;
        self.core == Some(core) && !self.crowded
    }

    /// Brings the meters up to date: what was counted since the last time belongs to the present
    /// mode.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        let mode = self.mode() as usize;
        if let Some(seat) = seat(&mut self.seats, self.core) {
            let count = seat.service.count()?;
            self.meter_ns[mode] += self.stretch.advance(count.saturating_sub(seat.seen_ns));
            seat.seen_ns = count;
        } else if !self.means.events {
            let gained_ns = self.read_clocks();
            self.meter_ns[mode] += self.stretch.advance(gained_ns);
        }
        Ok(())
    }

    /// The service in what the kernel counted between two records.
    pub(crate) fn stretched(&self, counted_ns: u64) -> u64 {
        self.stretch.of(counted_ns)
    }
    /// What the kernel counts until the meter has moved on by `rest`.
    pub(crate) fn counted(&self, rest: Duration) -> Duration {
        Duration::from_nanos(self.stretch.raw(rest.ticks()))
    }
    /// Since when at the latest it ran, if it had `service_ns` here until `to`.
    pub(crate) fn began(&self, to: Instant, service_ns: u64) -> Instant {
        Instant::from_ticks(to.ticks().saturating_sub(self.stretch.raw(service_ns)))
    }

    /// The progress of its programs since this was asked last, on the core where it sits.
    pub(crate) fn gain(&mut self) -> u64 {
        let seat = seat(&mut self.seats, self.core);
        self.progress.gain(seat.and_then(|seat| seat.instructions.as_mut()))
    }
    /// What is to be said of its progress at its end, if anything.
    pub(crate) fn remark(&self) -> Option<String> {
        let counters = || self.seats.iter().flatten().map(|seat| seat.instructions.as_ref());
        let refused = self.progress.is_instructions() && counters().any(|one| one.is_none());
        self.progress.remark(refused, counters().flatten().any(|counter| counter.was_shared))
    }

    /// The program that stands for all, if the host cannot list the group.
    fn whole(&self) -> Option<i32> {
        self.root.filter(|_| self.group.path().is_none())
    }
    /// Believes that all of it is blocked, until its clocks move.
    pub(crate) fn suppose_blocked(&mut self) {
        self.threads.iter_mut().for_each(|thread| thread.runnable = false);
    }
    /// Service of `mode` that the policy has not been told of.
    pub(crate) const fn untold_ns(&self, mode: Mode) -> u64 {
        self.meter_ns[mode as usize].saturating_sub(self.told_ns[mode as usize])
    }

    /// How much the kernel counts in the present mode until the meter reads `until`, or until the
    /// agent shall look whatever the mark; as of the last settling.
    pub(crate) fn rest(&self, until: Duration) -> Duration {
        let mode = self.mode();
        let meter = self.meter(mode);
        let look = self.look_at.filter(|at| mode == Mode::Foreground && *at > meter);
        let until = look.map_or(until, |at| at.min(until));
        // While the mode lasts, the count moves as the meter does, or slower by the core's share.
        self.counted(until.saturating_sub(meter))
    }
    /// Its event on its present core, and by which word it is waited for.
    pub(crate) fn event(&self) -> Option<(i32, Token)> {
        let seat = self.seats.get(usize::from(self.core?.0))?.as_ref()?;
        Some((seat.service.fd(), Token::Vcpu(self.id)))
    }

    /// Raises all threads. Another thread comes first each time, since the first in the queue of a
    /// priority runs until it blocks.
    pub(crate) fn raise(&mut self, priority: u8) -> io::Result<()> {
        let changes = |thread: &Thread| thread.priority != Some(priority);
        self.turn = self.turn.wrapping_add(usize::from(self.threads.iter().any(changes)));
        self.set_class(priority)
    }

    /// Somebody else may have changed the classes of its threads: they are set anew next time.
    pub(crate) fn forget_classes(&mut self) {
        self.threads.iter_mut().for_each(|thread| thread.priority = None);
    }

    /// Takes real-time priority from all threads.
    pub(crate) fn demote(&mut self) -> io::Result<()> {
        self.set_class(0)
    }

    /// Sets all threads to `priority`, 0 = `SCHED_OTHER`; does what it can and tells the first
    /// refusal.
    ///
    /// A number that vanished says little: a thread that calls `exec` takes its leader's number and
    /// keeps its class, and no record tells of it. So the kernel is asked who is there, and every
    /// one of them is set, whatever we believed of it.
    fn set_class(&mut self, priority: u8) -> io::Result<()> {
        if !self.means.fifo {
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
                let set = match priority {
                    0 => sched::set_other(thread.tid),
                    raised => sched::set_fifo(thread.tid, raised, true),
                };
                thread.priority = set.is_ok().then_some(priority);
                match set {
                    Err(error) if sched::gone(&error) => vanished = true,
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

    /// Adds a thread that a record told of: it was born without real-time priority.
    pub(crate) fn born(&mut self, tid: i32) {
        if let Err(place) = self.place(tid) {
            self.threads.insert(place, Thread { tid, priority: Some(0), runnable: true });
        }
    }
    /// Forgets a thread.
    pub(crate) fn died(&mut self, tid: i32) {
        if let Ok(place) = self.place(tid) {
            self.threads.remove(place);
        }
    }
    /// The thread of this number.
    pub(crate) fn thread(&mut self, tid: i32) -> Option<&mut Thread> {
        let place = self.place(tid).ok()?;
        self.threads.get_mut(place)
    }
    /// Where the thread of this number is, or would be.
    pub(crate) fn place(&self, tid: i32) -> Result<usize, usize> {
        self.threads.binary_search_by_key(&tid, |thread| thread.tid)
    }
    /// Asks the kernel which threads there are.
    pub(crate) fn rescan(&mut self) -> io::Result<()> {
        let mut tids = std::mem::take(&mut self.scratch);
        let begin_ns = monotonic_ns();
        let result = match self.whole() {
            Some(root) => {
                tids.clear();
                tids.push(root);
                Ok(())
            }
            None => self.group.threads(&mut tids),
        };
        if result.is_ok() {
            tids.sort_unstable();
            let mut known = std::mem::take(&mut self.threads);
            let mut threads = std::mem::take(&mut self.spare);
            merge(&known, &tids, &mut threads);
            known.clear();
            (self.threads, self.spare) = (threads, known);
            self.listed_ns = (begin_ns, monotonic_ns());
            self.relisted = true;
        }
        self.scratch = tids;
        if !self.means.events {
            self.find_clocks()?;
        }
        result
    }

    /// Fills in what only the body knows.
    pub(crate) fn describe(&self, status: &mut VcpuStatus) {
        status.mode = match self.post {
            Post::Foreground(_) => Some(Mode::Foreground),
            Post::Background => Some(Mode::Background),
            Post::Watched | Post::Frozen => None,
        };
        status.foreground = self.meter(Mode::Foreground);
        status.background = self.meter(Mode::Background);
        status.threads = self.threads.len();
    }

    /// Leaves every thread that exists as the kernel would have it without us. Repeats until no
    /// thread was born meanwhile. Does every step, whichever is refused, and tells the first
    /// refusal.
    pub(crate) fn release(&mut self) -> io::Result<()> {
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
        result.and(self.brake.release())
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

fn seat(seats: &mut [Option<Seat>], core: Option<CoreId>) -> Option<&mut Seat> {
    seats.get_mut(core?.0 as usize)?.as_mut()
}

#[cfg(test)]
mod tests;
