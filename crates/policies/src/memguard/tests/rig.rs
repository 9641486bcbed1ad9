//! A machine that turns the times of accesses to memory into segments and spent allowances: at each
//! tick every open core serves at most one access that is due.

use super::super::MemGuard;
use crate::find;
use crate::testing::Rng;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use maracas_core::contract::{End, Mode, Segment, Usage, decide};
use maracas_core::dispatch::{self, Readings, Running};
use maracas_core::params::Params;
use maracas_core::{CoreId, Duration, Event, Instant, Plan, Policy, System, Vcpu, VcpuId};

#[derive(Clone, Default)]
pub(super) struct Body {
    pub(super) awake: bool,
    /// When its next accesses are due.
    pub(super) pending: VecDeque<u64>,
    meters: [u64; 2],
    pub(super) memory: u64,
}

struct Bodies<'a>(&'a [Body]);
impl Readings for Bodies<'_> {
    fn runnable(&self, vcpu: VcpuId) -> bool {
        self.0[vcpu.0 as usize].awake
    }
    fn meter(&self, vcpu: VcpuId, mode: Mode) -> Duration {
        Duration::from_ticks(self.0[vcpu.0 as usize].meters[mode as usize])
    }
    fn memory(&self, vcpu: VcpuId) -> u64 {
        self.0[vcpu.0 as usize].memory
    }
}

#[derive(Clone, Copy)]
struct Run {
    running: Running,
    from: u64,
    service: u64,
    reads: u64,
}

#[derive(Clone, Default)]
pub(super) struct RigCore {
    pub(super) meter: u64,
    run: Option<Run>,
}

pub(super) struct Rig {
    pub(super) policy: MemGuard,
    pub(super) plan: Plan,
    pub(super) now: u64,
    pub(super) vcpus: Vec<Body>,
    pub(super) cores: Vec<RigCore>,
    /// Every access: when, and on which core.
    pub(super) served: Vec<(u64, u16)>,
    /// Decisions come late by up to so many ticks.
    pub(super) late: u64,
    /// One in so many accesses reads up to four times, past a limit if need be; 0 = none.
    pub(super) overrun: u64,
    pub(super) rng: Rng,
    outbox: Vec<(u64, Event)>,
    /// When the policy is asked next.
    due: u64,
}

/// A VCPU whose reservation does not matter: the inner policy is round-robin.
pub(super) fn busy_vcpu(id: u32) -> Vcpu {
    Vcpu::new(id, Duration::from_ticks(1), Duration::from_ticks(2))
}

impl Rig {
    pub(super) fn new(system: &System, params: &Params) -> Self {
        let inner = find("round-robin").unwrap();
        let policy = MemGuard::around(inner, system, params);
        Self {
            policy: policy.unwrap_or_else(|why| panic!("{why:?}")),
            plan: Plan::new(system.cores.len()),
            now: 0,
            vcpus: alloc::vec![Body::default(); system.vcpus.len()],
            cores: alloc::vec![RigCore::default(); system.cores.len()],
            served: Vec::new(),
            late: 0,
            overrun: 0,
            rng: Rng(7),
            outbox: Vec::new(),
            due: 0,
        }
    }
    /// One VCPU on each core.
    pub(super) fn one_a_core(cores: usize, params: &Params) -> Self {
        let vcpus = (0..cores as u32).map(busy_vcpu).collect();
        Self::new(&System::new(cores, vcpus), params)
    }

    pub(super) fn tell(&mut self, event: Event) {
        if self.outbox.is_empty() {
            let delay = if self.late == 0 { 0 } else { self.rng.below(self.late + 1) };
            self.due = self.due.min(self.now + delay);
        }
        self.outbox.push((self.now, event));
    }
    pub(super) fn wake(&mut self, vcpu: usize) {
        if !self.vcpus[vcpu].awake {
            self.vcpus[vcpu].awake = true;
            self.tell(Event::Woke { vcpu: VcpuId(vcpu as u32), on_behalf: None, exact: true });
        }
    }
    /// Lets a VCPU block if it runs.
    pub(super) fn sleep(&mut self, vcpu: usize) {
        let runs = |core: &RigCore| core.run.is_some_and(|run| run.running.vcpu.0 as usize == vcpu);
        if let Some(core) = self.cores.iter().position(runs) {
            self.vcpus[vcpu].awake = false;
            self.stop(core, End::Blocked);
        }
    }
    /// Whether any VCPU runs on `core`.
    pub(super) fn running(&self, core: usize) -> bool {
        self.cores[core].run.is_some()
    }
    /// Lets all ticks up to and with `last` pass.
    pub(super) fn run_through(&mut self, last: u64) {
        while self.now <= last {
            self.tick();
        }
    }

    pub(super) fn tick(&mut self) {
        self.attend();
        for core in 0..self.cores.len() {
            self.access(core);
            self.attend();
        }
        self.now += 1;
        for core in 0..self.cores.len() {
            let Some(run) = &mut self.cores[core].run else { continue };
            run.service += 1;
            let Running { vcpu, mode, until, .. } = run.running;
            let meter = &mut self.vcpus[vcpu.0 as usize].meters[mode as usize];
            *meter += 1;
            if *meter >= until.0.ticks() {
                self.stop(core, End::LimitReached);
            }
        }
    }

    /// Asks the policy if it is time, and has the cores follow the law.
    fn attend(&mut self) {
        self.follow_law();
        while self.due <= self.now {
            if self.plan.wake.ticks() <= self.now && self.plan.wake_metered {
                (0..self.cores.len()).for_each(|core| self.report(core, End::Metered));
            }
            self.decide();
            self.follow_law();
        }
    }

    fn decide(&mut self) {
        for (at, event) in core::mem::take(&mut self.outbox) {
            self.policy.on_event(Instant::from_ticks(at), &event);
        }
        let now = Instant::from_ticks(self.now);
        decide(&mut self.policy, now, &mut self.plan);
        assert_eq!(self.plan.audit(), Ok(()));
        let once = self.plan.clone();
        decide(&mut self.policy, now, &mut self.plan);
        assert!(self.plan.dirty().is_empty(), "a second call changed {:?}", self.plan.dirty());
        assert_eq!((self.plan.wake, self.plan.wake_metered), (once.wake, once.wake_metered));
        let delay = if self.late == 0 { 0 } else { self.rng.below(self.late + 1) };
        self.due = self.plan.wake.ticks().saturating_add(delay);
    }

    fn lawful(&self, core: usize) -> Option<Running> {
        let run_queue = self.plan.run_queue(CoreId(core as u16));
        let now = Instant::from_ticks(self.now);
        dispatch::next(run_queue, now, self.cores[core].meter, &Bodies(&self.vcpus))
    }

    fn follow_law(&mut self) {
        for core in 0..self.cores.len() {
            let lawful = self.lawful(core);
            let running = self.cores[core].run.map(|run| (run.running.vcpu, run.running.mode));
            if lawful.map(|run| (run.vcpu, run.mode)) != running {
                self.stop(core, End::Preempted);
                let run = |running| Run { running, from: self.now, service: 0, reads: 0 };
                self.cores[core].run = lawful.map(run);
            } else if let (Some(run), Some(lawful)) = (&mut self.cores[core].run, lawful) {
                run.running = lawful;
            }
        }
    }

    fn access(&mut self, core: usize) {
        let (run_queue, own) = (self.plan.run_queue(CoreId(core as u16)), &mut self.cores[core]);
        let Some(run) = &mut own.run else { return };
        let body = &mut self.vcpus[run.running.vcpu.0 as usize];
        if body.pending.front().is_none_or(|due| *due > self.now) {
            return;
        }
        body.pending.pop_front();
        assert!(!run_queue.allowance.is_reached(own.meter), "a throttled core does no access");
        assert!(!run.running.memory.is_reached(body.memory), "nor does a VCPU beyond its mark");
        let reads = if self.rng.one_in(self.overrun) { 1 + self.rng.below(4) } else { 1 };
        own.meter += reads;
        body.memory += reads;
        run.reads += reads;
        self.served.push((self.now, core as u16));
        if run_queue.allowance.is_reached(own.meter) {
            self.stop(core, End::Preempted);
            self.tell(Event::AllowanceSpent { core: CoreId(core as u16) });
        } else if run.running.memory.is_reached(body.memory) {
            self.stop(core, End::MemorySpent);
        }
    }

    fn stop(&mut self, core: usize, end: End) {
        self.report(core, end);
        self.cores[core].run = None;
    }

    fn report(&mut self, core: usize, end: End) {
        let now = self.now;
        let Some(run) = &mut self.cores[core].run else { return };
        let (service, reads) = (Duration::from_ticks(run.service), run.reads);
        let segment = Segment {
            vcpu: run.running.vcpu,
            core: CoreId(core as u16),
            mode: run.running.mode,
            from: Instant::from_ticks(run.from),
            to: Instant::from_ticks(now),
            usage: Usage { service, reads, ..Usage::default() },
            end,
        };
        (run.from, run.service, run.reads) = (now, 0, 0);
        if service.is_zero() && reads == 0 && end == End::Metered {
            return;
        }
        self.tell(Event::Ran(segment));
    }
}
