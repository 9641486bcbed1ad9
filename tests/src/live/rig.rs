//! Plays one case: agents that sleep and wake on a simulated host, and what happens to them.

use super::LiveCase;
use super::audit::Audit;
use super::decider::{Decider, Known};
use super::host::{Shared, SimCore};
use super::world::{NEVER, Program, World};
use crate::Dice;
use maracas_core::contract::Policy;
use maracas_core::{CoreId, Duration, Vcpu, VcpuId};
use maracas_live_core::protocol::{Protocol, Repair};
use maracas_live_core::{Core, Counts, Executor, Means, Relief, WakeCost};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// How many decisions an agent takes in a row.
const ROUNDS: usize = 4;
/// Steps of a run that no case needs: a machine that goes round in a circle is stopped there.
const MOST_STEPS: u64 = 3_000_000;

/// What is asked of a running system.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Create(Vcpu, Program),
    Attach(VcpuId),
    Set(VcpuId, Duration),
    Destroy(VcpuId),
}

/// When.
#[derive(Clone, Debug)]
pub(super) struct Due {
    pub(super) at: u64,
    pub(super) request: Request,
}

/// One agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agent {
    /// When it wakes.
    wakes_at: u64,
    /// When it should have.
    due: u64,
    slept_at: u64,
    relief: Relief,
}

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Played {
    /// A digest of all events and decisions.
    pub digest: u64,
    /// Wakes of agents.
    pub wakes: u64,
    /// Decisions of the policy.
    pub decisions: u64,
    /// Calls to the host.
    pub calls: u64,
    /// Refusals that were reported to the policy.
    pub refused: u64,
}

pub(super) struct Rig {
    shared: Rc<Shared>,
    cores: Vec<Core<SimCore>>,
    decider: Decider,
    agents: Vec<Agent>,
    audit: Audit,
    dice: Dice,
    unseen: bool,
    until: u64,
    wakes: u64,
}

impl Rig {
    pub(super) fn new(case: &LiveCase, policy: Box<dyn Policy>) -> Self {
        let system = case.system();
        let count = system.cores.len();
        let mut world = World::new(count, Dice::new(case.seed));
        world.forks = case.faults.fork_one_in;
        let shared = Rc::new(Shared {
            world: RefCell::new(world),
            faults: case.faults,
            calls: Cell::new(0),
            dead: Cell::new(false),
            refused: Cell::new(0),
        });
        let wake = case.faults.wake;
        let cost = WakeCost { p50: ns(wake), p99: ns(wake * 4) };
        let core = |core: usize| {
            let exec = SimCore { shared: Rc::clone(&shared), core };
            let mut state = Core::new(CoreId(core as u16), exec, Means::FULL, cost);
            state.fault = case.fault;
            state.sense(Counts::default());
            state
        };
        let cores = (0..count).map(core).collect();
        let mut decider = Decider::new(Rc::clone(&shared), policy, count);
        for vcpu in &system.vcpus {
            let program = case.programs.get(&vcpu.id).copied();
            let (slot, demand) = (None, None);
            let known = Known {
                vcpu: vcpu.clone(),
                slot,
                demand,
                program: program.unwrap_or(Program::Busy),
            };
            decider.known.insert(vcpu.id, known);
        }
        decider.due = case.requests.clone();
        let starts = case.programs.keys().filter(|id| system.vcpus.iter().any(|it| it.id == **id));
        decider.due.extend(starts.map(|id| Due { at: 1, request: Request::Attach(*id) }));
        let agent = Agent { wakes_at: 0, due: 0, slept_at: 0, relief: Relief::default() };
        Self {
            shared,
            cores,
            decider,
            agents: vec![agent; count],
            audit: Audit::new(case),
            dice: Dice::new(case.seed ^ 0xa6e7),
            unseen: true,
            until: case.until,
            wakes: 0,
        }
    }

    /// Plays to the end.
    pub(super) fn play(mut self) -> Result<Played, String> {
        let mut steps = 0;
        while let Some(core) = self.next_agent() {
            self.cycle(core)?;
            steps += 1;
            if steps > MOST_STEPS {
                return Err(format!("{steps} wakes of agents and no end"));
            }
            if self.shared.dead.get() {
                self.repair();
                return self.audit.end(&mut self.shared.world.borrow_mut()).map(|()| self.played());
            }
            let (now, off) = (self.shared.world.borrow().now, self.shared.faults.off_line_at);
            if off != 0 && now >= off {
                return self.off_line(core);
            }
        }
        self.finish()
    }

    fn played(&self) -> Played {
        Played {
            digest: self.decider.digest,
            wakes: self.wakes,
            decisions: self.decider.decisions,
            calls: self.shared.calls.get(),
            refused: self.shared.refused.get(),
        }
    }

    /// Lets the threads run until an agent wakes; which one. `None` where the run is over.
    fn next_agent(&mut self) -> Option<usize> {
        loop {
            let places = 0..self.agents.len();
            let core = places.min_by_key(|core| self.agents[*core].wakes_at)?;
            let request = self.decider.due.iter().map(|due| due.at).min().unwrap_or(NEVER);
            let mut world = self.shared.world.borrow_mut();
            let at = self.agents[core].wakes_at.max(world.now);
            if at.min(request) >= self.until {
                return None;
            }
            // What is due wakes the first core's agent.
            let to = if request > world.now { at.min(request) } else { at };
            world.run_until(to);
            if request > 0 && world.now >= request && self.agents[0].due > request {
                world.cpus[0].called.get_or_insert(request);
            }
            let now = world.now;
            let mut is_called = false;
            for place in 0..self.agents.len() {
                let Some(called) = world.cpus[place].called.take() else { continue };
                let latency = world.dice.between(1, self.shared.faults.wake * 2);
                let agent = &mut self.agents[place];
                if now + latency < agent.wakes_at {
                    agent.wakes_at = now + latency;
                    is_called = true;
                }
                agent.due = agent.due.min(called);
            }
            if !is_called && now >= at {
                return Some(core);
            }
        }
    }

    /// An agent wakes, looks, decides, sleeps.
    fn cycle(&mut self, place: usize) -> Result<(), String> {
        self.wakes += 1;
        let id = CoreId(place as u16);
        self.shared.world.borrow_mut().set_agent(place, true);
        let births = {
            let mut world = self.shared.world.borrow_mut();
            let news = world.groups.iter_mut().filter(|it| it.core == place && it.listened);
            let news = news.filter_map(|it| std::mem::take(&mut it.news).then_some(it.id));
            news.collect::<Vec<_>>()
        };
        self.befall(place);
        let agent = self.agents[place];
        let now = self.cores[place].exec.now();
        let late = now.ticks().saturating_sub(agent.due);
        self.audit.wakes(&mut self.cores[place], &mut self.shared.world.borrow_mut(), late)?;
        let news = self.cores[place].enforce(now, &births, false, Some(agent.relief));
        self.audit.enforced(&self.cores[place], &self.shared)?;
        self.consult(id, news);
        self.audit.answered(&self.shared, &self.cores, &self.decider)?;
        let (now, due) = self.cores[place].sleep();
        let (now, due) = (now.ticks(), due.ticks());
        self.audit.sleeps(&self.cores[place], &self.shared, &self.decider, now, due)?;
        let faults = self.shared.faults;
        let mut wakes_at = due.max(now) + self.dice.between(faults.wake / 2, faults.wake * 3 / 2);
        if faults.late_one_in != 0 && self.dice.one_in(faults.late_one_in) {
            wakes_at += self.dice.between(0, faults.late);
        }
        if faults.early_one_in != 0 && self.dice.one_in(faults.early_one_in) {
            wakes_at = self.dice.between(now + 1, wakes_at.max(now + 1));
        }
        let agent = &mut self.agents[place];
        (agent.wakes_at, agent.due, agent.slept_at) = (wakes_at, due, now);
        self.shared.world.borrow_mut().set_agent(place, false);
        Ok(())
    }

    /// A guardian that takes the agent for stuck acts on its core.
    fn befall(&mut self, place: usize) {
        let one_in = self.shared.faults.relieve_one_in;
        if one_in == 0 || !self.dice.one_in(one_in) {
            return;
        }
        let mut world = self.shared.world.borrow_mut();
        let here =
            |world: &World, thread: usize| world.groups[world.threads[thread].group].core == place;
        for repair in Protocol::RELIEF {
            match repair {
                Repair::Demote => {
                    for thread in 0..world.threads.len() {
                        if here(&world, thread) {
                            world.set_level(World::tid(thread), 0);
                        }
                    }
                }
                Repair::Freeze => {
                    for group in 0..world.groups.len() {
                        if world.groups[group].core == place && world.groups[group].alive {
                            world.ask_freezer(group, true, 0);
                        }
                    }
                }
                Repair::Thaw
                | Repair::Kill
                | Repair::MoveBack
                | Repair::RemoveGroups
                | Repair::Forget => {}
            }
        }
        let relief = &mut self.agents[place].relief;
        *relief = Relief { count: relief.count + 2, stuck: ns(250_000_000) };
    }

    fn consult(&mut self, core: CoreId, news: bool) {
        self.unseen |= news;
        for _ in 0..ROUNDS {
            if !self.unseen {
                return;
            }
            self.unseen = false;
            let called = self.decider.round(&mut self.cores, core);
            for core in called.iter() {
                self.unseen = true;
                self.cores[usize::from(core.0)].exec.wake_agent();
            }
        }
        if self.unseen {
            let next = (usize::from(core.0) + 1) % self.cores.len();
            self.cores[next].exec.wake_agent();
        }
    }

    /// A core goes off line under its agent: what was there is taken down, and the run ends.
    fn off_line(mut self, core: usize) -> Result<Played, String> {
        let by = |vcpu: &super::host::SimVcpu| vcpu.freeze(true);
        self.cores[core].take_down(by);
        self.finish()
    }

    /// The orderly end: the meters once more, then every VCPU is let go.
    fn finish(mut self) -> Result<Played, String> {
        for place in 0..self.cores.len() {
            self.shared.world.borrow_mut().set_agent(place, true);
            let core = &mut self.cores[place];
            core.meter_running();
            core.end();
        }
        self.decider.listen(&mut self.cores);
        self.audit.conserved(&mut self.cores, &self.decider, &self.shared)?;
        for core in &mut self.cores {
            for mut vcpu_handle in core.vcpu_handles.drain(..) {
                // What is refused now is the guardian's to set right.
                let refused = vcpu_handle.release().is_err();
                if refused {
                    self.audit.left_to_guardian();
                }
            }
        }
        if self.audit.is_left() || self.shared.dead.get() {
            self.repair();
        }
        self.audit.bounded(self.wakes, self.until, &self.decider, &self.cores)?;
        self.audit.end(&mut self.shared.world.borrow_mut())?;
        Ok(self.played())
    }

    /// What the guardian does after the runtime's death, station by station, while threads go on
    /// and make others.
    fn repair(&mut self) {
        let mut world = self.shared.world.borrow_mut();
        (0..world.cpus.len()).for_each(|core| world.set_agent(core, false));
        for repair in Protocol::REAL.repair {
            let later = world.now + 500_000;
            world.now = later;
            world.bring_all();
            match repair {
                Repair::Demote => {
                    for thread in 0..world.threads.len() {
                        world.set_level(World::tid(thread), 0);
                    }
                }
                Repair::Thaw => {
                    for group in 0..world.groups.len() {
                        world.ask_freezer(group, false, 0);
                    }
                }
                Repair::Freeze => {}
                Repair::Kill => {
                    for group in 0..world.groups.len() {
                        world.end_group(group);
                    }
                }
                Repair::MoveBack | Repair::RemoveGroups | Repair::Forget => {}
            }
        }
        world.bring_all();
    }
}

const fn ns(n: u64) -> Duration {
    Duration::from_nanos(n)
}
