//! What an agent waits for: one `epoll`, one timer, bells.

use maracas_core::VcpuId;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};

/// What a descriptor means to the agent that waits for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// The budget event of a VCPU.
    Budget(VcpuId),
    /// The core's records fill up.
    Records,
    /// The core's timer.
    Alarm,
    /// The agent's own bell.
    Bell,
    /// The mailbox has a request.
    Mail,
    /// The guardian died.
    Guardian,
    /// The core's memory meter reached the mark that it was told.
    Meter,
}

impl Token {
    const fn word(self) -> u64 {
        match self {
            Self::Budget(vcpu) => 6 + vcpu.0 as u64,
            Self::Records => 0,
            Self::Alarm => 1,
            Self::Bell => 2,
            Self::Mail => 3,
            Self::Guardian => 4,
            Self::Meter => 5,
        }
    }
    const fn of(word: u64) -> Self {
        match word {
            0 => Self::Records,
            1 => Self::Alarm,
            2 => Self::Bell,
            3 => Self::Mail,
            4 => Self::Guardian,
            5 => Self::Meter,
            vcpu => Self::Budget(VcpuId((vcpu - 6) as u32)),
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
    /// Does not wait for `fd` any more. Masking its events would not do: the kernel wakes whoever
    /// waits, looks at the mask, and lets him sleep on (measured: 70,000 times a second).
    pub(crate) fn remove(&self, fd: RawFd) -> io::Result<()> {
        let null = std::ptr::null_mut();
        // SAFETY: this operation takes no event.
        check(unsafe { libc::epoll_ctl(self.fd(), libc::EPOLL_CTL_DEL, fd, null) })
    }
    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// Waits until something of the poll with descriptor `poll` is ready and puts it into `ready`.
pub(crate) fn wait(poll: RawFd, ready: &mut Vec<Token>) -> io::Result<()> {
    const MOST: usize = 64;
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
    // SAFETY: the kernel fills at most as many events as there is room for.
    let count = unsafe { libc::epoll_wait(poll, events.as_mut_ptr(), MOST as i32, -1) };
    ready.clear();
    if count < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
    }
    ready.extend(events[..count as usize].iter().map(|event| Token::of(event.u64)));
    Ok(())
}

/// A timer on the machine's clock.
#[derive(Debug)]
pub(crate) struct Alarm {
    file: File,
    at_ns: u64,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: a new descriptor, owned from here on.
        let file = unsafe { own(libc::timerfd_create(libc::CLOCK_MONOTONIC, flags))? };
        Ok(Self { file, at_ns: u64::MAX })
    }
    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
    /// Rings at this monotonic time, and not at the one set before; `u64::MAX` = never.
    pub(crate) fn set(&mut self, at_ns: u64) -> io::Result<()> {
        if at_ns == self.at_ns {
            return Ok(());
        }
        self.at_ns = at_ns;
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let mut spec = libc::itimerspec { it_interval: zero, it_value: zero };
        if at_ns != u64::MAX {
            spec.it_value.tv_sec = (at_ns / 1_000_000_000) as libc::time_t;
            spec.it_value.tv_nsec = (at_ns % 1_000_000_000).max(1) as libc::c_long;
        }
        let null = std::ptr::null_mut();
        // SAFETY: the setting is ours and only read.
        check(unsafe {
            libc::timerfd_settime(self.fd(), libc::TFD_TIMER_ABSTIME, &raw const spec, null)
        })
    }
    /// Is silent again after it rang.
    pub(crate) fn hush(&mut self) {
        let mut count = [0; 8];
        // An error only says that it did not ring.
        if (&self.file).read(&mut count).is_ok() {
            self.at_ns = u64::MAX;
        }
    }
}

/// Wakes an agent from any thread.
#[derive(Debug)]
pub(crate) struct Bell {
    file: File,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: a new descriptor, owned from here on.
        unsafe { Ok(Self { file: own(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))? }) }
    }
    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
    /// Rings. It cannot fail but by 2^64 rings that nobody heard.
    pub(crate) fn ring(&self) {
        let _ = (&self.file).write(&1u64.to_ne_bytes());
    }
    /// Is silent again.
    pub(crate) fn hush(&self) {
        let _ = (&self.file).read(&mut [0; 8]);
    }
}

/// Takes a descriptor that a call returned.
///
/// # Safety
/// Nobody else may own it.
unsafe fn own(fd: RawFd) -> io::Result<File> {
    check(fd)?;
    // SAFETY: as the caller promises.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn check(result: i32) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
