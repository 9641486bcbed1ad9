//! The dispatcher: what runs on each core of a hierarchy, and until when that holds.

use super::offline::Item;
use super::queue::Key;
use super::{BOTH, Class, Manner, Phase, Qps, Source, Window};
use maracas_core::{CoreId, Duration, Instant, Plan, contract::Grant};

impl Qps {
    /// Charges the time since the hierarchy was last looked at to the budgets that ran in it.
    pub(super) fn charge(&mut self, hierarchy: usize, now: Instant) {
        let own = &mut self.hierarchies[hierarchy];
        let elapsed = now.saturating_since(own.synced);
        own.synced = own.synced.max(now);
        if elapsed.is_zero() {
            return;
        }
        for place in 0..self.hierarchies[hierarchy].sets.len() {
            let set = self.hierarchies[hierarchy].sets[place];
            let Some(window) = &mut self.sets[set].window else { continue };
            let Some(budget) = window.phase.budget() else { continue };
            window.left[budget] -= elapsed.ticks() as i64;
            if window.phase.is_parallel() && window.left[BOTH] <= 0 {
                self.requeue_master(set);
            }
        }
    }

    /// Chooses for every core of the hierarchy, hosts before the sets whose masters they may run,
    /// and says when to look again.
    pub(super) fn dispatch(&mut self, hierarchy: usize, now: Instant) -> Instant {
        let mut wake = Instant::NEVER;
        for place in (0..self.hierarchies[hierarchy].sets.len()).rev() {
            let set = self.hierarchies[hierarchy].sets[place];
            let core = self.sets[set].core;
            let lent = self.sets[set].lent_core.take();
            let Some(mut window) = self.sets[set].window else {
                self.run_class(set, None, core);
                continue;
            };
            let (late, before) = (self.late_class(set, now), window.phase);
            window.choose(lent, late, self.manner);
            self.sets[set].stale |= window.phase != before;
            match window.phase {
                Phase::Waiting => self.sources[core.0 as usize] = None,
                Phase::Alone(class) => self.run_class(set, Some(class), core),
                Phase::Parallel { away, on } => {
                    self.run_class(set, Some(away), on);
                    self.run_class(set, Some(away.other()), core);
                }
            }
            wake = wake.min(window.next_event(now));
            self.sets[set].window = Some(window);
        }
        wake
    }

    /// Gives `core` to the items of one class of a set, or to all its items: to the most urgent
    /// one, where the last chosen wins ties. A master passes the core on to its own set.
    fn run_class(&mut self, set: usize, class: Option<Class>, core: CoreId) {
        let slot = class.map_or(0, Class::index);
        let mut first = self.sets[set].heads[slot];
        // Where neither queue nor classes nor phase changed, neither did the choice.
        if self.sets[set].stale {
            first = self.most_urgent(set, class, first);
            self.sets[set].heads[slot] = first;
        }
        if let Some(Key { item: Item::Master(guest), .. }) = first {
            self.sets[guest].lent_core = Some(core);
        } else {
            self.sources[core.0 as usize] = Some(Source { set, class });
        }
    }

    /// The item of a class to be chosen, where `before` was last.
    fn most_urgent(&self, set: usize, class: Option<Class>, before: Option<Key>) -> Option<Key> {
        let queue = &self.sets[set].queue;
        let first = *queue.iter().find(|key| self.belongs(key.item, class))?;
        let keeps = |before: &Key| {
            before.deadline == first.deadline
                && self.belongs(before.item, class)
                && queue.binary_search(before).is_ok()
        };
        Some(before.filter(keeps).unwrap_or(first))
    }

    /// The class of a late job: rounded budgets and late decisions make such.
    fn late_class(&self, set: usize, now: Instant) -> Option<Class> {
        let first = self.sets[set].queue.first().filter(|key| key.deadline <= now)?;
        Some(if self.belongs(first.item, Some(Class::A)) { Class::A } else { Class::B })
    }

    fn belongs(&self, item: Item, class: Option<Class>) -> bool {
        let Some(class) = class else { return true };
        match item {
            Item::Task(vcpu) => self.tasks.get(vcpu).is_some_and(|task| task.class == class),
            Item::Master(guest) => self.sets[guest].class == class,
        }
    }

    /// Writes the run queue of every core of the hierarchy that changed.
    pub(super) fn write_run_queues(&mut self, hierarchy: usize, plan: &mut Plan) {
        for place in 0..self.hierarchies[hierarchy].sets.len() {
            let core = self.sets[self.hierarchies[hierarchy].sets[place]].core;
            let source = self.sources[core.0 as usize];
            let stale = source.is_some_and(|source| self.sets[source.set].stale);
            if !stale && self.written[core.0 as usize] == source {
                continue;
            }
            self.written[core.0 as usize] = source;
            let mut run_queue = core::mem::take(&mut self.scratch);
            run_queue.clear();
            if let Some(source) = source {
                self.extend(&mut run_queue, source);
                // Nothing else has a claim to a core on which a class runs alone.
                if let Some(other) = self.idle_class(source, core) {
                    self.extend(&mut run_queue, Source { class: Some(other), ..source });
                }
            }
            if plan.run_queue(core).foreground != run_queue {
                plan.run_queue_mut(core).foreground.clone_from(&run_queue);
            }
            self.scratch = run_queue;
        }
        for place in 0..self.hierarchies[hierarchy].sets.len() {
            let set = self.hierarchies[hierarchy].sets[place];
            self.sets[set].stale = false;
        }
    }

    /// The class that may use what the chosen one leaves idle.
    fn idle_class(&self, source: Source, core: CoreId) -> Option<Class> {
        let class = source.class.filter(|_| self.manner.work_conserving)?;
        let own = &self.sets[source.set];
        let alone = own.window.as_ref()?.phase == Phase::Alone(class) && own.core == core;
        // A master that waits in the chosen class may not be passed over.
        let mut queue = own.queue.iter().filter(|key| self.belongs(key.item, Some(class)));
        let master_waits = queue.any(|key| matches!(key.item, Item::Master(_)));
        (alone && !master_waits).then(|| class.other())
    }

    /// Adds the pending tasks of a class in the order of their deadlines, the chosen one first,
    /// up to the first master: that one starts something on another core, which needs a decision.
    fn extend(&self, run_queue: &mut alloc::vec::Vec<Grant>, source: Source) {
        let own = &self.sets[source.set];
        let head = own.heads[source.class.map_or(0, Class::index)];
        let tie = own.queue.iter().filter(|key| Some(**key) == head);
        let rest = own.queue.iter().filter(|key| Some(**key) != head);
        for key in tie.chain(rest).filter(|key| self.belongs(key.item, source.class)) {
            let Item::Task(vcpu) = key.item else { return };
            let Some(task) = self.tasks.get(vcpu) else { return };
            run_queue.push(Grant::new(vcpu, task.limit()));
        }
    }
}

impl Window {
    /// Says which class runs where. In parallel the class that had the set's core last keeps it,
    /// or the master always serves class A. Alone a late class goes first, then the last one.
    fn choose(&mut self, lent: Option<CoreId>, late: Option<Class>, manner: Manner) {
        if let Some(on) = lent {
            let kept = if manner.fixed_master { Some(Class::B) } else { self.last };
            let away = kept.map_or(Class::A, Class::other);
            self.phase = Phase::Parallel { away, on };
            return;
        }
        let left = |class: Class| self.left[class.index()];
        let first = late.or(self.last).unwrap_or(Class::A);
        let class = match (left(first) > 0, left(first.other()) > 0) {
            (true, _) => Some(first),
            (false, true) => Some(first.other()),
            (false, false) => manner.whole_cores.then_some(first),
        };
        self.last = class.or(self.last);
        self.phase = class.map_or(Phase::Waiting, Phase::Alone);
    }

    /// When the running budget or the window ends.
    fn next_event(&self, now: Instant) -> Instant {
        match self.phase.budget().map(|budget| self.left[budget]) {
            Some(left @ 1..) => self.end.min(now.saturating_add(Duration::from_ticks(left as u64))),
            Some(_) | None => self.end,
        }
    }
}
