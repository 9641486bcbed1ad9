//! Makes run queues: from what was learnt of a core's VCPUs to its foreground and background list.
//!
//! A run queue is made anew where VCPUs came, went or changed their order. Else only those are
//! looked at of which something was learnt or whose next chunk of budget became usable, and the
//! lists are changed in place.

use super::Ahead;
use super::background::{self, Moved, Rule};
use super::cores::Cores;
use super::vcpu::State;
use crate::parts::ahead;
use alloc::vec::Vec;
use core::mem;
use maracas_core::contract::{Grant, Limit, Plan};
use maracas_core::{CoreId, Instant};

/// Room for what one call of [`Cores::look`] and of [`Cores::write`] works on.
#[derive(Default)]
pub(super) struct Room {
    /// Grants that may differ from those on the foreground list, and where.
    grants: Vec<(usize, Grant)>,
    /// VCPUs whose place on the background list may be another.
    moved: Moved,
}

impl Cores {
    /// Looks at those VCPUs on `core` that may be otherwise at `now`; whether none is on a budget.
    pub(super) fn look(&mut self, core: CoreId, now: Instant) -> bool {
        if self.local(core).reordered || !self.look_at_changed(core, now) {
            self.look_at_all(core, now);
        }
        self.local(core).on_budget == 0
    }

    /// Makes the run queue of `core`, which was looked at, as it is to be from `now` on.
    pub(super) fn write(&mut self, core: CoreId, now: Instant, plan: &mut Plan) {
        let has_surplus = self.settings.rule != Rule::Off;
        if self.local(core).in_background() && has_surplus {
            self.background.insert(core);
        } else {
            self.background.remove(core);
        }
        self.write_foreground(core, plan);
        if has_surplus {
            self.refresh_background(core, now, plan);
        }
        let next = self.local_mut(core).awake.first();
        self.set_next(core, next);
        plan.set_core_wake(core, next);
    }

    /// Looks at those VCPUs on `core` of which something was learnt or is due; false where one
    /// stands at another place in the order now.
    fn look_at_changed(&mut self, core: CoreId, now: Instant) -> bool {
        let ahead = self.ahead(core);
        let (local, states, room) = self.split(core);
        local.touch_due(states, now);
        room.grants.clear();
        room.moved.begin(false);
        for place in 0..local.touched.len() {
            let id = local.touched[place];
            let Some(state) = states.get_mut(id) else { continue };
            let grant = local.look(state, now, ahead);
            if state.misplaced {
                return false;
            }
            if mem::replace(&mut state.granted, grant.until) != grant.until {
                room.grants.push((state.place as usize, grant));
            }
            room.moved.push(id);
        }
        local.touched.clear();
        true
    }

    /// Looks at all VCPUs on `core`, and puts them in order.
    fn look_at_all(&mut self, core: CoreId, now: Instant) {
        let ahead = self.ahead(core);
        let (local, states, room) = self.split(core);
        for id in &local.foreground {
            if let Some(state) = states.get_mut(*id) {
                state.server.update(now);
                state.misplaced = false;
            }
        }
        local.foreground.sort_unstable_by_key(|id| states.get(*id).map(State::urgency));
        local.begin_anew();
        local.is_silent = matches!(ahead, Ahead::Silent { .. });
        room.grants.clear();
        room.moved.begin(true);
        for place in 0..local.foreground.len() {
            let Some(state) = states.get_mut(local.foreground[place]) else { continue };
            state.put(place);
            let grant = local.look(state, now, ahead);
            state.granted = grant.until;
            room.grants.push((place, grant));
        }
    }

    /// What is granted ahead on `core`. While a VCPU waits for its answer, each end is told: it may
    /// wait for a core to have used all budgets.
    pub(super) fn ahead(&self, core: CoreId) -> Ahead {
        if self.settings.ahead == Ahead::Nothing {
            return Ahead::Nothing;
        }
        let local = self.local(core);
        let depth = ahead::depth(local.foreground.len());
        match self.settings.ahead {
            _ if depth == 0 => Ahead::Nothing,
            Ahead::Silent { chunk_min, .. } => {
                let has_surplus = self.settings.rule != Rule::Off && local.background.len() > 1;
                let shares = self.settings.slice.is_some() || !has_surplus;
                let is_silent = depth > 1 && shares && self.is_settled;
                if is_silent {
                    Ahead::Silent { depth, chunk_min }
                } else {
                    Ahead::Begun { chunk_min }
                }
            }
            other @ (Ahead::Nothing | Ahead::Watched | Ahead::Unwatched | Ahead::Begun { .. }) => {
                other
            }
        }
    }

    /// Writes the grants that changed, and the list's length.
    fn write_foreground(&self, core: CoreId, plan: &mut Plan) {
        if self.ahead(core) != Ahead::Nothing {
            let granted = || self.local(core).granted();
            if !plan.run_queue(core).foreground.iter().copied().eq(granted()) {
                let run_queue = &mut plan.run_queue_mut(core).foreground;
                run_queue.clear();
                run_queue.extend(granted());
            }
            return;
        }
        let length = self.local(core).foreground.len();
        if plan.run_queue(core).foreground.len() != length {
            let run_queue = &mut plan.run_queue_mut(core).foreground;
            run_queue.clear();
            run_queue.extend(self.room.grants.iter().map(|(_, grant)| grant));
            return;
        }
        for (place, grant) in &self.room.grants {
            if plan.run_queue(core).foreground[*place] != *grant {
                plan.run_queue_mut(core).foreground[*place] = *grant;
            }
        }
    }

    /// Gives newcomers the least BGT of their core, between two intervals: then all background
    /// time so far has been reported. (Row 13 of the table in `throttle.rs`.)
    fn seed_newcomers(&mut self, core: CoreId) {
        let (local, states, room) = self.split(core);
        if !local.newcomers || local.interval.chosen().is_some() {
            return;
        }
        local.newcomers = false;
        room.moved.begin(true);
        let known = local.background.vcpus().filter_map(|vcpu| states.get(vcpu));
        let least = known.filter(|state| !state.newcomer).map(|state| state.bgt).min();
        for vcpu in local.background.vcpus() {
            if let Some(state) = states.get_mut(vcpu).filter(|state| state.newcomer) {
                state.newcomer = false;
                state.bgt += least.unwrap_or_default();
            }
        }
    }

    fn refresh_background(&mut self, core: CoreId, now: Instant, plan: &mut Plan) {
        self.seed_newcomers(core);
        let (ahead, settings) = (self.ahead(core), self.settings);
        let (local, states, room) = self.split(core);
        let order = &mut local.background;
        let moved = &mut room.moved;
        let new = local.interval.arrange(settings.rule, order, moved, states, now);
        let chosen = local.interval.chosen();
        let turns = if let Ahead::Silent { .. } = ahead { settings.slice } else { None };
        if new && let (Some(slice), Some(chosen)) = (settings.slice, chosen) {
            let meter = states.get(chosen).map(|state| state.background);
            local.interval.ends_at(meter.map(|meter| Limit(meter + slice)));
        }
        let interval = &mut local.interval;
        if let (Some(slice), Some(_)) = (turns, chosen) {
            interval.is_written = false;
            let turns = background::turns(order, interval, slice, states);
            let last = order.vcpus().map(|vcpu| Grant::new(vcpu, Limit::NEVER));
            let grants: Vec<_> = turns.into_iter().chain(last).collect();
            if !plan.run_queue(core).background.iter().eq(&grants) {
                let background = &mut plan.run_queue_mut(core).background;
                background.clear();
                background.extend(grants);
            }
            return;
        }
        let background = &plan.run_queue(core).background;
        if moved.all || background.len() != order.len() {
            interval.is_written = true;
            let grants = order.vcpus().map(|vcpu| interval.grant(vcpu));
            if !background.iter().copied().eq(grants.clone()) {
                let background = &mut plan.run_queue_mut(core).background;
                background.clear();
                background.extend(grants);
            }
            return;
        }
        // Only the chosen one, which is first, has a limit.
        let loses = |first: &Grant| chosen != Some(first.vcpu) && first.until != Limit::NEVER;
        let is_written = mem::replace(&mut interval.is_written, true);
        if !is_written && background.first().is_some_and(loses) {
            plan.run_queue_mut(core).background[0].until = Limit::NEVER;
        }
        for edit in &moved.edits {
            edit.apply(&mut plan.run_queue_mut(core).background);
        }
        if let Some(chosen) = chosen.filter(|_| !is_written)
            && plan.run_queue(core).background[0] != interval.grant(chosen)
        {
            plan.run_queue_mut(core).background[0] = interval.grant(chosen);
        }
    }
}
