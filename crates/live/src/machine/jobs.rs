//! The way of jobs between agents and programs: releases through the gate, and jobs that programs
//! said are done, to the agents of the cores of their VCPUs. Where cores decide alone no other
//! agent need look.

use crate::host::wait::Wakeup;
use maracas_core::{CoreId, Instant, Job, JobId, VcpuId};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// VCPUs whose core is known at once: one for each of the lowest numbers, a later one in its place.
/// Jobs of others are for the decider of all cores.
const SEATS: usize = 1024;
/// Bits of a seat that name the core; those above are one more than the VCPU's number.
const CORE_BITS: u32 = 16;

/// Wakes the programs whose demand comes as jobs.
///
/// Called by an agent at its real-time priority: an implementation must neither block nor wait
/// for a lock that another thread may hold for long (a non-blocking send or a futex wake is
/// right). VCPUs whose programs never connected are simply not known to the gate.
pub trait JobGate: Send + Sync {
    /// `job` is released now: lets the program of its VCPU begin.
    fn release(&self, job: &Job);
}

/// Jobs that are done on one core.
pub(crate) struct Done {
    jobs: Mutex<Vec<(JobId, Instant)>>,
    /// Rings at each.
    pub(crate) wakeup: Wakeup,
}

impl Done {
    /// Takes all; none where a caller holds the lock now (it will ring).
    pub(crate) fn take(&self, into: impl FnMut((JobId, Instant))) {
        if let Ok(mut jobs) = self.jobs.try_lock() {
            jobs.drain(..).for_each(into);
        }
    }
}

/// The jobs of a run.
pub(crate) struct Jobs {
    /// Wakes programs at their releases, once it is set.
    pub(super) gate: OnceLock<Arc<dyn JobGate>>,
    /// By core; none where the policy decides for all cores.
    pub(crate) done: Box<[Done]>,
    /// On which core VCPUs sit.
    seats: Box<[AtomicU64]>,
}

impl Jobs {
    /// Of so many cores.
    pub(super) fn new(cores: usize) -> io::Result<Self> {
        let done = || Ok(Done { jobs: Mutex::new(Vec::with_capacity(64)), wakeup: Wakeup::new()? });
        let done = (0..cores).map(|_| done()).collect::<io::Result<_>>()?;
        Ok(Self {
            gate: OnceLock::new(),
            done,
            seats: (0..SEATS).map(|_| AtomicU64::new(0)).collect(),
        })
    }
    fn seat(&self, vcpu: VcpuId) -> &AtomicU64 {
        &self.seats[vcpu.0 as usize % SEATS]
    }
    const fn occupied(vcpu: VcpuId) -> u64 {
        vcpu.0 as u64 + 1
    }
    /// A VCPU sits on this core from now on. Agents say so: it waits for nothing.
    pub(super) fn sits(&self, vcpu: VcpuId, core: CoreId) {
        let seat = Self::occupied(vcpu) << CORE_BITS | u64::from(core.0);
        self.seat(vcpu).store(seat, Ordering::Release);
    }
    /// A job is done since `at`. Whether it is known on which core: then the agent there learns of
    /// it.
    pub(super) fn put(&self, job: JobId, at: Instant) -> bool {
        let seat = self.seat(job.vcpu).load(Ordering::Acquire);
        let core = seat & ((1 << CORE_BITS) - 1);
        let is_known = seat >> CORE_BITS == Self::occupied(job.vcpu);
        let Some(done) = self.done.get(core as usize).filter(|_| is_known) else { return false };
        done.jobs.lock().unwrap_or_else(PoisonError::into_inner).push((job, at));
        done.wakeup.ring();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_done_job_goes_to_the_core_of_its_vcpu_or_to_all() {
        let job = |vcpu| JobId { vcpu: VcpuId(vcpu), index: 0 };
        let jobs = Jobs::new(2).expect("descriptors");
        assert!(!jobs.put(job(1), Instant::ZERO), "it sits nowhere");
        jobs.sits(VcpuId(1), CoreId(1));
        assert!(jobs.put(job(1), Instant::ZERO));
        let later = SEATS as u32 + 1;
        assert!(!jobs.put(job(later), Instant::ZERO), "that seat is another's");
        jobs.sits(VcpuId(later), CoreId(0));
        assert!(jobs.put(job(later), Instant::ZERO) && !jobs.put(job(1), Instant::ZERO));
        let taken = |core: usize| {
            let mut taken = Vec::new();
            jobs.done[core].take(|(job, _)| taken.push(job));
            taken
        };
        assert_eq!([taken(0), taken(1), taken(1)], [vec![job(later)], vec![job(1)], vec![]]);
        let none = Jobs::new(0).expect("none");
        none.sits(VcpuId(0), CoreId(0));
        assert!(!none.put(job(0), Instant::ZERO), "one decides for all cores");
    }
}
