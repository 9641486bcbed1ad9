//! PD2: time is cut into quanta, and at the beginning of each the `m` most urgent tasks that may
//! run get a core for all of it, so that each keeps within a quantum of its share; optimal where
//! deadlines are periods and the quantum divides all times.
//!
//! # Paper
//! J. H. Anderson, A. Srinivasan. "Mixed Pfair/ERfair Scheduling of Asynchronous Periodic Tasks."
//! ECRTS 2001 (PD2). A. Srinivasan, J. H. Anderson. "Optimal Rate-Based Scheduling on
//! Multiprocessors." STOC 2002 (the same where jobs come later than they might).
//! # Model
//! Periodic or sporadic tasks, deadlines up to the period; jobs migrate and do not suspend
//! themselves. All are there from the start.
//! # How it works
//! Of a task of e quanta in p, the i-th quantum may be used from floor((i - 1) p/e) and must be by
//! ceil(i p/e) after the release. Of those that may be used the `m` with the earliest deadline are
//! selected; of equal ones, those whose window reaches into the next one's; of these, those with
//! the latest group deadline, which tasks of half a core or more have: the end of the row of
//! overlapping windows of two quanta, of which each would have to be used in its last quantum if
//! this one is. What is left to choose: the running task, then the lower id. A selected task keeps
//! its core where it can. A core's run queue is one slot, with a limit at the quantum's end. What
//! is told of a quantum's beginning after the quantum was decided has it decided again.
//! # Invariants
//! Who runs changes at quanta only, where events are told in time. A task has a quantum in each
//! window of one. On quanta that divide all times, releases too, nothing is missed where the sum of
//! C over the window from release to deadline is at most m.
//! # Where we differ from the paper
//! C is rounded up to whole quanta, and p is what lies between quanta of any window from release to
//! deadline. By default the quantum divides all times, or, where the one that does so is short, is
//! a sixteenth of the shortest period. A job that needs less than C leaves the rest of its last
//! quantum idle. One that needs more goes on in the next one's time. A job that was given all of
//! its quanta asks for none in the quantum after: that it is done may be told late.

use crate::parts::fluid;
use crate::parts::jobs::{Backlog, ByVcpu};
use crate::parts::table::{Table, Use};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::cmp::Reverse;
use maracas_core::admission::{Objection, Verdict};
use maracas_core::contract::{Claims, Entry, Grant, Limit, Mode, Needs, no_service_vcpus};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{
    Arrival, CoreId, CoreSet, Duration, Event, Instant, Plan, Policy, Reservation, System, Vcpu,
    VcpuId, gcd,
};

const QUANTUM: ParamSpec = ParamSpec {
    name: "slot",
    kind: Kind::Time(""),
    help: "length of a quantum; empty = the longest that divides all times, or a sixteenth of the \
           shortest period where that is longer",
};
/// By default a quantum is no shorter than the shortest period by so many: a choice of ours, since
/// what C is rounded up by is then a sixteenth of a period at most, and decisions stay few.
const QUANTA: u64 = 16;

pub(crate) const ENTRY: Entry = Entry {
    name: "pd2",
    paper: "Anderson and Srinivasan, Mixed Pfair/ERfair Scheduling of Asynchronous Periodic Tasks, \
            ECRTS 2001",
    summary: "proportionate fairness, quantum by quantum: every task keeps to its share",
    params: &[QUANTUM],
    needs: Needs { jobs: true, ..Needs::BUDGETS },
    // What it admits misses nothing, but not all up to full cores are admitted: times are rounded
    // to quanta.
    claims: Claims { partitioned: false, work_conserving: false, no_miss_when_admitted: false },
    service_vcpus: no_service_vcpus,
    admit,
    fits: None,
    build,
};

fn admit(system: &System, params: &Params) -> Verdict {
    judged(system, params).map_or_else(|why| why, |(_, verdict)| verdict)
}

fn build(system: &System, params: &Params) -> Result<Box<dyn Policy>, Verdict> {
    let (table, verdict) = judged(system, params)?;
    if !verdict.accepted() {
        return Err(verdict);
    }
    Ok(Box::new(Pd2::new(table, system, quantum(system, params))))
}

fn judged(system: &System, params: &Params) -> Result<(Table, Verdict), Verdict> {
    let quantum = quantum(system, params);
    if quantum == 0 {
        let objection = Objection::to(QUANTUM.name, "is 0; give a time above 0, such as \"1ms\"");
        return Err(Verdict { objections: alloc::vec![objection], ..Verdict::default() });
    }
    let mut rounded = system.clone();
    for vcpu in &mut rounded.vcpus {
        let r = vcpu.reservation;
        // What is wrong with it by itself is said of it as it is.
        if !r.budget.is_zero() && r.budget <= r.deadline && r.deadline <= r.period {
            let (cost, period) = in_quanta(vcpu, quantum);
            let whole = |quanta: u64| Duration::from_ticks(quanta.saturating_mul(quantum));
            vcpu.reservation = Reservation::implicit(whole(cost), whole(period));
        }
    }
    let quantum = Duration::from_ticks(quantum);
    Ok(fluid::judged(&rounded, |vcpu| {
        let Reservation { budget, period, .. } = vcpu.reservation;
        (budget > period && vcpu.reservation.deadline == period).then(|| {
            format!(
                "{} needs {budget} in whole quanta, of which {period} lie between its releases and \
                 deadlines; lower `slot` = {quantum}",
                vcpu.id
            )
        })
    }))
}

/// The length of a quantum in ticks.
pub(crate) fn quantum(system: &System, params: &Params) -> u64 {
    if let Some(given) = params.time(&QUANTUM) {
        return given.ticks().saturating_mul(system.ticks_per_ns);
    }
    let mut longest = 0;
    for vcpu in &system.vcpus {
        let r = &vcpu.reservation;
        // Sporadic jobs come at any tick.
        let offset = match vcpu.arrival {
            Arrival::Periodic { offset } => offset,
            Arrival::Sporadic | Arrival::None => Duration::from_ticks(1),
        };
        for time in [r.budget, r.deadline, r.period, offset] {
            longest = gcd(longest, time.ticks());
        }
    }
    let shortest = system.vcpus.iter().map(|vcpu| vcpu.reservation.period.ticks()).min();
    longest.max(shortest.unwrap_or(1) / QUANTA).max(1)
}

/// C in quanta, rounded up, and how many whole quanta lie between any release and its deadline.
fn in_quanta(vcpu: &Vcpu, quantum: u64) -> (u64, u64) {
    let r = &vcpu.reservation;
    let (cost, deadline) = (r.budget.ticks().div_ceil(quantum), r.deadline.ticks());
    let divides = |time: Duration| time.ticks().is_multiple_of(quantum);
    let begins = match vcpu.arrival {
        Arrival::Periodic { offset } => divides(offset) && divides(r.period),
        Arrival::Sporadic | Arrival::None => quantum == 1,
    };
    // A release may be just behind the beginning of a quantum.
    let lost = if begins { 0 } else { quantum - 1 };
    (cost, deadline.saturating_sub(lost) / quantum)
}

/// The urgency of a task's next quantum: the lesser one is selected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Claim {
    /// By when it must be used.
    deadline: u64,
    /// Whether the next one's window begins only then.
    alone: bool,
    /// The group deadline; the later, the more urgent.
    group: Reverse<u64>,
    waits: bool,
    vcpu: VcpuId,
    place: usize,
}

struct Task {
    vcpu: VcpuId,
    backlog: Backlog,
    budget: Duration,
    deadline: Duration,
    /// C and the window between release and deadline, in quanta.
    cost: u64,
    period: u64,
    /// The deadline of the job whose quanta are counted.
    job: Instant,
    now: Given,
    /// Before the quantum that was decided last, which is decided again where something comes at
    /// its beginning.
    before: Given,
}

/// What a task was given.
#[derive(Clone, Copy, Default)]
struct Given {
    /// Quanta of its job.
    quanta: u64,
    /// Where it runs in this quantum.
    core: Option<CoreId>,
    /// Where it ran last, and in which quantum.
    last: Option<CoreId>,
    slot: u64,
}

impl Task {
    fn new(vcpu: &Vcpu, quantum: u64) -> Self {
        let (cost, period) = in_quanta(vcpu, quantum);
        Self {
            vcpu: vcpu.id,
            backlog: Backlog::cut(vcpu),
            budget: vcpu.reservation.budget,
            deadline: vcpu.reservation.deadline,
            cost,
            period,
            job: Instant::ZERO,
            now: Given::default(),
            before: Given::default(),
        }
    }
    /// Counts the quanta of the job that is next to run.
    fn count(&mut self) {
        let job = self.backlog.deadline().unwrap_or(self.job);
        if job != self.job {
            (self.job, self.now.quanta, self.before.quanta) = (job, 0, 0);
        }
    }
    /// The quantum in which its job may begin, if there is one.
    fn begins(&self, quantum: u64) -> Option<u64> {
        let deadline = self.backlog.deadline()?;
        Some(deadline.ticks().saturating_sub(self.deadline.ticks()).div_ceil(quantum))
    }
    /// Which quantum of its job is next, from 1; the last one again where decisions came late.
    fn next(&self) -> u64 {
        (self.now.quanta + 1).min(self.cost)
    }
    /// From which quantum on its next one may be used.
    fn from(&self, quantum: u64) -> Option<u64> {
        let [before, period, cost] = [self.next() - 1, self.period, self.cost].map(u128::from);
        let from = self.begins(quantum)? + (before * period / cost) as u64;
        let is_given = self.now.quanta >= self.cost;
        Some(if is_given { from.max(self.now.slot + 2) } else { from })
    }
    /// The urgency of its next quantum.
    fn claim(&self, quantum: u64, place: usize) -> Option<Claim> {
        let begins = self.begins(quantum)?;
        let [e, p] = [self.cost, self.period].map(u128::from);
        let end = u128::from(self.next()) * p;
        let deadline = end.div_ceil(e);
        // Windows of the complement, which is idle p - e quanta of p, end where cascades do.
        let group = if 2 * e >= p && e < p {
            begins + ((deadline * (p - e)).div_ceil(p) * p).div_ceil(p - e) as u64
        } else {
            0
        };
        Some(Claim {
            deadline: begins + deadline as u64,
            alone: end.is_multiple_of(e),
            group: Reverse(group),
            waits: self.now.core.is_none(),
            vcpu: self.vcpu,
            place,
        })
    }
    /// Leave to use what was given.
    fn grant(&self, quantum: u64) -> Grant {
        let (_, until) = self.backlog.paying().unwrap_or_default();
        let given = Duration::from_ticks(self.now.quanta.saturating_mul(quantum));
        let reading = (until.saturating_sub(self.budget) + given).min(until);
        Grant::new(self.vcpu, Limit(reading))
    }
}

struct Pd2 {
    table: Table,
    quantum: u64,
    tasks: Vec<Task>,
    places: ByVcpu<usize>,
    /// The quantum that was decided last.
    decided: Option<u64>,
    /// Whether something was told since the last decision that was so at the quantum's beginning.
    changed: bool,
    running: Vec<Option<Grant>>,
}

impl Pd2 {
    fn new(table: Table, system: &System, quantum: u64) -> Self {
        let tasks: Vec<Task> = system.vcpus.iter().map(|vcpu| Task::new(vcpu, quantum)).collect();
        let mut places = ByVcpu::default();
        for (place, task) in tasks.iter().enumerate() {
            places.insert(task.vcpu, place);
        }
        let running = alloc::vec![None; system.cores.len()];
        Self { table, quantum, tasks, places, decided: None, changed: false, running }
    }
    fn change(&mut self, at: Instant, vcpu: VcpuId, act: impl FnOnce(&mut Task)) {
        if let Some(place) = self.places.get(vcpu) {
            act(&mut self.tasks[*place]);
            let begins = self.decided.map(|slot| slot.saturating_mul(self.quantum));
            self.changed |= begins.is_some_and(|begins| at.ticks() <= begins);
        }
    }
    /// Another quantum begins. One that has run waits unless it did so in the quantum before.
    fn begin(&mut self, slot: u64) {
        let is_next = self.decided.is_some_and(|decided| decided + 1 == slot);
        for task in &mut self.tasks {
            task.now.core = task.now.core.filter(|_| is_next);
            task.before = task.now;
        }
        self.decided = Some(slot);
    }
    /// Selects the most urgent tasks for this quantum and gives them cores.
    fn select(&mut self, slot: u64) {
        let mut claims = Vec::new();
        for (place, task) in self.tasks.iter().enumerate() {
            if task.from(self.quantum).is_some_and(|from| from <= slot) {
                claims.extend(task.claim(self.quantum, place));
            }
        }
        claims.sort_unstable();
        claims.truncate(self.running.len());
        self.running.fill(None);
        self.tasks.iter_mut().for_each(|task| task.now.core = None);
        let mut free: CoreSet = (0..self.running.len() as u16).map(CoreId).collect();
        for any in [false, true] {
            for place in claims.iter().map(|claim| claim.place) {
                let task = &mut self.tasks[place];
                let last = task.now.last.filter(|core| free.contains(*core));
                let core = if any { last.or_else(|| free.iter().next()) } else { last };
                if let Some(core) = core.filter(|_| task.now.core.is_none()) {
                    free.remove(core);
                    let (quanta, here) = (task.next(), Some(core));
                    task.now = Given { quanta, core: here, last: here, slot };
                    self.running[core.0 as usize] = Some(task.grant(self.quantum));
                }
            }
        }
    }
    /// Whether something may run in this quantum.
    fn may_run(&self, slot: u64) -> bool {
        self.tasks.iter().any(|task| task.from(self.quantum).is_some_and(|from| from <= slot))
    }
    /// A quantum in which nothing else may run changes nothing, as no decision is asked for then: a
    /// task that is behind, since its core was closed for memory, goes on. Only grants of jobs that
    /// are done end.
    fn keep_pending(&mut self) {
        let Self { running, tasks, places, .. } = self;
        let is_pending = |grant: &Grant| {
            let task = places.get(grant.vcpu).map(|place| &tasks[*place]);
            task.is_some_and(|it| it.now.quanta > 0 && it.backlog.deadline().is_some())
        };
        for grant in running {
            *grant = grant.filter(is_pending);
        }
    }
    /// In which quantum something may run next, after this one.
    fn next(&self, slot: u64) -> Option<u64> {
        let from = self.tasks.iter().filter_map(|task| task.from(self.quantum)).min()?;
        Some(from.max(slot + 1))
    }
}

impl Policy for Pd2 {
    fn on_event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Released(job) => self.change(at, job.id.vcpu, |task| task.backlog.release(job)),
            Event::Completed(id) => self.change(at, id.vcpu, |task| task.backlog.complete(*id)),
            Event::Ran(segment) if segment.mode == Mode::Foreground => {
                self.change(at, segment.vcpu, |task| {
                    task.backlog.charge_segment(segment.to, segment.usage.service);
                });
            }
            Event::Arrived(vcpu) | Event::Changed(vcpu) => {
                let r = vcpu.reservation;
                let reason = format!(
                    "PD2 rounds to quanta before the start, so {} ({} every {}) cannot come or \
                     change later; have it there from the start, or use a policy that admits at \
                     run time, such as u-edf, g-edf or p-edf",
                    vcpu.id, r.budget, r.period
                );
                self.table.refuse(vcpu.id, reason);
            }
            Event::Left(vcpu) => {
                self.table.leave(*vcpu, at, Use::NONE);
                self.change(at, *vcpu, |task| task.backlog = Backlog::default());
                for running in &mut self.running {
                    *running = running.filter(|grant| grant.vcpu != *vcpu);
                }
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
        let slot = now.ticks() / self.quantum;
        let is_later = self.decided != Some(slot);
        let again = self.changed && !is_later;
        if again {
            self.tasks.iter_mut().for_each(|task| task.now = task.before);
        }
        self.tasks.iter_mut().for_each(Task::count);
        let is_new = is_later && self.may_run(slot);
        if is_new {
            self.begin(slot);
        }
        if is_new || again {
            self.select(slot);
        } else if is_later {
            self.keep_pending();
        }
        self.changed = false;
        for (core, grant) in (0..).map(CoreId).zip(&self.running) {
            if plan.run_queue(core).foreground.first() != grant.as_ref() {
                let run_queue = &mut plan.run_queue_mut(core).foreground;
                run_queue.clear();
                run_queue.extend(*grant);
            }
        }
        let next = self.next(slot).map(|slot| slot.saturating_mul(self.quantum));
        plan.wake = next.map_or(Instant::NEVER, Instant::from_ticks);
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTRY, Task};
    use crate::testing::{periodic, with};
    use alloc::vec::Vec;
    use maracas_core::{Duration, Instant, Job, JobId, System, Vcpu, VcpuId};

    /// The windows and group deadlines of a task of weight 8/11, the papers' example.
    #[test]
    fn windows_and_group_deadlines_of_eight_elevenths() {
        let ticks = Duration::from_ticks;
        let mut task = Task::new(&Vcpu::new(0, ticks(8), ticks(11)).periodic(), 1);
        let id = JobId { vcpu: VcpuId(0), index: 0 };
        let (release, deadline) = (Instant::ZERO, Instant::from_ticks(11));
        task.backlog.release(&Job { id, release, deadline });
        task.count();
        let mut rows = Vec::new();
        for given in 0..8 {
            task.now.quanta = given;
            let claim = task.claim(1, 0).expect("it has a job");
            rows.push((task.from(1).unwrap(), claim.deadline, !claim.alone, claim.group.0));
        }
        let expected = [
            (0, 2, true, 4),
            (1, 3, true, 4),
            (2, 5, true, 8),
            (4, 6, true, 8),
            (5, 7, true, 8),
            (6, 9, true, 11),
            (8, 10, true, 11),
            (9, 11, false, 11),
        ];
        assert_eq!(rows, expected);
    }

    /// Three tasks of two thirds fill two cores.
    #[test]
    fn full_cores_miss_nothing() {
        let machine = periodic(&ENTRY, &[], 2, &[(2, 3), (2, 3), (2, 3)], 30);
        assert!(machine.models.iter().all(|model| model.misses == 0));
        assert!((0..2).all(|core| !machine.schedule(core).contains('.')));
    }

    #[test]
    fn a_quantum_that_divides_nothing_costs_room() {
        let ticks = Duration::from_ticks;
        let vcpus = |c| (0..2).map(|id| Vcpu::new(id, ticks(c), ticks(100)).periodic()).collect();
        let admits = |c, quantum: &str| {
            let params = with(&[("slot", quantum)]);
            (ENTRY.admit)(&System::new(1, vcpus(c)), &params).accepted()
        };
        assert!(admits(50, "10ns") && admits(50, "1ns") && admits(50, ""));
        // 45 ticks are two quanta of 30, as 31 are, and of those only two are sure to lie in 100.
        assert!(!admits(45, "30ns") && !admits(31, "30ns") && !admits(30, "70ns"));
    }

    #[test]
    fn a_quantum_of_nothing_is_refused() {
        let verdict = (ENTRY.admit)(&System::new(1, Vec::new()), &with(&[("slot", "0ns")]));
        assert!(verdict.why().contains("slot is 0; give a time above 0"), "{}", verdict.why());
    }
}
