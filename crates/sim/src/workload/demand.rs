//! One VCPU: what it has before it, and when its jobs are released.

use super::{Demand, NONE, Standing};
use crate::rng::{Purpose, Stream};
use maracas_core::{Arrival, Duration, Instant, JobId, Role, Short, Vcpu};
use std::collections::VecDeque;

impl Demand {
    pub(super) fn new(vcpu: &Vcpu, standing: Standing, ticks_per_ns: u64, seed: u64) -> Self {
        Self {
            vcpu: vcpu.clone(),
            standing,
            current: NONE,
            left: Duration::ZERO,
            waiting: VecDeque::new(),
            threads: Vec::new(),
            staying: 0,
            meters: [Duration::ZERO; 2],
            memory: 0,
            releasing: false,
            released: 0,
            completed: 0,
            pending: Short::default(),
            releases: Releases::new(vcpu, ticks_per_ns, seed),
            on: NONE,
            last: NONE,
            run_queue: NONE,
            woke: 0,
            hidden: None,
        }
    }
    /// Whether it runs service requests, and nothing else.
    pub(crate) const fn carries(&self) -> bool {
        match self.vcpu.role {
            Role::Monitor | Role::Migration => true,
            Role::Main | Role::Io => false,
        }
    }
    /// Its programs, by their place among all.
    pub(crate) fn programs(&self) -> &[u32] {
        &self.threads
    }
    pub(super) const fn id_of(&self, index: u32) -> JobId {
        JobId { vcpu: self.vcpu.id, index }
    }
    #[inline]
    pub(crate) const fn runnable(&self) -> bool {
        self.current != NONE
    }
    /// Whether a job was released and not completed.
    #[inline]
    pub(crate) const fn has_pending(&self) -> bool {
        self.completed < self.released
    }
    /// Jobs not completed whose deadline is not after `now`.
    pub(crate) fn overdue(&self, now: Instant) -> u64 {
        self.pending.iter().filter(|deadline| **deadline <= now).count() as u64
    }

    /// Forgets the jobs that will not be done any more.
    pub(crate) fn abandon(&mut self) {
        self.pending.clear();
        self.hidden = None;
    }
}

/// When the jobs of a VCPU are released.
#[derive(Clone, Debug)]
pub(crate) struct Releases {
    arrival: Arrival,
    /// Sporadic jobs are released at whole nanoseconds, however finely an exact study divides time.
    ticks_per_ns: u64,
    stream: Stream,
}

impl Releases {
    pub(crate) fn new(vcpu: &Vcpu, ticks_per_ns: u64, seed: u64) -> Self {
        let stream = Stream::new(seed, Purpose::Release, vcpu.id.0, 0);
        Self { arrival: vcpu.arrival, ticks_per_ns, stream }
    }
    /// From the start of the first job program to its first job: the offset, or for sporadic
    /// VCPUs a uniform share of T, so that they do not all start together.
    pub(crate) fn first(&mut self, period: Duration) -> Duration {
        match self.arrival {
            Arrival::Periodic { offset } => offset,
            Arrival::Sporadic => self.whole_ns(Duration::ZERO, period),
            Arrival::None => unreachable!("job programs need a VCPU that releases jobs"),
        }
    }
    /// From one release to the next: T, or for sporadic VCPUs uniform between T and 2T.
    #[inline]
    pub(crate) fn gap(&mut self, period: Duration) -> Duration {
        if self.arrival == Arrival::Sporadic { self.whole_ns(period, period * 2) } else { period }
    }
    /// A number of whole nanoseconds, uniform between `low` and `high`.
    fn whole_ns(&mut self, low: Duration, high: Duration) -> Duration {
        let ns = self.ticks_per_ns;
        let [low, high] = [low.ticks().div_ceil(ns), high.ticks() / ns];
        self.stream.uniform(Duration::from_ticks(low), Duration::from_ticks(high)) * ns
    }
}
