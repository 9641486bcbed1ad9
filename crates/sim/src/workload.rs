//! What VCPUs have to do: their programs' pieces of work, their jobs, and whether they can run.
//!
//! Pure state: it knows no cores and sends no events; the machine asks and reports.

mod demand;
mod locks;
mod readings;
mod script;

pub(crate) use demand::Releases;

use crate::arrivals;
use crate::locks::Locks;
use crate::rng::{Purpose, Stream};
use crate::script::ScriptedThreads;
use maracas_core::contract::Mode;
use maracas_core::{
    Arrival, Cost, Duration, Instant, Job, JobId, Program, Reservation, Short, System, Vcpu,
    VcpuId, Workload,
};
use std::collections::VecDeque;

/// "No program", "no VCPU", "no core".
pub(crate) const NONE: u32 = u32::MAX;

/// Where a VCPU stands with the policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Its first program has not arrived.
    Away,
    /// The policy was asked.
    Asking,
    /// Admitted, or there from the start.
    In,
    /// Refused, or gone.
    Out,
}

/// What a program is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not there: not yet, or no more.
    Away,
    /// There, but its VCPU is not admitted yet.
    Held,
    /// Waits for a job, an event or the end of its sleep.
    Blocked,
    /// Has a piece of work, `left` to go.
    Working,
    /// Improves its last result until the next release, for `left` at most.
    Improving,
}

/// One program at work.
#[derive(Clone, Debug)]
struct Thread {
    vcpu: u32,
    workload: Workload,
    state: State,
    /// Service until the end of the piece, while it is not the one that its VCPU runs.
    left: Duration,
    /// Pieces done of the VCPU's jobs.
    done: u32,
    /// Outside events not yet worked off.
    queued: u32,
    costs: Stream,
    gaps: Stream,
}

/// One VCPU's demand and meters.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// What was promised, and how jobs arrive.
    pub(crate) vcpu: Vcpu,
    pub(crate) standing: Standing,
    /// The program that runs when the VCPU does; `NONE` = the VCPU is blocked.
    current: u32,
    /// Its service until the end of its piece.
    left: Duration,
    /// Programs that wait for `current` to block, in order.
    waiting: VecDeque<u32>,
    threads: Vec<u32>,
    /// Programs that have not departed.
    staying: u32,
    meters: [Duration; 2],
    /// Reads of memory, in any mode and on any core.
    pub(crate) memory: u64,
    releasing: bool,
    released: u32,
    completed: u32,
    /// Deadlines of the jobs released and not completed.
    pending: Short<Instant>,
    releases: Releases,
    /// The core that it runs on; `NONE` = waits.
    pub(crate) on: u32,
    /// The core that it ran on last.
    pub(crate) last: u32,
    /// The core on whose run queue it was last seen.
    pub(crate) run_queue: u32,
    /// The turn in which it woke last ([`Demands::turn`]); 0 = never.
    woke: u64,
    /// A wake not yet reported: on whose behalf it was.
    pub(crate) hidden: Option<Option<VcpuId>>,
}

/// All VCPUs and programs.
pub(crate) struct Demands {
    vcpus: Vec<Demand>,
    threads: Vec<Thread>,
    /// One more than how often the policy was asked: it is told of all wakes before.
    pub(crate) turn: u64,
    /// What threads with scripts are about.
    scripted: Option<Box<ScriptedThreads>>,
    /// What their jobs share.
    pub(crate) locks: Option<Box<Locks>>,
}

/// What follows when a program's next timer is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// It has work; it wakes its VCPU.
    Works,
    /// Its first outside event comes then.
    Event(Instant),
    /// The VCPU's first job for it is released then.
    Release(Instant),
    /// Its VCPU releases jobs already; the next one is its first.
    Waits,
    /// What follows is among the effects.
    Acts,
}

/// What follows when the current piece of a VCPU is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Done {
    /// Nothing but what the VCPU itself shows.
    Plain,
    /// This job is complete, whose deadline is given.
    Completed(JobId, Instant),
    /// It counts towards a job.
    Job,
    /// The program (given) sleeps until then.
    Sleep(u32, Instant),
    /// It was a service request.
    ServiceRequest,
    /// What follows is among the effects.
    Acts,
}

impl Demands {
    pub(crate) fn new(system: &System, programs: &[Program], seed: u64) -> Self {
        let count = system.vcpus.iter().map(|vcpu| vcpu.id.0 + 1).max().unwrap_or(0);
        let unused = Vcpu::new(0, Duration::ZERO, Duration::from_ticks(1));
        let ns = system.ticks_per_ns;
        let absent =
            |id| Demand::new(&Vcpu { id: VcpuId(id), ..unused.clone() }, Standing::Out, ns, seed);
        let mut vcpus: Vec<_> = (0..count).map(absent).collect();
        let arrivals = arrivals(programs);
        let mut known = vec![false; count as usize];
        for vcpu in &system.vcpus {
            assert!(!vcpu.reservation.period.is_zero(), "{} has a period of zero", vcpu.id);
            let there = arrivals.get(&vcpu.id).is_none_or(|at| *at == Instant::ZERO);
            known[vcpu.id.0 as usize] = true;
            let standing = if there { Standing::In } else { Standing::Away };
            let demand = &mut vcpus[vcpu.id.0 as usize];
            *demand = Demand::new(vcpu, standing, ns, seed);
        }
        let mut threads = Vec::with_capacity(programs.len());
        for (id, program) in programs.iter().enumerate() {
            let known = known.get(program.vcpu.0 as usize).is_some_and(|known| *known);
            assert!(known, "program {id} runs on {}, which is not in the system", program.vcpu);
            let demand = &mut vcpus[program.vcpu.0 as usize];
            assert!(
                !program.workload.has_jobs() || demand.vcpu.arrival != Arrival::None,
                "program {id} works on jobs, but {} releases none",
                program.vcpu
            );
            threads.push(Thread::new(program, demand.threads.len() as u32, seed));
            demand.threads.push(id as u32);
            demand.staying += u32::from(program.arrive < program.depart);
        }
        for demand in vcpus.iter_mut().filter(|demand| demand.carries()) {
            let id = demand.vcpu.id;
            assert!(
                demand.threads.is_empty(),
                "{id} carries service requests and can run no program"
            );
            demand.threads.push(threads.len() as u32);
            threads.push(Thread::new(&Program::new(id, Workload::Busy), 0, seed));
            threads[demand.threads[0] as usize].state = State::Blocked;
        }
        let locks = system.resources.as_ref().map(|it| Box::new(Locks::new(system, it)));
        Self { vcpus, threads, turn: 1, scripted: None, locks }
    }

    #[inline]
    pub(crate) fn of(&self, vcpu: u32) -> &Demand {
        &self.vcpus[vcpu as usize]
    }
    #[inline]
    pub(crate) fn of_mut(&mut self, vcpu: u32) -> &mut Demand {
        &mut self.vcpus[vcpu as usize]
    }
    /// The demand of a VCPU that a plan names; `None` where the system has no such VCPU.
    #[inline]
    pub(crate) fn get_mut(&mut self, vcpu: VcpuId) -> Option<&mut Demand> {
        self.vcpus.get_mut(vcpu.0 as usize)
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Demand> {
        self.vcpus.iter()
    }
    pub(crate) const fn len(&self) -> usize {
        self.vcpus.len()
    }
    pub(crate) fn vcpu_of(&self, thread: u32) -> u32 {
        self.threads[thread as usize].vcpu
    }

    /// Service until the end of the current piece of a runnable VCPU.
    #[inline]
    pub(crate) fn left(&self, vcpu: u32) -> Duration {
        self.of(vcpu).left
    }
    /// A VCPU ran for `time` and did `work`.
    #[inline]
    pub(crate) fn serve(&mut self, vcpu: u32, mode: Mode, time: Duration, work: Duration) {
        let demand = &mut self.vcpus[vcpu as usize];
        demand.meters[mode as usize] += time;
        if demand.left != Duration::MAX {
            demand.left = demand.left.saturating_sub(work);
        }
    }

    /// A program arrives. Returns whether its VCPU asks for admission now.
    pub(crate) fn arrive(&mut self, thread: u32) -> bool {
        let demand = &mut self.vcpus[self.threads[thread as usize].vcpu as usize];
        if demand.standing == Standing::Out {
            return false;
        }
        self.threads[thread as usize].state = State::Held;
        let first = demand.standing == Standing::Away;
        if first {
            demand.standing = Standing::Asking;
        }
        first
    }
    /// The program of a runnable VCPU that runs when the VCPU does.
    #[inline]
    pub(crate) fn current(&self, vcpu: u32) -> u32 {
        self.of(vcpu).current
    }
    /// Sends a service VCPU that waits for one on a service request.
    pub(crate) fn send(&mut self, service_vcpu: u32, work: Duration) {
        let thread = self.of(service_vcpu).threads[0];
        self.threads[thread as usize].left = work.max(Duration::from_ticks(1));
        self.enqueue(thread);
    }
    /// The next program of an admitted VCPU that arrived and has not started.
    pub(crate) fn held(&self, vcpu: u32) -> Option<u32> {
        let threads = self.of(vcpu).threads.iter().copied();
        threads.into_iter().find(|thread| self.threads[*thread as usize].state == State::Held)
    }
    /// Starts a held program of an admitted VCPU.
    pub(crate) fn start(&mut self, thread: u32, now: Instant) -> Start {
        let Thread { vcpu, workload, .. } = self.threads[thread as usize];
        let own = &mut self.threads[thread as usize];
        own.state = State::Blocked;
        match workload {
            Workload::Busy => {
                own.left = Duration::MAX;
                self.enqueue(thread);
                Start::Works
            }
            Workload::RunSleep { run, .. } => {
                own.left = own.costs.draw(run);
                self.enqueue(thread);
                Start::Works
            }
            Workload::EventDriven { every, .. } => {
                Start::Event(now.saturating_add(own.gaps.draw(every)))
            }
            Workload::Script => {
                self.scripted().start(thread, now);
                Start::Acts
            }
            Workload::Periodic { .. } | Workload::Anytime { .. } => {
                let demand = &mut self.vcpus[vcpu as usize];
                own.done = demand.released;
                if demand.releasing {
                    return Start::Waits;
                }
                demand.releasing = true;
                let period = demand.vcpu.reservation.period;
                Start::Release(now.saturating_add(demand.releases.first(period)))
            }
        }
    }

    /// A program has a piece of work.
    #[inline]
    fn enqueue(&mut self, thread: u32) {
        let own = &mut self.threads[thread as usize];
        own.state = State::Working;
        let demand = &mut self.vcpus[own.vcpu as usize];
        if demand.current == NONE {
            (demand.current, demand.left) = (thread, own.left);
            demand.woke = self.turn;
        } else {
            demand.waiting.push_back(thread);
        }
    }
    /// The program that a VCPU runs has nothing to do: the next one goes on.
    #[inline]
    fn go_on(&mut self, vcpu: u32) {
        let demand = &mut self.vcpus[vcpu as usize];
        demand.current = demand.waiting.pop_front().unwrap_or(NONE);
        if demand.current != NONE {
            demand.left = self.threads[demand.current as usize].left;
        }
    }

    /// Releases the next job at `now` and gives it to the programs. Returns the job and the next
    /// release; `None` where no program works on jobs any more.
    #[inline(always)] // By memory it would be read in wider words than it was stored: that stalls.
    pub(crate) fn release(&mut self, vcpu: u32, now: Instant) -> Option<(Job, Instant)> {
        let demand = &mut self.vcpus[vcpu as usize];
        let works = |thread: &u32| {
            let thread = &self.threads[*thread as usize];
            thread.workload.has_jobs() && thread.state != State::Away
        };
        let one_works = match &demand.threads[..] {
            [one] => works(one),
            all => all.iter().any(works),
        };
        if !one_works {
            demand.releasing = false;
            return None;
        }
        let id = demand.id_of(demand.released);
        let deadline = now.saturating_add(demand.vcpu.reservation.deadline);
        demand.released += 1;
        demand.pending.push_back(deadline);
        let period = demand.vcpu.reservation.period;
        let next = now.saturating_add(demand.releases.gap(period));
        if let [only] = demand.threads[..] {
            self.take_job(only);
        } else {
            for place in 0..demand.threads.len() {
                let thread = self.vcpus[vcpu as usize].threads[place];
                self.take_job(thread);
            }
        }
        Some((Job { id, release: now, deadline }, next))
    }

    /// A job was released: a program that waits for one, or improves its last result, begins.
    #[inline]
    fn take_job(&mut self, thread: u32) {
        let own = &mut self.threads[thread as usize];
        let (Workload::Periodic { cost } | Workload::Anytime { mandatory: cost, .. }) =
            own.workload
        else {
            return;
        };
        match own.state {
            State::Blocked => {
                own.left = own.costs.draw(cost);
                self.enqueue(thread);
            }
            State::Improving => {
                self.vcpus[own.vcpu as usize].left = own.costs.draw(cost);
                own.state = State::Working;
            }
            State::Away | State::Held | State::Working => {}
        }
    }

    /// A sleep ends or an outside event comes for a program. Returns on whose behalf, and when
    /// the next event comes, if this was one; `None` where the program is gone.
    pub(crate) fn wake(
        &mut self,
        thread: u32,
        now: Instant,
    ) -> Option<(Option<VcpuId>, Option<Instant>)> {
        let own = &mut self.threads[thread as usize];
        if own.state == State::Away {
            return None;
        }
        match own.workload {
            Workload::RunSleep { run, .. } => {
                own.left = own.costs.draw(run);
                self.enqueue(thread);
                Some((None, None))
            }
            Workload::EventDriven { every, cost, on_behalf } => {
                own.queued += 1;
                let next = now.saturating_add(own.gaps.draw(every));
                if own.state == State::Blocked {
                    own.left = own.costs.draw(cost);
                    self.enqueue(thread);
                }
                Some((on_behalf, Some(next)))
            }
            Workload::Script => {
                self.scripted().alarm(thread, now);
                None
            }
            Workload::Busy | Workload::Periodic { .. } | Workload::Anytime { .. } => None,
        }
    }

    /// The current piece of a VCPU is done: its program goes on with the next piece, or blocks
    /// and leaves the VCPU to the next program.
    pub(crate) fn finish(&mut self, vcpu: u32, now: Instant) -> Done {
        let demand = &mut self.vcpus[vcpu as usize];
        let thread = demand.current;
        let own = &mut self.threads[thread as usize];
        let (more, done) = match own.workload {
            Workload::Script => {
                self.scripted().worked(thread, now);
                return Done::Acts;
            }
            Workload::Busy if demand.carries() => (false, Done::ServiceRequest),
            Workload::Busy => (true, Done::Plain),
            Workload::RunSleep { sleep, .. } => {
                (false, Done::Sleep(thread, now.saturating_add(own.gaps.draw(sleep))))
            }
            Workload::EventDriven { cost, .. } => {
                own.queued -= 1;
                (own.next_piece(own.queued > 0, cost), Done::Plain)
            }
            Workload::Periodic { cost } => {
                own.done += 1;
                let more = own.next_piece(own.done < demand.released, cost);
                // A job of its only program is done with its piece.
                let is_only = demand.threads.len() == 1;
                let deadline = if is_only { demand.pending.pop_front() } else { None };
                let done = deadline.map_or(Done::Job, |deadline| {
                    demand.completed += 1;
                    Done::Completed(demand.id_of(own.done - 1), deadline)
                });
                (more, done)
            }
            Workload::Anytime { .. } if own.state == State::Improving => (false, Done::Plain),
            Workload::Anytime { mandatory, optional } => {
                own.done += 1;
                let more = own.next_piece(own.done < demand.released, mandatory);
                if !more && !optional.is_zero() {
                    own.state = State::Improving;
                    own.left = optional;
                }
                (more || !optional.is_zero(), Done::Job)
            }
        };
        if more {
            demand.left = own.left;
        } else {
            own.state = State::Blocked;
            self.go_on(vcpu);
        }
        done
    }

    /// The first job that every program has done, if it is not reported yet, and its deadline.
    #[inline]
    pub(crate) fn complete(&mut self, vcpu: u32) -> Option<(JobId, Instant)> {
        let demand = &mut self.vcpus[vcpu as usize];
        if demand.completed == demand.released {
            return None;
        }
        let done = |thread: &u32| {
            let own = &self.threads[*thread as usize];
            (own.workload.has_jobs() && own.state != State::Away).then_some(own.done)
        };
        let done = match &demand.threads[..] {
            [one] => done(one),
            all => all.iter().filter_map(done).min(),
        }?;
        if done == demand.completed {
            return None;
        }
        let deadline = demand.pending.pop_front()?;
        let id = demand.id_of(demand.completed);
        demand.completed += 1;
        Some((id, deadline))
    }

    /// Jobs that are released from now on have this reservation and cost.
    pub(crate) fn change(&mut self, vcpu: VcpuId, reservation: Reservation, new_cost: Cost) {
        let Some(demand) = self.vcpus.get_mut(vcpu.0 as usize) else { return };
        demand.vcpu.reservation = reservation;
        for thread in &demand.threads {
            if let Workload::Periodic { cost } = &mut self.threads[*thread as usize].workload {
                *cost = new_cost;
            }
        }
    }

    /// A program ends. Returns whether its VCPU leaves with it.
    pub(crate) fn depart(&mut self, thread: u32) -> bool {
        let own = &mut self.threads[thread as usize];
        own.state = State::Away;
        let demand = &mut self.vcpus[own.vcpu as usize];
        let vcpu = own.vcpu;
        demand.waiting.retain(|other| *other != thread);
        if demand.current == thread {
            self.go_on(vcpu);
        }
        let demand = &mut self.vcpus[vcpu as usize];
        demand.staying -= 1;
        let leaves = demand.staying == 0 && demand.standing != Standing::Out;
        if leaves {
            demand.standing = Standing::Out;
        }
        leaves
    }
}

impl Thread {
    fn new(program: &Program, place: u32, seed: u64) -> Self {
        let vcpu = program.vcpu.0;
        Self {
            vcpu,
            workload: program.workload,
            state: State::Away,
            left: Duration::ZERO,
            done: 0,
            queued: 0,
            costs: Stream::new(seed, Purpose::Cost, vcpu, place),
            gaps: Stream::new(seed, Purpose::Gap, vcpu, place),
        }
    }
    #[inline]
    fn next_piece(&mut self, more: bool, cost: Cost) -> bool {
        if more {
            self.left = self.costs.draw(cost);
        }
        more
    }
}
