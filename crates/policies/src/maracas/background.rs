//! Background: which VCPU gets the time that no budget asks for (MARACAS, section III).
//!
//! An *interval* is the time from when a core enters background mode until it returns to the
//! foreground. One VCPU is chosen when it begins and kept until it ends, blocks or has used up its
//! slice; whatever wakes meanwhile stands behind it.

use super::vcpu::{State, States};
use crate::parts::ahead;
use crate::parts::priority;
use alloc::vec::Vec;
use core::cmp::Ordering;
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
    pub(super) const NONE: Self = Self::whole(0);

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
    /// Its place on the foreground list, which decides where the rule has no opinion.
    place: u32,
    rank: OfferRank,
    measure: Ratio,
}

/// The chosen one is before the others that are runnable, and among these the one with a claim to
/// stay is first. Of those that sleep none is before another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct OfferRank(u8);

impl OfferRank {
    pub(super) const ASLEEP: Self = Self(4);

    fn runnable(is_chosen: bool, stays: bool) -> Self {
        Self(2 * u8::from(!is_chosen) + u8::from(!stays))
    }
}

impl Offer {
    /// Of a VCPU of which nothing is known yet.
    const fn new(vcpu: VcpuId) -> Self {
        Self { vcpu, place: 0, rank: OfferRank::ASLEEP, measure: Ratio::NONE }
    }
    fn is_asleep(&self) -> bool {
        self.rank == OfferRank::ASLEEP
    }
    fn compare(&self, other: &Self) -> Ordering {
        let rank = self.rank.cmp(&other.rank);
        rank.then_with(|| self.measure.compare(other.measure))
            .then_with(|| self.place.cmp(&other.place))
    }
}

/// A core's VCPUs as surplus time is offered to them: those that are runnable in order, then those
/// that sleep in none. So a wake or a block moves nothing among those that sleep, however many
/// there are: what wakes changes places with the first of them.
#[derive(Clone, Default, Debug)]
pub(super) struct Order {
    offers: List<Offer>,
    /// How many of them are runnable.
    runnable: usize,
    /// By place on the foreground list, where in `offers` what sleeps stands.
    sleepers: Vec<u32>,
}

impl Order {
    pub(super) const fn len(&self) -> usize {
        self.offers.len()
    }
    pub(super) fn vcpus(&self) -> impl Iterator<Item = VcpuId> + Clone {
        self.offers.iter().map(|offer| offer.vcpu)
    }
    fn runnable(&self) -> impl Iterator<Item = VcpuId> {
        self.vcpus().take(self.runnable)
    }
    pub(super) fn add(&mut self, vcpu: VcpuId) {
        self.offers.push(Offer::new(vcpu));
    }
    pub(super) fn remove(&mut self, vcpu: VcpuId) {
        self.offers.retain(|offer| offer.vcpu != vcpu);
    }

    /// Puts all in order, each by the offer that `offer` makes.
    fn sort(&mut self, offer: impl FnMut(VcpuId) -> Offer) {
        let mut sorted: Vec<Offer> = self.vcpus().map(offer).collect();
        sorted.sort_unstable_by(Offer::compare);
        self.runnable = sorted.partition_point(|offer| !offer.is_asleep());
        self.sleepers.clear();
        for (at, offer) in sorted.iter().enumerate().skip(self.runnable) {
            note(&mut self.sleepers, offer, at);
        }
        self.offers.clear();
        self.offers.extend(sorted);
    }

    /// Puts the VCPU that stands by the offer `before` where it stands by `now`; what that changes
    /// is pushed to `edits`.
    fn put(&mut self, before: &Offer, now: Offer, edits: &mut Vec<Edit>) {
        let place = |order: &Self, count: usize, offer: &Offer| {
            order.offers.partition_point_of(count, |other| other.compare(offer).is_lt())
        };
        let awake = self.runnable;
        let (from, to) = match (before.is_asleep(), now.is_asleep()) {
            (true, true) => return,
            (true, false) => {
                self.runnable += 1;
                let at = self.sleepers[before.place as usize] as usize;
                self.edit(Edit::Swap(awake, at), edits);
                if at != awake {
                    note(&mut self.sleepers, &self.offers[at], at);
                }
                (awake, place(self, awake, &now))
            }
            (false, true) => {
                self.runnable -= 1;
                note(&mut self.sleepers, &now, awake - 1);
                (place(self, awake, before), awake - 1)
            }
            (false, false) => {
                let (from, to) = (place(self, awake, before), place(self, awake, &now));
                // It is before itself if it goes back.
                (from, to - usize::from(to > from))
            }
        };
        self.edit(Edit::Shift(from, to), edits);
        self.offers[to] = now;
    }

    fn edit(&mut self, edit: Edit, edits: &mut Vec<Edit>) {
        if edit.changes() {
            edit.apply(&mut self.offers);
            edits.push(edit);
        }
    }
}

/// Notes that what sleeps by `offer` stands at `at`.
fn note(sleepers: &mut Vec<u32>, offer: &Offer, at: usize) {
    let place = offer.place as usize;
    if sleepers.len() <= place {
        sleepers.resize(place + 1, 0);
    }
    sleepers[place] = at as u32;
}

/// A change of the order of a list.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edit {
    /// Two entries change places.
    Swap(usize, usize),
    /// The entry at the first place goes to the second.
    Shift(usize, usize),
}

impl Edit {
    const fn changes(self) -> bool {
        let (Self::Swap(one, other) | Self::Shift(one, other)) = self;
        one != other
    }
    pub(super) fn apply<T>(self, list: &mut List<T>) {
        match self {
            Self::Swap(one, other) => list.swap(one, other),
            Self::Shift(from, to) => list.shift(from, to),
        }
    }
}

/// VCPUs whose place in the order may be another than it was.
#[derive(Clone, Default, Debug)]
pub(super) struct Moved {
    pub(super) all: bool,
    some: Vec<VcpuId>,
    /// How the order changed, unless all were put in order anew.
    pub(super) edits: Vec<Edit>,
}

impl Moved {
    /// None so far, or all.
    pub(super) fn begin(&mut self, all: bool) {
        self.all = all;
        self.some.clear();
        self.edits.clear();
    }
    pub(super) fn push(&mut self, vcpu: VcpuId) {
        self.some.push(vcpu);
    }
}

/// One core's interval.
#[derive(Clone, Default, Debug)]
pub(super) struct Interval {
    chosen: Option<VcpuId>,
    /// Where the slice of the chosen one ends, by its background meter; `None` = it has none.
    slice_end: Option<Limit>,
    /// Whether the run queue's limits are those of the chosen one and its slice.
    pub(super) is_written: bool,
    last_foreground: Option<VcpuId>,
    /// The chosen one, and the one with a claim to stay, when the order was arranged last.
    arranged: [Option<VcpuId>; 2],
}

impl Interval {
    /// `vcpu` ran in the foreground: the interval is over.
    pub(super) fn end(&mut self, vcpu: VcpuId) {
        self.choose(None);
        self.last_foreground = Some(vcpu);
    }
    /// `vcpu` lost the core to the foreground. The next one is chosen now, so that the right one
    /// begins when the core returns to the background, however late the next decision comes.
    pub(super) fn interrupt(&mut self, vcpu: VcpuId) {
        if self.chosen == Some(vcpu) {
            self.choose(None);
        }
    }
    /// `vcpu` blocked, left or used up its slice: if it was chosen, another must be, and it has
    /// no claim to be kept any more.
    pub(super) fn drop(&mut self, vcpu: VcpuId) {
        self.interrupt(vcpu);
        self.last_foreground.take_if(|last| *last == vcpu);
    }
    /// Which VCPU the interval belongs to.
    pub(super) const fn chosen(&self) -> Option<VcpuId> {
        self.chosen
    }
    fn choose(&mut self, vcpu: Option<VcpuId>) {
        self.is_written &= self.chosen == vcpu;
        self.chosen = vcpu;
    }
    /// The chosen one may run until its background meter stands there.
    pub(super) fn ends_at(&mut self, slice_end: Option<Limit>) {
        self.slice_end = slice_end;
        self.is_written = false;
    }
    /// Up to where the surplus time of `vcpu` is granted.
    pub(super) fn grant(&self, vcpu: VcpuId) -> Grant {
        let slice_end = self.slice_end.filter(|_| self.chosen == Some(vcpu));
        Grant::new(vcpu, slice_end.unwrap_or(Limit::NEVER))
    }

    /// Puts `order` into the order in which surplus time is offered: the chosen one, then the
    /// runnable by `rule`, then those that sleep. Only those in `moved` are at another place than
    /// by the last call, and are told where. Chooses one where none is; whether it did.
    pub(super) fn arrange(
        &mut self,
        rule: Rule,
        order: &mut Order,
        moved: &mut Moved,
        states: &mut States,
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
            order.sort(|vcpu| {
                let Some(state) = states.get_mut(vcpu) else { return Offer::new(vcpu) };
                let offer = self.offer(rule, state, stay, now);
                state.set_offer(offer);
                offer
            });
        } else {
            for vcpu in moved.some.drain(..) {
                let Some(state) = states.get_mut(vcpu) else { continue };
                let offer = self.offer(rule, state, stay, now);
                if offer.is_asleep() && state.offered == OfferRank::ASLEEP {
                    continue;
                }
                let before = state.offer();
                if !priority::serves_requests(state.role) && !offer.compare(&before).is_eq() {
                    order.put(&before, offer, &mut moved.edits);
                    state.set_offer(offer);
                }
            }
        }
        if self.chosen.is_some() {
            return false;
        }
        let first = order.runnable().next();
        if let Some(state) = first.and_then(|vcpu| states.get_mut(vcpu)) {
            self.choose(Some(state.id));
            self.arranged[0] = self.chosen;
            let offer = self.offer(rule, state, stay, now);
            state.set_offer(offer);
            order.offers[0] = offer;
        }
        self.chosen.is_some()
    }

    /// Where `state` stands by what is known of it.
    fn offer(&self, rule: Rule, state: &State, stay: Option<VcpuId>, now: Instant) -> Offer {
        let is = |vcpu: Option<VcpuId>| vcpu == Some(state.id);
        let is_chosen = is(self.chosen);
        if !state.runnable() && !is_chosen {
            return Offer { place: state.place, ..Offer::new(state.id) };
        }
        let rank = OfferRank::runnable(is_chosen, is(stay));
        Offer { vcpu: state.id, place: state.place, rank, measure: rule.measure(state, now) }
    }
}

impl State {
    /// Where it stands in the order; its place on the foreground list is as it was then, since a
    /// change of places puts all in order anew.
    fn offer(&self) -> Offer {
        Offer { vcpu: self.id, place: self.place, rank: self.offered, measure: self.measure }
    }
    /// It stands by `offer` from now on.
    fn set_offer(&mut self, offer: Offer) {
        self.offered = offer.rank;
        if !offer.is_asleep() {
            self.measure = offer.measure;
        }
    }
}

/// The turns of `slice` that follow each other by the fair rule where nothing wakes or blocks:
/// first what is left of the chosen one's. All but the last may end silently.
///
/// A turn that a budget interrupts goes on after it, until the next decision.
pub(super) fn turns(
    order: &Order,
    interval: &Interval,
    slice: Duration,
    states: &States,
) -> Vec<Grant> {
    let runnable = order.runnable().filter_map(|vcpu| states.get(vcpu));
    // What each has had after the turns so far, by the rule and by its meter.
    let mut waiting: Vec<_> = runnable.map(|it| (it.bgt, it.urgency(), it.background)).collect();
    let count = ahead::TURNS.min(ahead::BACKGROUND.saturating_sub(order.len()));
    let mut turns = Vec::with_capacity(count);
    let first = waiting.iter().position(|(_, (_, vcpu), _)| Some(*vcpu) == interval.chosen);
    let mut next = first;
    while turns.len() < count
        && let Some(place) = next
    {
        let (bgt, (_, vcpu), meter) = &mut waiting[place];
        let more = match interval.slice_end {
            Some(Limit(end)) if turns.is_empty() => end.saturating_sub(*meter),
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
