//! Jobs that programs report done, on their way to the agent of the core where their VCPU is.
//!
//! They are sorted by the core on which a VCPU began, so that those of one VCPU stay in their
//! order: the decider of that core takes them while cores decide alone, else the one of all. Under
//! policies that move VCPUs the place says nothing, and is always emptied with all others.

use crate::host::wait::Wakeup;
use maracas_core::{CoreId, Instant, JobId, VcpuId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// All of them.
pub(crate) struct Completed {
    /// On which core each VCPU began. No agent looks at it.
    began: Mutex<BTreeMap<VcpuId, CoreId>>,
    places: Vec<Place>,
    /// Cores decide alone at present.
    is_split: AtomicBool,
}

/// Those of one core.
struct Place {
    /// The agents only ever try it: who has it rings when it has let go.
    jobs: Mutex<Vec<(JobId, Instant)>>,
    is_filled: AtomicBool,
    wakeup: Arc<Wakeup>,
}

impl Completed {
    /// For the agents that these wake.
    pub(super) fn new(wakeups: Vec<Arc<Wakeup>>) -> Self {
        let place = |wakeup| {
            let (jobs, is_filled) = (Mutex::new(Vec::with_capacity(64)), AtomicBool::new(false));
            Place { jobs, is_filled, wakeup }
        };
        let places = wakeups.into_iter().map(place).collect();
        Self { began: Mutex::default(), places, is_split: AtomicBool::new(false) }
    }
    /// The programs of `vcpu` begin on this core.
    pub(super) fn begins(&self, vcpu: VcpuId, core: CoreId) {
        self.began().insert(vcpu, core);
    }
    /// No job of `vcpu` will be done any more.
    pub(super) fn ends(&self, vcpu: VcpuId) {
        self.began().remove(&vcpu);
    }
    fn began(&self) -> std::sync::MutexGuard<'_, BTreeMap<VcpuId, CoreId>> {
        self.began.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// A job was done at `at`. `all` wakes an agent that decides for all cores.
    pub(super) fn put(&self, job: JobId, at: Instant, all: &Wakeup) {
        let core = self.began().get(&job.vcpu).copied().unwrap_or_default();
        let Some(place) = self.places.get(usize::from(core.0)) else { return };
        place.jobs.lock().unwrap_or_else(PoisonError::into_inner).push((job, at));
        place.is_filled.store(true, Ordering::SeqCst);
        match self.is_split.load(Ordering::SeqCst) {
            true => place.wakeup.ring(),
            false => all.ring(),
        }
    }
    /// Takes those of a core: which, and when each was done.
    pub(super) fn take(&self, core: CoreId, done: impl FnMut((JobId, Instant))) {
        let Some(place) = self.places.get(usize::from(core.0)) else { return };
        if place.is_filled.swap(false, Ordering::SeqCst)
            && let Ok(mut jobs) = place.jobs.try_lock()
        {
            jobs.drain(..).for_each(done);
        }
    }
    /// Whether there are any of a core.
    pub(crate) fn is_filled(&self, core: CoreId) -> bool {
        let filled = |place: &Place| place.is_filled.load(Ordering::SeqCst);
        self.places.get(usize::from(core.0)).is_some_and(filled)
    }
    /// Cores decide alone from now on, or together.
    pub(crate) fn set_split(&self, is_split: bool) {
        self.is_split.store(is_split, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_a_vcpu_wait_in_order_at_the_core_where_it_began() {
        let wakeup = || Arc::new(Wakeup::new().expect("an eventfd"));
        let (all, completed) = (wakeup(), Completed::new(vec![wakeup(), wakeup()]));
        completed.begins(VcpuId(7), CoreId(1));
        for index in 0..3 {
            completed.put(JobId { vcpu: VcpuId(7), index }, Instant::ZERO, &all);
            // Whether cores decide alone or not.
            completed.set_split(index == 0);
        }
        assert_eq!([0, 1].map(|core| completed.is_filled(CoreId(core))), [false, true]);
        let mut taken = Vec::new();
        completed.take(CoreId(0), |(job, _)| taken.push(job.index));
        assert!(taken.is_empty(), "of another core");
        completed.take(CoreId(1), |(job, _)| taken.push(job.index));
        assert_eq!(taken, [0, 1, 2]);
        assert!(!completed.is_filled(CoreId(1)));
    }
}
