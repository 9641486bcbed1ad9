//! Recorded streams with the times of their steps: of whole systems behind one lock each, or of
//! the parts that could have a lock each.

use super::Effort;
use maracas_core::Policy;
use maracas_core::contract::Entry;
use maracas_core::{Cost, Instant, Program, System, Vcpu, Workload};
use maracas_stopwatch::{Clock, Cold, Colder};
use maracas_sweep::admission::untested;
use maracas_sweep::primitives::cost::call_times;
use maracas_sweep::primitives::locks::{Costs, measured_requests, queue, requests};
use maracas_sweep::primitives::replay::Time;
use maracas_sweep::primitives::stream::{Stream, Unlike, record};
use maracas_sweep::primitives::{Lock, Primitive, Request, Samples, Step, Summary, Waits, steady};

/// One stream, and what is needed to run it again.
pub(super) struct Run {
    entry: &'static Entry,
    system: System,
    stream: Stream,
    /// What each call takes warm.
    calls: Vec<Time>,
}

impl Run {
    /// Simulates `system` under `entry` up to `until`; every job needs its whole budget. `None`
    /// where the policy refuses the system. No test is asked where the policy can do without: what
    /// a decision takes does not hang on it.
    ///
    /// # Errors
    /// Where the policy is not the same twice.
    pub(super) fn record(
        entry: &'static Entry,
        system: System,
        until: Instant,
    ) -> Result<Option<Self>, Unlike> {
        let workload =
            |vcpu: &Vcpu| Workload::Periodic { cost: Cost::Fixed(vcpu.reservation.budget) };
        let program = |vcpu: &Vcpu| Program::new(vcpu.id, workload(vcpu));
        let programs: Vec<_> = system.vcpus.iter().map(program).collect();
        match record(&system, &programs, entry, &untested(entry), until) {
            Ok(stream) => Ok(Some(Self { entry, system, stream, calls: Vec::new() })),
            Err(Unlike::Refused(_)) => Ok(None),
            Err(unlike) => Err(unlike),
        }
    }
    /// What was simulated.
    pub(super) const fn system(&self) -> &System {
        &self.system
    }

    /// The times of all steps in one run, as `watch` takes them.
    fn time(&self, watch: impl FnOnce(&Stream, &mut dyn Policy, usize) -> Vec<Time>) -> Vec<Time> {
        // What was recorded was admitted; a refusal now would leave nothing to time.
        (self.entry.build)(&self.system, &untested(self.entry)).map_or_else(
            |_| Vec::new(),
            |mut policy| watch(&self.stream, policy.as_mut(), self.system.cores.len()),
        )
    }
}

/// The runs of one set that go on at the same time, each behind a lock of its own.
struct Set {
    runs: Vec<Run>,
    until: Instant,
}

/// Some sets, and what their steps took.
#[derive(Default)]
pub(super) struct Study {
    sets: Vec<Set>,
    pub(super) warm: Samples,
    pub(super) cold: Samples,
}

impl Study {
    /// Times the runs of one set, which all end at `until`.
    pub(super) fn add(
        &mut self,
        mut runs: Vec<Run>,
        until: Instant,
        effort: &Effort,
        clock: Clock,
    ) {
        let cost = clock.cost;
        for run in &mut runs {
            let time = |_| run.time(|stream, policy, cores| clock.times(stream, policy, cores));
            let times: Vec<_> = (0..effort.repetitions).map(time).collect();
            let times = steady(&times);
            self.warm.add_steps(&run.stream, &times, cost);
            self.warm.add_calls(&run.stream, &times, cost);
            run.calls = call_times(&run.stream, &times, cost);
        }
        let most = effort.cold.div_ceil(effort.sets);
        for colder in [Colder::Steps(most), Colder::Calls(most)] {
            let steps: Vec<Step> = runs.iter().flat_map(|run| run.stream.steps()).collect();
            let mut watch = Cold::new(clock, &steps, colder);
            for run in &runs {
                let times = run.time(|stream, policy, cores| watch.times(stream, policy, cores));
                match colder {
                    Colder::Steps(_) => self.cold.add_steps(&run.stream, &times, cost),
                    Colder::Calls(_) => self.cold.add_calls(&run.stream, &times, cost),
                }
            }
        }
        self.sets.push(Set { runs, until });
    }
    /// How many sets were added.
    pub(super) const fn sets(&self) -> usize {
        self.sets.len()
    }

    /// What locks would add to these sets, with one row a way to say how long they are held.
    pub(super) fn locks(&self, kind: &'static str) -> Vec<LockRow> {
        let table = |samples, number: fn(&Summary) -> u32| {
            let costs = Costs::of(samples, number);
            move |run: &Run, lock| requests(&run.stream, lock, &costs)
        };
        let measured = |run: &Run, lock| measured_requests(&run.stream, lock, &run.calls);
        vec![
            self.row(kind, "measured", measured),
            self.row(kind, "median", table(&self.warm, |summary| summary.median)),
            self.row(kind, "p99", table(&self.warm, |summary| summary.p99)),
            self.row(kind, "cold-median", table(&self.cold, |summary| summary.median)),
        ]
    }

    fn row(
        &self,
        kind: &'static str,
        cost: &'static str,
        requests: impl Fn(&Run, Lock) -> Vec<Request>,
    ) -> LockRow {
        let (mut all, mut spans) = (Vec::new(), Vec::new());
        let mut start = 0;
        for set in &self.sets {
            let mut of_set: Vec<Request> = Vec::new();
            for run in &set.runs {
                of_set.extend(requests(run, Lock(spans.len())));
                spans.push(set.until.ticks() as f64);
            }
            of_set.sort_by_key(|request| request.at);
            // One set after the other; no lock serves two of them.
            all.extend(of_set.into_iter().map(|own| Request { at: own.at + start, ..own }));
            start += set.until.ticks();
        }
        let waits = queue(&all, spans.len());
        let shares = waits.held.iter().zip(&spans).map(|(held, span)| *held as f64 / span);
        LockRow {
            kind,
            cost,
            locks: spans.len() as f64 / self.sets.len().max(1) as f64,
            schedule: self.warm.summary(Primitive::Schedule),
            release: self.warm.summary(Primitive::Release),
            held: shares.clone().sum::<f64>() / spans.len().max(1) as f64,
            held_busiest: shares.fold(0.0, f64::max),
            waits,
        }
    }
}

/// The lock study of one kind of lock with one table of costs.
pub(super) struct LockRow {
    /// `global` or `hierarchy`.
    pub(super) kind: &'static str,
    /// Which numbers hold the lock.
    pub(super) cost: &'static str,
    /// Locks of a set, on average.
    pub(super) locks: f64,
    /// Of the policy, or the policies, behind the locks.
    pub(super) schedule: Option<Summary>,
    pub(super) release: Option<Summary>,
    pub(super) waits: Waits,
    /// The share of time in which a lock is held, mean over all.
    pub(super) held: f64,
    /// The same of the one that is held most.
    pub(super) held_busiest: f64,
}
