//! How tasks come, change and go under U-EDF, and what their rates are in whole parts.

use super::{OWN, Placeholder, Task, UEdf};
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
        let tasks = || self.order.iter().filter(|key| key.tie == OWN);
        let own = tasks().filter_map(|key| self.tasks.get(key.vcpu)).map(|task| task.exact);
        let held = self.placeholders.iter().flat_map(|one| [one.from, one.to]);
        let common = own.chain(held).map(Rate::den).try_fold(1_u64, |one, den| {
            (one / gcd(one, den)).checked_mul(den).filter(|one| *one <= FINEST)
        });
        self.whole = common.unwrap_or(FINEST);
        let whole = u128::from(self.whole);
        let parts = |rate: Rate| (u128::from(rate.num()) * whole / u128::from(rate.den())) as u64;
        for key in self.order.iter().filter(|key| key.tie == OWN) {
            if let Some(task) = self.tasks.get_mut(key.vcpu) {
                task.rate = parts(task.exact);
            }
        }
        for one in &mut self.placeholders {
            one.rate = parts(one.to).saturating_sub(parts(one.from));
        }
        self.stale = true;
    }

    /// Keeps a place in the order until `deadline` for what lies between two rates.
    fn keep_place(&mut self, vcpu: VcpuId, deadline: Instant, from: Rate, to: Rate) {
        let last = self.placeholders.iter().map(|one| one.key.tie).max().unwrap_or(OWN);
        let key = Key { deadline, tie: last + 1, vcpu };
        self.order.insert(key);
        self.placeholders.push(Placeholder { key, from, to, rate: 0 });
    }
    pub(super) fn leave(&mut self, vcpu: VcpuId, at: Instant) {
        self.settle(at);
        self.table.leave(vcpu, at, self.tasks.get(vcpu).map_or(Use::NONE, Task::in_use));
        let Some(task) = self.tasks.remove(vcpu) else { return };
        self.order.remove(task.key);
        self.asked.retain(|asked| asked.id != vcpu);
        if task.key.deadline > at {
            self.keep_place(vcpu, task.key.deadline, Rate::ZERO, task.exact);
        }
        if let Some(core) = task.core {
            self.running[core.0 as usize] = None;
        }
        self.chosen.iter_mut().for_each(|chosen| _ = chosen.take_if(|one| *one == vcpu));
        self.idlers.iter_mut().for_each(|idlers| idlers.retain(|grant| grant.vcpu != vcpu));
        self.rescale();
    }

    /// The latest deadline in the order: a task that comes at `at` begins then.
    fn joins_at(&self, at: Instant) -> Instant {
        self.order.last().map_or(at, |key| key.deadline.max(at))
    }
    pub(super) fn arrive(&mut self, vcpu: &Vcpu, at: Instant) {
        self.settle(at);
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
    }
    /// Asks for the tasks that want to change, one request of each after the other.
    fn ask(&mut self, now: Instant) {
        for vcpu in core::mem::take(&mut self.asked) {
            if self.tasks.get(vcpu.id).is_some_and(Task::is_changing) {
                self.asked.push(vcpu);
            } else if let Some(reason) = self.too_heavy(&vcpu) {
                self.table.refuse(vcpu.id, reason);
            } else {
                self.table.ask(&fluid::dense(&vcpu), now);
            }
        }
    }
    /// When one may ask that had to wait for what it asked before to set in.
    pub(super) fn next_to_ask(&self) -> Instant {
        let tasks = self.asked.iter().filter_map(|vcpu| self.tasks.get(vcpu.id));
        let shrinking = tasks.filter(|task| task.shrinks.is_some());
        shrinking.map(|task| task.key.deadline).min().unwrap_or(Instant::NEVER)
    }
    /// It may change. A smaller rate is answered now and sets in when its deadline is over; a
    /// greater one waits as a newcomer does.
    fn become_as(&mut self, vcpu: &Vcpu, at: Instant) {
        let (rate, from) = (self.rate(vcpu), self.joins_at(at));
        let Some(task) = self.tasks.get_mut(vcpu.id) else { return };
        if rate <= task.exact {
            task.backlog.set_budget(vcpu.reservation.budget);
            task.shrinks = Some(rate);
            return self.shrink(vcpu.id, at);
        }
        let had = task.exact;
        task.grows = Some((from, vcpu.clone()));
        if from <= at {
            return self.grow(vcpu.id);
        }
        self.keep_place(vcpu.id, from, had, rate);
        self.rescale();
        self.table.postpone(vcpu.id, from);
    }
    /// A smaller rate sets in, where no job of `vcpu` has its deadline after `at`.
    pub(super) fn shrink(&mut self, vcpu: VcpuId, at: Instant) {
        let Some(task) = self.tasks.get_mut(vcpu) else { return };
        let is_due = |rate: &mut Rate| task.key.deadline <= at || *rate == task.exact;
        let Some(rate) = task.shrinks.take_if(is_due) else { return };
        task.exact = rate;
        self.rescale();
    }
    /// What a change adds to a rate sets in.
    fn grow(&mut self, vcpu: VcpuId) {
        let Some(task) = self.tasks.get_mut(vcpu) else { return };
        let Some((_, new)) = task.grows.take() else { return };
        let exact = self.rate(&new);
        self.change(vcpu, |task| {
            task.backlog.set_budget(new.reservation.budget);
            task.exact = exact;
        });
        self.rescale();
    }
    /// Gives up the places that are kept no longer than `at`, and what rates shrink by. What is
    /// about to be added to a rate stays: its task gets it with the answer.
    fn settle(&mut self, at: Instant) {
        let tasks = self.order.iter().filter(|key| key.tie == OWN && key.deadline <= at);
        let over: Vec<_> = tasks.map(|key| key.vcpu).collect();
        over.into_iter().for_each(|vcpu| self.shrink(vcpu, at));
        let is_over = |one: &mut Placeholder| {
            let task = self.tasks.get(one.key.vcpu).filter(|_| one.from != Rate::ZERO);
            one.key.deadline <= at && task.is_none_or(|task| task.grows.is_none())
        };
        for one in self.placeholders.extract_if(.., is_over) {
            self.order.remove(one.key);
        }
    }
    /// Admits, and changes, the tasks that waited for it and need not any longer.
    pub(super) fn retry(&mut self, now: Instant) {
        let due = |task: &Task| task.grows.as_ref().is_some_and(|(from, _)| *from <= now);
        let held = self.placeholders.iter().map(|one| one.key.vcpu);
        let grown: Vec<_> = held.filter(|vcpu| self.tasks.get(*vcpu).is_some_and(due)).collect();
        grown.into_iter().for_each(|vcpu| self.grow(vcpu));
        self.settle(now);
        // Answers of one task keep the order of its requests: a refusal below is a later one's.
        self.table.answer_postponed(now);
        self.ask(now);
        let tasks = &self.tasks;
        let in_use = |id| tasks.get(id).map_or(Use::NONE, Task::in_use);
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
