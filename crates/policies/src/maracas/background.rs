//! Background: which VCPU gets the time that no budget asks for (MARACAS, section III).
//!
//! An *interval* is the time from when a core enters background mode until it returns to the
//! foreground. One VCPU is chosen when it begins and kept until it ends, blocks or has used up its
//! slice; whatever wakes meanwhile stands behind it.

use super::vcpu::State;
use crate::parts::jobs::ByVcpu;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Range;
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{Duration, Instant, VcpuId};

pub(super) const BACKGROUND: ParamSpec = ParamSpec {
    name: "background",
    kind: Kind::Choice(&["fair", "sticky", "light", "off"]),
    help: "which VCPU gets surplus time (MARACAS, section III): fair = what had least of it so \
           far, sticky = what just ran in the foreground, light = what uses memory least, off = \
           none",
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

/// VCPUs whose place in the order may be another than it was.
#[derive(Clone, Default, Debug)]
pub(super) struct Moved {
    all: bool,
    some: Vec<VcpuId>,
}

impl Moved {
    /// None so far, or all.
    pub(super) fn begin(&mut self, all: bool) {
        self.all = all;
        self.some.clear();
    }
    pub(super) fn push(&mut self, vcpu: VcpuId) {
        self.some.push(vcpu);
    }
}

/// Where so many moved, for each that may stand there, all are sorted anew: taking one out and
/// putting it in again costs about as much as looking at all.
const MANY: usize = 8;

/// One core's interval.
#[derive(Clone, Default, Debug)]
pub(super) struct Interval {
    chosen: Option<VcpuId>,
    last_foreground: Option<VcpuId>,
    /// The chosen one, and the one with a claim to stay, when the order was arranged last.
    arranged: [Option<VcpuId>; 2],
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
    /// runnable by `rule`, then those that sleep. Only those in `moved` are at another place than
    /// by the last call. Chooses one where none is. Says which places may hold others than before,
    /// and whether one was chosen.
    pub(super) fn arrange(
        &mut self,
        rule: Rule,
        order: &mut Vec<VcpuId>,
        moved: &mut Moved,
        states: &ByVcpu<State>,
        now: Instant,
    ) -> (Range<usize>, bool) {
        let stay = if rule == Rule::Sticky { self.last_foreground } else { None };
        let chosen = self.chosen;
        let favoured = core::mem::replace(&mut self.arranged, [chosen, stay]);
        for (before, after) in favoured.into_iter().zip(self.arranged) {
            if before != after {
                moved.some.extend(before);
                moved.some.extend(after);
            }
        }
        let compare = |a: &VcpuId, b: &VcpuId| {
            let (Some(x), Some(y)) = (states.get(*a), states.get(*b)) else {
                return a.cmp(b);
            };
            let place = |id: VcpuId, state: &State| {
                (Some(id) != chosen, !state.runnable(), Some(id) != stay)
            };
            place(*a, x)
                .cmp(&place(*b, y))
                .then_with(|| rule.compare(x, y, now))
                .then_with(|| x.urgency().cmp(&y.urgency()))
        };
        let mut range = if moved.all || moved.some.len() * MANY > order.len() {
            order.sort_unstable_by(compare);
            0..order.len()
        } else {
            put_again(order, &mut moved.some, compare)
        };
        if chosen.is_some() {
            return (range, false);
        }
        self.chosen =
            order.first().copied().filter(|id| states.get(*id).is_some_and(|s| s.runnable()));
        self.arranged[0] = self.chosen;
        if self.chosen.is_some() {
            range = 0..range.end.max(1);
        }
        (range, self.chosen.is_some())
    }
}

/// Takes `moved` out of `order`, which is sorted but for these, and puts them where they belong;
/// which places may hold others than before. What is not in `order` is left away.
fn put_again(
    order: &mut Vec<VcpuId>,
    moved: &mut Vec<VcpuId>,
    compare: impl Fn(&VcpuId, &VcpuId) -> Ordering,
) -> Range<usize> {
    // What stands before `first` and what is among the last `rest` stays where it is.
    let (mut first, mut rest) = (order.len(), order.len());
    moved.retain(|id| {
        let Some(place) = order.iter().position(|other| other == id) else { return false };
        order.remove(place);
        (first, rest) = (first.min(place), rest.min(order.len() - place));
        true
    });
    for id in moved.iter() {
        let place = order.partition_point(|other| compare(other, id).is_lt());
        (first, rest) = (first.min(place), rest.min(order.len() - place));
        order.insert(place, *id);
    }
    first.min(order.len() - rest)..order.len() - rest
}
