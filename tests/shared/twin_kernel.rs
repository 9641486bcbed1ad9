//! The law in C in the kernel's place: what the state of a core (`maracas_live_core::KernelCore`)
//! asks of the scheduler in the kernel, and is told by it.

use crate::one_thread::OneThread;
use maracas_core::contract::{End, Mode, RunQueue};
use maracas_core::{CoreId, Duration, Instant, VcpuId};
use maracas_live_core::{Counts, Kernel, KernelEvent, Ran, Reported};
use maracas_tests::kernel::law::Twin;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::rc::Rc;

/// What a core holds, and since when.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) vcpu: VcpuId,
    mode: Mode,
    from: u64,
    /// Where its grant ends.
    until: u64,
}

/// The kernel: the law in C, and what it has said.
pub(crate) struct World {
    twin: Twin,
    /// What is left of a grant that is as good as spent.
    pub(crate) least: u64,
    pub(crate) now: u64,
    pub(crate) held: Vec<Option<Held>>,
    /// When what each core holds is spent.
    pub(crate) spent_at: Vec<u64>,
    /// When a grant begins to count before it.
    pub(crate) due: Vec<u64>,
    pub(crate) meters: Vec<[u64; 2]>,
    reported: Reported,
    pub(crate) events: Vec<VecDeque<KernelEvent>>,
    /// VCPUs by thread.
    pub(crate) joined: BTreeMap<i32, VcpuId>,
    pub(crate) homes: BTreeMap<VcpuId, CoreId>,
    /// Of each VCPU, whether it is runnable and how often it woke, by what a core was told.
    known: Vec<(bool, u64)>,
}

impl World {
    pub(crate) fn new(program: &Path, cores: usize, vcpus: usize, least: u64) -> Self {
        Self {
            twin: Twin::start(program, cores, vcpus, least),
            least,
            now: 0,
            held: vec![None; cores],
            spent_at: vec![u64::MAX; cores],
            due: vec![u64::MAX; cores],
            meters: vec![[0; 2]; vcpus],
            reported: Reported::default(),
            events: vec![VecDeque::new(); cores],
            joined: BTreeMap::new(),
            homes: BTreeMap::new(),
            known: vec![(false, 0); vcpus],
        }
    }

    /// One step of the law; what ended by it becomes events.
    pub(crate) fn step(&mut self, step: &str) {
        let said = self.twin.step(step);
        let (cores, vcpus) = said.split_at(self.held.len() * 7);
        for (meters, said) in self.meters.iter_mut().zip(vcpus.chunks(3)) {
            *meters = [said[0] as u64, said[1] as u64];
        }
        let mut on = Vec::new();
        for (core, said) in cores.chunks(7).enumerate() {
            let next = u32::try_from(said[0]).ok().map(VcpuId);
            let mode = if said[1] == 0 { Mode::Foreground } else { Mode::Background };
            on.extend(next);
            self.spent_at[core] = u64::try_from(said[3]).unwrap();
            self.due[core] = u64::try_from(said[4]).unwrap();
            let before = self.held[core];
            let end = end(said[2]);
            if let (Some(held), Some(end)) = (before, end) {
                let ran = self.segment(held, end);
                self.events[core].push_back(KernelEvent::Ran(ran));
            }
            let spent_at = self.spent_at[core];
            let goes_on = before.filter(|it| end.is_none() && Some(it.vcpu) == next);
            let from = goes_on.map_or(self.now, |it| it.from);
            self.held[core] = next.map(|vcpu| {
                let meter = self.meters[vcpu.0 as usize][mode as usize];
                let until = spent_at.checked_sub(self.now).map_or(0, |left| meter + left);
                let until = if spent_at == u64::MAX { u64::MAX } else { until };
                assert!(meter <= until, "{vcpu} has {meter} of {until} ns on core{core}");
                Held { vcpu, mode, from, until }
            });
        }
        let count = on.len();
        on.sort_unstable();
        on.dedup();
        assert_eq!(on.len(), count, "a VCPU is on two cores");
    }

    fn segment(&mut self, held: Held, end: End) -> Ran {
        let Held { vcpu, mode, from, until } = held;
        let meter = Duration::from_ticks(self.meters[vcpu.0 as usize][mode as usize]);
        let until = Duration::from_ticks(until);
        let spent = (end == End::LimitReached).then_some(until);
        let service = self.reported.service(vcpu, mode, meter, spent);
        let [from, to] = [from, self.now].map(Instant::from_ticks);
        Ran { vcpu, mode, from, to, meter, service, reads: 0, until, end }
    }

    pub(crate) fn set_runnable(&mut self, vcpu: usize, is_runnable: bool) {
        if self.known[vcpu].0 == is_runnable {
            return;
        }
        self.known[vcpu].0 = is_runnable;
        let id = VcpuId(vcpu as u32);
        if is_runnable {
            let core = usize::from(self.homes[&id].0);
            let woke = KernelEvent::Woke(id, Instant::from_ticks(self.now));
            self.events[core].push_back(woke);
        }
        let letter = if is_runnable { "w" } else { "b" };
        self.step(&format!("{letter} {vcpu}"));
    }
}

/// An end by its number in `law.h`.
fn end(number: i128) -> Option<End> {
    match number {
        0 => None,
        1 => Some(End::Blocked),
        2 => Some(End::Preempted),
        3 => Some(End::LimitReached),
        4 => Some(End::MemorySpent),
        other => panic!("no end has number {other}"),
    }
}

/// One core of it, as the state of a core asks it.
pub(crate) struct TwinKernel {
    pub(crate) world: Rc<RefCell<World>>,
    pub(crate) core: CoreId,
}

impl Kernel for TwinKernel {
    type Handle = OneThread;

    fn now(&self) -> Instant {
        Instant::from_ticks(self.world.borrow().now)
    }
    fn counts(&self) -> Counts {
        Counts::default()
    }
    fn site(&self) {}
    fn next_event(&mut self) -> Option<KernelEvent> {
        let mut world = self.world.borrow_mut();
        let event = world.events[usize::from(self.core.0)].pop_front();
        if let Some(KernelEvent::Woke(vcpu, _)) = event {
            world.known[vcpu.0 as usize].1 += 1;
        }
        event
    }
    fn running(&mut self) -> io::Result<Option<Ran>> {
        let (mut world, core) = (self.world.borrow_mut(), usize::from(self.core.0));
        let held = world.held[core];
        Ok(held.map(|held| world.segment(held, End::Metered)))
    }
    fn meters(&mut self, vcpu: VcpuId) -> io::Result<[Duration; 2]> {
        Ok(self.world.borrow().meters[vcpu.0 as usize].map(Duration::from_ticks))
    }
    fn room(&mut self) -> usize {
        self.world.borrow().meters.len()
    }
    fn send(&mut self, run_queue: &RunQueue) -> io::Result<()> {
        let (core, mut world) = (usize::from(self.core.0), self.world.borrow_mut());
        let RunQueue { foreground, background, background_allowed, allowance } = run_queue;
        let (allowed, counts) =
            (u8::from(*background_allowed), [foreground.len(), background.len()]);
        let mut step = format!("q {core} {} {allowed} {} {}", allowance.0, counts[0], counts[1]);
        for grant in foreground.iter().chain(background) {
            let (until, from) = (grant.until.0.ticks(), grant.from.ticks());
            let wakes = if grant.lapses { world.known[grant.vcpu.0 as usize].1 + 1 } else { 0 };
            let _ = write!(step, " {} {until} {} {from} {wakes}", grant.vcpu.0, grant.memory.0);
        }
        world.step(&step);
        Ok(())
    }
    fn settle(&mut self, vcpu: VcpuId) -> io::Result<()> {
        self.world.borrow_mut().homes.insert(vcpu, self.core);
        Ok(())
    }
    fn join(&mut self, tid: i32, vcpu: VcpuId) -> io::Result<()> {
        self.world.borrow_mut().joined.insert(tid, vcpu);
        Ok(())
    }
    fn leave(&mut self, vcpu: VcpuId) -> io::Result<()> {
        self.world.borrow_mut().joined.retain(|_, owner| *owner != vcpu);
        Ok(())
    }
}
