//! An exact machine that knows the inside of QPS: from event to event, it holds the policy to the
//! invariants of algorithms.md B.8 at every instant.

use crate::parts::fluid;
use crate::qps::offline::{Blueprint, Grid, Item};
use crate::qps::{BOTH, Class, Hierarchy, Key, Phase, Qps, Seat, Set, Window};
use crate::testing::with;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use maracas_core::contract::{End, Limit, Mode, Segment, Usage, decide};
use maracas_core::dispatch::{self, Readings, Running};
use maracas_core::{
    Arrival, CoreId, Duration, Event, Instant, Job, JobId, Plan, Policy, System, Vcpu, VcpuId,
};

/// One task and all its jobs to come.
pub(super) struct Source {
    pub(super) budget: u64,
    pub(super) period: u64,
    /// Release and work of each job.
    pub(super) jobs: VecDeque<(u64, u64)>,
}

#[derive(Clone, Default)]
struct Task {
    /// Index, work left, deadline.
    pending: VecDeque<(u32, u64, u64)>,
    released: u32,
    /// When the last job was released and is due.
    active: (u64, u64),
    core: Option<usize>,
    /// Service on budget.
    meter: u64,
    /// Whether a job needed more than C.
    overran: bool,
}

/// What was seen of a set's window.
#[derive(Clone, Copy)]
struct Seen {
    window: Window,
    /// Time that was offered to class A, class B, and both in parallel.
    offered: [u64; 3],
}

/// What a run came to.
#[derive(Clone, Default, Debug)]
pub(super) struct Tally {
    pub(super) jobs: u64,
    /// Task and deadline of each late job.
    pub(super) late: Vec<(usize, u64)>,
    pub(super) preemptions: u64,
    pub(super) migrations: u64,
    pub(super) decisions: u64,
    pub(super) mode_changes: u64,
    pub(super) majors: u64,
    pub(super) level: u64,
    /// The latest completion after its deadline.
    pub(super) tardiness: u64,
    /// The most work of a job that was undone at its deadline.
    pub(super) undone: u64,
    /// Tasks with jobs that needed more than C.
    pub(super) overran: Vec<usize>,
    /// Time in which such jobs used what a core left idle.
    pub(super) surplus: u64,
}

struct World<'a>(&'a [Task]);

impl Readings for World<'_> {
    fn runnable(&self, vcpu: VcpuId) -> bool {
        !self.0[vcpu.0 as usize].pending.is_empty()
    }
    fn meter(&self, vcpu: VcpuId, mode: Mode) -> Duration {
        // Surplus time has no limits.
        assert_eq!(mode, Mode::Foreground);
        Duration::from_ticks(self.0[vcpu.0 as usize].meter)
    }
}

pub(super) struct Rig {
    pub(super) qps: Qps,
    plan: Plan,
    now: u64,
    sources: Vec<Source>,
    tasks: Vec<Task>,
    /// Which task runs on each core, and since when.
    running: Vec<Option<(Running, u64)>>,
    seen: Vec<Option<Seen>>,
    /// By set: whether an event of one of its tasks was told since the last decision.
    told: Vec<bool>,
    /// Whether all budgets are whole ticks, so that B.8 holds to the last one.
    exact: bool,
    pub(super) tally: Tally,
}

/// The hierarchy of a core's set, and the set. Here sets are named by their cores.
fn in_hierarchy(qps: &Qps, core: usize) -> (&Hierarchy, &Set) {
    let Seat { hierarchy, set } = qps.seats[core];
    let hierarchy = &qps.hierarchies.list[hierarchy];
    (hierarchy, &hierarchy.sets[set])
}

/// The set of a core.
fn set(qps: &Qps, core: usize) -> &Set {
    in_hierarchy(qps, core).1
}

/// All sets, in the order of their cores.
fn sets(qps: &Qps) -> impl Iterator<Item = &Set> {
    (0..qps.seats.len()).map(|core| set(qps, core))
}

/// The core of the set that hosts the master of another.
fn host(qps: &Qps, core: usize) -> Option<usize> {
    let (hierarchy, set) = in_hierarchy(qps, core);
    set.host.map(|host| usize::from(hierarchy.sets[host].core.0))
}

/// What each core serves, as the core of a set.
fn served(qps: &Qps) -> Vec<Option<usize>> {
    let mut served = alloc::vec![None; qps.seats.len()];
    for (set, own) in (0..).zip(sets(qps)) {
        let runs = match own.window.as_ref().map(|window| window.phase) {
            None => [Some((Class::A, own.core)), None],
            Some(Phase::Waiting) => [None; 2],
            Some(Phase::Alone(class)) => [Some((class, own.core)), None],
            Some(Phase::Parallel { away, on }) => {
                [Some((away, on)), Some((away.other(), own.core))]
            }
        };
        for (class, core) in runs.into_iter().flatten() {
            if own.heads[class.index()].and_then(Key::guest).is_none() {
                let before = served[usize::from(core.0)].replace(set);
                assert_eq!(before, None, "{core} serves two sets");
            }
        }
    }
    served
}

/// The tasks of a class of a set up to the first master, and whether there is none.
fn shown(own: &Set, class: Class) -> (Vec<VcpuId>, bool) {
    let entries = own.queue.entries().into_iter().filter(|entry| entry.2 == class);
    let mut keys: Vec<Key> = entries.map(|(item, deadline, _)| Key::new(deadline, item)).collect();
    keys.sort_unstable();
    let head = own.heads[class.index()];
    if let Some(place) = keys.iter().position(|key| Some(*key) == head) {
        keys[..=place].rotate_right(1);
    }
    let task = |key: &Key| match key.item() {
        Item::Task(vcpu) => Some(vcpu),
        Item::Master(_) => None,
    };
    let tasks: Vec<VcpuId> = keys.iter().map_while(task).collect();
    let is_whole = tasks.len() == keys.len();
    (tasks, is_whole)
}

impl Rig {
    pub(super) fn new(system: System, sources: Vec<Source>, params: &[(&str, &str)]) -> Self {
        Self::packed(system, sources, params, None)
    }

    /// On the platform of `system`, with the given sets or those that the off-line phase makes.
    pub(super) fn packed(
        mut system: System,
        sources: Vec<Source>,
        params: &[(&str, &str)],
        sets: Option<Vec<Blueprint>>,
    ) -> Self {
        let ticks = Duration::from_ticks;
        system.vcpus = (0..)
            .zip(&sources)
            .map(|(id, task)| Vcpu::new(id, ticks(task.budget), ticks(task.period)))
            .map(|vcpu| Vcpu { arrival: Arrival::Sporadic, ..vcpu })
            .collect();
        let cores = system.cores.len();
        let params = &with(params);
        let qps = match sets {
            Some(sets) => Qps::of(
                fluid::judged_by_density(&system).0,
                &system,
                params,
                Grid::of(&system),
                sets,
            ),
            None => Qps::new(&system, params).unwrap_or_else(|why| panic!("{why:?}")),
        };
        let mut rig = Self {
            plan: Plan::new(cores),
            now: 0,
            tasks: alloc::vec![Task::default(); sources.len()],
            sources,
            running: alloc::vec![None; cores],
            seen: alloc::vec![None; cores],
            told: alloc::vec![false; cores],
            exact: qps.grid.exact,
            tally: Tally::default(),
            qps,
        };
        rig.is_quasi_partition(cores);
        rig
    }

    /// B.8 (2), and that the parts fit together.
    fn is_quasi_partition(&mut self, cores: usize) {
        let mut levels = alloc::vec![0; self.qps.seats.len()];
        assert_eq!(self.qps.seats.len(), cores);
        for core in 0..cores {
            let (hierarchy, set) = in_hierarchy(&self.qps, core);
            assert_eq!(usize::from(set.core.0), core);
            assert_eq!(set.rate, set.members.iter().map(|member| member.rate).sum::<u64>());
            assert_eq!(set.excess, set.rate.saturating_sub(self.qps.grid.capacity));
            assert!(set.members.iter().all(|member| member.rate >= set.excess), "{set:?}");
            assert_eq!(set.excess > 0, set.host.is_some());
            if let (Some(host), Some(above)) = (set.host, host(&self.qps, core)) {
                let own = self.qps.seats[core].set;
                let is_master = |member: &super::super::Member| {
                    (member.item, member.rate) == (Item::Master(own), set.excess)
                };
                assert!(hierarchy.sets[host].members.iter().any(is_master));
                levels[above] = levels[above].max(levels[core] + 1);
            }
            self.tally.majors += u64::from(set.excess > 0);
        }
        self.tally.level = levels.into_iter().max().unwrap_or(0);
    }

    pub(super) fn run(mut self, until: u64) -> Tally {
        while self.now < until {
            self.completions_and_releases();
            self.decide_and_switch();
            let next = self.next_event().min(until);
            self.pass(next - self.now);
        }
        for (id, task) in self.tasks.iter().enumerate() {
            let late = task.pending.iter().filter(|(_, _, deadline)| *deadline < until);
            self.tally.late.extend(late.map(|(_, _, deadline)| (id, *deadline)));
            self.tally.overran.extend(task.overran.then_some(id));
        }
        for statistic in self.qps.statistics() {
            match statistic.name {
                "mode changes" => self.tally.mode_changes = statistic.value,
                "rounded windows" | "short windows" if self.exact => {
                    assert_eq!(statistic.value, 0, "{}", statistic.name);
                }
                _ => {}
            }
        }
        self.tally
    }

    fn tell(&mut self, event: &Event) {
        let vcpu = event.happened_to().unwrap_or_else(|| panic!("{event:?} of a task that stays"));
        let home = *self.qps.hierarchies.homes.get(vcpu).unwrap();
        let hierarchy = &self.qps.hierarchies.list[home.hierarchy];
        let core = hierarchy.sets[hierarchy.task(home.slot).unwrap().set].core;
        self.told[usize::from(core.0)] = true;
        self.qps.on_event(Instant::from_ticks(self.now), event);
    }

    fn completions_and_releases(&mut self) {
        for core in 0..self.running.len() {
            let Some((running, _)) = self.running[core] else { continue };
            let id = running.vcpu.0 as usize;
            let Some((index, 0, deadline)) = self.tasks[id].pending.front().copied() else {
                if self.is_spent(running) {
                    self.stop(core, End::LimitReached);
                }
                continue;
            };
            self.stop(core, End::Blocked);
            self.tasks[id].pending.pop_front();
            if self.now > deadline {
                self.tally.late.push((id, deadline));
            }
            self.tally.tardiness = self.tally.tardiness.max(self.now.saturating_sub(deadline));
            self.tell(&Event::Completed(JobId { vcpu: VcpuId(id as u32), index }));
        }
        for task in &self.tasks {
            let due = |(_, _, deadline): &&(u32, u64, u64)| *deadline == self.now;
            for (_, left, _) in task.pending.iter().filter(due) {
                self.tally.undone = self.tally.undone.max(*left);
            }
        }
        for id in 0..self.sources.len() {
            let due = |(release, _): &mut (u64, u64)| *release == self.now;
            let Some((release, work)) = self.sources[id].jobs.pop_front_if(due) else { continue };
            let deadline = release + self.sources[id].period;
            let task = &mut self.tasks[id];
            let index = task.released;
            task.released += 1;
            task.active = (release, deadline);
            task.overran |= work > self.sources[id].budget;
            task.pending.push_back((index, work, deadline));
            self.tally.jobs += 1;
            let id = JobId { vcpu: VcpuId(id as u32), index };
            let (release, deadline) = (Instant::from_ticks(release), Instant::from_ticks(deadline));
            self.tell(&Event::Released(Job { id, release, deadline }));
        }
    }

    fn is_spent(&self, running: Running) -> bool {
        let reads = Duration::from_ticks(self.tasks[running.vcpu.0 as usize].meter);
        running.mode == Mode::Foreground && Limit(reads) >= running.until
    }

    fn stop(&mut self, core: usize, end: End) {
        let Some((running, from)) = self.running[core].take() else { return };
        self.tally.preemptions += u64::from(end == End::Preempted);
        let service = Duration::from_ticks(self.now - from);
        if service.is_zero() {
            return;
        }
        self.tell(&Event::Ran(Segment {
            vcpu: running.vcpu,
            core: CoreId(core as u16),
            mode: running.mode,
            from: Instant::from_ticks(from),
            to: Instant::from_ticks(self.now),
            usage: Usage { service, ..Usage::default() },
            end,
        }));
    }

    fn decide_and_switch(&mut self) {
        loop {
            self.decide();
            self.tally.decisions += 1;
            assert_eq!(self.plan.audit(), Ok(()), "at {}", self.now);
            let world = World(&self.tasks);
            let now = Instant::from_ticks(self.now);
            let lawful = |core| dispatch::next(self.plan.run_queue(CoreId(core)), now, 0, &world);
            let chosen: Vec<_> = (0..self.running.len() as u16).map(lawful).collect();
            let mut stopped = false;
            for (core, chosen) in chosen.iter().enumerate() {
                let Some((before, _)) = self.running[core] else { continue };
                if chosen.is_none_or(|now| (now.vcpu, now.mode) != (before.vcpu, before.mode)) {
                    self.stop(core, End::Preempted);
                    stopped = true;
                }
            }
            if stopped {
                continue;
            }
            for (core, chosen) in chosen.into_iter().enumerate() {
                let Some(running) = chosen else { continue };
                let since = self.running[core].map_or(self.now, |(_, since)| since);
                let starts = self.running[core].replace((running, since)).is_none();
                if starts {
                    let id = running.vcpu.0 as usize;
                    let before = self.tasks[id].core.replace(core);
                    let moved = before.is_some_and(|before| before != core);
                    self.tally.migrations += u64::from(moved);
                }
            }
            return self.holds();
        }
    }

    /// Decisions are local: a core is told to look at its run queue only where an event of the set
    /// that it serves was told, where that set's phase changed, by its own budgets and windows or
    /// with its master, which starts or stops, or where a budget of a master in it began or ended.
    ///
    /// Hierarchies stand apart: where no event of its tasks was told and no instant of its sets has
    /// come, no set of one is looked at.
    fn decide(&mut self) {
        let now = Instant::from_ticks(self.now);
        let synced = |qps: &Qps| sets(qps).map(|set| set.synced).collect::<Vec<_>>();
        let is_due =
            |set: &Set| set.window.is_some_and(|window| window.next_event(set.synced) <= now);
        let mut is_concerned: Vec<bool> = sets(&self.qps).map(is_due).collect();
        is_concerned.iter_mut().zip(&self.told).for_each(|(concerned, told)| *concerned |= told);
        // Up to the top of each hierarchy, and down again.
        for set in 0..is_concerned.len() {
            if let Some(host) = host(&self.qps, set) {
                is_concerned[host] |= is_concerned[set];
            }
        }
        for set in (0..is_concerned.len()).rev() {
            if let Some(host) = host(&self.qps, set) {
                is_concerned[set] |= is_concerned[host];
            }
        }
        let synced_before = synced(&self.qps);
        let states = |qps: &Qps| -> Vec<_> {
            let phase = |set: &Set| set.window.map(|window| window.phase);
            sets(qps).map(|set| (phase(set), set.queued)).collect()
        };
        let (before, served_before) = (states(&self.qps), served(&self.qps));
        decide(&mut self.qps, now, &mut self.plan);
        for (set, (before, after)) in synced_before.iter().zip(synced(&self.qps)).enumerate() {
            assert!(is_concerned[set] || *before == after, "set {set} at {now}");
        }
        let after = states(&self.qps);
        let concerned = |set: usize| {
            let guests = (0..set).filter(|guest| host(&self.qps, *guest) == Some(set));
            let mut budgets = guests.map(|guest| before[guest].1 != after[guest].1);
            self.told[set] || before[set].0 != after[set].0 || budgets.any(|changed| changed)
        };
        for core in self.plan.dirty().iter() {
            let core = core.0 as usize;
            let served = [served_before[core], served(&self.qps)[core]];
            let mut sets = served.iter().flatten().copied().chain([core]);
            assert!(sets.any(concerned), "core {core} at {}: {served:?}", self.now);
        }
        self.told.fill(false);
        self.run_queues_are_whole();
    }

    /// Each run queue is what the queue of the set that its core serves says now, however much of
    /// it was written in which decision: the class that runs there by deadline, the chosen item
    /// first, up to the first master, and where nothing else has a claim to the core, the other
    /// class in the same way.
    fn run_queues_are_whole(&self) {
        let mut expected: Vec<Vec<VcpuId>> = alloc::vec![Vec::new(); self.running.len()];
        for own in sets(&self.qps) {
            let runs = match own.window.map(|window| window.phase) {
                None => [Some((Class::A, own.core)), None],
                Some(Phase::Waiting) => [None; 2],
                Some(Phase::Alone(class)) => [Some((class, own.core)), None],
                Some(Phase::Parallel { away, on }) => {
                    [Some((away, on)), Some((away.other(), own.core))]
                }
            };
            let is_alone = matches!(runs, [Some(_), None]) && own.window.is_some();
            for (class, core) in runs.into_iter().flatten() {
                if own.heads[class.index()].and_then(Key::guest).is_some() {
                    continue;
                }
                let (mut shown, is_whole) = shown(own, class);
                if is_whole && is_alone && self.qps.hierarchies.list[0].manner.work_conserving {
                    shown.extend(self::shown(own, class.other()).0);
                }
                expected[usize::from(core.0)] = shown;
            }
        }
        for (core, expected) in expected.iter().enumerate() {
            let run_queue = self.plan.run_queue(CoreId(core as u16));
            let stand: Vec<VcpuId> = run_queue.foreground.iter().map(|grant| grant.vcpu).collect();
            assert_eq!(stand, *expected, "core {core} at {}", self.now);
        }
    }

    fn next_event(&self) -> u64 {
        let ends = self.running.iter().flatten().map(|(running, _)| {
            let task = &self.tasks[running.vcpu.0 as usize];
            let foreground = running.mode == Mode::Foreground && running.until != Limit::NEVER;
            let budget = running.until.0.ticks().saturating_sub(task.meter);
            self.now + task.pending[0].1.min(if foreground { budget } else { u64::MAX })
        });
        let releases = self.sources.iter().filter_map(|task| task.jobs.front());
        let releases = releases.map(|(release, _)| *release);
        let pending = self.tasks.iter().flat_map(|task| &task.pending);
        let deadlines = pending.map(|(_, _, deadline)| *deadline).filter(|due| *due > self.now);
        let releases = releases.chain(deadlines);
        ends.chain(releases).chain([self.plan.wake.ticks()]).min().unwrap_or(u64::MAX)
    }

    fn pass(&mut self, time: u64) {
        for (running, _) in self.running.iter().flatten() {
            let task = &mut self.tasks[running.vcpu.0 as usize];
            task.pending[0].1 -= time;
            match running.mode {
                Mode::Foreground => task.meter += time,
                Mode::Background => self.tally.surplus += time,
            }
        }
        for (core, seen) in self.seen.iter_mut().enumerate() {
            let Some(seen) = seen else { continue };
            let Some(window) = set(&self.qps, core).window else { continue };
            match window.phase {
                Phase::Waiting => {}
                Phase::Alone(class) => seen.offered[class.index()] += time,
                Phase::Parallel { .. } => seen.offered[BOTH] += time,
            }
        }
        self.now += time;
    }

    /// The invariants of B.8 at this instant.
    fn holds(&mut self) {
        for core in 0..self.qps.seats.len() {
            self.queue_is_by_class(core);
            if set(&self.qps, core).excess > 0 {
                self.modes_follow_activity(core);
                self.slave_runs_with_master(core);
                self.windows_are_served(core);
            }
        }
    }

    /// Each member with a deadline stands once, by that, in its class; all in class A while the set
    /// goes by EDF.
    fn queue_is_by_class(&self, set: usize) {
        let (hierarchy, own) = in_hierarchy(&self.qps, set);
        let queued = own.members.iter().filter_map(|member| {
            let (class, queued) = match member.item {
                Item::Task(_) => {
                    hierarchy.task(member.slot).map(|task| (task.class, task.queued))?
                }
                Item::Master(guest) => (hierarchy.sets[guest].class, hierarchy.sets[guest].queued),
            };
            assert!(own.window.is_some() || class == Class::A, "set {set} at {}", self.now);
            queued.map(|deadline| (member.item, deadline, class))
        });
        let (mut queued, mut entries) = (queued.collect::<Vec<_>>(), own.queue.entries());
        queued.sort_unstable_by_key(|entry| entry.0);
        entries.sort_unstable_by_key(|entry| entry.0);
        assert_eq!(queued, entries, "set {set} at {}", self.now);
    }

    /// Of a set in this hierarchy.
    fn is_active(&self, hierarchy: &Hierarchy, item: Item) -> bool {
        match item {
            Item::Task(vcpu) => {
                let (release, deadline) = self.tasks[vcpu.0 as usize].active;
                release <= self.now && self.now < deadline
            }
            Item::Master(guest) => hierarchy.sets[guest].window.is_some(),
        }
    }

    /// B.8 (5).
    fn modes_follow_activity(&self, set: usize) {
        let (hierarchy, own) = in_hierarchy(&self.qps, set);
        let active = own.members.iter().filter(|member| self.is_active(hierarchy, member.item));
        let load: u64 = active.clone().map(|member| member.rate).sum();
        let all = active.count() == own.members.len();
        assert_eq!(own.window.is_some(), all, "set {set} at {}", self.now);
        assert!(all || load <= self.qps.grid.capacity, "set {set} at {}", self.now);
    }

    /// B.8 (3): the master is the first choice on a core of its host exactly in parallel phases.
    fn slave_runs_with_master(&self, set: usize) {
        let (hierarchy, own) = in_hierarchy(&self.qps, set);
        let Some(host) = own.host.map(|host| &hierarchy.sets[host]) else { return };
        let guest = self.qps.seats[set].set;
        let leads = |class: Class| {
            let head = host.heads[class.index()];
            head.is_some_and(|key| key.guest() == Some(guest))
        };
        let lent = match host.window.map(|window| window.phase) {
            None => leads(Class::A).then_some(host.core),
            Some(Phase::Waiting) => None,
            Some(Phase::Alone(class)) => leads(class).then_some(host.core),
            Some(Phase::Parallel { away, on }) => match leads(away) {
                true => Some(on),
                false => leads(away.other()).then_some(host.core),
            },
        };
        let parallel = own.window.and_then(|window| match window.phase {
            Phase::Parallel { on, .. } => Some(on),
            Phase::Waiting | Phase::Alone(_) => None,
        });
        assert_eq!(lent, parallel, "set {set} at {}", self.now);
        assert!(lent != Some(own.core));
    }

    /// B.8 (4): a window that ended offered each class its rate times the window's length.
    fn windows_are_served(&mut self, set: usize) {
        let own = in_hierarchy(&self.qps, set).1;
        let window = own.window;
        let Some(seen) = self.seen[set] else {
            return self.seen[set] = window.map(|window| Seen { window, offered: [0; 3] });
        };
        if window.is_some_and(|window| window.start == seen.window.start) {
            return;
        }
        let length = (seen.window.end - seen.window.start).ticks();
        assert!(!self.exact || seen.window.end.ticks() == self.now, "set {set}");
        let parts = u128::from(self.qps.grid.parts);
        let fluid = |rate: u64| u128::from(rate) * u128::from(length);
        let [a, b, both] = seen.offered;
        let a_due = fluid(seen.window.load_of_a);
        let b_due = fluid(own.rate - seen.window.load_of_a);
        for (offered, due) in [(a + both, a_due), (b + both, b_due), (both, fluid(own.excess))] {
            let exactly = u128::from(offered) * parts == due;
            assert!(!self.exact || exactly, "set {set} at {}: {offered}", self.now);
        }
        self.seen[set] = window.map(|window| Seen { window, offered: [0; 3] });
    }
}
