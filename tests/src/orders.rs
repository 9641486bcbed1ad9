//! Policies that are nothing but an order of jobs: what the simulator does by that order alone is
//! what the policy plans.

use crate::{Case, Faults};
use maracas_core::contract::{DecisionCounts, Observer, Policy};
use maracas_core::journal::Header;
use maracas_core::params::Params;
use maracas_core::{Event, Instant, Plan, Program, System};
use maracas_sim::{Options, Outcome, run};
use maracas_trace::{Metrics, Report};

/// Everything that is observed.
struct Seen {
    events: Vec<(Instant, Event)>,
    metrics: Metrics,
    reads_plans: bool,
    /// How many plans were seen.
    plans: u64,
    /// Whether none was made.
    by_order: bool,
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
        self.reads_plans
    }
    fn decided(&mut self, counts: &DecisionCounts) {
        self.by_order = true;
        self.metrics.decided(counts);
    }
}

/// What both ways came to.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Whether the second was by an order of jobs; else both were by plans.
    pub by_order: bool,
    /// What the simulator counted.
    pub outcome: Outcome,
    /// The table.
    pub report: Report,
}

/// Runs the policy twice, read and not read in its plans, and compares all that is observed;
/// `None` where it refuses.
///
/// # Errors
/// The first thing that differs.
pub fn both_ways(
    system: &System,
    programs: &[Program],
    options: &Options,
    build: &dyn Fn() -> Option<Box<dyn Policy>>,
) -> Result<Option<Compared>, String> {
    let way = |reads_plans| {
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
        let events = Vec::new();
        let mut seen = Seen { events, metrics, reads_plans, plans: 0, by_order: false };
        let outcome = run(system, programs, policy.as_mut(), options, &mut seen);
        let report = seen.metrics.report(outcome.end);
        Some((outcome, seen, report))
    };
    let (Some(by_plans), Some(other)) = (way(true), way(false)) else { return Ok(None) };
    for (place, pair) in by_plans.1.events.iter().zip(&other.1.events).enumerate() {
        if pair.0 != pair.1 {
            return Err(format!("event {place}: {:?} by plans, {:?} by order", pair.0, pair.1));
        }
    }
    let [planned, ordered] = [&by_plans, &other].map(|way| way.1.events.len());
    if planned != ordered {
        return Err(format!("{planned} events by plans, {ordered} by order"));
    }
    if by_plans.0 != other.0 {
        return Err(format!("{:?} by plans, {:?} by order", by_plans.0, other.0));
    }
    if by_plans.2 != other.2 {
        return Err(format!("{:?} by plans, {:?} by order", by_plans.2, other.2));
    }
    let (outcome, Seen { by_order, plans, .. }, report) = other;
    if by_plans.1.by_order || by_order && plans > 0 || by_plans.1.plans != outcome.decisions {
        return Err(format!("{plans} plans by order, {} by plans", by_plans.1.plans));
    }
    Ok(Some(Compared { by_order, outcome, report }))
}

/// The same of a case; `None` too where something is made difficult, changed or shared.
///
/// # Errors
/// As [`both_ways`].
pub fn both_ways_of(case: &Case) -> Result<Option<Compared>, String> {
    let is_plain = case.faults == Faults::default() && case.changes.is_empty();
    let is_even = case.memory.is_none() && case.paces.iter().all(Option::is_none);
    let gives_order = case.policy().is_some_and(|policy| policy.job_priorities().is_some());
    if !is_plain || !is_even || !gives_order {
        return Ok(None);
    }
    let options = Options { seed: case.seed, ..Options::new(case.until) };
    both_ways(&case.system(), &case.random.programs, &options, &|| case.policy())
}
