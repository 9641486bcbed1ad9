//! What requests leave behind whose askers have given up: nothing.

use super::*;
use crate::decider::rig::{FakeHost, attach, decider, question};
use crate::{Refusal, Request};
use maracas_core::{CoreSet, Event, Plan, Policy, Reservation, System, Vcpu};

const MAIN: VcpuId = VcpuId(0);
const GUEST: VcpuId = VcpuId(7);

/// Admits all.
#[derive(Default)]
struct Admits(Vec<VcpuId>);

impl Policy for Admits {
    fn on_event(&mut self, _: Instant, event: &Event) {
        if let Event::Arrived(vcpu) | Event::Changed(vcpu) = event {
            self.0.push(vcpu.id);
        }
    }
    fn plan(&mut self, _: Instant, plan: &mut Plan) {
        self.0.drain(..).for_each(|vcpu| plan.answer(vcpu, Ok(CoreId(0))));
        plan.wake = Instant::NEVER;
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A decider of one core with the main VCPU.
fn with_main() -> Decider<FakeHost> {
    let system = System::new(1, vec![Vcpu::new(MAIN.0, ms(5), ms(10))]);
    let mut decider = decider(Admits::default(), &system, 1);
    decider.host.requests.push(attach(MAIN));
    decider.round(CoreId(0), None);
    decider.host.told.clear();
    decider
}

/// The next round, with this request.
fn ask(decider: &mut Decider<FakeHost>, request: Request<FakeHost>) {
    decider.host.requests.push(request);
    decider.round(CoreId(0), None);
}

/// What was reported to the policy since this was asked last.
fn told(decider: &mut Decider<FakeHost>) -> Vec<String> {
    std::mem::take(&mut decider.host.told)
}

#[test]
fn a_hold_ends_by_its_owner_by_itself_or_never_begins() {
    let mut decider = with_main();
    let held = |decider: &mut Decider<FakeHost>| (decider.held, decider.host.cores[0].holds());
    let free = held(&mut decider);
    let (reply, answer) = question();
    ask(&mut decider, Request::Hold { id: MAIN, number: 1, reply });
    assert_eq!(held(&mut decider), (free.0 + 1, free.1 + 1));
    assert_eq!(answer.take(), Some(CoreId(0)));
    ask(&mut decider, Request::Unhold(2));
    assert_eq!(decider.held, 1, "that is another hold");
    decider.host.requests.push(Request::Unhold(1));
    ask(&mut decider, Request::Unhold(1));
    assert_eq!(held(&mut decider), free);
    // The caller has given up, before it was read.
    let (reply, answer) = question();
    answer.withdraw();
    ask(&mut decider, Request::Hold { id: MAIN, number: 3, reply });
    assert_eq!(held(&mut decider), free, "freezing goes on");
    // Or just when it was answered.
    let (reply, answer) = question();
    answer.withdraw();
    decider.hold(MAIN, 4, reply, Instant::ZERO);
    assert_eq!(held(&mut decider), free);
    // One that lives and does not let go.
    let (reply, _answer) = question();
    let now = decider.host.now();
    decider.hold(MAIN, 5, reply, now);
    assert_eq!(decider.holds_end(), now + LONGEST);
    decider.expire_holds(now + ms(1_999));
    assert_eq!(decider.held, 1);
    decider.expire_holds(now + LONGEST);
    assert_eq!((decider.held, decider.holds_end()), (0, Instant::NEVER));
    decider.unhold(5);
    assert_eq!(held(&mut decider), free, "letting go late changes nothing");
}

fn decide(decider: &mut Decider<FakeHost>) {
    let mut called = CoreSet::EMPTY;
    decider.decide(CoreId(0), None, &mut called);
    assert_eq!(called, CoreSet::EMPTY, "nothing is moved here");
}

#[test]
fn giving_up_leaves_no_vcpu_and_no_change_behind() {
    let mut decider = with_main();
    let new = || (String::new(), Vcpu::new(GUEST.0, ms(1), ms(10)));
    // Before it is read: the policy is not even asked.
    let ((name, vcpu), (reply, answer)) = (new(), question());
    answer.withdraw();
    ask(&mut decider, Request::Create { name, vcpu, reply });
    let known = decider.known.contains_key(&GUEST);
    assert_eq!((told(&mut decider), known), (vec![], false));
    // Between the question to the policy and its answer.
    let ((name, vcpu), (reply, answer)) = (new(), question());
    let now = decider.host.now();
    decider.serve(Request::Create { name, vcpu, reply }, now);
    answer.withdraw();
    decide(&mut decider);
    assert_eq!(told(&mut decider), ["vcpu7 has 1ms", "vcpu7 left"]);
    assert!(!decider.known.contains_key(&GUEST), "it has no owner");
    let (reply, answer) = question();
    let reservation = Reservation::implicit(ms(2), ms(10));
    decider.serve(Request::Set { id: MAIN, reservation, reply }, now);
    answer.withdraw();
    decide(&mut decider);
    assert_eq!(told(&mut decider), ["vcpu0 has 2ms", "vcpu0 has 5ms"]);
    assert_eq!(decider.known[&MAIN].vcpu.reservation.budget, ms(5));
    // A side that waits gets what it asked for.
    let (reply, answer) = question();
    ask(&mut decider, Request::Set { id: MAIN, reservation, reply });
    assert_eq!(answer.take(), Some(Ok(CoreId(0))));
    assert_eq!(decider.known[&MAIN].vcpu.reservation.budget, ms(2));
}

#[test]
fn an_end_is_withdrawn_in_time_or_carried_out_to_the_end() {
    let mut decider = with_main();
    let (reply, answer) = question();
    answer.withdraw();
    ask(&mut decider, Request::Destroy { id: MAIN, reply });
    assert!(decider.known.contains_key(&MAIN), "it is not wanted any more");
    // Begun when the asking side gives up: the host finds what is left.
    let (reply, answer) = question();
    let now = decider.host.now();
    decider.serve(Request::Destroy { id: MAIN, reply }, now);
    answer.withdraw();
    decide(&mut decider);
    assert!(!decider.known.contains_key(&MAIN));
    assert_eq!(decider.host.left, [MAIN], "its programs are the host's to end");
    let (reply, answer) = question();
    ask(&mut decider, Request::Destroy { id: MAIN, reply });
    let refused = answer.take().map(|ended| ended.map(drop));
    assert_eq!(refused, Some(Err(Refusal::Unknown(MAIN))));
    // A side that waits gets what is left of it.
    let mut decider = with_main();
    let (reply, answer) = question();
    ask(&mut decider, Request::Destroy { id: MAIN, reply });
    let handle = answer.take().and_then(Result::ok).flatten();
    assert_eq!(handle.map(|handle| handle.id), Some(MAIN));
    assert_eq!(decider.host.left, []);
}
