//! EDF queues that are not bound to a core: each is one core's run queue while it is selected
//! there, and keeps the run queue aside while it is not.

use super::jobs::Backlog;
use super::queue::{Key, Queue};
use alloc::vec::Vec;
use maracas_core::contract::{Grant, Limit};
use maracas_core::{CoreId, List, Plan, VcpuId};

/// The tie value of a waiting job: only the running one wins ties, then the lower id.
const WAITING: u64 = Key::RUNNING + 1;

/// The pending jobs of some tasks, earliest deadline first, and where they may run.
#[derive(Clone, Default, Debug)]
pub(crate) struct Local {
    queue: Queue,
    /// The run queue, entry by entry like `queue`, while no core has it.
    aside: Vec<Grant>,
    /// Tasks that may use surplus time only, in the order in which they came to that, while no
    /// core has the run queue.
    surplus: List<Grant>,
    core: Option<CoreId>,
    last: Option<CoreId>,
    /// The head of the run queue at the last decision in which it was selected.
    running: Option<VcpuId>,
}

impl Local {
    /// A queue that is the run queue of `core`, if any, from the start.
    pub(crate) fn on(core: Option<CoreId>) -> Self {
        Self { core, last: core, ..Self::default() }
    }
    /// The core whose run queue it is.
    pub(crate) const fn core(&self) -> Option<CoreId> {
        self.core
    }
    /// The core whose run queue it was last.
    pub(crate) const fn last(&self) -> Option<CoreId> {
        self.last
    }

    /// Makes it the run queue of `core`, whose run queue must be empty.
    pub(crate) fn select(&mut self, core: CoreId, plan: &mut Plan) {
        self.core = Some(core);
        self.last = self.core;
        self.swap(core, plan);
    }
    /// Takes the run queue from its core, if one has it; that core.
    pub(crate) fn deselect(&mut self, plan: &mut Plan) -> Option<CoreId> {
        let core = self.core.take()?;
        self.swap(core, plan);
        Some(core)
    }
    /// Exchanges what is aside with what stands on the run queue of `core`; one of them is empty.
    fn swap(&mut self, core: CoreId, plan: &mut Plan) {
        let run_queue = plan.run_queue(core);
        let jobs = !self.aside.is_empty() || !run_queue.foreground.is_empty();
        let surplus = !self.surplus.is_empty() || !run_queue.background.is_empty();
        if jobs || surplus {
            let run_queue = plan.run_queue_mut(core);
            core::mem::swap(&mut self.aside, &mut run_queue.foreground);
            if surplus {
                core::mem::swap(&mut self.surplus, &mut run_queue.background);
            }
        }
    }

    fn run_queue<'a>(&'a mut self, plan: &'a mut Plan) -> &'a mut Vec<Grant> {
        match self.core {
            Some(core) => &mut plan.run_queue_mut(core).foreground,
            None => &mut self.aside,
        }
    }

    /// Brings the place of `vcpu` in step with its backlog. `queued` is its entry; whether the
    /// order changed.
    pub(crate) fn requeue(
        &mut self,
        vcpu: VcpuId,
        backlog: &Backlog,
        queued: &mut Option<Key>,
        plan: &mut Plan,
    ) -> bool {
        let wanted = backlog.deadline();
        let grant = Grant::new(vcpu, backlog.limit());
        if queued.map(|key| key.deadline) == wanted {
            if let Some(key) = *queued {
                let place = self.queue.place(key);
                let run_queue =
                    self.core.map_or(&self.aside, |core| &plan.run_queue(core).foreground);
                if run_queue[place] != grant {
                    self.run_queue(plan)[place] = grant;
                }
            }
            return false;
        }
        self.withdraw(queued, plan);
        if let Some(deadline) = wanted {
            let key = Key { deadline, tie: WAITING, vcpu };
            let place = self.queue.insert(key);
            self.run_queue(plan).insert(place, grant);
            *queued = Some(key);
        }
        true
    }

    /// Lets `vcpu` use surplus time, or no longer.
    pub(crate) fn allow_surplus(&mut self, vcpu: VcpuId, allowed: bool, plan: &mut Plan) {
        match self.core {
            Some(core) => allow_surplus(core, vcpu, allowed, plan),
            None => stand(&mut self.surplus, vcpu, allowed),
        }
    }

    /// Takes an entry out.
    pub(crate) fn withdraw(&mut self, queued: &mut Option<Key>, plan: &mut Plan) {
        if let Some(key) = queued.take() {
            let place = self.queue.remove(key);
            self.run_queue(plan).remove(place);
        }
    }

    /// Notes what is first; `None` while it is not selected.
    pub(crate) fn turn(&mut self) -> Option<Turn> {
        self.core?;
        let first = self.queue.first().map(|key| key.vcpu);
        let before = core::mem::replace(&mut self.running, first);
        Some(Turn { before: before.filter(|_| before != first), first })
    }
    /// Takes the right of way over ties from what ran before: `queued` is its entry.
    pub(crate) fn demote(&mut self, queued: &mut Option<Key>, plan: &mut Plan) {
        if let Some(key) = queued.filter(|key| key.tie == Key::RUNNING) {
            let (from, to) = self.queue.retie(key, WAITING);
            if from != to {
                let run_queue = self.run_queue(plan);
                let grant = run_queue.remove(from);
                run_queue.insert(to, grant);
            }
            *queued = Some(Key { tie: WAITING, ..key });
        }
    }
    /// Gives the right of way over ties to what is first: `queued` is its entry.
    pub(crate) fn promote(&mut self, queued: &mut Option<Key>) {
        if let Some(key) = queued
            && key.tie != Key::RUNNING
        {
            // Only the tie is written: reading a whole key back right after a part of it was stored
            // stalls (store forwarding).
            key.tie = Key::RUNNING;
            self.queue.retie_first(Key::RUNNING);
        }
    }
}

/// Lets `vcpu` use surplus time on `core`, after those that came to that before, or no longer.
pub(crate) fn allow_surplus(core: CoreId, vcpu: VcpuId, allowed: bool, plan: &mut Plan) {
    if stands(&plan.run_queue(core).background, vcpu) != allowed {
        stand(&mut plan.run_queue_mut(core).background, vcpu, allowed);
    }
}

fn stands(list: &List<Grant>, vcpu: VcpuId) -> bool {
    list.iter().any(|grant| grant.vcpu == vcpu)
}

fn stand(list: &mut List<Grant>, vcpu: VcpuId, allowed: bool) {
    if !allowed {
        list.retain(|grant| grant.vcpu != vcpu);
    } else if !stands(list, vcpu) {
        list.push(Grant::new(vcpu, Limit::NEVER));
    }
}

/// The VCPU that is first on a run queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// The VCPU that was first before, where that was another.
    pub(crate) before: Option<VcpuId>,
    /// The VCPU that is now.
    pub(crate) first: Option<VcpuId>,
}
