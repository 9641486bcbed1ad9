//! The memory that runtime and guardian share: what each agent does, what the guardian did to the
//! VCPUs of its core, and why the run must end.
//!
//! An agent says when it goes to sleep and until when, and when it woke. So a look at one word
//! tells whether it is late: it sleeps beyond what it asked for, or it has been awake for long.
//! An agent that wakes again and again without having slept is awake all the time: what it sleeps
//! pays for nine times as much of being awake, no more.

use crate::clock::monotonic_ns;
use crate::host::HardwareCore;
use crate::host::shared_page::{HEARTBEATS, Heartbeat, Page, SharedPage};
use maracas_live_core::Relief;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::{fmt, io};

/// A heartbeat that is not watched: its agent has not begun yet.
const NOT_YET: u64 = 0;
/// A heartbeat that is not watched: its agent has ended in order.
const AT_REST: u64 = u64::MAX;
/// Set in the word of an agent that is awake; the rest is since when. Without it the rest is until
/// when it sleeps. Monotonic nanoseconds need 63 bits after 292 years.
const AWAKE: u64 = 1 << 63;
/// The latest time that a word can hold: an agent that sleeps so long is never late.
const FOREVER: u64 = AWAKE - 1;

/// How much of being awake a nanosecond of sleep pays for. An agent that takes more than nine
/// tenths of its core leaves less than the tenth that admission leaves free on every core.
const CREDIT: u64 = 9;

/// How much being awake is carried over a sleep at most: with less the guardian, which looks every
/// 125 ms, would see it begin anew at each look; with more an agent that was off its core for
/// seconds would be taken for stuck when it is back.
const CARRIED: u64 = 250_000_000;

/// Why the guardian ends a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// An agent neither slept nor woke when it should have.
    Late,
    /// The runtime was stopped by a signal.
    Stopped,
    /// A managed core was taken off line: the kernel then drops its counters for good.
    OffLine,
    /// An agent woke on another core than its own, which goes off line, or was taken from it. It
    /// reports so itself.
    Away,
    /// The run did not begin to end when it should have.
    Overdue,
}

/// The wish of the guardian or of an agent that the run end, and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ending {
    /// Why.
    pub cause: Cause,
    /// The agent (its core's number in the run) that it is about.
    pub agent: usize,
    /// For how long it had been so when the guardian gave up.
    pub lasted: Duration,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { agent, lasted, .. } = self;
        match self.cause {
            Cause::Late => write!(f, "core{agent}'s agent has been late for {lasted:.1?}"),
            Cause::Stopped => write!(f, "the runtime has been stopped for {lasted:.1?}"),
            Cause::OffLine => write!(f, "core{agent} has been taken off line"),
            Cause::Away => write!(
                f,
                "core{agent}'s agent was driven off its core, which goes off line or was taken \
                 from it"
            ),
            Cause::Overdue => write!(f, "the run has outlasted its duration by {lasted:.1?}"),
        }
    }
}

/// What every agent is at, in memory that runtime and guardian share. Clones share it too.
#[derive(Clone, Debug)]
pub struct Heartbeats(Arc<SharedPage>);

impl Heartbeats {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(SharedPage::new()?)))
    }

    pub(super) fn map(file: File) -> io::Result<Self> {
        Ok(Self(Arc::new(SharedPage::map(file)?)))
    }

    /// The descriptor of the memory, for the guardian to inherit.
    pub(super) fn fd(&self) -> RawFd {
        self.0.file().as_raw_fd()
    }

    fn page(&self) -> &Page {
        self.0.page()
    }

    fn heartbeat(&self, agent: usize) -> Option<&Heartbeat> {
        self.page().heartbeats.get(agent)
    }
}

// The agents' side.
impl Heartbeats {
    /// The agents of these cores are watched, in this order; those beyond 128 are not.
    pub fn watch(&self, cores: &[HardwareCore]) {
        for (heartbeat, core) in self.page().heartbeats.iter().zip(cores) {
            heartbeat.hardware.store(core.0 + 1, Ordering::Relaxed);
        }
        let agents = cores.len().min(HEARTBEATS) as u32;
        self.page().agents.store(agents, Ordering::Release);
    }

    /// The kernel carries the law out on all cores, and the first agent is the one thread that
    /// decides: budgets are held while it is late, so no core is relieved for its sake.
    pub(crate) fn is_in_kernel(&self) {
        self.page().in_kernel.store(1, Ordering::Release);
    }

    /// The agent sleeps now, until `due_ns` (monotonic) at the latest; `u64::MAX` = until woken,
    /// which is right only while nothing that it enforces may run.
    pub fn sleeps(&self, agent: usize, due_ns: u64) {
        self.sleeps_from(agent, monotonic_ns(), due_ns);
    }

    /// The same, of an agent that has just read the clock.
    pub(crate) fn sleeps_from(&self, agent: usize, now_ns: u64, due_ns: u64) {
        let Some(heartbeat) = self.heartbeat(agent) else { return };
        if heartbeat.state.load(Ordering::Relaxed) & AWAKE == 0 {
            // It did not say that it woke: it has nothing to pay for.
            heartbeat.since_ns.store(now_ns, Ordering::Relaxed);
        }
        heartbeat.slept_ns.store(now_ns, Ordering::Relaxed);
        heartbeat.state.store(due_ns.clamp(NOT_YET + 1, FOREVER), Ordering::Release);
    }

    /// The agent woke at `now_ns` (monotonic) and works. To be called once at its begin, too.
    pub fn wakes(&self, agent: usize, now_ns: u64) {
        let Some(heartbeat) = self.heartbeat(agent) else { return };
        let (since_ns, slept_ns) = (&heartbeat.since_ns, &heartbeat.slept_ns);
        let since = match heartbeat.state.load(Ordering::Relaxed) {
            NOT_YET | AT_REST => now_ns,
            // It has said so before and not slept since.
            awake if awake & AWAKE != 0 => return,
            _ => {
                let since = since_ns.load(Ordering::Relaxed);
                awake_since(since, slept_ns.load(Ordering::Relaxed), now_ns)
            }
        };
        since_ns.store(since, Ordering::Relaxed);
        heartbeat.state.store(AWAKE | since.min(FOREVER - 1), Ordering::Release);
    }

    /// The agent lives and will say so again within [`BEAT`](super::BEAT).
    pub fn beat(&self, agent: usize) {
        self.sleeps(agent, monotonic_ns().saturating_add(super::BEAT.as_nanos() as u64));
    }

    /// The agent has ended in order, and nothing on its core has real-time priority or is frozen
    /// any more: it is not watched from here on.
    pub fn rest(&self, agent: usize) {
        if let Some(heartbeat) = self.heartbeat(agent) {
            heartbeat.state.store(AT_REST, Ordering::Release);
        }
    }

    /// The run is to begin to end at this monotonic time; `u64::MAX` = it is open when.
    pub fn ends_at(&self, ends_ns: u64) {
        self.page().ends_ns.store(ends_ns, Ordering::Relaxed);
    }

    /// Changes whenever another process has begun or ended to demote and freeze the VCPUs of this
    /// agent's core. What the agent believes of their priorities and freezer states is wrong then,
    /// and all of it must be set anew.
    pub fn reliefs(&self, agent: usize) -> u32 {
        let count = |heartbeat: &Heartbeat| {
            heartbeat
                .begun
                .load(Ordering::Acquire)
                .wrapping_add(heartbeat.done.load(Ordering::Acquire))
        };
        self.heartbeat(agent).map_or(0, count)
    }

    /// Whether a relief of this agent's core is under way. What is set anew now may be undone: the
    /// agent should sleep for milliseconds only and look at [`Heartbeats::reliefs`] again.
    pub fn is_being_relieved(&self, agent: usize) -> bool {
        let under_way = |heartbeat: &Heartbeat| {
            heartbeat.begun.load(Ordering::Acquire) != heartbeat.done.load(Ordering::Acquire)
        };
        self.heartbeat(agent).is_some_and(under_way)
    }

    /// What the agent must know of reliefs when it is back.
    pub(crate) fn relief(&self, agent: usize) -> Relief {
        let stuck = |heartbeat: &Heartbeat| heartbeat.stuck_ns.load(Ordering::Relaxed);
        let stuck = maracas_core::Duration::from_nanos(self.heartbeat(agent).map_or(0, stuck));
        Relief { count: self.reliefs(agent), stuck }
    }

    /// Why the guardian, or an agent, wants the run to end, if it does.
    pub fn ending(&self) -> Option<Ending> {
        let word = self.page().ending.load(Ordering::Acquire);
        let cause = match word & 0xff {
            1 => Cause::Late,
            2 => Cause::Stopped,
            3 => Cause::OffLine,
            4 => Cause::Overdue,
            5 => Cause::Away,
            _ => return None,
        };
        let lasted = Duration::from_nanos(self.page().ending_ns.load(Ordering::Relaxed));
        Some(Ending { cause, agent: (word >> 8) as usize, lasted })
    }
}

// The side of the observer.
impl Heartbeats {
    /// How many agents there are to be looked at.
    pub(crate) fn agents(&self) -> usize {
        match self.page().agents.load(Ordering::Acquire) {
            0 => HEARTBEATS,
            agents => (agents as usize).min(HEARTBEATS),
        }
    }

    /// For how long the agent has been late at `now_ns`: beyond the time until which it sleeps, or
    /// awake. Zero for one that has not begun or has ended.
    pub(crate) fn late(&self, agent: usize, now_ns: u64) -> Duration {
        Duration::from_nanos(self.heartbeat(agent).map_or(0, |heartbeat| heartbeat.late_ns(now_ns)))
    }

    /// Whether the run should have begun to end by `now_ns`.
    pub(super) fn is_overdue(&self, now_ns: u64) -> bool {
        let ends_ns = self.page().ends_ns.load(Ordering::Relaxed);
        ends_ns != 0 && now_ns > ends_ns
    }

    /// Whether a core whose agent is late is to be relieved: its budgets are held by nothing else.
    pub(super) fn may_be_relieved(&self) -> bool {
        self.page().in_kernel.load(Ordering::Acquire) == 0
    }

    /// Whether the agent has begun and not ended; where the kernel carries the law out, the thread
    /// that decides for it.
    pub(super) fn is_watched(&self, agent: usize) -> bool {
        let agent = if self.may_be_relieved() { agent } else { 0 };
        let watched = |heartbeat: &Heartbeat| {
            !matches!(heartbeat.state.load(Ordering::Acquire), NOT_YET | AT_REST)
        };
        self.heartbeat(agent).is_some_and(watched)
    }

    /// On which core the agent is, if that was given.
    pub(super) fn core(&self, agent: usize) -> Option<HardwareCore> {
        let number = self.heartbeat(agent)?.hardware.load(Ordering::Relaxed);
        number.checked_sub(1).map(HardwareCore)
    }

    /// Another process begins to demote and freeze what is on this agent's core, which has been
    /// stuck for so long. To be followed by [`Heartbeats::ends_relief`], whatever comes between.
    pub(crate) fn begins_relief(&self, agent: usize, stuck: Duration) {
        if let Some(heartbeat) = self.heartbeat(agent) {
            heartbeat.stuck_ns.store(stuck.as_nanos() as u64, Ordering::Relaxed);
            heartbeat.begun.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The relief is over.
    pub(crate) fn ends_relief(&self, agent: usize) {
        if let Some(heartbeat) = self.heartbeat(agent) {
            heartbeat.done.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Lets the runtime know that it must end, and why. The first reason stays.
    pub(crate) fn ask_end(&self, ending: &Ending) {
        if self.ending().is_some() {
            return;
        }
        let cause = match ending.cause {
            Cause::Late => 1,
            Cause::Stopped => 2,
            Cause::OffLine => 3,
            Cause::Overdue => 4,
            Cause::Away => 5,
        };
        self.page().ending_ns.store(ending.lasted.as_nanos() as u64, Ordering::Relaxed);
        self.page().ending.store(cause | (ending.agent as u64) << 8, Ordering::Release);
    }
}

/// Since when an agent counts as awake that was awake from `since_ns`, slept from `slept_ns` and
/// woke at `now_ns`: what it did not pay for by sleeping is carried on.
fn awake_since(since_ns: u64, slept_ns: u64, now_ns: u64) -> u64 {
    let paid = now_ns.saturating_sub(slept_ns).saturating_mul(CREDIT);
    let awake = slept_ns.saturating_sub(since_ns).min(CARRIED);
    now_ns.saturating_sub(awake.saturating_sub(paid))
}

impl Heartbeat {
    fn late_ns(&self, now_ns: u64) -> u64 {
        match self.state.load(Ordering::Acquire) {
            NOT_YET | AT_REST => 0,
            awake if awake & AWAKE != 0 => now_ns.saturating_sub(awake & !AWAKE),
            due_ns => {
                // Else an agent that wakes again at once would be taken for asleep by an observer
                // that looks just then.
                let since_ns = self.since_ns.load(Ordering::Relaxed);
                let slept_ns = self.slept_ns.load(Ordering::Relaxed);
                let owed_ns = now_ns.saturating_sub(awake_since(since_ns, slept_ns, now_ns));
                let due_ns = if due_ns == FOREVER { u64::MAX } else { due_ns };
                now_ns.saturating_sub(due_ns).max(owed_ns)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_heartbeat_shows_how_late_its_agent_is() {
        let heartbeats = Heartbeats::new().expect("memory can be had");
        let late = |now_ns| heartbeats.late(3, now_ns).as_nanos() as u64;
        assert_eq!(late(u64::MAX - 1), 0, "it has not begun");
        heartbeats.wakes(3, 10 * MS);
        heartbeats.wakes(3, 12 * MS);
        assert_eq!((late(10 * MS), late(17 * MS)), (0, 7 * MS), "it is awake");
        heartbeats.sleeps_from(3, 18 * MS, 20 * MS);
        assert_eq!(late(18 * MS + MS / 2), 7 * MS / 2, "8 ms awake, of which 4.5 are paid for");
        assert_eq!((late(19 * MS), late(21 * MS)), (0, MS), "it sleeps too long");
        heartbeats.sleeps_from(3, 18 * MS, u64::MAX);
        assert_eq!(late(u64::MAX), 0, "it sleeps until it is woken");
        heartbeats.sleeps_from(3, 18 * MS, 0);
        assert_eq!(late(30 * MS), 30 * MS - 1, "no time means that the agent has not begun");
        heartbeats.rest(3);
        assert_eq!(late(u64::MAX - 1), 0, "it has ended");
        assert!(!heartbeats.is_watched(3) && !heartbeats.is_watched(0));
        // Beyond the most cores none is watched, and nothing breaks.
        heartbeats.wakes(HEARTBEATS, MS);
        assert_eq!(heartbeats.late(HEARTBEATS, 9 * MS), Duration::ZERO);
    }

    #[test]
    fn an_agent_that_hardly_sleeps_is_awake_all_the_time() {
        // It works for 1 ms and sleeps for 10 us, 100 times: 101 ms, of which 9 us pay for 90 each.
        let (mut since, mut now) = (0, 0);
        for _ in 0..100 {
            now += MS;
            since = awake_since(since, now, now + MS / 100);
            now += MS / 100;
        }
        assert_eq!(now - since, 91 * MS);
        // One that sleeps for 200 us after each ms owes nothing.
        for _ in 0..200 {
            now += MS;
            since = awake_since(since, now, now + MS / 5);
            now += MS / 5;
        }
        assert_eq!(now - since, 0);
        let second = 1_000 * MS;
        assert_eq!(awake_since(0, 9 * second, 9 * second), 9 * second - CARRIED);
        assert_eq!(awake_since(7, 5, 3), 3, "clocks that are read in another order");
    }

    #[test]
    fn another_mapping_of_the_memory_shows_the_same() {
        let ours = Heartbeats::new().expect("memory can be had");
        let theirs = Heartbeats::map(ours.0.file().try_clone().expect("a descriptor"));
        let theirs = theirs.expect("a second mapping");
        ours.watch(&[HardwareCore(4), HardwareCore(9)]);
        assert_eq!((theirs.agents(), theirs.core(1)), (2, Some(HardwareCore(9))));
        assert_eq!(theirs.core(2), None);
        let before = ours.reliefs(1);
        theirs.begins_relief(1, Duration::from_millis(250));
        let begun = ours.reliefs(1);
        assert!(begun != before && ours.is_being_relieved(1) && !ours.is_being_relieved(0));
        theirs.ends_relief(1);
        assert!(ours.reliefs(1) != begun && !ours.is_being_relieved(1));
        assert_eq!(ours.relief(1).stuck, maracas_core::Duration::from_millis(250));
        assert_eq!(ours.ending(), None);
        let lasted = Duration::from_secs(3);
        let ending = Ending { cause: Cause::Late, agent: 1, lasted };
        theirs.ask_end(&ending);
        theirs.ask_end(&Ending { cause: Cause::Stopped, ..ending });
        assert_eq!(ours.ending(), Some(ending), "the first reason stays");
        assert_eq!(ending.to_string(), "core1's agent has been late for 3.0s");
    }
}
