//! What is read off the journal of a run: what ran when, what was granted, what was moved at what
//! cost, and whether a fresh policy decides the same.

use crate::bench::play::replayed;
use maracas_console::failure::Failure;
use maracas_core::contract::{End, Event, Mode, Segment, ServiceRequest};
use maracas_core::journal::{Note, Reader, Recolored, Record};
use maracas_core::{CoreId, Duration, Instant, Plan, Role, System, Vcpu, VcpuId};
use std::collections::BTreeMap;

/// A migration, from the order to the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Move {
    pub(super) vcpu: VcpuId,
    pub(super) from: CoreId,
    pub(super) to: CoreId,
    /// The migration VCPU that paid for it.
    service_vcpu: VcpuId,
    pub(super) ordered: Instant,
    /// When the policy learned that it was done; `None` where it was not.
    pub(super) done: Option<Instant>,
    /// Whether the VCPU stands on the other core then: while a move goes on, others come and go.
    pub(super) holds: bool,
    /// What the migration VCPU spent on it.
    pub(super) cost: Duration,
    /// What its programs did on its own budget before, where cores have page colours.
    pub(super) recolored: Option<Recolored>,
}

/// What was granted to a VCPU on its budget: the reading of its foreground meter at which it stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Raise {
    pub(super) at: Instant,
    pub(super) limit: Duration,
}

/// Everything about one VCPU.
#[derive(Clone, Default, Debug)]
pub(super) struct Life {
    /// Foreground segments, in order.
    pub(super) foreground: Vec<Segment>,
    /// Background segments, in order.
    pub(super) background: Vec<Segment>,
    /// Every time it was granted more.
    pub(super) raises: Vec<Raise>,
    /// Its foreground service as the policy knows it.
    served: Duration,
    /// When it had nothing to run: from, to; the last one may have no end.
    pub(super) blocked: Vec<(Instant, Option<Instant>)>,
    pub(super) left: Option<Instant>,
    /// It had something to run.
    has_begun: bool,
}

/// A run by its journal.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) system: System,
    pub(super) lives: BTreeMap<VcpuId, Life>,
    pub(super) moves: Vec<Move>,
    /// Whether a fresh policy decided the same, every time, and nothing is missing.
    pub(super) exact: bool,
    pub(super) decisions: u64,
    pub(super) end: Instant,
}

impl Story {
    /// Of a run in which nothing happened.
    pub(super) fn nothing(system: System) -> Self {
        let (lives, moves, end) = (BTreeMap::new(), Vec::new(), Instant::ZERO);
        Self { system, lives, moves, exact: true, decisions: 0, end }
    }

    /// Gives the journal to a fresh policy and looks at each decision.
    ///
    /// # Errors
    /// Where the journal is damaged.
    pub(super) fn read(journal: &[u8]) -> Result<Self, Failure> {
        let (header, _) = Reader::open(journal).map_err(Failure::new)?;
        let mut story = Self::nothing(header.system);
        let (_, exact) = replayed(journal, |record, replay| match record {
            Record::Event { at, event } => story.event(at, &event),
            Record::Planned(theirs) => story.planned(theirs.now, replay.plan()),
            Record::Note { note: Note::Recolored { vcpu, what }, .. } => {
                if let Some(moved) = story.under_way(vcpu) {
                    moved.recolored = what.ok().filter(|done| done.error.is_none());
                }
            }
            Record::Gap(_) | Record::Note { .. } => {}
            Record::End(at) => story.end = at,
        })?;
        Ok(Self { exact, ..story })
    }

    /// The VCPUs that run programs.
    pub(super) fn vcpus(&self) -> impl Iterator<Item = &Vcpu> {
        self.system.vcpus.iter().filter(|vcpu| vcpu.role == Role::Main)
    }
    /// C_m: what a migration may cost by the admission test.
    pub(super) fn most(&self) -> Option<Duration> {
        let service_vcpus = self.system.vcpus.iter().filter(|vcpu| vcpu.role == Role::Migration);
        service_vcpus.map(|service_vcpu| service_vcpu.reservation.budget).min()
    }

    fn event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Ran(segment) => self.ran(segment),
            Event::Woke { vcpu, .. } => self.woke(*vcpu, at),
            Event::Left(vcpu) => self.lives.entry(*vcpu).or_default().left = Some(at),
            Event::ServiceDone(service_request) => self.answered(service_request, at),
            Event::Failed { .. }
            | Event::Released(_)
            | Event::Completed(_)
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::Arrived(_)
            | Event::Changed(_) => {}
        }
    }

    fn ran(&mut self, segment: &Segment) {
        let own = |service_request: &&mut Move| service_request.service_vcpu == segment.vcpu;
        if let Some(service_request) = self.moves.iter_mut().rev().find(own) {
            service_request.cost += segment.usage.service;
        }
        self.woke(segment.vcpu, segment.from);
        let life = self.lives.entry(segment.vcpu).or_default();
        match segment.mode {
            Mode::Foreground => {
                life.served += segment.usage.service;
                life.foreground.push(*segment);
            }
            Mode::Background => life.background.push(*segment),
        }
        if matches!(segment.end, End::Blocked | End::Exited) {
            life.blocked.push((segment.to, None));
        }
    }

    fn woke(&mut self, vcpu: VcpuId, at: Instant) {
        let life = self.lives.entry(vcpu).or_default();
        if !std::mem::replace(&mut life.has_begun, true) {
            life.blocked.push((Instant::ZERO, None));
        }
        if let Some((_, to @ None)) = life.blocked.last_mut() {
            *to = Some(at);
        }
    }

    fn answered(&mut self, service_request: &ServiceRequest, at: Instant) {
        let ServiceRequest::Move { vcpu, .. } = service_request else { return };
        if let Some(moved) = self.under_way(*vcpu) {
            moved.done = Some(at);
        }
    }

    /// The move of a VCPU that has not been done.
    fn under_way(&mut self, vcpu: VcpuId) -> Option<&mut Move> {
        self.moves.iter_mut().rev().find(|it| it.vcpu == vcpu && it.done.is_none())
    }

    fn planned(&mut self, now: Instant, plan: &Plan) {
        self.decisions += 1;
        for core in plan.dirty().iter() {
            for grant in &plan.run_queue(core).foreground {
                let life = self.lives.entry(grant.vcpu).or_default();
                let before = life.raises.last().map_or(Duration::ZERO, |raise| raise.limit);
                // A spent VCPU's limit is what it used, a little more than it was granted.
                if grant.until.0 > before.max(life.served) {
                    life.raises.push(Raise { at: now, limit: grant.until.0 });
                }
            }
        }
        let here = |core: CoreId, vcpu| {
            plan.run_queue(core).foreground.iter().any(|grant| grant.vcpu == vcpu)
        };
        if let Some(last) = self.moves.last_mut().filter(|last| last.done.is_some()) {
            last.holds |= here(last.to, last.vcpu);
        }
        let Some((service_vcpu, ServiceRequest::Move { vcpu, to, .. })) = plan.service_request
        else {
            return;
        };
        let under_way = |it: &Move| it.done.is_none() && it.vcpu == vcpu && it.to == to;
        if self.moves.last().is_some_and(under_way) {
            return;
        }
        let from = (0..plan.cores() as u16).map(CoreId).find(|core| here(*core, vcpu));
        self.moves.push(Move {
            vcpu,
            from: from.unwrap_or(to),
            to,
            service_vcpu,
            ordered: now,
            done: None,
            holds: false,
            cost: Duration::ZERO,
            recolored: None,
        });
    }
}
