//! The simulated host as the decider asks it: cores that no other thread has, requests that
//! clients put in, a journal of which only sums are kept.

use super::host::{Shared, SimCore, SimVcpu};
use maracas_core::contract::{Mode, Observer, Policy, Sample, decide};
use maracas_core::{CoreId, Event, Instant, Job, Plan, VcpuId};
use maracas_live_core::{Core, Host, Reply, VcpuHandle};
use std::cell::{RefCell, RefMut};
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
pub(super) struct Told {
    /// Service of each VCPU by mode.
    pub(super) service: BTreeMap<VcpuId, [u64; 2]>,
    /// Reads of memory by each VCPU.
    pub(super) reads: BTreeMap<VcpuId, u64>,
    pub(super) events: u64,
    /// Refusals.
    pub(super) failed: u64,
    pub(super) decisions: u64,
    /// Of those, by a core alone.
    pub(super) alone: u64,
    /// Samples.
    pub(super) samples: u64,
    /// Of all of it.
    pub(super) digest: u64,
    /// The same policy, which is told the same, in the order of the journal.
    again: (Box<dyn Policy>, Plan),
    /// Where it decided otherwise.
    pub(super) differs: Option<String>,
}

impl Told {
    fn new(again: Box<dyn Policy>, cores: usize) -> Self {
        Self {
            service: BTreeMap::new(),
            reads: BTreeMap::new(),
            events: 0,
            failed: 0,
            decisions: 0,
            alone: 0,
            samples: 0,
            digest: 0,
            again: (again, Plan::new(cores)),
            differs: None,
        }
    }
    /// Compares what was decided with what the policy of all cores decides that was told the same.
    fn compare(&mut self, now: Instant, plan: &Plan) {
        let (policy, again) = &mut self.again;
        decide(policy.as_mut(), now, again);
        let runs = |core: CoreId| plan.run_queue(core) == again.run_queue(core);
        let is_same = plan.dirty() == again.dirty() && plan.dirty().iter().all(runs);
        let wakes = (plan.wake, plan.wake_metered) == (again.wake, again.wake_metered);
        let homes = plan.rehomed() == again.rehomed() && plan.verdicts() == again.verdicts();
        if !(is_same && wakes && homes && plan.service_request == again.service_request) {
            self.differs.get_or_insert_with(|| {
                let (ours, theirs) = (plan.dirty(), again.dirty());
                format!("a replay decides otherwise at {now}: {theirs:?} changes, not {ours:?}")
            });
        }
    }
    fn mix(&mut self, word: u64) {
        self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

pub(super) struct Around {
    pub(super) shared: Rc<Shared>,
    pub(super) cores: Rc<[RefCell<Core<SimCore>>]>,
    pub(super) told: Rc<RefCell<Told>>,
    /// The core whose decider it is the host of; `None` = of all.
    own: Option<usize>,
    /// What clients have put in.
    pub(super) posted: Vec<Request>,
    /// What is left of VCPUs whose ends were not waited for.
    pub(super) left: Vec<Handle>,
    /// What samples have reported of each core.
    sampled: Vec<u64>,
}

impl Around {
    /// `again` is one more value of the policy.
    pub(super) fn new(
        shared: Rc<Shared>,
        cores: Vec<Core<SimCore>>,
        again: Box<dyn Policy>,
    ) -> Self {
        let sampled = vec![0; cores.len()];
        let told = Rc::new(RefCell::new(Told::new(again, cores.len())));
        let cores = cores.into_iter().map(RefCell::new).collect();
        Self { shared, cores, told, own: None, posted: Vec::new(), left: Vec::new(), sampled }
    }
    /// One of the cores.
    pub(super) fn at(&self, core: usize) -> RefMut<'_, Core<SimCore>> {
        self.cores[core].borrow_mut()
    }
}

impl Host for Around {
    type Exec = SimCore;
    type Reply<T> = SimReply<T>;

    fn core(&mut self, core: CoreId) -> impl DerefMut<Target = Core<SimCore>> {
        self.at(usize::from(core.0))
    }
    fn now(&self) -> Instant {
        self.shared.now()
    }
    fn take_requests(&mut self, into: &mut Vec<Request>) {
        let mut world = self.shared.world.borrow_mut();
        let own = |began: usize| self.own.is_none_or(|own| own == began);
        let done = world.done.extract_if(.., |(.., began)| own(*began));
        let done = done.map(|(job, at, _)| Request::Completed { job, at: Instant::from_ticks(at) });
        into.extend(done);
        into.append(&mut self.posted);
    }
    fn release(&mut self, job: &Job) {
        self.shared.world.borrow_mut().release(job.id.vcpu, job.id.index);
    }
    fn leave(&mut self, _: VcpuId, handle: Handle) {
        self.left.push(handle);
    }
    fn part(&self, core: CoreId) -> Option<Self> {
        let (shared, cores) = (Rc::clone(&self.shared), Rc::clone(&self.cores));
        let (told, own) = (Rc::clone(&self.told), Some(usize::from(core.0)));
        let (posted, left, sampled) = (Vec::new(), Vec::new(), Vec::new());
        Some(Self { shared, cores, told, own, posted, left, sampled })
    }
    fn can_sample(&self) -> bool {
        self.shared.faults.samples
    }
    fn sample(&mut self, _: Instant) -> io::Result<Option<Sample>> {
        self.shared.may()?;
        let mut world = self.shared.world.borrow_mut();
        world.bring_all();
        let read = |(core, before): (usize, &mut u64)| {
            let count = world.monitor(core);
            count - std::mem::replace(before, count)
        };
        let by_core: Vec<_> = self.sampled.iter_mut().enumerate().map(read).collect();
        let requests: u64 = by_core.iter().sum();
        self.told.borrow_mut().samples += 1;
        // Each waits for 50 to 250 cycles, the more the more there are.
        let occupancy = requests * (50 + requests.min(20_000) / 100);
        Ok(Some(Sample { requests, occupancy, by_core }))
    }
}

impl Observer for Around {
    fn event(&mut self, at: Instant, event: &Event) {
        let mut told = self.told.borrow_mut();
        told.events += 1;
        told.mix(at.ticks());
        if let Event::Ran(segment) = event {
            let service = told.service.entry(segment.vcpu).or_default();
            service[segment.mode as usize] += segment.usage.service.ticks();
            *told.reads.entry(segment.vcpu).or_default() += segment.usage.reads;
            told.mix(segment.usage.service.ticks());
        }
        told.failed += u64::from(matches!(event, Event::Failed { .. }));
        told.again.0.on_event(at, event);
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        let mut told = self.told.borrow_mut();
        told.decisions += 1;
        told.alone += u64::from(self.own.is_some());
        told.mix(plan.wake.ticks());
        told.compare(now, plan);
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
