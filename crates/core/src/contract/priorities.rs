//! Policies that are nothing but an order of jobs.

use crate::{CoreId, Instant, VcpuId};
use alloc::vec::Vec;

/// A policy under which each job has one priority for as long as it is pending, by which alone the
/// cores of a group are given away: job-level fixed priorities (J. Carpenter and others, "A
/// Categorization of Real-Time Multiprocessor Scheduling Problems and Algorithms", in: Handbook of
/// Scheduling, 2004).
///
/// It says what [`Policy::plan`](super::Policy::plan) does where nothing happens but that jobs are
/// released, run and complete. A machine that needs no plans may therefore carry it out by itself:
/// the simulator does, where no observer [reads plans](super::Observer::reads_plans).
///
/// # What it says
/// * A task's priority is that of its first pending job: its deadline, or the task's own instant
///   where that is [fixed](TaskPriority::fixed). Equals go by [`tie`](TaskPriority::tie), then id.
/// * A decision looks at what all events before it came to. A task whose priority has changed, or
///   which has no pending job any more, gives up its core, and waits anew where it has one.
/// * Free cores are for the first of those that wait. Then each that waits takes the place of the
///   last of those that have kept their cores, for as long as it goes before that one; by deadlines
///   alone, where priorities are not fixed: ties do not preempt.
/// * Then the newly selected are given cores, in their order: first each that one of its task last
///   had, where that is free, then each of the others the lowest one that is free.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobPriorities {
    /// The cores that share a queue, for each queue.
    pub groups: Vec<Vec<CoreId>>,
    /// All tasks.
    pub tasks: Vec<TaskPriority>,
    /// What a plan would show.
    pub listed: Listed,
}

/// The priority of one task's jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskPriority {
    /// Which VCPU.
    pub vcpu: VcpuId,
    /// Its place among the groups.
    pub group: usize,
    /// Takes the place of all its jobs' deadlines; smaller is more urgent.
    pub fixed: Option<Instant>,
    /// Goes first among equals where it is smaller.
    pub tie: u64,
}

/// What stands on the run queues of a policy of [`JobPriorities`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listed {
    /// On a core's run queue, what was given the core.
    Selected,
    /// On a core's run queue, all tasks of its group with a pending job. A group has one core.
    Pending,
}

/// What decisions came to where no plan was made.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DecisionCounts {
    /// How many there were.
    pub all: u64,
    /// How many changed a core's run queue, by core.
    pub by_core: Vec<u64>,
    /// VCPUs that stood on a run queue at some time.
    pub listed: Vec<VcpuId>,
}
