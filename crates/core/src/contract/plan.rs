//! What a policy answers.

use super::{Grant, Mode, RunQueue, ServiceRequest};
use crate::admission::NotAdmitted;
use crate::{CoreId, CoreSet, Instant, VcpuId};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

/// What should happen, until something else is decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The core of the first run queue.
    first: CoreId,
    run_queues: Vec<RunQueue>,
    dirty: CoreSet,
    homes: Vec<Option<CoreId>>,
    rehomed: Vec<VcpuId>,
    verdicts: Vec<(VcpuId, Result<CoreId, NotAdmitted>)>,
    /// Work for a service VCPU. The machine begins it when it sees it and always answers: by
    /// [`Event::ServiceDone`], before which a sample comes as [`Event::Sampled`], or by
    /// [`Event::Failed`]. Until then it is one service request, however often it is planned; what
    /// stands here in the first plan after the answer is a new one.
    ///
    /// [`Event::ServiceDone`]: super::Event::ServiceDone
    /// [`Event::Sampled`]: super::Event::Sampled
    /// [`Event::Failed`]: super::Event::Failed
    pub service_request: Option<(VcpuId, ServiceRequest)>,
    /// When to ask again at the latest; [`Instant::NEVER`] = only after events.
    pub wake: Instant,
    /// Whether the machine must report the running segments ([`End::Metered`]) at
    /// `wake`.
    ///
    /// [`End::Metered`]: super::End::Metered
    pub wake_metered: bool,
    /// Of each core, when it is asked for its sake.
    core_wakes: Vec<Instant>,
}

impl Plan {
    /// An empty plan for `cores` cores: everything idles.
    pub fn new(cores: usize) -> Self {
        Self::from(CoreId(0), cores)
    }
    /// An empty plan for `core` alone.
    pub fn of_core(core: CoreId) -> Self {
        Self::from(core, 1)
    }
    /// An empty plan for the cores of a group. It has room for those between them, too, which stay
    /// as they are here.
    pub fn of_cores(cores: &CoreSet) -> Self {
        let first = cores.first().unwrap_or_default();
        let last = cores.iter().last().unwrap_or_default();
        Self::from(first, usize::from(last.0 - first.0) + 1)
    }
    fn from(first: CoreId, cores: usize) -> Self {
        Self {
            first,
            run_queues: alloc::vec![RunQueue::default(); cores],
            dirty: CoreSet::EMPTY,
            homes: Vec::new(),
            rehomed: Vec::new(),
            verdicts: Vec::new(),
            service_request: None,
            wake: Instant::NEVER,
            wake_metered: false,
            core_wakes: alloc::vec![Instant::NEVER; cores],
        }
    }
    /// Forgets what the last decision changed and answered.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.dirty.clear();
        self.rehomed.clear();
        if !self.verdicts.is_empty() {
            self.verdicts.clear();
        }
    }
    /// When `wake` comes for the sake of `core`; [`Instant::NEVER`] = not known. None is before
    /// `wake`. It only says on which core a machine should wait, so that whatever decides then acts
    /// on its own core.
    pub fn core_wake(&self, core: CoreId) -> Instant {
        self.core_wakes[self.place(core)]
    }
    /// Says when `wake` comes for the sake of `core`.
    pub fn set_core_wake(&mut self, core: CoreId, at: Instant) {
        let place = self.place(core);
        self.core_wakes[place] = at;
    }
    /// Where `core` stands among the cores that the plan is for.
    #[inline]
    pub const fn place(&self, core: CoreId) -> usize {
        core.0 as usize - self.first.0 as usize
    }
    /// The run queue of `core`.
    #[inline]
    pub fn run_queue(&self, core: CoreId) -> &RunQueue {
        &self.run_queues[self.place(core)]
    }
    /// How many cores the plan is for.
    pub const fn cores(&self) -> usize {
        self.run_queues.len()
    }
    /// The cores that the plan is for, in their order.
    pub fn core_ids(&self) -> impl Iterator<Item = CoreId> + use<> {
        (self.first.0..self.first.0 + self.run_queues.len() as u16).map(CoreId)
    }
    /// Exchanges what two plans say of `core`, for which both are.
    pub fn exchange(&mut self, other: &mut Self, core: CoreId) {
        let (own, its) = (self.place(core), other.place(core));
        mem::swap(&mut self.run_queues[own], &mut other.run_queues[its]);
        mem::swap(&mut self.core_wakes[own], &mut other.core_wakes[its]);
    }
    /// The run queue of `core`, to be changed: marks the core dirty.
    #[inline]
    pub fn run_queue_mut(&mut self, core: CoreId) -> &mut RunQueue {
        self.dirty.insert(core);
        let place = self.place(core);
        &mut self.run_queues[place]
    }
    /// Has the foreground of `core` be `first` and then `rest`; where it is that already, the core
    /// is not marked dirty.
    #[inline]
    pub fn set_foreground(&mut self, core: CoreId, first: &[Grant], rest: &[Grant]) {
        let place = self.place(core);
        let own = &mut self.run_queues[place].foreground;
        let head = first.first().or(rest.first()).map(|grant| grant.vcpu);
        // Lists that differ nearly always differ in one of these.
        let differs =
            (own.len() != first.len() + rest.len()) | (own.first().map(|grant| grant.vcpu) != head);
        if differs || own.split_at_checked(first.len()) != Some((first, rest)) {
            self.dirty.insert(core);
            own.clear();
            own.extend_from_slice(first);
            own.extend_from_slice(rest);
        }
    }
    /// The cores whose run queue changed in the last decision.
    pub const fn dirty(&self) -> &CoreSet {
        &self.dirty
    }
    /// Where `vcpu` waits when it stands on no run queue; `None` = wherever it last ran.
    pub fn home(&self, vcpu: VcpuId) -> Option<CoreId> {
        self.homes.get(vcpu.0 as usize).copied().flatten()
    }
    /// Sets the home of `vcpu`; a change is noted in [`Plan::rehomed`].
    pub fn set_home(&mut self, vcpu: VcpuId, home: Option<CoreId>) {
        let index = vcpu.0 as usize;
        if self.homes.len() <= index {
            self.homes.resize(index + 1, None);
        }
        if self.homes[index] != home {
            self.homes[index] = home;
            self.rehomed.push(vcpu);
        }
    }
    /// VCPUs whose home changed in the last decision.
    pub fn rehomed(&self) -> &[VcpuId] {
        &self.rehomed
    }
    /// Answers an [`super::Event::Arrived`] or [`super::Event::Changed`].
    pub fn answer(&mut self, vcpu: VcpuId, verdict: Result<CoreId, NotAdmitted>) {
        self.verdicts.push((vcpu, verdict));
    }
    /// The answers of the last decision: the VCPU's core (core 0 where the policy is global), or
    /// why not.
    pub fn verdicts(&self) -> &[(VcpuId, Result<CoreId, NotAdmitted>)] {
        &self.verdicts
    }

    /// Checks policy rule 1 on the dirty cores against all cores.
    ///
    /// # Errors
    /// Names the VCPU that stands on two run queues, or twice in one list.
    pub fn audit(&self) -> Result<(), alloc::string::String> {
        // Where each VCPU was seen last, and in which list by a grant that is not ahead.
        let mut seen: BTreeMap<VcpuId, (usize, Option<Mode>)> = BTreeMap::new();
        let is_dirty = |core: usize| self.dirty.contains(CoreId(core as u16));
        for (core, run_queue) in (usize::from(self.first.0)..).zip(&self.run_queues) {
            let foreground = run_queue.foreground.iter().map(|grant| (grant, Mode::Foreground));
            let background = run_queue.background.iter().map(|grant| (grant, Mode::Background));
            for (grant, mode) in foreground.chain(background) {
                let vcpu = grant.vcpu;
                let list = (!grant.is_ahead()).then_some(mode);
                let (other, before) = seen.get(&vcpu).copied().unwrap_or((core, None));
                seen.insert(vcpu, (core, list.or(before)));
                if other != core && (is_dirty(other) || is_dirty(core)) {
                    return Err(alloc::format!("{vcpu} stands on core{other} and on core{core}"));
                }
                if other == core && list.is_some() && before == list && is_dirty(core) {
                    return Err(alloc::format!("{vcpu} stands twice on core{core}"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Limit;

    #[test]
    fn audit_finds_a_vcpu_on_two_run_queues() {
        let mut plan = Plan::new(2);
        let grant = Grant::new(VcpuId(3), Limit::NEVER);
        plan.run_queue_mut(CoreId(0)).foreground.push(grant);
        plan.run_queue_mut(CoreId(0)).background.push(grant);
        // What it is to have next is an entry more.
        let ahead = grant.ahead(Instant::from_ticks(7));
        plan.run_queue_mut(CoreId(0)).foreground.push(ahead);
        assert_eq!(plan.audit(), Ok(()));
        let mut twice = plan.clone();
        twice.run_queue_mut(CoreId(0)).foreground.push(grant);
        assert_eq!(twice.audit().unwrap_err(), "vcpu3 stands twice on core0");
        let mut elsewhere = plan.clone();
        elsewhere.run_queue_mut(CoreId(1)).foreground.push(ahead);
        assert_eq!(elsewhere.audit().unwrap_err(), "vcpu3 stands on core0 and on core1");
        plan.run_queue_mut(CoreId(1)).background.push(grant);
        assert_eq!(plan.audit().unwrap_err(), "vcpu3 stands on core0 and on core1");
    }

    #[test]
    fn a_foreground_that_stands_already_marks_nothing() {
        let mut plan = Plan::new(1);
        let grant = |vcpu| Grant::new(VcpuId(vcpu), Limit::NEVER);
        let mut is_dirty = |first: &[Grant], rest: &[Grant]| {
            plan.begin();
            plan.set_foreground(CoreId(0), first, rest);
            let stands: Vec<Grant> = first.iter().chain(rest).copied().collect();
            assert_eq!(plan.run_queue(CoreId(0)).foreground, stands);
            !plan.dirty().is_empty()
        };
        assert!(!is_dirty(&[], &[]));
        assert!(is_dirty(&[grant(1)], &[grant(2)]));
        assert!(!is_dirty(&[grant(1), grant(2)], &[]) && !is_dirty(&[], &[grant(1), grant(2)]));
        assert!(is_dirty(&[grant(1)], &[grant(3)]), "as long, and the same first");
        let later = Grant::new(VcpuId(3), Limit(crate::Duration::from_ticks(5)));
        assert!(is_dirty(&[grant(1)], &[later]) && is_dirty(&[grant(2)], &[later]));
        assert!(is_dirty(&[], &[]));
    }
}
