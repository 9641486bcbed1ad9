//! Freezing and thawing, by a thread of its own on each core.
//!
//! The kernel does both under one lock of the whole host (`cgroup_mutex`), which any process that
//! makes a group or starts a program in one holds too, perhaps while it is preempted by our own
//! foreground. An agent that waited for it could not enforce: a VCPU was measured to overrun by
//! 940 ms. So agents only post what shall be, and the brake thread, of the agents' priority and
//! next in their queue, acts as soon as the agent sleeps. Where it must wait, background runs in
//! the wrong order and a frozen VCPU begins late, but no budget is overrun.

use crate::agent::wait::{Bell, Poll, Token, wait};
use crate::host::cgroup::Group;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The brake of one VCPU: a state that is wanted, and one that is.
#[derive(Debug)]
pub(crate) struct Brake {
    group: Arc<Group>,
    /// The program whose process group is stopped by signals, where there is no freezer.
    signalled: Option<i32>,
    wanted: AtomicBool,
    engaged: AtomicBool,
    error: AtomicI32,
}

impl Brake {
    /// A released brake.
    pub(crate) fn new(group: Arc<Group>, signalled: Option<i32>) -> Self {
        let (wanted, engaged) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { group, signalled, wanted, engaged, error: AtomicI32::new(0) }
    }
    /// What the host said when it last refused, if it did since this was asked last.
    pub(crate) fn refusal(&self) -> io::Result<()> {
        match self.error.swap(0, Ordering::Relaxed) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
    /// Releases the brake at once, whatever was posted: at the end, by the keeper.
    pub(crate) fn release(&self) -> io::Result<()> {
        self.wanted.store(false, Ordering::Release);
        self.engaged.store(false, Ordering::Release);
        self.set(false)
    }
    fn set(&self, engaged: bool) -> io::Result<()> {
        if let Some(program) = self.signalled {
            let signal = if engaged { libc::SIGSTOP } else { libc::SIGCONT };
            // SAFETY: plain arguments. A started program leads a process group of its own; that it
            // has ended is no error.
            unsafe { libc::kill(-program, signal) };
            return Ok(());
        }
        match if engaged { self.group.freeze() } else { self.group.thaw() } {
            // Nothing to stop it with: the machine then never asks for more than this.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            result => result,
        }
    }
    fn act(&self) {
        let wanted = self.wanted.load(Ordering::Acquire);
        if self.engaged.swap(wanted, Ordering::AcqRel) != wanted
            && let Err(error) = self.set(wanted)
        {
            self.error.store(error.raw_os_error().unwrap_or(libc::EIO), Ordering::Relaxed);
        }
    }
}

/// The brakes of one core, and the bell of the thread that acts on them.
#[derive(Debug)]
pub(crate) struct Brakes {
    posted: Mutex<Vec<Arc<Brake>>>,
    bell: Bell,
    halt: AtomicBool,
}

impl Brakes {
    /// No brake is posted.
    pub(crate) fn new() -> io::Result<Self> {
        let posted = Mutex::new(Vec::with_capacity(256));
        Ok(Self { posted, bell: Bell::new()?, halt: AtomicBool::new(false) })
    }
    /// Lets `brake` be engaged or released soon.
    pub(crate) fn post(&self, brake: &Arc<Brake>, engaged: bool) {
        brake.wanted.store(engaged, Ordering::Release);
        self.posted.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(brake));
        self.bell.ring();
    }
    /// The life of the brake thread.
    pub(crate) fn live(&self) -> io::Result<()> {
        let poll = Poll::new()?;
        poll.add(self.bell.fd(), Token::Bell)?;
        let (mut ready, mut acting) = (Vec::new(), Vec::with_capacity(256));
        while !self.halt.load(Ordering::Acquire) {
            wait(poll.fd(), &mut ready)?;
            self.bell.hush();
            let mut posted = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
            acting.append(&mut posted);
            drop(posted);
            acting.drain(..).for_each(|brake: Arc<Brake>| brake.act());
        }
        Ok(())
    }
    /// Lets the brake thread end.
    pub(crate) fn stop(&self) {
        self.halt.store(true, Ordering::Release);
        self.bell.ring();
    }
}
