//! Which agents are stuck, judged by what is seen of them from outside; without a clock.
//!
//! An agent is late when it sleeps beyond what it asked for, or is awake for long ([`Heartbeats`]).
//! Lateness alone says little: where the whole machine stood still, as a virtual machine does that
//! is paused, every agent is late by the length of the pause when it goes on. So the observer
//! counts its own looks: an agent is stuck for as long as looks in a row saw it in one and the same
//! lateness, and a gap between two looks counts as one stride at most.

use super::heartbeats::{Cause, Ending, Heartbeats};
use crate::host::shared_page::HEARTBEATS;
use std::time::Duration;

/// How long a neighbour lets an agent be late before it acts for it.
pub const NEIGHBOUR_PATIENCE: Duration = Duration::from_millis(30);

/// What a gap between two looks of a neighbour counts at most: three looks make its patience.
const NEIGHBOUR_STRIDE: Duration = Duration::from_millis(10);

/// How often a neighbour looks at most. A look reads a cache line of each agent.
const NEIGHBOUR_LOOK: Duration = Duration::from_millis(1);

/// How often the guardian looks: eight looks a second took 0.15 % of a core in a test without
/// optimization. It bounds how long raised threads outlive a killed runtime.
pub(super) const LOOK: Duration = Duration::from_millis(125);

/// After two looks, and so long, the guardian takes the VCPUs of a stuck agent's core down.
const RELIEF: Duration = Duration::from_millis(250);

/// After so long the guardian asks the run to end.
const END: Duration = Duration::from_secs(3);

/// After so long, or so long after it was asked without effect, the guardian kills the runtime.
const KILL: Duration = Duration::from_secs(5);

/// For this long an orderly end may be on its way while agents live: programs have 200 ms to react,
/// and one that is being started may take the supervisor ten seconds.
const OVERDUE: Duration = Duration::from_secs(15);

/// In so many looks a core must be seen off line: the file that shows it is not read at one instant
/// with what it is compared to.
const OFF_LINE_LOOKS: u32 = 2;

/// What one that looks at the agents remembers of its looks.
#[derive(Clone, Debug)]
struct Memory {
    stride: Duration,
    looked_ns: Option<u64>,
    /// At how many agents it looked last.
    agents: usize,
    stuck: [Duration; HEARTBEATS],
}

impl Memory {
    const fn new(stride: Duration) -> Self {
        Self { stride, looked_ns: None, agents: 0, stuck: [Duration::ZERO; HEARTBEATS] }
    }

    /// Looks at all `agents` once: `late` gives for how long each has been late.
    fn look(&mut self, now_ns: u64, agents: usize, late: impl Fn(usize) -> Duration) {
        let gap = self.looked_ns.map_or(Duration::MAX, |looked| since(looked, now_ns));
        self.looked_ns = Some(now_ns);
        self.agents = agents;
        for (agent, stuck) in self.stuck.iter_mut().enumerate().take(agents) {
            let late = late(agent);
            // Late since before the last look is the same lateness; else it began since.
            *stuck = match late >= gap {
                true => *stuck + gap.min(self.stride),
                false => late.min(self.stride),
            };
        }
    }
}

fn since(before_ns: u64, now_ns: u64) -> Duration {
    Duration::from_nanos(now_ns.saturating_sub(before_ns))
}

/// What an agent remembers of its looks at its neighbours.
#[derive(Clone, Debug)]
pub struct Neighbours {
    memory: Memory,
}

impl Default for Neighbours {
    fn default() -> Self {
        Self { memory: Memory::new(NEIGHBOUR_STRIDE) }
    }
}

impl Neighbours {
    /// Looks at all agents but `own`, to be called whenever that agent wakes anyway: those that
    /// have been stuck for `patience`, and for how long each has been late. Returns the same ones
    /// again at each look until they move; looks at most once a millisecond.
    pub fn overdue(
        &mut self,
        heartbeats: &Heartbeats,
        own: usize,
        now_ns: u64,
        patience: Duration,
    ) -> impl Iterator<Item = (usize, Duration)> {
        let agents = heartbeats.agents();
        let looked = self.memory.looked_ns;
        let is_due = looked.is_none_or(|looked| since(looked, now_ns) >= NEIGHBOUR_LOOK);
        if is_due {
            self.memory.look(now_ns, agents, |agent| heartbeats.late(agent, now_ns));
        }
        let stuck = self.memory.stuck.iter().enumerate().take(if is_due { agents } else { 0 });
        let stuck = stuck.filter(move |(agent, stuck)| *agent != own && **stuck >= patience);
        stuck.map(move |(agent, _)| (agent, heartbeats.late(agent, now_ns)))
    }

    /// When `own` must look again, at the latest, since another agent has been late at the last
    /// look (monotonic nanoseconds); `None` while none is, so that an idle system has no more
    /// wakes than those of the agents' longest sleep. What becomes late while all others sleep is
    /// the guardian's to see.
    pub fn look_again_ns(&self, own: usize) -> Option<u64> {
        let mut all = self.memory.stuck.iter().enumerate().take(self.memory.agents);
        let late = all.any(|(agent, stuck)| agent != own && *stuck >= NEIGHBOUR_LOOK);
        let looked_ns = self.memory.looked_ns.filter(|_| late)?;
        looked_ns.checked_add(NEIGHBOUR_STRIDE.as_nanos() as u64)
    }
}

/// What the guardian must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// Demote and freeze what is on this agent's core, which has been stuck so long; `first` where
    /// this is the first act of this stretch.
    Relieve { agent: usize, stuck: Duration, first: bool },
    /// Demote everything of the run.
    RelieveAll,
    /// Ask the run to end in order.
    Ask(Ending),
    /// Kill the runtime.
    Kill(Ending),
}

/// What one look of the guardian sees beside the agents.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Sight {
    /// The runtime is stopped by a signal.
    pub(super) is_stopped: bool,
    /// The agent whose core is off line, or was meanwhile.
    pub(super) off_line: Option<usize>,
}

/// The guardian's judgement over its looks.
#[derive(Clone, Debug)]
pub(super) struct Patrol {
    memory: Memory,
    /// Which agents' cores were relieved in this stretch.
    relieved: [bool; HEARTBEATS],
    /// For how long the runtime has been seen stopped.
    stopped: Option<Duration>,
    off_line_looks: u32,
    /// For how long the run has been seen to live on beyond its end.
    overdue: Duration,
    /// For how long the run has been asked to end, and why.
    asked: Option<(Ending, Duration)>,
}

impl Patrol {
    pub(super) const fn new() -> Self {
        Self {
            memory: Memory::new(LOOK),
            relieved: [false; HEARTBEATS],
            stopped: None,
            off_line_looks: 0,
            overdue: Duration::ZERO,
            asked: None,
        }
    }

    /// One look: what is to be done now, in this order.
    pub(super) fn look(&mut self, heartbeats: &Heartbeats, now_ns: u64, sight: Sight) -> Vec<Act> {
        let gap = self.memory.looked_ns.map_or(LOOK, |at| since(at, now_ns).min(LOOK));
        self.stopped = sight.is_stopped.then(|| self.stopped.map_or(Duration::ZERO, |it| it + gap));
        let agents = heartbeats.agents();
        let stopped = self.stopped.unwrap_or_default();
        self.memory.look(now_ns, agents, |agent| match heartbeats.is_watched(agent) {
            true => heartbeats.late(agent, now_ns).max(stopped),
            false => Duration::ZERO,
        });
        let mut acts = Vec::new();
        for agent in 0..agents {
            let stuck = self.memory.stuck[agent];
            if stuck < RELIEF || !heartbeats.may_be_relieved() {
                self.relieved[agent] = false;
                continue;
            }
            let first = !std::mem::replace(&mut self.relieved[agent], true);
            acts.push(Act::Relieve { agent, stuck, first });
        }
        let is_raised = (0..agents).any(|agent| heartbeats.is_watched(agent));
        match is_raised && heartbeats.is_overdue(now_ns) {
            true => self.overdue += gap,
            false => self.overdue = Duration::ZERO,
        }
        self.end(heartbeats, sight, gap, &mut acts);
        acts
    }

    /// Whether the run must end, and how.
    fn end(&mut self, heartbeats: &Heartbeats, sight: Sight, gap: Duration, acts: &mut Vec<Act>) {
        let agents = heartbeats.agents();
        let worst = (0..agents).max_by_key(|agent| (self.memory.stuck[*agent], agents - agent));
        let (agent, lasted) = worst.map_or((0, Duration::ZERO), |it| (it, self.memory.stuck[it]));
        let cause = if sight.is_stopped { Cause::Stopped } else { Cause::Late };
        let stuck = Ending { cause, agent, lasted };
        let off_line = sight.off_line.filter(|agent| heartbeats.is_watched(*agent));
        self.off_line_looks = off_line.map_or(0, |_| self.off_line_looks + 1);
        if self.off_line_looks >= OFF_LINE_LOOKS
            && let Some(agent) = off_line
        {
            // What stood there may be anywhere by now, at real-time priority and unmetered.
            acts.push(Act::RelieveAll);
            self.ask(Ending { cause: Cause::OffLine, agent, lasted: Duration::ZERO }, acts);
        }
        if lasted >= END {
            self.ask(stuck, acts);
        }
        if self.overdue >= OVERDUE {
            let lasted = self.overdue;
            self.ask(Ending { cause: Cause::Overdue, agent: 0, lasted }, acts);
        }
        let Some((why, asked)) = &mut self.asked else { return };
        // While agents are watched something may be raised or frozen; what comes after may last.
        let is_raised = (0..agents).any(|agent| heartbeats.is_watched(agent));
        if lasted >= KILL || is_raised && *asked >= KILL {
            acts.push(Act::Kill(if lasted >= KILL { stuck } else { *why }));
        }
        *asked += gap;
    }

    fn ask(&mut self, why: Ending, acts: &mut Vec<Act>) {
        if self.asked.is_none() {
            self.asked = Some((why, Duration::ZERO));
            acts.push(Act::Ask(why));
        }
    }
}

#[cfg(test)]
mod tests;
