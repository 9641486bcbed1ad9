//! How tasks come, change and go under U-EDF, and what their rates are in whole parts.

use super::{EXTRA, Task, UEdf};
use crate::parts::queue::Key;
use crate::parts::table::{Granted, Use};
use crate::parts::{fluid, jobs};
use alloc::vec::Vec;
use maracas_core::{Instant, Rate, Vcpu, VcpuId, gcd};

/// Common denominators up to this are kept exactly; beyond, rates are rounded to multiples of its
/// reciprocal, which is off by less than one tick in 146 years of nanoseconds.
const FINEST: u64 = 1 << 62;

impl UEdf {
    /// Divides a core into as many parts as all rates need.
    pub(super) fn rescale(&mut self) {
        let more = |task: &Task| task.grows.as_ref().map(|(_, vcpu)| self.rate(vcpu).den());
        let tasks = || self.order.iter().filter_map(|key| self.tasks.get(key.vcpu));
        let dens = tasks().flat_map(|task| [Some(task.exact.den()), more(task)]).flatten();
        let common = dens.into_iter().try_fold(1_u64, |one, den| {
            (one / gcd(one, den)).checked_mul(den).filter(|one| *one <= FINEST)
        });
        self.whole = common.unwrap_or(FINEST);
        let whole = u128::from(self.whole);
        let parts = |rate: Rate| (u128::from(rate.num()) * whole / u128::from(rate.den())) as u64;
        for key in self.order.iter() {
            let greater = self.tasks.get(key.vcpu).and_then(|task| task.grows.clone());
            let greater = greater.map(|(_, vcpu)| parts(self.rate(&vcpu)));
            let Some(task) = self.tasks.get_mut(key.vcpu) else { continue };
            task.rate = parts(task.exact);
            task.extra = greater.map_or(0, |all| all.saturating_sub(task.rate));
        }
    }

    pub(super) fn leave(&mut self, vcpu: VcpuId, at: Instant) {
        self.table.leave(vcpu, at, self.in_use(vcpu));
        let Some(task) = self.tasks.remove(vcpu) else { return };
        self.order.remove(task.key);
        self.asked.retain(|asked| asked.id != vcpu);
        if let Some((from, _)) = task.grows {
            self.order.remove(Key { deadline: from, tie: EXTRA, vcpu });
        }
        if let Some(core) = task.core {
            self.running[core.0 as usize] = None;
        }
        self.chosen.iter_mut().for_each(|chosen| _ = chosen.take_if(|one| *one == vcpu));
        self.idlers.iter_mut().for_each(|idlers| idlers.retain(|grant| grant.vcpu != vcpu));
        self.stale = true;
    }

    /// What of the reservation of `vcpu` counts if it leaves or changes.
    fn in_use(&self, vcpu: VcpuId) -> Use {
        self.tasks.get(vcpu).map_or(Use::NONE, |task| task.backlog.in_use())
    }
    /// The latest deadline of all jobs released so far: a task that comes at `at` begins then.
    fn joins_at(&self, at: Instant) -> Instant {
        self.order.last().map_or(at, |key| key.deadline.max(at))
    }
    pub(super) fn arrive(&mut self, vcpu: &Vcpu, at: Instant) {
        if let Some(reason) = jobs::objection(vcpu).or_else(|| self.too_heavy(vcpu)) {
            self.table.refuse(vcpu.id, reason);
        } else if self.table.arrive(&fluid::dense(vcpu), at).is_some() {
            self.enter(vcpu, at);
        }
    }
    /// It is let in, and begins when it may.
    fn enter(&mut self, vcpu: &Vcpu, at: Instant) {
        let from = self.joins_at(at);
        self.insert(vcpu, from);
        self.rescale();
        self.table.postpone(vcpu.id, from);
        self.stale = true;
    }
    /// Asks for the tasks that want to change, one request of each after the other.
    fn ask(&mut self, now: Instant) {
        for vcpu in core::mem::take(&mut self.asked) {
            if self.tasks.get(vcpu.id).is_some_and(|task| task.grows.is_some()) {
                self.asked.push(vcpu);
            } else if let Some(reason) = self.too_heavy(&vcpu) {
                self.table.refuse(vcpu.id, reason);
            } else {
                self.table.ask(&fluid::dense(&vcpu), now);
            }
        }
    }
    /// It may change: at once to a smaller rate, else as a newcomer would begin.
    fn become_as(&mut self, vcpu: &Vcpu, at: Instant) {
        let (rate, from) = (self.rate(vcpu), self.joins_at(at));
        let Some(task) = self.tasks.get_mut(vcpu.id) else { return };
        task.grows = Some((from, vcpu.clone()));
        self.order.insert(Key { deadline: from, tie: EXTRA, vcpu: vcpu.id });
        if rate <= task.exact || from <= at {
            return self.grown(vcpu.id);
        }
        self.rescale();
        self.table.postpone(vcpu.id, from);
        self.stale = true;
    }
    /// What a change adds to a rate sets in.
    fn grown(&mut self, id: VcpuId) {
        let Some((from, vcpu)) = self.tasks.get_mut(id).and_then(|task| task.grows.take()) else {
            return;
        };
        self.order.remove(Key { deadline: from, tie: EXTRA, vcpu: id });
        let (budget, exact) = (vcpu.reservation.budget, self.rate(&vcpu));
        self.change(id, |task| {
            task.backlog.set_budget(budget);
            (task.budget, task.exact) = (budget, exact);
        });
        self.rescale();
        self.stale = true;
    }
    /// Admits, and changes, the tasks that waited for it and need not any longer.
    pub(super) fn retry(&mut self, now: Instant) {
        let due = |task: &Task| task.grows.as_ref().is_some_and(|(from, _)| *from <= now);
        let keys = self.order.iter().filter(|key| key.tie == EXTRA);
        let grown: Vec<_> = keys
            .filter(|key| self.tasks.get(key.vcpu).is_some_and(due))
            .map(|key| key.vcpu)
            .collect();
        grown.into_iter().for_each(|vcpu| self.grown(vcpu));
        self.ask(now);
        let tasks = &self.tasks;
        let in_use = |id| tasks.get(id).map_or(Use::NONE, |task| task.backlog.in_use());
        for Granted { vcpu, is_change, .. } in self.table.retry(now, |_, id| in_use(id)) {
            if is_change {
                self.become_as(&vcpu, now);
            } else {
                self.enter(&vcpu, now);
            }
        }
        self.table.answer_postponed(now);
    }
}
