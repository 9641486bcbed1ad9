//! Instructions retired, where the hardware counts them.

use super::{abi, attributes, open};
use crate::host::{HardwareCore, sched};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread;

/// Steps of the loop whose instructions are counted on trial; each takes at least one.
pub(crate) const TRIAL_STEPS: u64 = 100_000;

/// Counts the instructions in user mode of a group on one core, or of a thread. Where more
/// counters are wanted than the hardware has, the kernel lets them take turns, and what was not
/// counted is extrapolated.
#[derive(Debug)]
pub(crate) struct Instructions {
    file: File,
    seen: Reading,
    /// Whether it ever had to share its counter.
    pub(crate) was_shared: bool,
}

/// The count, for how long it was wanted, and for how long it counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Reading {
    count: u64,
    wanted_ns: u64,
    counted_ns: u64,
}

impl Reading {
    /// What was gained since `before`, extrapolated; `None` where nothing was counted meanwhile
    /// though it was wanted.
    fn since(self, before: Self) -> Option<u64> {
        let count = self.count.saturating_sub(before.count);
        let wanted_ns = self.wanted_ns.saturating_sub(before.wanted_ns);
        let counted_ns = self.counted_ns.saturating_sub(before.counted_ns);
        if counted_ns >= wanted_ns {
            return Some(count);
        }
        let scaled = u128::from(count) * u128::from(wanted_ns);
        scaled.checked_div(u128::from(counted_ns)).map(|gain| u64::try_from(gain).unwrap_or(0))
    }
}

impl Instructions {
    /// Of the group whose v2 directory `group` is, on the hardware core `core`.
    pub(crate) fn of_group(group: BorrowedFd<'_>, core: u32) -> io::Result<Self> {
        let flags = abi::PERF_FLAG_PID_CGROUP | abi::PERF_FLAG_FD_CLOEXEC;
        Self::open(group.as_raw_fd(), core as i32, flags)
    }
    /// Of the calling thread while it is on `core`. The kinds of a hybrid's cores have monitors of
    /// their own, and the kernel finds that of a core only where the core is named: without, it
    /// takes the first kind's, which counts nothing on the others.
    fn of_this_thread(core: HardwareCore) -> io::Result<Self> {
        Self::open(0, core.0 as i32, abi::PERF_FLAG_FD_CLOEXEC)
    }
    fn open(pid: i32, core: i32, flags: u32) -> io::Result<Self> {
        let mut attr = attributes(u64::from(abi::PERF_COUNT_HW_INSTRUCTIONS));
        attr.type_ = abi::PERF_TYPE_HARDWARE;
        attr.read_format =
            u64::from(abi::PERF_FORMAT_TOTAL_TIME_ENABLED | abi::PERF_FORMAT_TOTAL_TIME_RUNNING);
        // The kernel's part is interrupts and waiting as much as work.
        attr.set_exclude_kernel(1);
        attr.set_exclude_hv(1);
        let file = open(&mut attr, pid, core, flags)?;
        Ok(Self { file, seen: Reading::default(), was_shared: false })
    }
    /// What was counted since this was asked last.
    pub(crate) fn gain(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 24];
        (&self.file).read_exact(&mut bytes)?;
        let word = |at: usize| {
            let word: [u8; 8] = std::array::from_fn(|i| bytes[at * 8 + i]);
            u64::from_ne_bytes(word)
        };
        let now = Reading { count: word(0), wanted_ns: word(1), counted_ns: word(2) };
        let gain = now.since(self.seen);
        self.was_shared |= now.counted_ns < now.wanted_ns;
        if gain.is_some() {
            self.seen = now;
        }
        Ok(gain.unwrap_or(0))
    }
}

/// Counts the instructions of a loop of [`TRIAL_STEPS`] steps on `core`, on a thread of its own:
/// where ours may run is not touched.
///
/// # Errors
/// Where they cannot be counted, or the counter stands still, as that of some hypervisors does.
pub(crate) fn trial(core: HardwareCore) -> io::Result<u64> {
    let counting = thread::spawn(move || {
        sched::set_affinity(0, core)?;
        let mut counter = Instructions::of_this_thread(core)?;
        (0..TRIAL_STEPS).for_each(|step| _ = std::hint::black_box(step));
        counter.gain()
    });
    match counting.join().map_err(|_| io::Error::other("the thread died"))?? {
        count if count < TRIAL_STEPS => {
            Err(io::Error::other(format!("counted {count} in a loop of {TRIAL_STEPS} steps")))
        }
        count => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_counted_is_extrapolated() {
        let at = |count, wanted_ns, counted_ns| Reading { count, wanted_ns, counted_ns };
        let gain = |from: Reading, to: Reading| to.since(from);
        assert_eq!(gain(at(0, 0, 0), at(700, 10, 10)), Some(700));
        assert_eq!(gain(at(700, 10, 10), at(1000, 40, 20)), Some(900), "a third of the time");
        assert_eq!(gain(at(700, 10, 10), at(700, 40, 10)), None, "not at all");
        assert_eq!(gain(at(700, 10, 10), at(700, 10, 10)), Some(0));
    }
}
