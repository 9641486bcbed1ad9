//! What an agent waits for: one `epoll` with a timeout, and wake-ups.

use maracas_core::{Duration, VcpuId};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};

/// What a descriptor means to the agent that waits for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// Something of a VCPU: its threads were born or have ended, or its programs have a hint.
    Vcpu(VcpuId),
    /// A program of this place in the supervisor's list has ended.
    Ended(u32),
    /// The core's records fill up.
    Records,
    /// The agent's own wake-up.
    Wakeup,
    /// The mailbox has a request.
    Mail,
    /// The guardian died.
    Guardian,
    /// The core's memory meter reached its limit.
    Meter,
    /// A job of a VCPU of the core is done.
    Done,
}

/// Numbers from here on name VCPUs.
const VCPU: u64 = 1 << 32;
/// Numbers from here on name programs.
const ENDED: u64 = 1 << 33;

impl Token {
    const fn word(self) -> u64 {
        match self {
            Self::Vcpu(vcpu) => VCPU | vcpu.0 as u64,
            Self::Ended(program) => ENDED | program as u64,
            Self::Records => 0,
            Self::Wakeup => 1,
            Self::Mail => 2,
            Self::Guardian => 3,
            Self::Meter => 4,
            Self::Done => 5,
        }
    }
    const fn of(word: u64) -> Self {
        match word {
            0 => Self::Records,
            1 => Self::Wakeup,
            2 => Self::Mail,
            3 => Self::Guardian,
            4 => Self::Meter,
            5 => Self::Done,
            word if word & ENDED != 0 => Self::Ended(word as u32),
            word => Self::Vcpu(VcpuId(word as u32)),
        }
    }
}

/// Waits for many descriptors at once.
#[derive(Debug)]
pub(crate) struct Poll {
    file: File,
}

impl Poll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: a new descriptor, owned from here on.
        unsafe { Ok(Self { file: own(libc::epoll_create1(libc::EPOLL_CLOEXEC))? }) }
    }
    /// Waits for `fd` too; closing it ends that.
    pub(crate) fn add(&self, fd: RawFd, token: Token) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN, token)
    }
    /// Waits for each time that `fd` becomes ready; whether it is still is not asked.
    pub(crate) fn add_edges(&self, fd: RawFd, token: Token) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN | libc::EPOLLET, token)
    }
    /// Waits for `fd` too, and not any more once it was ready.
    pub(crate) fn add_once(&self, fd: RawFd, token: Token) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN | libc::EPOLLONESHOT, token)
    }
    /// Waits once more for an `fd` that was added so.
    pub(crate) fn once_more(&self, fd: RawFd, token: Token) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, libc::EPOLLIN | libc::EPOLLONESHOT, token)
    }
    fn control(&self, act: i32, fd: RawFd, events: i32, token: Token) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: token.word() };
        // SAFETY: the event is ours and only read.
        check(unsafe { libc::epoll_ctl(self.fd(), act, fd, &raw mut event) })
    }
    /// Does not wait for `fd` any more. Masking its events would not do: the kernel wakes the
    /// waiting thread, looks at the mask, and lets it sleep on (measured: 70,000 times a second).
    pub(crate) fn remove(&self, fd: RawFd) -> io::Result<()> {
        let null = std::ptr::null_mut();
        // SAFETY: this operation takes no event.
        check(unsafe { libc::epoll_ctl(self.fd(), libc::EPOLL_CTL_DEL, fd, null) })
    }
    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// Waits until something of the poll with descriptor `poll` is ready and puts it into `ready`, or
/// until `rest` has passed; `None` = without end.
///
/// The timeout of this call is the only alarm that agents have: it fires once, nothing has to be
/// set again while the thread is awake, and for a real-time thread the kernel serves it in the
/// timer interrupt itself, on PREEMPT_RT too. There a timerfd or the overflow of a sampling event
/// waits for a kernel thread of priority 1, below all foreground.
pub(crate) fn wait(poll: RawFd, rest: Option<Duration>, ready: &mut Vec<Token>) -> io::Result<()> {
    const MOST: usize = 64;
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
    ready.clear();
    let rest = rest.map(timespec);
    let rest = rest.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let count = match wait_for(poll, rest, &mut events) {
        // Linux before 5.11: to the nanosecond only `ppoll` can wait.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            sleep_on(poll, rest)?;
            wait_for_none(poll, &mut events)
        }
        result => result,
    };
    let count = match count {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
        result => result?,
    };
    ready.extend(events[..count].iter().map(|event| Token::of(event.u64)));
    Ok(())
}

/// A time as the kernel wants it.
const fn timespec(time: Duration) -> libc::timespec {
    let ns = time.ticks();
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

/// `epoll_pwait2`.
fn wait_for(
    poll: RawFd,
    rest: *const libc::timespec,
    events: &mut [libc::epoll_event],
) -> io::Result<usize> {
    let (room, no_mask) = (events.len() as libc::c_long, std::ptr::null::<libc::sigset_t>());
    // SAFETY: the kernel fills at most as many events as there is room for, and reads the timeout,
    // which the caller keeps.
    let count = unsafe {
        libc::syscall(libc::SYS_epoll_pwait2, poll, events.as_mut_ptr(), room, rest, no_mask, 0)
    };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
}

/// What is ready now, without waiting.
fn wait_for_none(poll: RawFd, events: &mut [libc::epoll_event]) -> io::Result<usize> {
    // SAFETY: the kernel fills at most as many events as there is room for.
    let count = unsafe { libc::epoll_wait(poll, events.as_mut_ptr(), events.len() as i32, 0) };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
}

/// Sleeps until something of the poll is ready or the time has come.
fn sleep_on(poll: RawFd, rest: *const libc::timespec) -> io::Result<()> {
    let mut entry = libc::pollfd { fd: poll, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure of our own, and a timeout that the caller keeps.
    check(unsafe { libc::ppoll(&raw mut entry, 1, rest, std::ptr::null()) })
}

/// Wakes an agent from any thread.
#[derive(Debug)]
pub(crate) struct Wakeup {
    file: File,
}

impl Wakeup {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: a new descriptor, owned from here on.
        unsafe { Ok(Self { file: own(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))? }) }
    }
    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
    /// Signals it. It cannot fail but after 2^64 signals that were never cleared.
    pub(crate) fn ring(&self) {
        let _ = (&self.file).write(&1u64.to_ne_bytes());
    }
    /// Is silent again.
    pub(crate) fn acknowledge(&self) {
        let _ = (&self.file).read(&mut [0; 8]);
    }
}

/// Takes a descriptor that a call returned.
///
/// # Safety
/// No other process may own it.
unsafe fn own(fd: RawFd) -> io::Result<File> {
    check(fd)?;
    // SAFETY: as the caller promises.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn check(result: i32) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
