//! What one core decides by itself: its run queue, kept in the order of its pending jobs.
//!
//! A partition knows no other core and nothing of admission. It is told what happens to its own
//! tasks, and what it decides depends on nothing else.
//!
//! Where grants are given ahead, the next job of each periodic task stands there too from the
//! release of the one before it on, by its own deadline and behind its equals.

use super::jobs::{Backlog, PLAIN};
use super::queue::{Key, Queue};
use alloc::vec::Vec;
use maracas_core::contract::Grant;
use maracas_core::{Arrival, CoreId, Instant, Plan, Reservation, Vcpu, VcpuId};

/// What orders the pending jobs of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// The absolute deadline; the running one first among equals, then the lower id.
    Deadline,
    /// The task's fixed priority ([`super::priority::of`]).
    Fixed,
}

/// The tie value of a waiting job: only the running one wins ties, then the lower id.
const WAITING: u64 = Key::RUNNING + 1;
/// The tie value of a job that is to come.
const COMING: u64 = WAITING + 1;

/// A task of one core. Where no job is cut, an event looks at the first 64 bytes only.
#[derive(Debug)]
#[repr(C, align(64))]
struct Task {
    /// Its priority where that is fixed, as a deadline counted from zero; else the deadline of its
    /// entry in the queue.
    rank: Instant,
    vcpu: VcpuId,
    /// Whether it has an entry in the queue.
    queued: bool,
    /// Whether it stands in `changed`.
    changed: bool,
    backlog: Backlog,
}

const _: () = assert!(core::mem::offset_of!(Task, backlog) + PLAIN == 64);
const _: () = assert!(size_of::<Option<Task>>() == 128);

impl Task {
    /// Its entry in the queue, if it has one, where `running` has the right of way over ties.
    fn key(&self, running: Option<Key>) -> Option<Key> {
        let runs = running.is_some_and(|running| running.vcpu == self.vcpu);
        let tie = if runs { Key::RUNNING } else { WAITING };
        self.queued.then_some(Key { deadline: self.rank, tie, vcpu: self.vcpu })
    }
}

/// What a periodic task is to have next.
#[derive(Debug)]
struct Coming {
    reservation: Reservation,
    /// When its next job is released, once one was.
    release: Option<Instant>,
    /// The queue entry of that job.
    key: Option<Key>,
}

/// The tasks of one core, by the slots that they were given.
#[derive(Debug)]
pub(crate) struct Partition {
    order: Order,
    tasks: Vec<Option<Task>>,
    /// By slot too, where grants are given ahead.
    coming: Vec<Option<Coming>>,
    /// Slots without a task.
    free: Vec<u32>,
    queue: Queue,
    /// The entry that has the right of way over ties: the first one at the last decision.
    running: Option<Key>,
    /// Slots of tasks whose backlog changed since the last decision.
    changed: Vec<u32>,
    /// Queue entries since then of tasks that left or have another priority.
    gone: Vec<Key>,
}

impl Partition {
    pub(crate) fn new(order: Order) -> Self {
        Self {
            order,
            tasks: Vec::new(),
            coming: Vec::new(),
            free: Vec::new(),
            queue: Queue::default(),
            running: None,
            changed: Vec::new(),
            gone: Vec::new(),
        }
    }
    /// Takes a task in, with its priority where that is fixed; its slot.
    pub(crate) fn add(&mut self, vcpu: VcpuId, backlog: Backlog, fixed: Instant) -> u32 {
        let task = Task { rank: fixed, vcpu, queued: false, changed: false, backlog };
        match self.free.pop() {
            Some(slot) => {
                self.tasks[slot as usize] = Some(task);
                slot
            }
            None => {
                self.tasks.push(Some(task));
                (self.tasks.len() - 1) as u32
            }
        }
    }
    /// Lets a task go; what it had before it.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<Backlog> {
        let task = self.tasks.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        self.gone.extend(task.key(self.running));
        self.forget_next(slot);
        Some(task.backlog)
    }
    /// The next jobs of the task in `slot` are given ahead, by the reservation of `vcpu`: after its
    /// next release, since when that comes is not known after a change. None is of a sporadic one.
    pub(crate) fn give_ahead(&mut self, slot: u32, vcpu: &Vcpu) {
        self.forget_next(slot);
        if self.coming.len() <= slot as usize {
            self.coming.resize_with(slot as usize + 1, || None);
        }
        let is_periodic = matches!(vcpu.arrival, Arrival::Periodic { .. });
        let reservation = vcpu.reservation;
        self.coming[slot as usize] =
            is_periodic.then_some(Coming { reservation, release: None, key: None });
    }
    fn forget_next(&mut self, slot: u32) {
        if let Some(coming) = self.coming.get_mut(slot as usize).and_then(Option::take) {
            self.gone.extend(coming.key);
        }
    }
    /// The task in `slot` released a job at `at`: the next one comes a period later.
    pub(crate) fn released(&mut self, slot: u32, at: Instant) {
        if let Some(Some(coming)) = self.coming.get_mut(slot as usize) {
            coming.release = Some(at + coming.reservation.period);
        }
    }
    /// Its tasks, each with its priority where that is fixed.
    pub(crate) fn fixed_priorities(&self) -> impl Iterator<Item = (VcpuId, Option<Instant>)> {
        let is_fixed = self.order == Order::Fixed;
        let tasks = self.tasks.iter().flatten();
        tasks.map(move |task| (task.vcpu, is_fixed.then_some(task.rank)))
    }
    /// The first entry of a job that is not to come, as of the last decision.
    fn first(&self) -> Option<Key> {
        self.queue.iter().find(|key| key.tie != COMING)
    }
    /// Whether none of its tasks may run, as of the last decision.
    pub(crate) fn is_empty(&self) -> bool {
        self.first().is_none()
    }
    /// What the task in `slot` has before it.
    #[inline]
    pub(crate) fn backlog(&self, slot: u32) -> Option<&Backlog> {
        self.tasks.get(slot as usize)?.as_ref().map(|task| &task.backlog)
    }
    /// Something happened to the task in `slot`.
    #[inline]
    pub(crate) fn change(&mut self, slot: u32, act: impl FnOnce(&mut Backlog)) {
        let Some(Some(task)) = self.tasks.get_mut(slot as usize) else { return };
        act(&mut task.backlog);
        if !task.changed {
            task.changed = true;
            self.changed.push(slot);
        }
    }
    /// Gives the task in `slot` this priority, where priorities are fixed.
    pub(crate) fn set_fixed(&mut self, slot: u32, fixed: Instant) {
        let Some(Some(task)) = self.tasks.get_mut(slot as usize) else { return };
        if self.order == Order::Fixed && task.rank != fixed {
            self.gone.extend(task.key(None));
            (task.rank, task.queued) = (fixed, false);
        }
        self.change(slot, |_| {});
    }

    /// Brings the run queue of `core`, which is this partition's, in step.
    pub(crate) fn decide(&mut self, core: CoreId, plan: &mut Plan) {
        let mut touched = !self.gone.is_empty();
        while let Some(key) = self.gone.pop() {
            let place = self.queue.remove(key);
            plan.run_queue_mut(core).foreground.remove(place);
            self.running = self.running.filter(|running| *running != key);
        }
        while let Some(slot) = self.changed.pop() {
            touched |= self.requeue(slot, core, plan);
            if !self.coming.is_empty() {
                self.requeue_coming(slot, core, plan);
            }
        }
        if touched && self.order == Order::Deadline {
            self.promote_earliest(core, plan);
        }
    }

    /// Brings a task's place in queue and run queue in step with its backlog; whether another entry
    /// may be the first one since.
    #[inline]
    fn requeue(&mut self, slot: u32, core: CoreId, plan: &mut Plan) -> bool {
        let Some(Some(task)) = self.tasks.get_mut(slot as usize) else { return false };
        task.changed = false;
        let (key, deadline) = (task.key(self.running), task.backlog.deadline());
        let grant = Grant::new(task.vcpu, task.backlog.limit());
        task.queued = deadline.is_some();
        if self.order == Order::Deadline {
            task.rank = deadline.unwrap_or(task.rank);
        }
        let rank = task.rank;
        // Behind the entry that has the right of way, nothing that comes or goes changes the first.
        let mut touched = !self.coming.is_empty() || self.running.is_none();
        if let Some(key) = key {
            if deadline.is_some() && key.deadline == rank {
                self.regrant(key, grant, core, plan);
                return false;
            }
            let place = self.queue.remove(key);
            plan.run_queue_mut(core).foreground.remove(place);
            if key.tie == Key::RUNNING {
                self.running = None;
            }
            touched |= place == 0;
        }
        if deadline.is_some() {
            let place = self.queue.insert(Key { deadline: rank, tie: WAITING, vcpu: grant.vcpu });
            plan.run_queue_mut(core).foreground.insert(place, grant);
            touched |= place == 0;
        }
        touched
    }
    /// Has the entry of `key` this grant.
    fn regrant(&self, key: Key, grant: Grant, core: CoreId, plan: &mut Plan) {
        let place = self.queue.place(key);
        if plan.run_queue(core).foreground[place] != grant {
            plan.run_queue_mut(core).foreground[place] = grant;
        }
    }

    /// Brings the place of a task's next job in queue and run queue in step with what is known.
    fn requeue_coming(&mut self, slot: u32, core: CoreId, plan: &mut Plan) {
        let Some(Some(coming)) = self.coming.get_mut(slot as usize) else { return };
        let Some(Some(task)) = self.tasks.get(slot as usize) else { return };
        let Some(release) = coming.release else { return };
        let deadline = match self.order {
            Order::Deadline => release + coming.reservation.deadline,
            Order::Fixed => task.rank,
        };
        let key = Key { deadline, tie: COMING, vcpu: task.vcpu };
        let grant = Grant::new(task.vcpu, task.backlog.next_limit()).ahead(release);
        let before = coming.key.replace(key);
        if before == Some(key) {
            return self.regrant(key, grant, core, plan);
        }
        let run_queue = &mut plan.run_queue_mut(core).foreground;
        if let Some(before) = before {
            run_queue.remove(self.queue.remove(before));
        }
        run_queue.insert(self.queue.insert(key), grant);
    }

    /// Gives the right of way over ties to what runs now, and takes it from what ran before.
    fn promote_earliest(&mut self, core: CoreId, plan: &mut Plan) {
        let first = self.first();
        if let Some(before) = self.running.filter(|before| Some(*before) != first) {
            let (from, to) = self.queue.retie(before, WAITING);
            if from != to {
                let run_queue = &mut plan.run_queue_mut(core).foreground;
                let grant = run_queue.remove(from);
                run_queue.insert(to, grant);
            }
        }
        if self.coming.is_empty() {
            self.running = self.queue.retie_first(Key::RUNNING);
            return;
        }
        // It stays where it is: with its deadline none that is not to come stands before it, and
        // what is to come stands behind.
        self.running = first.map(|first| {
            self.queue.retie(first, Key::RUNNING);
            Key { tie: Key::RUNNING, ..first }
        });
    }
}
