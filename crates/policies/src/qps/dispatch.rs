//! The dispatcher: what runs of the touched sets and where, and until when that holds.

use super::offline::Item;
use super::queue::Key;
use super::{Class, Manner, Phase, Qps, Set, Source, Window};
use maracas_core::{CoreId, Duration, Instant, Plan, contract::Grant};

impl Qps {
    /// Chooses anew for the touched sets, hosts before the sets whose masters they may run, and
    /// writes the run queues of the cores on which that changes anything.
    pub(super) fn dispatch(&mut self, now: Instant, plan: &mut Plan) {
        while let Some(set) = self.agenda.pop() {
            self.choose(set, now);
        }
        while let Some(core) = self.unwritten.pop_first() {
            self.write_run_queue(core, plan);
        }
    }

    /// Says what runs of a set and where, until when that holds, and which masters among its items
    /// start and stop with that.
    fn choose(&mut self, set: usize, now: Instant) {
        let late = self.late_class(set, now);
        let own = &mut self.sets[set];
        let (core, lent, before) = (own.core, own.lent_core, own.heads);
        let mut due = Instant::NEVER;
        let runs = match &mut own.window {
            None => [Some((None, core)), None],
            Some(window) => {
                let phase = window.phase;
                window.choose(lent, late, self.manner);
                own.stale |= window.phase != phase;
                due = window.next_event(now);
                match window.phase {
                    Phase::Waiting => [None; 2],
                    Phase::Alone(class) => [Some((Some(class), core)), None],
                    Phase::Parallel { away, on } => {
                        [Some((Some(away), on)), Some((Some(away.other()), core))]
                    }
                }
            }
        };
        self.agenda.wait(set, due);
        // Where neither queue nor classes nor phase changed, neither did the choice.
        if self.sets[set].stale {
            for (class, _) in runs.iter().flatten() {
                let slot = class.map_or(0, Class::index);
                self.sets[set].heads[slot] = self.most_urgent(set, *class, before[slot]);
            }
        }
        self.start_and_stop(set, before, runs, now);
        self.sets[set].stale = false;
    }

    /// Gives each core to the first item of the class that runs there: a master passes it on to its
    /// own set. The masters that led before and no longer do stop.
    fn start_and_stop(
        &mut self,
        set: usize,
        before: [Option<Key>; 2],
        runs: [Option<(Option<Class>, CoreId)>; 2],
        now: Instant,
    ) {
        let Set { heads, core, .. } = self.sets[set];
        let master = |head: Option<Key>| match head?.item {
            Item::Master(guest) => Some(guest),
            Item::Task(_) => None,
        };
        let led = runs.map(|run| master(heads[run?.0.map_or(0, Class::index)]));
        for guest in before.into_iter().filter_map(master) {
            if !led.contains(&Some(guest)) {
                self.lend(guest, None, now);
            }
        }
        if runs == [None; 2] {
            self.serve(core, None);
        }
        for (run, guest) in runs.into_iter().zip(led) {
            match (run, guest) {
                (Some((_, core)), Some(guest)) => self.lend(guest, Some(core), now),
                (Some((class, core)), None) => self.serve(core, Some(Source { set, class })),
                (None, _) => {}
            }
        }
    }

    /// Starts the master of `guest` on a core, or stops it.
    fn lend(&mut self, guest: usize, core: Option<CoreId>, now: Instant) {
        if self.sets[guest].lent_core != core {
            self.charge(guest, now);
            self.sets[guest].lent_core = core;
            self.agenda.touch(guest);
        }
    }

    /// Has a core run what a source has pending.
    fn serve(&mut self, core: CoreId, source: Option<Source>) {
        let served = &mut self.sources[core.0 as usize];
        if *served != source || source.is_some_and(|source| self.sets[source.set].stale) {
            *served = source;
            self.unwritten.insert(core);
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

    fn write_run_queue(&mut self, core: CoreId, plan: &mut Plan) {
        let mut run_queue = core::mem::take(&mut self.scratch);
        run_queue.clear();
        if let Some(source) = self.sources[core.0 as usize] {
            self.extend(&mut run_queue, source);
            // Nothing else has a claim to a core on which a class runs alone.
            if let Some(other) = self.idle_class(source, core) {
                self.extend(&mut run_queue, Source { class: Some(other), ..source });
            }
        }
        if plan.run_queue(core).foreground != run_queue {
            core::mem::swap(&mut plan.run_queue_mut(core).foreground, &mut run_queue);
        }
        self.scratch = run_queue;
    }

    /// The class that may use what the chosen one leaves idle.
    fn idle_class(&self, source: Source, core: CoreId) -> Option<Class> {
        let class = source.class.filter(|_| self.manner.work_conserving)?;
        let own = &self.sets[source.set];
        let alone = own.window.as_ref()?.phase == Phase::Alone(class) && own.core == core;
        // A master that waits in the chosen class may not be passed over.
        let is_waiting =
            |key: &Key| matches!(key.item, Item::Master(_)) && self.belongs(key.item, Some(class));
        (alone && !own.queue.iter().any(is_waiting)).then(|| class.other())
    }

    /// Adds the pending tasks of a class in the order of their deadlines, the chosen one first,
    /// up to the first master: that one starts something on another core, which needs a decision.
    fn extend(&self, run_queue: &mut alloc::vec::Vec<Grant>, source: Source) {
        let own = &self.sets[source.set];
        let head = own.heads[source.class.map_or(0, Class::index)];
        let place = head.and_then(|head| own.queue.binary_search(&head).ok());
        let (before, from) = own.queue.split_at(place.unwrap_or(0));
        let (head, behind) = from.split_at(usize::from(place.is_some()));
        for key in head.iter().chain(before).chain(behind) {
            match key.item {
                Item::Task(vcpu) => {
                    if let Some(task) = self.tasks.get(vcpu)
                        && source.class.is_none_or(|class| class == task.class)
                    {
                        run_queue.push(Grant::new(vcpu, task.limit()));
                    }
                }
                Item::Master(_) if self.belongs(key.item, source.class) => return,
                Item::Master(_) => {}
            }
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
