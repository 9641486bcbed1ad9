//! Makes run queues: from what was learnt of a core's VCPUs to its foreground and background list.
//!
//! A run queue is made anew where VCPUs came, went or changed their order. Else only those are
//! looked at of which something was learnt or whose next chunk of budget became usable, and the
//! lists are changed in place.

use super::background::{self, Moved, Rule};
use super::{Ahead, Maracas};
use crate::parts::ahead;
use alloc::vec::Vec;
use maracas_core::contract::{Grant, Limit, Plan};
use maracas_core::{CoreId, Instant};

/// Room for what one call of [`Maracas::refresh`] works on.
#[derive(Default)]
pub(super) struct Room {
    /// Grants to be written, and where on the foreground list.
    grants: Vec<(usize, Grant)>,
    /// VCPUs whose place on the background list may be another.
    moved: Moved,
}

impl Maracas {
    /// Makes the run queue of `core` as it is to be from `now` on; when it must be looked at again.
    pub(super) fn refresh(&mut self, core: CoreId, now: Instant, plan: &mut Plan) -> Instant {
        let index = core.0 as usize;
        if self.locals[index].reordered || !self.look_at_changed(core, now) {
            self.look_at_all(core, now);
        }
        if self.locals[index].on_budget == 0 {
            // What waited for those that left has what it waited for.
            self.table.rest(core, now);
        }
        if self.locals[index].in_background() && self.settings.rule != Rule::Off {
            self.background.insert(core);
        } else {
            self.background.remove(core);
        }
        self.write_foreground(core, plan);
        if self.settings.rule != Rule::Off {
            self.refresh_background(core, now, plan);
        }
        self.locals[index].awake.first()
    }

    /// Looks at those VCPUs on `core` of which something was learnt or is due; false where one
    /// stands at another place in the order now.
    fn look_at_changed(&mut self, core: CoreId, now: Instant) -> bool {
        let ahead = self.ahead(core);
        let local = &mut self.locals[core.0 as usize];
        local.touch_due(&mut self.states, now);
        self.room.grants.clear();
        self.room.moved.begin(false);
        for place in 0..local.touched.len() {
            let id = local.touched[place];
            let Some(state) = self.states.get_mut(id) else { continue };
            let grant = local.look(state, now, ahead);
            if state.urgency().0 != state.rank {
                return false;
            }
            self.room.grants.push((state.place as usize, grant));
            self.room.moved.push(id);
        }
        local.touched.clear();
        true
    }

    /// Looks at all VCPUs on `core`, and puts them in order.
    fn look_at_all(&mut self, core: CoreId, now: Instant) {
        let ahead = self.ahead(core);
        let (local, states) = (&mut self.locals[core.0 as usize], &mut self.states);
        for id in &local.foreground {
            if let Some(state) = states.get_mut(*id) {
                state.settle(now);
                state.server.update(now);
                state.rank = state.urgency().0;
            }
        }
        local.foreground.sort_unstable_by_key(|id| (states.get(*id).map(|state| state.rank), *id));
        local.begin_anew();
        local.is_silent = matches!(ahead, Ahead::Silent { .. });
        self.room.grants.clear();
        self.room.moved.begin(true);
        for place in 0..local.foreground.len() {
            let Some(state) = states.get_mut(local.foreground[place]) else { continue };
            (state.place, state.seen) = (place as u32, <_>::default());
            let grant = local.look(state, now, ahead);
            self.room.grants.push((place, grant));
        }
    }

    /// What is granted ahead on `core`. While a VCPU waits for its answer, each end is told: it may
    /// wait for a core to have used all budgets.
    pub(super) fn ahead(&self, core: CoreId) -> Ahead {
        let local = &self.locals[core.0 as usize];
        let depth = ahead::depth(local.foreground.len());
        match self.settings.ahead {
            _ if depth == 0 => Ahead::Nothing,
            Ahead::Silent { chunk_min, .. } => {
                let shares = self.settings.slice.is_some() || local.background.len() < 2;
                let is_silent = depth > 1 && shares && self.table.is_settled();
                if is_silent { Ahead::Silent { depth, chunk_min } } else { Ahead::Unwatched }
            }
            other @ (Ahead::Nothing | Ahead::Watched | Ahead::Unwatched) => other,
        }
    }

    /// Writes the grants that changed, and the list's length.
    fn write_foreground(&self, core: CoreId, plan: &mut Plan) {
        if self.ahead(core) != Ahead::Nothing {
            let granted = || self.locals[core.0 as usize].granted();
            if !plan.run_queue(core).foreground.iter().copied().eq(granted()) {
                let run_queue = &mut plan.run_queue_mut(core).foreground;
                run_queue.clear();
                run_queue.extend(granted());
            }
            return;
        }
        let length = self.locals[core.0 as usize].foreground.len();
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
        let local = &mut self.locals[core.0 as usize];
        if !local.newcomers || local.interval.chosen().is_some() {
            return;
        }
        local.newcomers = false;
        self.room.moved.begin(true);
        let states = local.background.vcpus().filter_map(|vcpu| self.states.get(vcpu));
        let least = states.filter(|state| !state.newcomer).map(|state| state.bgt).min();
        for vcpu in local.background.vcpus() {
            if let Some(state) = self.states.get_mut(vcpu).filter(|state| state.newcomer) {
                state.newcomer = false;
                state.bgt += least.unwrap_or_default();
            }
        }
    }

    fn refresh_background(&mut self, core: CoreId, now: Instant, plan: &mut Plan) {
        self.seed_newcomers(core);
        let ahead = self.ahead(core);
        let local = &mut self.locals[core.0 as usize];
        let order = &mut local.background;
        let moved = &mut self.room.moved;
        let new = local.interval.arrange(self.settings.rule, order, moved, &mut self.states, now);
        let chosen = local.interval.chosen();
        let turns = if let Ahead::Silent { .. } = ahead { self.settings.slice } else { None };
        if let Some(state) = chosen.filter(|_| new).and_then(|id| self.states.get_mut(id)) {
            state.slice_end = match self.settings.slice {
                Some(slice) => Limit(state.background + slice),
                None => Limit::NEVER,
            };
        }
        let until = chosen.and_then(|id| self.states.get(id)).map_or(Limit::NEVER, |s| s.slice_end);
        let grant = |id| Grant::new(id, if chosen == Some(id) { until } else { Limit::NEVER });
        if let (Some(slice), Some(chosen)) = (turns, chosen) {
            let turns = background::turns(order, chosen, slice, &self.states);
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
            let grants = order.vcpus().map(grant);
            if !background.iter().copied().eq(grants.clone()) {
                let background = &mut plan.run_queue_mut(core).background;
                background.clear();
                background.extend(grants);
            }
            return;
        }
        // Only the chosen one, which is first, has a limit.
        let loses = |first: &Grant| chosen != Some(first.vcpu) && first.until != Limit::NEVER;
        if background.first().is_some_and(loses) {
            plan.run_queue_mut(core).background[0].until = Limit::NEVER;
        }
        for edit in &moved.edits {
            edit.apply(&mut plan.run_queue_mut(core).background);
        }
        if let Some(chosen) = chosen
            && plan.run_queue(core).background[0] != grant(chosen)
        {
            plan.run_queue_mut(core).background[0] = grant(chosen);
        }
    }
}
