//! MARACAS: VCPUs with guaranteed budgets in rate-monotonic order on each core, and surplus time
//! shared by rule.
//!
//! # Paper
//! Y. Ye, R. West, J. Zhang, Z. Cheng. "MARACAS: A Real-Time Multicore VCPU Scheduling
//! Framework." RTSS 2016, <https://hdl.handle.net/2144/27916>. Sections II.A, III, IV and V.
//! # Model
//! VCPUs (C, T) whose threads run, block and wake as they like, with jobs or without. A VCPU leaves
//! its core only by a migration VCPU's service request (`balance = "vlb"`). I/O VCPUs are PIBS
//! servers at the period of the VCPU that they serve.
//! # How it works
//! Each VCPU is a sporadic server. A core's foreground list holds all its VCPUs in RM order, each
//! with the limit `foreground meter + budget usable now`; a spent VCPU is thus skipped until its
//! next chunk raises the limit. The background list holds all of them again: the runnable in the
//! order of the rule, then those that sleep (`background.rs`). With `ahead` the next chunk stands
//! there too, behind the VCPU's entry, as a grant ahead of its instant: as limits only rise from
//! chunk to chunk, what is used meanwhile does not matter. New VCPUs go to the core that
//! FIND_HOST_CPU names (`place.rs`). While the memory bus is contended, some cores lose their
//! background (`throttle.rs`). VCPUs move so that slack per VCPU is even (`balance.rs`), to cores
//! with the colours that they require (`color.rs`).
//! # Invariants
//! Chunks of a server sum to C. A newcomer, or a change, waits for its answer until those VCPUs
//! that left and beside which it does not fit would have had their budgets back, and no VCPU waits
//! that may have waited for them (`parts/holds.rs`). Only foreground service is charged;
//! background time never changes a budget. Replenishment instants come from chunk
//! times, never from a late `now`. A chosen background VCPU is not overtaken
//! before its core was in the foreground again. Foreground is never throttled. Each migration may
//! make one period of a VCPU late, and none makes late what another did: however often a VCPU
//! moves, 3T hold a whole budget.
//! # Where we differ from the paper
//! The sporadic server is the corrected one. Admission offers two further tests. VCPUs that demand
//! a core are placed before the others. A VCPU that arrives starts with the least BGT of its core:
//! from zero it would take all surplus time for long. Deadlines before the period's end give
//! deadline-monotonic order. Under `admission = "rta"` I/O VCPUs keep their declared period. In
//! the bound by Liu and Layland n counts I/O VCPUs too. A PIBS server never holds more than UT of
//! its present period, nor less than a tick when it is replenished. A rotation of background time
//! within an interval is offered.

mod background;
mod balance;
mod color;
mod cores;
mod own;
mod place;
mod run_queue;
mod service_requests;
mod throttle;
mod vcpu;

use crate::parts::ahead::{self, AHEAD};
use crate::parts::sporadic::CHUNK_MIN;
use crate::parts::table::{Family, Granted, Table, Test, Use};
use crate::parts::test::{self, FIXED_PRIORITIES};
use alloc::boxed::Box;
use alloc::vec::Vec;
use background::{BACKGROUND, Rule};
use balance::Balance;
use cores::Cores;
use maracas_core::admission::{Objection, Verdict};
use maracas_core::contract::{Apart, Claims, Entry, Needs, ServiceRequest, Statistic};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{
    CoreId, CoreSet, Duration, Event, Instant, Plan, Policy, Role, System, Vcpu, VcpuId,
};
use service_requests::ServiceRequests;
use throttle::Monitor;
use vcpu::{State, States};

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
    params: &[
        FIXED_PRIORITIES,
        BACKGROUND,
        SLICE,
        CHUNK_MIN,
        throttle::THROTTLE,
        throttle::MAX_LATENCY,
        throttle::MAX_REQUESTS,
        throttle::MEM_PERIOD,
        throttle::IDLE_MEM,
        throttle::MIN_REQUESTS,
        throttle::HOLD,
        throttle::MONITOR_BUDGET,
        throttle::PUBLISHED,
        balance::BALANCE,
        balance::MOVES,
        balance::MIN_INTERVAL,
        balance::IMBALANCE,
        balance::LOCK_COST,
        balance::STRUCT_COST,
        balance::PAGE_COST,
        balance::PAGES_MAX,
        balance::MIGRATION_BUDGET,
        balance::MIGRATION_PERIOD,
        color::COLORS,
        color::RECOLOR,
        color::COLOR_LINES,
        AHEAD,
    ],
    needs: Needs::BUDGETS,
    claims: Claims { partitioned: true, work_conserving: true, no_miss_when_admitted: true },
    service_vcpus,
    admit,
    fits: None,
    build,
};

fn service_vcpus(system: &System, params: &Params, first: VcpuId) -> Vec<Vcpu> {
    let mut service_vcpus: Vec<Vcpu> =
        throttle::service_vcpu(system, params, first).into_iter().collect();
    let next = VcpuId(first.0 + service_vcpus.len() as u32);
    service_vcpus.extend(balance::service_vcpus(system, params, next));
    service_vcpus
}

fn admit(system: &System, params: &Params) -> Verdict {
    placed(system, params).1
}

fn build(system: &System, params: &Params) -> Result<Box<dyn Policy>, Verdict> {
    let (table, verdict) = placed(system, params);
    if !verdict.accepted() {
        return Err(verdict);
    }
    let monitor = Monitor::chosen(system, params);
    let settings = Settings::chosen(system, params, monitor.is_some());
    let mut policy = Maracas {
        table,
        cores: Cores::new(settings, CoreId(0), system.cores.len()),
        io_vcpus: 0,
        changing: Vec::new(),
        closed: CoreSet::EMPTY,
        service_requests: ServiceRequests::default(),
        monitor,
        balance: Balance::chosen(system, params),
    };
    for core in system.core_ids() {
        policy.cores.stale.insert(core);
        for vcpu in policy.table.on(core) {
            policy.io_vcpus += usize::from(vcpu.role == Role::Io);
            policy.cores.add(vcpu, State::new(vcpu, core, Instant::ZERO));
        }
    }
    Ok(Box::new(policy))
}

/// A time that the user gave, in the system's ticks.
fn time(system: &System, params: &Params, spec: &ParamSpec) -> Option<Duration> {
    params.time(spec).map(|time| time * system.ticks_per_ns)
}

fn placed(system: &System, params: &Params) -> (Table, Verdict) {
    let test = test::chosen(params, &FIXED_PRIORITIES);
    let table = Table::new(system, Family::FixedPriority, test, place::find_host);
    let mut table = table.demanding(color::demand(params));
    let mut verdict = table.fill(system, false);
    if params.time(&SLICE).is_some_and(Duration::is_zero) {
        let why = "is 0; leave it empty or give a time above 0";
        verdict.objections.push(Objection::to(SLICE.name, why));
    }
    verdict.objections.extend(throttle::objections(system, params));
    verdict.objections.extend(balance::objections(system, params));
    (table, verdict)
}

/// What the user chose for budgets and surplus time.
#[derive(Clone, Copy)]
struct Settings {
    rule: Rule,
    slice: Option<Duration>,
    chunk_min: Duration,
    /// Whether I/O VCPUs inherit periods. Response times are exact for fixed priorities only: at an
    /// inherited period an I/O VCPU would delay VCPUs whose test did not count it.
    inherits: bool,
    ahead: Ahead,
}

/// What is granted before its instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ahead {
    /// Nothing.
    Nothing,
    /// The next chunk of each VCPU, and what else is decided at that instant.
    Watched,
    /// The next chunk of each VCPU. Nothing else depends on when it comes: no decision is due then.
    Unwatched,
    /// The same, and what has begun of what is given as `Silent` else: the VCPU may be using it,
    /// which is reported when it stops.
    Begun { chunk_min: Duration },
    /// Of each VCPU that has something to run so many chunks, as they come if it goes on so, and
    /// its turns of surplus time: no decision is due before half of them are used.
    Silent { depth: usize, chunk_min: Duration },
}

impl Ahead {
    fn chosen(params: &Params, rule: Rule, chunk_min: Duration, is_monitored: bool) -> Self {
        match (ahead::chosen(params), rule) {
            (false, _) => Self::Nothing,
            // Surplus time is offered by when budgets come, or closed by which cores use it.
            (true, Rule::Sticky) => Self::Watched,
            (true, _) if is_monitored => Self::Watched,
            // Who is next depends on memory that was used meanwhile.
            (true, Rule::Light) => Self::Unwatched,
            (true, Rule::Fair | Rule::Off) => Self::Silent { depth: 1, chunk_min },
        }
    }
}

impl Settings {
    fn chosen(system: &System, params: &Params, is_monitored: bool) -> Self {
        let rule = Rule::chosen(params);
        let chunk_min = time(system, params, &CHUNK_MIN).unwrap_or_default();
        Self {
            rule,
            slice: time(system, params, &SLICE),
            chunk_min,
            inherits: test::chosen(params, &FIXED_PRIORITIES) != Test::Rta,
            ahead: Ahead::chosen(params, rule, chunk_min, is_monitored),
        }
    }
}

struct Maracas {
    table: Table,
    cores: Cores,
    /// How many VCPUs are there for I/O.
    io_vcpus: usize,
    /// VCPUs with a reservation that was granted and has not set in.
    changing: Vec<VcpuId>,
    /// Cores whose run queues withhold their surplus time.
    closed: CoreSet,
    service_requests: ServiceRequests,
    monitor: Option<Monitor>,
    balance: Option<Balance>,
}

/// What of the budget of `vcpu` counts if it leaves or changes at `at`.
fn in_use(states: &States, table: &Table, vcpu: VcpuId, at: Instant) -> Use {
    states.get(vcpu).map_or(Use::NONE, |state| Use {
        until: state.counts_until(at),
        at_rest: table.rests(state.core, at),
    })
}

impl Policy for Maracas {
    fn on_event(&mut self, at: Instant, event: &Event) {
        if let Some(monitor) = &mut self.monitor {
            monitor.on_event(at, event);
        }
        match event {
            Event::Ran(_) | Event::Released(_) | Event::Completed(_) | Event::Woke { .. } => {
                self.learn(at, event);
            }
            Event::Arrived(vcpu) => self.arrive(vcpu, at),
            Event::Changed(vcpu) => self.change(vcpu, at),
            Event::Left(vcpu) => self.leave(*vcpu, at),
            Event::ServiceDone(service_request) => {
                if self.service_requests.done(service_request)
                    && let ServiceRequest::Move { vcpu, to, colors } = *service_request
                {
                    self.moved(vcpu, to, colors, at);
                }
            }
            Event::Failed { what, .. } => {
                if let Some(ServiceRequest::Move { .. }) = self.service_requests.failed(what) {
                    self.not_moved();
                }
            }
            Event::AllowanceSpent { .. } | Event::Sampled(_) | Event::Utilized { .. } => {}
        }
    }

    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        if !self.changing.is_empty() {
            self.set_in(now, plan.wake_metered && plan.wake <= now);
        }
        let mut wake = self.refresh_cores(now, plan);
        // A core that rests may have room for VCPUs that wait.
        while (!self.table.is_settled() && self.retry(now)) || self.tells_otherwise(plan) {
            wake = self.refresh_cores(now, plan);
        }
        self.table.reply(plan);
        let wake = wake.min(self.table.next());
        let tick = self.throttle(now, plan);
        let rest = self.rebalance(now);
        plan.wake = wake.min(tick).min(rest).min(self.monitor.as_ref().map_or(wake, Monitor::next));
        plan.wake = plan.wake.min(self.next_change(now));
        let ticks = tick == plan.wake && tick != Instant::NEVER;
        plan.wake_metered = ticks || !self.changing.is_empty();
        self.service_requests.show(plan);
    }

    fn apart(&mut self) -> Option<&mut dyn Apart> {
        if self.can_lend() { Some(self) } else { None }
    }

    fn statistics(&self) -> Vec<Statistic> {
        let mut statistics = self.monitor.as_ref().map(Monitor::statistics).unwrap_or_default();
        statistics.extend(self.balance.iter().flat_map(Balance::statistics));
        statistics
    }
}

impl Maracas {
    /// Takes in what happened to a VCPU.
    fn learn(&mut self, at: Instant, event: &Event) {
        let monitor = &self.monitor;
        let is_closed = |core| monitor.as_ref().is_some_and(|monitor| monitor.is_closed(core));
        let learnt = self.cores.learn(at, event, is_closed);
        if let (Some(balance), Some((vcpu, was_runnable))) = (&mut self.balance, learnt) {
            if let Event::Ran(segment) = event {
                balance.ran(segment);
            }
            if let Some(state) = self.cores.states.get(vcpu) {
                balance.learn(state, was_runnable);
            }
        }
    }

    fn arrive(&mut self, vcpu: &Vcpu, at: Instant) {
        if let Some(core) = self.table.arrive(vcpu, at) {
            self.enter(vcpu, core, at);
        }
    }
    fn enter(&mut self, vcpu: &Vcpu, core: CoreId, at: Instant) {
        self.io_vcpus += usize::from(vcpu.role == Role::Io);
        self.cores.add(vcpu, State { newcomer: true, ..State::new(vcpu, core, at) });
        self.unsettle(core);
    }

    fn leave(&mut self, id: VcpuId, at: Instant) {
        self.table.leave(id, at, in_use(&self.cores.states, &self.table, id, at));
        let Some(state) = self.cores.remove(id) else { return };
        self.io_vcpus -= usize::from(state.role == Role::Io);
        if let Some(balance) = &mut self.balance {
            balance.left(&state);
        }
    }

    fn change(&mut self, vcpu: &Vcpu, at: Instant) {
        if self.cores.states.get(vcpu.id).is_none_or(|state| state.role != vcpu.role) {
            let reason = "is not admitted in this role; let a new VCPU arrive instead";
            return self.table.refuse(vcpu.id, alloc::format!("{} {reason}", vcpu.id));
        }
        self.table.ask(vcpu, at);
    }
    fn become_as(&mut self, vcpu: &Vcpu, at: Instant) {
        if let Some(core) = self.table.home_of(vcpu.id) {
            self.unsettle(core);
        }
        let learnt = self.cores.with(vcpu.id, |state| state.change(vcpu, at));
        let state = self.cores.states.get(vcpu.id);
        let waits = |state: &&State| state.settles() != Instant::NEVER;
        self.changing.extend(state.filter(waits).map(|state| state.id));
        if let (Some(balance), Some((_, was_runnable))) = (&mut self.balance, learnt)
            && let Some(state) = self.cores.states.get(vcpu.id)
        {
            balance.learn(state, was_runnable);
        }
    }
    /// Has reservations set in that were granted and are due. What ran of the old budget must have
    /// been told, as it is where what runs was just metered: told later, it would be an overrun of
    /// the new one.
    fn set_in(&mut self, now: Instant, is_metered: bool) {
        let Self { changing, cores, .. } = self;
        changing.retain(|id| {
            let state = cores.states.get(*id);
            let Some(due) = state.map(State::settles).filter(|due| *due < Instant::NEVER) else {
                return false;
            };
            let sets_in = due <= now && (is_metered || !state.is_some_and(State::runnable));
            if sets_in {
                cores.with(*id, |state| state.settle(now));
            }
            !sets_in
        });
    }
    /// When the next of them can set in, after `now`.
    fn next_change(&self, now: Instant) -> Instant {
        let states = self.changing.iter().filter_map(|id| self.cores.states.get(*id));
        let next = states.map(State::settles).min().unwrap_or(Instant::NEVER);
        next.max(now.saturating_add(Duration::from_ticks(1)))
    }
    /// Admits, and changes, the VCPUs that waited for it and need not any longer; true where there
    /// was one.
    fn retry(&mut self, now: Instant) -> bool {
        let states = &self.cores.states;
        let granted = self.table.retry(now, |table, id| in_use(states, table, id, now));
        for Granted { vcpu, core, is_change } in &granted {
            if *is_change {
                self.become_as(vcpu, now);
            } else {
                self.enter(vcpu, *core, now);
            }
        }
        !granted.is_empty()
    }

    /// While a VCPU waits for its answer all ends are told ([`Maracas::ahead`]): whether a core
    /// tells by its run queue what it should not, or not what it should, and needs another.
    fn tells_otherwise(&mut self, plan: &Plan) -> bool {
        if !matches!(self.cores.settings.ahead, Ahead::Silent { .. }) {
            return false;
        }
        self.cores.is_settled = self.table.is_settled();
        for core in plan.core_ids() {
            let is_silent = matches!(self.cores.ahead(core), Ahead::Silent { .. });
            let local = self.cores.local_mut(core);
            if local.is_silent != is_silent {
                local.reordered = true;
                self.cores.stale.insert(core);
            }
        }
        !self.cores.stale.is_empty()
    }

    /// Brings the run queues of those cores in step of which something was learnt or is due; when
    /// to look again.
    fn refresh_cores(&mut self, now: Instant, plan: &mut Plan) -> Instant {
        self.cores.note_due(now);
        while let Some(core) = self.cores.stale.pop_first() {
            self.refresh(core, now, plan);
        }
        self.cores.next()
    }
    /// Makes the run queue of `core` as it is to be from `now` on.
    fn refresh(&mut self, core: CoreId, now: Instant, plan: &mut Plan) {
        self.cores.is_settled = self.table.is_settled();
        if self.cores.look(core, now) {
            // What waited for those that left has what it waited for.
            self.table.rest(core, now);
            self.cores.is_settled = self.table.is_settled();
        }
        self.cores.write(core, now, plan);
    }

    /// Orders samples, opens and closes the cores' background; when to ask again, with the meters
    /// of what runs.
    fn throttle(&mut self, now: Instant, plan: &mut Plan) -> Instant {
        let Some(monitor) = &mut self.monitor else { return Instant::NEVER };
        if let Some(service_vcpu) = monitor.order(now) {
            self.service_requests.sample(service_vcpu);
        }
        let (closed, tick) = monitor.close(&self.cores.background, now);
        let changed = closed.iter().filter(|core| !self.closed.contains(*core));
        let changed = changed.chain(self.closed.iter().filter(|core| !closed.contains(*core)));
        for core in changed {
            plan.run_queue_mut(core).background_allowed = !closed.contains(core);
        }
        if self.closed != *closed {
            self.closed.clone_from(closed);
        }
        tick
    }
}

#[cfg(test)]
mod tests;
