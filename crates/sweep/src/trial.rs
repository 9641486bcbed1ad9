//! One task set under one policy, counted by an observer that keeps a few words for each task:
//! a sweep makes a million runs, and the full metrics would cost more than the simulation.

use maracas_core::contract::{Entry, Event, JobRun, Observer, Statistic};
use maracas_core::params::Params;
use maracas_core::{CoreId, Cost, Duration, Instant, JobId, Plan, Program, Workload};
use maracas_scenario::taskset::TaskSet;
use maracas_sim::{Options, Outcome, Overheads};
use std::collections::VecDeque;

/// What policies call the figure that is [`Tally::depth`].
const LEVELS: &str = "levels";

/// Changes whenever the same run would be counted otherwise.
pub const VERSION: u32 = 2;

/// A policy with its parameters.
#[derive(Clone)]
pub struct Subject {
    /// The policy.
    pub entry: &'static Entry,
    /// Its parameters, checked against what it takes.
    pub params: Params,
}

/// How a set is run: for how long, and what is charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Charge {
    /// The horizon, in nanoseconds.
    pub until: Instant,
    /// Seed of what is random in the run (sporadic releases).
    pub seed: u64,
    /// What the simulator charges.
    pub overheads: Overheads,
    /// What each job asks for less than its budget, so that charged overheads fit (the bound per
    /// job of ECRTS 2014 and 2015). A job asks for one tick at least.
    pub bound: Duration,
}

/// What one run came to. Counted as `docs/output.md` says.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Whether the policy admitted the set; nothing else is counted where it did not.
    pub accepted: bool,
    /// Jobs released.
    pub released: u64,
    /// Jobs completed.
    pub completed: u64,
    /// Jobs due by the end that were not complete at their deadline.
    pub missed: u64,
    /// The longest time by which a job ended after its deadline, in nanoseconds.
    pub tardiness_max_ns: u64,
    /// The sum of these times over all jobs, in nanoseconds.
    pub tardiness_sum_ns: u64,
    /// Stops of jobs before their end, migrations included.
    pub preemptions: u64,
    /// Resumptions of a job on another core.
    pub migrations: u64,
    /// Jobs that begin on another core than their task's job before ended on.
    pub task_migrations: u64,
    /// Calls of the policy.
    pub decisions: u64,
    /// Levels of the reduction tree or the processor hierarchy; 0 where there is none.
    pub depth: u64,
    /// Time charged as overhead, all cores together, in nanoseconds.
    pub charged_ns: u64,
}

/// Runs `set` on `cores` cores under `subject`, with the VCPUs that carry the policy's service
/// requests.
///
/// # Panics
/// Where `cores` is 0 or above [`maracas_core::MAX_CORES`], or the policy breaks the contract.
pub fn run(set: &TaskSet, cores: usize, subject: &Subject, charge: &Charge) -> Tally {
    let mut counter = Counter::new(set.tasks.len());
    let ran = observed(set, cores, subject, charge, &mut counter);
    ran.map_or_else(Tally::default, |ran| counter.finish(&ran, &charge.overheads))
}

/// The same run, watched by `observer`: what the simulator and the policy counted; `None` where the
/// policy does not admit the set.
///
/// # Panics
/// As [`run`].
pub fn observed(
    set: &TaskSet,
    cores: usize,
    subject: &Subject,
    charge: &Charge,
    observer: &mut dyn Observer,
) -> Option<(Outcome, Vec<Statistic>)> {
    observed_asking(set, set, cores, subject, charge, observer)
}

/// The same run where jobs ask for the budgets that `asked` says, less the bound, and not for those
/// that the policy is told of.
///
/// # Panics
/// As [`run`].
pub fn observed_asking(
    set: &TaskSet,
    asked: &TaskSet,
    cores: usize,
    subject: &Subject,
    charge: &Charge,
    observer: &mut dyn Observer,
) -> Option<(Outcome, Vec<Statistic>)> {
    let Subject { entry, params } = subject;
    let mut system = set.system(cores);
    entry.add_service_vcpus(&mut system, params);
    let mut policy = (entry.build)(&system, params).ok()?;
    let programs = programs(asked, charge.bound);
    let options =
        Options { seed: charge.seed, overheads: charge.overheads, ..Options::new(charge.until) };
    let outcome = maracas_sim::run(&system, &programs, policy.as_mut(), &options, observer);
    Some((outcome, policy.statistics()))
}

/// The same run as that of [`observed_asking`], watched by `observer`, counted as [`run`] counts.
///
/// # Panics
/// As [`run`].
pub fn counted_asking(
    set: &TaskSet,
    asked: &TaskSet,
    cores: usize,
    subject: &Subject,
    charge: &Charge,
    observer: &mut dyn Observer,
) -> Option<Tally> {
    let mut both = (Counter::new(set.tasks.len()), observer);
    let ran = observed_asking(set, asked, cores, subject, charge, &mut both)?;
    Some(both.0.finish(&ran, &charge.overheads))
}

/// One program a task, each job costing the budget less the bound.
fn programs(set: &TaskSet, bound: Duration) -> Vec<Program> {
    let cost = |budget: Duration| budget.saturating_sub(bound).max(Duration::from_ticks(1));
    let tasks = set.tasks.iter();
    tasks
        .map(|task| {
            let cost = Cost::Fixed(cost(task.reservation.budget));
            Program::new(task.id, Workload::Periodic { cost })
        })
        .collect()
}

/// Counts jobs and pieces of tasks that do nothing but their jobs, one after the other.
///
/// The machine reports a completion before the segment in which it falls, and a segment goes on
/// into the next job. So only the first piece of a segment can be a resumption or a job's begin
/// elsewhere, and which of the two it is depends on whether a job ended with the segment before.
struct Counter {
    tracks: Vec<Track>,
    tally: Tally,
}

/// One task.
#[derive(Clone)]
struct Track {
    /// Deadlines of the jobs released and not completed.
    deadlines: VecDeque<Instant>,
    /// The last completion.
    completed: Instant,
    /// End of the last segment; `None` before the first.
    to: Option<Instant>,
    /// Core of the last segment.
    core: u16,
    /// Whether a job ended with the last segment.
    job_over: bool,
}

impl Track {
    const NEW: Self = Self {
        deadlines: VecDeque::new(),
        completed: Instant::ZERO,
        to: None,
        core: 0,
        job_over: false,
    };

    #[inline]
    fn ran(&mut self, core: CoreId, from: Instant, to: Instant, tally: &mut Tally) {
        if let Some(last) = self.to {
            let moved = u64::from(self.core != core.0);
            if self.job_over {
                tally.task_migrations += moved;
            } else {
                tally.preemptions += u64::from(moved == 1 || last != from);
                tally.migrations += moved;
            }
        }
        (self.core, self.to) = (core.0, Some(to));
    }
}

impl Counter {
    /// For tasks with ids from 0 on. VCPUs after them carry service requests and have no jobs to
    /// count.
    fn new(tasks: usize) -> Self {
        Self { tracks: vec![Track::NEW; tasks], tally: Tally::default() }
    }

    fn finish(mut self, ran: &(Outcome, Vec<Statistic>), costs: &Overheads) -> Tally {
        let (outcome, statistics) = ran;
        for track in &self.tracks {
            for deadline in track.deadlines.iter().filter(|deadline| **deadline <= outcome.end) {
                self.tally.late(outcome.end - *deadline);
            }
        }
        let Tally { migrations, task_migrations, .. } = self.tally;
        // A segment on another core than the one before it is what the machine charges as
        // migration.
        let charged = [
            (costs.context_switch, outcome.context_switches),
            (costs.migration, migrations + task_migrations),
            (costs.decision, outcome.decisions),
            (costs.release, outcome.released),
        ];
        let charged = charged.map(|(cost, count)| cost.ticks().saturating_mul(count));
        Tally {
            accepted: true,
            released: outcome.released,
            completed: outcome.completed,
            missed: outcome.missed,
            decisions: outcome.decisions,
            depth: statistics.iter().find(|it| it.name == LEVELS).map_or(0, |it| it.value),
            charged_ns: charged.into_iter().fold(0, u64::saturating_add),
            ..self.tally
        }
    }
}

impl Tally {
    fn late(&mut self, by: Duration) {
        self.tardiness_max_ns = self.tardiness_max_ns.max(by.ticks());
        self.tardiness_sum_ns = self.tardiness_sum_ns.saturating_add(by.ticks());
    }
    /// Whether the set was admitted and every job that was due met its deadline.
    pub const fn success(&self) -> bool {
        self.accepted && self.missed == 0
    }
    /// `count` for each job released; 0 where there is none.
    pub fn per_job(&self, count: u64) -> f64 {
        if self.released == 0 { 0.0 } else { count as f64 / self.released as f64 }
    }
}

impl Observer for Counter {
    #[inline]
    fn event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Ran(segment) => {
                let Some(track) = self.tracks.get_mut(segment.vcpu.0 as usize) else { return };
                track.ran(segment.core, segment.from, segment.to, &mut self.tally);
                track.job_over = track.completed == segment.to;
            }
            Event::Released(job) => {
                self.tracks[job.id.vcpu.0 as usize].deadlines.push_back(job.deadline);
            }
            Event::Completed(job) => self.completed(at, *job),
            // Tasks are there from the start and stay, and nothing is asked of memory.
            Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
    }
    #[inline]
    fn planned(&mut self, _: Instant, _: &Plan) {}
    fn reads_plans(&self) -> bool {
        false
    }
    fn takes_jobs(&self) -> bool {
        true
    }
    fn job(&mut self, run: &JobRun<'_>) {
        let track = &mut self.tracks[run.job.id.vcpu.0 as usize];
        for piece in run.pieces {
            track.ran(piece.core, piece.from, piece.to, &mut self.tally);
            track.job_over = false;
        }
        (track.completed, track.job_over) = (run.completed, true);
    }
}

impl Counter {
    #[inline]
    fn completed(&mut self, at: Instant, job: JobId) {
        let track = &mut self.tracks[job.vcpu.0 as usize];
        track.completed = at;
        if let Some(deadline) = track.deadlines.pop_front()
            && at > deadline
        {
            self.tally.late(at - deadline);
        }
    }
}

#[cfg(test)]
mod tests;
