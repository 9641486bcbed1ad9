//! The released and uncompleted jobs of each VCPU, and the budget that they bring.

use super::table::Use;
use alloc::string::String;
use alloc::vec::Vec;
use core::num::NonZero;
use maracas_core::admission::Objection;
use maracas_core::contract::Limit;
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{Arrival, Duration, Instant, Job, JobId, Short, System, Vcpu, VcpuId};

/// Parameter of every job policy.
pub(crate) const ENFORCEMENT: ParamSpec = ParamSpec {
    name: "enforcement",
    kind: Kind::Choice(&["none", "precise"]),
    help: "whether jobs are cut when they overrun: none (the textbook), or precise: a task gets \
           at most C for each job released so far",
};

/// Whether jobs are cut.
pub(crate) fn precise(params: &Params) -> bool {
    params.choice(&ENFORCEMENT) == "precise"
}

/// A released and uncompleted job.
#[derive(Clone, Copy, Debug)]
struct Pending {
    deadline: Instant,
    /// Where jobs are cut: up to which reading of the meter its own budget lasts.
    until: Duration,
    /// One more than its index, as `completed` counts. Never 0, so that no job takes no more room.
    end: NonZero<u32>,
}

/// What a task has before it. Job policies assume that jobs do not suspend themselves. What every
/// job looks at comes first, and what is only looked at where jobs are cut, behind it: with
/// thousands of tasks each line of 64 bytes that is touched is one more that no near cache has.
#[derive(Clone, Default, Debug)]
#[repr(C)]
pub(crate) struct Backlog {
    pending: Short<Pending>,
    /// The latest deadline of any job released so far.
    last_deadline: Instant,
    /// Jobs below this index are complete. A completion may be reported before its release.
    completed: u32,
    precise: bool,
    /// Whether budget that a job leaves unused is lost, so that no later job can overrun on it.
    expires: bool,
    budget: Duration,
    granted: Duration,
    used: Duration,
    /// The last release at which unused budget was lost.
    opened: Instant,
}

/// How much of a [`Backlog`] is looked at where no job is cut, in bytes.
pub(crate) const PLAIN: usize = core::mem::offset_of!(Backlog, budget);

impl Backlog {
    pub(crate) fn new(vcpu: &Vcpu, params: &Params) -> Self {
        let budget = vcpu.reservation.budget;
        Self { budget, precise: precise(params), ..Self::default() }
    }
    /// A backlog whose jobs are each cut at C, whatever earlier ones left unused.
    pub(crate) fn cut(vcpu: &Vcpu) -> Self {
        let budget = vcpu.reservation.budget;
        Self { budget, precise: true, expires: true, ..Self::default() }
    }
    /// A backlog of one job that may run to that reading of the meter, which now reads `used`.
    pub(crate) fn of_window(deadline: Instant, used: Duration, until: Duration) -> Self {
        let mut backlog = Self { precise: true, granted: until, used, ..Self::default() };
        backlog.pending.push_back(Pending { deadline, until, end: NonZero::<u32>::MIN });
        backlog
    }
    /// The budget that later releases bring.
    pub(crate) const fn set_budget(&mut self, budget: Duration) {
        self.budget = budget;
    }
    /// The budget that a release brings.
    pub(crate) const fn budget(&self) -> Duration {
        self.budget
    }
    pub(crate) fn release(&mut self, job: &Job) {
        if self.expires && self.pending.is_empty() {
            // An overrun stays a debt.
            self.granted = self.granted.min(self.used);
            self.opened = job.release;
        }
        let mut until = Duration::ZERO;
        if self.precise {
            self.granted += self.budget;
            until = self.granted;
        }
        self.last_deadline = self.last_deadline.max(job.deadline);
        if job.id.index >= self.completed {
            let end = NonZero::<u32>::MIN.saturating_add(job.id.index);
            self.pending.push_back(Pending { deadline: job.deadline, until, end });
        }
    }
    pub(crate) fn complete(&mut self, id: JobId) {
        self.completed = self.completed.max(id.index + 1);
        while self.pending.front().is_some_and(|job| job.end.get() <= self.completed) {
            self.pending.pop_front();
        }
    }
    pub(crate) fn charge(&mut self, service: Duration) {
        self.used += service;
    }
    /// Charges a segment that ended at `to`; whether the next job's standing changed.
    pub(crate) fn charge_segment(&mut self, to: Instant, service: Duration) -> bool {
        if self.expires && to <= self.opened {
            return self.charge_late(service);
        }
        let used = self.used;
        self.charge(service);
        // The limit stays; the deadline too where the first job has paid for all of it.
        let pays = |job: &Pending| used < job.until && self.used < job.until;
        if !self.precise || self.pending.front().is_none_or(pays) {
            return false;
        }
        self.payer_at(used).map(|job| job.deadline) != self.deadline()
    }
    /// What is reported late is not paid from the budget of the present job.
    #[cold]
    fn charge_late(&mut self, service: Duration) -> bool {
        let (deadline, limit) = (self.deadline(), self.limit());
        self.granted += service;
        self.pending.iter_mut().for_each(|job| job.until += service);
        self.charge(service);
        (deadline, limit) != (self.deadline(), self.limit())
    }
    /// Whether no job is pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }
    /// What of its reservation counts, in deadline order, if it leaves or changes: that of its last
    /// job, up to the deadline.
    pub(crate) fn in_use(&self) -> Use {
        Use { until: self.last_deadline, at_rest: false }
    }
    /// What the task has used since the start, as far as was reported.
    pub(crate) const fn used(&self) -> Duration {
        self.used
    }
    /// Where jobs are cut: up to which reading of its meter the task has budget.
    pub(crate) const fn granted(&self) -> Duration {
        self.granted
    }
    /// The job whose budget is next to be used: the first one, or where that is cut and goes on
    /// at a later job's cost, that job.
    #[inline]
    fn payer(&self) -> Option<&Pending> {
        self.payer_at(self.used)
    }
    /// The same, where the meter reads `used`.
    #[inline]
    fn payer_at(&self, used: Duration) -> Option<&Pending> {
        let first = self.pending.front();
        if !self.precise || first.is_none_or(|job| used < job.until) {
            return first;
        }
        self.pending.iter().find(|job| used < job.until)
    }
    /// The deadline by which the task is next to run; `None` where nothing may run. A job that was
    /// cut at C has that of the job whose budget it uses: with its own, which is earlier, it would
    /// harm others.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.payer().map(|job| job.deadline)
    }
    /// The same deadline, and up to which reading of the meter that job's budget lasts.
    pub(crate) fn paying(&self) -> Option<(Instant, Duration)> {
        self.payer().map(|job| (job.deadline, job.until))
    }
    /// The index of the job whose budget is next to be used.
    pub(crate) fn paying_job(&self) -> Option<u32> {
        self.payer().map(|job| job.end.get() - 1)
    }
    /// Whether a job is pending that has used up its budget.
    pub(crate) fn is_spent(&self) -> bool {
        self.precise && self.used >= self.granted && !self.pending.is_empty()
    }
    /// Up to where the task's foreground meter may run. Not only to the end of the present job's
    /// budget: a task with more than one job waiting would lose time to every late decision.
    pub(crate) const fn limit(&self) -> Limit {
        if self.precise { Limit(self.granted) } else { Limit::NEVER }
    }
    /// The same from its next release on, whatever it uses until then; not where unused budget is
    /// lost.
    pub(crate) fn next_limit(&self) -> Limit {
        if self.precise { Limit(self.granted + self.budget) } else { Limit::NEVER }
    }
}

/// Something for each VCPU, found by its id without a search.
#[derive(Clone, Debug)]
pub(crate) struct ByVcpu<T> {
    slots: Vec<Option<T>>,
}

impl<T> Default for ByVcpu<T> {
    fn default() -> Self {
        Self { slots: Vec::new() }
    }
}

impl<T> ByVcpu<T> {
    #[inline]
    pub(crate) fn get(&self, vcpu: VcpuId) -> Option<&T> {
        self.slots.get(vcpu.0 as usize)?.as_ref()
    }
    #[inline]
    pub(crate) fn get_mut(&mut self, vcpu: VcpuId) -> Option<&mut T> {
        self.slots.get_mut(vcpu.0 as usize)?.as_mut()
    }
    pub(crate) fn insert(&mut self, vcpu: VcpuId, value: T) {
        let index = vcpu.0 as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        self.slots[index] = Some(value);
    }
    /// All that are there, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (VcpuId, &T)> {
        let ids = (0..).map(VcpuId);
        ids.zip(&self.slots).filter_map(|(vcpu, slot)| Some((vcpu, slot.as_ref()?)))
    }
    pub(crate) fn remove(&mut self, vcpu: VcpuId) -> Option<T> {
        self.slots.get_mut(vcpu.0 as usize)?.take()
    }
}

/// Why a job policy cannot run `vcpu`, if so.
pub(crate) fn objection(vcpu: &Vcpu) -> Option<String> {
    (vcpu.arrival == Arrival::None).then(|| {
        alloc::format!(
            "{} has no jobs, and this policy orders jobs; add jobs = \"periodic\" (or \
             \"sporadic\") to its program, whose workload, if it has one, must be of kind \
             \"periodic\" or \"anytime\", or use the policy maracas",
            vcpu.id
        )
    })
}

/// The objections of a job policy to `system`, one for each VCPU without jobs.
pub(crate) fn objections(system: &System) -> Vec<Objection> {
    system.vcpus.iter().filter_map(objection).map(Objection::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_job_leaves_unused_is_lost_and_an_overrun_is_not_forgiven() {
        let vcpu = Vcpu::new(0, Duration::from_ticks(2), Duration::from_ticks(5)).periodic();
        let mut backlog = Backlog::cut(&vcpu);
        let (at, ticks) = (Instant::from_ticks, Duration::from_ticks);
        let id = |index| JobId { vcpu: vcpu.id, index };
        let job = |index: u32, release| Job {
            id: id(index),
            release: at(release),
            deadline: at(release + 5),
        };
        backlog.release(&job(0, 0));
        assert_eq!(backlog.limit(), Limit(ticks(2)));
        assert!(!backlog.charge_segment(at(1), ticks(1)));
        backlog.complete(id(0));
        // One tick was left; the meter reads 1.
        backlog.release(&job(1, 5));
        assert_eq!(backlog.limit(), Limit(ticks(3)));
        // A segment of the first job, reported late, raises the limit with the meter.
        assert!(backlog.charge_segment(at(2), ticks(1)));
        assert_eq!(backlog.limit(), Limit(ticks(4)));
        // Cut at 4, and one tick past it.
        assert!(backlog.charge_segment(at(8), ticks(3)));
        assert_eq!(backlog.deadline(), None);
        backlog.release(&job(2, 10));
        // Its own budget is used up: what it goes on with is the next job's.
        assert_eq!((backlog.deadline(), backlog.limit()), (Some(at(15)), Limit(ticks(6))));
    }

    #[test]
    fn a_completion_may_be_reported_before_its_release() {
        let vcpu = Vcpu::new(0, Duration::from_ticks(2), Duration::from_ticks(5)).periodic();
        let mut backlog = Backlog::new(&vcpu, &Params::new());
        let id = |index| JobId { vcpu: vcpu.id, index };
        let at = Instant::from_ticks;
        let job = |index| Job { id: id(index), release: at(0), deadline: at(u64::from(index) + 5) };
        backlog.release(&job(0));
        backlog.complete(id(1));
        assert_eq!(backlog.deadline(), None);
        backlog.release(&job(1));
        assert_eq!(backlog.deadline(), None);
        backlog.release(&job(2));
        assert_eq!(backlog.deadline(), Some(at(7)));
    }
}
