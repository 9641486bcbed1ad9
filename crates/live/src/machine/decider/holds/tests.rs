//! What requests leave behind whose askers have given up: nothing.

use super::*;
use crate::clock::Clock;
use crate::executor;
use crate::executor::vcpu::Made;
use crate::host::HardwareCore;
use crate::host::cgroup::{Hierarchies, Tree};
use crate::host::costs::WakeCost;
use crate::journal::{Ring, Scribe};
use crate::machine::ask::{Silence, question};
use crate::machine::handle::{Mailbox, Refusal, Request};
use crate::machine::{Means, Palette, Progress, Source};
use maracas_core::journal::Header;
use maracas_core::params::Params;
use maracas_core::{Event, Plan, Policy, Reservation, System, Vcpu};
use std::sync::{Arc, Mutex};
use std::time;

const SOON: time::Duration = time::Duration::from_millis(1);
const MAIN: VcpuId = VcpuId(0);
const GUEST: VcpuId = VcpuId(7);

/// Admits everybody, and writes down what it is told of VCPUs.
struct Admits {
    reported: Arc<Mutex<Vec<String>>>,
    asked: Vec<VcpuId>,
}

impl Policy for Admits {
    fn on_event(&mut self, _: Instant, event: &Event) {
        let mut reported = self.reported.lock().expect("nobody panicked");
        match event {
            Event::Arrived(vcpu) | Event::Changed(vcpu) => {
                self.asked.push(vcpu.id);
                reported.push(format!("{} has {}", vcpu.id, vcpu.reservation.budget));
            }
            Event::Left(vcpu) => reported.push(format!("{vcpu} left")),
            Event::Ran(_) | Event::Released(_) | Event::Completed(_) | Event::Woke { .. } => {}
            Event::AllowanceSpent { .. } | Event::Sampled(_) => {}
            Event::ServiceDone(_) | Event::Failed { .. } => {}
        }
    }
    fn plan(&mut self, _: Instant, plan: &mut Plan) {
        self.asked.drain(..).for_each(|vcpu| plan.answer(vcpu, Ok(CoreId(0))));
        plan.wake = Instant::NEVER;
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Lets `act` have a decider of one core without threads, and what its policy is told. `false`
/// where this host gives no control groups.
fn with_decider(act: impl FnOnce(&mut Decider<'_>, &Mailbox, &Mutex<Vec<String>>)) -> bool {
    let _turn = crate::host::tests::turn();
    let tree = Hierarchies::read().and_then(|hierarchies| Tree::create(&hierarchies));
    let Ok(tree) = tree else { return false };
    let means = Means { fifo: false, freezer: false, events: false, instructions: false };
    let clock = Clock::start();
    let hardware = HardwareCore(0);
    let core = executor::open(CoreId(0), hardware, clock.clone(), means, WakeCost::LEAST);
    let core = core.expect("descriptors");
    let cores = [Mutex::new(core)];
    let group = Arc::new(tree.vcpu(MAIN).expect("a group"));
    let (hosts, palette) = (vec![hardware], Palette::default());
    let mailbox =
        Mailbox::new(tree, hosts, means, Source::Own, palette, clock, 1).expect("an eventfd");
    let system = System::new(1, vec![Vcpu::new(MAIN.0, ms(5), ms(10))]);
    let header = Header {
        policy: "admits".into(),
        params: Params::new(),
        system: system.clone(),
        names: Vec::new(),
        machine: "live".into(),
        version: "test".into(),
        seed: 0,
    };
    let (ring, reported) = (Ring::new(), Arc::<Mutex<Vec<String>>>::default());
    let scribe = Scribe::new(&header, &ring);
    let policy = Box::new(Admits { reported: Arc::clone(&reported), asked: Vec::new() });
    let mut decider = Decider::new(policy, &system, &[], scribe, &cores, &mailbox);
    let progress = Progress::new(Source::Own, None);
    let own = Arc::clone(&group);
    let vcpu_handle = Made {
        id: MAIN,
        name: String::new(),
        group: own,
        confined: hardware,
        root: None,
        means,
        progress,
        clock: mailbox.clock.clone(),
    }
    .vcpu_handle();
    mailbox.post(Request::Attach(Box::new(vcpu_handle)));
    decider.round(CoreId(0), None);
    act(&mut decider, &mailbox, &reported);
    drop(decider);
    drop(cores);
    mailbox.clear_away();
    Arc::into_inner(group).expect("nobody else has it").remove().expect("removed");
    mailbox.remove_tree().expect("the tree is removed");
    true
}

fn skipped() {
    eprintln!("skipped: needs control groups");
}

#[test]
fn a_hold_ends_by_its_owner_by_itself_or_never_begins() {
    let played = with_decider(|decider, mailbox, _| {
        let round = |decider: &mut Decider<'_>| {
            decider.round(CoreId(0), None);
            (decider.held, lock(&decider.cores[0]).holds())
        };
        let free = round(decider);
        let (reply, answer) = question();
        mailbox.post(Request::Hold { id: MAIN, number: 1, reply });
        assert_eq!(round(decider), (free.0 + 1, free.1 + 1));
        assert_eq!(answer.wait(SOON), Ok(CoreId(0)));
        mailbox.post(Request::Unhold(2));
        assert_eq!(round(decider).0, 1, "that is somebody else");
        mailbox.post(Request::Unhold(1));
        mailbox.post(Request::Unhold(1));
        assert_eq!(round(decider), free);
        // Who asked has given up, before it was heard.
        let (reply, answer) = question();
        mailbox.post(Request::Hold { id: MAIN, number: 3, reply });
        assert_eq!(answer.wait(SOON), Err(Silence::Late));
        assert_eq!(round(decider), free, "freezing goes on");
        // Or just when it was answered.
        let (reply, answer) = question();
        drop(answer);
        decider.hold(MAIN, 4, reply, Instant::ZERO);
        assert_eq!(round(decider), free);
        // One who lives and does not let go.
        let (reply, _answer) = question();
        let now = mailbox.clock.now();
        decider.hold(MAIN, 5, reply, now);
        assert_eq!(decider.holds_end(), now + LONGEST);
        decider.expire_holds(now + ms(1_999));
        assert_eq!(decider.held, 1);
        decider.expire_holds(now + LONGEST);
        assert_eq!((decider.held, decider.holds_end()), (0, Instant::NEVER));
        decider.unhold(5);
        assert_eq!(round(decider), free, "letting go late changes nothing");
    });
    if !played {
        skipped();
    }
}

#[test]
fn who_gives_up_leaves_no_vcpu_and_no_change_behind() {
    let played = with_decider(|decider, mailbox, reported| {
        let new = || (String::new(), Vcpu::new(GUEST.0, ms(1), ms(10)));
        let observed = || std::mem::take(&mut *reported.lock().expect("nobody panicked"));
        observed();
        // Before it is heard: the policy is not even asked.
        let ((name, vcpu), (reply, answer)) = (new(), question());
        mailbox.post(Request::Create { name, vcpu, reply });
        drop(answer);
        decider.round(CoreId(0), None);
        assert_eq!((observed(), decider.known.contains_key(&GUEST)), (vec![], false));
        // Between the question to the policy and its answer.
        let ((name, vcpu), (reply, answer)) = (new(), question());
        let now = mailbox.clock.now();
        decider.serve(Request::Create { name, vcpu, reply }, now);
        drop(answer);
        decider.decide(CoreId(0));
        assert_eq!(observed(), ["vcpu7 has 1ms", "vcpu7 left"]);
        assert!(!decider.known.contains_key(&GUEST), "it has no owner");
        let (reply, answer) = question();
        let reservation = Reservation::implicit(ms(2), ms(10));
        decider.serve(Request::Set { id: MAIN, reservation, reply }, now);
        drop(answer);
        decider.decide(CoreId(0));
        assert_eq!(observed(), ["vcpu0 has 2ms", "vcpu0 has 5ms"]);
        assert_eq!(decider.known[&MAIN].vcpu.reservation.budget, ms(5));
        // Who waits gets what it asked for.
        let (reply, answer) = question();
        mailbox.post(Request::Set { id: MAIN, reservation, reply });
        decider.round(CoreId(0), None);
        assert_eq!(answer.wait(SOON), Ok(Ok(CoreId(0))));
        assert_eq!(decider.known[&MAIN].vcpu.reservation.budget, ms(2));
    });
    if !played {
        skipped();
    }
}

#[test]
fn an_end_is_withdrawn_in_time_or_carried_out_to_the_end() {
    let played = with_decider(|decider, mailbox, _| {
        let (reply, answer) = question();
        mailbox.post(Request::Destroy { id: MAIN, reply });
        drop(answer);
        decider.round(CoreId(0), None);
        assert!(decider.known.contains_key(&MAIN), "nobody wants it any more");
        // Begun when who asked gives up: the supervisor finds what is left.
        let (reply, answer) = question();
        let now = mailbox.clock.now();
        decider.serve(Request::Destroy { id: MAIN, reply }, now);
        drop(answer);
        decider.decide(CoreId(0));
        assert!(!decider.known.contains_key(&MAIN));
        mailbox.clear_away();
        assert_eq!(mailbox.ended(), [MAIN], "its programs are the supervisor's to end");
        // An order that nobody waits for is no question that nobody waits for.
        mailbox.discard(MAIN);
        decider.round(CoreId(0), None);
        mailbox.clear_away();
        assert_eq!(mailbox.ended(), [], "but there is none any more");
        let (reply, answer) = question();
        mailbox.post(Request::Destroy { id: MAIN, reply });
        decider.round(CoreId(0), None);
        let refused = answer.wait(SOON).map(|ended| ended.map(drop));
        assert_eq!(refused, Ok(Err(Refusal::Unknown(MAIN))));
    });
    if !played {
        skipped();
    }
}
