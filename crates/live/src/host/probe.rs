//! What works on this host, found out by trying each call on throw-away threads, processes and
//! groups; nothing of them is left afterwards. Call it before the runtime creates its own tree.

mod counting;
mod own;
mod subject;
mod tries;

pub use counting::group_counters;
pub use own::{Rights, page_frame, socket};

use super::cgroup::{Hierarchies, Tree};
use super::platform::Platform;
use super::{HardwareCore, sys};
use maracas_core::VcpuId;
use std::{fmt, io};

/// One thing that the live machine would like to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Capability {
    /// Raise a thread to `SCHED_FIFO`, inside one of our groups.
    Fifo,
    /// Stop and start a group.
    Freezer,
    /// Stop and start a single process by signal.
    StopSignal,
    /// Kill a group as a whole.
    GroupKill,
    /// Bind a group to a core against its will.
    Cpuset,
    /// Close the ways out of a VCPU to a started program.
    Seal,
    /// Count the time of a whole group on a core, kernel time included.
    GroupBudget,
    /// Records of every switch in and out.
    SwitchRecords,
    /// Lock memory.
    MemoryLock,
    /// Watch a process by descriptor.
    Pidfd,
    /// Timers without slack.
    TimerSlack,
    /// `SCHED_DEADLINE`, for comparison only.
    Deadline,
    /// Facts that cannot be changed from here.
    Cores,
    /// The kernel's cap on real-time time.
    RealtimeThrottle,
    /// The kernel's reserve for fair tasks.
    FairServer,
    /// Preemption model and tick.
    Preemption,
    /// Time that a hypervisor took.
    Steal,
}

/// Whether a capability is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Tried, and it works.
    Works,
    /// Tried, and refused.
    Missing,
    /// Not a thing to have or lack: a fact to know.
    Fact,
}

/// What was found out about one capability.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Which.
    pub capability: Capability,
    /// Whether it is there.
    pub state: State,
    /// How that was proved, or the kernel's refusal.
    pub proof: String,
    /// What would enable it; empty when it works.
    pub remedy: &'static str,
    /// What is done without it; empty when nothing is lost.
    pub fallback: &'static str,
}

/// The levels of support for live operation, best first. Each level of support is used by default
/// when those above are out of reach.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Support {
    /// Budgets by counters with kernel time, background by freezer.
    Full,
    /// No counters with kernel time: the threads' clocks at the earliest exhaustion.
    NoPerfmon,
    /// No freezer: the background is left to the kernel's fair class.
    NoFreezer,
    /// No `SCHED_FIFO`: stop and continue signals, best effort, errors of milliseconds.
    NoFifo,
    /// Nothing to hold a program with: only `sim` and `check`.
    SimulationOnly,
}

/// How long the freezer took with a spinning process, in nanoseconds, medians.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Latency {
    /// From the call to the last instruction.
    pub freeze_ns: u64,
    /// From the call to the first instruction.
    pub thaw_ns: u64,
}

/// Everything that was found out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// The machine.
    pub platform: Platform,
    /// One finding for each capability, in the order of [`Capability`].
    pub findings: Vec<Finding>,
    /// The freezer's latency, where it works.
    pub freezer: Option<Latency>,
}

impl Capabilities {
    /// Tries everything, on the first two of `cores`. Takes about 100 ms.
    ///
    /// # Errors
    /// When not even the platform can be read, or `cores` is empty.
    pub fn probe(cores: &[HardwareCore]) -> io::Result<Capabilities> {
        let platform = Platform::detect()?;
        let (findings, freezer) = on_bench(&platform, cores, |bench| {
            let findings = tries::TABLE.iter().map(|row| row.find(bench)).collect();
            (findings, bench.latency)
        })?;
        Ok(Capabilities { platform, findings, freezer })
    }

    /// Whether a capability was found to work.
    pub fn has(&self, capability: Capability) -> bool {
        let mut found = self.findings.iter().filter(|found| found.capability == capability);
        found.any(|found| found.state == State::Works)
    }

    /// The highest level of support that this host reaches.
    pub fn support(&self) -> Support {
        support(|capability| self.has(capability))
    }

    /// One line for each missing capability that costs something, with its next-best fallback.
    pub fn missing(&self) -> impl Iterator<Item = String> {
        let missing = self.findings.iter().filter(|found| found.state == State::Missing);
        missing
            .filter(|found| !found.fallback.is_empty())
            .map(|found| format!("no {} ({}): {}", found.capability, found.proof, found.fallback))
    }
}

/// What freezing a group and thawing it take of the calling thread, the median; `None` where there
/// is no freezer. Takes some milliseconds, and waits for nothing else: unlike
/// [`Capabilities::freezer`] it does not say when the process stopped or went on.
///
/// # Errors
/// As [`Capabilities::probe`]: where no group can be made, above all.
pub fn freezer_calls(cores: &[HardwareCore]) -> io::Result<Option<maracas_core::Duration>> {
    on_bench(&Platform::detect()?, cores, |bench| tries::calls(bench))?
}

/// Lets `act` try things on throw-away groups and processes, on the last of `cores`.
fn on_bench<T>(
    platform: &Platform,
    cores: &[HardwareCore],
    act: impl FnOnce(&mut tries::Bench<'_>) -> T,
) -> io::Result<T> {
    sys::keep_children();
    let core = *cores.last().ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "no core to probe: give at least one")
    })?;
    let tree = Tree::create(&Hierarchies::read()?)?;
    // A VCPU number that no scenario reaches.
    let tried = tree.vcpu(VcpuId(u32::MAX)).and_then(|group| {
        let tried = tries::Bench::new(platform, &tree, &group, core, cores);
        let tried = tried.map(|mut bench| act(&mut bench));
        let ended = group.kill();
        group.remove()?;
        let found = tried?;
        ended.map(|()| found)
    });
    // Whatever came of it, nothing is left.
    let removed = match tree.remove() {
        // A tree of this process that is in use stays.
        Err(error) if super::os_code(&error) == Some(libc::EBUSY) => Ok(()),
        result => result,
    };
    let tried = tried?;
    removed.map(|()| tried)
}

/// What budgets by counters stand on; without one of them the machine uses none.
pub(crate) const EVENTS: [Capability; 2] = [Capability::GroupBudget, Capability::SwitchRecords];

/// The levels of support: the worst thing missing decides.
fn support(has: impl Fn(Capability) -> bool) -> Support {
    let any_stop = has(Capability::Freezer) || has(Capability::StopSignal);
    // Ends of programs and of the runtime itself are noticed in no other way.
    if !has(Capability::Pidfd) {
        return Support::SimulationOnly;
    }
    if !has(Capability::Fifo) {
        return if any_stop { Support::NoFifo } else { Support::SimulationOnly };
    }
    if !has(Capability::Freezer) {
        return Support::NoFreezer;
    }
    if EVENTS.into_iter().all(has) { Support::Full } else { Support::NoPerfmon }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Capability::Fifo => "SCHED_FIFO",
            Capability::Freezer => "group freezer",
            Capability::StopSignal => "stop signal",
            Capability::GroupKill => "group kill",
            Capability::Cpuset => "cpuset",
            Capability::Seal => "sealed programs",
            Capability::GroupBudget => "group time counter",
            Capability::SwitchRecords => "switch records",
            Capability::MemoryLock => "locked memory",
            Capability::Pidfd => "pidfd",
            Capability::TimerSlack => "timer slack",
            Capability::Deadline => "SCHED_DEADLINE",
            Capability::Cores => "usable cores",
            Capability::RealtimeThrottle => "real-time throttle",
            Capability::FairServer => "fair server",
            Capability::Preemption => "preemption",
            Capability::Steal => "steal",
        })
    }
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Support::Full => "full: counters with kernel time, SCHED_FIFO foreground, freezer",
            Support::NoPerfmon => "no perfmon: threads' clocks, read at the earliest exhaustion",
            Support::NoFreezer => "no freezer: background left to the kernel's fair class",
            Support::NoFifo => "no SCHED_FIFO: stop signals, best effort, errors of milliseconds",
            Support::SimulationOnly => "simulation only",
        })
    }
}

#[cfg(test)]
#[path = "tests/probe.rs"]
mod tests;
