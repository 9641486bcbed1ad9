//! The dispatcher: what runs of the touched sets and where, and until when that holds.

use super::hierarchy::Hierarchy;
use super::queue::Key;
use super::{Class, Manner, News, Phase, Set, Window};
use alloc::vec::Vec;
use maracas_core::{CoreId, Duration, Instant, Plan, contract::Grant};

impl Hierarchy {
    /// Chooses anew for the touched sets, hosts before the sets whose masters they may run, and
    /// writes their run queues.
    ///
    /// No core is written twice: it is that of a set, or was passed on to the set of a master, from
    /// host to guest, and only the last of these shows what is pending there.
    pub(super) fn dispatch(&mut self, now: Instant, plan: &mut Plan) {
        while let Some(set) = self.agenda.pop() {
            self.choose(set, now, plan);
        }
    }

    /// Says what runs of a set and where, until when that holds, and which masters among its items
    /// start and stop with that; writes that on the run queues there, or that nothing does.
    fn choose(&mut self, set: usize, now: Instant, plan: &mut Plan) {
        let own = &mut self.sets[set];
        let core = own.core;
        let (mut due, mut runs) = (Instant::NEVER, [Some((Class::A, core)), None]);
        if let Some(window) = &mut own.window {
            let last = window.phase;
            window.choose(own.lent_core, own.queue.late_class(now), self.manner);
            own.news.add_if(window.phase != last);
            due = window.next_event(now);
            runs = match window.phase {
                Phase::Waiting => [None; 2],
                Phase::Alone(class) => [Some((class, core)), None],
                Phase::Parallel { away, on } => [Some((away, on)), Some((away.other(), core))],
            };
        }
        self.agenda.wait(set, due);
        plan.set_core_wake(core, due);
        // Where neither queue nor classes nor phase changed, neither did the choice.
        let news = core::mem::take(&mut own.news);
        if news == News::Nothing {
            return;
        }
        let guest_of = |head: Option<Key>| head.and_then(Key::guest);
        let (before, mut led) = ([guest_of(own.heads[0]), guest_of(own.heads[1])], [None; 2]);
        for (run, leads) in runs.iter().zip(&mut led) {
            let Some((class, _)) = *run else { continue };
            let head = own.queue.most_urgent(class, own.heads[class.index()]);
            own.heads[class.index()] = head;
            *leads = guest_of(head);
        }
        if before[0].is_some() | before[1].is_some() | led[0].is_some() | led[1].is_some() {
            self.pass_on(before, led, runs, now);
        }
        for place in 0..2 {
            match runs[place] {
                Some((class, core)) if led[place].is_none() => {
                    self.write_run_queue(set, class, core, news, plan);
                }
                None if place == 0 => plan.set_foreground(core, &[], &[]),
                _ => {}
            }
        }
    }

    /// Stops the masters that led `before` and no longer do, and has those that lead pass the cores
    /// where they run on to their own sets.
    fn pass_on(
        &mut self,
        before: [Option<usize>; 2],
        led: [Option<usize>; 2],
        runs: [Option<(Class, CoreId)>; 2],
        now: Instant,
    ) {
        for guest in before {
            if guest.is_some() && guest != led[0] && guest != led[1] {
                guest.into_iter().for_each(|guest| self.lend(guest, None, now));
            }
        }
        for (run, guest) in runs.into_iter().zip(led) {
            if let (Some((_, core)), Some(guest)) = (run, guest) {
                self.lend(guest, Some(core), now);
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

    /// Has a core run what is pending of a class of a set, of which there is news.
    #[inline]
    fn write_run_queue(
        &mut self,
        set: usize,
        class: Class,
        core: CoreId,
        news: News,
        plan: &mut Plan,
    ) {
        if let News::Gone(vcpu) = news
            && plan.run_queue(core).foreground.first().is_some_and(|first| first.vcpu == vcpu)
        {
            plan.run_queue_mut(core).foreground.remove(0);
            return;
        }
        let own = &self.sets[set];
        let [first, second] = &mut self.scratch;
        let (shown, is_whole) = own.show(class, first);
        // Nothing else has a claim to a core on which a class runs alone. A master that waits in
        // that class may not be passed over.
        let is_alone = |window: &Window| matches!(window.phase, Phase::Alone(_));
        let mut rest: &[Grant] = &[];
        if is_whole && self.manner.work_conserving && own.window.as_ref().is_some_and(is_alone) {
            (rest, _) = own.show(class.other(), second);
        }
        plan.set_foreground(core, shown, rest);
    }
}

impl Set {
    /// What is pending of a class, up to the first master, and whether there is none.
    #[inline]
    fn show<'a>(&'a self, class: Class, scratch: &'a mut Vec<Grant>) -> (&'a [Grant], bool) {
        self.queue.show(class, self.heads[class.index()], scratch)
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
    pub(super) fn next_event(&self, now: Instant) -> Instant {
        match self.phase.budget().map(|budget| self.left[budget]) {
            Some(left @ 1..) => self.end.min(now.saturating_add(Duration::from_ticks(left as u64))),
            Some(_) | None => self.end,
        }
    }
}
