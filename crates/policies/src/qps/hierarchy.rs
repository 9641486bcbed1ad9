//! A hierarchy: sets that share masters, directly or not, with all that they decide by. It knows no
//! other, nor anything of admission; what it decides depends on nothing else.

use super::agenda::Agenda;
use super::members::Task;
use super::offline::{Blueprint, Grid, Item};
use super::queue::Queue;
use super::{BOTH, Class, Manner, Member, News, Seat, Set};
use crate::parts::jobs::ByVcpu;
use crate::parts::local;
use alloc::sync::Arc;
use alloc::vec::Vec;
use maracas_core::contract::{Grant, Mode};
use maracas_core::{CoreSet, Duration, Event, Instant, Plan, System, VcpuId};

#[derive(Default, Debug)]
pub(super) struct Counts {
    pub(super) mode_changes: u64,
    pub(super) windows: u64,
    pub(super) rounded_windows: u64,
    pub(super) short_windows: u64,
}

pub(super) struct Hierarchy {
    pub(super) grid: Grid,
    pub(super) manner: Manner,
    /// Each set before its host.
    pub(super) sets: Vec<Set>,
    /// By slots, of which each is one task's for ever: a member that left a major set is no other.
    pub(super) tasks: Vec<Option<Task>>,
    pub(super) agenda: Agenda,
    /// Tasks of which something changed since the last decision, and their slots.
    changed: Vec<(VcpuId, u32)>,
    /// Tasks that left since then: they may stand behind their sets' run queues.
    gone: Vec<VcpuId>,
    /// What is granted of a class where the chosen item is not its first one; scratch.
    pub(super) scratch: [Vec<Grant>; 2],
    pub(super) counts: Counts,
}

impl Set {
    /// `seats` says where the sets of its hierarchy are, by their places among all.
    fn new(blueprint: Blueprint, seats: &[Seat], slots: &ByVcpu<Home>) -> Self {
        let Blueprint { core, items, rate, excess, host } = blueprint;
        let member = |(item, rate)| match item {
            Item::Master(guest) => Member { item: Item::Master(seats[guest].set), slot: 0, rate },
            Item::Task(vcpu) => {
                Member { item, slot: slots.get(vcpu).map_or(0, |home| home.slot), rate }
            }
        };
        Self {
            core,
            host: host.map(|host| seats[host].set),
            members: items.into_iter().map(member).collect(),
            rate,
            excess,
            queue: Queue::default(),
            heads: [None; 2],
            window: None,
            synced: Instant::ZERO,
            class: Class::A,
            queued: None,
            lent_core: None,
            news: News::Other,
        }
    }
}

impl Hierarchy {
    /// Without any set.
    pub(super) fn new(grid: Grid, manner: Manner) -> Self {
        Self {
            grid,
            manner,
            sets: Vec::new(),
            tasks: Vec::new(),
            agenda: Agenda::new(0),
            changed: Vec::new(),
            gone: Vec::new(),
            scratch: Default::default(),
            counts: Counts::default(),
        }
    }
    /// The same with these sets.
    fn with_sets(self, sets: Vec<Set>) -> Self {
        Self { agenda: Agenda::new(sets.len()), sets, ..self }
    }
    /// The cores of its sets.
    pub(super) fn cores(&self) -> CoreSet {
        self.sets.iter().map(|set| set.core).collect()
    }
    /// How many masters stand above each other at most.
    pub(super) fn levels(&self) -> u64 {
        let mut levels = alloc::vec![0; self.sets.len()];
        for (place, set) in self.sets.iter().enumerate() {
            if let Some(host) = set.host {
                levels[host] = levels[host].max(levels[place] + 1);
            }
        }
        levels.into_iter().max().unwrap_or(0)
    }
    /// Takes a task in; its slot.
    pub(super) fn add(&mut self, task: Task) -> u32 {
        self.tasks.push(Some(task));
        (self.tasks.len() - 1) as u32
    }
    /// Lets the task in `slot` go.
    pub(super) fn remove(&mut self, vcpu: VcpuId, slot: u32) -> Option<Task> {
        self.gone.push(vcpu);
        self.tasks.get_mut(slot as usize)?.take()
    }
    /// The task in `slot`.
    #[inline]
    pub(super) fn task(&self, slot: u32) -> Option<&Task> {
        self.tasks.get(slot as usize)?.as_ref()
    }
    /// Does something to a task, and notes the task where that says that it changed; whether it did
    /// for the first time since the last decision.
    #[inline]
    pub(super) fn change(
        &mut self,
        vcpu: VcpuId,
        slot: u32,
        act: impl FnOnce(&mut Task) -> bool,
    ) -> bool {
        let Some(Some(task)) = self.tasks.get_mut(slot as usize) else { return false };
        let is_news = act(task) && !task.changed;
        if is_news {
            task.changed = true;
            self.changed.push((vcpu, slot));
        }
        is_news
    }

    /// Decides for its cores; when it is due next.
    pub(super) fn plan(&mut self, now: Instant, plan: &mut Plan) -> Instant {
        while let Some(vcpu) = self.gone.pop() {
            for set in &self.sets {
                local::allow_surplus(set.core, vcpu, false, plan);
            }
        }
        while let Some((vcpu, slot)) = self.changed.pop() {
            self.requeue_task(vcpu, slot, plan);
        }
        self.agenda.wake(now);
        self.manage(now);
        self.dispatch(now, plan);
        self.agenda.next()
    }

    /// Brings a task's place in its set's queue, or behind it, in step with its job.
    fn requeue_task(&mut self, vcpu: VcpuId, slot: u32, plan: &mut Plan) {
        // It may have left.
        let Some(Some(task)) = self.tasks.get_mut(slot as usize) else { return };
        task.changed = false;
        let set = &mut self.sets[task.set];
        let wanted = task.wanted(self.manner.precise);
        let pending = (Item::Task(vcpu), task.class, task.until);
        let changed = set.queue.requeue(pending, &mut task.queued, wanted);
        let news = if wanted.is_none() { News::Gone(vcpu) } else { News::Other };
        set.news.add(if changed { news } else { News::Nothing });
        if self.manner.surplus {
            local::allow_surplus(set.core, vcpu, task.is_spent(), plan);
        }
        self.agenda.touch(task.set);
    }

    /// The same for a set's master, whose job is what is left of its window's budget.
    pub(super) fn requeue_master(&mut self, set: usize) {
        let own = &self.sets[set];
        let Some(host) = own.host else { return };
        let with_budget = own.window.as_ref().filter(|window| window.left[BOTH] > 0);
        let wanted = with_budget.map(|window| window.end);
        let (mut queued, pending) = (own.queued, (Item::Master(set), own.class, Duration::ZERO));
        let hosting = &mut self.sets[host];
        hosting.news.add_if(hosting.queue.requeue(pending, &mut queued, wanted));
        self.sets[set].queued = queued;
        self.agenda.touch(host);
    }
}

/// Where a task is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    pub(super) hierarchy: usize,
    /// Its slot there.
    pub(super) slot: u32,
}

/// The hierarchies: all of them, or one.
pub(super) struct Hierarchies {
    /// Where all tasks are. Shared with what decides for one hierarchy, and changed only while it
    /// is not.
    pub(super) homes: Arc<ByVcpu<Home>>,
    /// The number of the first one here.
    pub(super) first: usize,
    /// Of the manner of all: whether jobs are cut.
    pub(super) precise: bool,
    pub(super) list: Vec<Hierarchy>,
}

impl Hierarchies {
    /// All of them, of these sets, and where each set came to be.
    pub(super) fn of(
        system: &System,
        grid: Grid,
        manner: Manner,
        sets: Vec<Blueprint>,
    ) -> (Vec<Seat>, Self) {
        let (seats, count) = seats(&sets);
        let empty = || Hierarchy::new(grid, manner);
        let mut list: Vec<Hierarchy> = core::iter::repeat_with(empty).take(count).collect();
        let mut homes = ByVcpu::default();
        for vcpu in &system.vcpus {
            let holds =
                |set: &Blueprint| set.items.iter().any(|(item, _)| *item == Item::Task(vcpu.id));
            if let Some(place) = sets.iter().position(holds) {
                let Seat { hierarchy, set } = seats[place];
                let slot = list[hierarchy].add(Task::new(vcpu, set));
                homes.insert(vcpu.id, Home { hierarchy, slot });
            }
        }
        let mut built: Vec<Vec<Set>> = core::iter::repeat_with(Vec::new).take(count).collect();
        for (blueprint, seat) in sets.into_iter().zip(&seats) {
            built[seat.hierarchy].push(Set::new(blueprint, &seats, &homes));
        }
        let list = list.into_iter().zip(built).map(|(empty, sets)| empty.with_sets(sets)).collect();
        (seats, Self { homes: Arc::new(homes), first: 0, precise: manner.precise, list })
    }

    #[inline]
    pub(super) fn at(&mut self, hierarchy: usize) -> &mut Hierarchy {
        &mut self.list[hierarchy - self.first]
    }

    /// What happens to a task is told to its hierarchy; which that is, where that is to decide by
    /// it.
    #[inline(always)] // Of each event, and called twice.
    pub(super) fn learn(&mut self, event: &Event) -> Option<usize> {
        match event {
            Event::Released(job) => self.change(job.id.vcpu, |task, precise| {
                task.release(job, precise);
                true
            }),
            Event::Completed(id) => self.change(id.vcpu, |task, _| {
                task.complete(id.index);
                true
            }),
            // Only enforcement looks at what was consumed.
            Event::Ran(segment) if self.precise && segment.mode == Mode::Foreground => {
                let (to, service) = (segment.to, segment.usage.service);
                self.change(segment.vcpu, |task, _| task.charge(to, service))
            }
            Event::Ran(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => None,
        }
    }
    #[inline]
    fn change(&mut self, vcpu: VcpuId, act: impl FnOnce(&mut Task, bool) -> bool) -> Option<usize> {
        let Home { hierarchy, slot } = *self.homes.get(vcpu)?;
        let precise = self.precise;
        self.at(hierarchy).change(vcpu, slot, |task| act(task, precise)).then_some(hierarchy)
    }
}

/// Where each set is: those that share masters, directly or not, in one hierarchy, in their order.
/// And how many hierarchies there are, which are numbered by their first sets.
fn seats(sets: &[Blueprint]) -> (Vec<Seat>, usize) {
    let mut tops: Vec<usize> = (0..sets.len()).collect();
    // A host has a higher place than its guests.
    for place in (0..sets.len()).rev() {
        tops[place] = sets[place].host.map_or(place, |host| tops[host]);
    }
    let mut counts: Vec<usize> = Vec::new();
    let mut numbers: Vec<Option<usize>> = alloc::vec![None; sets.len()];
    let seat = |top: &usize| {
        let hierarchy = *numbers[*top].get_or_insert_with(|| {
            counts.push(0);
            counts.len() - 1
        });
        counts[hierarchy] += 1;
        Seat { hierarchy, set: counts[hierarchy] - 1 }
    };
    let seats = tops.iter().map(seat).collect();
    (seats, counts.len())
}
