//! Service requests: work that the policy gives to a service VCPU, from its begin to its answer.
//!
//! A service request begins when a plan shows it and none is under way. Its service VCPU wakes,
//! works it off under the run queue like any other VCPU, and blocks. The answer is reported before
//! the end of the segment in which the work was done.

use super::Machine;
use crate::memory::Contention;
use crate::workload::Standing;
use maracas_core::contract::{Event, Refused, ServiceRequest};
use maracas_core::{CoreId, CoreSet, Duration, VcpuId};

impl<C: Contention> Machine<'_, C> {
    /// Begins the service request in the plan, unless one is under way.
    #[inline]
    pub(super) fn take_service_request(&mut self, concerned: &mut CoreSet) {
        let Some((service_vcpu, service_request)) = self.plan.service_request else { return };
        if self.service_request.is_some() {
            return;
        }
        let Some(work) = self.service_request_work(service_vcpu, service_request) else {
            return self.report_failed(service_vcpu, service_request);
        };
        self.service_request = Some((service_vcpu, service_request));
        self.demands.send(service_vcpu.0, work);
        self.woke(service_vcpu.0, false, None, concerned);
    }

    /// The service VCPU's work; `None` where this service request cannot be done, or not by that
    /// VCPU.
    fn service_request_work(
        &mut self,
        service_vcpu: VcpuId,
        service_request: ServiceRequest,
    ) -> Option<Duration> {
        let demand = self.demands.get_mut(service_vcpu)?;
        if !demand.carries() || demand.standing != Standing::In {
            return None;
        }
        let costs = &self.options.overheads;
        match service_request {
            ServiceRequest::Sample => C::SAMPLES.then_some(costs.sample),
            ServiceRequest::Move { vcpu, colors, .. } => {
                let moved = self.demands.get_mut(vcpu)?;
                if moved.standing != Standing::In || moved.carries() {
                    return None;
                }
                let programs = self.demands.of(vcpu.0).programs();
                let pages = programs.iter().map(|one| self.contention.pages_to_copy(*one, colors));
                Some(costs.migration_service_request(pages.sum()))
            }
        }
    }

    /// The service VCPU has done its work on `core`.
    pub(super) fn finish_service_request(&mut self, core: usize) {
        let Some((service_vcpu, service_request)) = self.service_request.take() else { return };
        self.settle_all();
        match service_request {
            ServiceRequest::Sample => {
                if let Some(totals) = self.contention.totals(self.now) {
                    let sample = totals.since(&self.sampled.totals);
                    self.sampled.totals.clone_from(totals);
                    self.tell(core, &Event::Sampled(sample));
                }
            }
            ServiceRequest::Move { vcpu, colors, .. } => {
                if self.demands.of(vcpu.0).standing != Standing::In {
                    return self.report_failed(service_vcpu, service_request);
                }
                for place in 0..self.demands.of(vcpu.0).programs().len() {
                    let program = self.demands.of(vcpu.0).programs()[place];
                    self.contention.recolor(self.now, program, colors);
                }
            }
        }
        self.tell(core, &Event::ServiceDone(service_request));
    }

    fn report_failed(&mut self, service_vcpu: VcpuId, service_request: ServiceRequest) {
        let known = (service_vcpu.0 as usize) < self.demands.len();
        let core = if known { self.place_of(service_vcpu.0) } else { 0 };
        let what = match service_request {
            ServiceRequest::Sample => Refused::Sample,
            ServiceRequest::Move { vcpu, .. } => Refused::Move(vcpu),
        };
        self.tell(core, &Event::Failed { core: CoreId(core as u16), what });
    }
}
