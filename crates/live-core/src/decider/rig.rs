//! A host for tests of the decider: cores without threads, requests that the test puts in, and a
//! list of what was reported to the policy.

use super::Decider;
use crate::fake::{Fake, Known, Script};
use crate::{Core, Host, Means, Reply, Request, VcpuHandle, VcpuHandleOf, WakeCost};
use maracas_core::contract::{Mode, Observer, Sample};
use maracas_core::{CoreId, Event, Instant, Job, Plan, Policy, System, VcpuId};
use std::cell::RefCell;
use std::io;
use std::ops::DerefMut;
use std::rc::Rc;

/// What became of a question: withdrawn, and its answer.
type Question<T> = Rc<RefCell<(bool, Option<T>)>>;

/// Where the answer to a question of a test goes.
pub(crate) struct FakeReply<T>(Question<T>);
/// The test's end of it.
pub(crate) struct FakeAnswer<T>(Question<T>);

/// The two ends of a question.
pub(crate) fn question<T>() -> (FakeReply<T>, FakeAnswer<T>) {
    let question = Rc::new(RefCell::new((false, None)));
    (FakeReply(Rc::clone(&question)), FakeAnswer(question))
}

impl<T> Reply<T> for FakeReply<T> {
    fn is_withdrawn(&self) -> bool {
        self.0.borrow().0
    }
    fn give(self, answer: T) -> Result<(), T> {
        if self.is_withdrawn() {
            return Err(answer);
        }
        self.0.borrow_mut().1 = Some(answer);
        Ok(())
    }
}

impl<T> FakeAnswer<T> {
    /// The answer, if it was given.
    pub(crate) fn take(&self) -> Option<T> {
        self.0.borrow_mut().1.take()
    }
    /// It is not waited for any more.
    pub(crate) fn withdraw(self) {
        self.0.borrow_mut().0 = true;
    }
}

/// The host.
pub(crate) struct FakeHost {
    pub(crate) cores: Vec<Core<Fake>>,
    script: Rc<Script>,
    pub(crate) requests: Vec<Request<Self>>,
    /// What was reported to the policy, in words.
    pub(crate) told: Vec<String>,
    /// How many releases programs were notified of.
    pub(crate) released: usize,
    /// VCPUs whose ends were not waited for.
    pub(crate) left: Vec<VcpuId>,
    /// Counts memory.
    pub(crate) senses: bool,
    /// Cannot count it any more.
    pub(crate) broken: bool,
}

impl FakeHost {
    /// Of so many cores, on which nothing is raised, frozen or counted.
    pub(crate) fn new(cores: u16) -> Self {
        let script = Rc::new(Script::default());
        let means = Means { fifo: false, freezer: false, events: false };
        let core = |id| Core::new(CoreId(id), Fake(Rc::clone(&script)), means, WakeCost::LEAST);
        Self {
            cores: (0..cores).map(core).collect(),
            script: Rc::clone(&script),
            requests: Vec::new(),
            told: Vec::new(),
            released: 0,
            left: Vec::new(),
            senses: false,
            broken: false,
        }
    }
}

/// A decider of so many cores under this policy.
pub(crate) fn decider(
    policy: impl Policy + 'static,
    system: &System,
    cores: u16,
) -> Decider<FakeHost> {
    Decider::new(Box::new(policy), system, &[], FakeHost::new(cores))
}

/// A VCPU handle without threads.
pub(crate) fn attach(id: VcpuId) -> Request<FakeHost> {
    Request::Attach(Box::new(VcpuHandle::new(id, Known::default(), false)))
}

impl Host for FakeHost {
    type Handle = Known;
    type Core = Core<Fake>;
    type Reply<T> = FakeReply<T>;

    fn core(&mut self, core: CoreId) -> impl DerefMut<Target = Core<Fake>> {
        &mut self.cores[usize::from(core.0)]
    }
    fn now(&self) -> Instant {
        self.script.now()
    }
    fn take_requests(&mut self, into: &mut Vec<Request<Self>>) {
        into.append(&mut self.requests);
    }
    fn release(&mut self, _: &Job) {
        self.released += 1;
    }
    fn leave(&mut self, vcpu: VcpuId, _: Option<Box<VcpuHandleOf<Self>>>) {
        self.left.push(vcpu);
    }
    fn can_sample(&self) -> bool {
        self.senses
    }
    fn sample(&mut self, _: Instant) -> io::Result<Option<Sample>> {
        if self.broken {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(Sample { requests: 7, occupancy: 75, by_core: vec![7, 0] }))
    }
}

impl Observer for FakeHost {
    fn event(&mut self, _: Instant, event: &Event) {
        self.told.extend(word(event));
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

/// What tests look at of an event.
fn word(event: &Event) -> Option<String> {
    match event {
        Event::Woke { vcpu, exact: true, .. } => Some(format!("{vcpu} woke")),
        Event::Sampled(sample) => {
            let Sample { requests, occupancy, by_core } = sample;
            Some(format!("sampled {requests} {occupancy} {by_core:?}"))
        }
        Event::ServiceDone(_) => Some("done".into()),
        Event::Failed { what, .. } => Some(format!("failed {what:?}")),
        Event::Ran(segment) => {
            let worked = !segment.usage.service.is_zero() && segment.mode == Mode::Foreground;
            assert!(worked, "{segment:?}");
            Some(format!("{} ran on {} and {:?}", segment.vcpu, segment.core, segment.end))
        }
        Event::Arrived(vcpu) | Event::Changed(vcpu) => {
            Some(format!("{} has {}", vcpu.id, vcpu.reservation.budget))
        }
        Event::Left(vcpu) => Some(format!("{vcpu} left")),
        Event::Woke { .. }
        | Event::Released(_)
        | Event::Completed(_)
        | Event::AllowanceSpent { .. }
        | Event::Utilized { .. } => None,
    }
}
