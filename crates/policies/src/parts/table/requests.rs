//! What comes, leaves and changes while the system runs: judged beside what others still hold
//! ([`holds`](crate::parts::holds)), and made to wait where only that is in the way.

use super::{Family, Table};
use crate::parts::{bounds, priority};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use maracas_core::admission::NotAdmitted;
use maracas_core::{CoreId, Instant, Vcpu, VcpuId};

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct Request {
    vcpu: Vcpu,
    is_change: bool,
    /// When a change that waits for its core to rest is refused.
    due: Instant,
}

/// What a policy knows of a VCPU that leaves or changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    /// In deadline order: the deadline of its last released job. Else when what it used of its
    /// budget will have come back.
    pub(crate) until: Instant,
    /// Whether its core rests and it has nothing pending.
    pub(crate) at_rest: bool,
}

impl Use {
    /// Nothing is in use.
    pub(crate) const NONE: Self = Self { until: Instant::ZERO, at_rest: false };
}

/// A request that waited and was granted.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) vcpu: Vcpu,
    pub(crate) core: CoreId,
    pub(crate) is_change: bool,
}

/// What came of asking.
enum Answer {
    Yes(CoreId),
    No(NotAdmitted),
    Waits,
}

impl Table {
    /// Whether nothing waits and nothing is held.
    pub(crate) const fn is_settled(&self) -> bool {
        self.holds.is_empty() && self.requests.is_empty() && self.postponed.is_empty()
    }
    /// When a request may be answered that is not yet.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        if self.postponed.is_empty() && self.requests.is_empty() {
            return Instant::NEVER;
        }
        let postponed = self.postponed.iter().map(|(at, ..)| *at).min().unwrap_or(Instant::NEVER);
        let due = self.requests.iter().map(|request| request.due).min();
        due.map_or(postponed, |due| postponed.min(due).min(self.holds.next()))
    }

    /// Answers [`maracas_core::Event::Arrived`], which came at `at`; the core where admitted. Where
    /// only what others hold is in the way, [`Table::retry`] answers later.
    pub(crate) fn arrive(&mut self, vcpu: &Vcpu, at: Instant) -> Option<CoreId> {
        self.holds.expire(at);
        if self.requests.iter().any(|request| request.vcpu.id == vcpu.id) {
            self.refuse(vcpu.id, format!("{} has asked already and waits", vcpu.id));
            return None;
        }
        if self.test.is_of_one_set() && self.has_shrunk {
            self.refuse(vcpu.id, no_exchange("nothing may come after a leave"));
            return None;
        }
        let answer = self.try_arrival(vcpu);
        self.conclude(vcpu, false, Instant::NEVER, answer)
    }
    /// The answer to `vcpu` that is owed is given at `from`: it counts already, and begins then.
    pub(crate) fn postpone(&mut self, vcpu: VcpuId, from: Instant) {
        if let Some(place) = self.verdicts.iter().rposition(|(id, _)| *id == vcpu) {
            let (id, verdict) = self.verdicts.remove(place);
            self.postponed.push((from, id, verdict));
        }
    }
    /// Forgets `vcpu`, which left at `at`; the core where it was.
    pub(crate) fn leave(&mut self, vcpu: VcpuId, at: Instant, used: Use) -> Option<CoreId> {
        self.requests.retain(|request| request.vcpu.id != vcpu);
        self.postponed.retain(|(_, id, _)| *id != vcpu);
        let (list, place) = self.find(vcpu)?;
        self.has_shrunk = true;
        let mut gone = self.take(list, place);
        self.note_home(vcpu, None);
        let core = CoreId(list as u16);
        self.holds.expire(at);
        if let Some(more) = self.holds.on(core).find(|hold| hold.vcpu.id == vcpu) {
            // It changed of late; what counted since counts on.
            gone = more.vcpu.clone();
        }
        self.holds.forget(core, vcpu);
        self.hold(core, gone, at, used.until);
        Some(core)
    }
    /// `vcpu`, which does not count on `core` any more as it did up to `at`, holds what it had.
    pub(crate) fn hold(&mut self, core: CoreId, vcpu: Vcpu, at: Instant, until: Instant) {
        self.holds.expire(at);
        if self.family != Family::FixedPriority {
            if until > at {
                self.holds.until_deadline(core, vcpu, until);
            }
            return;
        }
        let here = self.on(core).iter().filter(|vcpu| !priority::serves_requests(vcpu.role));
        let periods = here.chain([&vcpu]).map(|vcpu| vcpu.reservation.period);
        let longest = periods.max().unwrap_or_default();
        self.holds.until_windows_close(core, vcpu, at, until, longest);
    }
    /// No VCPU on `core` has anything to do at `at` that was promised.
    pub(crate) fn rest(&mut self, core: CoreId, at: Instant) {
        self.holds.rest(core);
        self.rested[core.0 as usize] = Some(at);
    }
    /// Whether [`Table::rest`] was called for `core` at this instant.
    pub(crate) fn rests(&self, core: CoreId, at: Instant) -> bool {
        self.rested[core.0 as usize] == Some(at)
    }

    /// Notes [`maracas_core::Event::Changed`], which came at `at`. [`Table::retry`] answers: jobs
    /// that are released up to the answer have the old reservation.
    pub(crate) fn ask(&mut self, vcpu: &Vcpu, at: Instant) {
        if self.test.is_of_one_set() {
            self.refuse(vcpu.id, no_exchange("no reservation may change"));
            return;
        }
        let waits = |request: &Request| request.vcpu.id == vcpu.id;
        if let Some(place) = self.requests.iter().position(waits) {
            self.requests.remove(place);
            self.refuse(vcpu.id, format!("{} asked for something else since", vcpu.id));
        }
        let due = match (self.family, self.find(vcpu.id)) {
            (Family::FixedPriority, Some((list, _))) => {
                let here = self.bound[list].iter().chain([vcpu]);
                let longest = here.map(|vcpu| vcpu.reservation.period).max().unwrap_or_default();
                // A set that passed rests within each longest period, but for late decisions.
                at.saturating_add(longest * 2)
            }
            (_, _) => Instant::NEVER,
        };
        self.requests.push(Request { vcpu: vcpu.clone(), is_change: true, due });
    }

    /// Grants what can be granted by `now` of the requests that wait, and says what it granted.
    /// `used` says what is known of one that wants to change. Policies ask whenever they plan.
    pub(crate) fn retry(
        &mut self,
        now: Instant,
        used: impl Fn(&Self, VcpuId) -> Use,
    ) -> Vec<Granted> {
        self.answer_postponed(now);
        self.holds.expire(now);
        let mut granted = Vec::new();
        let mut before = usize::MAX;
        // What one gives up may be room for another.
        while granted.len() != before {
            before = granted.len();
            for Request { vcpu, is_change, due } in core::mem::take(&mut self.requests) {
                let answer = match is_change {
                    true => self.try_change(&vcpu, now, used(self, vcpu.id)),
                    false => self.try_arrival(&vcpu),
                };
                let answer = match answer {
                    Answer::Waits if due <= now => Answer::No(too_busy(&vcpu)),
                    Answer::Yes(_) | Answer::No(_) | Answer::Waits => answer,
                };
                if let Some(core) = self.conclude(&vcpu, is_change, due, answer) {
                    granted.push(Granted { vcpu, core, is_change });
                }
            }
        }
        granted
    }
    /// Owes the answers that were not to be given before `now`.
    pub(crate) fn answer_postponed(&mut self, now: Instant) {
        let (due, later): (Vec<_>, Vec<_>) =
            self.postponed.drain(..).partition(|(at, ..)| *at <= now);
        self.postponed = later;
        self.verdicts.extend(due.into_iter().map(|(_, vcpu, verdict)| (vcpu, verdict)));
    }

    fn try_arrival(&mut self, vcpu: &Vcpu) -> Answer {
        let refused = match self.admit(vcpu) {
            Ok(core) => {
                self.holds.joined(core, vcpu.reservation.period);
                return Answer::Yes(core);
            }
            Err(refused) => refused,
        };
        let is_new = self.malformed(vcpu).is_none() && self.find(vcpu.id).is_none();
        let later = is_new && self.when_free(|table| table.host(vcpu).is_some());
        if later { Answer::Waits } else { Answer::No(refused) }
    }

    /// Answers a request to change for a policy that keeps what is held by itself; true where
    /// granted.
    pub(crate) fn change(&mut self, vcpu: &Vcpu, at: Instant) -> bool {
        let answer = self.try_change(vcpu, at, Use { until: at, at_rest: true });
        self.conclude(vcpu, true, Instant::NEVER, answer).is_some()
    }
    fn try_change(&mut self, vcpu: &Vcpu, at: Instant, used: Use) -> Answer {
        let no = |reason| Answer::No(NotAdmitted { reason, closest: None });
        let Some((list, place)) = self.find(vcpu.id) else {
            return no(format!("{} is not admitted, so nothing can change", vcpu.id));
        };
        if let Some(reason) = self.malformed(vcpu) {
            return no(reason);
        }
        let old = self.take(list, place);
        let core = CoreId(list as u16);
        let new = self.owed(core, vcpu);
        let stays = vcpu.pinned.is_none_or(|pin| pin == core) && self.meets(core, vcpu);
        if !stays || !self.when_free(|table| table.accepts(list, &new)) {
            let refused = self.when_free(|table| table.not_admitted(vcpu, list));
            self.put(list, old);
            return Answer::No(refused);
        }
        let bridge = match used.at_rest {
            true => Some(new.clone()),
            false => self.bridge(core, &old, &new),
        };
        let fits = |both: &Vcpu| self.accepts(list, both) && self.accepts(list, &new);
        let Some(bridge) = bridge.filter(fits) else {
            self.put(list, old);
            return Answer::Waits;
        };
        self.holds.forget(core, vcpu.id);
        self.put(list, new.clone());
        if bridge.reservation != new.reservation {
            self.hold(core, bridge, at, used.until);
        }
        // Windows of what it had may be open, and those of what it has now may open before now.
        self.holds.joined(core, old.reservation.period.max(new.reservation.period));
        Answer::Yes(core)
    }

    /// What counts for a VCPU on `core` that had `old`, and maybe more before that, while work of
    /// it is under way and `new` sets in; `None` where the two may not follow each other.
    fn bridge(&self, core: CoreId, old: &Vcpu, new: &Vcpu) -> Option<Vcpu> {
        let own = self.holds.on(core).filter(|hold| hold.vcpu.id == new.id);
        own.map(|hold| &hold.vcpu).chain([old]).try_fold(new.clone(), |sum, had| {
            if self.family != Family::FixedPriority {
                let is_denser = bounds::density(had) > bounds::density(&sum);
                return Some(if is_denser { had.clone() } else { sum });
            }
            self.greatest(core, had, &sum)
        })
    }
    /// The greatest C of both with the shortest T and D, where no other stands between the two.
    fn greatest(&self, core: CoreId, a: &Vcpu, b: &Vcpu) -> Option<Vcpu> {
        let mut both = b.clone();
        let (r, other) = (&mut both.reservation, &a.reservation);
        r.budget = r.budget.max(other.budget);
        r.period = r.period.min(other.period);
        r.deadline = r.deadline.min(other.deadline);
        let span = |vcpu: &Vcpu| priority::of(vcpu).0;
        let (low, high) = (span(a).min(span(b)), span(a).max(span(b)));
        let held = self.holds.on(core).map(|hold| &hold.vcpu);
        let mut others = self.on(core).iter().chain(held).filter(|vcpu| vcpu.id != a.id);
        let between = |vcpu: &Vcpu| low <= span(vcpu) && span(vcpu) <= high;
        (r.budget <= r.deadline && (low == high || !others.any(between))).then_some(both)
    }

    /// What `ask` says if nothing were held.
    fn when_free<T>(&mut self, ask: impl FnOnce(&Self) -> T) -> T {
        let held = core::mem::take(&mut self.holds);
        let answer = ask(self);
        self.holds = held;
        answer
    }
    fn conclude(
        &mut self,
        vcpu: &Vcpu,
        is_change: bool,
        due: Instant,
        answer: Answer,
    ) -> Option<CoreId> {
        let verdict = match answer {
            Answer::Yes(core) => Ok(core),
            Answer::No(why) => Err(why),
            Answer::Waits => {
                self.requests.push(Request { vcpu: vcpu.clone(), is_change, due });
                return None;
            }
        };
        let core = verdict.as_ref().ok().copied();
        self.verdicts.push((vcpu.id, verdict.map(|list| self.first_core(list))));
        if !is_change {
            self.note_home(vcpu.id, core);
        }
        core
    }
}

/// Why a set is not exchanged for another, which [`Test::is_of_one_set`] explains.
///
/// [`Test::is_of_one_set`]: crate::parts::test::Test::is_of_one_set
fn no_exchange(what: &str) -> String {
    format!(
        "under this admission test {what} while the system runs; use admission = \"gfb\" (g-edf, \
         c-edf) or \"density\" (p-edf), or the policy p-rm"
    )
}

/// Why a change that waited for its core to rest is refused.
fn too_busy(vcpu: &Vcpu) -> NotAdmitted {
    let (id, r) = (vcpu.id, &vcpu.reservation);
    let reason = format!(
        "{id} cannot change to {} every {} while its core is never at rest: others would be late; \
         change its budget only, or let it leave and come again",
        r.budget, r.period
    );
    NotAdmitted { reason, closest: None }
}

#[cfg(test)]
mod tests;
