//! Reservations: what is admitted where, and which budget comes when.
//!
//! A VCPU's home is a core of the class on which its budget is meant, where it fits one; one that
//! means none has its home on a slow core, since fast ones are for the surplus. On a home of
//! another class its budget is what it is owed there ([`Table::by_class`]).

use super::Uneven;
use super::slots::Threads;
use super::thread::{Guarantee, Thread};
use crate::parts::table::{Family, Granted, Table, Use};
use crate::parts::test::{self, FIXED_PRIORITIES};
use alloc::format;
use maracas_core::admission::{NotAdmitted, Verdict};
use maracas_core::params::Params;
use maracas_core::{CoreId, CoreSet, Instant, System, Vcpu, VcpuId};

/// Admits the reservations of `system`; the heaviest first within those that demand a core, and
/// the others.
pub(super) fn placed(system: &System, params: &Params) -> (Table, Verdict) {
    let test = test::chosen(params, &FIXED_PRIORITIES);
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
        let mut thread = Thread::new(vcpu, place, at, self.slots.speeds.len());
        let promise = |(owed, home)| Guarantee::new(owed, home, at, self.times.chunk_min);
        thread.guarantee = admitted.zip(home).map(promise);
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
        if self.table.arrive(vcpu, at).is_some() {
            self.enter(vcpu, at);
        }
    }
    /// Admits, and changes, the VCPUs that waited for it and need not any longer; true where there
    /// was one.
    pub(super) fn retry(&mut self, now: Instant) -> bool {
        let threads = &self.threads;
        let granted = self.table.retry(now, |table, id| in_use(threads, table, id, now));
        for Granted { vcpu, core, is_change } in &granted {
            if *is_change {
                self.replaced(vcpu, now);
            } else if self.threads.contains_key(&vcpu.id) {
                self.promised(vcpu, *core, now);
            } else {
                self.enter(vcpu, now);
                continue;
            }
            self.describe(vcpu);
        }
        !granted.is_empty()
    }

    pub(super) fn leave(&mut self, id: VcpuId, at: Instant) {
        self.give_up(id, at);
        self.table.note_home(id, None);
        self.threads.remove(&id);
        self.is_stale = true;
    }
    /// The reservation of `id`, if it has one or waits for one, ends.
    fn give_up(&mut self, id: VcpuId, at: Instant) {
        self.table.leave(id, at, in_use(&self.threads, &self.table, id, at));
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.guarantee = None;
        }
    }

    pub(super) fn change(&mut self, vcpu: &Vcpu, at: Instant) {
        let Some(thread) = self.threads.get(&vcpu.id) else {
            let reason = format!("{} is not admitted, so nothing can change", vcpu.id);
            return self.table.refuse(vcpu.id, reason);
        };
        let (has_one, wants_one) = (thread.guarantee.is_some(), !vcpu.reservation.is_none());
        let changed = match (has_one, wants_one) {
            (true, true) => {
                self.table.ask(vcpu, at);
                false
            }
            (false, true) => match self.table.arrive(vcpu, at) {
                Some(home) => {
                    self.promised(vcpu, home, at);
                    true
                }
                None => false,
            },
            (_, false) => self.promise_nothing(vcpu, at),
        };
        if changed {
            self.describe(vcpu);
        }
    }
    fn describe(&mut self, vcpu: &Vcpu) {
        if let Some(thread) = self.threads.get_mut(&vcpu.id) {
            thread.describe(vcpu);
            thread.place = vcpu.pinned.unwrap_or(thread.place);
        }
        self.is_stale = true;
    }
    /// Its reservation was replaced by another, which sets in once all that ran of the old budget
    /// was told: told later, it would be an overrun of the new one.
    fn replaced(&mut self, vcpu: &Vcpu, at: Instant) {
        let Some(new) = self.table.get(vcpu.id) else { return };
        let Some(thread) = self.threads.get_mut(&vcpu.id) else { return };
        let runs = thread.runnable();
        let Some(guarantee) = &mut thread.guarantee else { return };
        guarantee.becomes = Some(new.clone());
        if !runs {
            guarantee.settle(at);
        }
    }
    /// Whether a reservation was replaced by one that has not set in.
    pub(super) fn is_changing(&self) -> bool {
        let mut guarantees = self.threads.values().filter_map(|it| it.guarantee.as_ref());
        guarantees.any(|guarantee| guarantee.becomes.is_some())
    }
    /// What runs was metered: reservations set in that replaced others.
    pub(super) fn set_in(&mut self, now: Instant) {
        let guarantees = self.threads.values_mut().filter_map(|thread| thread.guarantee.as_mut());
        guarantees.for_each(|guarantee| guarantee.settle(now));
    }
    /// It had no reservation, and has one now.
    fn promised(&mut self, vcpu: &Vcpu, home: CoreId, at: Instant) {
        if let Some(owed) = self.table.get(vcpu.id)
            && let Some(thread) = self.threads.get_mut(&vcpu.id)
        {
            thread.guarantee = Some(Guarantee::new(owed, home, at, self.times.chunk_min));
        }
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
        for core in self.slots.cores().filter(|core| !on_budget.contains(*core)) {
            // A VCPU that waited for those that left has what it waited for.
            self.table.rest(core, now);
        }
        next
    }
}

/// What of the budget of `vcpu` counts if it leaves or changes at `at`.
fn in_use(threads: &Threads, table: &Table, vcpu: VcpuId, at: Instant) -> Use {
    let Some(thread) = threads.get(&vcpu) else { return Use::NONE };
    let home = thread.guarantee.as_ref().map(|guarantee| guarantee.home);
    let at_rest = home.is_some_and(|home| table.rests(home, at));
    Use { until: thread.counts_until(at), at_rest }
}
