//! Freezing and thawing, by a thread of its own on each core.
//!
//! The kernel does both under one lock of the whole host (`cgroup_mutex`), which any process that
//! makes a group or starts a program in one holds too, perhaps while it is preempted by our own
//! foreground. An agent that waited for it could not enforce: a VCPU was measured to overrun by 940
//! ms. So agents only post the wanted state, and the freeze thread, of the agents' priority and
//! next in their queue, acts as soon as the agent sleeps. Where it must wait, background runs in
//! the wrong order and a frozen VCPU begins late, but no budget is overrun.
//!
//! It never waits below the foreground, though a freeze could: when the runtime and its guardian
//! are killed, a thread below foreground that runs for ever could not reach its own end, and
//! neither the run's parent nor its hold on the cores would ever be free (seen).

use crate::clock::Clock;
use crate::executor::BandwidthLimiter;
use crate::host::cgroup::Group;
use maracas_core::CoreId;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A state that is wanted, and one that is.
#[derive(Debug, Default)]
struct Freezing {
    wanted: AtomicBool,
    /// The state that the kernel was asked for last. Held while it is asked: else, where a VCPU
    /// moves, the slower of the freeze threads of two cores would have the last word. Only freeze
    /// threads take it.
    frozen: Mutex<bool>,
    /// Another process may have asked the kernel otherwise since.
    is_doubtful: AtomicBool,
}

impl Freezing {
    /// Wants it thawed; whether a freeze thread must act for that.
    fn thaw(&self) -> bool {
        self.wanted.store(false, Ordering::Release);
        // Taken: a thread is acting, perhaps on what was wanted before.
        let is_doubtful = self.is_doubtful.load(Ordering::Acquire);
        is_doubtful || self.frozen.try_lock().map_or(true, |frozen| *frozen)
    }
    /// Asks the kernel by `set` until what is wanted is. After a refusal it is as it was.
    fn act(&self, set: impl Fn(bool) -> io::Result<()>) -> io::Result<()> {
        let mut frozen = self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let is_doubtful = self.is_doubtful.swap(false, Ordering::AcqRel);
            let wanted = self.wanted.load(Ordering::Acquire);
            if *frozen == wanted && !is_doubtful {
                return Ok(());
            }
            set(wanted)?;
            *frozen = wanted;
        }
    }
}

/// The group of one VCPU, frozen and thawed.
#[derive(Debug)]
pub(crate) struct FreezableGroup {
    group: Arc<Group>,
    /// The program whose process group is stopped by signals, where there is no freezer.
    signalled: Option<i32>,
    state: Freezing,
    error: AtomicI32,
}

impl FreezableGroup {
    /// A thawed group.
    pub(crate) fn new(group: Arc<Group>, signalled: Option<i32>) -> Self {
        Self { group, signalled, state: Freezing::default(), error: AtomicI32::new(0) }
    }
    /// What the host said when it last refused, if it did since this was asked last.
    pub(crate) fn refusal(&self) -> io::Result<()> {
        // Asked at every look, and nearly always there is nothing to take.
        if self.error.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        match self.error.swap(0, Ordering::Relaxed) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
    /// Another process may have frozen or thawed it: the next actor asks the kernel anew.
    pub(crate) fn forget(&self) {
        self.state.is_doubtful.store(true, Ordering::Release);
    }
    /// Thaws it at once, whatever was posted: at the end, by the supervisor. A freeze thread that
    /// freezes it at this moment sees afterwards that this is not wanted any more.
    pub(crate) fn release(&self) -> io::Result<()> {
        self.state.wanted.store(false, Ordering::Release);
        self.set(false)
    }
    fn set(&self, frozen: bool) -> io::Result<()> {
        if let Some(program) = self.signalled {
            let signal = if frozen { Signal::STOP } else { Signal::CONT };
            // A started program leads a process group of its own; that it has ended is no error.
            let _ = Pid::from_raw(program).map(|group| kill_process_group(group, signal));
            return Ok(());
        }
        match if frozen { self.group.freeze() } else { self.group.thaw() } {
            // Nothing to stop it with: the machine then never asks for more than this.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            result => result,
        }
    }
    fn act(&self) {
        if let Err(error) = self.state.act(|frozen| self.set(frozen)) {
            self.error.store(error.raw_os_error().unwrap_or(libc::EIO), Ordering::Relaxed);
        }
    }
}

/// What a freeze thread is asked to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Freeze or thaw, as is wanted by then.
    Group(Arc<FreezableGroup>),
    /// Lower the bandwidth of the core, or give it back: the kernel does that under a lock of the
    /// whole host too.
    Bandwidth(Arc<dyn BandwidthLimiter>, CoreId, bool),
    /// Say when it came so far: in ticks.
    Stamp(Arc<AtomicU64>),
}

/// What the freeze thread of one core is asked to do, and what it waits for.
#[derive(Debug)]
pub(crate) struct FreezeQueue {
    posted: Mutex<Vec<Order>>,
    /// Signalled when the first one is posted, or the thread is to end.
    reported: Condvar,
    halt: AtomicBool,
    clock: Clock,
    error: AtomicBool,
}

impl FreezeQueue {
    /// Nothing is posted.
    pub(crate) fn new(clock: Clock) -> Self {
        let posted = Mutex::new(Vec::with_capacity(256));
        let (halt, error) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { posted, reported: Condvar::new(), halt, clock, error }
    }
    fn posted(&self) -> MutexGuard<'_, Vec<Order>> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Has a group frozen or thawed soon.
    pub(crate) fn post(&self, group: &Arc<FreezableGroup>, frozen: bool) {
        if frozen {
            group.state.wanted.store(true, Ordering::Release);
        } else if !group.state.thaw() {
            return;
        }
        self.order(Order::Group(Arc::clone(group)));
    }
    /// Lets the bandwidth of `core` be lowered or given back soon.
    pub(super) fn bandwidth(
        &self,
        bandwidth_limiter: &Arc<dyn BandwidthLimiter>,
        core: CoreId,
        lowered: bool,
    ) {
        self.order(Order::Bandwidth(Arc::clone(bandwidth_limiter), core, lowered));
    }
    /// Puts the instant, in ticks, into `stamp` when all has been done that was posted so far.
    pub(super) fn stamp(&self, stamp: &Arc<AtomicU64>) {
        self.order(Order::Stamp(Arc::clone(stamp)));
    }
    /// Whether a bandwidth was refused since this was asked last.
    pub(super) fn refused_bandwidth(&self) -> bool {
        self.error.swap(false, Ordering::Relaxed)
    }
    fn order(&self, order: Order) {
        let mut posted = self.posted();
        let is_first = posted.is_empty();
        posted.push(order);
        drop(posted);
        // Those before have signalled it already.
        if is_first {
            self.reported.notify_one();
        }
    }
    fn act(&self, order: &Order) {
        match order {
            Order::Group(group) => group.act(),
            Order::Bandwidth(bandwidth_limiter, core, lowered) => {
                if bandwidth_limiter.set(*core, *lowered).is_err() {
                    self.error.store(true, Ordering::Relaxed);
                }
            }
            Order::Stamp(stamp) => stamp.store(self.clock.now().ticks().max(1), Ordering::Release),
        }
    }
    /// What the freeze thread does until it is stopped.
    pub(crate) fn run(&self) {
        let mut acting = Vec::with_capacity(256);
        let waits =
            |posted: &mut Vec<Order>| posted.is_empty() && !self.halt.load(Ordering::Acquire);
        while !self.halt.load(Ordering::Acquire) {
            drop(self.reported.wait_while(self.posted(), waits));
            self.act_all(&mut acting);
        }
    }
    /// Does what is posted; `acting` is room for that.
    pub(super) fn act_all(&self, acting: &mut Vec<Order>) {
        acting.append(&mut self.posted());
        acting.drain(..).for_each(|order| self.act(&order));
    }
    /// Lets the freeze thread end.
    pub(crate) fn stop(&self) {
        // Not between its look at this and its sleep.
        let posted = self.posted();
        self.halt.store(true, Ordering::Release);
        drop(posted);
        self.reported.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::{thread, time};

    #[test]
    fn of_two_freeze_threads_the_slower_has_not_the_last_word() {
        let (state, reported) = (Freezing::default(), Mutex::new(Vec::new()));
        let (begun, has_begun) = channel();
        let set = |frozen: bool| {
            if frozen {
                begun.send(()).expect("a thread waits");
                thread::sleep(time::Duration::from_millis(50));
            }
            reported.lock().expect("no thread panicked").push(frozen);
            Ok(())
        };
        state.wanted.store(true, Ordering::Release);
        thread::scope(|scope| {
            scope.spawn(|| state.act(set));
            has_begun.recv().expect("the first thread engages it");
            state.wanted.store(false, Ordering::Release);
            assert!(state.act(set).is_ok());
        });
        assert_eq!(reported.into_inner().expect("no thread panicked"), [true, false]);
    }

    #[test]
    fn what_was_never_stopped_needs_no_thread_to_let_it_go() {
        let state = Freezing::default();
        state.wanted.store(true, Ordering::Release);
        assert!(!state.thaw(), "no thread has acted yet");
        assert!(state.act(|_| Err(io::ErrorKind::Other.into())).is_ok(), "and none has to now");
        state.wanted.store(true, Ordering::Release);
        assert!(state.act(|_| Ok(())).is_ok());
        assert!(state.thaw(), "the kernel was asked to stop it");
    }

    #[test]
    fn the_thread_does_what_is_posted_while_it_waits_and_ends_when_reported() {
        let queue = FreezeQueue::new(Clock::start());
        let stamp = Arc::new(AtomicU64::new(0));
        thread::scope(|scope| {
            let living = scope.spawn(|| queue.run());
            for _ in 0..2 {
                stamp.store(0, Ordering::Release);
                queue.stamp(&stamp);
                while stamp.load(Ordering::Acquire) == 0 {
                    thread::yield_now();
                }
            }
            queue.stop();
            assert!(living.join().is_ok());
        });
    }

    #[test]
    fn what_was_refused_is_reported_again() {
        let state = Freezing::default();
        state.wanted.store(true, Ordering::Release);
        let refused = state.act(|_| Err(io::ErrorKind::WouldBlock.into()));
        assert!(refused.is_err());
        let reported = Mutex::new(Vec::new());
        let again = state.act(|frozen| {
            reported.lock().expect("no thread panicked").push(frozen);
            Ok(())
        });
        assert!(again.is_ok());
        assert_eq!(reported.into_inner().expect("no thread panicked"), [true]);
    }
}
