//! Job-level fixed priorities, carried out without plans.
//!
//! Where nothing happens but jobs, and no observer reads plans, what a policy of
//! [`JobPriorities`] would plan need not be written down and read back: here the cores are given
//! away directly, by the rules that stand there. Observers see the same events, and the same counts
//! come out, as where the policy is asked ([`crate::run`]); `tests/tests/priorities.rs` compares
//! them. docs/results.md has what a job takes either way ("Instructions a job").

mod group;
mod task;
mod timers;

use self::group::Group;
use self::task::{Place, Task};
use self::timers::Timers;
use crate::workload::NONE;
use crate::{Options, Outcome};
use maracas_core::contract::{
    DecisionCounts, End, JobPriorities, Listed, Mode, Observer, Segment, TaskPriority, Usage,
};
use maracas_core::{
    Arrival, CoreId, CoreSet, Cost, Duration, Instant, Policy, Program, Reservation, Soonest,
    System, Vcpu, VcpuId, Workload,
};
use std::collections::BTreeMap;

/// The urgency of a task's first pending job; smaller is more urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    deadline: Instant,
    /// Of its task, among equals.
    rank: u32,
}

impl Key {
    /// Before all others; no job's.
    const FIRST: Self = Self { deadline: Instant::ZERO, rank: 0 };
    /// As `<`, without a branch that no processor can predict.
    #[inline]
    const fn goes_before(self, other: Self) -> bool {
        self.number() < other.number()
    }
    const fn number(self) -> u128 {
        (self.deadline.ticks() as u128) << 64 | self.rank as u128
    }
}

#[derive(Clone, Copy, Debug)]
struct Core {
    /// What runs, by its place among the tasks, or `NONE`.
    running: u32,
    /// What it was given, or `NONE`.
    given: u32,
    /// What a plan would show since the last decision.
    planned: u32,
    /// How often that was another than before.
    decisions: u64,
    /// Its place in its group.
    slot: usize,
    /// When the segment began.
    from: Instant,
    /// Up to when its progress is accounted.
    synced: Instant,
    /// What ran last, and when it stopped.
    resident: (u32, Instant),
    idle_since: Instant,
    idle: Duration,
}

impl Core {
    const IDLE: Self = Self {
        running: NONE,
        given: NONE,
        planned: NONE,
        decisions: 0,
        slot: 0,
        from: Instant::ZERO,
        synced: Instant::ZERO,
        resident: (NONE, Instant::ZERO),
        idle_since: Instant::ZERO,
        idle: Duration::ZERO,
    };
    /// What runs has ended, as is reported by this.
    #[inline]
    fn stop(&mut self, vcpu: VcpuId, core: usize, now: Instant, end: End) -> Segment {
        let from = self.from;
        self.resident = (self.running, now);
        (self.running, self.idle_since) = (NONE, now);
        let usage = Usage { service: now - from, ..Usage::default() };
        let (core, mode) = (CoreId(core as u16), Mode::Foreground);
        Segment { vcpu, core, mode, from, to: now, usage, end }
    }
    /// What it was given begins to run; whether it is another than ran until now.
    #[inline]
    fn start(&mut self, now: Instant) -> bool {
        self.idle += now - self.idle_since;
        self.running = self.given;
        (self.from, self.synced) = (now, now);
        self.resident != (self.running, now)
    }
}

/// A run under way.
pub(crate) struct Machine<'a> {
    observer: &'a mut dyn Observer,
    now: Instant,
    until: Instant,
    /// When each task's next job is released.
    releases: Timers,
    /// By the number of their VCPU; they are named by their place here.
    tasks: Vec<Task>,
    /// The task of each rank.
    ranked: Vec<u32>,
    groups: Vec<Group>,
    listed: Listed,
    cores: Vec<Core>,
    /// When each core's job is done.
    ends: Soonest,
    /// Reported.
    segments: u64,
    /// Tasks of fixed priority that had no pending job since the last decision: with one by the
    /// next, they keep their cores.
    idle: Vec<u32>,
    /// Groups that the decision at hand looks at.
    touched: Vec<u32>,
    /// Cores that it may have run another task.
    stale: CoreSet,
    /// Selected tasks without a core; scratch.
    coreless: Vec<u32>,
    /// Cores to be started; scratch.
    starting: Vec<u32>,
    counts: DecisionCounts,
    outcome: Outcome,
}

/// A run that can be carried out here: nothing but jobs, one program a VCPU, from the start to the
/// end.
pub(crate) struct Suited<'a> {
    groups: Vec<Vec<CoreId>>,
    listed: Listed,
    /// Each VCPU with jobs, by its number, its priority, and what each job costs.
    tasks: Vec<(&'a Vcpu, TaskPriority, Cost)>,
}

/// What is to be carried out, where that can be done here.
pub(crate) fn suit<'a>(
    system: &'a System,
    programs: &[Program],
    policy: &dyn Policy,
    options: &Options,
    observer: &dyn Observer,
) -> Option<Suited<'a>> {
    if options.until == Instant::NEVER || observer.reads_plans() {
        return None;
    }
    let JobPriorities { groups, tasks, listed } = policy.job_priorities()?;
    let mut costs = BTreeMap::new();
    for program in programs {
        let lasts = program.arrive == Instant::ZERO && program.depart == Instant::NEVER;
        let Workload::Periodic { cost } = program.workload else { return None };
        if !lasts || costs.insert(program.vcpu, cost).is_some() {
            return None;
        }
    }
    let has_jobs = |vcpu: &&Vcpu| {
        let Reservation { period, deadline, .. } = vcpu.reservation;
        vcpu.arrival != Arrival::None && !period.is_zero() && !deadline.is_zero()
    };
    let vcpus = system.vcpus.iter().filter(has_jobs).map(|vcpu| (vcpu.id, vcpu));
    let vcpus: BTreeMap<_, _> = vcpus.collect();
    let priorities: BTreeMap<_, _> = tasks.into_iter().map(|task| (task.vcpu, task)).collect();
    let task = |(id, cost): (VcpuId, Cost)| Some((*vcpus.get(&id)?, *priorities.get(&id)?, cost));
    let tasks = costs.into_iter().map(task).collect::<Option<_>>()?;
    Some(Suited { groups, listed, tasks })
}

impl<'a> Machine<'a> {
    pub(crate) fn new(
        system: &System,
        Suited { groups, listed, tasks }: Suited<'_>,
        options: &Options,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let mut ranked: Vec<u32> = (0..tasks.len() as u32).collect();
        // Stable: what is left is decided by the number of the VCPU.
        ranked.sort_by_key(|place| tasks[*place as usize].1.tie);
        let mut ranks = vec![0; tasks.len()];
        (0..).zip(&ranked).for_each(|(rank, place)| ranks[*place as usize] = rank);
        let task = |((vcpu, priority, cost), rank): (&(&Vcpu, TaskPriority, Cost), u32)| {
            Task::new(vcpu, priority, rank, *cost, system.ticks_per_ns, options.seed)
        };
        let mut tasks: Vec<Task> = tasks.iter().zip(ranks).map(task).collect();
        let first = tasks.iter_mut().map(Task::begin).collect();
        let count = system.cores.len();
        let mut cores = vec![Core::IDLE; count];
        for group in &groups {
            let places = (0..).zip(group);
            places.for_each(|(slot, core)| cores[usize::from(core.0)].slot = slot);
        }
        Self {
            observer,
            now: Instant::ZERO,
            until: options.until,
            releases: Timers::new(first),
            tasks,
            ranked,
            groups: groups.iter().map(|cores| Group::new(cores)).collect(),
            listed,
            cores,
            ends: Soonest::new(count),
            segments: 0,
            idle: Vec::new(),
            touched: Vec::new(),
            stale: CoreSet::EMPTY,
            coreless: Vec::new(),
            starting: Vec::new(),
            counts: DecisionCounts::default(),
            outcome: Outcome::default(),
        }
    }

    pub(crate) fn run(mut self) -> Outcome {
        // The policy is asked at the start, whatever happens then.
        let (mut now, mut ends) = (Instant::ZERO, Instant::NEVER);
        while now < self.until {
            self.now = now;
            if ends == now {
                self.finish_jobs();
            }
            while self.releases.first_at() == now {
                self.release();
            }
            self.decide();
            ends = self.ends.first();
            now = ends.min(self.releases.first_at());
        }
        self.end()
    }

    /// The job that comes first is released.
    #[inline]
    fn release(&mut self) {
        let (place, now) = (self.releases.first(), self.now);
        let task = &mut self.tasks[place as usize];
        let is_first = task.is_idle();
        let (job, next) = task.release(now);
        if is_first && task.place == Place::Nowhere {
            let group = &mut self.groups[task.group as usize];
            task.listed |= self.listed == Listed::Pending;
            task.wait(group);
            group.touch(task.group, &mut self.touched);
        }
        self.releases.set(place, next);
        self.observer.released(now, &job);
    }

    /// Jobs that are done at this instant, by core.
    #[inline]
    fn finish_jobs(&mut self) {
        while self.ends.first() <= self.now {
            let core = self.ends.first_place();
            self.finish_job(core);
        }
    }

    #[inline]
    fn finish_job(&mut self, core: usize) {
        let now = self.now;
        let own = &mut self.cores[core];
        let place = own.running;
        let task = &mut self.tasks[place as usize];
        let (id, deadline) = task.complete();
        if now > deadline {
            self.outcome.missed += 1;
        }
        self.observer.completed(now, id);
        let is_idle = task.is_idle();
        if is_idle {
            self.segments += 1;
            self.observer.ran(now, &own.stop(id.vcpu, core, now, End::Blocked));
            self.ends.set(core, Instant::NEVER);
        } else {
            own.synced = now;
            self.ends.set(core, now.saturating_add(task.left));
        }
        self.stale.insert(CoreId(core as u16));
        if !task.is_fixed() {
            own.given = NONE;
            task.place = Place::Nowhere;
            let group = &mut self.groups[task.group as usize];
            group.vacated(own.slot);
            if !is_idle {
                task.wait(group);
            }
            group.touch(task.group, &mut self.touched);
        } else if is_idle {
            self.idle.push(place);
        }
    }

    #[inline]
    fn decide(&mut self) {
        let before = self.segments;
        while let Some(place) = self.idle.pop() {
            self.give_up(place);
        }
        while let Some(group) = self.touched.pop() {
            let own = &mut self.groups[group as usize];
            own.touched = false;
            own.decisions += 1;
            if let Some(place) = self.select(group) {
                self.give_one(place);
            }
        }
        if let Some(core) = self.stale.only() {
            self.stale.clear();
            if self.take_off(usize::from(core.0)) {
                self.start(usize::from(core.0));
            }
        } else if !self.stale.is_empty() {
            self.enact();
        }
        // A stop is an event, for whose sake the policy is asked again.
        self.counts.all += 1 + u64::from(self.segments != before);
    }

    /// A task of fixed priority that had no pending job gives up its core, if it has none yet.
    fn give_up(&mut self, place: u32) {
        let task = &mut self.tasks[place as usize];
        if let Place::On(core) = task.place
            && task.is_idle()
        {
            task.place = Place::Nowhere;
            let own = &mut self.cores[core as usize];
            own.given = NONE;
            let group = &mut self.groups[task.group as usize];
            group.vacated(own.slot);
            group.touch(task.group, &mut self.touched);
        }
    }

    /// Gives the cores of a group to the most urgent of its tasks; which is still to be given one.
    #[inline]
    fn select(&mut self, group: u32) -> Option<u32> {
        let own = &mut self.groups[group as usize];
        let fresh = std::mem::take(&mut own.fresh);
        let vacant = own.vacant();
        if vacant > 0 {
            let place = self.ranked[own.pop()?.rank as usize];
            // Most often nothing else competes for a core.
            let Some(next) = own.first() else { return Some(place) };
            let none_kept = own.cores.len() == vacant;
            let is_last = fresh == 0 || none_kept || self.displaced_by(group, next).is_none();
            if vacant == 1 && is_last {
                return Some(place);
            }
            self.coreless.push(place);
        } else if fresh == 0 {
            return None;
        }
        self.select_more(group, fresh)
    }

    /// The same, where several may be selected, of which `coreless` has the first; so many came to
    /// wait since the last selection. At most as many can displace others: nothing that waited
    /// then goes before what had a core.
    #[inline]
    fn select_more(&mut self, group: u32, fresh: u32) -> Option<u32> {
        let own = &mut self.groups[group as usize];
        while self.coreless.len() < own.vacant()
            && let Some(key) = own.pop()
        {
            self.coreless.push(self.ranked[key.rank as usize]);
        }
        for _ in 0..fresh {
            let Some(first) = self.groups[group as usize].first() else { break };
            let Some(last) = self.displaced_by(group, first) else { break };
            self.displace(group, first, last);
        }
        if self.coreless.len() > 1 {
            self.assign_cores(group);
        }
        self.coreless.pop()
    }

    /// The last of those that have kept their cores, where `waiting` takes its place.
    #[inline]
    fn displaced_by(&self, group: u32, waiting: Key) -> Option<(usize, Key)> {
        let (slot, last) = self.groups[group as usize].last();
        let is_fixed = || self.tasks[self.ranked[waiting.rank as usize] as usize].is_fixed();
        let displaces = waiting.deadline < last.deadline || waiting.goes_before(last) && is_fixed();
        displaces.then_some((slot, last))
    }

    /// The first that waits takes the place of the last of those that have kept their cores.
    #[inline]
    fn displace(&mut self, group: u32, first: Key, (slot, last): (usize, Key)) {
        let own = &mut self.groups[group as usize];
        own.pop();
        own.wait(last);
        own.vacated(slot);
        let core = own.cores[slot];
        let place = std::mem::replace(&mut self.cores[core as usize].given, NONE);
        self.tasks[place as usize].place = Place::Waiting;
        self.stale.insert(CoreId(core as u16));
        self.coreless.push(self.ranked[first.rank as usize]);
    }

    /// Gives cores to what was selected: those that their tasks last had, then any.
    #[inline(never)] // Seldom more than one is selected.
    fn assign_cores(&mut self, group: u32) {
        let mut selected = std::mem::take(&mut self.coreless);
        selected.retain(|place| {
            let last = self.tasks[*place as usize].last;
            let core = self.cores.get(last as usize);
            let is_free = core.is_some_and(|core| self.groups[group as usize].is_free(core.slot));
            if is_free {
                self.give_one(*place);
            }
            !is_free
        });
        selected.drain(..).for_each(|place| self.give_one(place));
        self.coreless = selected;
    }

    /// Gives a task the core that it last had, if that is free, else the lowest that is.
    #[inline(always)] // A part of nearly each decision.
    fn give_one(&mut self, place: u32) {
        let task = &mut self.tasks[place as usize];
        let group = &mut self.groups[task.group as usize];
        let last = || self.cores.get(task.last as usize).filter(|core| group.is_free(core.slot));
        let slot = if group.vacant() == 1 { None } else { last() };
        let slot = slot.map_or_else(|| group.first_free(), |core| core.slot);
        let core = group.took(slot, task.key);
        (task.place, task.last) = (Place::On(core), core);
        self.cores[core as usize].given = place;
        self.stale.insert(CoreId(core as u16));
    }

    /// Has the cores run what they were given: first all stops, then all starts.
    #[inline(never)] // Seldom more than one core is concerned.
    fn enact(&mut self) {
        while let Some(core) = self.stale.pop_first() {
            if self.take_off(usize::from(core.0)) {
                self.starting.push(u32::from(core.0));
            }
        }
        while let Some(core) = self.starting.pop() {
            self.start(core as usize);
        }
    }

    /// Stops what runs on a core that it was not given; whether the core has something to start.
    #[inline(always)] // A part of nearly each decision.
    fn take_off(&mut self, core: usize) -> bool {
        let (own, now) = (&mut self.cores[core], self.now);
        if own.given != own.planned {
            own.planned = own.given;
            own.decisions += 1;
        }
        if own.running == own.given {
            return false;
        }
        if let Some(task) = self.tasks.get_mut(own.running as usize) {
            task.left = task.left.saturating_sub(now - own.synced);
            let moves = matches!(task.place, Place::On(_));
            let end = if moves { End::Moved } else { End::Preempted };
            self.segments += 1;
            self.observer.ran(now, &own.stop(task.id(), core, now, end));
            if own.given == NONE {
                self.ends.set(core, Instant::NEVER);
            }
        }
        own.given != NONE
    }

    #[inline(always)] // A part of nearly each decision.
    fn start(&mut self, core: usize) {
        let (own, now) = (&mut self.cores[core], self.now);
        let task = &mut self.tasks[own.given as usize];
        task.listed = true;
        self.outcome.context_switches += u64::from(own.start(now));
        self.ends.set(core, now.saturating_add(task.left));
    }

    /// Closes the run: jobs that are done on the horizon, and the running segments.
    fn end(mut self) -> Outcome {
        let now = self.until;
        self.now = now;
        self.finish_jobs();
        for core in 0..self.cores.len() {
            let own = &mut self.cores[core];
            let Some(task) = self.tasks.get(own.running as usize) else { continue };
            if own.from < now {
                self.segments += 1;
                self.observer.ran(now, &own.stop(task.id(), core, now, End::Metered));
            }
        }
        self.counts.by_core = self.cores.iter().map(|core| core.decisions).collect();
        if self.listed == Listed::Pending {
            for group in &self.groups {
                let cores = group.cores.iter().map(|core| *core as usize);
                cores.for_each(|core| self.counts.by_core[core] = group.decisions);
            }
        }
        let listed = self.tasks.iter().filter(|task| task.listed);
        self.counts.listed = listed.map(Task::id).collect();
        self.observer.decided(&self.counts);
        let outcome = &mut self.outcome;
        outcome.decisions = self.counts.all;
        outcome.released = self.tasks.iter().map(Task::released).sum();
        outcome.completed = self.tasks.iter().map(Task::completed).sum();
        outcome.events = outcome.released + outcome.completed + self.segments;
        outcome.end = now;
        outcome.missed += self.tasks.iter().map(|task| task.overdue(now)).sum::<u64>();
        let idle = self.cores.iter().map(|core| {
            let open = if core.running == NONE { now - core.idle_since } else { Duration::ZERO };
            core.idle + open
        });
        outcome.idle = idle.collect();
        self.outcome
    }
}
