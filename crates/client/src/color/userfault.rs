//! The kernel's way to take pages away from a process and to give them back: `userfaultfd`
//! (Documentation/admin-guide/mm/userfaultfd.rst), of which `UFFDIO_MOVE` is used, which moves
//! frames between addresses without copying (Linux 6.8).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

/// `_IO` and `_IOWR` of `linux/userfaultfd.h`, as all architectures of ours have them.
const fn request(number: u64, bytes: usize) -> libc::c_ulong {
    let direction = if bytes == 0 { 0 } else { 3 << 30 };
    (direction | (bytes as u64) << 16 | 0xAA << 8 | number) as libc::c_ulong
}

/// `_IOR`.
const fn read_request(number: u64, bytes: usize) -> libc::c_ulong {
    (2 << 30 | (bytes as u64) << 16 | 0xAA << 8 | number) as libc::c_ulong
}

/// `struct uffdio_api`.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`, and `struct uffdio_zeropage`.
#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_move` and `struct uffdio_copy`.
#[repr(C)]
struct Transfer {
    dst: u64,
    src: u64,
    len: u64,
    mode: u64,
    done: i64,
}

/// `struct uffd_msg`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Message {
    event: u8,
    reserved: [u8; 7],
    arguments: [u64; 3],
}

const API: u64 = 0xAA;
const EVENT_REMAP: u64 = 1 << 2;
const EVENT_REMOVE: u64 = 1 << 3;
const EVENT_UNMAP: u64 = 1 << 6;
const MOVE: u64 = 1 << 16;
const MODE_MISSING: u64 = 1;
const REMAP: u8 = 0x14;
const REMOVE: u8 = 0x15;
const UNMAP: u8 = 0x16;

const IOC_NEW: libc::c_ulong = request(0, 0);
const IOC_API: libc::c_ulong = request(0x3F, size_of::<Api>());
const IOC_REGISTER: libc::c_ulong = request(0, size_of::<Register>());
const IOC_UNREGISTER: libc::c_ulong = read_request(1, 16);
const IOC_COPY: libc::c_ulong = request(3, size_of::<Transfer>());
const IOC_ZEROPAGE: libc::c_ulong = request(4, size_of::<Register>());
const IOC_MOVE: libc::c_ulong = request(5, size_of::<Transfer>());

/// By what right a process opens one.
#[derive(Debug)]
pub(super) enum Right {
    /// Its own: `CAP_SYS_PTRACE`, or a host that lets every process.
    Own,
    /// `/dev/userfaultfd`, opened by a process that may.
    Device(File),
}

impl Right {
    /// The best that this process has by itself.
    pub(super) fn own() -> Self {
        File::options()
            .read(true)
            .write(true)
            .open("/dev/userfaultfd")
            .map_or(Self::Own, Self::Device)
    }
}

/// What became of memory under our hands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// `len` bytes went from one address to another (`mremap`).
    Remapped { from: usize, to: usize, len: usize },
    /// The mapping is gone (`munmap`).
    Unmapped { start: usize, end: usize },
    /// The content is given up (`madvise`) as soon as the caller runs on, which the reading of this
    /// event wakes: at any time from now on.
    Removed { start: usize, end: usize },
}

impl Event {
    /// Where the page at `address` is to go now; `None` = its content is wanted no more.
    pub(super) fn moves(self, address: usize) -> Option<usize> {
        match self {
            Self::Remapped { from, to, len } if (from..from + len).contains(&address) => {
                Some(to + (address - from))
            }
            Self::Removed { start, end } | Self::Unmapped { start, end }
                if (start..end).contains(&address) =>
            {
                None
            }
            Self::Remapped { .. } | Self::Unmapped { .. } | Self::Removed { .. } => Some(address),
        }
    }
}

/// Memory whose missing pages the kernel does not make up: a thread that touches one waits. Closing
/// it lets all of them go on.
#[derive(Debug)]
pub(super) struct Userfault(OwnedFd);

impl Userfault {
    /// Opens one that moves pages.
    ///
    /// # Errors
    /// Where the right lacks, or the kernel cannot move (`EOPNOTSUPP`).
    pub(super) fn open(right: &Right) -> io::Result<Self> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: plain arguments.
        let fd = unsafe {
            match right {
                Right::Own => libc::syscall(libc::SYS_userfaultfd, flags) as i32,
                Right::Device(file) => libc::ioctl(file.as_raw_fd(), IOC_NEW as _, flags),
            }
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nothing else owns.
        let made = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        // A thread that changes registered memory sends an event and waits until it was read. Until
        // then every transfer fails (`EAGAIN`).
        let features = MOVE | EVENT_REMAP | EVENT_REMOVE | EVENT_UNMAP;
        let mut api = Api { api: API, features, ioctls: 0 };
        match made.call(IOC_API, &mut api) {
            Ok(()) => Ok(made),
            // So does a kernel refuse features that it does not know.
            Err(libc::EINVAL) => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
            Err(error) => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Takes charge of the missing pages of `range`, which lies within mappings of one kind.
    pub(super) fn register(&self, range: &Range<usize>) -> Result<(), i32> {
        let (start, len) = (range.start as u64, range.len() as u64);
        let mut register = Register { start, len, mode: MODE_MISSING, ioctls: 0 };
        self.call(IOC_REGISTER, &mut register)
    }

    /// Gives the charge of `range` back.
    pub(super) fn unregister(&self, range: &Range<usize>) -> Result<(), i32> {
        self.call(IOC_UNREGISTER, &mut [range.start as u64, range.len() as u64])
    }

    /// Whether the page at `address` is in our charge and is there; an error else. Where it is in
    /// our charge and missing, it is made a page of zeros, as it would have read.
    pub(super) fn has(&self, address: usize, len: usize) -> Result<(), i32> {
        let (start, len) = (address as u64, len as u64);
        // The kernel refuses to lay a page of zeros over another.
        match self.call(IOC_ZEROPAGE, &mut Register { start, len, mode: 0, ioctls: 0 }) {
            Err(libc::EEXIST) => Ok(()),
            Err(why) => Err(why),
            Ok(()) => Err(libc::ENOENT),
        }
    }

    /// Moves the frames of `len` bytes from one place to another, which must be empty and
    /// registered here, and wakes the threads that wait there.
    pub(super) fn transfer(&self, from: usize, to: usize, len: usize) -> Result<(), i32> {
        self.call(IOC_MOVE, &mut transfer(from, to, len))
    }

    /// Like [`Userfault::transfer`], but copies into new frames: for where frames may not go.
    pub(super) fn copy(&self, from: usize, to: usize, len: usize) -> Result<(), i32> {
        self.call(IOC_COPY, &mut transfer(from, to, len))
    }

    /// The next event that changes where pages belong, if there is one.
    pub(super) fn event(&self) -> Option<Event> {
        let mut message = Message::default();
        loop {
            let (into, length) = ((&raw mut message).cast(), size_of::<Message>());
            let (call, fd, into): (_, _, *mut u8) = (libc::SYS_read, self.0.as_raw_fd(), into);
            // SAFETY: the kernel fills at most so many bytes of a structure of our own.
            let read = unsafe { libc::syscall(call, fd, into, length) };
            if read != length as libc::c_long {
                return None;
            }
            let [first, second, third] = message.arguments.map(|word| word as usize);
            match message.event {
                REMAP => return Some(Event::Remapped { from: first, to: second, len: third }),
                UNMAP => return Some(Event::Unmapped { start: first, end: second }),
                REMOVE => return Some(Event::Removed { start: first, end: second }),
                // A thread waits for a page; it is supplied.
                _ => {}
            }
        }
    }

    /// Lets all waiting threads go on, by a bare system call.
    pub(super) fn close(self) {
        let fd = self.0.into_raw_fd();
        // SAFETY: our own descriptor, which is closed nowhere else.
        unsafe { libc::syscall(libc::SYS_close, fd) };
    }

    /// Calls, and returns the error number: nothing is allocated here.
    fn call<T>(&self, request: libc::c_ulong, argument: &mut T) -> Result<(), i32> {
        // SAFETY: the request's own structure, which the kernel reads and fills.
        let result =
            unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, std::ptr::from_mut(argument)) };
        if result == 0 {
            return Ok(());
        }
        Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }
}

const fn transfer(from: usize, to: usize, len: usize) -> Transfer {
    Transfer { dst: to as u64, src: from as u64, len: len as u64, mode: 0, done: 0 }
}
