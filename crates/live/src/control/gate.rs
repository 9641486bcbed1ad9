//! How job releases reach programs: from the agent straight into the program's socket.
//!
//! An agent must neither block nor wait for a lock, so it sends without waiting, over a table of
//! atomics. What cannot be sent so (no client yet, a full socket) goes through a bounded queue to
//! the server's thread, and while any release of a VCPU is on that way the direct one is shut: a
//! program sees its releases in order.
//!
//! The other way, the end of a job is a message like any other to the server, whose thread runs
//! below the foreground. But a global policy waits for it, so each release buys one *hint*: a
//! message of its program lets the server serve programs with jobs for one turn at a priority above
//! the foreground, one request each. A program that sends more than it has jobs gains nothing by
//! it, and one that is late with its jobs has [`CREDIT`] hints at most.
//!
//! Marking a socket in the kernel as one with a hint takes a lock of the kernel, which agents take
//! at every release. So the server takes it above the foreground only (`at_once`): preempted with
//! it in hand it would hold up an agent, and with it the end of every budget.

use crate::host::sys;
use crate::host::wait::{Poll, Token, wait};
use crate::machine::JobGate;
use maracas_core::control::{Message, Reply};
use maracas_core::{Job, JobId, VcpuId};
use rustix::event::{EventfdFlags, eventfd};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// VCPUs with a direct way; those beyond take the queue.
const SLOTS: usize = 1024;
/// Releases on the slow way at once, over all VCPUs.
const QUEUE: usize = 1024;
/// Releases kept for a VCPU whose program has not come yet; the oldest are dropped.
const KEPT: usize = 64;
/// Hints that a program may have bought and not used: one for the job that it is late with and one
/// for that which was released meanwhile.
const CREDIT: u32 = 2;
/// No client.
const EMPTY: RawFd = -1;

#[derive(Debug)]
struct Slot {
    socket: AtomicI32,
    /// Agents inside a send: the socket must not be closed before they are out.
    users: AtomicU32,
    /// Releases of this VCPU on the slow way.
    backlog: AtomicU32,
    /// Hints that it has bought.
    credit: AtomicU32,
    /// One more than the number of the last job that was released to it.
    reported: AtomicU32,
    /// One more than the number of the last job whose end it reported.
    done: AtomicU32,
}

/// The gate: one side for the agents, one for the server.
#[derive(Debug)]
pub(super) struct Gate {
    slots: Vec<Slot>,
    /// Sockets that have a hint to give.
    hints: Poll,
    /// A hint was given and not taken.
    hinted: AtomicBool,
    slow: SyncSender<Job>,
    arrived: Mutex<Receiver<Job>>,
    wakeup: File,
    lost: AtomicU64,
}

impl Gate {
    pub(super) fn new() -> io::Result<Self> {
        let (slow, arrived) = sync_channel(QUEUE);
        let slot = || Slot {
            socket: AtomicI32::new(EMPTY),
            users: AtomicU32::new(0),
            backlog: AtomicU32::new(0),
            credit: AtomicU32::new(0),
            reported: AtomicU32::new(0),
            done: AtomicU32::new(0),
        };
        Ok(Self {
            slots: std::iter::repeat_with(slot).take(SLOTS).collect(),
            slow,
            arrived: Mutex::new(arrived),
            hints: Poll::new()?,
            hinted: AtomicBool::new(false),
            wakeup: wakeup()?,
            lost: AtomicU64::new(0),
        })
    }

    fn slot(&self, vcpu: VcpuId) -> Option<&Slot> {
        self.slots.get(vcpu.0 as usize)
    }

    /// Becomes readable when a release took the slow way.
    pub(super) fn wakeup(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    /// Releases that reached no program.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn open(&self, vcpu: VcpuId, socket: &UnixStream) {
        if let Some(slot) = self.slot(vcpu) {
            slot.credit.store(1, Ordering::SeqCst);
            slot.socket.store(socket.as_raw_fd(), Ordering::SeqCst);
            // Without it the ends of its jobs are read later, no more.
            let _ = self.hints.add_once(socket.as_raw_fd(), Token::Vcpu(vcpu));
        }
    }

    /// Waits for hints and calls `hurry` at each, until `stop` is readable and `over` holds.
    pub(super) fn usher(&self, stop: RawFd, over: impl Fn() -> bool, hurry: impl Fn()) {
        let mut ready = Vec::with_capacity(64);
        if self.hints.add(stop, Token::Wakeup).is_err() {
            return;
        }
        while !over() && wait(self.hints.fd(), None, &mut ready).is_ok() {
            let mut paid = false;
            for token in &ready {
                if let Token::Vcpu(vcpu) = token {
                    let slot = self.slot(*vcpu);
                    paid |= slot.is_some_and(|slot| update(&slot.credit, |n| n.checked_sub(1)));
                }
            }
            if paid {
                self.hinted.store(true, Ordering::SeqCst);
                hurry();
            }
        }
    }
    /// A program that learns of a release has bought a hint by it.
    fn buy(&self, slot: &Slot, vcpu: VcpuId, socket: RawFd) {
        update(&slot.credit, |credit| Some(CREDIT.min(credit + 1)));
        self.await_hint(vcpu, socket);
    }
    /// Whether a program that says that this job is done can be right, and says so the first time.
    pub(super) fn is_owed(&self, job: JobId) -> bool {
        let Some(slot) = self.slot(job.vcpu) else { return true };
        let owed = job.index >= slot.done.load(Ordering::SeqCst)
            && job.index < slot.reported.load(Ordering::SeqCst);
        if owed {
            slot.done.store(job.index + 1, Ordering::SeqCst);
        }
        owed
    }
    /// Whether a program has a hint left.
    pub(super) fn has_credit(&self, vcpu: VcpuId) -> bool {
        self.slot(vcpu).is_some_and(|slot| slot.credit.load(Ordering::SeqCst) > 0)
    }
    /// Its next message gives it.
    pub(super) fn await_hint(&self, vcpu: VcpuId, socket: RawFd) {
        let _ = self.hints.once_more(socket, Token::Vcpu(vcpu));
    }
    /// Whether there is a hint that was not taken.
    pub(super) fn is_hinted(&self) -> bool {
        self.hinted.load(Ordering::SeqCst)
    }
    /// Takes the hint, if there is one.
    pub(super) fn take_hint(&self) -> bool {
        self.hinted.swap(false, Ordering::SeqCst)
    }

    /// Shuts the direct way; when it returns, no agent uses the socket any more.
    fn close(&self, vcpu: VcpuId) {
        if let Some(slot) = self.slot(vcpu) {
            slot.socket.store(EMPTY, Ordering::SeqCst);
            while slot.users.load(Ordering::SeqCst) != 0 {
                thread::yield_now();
            }
        }
    }

    fn direct(&self, slot: &Slot, job: &Job) -> bool {
        if slot.backlog.load(Ordering::SeqCst) != 0 {
            return false;
        }
        slot.users.fetch_add(1, Ordering::SeqCst);
        let socket = slot.socket.load(Ordering::SeqCst);
        let sent = socket != EMPTY && send(socket, job);
        if sent {
            self.buy(slot, job.id.vcpu, socket);
        }
        slot.users.fetch_sub(1, Ordering::SeqCst);
        sent
    }
}

impl JobGate for Gate {
    fn release(&self, job: &Job) {
        let slot = self.slot(job.id.vcpu);
        // Before it is: the answer may be quick.
        slot.inspect(|slot| slot.reported.store(job.id.index.saturating_add(1), Ordering::SeqCst));
        if slot.is_some_and(|slot| self.direct(slot, job)) {
            return;
        }
        // Counted before it is under way: no later release may overtake it.
        slot.inspect(|slot| _ = slot.backlog.fetch_add(1, Ordering::SeqCst));
        if self.slow.try_send(*job).is_err() {
            slot.inspect(|slot| _ = slot.backlog.fetch_sub(1, Ordering::SeqCst));
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        ring(&self.wakeup);
    }
}

/// Changes a count, if `change` says so; whether it did.
fn update(count: &AtomicU32, change: impl Fn(u32) -> Option<u32>) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change).is_ok()
}

/// The server's side of the gate: releases that wait for their program.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    jobs: BTreeMap<VcpuId, VecDeque<Job>>,
}

impl Waiting {
    /// Takes in what came on the slow way, and sends on what can be sent.
    pub(super) fn collect(&mut self, gate: &Gate, socket: impl Fn(VcpuId) -> Option<RawFd>) {
        let mut word = [0; 8];
        let _ = io::Read::read(&mut &gate.wakeup, &mut word);
        let Ok(arrived) = gate.arrived.try_lock() else { return };
        while let Ok(job) = arrived.try_recv() {
            let jobs = self.jobs.entry(job.id.vcpu).or_default();
            jobs.push_back(job);
            if jobs.len() > KEPT {
                jobs.pop_front();
                gate.slot(job.id.vcpu).inspect(|s| _ = s.backlog.fetch_sub(1, Ordering::SeqCst));
                gate.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(arrived);
        let vcpus: Vec<VcpuId> = self.jobs.keys().copied().collect();
        for vcpu in vcpus {
            if let Some(socket) = socket(vcpu) {
                self.flush(gate, vcpu, socket);
            }
        }
    }

    /// Whether a VCPU's releases wait for its socket to take more.
    pub(super) fn any(&self, vcpu: VcpuId) -> bool {
        self.jobs.get(&vcpu).is_some_and(|jobs| !jobs.is_empty())
    }

    /// Sends a VCPU's waiting releases, as many as its socket takes.
    pub(super) fn flush(&mut self, gate: &Gate, vcpu: VcpuId, socket: RawFd) {
        let Some(jobs) = self.jobs.get_mut(&vcpu) else { return };
        while let Some(job) = jobs.front() {
            if !send(socket, job) {
                return;
            }
            jobs.pop_front();
            if let Some(slot) = gate.slot(vcpu) {
                slot.backlog.fetch_sub(1, Ordering::SeqCst);
                gate.buy(slot, vcpu, socket);
            }
        }
        self.jobs.remove(&vcpu);
    }

    /// A program takes its VCPU's slot: first what waited, then the direct way.
    pub(super) fn slot(&mut self, gate: &Gate, vcpu: VcpuId, socket: &UnixStream) {
        self.flush(gate, vcpu, socket.as_raw_fd());
        gate.open(vcpu, socket);
    }

    /// It leaves.
    pub(super) fn free_slot(&mut self, gate: &Gate, vcpu: VcpuId) {
        gate.close(vcpu);
    }
}

/// Sends one release without waiting; false where nothing was sent.
fn send(socket: RawFd, job: &Job) -> bool {
    thread_local! {
        // Kept between calls: an agent must not wait for the allocator's locks.
        static FRAME: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(64));
    }
    FRAME.with_borrow_mut(|frame| {
        frame.clear();
        if Reply::Job(*job).write(frame).is_err() {
            return false;
        }
        // The descriptor is open as long as its slot has users.
        let sent = sys::send_now(socket, frame).unwrap_or(0);
        // Linux sends a message of less than a page whole or not at all; should it not, the
        // stream is spoilt and its reader must learn of it.
        if sent > 0 && sent != frame.len() {
            sys::shut_down(socket);
        }
        sent > 0
    })
}

/// A counter that can be waited for.
pub(super) fn wakeup() -> io::Result<File> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?.into())
}

/// Signals it; one that is full has been read already.
pub(super) fn ring(wakeup: &File) {
    let _ = (&mut &*wakeup).write(&1u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::Instant;
    use std::time::{Duration, Instant as Clock};

    #[test]
    fn each_release_buys_one_hint() {
        let gate = Gate::new().expect("descriptors");
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        gate.open(VcpuId(1), &ours);
        let (stop, over, hints) =
            (wakeup().expect("a bell"), AtomicBool::new(false), AtomicU32::new(0));
        let given = |wanted: u32| {
            let end = Clock::now() + Duration::from_secs(2);
            while hints.load(Ordering::SeqCst) < wanted && Clock::now() < end {
                thread::sleep(Duration::from_millis(1));
            }
            // Another giver of a hint has had time to.
            thread::sleep(Duration::from_millis(20));
            hints.load(Ordering::SeqCst)
        };
        let usher = || {
            let give = || _ = hints.fetch_add(1, Ordering::SeqCst);
            gate.usher(stop.as_raw_fd(), || over.load(Ordering::SeqCst), give);
        };
        let seen = thread::scope(|scope| {
            scope.spawn(usher);
            let sent: io::Result<()> = (0..3).try_for_each(|_| theirs.write_all(b"much ado"));
            let first = given(1);
            let id = JobId { vcpu: VcpuId(1), index: 0 };
            gate.release(&Job { id, release: Instant::ZERO, deadline: Instant::NEVER });
            let second = given(2);
            let taken = [gate.is_hinted(), gate.take_hint(), gate.take_hint()];
            over.store(true, Ordering::SeqCst);
            ring(&stop);
            (sent.is_ok(), first, second, taken)
        });
        assert_eq!(seen, (true, 1, 2, [true, true, false]));
    }

    #[test]
    fn the_end_of_a_job_is_owed_once_and_after_its_release() {
        let gate = Gate::new().expect("descriptors");
        let id = |index| JobId { vcpu: VcpuId(1), index };
        let release = |index| {
            let (release, deadline) = (Instant::ZERO, Instant::NEVER);
            gate.release(&Job { id: id(index), release, deadline });
        };
        release(0);
        release(1);
        let reported = [2, 0, 0, 1, 0].map(|index| gate.is_owed(id(index)));
        release(2);
        assert_eq!((reported, gate.is_owed(id(2))), ([false, true, false, true, false], true));
    }
}
