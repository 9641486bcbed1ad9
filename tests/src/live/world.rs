//! The kernel of the simulated host: threads in groups on cores, and what it records of them.
//!
//! A core runs its agent while that is awake; else the ready thread of the highest real-time level,
//! of equals the one that waits longest; else whichever ordinary thread had least. Cores depend on
//! each other by nothing but what is done to their groups, so each has a time of its own and is
//! brought up to the present when it is looked at.

use crate::Dice;
use maracas_core::{Instant, JobId, VcpuId};
use maracas_live_core::Record;
use std::collections::VecDeque;

/// For ever, in nanoseconds.
pub(super) const NEVER: u64 = u64::MAX;
/// A slice of the kernel's fair class (3 ms, Documentation/scheduler/sched-design-CFS.rst).
const SLICE: u64 = 3_000_000;

/// Reads of memory a microsecond that programs do.
const RATES: [u64; 4] = [0, 1, 10, 100];

/// How a thread's program behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Program {
    /// It never blocks.
    Busy,
    /// It runs and sleeps by turns, each for up to so long (nanoseconds).
    Turns { run: u64, sleep: u64 },
    /// One job a release, of so much work.
    Jobs { work: u64 },
    /// It runs for so long and ends.
    Once { run: u64 },
}

/// One thread. Its number is its place plus one.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) group: usize,
    program: Program,
    /// Its real-time level; 0 = none.
    pub(super) level: u8,
    pub(super) ready: bool,
    pub(super) gone: bool,
    wakes_at: u64,
    /// What is left of what it does before it blocks.
    left: u64,
    /// Since when it waits at its level.
    since: u64,
    /// What it had as an ordinary thread.
    had: u64,
}

/// One VCPU as the kernel sees it.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) id: VcpuId,
    pub(super) core: usize,
    /// What it had on each core.
    pub(super) counted: Vec<u64>,
    pub(super) frozen: bool,
    /// What the freezer was asked for last, and when that happens.
    pub(super) asked: Option<(u64, bool)>,
    /// Births and ends wake the agent.
    pub(super) listened: bool,
    pub(super) news: bool,
    /// Jobs released and not done, the first of this number.
    pub(super) jobs: u32,
    pub(super) next_job: u32,
    /// It exists in the run.
    pub(super) alive: bool,
    /// Reads of memory a microsecond.
    pub(super) reads_per_us: u64,
    /// Instructions a nanosecond on the fastest core.
    pub(super) speed: u64,
    /// Until then actions on it are refused.
    pub(super) refused_until: u64,
}

/// One core.
#[derive(Clone, Debug)]
pub(super) struct Cpu {
    at: u64,
    pub(super) agent: bool,
    running: Option<usize>,
    slice_ends: u64,
    pub(super) records: VecDeque<Record>,
    /// Another party woke the agent then.
    pub(super) called: Option<u64>,
    /// Where its memory monitor rings; `NEVER` = nowhere.
    pub(super) armed: u64,
    /// It rang.
    pub(super) crossed: bool,
    /// The share of its time that it has for programs, in thousandths: their time counts more.
    pub(super) share_milli: u64,
    /// It is off line: nothing runs there.
    off_line: bool,
    /// A job was reported done here.
    pub(super) done: bool,
}

/// All of it.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) now: u64,
    pub(super) dice: Dice,
    pub(super) threads: Vec<Thread>,
    pub(super) groups: Vec<Group>,
    pub(super) cpus: Vec<Cpu>,
    /// Jobs that programs have reported done.
    pub(super) done: Vec<(JobId, u64)>,
    /// One in so many turns makes a thread; 0 = none does.
    pub(super) forks: u64,
    /// Programs read memory.
    pub(super) reads: bool,
    /// The mailbox is signalled.
    pub(super) mail: bool,
    /// Jobs that are done are reported to the agents of their cores, not to the mailbox.
    pub(super) is_apart: bool,
}

const fn instant(ns: u64) -> Instant {
    Instant::from_ticks(ns)
}

impl World {
    pub(super) fn new(cores: usize, dice: Dice) -> Self {
        let cpu = Cpu {
            at: 0,
            agent: true,
            running: None,
            slice_ends: NEVER,
            records: VecDeque::new(),
            called: None,
            armed: NEVER,
            crossed: false,
            share_milli: 1000,
            off_line: false,
            done: false,
        };
        let (threads, groups, done) = (Vec::new(), Vec::new(), Vec::new());
        let (cpus, forks, reads, mail) = (vec![cpu; cores], 0, false, false);
        let is_apart = false;
        Self { now: 0, dice, threads, groups, cpus, done, forks, reads, mail, is_apart }
    }

    /// A VCPU with one thread; its place.
    pub(super) fn add(&mut self, id: VcpuId, core: usize, program: Program) -> usize {
        let group = self.groups.len();
        let reads_per_us = if self.reads { self.dice.pick(&RATES) } else { 0 };
        let speed = self.dice.between(1, 4);
        self.groups.push(Group {
            id,
            core,
            counted: vec![0; self.cpus.len()],
            frozen: false,
            asked: None,
            listened: false,
            news: false,
            jobs: 0,
            next_job: 0,
            alive: true,
            reads_per_us,
            speed,
            refused_until: 0,
        });
        self.spawn(group, program);
        group
    }

    fn spawn(&mut self, group: usize, program: Program) -> usize {
        let had = self.threads.iter().filter(|it| it.group == group).map(|it| it.had).max();
        let waits = matches!(program, Program::Jobs { .. });
        self.threads.push(Thread {
            group,
            program,
            level: 0,
            ready: !waits,
            gone: false,
            wakes_at: NEVER,
            left: 0,
            since: self.now,
            had: had.unwrap_or(0),
        });
        let place = self.threads.len() - 1;
        self.threads[place].left = if waits { 0 } else { self.turn(place) };
        place
    }

    /// How long a thread runs before it blocks or ends.
    fn turn(&mut self, thread: usize) -> u64 {
        match self.threads[thread].program {
            Program::Busy => NEVER,
            Program::Turns { run, .. } => self.dice.between(1_000, run.max(1_000)),
            Program::Jobs { work } => work.max(1),
            Program::Once { run } => run.max(1),
        }
    }

    /// Whose thread it is.
    pub(super) fn place(&self, tid: i32) -> usize {
        (tid - 1) as usize
    }
    pub(super) const fn tid(place: usize) -> i32 {
        place as i32 + 1
    }

    /// Brings a core up to the present.
    pub(super) fn bring(&mut self, core: usize) {
        self.bring_to(core, self.now);
    }

    /// Brings all cores up to the present.
    pub(super) fn bring_all(&mut self) {
        (0..self.cpus.len()).for_each(|core| self.bring(core));
    }

    fn bring_to(&mut self, core: usize, to: u64) {
        loop {
            self.happen(core);
            self.switch(core);
            let at = self.cpus[core].at;
            if at >= to {
                return;
            }
            let next = self.next_change(core).min(to);
            let gained = next - at;
            if let Some(thread) = self.cpus[core].running {
                let it = &mut self.threads[thread];
                it.left = if it.left == NEVER { NEVER } else { it.left - gained };
                it.had += if it.level == 0 { gained } else { 0 };
                let group = it.group;
                self.groups[group].counted[core] += gained;
            }
            self.cpus[core].at = next;
        }
    }

    /// When anything changes on a core at the earliest.
    fn next_change(&self, core: usize) -> u64 {
        let cpu = &self.cpus[core];
        let running = cpu.running.map_or(NEVER, |thread| {
            let left = self.threads[thread].left;
            cpu.at.saturating_add(left).min(cpu.slice_ends)
        });
        let asleep = self.here(core).filter(|it| !it.ready && !it.gone).map(|it| it.wakes_at);
        let rings = self.rings_at(core);
        let groups = self.groups.iter().filter(|group| group.core == core);
        let freezer = groups.filter_map(|group| group.asked.map(|(at, _)| at));
        asleep.chain(freezer).min().unwrap_or(NEVER).min(running).min(rings).max(cpu.at)
    }

    fn here(&self, core: usize) -> impl Iterator<Item = &Thread> {
        self.threads.iter().filter(move |it| self.groups[it.group].core == core)
    }

    /// What is due on a core: wakes, ends of turns, the freezer.
    fn happen(&mut self, core: usize) {
        let at = self.cpus[core].at;
        for thread in 0..self.threads.len() {
            let it = &mut self.threads[thread];
            if self.groups[it.group].core == core && !it.ready && !it.gone && it.wakes_at <= at {
                (it.ready, it.wakes_at, it.since) = (true, NEVER, at);
                self.threads[thread].left = self.turn(thread);
            }
        }
        if let Some(thread) = self.cpus[core].running
            && self.threads[thread].left == 0
        {
            self.end_turn(core, thread);
        }
        for group in 0..self.groups.len() {
            let it = &mut self.groups[group];
            if it.core == core
                && let Some((due, frozen)) = it.asked
                && due <= at
            {
                (it.frozen, it.asked) = (frozen, None);
            }
        }
        if self.cpus[core].armed <= self.monitor(core) && self.cpus[core].armed != NEVER {
            let cpu = &mut self.cpus[core];
            (cpu.armed, cpu.crossed) = (NEVER, true);
            cpu.called.get_or_insert(at);
        }
        if self.cpus[core].slice_ends <= at {
            self.cpus[core].slice_ends = NEVER;
            self.put_off(core, true);
        }
    }

    /// A thread has done what it was at: it makes another, blocks, or ends.
    fn end_turn(&mut self, core: usize, thread: usize) {
        let (at, group) = (self.cpus[core].at, self.threads[thread].group);
        let tid = Self::tid(thread);
        let program = self.threads[thread].program;
        if matches!(program, Program::Turns { .. })
            && self.forks > 0
            && self.dice.one_in(self.forks)
        {
            let run = self.dice.between(5_000, 2_000_000);
            let child = Self::tid(self.spawn(group, Program::Once { run }));
            let record = Record::Fork { parent: tid, child, at: instant(at) };
            self.cpus[core].records.push_back(record);
            self.call_for(core, group);
        }
        match program {
            Program::Busy => return,
            Program::Once { .. } => {
                self.threads[thread].gone = true;
                self.cpus[core].records.push_back(Record::Exit { tid, at: instant(at) });
                self.call_for(core, group);
            }
            Program::Turns { sleep, .. } => {
                let sleep = self.dice.between(1_000, sleep.max(1_000));
                self.threads[thread].wakes_at = at + sleep;
            }
            Program::Jobs { .. } => {
                let it = &mut self.groups[group];
                self.done.push((JobId { vcpu: it.id, index: it.next_job }, at));
                it.next_job += 1;
                it.jobs -= 1;
                // The agent that reads them.
                let reader = if self.is_apart { core } else { 0 };
                self.mail |= !self.is_apart;
                self.cpus[reader].done |= self.is_apart;
                self.cpus[reader].called.get_or_insert(at);
                if self.groups[group].jobs > 0 {
                    self.threads[thread].left = self.turn(thread);
                    return;
                }
            }
        }
        self.threads[thread].ready = false;
        self.put_off(core, false);
    }

    fn call_for(&mut self, core: usize, group: usize) {
        self.groups[group].news = true;
        if self.groups[group].listened {
            let at = self.cpus[core].at;
            self.cpus[core].called.get_or_insert(at);
        }
    }

    /// A job is released; its program is notified.
    pub(super) fn release(&mut self, id: VcpuId, index: u32) {
        let Some(group) = self.groups.iter().position(|it| it.id == id && it.alive) else { return };
        self.bring(self.groups[group].core);
        // What was forgotten is not done any more.
        let it = &mut self.groups[group];
        if it.jobs == 0 {
            it.next_job = index;
        }
        it.jobs += 1;
        for thread in 0..self.threads.len() {
            let it = &mut self.threads[thread];
            let waits = matches!(it.program, Program::Jobs { .. }) && !it.ready && !it.gone;
            if it.group == group && waits {
                (it.ready, it.since) = (true, self.now);
                self.threads[thread].left = self.turn(thread);
            }
        }
    }

    /// Takes the running thread off the core.
    fn put_off(&mut self, core: usize, preempted: bool) {
        let cpu = &mut self.cpus[core];
        if let Some(thread) = cpu.running.take() {
            let (tid, at) = (Self::tid(thread), instant(cpu.at));
            cpu.records.push_back(Record::Out { tid, at, preempted });
        }
    }

    /// What is to run on a core now.
    pub(super) fn pick(&self, core: usize) -> Option<usize> {
        if self.cpus[core].agent || self.cpus[core].off_line {
            return None;
        }
        self.would_run(core)
    }

    /// What would run on a core if its agent slept.
    pub(super) fn would_run(&self, core: usize) -> Option<usize> {
        let ready = |(_, it): &(usize, &Thread)| {
            let group = &self.groups[it.group];
            group.core == core && it.ready && !it.gone && !group.frozen
        };
        let ready = || self.threads.iter().enumerate().filter(ready);
        let running = self.cpus[core].running;
        // A thread that runs at a level goes on until it blocks or a higher one is ready.
        let raised = ready().filter(|(_, it)| it.level > 0);
        let raised = raised.max_by_key(|(place, it)| {
            (it.level, Some(*place) == running, std::cmp::Reverse((it.since, *place)))
        });
        let others = || ready().filter(|(_, it)| it.level == 0);
        let goes_on = || {
            let slice = self.cpus[core].slice_ends > self.cpus[core].at;
            others().find(|(place, _)| Some(*place) == running && slice)
        };
        let least = || others().min_by_key(|(place, it)| (it.had, *place));
        raised.or_else(goes_on).or_else(least).map(|(place, _)| place)
    }

    fn switch(&mut self, core: usize) {
        let next = self.pick(core);
        if next == self.cpus[core].running {
            return;
        }
        if let Some(thread) = self.cpus[core].running {
            // A frozen thread runs into the trap, and blocks there.
            let trapped = self.groups[self.threads[thread].group].frozen;
            self.threads[thread].since = self.cpus[core].at;
            self.put_off(core, !trapped);
        }
        let cpu = &mut self.cpus[core];
        cpu.running = next;
        cpu.slice_ends = NEVER;
        if let Some(thread) = next {
            let (tid, at) = (Self::tid(thread), instant(cpu.at));
            cpu.records.push_back(Record::In { tid, at });
            if self.threads[thread].level == 0 {
                cpu.slice_ends = cpu.at + SLICE;
            }
        }
    }

    /// The agent of a core wakes or sleeps.
    pub(super) fn set_agent(&mut self, core: usize, awake: bool) {
        self.bring(core);
        self.cpus[core].agent = awake;
        self.bring(core);
    }

    /// A thread's level is set; whether there is such a thread.
    pub(super) fn set_level(&mut self, tid: i32, level: u8) -> bool {
        let thread = self.place(tid);
        let core = self.groups[self.threads[thread].group].core;
        self.bring(core);
        let (at, it) = (self.now, &mut self.threads[thread]);
        if it.gone {
            return false;
        }
        if it.level != level {
            (it.level, it.since) = (level, at);
        }
        true
    }

    /// The freezer is asked to act on a group after so long.
    pub(super) fn ask_freezer(&mut self, group: usize, frozen: bool, after: u64) {
        self.bring(self.groups[group].core);
        self.groups[group].asked = Some((self.now + after, frozen));
        self.bring(self.groups[group].core);
    }

    /// A group goes to another core.
    pub(super) fn confine(&mut self, group: usize, to: usize) {
        let from = self.groups[group].core;
        self.bring(from);
        self.bring(to);
        let running = self.cpus[from].running;
        if running.is_some_and(|thread| self.threads[thread].group == group) {
            self.put_off(from, true);
        }
        self.groups[group].core = to;
        self.bring(from);
        self.bring(to);
    }

    /// All threads of a group end.
    pub(super) fn end_group(&mut self, group: usize) {
        let core = self.groups[group].core;
        self.bring(core);
        self.groups[group].alive = false;
        self.end_threads(group);
        self.bring(core);
    }
}

impl World {
    /// Lets all cores run until `to`, or until an agent that sleeps is called.
    pub(super) fn run_until(&mut self, to: u64) {
        while self.cpus.iter().all(|cpu| cpu.called.is_none()) {
            let next = (0..self.cpus.len()).map(|core| (self.next_change(core), core)).min();
            match next {
                Some((next, core)) if next < to => {
                    self.now = self.now.max(next);
                    self.bring_to(core, next);
                }
                _ => {
                    self.now = self.now.max(to);
                    break;
                }
            }
        }
        self.bring_all();
    }
}

// Memory, and VCPUs that join, die and go off line.
impl World {
    /// The group of a VCPU that is there.
    pub(super) fn group(&self, id: VcpuId) -> Option<usize> {
        self.groups.iter().position(|it| it.id == id && it.alive)
    }
    /// Time that was counted on a core, as meters count it.
    pub(super) fn stretched(&self, core: usize, counted: u64) -> u64 {
        counted * 1000 / self.cpus[core].share_milli
    }
    /// What a group has read on a core.
    pub(super) fn reads(&self, group: usize, core: usize) -> u64 {
        let it = &self.groups[group];
        it.counted[core] * it.reads_per_us / 1_000
    }
    /// What all have read on a core, as its monitor counts it.
    pub(super) fn monitor(&self, core: usize) -> u64 {
        (0..self.groups.len()).map(|group| self.reads(group, core)).sum()
    }
    /// When the monitor of a core rings, if what runs there goes on.
    fn rings_at(&self, core: usize) -> u64 {
        let cpu = &self.cpus[core];
        let Some(thread) = cpu.running.filter(|_| cpu.armed != NEVER) else { return NEVER };
        let rate = self.groups[self.threads[thread].group].reads_per_us;
        let rest = cpu.armed.saturating_sub(self.monitor(core)) * 1_000;
        if rate == 0 { NEVER } else { cpu.at + rest.div_ceil(rate).max(1) }
    }
    /// One more thread in the group of a VCPU, if it is there.
    pub(super) fn join(&mut self, id: VcpuId, program: Program) {
        let Some(group) = self.group(id) else { return };
        self.bring(self.groups[group].core);
        self.spawn(group, program);
    }
    /// All threads of a VCPU are killed.
    pub(super) fn kill(&mut self, id: VcpuId) {
        let Some(group) = self.group(id) else { return };
        self.bring(self.groups[group].core);
        self.end_threads(group);
        self.bring(self.groups[group].core);
    }
    fn end_threads(&mut self, group: usize) {
        let core = self.groups[group].core;
        for thread in 0..self.threads.len() {
            if self.threads[thread].group == group && !self.threads[thread].gone {
                self.threads[thread].gone = true;
                let (tid, at) = (Self::tid(thread), instant(self.now));
                self.cpus[core].records.push_back(Record::Exit { tid, at });
            }
        }
        self.call_for(core, group);
    }
    /// A core goes off line, or comes back, its records lost.
    pub(super) fn set_off_line(&mut self, core: usize, off_line: bool) {
        self.bring(core);
        self.cpus[core].off_line = off_line;
        if !off_line {
            let at = instant(self.now);
            self.cpus[core].records.push_back(Record::Lost { at });
        }
        self.bring(core);
    }
    pub(super) fn is_off_line(&self, core: usize) -> bool {
        self.cpus[core].off_line
    }
}
