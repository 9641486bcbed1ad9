//! VCPU load balancing: surplus time per VCPU is evened out across cores by moving VCPUs, one at a
//! time, on the time of migration VCPUs (MARACAS, section V and Algorithm 2).
//!
//! Every core has a migration VCPU (C_m, T_m) above its rate-monotonic order. When a VCPU blocks
//! or leaves, that of the core with the smallest SPV is activated; when one wakes, that of its own
//! core. It runs REBALANCE, and each move that this decides on is a service request of the
//! migration VCPU, in which the machine moves the VCPU and, on a partitioned cache, copies its
//! pages to frames of the destination's colours. Until then the VCPU stands on its old core, but
//! does not run there: the migration VCPU does. A check that moves no VCPU takes none of its time.
//!
//! A release of a job is a wake where its VCPU slept, and a completion is a block where nothing is
//! left to do: the event is what counts, not its cause. Being out of budget is neither.
//!
//! # Where we differ from the printed lines (code: `rebalance.rs`, `place.rs`, here)
//!
//! | # | printed | problem | here | in |
//! |---|---|---|---|---|
//! | 1 | `host`, line 12 | undefined if no core passes | none: no migration | `find_host` |
//! | 2 | SPV of an empty core | divides by zero | infinite | `Load::spv` |
//! | 3 | `host` may be the source | it is tested beside itself | never the source | `find_host` |
//! | 4 | imbalance below 0 | moves to the fuller core | return | `find_host`, `next` |
//! | 5 | lines 41 and 44 | leave SPVs as if moved | local to each turn | `next` |
//! | 6 | the loop moves many | the text says one a T_m | `moves` in each T_m of a core | `left` |
//! | 7 | order of line 29 | is not said | by decreasing U (slides) | `candidates` |
//! | 8 | RMS bound | with the migration VCPU? | yes, n + 1 | `service_vcpus` |
//! | 9 | blocked VCPUs | in SPV, in the test? | in the test only | `counted` |
//! | 10 | migration VCPUs | in SPV, in the test? | in the test only | `Load::of` |
//! | 11 | two locks | in which order? | the machine's: by core | `lock_cost` |
//! | 12 | budget at hand meanwhile | comes late | others first; not twice | `candidates` |
//! | 13 | budget saved before | a burst there | as after a block | `Server::moved` |
//! | 14 | a running VCPU | none: its core is taken | as printed | `moved` |
//! | 15 | any imbalance counts | churn | `imbalance`, 0 = printed; rows 6, 12 | `beyond` |
//! | 16 | "enough colours" | shared or summed? | `colors` | `color.rs` |
//! | 17 | colours of a set | is not said | the user's to require | `color.rs` |
//! | 18 | pending events | what does each do? | one REBALANCE each | `take` |
//! | 19 | the budget C_m | used up, T_m passes half-way | goes when it pays | `has_budget` |
//! | 20 | a move takes time | others come and go | weighed again when done | `is_worth` |
//! | 21 | a refusal by what left | the event is lost | asked again later | `in_vain` |
//!
//! Pinned VCPUs are never moved, I/O VCPUs are. The reservation of one that left a core, by moving
//! too, stands there in the test until what it used would have come back and no VCPU waits that may
//! have waited for it: so a VCPU that is moved may use its budget at once, and takes none from
//! those that it joins. What it waited with counts from the move on (row 13), so its present period
//! may be late by one, and all later ones with it. It is not moved again before it has used C, or
//! T has passed, since: no budget is late by two moves.

mod activations;
mod rebalance;

use super::color::{self, Palette, Recoloring};
use super::place::Load;
use super::vcpu::State;
use super::{Maracas, time};
use crate::parts::exact::Exact;
use crate::parts::priority;
use activations::Activations;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use maracas_core::admission::Objection;
use maracas_core::contract::{Segment, ServiceRequest, Statistic};
use maracas_core::memory::CachePart;
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{CoreId, CoreSet, Duration, Instant, Role, System, Vcpu, VcpuId};
pub(super) use rebalance::Scene;
use rebalance::{Fit, Rebalance, counted, evens_out};

pub(super) const BALANCE: ParamSpec = ParamSpec {
    name: "balance",
    kind: Kind::Choice(&["static", "vlb"]),
    help: "whether VCPUs move between cores (MARACAS, Algorithm 2): static = each stays where \
           FIND_HOST_CPU put it, vlb = slack per VCPU is evened out; on cores with page colours \
           that is the paper's cache-aware scheduling",
};

pub(super) const MOVES: ParamSpec = ParamSpec {
    name: "moves",
    kind: Kind::Whole(1, 0, 1_000_000),
    help: "VCPUs that a core's migration VCPU may move in one of its periods, which begins with \
           the first; 1 is the paper's (section V), 0 = as many as Algorithm 2 finds and \
           migration_budget pays for",
};

pub(super) const MIN_INTERVAL: ParamSpec = ParamSpec {
    name: "min_interval",
    kind: Kind::Time(""),
    help: "least time from one migration to the next in the whole system (MARACAS, section V); \
           empty = none, as in the paper's experiments",
};

pub(super) const IMBALANCE: ParamSpec = ParamSpec {
    name: "imbalance",
    kind: Kind::Fraction(0, 1),
    help: "difference of slack per VCPU up to which two cores count as even; 0 is the paper's",
};

pub(super) const LOCK_COST: ParamSpec = ParamSpec {
    name: "lock_cost",
    kind: Kind::Time("5us"),
    help: "E_lock: worst time to lock a core's queue; the paper gives none, 5us is ours: about \
           what reaching another core takes",
};

pub(super) const STRUCT_COST: ParamSpec = ParamSpec {
    name: "struct_cost",
    kind: Kind::Time("10us"),
    help: "E_struct: worst time to move a VCPU from queue to queue, with the decision; the paper \
           gives none, 10us is ours",
};

pub(super) const PAGE_COST: ParamSpec = ParamSpec {
    name: "page_cost",
    kind: Kind::Time("2us"),
    help: "E_page: worst time to copy a page to a frame of another colour; the paper gives none, \
           2us is ours: 4 KiB read and written at 4 GB/s",
};

pub(super) const PAGES_MAX: ParamSpec = ParamSpec {
    name: "pages_max",
    kind: Kind::Whole(512, 0, 1_000_000_000),
    help: "P_max: pages that the greatest program may have; 512 = 2 MiB, the greatest working set \
           in section VI",
};

pub(super) const MIGRATION_BUDGET: ParamSpec = ParamSpec {
    name: "migration_budget",
    kind: Kind::Time(""),
    help: "C_m of each core's migration VCPU, at least 2 lock_cost + struct_cost, and pages_max \
           page_cost more where cores have colours (MARACAS, section V); empty = just that",
};

pub(super) const MIGRATION_PERIOD: ParamSpec = ParamSpec {
    name: "migration_period",
    kind: Kind::Time("100ms"),
    help: "T_m of each core's migration VCPU; the paper gives none, 100ms is the period of all \
           VCPUs in its section VI.C",
};

/// Whether VCPUs move at all.
fn on(params: &Params) -> bool {
    params.choice(&BALANCE) == "vlb"
}

/// What a migration may cost: 2 E_lock + E_struct, and P_max E_page on a partitioned cache.
fn cost(system: &System, params: &Params) -> Duration {
    let time = |spec| time(system, params, spec).unwrap_or_default();
    let copies = if colored(system) { params.whole(&PAGES_MAX) } else { 0 };
    time(&LOCK_COST) * 2 + time(&STRUCT_COST) + time(&PAGE_COST) * copies
}

fn colored(system: &System) -> bool {
    color::partitioned(system)
}

/// The migration VCPUs, one pinned to each core, with ids from `first` on.
pub(super) fn service_vcpus(system: &System, params: &Params, first: VcpuId) -> Vec<Vcpu> {
    if !on(params) {
        return Vec::new();
    }
    let least = cost(system, params).max(Duration::from_ticks(1));
    let budget = time(system, params, &MIGRATION_BUDGET).unwrap_or(least);
    let period = time(system, params, &MIGRATION_PERIOD).unwrap_or_default();
    let ids = first.0..;
    let service_vcpu = |(id, core)| Vcpu {
        role: Role::Migration,
        pinned: Some(core),
        ..Vcpu::new(id, budget, period)
    };
    ids.zip(system.core_ids()).map(service_vcpu).collect()
}

fn service_vcpu_of(system: &System, core: CoreId) -> Option<&Vcpu> {
    let here = |vcpu: &&Vcpu| vcpu.role == Role::Migration && vcpu.pinned == Some(core);
    system.vcpus.iter().find(here)
}

/// What is wrong with the parameters, or missing in the system for them.
pub(super) fn objections(system: &System, params: &Params) -> Vec<Objection> {
    let mut objections = Vec::new();
    if !on(params) {
        if params.choice(&color::RECOLOR) != "off" {
            let why = "= low needs the migration VCPUs of balance = vlb";
            objections.push(Objection::to(color::RECOLOR.name, why));
        }
        return objections;
    }
    let least = cost(system, params);
    for core in system.core_ids() {
        match service_vcpu_of(system, core) {
            None => {
                let why = alloc::format!(
                    "= vlb needs a VCPU of role migration on {core}; add the \
 policy's service VCPUs to \
                     the system, or set balance = static"
                );
                objections.push(Objection::to(BALANCE.name, why));
            }
            Some(service_vcpu) if service_vcpu.reservation.budget < least => {
                let time = |spec| params.time(spec).unwrap_or_default();
                let (lock, put) = (time(&LOCK_COST), time(&STRUCT_COST));
                let copies = match (colored(system), params.whole(&PAGES_MAX)) {
                    (false, _) => String::new(),
                    (true, pages) => alloc::format!(" + {pages} x {}", time(&PAGE_COST)),
                };
                let why = alloc::format!(
                    "is {}, but a migration may cost 2 x {lock} + {put}{copies} = {least}; give it \
                     at least that, or lower pages_max, page_cost, lock_cost or struct_cost",
                    service_vcpu.reservation.budget
                );
                return alloc::vec![Objection::to(MIGRATION_BUDGET.name, why)];
            }
            Some(_) => {}
        }
    }
    objections
}

const fn recoloring((vcpu, core, colors): Recoloring) -> (CoreId, ServiceRequest) {
    (core, ServiceRequest::Move { vcpu, to: core, colors: Some(colors) })
}

/// The VCPU that is to be activated, and what came of it.
#[derive(Debug)]
pub(super) struct Balance {
    activations: Activations,
    min_interval: Duration,
    imbalance: Exact,
    active: Option<Rebalance>,
    palette: Palette,
    /// By core, what its runnable VCPUs ask for, and where that must be summed up again.
    loads: Vec<Load>,
    outdated: CoreSet,
    /// Whether anything happened since colours were last looked at. Not after a failure: nothing
    /// is tried again before the next event.
    unsettled: bool,
    /// No migration begins before.
    rest_until: Instant,
    moved: u64,
    recolored: u64,
    refused: u64,
    late_periods: u64,
}

impl Balance {
    /// `None` where no VCPU moves. The parameters met no objection.
    pub(super) fn chosen(system: &System, params: &Params) -> Option<Self> {
        if !on(params) {
            return None;
        }
        let service_vcpus = system.core_ids().map(|core| Some(service_vcpu_of(system, core)?.id));
        let moves = match params.whole(&MOVES) {
            0 => u64::MAX,
            moves => moves,
        };
        let service_vcpus: Vec<VcpuId> = service_vcpus.collect::<Option<_>>()?;
        Some(Self {
            activations: Activations::new(&service_vcpus, moves, cost(system, params)),
            min_interval: time(system, params, &MIN_INTERVAL).unwrap_or_default(),
            imbalance: Exact::from(params.fraction(&IMBALANCE)),
            active: None,
            palette: Palette::chosen(system, params),
            loads: alloc::vec![Load::of([]); system.cores.len()],
            outdated: CoreSet::EMPTY,
            unsettled: true,
            rest_until: Instant::ZERO,
            moved: 0,
            recolored: 0,
            refused: 0,
            late_periods: 0,
        })
    }

    /// Something was learnt of a VCPU that was runnable, or not: did it wake or block?
    pub(super) fn learn(&mut self, state: &State, was_runnable: bool) {
        if priority::serves_requests(state.role) || state.runnable() == was_runnable {
            return;
        }
        if state.runnable() {
            self.activations.woke(state.core);
        } else {
            self.activations.blocked();
        }
        self.unsettle(state.core);
    }
    /// A VCPU ran.
    pub(super) fn ran(&mut self, segment: &Segment) {
        self.palette.ran(segment);
    }
    /// A VCPU left.
    pub(super) fn left(&mut self, state: &State) {
        self.palette.forget(state.id);
        if !priority::serves_requests(state.role) {
            self.activations.blocked();
            self.unsettle(state.core);
        }
    }
    /// The VCPUs of `core` are others, or ask for something else.
    const fn unsettle(&mut self, core: CoreId) {
        self.outdated.insert(core);
        self.unsettled = true;
    }

    /// The VCPU that must give back colours, and on which core.
    fn give_back(&mut self, scene: &Scene<'_>) -> Option<(CoreId, ServiceRequest)> {
        self.unsettled.then(|| self.palette.give_back(scene)).flatten().map(recoloring)
    }
    /// The VCPU that may borrow colours. While no VCPU may, it is asked again: what uses the memory
    /// shows as time goes on.
    fn lend(&mut self, scene: &Scene<'_>) -> Option<(CoreId, ServiceRequest)> {
        let unsettled = core::mem::take(&mut self.unsettled) && self.palette.lends();
        let borrower = unsettled.then(|| self.palette.lend(scene)).flatten();
        self.unsettled = borrower.is_some() || unsettled && self.palette.lender(scene).is_some();
        borrower.map(recoloring).filter(|(core, _)| self.activations.has_budget(scene, *core))
    }

    /// The next move that the activations, one after the other, decide on, and from where.
    fn next(&mut self, scene: &Scene<'_>) -> Option<(CoreId, ServiceRequest)> {
        loop {
            if let Some(active) = &mut self.active {
                if !self.activations.has_budget(scene, active.src) {
                    return None;
                }
                if let Some(vcpu) = active.next(scene) {
                    let (src, to) = (active.src, active.dst);
                    let colors = scene.table.core(to).colors;
                    return Some((src, ServiceRequest::Move { vcpu, to, colors }));
                }
                if !active.found {
                    self.activations.in_vain(scene, active.src);
                }
                self.active = None;
            }
            scene.later.set(Instant::NEVER);
            let (src, moves) = self.activations.take(scene)?;
            self.active = Rebalance::begin(scene, src, moves);
            if self.active.is_none() {
                self.activations.in_vain(scene, src);
            }
        }
    }

    pub(super) fn statistics(&self) -> Vec<Statistic> {
        let statistics = [
            ("moves", self.moved),
            ("recolourings", self.recolored),
            ("refused moves", self.refused),
            ("late periods", self.late_periods),
            ("pending events at most", self.activations.most()),
        ];
        statistics.map(|(name, value)| Statistic { name, core: None, vcpu: None, value }).into()
    }
}

impl Maracas {
    /// Sends a migration VCPU on its service request where a move is worth it; when to ask again.
    pub(super) fn rebalance(&mut self, now: Instant) -> Instant {
        let Some(balance) = &mut self.balance else { return Instant::NEVER };
        if !self.service_requests.free() {
            balance.activations.wait();
            return Instant::NEVER;
        }
        balance.activations.begin(now);
        let mut loads = core::mem::take(&mut balance.loads);
        for core in core::mem::take(&mut balance.outdated).iter() {
            loads[core.0 as usize] = Load::of(counted(&self.table, &self.cores.states, core));
        }
        let scene = Scene {
            table: &self.table,
            states: &self.cores.states,
            loads: &loads,
            imbalance: balance.imbalance,
            now,
            later: Cell::new(Instant::NEVER),
        };
        let rests = now < balance.rest_until;
        let order = match balance.give_back(&scene) {
            Some(order) => balance.activations.has_budget(&scene, order.0).then_some(order),
            None if rests => None,
            None => balance.next(&scene).or_else(|| balance.lend(&scene)),
        };
        balance.loads = loads;
        balance.activations.wait();
        if let Some((src, service_request)) = order {
            self.service_requests.send(balance.activations.service_vcpu(src), service_request);
            return Instant::NEVER;
        }
        let pending = balance.activations.pending() > 0;
        let waits = pending || balance.active.is_some() || balance.unsettled;
        let rested = if rests && waits { balance.rest_until } else { Instant::NEVER };
        rested.min(balance.activations.next())
    }

    /// A VCPU came to `core`, or asks for something else there.
    pub(super) const fn unsettle(&mut self, core: CoreId) {
        if let Some(balance) = &mut self.balance {
            balance.unsettle(core);
        }
    }

    /// The machine did not move the VCPU that it should: nothing changed, and nothing is tried
    /// again before the next event.
    pub(super) fn not_moved(&mut self) {
        if let Some(balance) = &mut self.balance {
            balance.refused += 1;
            balance.active = None;
            balance.unsettled = false;
        }
    }

    /// The machine moved a VCPU at `at`: from now on it stands on the core `to`, unless others came
    /// there meanwhile beside which it no longer fits.
    pub(super) fn moved(
        &mut self,
        vcpu: VcpuId,
        to: CoreId,
        colors: Option<CachePart>,
        at: Instant,
    ) {
        let Some(balance) = &mut self.balance else { return };
        balance.rest_until = at + balance.min_interval;
        self.table.holds_mut().expire(at);
        let Some(from) = self.cores.states.get(vcpu).map(|state| state.core) else { return };
        if let Some(colors) = colors {
            balance.palette.gave(vcpu, self.table.core(from).colors, colors);
            balance.unsettled = true;
        }
        if from == to {
            balance.recolored += 1;
            return;
        }
        let Some(gone) = self.table.get(vcpu).cloned().filter(|v| self.is_worth(v, from, to))
        else {
            // What was recoloured for the other core must be recoloured back.
            self.not_moved();
            return self.unsettle(from);
        };
        if !self.table.migrate(vcpu, to) {
            return self.not_moved();
        }
        self.settle(gone, from, to, at);
    }

    /// Whether a move that was decided on is still good when it is done: others may have come,
    /// gone, woken or blocked since.
    fn is_worth(&self, vcpu: &Vcpu, from: CoreId, to: CoreId) -> bool {
        let load = |core| Load::of(counted(&self.table, &self.cores.states, core));
        let imbalance = self.balance.as_ref().map_or(Exact::ZERO, |balance| balance.imbalance);
        self.cores.states.get(vcpu.id).is_some_and(|state| state.runnable())
            && evens_out(imbalance, load(from), load(to), vcpu)
            && rebalance::test(&self.table, to, vcpu) == Fit::Yes
    }

    /// Puts a VCPU that was on `from` onto the run queue of `to`.
    fn settle(&mut self, vcpu: Vcpu, from: CoreId, to: CoreId, at: Instant) {
        let id = vcpu.id;
        let least = |core: CoreId| {
            let here = self.cores.local(core).background.vcpus();
            let states = here.filter_map(|vcpu| self.cores.states.get(vcpu));
            states.filter(|state| !state.newcomer).map(|state| state.bgt).min()
        };
        let (left_behind, met) = (least(from), least(to));
        let service_vcpu =
            self.balance.as_ref().map(|balance| balance.activations.service_vcpu(from));
        let service_vcpu = service_vcpu.and_then(|id| self.cores.states.get(id));
        let period = service_vcpu.map(|state| state.server.period()).unwrap_or_default();
        let (Some(state), Some(balance)) = (self.cores.states.get_mut(id), &mut self.balance)
        else {
            return;
        };
        balance.moved += 1;
        balance.palette.forget(id);
        balance.unsettle(from);
        balance.unsettle(to);
        balance.activations.moved(from, at, period);
        if state.waits_with_budget(at) {
            balance.late_periods += 1;
            let used = state.foreground + vcpu.reservation.budget;
            state.delayed = Some(Box::new((used, at + state.server.period())));
        }
        // algorithms.md G.2, row 13: it is as far behind the others there as it was here.
        if let (Some(left_behind), Some(met), false) = (left_behind, met, state.newcomer) {
            state.bgt = (state.bgt + met).saturating_sub(left_behind);
        }
        let counts_until = state.counts_until(at);
        state.server.moved(at);
        self.cores.migrate(id, from, to);
        // Here again, it counts by itself.
        self.table.holds_mut().forget(to, id);
        self.table.holds_mut().joined(to, vcpu.reservation.period);
        self.table.hold(from, vcpu, at, counts_until);
    }
}

#[cfg(test)]
mod tests;
