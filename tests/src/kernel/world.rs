//! The kernel of a simulated host: the law in C chooses and counts there, as it does inside the
//! kernel; what it says becomes events in a ring.
//!
//! Threads of a VCPU take turns on it. Which of them runs the law does not ask; when each has
//! something to run it learns as the scheduler's programs do.

use super::law::Twin;
use super::reads::Counted;
use super::slots::Lent;
use super::threads::Members;
use super::{KernelFaults, Mistake, Program};
use crate::Dice;
use maracas_core::contract::{End, Grant, Mode, RunQueue};
use maracas_core::{CoreId, Duration, Instant, Job, JobId, VcpuId};
use maracas_live_core::{KernelEvent, Ran, Reported};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// Not permitted (errno-base.h).
const EPERM: i32 = 1;

/// What a core holds, and since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) vcpu: VcpuId,
    /// By the kernel's own number of it.
    pub(super) number: u32,
    pub(super) mode: Mode,
    pub(super) from: u64,
    /// Where its grant ends.
    pub(super) until: u64,
}

/// One core.
#[derive(Clone, Default, Debug)]
pub(super) struct Cpu {
    pub(super) held: Option<Held>,
    /// When what it holds is spent.
    spent_at: u64,
    /// When a grant begins to count before it.
    due: u64,
    /// What it follows.
    pub(super) run_queue: RunQueue,
    /// How often each VCPU had woken by what its sender knew, and what its numbers were.
    pub(super) known: Vec<u64>,
    pub(super) numbers: Vec<Option<u32>>,
    /// What was sent and is not taken yet: the sender itself runs there.
    pub(super) sent: Option<Sent>,
    /// What was read of the ring and not taken.
    pub(super) events: VecDeque<KernelEvent>,
    /// Time in which it ran no VCPU.
    pub(super) idle: u64,
}

/// A run queue that was sent: with how often each VCPU had woken by what its sender knew, and the
/// numbers by which it was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    run_queue: RunQueue,
    pub(super) known: Vec<u64>,
    pub(super) numbers: Vec<Option<u32>>,
}

/// An entry of the ring.
#[derive(Clone, Copy, Debug)]
pub(super) enum Raw {
    Ran { core: usize, held: Held, to: u64, meter: u64, reads: u64, end: End },
    Woke { core: usize, number: u32, at: u64 },
    Spent { core: usize, at: u64 },
}

/// One thread. Its number is its place plus one.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    /// Whose control group it is in.
    pub(super) group: VcpuId,
    /// The VCPU that it belongs to by the scheduler in the kernel.
    pub(super) joined: Option<VcpuId>,
    pub(super) program: Program,
    /// What it does before it blocks; 0 = it is blocked, `u64::MAX` = it does not.
    pub(super) left: u64,
    pub(super) wakes_at: u64,
    pub(super) jobs: VecDeque<JobId>,
    pub(super) is_gone: bool,
    /// Up to when it is confined to another core than its VCPU's; 0 = it is not.
    pub(super) away_until: u64,
    /// When it is listed in its group and becomes runnable, and the place of what forks it, where
    /// it is being forked.
    pub(super) birth: Option<(u64, usize)>,
}

/// What a core was told of the VCPUs, and what it was not.
#[derive(Default)]
pub(super) struct Learnt {
    pub(super) reported: Reported,
    /// How often each VCPU woke, by what a core was told, and in all.
    wakes: Vec<u64>,
    pub(super) woken: Vec<u64>,
    /// Those whose reservations were to change.
    pub(super) changed: BTreeSet<VcpuId>,
}

/// The kernel.
pub(super) struct World {
    twin: Twin,
    pub(super) now: u64,
    pub(super) cpus: Vec<Cpu>,
    /// By VCPU and mode, and what each had however that was counted.
    pub(super) meters: Vec<[u64; 2]>,
    pub(super) had: Vec<[u64; 2]>,
    pub(super) lent: Lent,
    pub(super) threads: Vec<Thread>,
    pub(super) homes: BTreeMap<VcpuId, CoreId>,
    ring: VecDeque<Raw>,
    pub(super) learnt: Learnt,
    /// Something is in the ring for which the reader is woken.
    pub(super) has_news: bool,
    /// Events for which there was no room.
    pub(super) lost: u64,
    /// Refusals that are to be reported to the policy.
    pub(super) refused: u64,
    /// A run queue was refused: the run is to end.
    pub(super) is_unsent: bool,
    /// Jobs that programs say are done.
    pub(super) done: Vec<(JobId, u64)>,
    pub(super) dice: Dice,
    pub(super) faults: KernelFaults,
    pub(super) mistake: Option<Mistake>,
    pub(super) counted: Counted,
    pub(super) members: Members,
}

impl World {
    pub(super) fn new(
        program: &Path,
        [cores, vcpus]: [usize; 2],
        faults: KernelFaults,
        mistake: Option<Mistake>,
        seed: u64,
    ) -> Self {
        let dice = Dice::new(seed);
        let known = vec![0; vcpus];
        let cpu = Cpu { spent_at: u64::MAX, due: u64::MAX, known, ..Cpu::default() };
        let slots = if faults.slots == 0 { vcpus } else { faults.slots };
        Self {
            twin: Twin::start(program, cores, slots, faults.least),
            now: 0,
            cpus: vec![cpu; cores],
            meters: vec![[0; 2]; vcpus],
            had: vec![[0; 2]; vcpus],
            lent: Lent::new(slots, vcpus),
            threads: Vec::new(),
            homes: BTreeMap::new(),
            ring: VecDeque::new(),
            learnt: Learnt { wakes: vec![0; vcpus], woken: vec![0; vcpus], ..Learnt::default() },
            has_news: false,
            lost: 0,
            refused: 0,
            is_unsent: false,
            done: Vec::new(),
            dice,
            faults,
            mistake,
            counted: Counted::new(faults.chunk, cores, vcpus),
            members: Members::new(seed, vcpus),
        }
    }

    /// What the law says to a step in which nothing ends.
    pub(super) fn ask(&mut self, step: &str) -> Vec<i128> {
        self.twin.step(step)
    }

    /// One step of the law; what ended by it becomes events.
    pub(super) fn step(&mut self, step: &str) {
        let said = self.ask(step);
        let (cores, vcpus) = said.split_at(self.cpus.len() * 7);
        for (slot, said) in vcpus.chunks(3).enumerate() {
            let Some(vcpu) = self.lent.owners[slot].map(|vcpu| vcpu.0 as usize) else { continue };
            self.meters[vcpu] = [said[0] as u64, said[1] as u64];
            self.counted.meters[1][vcpu] = said[2] as u64;
        }
        for (core, said) in cores.chunks(7).enumerate() {
            self.counted.meters[0][core] = said[5] as u64;
        }
        let mut on = Vec::new();
        for (core, said) in cores.chunks(7).enumerate() {
            let number = u32::try_from(said[0]).ok();
            let next = number.map(|number| self.lent.whose(number));
            let mode = if said[1] == 0 { Mode::Foreground } else { Mode::Background };
            on.extend(next);
            self.cpus[core].spent_at = u64::try_from(said[3]).unwrap_or(u64::MAX);
            self.cpus[core].due = u64::try_from(said[4]).unwrap_or(u64::MAX);
            let (before, end) = (self.cpus[core].held, end(said[2]));
            if let (Some(held), Some(end)) = (before, end) {
                self.ended(core, held, end);
            }
            let goes_on = before.filter(|it| end.is_none() && Some(it.vcpu) == next);
            let from = goes_on.map_or(self.now, |it| it.from);
            self.cpus[core].held = next.zip(number).map(|(vcpu, number)| {
                let until = self.limit(core, vcpu, mode);
                let meter = self.meters[vcpu.0 as usize][mode as usize];
                assert!(meter <= until, "{vcpu} has {meter} of {until} ns on core{core}");
                Held { vcpu, number, mode, from, until }
            });
            self.hold_to_memory(core, said[6] == 1);
        }
        let count = on.len();
        on.sort_unstable();
        on.dedup();
        assert_eq!(on.len(), count, "a VCPU is on two cores at {}", self.now);
        self.follows_the_law();
    }

    /// Where the grant ends of what a core runs, by when the law says that it is spent.
    fn limit(&self, core: usize, vcpu: VcpuId, mode: Mode) -> u64 {
        let RunQueue { foreground, background, .. } = &self.cpus[core].run_queue;
        let counts = |grant: &Grant| {
            grant.vcpu == vcpu && grant.from.ticks() <= self.now.saturating_add(self.faults.least)
        };
        let is_granted = match mode {
            Mode::Foreground => foreground.iter().any(counts),
            Mode::Background => background.iter().any(counts),
        };
        assert!(is_granted, "{vcpu} runs on core{core} and is not granted");
        let meter = self.meters[vcpu.0 as usize][mode as usize];
        let spent_at = self.cpus[core].spent_at;
        let left = if spent_at == u64::MAX { u64::MAX } else { spent_at.saturating_sub(self.now) };
        meter.saturating_add(left)
    }

    fn ended(&mut self, core: usize, held: Held, end: End) {
        let vcpu = held.vcpu.0 as usize;
        if end != End::Blocked && self.members.turns[vcpu].len() > 1 {
            self.members.turns[vcpu].rotate_left(1);
        }
        let meter = self.meters[vcpu][held.mode as usize];
        let reads = self.counted.meters[1][vcpu];
        let raw = Raw::Ran { core, held, to: self.now, meter, reads, end };
        let is_silent = end == End::LimitReached && self.is_silent(core, &held);
        self.put(raw, end != End::Preempted && !is_silent);
        if self.mistake == Some(Mistake::ToldTwice) && end == End::LimitReached {
            self.learnt.reported = Reported::default();
        }
    }

    /// Whether the grant by which it was held ends silently.
    fn is_silent(&self, core: usize, held: &Held) -> bool {
        let own = |grant: &&Grant| (grant.vcpu, grant.until.0.ticks()) == (held.vcpu, held.until);
        let RunQueue { foreground, background, .. } = &self.cpus[core].run_queue;
        let grant = match held.mode {
            Mode::Foreground => foreground.iter().find(own),
            Mode::Background => background.iter().find(own),
        };
        grant.is_some_and(|grant| grant.silent)
    }

    /// Puts an event into the ring, whose reader is woken where it is news or half of it is full.
    pub(super) fn put(&mut self, raw: Raw, is_news: bool) {
        if self.holds_back(raw) {
            return;
        }
        if self.faults.ring != 0 && self.ring.len() >= self.faults.ring {
            self.lost += 1;
            return;
        }
        self.ring.push_back(raw);
        let is_half_full = self.faults.ring != 0 && 2 * self.ring.len() > self.faults.ring;
        self.has_news |= is_news || is_half_full;
    }

    /// Sorts all that is in the ring by core.
    pub(super) fn read(&mut self) {
        while let Some(raw) = self.ring.pop_front() {
            let (core, event) = match raw {
                Raw::Woke { core, number, at } => {
                    (core, self.who(number).map(|vcpu| KernelEvent::Woke(vcpu, instant(at))))
                }
                Raw::Ran { core, held, to, meter, reads, end } => {
                    let vcpu = self.who(held.number);
                    let held = vcpu.map(|vcpu| Held { vcpu, ..held });
                    let ran = held.map(|held| self.segment(held, to, [meter, reads], end));
                    (core, ran.map(KernelEvent::Ran))
                }
                Raw::Spent { core, at } => (core, Some(KernelEvent::Spent(instant(at)))),
            };
            self.cpus[core].events.extend(event);
        }
    }

    fn segment(&mut self, held: Held, to: u64, meters: [u64; 2], end: End) -> Ran {
        let [meter, reads] = meters;
        let Held { vcpu, mode, from, until, .. } = held;
        let [meter, until] = [meter, until].map(Duration::from_ticks);
        let spent = (end == End::LimitReached).then_some(until);
        let service = self.learnt.reported.service(vcpu, mode, meter, spent);
        let reads = self.learnt.reported.reads(vcpu, reads);
        let [from, to] = [from, to].map(instant);
        Ran { vcpu, mode, from, to, meter, service, reads, until, end }
    }

    pub(super) fn next_event(&mut self, core: usize) -> Option<KernelEvent> {
        if self.cpus[core].events.is_empty() {
            self.read();
        }
        let event = self.cpus[core].events.pop_front();
        if let Some(KernelEvent::Woke(vcpu, _)) = event {
            self.learnt.wakes[vcpu.0 as usize] += 1;
        }
        event
    }

    /// What a core holds, as far as it has come.
    pub(super) fn running(&mut self, core: usize) -> Option<Ran> {
        let held = self.cpus[core].held?;
        let meter = self.meters[held.vcpu.0 as usize][held.mode as usize];
        let reads = self.counted.read_by_now(held.vcpu.0 as usize);
        Some(self.segment(held, self.now, [meter, reads], End::Metered))
    }

    /// A call that may be refused; `is_told`: that is then reported to the policy.
    pub(super) fn may(&mut self, is_told: bool) -> io::Result<()> {
        let one_in = self.faults.refuse_one_in;
        if one_in != 0 && self.dice.one_in(one_in) {
            self.refused += u64::from(is_told);
            return Err(io::Error::from_raw_os_error(EPERM));
        }
        Ok(())
    }

    /// The core follows this run queue from now on, or, where the sender runs there, from when that
    /// sleeps.
    pub(super) fn send(&mut self, core: usize, run_queue: &RunQueue) -> io::Result<()> {
        let sent = self.may(true);
        self.is_unsent |= sent.is_err();
        sent?;
        if self.mistake == Some(Mistake::NotSent) && self.dice.one_in(50) {
            return Ok(());
        }
        let RunQueue { foreground, background, .. } = run_queue;
        let grants = foreground.iter().chain(background);
        let numbers = grants.map(|grant| self.lent.slots.number(grant.vcpu)).collect();
        let (run_queue, known) = (run_queue.clone(), self.learnt.wakes.clone());
        self.cpus[core].sent = Some(Sent { run_queue, known, numbers });
        if core != self.faults.sender {
            self.take(core);
        }
        Ok(())
    }

    /// The sender sleeps: its own core takes what it was sent.
    pub(super) fn take_all(&mut self) {
        (0..self.cpus.len()).for_each(|core| self.take(core));
    }

    fn take(&mut self, core: usize) {
        let Some(Sent { run_queue, known, numbers }) = self.cpus[core].sent.take() else { return };
        let RunQueue { foreground, background, background_allowed, allowance } = &run_queue;
        let allowed = u8::from(*background_allowed);
        let (ahead, beside) = numbers.split_at(foreground.len());
        let counts = [ahead, beside].map(|numbers| numbers.iter().flatten().count());
        let mut step = format!("q {core} {} {allowed} {} {}", allowance.0, counts[0], counts[1]);
        for (grant, number) in foreground.iter().chain(background).zip(&numbers) {
            let Some(number) = number else { continue };
            let (until, from) = (grant.until.0.ticks(), grant.from.ticks());
            let wakes = if grant.lapses { known[grant.vcpu.0 as usize] + 1 } else { 0 };
            let _ = write!(step, " {number} {until} {} {from} {wakes}", grant.memory.0);
        }
        self.takes_nothing_back(core, &run_queue);
        let cpu = &mut self.cpus[core];
        (cpu.run_queue, cpu.known, cpu.numbers) = (run_queue, known, numbers);
        self.counted.taken[core] = self.counted.meters[0][core];
        self.step(&step);
    }

    /// What a core had begun by what was foreseen, of a VCPU that went on running, is what the
    /// policy decides once it knows of it.
    fn takes_nothing_back(&self, core: usize, run_queue: &RunQueue) {
        let Cpu { run_queue: before, known, .. } = &self.cpus[core];
        let has_begun = |grant: &&Grant| grant.from.ticks() <= self.now;
        for foreseen in before.foreground.iter().filter(|grant| grant.lapses).filter(has_begun) {
            let vcpu = foreseen.vcpu.0 as usize;
            let own = run_queue.foreground.iter().filter(|grant| grant.vcpu == foreseen.vcpu);
            let goes_on =
                known[vcpu] == self.learnt.woken[vcpu] && !self.members.turns[vcpu].is_empty();
            let until = own.filter(has_begun).map(|grant| grant.until).max();
            if goes_on
                && let Some(until) = until
                && !self.learnt.changed.contains(&foreseen.vcpu)
            {
                assert!(until >= foreseen.until, "at {} {foreseen:?} ends at {until:?}", self.now);
            }
        }
    }

    /// What a core follows, or will as soon as the sender sleeps.
    pub(super) fn sent(&self, core: usize) -> &RunQueue {
        let sent = self.cpus[core].sent.as_ref().map(|sent| &sent.run_queue);
        sent.unwrap_or(&self.cpus[core].run_queue)
    }

    /// A VCPU with a grant of which the sender knew fewer wakes than it has learnt of since. Where
    /// it was refused that a VCPU is woken on a core, that core learns of no wake.
    pub(super) fn has_lapsed(&self, core: usize) -> Option<VcpuId> {
        let cpu = &self.cpus[core];
        let (run_queue, known) = match &cpu.sent {
            Some(sent) => (&sent.run_queue, &sent.known),
            None => (&cpu.run_queue, &cpu.known),
        };
        let vcpus = run_queue.foreground.iter().filter(|it| it.lapses).map(|it| it.vcpu);
        let is_home = |vcpu: &VcpuId| self.homes.get(vcpu) == Some(&CoreId(core as u16));
        let mut vcpus = vcpus.filter(is_home);
        vcpus.find(|vcpu| known[vcpu.0 as usize] != self.learnt.wakes[vcpu.0 as usize])
    }
}

// Threads.
impl World {
    /// Ends all threads of a group.
    pub(super) fn kill(&mut self, group: VcpuId) {
        for place in 0..self.threads.len() {
            if self.threads[place].group == group {
                self.exit(place);
            }
        }
    }

    fn exit(&mut self, place: usize) {
        self.uncount(place);
        let thread = &mut self.threads[place];
        (thread.is_gone, thread.left, thread.wakes_at) = (true, 0, u64::MAX);
    }

    /// The programs of a VCPU are told of a job.
    pub(super) fn release(&mut self, job: &Job) {
        let is_worker = |it: &Thread| {
            it.group == job.id.vcpu && !it.is_gone && matches!(it.program, Program::Jobs { .. })
        };
        let Some(place) = self.threads.iter().position(is_worker) else { return };
        self.threads[place].jobs.push_back(job.id);
        if self.threads[place].left == 0 {
            self.wake(place);
        }
    }

    fn wake(&mut self, place: usize) {
        let thread = &mut self.threads[place];
        thread.wakes_at = u64::MAX;
        thread.left = work(thread.program, &mut self.dice);
        self.stray(place);
        self.count(place);
    }

    /// When a thread blocks or wakes, a budget is spent or a grant begins, at the earliest.
    pub(super) fn next_change(&self) -> u64 {
        let ends = self.cpus.iter().filter_map(|cpu| self.front(cpu.held?.vcpu));
        let ends = ends.map(|place| self.now.saturating_add(self.threads[place].left));
        let wakes = self.threads.iter().map(|thread| thread.wakes_at);
        let spent = self.cpus.iter().flat_map(|cpu| [cpu.spent_at, cpu.due]);
        let spent = spent.map(|at| at.saturating_sub(self.faults.least));
        let reads = [self.counted.next_change(), self.lent.next_change(), self.next_of_threads()];
        ends.chain(wakes).chain(spent).chain(reads).min().unwrap_or(u64::MAX)
    }

    /// Time passes, no more than up to the next change; what then happens does.
    pub(super) fn pass(&mut self, time: u64) {
        let ran: Vec<_> = self.cpus.iter().filter_map(|it| self.front(it.held?.vcpu)).collect();
        for cpu in &mut self.cpus {
            match cpu.held {
                None => cpu.idle += time,
                Some(held) => self.had[held.vcpu.0 as usize][held.mode as usize] += time,
            }
        }
        self.now += time;
        for place in &ran {
            let left = &mut self.threads[*place].left;
            *left = if *left == u64::MAX { *left } else { left.saturating_sub(time) };
        }
        self.step(&format!("t {time}"));
        self.lingered();
        for place in ran {
            if self.threads[place].left == 0 {
                self.end_turn(place);
            }
        }
        for place in 0..self.threads.len() {
            if self.threads[place].wakes_at <= self.now {
                self.wake(place);
            }
        }
        self.part();
        self.overflow();
    }

    /// A thread has done what it was at.
    fn end_turn(&mut self, place: usize) {
        let (program, now) = (self.threads[place].program, self.now);
        match program {
            Program::Busy => {}
            Program::Turns { sleep, .. } => {
                let sleep = self.dice.between(1, sleep);
                self.threads[place].wakes_at = now + sleep;
            }
            Program::Once { .. } => return self.exit(place),
            Program::Jobs { .. } => {
                let thread = &mut self.threads[place];
                if let Some(job) = thread.jobs.pop_front() {
                    self.done.push((job, now));
                }
                if !thread.jobs.is_empty() {
                    thread.left = work(program, &mut self.dice);
                    return;
                }
            }
        }
        self.uncount(place);
        self.may_fork(place);
    }
}

/// What a thread that wakes does before it blocks.
pub(super) fn work(program: Program, dice: &mut Dice) -> u64 {
    match program {
        Program::Busy => u64::MAX,
        Program::Turns { run, .. } => dice.between(1, run),
        Program::Jobs { least, work } => dice.between(least, work),
        Program::Once { run } => run,
    }
}

pub(super) fn instant(ns: u64) -> Instant {
    Instant::from_ticks(ns)
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
