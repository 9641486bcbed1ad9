//! Thin, typed scheduling calls on one thread. A `tid` of 0 means the calling thread.

use super::sys::check;
use super::{HardwareCore, os_code};
use std::{fs, io};

/// How the kernel schedules a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelPolicy {
    /// `SCHED_OTHER`: the fair class, our background.
    Other,
    /// `SCHED_FIFO`: fixed priority, our foreground.
    Fifo {
        /// 1 (low) to 99 (high).
        priority: u8,
        /// Whether its children start as `SCHED_OTHER`.
        reset_on_fork: bool,
    },
    /// Any other policy, by the kernel's number (2 RR, 3 batch, 5 idle, 6 deadline, 7 ext).
    Foreign(i32),
}

/// Makes a thread `SCHED_FIFO`. Costs about 1 us. FIFO is inherited over fork, and a child
/// that the agent does not know yet would not be lowered, so foreground threads are raised with
/// `reset_on_fork`.
///
/// # Errors
/// EPERM without `CAP_SYS_NICE` or in a v1 cpu group without real-time runtime; ESRCH when the
/// thread is gone ([`gone`]).
pub fn set_fifo(tid: i32, priority: u8, reset_on_fork: bool) -> io::Result<()> {
    let reset = if reset_on_fork { libc::SCHED_RESET_ON_FORK } else { 0 };
    set_scheduler(tid, libc::SCHED_FIFO | reset, i32::from(priority))
}

/// `struct sched_attr` of sched_setattr(2), in the size of its first version.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Makes a thread `SCHED_DEADLINE` with `budget` every `period`, in nanoseconds.
///
/// # Errors
/// EPERM without `CAP_SYS_NICE` or for a thread pinned outside an exclusive cpuset; EBUSY where
/// the kernel's own admission refuses.
pub fn set_deadline(tid: u32, budget: u64, period: u64) -> io::Result<()> {
    let attributes = Attributes {
        size: std::mem::size_of::<Attributes>() as u32,
        policy: libc::SCHED_DEADLINE as u32,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime: budget,
        deadline: period,
        period,
    };
    // SAFETY: the structure has the size that it states and outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes a thread `SCHED_OTHER`, with reset-on-fork off again where we have the right to clear it.
///
/// # Errors
/// ESRCH when the thread is gone ([`gone`]); EPERM for another user's thread.
pub fn set_other(tid: i32) -> io::Result<()> {
    match set_scheduler(tid, libc::SCHED_OTHER, 0) {
        // Only CAP_SYS_NICE may clear the flag; the policy matters more.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            set_scheduler(tid, libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0)
        }
        result => result,
    }
}

/// Does `action`, in which processes that the calling thread starts are at its own real-time
/// priority from their first instruction, though it is `SCHED_FIFO` with reset-on-fork otherwise.
/// Without `CAP_SYS_NICE` they start as they would.
pub(crate) fn with_children_alike<T>(action: impl FnOnce() -> T) -> T {
    let priority = match policy_of(0) {
        Ok(KernelPolicy::Fifo { priority, reset_on_fork: true }) => Some(priority),
        _ => None,
    };
    let alike = priority.filter(|priority| set_fifo(0, *priority, false).is_ok());
    let result = action();
    // Setting the flag needs no right.
    alike.into_iter().for_each(|priority| drop(set_fifo(0, priority, true)));
    result
}

/// Whether the calling thread is on this core.
pub fn is_on(core: HardwareCore) -> bool {
    // SAFETY: no arguments.
    u32::try_from(unsafe { libc::sched_getcpu() }).is_ok_and(|number| number == core.0)
}

/// How the kernel schedules a thread now.
///
/// # Errors
/// ESRCH when the thread is gone.
pub fn policy_of(tid: i32) -> io::Result<KernelPolicy> {
    // SAFETY: plain arguments, and a structure of our own to be filled.
    let (number, priority) = unsafe {
        let number = check(libc::syscall(libc::SYS_sched_getscheduler, tid))? as i32;
        let mut param: libc::sched_param = std::mem::zeroed();
        check(libc::syscall(libc::SYS_sched_getparam, tid, &raw mut param))?;
        (number, param.sched_priority)
    };
    Ok(match number & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => KernelPolicy::Other,
        libc::SCHED_FIFO => KernelPolicy::Fifo {
            priority: u8::try_from(priority).unwrap_or(u8::MAX),
            reset_on_fork: number & libc::SCHED_RESET_ON_FORK != 0,
        },
        other => KernelPolicy::Foreign(other),
    })
}

/// For how many microseconds a real-time thread of a process may run without sleeping before the
/// kernel kills it (`RLIMIT_RTTIME`, its soft limit); `None` where there is no limit, and where the
/// process is gone.
pub fn realtime_limit_us(pid: i32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Lets a thread run on one core only. 1 us for a waiting thread, 11 us for a running one, which
/// the kernel must stop first.
///
/// # Errors
/// EINVAL when the core is offline or outside the thread's cpuset; ESRCH when it is gone.
pub fn set_affinity(tid: i32, core: HardwareCore) -> io::Result<()> {
    set_affinities(tid, &[core])
}

/// Lets a thread run on these cores.
///
/// # Errors
/// EINVAL when none is online and in the thread's cpuset; ESRCH when it is gone.
pub fn set_affinities(tid: i32, cores: &[HardwareCore]) -> io::Result<()> {
    // SAFETY: the set is ours; CPU_SET drops numbers that do not fit.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for core in cores {
            libc::CPU_SET(core.0 as usize, &mut set);
        }
        let size = size_of::<libc::cpu_set_t>();
        check(libc::syscall(libc::SYS_sched_setaffinity, tid, size, &raw const set)).map(drop)
    }
}

/// The cores on which a thread may run, in order.
///
/// # Errors
/// ESRCH when the thread is gone.
pub fn affinity_of(tid: i32) -> io::Result<Vec<HardwareCore>> {
    // SAFETY: the kernel fills at most the size that we give.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        check(libc::syscall(libc::SYS_sched_getaffinity, tid, size, &raw mut set))?;
        set
    };
    // SAFETY: the index stays below CPU_SETSIZE.
    let inside = |core: &usize| unsafe { libc::CPU_ISSET(*core, &set) };
    let limit = libc::CPU_SETSIZE as usize;
    Ok((0..limit).filter(inside).map(|core| HardwareCore(core as u32)).collect())
}

/// Whether an error only says that the thread has ended meanwhile.
pub fn gone(error: &io::Error) -> bool {
    os_code(error) == Some(libc::ESRCH)
}

/// Takes "the thread has ended meanwhile" as done.
///
/// # Errors
/// Every other error, unchanged.
pub fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if gone(&error) => Ok(()),
        result => result,
    }
}

fn set_scheduler(tid: i32, policy: i32, priority: i32) -> io::Result<()> {
    let param = libc::sched_param { sched_priority: priority };
    // The raw call, since some C libraries refuse sched_setscheduler altogether.
    // SAFETY: plain arguments and a structure that outlives the call.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, policy, &raw const param) };
    check(result).map(drop)
}
