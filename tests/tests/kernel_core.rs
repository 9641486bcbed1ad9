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

use maracas_core::contract::{End, Mode, Observer, RunQueue};
use maracas_core::journal::{Note, Record};
use maracas_core::params::Params;
use maracas_core::{CoreId, Duration, Event, Instant, Job, Plan, System, Vcpu, VcpuId};
use maracas_live_core::{
    Decider, Host, Kernel, KernelCore, KernelEvent, Ran, Reply, Reported, Request, VcpuHandle,
};
use maracas_tests::Dice;
use maracas_tests::kernel::law::Twin;
use one_thread::OneThread;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io;
use std::ops::DerefMut;
use std::path::Path;
use std::rc::Rc;

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

/// What a core holds, and since when.
#[derive(Clone, Copy)]
struct Held {
    vcpu: VcpuId,
    mode: Mode,
    from: u64,
    /// Where its grant ends.
    until: u64,
}

/// The kernel: the law in C, and what it has said.
struct World {
    twin: Twin,
    /// What is left of a grant that is as good as spent.
    least: u64,
    now: u64,
    held: Vec<Option<Held>>,
    /// When what each core holds is spent.
    spent_at: Vec<u64>,
    meters: Vec<[u64; 2]>,
    run_queues: Vec<RunQueue>,
    reported: Reported,
    events: Vec<VecDeque<KernelEvent>>,
    /// VCPUs by thread.
    joined: BTreeMap<i32, VcpuId>,
    homes: BTreeMap<VcpuId, CoreId>,
    runnable: Vec<bool>,
}

impl World {
    fn new(program: &Path, cores: usize, vcpus: usize, least: u64) -> Self {
        Self {
            twin: Twin::start(program, cores, vcpus, least),
            least,
            now: 0,
            held: vec![None; cores],
            spent_at: vec![u64::MAX; cores],
            meters: vec![[0; 2]; vcpus],
            run_queues: vec![RunQueue::default(); cores],
            reported: Reported::default(),
            events: vec![VecDeque::new(); cores],
            joined: BTreeMap::new(),
            homes: BTreeMap::new(),
            runnable: vec![false; vcpus],
        }
    }

    /// One step of the law; what ended by it becomes events.
    fn step(&mut self, step: &str) {
        let said = self.twin.step(step);
        let (cores, vcpus) = said.split_at(self.held.len() * 6);
        for (meters, said) in self.meters.iter_mut().zip(vcpus.chunks(3)) {
            *meters = [said[0] as u64, said[1] as u64];
        }
        let mut on = Vec::new();
        for (core, said) in cores.chunks(6).enumerate() {
            let next = u32::try_from(said[0]).ok().map(VcpuId);
            let mode = if said[1] == 0 { Mode::Foreground } else { Mode::Background };
            on.extend(next);
            self.spent_at[core] = u64::try_from(said[3]).unwrap();
            let before = self.held[core];
            let end = end(said[2]);
            if let (Some(held), Some(end)) = (before, end) {
                let ran = self.segment(held, end);
                self.events[core].push_back(KernelEvent::Ran(ran));
            }
            let goes_on = before.filter(|it| end.is_none() && Some(it.vcpu) == next);
            let from = goes_on.map_or(self.now, |it| it.from);
            self.held[core] = next.map(|vcpu| {
                let until = self.limit(core, vcpu, mode);
                let meter = self.meters[vcpu.0 as usize][mode as usize];
                assert!(meter <= until, "{vcpu} has {meter} of {until} ns on core{core}");
                Held { vcpu, mode, from, until }
            });
        }
        let count = on.len();
        on.sort_unstable();
        on.dedup();
        assert_eq!(on.len(), count, "a VCPU is on two cores");
    }

    /// Where the grant ends of what a core runs.
    fn limit(&self, core: usize, vcpu: VcpuId, mode: Mode) -> u64 {
        let RunQueue { foreground, background, .. } = &self.run_queues[core];
        let grant = match mode {
            Mode::Foreground => foreground.iter().find(|grant| grant.vcpu == vcpu),
            Mode::Background => background.iter().find(|grant| grant.vcpu == vcpu),
        };
        grant.expect("what runs stands on the run queue").until.0.ticks()
    }

    fn segment(&mut self, held: Held, end: End) -> Ran {
        let Held { vcpu, mode, from, until } = held;
        let meter = Duration::from_ticks(self.meters[vcpu.0 as usize][mode as usize]);
        let until = Duration::from_ticks(until);
        let spent = (end == End::LimitReached).then_some(until);
        let service = self.reported.service(vcpu, mode, meter, spent);
        let [from, to] = [from, self.now].map(Instant::from_ticks);
        Ran { vcpu, mode, from, to, meter, service, until, end }
    }

    fn set_runnable(&mut self, vcpu: usize, is_runnable: bool) {
        if self.runnable[vcpu] == is_runnable {
            return;
        }
        self.runnable[vcpu] = is_runnable;
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
struct TwinKernel {
    world: Rc<RefCell<World>>,
    core: CoreId,
}

impl Kernel for TwinKernel {
    type Handle = OneThread;

    fn now(&self) -> Instant {
        Instant::from_ticks(self.world.borrow().now)
    }
    fn site(&self) {}
    fn next_event(&mut self) -> Option<KernelEvent> {
        self.world.borrow_mut().events[usize::from(self.core.0)].pop_front()
    }
    fn running(&mut self) -> io::Result<Option<Ran>> {
        let (mut world, core) = (self.world.borrow_mut(), usize::from(self.core.0));
        let held = world.held[core];
        Ok(held.map(|held| world.segment(held, End::Metered)))
    }
    fn meters(&mut self, vcpu: VcpuId) -> io::Result<[Duration; 2]> {
        Ok(self.world.borrow().meters[vcpu.0 as usize].map(Duration::from_ticks))
    }
    fn send(&mut self, run_queue: &RunQueue) -> io::Result<()> {
        let (core, mut world) = (usize::from(self.core.0), self.world.borrow_mut());
        let RunQueue { foreground, background, background_allowed, allowance } = run_queue;
        let (allowed, counts) =
            (u8::from(*background_allowed), [foreground.len(), background.len()]);
        let mut step = format!("q {core} {} {allowed} {} {}", allowance.0, counts[0], counts[1]);
        for grant in foreground.iter().chain(background) {
            let _ =
                write!(step, " {} {} {} 0", grant.vcpu.0, grant.until.0.ticks(), grant.memory.0);
        }
        world.run_queues[core].clone_from(run_queue);
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
        [late, least]: [u64; 2],
    ) -> Self {
        let entry = maracas_policies::all().find(|entry| entry.name == policy).unwrap();
        let built = (entry.build)(system, &Params::new()).unwrap();
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
        let spent = world.spent_at.iter().map(|at| at.saturating_sub(world.least));
        ends.chain(wakes).chain(spent).min().unwrap_or(u64::MAX)
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
    let mut rig = Rig::new(&program, "maracas", &quickstart(), &[Program::Busy; 4], [MS / 4, 0]);
    rig.play(1_200 * MS);
    let (meters, _) = rig.end();
    for (meters, due) in meters.iter().zip([2 * 120, 3 * 120, 4 * 60, 3 * 80]) {
        let (had, due) = (meters[0], due * MS);
        assert!(had <= due && had + 4 * MS >= due, "{had} of {due} ns");
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
