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
use crate::sense::Rung;
use maracas_core::contract::Mark;
use maracas_core::journal::{Header, Reader};
use maracas_core::params::Params;
use maracas_core::{Plan, Policy, Rate, System, Vcpu};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn occupancy_is_told_in_the_policys_cycles() {
    assert_eq!(converted(3300, 3300, 1000), 1000);
    assert_eq!(converted(3299, 3300, 1000), 999, "rounded down");
    assert_eq!(converted(5, 0, 7), 5);
    assert_eq!(converted(5, 7, 0), 5);
    assert_eq!(converted(u64::MAX, 1, 2), u64::MAX);
    assert_eq!(converted(u64::MAX, 2, 1), u64::MAX / 2);
}

/// The main VCPU, and the carrier, which stands on core 0.
const MAIN: VcpuId = VcpuId(0);
const CARRIER: VcpuId = VcpuId(1);

/// Sends the carrier once, and grants it the time that it is told.
struct Sends {
    errand: Option<Errand>,
    granted_ns: Arc<AtomicU64>,
}

impl Policy for Sends {
    fn on_event(&mut self, _: Instant, event: &Event) {
        match event {
            Event::ErrandDone(_) | Event::Failed { .. } => self.errand = None,
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
        let until = Mark(Duration::from_nanos(self.granted_ns.load(Ordering::SeqCst)));
        let line = plan.line_mut(CoreId(0));
        line.foreground.clear();
        line.foreground.push(Grant::new(CARRIER, until));
        plan.errand = self.errand.map(|errand| (CARRIER, errand));
        // Asked at every look.
        plan.wake = now + Duration::from_nanos(1);
    }
}

/// Counts 7 requests and 100 cycles of waiting a call, on the first core, until it is broken.
struct Steps(u64, Arc<AtomicBool>);

impl Sensor for Steps {
    fn rung(&self) -> Rung {
        Rung::Replay
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

/// A brain of two cores without threads, under [`Sends`].
struct Rig {
    granted_ns: Arc<AtomicU64>,
    broken: Arc<AtomicBool>,
    group: Option<Arc<Group>>,
}

impl Rig {
    /// Lets `act` have the brain. What the policy was told, in words; `None` where this host gives
    /// no control groups.
    fn run(
        errand: Errand,
        sensed: bool,
        act: impl FnOnce(&mut Brain<'_>, &Mailbox, &mut Self),
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
        let carrier = Vcpu { role: Role::Monitor, ..Vcpu::new(CARRIER.0, ms(1), ms(10)) };
        let system = System::new(2, vec![Vcpu::new(MAIN.0, ms(5), ms(10)), carrier]);
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
        let policy = Sends { errand: Some(errand), granted_ns: Arc::clone(&rig.granted_ns) };
        let scribe = Scribe::new(&header, &ring);
        let (policy, sensor) = (Box::new(policy), Steps(0, Arc::clone(&rig.broken)));
        let mut brain = Brain::new(policy, &setup.system, &[], scribe, &cores, &mailbox);
        brain.sense(sensed.then(|| Box::new(sensor) as Box<dyn Sensor>), &setup);
        act(&mut brain, &mailbox, &mut rig);
        brain.finish(maracas_core::Duration::ZERO);
        drop(brain);
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

    /// A body of the main VCPU without threads.
    fn body(&self) -> Request {
        let means = Means { fifo: false, freezer: false, events: false, instructions: false };
        let (name, progress) = (String::new(), Progress::new(Source::Own, None));
        let group = Arc::clone(self.group.as_ref().expect("until the end"));
        let body = Made {
            id: MAIN,
            name,
            group,
            confined: HardwareCore(0),
            root: None,
            means,
            progress,
            clock: Clock::start(),
        }
        .body();
        Request::Attach(Box::new(body))
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
        Event::ErrandDone(_) => Some("done".into()),
        Event::Failed { what, .. } => Some(format!("failed {what:?}")),
        Event::Ran(stint) => {
            let worked = stint.usage.service > Duration::ZERO && stint.mode == Mode::Foreground;
            assert!(worked, "{stint:?}");
            Some(format!("{} ran on {} and {:?}", stint.vcpu, stint.core, stint.end))
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
macro_rules! told {
    ($run:expr) => {
        match $run {
            Some(told) => told,
            None => return crate::host::tests::skip("control groups"),
        }
    };
}

const ZERO: CoreId = CoreId(0);
const ONE: CoreId = CoreId(1);

#[test]
fn a_carrier_works_on_its_own_core_while_it_has_a_grant_and_is_told_as_in_simulation() {
    let told = told!(Rig::run(Errand::Sample, true, |brain, _, rig| {
        assert_eq!(brain.round(ZERO, None), CoreSet::EMPTY);
        assert_eq!(brain.round(ONE, None), CoreSet::EMPTY, "without a grant it waits");
        rig.grant(Duration::from_millis(1));
        let its: CoreSet = [ZERO].into_iter().collect();
        assert_eq!(brain.round(ONE, None), its, "the agent of its core shall do it");
        assert!(brain.errands.meter(CARRIER).is_zero());
        assert_eq!(brain.round(ZERO, None), CoreSet::EMPTY);
        assert!(!brain.errands.meter(CARRIER).is_zero(), "it was paid for");
        assert_eq!(brain.round(ZERO, None), CoreSet::EMPTY, "once");
    }));
    // The first reading of the sensor is before the begin; 100 cycles of its 4 a microsecond are 75
    // of the policy's 3.
    let sampled = "sampled 7 75 [7, 0]";
    assert_eq!(told, ["vcpu1 woke", sampled, "done", "vcpu1 ran on core0 and Blocked"]);
}

#[test]
fn what_cannot_be_sampled_fails_with_work_or_without() {
    let grant = |rig: &Rig| rig.grant(Duration::from_millis(1));
    let told = told!(Rig::run(Errand::Sample, true, |brain, _, rig| {
        grant(rig);
        rig.broken.store(true, Ordering::SeqCst);
        brain.round(ZERO, None);
    }));
    let ran = "vcpu1 ran on core0 and Blocked";
    assert_eq!(told, ["vcpu1 woke", "failed Sample", ran]);
    let told = told!(Rig::run(Errand::Sample, false, |brain, _, rig| {
        grant(rig);
        brain.round(ZERO, None);
    }));
    assert_eq!(told, ["failed Sample"], "it never went");
}

#[test]
fn a_move_is_done_when_the_body_sits_on_the_other_core() {
    let errand = Errand::Move { vcpu: MAIN, to: ONE, colors: 0 };
    let ran = "vcpu1 ran on core0 and Blocked";
    let moved = ["vcpu1 woke", "done", ran];
    let told = told!(Rig::run(errand, false, |brain, mailbox, rig| {
        let (reply, _answer) = question();
        mailbox.post(rig.body());
        mailbox.post(Request::Hold { id: MAIN, number: 7, reply });
        rig.grant(Duration::from_millis(1));
        brain.round(ZERO, None);
        assert_eq!(brain.known[&MAIN].seat, Some(ZERO), "not while a program is being started");
        mailbox.post(Request::Unhold(7));
        brain.round(ZERO, None);
        assert_eq!(brain.known[&MAIN].seat, Some(ONE));
    }));
    assert_eq!(told[..1], ["vcpu0 woke"], "it came");
    assert_eq!(told[1..], moved);
    // By the agent of the core where it sits, wherever the carrier stands.
    let told = told!(Rig::run(errand, false, |brain, mailbox, rig| {
        mailbox.post(rig.body());
        brain.round(ZERO, None);
        brain.transfer(MAIN, ZERO, ONE);
        brain.plan.errand = None;
        let back = Errand::Move { vcpu: MAIN, to: ZERO, colors: 0 };
        brain.errands.away = Some(Away { carrier: CARRIER, errand: back, recolors: None });
        rig.grant(Duration::from_millis(1));
        let there: CoreSet = [ONE].into_iter().collect();
        assert_eq!(brain.round(ZERO, None), there);
        assert_eq!(brain.round(ONE, None), CoreSet::EMPTY);
        assert_eq!(brain.known[&MAIN].seat, Some(ZERO));
    }));
    assert_eq!(told.last().map(String::as_str), Some(ran), "on its own core still");
}

#[test]
fn who_has_no_body_is_moved_at_once_and_who_left_is_not() {
    let to = |vcpu| Errand::Move { vcpu, to: ONE, colors: 3 };
    let moves = |vcpu| {
        Rig::run(to(vcpu), false, |brain, _, rig| {
            rig.grant(Duration::from_millis(1));
            brain.round(ZERO, None);
        })
    };
    let ran = "vcpu1 ran on core0 and Blocked";
    assert_eq!(told!(moves(MAIN)), ["vcpu1 woke", "done", ran]);
    assert_eq!(told!(moves(VcpuId(9))), ["failed Move(vcpu9)"]);
    assert_eq!(told!(moves(CARRIER)), ["failed Move(vcpu1)"], "carriers stay");
    let told = told!(Rig::run(to(MAIN), false, |brain, mailbox, rig| {
        brain.round(ZERO, None);
        let (reply, _answer) = question();
        mailbox.post(Request::Destroy { id: MAIN, reply });
        rig.grant(Duration::from_millis(1));
        brain.round(ZERO, None);
    }));
    assert_eq!(told, ["vcpu1 woke", "failed Move(vcpu0)", ran], "it left meanwhile");
}
