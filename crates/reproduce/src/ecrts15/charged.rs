//! One run with costs charged, and what every job was charged beyond its own work.

use maracas_core::contract::{Event, Observer, Plan, Segment};
use maracas_core::{Duration, Instant, VcpuId};
use maracas_scenario::taskset::TaskSet;
use maracas_sweep::trial::{Tally, counted_asking};
use maracas_sweep::{Charge, Subject};

/// What a run with costs charged came to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Run {
    pub(crate) missed: u64,
    /// Jobs that were completed.
    pub(crate) jobs: u64,
    /// What all of them were charged.
    pub(super) overhead: Duration,
    /// The most that one of them was.
    pub(super) largest: Duration,
    /// Levels of the policy's tree or hierarchy.
    pub(super) depth: u64,
}

impl Run {
    /// What a job was charged on average, in microseconds.
    pub(super) fn mean_us(&self) -> f64 {
        self.overhead.ticks() as f64 / 1e3 / self.jobs.max(1) as f64
    }
}

/// Runs `set`; `None` where the policy does not admit it.
pub(super) fn charged(
    set: &TaskSet,
    cores: usize,
    subject: &Subject,
    charge: &Charge,
) -> Option<Run> {
    charged_asking(set, set, cores, subject, charge).map(|(run, ..)| run)
}

/// Runs `set` with jobs that ask for the budgets of `asked`, less the bound; with the run as sweeps
/// count it, and the most that a job of each task was charged, of jobs that were not complete at
/// the end what is known of it.
pub(crate) fn charged_asking(
    set: &TaskSet,
    asked: &TaskSet,
    cores: usize,
    subject: &Subject,
    charge: &Charge,
) -> Option<(Run, Tally, Vec<Duration>)> {
    let work = |budget: Duration| budget.saturating_sub(charge.bound).max(Duration::from_ticks(1));
    let tasks = asked.tasks.iter().map(|task| Task::new(work(task.reservation.budget)));
    let mut meter = Meter { tasks: tasks.collect(), run: Run::default() };
    let tally = counted_asking(set, asked, cores, subject, charge, &mut meter)?;
    let most = meter.tasks.iter().map(Task::most).collect();
    Some((Run { missed: tally.missed, depth: tally.depth, ..meter.run }, tally, most))
}

struct Task {
    /// What each of its jobs asks.
    work: Duration,
    /// What its VCPU was metered since its last completion.
    used: Duration,
    /// Completions within the segment that is not reported yet.
    completed: Vec<Instant>,
    /// The most that one of its jobs was charged.
    most: Duration,
}

impl Task {
    const fn new(work: Duration) -> Self {
        Self { work, used: Duration::ZERO, completed: Vec::new(), most: Duration::ZERO }
    }
    /// The most that one of its jobs was charged. One that is not complete was charged more than
    /// what its VCPU was metered beyond its work.
    fn most(&self) -> Duration {
        let more = self.used + Duration::from_ticks(1);
        self.most.max(more.saturating_sub(self.work))
    }
}

/// A VCPU's meter runs while it is charged, and its job makes no progress. So what a job is
/// charged is what its VCPU was metered for it, less its work.
struct Meter {
    tasks: Vec<Task>,
    run: Run,
}

impl Meter {
    fn ran(&mut self, segment: &Segment) {
        let Some(task) = self.tasks.get_mut(segment.vcpu.0 as usize) else { return };
        // The machine reports completions before the segment in which they fall.
        let mut from = segment.from;
        for at in task.completed.drain(..) {
            let overhead = (task.used + (at - from)).saturating_sub(task.work);
            self.run.jobs += 1;
            self.run.overhead += overhead;
            self.run.largest = self.run.largest.max(overhead);
            task.most = task.most.max(overhead);
            (task.used, from) = (Duration::ZERO, at);
        }
        task.used += segment.to - from;
    }
    fn completed(&mut self, vcpu: VcpuId, at: Instant) {
        if let Some(task) = self.tasks.get_mut(vcpu.0 as usize) {
            task.completed.push(at);
        }
    }
}

impl Observer for Meter {
    fn event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Ran(segment) => self.ran(segment),
            Event::Completed(id) => self.completed(id.vcpu, at),
            Event::Released(_)
            | Event::Woke { .. }
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
    fn planned(&mut self, _: Instant, _: &Plan) {}
    fn reads_plans(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_sim::Overheads;

    fn run_with(policy: &str, set: &str, cores: usize, overheads: Overheads, bound: u64) -> Run {
        let set = TaskSet::parse(&format!("cost_us,period_us\n{set}"), "set").unwrap();
        let subject = super::super::subject(policy).unwrap();
        let bound = Duration::from_micros(bound);
        let until = Instant::ZERO + Duration::from_millis(60);
        charged(&set, cores, &subject, &Charge { until, seed: 0, overheads, bound }).unwrap()
    }

    #[test]
    fn a_job_is_charged_its_switch_its_release_and_what_preempts_it() {
        let us = Duration::from_micros;
        let switch = Overheads { context_switch: us(7), ..Overheads::FREE };
        // One task alone: one switch a job. 20 jobs of 1 ms every 3 ms.
        let alone = run_with("p-edf", "1000,3000\n", 1, switch, 0);
        assert_eq!((alone.jobs, alone.overhead, alone.largest), (20, us(140), us(7)));
        assert_eq!(alone.missed, 0);
        // (1, 4) and (4, 7): the long job of [7, 14) is preempted at 8 and switched to again.
        let two = run_with("p-edf", "1000,4000\n4000,7000\n", 1, switch, 0);
        assert!(two.largest == us(14) && two.overhead > us(7) * two.jobs, "{two:?}");
        let free = run_with("run", "2000,3000\n2000,3000\n2000,3000\n", 2, Overheads::FREE, 0);
        assert_eq!((free.overhead, free.missed, free.depth), (Duration::ZERO, 0, 1));
    }

    #[test]
    fn the_bound_makes_room_for_what_is_charged() {
        let costs = Overheads { context_switch: Duration::from_micros(10), ..Overheads::FREE };
        let set = "2000,3000\n2000,3000\n2000,3000\n";
        let without = run_with("run", set, 2, costs, 0);
        let with = run_with("run", set, 2, costs, 40);
        assert!(without.missed > 0 && with.missed == 0, "{without:?} {with:?}");
        assert!(with.largest <= Duration::from_micros(40));
    }
}
