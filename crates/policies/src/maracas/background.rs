//! Background: which VCPU gets the time that no budget asks for (MARACAS, section III).
//!
//! An *interval* is the time from when a core enters background mode until it returns to the
//! foreground. One VCPU is chosen when it begins and kept until it ends, blocks or has used up its
//! slice; whatever wakes meanwhile stands behind it.

use super::vcpu::State;
use crate::parts::ahead;
use crate::parts::jobs::ByVcpu;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};
use maracas_core::contract::{Grant, Limit};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{Duration, Instant, List, VcpuId};

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

    /// What it orders VCPUs by; less comes first, and equal where the rule has no opinion.
    fn measure(self, state: &State, now: Instant) -> Ratio {
        match self {
            Self::Fair => Ratio::whole(state.bgt.ticks()),
            // A VCPU with budget left is in the foreground as soon as it may run.
            Self::Sticky if !state.server.usable(now).is_zero() => Ratio::whole(0),
            Self::Sticky => Ratio::whole(state.server.next(now).unwrap_or(Instant::NEVER).ticks()),
            Self::Light => state.intensity(),
            Self::Off => Ratio::whole(0),
        }
    }
}

/// `of` / `per`, compared exactly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratio {
    of: u64,
    per: u64,
}

impl Ratio {
    const fn whole(of: u64) -> Self {
        Self { of, per: 1 }
    }
    /// Memory requests against the service in which they were made; what never ran has none yet.
    pub(super) fn intensity(requests: u64, service: Duration) -> Self {
        Self { of: requests, per: service.ticks().max(1) }
    }
    pub(super) fn compare(self, other: Self) -> Ordering {
        if self.per == other.per {
            return self.of.cmp(&other.of);
        }
        let times = |of: u64, per: u64| u128::from(of) * u128::from(per);
        times(self.of, other.per).cmp(&times(other.of, self.per))
    }
}

/// Where a VCPU stands in the order in which surplus time is offered. It has all that the order
/// depends on, so that no other VCPU is looked at when one is put in its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) vcpu: VcpuId,
    /// The chosen one is before the runnable, and these before those that sleep; among each of
    /// them the one with a claim to stay is first.
    rank: u8,
    measure: Ratio,
    /// Decides, with the id, where the rule has no opinion.
    span: Duration,
}

impl Offer {
    /// Of a VCPU of which nothing is known yet.
    pub(super) const fn new(vcpu: VcpuId) -> Self {
        Self { vcpu, rank: 0, measure: Ratio::whole(0), span: Duration::ZERO }
    }
    fn compare(&self, other: &Self) -> Ordering {
        let rank = self.rank.cmp(&other.rank);
        rank.then_with(|| self.measure.compare(other.measure))
            .then_with(|| (self.span, self.vcpu).cmp(&(other.span, other.vcpu)))
    }
}

/// VCPUs whose place in the order may be another than it was.
#[derive(Clone, Default, Debug)]
pub(super) struct Moved {
    pub(super) all: bool,
    some: Vec<VcpuId>,
    /// Those of them whose place was looked up, unless all are.
    pub(super) moves: Vec<Move>,
}

/// A VCPU that stood at `from` in the order and stands at `to` now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) vcpu: VcpuId,
    pub(super) from: usize,
    pub(super) to: usize,
}

impl Moved {
    /// None so far, or all.
    pub(super) fn begin(&mut self, all: bool) {
        self.all = all;
        self.some.clear();
        self.moves.clear();
    }
    pub(super) fn push(&mut self, vcpu: VcpuId) {
        self.some.push(vcpu);
    }
}

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
    /// by the last call, and are told where. Chooses one where none is; whether it did.
    pub(super) fn arrange(
        &mut self,
        rule: Rule,
        order: &mut List<Offer>,
        moved: &mut Moved,
        states: &mut ByVcpu<State>,
        now: Instant,
    ) -> bool {
        let stay = if rule == Rule::Sticky { self.last_foreground } else { None };
        let favoured = core::mem::replace(&mut self.arranged, [self.chosen, stay]);
        for (before, after) in favoured.into_iter().zip(self.arranged) {
            if before != after {
                for vcpu in [before, after].into_iter().flatten() {
                    if !moved.some.contains(&vcpu) {
                        moved.some.push(vcpu);
                    }
                }
            }
        }
        if moved.all {
            for offer in order.iter_mut() {
                let Some(state) = states.get_mut(offer.vcpu) else { continue };
                state.offer = self.offer(rule, state, stay, now);
                *offer = state.offer;
            }
            let mut sorted: Vec<Offer> = order.iter().copied().collect();
            sorted.sort_unstable_by(Offer::compare);
            order.clear();
            order.extend(sorted);
        } else {
            self.move_some(rule, order, moved, states, now);
        }
        if self.chosen.is_some() {
            return false;
        }
        let first = order.first().and_then(|offer| states.get_mut(offer.vcpu));
        if let Some(state) = first.filter(|state| state.runnable()) {
            self.chosen = Some(state.id);
            self.arranged[0] = self.chosen;
            state.offer = self.offer(rule, state, stay, now);
            order[0] = state.offer;
        }
        self.chosen.is_some()
    }

    /// Where `state` stands by what is known of it.
    fn offer(&self, rule: Rule, state: &State, stay: Option<VcpuId>, now: Instant) -> Offer {
        let is = |vcpu: Option<VcpuId>| vcpu == Some(state.id);
        let ranks = [!is(self.chosen), !state.runnable(), !is(stay)];
        let rank = ranks.into_iter().fold(0, |rank, later| 2 * rank + u8::from(later));
        let (measure, (span, vcpu)) = (rule.measure(state, now), state.urgency());
        Offer { vcpu, rank, measure, span }
    }

    /// Takes those in `moved` that have another place out of `order` and puts them there. What is
    /// not in `order` is left away.
    fn move_some(
        &self,
        rule: Rule,
        order: &mut List<Offer>,
        moved: &mut Moved,
        states: &mut ByVcpu<State>,
        now: Instant,
    ) {
        let [_, stay] = self.arranged;
        let place = |order: &List<Offer>, offer: &Offer| {
            order.partition_point(|other| other.compare(offer).is_lt())
        };
        for vcpu in moved.some.drain(..) {
            let Some(state) = states.get_mut(vcpu) else { continue };
            let offer = self.offer(rule, state, stay, now);
            if offer.compare(&state.offer).is_eq() {
                continue;
            }
            let from = place(order, &state.offer);
            if from < order.len() && order[from].vcpu == vcpu {
                state.offer = offer;
                moved.moves.push(Move { vcpu, from, to: from });
            }
        }
        let offer = |it: &Move| states.get(it.vcpu).map(|state| state.offer);
        if let [it] = &mut moved.moves[..]
            && let Some(offer) = offer(it)
        {
            // The usual case; it may well stay where it is. It is before itself if it went back.
            let place = place(order, &offer);
            it.to = place - usize::from(place > it.from);
            if it.to == it.from {
                order[it.to] = offer;
            } else {
                order.remove(it.from);
                order.insert(it.to, offer);
            }
            return;
        }
        moved.moves.sort_unstable_by_key(|it| Reverse(it.from));
        moved.moves.iter().for_each(|it| _ = order.remove(it.from));
        for it in &moved.moves {
            if let Some(offer) = offer(it) {
                order.insert(place(order, &offer), offer);
            }
        }
        for it in &mut moved.moves {
            it.to = offer(it).map_or(it.to, |offer| place(order, &offer));
        }
    }
}

/// The turns of `slice` that follow each other by the fair rule where nothing wakes or blocks:
/// first what is left of the chosen one's. All but the last may end silently.
///
/// A turn that a budget interrupts goes on after it, until the next decision.
pub(super) fn turns(
    order: &List<Offer>,
    chosen: VcpuId,
    slice: Duration,
    states: &ByVcpu<State>,
) -> Vec<Grant> {
    let runnable = order.iter().filter_map(|offer| states.get(offer.vcpu));
    let runnable = runnable.filter(|state| state.runnable());
    // What each has had after the turns so far, by the rule and by its meter.
    let mut waiting: Vec<_> = runnable.map(|it| (it.bgt, it.urgency(), it.background)).collect();
    let count = ahead::TURNS.min(ahead::BACKGROUND.saturating_sub(order.len()));
    let mut turns = Vec::with_capacity(count);
    let first = waiting.iter().position(|(_, (_, vcpu), _)| *vcpu == chosen);
    let mut next = first;
    while turns.len() < count
        && let Some(place) = next
    {
        let (bgt, (_, vcpu), meter) = &mut waiting[place];
        let more = match states.get(*vcpu).map(|state| state.slice_end.0) {
            Some(end) if turns.is_empty() => end.saturating_sub(*meter),
            _ => slice,
        };
        (*bgt, *meter) = (*bgt + more, *meter + more);
        turns.push(Grant::new(*vcpu, Limit(*meter)).ahead(ahead::AT_ONCE).silently());
        next = (0..waiting.len()).min_by_key(|it| (waiting[*it].0, waiting[*it].1));
    }
    if let Some(last) = turns.last_mut() {
        last.silent = false;
    }
    turns
}
