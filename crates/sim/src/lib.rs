//! Machine 1: the deterministic simulator.
//!
//! It carries out any policy on model programs, event by event: the same scenario and seed give the
//! same bytes. There is no policy by name, no thread, no clock, and no way to write files here; the
//! room imports `maracas-core` and a random number generator.
//!
//! # What it does at one instant
//! 1. What happened on the cores (completions, blocks, limits), by core; then what is due on the
//!    agenda: departures, arrivals, requests to change, wakes, releases, each by id.
//! 2. The machine law on the cores concerned, by the plan in force ([`maracas_core::dispatch`]). It
//!    is left to 3 where it would only start a VCPU on one idle core, which nothing could see.
//! 3. With all these events delivered: one decision, if one is due. It is enacted, first all
//!    stops, then all starts. A stop is an event itself, so the policy is asked again until a
//!    plan stops no VCPU.
//! 4. With a memory model: where other programs run than before, or the model changes by itself,
//!    speeds are resolved anew ([`memory`]).
//!
//! # What observers may rely on
//! * A [`Segment`](maracas_core::contract::Segment) is reported when it ends, or at a metered wake,
//!   or at the end of the run ([`End::Metered`](maracas_core::contract::End::Metered)). It never
//!   spans a change of mode, and none is empty.
//! * `Completed` comes before the `Ran` of the segment in which the job completed; a segment goes
//!   on over a completion where the VCPU has more to do. Where a completion and a limit fall on the
//!   same instant, the completion wins.
//! * A VCPU's segment ends with `Blocked` only when it has nothing at all to run: a VCPU that goes
//!   on after its last job (an anytime program's optional part, a second program) is not blocked.
//! * A segment ends with `Preempted` also where its VCPU goes on in the other mode by a decision,
//!   and where its core's memory meter reaches the allowance. `AllowanceSpent` follows, once for
//!   each allowance that is spent, be it when the meter reaches it or when a plan sets it.
//! * Limits of memory meters and allowances take effect at the first tick at which the integer
//!   meter has reached them.
//! * `ServiceDone` and `Sampled` come before the `Ran` of the service VCPU's segment, as
//!   `Completed` does. `Sampled` holds what the controller counted since the one before, up to that
//!   tick.
//! * One block is not reported: that of a waiting VCPU whose only ready program departs, while
//!   others stay. No segment ends there.
//!
//! # How programs share a VCPU
//! First come, first served, each until it blocks, as `SCHED_FIFO` threads of one rank do. Where
//! several programs work on jobs, every job asks one piece of work of each of them, and is
//! complete when all have done their piece. A piece takes at least one tick.
//!
//! An anytime program's job is its mandatory part. The optional part starts at its completion,
//! unless the next job waits already, and lasts `optional` of service at most; the next release
//! cuts it short.
//!
//! # Memory
//! [`simulate`] chooses the model by what there is to simulate.
//!
//! Without a model ([`run`]) every program progresses by the time that it runs, counters stay at
//! zero, and nothing can be sampled. With one ([`run_with`] and [`memory::SharedMemory`]) a piece
//! of work is time at the program's reference speed: alone on an idle memory with the whole cache
//! to itself. Time that a core spends on charged overheads causes no traffic.
//!
//! # Uneven cores
//! On cores of several classes work is time on class 0, the fastest; a segment's service, limits,
//! charged overheads and whatever a policy plans are time on the core where it is spent.
//! [`memory::UnevenCores`] has every program progress, and count instructions, by its
//! [`Pace`] on the class where it runs; what has none, and service VCPUs on their
//! service requests, go at the speed of the class. With [`memory::SharedMemory`] a slower class
//! stretches only the time that a program thinks, so that its speedup comes of its memory. [`run`]
//! knows no classes: to it all cores are equal.
//!
//! Instructions come with the [`Usage`](maracas_core::contract::Usage) of every segment. What a
//! program retires in a piece of work is the same on every class.
//!
//! # Scripts
//! Threads that wait for each other and take locks execute scripts ([`script`]), each on a VCPU of
//! its own ([`Subject::scripts`]).
//!
//! # Resources
//! Jobs that share resources ([`maracas_core::resources`]) are cut into pieces at the begin and the
//! end of their critical sections. There the law is another, which applies to all cores at once:
//! each runs the entry of its run queue that the protocol puts first ([`locks`]). A VCPU that is
//! suspended for a resource ends its segment with `Blocked` and wakes by `Woke`; one that spins
//! uses its core and makes no progress.
//!
//! # Policies that order jobs
//! Where nothing happens but jobs, no observer reads plans, and the policy is nothing but an order
//! of jobs ([`JobPriorities`](maracas_core::contract::JobPriorities)), [`run`] gives the cores away
//! by that order itself and neither tells nor asks the policy anything. What is observed and
//! counted is the same, so that the numbers of events and decisions are those that there would be.
//! [`run_with`] always asks.
//!
//! # No reservation
//! A budget of zero means nothing here: what runs, when and for how long is what the plan says.
//!
//! # Service requests
//! VCPUs with the roles Monitor and Migration are service VCPUs: they are in the system from the
//! start, have no programs, and wake when the plan gives them a service request. The service
//! request is a piece of work by the table of [`Overheads`], at least one tick; when it is done its
//! effect sets in at once: the counters are read, or the moved VCPU's pages have their new colours.
//! Where the moved VCPU runs is what the plan's run queues say, before and after. One service
//! request is under way at a time.
//!
//! # Randomness
//! Every program has its own stream for its costs and another for its sleeps and events, every
//! sporadic VCPU one for its releases; each depends on the seed and the VCPU alone. So the k-th job
//! costs the same under every policy. A sporadic VCPU's first job comes within T, the others
//! between T and 2T apart, uniformly. Times between outside events are those of the workload.
#![forbid(unsafe_code)]

mod agenda;
pub mod jobs;
pub mod locks;
mod machine;
pub mod memory;
mod priorities;
mod rng;
pub mod script;
mod workload;

pub use maracas_core::Overheads;

use maracas_core::admission::NotAdmitted;
use maracas_core::contract::Observer;
use maracas_core::memory::Memory;
use maracas_core::script::Scripts;
use maracas_core::{
    CoreId, Cost, Duration, Instant, Pace, Policy, Program, Reservation, System, VcpuId,
};
use std::collections::BTreeMap;

/// How to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The horizon. What falls on it is left undone, but for completions.
    pub until: Instant,
    /// Seed of every random number.
    pub seed: u64,
    /// Decisions come late by a uniform amount from zero to this, after the first event that
    /// they answer or the wake that the policy asked for. Cores follow the law meanwhile.
    pub late: Duration,
    /// Report wakes only when the VCPU is switched in, as inexact.
    pub hidden_wakes: bool,
    /// Costs charged.
    pub overheads: Overheads,
    /// Audit every decision with [`maracas_core::Plan::audit`]. Otherwise a cheaper check finds a
    /// VCPU on two cores' run queues, but not one that stands twice in one list.
    pub audit: bool,
}

impl Options {
    /// A run up to `until` with seed 0: on time, wakes visible, nothing charged, no full audit.
    pub const fn new(until: Instant) -> Self {
        Self {
            until,
            seed: 0,
            late: Duration::ZERO,
            hidden_wakes: false,
            overheads: Overheads::FREE,
            audit: false,
        }
    }
}

/// What a run came to, in cheap counters; everything else is for observers to derive.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Outcome {
    /// Jobs released.
    pub released: u64,
    /// Jobs completed.
    pub completed: u64,
    /// Jobs that were due by the end of the run and had not completed at their deadline.
    pub missed: u64,
    /// Calls of the policy.
    pub decisions: u64,
    /// Events given to the policy.
    pub events: u64,
    /// How often a core took up a VCPU that it did not run at the instant before.
    pub context_switches: u64,
    /// When the run ended.
    pub end: Instant,
    /// Time in which each core ran no VCPU.
    pub idle: Vec<Duration>,
    /// What the memory controller counted; `None` without a memory model.
    pub memory: Option<memory::MemoryTotals>,
    /// What the memory model had to do.
    pub effort: memory::Effort,
    /// The policy's answers to arrivals.
    pub admissions: Vec<(VcpuId, Result<CoreId, NotAdmitted>)>,
    /// What each thread with a script came to; empty without scripts.
    pub acted: Vec<script::ThreadOutcome>,
    /// How long each VCPU's jobs waited for resources, by VCPU; empty where they share none.
    pub blocking: Vec<locks::Blocking>,
}

/// The system as `build` must see it: without the VCPUs whose first program arrives later.
#[must_use]
pub fn at_start(system: &System, programs: &[Program]) -> System {
    let mut start = system.clone();
    let arrivals = arrivals(programs);
    start.vcpus.retain(|vcpu| arrivals.get(&vcpu.id).is_none_or(|at| *at == Instant::ZERO));
    start
}

/// When the VCPUs with programs arrive: each with its first program. The others are there from the
/// start.
fn arrivals(programs: &[Program]) -> BTreeMap<VcpuId, Instant> {
    let mut arrivals = BTreeMap::new();
    for program in programs {
        let arrival = arrivals.entry(program.vcpu).or_insert(program.arrive);
        *arrival = program.arrive.min(*arrival);
    }
    arrivals
}

/// A VCPU asks for another reservation while the system runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// When it asks, if it is there then.
    pub at: Instant,
    /// Which.
    pub vcpu: VcpuId,
    /// What it asks for. Where that is granted, jobs released from then on have it; the first of
    /// them comes one old period after the last one with the old reservation.
    pub reservation: Reservation,
    /// What each of those jobs costs its program, if it has one.
    pub cost: Cost,
}

/// Runs `policy` on `system`. `system` holds all VCPUs; `policy` was built for [`at_start`] of it,
/// learns of the later ones by [`maracas_core::Event::Arrived`], and they run where it says yes.
///
/// # Panics
/// Where a program names a VCPU that is not in the system, or one that carries service requests, or
/// works on jobs on a VCPU whose arrival is `None`; where the policy breaks the contract
/// ([`maracas_core::contract`]).
pub fn run(
    system: &System,
    programs: &[Program],
    policy: &mut dyn Policy,
    options: &Options,
    observer: &mut dyn Observer,
) -> Outcome {
    if memory::is_bare(system, options) {
        if let Some(suited) = priorities::suit(system, programs, policy, options, observer) {
            return priorities::Machine::new(system, suited, options, observer).run();
        }
        return run_with(system, programs, policy, options, observer, memory::NoContention::<true>);
    }
    run_with(system, programs, policy, options, observer, memory::NoContention::<false>)
}

/// [`run`] under a contention model, or on cores of uneven speed.
///
/// # Panics
/// As [`run`].
pub fn run_with<C: memory::Contention>(
    system: &System,
    programs: &[Program],
    policy: &mut dyn Policy,
    options: &Options,
    observer: &mut dyn Observer,
    contention: C,
) -> Outcome {
    assert!(!C::BARE || memory::is_bare(system, options), "{options:?} asks for more than is left");
    machine::Machine::new(system, programs, policy, options, observer, contention).run()
}

/// [`run`] where VCPUs ask for other reservations meanwhile.
///
/// # Panics
/// As [`run`].
pub fn run_changing(
    system: &System,
    programs: &[Program],
    changes: &[Change],
    policy: &mut dyn Policy,
    options: &Options,
    observer: &mut dyn Observer,
) -> Outcome {
    let contention = memory::NoContention::<false>;
    let machine = machine::Machine::new(system, programs, policy, options, observer, contention);
    machine.changing(changes).run()
}

/// What is to be simulated: the machine, and what runs there.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The platform with all VCPUs, the policy's service VCPUs too.
    pub system: &'a System,
    /// The threads.
    pub programs: &'a [Program],
    /// The memory that they share; `None` = they touch none.
    pub memory: Option<&'a Memory>,
    /// By program, how fast it is on each class of cores; may be empty. Beside a memory it is for
    /// those programs that touch none.
    pub paces: &'a [Option<Pace>],
    /// What programs with the workload `Script` do.
    pub scripts: Option<&'a Scripts>,
}

/// [`run`] under the model that `subject` asks for: the one place that chooses it.
///
/// # Panics
/// As [`run`], and where memory or paces do not fit the system. Where there are scripts, other than
/// one for each program and VCPU, or beside a memory, or on uneven cores; and where resources are
/// shared beside any of these.
pub fn simulate(
    subject: &Subject<'_>,
    policy: &mut dyn Policy,
    options: &Options,
    observer: &mut dyn Observer,
) -> Outcome {
    let Subject { system, programs, memory, paces, scripts } = *subject;
    let alone = memory.is_none() && system.is_even() && scripts.is_none();
    assert!(system.resources.is_none() || alone, "resources are shared on equal cores alone");
    if let Some(scripts) = scripts {
        assert!(
            memory.is_none() && system.is_even(),
            "scripts say nothing of memory or of classes"
        );
        assert_eq!(scripts.threads.len(), programs.len(), "a program has one script");
        let contention = memory::NoContention::<false>;
        machine::Machine::new(system, programs, policy, options, observer, contention)
            .acting(scripts, system)
            .run()
    } else if let Some(memory) = memory {
        let model = memory::SharedMemory::new(system, memory).with_paces(system, paces);
        run_with(system, programs, policy, options, observer, model)
    } else if !system.is_even() || paces.iter().any(Option::is_some) {
        let model = memory::UnevenCores::new(system, paces);
        run_with(system, programs, policy, options, observer, model)
    } else {
        run(system, programs, policy, options, observer)
    }
}

#[cfg(test)]
mod tests;
