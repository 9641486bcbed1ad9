//! Which migration VCPU goes when: the paper's pending event counter, and their rests.

use super::Scene;
use alloc::vec::Vec;
use maracas_core::{CoreId, Duration, Instant, VcpuId};

/// A core's migration VCPU.
#[derive(Clone, Copy, Debug)]
struct ServiceVcpu {
    id: VcpuId,
    /// When the first move of its present period was done, and how many were since.
    since: Instant,
    moves: u64,
}

/// The events that were not handled yet, and what handles them: each of them activates a migration
/// VCPU that may move a VCPU. It rests when it has made the moves of one of its periods, which
/// begins with the first of them, and while its budget does not pay for another: so what goes has
/// the time to come back, and finds the cores as they were when it was decided.
#[derive(Debug)]
pub(super) struct Activations {
    service_vcpus: Vec<ServiceVcpu>,
    /// Moves in a period of a migration VCPU; `u64::MAX` = all that are found.
    moves: u64,
    /// What a migration may cost.
    cost: Duration,
    /// Wakes by core, and blocks and ends.
    woken: Vec<u64>,
    blocked: u64,
    /// Whether what was last taken is a wake.
    wakes: bool,
    /// When one more of each is asked for: then what kept a VCPU from moving ends.
    woken_again: Vec<Instant>,
    blocked_again: Instant,
    /// Events that waited, at most.
    most: u64,
    /// When the first migration VCPU may go that was needed without effect since [`Self::begin`].
    rested: Instant,
}

impl Activations {
    pub(super) fn new(service_vcpus: &[VcpuId], moves: u64, cost: Duration) -> Self {
        let service_vcpu = |id: &VcpuId| ServiceVcpu { id: *id, since: Instant::ZERO, moves: 0 };
        Self {
            service_vcpus: service_vcpus.iter().map(service_vcpu).collect(),
            moves,
            cost,
            woken: alloc::vec![0; service_vcpus.len()],
            blocked: 0,
            wakes: false,
            woken_again: alloc::vec![Instant::NEVER; service_vcpus.len()],
            blocked_again: Instant::NEVER,
            most: 0,
            rested: Instant::NEVER,
        }
    }
    pub(super) fn service_vcpu(&self, core: CoreId) -> VcpuId {
        self.service_vcpus[core.0 as usize].id
    }
    /// A VCPU of `core` woke.
    pub(super) fn woke(&mut self, core: CoreId) {
        self.woken[core.0 as usize] += 1;
    }
    /// A VCPU blocked or left.
    pub(super) const fn blocked(&mut self) {
        self.blocked += 1;
    }
    /// Events that were not handled yet.
    pub(super) fn pending(&self) -> u64 {
        self.blocked + self.woken.iter().sum::<u64>()
    }
    /// Counts those that must wait.
    pub(super) fn wait(&mut self) {
        self.most = self.most.max(self.pending());
    }
    pub(super) const fn most(&self) -> u64 {
        self.most
    }

    /// What must be asked again by `now`, is.
    pub(super) fn begin(&mut self, now: Instant) {
        self.rested = Instant::NEVER;
        let woken = self.woken_again.iter_mut().zip(&mut self.woken);
        let blocked = (&mut self.blocked_again, &mut self.blocked);
        for (again, events) in woken.chain([blocked]) {
            if *again <= now {
                *again = Instant::NEVER;
                *events += 1;
            }
        }
    }
    /// When to ask again where no event comes before.
    pub(super) fn next(&self) -> Instant {
        let again = self.woken_again.iter().fold(self.blocked_again, |next, at| next.min(*at));
        self.rested.min(again)
    }

    /// Whether the migration VCPU of `core` has the budget for a service request.
    pub(super) fn has_budget(&mut self, scene: &Scene<'_>, core: CoreId) -> bool {
        let Some(state) = scene.states.get(self.service_vcpu(core)) else { return false };
        let whole = state.server.last().filter(|last| *last > scene.now);
        let has = state.server.usable(scene.now) >= self.cost;
        match whole {
            Some(whole) if !has => {
                self.rested = self.rested.min(whole);
                false
            }
            Some(_) | None => true,
        }
    }
    /// How many moves the migration VCPU of `core` may make now.
    fn left(&mut self, scene: &Scene<'_>, core: CoreId) -> u64 {
        if !self.has_budget(scene, core) {
            return 0;
        }
        let service_vcpu = self.service_vcpus[core.0 as usize];
        let period = scene.states.get(service_vcpu.id).map(|state| state.server.period());
        let end = service_vcpu.since + period.unwrap_or_default();
        let left = if scene.now < end { self.moves - service_vcpu.moves } else { self.moves };
        if left == 0 {
            self.rested = self.rested.min(end);
        }
        left
    }
    /// The next event whose migration VCPU may go: its core, and for how many moves. A block is for
    /// the core with the least SPV by then.
    pub(super) fn take(&mut self, scene: &Scene<'_>) -> Option<(CoreId, u64)> {
        for core in (0..self.woken.len() as u16).map(CoreId) {
            if self.woken[core.0 as usize] > 0 {
                let left = self.left(scene, core);
                if left > 0 {
                    self.woken[core.0 as usize] -= 1;
                    self.wakes = true;
                    return Some((core, left));
                }
            }
        }
        if self.blocked == 0 {
            return None;
        }
        let core = scene.fullest();
        let left = self.left(scene, core);
        (left > 0).then(|| {
            self.blocked -= 1;
            self.wakes = false;
            (core, left)
        })
    }
    /// No VCPU of `core` was to be moved: other events of now would find the same. It is asked for
    /// again when the scene says that the answer may be another.
    pub(super) fn in_vain(&mut self, scene: &Scene<'_>, core: CoreId) {
        let (place, later) = (core.0 as usize, scene.later.get());
        if core::mem::take(&mut self.woken[place]) > 0 || self.wakes {
            self.woken_again[place] = self.woken_again[place].min(later);
        }
        let fullest = core == scene.fullest();
        if !self.wakes || fullest && self.blocked > 0 {
            self.blocked_again = self.blocked_again.min(later);
        }
        if fullest {
            self.blocked = 0;
        }
    }
    /// The migration VCPU of `core`, of this period, moved a VCPU at `at`.
    pub(super) fn moved(&mut self, core: CoreId, at: Instant, period: Duration) {
        let service_vcpu = &mut self.service_vcpus[core.0 as usize];
        if service_vcpu.moves == 0 || at >= service_vcpu.since + period {
            (service_vcpu.since, service_vcpu.moves) = (at, 0);
        }
        service_vcpu.moves += 1;
    }
}
