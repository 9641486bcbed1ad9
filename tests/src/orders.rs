//! Policies that are nothing but an order of jobs: what the simulator does by that order alone is
//! what the policy plans.

use crate::{Case, Faults};
use maracas_core::contract::{DecisionCounts, JobRun, Observer, Policy};
use maracas_core::journal::Header;
use maracas_core::params::Params;
use maracas_core::{Event, Instant, Plan, Program, System};
use maracas_sim::{Options, Outcome, run};
use maracas_trace::{Metrics, Report};

/// Everything that is observed.
struct Seen {
    events: Vec<(Instant, Event)>,
    metrics: Metrics,
    way: Way,
    /// How many plans were seen.
    plans: u64,
    /// Whether none was made.
    by_order: bool,
    /// How many jobs were told of as wholes.
    whole: u64,
}

/// How a run is observed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Plans,
    Events,
    /// Jobs as wholes, where they can be.
    Jobs,
}

impl Seen {
    /// The events of each VCPU in their order.
    fn by_vcpu(&self) -> Vec<(Instant, Event)> {
        let vcpu = |(_, event): &(Instant, Event)| match event {
            Event::Ran(segment) => segment.vcpu,
            Event::Released(job) => job.id.vcpu,
            Event::Completed(id) => id.vcpu,
            Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::Arrived(_)
            | Event::Changed(_)
            | Event::Left(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => unreachable!("nothing but jobs"),
        };
        let mut events = self.events.clone();
        events.sort_by_key(vcpu);
        events
    }
}

impl Observer for Seen {
    fn event(&mut self, at: Instant, event: &Event) {
        self.events.push((at, event.clone()));
        self.metrics.event(at, event);
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        self.plans += 1;
        self.metrics.planned(now, plan);
    }
    fn reads_plans(&self) -> bool {
        self.way == Way::Plans
    }
    fn takes_jobs(&self) -> bool {
        self.way == Way::Jobs && self.metrics.takes_jobs()
    }
    fn job(&mut self, run: &JobRun<'_>) {
        self.whole += 1;
        run.each_event(|at, event| self.events.push((at, event.clone())));
        self.metrics.job(run);
    }
    fn decided(&mut self, counts: &DecisionCounts) {
        self.by_order = true;
        self.metrics.decided(counts);
    }
}

/// What all ways came to.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Whether those that read no plans were by an order of jobs; else all were by plans.
    pub by_order: bool,
    /// What the simulator counted.
    pub outcome: Outcome,
    /// The table.
    pub report: Report,
    /// How many jobs were told of as wholes, where that is asked for.
    pub whole: u64,
}

/// Runs the policy three times, read in its plans, told of events, and told of jobs as wholes, and
/// compares all that is observed; `None` where it refuses.
///
/// # Errors
/// The first thing that differs.
pub fn every_way(
    system: &System,
    programs: &[Program],
    options: &Options,
    build: &dyn Fn() -> Option<Box<dyn Policy>>,
) -> Result<Option<Compared>, String> {
    let run_in = |way| {
        let mut policy = build()?;
        let header = Header {
            policy: String::new(),
            params: Params::new(),
            system: system.clone(),
            names: system.vcpus.iter().map(|vcpu| vcpu.id.to_string()).collect(),
            machine: "sim".into(),
            version: String::new(),
            seed: options.seed,
        };
        let metrics = Metrics::new(&header);
        let mut seen =
            Seen { events: Vec::new(), metrics, way, plans: 0, by_order: false, whole: 0 };
        let outcome = run(system, programs, policy.as_mut(), options, &mut seen);
        let report = seen.metrics.report(outcome.end);
        Some((outcome, seen, report))
    };
    let ways = [Way::Plans, Way::Events, Way::Jobs].map(run_in);
    let [Some(by_plans), Some(by_events), Some(by_jobs)] = ways else { return Ok(None) };
    equal("by order", &by_plans.1.events, &by_events.1.events)?;
    let (outcome, Seen { by_order, plans, .. }, _) = &by_events;
    if *by_order {
        equal("of a VCPU by jobs", &by_plans.1.by_vcpu(), &by_jobs.1.by_vcpu())?;
    }
    for (name, way) in [("order", &by_events), ("jobs", &by_jobs)] {
        if by_plans.0 != way.0 {
            return Err(format!("{:?} by plans, {:?} by {name}", by_plans.0, way.0));
        }
        if by_plans.2 != way.2 {
            return Err(format!("{:?} by plans, {:?} by {name}", by_plans.2, way.2));
        }
    }
    if by_plans.1.by_order || *by_order && *plans > 0 || by_plans.1.plans != outcome.decisions {
        return Err(format!("{plans} plans by order, {} by plans", by_plans.1.plans));
    }
    let (outcome, Seen { by_order, whole, .. }, report) = by_jobs;
    Ok(Some(Compared { by_order, outcome, report, whole }))
}

/// Compares events by plans with those of another way.
fn equal(
    way: &str,
    planned: &[(Instant, Event)],
    other: &[(Instant, Event)],
) -> Result<(), String> {
    for (place, pair) in planned.iter().zip(other).enumerate() {
        if pair.0 != pair.1 {
            return Err(format!("event {place}: {:?} by plans, {:?} {way}", pair.0, pair.1));
        }
    }
    if planned.len() != other.len() {
        return Err(format!("{} events by plans, {} {way}", planned.len(), other.len()));
    }
    Ok(())
}

/// The same of a case; `None` too where something is made difficult, changed or shared.
///
/// # Errors
/// As [`every_way`].
pub fn every_way_of(case: &Case) -> Result<Option<Compared>, String> {
    let is_plain = case.faults == Faults::default() && case.changes.is_empty();
    let is_even = case.memory.is_none() && case.paces.iter().all(Option::is_none);
    let gives_order = case.policy().is_some_and(|policy| policy.job_priorities().is_some());
    if !is_plain || !is_even || !gives_order {
        return Ok(None);
    }
    let options = Options { seed: case.seed, ..Options::new(case.until) };
    every_way(&case.system(), &case.random.programs, &options, &|| case.policy())
}
