//! MARACAS: VCPUs with guaranteed budgets in rate-monotonic order on each core, and surplus time
//! shared by rule.
//!
//! # Paper
//! Y. Ye, R. West, J. Zhang, Z. Cheng. "MARACAS: A Real-Time Multicore VCPU Scheduling
//! Framework." RTSS 2016, <https://hdl.handle.net/2144/27916>. Sections II.A, III and V.A
//! (placement).
//! # Model
//! VCPUs (C, T) whose threads run, block and wake as they like, with jobs or without. A VCPU never
//! leaves its core. I/O VCPUs are PIBS servers at the period of the VCPU that they serve.
//! # How it works
//! Each VCPU is a sporadic server. A core's foreground list holds all its VCPUs in RM order, each
//! with the mark `foreground meter + budget usable now`; a spent VCPU is thus skipped until its
//! next chunk raises the mark. The background list holds all of them again, in the order of the
//! rule (`background.rs`). New VCPUs go to the core that FIND_HOST_CPU names (`place.rs`).
//! # Invariants
//! Chunks of a server sum to C. A newcomer's first budget, and what a change adds to one, waits
//! until leavers that it does not fit beside would have had theirs back. Only foreground service is
//! charged; background time never changes a budget. Replenishment instants come from chunk times,
//! never from a late `now`. A chosen background VCPU is not overtaken before its core was in the
//! foreground again.
//! # Where we differ from the paper
//! The sporadic server is the corrected one. Admission offers two further tests. VCPUs that demand
//! a core are placed before the others. A VCPU that arrives starts with the least BGT of its core:
//! from zero it would take all surplus time for long. Deadlines before the period's end give
//! deadline-monotonic order. Under `admission = "rta"` I/O VCPUs keep their declared period. In
//! the bound by Liu and Layland n counts I/O VCPUs too. A PIBS server never holds more than UT of
//! its present period, nor less than a tick when it is replenished. A rotation of background time
//! within an interval is offered.

mod background;
mod place;
mod vcpu;

use crate::parts::jobs::ByVcpu;
use crate::parts::priority::{self, ADMISSION};
use crate::parts::table::{Family, Table, Test};
use alloc::boxed::Box;
use alloc::vec::Vec;
use background::{BACKGROUND, Rule};
use maracas_core::admission::Verdict;
use maracas_core::contract::{Claims, End, Entry, Grant, Mark, Mode, Needs, Stint, no_carriers};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{
    CoreId, CoreSet, Duration, Event, Instant, Plan, Policy, System, Vcpu, VcpuId,
};
use vcpu::{Local, State};

const SLICE: ParamSpec = ParamSpec {
    name: "background_slice",
    kind: Kind::Time(""),
    help: "surplus time after which another VCPU is chosen by the rule, such as \"2ms\"; empty = \
           the paper's: the chosen one is kept until the core returns to the foreground",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "maracas",
    paper: "Ye, West, Zhang and Cheng, MARACAS: A Real-Time Multicore VCPU Scheduling Framework, \
            RTSS 2016",
    summary: "guaranteed budgets in rate-monotonic order on each core, surplus time by rule",
    params: &[ADMISSION, BACKGROUND, SLICE],
    needs: Needs { jobs: false, visible_wakes: false, counters: false },
    claims: Claims { partitioned: true, work_conserving: true, no_miss_when_admitted: true },
    carriers: no_carriers,
    admit,
    build,
};

fn admit(system: &System, params: &Params) -> Verdict {
    placed(system, params).1
}

fn build(system: &System, params: &Params) -> Result<Box<dyn Policy>, Verdict> {
    let (table, verdict) = placed(system, params);
    if !verdict.accepted() {
        return Err(verdict);
    }
    let mut policy = Maracas {
        rule: Rule::chosen(params),
        slice: params.time(&SLICE),
        inherits: priority::chosen(params, &ADMISSION) != Test::Rta,
        table,
        states: ByVcpu::default(),
        leavers: Vec::new(),
        locals: alloc::vec![Local::default(); system.cores.len()],
        stale: system.core_ids().collect(),
        grants: Vec::new(),
    };
    for core in system.core_ids() {
        for vcpu in policy.table.on(core) {
            policy.states.insert(vcpu.id, State::new(vcpu, core, Instant::ZERO));
            policy.locals[core.0 as usize].add(vcpu.id);
        }
    }
    Ok(Box::new(policy))
}

fn placed(system: &System, params: &Params) -> (Table, Verdict) {
    let test = priority::chosen(params, &ADMISSION);
    let mut table = Table::new(system, Family::FixedPriority, test, place::find_host);
    let mut verdict = table.fill(system, false);
    if params.time(&SLICE).is_some_and(Duration::is_zero) {
        let objection = "background_slice is 0; leave it empty or give a time above 0";
        verdict.objections.push(objection.into());
    }
    (table, verdict)
}

struct Maracas {
    rule: Rule,
    slice: Option<Duration>,
    /// Whether I/O VCPUs inherit periods. Response times are exact for fixed priorities only: at an
    /// inherited period an I/O VCPU would delay VCPUs whose test did not count it.
    inherits: bool,
    table: Table,
    states: ByVcpu<State>,
    /// Who left, and until when: as long as what it used would not have come back, its reservation
    /// stands beside those of newcomers. Else coming and going would bring budgets at will. So with
    /// the old reservation of who changed to a smaller one.
    leavers: Vec<(Instant, CoreId, Vcpu)>,
    locals: Vec<Local>,
    /// Cores of which something was learnt since the last decision.
    stale: CoreSet,
    /// Room for a line being made.
    grants: Vec<Grant>,
}

impl Policy for Maracas {
    fn on_event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Ran(stint) => self.ran(stint),
            Event::Released(job) => self.with(job.id.vcpu, |state| state.release(job)),
            Event::Completed(id) => self.with(id.vcpu, |state| state.complete(*id)),
            Event::Woke { vcpu, on_behalf, exact: _ } => {
                // An inexact wake comes with the later instant of the switch: budgets then come
                // back later, never earlier.
                let served = on_behalf
                    .filter(|_| self.inherits)
                    .and_then(|id| Some(self.states.get(id)?.server.period()));
                self.with(*vcpu, |state| state.wake(at, served));
            }
            Event::Arrived(vcpu) => self.arrive(vcpu, at),
            Event::Changed(vcpu) => self.change(vcpu, at),
            Event::Left(vcpu) => self.leave(*vcpu, at),
            Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::ErrandDone(_)
            | Event::Failed { .. } => {}
        }
    }

    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        self.table.reply(plan);
        let mut wake = Instant::NEVER;
        for core in (0..self.locals.len() as u16).map(CoreId) {
            if self.stale.contains(core) || self.locals[core.0 as usize].next <= now {
                self.refresh(core, now, plan);
            }
            wake = wake.min(self.locals[core.0 as usize].next);
        }
        self.stale = CoreSet::EMPTY;
        plan.wake = wake;
    }
}

impl Maracas {
    fn with(&mut self, vcpu: VcpuId, act: impl FnOnce(&mut State)) {
        if let Some(state) = self.states.get_mut(vcpu) {
            act(state);
            self.stale.insert(state.core);
        }
    }

    fn ran(&mut self, stint: &Stint) {
        let Some(state) = self.states.get_mut(stint.vcpu) else { return };
        let interval = &mut self.locals[state.core.0 as usize].interval;
        let service = stint.usage.service;
        state.requests += stint.usage.reads + stint.usage.writes;
        let blocked = match stint.end {
            End::Blocked | End::Exited => true,
            End::Preempted | End::MarkReached | End::MemorySpent | End::Moved | End::Metered => {
                false
            }
        };
        if !state.runnable {
            // Its wake was not told: it came when the stint began, at the latest.
            state.wake(stint.from, None);
        }
        match stint.mode {
            Mode::Foreground => {
                state.foreground += service;
                state.server.charge(service, blocked);
                interval.end(stint.vcpu);
            }
            Mode::Background => {
                state.background += service;
                state.bgt += service;
                // Surplus time costs nothing, but the server must learn of the block.
                state.server.charge(Duration::ZERO, blocked);
                match stint.end {
                    End::MarkReached | End::MemorySpent => interval.drop(stint.vcpu),
                    End::Preempted => interval.interrupt(stint.vcpu),
                    End::Blocked | End::Exited | End::Moved | End::Metered => {}
                }
            }
        }
        if !blocked {
            state.runnable = true;
        } else if state.block(stint.to) {
            interval.drop(stint.vcpu);
        }
        self.stale.insert(state.core);
    }

    fn arrive(&mut self, vcpu: &Vcpu, at: Instant) {
        let Some(core) = self.table.arrive(vcpu) else { return };
        let start = self.free(core, at);
        self.locals[core.0 as usize].add(vcpu.id);
        self.states.insert(vcpu.id, State { newcomer: true, ..State::new(vcpu, core, start) });
        self.stale.insert(core);
    }

    /// From when on those on `core` may use all their budgets: at once where they fit beside its
    /// leavers too.
    fn free(&mut self, core: CoreId, at: Instant) -> Instant {
        self.leavers.retain(|(until, ..)| *until > at);
        let here = self.leavers.iter().filter(|(_, host, _)| *host == core);
        let beside: Vec<Vcpu> = here.clone().map(|(.., gone)| gone.clone()).collect();
        let free = here.map(|(until, ..)| *until).max().unwrap_or(at);
        if self.table.fits_all(core, &beside) { at } else { free }
    }

    fn leave(&mut self, id: VcpuId, at: Instant) {
        let gone = self.table.get(id).cloned();
        self.table.leave(id);
        let (Some(state), Some(vcpu)) = (self.states.remove(id), gone) else { return };
        self.locals[state.core.0 as usize].remove(id);
        self.stale.insert(state.core);
        self.leavers.retain(|(until, ..)| *until > at);
        self.leavers.push((state.counts_until(at), state.core, vcpu));
    }

    fn change(&mut self, vcpu: &Vcpu, at: Instant) {
        let Some(state) = self.states.get(vcpu.id).filter(|state| state.role == vcpu.role) else {
            let reason = "is not admitted in this role; let a new VCPU arrive instead";
            return self.table.refuse(vcpu.id, alloc::format!("{} {reason}", vcpu.id));
        };
        let (core, until) = (state.core, state.counts_until(at));
        let old = self.table.get(vcpu.id).cloned();
        if !self.table.change(vcpu) {
            return;
        }
        let free = self.free(core, at);
        self.with(vcpu.id, |state| {
            state.server.change(vcpu, at, free);
            state.deadline = vcpu.reservation.deadline;
        });
        // What it gives up is free for others when what it used of it would have come back.
        let gives_up = |old: &Vcpu| {
            let (old, new) = (&old.reservation, &vcpu.reservation);
            old.budget > new.budget || old.period != new.period
        };
        self.leavers.extend(old.filter(gives_up).map(|old| (until, core, old)));
    }

    /// Makes the line of `core` as it shall be from `now` on.
    fn refresh(&mut self, core: CoreId, now: Instant, plan: &mut Plan) {
        let local = &mut self.locals[core.0 as usize];
        local.next = Instant::NEVER;
        for id in &local.foreground {
            let Some(state) = self.states.get_mut(*id) else { continue };
            state.server.update(now);
            // A sleeper with budget left needs no look at its next chunk before it wakes.
            if state.runnable || state.server.usable(now).is_zero() {
                local.next = local.next.min(state.server.next(now).unwrap_or(Instant::NEVER));
            }
        }
        let states = &self.states;
        local.foreground.sort_unstable_by_key(|id| states.get(*id).map(State::urgency));
        self.grants.clear();
        self.grants.extend(local.foreground.iter().filter_map(|id| {
            let state = states.get(*id)?;
            let until = Mark(state.foreground + state.server.usable(now));
            Some(Grant::new(*id, until))
        }));
        if plan.line(core).foreground != self.grants {
            plan.line_mut(core).foreground.clone_from(&self.grants);
        }
        self.refresh_background(core, now, plan);
    }

    /// Gives newcomers the least BGT of their core, between two intervals: then all background
    /// time so far has been reported.
    fn seed_newcomers(&mut self, core: CoreId) {
        let local = &self.locals[core.0 as usize];
        if local.interval.chosen().is_some() {
            return;
        }
        let states = local.background.iter().filter_map(|id| self.states.get(*id));
        let least = states.filter(|state| !state.newcomer).map(|state| state.bgt).min();
        for id in &local.background {
            if let Some(state) = self.states.get_mut(*id).filter(|state| state.newcomer) {
                state.newcomer = false;
                state.bgt += least.unwrap_or_default();
            }
        }
    }

    fn refresh_background(&mut self, core: CoreId, now: Instant, plan: &mut Plan) {
        if self.rule == Rule::Off {
            return;
        }
        self.seed_newcomers(core);
        let local = &mut self.locals[core.0 as usize];
        let new = local.interval.arrange(self.rule, &mut local.background, &self.states, now);
        let chosen = local.interval.chosen();
        if let Some(state) = chosen.filter(|_| new).and_then(|id| self.states.get_mut(id)) {
            state.slice_end = match self.slice {
                Some(slice) => Mark(state.background + slice),
                None => Mark::NEVER,
            };
        }
        self.grants.clear();
        self.grants.extend(local.background.iter().filter_map(|id| {
            let state = self.states.get(*id)?;
            let until = if chosen == Some(*id) { state.slice_end } else { Mark::NEVER };
            Some(Grant::new(*id, until))
        }));
        if plan.line(core).background != self.grants {
            plan.line_mut(core).background.clone_from(&self.grants);
        }
    }
}

#[cfg(test)]
mod tests;
