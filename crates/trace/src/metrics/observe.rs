//! What a machine shows while it runs.

use super::{Metrics, core_time};
use maracas_core::contract::{DecisionCounts, End, Event, JobRun, Observer, Plan, Segment};
use maracas_core::{CoreId, Instant, Job, JobId, VcpuId};

impl Observer for Metrics {
    fn event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Ran(segment) => self.ran(segment),
            Event::Released(job) => self.released(at, job),
            Event::Completed(id) => self.completed(at, *id),
            Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Arrived(_)
            | Event::Changed(_)
            | Event::Left(_)
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::ServiceDone(_)
            | Event::Failed { .. } => self.other(at, event),
        }
    }

    fn planned(&mut self, now: Instant, plan: &Plan) {
        self.decisions += 1;
        if !plan.dirty().is_empty() {
            self.run_queues_changed(now, plan);
        }
        if !plan.verdicts().is_empty() {
            self.plan_answered(now, plan);
        }
    }

    fn reads_plans(&self) -> bool {
        false
    }

    fn decided(&mut self, counts: &DecisionCounts) {
        self.decisions += counts.all;
        for (core, count) in (0..).map(CoreId).zip(&counts.by_core) {
            core_time(&mut self.cores, core).decisions += count;
        }
        counts.on_run_queue.iter().for_each(|vcpu| self.task(*vcpu).was_promised = true);
    }

    fn takes_jobs(&self) -> bool {
        self.fairness.is_none()
    }

    fn job(&mut self, run: &JobRun<'_>) {
        let task = self.task(run.job.id.vcpu);
        if !task.job(run) {
            return run.each_event(|at, event| self.event(at, event));
        }
        let is_ripe = task.windows.is_ripe();
        for piece in run.pieces {
            core_time(&mut self.cores, piece.core).ran_for(piece.to - piece.from);
        }
        if is_ripe {
            self.settle_ripe(run.job.id.vcpu);
        }
    }
}

impl Metrics {
    // Not inlined: each of these saves the registers that it needs itself.
    #[inline(never)]
    fn released(&mut self, at: Instant, job: &Job) {
        let vcpu = job.id.vcpu;
        // Periods go by nominal releases: that is what replenishment goes by.
        let at = at.min(job.release);
        let task = self.task(vcpu);
        task.released(job);
        task.woke(at);
        self.others_woke(vcpu, at);
    }

    #[inline(never)]
    fn completed(&mut self, at: Instant, job: JobId) {
        self.task(job.vcpu).completed(job, at);
    }

    #[inline(never)]
    fn ran(&mut self, segment: &Segment) {
        core_time(&mut self.cores, segment.core).ran(segment);
        // Where budgets are meant on whichever core, its speed does not matter.
        let matters = self.task(segment.vcpu).windows.is_meant_on_a_class();
        let milli = if matters { self.speed_milli(segment.core) } else { 0 };
        let task = &mut self.tasks[segment.vcpu.0 as usize];
        task.ran(segment, milli);
        if task.windows.is_ripe() {
            self.settle_ripe(segment.vcpu);
        }
        if let Some(fairness) = &mut self.fairness {
            fairness.ran(segment);
        }
        if !self.closed.is_empty() && segment.end != End::Metered {
            self.review_closed(segment.to);
        }
    }

    #[cold]
    fn settle_ripe(&mut self, vcpu: VcpuId) {
        let task = &mut self.tasks[vcpu.0 as usize];
        task.settle_ripe(self.decisions, self.causes.thefts());
    }

    /// What is not of jobs. Not inlined, as what it does needs registers that jobs would save.
    #[inline(never)]
    fn other(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Woke { vcpu, .. } => self.woke(*vcpu, at),
            Event::AllowanceSpent { core } => self.allowance_spent(at, *core),
            Event::Arrived(vcpu) => self.arrived(vcpu),
            Event::Changed(vcpu) => self.asks_change(vcpu),
            Event::Left(vcpu) => self.left(*vcpu, at),
            Event::Sampled(sample) => self.controller.sampled(at, sample),
            Event::Ran(_)
            | Event::Released(_)
            | Event::Completed(_)
            | Event::Utilized { .. }
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
    }
}
