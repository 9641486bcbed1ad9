use super::*;
use crate::Request;
use crate::decider::rig::{self, FakeHost, attach, question};
use maracas_core::contract::Limit;
use maracas_core::{JobId, Plan, Policy, System, Vcpu};

/// The main VCPU, and the service VCPU, which stands on core 0.
const MAIN: VcpuId = VcpuId(0);
const SERVICE_VCPU: VcpuId = VcpuId(1);
const ZERO: CoreId = CoreId(0);
const ONE: CoreId = CoreId(1);
/// What is reported of a service VCPU that has worked.
const RAN: &str = "vcpu1 ran on core0 and Blocked";

/// Sends the service VCPU once, and grants it a millisecond when any job is done.
struct Sends {
    service_request: Option<ServiceRequest>,
    granted: Duration,
}

impl Policy for Sends {
    fn on_event(&mut self, _: Instant, event: &Event) {
        if let Event::ServiceDone(_) | Event::Failed { .. } = event {
            self.service_request = None;
        }
        if let Event::Completed(_) = event {
            self.granted = Duration::from_millis(1);
        }
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        let run_queue = plan.run_queue_mut(ZERO);
        run_queue.foreground.clear();
        run_queue.foreground.push(Grant::new(SERVICE_VCPU, Limit(self.granted)));
        plan.service_request =
            self.service_request.map(|service_request| (SERVICE_VCPU, service_request));
        // Asked at every look.
        plan.wake = now + Duration::from_nanos(1);
    }
}

/// A decider of two cores under [`Sends`].
struct Rig {
    decider: Decider<FakeHost>,
}

impl Rig {
    fn new(service_request: ServiceRequest, senses: bool) -> Self {
        let ms = Duration::from_millis;
        let service_vcpu = Vcpu { role: Role::Monitor, ..Vcpu::new(SERVICE_VCPU.0, ms(1), ms(10)) };
        let system = System::new(2, vec![Vcpu::new(MAIN.0, ms(5), ms(10)), service_vcpu]);
        let service_request = Some(service_request);
        let policy = Sends { service_request, granted: Duration::ZERO };
        let mut decider = rig::decider(policy, &system, 2);
        decider.host.senses = senses;
        Self { decider }
    }
    /// Grants the service VCPU a millisecond.
    fn grant(&mut self) {
        self.decider.tell(Instant::ZERO, &Event::Completed(JobId { vcpu: MAIN, index: 0 }));
    }
    fn round(&mut self, own: CoreId) -> CoreSet {
        self.decider.round(own, None)
    }
    /// What was reported to the policy up to the end of the run.
    fn told(mut self) -> Vec<String> {
        self.decider.finish(Duration::ZERO);
        self.decider.host.told
    }
}

#[test]
fn a_service_vcpu_works_on_its_own_core_while_it_has_a_grant_and_is_reported_as_in_simulation() {
    let mut rig = Rig::new(ServiceRequest::Sample, true);
    assert_eq!(rig.round(ZERO), CoreSet::EMPTY);
    assert_eq!(rig.round(ONE), CoreSet::EMPTY, "without a grant it waits");
    rig.grant();
    let its: CoreSet = [ZERO].into_iter().collect();
    assert_eq!(rig.round(ONE), its, "it is for the agent of its core");
    assert!(rig.decider.service_requests.meter(SERVICE_VCPU).is_zero());
    assert_eq!(rig.round(ZERO), CoreSet::EMPTY);
    assert!(!rig.decider.service_requests.meter(SERVICE_VCPU).is_zero(), "it was paid for");
    assert_eq!(rig.round(ZERO), CoreSet::EMPTY, "once");
    assert_eq!(rig.told(), ["vcpu1 woke", "sampled 7 75 [7, 0]", "done", RAN]);
}

#[test]
fn what_cannot_be_sampled_fails_with_work_or_without() {
    let mut rig = Rig::new(ServiceRequest::Sample, true);
    rig.decider.host.broken = true;
    rig.grant();
    rig.round(ZERO);
    assert_eq!(rig.told(), ["vcpu1 woke", "failed Sample", RAN]);
    let mut rig = Rig::new(ServiceRequest::Sample, false);
    rig.grant();
    rig.round(ZERO);
    assert_eq!(rig.told(), ["failed Sample"], "it never went");
}

#[test]
fn a_move_is_done_when_the_vcpu_sits_on_the_other_core() {
    let service_request = ServiceRequest::Move { vcpu: MAIN, to: ONE, colors: None };
    let mut rig = Rig::new(service_request, false);
    let (reply, _answer) = question();
    rig.decider.host.requests.push(attach(MAIN));
    rig.decider.host.requests.push(Request::Hold { id: MAIN, number: 7, reply });
    rig.grant();
    rig.round(ZERO);
    assert_eq!(rig.decider.known[&MAIN].slot, Some(ZERO), "not while a program is being started");
    rig.decider.host.requests.push(Request::Unhold(7));
    rig.round(ZERO);
    assert_eq!(rig.decider.known[&MAIN].slot, Some(ONE));
    assert_eq!(rig.told(), ["vcpu0 woke", "vcpu1 woke", "done", RAN]);
}

#[test]
fn a_vcpu_is_moved_by_the_agent_of_the_core_where_it_sits_wherever_the_service_vcpu_stands() {
    let service_request = ServiceRequest::Move { vcpu: MAIN, to: ONE, colors: None };
    let mut rig = Rig::new(service_request, false);
    rig.decider.host.requests.push(attach(MAIN));
    rig.round(ZERO);
    rig.decider.transfer(MAIN, ZERO, ONE);
    rig.decider.plan.service_request = None;
    let back = ServiceRequest::Move { vcpu: MAIN, to: ZERO, colors: None };
    rig.decider.service_requests.away =
        Some(Away { service_vcpu: SERVICE_VCPU, service_request: back, recolors: None });
    rig.grant();
    let there: CoreSet = [ONE].into_iter().collect();
    assert_eq!(rig.round(ZERO), there);
    assert_eq!(rig.round(ONE), CoreSet::EMPTY);
    assert_eq!(rig.decider.known[&MAIN].slot, Some(ZERO));
    assert_eq!(rig.told().last().map(String::as_str), Some(RAN), "on its own core still");
}

#[test]
fn what_has_no_handle_is_moved_at_once_and_what_left_is_not() {
    let to = |vcpu| ServiceRequest::Move { vcpu, to: ONE, colors: CachePart::new(3) };
    let moves = |vcpu| {
        let mut rig = Rig::new(to(vcpu), false);
        rig.grant();
        rig.round(ZERO);
        rig.told()
    };
    assert_eq!(moves(MAIN), ["vcpu1 woke", "done", RAN]);
    assert_eq!(moves(VcpuId(9)), ["failed Move(vcpu9)"]);
    assert_eq!(moves(SERVICE_VCPU), ["failed Move(vcpu1)"], "service VCPUs stay");
    let mut rig = Rig::new(to(MAIN), false);
    rig.round(ZERO);
    let (reply, _answer) = question();
    rig.decider.host.requests.push(Request::Destroy { id: MAIN, reply });
    rig.grant();
    rig.round(ZERO);
    assert_eq!(
        rig.told(),
        ["vcpu1 woke", "vcpu0 left", "failed Move(vcpu0)", RAN],
        "it left meanwhile"
    );
}
