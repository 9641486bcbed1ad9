//! How job releases reach programs: from the agent straight into the program's socket.
//!
//! An agent must neither block nor wait for a lock, so it sends without waiting, over a table of
//! atomics. What cannot be sent so (nobody there yet, a full socket) goes through a bounded queue
//! to the server's thread, and while any release of a VCPU is on that way the direct one is shut:
//! a program sees its releases in order.

use crate::machine::JobGate;
use maracas_core::control::{Message, Reply};
use maracas_core::{Job, VcpuId};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// VCPUs with a direct way; those beyond take the queue.
const SEATS: usize = 1024;
/// Releases on the slow way at once, over all VCPUs.
const QUEUE: usize = 1024;
/// Releases kept for a VCPU whose program has not come yet; the oldest are dropped.
const KEPT: usize = 64;
/// Nobody there.
const EMPTY: RawFd = -1;

#[derive(Debug)]
struct Seat {
    socket: AtomicI32,
    /// Agents inside a send: the socket must not be closed before they are out.
    users: AtomicU32,
    /// Releases of this VCPU on the slow way.
    backlog: AtomicU32,
}

/// The gate: one side for the agents, one for the server.
#[derive(Debug)]
pub(super) struct Gate {
    seats: Vec<Seat>,
    slow: SyncSender<Job>,
    arrived: Mutex<Receiver<Job>>,
    bell: File,
    lost: AtomicU64,
}

impl Gate {
    pub(super) fn new() -> io::Result<Self> {
        let (slow, arrived) = sync_channel(QUEUE);
        let seat = || Seat {
            socket: AtomicI32::new(EMPTY),
            users: AtomicU32::new(0),
            backlog: AtomicU32::new(0),
        };
        Ok(Self {
            seats: std::iter::repeat_with(seat).take(SEATS).collect(),
            slow,
            arrived: Mutex::new(arrived),
            bell: bell()?,
            lost: AtomicU64::new(0),
        })
    }

    fn seat(&self, vcpu: VcpuId) -> Option<&Seat> {
        self.seats.get(vcpu.0 as usize)
    }

    /// Becomes readable when a release took the slow way.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Releases that reached nobody.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn open(&self, vcpu: VcpuId, socket: &UnixStream) {
        if let Some(seat) = self.seat(vcpu) {
            seat.socket.store(socket.as_raw_fd(), Ordering::SeqCst);
        }
    }

    /// Shuts the direct way; when it returns, no agent uses the socket any more.
    fn close(&self, vcpu: VcpuId) {
        if let Some(seat) = self.seat(vcpu) {
            seat.socket.store(EMPTY, Ordering::SeqCst);
            while seat.users.load(Ordering::SeqCst) != 0 {
                thread::yield_now();
            }
        }
    }

    fn direct(&self, seat: &Seat, job: &Job) -> bool {
        if seat.backlog.load(Ordering::SeqCst) != 0 {
            return false;
        }
        seat.users.fetch_add(1, Ordering::SeqCst);
        let socket = seat.socket.load(Ordering::SeqCst);
        let sent = socket != EMPTY && send(socket, job);
        seat.users.fetch_sub(1, Ordering::SeqCst);
        sent
    }
}

impl JobGate for Gate {
    fn release(&self, job: &Job) {
        let seat = self.seat(job.id.vcpu);
        if seat.is_some_and(|seat| self.direct(seat, job)) {
            return;
        }
        // Counted before it is under way: no later release may overtake it.
        seat.inspect(|seat| _ = seat.backlog.fetch_add(1, Ordering::SeqCst));
        if self.slow.try_send(*job).is_err() {
            seat.inspect(|seat| _ = seat.backlog.fetch_sub(1, Ordering::SeqCst));
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        ring(&self.bell);
    }
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
        let _ = io::Read::read(&mut &gate.bell, &mut word);
        let Ok(arrived) = gate.arrived.try_lock() else { return };
        while let Ok(job) = arrived.try_recv() {
            let jobs = self.jobs.entry(job.id.vcpu).or_default();
            jobs.push_back(job);
            if jobs.len() > KEPT {
                jobs.pop_front();
                gate.seat(job.id.vcpu).inspect(|s| _ = s.backlog.fetch_sub(1, Ordering::SeqCst));
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
            gate.seat(vcpu).inspect(|seat| _ = seat.backlog.fetch_sub(1, Ordering::SeqCst));
        }
        self.jobs.remove(&vcpu);
    }

    /// A program takes its VCPU's seat: first what waited, then the direct way.
    pub(super) fn seat(&mut self, gate: &Gate, vcpu: VcpuId, socket: &UnixStream) {
        self.flush(gate, vcpu, socket.as_raw_fd());
        gate.open(vcpu, socket);
    }

    /// It leaves.
    pub(super) fn unseat(&mut self, gate: &Gate, vcpu: VcpuId) {
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
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the buffer is ours; the descriptor is open as long as its seat has users.
        let sent = unsafe { libc::send(socket, frame.as_ptr().cast(), frame.len(), flags) };
        // Linux sends a message of less than a page whole or not at all; should it not, the
        // stream is spoilt and its reader must learn of it.
        if sent > 0 && sent as usize != frame.len() {
            // SAFETY: plain arguments.
            unsafe { libc::shutdown(socket, libc::SHUT_RDWR) };
        }
        sent > 0
    })
}

/// A counter that can be waited for.
pub(super) fn bell() -> io::Result<File> {
    // SAFETY: plain arguments; the new descriptor is owned by nobody else.
    unsafe {
        match libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(File::from_raw_fd(fd)),
        }
    }
}

/// Rings it; one that is full has been heard already.
pub(super) fn ring(bell: &File) {
    let _ = (&mut &*bell).write(&1u64.to_ne_bytes());
}
