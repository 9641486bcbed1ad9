//! The simulated host as the deciders ask it: cores that no other thread has, requests that clients
//! put in, a journal of which only sums are kept. What deciders of groups of cores decide is
//! held against the policy of all cores, which is told the same.

use super::cost::{LiveCall, beside, serve};
use super::host::{Shared, SimCore, SimVcpu};
use maracas_core::contract::{Mode, Observer, Sample, decide, decide_alone};
use maracas_core::{CoreId, CoreSet, Event, Instant, Job, JobId, Plan, Policy, VcpuId};
use maracas_live_core::{Core, Host, Reply, VcpuHandle};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::ops::DerefMut;
use std::rc::Rc;

pub(super) type Decider = maracas_live_core::Decider<Around>;
pub(super) type Request = maracas_live_core::Request<Around>;
type Handle = Option<Box<VcpuHandle<SimVcpu>>>;

/// Both modes, by their numbers.
pub(super) const MODES: [Mode; 2] = [Mode::Foreground, Mode::Background];

/// What was reported to the policy and what it decided, as sums.
#[derive(Default)]
pub(super) struct Told {
    /// Service of each VCPU by mode.
    pub(super) service: BTreeMap<VcpuId, [u64; 2]>,
    /// Reads of memory by each VCPU.
    pub(super) reads: BTreeMap<VcpuId, u64>,
    pub(super) events: u64,
    /// Refusals.
    pub(super) failed: u64,
    pub(super) decisions: u64,
    /// Those of deciders of groups, and those of them that changed more than one core.
    pub(super) alone: u64,
    pub(super) wide: u64,
    /// Samples.
    pub(super) samples: u64,
    /// Of all of it.
    pub(super) digest: u64,
}

impl Told {
    fn mix(&mut self, word: u64) {
        self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

pub(super) struct Around {
    pub(super) shared: Rc<Shared>,
    pub(super) cores: Vec<Core<SimCore>>,
    pub(super) told: Told,
    /// What clients have put in.
    pub(super) posted: Vec<Request>,
    /// What is left of VCPUs whose ends were not waited for.
    pub(super) left: Vec<Handle>,
    /// What samples have reported of each core.
    sampled: Vec<u64>,
    /// The group of cores whose decider asks; `None` = that of all cores does.
    pub(super) own: Option<CoreSet>,
    /// What is done on other cores.
    done: Vec<(JobId, u64)>,
    /// The policy of all cores, told what the journal says, and its plan.
    replay: Option<(Box<dyn Policy>, Plan)>,
    /// Where that decided otherwise.
    pub(super) differs: Option<String>,
}

impl Around {
    /// A host whose journal is held against `replay`.
    pub(super) fn new(
        shared: Rc<Shared>,
        cores: Vec<Core<SimCore>>,
        replay: Option<Box<dyn Policy>>,
    ) -> Self {
        let (told, sampled) = (Told::default(), vec![0; cores.len()]);
        let (posted, left, done) = (Vec::new(), Vec::new(), Vec::new());
        let replay = replay.map(|policy| (policy, Plan::new(cores.len())));
        let (own, differs) = (None, None);
        Self { shared, cores, told, posted, left, sampled, own, done, replay, differs }
    }

    /// What is done on the cores of the decider that asks.
    fn take_done(&mut self) -> Vec<(JobId, u64)> {
        self.done.append(&mut self.shared.world.borrow_mut().done);
        let Some(own) = self.own else { return std::mem::take(&mut self.done) };
        let here = |job: &JobId| {
            own.iter().any(|core| self.cores[usize::from(core.0)].index(job.vcpu).is_some())
        };
        self.done.extract_if(.., |(job, _)| here(job)).collect()
    }

    /// Asks the policy of all cores what it makes of the journal so far.
    fn hold_against(&mut self, now: Instant, plan: &Plan) {
        let Some((policy, all)) = &mut self.replay else { return };
        let group = self.own.and_then(|own| own.first());
        match group.and_then(|core| Some((core, policy.apart()?))) {
            Some((core, apart)) => decide_alone(apart, core, now, all),
            None => decide(policy.as_mut(), now, all),
        }
        if !decided_alike(plan, all) {
            let whose = self.own.map_or("all cores".to_string(), |own| format!("{own:?}"));
            let text = format!("decided for {whose} at {now}: {plan:?}; by replay: {all:?}");
            self.differs.get_or_insert(text);
        }
    }
}

/// Whether a journal would say the same of two decisions.
pub(crate) fn decided_alike(one: &Plan, other: &Plan) -> bool {
    let rehomed = |plan: &Plan| plan.rehomed().iter().map(|it| (*it, plan.home(*it))).collect();
    let (homes, other_homes): (Vec<_>, Vec<_>) = (rehomed(one), rehomed(other));
    let asks = |plan: &Plan| (plan.service_request, plan.wake, plan.wake_metered);
    one.dirty().iter().eq(other.dirty().iter())
        && one.dirty().iter().all(|core| one.run_queue(core) == other.run_queue(core))
        && homes == other_homes
        && one.verdicts() == other.verdicts()
        && asks(one) == asks(other)
}

impl Host for Around {
    type Handle = SimVcpu;
    type Core = Core<SimCore>;
    type Reply<T> = SimReply<T>;

    fn core(&mut self, core: CoreId) -> impl DerefMut<Target = Core<SimCore>> {
        &mut self.cores[usize::from(core.0)]
    }
    fn now(&self) -> Instant {
        serve(LiveCall::Clock, || self.shared.now())
    }
    fn take_requests(&mut self, into: &mut Vec<Request>) {
        beside(|| {
            let done = self.take_done().into_iter();
            into.extend(
                done.map(|(job, at)| Request::Completed { job, at: Instant::from_ticks(at) }),
            );
            if self.own.is_none() {
                into.append(&mut self.posted);
            }
        });
    }
    fn release(&mut self, job: &Job) {
        serve(LiveCall::Other, || {
            self.shared.world.borrow_mut().release(job.id.vcpu, job.id.index);
        });
    }
    fn leave(&mut self, _: VcpuId, handle: Handle) {
        self.left.push(handle);
    }
    fn can_sample(&self) -> bool {
        self.shared.faults.samples
    }
    fn sample(&mut self, _: Instant) -> io::Result<Option<Sample>> {
        serve(LiveCall::Other, || {
            self.shared.may()?;
            let mut world = self.shared.world.borrow_mut();
            world.bring_all();
            let read = |(core, before): (usize, &mut u64)| {
                let count = world.monitor(core);
                count - std::mem::replace(before, count)
            };
            let by_core: Vec<_> = self.sampled.iter_mut().enumerate().map(read).collect();
            let requests: u64 = by_core.iter().sum();
            self.told.samples += 1;
            // Each waits for 50 to 250 cycles, the more the more there are.
            let occupancy = requests * (50 + requests.min(20_000) / 100);
            Ok(Some(Sample { requests, occupancy, by_core }))
        })
    }
}

impl Observer for Around {
    fn event(&mut self, at: Instant, event: &Event) {
        beside(|| self.tell(at, event));
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        beside(|| self.decided(now, plan));
    }
}

impl Around {
    fn tell(&mut self, at: Instant, event: &Event) {
        self.told.events += 1;
        self.told.mix(at.ticks());
        if let Event::Ran(segment) = event {
            let service = self.told.service.entry(segment.vcpu).or_default();
            service[segment.mode as usize] += segment.usage.service.ticks();
            *self.told.reads.entry(segment.vcpu).or_default() += segment.usage.reads;
            self.told.mix(segment.usage.service.ticks());
        }
        self.told.failed += u64::from(matches!(event, Event::Failed { .. }));
        self.replay.iter_mut().for_each(|(policy, _)| policy.on_event(at, event));
    }
    fn decided(&mut self, now: Instant, plan: &Plan) {
        self.hold_against(now, plan);
        self.told.decisions += 1;
        if self.own.is_some() {
            self.told.alone += 1;
            self.told.wide += u64::from(plan.dirty().len() > 1);
        }
        self.told.mix(plan.wake.ticks());
    }
}

/// The asking side waits for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waits {
    Awaited,
    /// Not any more.
    Withdrawn,
    /// None ever did.
    Never,
}

/// What becomes of a question.
type Question<T> = Rc<RefCell<(Waits, Option<T>)>>;

/// Where an answer goes.
pub(super) struct SimReply<T>(Question<T>);
/// Where it comes from.
pub(super) struct SimAnswer<T>(Question<T>);

/// The two ends of a question.
pub(super) fn question<T>() -> (SimReply<T>, SimAnswer<T>) {
    let question = Rc::new(RefCell::new((Waits::Awaited, None)));
    (SimReply(Rc::clone(&question)), SimAnswer(question))
}

impl<T> SimReply<T> {
    /// For what is to be done though it is not waited for.
    pub(super) fn unawaited() -> Self {
        Self(Rc::new(RefCell::new((Waits::Never, None))))
    }
}

impl<T> Reply<T> for SimReply<T> {
    fn is_withdrawn(&self) -> bool {
        self.0.borrow().0 == Waits::Withdrawn
    }
    fn give(self, answer: T) -> Result<(), T> {
        let mut question = self.0.borrow_mut();
        match question.0 {
            Waits::Awaited => {
                question.1 = Some(answer);
                Ok(())
            }
            Waits::Withdrawn | Waits::Never => Err(answer),
        }
    }
}

impl<T> SimAnswer<T> {
    pub(super) fn take(&self) -> Option<T> {
        self.0.borrow_mut().1.take()
    }
    /// Gives up; whether that was in time.
    pub(super) fn withdraw(&self) -> bool {
        let mut question = self.0.borrow_mut();
        if question.1.is_some() {
            return false;
        }
        question.0 = Waits::Withdrawn;
        true
    }
}
