//! What programs do with the time that they get. Scenario files describe it, the simulator acts
//! it out; live, the real program takes its place.

use crate::{Duration, Instant, VcpuId};

/// How much service one piece of work needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// Always the same.
    Fixed(Duration),
    /// Uniform between the two, inclusive.
    Uniform(Duration, Duration),
    /// Exponential with the given mean, cut at ten times the mean so that every sum stays finite.
    Exponential(Duration),
}

impl Cost {
    /// The most that it can come to.
    pub fn most(&self) -> Duration {
        match self {
            Self::Fixed(most) | Self::Uniform(_, most) => *most,
            Self::Exponential(mean) => *mean * 10,
        }
    }
}

/// A model of one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Runs whenever it may.
    Busy,
    /// One piece of work per job of its VCPU.
    Periodic {
        /// Service that a job needs.
        cost: Cost,
    },
    /// Runs, sleeps, and begins again.
    RunSleep {
        /// Service before each sleep.
        run: Cost,
        /// Wall time of each sleep.
        sleep: Cost,
    },
    /// Woken by outside events, which queue up; works each off and waits for the next.
    EventDriven {
        /// Wall time between events.
        every: Cost,
        /// Service per event.
        cost: Cost,
        /// The VCPU on whose behalf the event comes (I/O VCPUs inherit its period).
        on_behalf: Option<VcpuId>,
    },
    /// A job with a part that must be done and a part that gets better the longer it runs. The
    /// mandatory part is the job; the optional part runs until the next release.
    Anytime {
        /// Service of the mandatory part.
        mandatory: Cost,
        /// Service after which more time no longer helps.
        optional: Duration,
    },
    /// Acts out its script: the one of its VCPU's number in
    /// [`Scripts::threads`](crate::script::Scripts::threads).
    Script,
}

impl Workload {
    /// Whether this thread works on jobs of its VCPU.
    pub const fn has_jobs(&self) -> bool {
        matches!(self, Self::Periodic { .. } | Self::Anytime { .. })
    }

    /// What a job's work comes to at most, with all that an anytime program may add; `None` for a
    /// thread without jobs.
    pub fn most(&self) -> Option<Duration> {
        match self {
            Self::Periodic { cost } => Some(cost.most()),
            Self::Anytime { mandatory, optional } => Some(mandatory.most() + *optional),
            Self::Busy | Self::RunSleep { .. } | Self::EventDriven { .. } | Self::Script => None,
        }
    }
}

/// One thread: where it runs, what it does, when it is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Program {
    /// The VCPU that pays for it; several programs may share one.
    pub vcpu: VcpuId,
    /// What it does.
    pub workload: Workload,
    /// When it starts. A VCPU arrives with its first program.
    pub arrive: Instant,
    /// When it ends, or [`Instant::NEVER`]. A VCPU leaves with its last program.
    pub depart: Instant,
}

impl Program {
    /// A program that is there from the start to the end.
    pub const fn new(vcpu: VcpuId, workload: Workload) -> Self {
        Self { vcpu, workload, arrive: Instant::ZERO, depart: Instant::NEVER }
    }
}
