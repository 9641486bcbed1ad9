//! The contract between a policy and a machine: events in, plan out.
//!
//! A [`Policy`] is a pure value. It learns what happened through [`Event`]s and says what should
//! happen through a [`Plan`] that persists. It reads no clock, does no I/O and draws no random
//! numbers, so that the simulator and the live machine run the same one and a recorded run can be
//! replayed.
//!
//! # Rules for machines
//! 1. Events come with the time they happened (`at` <= now), ordered per core, perhaps late.
//! 2. After one or more events, or at [`Plan::wake`], the machine calls [`decide`] and enacts the
//!    plan: first all stops, then all starts, so that no VCPU is ever on two cores. (It need do
//!    neither under a policy that is an order of jobs: [`JobPriorities`].)
//! 3. Between decisions every core follows the machine law ([`crate::dispatch`]) by itself.
//! 4. The machine never edits a plan.
//! 5. VCPUs of [`System::vcpus`] are there from the start, at first blocked; later ones come as
//!    [`Event::Arrived`]. A VCPU with jobs is runnable while it has an uncompleted released job (no
//!    `Woke` is sent for a release and none is needed); [`Event::Woke`] reports all other wakes,
//!    [`End::Blocked`] every block.
//!
//! # Rules for policies
//! 1. A VCPU stands on at most one core's run queue, in each of its lists at most once, but for
//!    grants that are given ahead of their instants ([`Grant::from`](field@Grant::from)).
//! 2. `plan` called twice changes nothing; any legal event order and any lateness must leave the
//!    policy's invariants whole.
//! 3. Replenishment instants come from releases and periods, never from a late `now`.
//! 4. After `plan(now)`, `plan.wake` lies after `now`.

use crate::admission::Verdict;
use crate::params::{ParamSpec, Params};
use crate::{CoreId, Duration, Instant, Job, JobId, List, System, Vcpu, VcpuId};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

mod apart;
mod meters;
mod observer;
mod plan;
mod priorities;

pub use apart::{Apart, Part};
pub use meters::{Metered, Meters};
pub use observer::{JobRun, Observer, Piece};
pub use plan::Plan;
pub use priorities::{DecisionCounts, JobPriorities, OnRunQueues, TaskPriority};

/// A scheduling policy.
pub trait Policy: Send {
    /// Learn what happened, and when (`at` <= now; ordered per core, perhaps late).
    fn on_event(&mut self, at: Instant, event: &Event);
    /// Decide. May be called at any time; calling it again changes nothing. The policy's own last
    /// plan comes back untouched but for its dirty marks and verdicts, which [`decide`] clears.
    fn plan(&mut self, now: Instant, plan: &mut Plan);
    /// What the policy counted of its own doings, for reports. Never a way to steer anything.
    fn statistics(&self) -> Vec<Statistic> {
        Vec::new()
    }
    /// What of memory must be counted for it. A machine asks once, before it begins; what it cannot
    /// count it refuses by name.
    fn meters(&self) -> Meters {
        Meters::default()
    }
    /// How its cores can decide alone, or in groups; `None` = they cannot.
    fn apart(&mut self) -> Option<&mut dyn Apart> {
        None
    }
    /// The order of jobs that is all that it decides by; `None` = only [`Policy::plan`] says that.
    /// A machine asks before anything happens.
    fn job_priorities(&self) -> Option<JobPriorities> {
        None
    }
}

/// Something that a policy counted of its own doings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statistic {
    /// What, as a word for tables, such as `underruns`.
    pub name: &'static str,
    /// On which core, where it is about one.
    pub core: Option<CoreId>,
    /// Of which VCPU, where it is about one.
    pub vcpu: Option<VcpuId>,
    /// How many.
    pub value: u64,
}

/// Asks `policy` for its plan: the only way a machine may call [`Policy::plan`].
///
/// # Panics
/// Where the policy asks to be woken at or before `now` (policy rule 4).
#[inline]
pub fn decide(policy: &mut dyn Policy, now: Instant, plan: &mut Plan) {
    plan.begin();
    policy.plan(now, plan);
    check_wake(now, plan);
}

/// Asks `policy`, with nothing lent, for the plan of the group of `core` alone, as its part would
/// be asked.
///
/// # Panics
/// As [`decide`].
pub fn decide_alone(policy: &mut dyn Apart, core: CoreId, now: Instant, plan: &mut Plan) {
    plan.begin();
    policy.plan_alone(core, now, plan);
    check_wake(now, plan);
}

#[inline]
fn check_wake(now: Instant, plan: &Plan) {
    assert!(plan.wake > now, "the policy asks for a wake at {}, not after now = {now}", plan.wake);
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[repr(u8)] // A plain tag: every event is told apart by each policy and observer.
pub enum Event {
    /// A VCPU ran for one segment on one core in one mode.
    Ran(Segment),
    /// A job was released.
    Released(Job),
    /// A job received all its service. The VCPU goes on with its next job, if any is released.
    Completed(JobId),
    /// A VCPU became runnable other than by a release.
    Woke {
        /// Which.
        vcpu: VcpuId,
        /// The main VCPU for which an I/O VCPU was woken, where known.
        on_behalf: Option<VcpuId>,
        /// False where the wake was seen only when the VCPU was switched in.
        exact: bool,
    },
    /// The core's memory meter reached its allowance; the core is closed. Reported after the `Ran`
    /// of the segment that ended so.
    AllowanceSpent {
        /// Which core.
        core: CoreId,
    },
    /// The monitor's counters, brought by [`ServiceRequest::Sample`].
    Sampled(Sample),
    /// How busy the memory controller was since this was last reported. Comes at each metered wake
    /// ([`Plan::wake_metered`]) of a policy that asked for it ([`Meters::controller`]), after what
    /// ran until then.
    Utilized {
        /// For how long some read waited for its data.
        busy: Duration,
        /// Of how long.
        of: Duration,
    },
    /// A VCPU asks to be admitted. The answer is in the next plan's verdicts, or, where it would
    /// fit but for what others left or changed of late, in those of the plan from which on it
    /// fits.
    Arrived(Vcpu),
    /// A VCPU is gone; its id is never used again. It may leave before it is answered, too.
    Left(VcpuId),
    /// The reservation of a VCPU must be replaced. Answered like [`Event::Arrived`], several
    /// requests of one VCPU in their order; where refused, the old one stays. Jobs that are
    /// released up to the answer have the old one, and the first one with the new comes at least
    /// an old period after the last of those.
    Changed(Vcpu),
    /// The service request in the plan was done.
    ServiceDone(ServiceRequest),
    /// The machine could not do what the plan says.
    Failed {
        /// Where.
        core: CoreId,
        /// What it could not do.
        what: Refused,
    },
}

impl Event {
    /// The VCPU that ran, got or completed a job, or woke; `None` for other events. Where its core
    /// is lent ([`Apart`]), the part is told of these.
    pub const fn happened_to(&self) -> Option<VcpuId> {
        match self {
            Self::Ran(segment) => Some(segment.vcpu),
            Self::Released(Job { id, .. }) | Self::Completed(id) => Some(id.vcpu),
            Self::Woke { vcpu, .. } => Some(*vcpu),
            Self::AllowanceSpent { .. }
            | Self::Sampled(_)
            | Self::Utilized { .. }
            | Self::Arrived(_)
            | Self::Left(_)
            | Self::Changed(_)
            | Self::ServiceDone(_)
            | Self::Failed { .. } => None,
        }
    }
}

/// One uninterrupted run of a VCPU on one core in one mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// The VCPU that ran.
    pub vcpu: VcpuId,
    /// Where.
    pub core: CoreId,
    /// On budget or on surplus.
    pub mode: Mode,
    /// When it began.
    pub from: Instant,
    /// When it ended.
    pub to: Instant,
    /// What it consumed.
    pub usage: Usage,
    /// Why it ended.
    pub end: End,
}

/// Whether a VCPU runs on its budget or on surplus time (MARACAS, section III).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// In budget.
    Foreground,
    /// On surplus time.
    Background,
}

/// Why a segment ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The VCPU has nothing to run: it blocked, or its last released job completed.
    Blocked,
    /// Another took the core, or it may use no surplus time any more.
    Preempted,
    /// The meter reached the grant's limit.
    LimitReached,
    /// The VCPU's memory meter reached the grant's memory limit.
    MemorySpent,
    /// The VCPU was moved to another core.
    Moved,
    /// It goes on running; the machine only read the meters at a metered wake.
    Metered,
    /// It ended for good.
    Exited,
}

/// What a segment consumed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Time on the core as its meter charges it (costs of switching included).
    pub service: Duration,
    /// References to the last-level cache.
    pub references: u64,
    /// Memory reads (last-level cache misses).
    pub reads: u64,
    /// Memory writes (write-backs).
    pub writes: u64,
    /// What the memory meters of core and VCPU counted, where the policy asked for something else
    /// than reads ([`Policy::meters`]); `None` = the reads. See [`Usage::metered`].
    pub metered: Option<u64>,
    /// Instructions retired; where they cannot be counted, the units of progress that the program
    /// itself counts.
    pub instructions: u64,
}

/// What the memory monitor read since its last sample.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Sample {
    /// Requests that the memory controller took.
    pub requests: u64,
    /// Sum over cycles of requests in the controller's queue.
    pub occupancy: u64,
    /// Requests by core, reads and write-backs (m_i of MARACAS, section IV).
    pub by_core: Vec<u64>,
}

/// Work that a policy gives to a service VCPU, done on that VCPU's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServiceRequest {
    /// Read the memory counters; answered by [`Event::Sampled`].
    Sample,
    /// Move a VCPU to another core and recolour its pages.
    Move {
        /// Which.
        vcpu: VcpuId,
        /// Where to.
        to: CoreId,
        /// Its page colours there; `None` = unchanged.
        colors: Option<crate::memory::CachePart>,
    },
}

/// What a machine could not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Start or raise this VCPU.
    Start(VcpuId),
    /// Stop or freeze this VCPU.
    Stop(VcpuId),
    /// Move this VCPU.
    Move(VcpuId),
    /// Read the counters.
    Sample,
}

/// The reading of a VCPU's meter at which a grant ends. A state, not an amount: it may be
/// enacted late or twice without harm, and an overrun carries itself over as debt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limit(pub Duration);

impl Limit {
    /// Never reached.
    pub const NEVER: Self = Self(Duration::MAX);
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER { f.write_str("never") } else { write!(f, "@{}", self.0) }
    }
}

/// The reading of a memory meter at which a grant ends or a core closes. It is cumulative, and
/// counts reads of memory unless the policy asked for something else ([`Policy::meters`]). A state,
/// as [`Limit`] is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryLimit(pub u64);

impl MemoryLimit {
    /// Never reached.
    pub const NEVER: Self = Self(u64::MAX);
    /// Whether a meter that stands at `reads` has reached it.
    #[inline]
    pub const fn is_reached(self, reads: u64) -> bool {
        reads >= self.0
    }
    /// How many reads more reach it; `None` = however many, none does.
    #[inline]
    pub const fn left(self, reads: u64) -> Option<u64> {
        if self.0 == Self::NEVER.0 { None } else { Some(self.0.saturating_sub(reads)) }
    }
}

impl fmt::Debug for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER { f.write_str("never") } else { write!(f, "@{}", self.0) }
    }
}

/// Leave to run while the VCPU's meter of this mode is below `until` and its memory meter below
/// `memory`, not before the instant `from`.
///
/// A grant *ahead* is one whose instant is to come: an entry more of a VCPU, at the place in the
/// order that it will have then. Until then the law is that of the run queue without it. So a
/// machine begins it at its instant, however late the next decision is. Policies give some only
/// where their parameter `ahead` asks for it; agents leave them out.
///
/// Several may stand there for one VCPU, so that a core goes on by itself for long. What of them
/// holds only for a VCPU that does not block `lapses` where it wakes; and a machine need not ask
/// the policy at an end that is `silent`, as what comes after it stands in the plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The VCPU that may run.
    pub vcpu: VcpuId,
    /// Up to which meter reading.
    pub until: Limit,
    /// Up to which reading of its memory meter (in any mode and on any core).
    pub memory: MemoryLimit,
    /// From when on; [`Instant::ZERO`] = it counts wherever it is read.
    pub from: Instant,
    /// It counts only until its VCPU, having had nothing to run, has something again.
    pub lapses: bool,
    /// That `until` is reached may be told with what comes next.
    pub silent: bool,
}

impl Grant {
    /// Leave to run until `until` from now on, however much memory it uses.
    pub const fn new(vcpu: VcpuId, until: Limit) -> Self {
        let (memory, from) = (MemoryLimit::NEVER, Instant::ZERO);
        Self { vcpu, until, memory, from, lapses: false, silent: false }
    }
    /// The same, not before `from`.
    #[must_use]
    pub const fn ahead(self, from: Instant) -> Self {
        Self { from, ..self }
    }
    /// The same, until the VCPU wakes.
    #[must_use]
    pub const fn until_wake(self) -> Self {
        Self { lapses: true, ..self }
    }
    /// The same, at whose end the policy need not be asked.
    #[must_use]
    pub const fn silently(self) -> Self {
        Self { silent: true, ..self }
    }
    /// Whether it was given ahead of its instant, which may have come by now.
    pub const fn is_ahead(&self) -> bool {
        self.from.ticks() != 0
    }
}

/// What one core may do until the next decision. The order of the entries is their priority.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunQueue {
    /// VCPUs in budget.
    pub foreground: Vec<Grant>,
    /// VCPUs that may use surplus time. Policies keep all VCPUs of a core here, in an order that
    /// changes by one or two at a time.
    pub background: List<Grant>,
    /// Whether surplus time may be used at all (MARACAS, IS_BG_SCHED). False throttles the core.
    pub background_allowed: bool,
    /// Cumulative reading of the core's memory meter (of whatever ran there) at which the core
    /// closes (MemGuard).
    pub allowance: MemoryLimit,
}

impl Default for RunQueue {
    fn default() -> Self {
        Self {
            foreground: Vec::new(),
            background: List::new(),
            background_allowed: true,
            allowance: MemoryLimit::NEVER,
        }
    }
}

impl RunQueue {
    /// Whether some grant ends at a reading of its VCPU's memory meter.
    #[inline]
    pub fn has_memory_limits(&self) -> bool {
        let ends = |grant: &Grant| grant.memory != MemoryLimit::NEVER;
        self.foreground.iter().any(ends)
            || !self.background.is_empty() && self.background.iter().any(ends)
    }
    /// Whether anything here is held against a memory meter.
    #[inline]
    pub fn limits_memory(&self) -> bool {
        self.allowance != MemoryLimit::NEVER || self.has_memory_limits()
    }
}

/// What a policy requires of a machine. A machine that lacks it refuses or warns by name.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Needs {
    /// Demand must come as jobs whose ends are reported.
    pub jobs: bool,
    /// Wakes must be seen when they happen, not at switch-in.
    pub visible_wakes: bool,
    /// Memory counters must work.
    pub counters: bool,
    /// Every VCPU must have a reservation: no VCPU is given time that is promised none.
    pub budgets: bool,
    /// Progress must be counted: the instructions of [`Usage`], or a program's own units.
    pub progress: bool,
    /// Of how many classes the cores must be at least; 0 = it looks at no class.
    pub classes: u8,
}

impl Needs {
    /// Nothing but that every VCPU has a reservation.
    pub const BUDGETS: Self = Self {
        jobs: false,
        visible_wakes: false,
        counters: false,
        budgets: true,
        progress: false,
        classes: 0,
    };
}

/// What a policy claims, and the contract tests check.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Claims {
    /// No VCPU changes core unless the plan orders a service request.
    pub partitioned: bool,
    /// No core idles while an admitted VCPU is runnable anywhere (global), or on that core
    /// (partitioned).
    pub work_conserving: bool,
    /// No job of an admitted task set has more work undone at its deadline than the verdict's
    /// [`tolerance`](Verdict::tolerance) says, which is nothing wherever budgets are whole ticks,
    /// when every job stays within its budget. With default parameters: what an option gives up is
    /// said where it stands.
    pub no_miss_when_admitted: bool,
}

/// A policy's entry in the register: all that is known of it outside its file.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The word users write.
    pub name: &'static str,
    /// Authors, title, venue, year.
    pub paper: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// What it takes.
    pub params: &'static [ParamSpec],
    /// What it requires.
    pub needs: Needs,
    /// What it claims.
    pub claims: Claims,
    /// The service VCPUs that it needs besides the user's (roles `Monitor` and `Migration`), with
    /// ids from the given one on. Whatever makes a system for this policy adds them to it.
    pub service_vcpus: fn(&System, &Params, VcpuId) -> Vec<Vcpu>,
    /// Says whether the system would be admitted, with every test's numbers. Parameters have
    /// passed [`Params::check`].
    pub admit: fn(&System, &Params) -> Verdict,
    /// Whether `admit` refuses none, where that is said by one test of the whole system and `admit`
    /// asks about each VCPU; `None` = only `admit` says it.
    pub fits: Option<fn(&System, &Params) -> bool>,
    /// Builds the policy, or refuses with the verdict of `admit`.
    pub build: Build,
}

impl Entry {
    /// Says whether the system would be admitted: the policy's own verdict, and what holds under
    /// every policy. The one that users are shown.
    pub fn verdict(&self, system: &System, params: &Params) -> Verdict {
        (self.admit)(system, params).within_capacity(system).knowing_resources(system)
    }
    /// Whether the system would be admitted, for those who need not know why not.
    pub fn accepts(&self, system: &System, params: &Params) -> bool {
        match self.fits {
            Some(fits) => fits(system, params),
            None => (self.admit)(system, params).accepted(),
        }
    }
    /// Adds to `system`, which has none yet, the service VCPUs that the policy needs there, behind
    /// its own VCPUs.
    pub fn add_service_vcpus(&self, system: &mut System, params: &Params) {
        let service_vcpus = (self.service_vcpus)(system, params, system.next_vcpu());
        system.vcpus.extend(service_vcpus);
    }
}

/// For a policy that has no service requests.
pub const fn no_service_vcpus(_: &System, _: &Params, _: VcpuId) -> Vec<Vcpu> {
    Vec::new()
}

/// How a policy comes to be.
pub type Build = fn(&System, &Params) -> Result<Box<dyn Policy>, Verdict>;
