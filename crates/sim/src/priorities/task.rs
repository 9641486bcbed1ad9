//! One task: its jobs, and where the first of them is.

use super::cluster::Cluster;
use super::timers::{Packed, Packing};
use super::untold::Untold;
use crate::rng::{Purpose, Stream};
use crate::workload::{NONE, Releases};
use maracas_core::contract::TaskPriority;
use maracas_core::{Cost, Duration, Instant, Job, JobId, Short, Vcpu, VcpuId};

/// Where the first pending job of a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Nowhere,
    Waiting,
    On(u32),
}

/// A VCPU whose only program works on jobs, from the start to the end.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) place: Place,
    /// The entry of its first pending job in the order, where that is anywhere.
    pub(super) key: Packed,
    /// Its cluster, by its index.
    pub(super) cluster: u32,
    /// The core that it was assigned last, or `NONE`.
    pub(super) last: u32,
    /// Whether it would have stood on a run queue at some time.
    pub(super) was_on_run_queue: bool,
    /// Service until its first pending job is complete.
    pub(super) left: Duration,
    /// Its place among all tasks by tie value and number of the VCPU.
    tie_rank: u32,
    fixed: Option<Instant>,
    /// Deadlines of the jobs released and not completed.
    pending: Short<Instant>,
    /// What no observer was told of.
    pub(super) untold: Untold,
    vcpu: VcpuId,
    released: u32,
    completed: u32,
    deadline: Duration,
    period: Duration,
    cost: Cost,
    costs: Stream,
    releases: Releases,
}

impl Task {
    /// Each of its jobs costs `cost`.
    pub(super) fn new(
        vcpu: &Vcpu,
        priority: &TaskPriority,
        tie_rank: u32,
        cost: Cost,
        ticks_per_ns: u64,
        seed: u64,
    ) -> Self {
        Self {
            place: Place::Nowhere,
            key: Packed::FIRST,
            cluster: priority.cluster as u32,
            last: NONE,
            was_on_run_queue: false,
            left: Duration::ZERO,
            tie_rank,
            fixed: priority.fixed,
            pending: Short::default(),
            untold: Untold::default(),
            vcpu: vcpu.id,
            released: 0,
            completed: 0,
            deadline: vcpu.reservation.deadline,
            period: vcpu.reservation.period,
            cost,
            costs: Stream::new(seed, Purpose::Cost, vcpu.id.0, 0),
            releases: Releases::new(vcpu, ticks_per_ns, seed),
        }
    }
    /// Its number in events.
    pub(super) const fn id(&self) -> VcpuId {
        self.vcpu
    }
    /// When its first job is released.
    pub(super) fn begin(&mut self) -> Instant {
        Instant::ZERO.saturating_add(self.releases.first(self.period))
    }
    /// Releases a job at `now`, and says when the next one comes.
    #[inline]
    pub(super) fn release(&mut self, now: Instant) -> (Job, Instant) {
        let id = JobId { vcpu: self.vcpu, index: self.released };
        let deadline = now.saturating_add(self.deadline);
        self.released += 1;
        if self.pending.is_empty() {
            self.left = self.draw();
        }
        self.pending.push_back(deadline);
        (Job { id, release: now, deadline }, now.saturating_add(self.releases.gap(self.period)))
    }
    /// The last job, which was released at `release`.
    pub(super) fn last_job(&self, release: Instant) -> Job {
        let id = JobId { vcpu: self.vcpu, index: self.released - 1 };
        Job { id, release, deadline: release.saturating_add(self.deadline) }
    }
    /// Completes the first pending job: which that was, and its deadline.
    #[inline]
    pub(super) fn complete(&mut self) -> (JobId, Instant) {
        let id = JobId { vcpu: self.vcpu, index: self.completed };
        self.completed += 1;
        let deadline = self.pending.pop_front().unwrap_or(Instant::NEVER);
        if !self.pending.is_empty() {
            self.left = self.draw();
        }
        (id, deadline)
    }
    /// Service of the next job.
    #[inline]
    fn draw(&mut self) -> Duration {
        match self.cost {
            // Nearly always; the call would cost as much as the job's release.
            Cost::Fixed(ticks) => ticks.max(Duration::from_ticks(1)),
            cost @ (Cost::Uniform(..) | Cost::Exponential(_)) => self.costs.draw(cost),
        }
    }
    /// Whether no job is pending.
    #[inline]
    pub(super) const fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }
    /// Its first pending job waits.
    #[inline]
    pub(super) fn wait(&mut self, cluster: &mut Cluster, packing: Packing) {
        let deadline = self.pending.front().copied().unwrap_or(Instant::NEVER);
        self.key = packing.pack(self.fixed.unwrap_or(deadline), self.tie_rank);
        self.place = Place::Waiting;
        cluster.wait(self.key);
        cluster.newly_waiting += 1;
    }
    /// Whether its priority is the same for all jobs.
    #[inline]
    pub(super) const fn is_fixed(&self) -> bool {
        self.fixed.is_some()
    }
    /// How many jobs were released.
    pub(super) fn released(&self) -> u64 {
        self.released.into()
    }
    /// How many were completed.
    pub(super) fn completed(&self) -> u64 {
        self.completed.into()
    }
    /// Jobs not completed whose deadline is not after `now`.
    pub(super) fn overdue(&self, now: Instant) -> u64 {
        self.pending.iter().filter(|deadline| **deadline <= now).count() as u64
    }
}
