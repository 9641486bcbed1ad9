use super::*;
use crate::clock::Clock;
use crate::executor;
use crate::executor::vcpu::Made;
use crate::host::HardwareCore;
use crate::host::cgroup::{Group, Hierarchies, Tree};
use crate::host::costs::WakeCost;
use crate::journal::{Ring, Scribe};
use crate::machine::ask::question;
use crate::machine::handle::{Mailbox, Request};
use crate::machine::{Means, Palette, Progress, Source, Steering};
use crate::sense::SensorKind;
use maracas_core::contract::Limit;
use maracas_core::journal::{Header, Reader};
use maracas_core::params::Params;
use maracas_core::{Plan, Policy, Rate, System, Vcpu};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn occupancy_is_reported_in_the_policys_cycles() {
    assert_eq!(converted(3300, 3300, 1000), 1000);
    assert_eq!(converted(3299, 3300, 1000), 999, "rounded down");
    assert_eq!(converted(5, 0, 7), 5);
    assert_eq!(converted(5, 7, 0), 5);
    assert_eq!(converted(u64::MAX, 1, 2), u64::MAX);
    assert_eq!(converted(u64::MAX, 2, 1), u64::MAX / 2);
}

/// The main VCPU, and the service VCPU, which stands on core 0.
const MAIN: VcpuId = VcpuId(0);
const SERVICE_VCPU: VcpuId = VcpuId(1);

/// Sends the service VCPU once, and grants it the time that it is told.
struct Sends {
    service_request: Option<ServiceRequest>,
    granted_ns: Arc<AtomicU64>,
}

impl Policy for Sends {
    fn on_event(&mut self, _: Instant, event: &Event) {
        match event {
            Event::ServiceDone(_) | Event::Failed { .. } => self.service_request = None,
            Event::Ran(_)
            | Event::Released(_)
            | Event::Completed(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_) => {}
        }
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        let until = Limit(Duration::from_nanos(self.granted_ns.load(Ordering::SeqCst)));
        let run_queue = plan.run_queue_mut(CoreId(0));
        run_queue.foreground.clear();
        run_queue.foreground.push(Grant::new(SERVICE_VCPU, until));
        plan.service_request =
            self.service_request.map(|service_request| (SERVICE_VCPU, service_request));
        // Asked at every look.
        plan.wake = now + Duration::from_nanos(1);
    }
}

/// Counts 7 requests and 100 cycles of waiting a call, on the first core, until it is broken.
struct Steps(u64, Arc<AtomicBool>);

impl Sensor for Steps {
    fn sensor_kind(&self) -> SensorKind {
        SensorKind::Replay
    }
    fn describe(&self) -> String {
        String::new()
    }
    fn cycles_per_us(&self) -> u64 {
        4
    }
    fn read(&mut self, _: Instant, into: &mut Reading) -> io::Result<()> {
        if self.1.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.0 += 1;
        (into.requests, into.occupancy) = (self.0 * 7, self.0 * 100);
        into.by_core = vec![self.0 * 7];
        Ok(())
    }
    fn remark(&self) -> Option<String> {
        None
    }
}

/// A decider of two cores without threads, under [`Sends`].
struct Rig {
    granted_ns: Arc<AtomicU64>,
    broken: Arc<AtomicBool>,
    group: Option<Arc<Group>>,
}

impl Rig {
    /// Lets `act` have the decider. What the policy was told, in words; `None` where this host
    /// gives no control groups.
    fn run(
        service_request: ServiceRequest,
        sensed: bool,
        act: impl FnOnce(&mut Decider<'_>, &Mailbox, &mut Self),
    ) -> Option<Vec<String>> {
        let _turn = crate::host::tests::turn();
        let tree = Hierarchies::read().and_then(|hierarchies| Tree::create(&hierarchies)).ok()?;
        let means = Means { fifo: false, freezer: false, events: false, instructions: false };
        let hardware = [HardwareCore(0), HardwareCore(1)];
        let group = Some(Arc::new(tree.vcpu(MAIN).expect("a group")));
        let clock = Clock::start();
        let open = |id: u16| {
            executor::open(
                CoreId(id),
                hardware[usize::from(id)],
                clock.clone(),
                means,
                WakeCost::LEAST,
            )
        };
        let cores = [0, 1].map(|id| Mutex::new(open(id).expect("descriptors")));
        let (hosts, palette, source) = (hardware.to_vec(), Palette::default(), Source::Own);
        let mailbox =
            Mailbox::new(tree, hosts, means, source, palette, clock, 2).expect("an eventfd");
        let ms = Duration::from_millis;
        let service_vcpu = Vcpu { role: Role::Monitor, ..Vcpu::new(SERVICE_VCPU.0, ms(1), ms(10)) };
        let system = System::new(2, vec![Vcpu::new(MAIN.0, ms(5), ms(10)), service_vcpu]);
        let mut setup = Setup {
            system: system.clone(),
            cores: hardware.to_vec(),
            names: Vec::new(),
            later: Vec::new(),
            programs: Vec::new(),
            duration: None,
            serve: false,
            duty: vec![Rate::ONE; 2],
            steering: Steering::default(),
        };
        setup.steering.cycles_per_us = 3;
        let header = Header {
            policy: "sends".into(),
            params: Params::new(),
            system,
            names: Vec::new(),
            machine: "live".into(),
            version: "test".into(),
            seed: 0,
        };
        let mut rig = Self { granted_ns: Arc::default(), broken: Arc::default(), group };
        let ring = Ring::new();
        let policy = Sends {
            service_request: Some(service_request),
            granted_ns: Arc::clone(&rig.granted_ns),
        };
        let scribe = Scribe::new(&header, &ring);
        let (policy, sensor) = (Box::new(policy), Steps(0, Arc::clone(&rig.broken)));
        let mut decider = Decider::new(policy, &setup.system, &[], scribe, &cores, &mailbox);
        decider.sense(sensed.then(|| Box::new(sensor) as Box<dyn Sensor>), &setup);
        act(&mut decider, &mailbox, &mut rig);
        decider.finish(maracas_core::Duration::ZERO);
        drop(decider);
        drop(cores);
        rig.group.take().map(|group| Arc::into_inner(group).map(Group::remove));
        mailbox.remove_tree().expect("the tree is removed");
        ring.close();
        let mut bytes = Vec::new();
        ring.drain(|piece| bytes.extend_from_slice(piece));
        let (_, reader) = Reader::open(&bytes).expect("the journal opens");
        Some(reader.filter_map(|record| word(&record.expect("readable"))).collect())
    }

    fn grant(&self, budget: Duration) {
        self.granted_ns.store(budget.ticks(), Ordering::SeqCst);
    }

    /// A VCPU handle of the main VCPU without threads.
    fn vcpu_handle(&self) -> Request {
        let means = Means { fifo: false, freezer: false, events: false, instructions: false };
        let (name, progress) = (String::new(), Progress::new(Source::Own, None));
        let group = Arc::clone(self.group.as_ref().expect("until the end"));
        let vcpu_handle = Made {
            id: MAIN,
            name,
            group,
            confined: HardwareCore(0),
            root: None,
            means,
            progress,
            clock: Clock::start(),
        }
        .vcpu_handle();
        Request::Attach(Box::new(vcpu_handle))
    }
}

/// What is looked at of a record.
fn word(record: &Record) -> Option<String> {
    let Record::Event { event, .. } = record else { return None };
    match event {
        Event::Woke { vcpu, exact: true, .. } => Some(format!("{vcpu} woke")),
        Event::Sampled(sample) => {
            let Sample { requests, occupancy, by_core } = sample;
            Some(format!("sampled {requests} {occupancy} {by_core:?}"))
        }
        Event::ServiceDone(_) => Some("done".into()),
        Event::Failed { what, .. } => Some(format!("failed {what:?}")),
        Event::Ran(segment) => {
            let worked = segment.usage.service > Duration::ZERO && segment.mode == Mode::Foreground;
            assert!(worked, "{segment:?}");
            Some(format!("{} ran on {} and {:?}", segment.vcpu, segment.core, segment.end))
        }
        Event::Woke { .. }
        | Event::Released(_)
        | Event::Completed(_)
        | Event::AllowanceSpent { .. }
        | Event::Arrived(_)
        | Event::Left(_)
        | Event::Changed(_) => None,
    }
}

/// Or says that there are no control groups.
macro_rules! reported {
    ($run:expr) => {
        match $run {
            Some(reported) => reported,
            None => return crate::host::tests::skip("control groups"),
        }
    };
}

const ZERO: CoreId = CoreId(0);
const ONE: CoreId = CoreId(1);

#[test]
fn a_service_vcpu_works_on_its_own_core_while_it_has_a_grant_and_is_reported_as_in_simulation() {
    let reported = reported!(Rig::run(ServiceRequest::Sample, true, |decider, _, rig| {
        assert_eq!(decider.round(ZERO, None), CoreSet::EMPTY);
        assert_eq!(decider.round(ONE, None), CoreSet::EMPTY, "without a grant it waits");
        rig.grant(Duration::from_millis(1));
        let its: CoreSet = [ZERO].into_iter().collect();
        assert_eq!(decider.round(ONE, None), its, "the agent of its core shall do it");
        assert!(decider.service_requests.meter(SERVICE_VCPU).is_zero());
        assert_eq!(decider.round(ZERO, None), CoreSet::EMPTY);
        assert!(!decider.service_requests.meter(SERVICE_VCPU).is_zero(), "it was paid for");
        assert_eq!(decider.round(ZERO, None), CoreSet::EMPTY, "once");
    }));
    // The first reading of the sensor is before the begin; 100 cycles of its 4 a microsecond are 75
    // of the policy's 3.
    let sampled = "sampled 7 75 [7, 0]";
    assert_eq!(reported, ["vcpu1 woke", sampled, "done", "vcpu1 ran on core0 and Blocked"]);
}

#[test]
fn what_cannot_be_sampled_fails_with_work_or_without() {
    let grant = |rig: &Rig| rig.grant(Duration::from_millis(1));
    let reported = reported!(Rig::run(ServiceRequest::Sample, true, |decider, _, rig| {
        grant(rig);
        rig.broken.store(true, Ordering::SeqCst);
        decider.round(ZERO, None);
    }));
    let ran = "vcpu1 ran on core0 and Blocked";
    assert_eq!(reported, ["vcpu1 woke", "failed Sample", ran]);
    let reported = reported!(Rig::run(ServiceRequest::Sample, false, |decider, _, rig| {
        grant(rig);
        decider.round(ZERO, None);
    }));
    assert_eq!(reported, ["failed Sample"], "it never went");
}

#[test]
fn a_move_is_done_when_the_body_sits_on_the_other_core() {
    let service_request = ServiceRequest::Move { vcpu: MAIN, to: ONE, colors: 0 };
    let ran = "vcpu1 ran on core0 and Blocked";
    let moved = ["vcpu1 woke", "done", ran];
    let reported = reported!(Rig::run(service_request, false, |decider, mailbox, rig| {
        let (reply, _answer) = question();
        mailbox.post(rig.vcpu_handle());
        mailbox.post(Request::Hold { id: MAIN, number: 7, reply });
        rig.grant(Duration::from_millis(1));
        decider.round(ZERO, None);
        assert_eq!(decider.known[&MAIN].slot, Some(ZERO), "not while a program is being started");
        mailbox.post(Request::Unhold(7));
        decider.round(ZERO, None);
        assert_eq!(decider.known[&MAIN].slot, Some(ONE));
    }));
    assert_eq!(reported[..1], ["vcpu0 woke"], "it came");
    assert_eq!(reported[1..], moved);
    // By the agent of the core where it sits, wherever the service VCPU stands.
    let reported = reported!(Rig::run(service_request, false, |decider, mailbox, rig| {
        mailbox.post(rig.vcpu_handle());
        decider.round(ZERO, None);
        decider.transfer(MAIN, ZERO, ONE);
        decider.plan.service_request = None;
        let back = ServiceRequest::Move { vcpu: MAIN, to: ZERO, colors: 0 };
        decider.service_requests.away =
            Some(Away { service_vcpu: SERVICE_VCPU, service_request: back, recolors: None });
        rig.grant(Duration::from_millis(1));
        let there: CoreSet = [ONE].into_iter().collect();
        assert_eq!(decider.round(ZERO, None), there);
        assert_eq!(decider.round(ONE, None), CoreSet::EMPTY);
        assert_eq!(decider.known[&MAIN].slot, Some(ZERO));
    }));
    assert_eq!(reported.last().map(String::as_str), Some(ran), "on its own core still");
}

#[test]
fn who_has_no_body_is_moved_at_once_and_who_left_is_not() {
    let to = |vcpu| ServiceRequest::Move { vcpu, to: ONE, colors: 3 };
    let moves = |vcpu| {
        Rig::run(to(vcpu), false, |decider, _, rig| {
            rig.grant(Duration::from_millis(1));
            decider.round(ZERO, None);
        })
    };
    let ran = "vcpu1 ran on core0 and Blocked";
    assert_eq!(reported!(moves(MAIN)), ["vcpu1 woke", "done", ran]);
    assert_eq!(reported!(moves(VcpuId(9))), ["failed Move(vcpu9)"]);
    assert_eq!(reported!(moves(SERVICE_VCPU)), ["failed Move(vcpu1)"], "service VCPUs stay");
    let reported = reported!(Rig::run(to(MAIN), false, |decider, mailbox, rig| {
        decider.round(ZERO, None);
        let (reply, _answer) = question();
        mailbox.post(Request::Destroy { id: MAIN, reply });
        rig.grant(Duration::from_millis(1));
        decider.round(ZERO, None);
    }));
    assert_eq!(reported, ["vcpu1 woke", "failed Move(vcpu0)", ran], "it left meanwhile");
}
