//! The dispatcher: what runs of the touched sets and where, and until when that holds.

use super::hierarchy::Hierarchy;
use super::queue::Key;
use super::{Class, Manner, News, Phase, Set, Source, Window};
use alloc::vec::Vec;
use maracas_core::{CoreId, Duration, Instant, Plan, contract::Grant};

impl Hierarchy {
    /// Chooses anew for the touched sets, hosts before the sets whose masters they may run, and
    /// writes the run queues of the cores on which that changes anything.
    pub(super) fn dispatch(&mut self, now: Instant, plan: &mut Plan) {
        while let Some(set) = self.agenda.pop() {
            self.choose(set, now, plan);
        }
        while let Some((core, news)) = self.unwritten.pop() {
            self.write_run_queue(core, news, plan);
        }
    }

    /// Says what runs of a set and where, until when that holds, and which masters among its items
    /// start and stop with that.
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
        // Where neither queue nor classes nor phase changed, neither did the choice.
        let news = core::mem::take(&mut own.news);
        let guest_of = |head: Option<Key>| head.and_then(Key::guest);
        let (before, mut led) = ([guest_of(own.heads[0]), guest_of(own.heads[1])], [None; 2]);
        for (run, leads) in runs.iter().zip(&mut led) {
            let Some((class, _)) = *run else { continue };
            let mut head = own.heads[class.index()];
            if news != News::Nothing {
                head = own.queue.most_urgent(class, head);
                own.heads[class.index()] = head;
            }
            *leads = guest_of(head);
        }
        self.agenda.wait(set, due);
        plan.set_core_wake(core, due);
        // Masters that led before and no longer do stop.
        for guest in before {
            if guest.is_some() && guest != led[0] && guest != led[1] {
                guest.into_iter().for_each(|guest| self.lend(guest, None, now));
            }
        }
        if runs[0].is_none() {
            self.serve(core, None, News::Nothing);
        }
        for place in 0..2 {
            // A master passes its core on to its own set.
            match (runs[place], led[place]) {
                (Some((_, core)), Some(guest)) => self.lend(guest, Some(core), now),
                (Some((class, core)), None) => self.serve(core, Some(Source { set, class }), news),
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

    /// Has a core run what a source has pending, of which there is news or not.
    fn serve(&mut self, core: CoreId, source: Option<Source>, mut news: News) {
        let place = self.place(core);
        let served = &mut self.sources[place];
        if *served != source {
            (*served, news) = (source, News::Other);
        }
        if news == News::Nothing {
            return;
        }
        if !core::mem::replace(&mut self.is_unwritten[place], true) {
            self.unwritten.push((core, news));
        } else if let Some((_, before)) = self.unwritten.iter_mut().find(|(it, _)| *it == core) {
            *before = News::Other;
        }
    }

    fn write_run_queue(&mut self, core: CoreId, news: News, plan: &mut Plan) {
        let place = self.place(core);
        self.is_unwritten[place] = false;
        if let News::Gone(vcpu) = news
            && plan.run_queue(core).foreground.first().is_some_and(|first| first.vcpu == vcpu)
        {
            plan.run_queue_mut(core).foreground.remove(0);
            return;
        }
        let (mut shown, mut rest): (&[Grant], &[Grant]) = (&[], &[]);
        if let Some(Source { set, class }) = self.sources[place] {
            let own = &self.sets[set];
            let [first, second] = &mut self.scratch;
            let (tasks, is_whole) = own.show(class, first);
            shown = tasks;
            // Nothing else has a claim to a core on which a class runs alone. A master that waits
            // in that class may not be passed over.
            if is_whole
                && self.manner.work_conserving
                && own.core == core
                && own.window.as_ref().is_some_and(|window| window.phase == Phase::Alone(class))
            {
                (rest, _) = own.show(class.other(), second);
            }
        }
        if plan.run_queue(core).foreground.split_at_checked(shown.len()) != Some((shown, rest)) {
            let run_queue = &mut plan.run_queue_mut(core).foreground;
            run_queue.clear();
            run_queue.extend_from_slice(shown);
            run_queue.extend_from_slice(rest);
        }
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
