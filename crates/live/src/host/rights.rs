//! The capabilities that each part of the runtime keeps.
//!
//! Linux keeps capabilities by thread, so each thread gives up what it does not need. What it has
//! given up it never has again: the permitted set goes with the effective one, and `no_new_privs`
//! keeps an executed file from bringing rights back. The one exception is the thread that starts
//! programs, since a program of root's can have no more than the thread that started it: it keeps
//! its permitted set and raises it for single acts ([`raised`]).
//!
//! | thread | keeps |
//! |---|---|
//! | agents, freeze threads | `SYS_NICE`, `PERFMON`, `KILL`, `IPC_LOCK` |
//! | control server | the same; `CHOWN` is permitted and not in effect |
//! | usher of jobs | `SYS_NICE`, `IPC_LOCK` |
//! | journal, metrics | `IPC_LOCK` |
//! | descriptor server of colours | `SYS_ADMIN`, `SYS_PTRACE`, `DAC_READ_SEARCH`, `IPC_LOCK` |
//! | starter of programs | as the agents; all else is permitted and not in effect |
//!
//! `SYS_NICE` is for classes and affinities of programs and for the thread's own priority,
//! `PERFMON` for counters, `KILL` for programs that are stopped by signals where there is no
//! freezer. The server hands a process the file in which it counts its progress (`CHOWN`). The
//! descriptor server needs `SYS_ADMIN`, `SYS_PTRACE` and `DAC_READ_SEARCH` for the frame numbers of
//! other users' programs, whose files these are. `SYS_ADMIN` stands for `PERFMON` on kernels that
//! do not know the latter (before 5.8), or ask for more all the same, which is tried. All threads
//! keep `IPC_LOCK`: the memory of the process is locked, and a mapping that any of them adds counts
//! against `RLIMIT_MEMLOCK` without it, so that an allocation could fail.
//!
//! Control group files need none of this. They belong to root, which the process still is, and
//! the kernel asks for no capability where the files' owner moves processes. That is also the
//! limit of what is given up: files of root's stay open to each thread.

use super::sys;
use std::sync::OnceLock;
use std::{io, thread};

/// Numbers of `linux/capability.h`.
const CHOWN: u32 = 0;
const DAC_READ_SEARCH: u32 = 2;
const KILL: u32 = 5;
const IPC_LOCK: u32 = 14;
const SYS_PTRACE: u32 = 19;
const SYS_ADMIN: u32 = 21;
const SYS_NICE: u32 = 23;
const PERFMON: u32 = 38;

/// What a thread of the runtime is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// An agent, or a freeze thread of one.
    Agent,
    /// Answers requests of the control socket.
    Server,
    /// Raises the server when jobs end.
    Usher,
    /// Writes what others hand to it: the journal, the metrics.
    Reader,
    /// Opens page maps for programs.
    Descriptors,
}

impl Duty {
    /// The capabilities it needs, as bits.
    fn kept(self) -> u64 {
        let numbers: &[u32] = match self {
            Duty::Agent | Duty::Server => &[SYS_NICE, KILL, IPC_LOCK],
            Duty::Usher => &[SYS_NICE, IPC_LOCK],
            Duty::Reader => &[IPC_LOCK],
            Duty::Descriptors => &[SYS_ADMIN, SYS_PTRACE, DAC_READ_SEARCH, IPC_LOCK],
        };
        let counts = matches!(self, Duty::Agent | Duty::Server);
        bits(numbers) | if counts { bits(&[counting()]) } else { 0 }
    }
}

/// What it is permitted beside that, for single acts.
fn reserve(duty: Duty) -> u64 {
    if duty == Duty::Server { bits(&[CHOWN]) } else { 0 }
}

fn bits(numbers: &[u32]) -> u64 {
    numbers.iter().fold(0, |bits, number| bits | 1 << number)
}

/// The capability that opens counters of others: `PERFMON`, if the kernel takes it. It is tried,
/// since kernels of Debian and Ubuntu may know it and ask for `SYS_ADMIN` all the same (where
/// `kernel.perf_event_paranoid` is above 2).
fn counting() -> u32 {
    static FOUND: OnceLock<u32> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // In a thread of its own, whose rights are its own too.
        let tried = thread::spawn(|| {
            let Ok(now) = read() else { return false };
            let only = Sets { effective: bits(&[PERFMON]), ..now };
            now.permitted & only.effective != 0 && write(only).is_ok() && can_count()
        });
        if tried.join().unwrap_or(false) { PERFMON } else { SYS_ADMIN }
    })
}

/// Whether the calling thread may count what the kernel does on its behalf.
fn can_count() -> bool {
    /// `PERF_FLAG_FD_CLOEXEC` of `linux/perf_event.h`.
    const FD_CLOEXEC: libc::c_ulong = 1 << 3;
    // The first fields of `struct perf_event_attr` in its first published size (64 bytes): type
    // PERF_TYPE_SOFTWARE and size, config PERF_COUNT_SW_CPU_CLOCK; everything else is zero.
    let attributes: [u64; 8] = [1 | 64 << 32, 0, 0, 0, 0, 0, 0, 0];
    let (attributes, call) = (attributes.as_ptr(), libc::SYS_perf_event_open);
    // SAFETY: the kernel reads 64 bytes; the new descriptor is not shared.
    unsafe {
        let fd = libc::syscall(call, attributes, 0, -1, -1, FD_CLOEXEC);
        fd >= 0 && libc::close(fd as i32) == 0
    }
}

/// Gives up every capability of the calling thread that its duty does not need, for good. Threads
/// that it starts later have no more. Without privileges nothing changes.
///
/// # Errors
/// What the kernel says; nothing is given up then.
pub fn keep(duty: Duty) -> io::Result<()> {
    let now = read()?;
    let effective = now.permitted & duty.kept();
    let permitted = effective | now.permitted & reserve(duty);
    // Before the rights, so that at no instant an executed file could bring them back. Programs
    // are not started here, so that none is kept from its set-user-ID bit.
    // SAFETY: plain arguments.
    let shut = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    sys::check(libc::c_long::from(shut))?;
    write(Sets { effective, permitted, inheritable: 0 })
}

/// [`keep`] for an agent or a freeze thread, which an error must not stop: with more rights than it
/// needs it does no harm of its own.
pub fn drop_for_agents() {
    let _ = keep(Duty::Agent);
}

/// [`keep`] for the control server.
pub fn drop_for_server() {
    let _ = keep(Duty::Server);
}

/// [`keep`] for threads that write the journal and the metrics.
pub fn drop_for_reader() {
    let _ = keep(Duty::Reader);
}

/// As long as this lives, only what agents need is in effect in the thread that made it; it is
/// the thread that starts programs, and whatever else it has it raises for single acts.
#[derive(Debug)]
#[must_use]
pub struct Lowered {
    before: Option<u64>,
    /// Capabilities are the thread's: this must be dropped where it was made.
    _here: std::marker::PhantomData<*const ()>,
}

/// Lowers the calling thread until the value is dropped.
pub fn lower() -> Lowered {
    let before = read().ok().filter(|now| {
        let effective = now.effective & Duty::Agent.kept();
        write(Sets { effective, ..*now }).is_ok()
    });
    Lowered { before: before.map(|now| now.effective), _here: std::marker::PhantomData }
}

impl Drop for Lowered {
    fn drop(&mut self) {
        if let (Some(effective), Ok(now)) = (self.before, read()) {
            let _ = write(Sets { effective: effective & now.permitted, ..now });
        }
    }
}

/// Does something with all that the calling thread is permitted: starting a program as another
/// user, giving files to it.
pub fn raised<T>(act: impl FnOnce() -> T) -> T {
    with(u64::MAX, act)
}

/// Gives a file to a user.
///
/// # Errors
/// EPERM where the calling thread is not permitted to.
pub fn chown(file: &std::fs::File, uid: u32, gid: u32) -> io::Result<()> {
    with(bits(&[CHOWN]), || std::os::unix::fs::fchown(file, Some(uid), Some(gid)))
}

/// Does something with more capabilities in effect, as far as they are permitted.
fn with<T>(more: u64, act: impl FnOnce() -> T) -> T {
    /// Puts back what was in effect, after a panic too.
    struct Back(Option<Sets>);
    impl Drop for Back {
        fn drop(&mut self) {
            if let Some(before) = self.0 {
                let _ = write(before);
            }
        }
    }
    let before = read().ok();
    let effective = |now: Sets| now.effective | now.permitted & more;
    let wanted = before.filter(|now| effective(*now) != now.effective);
    let done = wanted.filter(|now| write(Sets { effective: effective(*now), ..*now }).is_ok());
    let _back = Back(done);
    act()
}

/// The capability sets of a thread, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sets {
    effective: u64,
    permitted: u64,
    inheritable: u64,
}

/// `struct __user_cap_header_struct`, version 3, the calling thread.
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// `struct __user_cap_data_struct`: effective, permitted, inheritable; version 3 has two.
type Words = [[u32; 3]; 2];

const HEADER: Header = Header { version: 0x2008_0522, pid: 0 };

fn read() -> io::Result<Sets> {
    let (mut header, mut words) = (HEADER, Words::default());
    // SAFETY: version 3 fills two words; raw, since the C library has no such call.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, words.as_mut_ptr()) };
    sys::check(result)?;
    let set = |at: usize| u64::from(words[0][at]) | u64::from(words[1][at]) << 32;
    Ok(Sets { effective: set(0), permitted: set(1), inheritable: set(2) })
}

fn write(sets: Sets) -> io::Result<()> {
    let Sets { effective, permitted, inheritable } = sets;
    let word = |shift: u32| [effective, permitted, inheritable].map(|set| (set >> shift) as u32);
    let (mut header, words): (_, Words) = (HEADER, [word(0), word(32)]);
    // SAFETY: version 3 reads two words.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, words.as_ptr()) };
    sys::check(result).map(drop)
}

/// Takes all capabilities from the bounding set of a program that is about to be started, so that
/// it has none even where root starts it.
pub fn start_without_any(command: &mut std::process::Command) {
    let give_up = || {
        for capability in 0..64 {
            // SAFETY: plain arguments; refused for numbers that the kernel does not know.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        }
        Ok(())
    };
    // SAFETY: plain system calls between fork and exec.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, give_up) };
}

#[cfg(test)]
#[path = "tests/rights.rs"]
mod tests;
