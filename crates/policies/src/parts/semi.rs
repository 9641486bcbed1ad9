//! Semi-partitioned EDF for jobs: each core decides alone what of its own runs, and a split task
//! stands on one core after the other, as its windows ([`super::split`]) or its jobs come.
//!
//! A whole task is one of its core's [`Partition`] for ever. Of a split task, the piece whose
//! window is open stands in the partition of its core, as a job with the window's end for a
//! deadline and with the piece's budget. It is taken out where the next window begins, the budget
//! is used or the job is complete. So no task stands on two cores. Where whole jobs are divided
//! among cores ([`Turns`]), the piece is the job.

use super::jobs::{self, Backlog, ByVcpu};
use super::partition::{Order, Partition};
use super::split::Piece;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use maracas_core::admission::NotAdmitted;
use maracas_core::contract::Statistic;
use maracas_core::params::Params;
use maracas_core::{
    CoreId, CoreSet, Duration, Event, Instant, Job, Plan, Policy, System, Vcpu, VcpuId,
};

/// Whose deadlines count as so much later go behind all others: 146 years of nanoseconds.
const BEHIND: Duration = Duration::from_ticks(1 << 62);

/// Which job of a task is which core's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    pub(crate) cores: [CoreId; 2],
    /// Of the first k jobs `share / of` times k, rounded up, are the first core's.
    pub(crate) share: u128,
    pub(crate) of: u128,
}

impl Turns {
    fn core(&self, job: u32) -> CoreId {
        let until = |jobs: u32| (u128::from(jobs) * self.share).div_ceil(self.of);
        let is_first = until(job.saturating_add(1)) > until(job);
        self.cores[usize::from(!is_first)]
    }
}

/// The windows of a job.
struct Windows {
    /// In the order in which they begin, each time.
    pieces: Vec<Piece>,
    /// How often they come in a job, one time after the other.
    times: u64,
    /// How long after each other.
    every: Duration,
}

/// Of a job's windows, what has begun.
struct Begun {
    /// The last one that has.
    open: Piece,
    /// When it ends.
    deadline: Instant,
    /// What all that have may do together.
    budget: Duration,
    /// When the next one begins, if there is one more.
    next: Instant,
}

impl Windows {
    /// Those of a task that has `deadline` for each job.
    fn new(pieces: Vec<Piece>, deadline: Duration) -> Option<Self> {
        let every = pieces.first()?.every;
        let times = (deadline.ticks() / every.ticks().max(1)).max(1);
        Some(Self { pieces, times, every })
    }
    /// At `now`, of the job that was released at `release`; at its release the first has begun.
    fn begun(&self, release: Instant, now: Instant) -> Option<Begun> {
        let passed = now.saturating_since(release);
        let time = (passed.ticks() / self.every.ticks().max(1)).min(self.times - 1);
        let at = release + self.every * time;
        let begun = self.pieces.iter().take_while(|piece| at + piece.from <= now).count();
        let (begun, later) = self.pieces.split_at(begun.max(1));
        let sum = |pieces: &[Piece]| pieces.iter().map(|piece| piece.budget).sum::<Duration>();
        let again = (time + 1 < self.times).then(|| at + self.every);
        let later = later.first().map(|piece| at + piece.from);
        let open = *begun.last()?;
        Some(Begun {
            open,
            deadline: at + open.from + open.window,
            budget: sum(&self.pieces) * time + sum(begun),
            next: later.or(again).unwrap_or(Instant::NEVER),
        })
    }
}

/// How the jobs of a task are divided among cores.
enum Division {
    Windows(Windows),
    Jobs(Turns),
}

/// A policy that runs, on each core, jobs of tasks that are on two before all others, both by
/// deadline.
pub(crate) fn build_in_turns(
    system: &System,
    params: &Params,
    whole: Vec<(Vcpu, CoreId)>,
    turns: Vec<(Vcpu, Turns)>,
) -> Box<dyn Policy> {
    let mut policy = Semi::new(system, BEHIND);
    for (vcpu, core) in whole {
        policy.enter_whole(&vcpu, core, Backlog::new(&vcpu, params));
    }
    let turns = turns.into_iter().map(|(vcpu, turns)| {
        let backlog = Backlog::cut(&vcpu);
        Split::new(&vcpu, Division::Jobs(turns), backlog)
    });
    policy.split = turns.collect();
    Box::new(policy)
}

/// A policy that runs, on each core, what was placed there, by deadline.
pub(crate) fn build(
    system: &System,
    params: &Params,
    placed: Vec<(Vcpu, Vec<Piece>)>,
) -> Box<dyn Policy> {
    let mut policy = Semi::by_deadline(system);
    for (vcpu, pieces) in placed {
        let is_whole = pieces.len() == 1;
        let backlog = if is_whole { Backlog::new(&vcpu, params) } else { Backlog::cut(&vcpu) };
        policy.enter(&vcpu, pieces, backlog);
    }
    Box::new(policy)
}

/// A slot of a core's partition.
#[derive(Clone, Copy, Debug)]
struct Place {
    core: CoreId,
    slot: u32,
}

/// What of a split task is to run now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Due {
    core: CoreId,
    /// The window's end.
    deadline: Instant,
    /// Up to which reading of the meter.
    until: Duration,
}

/// A task in pieces.
struct Split {
    vcpu: VcpuId,
    /// C and D.
    budget: Duration,
    deadline: Duration,
    division: Division,
    backlog: Backlog,
    /// What stands in a partition, and where.
    standing: Option<(Due, Place)>,
    /// When the job's next window begins, if it has one more.
    next: Instant,
}

impl Split {
    fn new(vcpu: &Vcpu, division: Division, backlog: Backlog) -> Self {
        let r = &vcpu.reservation;
        Self {
            vcpu: vcpu.id,
            budget: r.budget,
            deadline: r.deadline,
            division,
            backlog,
            standing: None,
            next: Instant::NEVER,
        }
    }
    /// What is to run at `now`; notes when the next window begins.
    fn due(&mut self, now: Instant) -> Option<Due> {
        self.next = Instant::NEVER;
        let (deadline, until) = self.backlog.paying()?;
        let windows = match &self.division {
            Division::Windows(windows) => windows,
            Division::Jobs(turns) => {
                let core = turns.core(self.backlog.paying_job()?);
                return Some(Due { core, deadline, until });
            }
        };
        let release = Instant::from_ticks(deadline.ticks().saturating_sub(self.deadline.ticks()));
        let begun = windows.begun(release, now)?;
        self.next = begun.next;
        let until = until.saturating_sub(self.budget.saturating_sub(begun.budget));
        let Begun { open: Piece { core, .. }, deadline, .. } = begun;
        (self.backlog.used() < until).then_some(Due { core, deadline, until })
    }
}

/// The scheduler of all cores.
pub(crate) struct Semi {
    partitions: Vec<Partition>,
    whole: ByVcpu<Place>,
    /// How much later deadlines of whole tasks count.
    behind: Duration,
    /// Never many: those that fit on no core.
    split: Vec<Split>,
    /// Cores whose partition was told something since the last decision.
    news: CoreSet,
    /// Homes that the next plan is to name.
    homes: Vec<(VcpuId, Option<CoreId>)>,
    /// Refusals that the next plan is to give.
    refused: Vec<(VcpuId, NotAdmitted)>,
}

impl Policy for Semi {
    fn on_event(&mut self, _: Instant, event: &Event) {
        match event {
            Event::Released(job) => self.release(job),
            Event::Completed(id) => self.change(id.vcpu, |backlog| backlog.complete(*id)),
            Event::Ran(segment) => {
                let (to, service) = (segment.to, segment.usage.service);
                self.change(segment.vcpu, |backlog| {
                    backlog.charge_segment(to, service);
                });
                let standing = self.find(segment.vcpu).and_then(|it| it.standing);
                if let Some((_, place)) = standing {
                    self.tell(place, |backlog| backlog.charge(service));
                }
            }
            Event::Arrived(vcpu) | Event::Changed(vcpu) => self.refuse(vcpu),
            Event::Left(vcpu) => drop(self.leave(*vcpu)),
            Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
    }

    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        for (vcpu, core) in self.homes.drain(..) {
            plan.set_home(vcpu, core);
        }
        for (vcpu, why) in self.refused.drain(..) {
            plan.answer(vcpu, Err(why));
        }
        for place in 0..self.split.len() {
            self.settle(place, now);
        }
        while let Some(core) = self.news.pop_first() {
            self.on(core).decide(core, plan);
        }
        plan.wake = self.split.iter().map(|it| it.next).min().unwrap_or(Instant::NEVER);
    }

    fn statistics(&self) -> Vec<Statistic> {
        let value = self.split.len() as u64;
        alloc::vec![Statistic { name: "split tasks", core: None, vcpu: None, value }]
    }
}

impl Semi {
    fn new(system: &System, behind: Duration) -> Self {
        Self {
            partitions: system.cores.iter().map(|_| Partition::new(Order::Deadline)).collect(),
            whole: ByVcpu::default(),
            behind,
            split: Vec::new(),
            news: CoreSet::EMPTY,
            homes: Vec::new(),
            refused: Vec::new(),
        }
    }
    /// One that runs, on each core, what was placed there, by deadline.
    pub(crate) fn by_deadline(system: &System) -> Self {
        Self::new(system, Duration::ZERO)
    }
    /// Takes a task in that was placed so; `backlog` is what it has before it, nothing of it done.
    pub(crate) fn enter(&mut self, vcpu: &Vcpu, pieces: Vec<Piece>, backlog: Backlog) {
        if let [Piece { core, .. }] = pieces[..] {
            self.enter_whole(vcpu, core, backlog);
        } else if let Some(windows) = Windows::new(pieces, vcpu.reservation.deadline) {
            self.split.push(Split::new(vcpu, Division::Windows(windows), backlog));
        }
    }
    /// Binds a whole task to its core.
    fn enter_whole(&mut self, vcpu: &Vcpu, core: CoreId, backlog: Backlog) {
        let slot = self.on(core).add(vcpu.id, backlog, Instant::ZERO);
        self.whole.insert(vcpu.id, Place { core, slot });
        self.homes.push((vcpu.id, Some(core)));
    }
    /// Whether nothing of a task is to be done.
    pub(crate) fn is_idle(&self, vcpu: VcpuId) -> bool {
        let split = || self.find(vcpu).map(|it| &it.backlog);
        let whole = self.whole.get(vcpu);
        let whole =
            whole.and_then(|place| self.partitions[place.core.0 as usize].backlog(place.slot));
        whole.or_else(split).is_none_or(Backlog::is_idle)
    }
    /// Whether the core has nothing to do, as of the last decision.
    pub(crate) fn rests(&self, core: CoreId) -> bool {
        self.partitions[core.0 as usize].is_empty()
    }
    fn release(&mut self, job: &Job) {
        let is_whole = self.whole.get(job.id.vcpu).is_some();
        let behind = if is_whole { self.behind } else { Duration::ZERO };
        let job = Job { deadline: job.deadline + behind, ..*job };
        self.change(job.id.vcpu, |backlog| backlog.release(&job));
    }
    fn on(&mut self, core: CoreId) -> &mut Partition {
        &mut self.partitions[core.0 as usize]
    }
    fn find(&self, vcpu: VcpuId) -> Option<&Split> {
        self.split.iter().find(|it| it.vcpu == vcpu)
    }
    /// Something happened to what stands in that place.
    fn tell(&mut self, place: Place, act: impl FnOnce(&mut Backlog)) {
        self.on(place.core).change(place.slot, act);
        self.news.insert(place.core);
    }
    /// Something happened to a task.
    fn change(&mut self, vcpu: VcpuId, act: impl FnOnce(&mut Backlog)) {
        if let Some(place) = self.whole.get(vcpu).copied() {
            self.tell(place, act);
        } else if let Some(split) = self.split.iter_mut().find(|it| it.vcpu == vcpu) {
            act(&mut split.backlog);
        }
    }
    /// Has the piece of a split task stand that is due, and no other.
    fn settle(&mut self, place: usize, now: Instant) {
        let split = &mut self.split[place];
        let (vcpu, due, used) = (split.vcpu, split.due(now), split.backlog.used());
        if due == split.standing.map(|(due, _)| due) {
            return;
        }
        if let Some((_, place)) = split.standing.take() {
            self.remove(place);
        }
        if let Some(Due { core, deadline, until }) = due {
            let piece = Backlog::of_window(deadline, used, until);
            let slot = self.on(core).add(vcpu, piece, Instant::ZERO);
            let stands = Place { core, slot };
            self.tell(stands, |_| {});
            self.split[place].standing = due.map(|due| (due, stands));
        }
    }
    fn remove(&mut self, place: Place) -> Option<Backlog> {
        self.news.insert(place.core);
        self.on(place.core).remove(place.slot)
    }
    /// Lets a task go; what it had before it.
    pub(crate) fn leave(&mut self, vcpu: VcpuId) -> Option<Backlog> {
        if let Some(place) = self.whole.remove(vcpu) {
            self.homes.push((vcpu, None));
            return self.remove(place);
        }
        let index = self.split.iter().position(|it| it.vcpu == vcpu)?;
        let split = self.split.remove(index);
        if let Some((_, place)) = split.standing {
            self.remove(place);
        }
        Some(split.backlog)
    }
    fn refuse(&mut self, vcpu: &Vcpu) {
        let reason = jobs::objection(vcpu).unwrap_or_else(|| {
            let r = vcpu.reservation;
            format!(
                "this policy splits tasks before the start, so {} ({} every {}) cannot come or \
                 change later; have it there from the start, or use a policy that admits at run \
                 time, such as c-edf, g-edf or p-edf",
                vcpu.id, r.budget, r.period
            )
        });
        self.refused.push((vcpu.id, NotAdmitted { reason, closest: None }));
    }
}
