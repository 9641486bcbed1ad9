//! One run, watched as it goes: when each application finished for the first time, and what the
//! policy took its speedup for.

use crate::run::Prepared;
use crate::{Error, Setup};
use maracas_core::contract::{Meters, Observer, Policy, Statistic};
use maracas_core::{Duration, Event, Instant, Plan, VcpuId};
use maracas_trace::Report;

/// What the policies report as their estimate.
pub(super) const ESTIMATE: &str = "speedup milli";

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Course {
    /// When each application had done its instructions for the first time, in seconds.
    pub(super) finished_s: Vec<f64>,
    /// What the policy took each one's speedup for, each time that it computed the shares anew.
    pub(super) estimates: Vec<Vec<f64>>,
    pub(super) report: Report,
}

impl Course {
    /// Runs `setup`, whose VCPUs are applications of so many `instructions`.
    ///
    /// # Errors
    /// Where it cannot be run, or an application is not done by the end.
    pub(super) fn of(setup: &Setup, instructions: &[f64]) -> Result<Self, Error> {
        let prepared = Prepared::of(setup)?;
        let mut policy = Watched::new(prepared.policy()?, instructions.len());
        let mut watch = (prepared.metrics(), Finish::new(instructions));
        let outcome = prepared.run(&mut policy, &mut watch)?;
        let (mut metrics, finish) = watch;
        metrics.statistics(&policy.statistics());
        let finished = finish.finished.into_iter().enumerate().map(|(place, at)| {
            at.ok_or_else(|| {
                let name = &setup.name;
                Error(format!("{name}: vcpu{place} is not done when the run ends; run longer"))
            })
        });
        let finished_s = finished.collect::<Result<_, _>>()?;
        let report = metrics.report(outcome.end);
        Ok(Self { finished_s, estimates: policy.estimates, report })
    }
}

/// Sees applications finish.
struct Finish {
    /// Instructions still to be done, by VCPU.
    left: Vec<f64>,
    finished: Vec<Option<f64>>,
}

impl Finish {
    fn new(instructions: &[f64]) -> Self {
        Self { left: instructions.to_vec(), finished: vec![None; instructions.len()] }
    }
}

impl Observer for Finish {
    fn event(&mut self, _: Instant, event: &Event) {
        let Event::Ran(segment) = event else { return };
        let place = segment.vcpu.0 as usize;
        let Some(left) = self.left.get_mut(place).filter(|left| **left > 0.0) else { return };
        let done = segment.usage.instructions as f64;
        if done >= *left {
            let length = segment.to.saturating_since(segment.from);
            let into = seconds(length) * *left / done;
            self.finished[place] = Some(seconds(segment.from - Instant::ZERO) + into);
        }
        *left -= done;
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

fn seconds(duration: Duration) -> f64 {
    duration.ticks() as f64 / 1e9
}

/// A policy of which is noted, after each update of its shares, what it takes speedups for.
struct Watched {
    inner: Box<dyn Policy>,
    updates: u64,
    estimates: Vec<Vec<f64>>,
}

impl Watched {
    fn new(inner: Box<dyn Policy>, vcpus: usize) -> Self {
        Self { inner, updates: 0, estimates: vec![Vec::new(); vcpus] }
    }
}

impl Policy for Watched {
    fn on_event(&mut self, at: Instant, event: &Event) {
        self.inner.on_event(at, event);
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        self.inner.plan(now, plan);
        let statistics = self.inner.statistics();
        let updates = statistics.iter().find(|statistic| statistic.name == "updates");
        let updates = updates.map_or(0, |statistic| statistic.value);
        if updates == self.updates {
            return;
        }
        self.updates = updates;
        for Statistic { name, vcpu, value, .. } in statistics {
            if let (ESTIMATE, Some(VcpuId(id))) = (name, vcpu)
                && let Some(estimates) = self.estimates.get_mut(id as usize)
            {
                estimates.push(value as f64 / 1000.0);
            }
        }
    }
    fn meters(&self) -> Meters {
        self.inner.meters()
    }
    fn statistics(&self) -> Vec<Statistic> {
        self.inner.statistics()
    }
}
