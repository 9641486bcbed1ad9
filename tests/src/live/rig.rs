//! Plays one case: agents that sleep and wake on a simulated host, and what happens to them.

use super::LiveCase;
use super::around::{Around, Decider};
use super::audit::Audit;
use super::clients::{Ask, Clients, Due};
use super::cost::{LiveCall, count, machine, wakes};
use super::host::{Meters, Shared, SimCore};
use super::world::World;
use crate::Dice;
use maracas_core::contract::Policy;
use maracas_core::{CoreId, Duration, Instant, Rate, System};
use maracas_live_core::protocol::{Protocol, Repair};
use maracas_live_core::{Core, Counts, Means, Relief, WakeCost};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// How many decisions an agent takes in a row.
const ROUNDS: usize = 4;
/// Steps of a run that no case needs: a machine that goes round in a circle is stopped there.
const MOST_STEPS: u64 = 3_000_000;

/// One agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agent {
    /// When it wakes.
    wakes_at: u64,
    /// When it should have.
    due: u64,
    slept_at: u64,
    relief: Relief,
    /// It is kept off its core while it holds what it decides by.
    is_kept: bool,
    /// It was woken meanwhile.
    was_called: bool,
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
    /// Those of them that a group of cores took alone.
    pub alone: u64,
    /// Those of these that changed more than one core.
    pub wide: u64,
    /// Samples of memory.
    pub samples: u64,
}

/// Groups of cores that decide alone, if there are any.
struct Groups {
    /// Their deciders.
    own: Vec<Decider>,
    /// By core the number of its group.
    of: Vec<usize>,
    /// By group: something happened on its cores that its decider has not seen.
    news: Vec<bool>,
    /// What stands in the decider of all is lent to those.
    is_lent: bool,
}

pub(super) struct Rig {
    shared: Rc<Shared>,
    /// That of all cores, with the host, which those of groups borrow.
    decider: Decider,
    groups: Groups,
    clients: Clients,
    agents: Vec<Agent>,
    audit: Audit,
    dice: Dice,
    unseen: bool,
    /// The core that goes off line, until it has come back.
    off_line: Option<usize>,
    until: u64,
    wakes: u64,
}

impl Rig {
    pub(super) fn new(
        case: &LiveCase,
        policy: Box<dyn Policy>,
        replay: Option<Box<dyn Policy>>,
    ) -> Self {
        let (system, faults) = (case.system(), case.faults);
        let mut world = World::new(system.cores.len(), Dice::new(case.seed));
        world.forks = faults.fork_one_in;
        world.reads = faults.samples || faults.meters != Meters::None;
        let shared = Rc::new(Shared {
            world: RefCell::new(world),
            faults,
            is_uneven: system.cores.iter().any(|core| core.class > 0),
            acting: Cell::new(0),
            calls: Cell::new(0),
            dead: Cell::new(false),
            is_willing: Cell::new(false),
            refused: Cell::new(0),
        });
        let cores = cores(case, &system, &shared);
        let mut dice = Dice::new(case.seed ^ 0xa6e7);
        let mut due = case.requests.clone();
        let starts =
            case.programs.iter().filter(|(id, _)| system.vcpus.iter().any(|it| it.id == **id));
        let starts = starts.map(|(id, program)| Ask::Start(*id, *program));
        due.extend(starts.map(|ask| Due { at: 1, ask }));
        let clients = Clients::new(due, Dice::new(case.seed ^ 0xc11e), faults.give_up_one_in);
        let agent = Agent {
            wakes_at: 0,
            due: 0,
            slept_at: 0,
            relief: Relief::default(),
            is_kept: false,
            was_called: false,
        };
        let off_line = dice.between(0, system.cores.len() as u64 - 1) as usize;
        let host = Around::new(Rc::clone(&shared), cores, replay);
        let mut decider = Decider::new(policy, &system, &[], host);
        let mut own = decider.of_groups(|_, _| Around::new(Rc::clone(&shared), Vec::new(), None));
        own.iter_mut().for_each(|own| own.plant(case.fault));
        let has = |own: &Decider, core| own.group().is_some_and(|cores| cores.contains(core));
        let group_of = |core| own.iter().position(|own| has(own, core));
        let of = system.core_ids().filter_map(group_of).collect();
        shared.world.borrow_mut().is_apart = !own.is_empty();
        Self {
            decider,
            groups: Groups { news: vec![false; own.len()], of, own, is_lent: false },
            shared,
            clients,
            agents: vec![agent; system.cores.len()],
            audit: Audit::new(case),
            dice,
            unseen: true,
            off_line: (faults.off_line_at != 0).then_some(off_line),
            until: case.until,
            wakes: 0,
        }
    }

    /// Plays to the end.
    pub(super) fn play(mut self) -> Result<Played, String> {
        let mut steps = 0;
        while let Some(core) = self.next_agent() {
            if self.shared.world.borrow().is_off_line(core) {
                return self.driven_off(core);
            }
            self.cycle(core)?;
            steps += 1;
            if steps > MOST_STEPS {
                return Err(format!("{steps} wakes of agents and no end"));
            }
            if self.shared.dead.get() {
                self.repair();
                return self.audit.end(&mut self.shared.world.borrow_mut()).map(|()| self.played());
            }
        }
        self.finish()
    }

    fn played(&self) -> Played {
        Played {
            digest: self.told().digest,
            wakes: self.wakes,
            decisions: self.told().decisions,
            alone: self.told().alone,
            wide: self.told().wide,
            calls: self.shared.calls.get(),
            refused: self.shared.refused.get(),
            samples: self.told().samples,
        }
    }
    const fn told(&self) -> &super::around::Told {
        &self.decider.host.told
    }
    fn core(&mut self, core: usize) -> &mut Core<SimCore> {
        &mut self.decider.host.cores[core]
    }

    /// Lets the threads run until an agent wakes; which one. `None` where the run is over.
    fn next_agent(&mut self) -> Option<usize> {
        loop {
            let places = 0..self.agents.len();
            let core = places.min_by_key(|core| self.agents[*core].wakes_at)?;
            let others = self.clients.next_due().min(self.hotplug_due());
            let mut world = self.shared.world.borrow_mut();
            let at = self.agents[core].wakes_at.max(world.now);
            if at.min(others) >= self.until {
                return None;
            }
            let to = if others > world.now { at.min(others) } else { world.now };
            world.run_until(to);
            let now = world.now;
            drop(world);
            self.hotplug(now);
            if self.clients.act(&mut self.decider.host, now) {
                self.ring(0);
                self.shared.world.borrow_mut().mail = true;
            }
            if !self.answer_calls(now) && now >= at && self.agents[core].wakes_at <= now {
                return Some(core);
            }
        }
    }

    /// Wakes the agent of a core.
    fn ring(&mut self, core: usize) {
        let mut world = self.shared.world.borrow_mut();
        let now = world.now;
        world.cpus[core].called.get_or_insert(now);
    }

    /// An agent calls that of another core, which takes a call of each.
    fn call(&mut self, core: CoreId) {
        (0..2).for_each(|_| count(LiveCall::Other));
        self.ring(usize::from(core.0));
    }

    /// Those that were called will wake. Whether any of them will earlier than it would have.
    fn answer_calls(&mut self, now: u64) -> bool {
        let mut is_called = false;
        for place in 0..self.agents.len() {
            let mut world = self.shared.world.borrow_mut();
            let Some(called) = world.cpus[place].called.take() else { continue };
            if self.agents[place].is_kept {
                self.agents[place].was_called = true;
                continue;
            }
            let latency = world.dice.between(1, self.shared.faults.wake * 2);
            let agent = &mut self.agents[place];
            if now + latency < agent.wakes_at {
                agent.wakes_at = now + latency;
                is_called = true;
            }
            agent.due = agent.due.min(called);
        }
        is_called
    }

    /// When a core goes off line or comes back.
    fn hotplug_due(&self) -> u64 {
        let faults = &self.shared.faults;
        match self.off_line {
            Some(core) if self.shared.world.borrow().is_off_line(core) => {
                faults.off_line_at + faults.off_line_for
            }
            Some(_) => faults.off_line_at,
            None => super::world::NEVER,
        }
    }

    fn hotplug(&mut self, now: u64) {
        let (Some(core), true) = (self.off_line, self.hotplug_due() <= now) else { return };
        let mut world = self.shared.world.borrow_mut();
        let comes_back = world.is_off_line(core);
        world.set_off_line(core, !comes_back);
        self.off_line = self.off_line.filter(|_| !comes_back);
    }

    /// An agent wakes, looks, decides, sleeps; or goes on, once it has its core again.
    fn cycle(&mut self, place: usize) -> Result<(), String> {
        let id = CoreId(place as u16);
        self.shared.acting.set(place);
        match std::mem::take(&mut self.agents[place].is_kept) {
            true => self.consult(id, None)?,
            false => self.look(place)?,
        }
        if self.agents[place].is_kept {
            return Ok(());
        }
        self.audit.answered(&self.shared, &self.decider)?;
        if !self.unseen && !self.has_news(place) && !self.shared.dead.get() {
            Audit::presumed(self.core(place))?;
        }
        let (now, due) = machine(|| self.core(place).sleep());
        let (now, due) = (now.ticks(), due.ticks());
        self.audit.sleeps(id, &self.shared, &self.decider, now, due)?;
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
        let was_called = std::mem::take(&mut agent.was_called);
        self.shared.world.borrow_mut().set_agent(place, false);
        if was_called {
            self.ring(place);
        }
        Ok(())
    }

    /// An agent looks after its core, and decides.
    fn look(&mut self, place: usize) -> Result<(), String> {
        self.wakes += 1;
        let id = CoreId(place as u16);
        self.shared.world.borrow_mut().set_agent(place, true);
        let (births, crossed, mail, done) = {
            let mut world = self.shared.world.borrow_mut();
            let crossed = std::mem::take(&mut world.cpus[place].crossed);
            let done = std::mem::take(&mut world.cpus[place].done);
            let mail = place == 0 && std::mem::take(&mut world.mail);
            let news = world.groups.iter_mut().filter(|it| it.core == place && it.listened);
            let news = news.filter_map(|it| std::mem::take(&mut it.news).then_some(it.id));
            (news.collect::<Vec<_>>(), crossed, mail, done)
        };
        self.befall(place);
        let agent = self.agents[place];
        count(LiveCall::Clock);
        let now = self.shared.now();
        let late = now.ticks().saturating_sub(agent.due);
        let core = &mut self.decider.host.cores[place];
        self.audit.wakes(core, &mut self.shared.world.borrow_mut(), late)?;
        wakes();
        let news = machine(|| core.enforce(now, &births, crossed, Some(agent.relief)));
        self.audit.enforced(core, &self.shared)?;
        self.unseen |= mail;
        match self.groups.is_lent {
            true => self.groups.news[self.groups.of[place]] |= news || done,
            false => self.unseen |= news || done,
        }
        self.consult(id, Some(now))
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

    /// Whether something happened that the decider of a core's group has not seen.
    fn has_news(&self, core: usize) -> bool {
        self.groups.of.get(core).is_some_and(|group| self.groups.news[*group])
    }

    fn consult(&mut self, core: CoreId, mut woke: Option<Instant>) -> Result<(), String> {
        let place = usize::from(core.0);
        for _ in 0..ROUNDS {
            if self.unseen {
                // The agent that holds what all decide by looks again.
                if self.agents.iter().any(|agent| agent.is_kept) {
                    return Ok(());
                }
                self.round_for_all(core, woke.take())?;
            } else if self.has_news(place) {
                // So does the one that holds what its group decides by.
                let of_group = self.agents.iter().zip(&self.groups.of);
                let mut of_group = of_group.filter(|(_, group)| **group == self.groups.of[place]);
                if of_group.any(|(agent, _)| agent.is_kept) {
                    return Ok(());
                }
                self.round_alone(core, woke.take());
                if self.agents[place].is_kept {
                    return self.replayed();
                }
            } else {
                return Ok(());
            }
            self.replayed()?;
            self.followed()?;
        }
        match self.unseen {
            true => self.ring((place + 1) % self.agents.len()),
            false if self.has_news(place) => self.ring(self.next_of_group(place)),
            false => {}
        }
        Ok(())
    }

    /// The next core of the same group.
    fn next_of_group(&self, core: usize) -> usize {
        let cores = self.groups.of.len();
        let mut next = (1..=cores).map(|step| (core + step) % cores);
        next.find(|next| self.groups.of[*next] == self.groups.of[core]).unwrap_or(core)
    }

    /// Every core has the run queue of the plan of the decider that decides for it.
    fn followed(&self) -> Result<(), String> {
        for core in &self.decider.host.cores {
            let plan = match self.groups.is_lent {
                true => self.groups.own[self.groups.of[usize::from(core.id.0)]].plan(),
                false => self.decider.plan(),
            };
            if core.run_queue != *plan.run_queue(core.id) {
                return Err(format!("{} does not follow what was decided for it", core.id));
            }
        }
        Ok(())
    }

    fn round_for_all(&mut self, core: CoreId, woke: Option<Instant>) -> Result<(), String> {
        self.unseen = false;
        self.groups.news.fill(false);
        self.take_back();
        let called = machine(|| self.decider.round(core, woke));
        self.unseen |= !called.is_empty();
        called.iter().for_each(|core| self.call(core));
        let now = self.shared.world.borrow().now;
        if !self.shared.dead.get() && self.clients.learn(&mut self.decider.host, now)? {
            self.ring(0);
            self.shared.world.borrow_mut().mail = true;
        }
        if called.is_empty() && !self.groups.own.is_empty() && self.decider.can_lend() {
            self.groups.own.iter_mut().for_each(|own| self.decider.lend(own));
            self.groups.is_lent = true;
        }
        Ok(())
    }

    /// The policy of all cores, told what the journal says, decided the same.
    fn replayed(&mut self) -> Result<(), String> {
        self.decider.host.differs.take().map_or(Ok(()), Err)
    }

    fn take_back(&mut self) {
        if std::mem::take(&mut self.groups.is_lent) {
            self.groups.own.iter_mut().for_each(|own| self.decider.take_back(own));
        }
    }

    /// The agent of a core decides for its group alone; it may be kept off the core meanwhile.
    fn round_alone(&mut self, core: CoreId, woke: Option<Instant>) {
        let place = usize::from(core.0);
        let group = self.groups.of[place];
        self.groups.news[group] = false;
        let own = &mut self.groups.own[group];
        std::mem::swap(&mut self.decider.host, &mut own.host);
        own.host.own = own.group().copied();
        let called = machine(|| own.round(core, woke));
        own.host.own = None;
        std::mem::swap(&mut self.decider.host, &mut own.host);
        self.groups.news[group] |= !called.is_empty();
        called.iter().for_each(|core| self.call(core));
        let faults = self.shared.faults;
        if faults.kept_one_in != 0 && self.dice.one_in(faults.kept_one_in) {
            let now = self.shared.world.borrow().now;
            self.agents[place].is_kept = true;
            self.agents[place].wakes_at = now + self.dice.between(1, faults.kept);
        }
    }

    /// An agent wakes elsewhere, since its core is off line: what was there is taken down, and the
    /// run ends.
    fn driven_off(mut self, core: usize) -> Result<Played, String> {
        let by = |vcpu: &super::host::SimVcpu| vcpu.freeze(true);
        self.core(core).take_down(by);
        self.shared.world.borrow_mut().set_off_line(core, false);
        self.finish()
    }

    /// The orderly end: the meters once more, then every VCPU is let go.
    fn finish(mut self) -> Result<Played, String> {
        (0..self.agents.len())
            .for_each(|place| self.shared.world.borrow_mut().set_agent(place, true));
        self.shared.is_willing.set(true);
        self.take_back();
        self.decider.finish(Duration::ZERO);
        self.replayed()?;
        self.audit.conserved(&mut self.decider, &self.shared)?;
        self.shared.is_willing.set(false);
        let attached: Vec<_> = self
            .decider
            .host
            .cores
            .iter()
            .flat_map(|it| &it.vcpu_handles)
            .map(|it| it.handle.group)
            .collect();
        for place in 0..self.agents.len() {
            for mut vcpu_handle in std::mem::take(&mut self.core(place).vcpu_handles) {
                // What is refused now is the guardian's to set right.
                let refused = vcpu_handle.release().is_err();
                if refused {
                    self.audit.left_to_guardian();
                }
            }
        }
        // The supervisor ends what was started and never attached.
        let mut world = self.shared.world.borrow_mut();
        (0..world.groups.len())
            .filter(|it| !attached.contains(it))
            .for_each(|it| world.end_group(it));
        drop(world);
        if self.audit.is_left() || self.shared.dead.get() {
            self.repair();
        }
        let reliefs = self.agents.iter().map(|agent| u64::from(agent.relief.count)).sum();
        self.audit.bounded(self.wakes, self.until, reliefs, &self.decider)?;
        self.audit.end(&mut self.shared.world.borrow_mut())?;
        Ok(self.played())
    }

    /// The guardian repairs; where it is killed meanwhile, `clean` does so from the beginning.
    fn repair(&mut self) {
        let steps = match self.shared.faults.guardian_dies_at {
            0 => u64::MAX,
            step => step,
        };
        if !repair(&mut self.shared.world.borrow_mut(), steps) {
            repair(&mut self.shared.world.borrow_mut(), u64::MAX);
        }
    }
}

/// The cores of a case.
fn cores(case: &LiveCase, system: &System, shared: &Rc<Shared>) -> Vec<Core<SimCore>> {
    let faults = &case.faults;
    let cost = WakeCost { p50: ns(faults.wake), p99: ns(faults.wake * 4) };
    let by_vcpu = matches!(faults.meters, Meters::Vcpus | Meters::Both);
    let counts = Counts { reads: by_vcpu, references: by_vcpu };
    let core = |core: usize| {
        let exec = SimCore { shared: Rc::clone(shared), core };
        let mut state = Core::new(CoreId(core as u16), exec, Means::FULL, cost);
        state.fault = case.fault;
        if system.cores[core].class > 0 {
            state.share = Rate::new(faults.share_milli, 1000);
            shared.world.borrow_mut().cpus[core].share_milli = faults.share_milli;
        }
        shared.unreported(|| state.sense(counts));
        state
    };
    (0..system.cores.len()).map(core).collect()
}

/// What the guardian does after the runtime's death, station by station, while threads go on and
/// make others. Whether it came to its end in so many steps.
fn repair(world: &mut World, mut steps: u64) -> bool {
    let mut step = || {
        steps = steps.saturating_sub(1);
        steps > 0
    };
    (0..world.cpus.len()).for_each(|core| world.set_agent(core, false));
    for repair in Protocol::REAL.repair {
        world.now += 500_000;
        world.bring_all();
        let places = match repair {
            Repair::Demote => 0..world.threads.len(),
            Repair::Thaw | Repair::Kill => 0..world.groups.len(),
            Repair::Freeze | Repair::MoveBack | Repair::RemoveGroups | Repair::Forget => 0..0,
        };
        for place in places {
            if !step() {
                return false;
            }
            match repair {
                Repair::Demote => _ = world.set_level(World::tid(place), 0),
                Repair::Thaw => world.ask_freezer(place, false, 0),
                Repair::Kill => world.end_group(place),
                Repair::Freeze | Repair::MoveBack | Repair::RemoveGroups | Repair::Forget => {}
            }
        }
    }
    world.bring_all();
    true
}

const fn ns(n: u64) -> Duration {
    Duration::from_nanos(n)
}
