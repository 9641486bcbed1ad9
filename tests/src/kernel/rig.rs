//! Plays one case: programs on the simulated kernel, clients that ask for something, and the thread
//! that decides, which wakes when it is due or when the kernel has news for it, if late.

use super::audit::{self, Told};
use super::seam::{Answer, Around, Decider, Group, Request, TwinKernel};
use super::world::{World, instant};
use super::{Ask, Due, KernelCase, KernelPlayed, Program};
use crate::{Auditor, Dice};
use maracas_core::contract::Policy;
use maracas_core::{CoreId, Duration, Plan, System, VcpuId};
use maracas_live_core::{Ended, KernelCore, Refusal, VcpuHandle};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

/// Decisions at one instant that no case needs: a machine that goes round in a circle is stopped.
const MOST_ROUNDS: u32 = 200;
/// How soon it is noticed that an event was lost, in nanoseconds.
const TENDED: u64 = 5_000_000;
/// How long starting a program takes at most, in nanoseconds.
const START: u64 = 2_000_000;

type Waiting<T> = Rc<RefCell<Option<T>>>;
/// A VCPU that was asked for, the program to be started in it, and the verdict.
type Created = (VcpuId, Program, Waiting<Result<CoreId, Refusal>>);

pub(super) struct Rig {
    world: Rc<RefCell<World>>,
    decider: Decider,
    due: Vec<Due>,
    created: Vec<Created>,
    ended: Vec<(VcpuId, Waiting<Ended<Around>>)>,
    dice: Dice,
    late: u64,
    until: u64,
    tended: u64,
}

impl Rig {
    pub(super) fn new(
        case: &KernelCase,
        program: &Path,
        [policy, replay]: [Box<dyn Policy>; 2],
        system: &System,
        auditor: Option<Auditor>,
    ) -> Self {
        let ids = system.vcpus.iter().map(|vcpu| vcpu.id.0 as usize + 1).max().unwrap_or(0);
        let counts = [system.cores.len(), ids + case.requests.len()];
        let world = World::new(program, counts, case.faults, case.mistake, case.seed);
        let world = Rc::new(RefCell::new(world));
        let core =
            |core: CoreId| KernelCore::new(core, TwinKernel { world: Rc::clone(&world), core });
        let told = Told::new(auditor, system);
        let around = Around {
            world: Rc::clone(&world),
            cores: system.core_ids().map(core).collect(),
            posted: Vec::new(),
            told,
            replay: (replay, Plan::new(system.cores.len())),
        };
        let mut dice = Dice::new(case.seed ^ 0xa6e7);
        let mut due = case.requests.clone();
        for (id, program) in &case.programs {
            let at = if case.faults.starts == 0 { 0 } else { dice.between(0, case.faults.starts) };
            due.push(Due { at, ask: Ask::Start(*id, *program) });
        }
        Self {
            world,
            decider: Decider::new(policy, system, &[], around),
            due,
            created: Vec::new(),
            ended: Vec::new(),
            dice,
            late: case.faults.late,
            until: case.until,
            tended: 0,
        }
    }

    fn now(&self) -> u64 {
        self.world.borrow().now
    }

    /// When the thread that decides is to look.
    fn looks_at(&mut self) -> Option<u64> {
        let has_news = self.world.borrow().has_news || !self.world.borrow().done.is_empty();
        let now = self.now();
        let host = &mut self.decider.host;
        if has_news || !host.posted.is_empty() {
            return Some(now);
        }
        let mut due = u64::MAX;
        for core in &mut host.cores {
            due = due.min(core.due().ok()?.ticks());
        }
        Some(due.max(now))
    }

    /// Plays to the end.
    pub(super) fn play(mut self) -> Result<KernelPlayed, String> {
        let mut decides_at = 0;
        while self.now() < self.until {
            let now = self.now();
            self.ask(now);
            if now >= self.tended + TENDED {
                self.tended = now;
                if self.world.borrow().lost > 0 {
                    return self.finish(true);
                }
            }
            // It was refused that the kernel follows what was decided: the run ends with that.
            let Some(due) = self.looks_at() else { return self.refused() };
            if self.late > 0 {
                decides_at = decides_at.min(due.saturating_add(self.late));
            } else {
                decides_at = due;
            }
            if now >= decides_at {
                if !self.decide()? {
                    return self.refused();
                }
                let Some(due) = self.looks_at() else { return self.refused() };
                let late = if self.late == 0 { 0 } else { self.dice.between(0, self.late) };
                decides_at = due.saturating_add(late);
                // Late decisions are not taken one after the other without end.
                if self.late > 0 {
                    decides_at = decides_at.max(now + 1);
                }
            }
            let asked = self.due.iter().map(|due| due.at).min().unwrap_or(u64::MAX);
            let change = self.world.borrow().next_change();
            let next = change.min(asked).min(decides_at).min(self.until).max(now);
            if next > now {
                self.world.borrow_mut().pass(next - now);
            } else if self.late > 0 || decides_at > now && asked > now {
                self.world.borrow_mut().pass(1);
            }
        }
        self.finish(false)
    }

    /// Decides until nothing at this instant is left to decide. False where the run is to end.
    fn decide(&mut self) -> Result<bool, String> {
        for _ in 0..MOST_ROUNDS {
            let now = self.now();
            self.world.borrow_mut().has_news = false;
            self.decider.round(CoreId(0), Some(instant(now)));
            audit::answered(&mut self.decider, &self.world.borrow())?;
            audit::enacted(&mut self.decider, &self.world.borrow())?;
            self.learn(now)?;
            for job in std::mem::take(&mut self.decider.host.told.released) {
                self.world.borrow_mut().release(&job);
            }
            self.world.borrow_mut().take_all();
            self.decider.host.told.verdict()?;
            match self.looks_at() {
                None => return Ok(false),
                Some(due) if due > now || self.late > 0 => return Ok(true),
                Some(_) => {}
            }
        }
        Err(format!("{MOST_ROUNDS} decisions at {} and no end", self.now()))
    }

    /// What is due is asked for.
    fn ask(&mut self, now: u64) {
        while let Some(at) = self.due.iter().position(|due| due.at <= now) {
            let Due { ask, .. } = self.due.remove(at);
            let world = Rc::clone(&self.world);
            let posted = &mut self.decider.host.posted;
            match ask {
                Ask::Start(vcpu, program) => {
                    self.world.borrow_mut().add(vcpu, program);
                    let handle = VcpuHandle::new(vcpu, Group { world, vcpu }, false);
                    posted.push(Request::Attach(Box::new(handle)));
                }
                Ask::Create(vcpu, program) => {
                    let reply = Rc::default();
                    self.created.push((vcpu.id, program, Rc::clone(&reply)));
                    let name = String::new();
                    posted.push(Request::Create { name, vcpu, reply: Answer(reply) });
                }
                Ask::Set(id, reservation) => {
                    self.world.borrow_mut().learnt.changed.insert(id);
                    let reply = Answer(Rc::default());
                    posted.push(Request::Set { id, reservation, reply });
                }
                Ask::Adopt(id, program) => {
                    self.world.borrow_mut().add(id, program);
                    posted.push(Request::Rescan(id));
                }
                Ask::Destroy(id) | Ask::Kill(id) => {
                    if matches!(ask, Ask::Kill(_)) {
                        self.world.borrow_mut().kill(id);
                    }
                    let reply = Rc::default();
                    self.ended.push((id, Rc::clone(&reply)));
                    posted.push(Request::Destroy { id, reply: Answer(reply) });
                }
                Ask::List => posted.push(Request::List { reply: Answer(Rc::default()) }),
            }
        }
    }

    /// Takes the answers to what was asked.
    fn learn(&mut self, now: u64) -> Result<(), String> {
        let mut started = Vec::new();
        self.created.retain(|(id, program, answer)| match answer.borrow_mut().take() {
            Some(Ok(_)) => {
                started.push((*id, *program));
                false
            }
            Some(Err(_)) => false,
            None => true,
        });
        for (id, program) in started {
            let at = now + self.dice.between(1, START);
            self.due.push(Due { at, ask: Ask::Start(id, program) });
        }
        for (id, answer) in std::mem::take(&mut self.ended) {
            let Some(answer) = answer.borrow_mut().take() else {
                return Err(format!("the end of {id} was not answered"));
            };
            // A program that was to be started in it is not.
            let starts = |due: &Due| matches!(due.ask, Ask::Start(other, _) if other == id);
            self.due.retain(|due| !starts(due));
            if let Ok(Some(handle)) = answer {
                audit::gone(handle.id, &self.world.borrow())?;
                self.world.borrow_mut().kill(handle.id);
            }
        }
        Ok(())
    }

    /// The run ends, since the kernel did not take what was decided.
    fn refused(self) -> Result<KernelPlayed, String> {
        if self.world.borrow().refused == 0 {
            return Err("the run ends and nothing was refused".into());
        }
        self.finish(true)
    }

    /// The run ends; `is_broken`: not in order.
    fn finish(mut self, is_broken: bool) -> Result<KernelPlayed, String> {
        self.world.borrow_mut().charge_reads();
        self.world.borrow_mut().say(|_, _| true);
        self.decider.finish(Duration::ZERO);
        self.decider.host.told.end();
        self.decider.host.told.verdict()?;
        let world = self.world.borrow();
        let told = &mut self.decider.host.told;
        audit::conserved(told, &world)?;
        let outcome = audit::outcome(told, &world);
        let auditor = told.auditor.take().filter(|_| !is_broken);
        auditor.map_or(Ok(()), |auditor| auditor.verdict(&outcome))?;
        Ok(KernelPlayed {
            digest: told.digest,
            decisions: told.counts.decisions,
            events: told.counts.events,
            jobs: told.counts.jobs[0],
            spendings: world.counted.spendings,
            reuses: world.lent.reuses,
            is_broken,
            late: told.lateness.worst(instant(world.now)),
        })
    }
}
