//! DP-WRAP: between any two consecutive deadlines of the system every task gets its share of the
//! time, wrapped around the cores; optimal where deadlines are periods.
//!
//! # Paper
//! G. Levin, S. Funk, C. Sadowski, I. Pye, S. Brandt. "DP-FAIR: A Simple Model for Understanding
//! Optimal Multiprocessor Scheduling." ECRTS 2010. The wrap-around rule: R. McNaughton, "Scheduling
//! with Deadlines and Loss Functions", Management Science 6(1), 1959.
//! Shares in whole ticks: D. Zhu, X. Qi, D. Mosse, R. Melhem, "An Optimal Boundary Fair Scheduling
//! Algorithm for Multiprocessor Real-Time Systems", JPDC 2011, in the order of PD2: J. H. Anderson,
//! A. Srinivasan, "Mixed Pfair/ERfair Scheduling of Asynchronous Periodic Tasks", ECRTS 2001.
//! # Model
//! Periodic tasks with offsets and sporadic ones, deadlines up to the period, the sum of all C/D at
//! most m; all are there from the start, jobs migrate and do not suspend themselves.
//! # How it works
//! A *slice* lies between two consecutive releases of any task, L ticks long. In it a task of rate
//! u gets a chunk of u L. The chunks stand on a strip, by the task's id, and the strip is cut every
//! L: each piece is one core's. A task on a cut runs at the end of the slice on one core and,
//! before that, at its beginning on the next one. Every second slice is mirrored in time, so that
//! what ran last on a core runs there first. A core's run queue is its piece of the strip, each
//! grant up to where the task's chunk ends, so that cores go from chunk to chunk by themselves; a
//! task on a cut changes run queues when its first part is done. Equal claims to a tick, see below:
//! the lower id.
//!
//! A task whose jobs come at times not known before (`sporadic`) *waits* from one deadline to the
//! next release. A slice ends at the first deadline that any task may have, so at the latest D
//! after it began where one waits. Who waits has no chunk on the strip, but room for one is kept.
//! A job that is released within the slice has its task's rate of what is left of it, at the end
//! of the strip, from that instant on. Slices in which tasks wait are not mirrored, so that what is
//! free of the strip lies as late as it can.
//! # Invariants
//! At the end of a slice a task has had its rate times the time since its release, to within one
//! tick, and exactly C at its deadline; those that wait may lack what the verdict tolerates. At
//! most m - 1 tasks migrate within a slice. No run queue lasts longer than its slice.
//! # Where we differ from the paper
//! Time is in ticks, and chunks are whole ones: u L rounded down so that nothing drifts, then one
//! more tick for as many tasks as there is room, in the order in which Pfair scheduling would grant
//! it. So nothing is missed, whatever the periods: in 30,000 sets with U = m and periods of 2 to 60
//! ticks, half of them with offsets, nothing was; the statistic `short slices` would count it.
//! Chunks follow each other without a pause: time that a task leaves unused is taken at the end of
//! the slice, not in its place. A late decision shifts what runs and loses none of it. A job that
//! needs more than C harms no task (`enforcement`).
//!
//! Sporadic tasks and deadlines before the period's end are the paper's section on such tasks with
//! less bookkeeping: the paper lets cores idle, or others go ahead, with what the tasks that wait
//! have left free up to now, and no more. A strip that is not mirrored keeps to that by itself. Let
//! the chunks of a slice of length L be k L + p in all, p < L. After time t the m - k - 1 cores
//! behind the last piece and, from p on, its own core have idled, together at most
//! (m - (k L + p) / L) t, which is what the rates of those that wait and of no task come to by
//! then. So what is left of the slice holds what is left of the chunks and the rate of each that
//! comes. That is for parts of ticks. In whole ones what is free may fall faster than the rounded
//! shares of those that wait: the last of several that come together, a few ticks after a slice
//! began in which many small chunks were rounded up, may lack a tick. The verdict's tolerance is a
//! tick for each task that waits; that no job lacks more is tried, not proven: see the tests.

#[cfg(test)]
mod tests;

mod sporadic;

use crate::parts::fluid::{self, ENFORCEMENT};
use crate::parts::jobs::{Backlog, ByVcpu};
use crate::parts::table::{Table, Use};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use maracas_core::admission::Verdict;
use maracas_core::contract::{
    Claims, Entry, Grant, Limit, Mode, Needs, Statistic, no_service_vcpus,
};
use maracas_core::params::{ParamSpec, Params};
use maracas_core::{CoreId, CoreSet, Duration, Event, Instant, Plan, Policy, System, Vcpu, VcpuId};
use sporadic::Standing;

const PARAMS: &[ParamSpec] = &[ENFORCEMENT];

pub(crate) const ENTRY: Entry = Entry {
    name: "dp-wrap",
    paper: "Levin, Funk, Sadowski, Pye and Brandt, DP-FAIR: A Simple Model for Understanding \
            Optimal Multiprocessor Scheduling, ECRTS 2010",
    summary: "DP-WRAP: every task's share between any two deadlines, wrapped around the cores; \
              optimal, for sporadic tasks to some ticks, with many switches",
    params: PARAMS,
    needs: Needs { jobs: true, ..Needs::BUDGETS },
    claims: Claims { partitioned: false, work_conserving: false, no_miss_when_admitted: true },
    service_vcpus: no_service_vcpus,
    admit,
    fits: None,
    build,
};

fn admit(system: &System, _: &Params) -> Verdict {
    let mut verdict = fluid::judged_by_density(system).1;
    verdict.tolerance = sporadic::tolerance(system);
    verdict
}

fn build(system: &System, params: &Params) -> Result<Box<dyn Policy>, Verdict> {
    let (table, verdict) = fluid::judged_by_density(system);
    if !verdict.accepted() {
        return Err(verdict);
    }
    Ok(Box::new(DpWrap::new(table, system, params)))
}

/// `budget * elapsed / period`: whole ticks, and what is left over in parts of the period.
fn share(budget: u64, elapsed: u64, period: u64) -> (u64, u64) {
    match budget.checked_mul(elapsed) {
        Some(product) => (product / period, product % period),
        None => {
            let product = u128::from(budget) * u128::from(elapsed);
            // `elapsed` is at most a few periods, so the quotient fits.
            ((product / u128::from(period)) as u64, (product % u128::from(period)) as u64)
        }
    }
}

/// Where a task on a cut of the strip goes on within the slice.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// How much of the job's time is given when its first part ends.
    until: u64,
    to: CoreId,
}

struct Task {
    vcpu: VcpuId,
    backlog: Backlog,
    cost: Duration,
    /// What it gets in a period: C, where whole cores may be used.
    budget: u64,
    /// From a release to its deadline.
    period: u64,
    /// The release of its job in this slice, or its first one where that lies ahead; of one that
    /// waits, the slice's beginning.
    release: u64,
    /// How much of that job's time is given when the slice ends.
    given: u64,
    /// How much of it in this slice; for one that waits so much room is kept.
    chunk: u64,
    core: CoreId,
    cut: Option<Cut>,
    /// Whether it stands in `changed`.
    changed: bool,
    standing: Standing,
}

impl Task {
    fn new(vcpu: &Vcpu, system: &System) -> Self {
        let r = &vcpu.reservation;
        let (standing, release) = sporadic::standing(vcpu);
        let window = r.deadline.min(r.period);
        Self {
            vcpu: vcpu.id,
            backlog: Backlog::cut(vcpu),
            cost: r.budget,
            budget: fluid::inflated(r.budget, system.capacity).ticks().min(window.ticks()),
            period: window.ticks(),
            release,
            given: 0,
            chunk: 0,
            core: CoreId(0),
            cut: None,
            changed: false,
            standing,
        }
    }
    /// The meter's reading when so much of the job's time is given.
    fn reading(&self, given: u64) -> Duration {
        let granted = self.backlog.granted();
        (granted.saturating_sub(self.cost) + Duration::from_ticks(given)).min(granted)
    }
    /// Where its part on its present core ends.
    fn grant(&self) -> Grant {
        let given = self.cut.map_or(self.given, |cut| cut.until);
        Grant::new(self.vcpu, Limit(self.reading(given)))
    }
    /// Its share of so much time: whole ticks, and what is left over in parts of its period.
    fn share_of(&self, time: u64) -> (u64, u64) {
        share(self.budget, time, self.period)
    }
    /// Whether it must change cores now.
    fn crosses(&self) -> bool {
        self.cut.is_some_and(|cut| self.backlog.used() >= self.reading(cut.until))
    }
}

/// The instants at which jobs of periodic tasks are released.
struct Releases {
    /// By task: the next one, and the period; none comes of a task that left.
    next: Vec<(u64, u64)>,
}

impl Releases {
    /// The next one of all, but no later than `limit`.
    fn pop(&mut self, limit: u64) -> u64 {
        let at = self.next.iter().map(|(next, _)| *next).min().unwrap_or(u64::MAX).min(limit);
        for (next, period) in self.next.iter_mut().filter(|(next, _)| *next == at) {
            *next = next.saturating_add(*period);
        }
        at
    }
}

/// A task's claim to the tick by which its share was rounded down: the lesser one goes first. The
/// order is that of PD2 among Pfair subtasks, of which the tick is one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Claim {
    /// When the task must have had the tick to be no tick behind its share.
    deadline: u64,
    /// Whether the next tick may be used only from that deadline on.
    alone: bool,
    /// Until when it would have to run all the time if it had the tick no sooner, as a distance
    /// from the end of time: the later, the more urgent.
    cascade: u64,
    place: usize,
}

#[derive(Default)]
struct Counts {
    slices: u64,
    cuts: u64,
    rounded: u64,
    short: u64,
}

struct DpWrap {
    table: Table,
    /// Whether jobs that used up C may use idle time.
    surplus: bool,
    /// By id, which is the order on the strip.
    tasks: Vec<Task>,
    places: ByVcpu<usize>,
    releases: Releases,
    /// Jobs that did not begin yet, of tasks whose releases are not known before: when they were
    /// released, and the task's place.
    arrived: Vec<(u64, usize)>,
    /// The present slice.
    start: u64,
    end: u64,
    mirrored: bool,
    /// The core on which the strip ends, and how far in the slice.
    strip: (usize, u64),
    /// By core: what stands there, by place.
    run_queues: Vec<Vec<usize>>,
    /// Cores whose run queue may have changed since the last decision.
    stale: CoreSet,
    /// Tasks of which something changed since, by place.
    changed: Vec<usize>,
    claims: Vec<Claim>,
    scratch: Vec<Grant>,
    counts: Counts,
}

impl DpWrap {
    fn new(table: Table, system: &System, params: &Params) -> Self {
        let mut tasks: Vec<Task> =
            system.vcpus.iter().map(|vcpu| Task::new(vcpu, system)).collect();
        tasks.sort_by_key(|task| task.vcpu);
        let mut places = ByVcpu::default();
        for (place, task) in tasks.iter().enumerate() {
            places.insert(task.vcpu, place);
        }
        let next = tasks.iter().map(|task| match (task.standing, task.release) {
            (Standing::Periodic, 0) => (task.period, task.period),
            (Standing::Periodic, offset) => (offset, task.period),
            _ => (u64::MAX, 0),
        });
        Self {
            table,
            surplus: params.choice(&ENFORCEMENT) == "surplus",
            places,
            releases: Releases { next: next.collect() },
            tasks,
            arrived: Vec::new(),
            start: 0,
            end: 0,
            // The first slice is not.
            mirrored: true,
            strip: (0, 0),
            run_queues: alloc::vec![Vec::new(); system.cores.len()],
            stale: CoreSet::EMPTY,
            changed: Vec::new(),
            claims: Vec::new(),
            scratch: Vec::new(),
            counts: Counts::default(),
        }
    }

    #[inline]
    fn change(&mut self, vcpu: VcpuId, act: impl FnOnce(&mut Task) -> bool) {
        let Some(place) = self.places.get(vcpu).copied() else { return };
        let task = &mut self.tasks[place];
        if act(task) && !task.changed {
            task.changed = true;
            self.changed.push(place);
        }
    }
}

impl Policy for DpWrap {
    fn on_event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Released(job) => {
                self.arrive(job);
                self.change(job.id.vcpu, |task| {
                    task.backlog.release(job);
                    true
                });
            }
            Event::Completed(id) => self.change(id.vcpu, |task| {
                task.backlog.complete(*id);
                true
            }),
            Event::Ran(segment) if segment.mode == Mode::Foreground => {
                self.change(segment.vcpu, |task| {
                    task.backlog.charge_segment(segment.to, segment.usage.service) || task.crosses()
                });
            }
            Event::Arrived(vcpu) | Event::Changed(vcpu) => {
                let r = vcpu.reservation;
                let reason = format!(
                    "DP-WRAP lays out all tasks before the start, so {} ({} every {}) cannot come \
                     or change later; have it there from the start, or use a policy that admits at \
                     run time, such as u-edf, g-edf or p-edf",
                    vcpu.id, r.budget, r.period
                );
                self.table.refuse(vcpu.id, reason);
            }
            Event::Left(vcpu) => {
                // Its share of the strip is free from the next slice on; its releases end none.
                self.table.leave(*vcpu, at, Use::NONE);
                if let Some(&place) = self.places.get(*vcpu) {
                    self.releases.next[place] = (u64::MAX, 0);
                }
                self.change(*vcpu, |task| {
                    task.standing = Standing::Gone;
                    true
                });
            }
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
        self.table.reply(plan);
        self.go_on(now.ticks());
        while let Some(place) = self.changed.pop() {
            let task = &mut self.tasks[place];
            task.changed = false;
            self.stale.insert(task.core);
            if task.standing == Standing::Gone {
                self.run_queues[task.core.0 as usize].retain(|other| *other != place);
            } else {
                self.cross(place);
            }
        }
        self.write_run_queues(plan);
        plan.wake = Instant::from_ticks(self.end);
    }

    fn statistics(&self) -> Vec<Statistic> {
        let statistic = |name, value| Statistic { name, core: None, vcpu: None, value };
        alloc::vec![
            statistic("slices", self.counts.slices),
            statistic("tasks on cuts", self.counts.cuts),
            statistic("rounded slices", self.counts.rounded),
            statistic("short slices", self.counts.short),
        ]
    }
}

impl DpWrap {
    /// Goes through slices, and the releases within them, up to `now`.
    fn go_on(&mut self, now: u64) {
        let mut is_new = false;
        loop {
            let next = self.next_within().filter(|(at, _)| *at <= now);
            if let Some((at, place)) = next {
                if core::mem::take(&mut is_new) {
                    self.lay_out();
                }
                self.enter(place, at);
            } else if self.end <= now && self.end != u64::MAX {
                self.open_slice();
                is_new = true;
            } else {
                break;
            }
        }
        if is_new {
            self.lay_out();
        }
    }

    /// Goes on to the next slice and gives every task its chunk of it.
    fn open_slice(&mut self) {
        self.start = self.end;
        let (limit, waits) = self.open_windows();
        self.end = self.releases.pop(limit);
        self.mirrored = !self.mirrored && !waits;
        self.counts.slices += 1;
        let length = self.end - self.start;
        let mut room = length.saturating_mul(self.run_queues.len() as u64);
        let (all, mut kept) = (room, 0);
        self.claims.clear();
        for place in 0..self.tasks.len() {
            let task = &mut self.tasks[place];
            let is_periodic = task.standing == Standing::Periodic;
            if is_periodic && self.start == task.release.saturating_add(task.period) {
                (task.release, task.given) = (self.start, 0);
            }
            task.chunk = 0;
            // The slice ends at the first release at the latest, or lies after it.
            let Some(elapsed) = self.end.checked_sub(task.release) else { continue };
            if task.standing == Standing::Gone || self.end == u64::MAX {
                continue;
            }
            if let Standing::Waits { .. } = task.standing {
                // For a job that comes a tick later, which is the soonest.
                kept += task.share_of(length - 1).0;
                continue;
            }
            // A job that was told late may be past its deadline.
            let elapsed = elapsed.min(task.period);
            let (whole, rest) = share(task.budget, elapsed, task.period);
            let wanted = whole.saturating_sub(task.given);
            task.chunk = wanted.min(room);
            self.counts.short += u64::from(task.chunk < wanted);
            task.given += task.chunk;
            room -= task.chunk;
            if rest > 0 && task.given == whole && task.chunk < length {
                self.claims.push(Self::claim(task, place));
            }
        }
        if self.claims.is_empty() {
            return;
        }
        self.counts.rounded += 1;
        room = room.saturating_sub(all - self.most(kept));
        if (room as u128) < self.claims.len() as u128 {
            self.claims.sort_unstable();
        }
        for claim in self.claims.iter().take(usize::try_from(room).unwrap_or(usize::MAX)) {
            self.tasks[claim.place].chunk += 1;
            self.tasks[claim.place].given += 1;
        }
    }

    /// The claim of `task`, which has its share rounded down and a part of a tick more is due.
    fn claim(task: &Task, place: usize) -> Claim {
        let Task { budget, period, release, given, .. } = *task;
        let [budget, period] = [budget, period].map(u128::from);
        let ticks = (u128::from(given) + 1) * period;
        let deadline = ticks.div_ceil(budget);
        let rest = period - budget;
        // Anderson and Srinivasan: the group deadline of tasks with at least half a core.
        let cascade = match 2 * budget >= period {
            true => ((deadline * rest).div_ceil(period) * period).div_ceil(rest),
            false => 0,
        };
        Claim {
            deadline: release.saturating_add(deadline as u64),
            alone: ticks.is_multiple_of(budget),
            cascade: u64::MAX
                - if cascade > 0 { release.saturating_add(cascade as u64) } else { 0 },
            place,
        }
    }

    /// Cuts the strip into one piece a core (McNaughton).
    fn lay_out(&mut self) {
        self.run_queues.iter_mut().for_each(Vec::clear);
        self.strip = (0, 0);
        for place in 0..self.tasks.len() {
            match self.tasks[place].standing {
                Standing::Periodic | Standing::Active => self.append(place, 0),
                Standing::Waits { .. } => self.leave_rest(place),
                Standing::Gone => {}
            }
        }
        if self.mirrored {
            self.run_queues.iter_mut().for_each(|run_queue| run_queue.reverse());
        }
        for place in 0..self.tasks.len() {
            self.cross(place);
        }
        self.stale = (0..self.run_queues.len() as u16).map(CoreId).collect();
    }

    /// Puts a task's chunk at the end of the strip, `from` ticks after the slice's beginning at the
    /// soonest. A task that stands on a cut runs first on the core where its part lies at the
    /// beginning.
    fn append(&mut self, place: usize, from: u64) {
        let (length, last) = (self.end - self.start, self.run_queues.len() - 1);
        let (mut core, mut filled) = self.strip;
        filled = filled.max(from);
        if filled == length && core < last {
            (core, filled) = (core + 1, from);
        }
        let task = &mut self.tasks[place];
        task.cut = None;
        task.core = CoreId(core as u16);
        let room = length - filled;
        if task.chunk > room && core < last {
            let (next, beyond) = (CoreId(core as u16 + 1), task.chunk - room);
            let (first, to, later) =
                if self.mirrored { (task.core, next, beyond) } else { (next, task.core, room) };
            task.core = first;
            task.cut = Some(Cut { until: task.given - later, to });
            self.counts.cuts += 1;
            (core, filled) = (core + 1, from + beyond);
        } else {
            filled += task.chunk.min(room);
        }
        self.run_queues[task.core.0 as usize].push(place);
        self.strip = (core, filled);
    }

    /// Takes a task on a cut to its other core once its first part is done.
    fn cross(&mut self, place: usize) {
        let task = &mut self.tasks[place];
        if !task.crosses() {
            return;
        }
        let Some(cut) = task.cut.take() else { return };
        let from = core::mem::replace(&mut task.core, cut.to);
        self.run_queues[from.0 as usize].retain(|other| *other != place);
        self.run_queues[cut.to.0 as usize].push(place);
        self.stale.insert(from);
        self.stale.insert(cut.to);
    }

    fn write_run_queues(&mut self, plan: &mut Plan) {
        let mut grants = core::mem::take(&mut self.scratch);
        for core in self.stale.iter() {
            let tasks = || self.run_queues[core.0 as usize].iter().map(|place| &self.tasks[*place]);
            grants.clear();
            grants.extend(tasks().map(Task::grant));
            if plan.run_queue(core).foreground != grants {
                plan.run_queue_mut(core).foreground.clone_from(&grants);
            }
            grants.clear();
            let spent = tasks().filter(|task| self.surplus && task.backlog.is_spent());
            grants.extend(spent.map(|task| Grant::new(task.vcpu, Limit::NEVER)));
            if plan.run_queue(core).background != grants[..] {
                let background = &mut plan.run_queue_mut(core).background;
                background.clear();
                background.extend(grants.iter().copied());
            }
        }
        self.scratch = grants;
        self.stale.clear();
    }
}
