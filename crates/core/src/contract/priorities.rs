//! Policies that are nothing but an order of jobs.

use crate::{CoreId, CoreSet, Instant, VcpuId};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// A policy under which each job has one priority for as long as it is pending, by which alone the
/// cores of a cluster are given away: job-level fixed priorities (J. Carpenter and others, "A
/// Categorization of Real-Time Multiprocessor Scheduling Problems and Algorithms", in: Handbook of
/// Scheduling, 2004).
///
/// It says what [`Policy::plan`](super::Policy::plan) does where nothing happens but that jobs are
/// released, run and complete, no job is due after the next release of its task, and grants have no
/// limits and are none of surplus time. A machine that needs no plans may therefore carry it out
/// by itself: the simulator does, where no observer
/// [reads plans](super::Observer::reads_plans). It then calls neither
/// [`Policy::on_event`](super::Policy::on_event) nor `plan`, and what the policy counts of its own
/// doings stays empty.
///
/// # What it says
/// * A task's priority is that of its first pending job: its deadline, or the task's own instant
///   where that is [fixed](TaskPriority::fixed). Equals go by [`tie`](TaskPriority::tie), then id.
/// * A decision looks at what all events before it came to. A task whose priority has changed, or
///   which has no pending job any more, gives up its core, and waits anew where it has a pending
///   job.
/// * Free cores are for the first of those that wait. Then each that waits takes the place of the
///   last of those that have kept their cores, not of one that was selected just now, for as long
///   as it goes before that one; by deadlines alone, where priorities are not fixed: ties do not
///   preempt.
/// * Then the newly selected are assigned cores, in their order: first each the core that it had
///   last, where that is free, then each of the others the lowest one that is free.
///
/// # What must hold of it
/// [`JobPriorities::check`]; a machine asks that before it goes by it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobPriorities {
    /// The cores that share a queue, in ascending order, for each queue.
    pub clusters: Vec<Vec<CoreId>>,
    /// All tasks.
    pub tasks: Vec<TaskPriority>,
    /// What a plan would show.
    pub on_run_queues: OnRunQueues,
}

impl JobPriorities {
    /// Whether it makes sense on so many cores: each core is in one cluster at most, no cluster is
    /// empty, where all pending tasks are shown it has one core, each task is in one cluster, and
    /// those of one cluster have fixed priorities all or none.
    ///
    /// # Errors
    /// Names the first that is wrong.
    pub fn check(&self, cores: usize) -> Result<(), String> {
        let mut seen = CoreSet::EMPTY;
        for (cluster, own) in self.clusters.iter().enumerate() {
            if own.is_empty() {
                return Err(format!("cluster {cluster} has no core"));
            }
            if own.len() > 1 && self.on_run_queues == OnRunQueues::Pending {
                return Err(format!(
                    "cluster {cluster} has {} cores, and each would show all its tasks",
                    own.len()
                ));
            }
            if !own.is_sorted_by(|one, next| one < next) {
                return Err(format!("the cores of cluster {cluster} are not in order"));
            }
            for core in own {
                if usize::from(core.0) >= cores {
                    return Err(format!("cluster {cluster} has {core}, and there are {cores}"));
                }
                if seen.contains(*core) {
                    return Err(format!("{core} is in cluster {cluster} and in one before it"));
                }
                seen.insert(*core);
            }
        }
        self.check_tasks()
    }

    fn check_tasks(&self) -> Result<(), String> {
        let mut known = BTreeSet::new();
        let mut are_fixed = vec![None; self.clusters.len()];
        for TaskPriority { vcpu, cluster, fixed, .. } in &self.tasks {
            let Some(are_fixed) = are_fixed.get_mut(*cluster) else {
                let count = self.clusters.len();
                return Err(format!("{vcpu} is in cluster {cluster}, and there are {count}"));
            };
            if *are_fixed.get_or_insert(fixed.is_some()) != fixed.is_some() {
                return Err(format!("some tasks in the cluster of {vcpu} have fixed priorities"));
            }
            if !known.insert(*vcpu) {
                return Err(format!("{vcpu} is in it twice"));
            }
        }
        Ok(())
    }
}

/// The priority of one task's jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskPriority {
    /// Which VCPU.
    pub vcpu: VcpuId,
    /// Its place among the clusters.
    pub cluster: usize,
    /// Takes the place of all its jobs' deadlines; smaller is more urgent.
    pub fixed: Option<Instant>,
    /// Goes first among equals where it is smaller.
    pub tie: u64,
}

/// What stands on the run queues of a policy of [`JobPriorities`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnRunQueues {
    /// On a core's run queue, the task that it is assigned to.
    Selected,
    /// On a core's run queue, all tasks of its cluster with a pending job. A cluster has one core.
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
    pub on_run_queue: Vec<VcpuId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_named() {
        let task = |vcpu, cluster, fixed: Option<u64>| TaskPriority {
            vcpu: VcpuId(vcpu),
            cluster,
            fixed: fixed.map(Instant::from_ticks),
            tie: 0,
        };
        let check = |clusters: &[&[u16]], tasks: &[TaskPriority], on_run_queues| {
            let clusters = clusters.iter().map(|own| own.iter().copied().map(CoreId).collect());
            let (clusters, tasks) = (clusters.collect(), tasks.to_vec());
            let wrong = JobPriorities { clusters, tasks, on_run_queues }.check(4);
            wrong.err().unwrap_or_default()
        };
        let selected = |clusters: &[&[u16]], tasks: &[TaskPriority]| {
            check(clusters, tasks, OnRunQueues::Selected)
        };
        let two: &[&[u16]] = &[&[0, 1], &[2, 3]];
        assert_eq!(selected(two, &[task(7, 1, None), task(2, 0, Some(5))]), "");
        assert_eq!(selected(&[&[0], &[]], &[]), "cluster 1 has no core");
        assert_eq!(selected(&[&[1, 0]], &[]), "the cores of cluster 0 are not in order");
        assert_eq!(selected(&[&[3, 4]], &[]), "cluster 0 has core4, and there are 4");
        assert_eq!(selected(&[&[0, 1], &[1]], &[]), "core1 is in cluster 1 and in one before it");
        assert_eq!(selected(&[&[0, 0]], &[]), "the cores of cluster 0 are not in order");
        assert_eq!(selected(two, &[task(7, 2, None)]), "vcpu7 is in cluster 2, and there are 2");
        let twice = [task(7, 1, None), task(7, 0, None)];
        assert_eq!(selected(two, &twice), "vcpu7 is in it twice");
        let mixed = [task(7, 1, None), task(8, 1, Some(3))];
        let why = "some tasks in the cluster of vcpu8 have fixed priorities";
        assert_eq!(selected(two, &mixed), why);
        let why = "cluster 0 has 2 cores, and each would show all its tasks";
        assert_eq!(check(two, &[], OnRunQueues::Pending), why);
        assert_eq!(check(&[&[0], &[1]], &[], OnRunQueues::Pending), "");
    }
}
