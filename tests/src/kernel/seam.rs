//! The simulated kernel as the state of a core asks it, and what lies around the decider.

use super::audit::Told;
use super::world::{World, instant};
use maracas_core::contract::{Observer, Policy, RunQueue, decide};
use maracas_core::journal::Record;
use maracas_core::{CoreId, Duration, Event, Instant, Job, Plan, VcpuId};
use maracas_live_core::{
    Counts, Handle, Host, Kernel, KernelCore, KernelEvent, Ran, Reply, VcpuHandle,
};
use std::cell::RefCell;
use std::io;
use std::ops::DerefMut;
use std::rc::Rc;

pub(super) type Decider = maracas_live_core::Decider<Around>;
pub(super) type Request = maracas_live_core::Request<Around>;

/// One core of it.
pub(super) struct TwinKernel {
    pub(super) world: Rc<RefCell<World>>,
    pub(super) core: CoreId,
}

impl TwinKernel {
    fn place(&self) -> usize {
        usize::from(self.core.0)
    }
}

impl Kernel for TwinKernel {
    type Handle = Group;

    fn now(&self) -> Instant {
        instant(self.world.borrow().now)
    }
    fn counts(&self) -> Counts {
        Counts { reads: self.world.borrow().counted.chunk > 0, references: false }
    }
    fn site(&self) {}
    fn next_event(&mut self) -> Option<KernelEvent> {
        self.world.borrow_mut().next_event(self.place())
    }
    fn running(&mut self) -> io::Result<Option<Ran>> {
        Ok(self.world.borrow_mut().running(self.place()))
    }
    fn meters(&mut self, vcpu: VcpuId) -> io::Result<[Duration; 2]> {
        Ok(self.world.borrow().meters[vcpu.0 as usize].map(Duration::from_ticks))
    }
    fn room(&mut self) -> usize {
        self.world.borrow_mut().room()
    }
    fn send(&mut self, run_queue: &RunQueue) -> io::Result<()> {
        self.world.borrow_mut().send(self.place(), run_queue)
    }
    fn settle(&mut self, vcpu: VcpuId) -> io::Result<()> {
        self.world.borrow_mut().settle(vcpu, self.core);
        Ok(())
    }
    fn join(&mut self, tid: i32, vcpu: VcpuId) -> io::Result<()> {
        self.world.borrow_mut().join(tid, vcpu)
    }
    fn leave(&mut self, vcpu: VcpuId) -> io::Result<()> {
        self.world.borrow_mut().leave(vcpu)
    }
}

/// The control group of a VCPU.
pub(super) struct Group {
    pub(super) world: Rc<RefCell<World>>,
    pub(super) vcpu: VcpuId,
}

impl Handle for Group {
    type Site = ();

    fn set_level(&mut self, _: i32, _: u8) -> io::Result<()> {
        Ok(())
    }
    fn list(&mut self, tids: &mut Vec<i32>) -> io::Result<(Instant, Instant)> {
        tids.clear();
        let world = self.world.borrow();
        tids.extend(world.tids(self.vcpu));
        Ok((instant(world.now), instant(world.now)))
    }
    fn ran(&mut self) -> io::Result<u64> {
        Ok(0)
    }
    fn go(&mut self, _: CoreId, (): ()) -> io::Result<bool> {
        self.world.borrow_mut().may(true).map(|()| true)
    }
    fn arrive(&mut self, _: CoreId) {}
    fn refusal(&self) -> io::Result<()> {
        Ok(())
    }
    fn forget_freezer(&self) {}
    fn thaw_now(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Where an answer goes, and comes from.
pub(super) struct Answer<T>(pub(super) Rc<RefCell<Option<T>>>);

impl<T> Reply<T> for Answer<T> {
    fn is_withdrawn(&self) -> bool {
        false
    }
    fn give(self, answer: T) -> Result<(), T> {
        *self.0.borrow_mut() = Some(answer);
        Ok(())
    }
}

/// What lies around the decider.
pub(super) struct Around {
    pub(super) world: Rc<RefCell<World>>,
    pub(super) cores: Vec<KernelCore<TwinKernel>>,
    pub(super) posted: Vec<Request>,
    pub(super) told: Told,
    /// A second policy, told what the journal says, and its plan.
    pub(super) replay: (Box<dyn Policy>, Plan),
}

impl Host for Around {
    type Handle = Group;
    type Core = KernelCore<TwinKernel>;
    type Reply<T> = Answer<T>;

    fn core(&mut self, core: CoreId) -> impl DerefMut<Target = Self::Core> {
        &mut self.cores[usize::from(core.0)]
    }
    fn now(&self) -> Instant {
        instant(self.world.borrow().now)
    }
    fn take_requests(&mut self, into: &mut Vec<Request>) {
        let done = std::mem::take(&mut self.world.borrow_mut().done);
        let completed = |(job, at)| Request::Completed { job, at: instant(at) };
        into.extend(done.into_iter().map(completed));
        into.append(&mut self.posted);
    }
    fn release(&mut self, job: &Job) {
        self.told.released.push(*job);
    }
    fn leave(&mut self, _: VcpuId, handle: Option<Box<VcpuHandle<Group>>>) {
        handle.into_iter().for_each(|it| self.world.borrow_mut().kill(it.id));
    }
    fn record(&mut self, _: &Record) {}
}

impl Observer for Around {
    fn event(&mut self, at: Instant, event: &Event) {
        self.replay.0.on_event(at, event);
        self.told.event(at, event);
        if let Event::AllowanceSpent { core } = event {
            let mut world = self.world.borrow_mut();
            let spent = world.counted.spent[usize::from(core.0)].pop_front();
            // What was lost is not told, and the run is to end.
            if world.lost == 0 {
                self.told.spent(*core, spent);
            }
        }
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        let (policy, all) = &mut self.replay;
        decide(policy.as_mut(), now, all);
        if !crate::live::decided_alike(plan, all) {
            self.told.wrong(format!("decided at {now}: {plan:?}; by replay: {all:?}"));
        }
        self.told.planned(now, plan);
    }
}
