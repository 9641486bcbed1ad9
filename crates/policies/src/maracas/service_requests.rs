//! Service requests: a plan has room for one at a time, so the monitor and the migrations take
//! turns.

use maracas_core::VcpuId;
use maracas_core::contract::{Plan, Refused, ServiceRequest};

/// The VCPU that is away on a service request, and whether the monitor waits to go. A migration is
/// decided only when no VCPU is away: what it would be decided on changes meanwhile.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct ServiceRequests {
    away: Option<(VcpuId, ServiceRequest)>,
    sample: Option<VcpuId>,
}

impl ServiceRequests {
    /// The monitor must read the counters, at once or as soon as the one that is away is back.
    pub(super) fn sample(&mut self, monitor: VcpuId) {
        if !matches!(self.away, Some((_, ServiceRequest::Sample))) {
            self.sample = Some(monitor);
        }
    }
    /// Whether a migration may begin: no VCPU is away, and the monitor does not wait.
    pub(super) const fn free(&self) -> bool {
        self.away.is_none() && self.sample.is_none()
    }
    /// Sends `service_vcpu`.
    pub(super) fn send(&mut self, service_vcpu: VcpuId, service_request: ServiceRequest) {
        assert!(self.free(), "{service_vcpu} is sent while {:?} is away", self.away);
        self.away = Some((service_vcpu, service_request));
    }
    /// The machine did `service_request`; false where no VCPU was sent for that.
    pub(super) fn done(&mut self, service_request: &ServiceRequest) -> bool {
        self.away.take_if(|(_, away)| away == service_request).is_some()
    }
    /// The machine could not do what it was sent for: which service request that was, if any.
    pub(super) fn failed(&mut self, what: &Refused) -> Option<ServiceRequest> {
        let failed = |away: &ServiceRequest| match (what, away) {
            (Refused::Sample, ServiceRequest::Sample) => true,
            (Refused::Move(moved), ServiceRequest::Move { vcpu, .. }) => moved == vcpu,
            (Refused::Sample | Refused::Move(_) | Refused::Start(_) | Refused::Stop(_), _) => false,
        };
        self.away.take_if(|(_, away)| failed(away)).map(|(_, service_request)| service_request)
    }
    /// Lets the next one go, and writes into `plan` what is away.
    pub(super) fn show(&mut self, plan: &mut Plan) {
        if self.away.is_none() {
            self.away = self.sample.take().map(|monitor| (monitor, ServiceRequest::Sample));
        }
        plan.service_request = self.away;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::CoreId;

    #[test]
    fn one_at_a_time_and_the_monitor_first() {
        let (monitor, mover) = (VcpuId(7), VcpuId(8));
        let mut plan = Plan::new(1);
        let service_request = ServiceRequest::Move { vcpu: VcpuId(1), to: CoreId(0), colors: None };
        let mut service_requests = ServiceRequests::default();
        service_requests.send(mover, service_request);
        service_requests.sample(monitor);
        service_requests.show(&mut plan);
        assert_eq!(plan.service_request, Some((mover, service_request)));
        // Another's failure is not its own.
        assert_eq!(service_requests.failed(&Refused::Move(VcpuId(2))), None);
        assert_eq!(service_requests.failed(&Refused::Move(VcpuId(1))), Some(service_request));
        assert!(!service_requests.free());
        service_requests.show(&mut plan);
        assert_eq!(plan.service_request, Some((monitor, ServiceRequest::Sample)));
        service_requests.sample(monitor);
        assert!(
            !service_requests.done(&service_request)
                && service_requests.done(&ServiceRequest::Sample)
        );
        service_requests.show(&mut plan);
        assert_eq!(plan.service_request, None);
        assert!(service_requests.free());
    }
}
