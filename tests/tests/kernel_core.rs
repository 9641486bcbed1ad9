//! The core that the kernel carries the machine law out for (`maracas_live_core::KernelCore`),
//! under the decider and real policies, with the law in C in the kernel's place.
//!
//! Programs run, block and end their jobs; decisions come as late as a case says. The law in C
//! chooses and counts, as it does in the kernel; what it says becomes the events that the kernel
//! would send.

#[path = "../shared/bounds.rs"]
mod bounds;
#[path = "../shared/law.rs"]
mod law;
#[path = "../shared/one_thread.rs"]
mod one_thread;
#[path = "../shared/twin_kernel.rs"]
mod twin_kernel;

use maracas_core::contract::Observer;
use maracas_core::journal::{Note, Record};
use maracas_core::params::{Params, Value};
use maracas_core::{CoreId, Duration, Event, Instant, Job, Plan, System, Vcpu, VcpuId};
use maracas_live_core::{Decider, Host, KernelCore, Reply, Request, VcpuHandle};
use maracas_tests::Dice;
use one_thread::OneThread;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::DerefMut;
use std::path::Path;
use std::rc::Rc;
use twin_kernel::{TwinKernel, World};

/// How a VCPU's one thread behaves.
#[derive(Clone, Copy, Debug)]
enum Program {
    /// It never blocks.
    Busy,
    /// It runs and sleeps by turns, each for up to so many nanoseconds.
    Turns { run: u64, sleep: u64 },
    /// It does so much work for each release.
    Jobs { work: u64 },
}

/// Where an answer goes, and comes from.
struct Answer<T>(Rc<RefCell<Option<T>>>);

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
struct Around {
    world: Rc<RefCell<World>>,
    cores: Vec<KernelCore<TwinKernel>>,
    requests: Vec<Request<Self>>,
    released: Vec<Job>,
    /// Service that was reported, by VCPU and mode.
    service: BTreeMap<VcpuId, [u64; 2]>,
    failed: usize,
    /// How long dispatches took, in nanoseconds.
    dispatches: Vec<u64>,
}

impl Host for Around {
    type Handle = OneThread;
    type Core = KernelCore<TwinKernel>;
    type Reply<T> = Answer<T>;

    fn core(&mut self, core: CoreId) -> impl DerefMut<Target = Self::Core> {
        &mut self.cores[usize::from(core.0)]
    }
    fn now(&self) -> Instant {
        Instant::from_ticks(self.world.borrow().now)
    }
    fn take_requests(&mut self, into: &mut Vec<Request<Self>>) {
        into.append(&mut self.requests);
    }
    fn release(&mut self, job: &Job) {
        self.released.push(*job);
    }
    fn leave(&mut self, _: VcpuId, _: Option<Box<VcpuHandle<OneThread>>>) {}
    fn record(&mut self, record: &Record) {
        if let Record::Note { note: Note::Dispatch { latency_ns, .. }, .. } = record {
            self.dispatches.push(*latency_ns);
        }
    }
}

impl Observer for Around {
    fn event(&mut self, _: Instant, event: &Event) {
        if let Event::Ran(segment) = event {
            let had = &mut self.service.entry(segment.vcpu).or_default()[segment.mode as usize];
            *had += segment.usage.service.ticks();
        }
        self.failed += usize::from(matches!(event, Event::Failed { .. }));
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

/// A program at work.
#[derive(Clone, Debug)]
struct Worker {
    program: Program,
    /// What it does before it blocks; `u64::MAX` = it does not.
    left: u64,
    wakes_at: u64,
    jobs: VecDeque<Job>,
    /// Jobs that ended, and those that did so after their deadline.
    done: u64,
    missed: u64,
}

/// One case, played.
struct Rig {
    world: Rc<RefCell<World>>,
    decider: Decider<Around>,
    workers: Vec<Worker>,
    dice: Dice,
    /// A decision comes so late, at most, in nanoseconds.
    late: u64,
}

impl Rig {
    fn new(
        program: &Path,
        policy: &str,
        system: &System,
        programs: &[Program],
        late_least: [u64; 2],
    ) -> Self {
        Self::of(program, policy, system, programs, late_least, &[("ahead", Value::Flag(true))])
    }

    /// The same with what the policy takes of these parameters.
    fn of(
        program: &Path,
        policy: &str,
        system: &System,
        programs: &[Program],
        [late, least]: [u64; 2],
        given: &[(&str, Value)],
    ) -> Self {
        let entry = maracas_policies::all().find(|entry| entry.name == policy).unwrap();
        let mut params = Params::new();
        for (name, value) in given {
            if entry.params.iter().any(|spec| spec.name == *name) {
                params.set(name, value.clone());
            }
        }
        let built = (entry.build)(system, &params).unwrap();
        let (cores, vcpus) = (system.cores.len(), system.vcpus.len());
        let world = Rc::new(RefCell::new(World::new(program, cores, vcpus, least)));
        let core =
            |core: CoreId| KernelCore::new(core, TwinKernel { world: Rc::clone(&world), core });
        let attach = |vcpu: &Vcpu| {
            let handle = OneThread(vcpu.id.0 as i32 + 1);
            Request::Attach(Box::new(VcpuHandle::new(vcpu.id, handle, false)))
        };
        let around = Around {
            world: Rc::clone(&world),
            cores: system.core_ids().map(core).collect(),
            requests: system.vcpus.iter().take(programs.len()).map(attach).collect(),
            released: Vec::new(),
            service: BTreeMap::new(),
            failed: 0,
            dispatches: Vec::new(),
        };
        let worker = |program: &Program| Worker {
            program: *program,
            left: 0,
            wakes_at: if matches!(program, Program::Jobs { .. }) { u64::MAX } else { 0 },
            jobs: VecDeque::new(),
            done: 0,
            missed: 0,
        };
        Self {
            world,
            decider: Decider::new(built, system, &[], around),
            workers: programs.iter().map(worker).collect(),
            dice: Dice::new(7),
            late,
        }
    }

    /// When the decider is to look: at what it asked for, and soon after what happened.
    fn due(&mut self) -> u64 {
        let world = self.world.borrow();
        let waits = world.events.iter().any(|events| !events.is_empty());
        let host = &mut self.decider.host;
        let news = if waits || !host.requests.is_empty() { world.now } else { u64::MAX };
        let cores = host.cores.iter_mut().map(|core| core.due().unwrap().ticks());
        cores.min().unwrap_or(u64::MAX).min(news).max(world.now)
    }

    /// Plays so many nanoseconds.
    fn play(&mut self, until: u64) {
        let mut decides_at = 0;
        while self.world.borrow().now < until {
            let now = self.world.borrow().now;
            if now >= decides_at {
                self.decider.round(CoreId(0), None);
                self.begin_jobs();
                let late = if self.late == 0 { 0 } else { self.dice.between(0, self.late) };
                decides_at = self.due().max(now + 1).saturating_add(late);
            } else if self.late == 0 {
                decides_at = decides_at.min(self.due().max(now + 1));
            } else {
                decides_at = decides_at.min(self.due().saturating_add(self.late));
            }
            let next = self.next_change().min(decides_at).min(until).max(now + 1);
            self.pass(next - now);
        }
    }

    /// When a program blocks or wakes, or a budget is spent, at the earliest.
    fn next_change(&self) -> u64 {
        let world = self.world.borrow();
        let ends = world.held.iter().flatten().map(|held| self.workers[held.vcpu.0 as usize].left);
        let ends = ends.map(|left| world.now.saturating_add(left));
        let wakes = self.workers.iter().map(|worker| worker.wakes_at);
        // What is closer than `least` has come.
        let come = world.spent_at.iter().chain(&world.due).map(|at| at.saturating_sub(world.least));
        ends.chain(wakes).chain(come).min().unwrap_or(u64::MAX)
    }

    fn pass(&mut self, time: u64) {
        let mut world = self.world.borrow_mut();
        let held: Vec<_> = world.held.iter().flatten().map(|held| held.vcpu.0 as usize).collect();
        world.now += time;
        world.step(&format!("t {time}"));
        let now = world.now;
        for vcpu in held {
            let worker = &mut self.workers[vcpu];
            if worker.left != u64::MAX {
                worker.left = worker.left.saturating_sub(time);
            }
            if worker.left == 0
                && let Some(done) = worker.end_turn(now, &mut self.dice)
            {
                self.decider.host.requests.push(done);
            }
            world.set_runnable(vcpu, worker.left > 0);
        }
        for (vcpu, worker) in self.workers.iter_mut().enumerate() {
            if worker.wakes_at <= now && world.joined.contains_key(&(vcpu as i32 + 1)) {
                worker.wakes_at = u64::MAX;
                worker.left = worker.turn(&mut self.dice);
                world.set_runnable(vcpu, true);
            }
        }
    }

    /// Programs begin with the jobs that they were told of.
    fn begin_jobs(&mut self) {
        for job in std::mem::take(&mut self.decider.host.released) {
            let worker = &mut self.workers[job.id.vcpu.0 as usize];
            worker.jobs.push_back(job);
            if worker.left == 0 {
                worker.left = worker.turn(&mut self.dice);
                self.world.borrow_mut().set_runnable(job.id.vcpu.0 as usize, true);
            }
        }
    }

    /// The run ends; all that the meters read was reported, and nothing was refused.
    fn end(mut self) -> (Vec<[u64; 2]>, Vec<Worker>) {
        self.decider.finish(Duration::ZERO);
        let meters = self.world.borrow().meters.clone();
        for (vcpu, meters) in meters.iter().enumerate() {
            let reported = self.decider.host.service.get(&VcpuId(vcpu as u32));
            for (reported, had) in reported.copied().unwrap_or_default().iter().zip(meters) {
                let least = self.world.borrow().least;
                assert!((*had..=had + least).contains(reported), "{reported} of {had} ns");
            }
        }
        assert_eq!(self.decider.host.failed, 0);
        (meters, self.workers)
    }
}

impl Worker {
    fn turn(&self, dice: &mut Dice) -> u64 {
        match self.program {
            Program::Busy => u64::MAX,
            Program::Turns { run, .. } => dice.between(1_000, run),
            Program::Jobs { work } => work,
        }
    }

    /// It has done what it was at; what it says of that.
    fn end_turn(&mut self, now: u64, dice: &mut Dice) -> Option<Request<Around>> {
        match self.program {
            Program::Busy => None,
            Program::Turns { sleep, .. } => {
                self.wakes_at = now + dice.between(1_000, sleep);
                None
            }
            Program::Jobs { work } => {
                let job = self.jobs.pop_front()?;
                self.done += 1;
                self.missed += u64::from(now > job.deadline.ticks() + LOOK);
                self.left = if self.jobs.is_empty() { 0 } else { work };
                Some(Request::Completed { job: job.id, at: Instant::from_ticks(now) })
            }
        }
    }
}

const MS: u64 = 1_000_000;
/// What decisions cost a job that is in time to the very end: each comes a nanosecond after its
/// cause.
const LOOK: u64 = 1_000;

/// The law's program; `None` after a skip.
fn program(name: &str) -> Option<std::path::PathBuf> {
    law::compile(&law::folder(name))
}

fn vcpu(id: u32, budget_ms: u64, period_ms: u64) -> Vcpu {
    Vcpu::new(id, Duration::from_millis(budget_ms), Duration::from_millis(period_ms))
}

/// The quickstart's budgets.
fn quickstart() -> System {
    System::new(2, vec![vcpu(0, 2, 10), vcpu(1, 3, 10), vcpu(2, 4, 20), vcpu(3, 3, 15)])
}

#[test]
fn busy_programs_get_their_budgets_though_they_end_a_little_early() {
    let Some(program) = program("kernel-busy") else { return };
    let (periods, budgets) = (20, [2 * 6, 3 * 6, 4 * 3, 3 * 4]);
    for least in [0, 10_000] {
        let late_least = [0, least];
        let mut rig = Rig::new(&program, "maracas", &quickstart(), &[Program::Busy; 4], late_least);
        rig.play(periods * 60 * MS);
        let (meters, _) = rig.end();
        for (meters, due) in meters.iter().zip(budgets.map(|budget| budget * periods * MS)) {
            assert!((due - least..=due).contains(&meters[0]), "{} of {due} ns", meters[0]);
        }
        let whole: u64 = meters.iter().flatten().sum();
        assert!(whole > 2 * periods * 60 * MS * 999 / 1000, "no core idles: {whole} ns");
    }
}

/// What is first on a run queue and has spent its budget is not what a decision put there to run.
#[test]
fn a_dispatch_is_of_what_runs_then() {
    let Some(program) = program("kernel-dispatch") else { return };
    for least in [0, 10_000] {
        let mut rig = Rig::new(&program, "maracas", &quickstart(), &[Program::Busy; 4], [0, least]);
        rig.play(600 * MS);
        let dispatches = std::mem::take(&mut rig.decider.host.dispatches);
        rig.end();
        assert!(dispatches.len() > 100, "{}", dispatches.len());
        assert!(dispatches.iter().all(|latency| *latency <= LOOK), "{dispatches:?}");
    }
}

#[test]
fn decisions_that_come_late_cost_no_more_than_their_lateness() {
    let Some(program) = program("kernel-late") else { return };
    let (quickstart, busy, late_least) = (quickstart(), [Program::Busy; 4], [MS / 4, 0]);
    let mut rig = Rig::of(&program, "maracas", &quickstart, &busy, late_least, &[]);
    rig.play(1_200 * MS);
    let (meters, _) = rig.end();
    for (meters, due) in meters.iter().zip([2 * 120, 3 * 120, 4 * 60, 3 * 80]) {
        let (had, due) = (meters[0], due * MS);
        assert!(had <= due && had + 4 * MS >= due, "{had} of {due} ns");
    }
}

/// What comes next is there before its instant: no decision is needed then.
#[test]
fn grants_ahead_begin_at_their_instants_however_late_decisions_are() {
    let Some(program) = program("kernel-ahead") else { return };
    for least in [0, 10_000] {
        let (system, busy) = (quickstart(), [Program::Busy; 4]);
        let mut rig = Rig::new(&program, "maracas", &system, &busy, [37 * MS / 10, least]);
        // No decision is made at the very instant at which a budget comes back: neither where play
        // begins, nor 3.7 ms after one is spent.
        rig.play(59 * MS);
        for period in 1..20 {
            let begin = rig.world.borrow().meters.clone();
            rig.play((period * 60 + 59) * MS);
            let end = rig.world.borrow().meters.clone();
            for (vcpu, due) in [2 * 6, 3 * 6, 4 * 3, 3 * 4].into_iter().enumerate() {
                let had = end[vcpu][0] - begin[vcpu][0];
                assert!(had.abs_diff(due * MS) <= least, "vcpu{vcpu} had {had} ns of {due} ms");
            }
        }
        let dispatches = std::mem::take(&mut rig.decider.host.dispatches);
        rig.end();
        assert!(dispatches.len() > 100, "{}", dispatches.len());
        assert!(dispatches.iter().all(|latency| *latency <= LOOK), "{dispatches:?}");
    }
}

/// Of programs that say nothing of jobs.
#[test]
fn jobs_that_are_cut_begin_at_their_instants_too() {
    let Some(program) = program("kernel-cut") else { return };
    for policy in ["p-edf", "p-rm"] {
        let system = System::new(1, vec![vcpu(0, 2, 10).periodic(), vcpu(1, 3, 30).periodic()]);
        let busy = [Program::Busy; 2];
        let given =
            [("ahead", Value::Flag(true)), ("enforcement", Value::Text("precise".to_string()))];
        let mut rig = Rig::of(&program, policy, &system, &busy, [2 * MS, 0], &given);
        // The first release is not known before.
        rig.play(19 * MS);
        rig.decider.host.dispatches.clear();
        let begin = rig.world.borrow().meters.clone();
        rig.play(619 * MS);
        let dispatches = std::mem::take(&mut rig.decider.host.dispatches);
        let (meters, _) = rig.end();
        assert_eq!(meters[0][0] - begin[0][0], 60 * 2 * MS, "{policy}");
        assert!(dispatches.len() >= 60, "{policy}: {dispatches:?}");
        assert!(dispatches.iter().all(|latency| *latency <= LOOK), "{policy}: {dispatches:?}");
    }
}

#[test]
fn jobs_are_done_in_time_under_policies_for_jobs() {
    let Some(program) = program("kernel-jobs") else { return };
    let set = [(2, 10), (3, 10), (4, 20), (5, 20), (6, 30), (3, 15)];
    let vcpus = set.iter().enumerate().map(|(id, (c, t))| vcpu(id as u32, *c, *t).periodic());
    let system = System::new(2, vcpus.collect());
    let programs = set.map(|(budget, _)| Program::Jobs { work: budget * MS });
    for policy in ["p-edf", "p-rm", "g-edf", "run", "u-edf"] {
        let mut rig = Rig::new(&program, policy, &system, &programs, [0, 0]);
        rig.play(600 * MS);
        for (worker, (_, period)) in rig.end().1.iter().zip(set) {
            let done = 600 / period;
            assert!((done - 1..=done).contains(&worker.done), "{policy}: {worker:?}");
            assert_eq!(worker.missed, 0, "{policy}: {worker:?}");
        }
    }
}

#[test]
fn programs_that_sleep_are_reported_to_the_nanosecond_under_any_policy() {
    let Some(program) = program("kernel-turns") else { return };
    let turns = |run, sleep| Program::Turns { run: run * MS, sleep: sleep * MS };
    let programs = [turns(1, 3), Program::Busy, turns(6, 2), turns(2, 9)];
    for (policy, late) in [("maracas", 0), ("maracas", MS), ("round-robin", 0)] {
        let mut rig = Rig::new(&program, policy, &quickstart(), &programs, [late, 0]);
        rig.play(400 * MS);
        let (meters, _) = rig.end();
        assert!(meters.iter().all(|it| it[0] + it[1] > 20 * MS), "{policy}: {meters:?}");
    }
}

#[test]
fn a_vcpu_that_ends_has_no_threads_left() {
    let Some(program) = program("kernel-ends") else { return };
    let mut rig = Rig::new(&program, "maracas", &quickstart(), &[Program::Busy; 4], [0, 0]);
    rig.play(30 * MS);
    assert_eq!(rig.world.borrow().joined.len(), 4);
    let (reply, list) = (Rc::default(), Rc::default());
    let requests = &mut rig.decider.host.requests;
    requests.push(Request::Destroy { id: VcpuId(1), reply: Answer(Rc::clone(&reply)) });
    requests.push(Request::List { reply: Answer(Rc::clone(&list)) });
    rig.play(31 * MS);
    let ended = reply.borrow_mut().take().expect("an answer");
    assert!(ended.is_ok_and(|handle| handle.is_some_and(|it| it.id == VcpuId(1))));
    assert!(rig.world.borrow().joined.values().all(|vcpu| *vcpu != VcpuId(1)));
    let list = list.borrow_mut().take().expect("an answer");
    let control = &list[0];
    assert_eq!((control.threads, control.foreground), (1, Duration::from_millis(6)));
    // What it leaves the others have, one of which moves for it.
    rig.play(130 * MS);
    assert_eq!(rig.world.borrow().homes[&VcpuId(2)], CoreId(0));
    let (meters, _) = rig.end();
    let whole: u64 = meters.iter().flatten().sum();
    assert!(whole > 259 * MS, "no core idles: {meters:?}");
}
