//! U-EDF: jobs in EDF order are allotted time on one core after the other, and wait there as under
//! EDF; optimal for sporadic tasks without being fair.
//!
//! # Paper
//! G. Nelissen, V. Berten, V. Nelis, J. Goossens, D. Milojevic. "U-EDF: An Unfair but Optimal
//! Multiprocessor Scheduling Algorithm for Sporadic Tasks." ECRTS 2012, DOI 10.1109/ECRTS.2012.36.
//! # Model
//! Periodic (with or without offsets) and sporadic tasks that do not suspend themselves, U <= m;
//! jobs may migrate at any instant. A task with a deadline before its period's end counts as a
//! sporadic one with that period.
//! # How it works
//! At every release, all tasks are put in the order of their deadlines d (a task without a job in
//! its period: d = now). On processor j = 1, 2, ... m a job is allotted as much of what it still
//! needs as lies free there before its deadline: `d - now`, less what more urgent tasks are
//! allotted there, less what their next jobs may need there from their own deadline on, less what
//! the job is allotted on the processors before. The next jobs of a task need its rate, on the
//! processors over which its rate lies when all rates stand one after the other in that order
//! (`reserve`). Between releases each processor in turn chooses the most urgent job that has an
//! allotment there and was not chosen by one before it (EDF-D). Processors are virtual: a job that
//! stays chosen keeps its core, others take their last one if it is free, else the lowest free one.
//! Equal deadlines: the lower id, in the allotment and in the choice.
//!
//! # Tasks that come, change and go
//! The paper's proof is of a fixed set of sporadic tasks. It needs of a task that its rate stays,
//! and that its jobs ask for no more than that rate from their release to their deadline and do
//! not overlap; it does not need that their lengths stay. So rates move between tasks in the only
//! way that the proof knows, by releases. Think of all that is free of the cores as one more task,
//! whose job needs nothing and is due last of all (it may as well be many tasks: in a row of tasks
//! with one deadline and complete jobs only the sum of the rates counts).
//! - *Who leaves* keeps its place and its rate until its deadline (a [`Placeholder`]), as a task
//!   that was done early. Then its rate goes to what is free, by releasing a job without work.
//! - *Who comes* takes its rate from what is free. It begins at the latest deadline of all that
//!   stand in the order (`joins_at`): from the request on it counts as a task whose job is due then
//!   and complete. Last in the order, it takes nothing of what others are allotted.
//! - *A smaller rate* sets in at the task's deadline, or with its next release, where the rest goes
//!   to what is free as that of one who leaves. The answer is given at once.
//! - *What a change adds* comes as a newcomer does, and waits with its answer. When it may begin,
//!   a job that needs nothing takes it to the deadline of the task, and they are one.
//!
//! What is off the grid (below) under a fixed set is so here too.
//! # Invariants
//! What is allotted to a job is what it still may use. No job is chosen twice.
//! # Where we differ from the paper
//! Allotments are whole ticks. Where periods, deadlines, offsets and sporadic releases are
//! multiples of the least common denominator of all rates, they are so by themselves and no job is
//! late. Elsewhere they are rounded up, and where nothing is left for a job's last ticks it gets
//! them where its rate ends. At 400 and more ticks a period that made no job late in 500 sets with
//! U = m over six hyperperiods. At 4 to 200 ticks full cores lose time in that way and jobs are
//! late by ever more in one of nine such sets; the statistics `squeezed jobs` and `late jobs` count
//! both. Where cores are not full, jobs are late by a tick at most. A job is cut at C and goes on
//! with the next job's budget (`enforcement`). Jobs are allotted time anew also where a late
//! machine left one without, and what is left of late jobs goes first.

mod requests;
#[cfg(test)]
mod tests;

use crate::parts::fluid::{self, ENFORCEMENT};
use crate::parts::jobs::{Backlog, ByVcpu};
use crate::parts::queue::{Key, Queue};
use crate::parts::table::{Table, Use};
use alloc::boxed::Box;
use alloc::vec::Vec;
use maracas_core::admission::Verdict;
use maracas_core::contract::{
    Claims, Entry, Grant, Limit, Mode, Needs, Statistic, no_service_vcpus,
};
use maracas_core::params::{ParamSpec, Params};
use maracas_core::{
    CoreId, CoreSet, Duration, Event, Instant, Job, Plan, Policy, Rate, System, Vcpu, VcpuId,
};

const PARAMS: &[ParamSpec] = &[ENFORCEMENT];
/// The tie value of a task in the order; those of placeholders are greater.
const OWN: u64 = 0;

pub(crate) const ENTRY: Entry = Entry {
    name: "u-edf",
    paper: "Nelissen, Berten, Nelis, Goossens and Milojevic, U-EDF: An Unfair but Optimal \
            Multiprocessor Scheduling Algorithm for Sporadic Tasks, ECRTS 2012",
    summary: "U-EDF: jobs by deadline are allotted time on one core after the other; optimal, also \
              for sporadic tasks",
    params: PARAMS,
    needs: Needs { jobs: true, ..Needs::BUDGETS },
    // Misses are excluded only where allotments are whole ticks: see the head of this file.
    claims: Claims { partitioned: false, work_conserving: false, no_miss_when_admitted: false },
    service_vcpus: no_service_vcpus,
    admit,
    fits: None,
    build,
};

fn admit(system: &System, _: &Params) -> Verdict {
    fluid::judged_by_density(system).1
}

fn build(system: &System, params: &Params) -> Result<Box<dyn Policy>, Verdict> {
    let (table, verdict) = fluid::judged_by_density(system);
    if !verdict.accepted() {
        return Err(verdict);
    }
    Ok(Box::new(UEdf::new(table, system, params)))
}

struct Task {
    backlog: Backlog,
    /// C of its last released job.
    budget: Duration,
    /// What it is promised, exactly, and in parts of `UEdf::whole`.
    exact: Rate,
    rate: u64,
    /// Its place in the order: the deadline of its last released job.
    key: Key,
    /// What it becomes, and from when on: up to then a placeholder has what that adds.
    grows: Option<(Instant, Vcpu)>,
    /// Its rate from its deadline on, where that is smaller.
    shrinks: Option<Rate>,
    core: Option<CoreId>,
    last: Option<CoreId>,
    /// Since when it stands on its core.
    since: Instant,
    /// Up to when its service was reported.
    reported: Instant,
    /// The processor for which it was chosen last, while that allotment lasts, and up to where its
    /// meter may run there.
    place: Option<usize>,
    until: Duration,
    /// The sum of its allotments, in ticks.
    allotted: u64,
    /// Whether it stands in `changed`.
    changed: bool,
}

impl Task {
    fn new(vcpu: &Vcpu, exact: Rate, from: Instant) -> Self {
        Self {
            backlog: Backlog::cut(vcpu),
            budget: vcpu.reservation.budget,
            exact,
            rate: 0,
            key: Key { deadline: from, tie: OWN, vcpu: vcpu.id },
            grows: None,
            shrinks: None,
            core: None,
            last: None,
            since: Instant::ZERO,
            reported: Instant::ZERO,
            place: None,
            until: Duration::ZERO,
            allotted: 0,
            changed: false,
        }
    }
    /// Whether a change was granted that has not set in.
    const fn is_changing(&self) -> bool {
        self.grows.is_some() || self.shrinks.is_some()
    }
    /// What of it counts if it leaves or changes: all, while any of it keeps its place.
    fn in_use(&self) -> Use {
        let grown = self.grows.as_ref().map_or(Instant::ZERO, |(from, _)| *from);
        Use { until: self.key.deadline.max(grown), at_rest: false }
    }
    fn is_pending(&self) -> bool {
        self.backlog.deadline().is_some()
    }
    /// What its meter reads by now: what was reported, and the time since then on its core, where
    /// its allotment is not spent before that is reported.
    fn reading(&self, now: Instant) -> Duration {
        let known = self.backlog.used();
        if self.core.is_none() {
            return known;
        }
        let running = known + now.saturating_since(self.since.max(self.reported));
        let unspent = self.until.saturating_sub(Duration::from_ticks(1));
        known.max(running.min(unspent))
    }
    /// What it may still use.
    fn left(&self, now: Instant) -> Duration {
        self.backlog.granted().saturating_sub(self.reading(now))
    }
    /// What it may still use for jobs before the last one released.
    fn late(&self, now: Instant) -> Duration {
        match self.backlog.deadline() {
            Some(deadline) if deadline < self.key.deadline => {
                self.left(now).saturating_sub(self.budget)
            }
            Some(_) | None => Duration::ZERO,
        }
    }
}

/// A rate that no job uses and that keeps its place in the order up to the deadline of its key:
/// that of a task that left, or what a change will add to one.
#[derive(Clone, Copy, Debug)]
struct Placeholder {
    key: Key,
    /// It is the difference of these, exactly, and in parts of `UEdf::whole`.
    from: Rate,
    to: Rate,
    rate: u64,
}

/// Time that is allotted to a job on one processor.
#[derive(Clone, Copy, Debug)]
struct Share {
    vcpu: VcpuId,
    left: u64,
}

/// What is free on a processor before a deadline, while tasks take their shares of it in turn.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// In parts of `UEdf::whole` of a tick, before the deadline `at`; below zero where more is
    /// taken than there is.
    free: i128,
    at: u64,
    /// By how much it grows a tick of a later deadline.
    growth: u64,
}

impl Room {
    /// What is free before `deadline`, which lies not before the last one asked for.
    fn before(&mut self, deadline: u64) -> i128 {
        self.free += i128::from(deadline - self.at) * i128::from(self.growth);
        self.at = deadline;
        self.free
    }
    /// Whether nothing is free, before any deadline to come.
    const fn is_full(&self) -> bool {
        self.growth == 0 && self.free <= 0
    }
}

/// `parts / whole`, rounded up; none where there are none.
fn ticks_up(parts: i128, whole: u64) -> u64 {
    match u64::try_from(parts) {
        Ok(parts) => parts.div_ceil(whole),
        Err(_) => u64::try_from(parts.max(0).unsigned_abs().div_ceil(u128::from(whole)))
            .unwrap_or(u64::MAX),
    }
}

#[derive(Default)]
struct Counts {
    allotments: u64,
    squeezed: u64,
    late: u64,
}

struct UEdf {
    table: Table,
    capacity: Rate,
    /// Whether jobs that used up C may use idle time.
    surplus: bool,
    /// A core, in parts of the rates' common denominator.
    whole: u64,
    tasks: ByVcpu<Task>,
    /// The tasks that ask to change.
    asked: Vec<Vcpu>,
    placeholders: Vec<Placeholder>,
    /// All tasks by the deadline of their last released job, and the placeholders.
    order: Queue,
    rooms: Vec<Room>,
    /// By processor, in the order of deadlines.
    shares: Vec<Vec<Share>>,
    /// By processor, what is chosen.
    chosen: Vec<Option<VcpuId>>,
    /// By core, what stands there.
    running: Vec<Option<VcpuId>>,
    /// By core, what may only use its idle time.
    idlers: Vec<Vec<Grant>>,
    /// Whether anything was released since the last allotment.
    stale: bool,
    /// Tasks of which something changed since the last decision.
    changed: Vec<VcpuId>,
    counts: Counts,
}

impl UEdf {
    fn new(table: Table, system: &System, params: &Params) -> Self {
        let mut own = Self {
            table,
            capacity: system.capacity,
            surplus: params.choice(&ENFORCEMENT) == "surplus",
            whole: 1,
            tasks: ByVcpu::default(),
            asked: Vec::new(),
            placeholders: Vec::new(),
            order: Queue::default(),
            rooms: Vec::new(),
            shares: alloc::vec![Vec::new(); system.cores.len()],
            chosen: alloc::vec![None; system.cores.len()],
            running: alloc::vec![None; system.cores.len()],
            idlers: alloc::vec![Vec::new(); system.cores.len()],
            stale: true,
            changed: Vec::new(),
            counts: Counts::default(),
        };
        system.vcpus.iter().for_each(|vcpu| own.insert(vcpu, Instant::ZERO));
        own.rescale();
        own
    }

    /// What a task is promised of a core.
    fn rate(&self, vcpu: &Vcpu) -> Rate {
        let r = fluid::dense(vcpu).reservation;
        Rate::of(fluid::inflated(r.budget, self.capacity).min(r.period), r.period)
    }
    fn insert(&mut self, vcpu: &Vcpu, from: Instant) {
        let task = Task::new(vcpu, self.rate(vcpu), from);
        self.order.insert(task.key);
        self.tasks.insert(vcpu.id, task);
    }
    #[inline]
    fn change(&mut self, vcpu: VcpuId, act: impl FnOnce(&mut Task)) {
        let Some(task) = self.tasks.get_mut(vcpu) else { return };
        act(task);
        if !task.changed {
            task.changed = true;
            self.changed.push(vcpu);
        }
    }

    fn release(&mut self, job: &Job) {
        self.shrink(job.id.vcpu, job.release);
        let Some(task) = self.tasks.get_mut(job.id.vcpu) else { return };
        self.order.remove(task.key);
        task.key.deadline = task.key.deadline.max(job.deadline);
        self.order.insert(task.key);
        self.stale = true;
        self.change(job.id.vcpu, |task| {
            task.backlog.release(job);
            task.budget = task.backlog.budget();
        });
    }
    /// What stands in the order without a task to it.
    fn placeholder(&self, key: Key) -> Option<&Placeholder> {
        self.placeholders.iter().find(|one| one.key == key)
    }
}

impl Policy for UEdf {
    fn on_event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Released(job) => self.release(job),
            Event::Completed(id) => self.change(id.vcpu, |task| task.backlog.complete(*id)),
            Event::Ran(segment) if segment.mode == Mode::Foreground => {
                self.change(segment.vcpu, |task| {
                    task.backlog.charge_segment(segment.to, segment.usage.service);
                    task.reported = task.reported.max(segment.to);
                });
            }
            Event::Arrived(vcpu) => self.arrive(vcpu, at),
            Event::Changed(vcpu) => self.asked.push(vcpu.clone()),
            Event::Left(vcpu) => self.leave(*vcpu, at),
            Event::Ran(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
    }

    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        if !self.table.is_settled() || !self.asked.is_empty() {
            self.retry(now);
        }
        self.table.reply(plan);
        while let Some(vcpu) = self.changed.pop() {
            let Some(task) = self.tasks.get_mut(vcpu) else { continue };
            task.changed = false;
            let reported = task.backlog.used();
            self.charge(vcpu, reported);
            let Some(task) = self.tasks.get(vcpu) else { continue };
            self.stale |= task.is_pending() && task.allotted == 0;
            self.note_idler(vcpu);
        }
        if core::mem::take(&mut self.stale) {
            self.allot(now);
        }
        self.choose(now);
        self.assign_cores(now);
        self.write_run_queues(plan);
        plan.wake = self.table.next().min(self.next_to_ask());
    }

    fn statistics(&self) -> Vec<Statistic> {
        let statistic = |name, value| Statistic { name, core: None, vcpu: None, value };
        alloc::vec![
            statistic("allotments", self.counts.allotments),
            statistic("squeezed jobs", self.counts.squeezed),
            statistic("late jobs", self.counts.late),
        ]
    }
}

impl UEdf {
    fn too_heavy(&self, vcpu: &Vcpu) -> Option<alloc::string::String> {
        fluid::too_heavy(vcpu.id, &vcpu.reservation, self.capacity)
    }

    /// Takes from the allotment for which a task was chosen last what its meter says.
    fn charge(&mut self, vcpu: VcpuId, reading: Duration) {
        let Some(task) = self.tasks.get_mut(vcpu) else { return };
        let Some(place) = task.place else { return };
        let own = |share: &&mut Share| share.vcpu == vcpu && share.left > 0;
        let Some(share) = self.shares[place].iter_mut().find(own) else { return };
        let left = task.until.saturating_sub(reading).ticks().min(share.left);
        task.allotted -= share.left - left;
        share.left = left;
        if left == 0 {
            task.place = None;
        }
    }

    /// Allots to all jobs what they still may use, the most urgent first.
    fn allot(&mut self, now: Instant) {
        self.counts.allotments += 1;
        let (now_ticks, whole) = (now.ticks(), self.whole);
        let empty = Room { free: 0, at: now_ticks, growth: whole };
        self.rooms.clear();
        self.rooms.resize(self.shares.len(), empty);
        self.shares.iter_mut().for_each(Vec::clear);
        self.allot_late(now);
        // Processors before this one have no time left, before any deadline.
        let mut first = 0;
        // Where on the processors the rates of the tasks so far end.
        let mut end = 0;
        for key in self.order.iter() {
            let deadline = key.deadline.ticks().max(now_ticks);
            if key.tie != OWN {
                let rate = self.placeholder(key).map_or(0, |one| one.rate);
                reserve(&mut self.rooms, whole, deadline, end, rate);
                end += u128::from(rate);
                continue;
            }
            let Some(task) = self.tasks.get_mut(key.vcpu) else { continue };
            let mut wanted = if task.is_pending() { task.left(now).ticks() } else { 0 };
            wanted -= task.allotted;
            task.allotted += wanted;
            let mut before = 0;
            for (room, shares) in self.rooms.iter_mut().zip(&mut self.shares).skip(first) {
                if wanted == 0 {
                    break;
                }
                let free = ticks_up(room.before(deadline), whole).saturating_sub(before);
                let left = free.min(wanted);
                if left > 0 {
                    shares.push(Share { vcpu: key.vcpu, left });
                    room.free -= i128::from(left) * i128::from(whole);
                    (wanted, before) = (wanted - left, before + left);
                }
            }
            let last = self.rooms.len() - 1;
            if wanted > 0 {
                self.counts.squeezed += 1;
                let place =
                    (((end + u128::from(task.rate)) / u128::from(whole)) as usize).min(last);
                squeeze(&mut self.shares[place], Share { vcpu: key.vcpu, left: wanted });
                self.rooms[place].free -= i128::from(wanted) * i128::from(whole);
            }
            reserve(&mut self.rooms, whole, deadline, end, task.rate);
            end += u128::from(task.rate);
            while first < last && self.rooms[first].is_full() {
                first += 1;
            }
        }
    }

    /// What is left of late jobs goes first, each where its rate begins.
    fn allot_late(&mut self, now: Instant) {
        let whole = self.whole;
        let mut end = 0;
        for key in self.order.iter() {
            if key.tie != OWN {
                end += u128::from(self.placeholder(key).map_or(0, |one| one.rate));
                continue;
            }
            let Some(task) = self.tasks.get_mut(key.vcpu) else { continue };
            (task.place, task.allotted) = (None, task.late(now).ticks());
            if task.allotted > 0 {
                self.counts.late += 1;
                let place = ((end / u128::from(whole)) as usize).min(self.rooms.len() - 1);
                self.shares[place].push(Share { vcpu: key.vcpu, left: task.allotted });
                self.rooms[place].free -= i128::from(task.allotted) * i128::from(whole);
            }
            end += u128::from(task.rate);
        }
    }

    /// EDF-D: each processor takes the most urgent job that has an allotment there and that none
    /// before it took.
    fn choose(&mut self, now: Instant) {
        for place in 0..self.shares.len() {
            let (before, rest) = self.chosen.split_at_mut(place);
            let fits = |share: &&Share| {
                share.left > 0
                    && !before.contains(&Some(share.vcpu))
                    && self.tasks.get(share.vcpu).is_some_and(Task::is_pending)
            };
            let share = self.shares[place].iter().find(fits).copied();
            rest[0] = share.map(|share| share.vcpu);
            let Some(share) = share else { continue };
            let Some(task) = self.tasks.get(share.vcpu) else { continue };
            if task.place == Some(place) {
                continue;
            }
            let reading = task.reading(now);
            self.charge(share.vcpu, reading);
            if let Some(task) = self.tasks.get_mut(share.vcpu) {
                task.place = Some(place);
                task.until = reading + Duration::from_ticks(share.left);
            }
        }
    }

    /// Chosen jobs keep their cores; the others take their last one, else any.
    fn assign_cores(&mut self, now: Instant) {
        let mut free = CoreSet::EMPTY;
        for (core, slot) in (0..).map(CoreId).zip(&mut self.running) {
            let gone = slot.take_if(|vcpu| !self.chosen.contains(&Some(*vcpu)));
            if let Some(task) = gone.and_then(|vcpu| self.tasks.get_mut(vcpu)) {
                task.core = None;
            }
            if slot.is_none() {
                free.insert(core);
            }
        }
        for any in [false, true] {
            for vcpu in self.chosen.iter().flatten() {
                let Some(task) = self.tasks.get_mut(*vcpu) else { continue };
                let last = task.last.filter(|core| free.contains(*core));
                let core = if any { free.iter().next() } else { last };
                let Some(core) = core.filter(|_| task.core.is_none()) else { continue };
                free.remove(core);
                task.since = now;
                (task.core, task.last) = (Some(core), Some(core));
                self.running[core.0 as usize] = Some(*vcpu);
            }
        }
    }

    /// A job that used up C may go on where the core on which it ran last is idle.
    fn note_idler(&mut self, vcpu: VcpuId) {
        let Some(task) = self.tasks.get(vcpu).filter(|_| self.surplus) else { return };
        let core = task.last.unwrap_or_default();
        let idlers = &mut self.idlers[core.0 as usize];
        let place = idlers.iter().position(|grant| grant.vcpu == vcpu);
        match (place, task.backlog.is_spent()) {
            (None, true) => idlers.push(Grant::new(vcpu, Limit::NEVER)),
            (Some(place), false) => _ = idlers.remove(place),
            (None, false) | (Some(_), true) => {}
        }
    }

    fn write_run_queues(&self, plan: &mut Plan) {
        for (place, slot) in self.running.iter().enumerate() {
            let core = CoreId(place as u16);
            let task = slot.and_then(|vcpu| self.tasks.get(vcpu));
            let grant = task.map(|task| Grant::new(task.key.vcpu, Limit(task.until)));
            let run_queue = plan.run_queue(core);
            if run_queue.foreground.first() != grant.as_ref() {
                let run_queue = &mut plan.run_queue_mut(core).foreground;
                run_queue.clear();
                run_queue.extend(grant);
            }
            if plan.run_queue(core).background != self.idlers[place][..] {
                let background = &mut plan.run_queue_mut(core).background;
                background.clear();
                background.extend(self.idlers[place].iter().copied());
            }
        }
    }
}

/// Adds what no processor has free to a job's allotment on one, in the order of deadlines.
fn squeeze(shares: &mut Vec<Share>, more: Share) {
    match shares.last_mut().filter(|share| share.vcpu == more.vcpu) {
        Some(share) => share.left += more.left,
        None => shares.push(more),
    }
}

/// Sets aside what the next jobs of a task with this rate may need from `deadline` on, where its
/// rate lies if the rates before it reach to `end`.
fn reserve(rooms: &mut [Room], whole: u64, deadline: u64, end: u128, rate: u64) {
    let one = u128::from(whole);
    let (from, to) = (end, end + u128::from(rate));
    let first = (from / one) as usize;
    for (place, room) in (first as u128..).zip(rooms.iter_mut().skip(first)) {
        if to <= place * one {
            break;
        }
        let part = to.min((place + 1) * one) - from.max(place * one);
        room.before(deadline);
        room.growth = room.growth.saturating_sub(part as u64);
    }
}
