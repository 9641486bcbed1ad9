//! Slots: what may use the surplus time of which core.
//!
//! Each core has one slot, which a thread owns. A core is *open* while no thread at home there can
//! run on a budget; while it is not, its owner stands by. An owner is away while it sleeps or runs
//! on its budget; it keeps its slot as long as it has shares, so that sleep and budgets of every
//! period leave the threads where fairness put them, and what sleeps often and long need not win
//! its place back at each wake. Meanwhile a *guest* runs there: one that owns no slot, or stands by
//! at its own; or, where no such is, one from a slow core that would rather use a fast one than see
//! it idle. A guest's place can be changed for like an owner's, so that a claimant need not wait
//! for the owner to wake.

use super::estimate::{Class, MOST_CLASSES};
use super::rounds::{LEAD_BITS, fine};
use super::thread::Thread;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use maracas_core::{CoreId, CoreSet, Duration, Instant, VcpuId};

/// All threads, by id.
pub(super) type Threads = BTreeMap<VcpuId, Thread>;

/// Two threads on different classes change places when the gain for both together is twice this
/// part of a round, that is, when their leads differ by it: so no lead exceeds a round
/// (algorithms.md E.5). The greatest lead seen in 3000 random systems with this was 0.84 of a
/// round. It is the most: from one change to the next the part goes through the values from half of
/// this on, evenly and in no simple rhythm. With one part for all, programs with phases of some
/// rounds fell in step with their own changes, each class saw one of the phases only, and speedups
/// were a quarter off.
const BETWEEN_CLASSES: (u64, u64) = (4, 5);
/// The golden section of 2^64: its multiples, modulo 2^64, spread evenly however many are taken
/// (Knuth, The Art of Computer Programming 3, section 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// A thread that waits takes the slot of another that is ahead of it by this part of a round. Two
/// shares are then kept at once, and it takes a second change of places to keep the other: less
/// for each leaves room for both: the greatest lead seen was 0.92 of a round.
const WITH_WAITING: (u64, u64) = (1, 2);
/// A thing that may change soon is looked at again after this part of a round, and no sooner: 1 ms
/// of 30, what a decision with all meters read costs being some 20 us.
const SOON: u64 = 32;

/// One core's slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot {
    side: Class,
    owner: Option<VcpuId>,
    guest: Option<VcpuId>,
    /// Since when its owner is away or it has none; [`Instant::NEVER`] while it is there.
    vacant: Instant,
}

/// The slots of all cores.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    /// By core.
    slots: Vec<Slot>,
    /// By class, its speed in thousandths.
    pub(super) speeds: Vec<u32>,
    /// Cores where no thread can run on a budget, as of the last decision.
    open: CoreSet,
    round: Duration,
    /// How often threads changed places.
    pub(super) swaps: u64,
}

/// One that may own a slot: it has something to run, or sleeps and owns one. Whether it runs or
/// sleeps at this instant does not matter for what must own which slot: looks may come at the same
/// instant of every period.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    id: VcpuId,
    slot: Option<CoreId>,
    /// The class of that.
    side: Option<Class>,
    lead: [i64; MOST_CLASSES],
    share: [u64; MOST_CLASSES],
    /// How quickly its leads change, in ticks a tick with [`LEAD_BITS`].
    rate: [i64; MOST_CLASSES],
    pinned: Option<CoreId>,
}

impl Candidate {
    /// What a vector says of where it is and of `to`: the first less the second.
    fn over(vector: &[i64; MOST_CLASSES], from: Option<Class>, to: Option<Class>) -> i64 {
        let at = |side: Option<Class>| side.map_or(0, |side| vector[side]);
        at(from) - at(to)
    }
    /// Whether it may go where `other` is. A thread that has no share there does not want to; but
    /// where budgets take more of faster cores than their shares, others are too far ahead there.
    fn may_replace(&self, other: &Self, far: i64) -> bool {
        let is_ahead = |to: Class| self.lead[..to].iter().any(|lead| *lead >= far);
        let too_far = other.side.is_some_and(is_ahead);
        let wanted = other.side.is_none_or(|side| self.share[side] > 0);
        let may_sit = other.slot.is_none_or(|slot| self.pinned.is_none_or(|pin| pin == slot));
        (wanted || too_far) && may_sit
    }
}

/// A change of places that is due, or will be.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    pair: (usize, usize),
    /// How much more than needed it gains.
    excess: i64,
    rate: i64,
}

impl Slots {
    pub(super) fn new(sides: &[Class], speeds: Vec<u32>, round: Duration) -> Self {
        let slot =
            |side: &Class| Slot { side: *side, owner: None, guest: None, vacant: Instant::ZERO };
        let slots = sides.iter().map(slot).collect();
        Self { slots, speeds, open: CoreSet::EMPTY, round, swaps: 0 }
    }
    pub(super) fn side(&self, core: CoreId) -> Class {
        self.slots[core.0 as usize].side
    }
    /// How many cores of that class there are.
    pub(super) fn count(&self, side: Class) -> usize {
        self.slots.iter().filter(|slot| slot.side == side).count()
    }
    pub(super) fn cores(&self) -> impl Iterator<Item = CoreId> + use<> {
        (0..self.slots.len() as u16).map(CoreId)
    }
    /// Whether `vcpu` uses the surplus time of `core`, or stands by for it.
    pub(super) fn has(&self, core: CoreId, vcpu: VcpuId) -> bool {
        let Slot { owner, guest, .. } = self.slots[core.0 as usize];
        guest == Some(vcpu) || owner == Some(vcpu) && self.hosted_by(vcpu).is_none()
    }
    fn owned_by(&self, vcpu: VcpuId) -> Option<CoreId> {
        self.cores().find(|core| self.slots[core.0 as usize].owner == Some(vcpu))
    }
    /// Where `vcpu` is a guest.
    fn hosted_by(&self, vcpu: VcpuId) -> Option<CoreId> {
        self.cores().find(|core| self.slots[core.0 as usize].guest == Some(vcpu))
    }
    /// The slot that `vcpu` gives when it changes places: its own, or where it is a guest for want
    /// of one or to be on a fast core.
    fn stand_of(&self, vcpu: VcpuId) -> Option<CoreId> {
        let hosted = self.hosted_by(vcpu);
        let went_up = |own: &CoreId| hosted.is_some_and(|core| self.side(core) < self.side(*own));
        self.owned_by(vcpu).filter(|own| !went_up(own)).or(hosted)
    }
    /// Where `vcpu`, which wants surplus time, runs if no thread is on a budget there.
    fn place_of(&self, vcpu: VcpuId) -> Option<CoreId> {
        self.hosted_by(vcpu).or_else(|| self.owned_by(vcpu))
    }
    /// The class where `vcpu` runs on surplus time.
    fn runs_on(&self, vcpu: VcpuId) -> Option<Class> {
        let core = self.place_of(vcpu).filter(|core| self.open.contains(*core))?;
        Some(self.side(core))
    }
    /// Whether surplus time of `core` is for no thread.
    fn is_idle(&self, core: CoreId) -> bool {
        let Slot { guest, vacant, .. } = self.slots[core.0 as usize];
        self.open.contains(core) && guest.is_none() && vacant != Instant::NEVER
    }
    /// What is soon, for things that may change.
    pub(super) fn soon(&self) -> Duration {
        Duration::from_ticks((self.round.ticks() / SOON).max(1))
    }

    /// Takes slots from what cannot use them any more, and gives idle ones to what can. True where
    /// other cores are open than before.
    pub(super) fn fill(&mut self, threads: &mut Threads, now: Instant) -> bool {
        let before = self.open;
        self.open = self.cores().collect();
        for thread in threads.values().filter(|thread| thread.in_budget && thread.runnable()) {
            self.open.remove(thread.guarantee.as_ref().map_or(thread.place, |it| it.home));
        }
        for core in self.cores() {
            let slot = &mut self.slots[core.0 as usize];
            let may_sit = |id: &VcpuId| threads.get(id).is_some_and(|thread| thread.may_sit(core));
            slot.owner = slot.owner.filter(may_sit);
            slot.guest = slot.guest.filter(may_sit);
        }
        // Until nothing changes, so that asking once more changes nothing either: what goes back to
        // its own slot ends a visit there, and what is a guest elsewhere is away from its own.
        loop {
            while self.cores().any(|core| self.meet(core, threads, now)) {}
            let Some((id, core)) = self.best_idle(threads) else { break };
            let slot = &mut self.slots[core.0 as usize];
            slot.guest = Some(id);
            if slot.owner.is_none() && self.owned_by(id).is_none() {
                self.own(id, core);
            }
        }
        for thread in threads.values_mut() {
            let place = match (thread.wants_surplus(), &thread.guarantee) {
                (true, _) => self.place_of(thread.id),
                (false, None) => self.owned_by(thread.id),
                (false, Some(_)) => None,
            };
            thread.place = place.unwrap_or(thread.place);
        }
        self.open != before
    }

    /// Ends the visit on `core` where it has no reason any more, and notes whether its owner is
    /// there; true where anything changed.
    fn meet(&mut self, core: CoreId, threads: &Threads, now: Instant) -> bool {
        let Slot { side, owner, guest, vacant } = self.slots[core.0 as usize];
        let wants = |id: &VcpuId| threads.get(id).is_some_and(Thread::wants_surplus);
        let owner_is_there =
            owner.filter(wants).is_some_and(|owner| self.hosted_by(owner).is_none());
        let has_reason = |id: &VcpuId| {
            self.owned_by(*id).is_none_or(|own| !self.open.contains(own) || self.side(own) > side)
        };
        let stays = |id: &VcpuId| {
            self.open.contains(core) && !owner_is_there && wants(id) && has_reason(id)
        };
        let after = Slot {
            guest: guest.filter(stays),
            vacant: if owner_is_there { Instant::NEVER } else { vacant.min(now) },
            ..self.slots[core.0 as usize]
        };
        self.slots[core.0 as usize] = after;
        (after.guest, after.vacant) != (guest, vacant)
    }

    /// Which of those that do not run is to use which idle core: the one that is least ahead on its
    /// class; ties stay where they stand.
    fn best_idle(&self, threads: &Threads) -> Option<(VcpuId, CoreId)> {
        let idle: Vec<CoreId> = self.cores().filter(|core| self.is_idle(*core)).collect();
        if idle.is_empty() {
            return None;
        }
        let waits = |thread: &&Thread| thread.wants_surplus() && self.runs_on(thread.id).is_none();
        let pairs = threads.values().filter(waits).flat_map(|thread| {
            let cores = idle.iter().filter(|core| thread.may_sit(**core));
            cores.map(move |core| (thread, *core))
        });
        let order = |(thread, core): &(&Thread, CoreId)| {
            let side = self.side(*core);
            let unwanted = thread.account.share(side) == 0;
            let stays = thread.place == *core;
            (unwanted, thread.account.lead(side), !stays, side, thread.id, *core)
        };
        pairs.min_by_key(order).map(|(thread, core)| (thread.id, core))
    }

    /// `vcpu` owns the slot of `core` from now on, and no other.
    fn own(&mut self, vcpu: VcpuId, core: CoreId) {
        for slot in &mut self.slots {
            slot.owner = slot.owner.filter(|owner| *owner != vcpu);
            slot.guest = slot.guest.filter(|guest| *guest != vcpu);
        }
        let slot = &mut self.slots[core.0 as usize];
        (slot.owner, slot.guest, slot.vacant) = (Some(vcpu), None, Instant::NEVER);
    }

    /// Whether a thread waits that runs nowhere and stands by for nothing.
    pub(super) fn has_waiting(&self, threads: &Threads) -> bool {
        let waits = |thread: &Thread| thread.wants_surplus() && self.place_of(thread.id).is_none();
        threads.values().any(waits)
    }
    /// Lets owners of slower slots be guests on faster cores that are idle for some time; when to
    /// do so again.
    pub(super) fn ascend(&mut self, threads: &mut Threads, now: Instant) -> Instant {
        while let Some((vcpu, fast, due)) = self.ascent(threads) {
            if due > now {
                return due;
            }
            self.slots[fast.0 as usize].guest = Some(vcpu);
            self.fill(threads, now);
        }
        Instant::NEVER
    }
    /// The thread that is to leave a slow core for a fast one that is idle: what wants it and is
    /// least ahead. And when: a short sleep of a fast core's owner is not worth two migrations.
    fn ascent(&self, threads: &Threads) -> Option<(VcpuId, CoreId, Instant)> {
        let idle = |core: &CoreId| self.side(*core) + 1 < self.speeds.len() && self.is_idle(*core);
        let vacant = |core: &CoreId| self.slots[core.0 as usize].vacant;
        let fasts = self.cores().filter(idle);
        let pairs = fasts.flat_map(|fast| threads.values().map(move |thread| (thread, fast)));
        let may_go = |(thread, fast): &(&Thread, CoreId)| {
            let from = self.runs_on(thread.id).filter(|from| *from > self.side(*fast));
            thread.wants_surplus()
                && from.is_some()
                && self.hosted_by(thread.id).is_none()
                && thread.may_sit(*fast)
        };
        let order = |(thread, fast): &(&Thread, CoreId)| {
            let (account, to) = (&thread.account, self.side(*fast));
            let from = self.runs_on(thread.id).unwrap_or(to);
            let lead = account.lead(to) - account.lead(from);
            (vacant(fast), to, account.share(to) == 0, lead, thread.id, *fast)
        };
        let (thread, fast) = pairs.filter(may_go).min_by_key(order)?;
        Some((thread.id, fast, vacant(&fast).saturating_add(self.soon())))
    }
    /// The thread that was a guest for a whole round owns the slot of one that is gone or left out.
    fn settle_guests(&mut self, threads: &Threads, now: Instant) {
        for core in self.cores() {
            let Slot { owner, guest, vacant, .. } = self.slots[core.0 as usize];
            let owner = owner.and_then(|owner| threads.get(&owner));
            let is_free = owner.is_none_or(|owner| owner.account.is_left_out());
            let is_due = is_free && now.saturating_since(vacant) >= self.round;
            if let Some(guest) = guest.filter(|_| is_due) {
                self.own(guest, core);
            }
        }
    }

    /// Lets threads change places as their leads say; when to look again.
    pub(super) fn balance(&mut self, threads: &mut Threads, now: Instant) -> Instant {
        self.settle_guests(threads, now);
        // Each exchange lowers the sum of leads where threads sit by the threshold at least, so
        // this ends; as many as there are pairs at once are more than any real case needs.
        let mut candidates = self.candidates(threads);
        let mut pairs = self.exchanges(&candidates);
        for _ in 0..threads.len().pow(2) {
            let best = pairs.iter().max_by_key(|it| it.excess).filter(|best| best.excess >= 0);
            let Some(&Exchange { pair: (one, other), .. }) = best else { break };
            self.exchange(candidates[one], candidates[other]);
            candidates = self.candidates(threads);
            pairs = self.exchanges(&candidates);
        }
        // A thread that lost its slot to one that may sit nowhere else may take another that is
        // idle.
        let before = self.slots.clone();
        if self.fill(threads, now) || self.slots != before {
            candidates = self.candidates(threads);
            pairs = self.exchanges(&candidates);
        }
        let next = pairs.iter().filter(|it| it.rate > 0).map(|it| {
            Duration::from_ticks(it.excess.unsigned_abs().div_ceil(it.rate.unsigned_abs()))
        });
        // Rates are of the present: budgets and sleepers change them within a round.
        let next = next.min().map(|next| next.clamp(self.soon(), self.round));
        next.map_or(Instant::NEVER, |next| now.saturating_add(next))
    }

    fn exchange(&mut self, a: Candidate, b: Candidate) {
        self.swaps += 1;
        let owns = |one: &Candidate| one.slot.is_some() && self.owned_by(one.id) == one.slot;
        let owns = [owns(&b), owns(&a)];
        for slot in &mut self.slots {
            slot.owner = slot.owner.filter(|owner| *owner != a.id && *owner != b.id);
            slot.guest = slot.guest.filter(|guest| *guest != a.id && *guest != b.id);
        }
        for ((one, slot), owns) in [(a, b.slot), (b, a.slot)].into_iter().zip(owns) {
            let Some(core) = slot else { continue };
            let slot = &mut self.slots[core.0 as usize];
            if owns {
                (slot.owner, slot.guest) = (Some(one.id), None);
            } else {
                slot.guest = Some(one.id);
            }
        }
    }

    /// All pairs of which the first runs, and which may change places.
    fn exchanges(&self, candidates: &[Candidate]) -> Vec<Exchange> {
        let part = |(n, d): (u64, u64)| fine(self.round) / d as i64 * n as i64;
        let (far, waiting) = (part(BETWEEN_CLASSES), part(WITH_WAITING));
        let turn = self.swaps.wrapping_mul(GOLDEN) >> 56;
        let classes = far + far / 256 * turn as i64;
        let mut pairs = Vec::new();
        for (i, a) in candidates.iter().enumerate().filter(|(_, a)| a.side.is_some()) {
            for (j, b) in candidates.iter().enumerate() {
                let once = b.side.is_none() || i < j;
                let apart = once && a.side != b.side;
                if !apart || !a.may_replace(b, far) || !b.may_replace(a, far) {
                    continue;
                }
                let gain = |of: fn(&Candidate) -> &[i64; MOST_CLASSES]| {
                    Candidate::over(of(a), a.side, b.side) + Candidate::over(of(b), b.side, a.side)
                };
                let threshold = if b.side.is_some() { classes } else { waiting };
                let excess = gain(|it| &it.lead) - threshold.max(1);
                pairs.push(Exchange { pair: (i, j), excess, rate: gain(|it| &it.rate) });
            }
        }
        pairs
    }

    fn candidates(&self, threads: &Threads) -> Vec<Candidate> {
        let awake = || threads.values().filter(|thread| thread.runnable());
        let classes = core::array::from_fn::<Class, MOST_CLASSES, _>(|class| class);
        let claimed = classes.map(|side| {
            awake().map(|thread| u128::from(thread.account.share(side))).sum::<u128>().max(1)
        });
        let busy = classes.map(|side| {
            let runs = |core: &CoreId| !self.is_idle(*core);
            self.cores().filter(|core| self.side(*core) == side && runs(core)).count() as u128
        });
        let candidate = |thread: &Thread| {
            let slot = self.stand_of(thread.id);
            let side = slot.map(|core| self.side(core));
            let home = thread.guarantee.as_ref().filter(|_| thread.in_budget).map(|it| it.home);
            let runs_on = home.map(|core| self.side(core)).or_else(|| self.runs_on(thread.id));
            let share = classes.map(|side| thread.account.share(side));
            let rate = classes.map(|k| {
                let claim = if thread.runnable() { u128::from(share[k]) } else { 0 };
                // A division is dear, and most classes have no thread.
                let due = if claim == 0 { 0 } else { (busy[k] << LEAD_BITS) * claim / claimed[k] };
                i64::from(runs_on == Some(k)) * (1 << LEAD_BITS) - due as i64
            });
            let lead = classes.map(|side| thread.account.lead(side));
            Candidate { id: thread.id, slot, side, lead, share, rate, pinned: thread.pinned }
        };
        let has_part = |thread: &&Thread| {
            let owns = || self.owned_by(thread.id).is_some() && !thread.account.is_left_out();
            thread.runnable() || owns()
        };
        threads.values().filter(has_part).map(candidate).collect()
    }
}
