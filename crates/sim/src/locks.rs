//! Resources under a locking protocol: who holds each, who waits for it, and where that puts a job
//! in its core's order.
//!
//! Pure state: it knows VCPUs and cores by their numbers and is told when a job asks for a resource
//! and gives it back. What follows for the cores is up to the machine (`machine/locks.rs`).
//!
//! A job that waits stands still with all of its VCPU. Where jobs of one VCPU queue up, the later
//! ones wait with it.

mod cuts;
mod fmlp_plus;
mod mpcp;
mod mrsp;
mod omlp;

use cuts::{Cut, Cuts};
use maracas_core::resources::{Protocol, Resources};
use maracas_core::{CoreId, Duration, Instant, Plan, System, Vcpu, VcpuId};

/// What a protocol decides.
trait Rules: Sync {
    /// Of those that wait for a resource the one with the least number gets it.
    fn turn(&self, request: &Request, setting: &Setting) -> u64;
    /// Where a job that holds a resource, or spins for it, stands in its core's order.
    fn place(&self, request: &Request, setting: &Setting) -> Place;
    /// Whether a job that waits keeps its place and spins; else it is suspended.
    fn spins(&self) -> bool {
        false
    }
    /// Whether a core on which a job spins runs the holder, where that does not run.
    fn helps(&self) -> bool {
        false
    }
    /// Whether only the first pending job of a core may ask, and one that becomes first while that
    /// request lasts is suspended for it.
    fn donates(&self) -> bool {
        false
    }
}

/// Where a job stands in the order of its core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Ahead of all jobs without a resource; among such the least number first.
    Ahead(u64),
    /// Right ahead of where the task with this rank stands.
    Ceiling(u32),
}

/// A job's request for a resource, until it gives it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) vcpu: u32,
    pub(crate) resource: u32,
    /// Its number among all requests, in the order in which they were issued.
    issued: u64,
}

/// What a request has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No request.
    Free,
    /// The job may not ask yet.
    Held(u32),
    /// It waits.
    Waits(Request),
    /// It has the resource.
    Holds(Request),
}

/// What the rules look at that does not change: tasks, by VCPU, and what they use.
#[derive(Clone, Debug)]
struct Setting {
    resources: Resources,
    /// The place of each task in the order of fixed priorities: by the lesser of D and T, then by
    /// number. 0 is the most urgent.
    ranks: Vec<u32>,
    /// The core of each task.
    homes: Vec<Option<CoreId>>,
}

/// One task.
#[derive(Clone, Debug)]
struct Task {
    budget: Duration,
    cuts: Cuts,
    state: State,
    /// Work of the section that begins when the resource is granted.
    then: Duration,
    /// Since when it has waited.
    since: Instant,
    /// How long the job at work has waited, and been blocked.
    waited: Duration,
    blocked: Duration,
    sum: Blocking,
}

/// How long a VCPU's jobs waited for resources.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Blocking {
    /// Which VCPU.
    pub vcpu: VcpuId,
    /// Requests for resources.
    pub requests: u64,
    /// Time from a request to its grant, in all.
    pub waited: Duration,
    /// The longest time that one job waited so.
    pub waited_max: Duration,
    /// Time in which it had the first pending job of its core, and that job made no progress: it
    /// waited, or gave way to a less urgent one.
    pub blocked: Duration,
    /// The longest time that one job was blocked so.
    pub blocked_max: Duration,
}

/// All resources and the tasks that use them.
pub(crate) struct Locks {
    rules: &'static dyn Rules,
    setting: Setting,
    tasks: Vec<Task>,
    /// Who holds each resource.
    holders: Vec<Option<u32>>,
    issued: u64,
    /// Up to when it is known who was blocked.
    counted: Instant,
}

impl Locks {
    pub(crate) fn new(system: &System, resources: &Resources) -> Self {
        let count = system.next_vcpu().0 as usize;
        let mut order: Vec<&Vcpu> = system.vcpus.iter().collect();
        order.sort_by_key(|vcpu| (vcpu.reservation.deadline.min(vcpu.reservation.period), vcpu.id));
        let mut setting = Setting {
            resources: resources.clone(),
            ranks: vec![0; count],
            homes: vec![None; count],
        };
        let mut tasks = vec![Task::default(); count];
        for (rank, vcpu) in (0..).zip(order) {
            setting.ranks[vcpu.id.0 as usize] = rank;
            let task = &mut tasks[vcpu.id.0 as usize];
            (task.budget, task.sum.vcpu) = (vcpu.reservation.budget, vcpu.id);
        }
        Self {
            rules: match resources.protocol {
                Protocol::Mpcp => &mpcp::Mpcp,
                Protocol::FmlpPlus => &fmlp_plus::FmlpPlus,
                Protocol::Omlp => &omlp::Omlp,
                Protocol::Mrsp => &mrsp::Mrsp,
            },
            setting,
            tasks,
            holders: vec![None; resources.names.len()],
            issued: 0,
            counted: Instant::ZERO,
        }
    }

    /// Learns from a plan on which core each task is at home.
    pub(crate) fn take_homes(&mut self, plan: &Plan) {
        for vcpu in plan.rehomed() {
            if let Some(home) = self.setting.homes.get_mut(vcpu.0 as usize) {
                *home = plan.home(*vcpu);
            }
        }
    }

    /// The `index`-th job of `vcpu` begins, of that cost; where it was not begun before, the work
    /// of its first piece.
    pub(crate) fn begin(&mut self, vcpu: u32, index: u32, cost: Duration) -> Option<Duration> {
        let task = &mut self.tasks[vcpu as usize];
        let sections = self.setting.resources.of(VcpuId(vcpu));
        task.cuts.begin(index, cost, task.budget, sections).then(|| task.cuts.piece())
    }
    /// Whether jobs of `vcpu` have critical sections.
    pub(crate) fn cuts(&self, vcpu: u32) -> bool {
        !self.setting.resources.of(VcpuId(vcpu)).is_empty()
    }
    /// The job at work of `vcpu` is complete.
    pub(crate) fn complete(&mut self, vcpu: u32) {
        let task = &mut self.tasks[vcpu as usize];
        task.sum.waited_max = task.sum.waited_max.max(std::mem::take(&mut task.waited));
        task.sum.blocked_max = task.sum.blocked_max.max(std::mem::take(&mut task.blocked));
    }

    /// A piece of a job of `vcpu` ends. What is next; `None` where the job does.
    pub(crate) fn next(&mut self, vcpu: u32, now: Instant) -> Option<Next> {
        let task = &mut self.tasks[vcpu as usize];
        match task.cuts.next()? {
            Cut::Ask(resource) => {
                (task.state, task.then, task.since) =
                    (State::Held(resource), task.cuts.piece(), now);
                task.sum.requests += 1;
                Some(Next::Asked)
            }
            Cut::GiveBack => {
                let State::Holds(request) = std::mem::replace(&mut task.state, State::Free) else {
                    unreachable!("vcpu{vcpu} gives back what it does not hold")
                };
                let piece = task.cuts.piece();
                self.holders[request.resource as usize] = None;
                Some(Next::GaveBack(piece))
            }
        }
    }

    /// Issues the requests of those that may ask, the first by VCPU of those that came at once, and
    /// grants what is free. `first` says whether a VCPU has the first pending job of its core.
    /// Who was granted something, and for how much work.
    pub(crate) fn settle(
        &mut self,
        now: Instant,
        first: impl Fn(u32) -> bool,
    ) -> Vec<(u32, Duration)> {
        for (vcpu, task) in (0..).zip(&mut self.tasks) {
            if let State::Held(resource) = task.state
                && (!self.rules.donates() || first(vcpu))
            {
                self.issued += 1;
                task.state = State::Waits(Request { vcpu, resource, issued: self.issued });
            }
        }
        let mut granted = Vec::new();
        for resource in 0..self.holders.len() {
            if self.holders[resource].is_none()
                && let Some(next) = self.next_of(resource as u32)
            {
                self.holders[resource] = Some(next.vcpu);
                let task = &mut self.tasks[next.vcpu as usize];
                task.state = State::Holds(next);
                let waited = now - task.since;
                task.waited += waited;
                task.sum.waited += waited;
                granted.push((next.vcpu, task.then));
            }
        }
        granted
    }
    /// Who gets that resource next.
    fn next_of(&self, resource: u32) -> Option<Request> {
        let waits = self.tasks.iter().filter_map(|task| match task.state {
            State::Waits(request) if request.resource == resource => Some(request),
            State::Free | State::Held(_) | State::Waits(_) | State::Holds(_) => None,
        });
        waits.min_by_key(|request| (self.rules.turn(request, &self.setting), request.issued))
    }

    /// Whether `vcpu` waits and does not spin.
    pub(crate) fn is_suspended(&self, vcpu: u32) -> bool {
        match self.tasks[vcpu as usize].state {
            State::Free | State::Holds(_) => false,
            State::Held(_) => true,
            State::Waits(_) => !self.rules.spins(),
        }
    }
    /// The holder of what `vcpu` waits for.
    pub(crate) fn awaited(&self, vcpu: u32) -> Option<u32> {
        match self.tasks[vcpu as usize].state {
            State::Waits(request) => self.holders[request.resource as usize],
            State::Free | State::Held(_) | State::Holds(_) => None,
        }
    }
    /// When `vcpu` asked for what it waits for, as a number that grows.
    pub(crate) fn turn(&self, vcpu: u32) -> u64 {
        match self.tasks[vcpu as usize].state {
            State::Waits(request) => request.issued,
            State::Free | State::Held(_) | State::Holds(_) => u64::MAX,
        }
    }
    /// Whether jobs that spin have the holder run in their place.
    pub(crate) fn helps(&self) -> bool {
        self.rules.helps()
    }
    /// Of the entries of a core's run queue, in its order, the one that is suspended for the sake
    /// of a request of another.
    pub(crate) fn donor(&self, mut entries: impl Iterator<Item = u32>) -> Option<u32> {
        if !self.rules.donates() {
            return None;
        }
        let first = entries.next()?;
        let asked = |vcpu: u32| {
            matches!(self.tasks[vcpu as usize].state, State::Waits(_) | State::Holds(_))
        };
        (!asked(first) && entries.any(asked)).then_some(first)
    }
    /// The order of a core: its run queue's, but for jobs with a resource. The least is first;
    /// equals stay as they stand there.
    pub(crate) fn order(&self, vcpu: u32) -> (u32, u64, u64) {
        let request = match self.tasks[vcpu as usize].state {
            State::Holds(request) => request,
            State::Waits(request) if self.rules.spins() => request,
            State::Free | State::Held(_) | State::Waits(_) => {
                // Ranks are in the order of the run queue wherever there are ceilings.
                let fixed = self.setting.resources.protocol.needs_fixed_priorities();
                let rank = if fixed { self.setting.ranks[vcpu as usize] } else { 0 };
                return (1, u64::from(rank), 1);
            }
        };
        match self.rules.place(&request, &self.setting) {
            Place::Ahead(number) => (0, number, request.issued),
            Place::Ceiling(rank) => (1, u64::from(rank), 0),
        }
    }

    /// Counts who was blocked up to `now`: `blocked` has the first pending job of each core, where
    /// it made no progress.
    pub(crate) fn count(&mut self, now: Instant, blocked: impl Iterator<Item = u32>) {
        let time = now.saturating_since(self.counted);
        self.counted = now;
        if time.is_zero() {
            return;
        }
        for vcpu in blocked {
            let task = &mut self.tasks[vcpu as usize];
            task.blocked += time;
            task.sum.blocked += time;
        }
    }
    /// Whether it was counted up to then.
    pub(crate) fn is_counted(&self, now: Instant) -> bool {
        self.counted == now
    }
    /// What each VCPU came to. Waits in which the run ended count too.
    pub(crate) fn outcome(&self, now: Instant) -> Vec<Blocking> {
        let outcome = |task: &Task| {
            let mut sum = task.sum.clone();
            let open = match task.state {
                State::Held(_) | State::Waits(_) => now - task.since,
                State::Free | State::Holds(_) => Duration::ZERO,
            };
            sum.waited += open;
            sum.waited_max = sum.waited_max.max(task.waited + open);
            sum.blocked_max = sum.blocked_max.max(task.blocked);
            sum
        };
        self.tasks.iter().map(outcome).collect()
    }
}

/// What follows at the end of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// The job asked for a resource.
    Asked,
    /// It gave one back and has so much to do without; nothing where the job ends there.
    GaveBack(Duration),
}

impl Default for Task {
    fn default() -> Self {
        Self {
            budget: Duration::ZERO,
            cuts: Cuts::default(),
            state: State::Free,
            then: Duration::ZERO,
            since: Instant::ZERO,
            waited: Duration::ZERO,
            blocked: Duration::ZERO,
            sum: Blocking::default(),
        }
    }
}

impl Setting {
    /// The tasks that use a resource.
    fn users(&self, resource: u32) -> impl Iterator<Item = u32> {
        let resources = &self.resources;
        resources.sections.keys().filter(move |it| resources.uses(**it, resource)).map(|it| it.0)
    }
    fn rank(&self, vcpu: u32) -> u32 {
        self.ranks[vcpu as usize]
    }
    fn home(&self, vcpu: u32) -> Option<CoreId> {
        self.homes[vcpu as usize]
    }
    /// The rank of the most urgent of those that use a resource and meet `which`.
    fn ceiling(&self, resource: u32, which: impl Fn(u32) -> bool) -> u32 {
        let ranks = self.users(resource).filter(|user| which(*user)).map(|user| self.rank(user));
        ranks.min().unwrap_or(u32::MAX)
    }
}
