//! Service requests from their begin to their answer.

use super::memory::{cache, memory, simulate_with, walk};
use super::*;
use maracas_core::Role;
use maracas_core::contract::{Refused, ServiceRequest};

/// Sends a service VCPU at each given instant, and waits for the answer before the next.
struct Sender {
    script: Script,
    service_requests: Vec<(u64, VcpuId, ServiceRequest)>,
    sent: bool,
}

impl Sender {
    fn new(script: Script, service_requests: Vec<(u64, u32, ServiceRequest)>) -> Self {
        let service_requests = service_requests
            .into_iter()
            .map(|(at, vcpu, service_request)| (at, VcpuId(vcpu), service_request));
        Self { script, service_requests: service_requests.collect(), sent: false }
    }
}

impl Policy for Sender {
    fn on_event(&mut self, at: Instant, event: &Event) {
        self.script.on_event(at, event);
        let failed =
            matches!(event, Event::Failed { what: Refused::Sample | Refused::Move(_), .. });
        if failed || matches!(event, Event::ServiceDone(_)) {
            self.service_requests.remove(0);
            self.sent = false;
        }
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        self.script.plan(now, plan);
        let next = self.service_requests.first();
        self.sent |= next.is_some_and(|(due, ..)| at(*due) <= now);
        plan.service_request = next
            .filter(|_| self.sent)
            .map(|(_, service_vcpu, service_request)| (*service_vcpu, *service_request));
        if let Some((due, ..)) = next.filter(|_| !self.sent) {
            plan.wake = plan.wake.min(at(*due));
        }
    }
}

fn service_vcpu(id: u32, role: Role) -> Vcpu {
    Vcpu { role, ..server(id) }
}

/// vcpu0 runs on core 0 in the background, vcpu1 monitors, vcpu2 migrates.
fn system() -> System {
    let service_vcpus = [service_vcpu(1, Role::Monitor), service_vcpu(2, Role::Migration)];
    System::new(2, [server(0)].into_iter().chain(service_vcpus).collect())
}

fn run_queues() -> Script {
    Script::fixed(&[always(1), always(2)], &[always(0)])
}

fn costs() -> Options {
    let overheads = Overheads {
        sample: ticks(10),
        lock: ticks(3),
        structure: ticks(4),
        page_copy: ticks(5),
        ..Overheads::FREE
    };
    Options { overheads, ..Options::new(at(5_000)) }
}

const fn moved(colors: Option<CachePart>) -> ServiceRequest {
    ServiceRequest::Move { vcpu: VcpuId(0), to: CoreId(1), colors }
}

#[test]
fn a_sample_is_brought_on_the_service_vcpus_time() {
    let service_requests =
        vec![(1_000, 1, ServiceRequest::Sample), (3_000, 1, ServiceRequest::Sample)];
    let mut sender = Sender::new(run_queues(), service_requests);
    let memory = memory(vec![Some(super::memory::strides())]);
    let (outcome, reported) = simulate_with(&system(), &[busy(0)], &memory, &mut sender, costs());
    let requests = |segment: usize| {
        let usage = reported.segments[segment].usage;
        usage.reads + usage.writes
    };
    // The second sample holds what came after the first.
    let (first, second) = (requests(0), requests(2));
    let parts = [
        "0:wakev0 1000:wakev1 1000:v0b@0[0,1000)Preempted 1010:Sampled(Sample { ".into(),
        format!("requests: {first}, "),
        format!("by_core: [{first}, 0] }}) 1010:ServiceDone(Sample) 1010:v1@0[1000,1010)Blocked "),
        "3000:wakev1 3000:v0b@0[1010,3000)Preempted 3010:Sampled(Sample { ".into(),
        format!("requests: {second}, "),
        format!("by_core: [{second}, 0] }}) 3010:ServiceDone(Sample) 3010:v1@0[3000,3010)Blocked"),
    ];
    let mut rest = reported.log.0.as_str();
    for part in parts {
        let found = rest.find(&part);
        assert!(found.is_some(), "{part} in {rest}");
        rest = &rest[found.unwrap_or(0) + part.len()..];
    }
    assert!(outcome.memory.is_some_and(|totals| totals.requests > first + second));
}

#[test]
fn a_move_costs_locks_structures_and_pages_and_recolors() {
    let mut memory = memory(vec![Some(walk(40))]);
    memory.cache = Some(cache());
    // The first changes no colours; the second gives others to ten pages; the third gives them
    // again.
    let service_requests = vec![
        (1_000, 2, moved(None)),
        (2_000, 2, moved(CachePart::new(0xf0))),
        (3_000, 2, moved(CachePart::new(0xf0))),
    ];
    let mut sender = Sender::new(run_queues(), service_requests);
    let (_, reported) = simulate_with(&system(), &[busy(0)], &memory, &mut sender, costs());
    let carried = reported.segments.iter().filter(|segment| segment.vcpu == VcpuId(2));
    let took: Vec<_> = carried.map(|segment| segment.usage.service.ticks()).collect();
    assert_eq!(took, [10, 60, 10]);
    // 40 kB are 640 run queues at 68 ns: at 2000 they are being loaded, and are all lost.
    let after = reported.segments.iter().find(|segment| segment.from == at(2_060));
    assert!(after.is_some_and(|segment| segment.usage.reads > 10), "{}", reported.log.0);
    assert!(
        reported
            .log
            .0
            .contains("2060:ServiceDone(Move { vcpu: vcpu0, to: core1, colors: Some(240) })")
    );
}

#[test]
fn what_cannot_be_done_fails_by_name() {
    let mut gone = busy(0);
    gone.depart = at(1_005);
    let service_requests = vec![
        // By one that is no service VCPU, by none, of none, of a service VCPU.
        (100, 0, ServiceRequest::Sample),
        (200, 7, ServiceRequest::Sample),
        (300, 2, ServiceRequest::Move { vcpu: VcpuId(9), to: CoreId(1), colors: None }),
        (400, 2, ServiceRequest::Move { vcpu: VcpuId(1), to: CoreId(1), colors: None }),
        // Without a memory model.
        (500, 1, ServiceRequest::Sample),
        // It leaves while the service request is under way.
        (1_000, 2, moved(None)),
        (2_000, 2, moved(None)),
    ];
    let mut sender = Sender::new(run_queues(), service_requests);
    let mut log = Log::default();
    run(&system(), &[gone], &mut sender, &costs(), &mut log);
    let fails = |at: u64, what: &str| format!("{at}:Failed {{ core: core0, what: {what} }} ");
    let expected = [
        "0:wakev0 ".into(),
        fails(100, "Sample"),
        fails(200, "Sample"),
        fails(300, "Move(vcpu9)"),
        fails(400, "Move(vcpu1)"),
        fails(500, "Sample"),
        "1000:wakev2 1000:v0b@0[0,1000)Preempted 1005:left v0 ".into(),
        fails(1_010, "Move(vcpu0)"),
        "1010:v2@0[1000,1010)Blocked ".into(),
        fails(2_000, "Move(vcpu0)"),
    ];
    assert_eq!(log.0, expected.concat());
}

#[test]
fn a_free_service_request_still_goes_through_its_service_vcpu() {
    // Whose wake is seen even where others' are not: the machine woke it itself.
    for hidden_wakes in [false, true] {
        let mut sender =
            Sender::new(run_queues(), vec![(10, 2, moved(None)), (11, 2, moved(None))]);
        let mut log = Log::default();
        let options = Options { hidden_wakes, ..Options::new(at(50)) };
        run(&system(), &[], &mut sender, &options, &mut log);
        let done = "ServiceDone(Move { vcpu: vcpu0, to: core1, colors: None })";
        assert_eq!(
            log.0.trim_end(),
            format!(
                "10:wakev2 11:{done} 11:v2@0[10,11)Blocked \
                 11:wakev2 12:{done} 12:v2@0[11,12)Blocked"
            )
        );
    }
}

#[test]
fn a_policy_that_insists_on_what_fails_is_stopped() {
    struct Insists;
    impl Policy for Insists {
        fn on_event(&mut self, _: Instant, _: &Event) {}
        fn plan(&mut self, _: Instant, plan: &mut Plan) {
            plan.service_request = Some((VcpuId(0), ServiceRequest::Sample));
        }
    }
    let stopped = std::panic::catch_unwind(|| {
        run(&system(), &[busy(0)], &mut Insists, &Options::new(at(5)), &mut ())
    });
    let why = stopped.expect_err("it never rests");
    let why = why.downcast_ref::<String>().map_or("", String::as_str);
    assert!(why.contains("found no rest"), "{why}");
}
