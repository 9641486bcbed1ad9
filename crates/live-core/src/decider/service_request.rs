//! Service requests: what the policy sends service VCPUs for. A service VCPU has no threads here:
//! the agent does its work, and reports it as a segment of the service VCPU, on whose budget it is
//! so.
//!
//! A service request begins when a plan shows it and none is under way: its service VCPU wakes. It
//! is done when the service VCPU stands on the run queue of an open core with some of its grant
//! left, by the agent of that core, from whose time its reservation is taken; or, where it moves
//! a VCPU that sits elsewhere, by the agent there, while which is awake no VCPU runs there. What
//! came of it is told before the end of the segment in which it was done, as in simulation:
//! `Woke`, [`Ran` of who was interrupted], `Sampled`, `ServiceDone` or `Failed`, `Ran` (blocked).
//!
//! A move with page colours begins with the recolouring, which the program itself does, on its own
//! VCPU, where that stands: on the core that it leaves. Until it is reported done, it has no run
//! queue on the other core and could not do it there.

use super::Decider;
use crate::{Handle, Host, ManagedCore, Recoloring};
use maracas_core::contract::{End, Grant, Mode, Refused, Segment, ServiceRequest, Usage};
use maracas_core::journal::Note;
use maracas_core::memory::CachePart;
use maracas_core::{CoreId, CoreSet, Duration, Event, Instant, Role, VcpuId};
use std::collections::BTreeMap;

/// How many answers to service requests are reported in one round, where the policy answers each by
/// the next; more wait for the next round.
pub(super) const ANSWERS: usize = 8;
/// How often it is looked whether a recolouring is finished.
const LOOK: Duration = Duration::from_millis(1);
/// How long a recolouring may take: 512 pages take milliseconds, but on the program's own budget.
const PATIENCE: Duration = Duration::from_secs(1);

/// A service request that has begun.
#[derive(Clone, Copy, Debug)]
struct Away {
    service_vcpu: VcpuId,
    service_request: ServiceRequest,
    /// Since when the program recolours its pages.
    recolors: Option<Instant>,
}

/// How far service requests are.
#[derive(Default)]
pub(super) struct ServiceRequests {
    away: Option<Away>,
    /// The service VCPUs' foreground meters.
    meters: BTreeMap<VcpuId, Duration>,
}

impl ServiceRequests {
    /// Whether none is under way.
    pub(super) const fn is_idle(&self) -> bool {
        self.away.is_none()
    }
    /// What the service VCPU's service requests took.
    pub(super) fn meter(&self, service_vcpu: VcpuId) -> Duration {
        self.meters.get(&service_vcpu).copied().unwrap_or_default()
    }
    /// After how long the service request under way must be looked at without any event, if it
    /// must.
    pub(super) fn look(&self) -> Option<Duration> {
        self.away.is_some_and(|away| away.recolors.is_some()).then_some(LOOK)
    }
}

const fn refused(service_request: ServiceRequest) -> Refused {
    match service_request {
        ServiceRequest::Sample => Refused::Sample,
        ServiceRequest::Move { vcpu, .. } => Refused::Move(vcpu),
    }
}

impl<H: Host> Decider<H> {
    /// Carries the service request in the plan a step further, on the agent of `own`. Whether the
    /// policy was told of that; the cores that are to go on are `called`.
    pub(super) fn run_service_request(&mut self, own: CoreId, called: &mut CoreSet) -> bool {
        let Some(away) = self.service_requests.away else { return self.begin_service_request() };
        let Some(core) = self.stands(away.service_vcpu) else { return false };
        let slot = match away.service_request {
            ServiceRequest::Move { vcpu, .. } => self.slot(vcpu),
            ServiceRequest::Sample => None,
        };
        let place = slot.unwrap_or(core);
        if place != own {
            called.insert(place);
            return false;
        }
        match away.service_request {
            ServiceRequest::Sample => self.take_sample(away, core),
            // Programs are being started: see `moves`.
            ServiceRequest::Move { .. } if self.held > 0 => return false,
            ServiceRequest::Move { vcpu, colors: Some(colors), .. }
                if self.recolors(away, vcpu, colors) =>
            {
                return false;
            }
            ServiceRequest::Move { vcpu, to, .. } => self.make_move(away, core, vcpu, to, own),
        }
        true
    }

    /// The service VCPU reads the counters.
    fn take_sample(&mut self, away: Away, core: CoreId) {
        self.interrupt(core);
        let from = self.host.now();
        let sample = self.host.sample(from);
        let span = (from, self.host.now());
        match sample.ok().flatten() {
            Some(sample) => {
                let answers = [Event::Sampled(sample), Event::ServiceDone(away.service_request)];
                self.finish_service_request(away, core, span, &answers);
            }
            None => {
                let failed = Event::Failed { core, what: Refused::Sample };
                self.finish_service_request(away, core, span, &[failed]);
            }
        }
    }

    /// The service VCPU moves a VCPU.
    fn make_move(&mut self, away: Away, core: CoreId, vcpu: VcpuId, to: CoreId, own: CoreId) {
        if core == own {
            self.interrupt(core);
        }
        let from = self.host.now();
        let known = self.known.get(&vcpu).map(|known| known.slot);
        let slot = known.flatten().filter(|slot| *slot != to);
        let moved = slot.is_none_or(|slot| self.transfer(vcpu, slot, to));
        let span = (from, self.host.now());
        if let Some(slot) = slot {
            // Should the policy have it where it was after all, it is brought back.
            self.behind = true;
            [slot, to].into_iter().for_each(|core| self.host.core(core).stir());
            // What the VCPU handle took before it left and, where it could not go, that.
            self.listen();
        }
        let done = [Event::ServiceDone(away.service_request)];
        let gone = [Event::Failed { core, what: Refused::Move(vcpu) }];
        let answer = match (known, moved) {
            (None, _) => &gone[..],
            (Some(_), true) => &done,
            (Some(_), false) => &[],
        };
        self.finish_service_request(away, core, span, answer);
    }

    /// Begins the service request in the plan, if there is one and it can be done.
    fn begin_service_request(&mut self) -> bool {
        let Some((service_vcpu, service_request)) = self.plan.service_request else { return false };
        let now = self.host.now();
        let role = |vcpu| self.known.get(&vcpu).map(|known| known.vcpu.role);
        let carries = |role| matches!(role, Role::Monitor | Role::Migration);
        let can = match service_request {
            ServiceRequest::Sample => self.host.can_sample(),
            ServiceRequest::Move { vcpu, to, .. } => {
                usize::from(to.0) < self.plan.cores()
                    && role(vcpu).is_some_and(|role| !carries(role))
            }
        };
        if !can || !role(service_vcpu).is_some_and(carries) {
            let core = self.stands(service_vcpu).unwrap_or_default();
            self.tell(now, &Event::Failed { core, what: refused(service_request) });
            return true;
        }
        self.service_requests.away = Some(Away { service_vcpu, service_request, recolors: None });
        self.tell(now, &Event::Woke { vcpu: service_vcpu, on_behalf: None, exact: true });
        true
    }

    /// The core where the service VCPU may work now: on whose run queue it stands with some of its
    /// grant left, unless that core is closed.
    fn stands(&mut self, service_vcpu: VcpuId) -> Option<CoreId> {
        let meter = self.service_requests.meter(service_vcpu);
        let grants = |grant: &&Grant| grant.vcpu == service_vcpu && meter < grant.until.0;
        let on_run_queue =
            |core: &CoreId| self.plan.run_queue(*core).foreground.iter().any(|it| grants(&it));
        let core = self.cores.iter().copied().find(on_run_queue)?;
        (!self.host.core(core).is_closed()).then_some(core)
    }

    /// The service VCPU takes the core from what ran there: reports that.
    fn interrupt(&mut self, core: CoreId) {
        let mut core = self.host.core(core);
        core.interrupt();
        std::mem::swap(core.outbox(), &mut self.events);
        drop(core);
        self.feed();
    }

    /// Reports what came of a service request that took the service VCPU so long, and that it has
    /// done it.
    fn finish_service_request(
        &mut self,
        away: Away,
        core: CoreId,
        (from, to): (Instant, Instant),
        answers: &[Event],
    ) {
        self.service_requests.away = None;
        answers.iter().for_each(|answer| self.tell(to, answer));
        // A service request takes time, whatever the clock's grain.
        let service = to.saturating_since(from).max(Duration::from_nanos(1));
        let (vcpu, mode, end) = (away.service_vcpu, Mode::Foreground, End::Blocked);
        *self.service_requests.meters.entry(vcpu).or_default() += service;
        let usage = Usage { service, ..Usage::default() };
        self.tell(to, &Event::Ran(Segment { vcpu, core, mode, from, to, usage, end }));
    }

    /// Whether the programs of `vcpu` still recolour their pages for this service request; asks
    /// them to.
    fn recolors(&mut self, away: Away, vcpu: VcpuId, colors: CachePart) -> bool {
        let now = self.host.now();
        let Some(slot) = self.slot(vcpu) else { return false };
        let mut core = self.host.core(slot);
        let Some(vcpu_handle) = core.vcpu_handle(vcpu) else { return false };
        let handle = &mut vcpu_handle.handle;
        let what = match away.recolors {
            None => match handle.recolor(colors) {
                Ok(Recoloring::None) => return false,
                Ok(Recoloring::Later) => return true,
                Ok(Recoloring::Begun) => {
                    self.service_requests.away = Some(Away { recolors: Some(now), ..away });
                    return true;
                }
                Err(error) => Err(format!("refused: {error}")),
            },
            Some(since) => match handle.recolored() {
                Some(done) => Ok(done),
                None if now.saturating_since(since) < PATIENCE => return true,
                None => Err("unfinished".to_string()),
            },
        };
        drop(core);
        self.remark(vec![Note::Recolored { vcpu, what }]);
        false
    }
}

#[cfg(test)]
mod tests;
