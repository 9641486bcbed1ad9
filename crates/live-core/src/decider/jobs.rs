//! Jobs of the VCPUs that sit on one core: which are due, which are done, and of which no program
//! has learned.

use crate::{Demand, Handle, ManagedCore, SilentJob};
use maracas_core::contract::{Mode, RunQueue};
use maracas_core::{Event, Instant, Job, JobId, VcpuId};
use std::collections::BTreeMap;
use std::ops::Range;

/// Releases on one core that wait for their VCPU to stand on its run queue; beyond, programs do not
/// learn of them.
const UNOBSERVED: usize = 4096;
/// Those of one VCPU; beyond, its oldest is forgotten, and ends with the next that its program
/// does. A program that ended leaves its VCPU with jobs that no program will do.
const UNOBSERVED_EACH: usize = 16;

/// Where what happened to jobs is put.
type Events = Vec<(Instant, Event)>;

/// The jobs of the VCPUs that sit on one core.
pub(super) struct Jobs {
    /// What each of them demands, where it has jobs.
    demands: BTreeMap<VcpuId, Option<Demand>>,
    /// Releases of which no program has learned, since its VCPU stood on no run queue yet.
    unobserved: Vec<Job>,
    /// When the first of them releases its next job, and whether any is silent: asked in every
    /// round.
    due: Instant,
    are_silent: bool,
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            demands: BTreeMap::new(),
            unobserved: Vec::new(),
            due: Instant::NEVER,
            are_silent: false,
        }
    }
}

impl Jobs {
    /// What the VCPUs here demand has changed: when is the next job due, and is any silent?
    fn look(&mut self) {
        let demands = || self.demands.values().flatten();
        self.due = demands().map(Demand::next_due).min().unwrap_or(Instant::NEVER);
        self.are_silent = demands().any(Demand::is_silent);
    }
    /// A VCPU sits here now, and demands this.
    pub(super) fn add(&mut self, vcpu: VcpuId, demand: Option<Demand>) {
        self.demands.insert(vcpu, demand);
        self.look();
    }
    /// What a VCPU demands, if it sits here and has jobs. When its next job is due, and whether it
    /// is silent, must not be changed by that.
    pub(super) fn of(&mut self, vcpu: VcpuId) -> Option<&mut Demand> {
        self.demands.get_mut(&vcpu)?.as_mut()
    }
    /// Whether a VCPU sits here.
    pub(super) fn seats(&self, vcpu: VcpuId) -> bool {
        self.demands.contains_key(&vcpu)
    }
    /// The VCPUs that sit here.
    pub(super) fn sitting(&self) -> impl Iterator<Item = VcpuId> {
        self.demands.keys().copied()
    }
    /// A VCPU is gone.
    pub(super) fn remove(&mut self, vcpu: VcpuId) {
        self.demands.remove(&vcpu);
        self.look();
        self.forget(vcpu);
    }
    /// Its releases need not be learned of any more.
    pub(super) fn forget(&mut self, vcpu: VcpuId) {
        self.unobserved.retain(|job| job.id.vcpu != vcpu);
    }
    /// A VCPU goes to another core.
    pub(super) fn transfer(&mut self, vcpu: VcpuId, to: &mut Self) {
        let demand = self.demands.remove(&vcpu);
        to.demands.extend(demand.map(|demand| (vcpu, demand)));
        let leave = |job: &mut Job| job.id.vcpu == vcpu;
        to.unobserved.extend(self.unobserved.extract_if(.., leave));
        self.look();
        to.look();
    }
    /// A release of which no program has learned.
    pub(super) fn push(&mut self, job: Job) {
        let mut own = self.unobserved.iter().filter(|of| of.id.vcpu == job.id.vcpu);
        let oldest = own.next().map(|oldest| oldest.id);
        if own.count() >= UNOBSERVED_EACH - 1 {
            self.unobserved.retain(|of| Some(of.id) != oldest);
        }
        if self.unobserved.len() < UNOBSERVED {
            self.unobserved.push(job);
        }
    }
    /// When the next job is released.
    pub(super) const fn due(&self) -> Instant {
        self.due
    }
    /// VCPUs of which no program ever reported the end of a job.
    pub(super) fn silent(&self) -> impl Iterator<Item = VcpuId> {
        let silent = |(vcpu, demand): (&VcpuId, &Option<Demand>)| {
            demand.as_ref().is_some_and(Demand::is_silent).then_some(*vcpu)
        };
        self.demands.iter().filter_map(silent)
    }
    /// Whether any is silent so far: its service is to be looked at.
    pub(super) const fn are_silent(&self) -> bool {
        self.are_silent
    }

    /// Releases what is due by `now`.
    pub(super) fn release<H: Handle>(
        &mut self,
        now: Instant,
        core: &mut (impl ManagedCore<H> + ?Sized),
        events: &mut Events,
    ) {
        let mut demands = std::mem::take(&mut self.demands);
        for (vcpu, demand) in &mut demands {
            let Some(demand) = demand else { continue };
            let mut released = false;
            while let Some(event) = demand.next_event(now) {
                if let Event::Released(job) = &event.1 {
                    released = true;
                    self.push(*job);
                }
                events.push(event);
            }
            if !released {
                continue;
            }
            core.released(*vcpu);
            if demand.is_silent()
                && let Some(vcpu_handle) = core.vcpu_handle(*vcpu)
            {
                let meter = vcpu_handle.meter(Mode::Foreground);
                vcpu_handle.silent_job = SilentJob::EndsAt(meter + demand.cost());
            }
        }
        self.demands = demands;
        self.look();
    }

    /// Ends the jobs of silent programs that have received C.
    pub(super) fn presume_complete<H: Handle>(
        &mut self,
        now: Instant,
        core: &mut (impl ManagedCore<H> + ?Sized),
        events: &mut Events,
    ) {
        for (vcpu, demand) in &mut self.demands {
            let Some(demand) = demand.as_mut().filter(|demand| demand.is_silent()) else {
                continue;
            };
            let Some(vcpu_handle) = core.vcpu_handle(*vcpu) else { continue };
            if vcpu_handle.has_received() {
                vcpu_handle.silent_job = SilentJob::None;
                let done = demand.presume_complete();
                events.extend(done.map(|job| (now, Event::Completed(job))));
            }
        }
    }

    /// A program says that this job is done; which ones end by that ([`Demand::complete`]). Its
    /// VCPU blocks where it has no other.
    pub(super) fn complete<H: Handle>(
        &mut self,
        job: JobId,
        core: &mut (impl ManagedCore<H> + ?Sized),
    ) -> Range<u32> {
        let Some(Some(demand)) = self.demands.get_mut(&job.vcpu) else { return 0..0 };
        let was_silent = demand.is_silent();
        let ended = demand.complete(job.index);
        let has_spoken = was_silent && !demand.is_silent();
        if let Some(vcpu_handle) = core.vcpu_handle(job.vcpu) {
            if !demand.is_silent() {
                vcpu_handle.silent_job = SilentJob::None;
            }
            vcpu_handle.is_done |= !ended.is_empty() && !demand.is_pending();
        }
        if has_spoken {
            self.look();
        }
        ended
    }

    /// Whether programs have learned of all releases.
    pub(super) const fn are_observed(&self) -> bool {
        self.unobserved.is_empty()
    }

    /// Calls `release` with the jobs of which a program may learn: those whose VCPU is where the
    /// run queue is on which it stands. One that woke before would run where it was, for a moment
    /// and at no priority, and could not be moved there but by stopping it.
    pub(super) fn announce(&mut self, run_queue: &RunQueue, mut release: impl FnMut(&Job)) {
        self.unobserved.retain(|job| {
            let stands = stands(run_queue, job.id.vcpu);
            if stands {
                release(job);
            }
            !stands
        });
    }
}

/// Whether a VCPU stands on a run queue.
pub(super) fn stands(run_queue: &RunQueue, vcpu: VcpuId) -> bool {
    run_queue.foreground.iter().chain(&run_queue.background).any(|grant| grant.vcpu == vcpu)
}
