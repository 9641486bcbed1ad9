//! The tasks of the sets: their jobs and budgets, and how they come, change and go.

use super::hierarchy::Home;
use super::offline::{Item, density};
use super::{Class, Member, Qps, Seat, Set};
use crate::parts::table::Use;
use crate::parts::{fluid, jobs};
use alloc::format;
use alloc::sync::Arc;
use maracas_core::{CoreId, Duration, Instant, Job, Vcpu, VcpuId};

/// A task and its present job, which is the last one released. It is active from the job's release
/// to its deadline, whether the job is complete or not. An earlier job that is late keeps its own
/// deadline while it has budget; what overran goes on with the present job's deadline and budget.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) set: usize,
    /// In which class of its set it is.
    pub(super) class: Class,
    pub(super) release: Instant,
    pub(super) deadline: Instant,
    /// The deadline of an earlier job that is not complete, and where its budget ends.
    late: Option<(Instant, Duration)>,
    /// Jobs below these indexes are released and complete. A completion may be reported before its
    /// release.
    released: u32,
    completed: u32,
    budget: Duration,
    used: Duration,
    /// The last release before which all jobs were complete.
    opened: Instant,
    /// Up to where its meter may run.
    pub(super) until: Duration,
    /// The deadline by which it stands in its set's queue.
    pub(super) queued: Option<Instant>,
    /// Whether it stands in the list of changed tasks.
    pub(super) changed: bool,
}

impl Task {
    pub(super) const fn new(vcpu: &Vcpu, set: usize) -> Self {
        Self {
            set,
            class: Class::A,
            release: Instant::ZERO,
            deadline: Instant::ZERO,
            late: None,
            released: 0,
            completed: 0,
            budget: vcpu.reservation.budget,
            used: Duration::ZERO,
            opened: Instant::ZERO,
            until: Duration::ZERO,
            queued: None,
            changed: false,
        }
    }
    const fn pending(&self) -> bool {
        self.completed < self.released
    }
    /// A job of C: what earlier jobs did not need is lost, what they took too much is paid back.
    pub(super) fn release(&mut self, job: &Job, precise: bool) {
        let pending = self.pending();
        if pending && self.late.is_none() && self.used < self.until {
            self.late = Some((self.deadline, self.until));
        }
        if !pending {
            self.opened = job.release;
        }
        if precise {
            let spent = if pending { self.until } else { self.until.min(self.used) };
            self.until = spent + self.budget;
        } else {
            self.until = Duration::MAX;
        }
        self.released = self.released.max(job.id.index + 1);
        (self.release, self.deadline) = (job.release, job.deadline);
    }
    pub(super) fn complete(&mut self, index: u32) {
        self.completed = self.completed.max(index + 1);
        self.late = None;
    }
    /// Charges a segment that ended at `to`; whether its standing in its set's queue or its grant
    /// changed. Where it is reported after a later job's release, that job does not pay for it.
    pub(super) fn charge(&mut self, to: Instant, service: Duration) -> bool {
        // Nearly always one job is pending and has budget left, or is complete.
        let stands = !self.pending() | (self.used + service < self.until);
        if self.late.is_none() && to > self.opened && stands {
            self.used += service;
            return false;
        }
        let before = (self.wanted(true), self.until);
        self.used += service;
        if to <= self.opened {
            self.until += service;
        }
        before != (self.wanted(true), self.until)
    }
    /// Whether a job is pending that has used up its budget, where jobs are cut.
    pub(super) fn is_spent(&self) -> bool {
        self.pending() && self.used >= self.until
    }
    /// The deadline by which it must stand in its set's queue.
    pub(super) fn wanted(&self, precise: bool) -> Option<Instant> {
        let may_run = self.pending() && !(precise && self.is_spent());
        let late = self.late.filter(|(_, until)| self.used < *until);
        may_run.then_some(late.map_or(self.deadline, |(deadline, _)| deadline))
    }
}

/// Whether the table would not refuse the reservation for its form.
fn well_formed(vcpu: &Vcpu) -> bool {
    let r = &vcpu.reservation;
    !r.budget.is_zero() && r.budget <= r.deadline && r.deadline <= r.period
}

impl Qps {
    /// The set of a core.
    fn set(&self, core: CoreId) -> &Set {
        let Seat { hierarchy, set } = self.seats[usize::from(core.0)];
        &self.hierarchies.list[hierarchy].sets[set]
    }
    fn set_mut(&mut self, core: CoreId) -> &mut Set {
        let Seat { hierarchy, set } = self.seats[usize::from(core.0)];
        &mut self.hierarchies.list[hierarchy].sets[set]
    }
    /// The cores, each of which has a set.
    fn cores(&self) -> impl Iterator<Item = CoreId> + use<> {
        (0..self.seats.len() as u16).map(CoreId)
    }

    /// Admits a task into the first minor set where it fits.
    #[cold] // Registers and stack of it are not to be paid for by events of jobs.
    pub(super) fn arrive(&mut self, vcpu: &Vcpu, at: Instant) {
        if let Some(reason) = jobs::objection(vcpu) {
            return self.table.refuse(vcpu.id, reason);
        }
        let vcpu = &fluid::dense(vcpu);
        if !well_formed(vcpu) {
            _ = self.table.arrive(vcpu, at);
            return;
        }
        let rate = self.grid.up(density(vcpu));
        self.holds.expire(at);
        let Some(core) = self.cores().find(|core| self.has_room(*core, rate)) else {
            let (id, budget, span) = (vcpu.id, vcpu.reservation.budget, vcpu.reservation.deadline);
            let has_room = |set: &Set| set.excess == 0 && set.rate + rate <= self.grid.capacity;
            let later = self.cores().find(|core| has_room(self.set(*core)));
            let way_out = match later {
                Some(core) => {
                    let free = self.holds.on(core).map(|hold| hold.until).max();
                    let free = free.unwrap_or(at);
                    format!("what others left of {core} is free at {free}; ask again then")
                }
                None => {
                    "sets are packed before the start only; let it be there from the start".into()
                }
            };
            let reason =
                format!("{id} ({budget} every {span}) fits on no core beside its set; {way_out}");
            return self.table.refuse(id, reason);
        };
        if self.table.arrive(vcpu, at).is_some() {
            let Seat { hierarchy, set } = self.seats[usize::from(core.0)];
            let own = &mut self.hierarchies.list[hierarchy];
            let slot = own.add(Task::new(vcpu, set));
            own.sets[set].members.push(Member { item: Item::Task(vcpu.id), slot, rate });
            own.sets[set].rate += rate;
            let homes = Arc::make_mut(&mut self.hierarchies.homes);
            homes.insert(vcpu.id, Home { hierarchy, slot });
        }
    }

    /// Whether the set of a core is minor and stays so with `rate` more, beside what is held of the
    /// core.
    fn has_room(&self, core: CoreId, rate: u64) -> bool {
        let own = self.set(core);
        let held = self.holds.on(core).map(|hold| {
            let there = own.members.iter().find(|member| member.item == Item::Task(hold.vcpu.id));
            // A task that changed counts as a member already.
            self.grid.up(density(&hold.vcpu)).saturating_sub(there.map_or(0, |member| member.rate))
        });
        own.excess == 0 && own.rate + held.sum::<u64>() + rate <= self.grid.capacity
    }

    /// Gives a task of a minor set another reservation, where there is room for the greater of the
    /// old and the new one.
    pub(super) fn alter(&mut self, vcpu: &Vcpu, at: Instant) {
        let id = vcpu.id;
        let vcpu = &fluid::dense(vcpu);
        let home = self.hierarchies.homes.get(id).copied();
        let known = home.and_then(|home| {
            let own = &self.hierarchies.list[home.hierarchy];
            own.task(home.slot).map(|task| (home, own.sets[task.set].core, task.deadline))
        });
        let Some((home, core, deadline)) = known.filter(|_| well_formed(vcpu)) else {
            // The table says why not.
            _ = self.table.change(vcpu, at);
            return;
        };
        let rate = self.grid.up(density(vcpu));
        let places = self.set(core).members.iter();
        let place = places.take_while(|member| member.item != Item::Task(id)).count();
        let old = self.set(core).members[place].rate;
        self.holds.expire(at);
        if !self.has_room(core, rate.saturating_sub(old)) {
            let reason = format!(
                "{id} cannot change to {} every {}: the set of {core} has no room, and sets are \
                 packed before the start only; start anew with the change",
                vcpu.reservation.budget, vcpu.reservation.deadline
            );
            return self.table.refuse(id, reason);
        }
        let had = self.table.get(id).cloned();
        // The sets hold what counts; the table asks for U at most m only.
        if self.table.change(vcpu, at) {
            let own = self.set_mut(core);
            own.members[place].rate = rate;
            own.rate = own.rate - old + rate;
            let had = had.filter(|_| rate < old && at < deadline);
            let holds = self.holds.on(core).any(|hold| hold.vcpu.id == id);
            if let Some(had) = had.filter(|_| !holds) {
                self.holds.until_deadline(core, had, deadline);
            }
            let budget = vcpu.reservation.budget;
            self.hierarchies.list[home.hierarchy].change(id, home.slot, |task| {
                task.budget = budget;
                true
            });
            self.note(home.hierarchy);
        }
    }

    /// Takes a task out of its set. Its rate is free once its last job's deadline has passed; a
    /// major set keeps it, and is never in QPS mode again.
    #[cold]
    pub(super) fn leave(&mut self, vcpu: VcpuId, at: Instant) {
        let had = self.table.get(vcpu).cloned();
        self.table.leave(vcpu, at, Use::NONE);
        self.holds.expire(at);
        let home = Arc::make_mut(&mut self.hierarchies.homes).remove(vcpu);
        let Some(Home { hierarchy, slot }) = home else { return };
        let its = &mut self.hierarchies.list[hierarchy];
        let Some(mut task) = its.remove(vcpu, slot) else { return };
        its.agenda.touch(task.set);
        let own = &mut its.sets[task.set];
        let gone = (Item::Task(vcpu), task.class, task.until);
        own.news.add_if(own.queue.requeue(gone, &mut task.queued, None));
        if own.excess == 0
            && let Some(place) = own.members.iter().position(|m| m.item == Item::Task(vcpu))
        {
            let Member { rate, .. } = own.members.remove(place);
            own.rate -= rate;
            // Where it changed of late, what counted since counts on.
            let more = self.holds.on(own.core).find(|hold| hold.vcpu.id == vcpu);
            let had = more.map(|hold| hold.vcpu.clone()).or(had);
            self.holds.forget(own.core, vcpu);
            if let Some(had) = had.filter(|_| at < task.deadline) {
                self.holds.until_deadline(own.core, had, task.deadline);
            }
        }
        self.note(hierarchy);
    }
}
