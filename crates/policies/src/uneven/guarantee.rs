//! Reservations: what is admitted where, and whose budget comes when.
//!
//! A VCPU's home is a core of the class on which its budget is meant, where it fits one; one that
//! means none has its home on a slow core, since fast ones are for the surplus. On a home of
//! another class its budget is what it is owed there ([`Table::by_class`]).

use super::Uneven;
use super::thread::{Guarantee, Thread};
use crate::parts::priority::{self, ADMISSION};
use crate::parts::sporadic::Sporadic;
use crate::parts::table::{Family, Table};
use alloc::format;
use maracas_core::admission::{NotAdmitted, Verdict};
use maracas_core::params::Params;
use maracas_core::{CoreId, CoreSet, Instant, System, Vcpu, VcpuId};

/// Admits the reservations of `system`; the heaviest first within those that demand a core, and
/// the others.
pub(super) fn placed(system: &System, params: &Params) -> (Table, Verdict) {
    let test = priority::chosen(params, &ADMISSION);
    let table = Table::new(system, Family::FixedPriority, test, find_home);
    let mut table = table.by_class(system);
    let is_reserved = |vcpu: &&Vcpu| !vcpu.reservation.is_none();
    let vcpus = system.vcpus.iter().filter(is_reserved).cloned().collect();
    let mut verdict = table.fill(&System { vcpus, ..system.clone() }, true);
    let others = system.vcpus.iter().filter(|vcpu| vcpu.reservation.is_none());
    for vcpu in others {
        if let Some(reason) = table.no_such_core(vcpu) {
            verdict.refused.push((vcpu.id, NotAdmitted { reason, closest: None }));
        }
    }
    (table, verdict)
}

/// The emptiest core on which `vcpu` fits, of the class that it prefers if there is one.
fn find_home(table: &Table, vcpu: &Vcpu) -> Option<CoreId> {
    let class = |core: CoreId| table.core(core).class;
    let slowest = table.cores().map(class).max();
    let fitting = table.cores().filter(|core| table.fits(*core, vcpu));
    fitting
        .min_by_key(|core| (Some(class(*core)) != vcpu.class.or(slowest), table.load(*core), *core))
}

impl Uneven {
    /// `vcpu`, which was admitted, begins.
    pub(super) fn enter(&mut self, vcpu: &Vcpu, at: Instant) {
        let admitted = self.table.get(vcpu.id);
        let home = self.table.home_of(vcpu.id);
        let place = home.unwrap_or_else(|| self.first_place(vcpu));
        let mut thread = Thread::new(vcpu, place, at);
        thread.guarantee = admitted.zip(home).map(|(owed, home)| Guarantee::new(owed, home, at));
        self.threads.insert(vcpu.id, thread);
        if home.is_none() {
            self.table.note_home(vcpu.id, Some(place));
        }
        self.is_stale = true;
    }
    /// Where a VCPU without a home waits at first: they are spread.
    fn first_place(&self, vcpu: &Vcpu) -> CoreId {
        let cores = self.drafts.len() as u32;
        vcpu.pinned.unwrap_or(CoreId((vcpu.id.0 % cores) as u16))
    }

    pub(super) fn arrive(&mut self, vcpu: &Vcpu, at: Instant) {
        if self.threads.contains_key(&vcpu.id) {
            let reason = format!("{} is admitted already; use a new id", vcpu.id);
            return self.table.refuse(vcpu.id, reason);
        }
        if vcpu.reservation.is_none() {
            match self.table.no_such_core(vcpu) {
                Some(reason) => return self.table.refuse(vcpu.id, reason),
                None => self.table.welcome(vcpu.id, self.first_place(vcpu)),
            }
            return self.enter(vcpu, at);
        }
        let Some(home) = self.table.arrive(vcpu) else { return };
        let start = self.leavers.free(&self.table, home, at);
        self.enter(vcpu, start);
        self.begin(vcpu.id, start);
    }
    fn begin(&mut self, id: VcpuId, start: Instant) {
        let guarantee = self.threads.get_mut(&id).and_then(|thread| thread.guarantee.as_mut());
        if let Some(guarantee) = guarantee {
            guarantee.begins = Some(start);
        }
    }

    pub(super) fn leave(&mut self, id: VcpuId, at: Instant) {
        self.give_up(id, at);
        self.table.note_home(id, None);
        self.threads.remove(&id);
        self.is_stale = true;
    }
    /// The reservation of `id`, if it has one, ends.
    fn give_up(&mut self, id: VcpuId, at: Instant) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        let back = thread.counts_until(at);
        thread.guarantee = None;
        let old = self.table.get(id).cloned();
        if let Some((old, home)) = old.zip(self.table.leave(id)) {
            self.leavers.remember(&self.table, old, home, back, at);
        }
    }

    pub(super) fn change(&mut self, vcpu: &Vcpu, at: Instant) {
        let Some(thread) = self.threads.get(&vcpu.id) else {
            let reason = format!("{} is not admitted, so nothing can change", vcpu.id);
            return self.table.refuse(vcpu.id, reason);
        };
        let (has_one, wants_one) = (thread.guarantee.is_some(), !vcpu.reservation.is_none());
        let changed = match (has_one, wants_one) {
            (true, true) => self.replace(vcpu, at),
            (false, true) => self.promise(vcpu, at),
            (_, false) => self.promise_nothing(vcpu, at),
        };
        if !changed {
            return;
        }
        if let Some(thread) = self.threads.get_mut(&vcpu.id) {
            thread.describe(vcpu);
            thread.place = vcpu.pinned.unwrap_or(thread.place);
        }
        self.is_stale = true;
    }
    /// Replaces a reservation by another; false where that is refused.
    fn replace(&mut self, vcpu: &Vcpu, at: Instant) -> bool {
        let back = self.threads.get(&vcpu.id).map_or(at, |thread| thread.counts_until(at));
        let old = self.table.get(vcpu.id).cloned();
        let home = self.table.home_of(vcpu.id);
        if !self.table.change(vcpu) {
            return false;
        }
        let Some((old, home)) = old.zip(home) else { return false };
        let free = self.leavers.free(&self.table, home, at);
        let Some(new) = self.table.get(vcpu.id) else { return false };
        // What it gives up is free for others when what it used of it would have come back.
        let (before, after) = (old.reservation, new.reservation);
        let gives_up = before.budget > after.budget || before.period != after.period;
        let thread = self.threads.get_mut(&vcpu.id);
        if let Some(guarantee) = thread.and_then(|thread| thread.guarantee.as_mut()) {
            guarantee.change(new, at, free);
        }
        if gives_up {
            self.leavers.remember(&self.table, old, home, back, at);
        }
        true
    }
    /// Gives a reservation to a VCPU that had none; false where that is refused.
    fn promise(&mut self, vcpu: &Vcpu, at: Instant) -> bool {
        let Some(home) = self.table.arrive(vcpu) else { return false };
        let start = self.leavers.free(&self.table, home, at);
        if let Some(owed) = self.table.get(vcpu.id)
            && let Some(thread) = self.threads.get_mut(&vcpu.id)
        {
            thread.guarantee = Some(Guarantee::new(owed, home, start));
        }
        self.begin(vcpu.id, start);
        true
    }
    /// Leaves a VCPU without a reservation; false where that is refused.
    fn promise_nothing(&mut self, vcpu: &Vcpu, at: Instant) -> bool {
        if let Some(reason) = self.table.no_such_core(vcpu) {
            self.table.refuse(vcpu.id, reason);
            return false;
        }
        self.give_up(vcpu.id, at);
        let place = self.threads.get(&vcpu.id).map(|thread| thread.place);
        let place = vcpu.pinned.or(place).unwrap_or_default();
        self.table.welcome(vcpu.id, place);
        true
    }

    /// Looks at all budgets, and sends home whatever belongs there; when to look again.
    pub(super) fn replenish(&mut self, now: Instant) -> Instant {
        let mut next = Instant::NEVER;
        let mut on_budget = CoreSet::EMPTY;
        for thread in self.threads.values_mut() {
            next = next.min(thread.refresh(now));
            if let Some(home) = thread.guarantee.as_ref().map(|guarantee| guarantee.home) {
                if thread.in_budget && thread.runnable() {
                    on_budget.insert(home);
                }
                if thread.in_budget || !thread.runnable() {
                    thread.place = home;
                }
            }
        }
        let mut begun = false;
        for core in self.seats.cores().filter(|core| !on_budget.contains(*core)) {
            begun |= self.rests(core, now);
        }
        if begun { self.replenish(now) } else { next }
    }
    /// No thread on `core` is on a budget: whatever waited for those that left has what it waited
    /// for, so newcomers need not. True where that changes when one begins.
    fn rests(&mut self, core: CoreId, now: Instant) -> bool {
        self.leavers.rest(core);
        let waits = |guarantee: &Guarantee| {
            guarantee.home == core && guarantee.begins.is_some_and(|begins| begins > now)
        };
        let mut guarantees = self.threads.values().filter_map(|thread| thread.guarantee.as_ref());
        if !guarantees.any(waits) {
            return false;
        }
        let free = self.leavers.free(&self.table, core, now);
        let mut changed = false;
        for vcpu in self.table.on(core) {
            let thread = self.threads.get_mut(&vcpu.id);
            let guarantee = thread.and_then(|thread| thread.guarantee.as_mut());
            let Some(guarantee) = guarantee.filter(|guarantee| waits(guarantee)) else { continue };
            if guarantee.begins.is_some_and(|begins| free < begins) {
                let r = &vcpu.reservation;
                guarantee.server = Sporadic::new(r.budget, r.period, free);
                guarantee.begins = Some(free);
                changed = true;
            }
        }
        changed
    }
}
