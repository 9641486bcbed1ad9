//! Background: which VCPU gets the time that no budget asks for (MARACAS, section III).
//!
//! An *interval* is the time from when a core enters background mode until it returns to the
//! foreground. One VCPU is chosen when it begins and kept until it ends, blocks or has used up its
//! slice; whatever wakes meanwhile stands behind it.

use super::vcpu::State;
use crate::parts::jobs::ByVcpu;
use core::cmp::Ordering;
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{Duration, Instant, VcpuId};

pub(super) const BACKGROUND: ParamSpec = ParamSpec {
    name: "background",
    kind: Kind::Choice(&["fair", "sticky", "light", "off"]),
    help: "who gets surplus time (MARACAS, section III): fair = who had least of it so far, \
           sticky = who just ran in the foreground, light = who uses the memory least, off = \
           nobody",
};

/// The paper's rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rule {
    /// Least background CPU time (BGT) first.
    Fair,
    /// The VCPU that just ran in the foreground; if it blocks, what is expected in the foreground
    /// first.
    Sticky,
    /// Least memory requests per service first.
    Light,
    /// No VCPU.
    Off,
}

impl Rule {
    pub(super) fn chosen(params: &Params) -> Self {
        match params.choice(&BACKGROUND) {
            "sticky" => Self::Sticky,
            "light" => Self::Light,
            "off" => Self::Off,
            _ => Self::Fair,
        }
    }

    /// Which of two runnable VCPUs comes first; equal where the rule has no opinion.
    fn compare(self, a: &State, b: &State, now: Instant) -> Ordering {
        match self {
            Self::Fair => a.bgt.cmp(&b.bgt),
            // A VCPU with budget left is in the foreground as soon as it may run.
            Self::Sticky => {
                let expected = |state: &State| match state.server.usable(now).is_zero() {
                    true => state.server.next(now).unwrap_or(Instant::NEVER),
                    false => now,
                };
                expected(a).cmp(&expected(b))
            }
            Self::Light => a.intensity().compare(b.intensity()),
            Self::Off => Ordering::Equal,
        }
    }
}

/// Memory requests against the service in which they were made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intensity {
    pub(super) requests: u64,
    pub(super) service: Duration,
}

impl Intensity {
    /// Exactly, by cross-multiplying; what never ran has no requests per service yet.
    pub(super) fn compare(self, other: Self) -> Ordering {
        let times = |requests: u64, service: Duration| {
            u128::from(requests) * u128::from(service.ticks().max(1))
        };
        times(self.requests, other.service).cmp(&times(other.requests, self.service))
    }
}

/// One core's interval.
#[derive(Clone, Default, Debug)]
pub(super) struct Interval {
    chosen: Option<VcpuId>,
    last_foreground: Option<VcpuId>,
}

impl Interval {
    /// `vcpu` ran in the foreground: the interval is over.
    pub(super) const fn end(&mut self, vcpu: VcpuId) {
        self.chosen = None;
        self.last_foreground = Some(vcpu);
    }
    /// `vcpu` lost the core to the foreground. The next one is chosen now, so that the right one
    /// begins when the core returns to the background, however late the next decision comes.
    pub(super) fn interrupt(&mut self, vcpu: VcpuId) {
        self.chosen.take_if(|chosen| *chosen == vcpu);
    }
    /// `vcpu` blocked, left or used up its slice: if it was chosen, another must be, and it has
    /// no claim to be kept any more.
    pub(super) fn drop(&mut self, vcpu: VcpuId) {
        self.chosen.take_if(|chosen| *chosen == vcpu);
        self.last_foreground.take_if(|last| *last == vcpu);
    }
    /// Which VCPU the interval belongs to.
    pub(super) const fn chosen(&self) -> Option<VcpuId> {
        self.chosen
    }

    /// Puts `order` into the order in which surplus time is offered: the chosen one, then the
    /// runnable by `rule`, then those that sleep. Chooses one where none is; true if so.
    pub(super) fn arrange(
        &mut self,
        rule: Rule,
        order: &mut [VcpuId],
        states: &ByVcpu<State>,
        now: Instant,
    ) -> bool {
        let stay = if rule == Rule::Sticky { self.last_foreground } else { None };
        order.sort_unstable_by(|a, b| {
            let (Some(x), Some(y)) = (states.get(*a), states.get(*b)) else {
                return a.cmp(b);
            };
            let place = |id: VcpuId, state: &State| {
                (Some(id) != self.chosen, !state.runnable(), Some(id) != stay)
            };
            place(*a, x)
                .cmp(&place(*b, y))
                .then_with(|| rule.compare(x, y, now))
                .then_with(|| x.urgency().cmp(&y.urgency()))
        });
        if self.chosen.is_some() {
            return false;
        }
        self.chosen =
            order.first().copied().filter(|id| states.get(*id).is_some_and(|s| s.runnable()));
        self.chosen.is_some()
    }
}
