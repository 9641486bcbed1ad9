//! What cores decide by themselves, by what happens to their VCPUs: of all cores, or of one that
//! decides alone ([`super::own`]).

use super::Settings;
use super::run_queue::Room;
use super::vcpu::{Local, State, States};
use crate::parts::priority;
use alloc::vec::Vec;
use core::mem;
use maracas_core::contract::{End, Mode, Segment};
use maracas_core::{CoreId, CoreSet, Duration, Event, Instant, Soonest, Vcpu, VcpuId};

pub(super) struct Cores {
    pub(super) settings: Settings,
    pub(super) states: States,
    /// The core of the first of `locals`.
    pub(super) first: CoreId,
    locals: Vec<Local>,
    /// By core, when its run queue must be looked at again.
    nexts: Soonest,
    /// Cores of which something was learnt since the last decision.
    pub(super) stale: CoreSet,
    /// Cores in background mode: a VCPU waits, and none on a budget.
    pub(super) background: CoreSet,
    /// Whether no VCPU waits for its answer.
    pub(super) is_settled: bool,
    pub(super) room: Room,
}

/// Of which VCPU something was learnt, and whether it had something to run before.
pub(super) type Learnt = (VcpuId, bool);

impl Cores {
    /// So many cores from `first` on, without a VCPU.
    pub(super) fn new(settings: Settings, first: CoreId, count: usize) -> Self {
        Self {
            settings,
            states: States::new(first, count),
            first,
            locals: alloc::vec![Local::default(); count],
            nexts: Soonest::new(count),
            stale: CoreSet::EMPTY,
            background: CoreSet::EMPTY,
            is_settled: true,
            room: Room::default(),
        }
    }
    const fn place(&self, core: CoreId) -> usize {
        core.0 as usize - self.first.0 as usize
    }
    #[inline]
    pub(super) fn local(&self, core: CoreId) -> &Local {
        &self.locals[self.place(core)]
    }
    #[inline]
    pub(super) fn local_mut(&mut self, core: CoreId) -> &mut Local {
        let place = self.place(core);
        &mut self.locals[place]
    }
    /// What is known of `core`, of its VCPUs, and the room to work on.
    #[inline]
    pub(super) fn split(&mut self, core: CoreId) -> (&mut Local, &mut States, &mut Room) {
        let place = self.place(core);
        (&mut self.locals[place], &mut self.states, &mut self.room)
    }

    /// A VCPU begins on the core that `state` says.
    pub(super) fn add(&mut self, vcpu: &Vcpu, state: State) {
        let (core, newcomer) = (state.core, state.newcomer);
        let local = self.local_mut(core);
        local.add(vcpu.id, vcpu.role);
        local.newcomers |= newcomer;
        self.states.insert(vcpu.id, core, state);
        self.stale.insert(core);
    }
    /// It is gone.
    pub(super) fn remove(&mut self, vcpu: VcpuId) -> Option<State> {
        let state = self.states.remove(vcpu)?;
        self.local_mut(state.core).remove(vcpu);
        self.stale.insert(state.core);
        Some(state)
    }
    /// It is on another core.
    pub(super) fn migrate(&mut self, vcpu: VcpuId, from: CoreId, to: CoreId) {
        let Some(state) = self.states.get(vcpu) else { return };
        let (role, newcomer) = (state.role, state.newcomer);
        if let Some(state) = self.states.remove(vcpu) {
            self.states.insert(vcpu, to, State { core: to, ..state });
        }
        self.local_mut(from).remove(vcpu);
        self.local_mut(to).add(vcpu, role);
        self.local_mut(to).newcomers |= newcomer;
        self.stale.insert(from);
        self.stale.insert(to);
    }

    /// Takes in what happened to a VCPU; nothing where that concerns none that is here.
    /// `is_closed` says whether a core's surplus time is withheld.
    pub(super) fn learn(
        &mut self,
        at: Instant,
        event: &Event,
        is_closed: impl FnOnce(CoreId) -> bool,
    ) -> Option<Learnt> {
        match event {
            Event::Ran(segment) => self.ran(segment, is_closed),
            Event::Released(job) => self.with(job.id.vcpu, |state| state.release(job)),
            Event::Completed(id) => self.with(id.vcpu, |state| state.complete(*id, at)),
            Event::Woke { vcpu, on_behalf, exact: _ } => {
                // An inexact wake comes with the later instant of the switch: budgets then come
                // back later, never earlier.
                let served = on_behalf
                    .filter(|_| self.settings.inherits)
                    .and_then(|id| Some(self.states.get(id)?.server.period()));
                self.with(*vcpu, |state| state.wake(at, served))
            }
            Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => None,
        }
    }

    pub(super) fn with(&mut self, vcpu: VcpuId, act: impl FnOnce(&mut State)) -> Option<Learnt> {
        let state = self.states.get_mut(vcpu)?;
        let was_runnable = state.runnable();
        act(state);
        self.stale.insert(state.core);
        self.locals[state.core.0 as usize - self.first.0 as usize].touch(state);
        Some((vcpu, was_runnable))
    }

    fn ran(&mut self, segment: &Segment, is_closed: impl FnOnce(CoreId) -> bool) -> Option<Learnt> {
        let place = |core: CoreId| core.0 as usize - self.first.0 as usize;
        let state = self.states.get_mut(segment.vcpu)?;
        // Where its core's memory gate was closed, it is still the chosen one when that opens
        // again.
        let throttled = is_closed(state.core);
        let was_runnable = state.runnable();
        // Reported late, it may have moved since.
        let interval = &mut self.locals[place(segment.core)].interval;
        let service = segment.usage.service;
        let requests = segment.usage.reads + segment.usage.writes;
        // Where nothing is counted, that line of its record is left alone.
        if requests > 0 {
            state.requests += requests;
        }
        let blocked = match segment.end {
            End::Blocked | End::Exited => true,
            End::Preempted | End::LimitReached | End::MemorySpent | End::Moved | End::Metered => {
                false
            }
        };
        if !state.runnable() {
            // Its wake was not reported: it came when the segment began, at the latest.
            state.wake(segment.from, None);
        }
        match segment.mode {
            Mode::Foreground => {
                state.foreground += service;
                state.server.charge(service, blocked, self.settings.chunk_min);
                // A service request is not a turn: the VCPU that just ran is still the one before
                // it.
                if !priority::serves_requests(state.role) {
                    interval.end(segment.vcpu);
                }
            }
            Mode::Background => {
                state.background += service;
                state.bgt += service;
                // Surplus time costs nothing, but the server must learn of the block.
                state.server.charge(Duration::ZERO, blocked, Duration::ZERO);
                match segment.end {
                    End::LimitReached | End::MemorySpent => interval.drop(segment.vcpu),
                    End::Preempted if !throttled => interval.interrupt(segment.vcpu),
                    End::Preempted | End::Blocked | End::Exited | End::Moved | End::Metered => {}
                }
            }
        }
        let local = &mut self.locals[place(state.core)];
        if blocked && state.block(segment.to) {
            local.interval.drop(segment.vcpu);
        }
        self.stale.insert(state.core);
        local.touch(state);
        Some((segment.vcpu, was_runnable))
    }

    /// Has those cores looked at that are due at `now`.
    pub(super) fn note_due(&mut self, now: Instant) {
        let first = self.first.0;
        self.nexts.each_due(now, |place| self.stale.insert(CoreId(first + place as u16)));
    }
    /// When the first core must be looked at again.
    pub(super) fn next(&mut self) -> Instant {
        self.nexts.first()
    }
    /// When `core` must be looked at again.
    pub(super) fn next_of(&self, core: CoreId) -> Instant {
        self.nexts.at(self.place(core))
    }
    /// `core` must be looked at again at `next`.
    pub(super) fn set_next(&mut self, core: CoreId, next: Instant) {
        let place = self.place(core);
        self.nexts.set(place, next);
    }

    /// Lends what it has of the only core of `own`, of which nothing is stale.
    pub(super) fn lend(&mut self, own: &mut Self) {
        self.states.lend(&mut own.states);
        self.exchange(own);
    }
    /// Takes it back.
    pub(super) fn take_back(&mut self, own: &mut Self) {
        self.states.take_back(&mut own.states);
        self.exchange(own);
        self.stale.insert_all(&own.stale);
        own.stale.clear();
    }
    fn exchange(&mut self, own: &mut Self) {
        let core = own.first;
        mem::swap(self.local_mut(core), own.local_mut(core));
        let (next, its) = (self.next_of(core), own.next_of(core));
        self.set_next(core, its);
        own.set_next(core, next);
    }
}
