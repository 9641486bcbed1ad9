//! What threads do that work, wait for each other and take locks, as the workload generator rt-app
//! describes it (`doc/tutorial.txt` of <https://github.com/scheduler-tools/rt-app>). Files of it
//! are read into scripts; the simulator executes them.

use crate::{Duration, Instant};
use alloc::string::String;
use alloc::vec::Vec;

/// What a thread takes for steps that take no time of their own, after a wake or on coming back to
/// one of them without work or a wait since: about what a wake costs on Linux, and long enough that
/// threads that only wake each other do not hold time up.
pub const MIN_STEP: Duration = Duration::from_micros(1);

/// One thing that a thread does. Numbers name what threads share, by its place in [`Scripts`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Works for so much time on a core.
    Run(Duration),
    /// Sleeps for so long.
    Sleep(Duration),
    /// Waits until the timer's next instant, one period after the one before.
    Timer {
        /// Which timer.
        timer: u32,
        /// Its period.
        period: Duration,
    },
    /// Takes a lock; waits for it behind those that came before.
    Lock(u32),
    /// Gives a lock back, to the first that waits for it. Of another's lock it does nothing.
    Unlock(u32),
    /// Waits for a condition.
    Wait {
        /// Which condition.
        condition: u32,
        /// The lock that it gives back meanwhile and then takes again.
        lock: Option<u32>,
    },
    /// Wakes the thread that has waited longest for a condition.
    Signal(u32),
    /// Wakes all threads that wait for a condition.
    Broadcast(u32),
    /// Adds one to a semaphore, or lets the first go on that waits there.
    Post(u32),
    /// Takes one from a semaphore; waits while there is none.
    Take(u32),
    /// Waits until as many threads are there as the barrier counts.
    Barrier(u32),
    /// Starts the first of these threads that does not run.
    Fork(Vec<u32>),
}

/// Steps that are repeated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// How often; `None` = for ever.
    pub loops: Option<u32>,
}

/// What one thread does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    /// Its phases, in order; never none.
    pub phases: Vec<Phase>,
    /// How often all phases are passed through; `None` = for ever.
    pub loops: Option<u32>,
    /// When it begins; timers count from there.
    pub start: Instant,
    /// Whether it is there only when another forks it.
    pub forked: bool,
}

/// A timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timer {
    /// Whether it keeps to its grid when a thread comes late; else it begins anew then.
    pub absolute: bool,
    /// The one thread whose it is, if it is one's own.
    pub own: Option<u32>,
}

/// A meeting point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Barrier {
    /// What the file calls it.
    pub name: String,
    /// How many threads it waits for.
    pub threads: u32,
}

/// All threads of a file, and what they share.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Scripts {
    /// The threads. Number i runs on VCPU i, and is its one program.
    pub threads: Vec<Script>,
    /// Their timers.
    pub timers: Vec<Timer>,
    /// The names of the locks.
    pub locks: Vec<String>,
    /// The names of the conditions; `suspend` and `resume` of a thread are the condition of its
    /// name.
    pub conditions: Vec<String>,
    /// The names of the semaphores.
    pub semaphores: Vec<String>,
    /// The meeting points.
    pub barriers: Vec<Barrier>,
}

impl Script {
    /// All steps, each once.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.phases.iter().flat_map(|phase| &phase.steps)
    }
}
