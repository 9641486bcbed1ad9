//! Threads of the simulated kernel: which are there and count among the runnable ones of a VCPU,
//! which are confined to another core than its for a while, and which are being forked.

use super::world::{Raw, Thread, World, work};
use super::{Mistake, Program};
use crate::Dice;
use maracas_core::contract::{Mode, RunQueue};
use maracas_core::dispatch::{self, Readings};
use maracas_core::{Duration, VcpuId};
use std::collections::{BTreeSet, VecDeque};

/// A thread is confined elsewhere for so long, at most, in nanoseconds.
const AWAY: u64 = 3_000_000;
/// One thread in so many forks another one before it belongs to a VCPU, where births take time, and
/// that runs for so long, at most, in nanoseconds.
const FORKS_EARLY: u64 = 3;
const FORKED: u64 = 200_000;
/// Threads in all, beyond which none is forked.
const MOST: usize = 64;

/// Which threads count where, which were forked, and what is drawn of that.
pub(super) struct Members {
    /// Runnable threads of each VCPU, in the order of their turns.
    pub(super) turns: Vec<VecDeque<usize>>,
    /// VCPUs that have left their slots.
    pub(super) left: BTreeSet<VcpuId>,
    /// Threads that were forked, each with its parent.
    forked: Vec<(usize, usize)>,
    dice: Dice,
}

impl Members {
    pub(super) fn new(seed: u64, vcpus: usize) -> Self {
        let (turns, left) = (vec![VecDeque::new(); vcpus], BTreeSet::new());
        Self { turns, left, forked: Vec::new(), dice: Dice::new(seed ^ 0x57a7) }
    }
}

impl Thread {
    /// Of no VCPU, in the group of one; what it does before it blocks.
    const fn new(group: VcpuId, program: Program, left: u64) -> Self {
        let jobs = VecDeque::new();
        let (joined, wakes_at, away_until, birth, is_gone) = (None, u64::MAX, 0, None, false);
        Self { group, joined, program, left, wakes_at, jobs, is_gone, away_until, birth }
    }
}

impl World {
    /// Another thread in the group of a VCPU, which nothing has joined to it. It may be at a fork.
    pub(super) fn add(&mut self, group: VcpuId, program: Program) {
        // One that works on jobs does nothing at first.
        let is_idle = matches!(program, Program::Jobs { .. });
        let left = if is_idle { 0 } else { work(program, &mut self.dice) };
        let place = self.threads.len();
        self.threads.push(Thread::new(group, program, left));
        let forks = self.faults.birth > 0 && self.threads.len() < MOST;
        if forks && self.members.dice.one_in(FORKS_EARLY) {
            let run = self.members.dice.between(1_000, FORKED);
            self.fork(place, run);
        }
    }

    /// A thread forks another one now and then.
    pub(super) fn may_fork(&mut self, place: usize) {
        let one_in = self.faults.fork_one_in;
        if one_in != 0 && self.threads.len() < MOST && self.dice.one_in(one_in) {
            let run = self.dice.between(1_000, FORKED);
            self.fork(place, run);
        }
    }

    /// A thread makes another one, which belongs to its VCPU and runs for so long.
    fn fork(&mut self, parent: usize, run: u64) {
        let Thread { group, joined, .. } = self.threads[parent];
        let takes = self.faults.birth;
        let at = if takes == 0 { 0 } else { self.now + self.members.dice.between(1, takes) };
        let thread = Thread::new(group, Program::Once { run }, run);
        self.threads.push(Thread { joined, birth: Some((at, parent)), ..thread });
        if takes == 0 {
            self.born(self.threads.len() - 1, parent);
        }
    }

    /// It is listed, and becomes runnable.
    fn born(&mut self, place: usize, parent: usize) {
        self.threads[place].birth = None;
        self.members.forked.push((place, parent));
        if self.threads[place].joined.is_none() && self.mistake != Some(Mistake::NotInherited) {
            self.threads[place].joined = self.threads[parent].joined;
        }
        self.count(place);
    }

    /// Those of a group that live and are listed, by number.
    pub(super) fn tids(&self, group: VcpuId) -> impl Iterator<Item = i32> {
        let own = move |(_, it): &(usize, &Thread)| {
            it.group == group && !it.is_gone && it.birth.is_none()
        };
        self.threads.iter().enumerate().filter(own).map(|(place, _)| place as i32 + 1)
    }

    /// A thread that was forked and belongs to no VCPU, though its parent does.
    pub(super) fn left_out(&self) -> Option<usize> {
        let is_out = |(place, parent): &&(usize, usize)| {
            let [child, parent] = [place, parent].map(|place| &self.threads[*place]);
            !child.is_gone && child.joined.is_none() && parent.joined.is_some()
        };
        self.members.forked.iter().find(is_out).map(|(place, _)| *place)
    }

    /// A runnable thread counts among those of its VCPU from now on.
    pub(super) fn count(&mut self, place: usize) {
        let Some(vcpu) = self.threads[place].joined else { return };
        let number = self.lent.number(vcpu);
        let turns = &mut self.members.turns[vcpu.0 as usize];
        if turns.contains(&place) {
            return;
        }
        turns.push_back(place);
        if turns.len() == 1 {
            let core = self.homes.get(&vcpu).copied().unwrap_or_default();
            let raw = Raw::Woke { core: usize::from(core.0), number, at: self.now };
            self.put(raw, true);
            self.learnt.woken[vcpu.0 as usize] += 1;
        }
        let letter = if self.is_away(place) { 'W' } else { 'w' };
        self.step(&format!("{letter} {number}"));
    }

    pub(super) fn uncount(&mut self, place: usize) {
        let Some(vcpu) = self.threads[place].joined else { return };
        let number = self.lent.number(vcpu);
        let turns = &mut self.members.turns[vcpu.0 as usize];
        let before = turns.len();
        turns.retain(|it| *it != place);
        if turns.len() < before {
            let letter = if self.is_away(place) { 'B' } else { 'b' };
            self.step(&format!("{letter} {number}"));
        }
    }

    /// Whether the law is told that a thread is confined elsewhere.
    fn is_away(&self, place: usize) -> bool {
        self.threads[place].away_until > 0 && self.mistake != Some(Mistake::NotPassed)
    }

    /// The thread that is on the core where its VCPU is.
    pub(super) fn front(&self, vcpu: VcpuId) -> Option<usize> {
        let mut turns = self.members.turns[vcpu.0 as usize].iter().copied();
        turns.find(|place| self.threads[*place].away_until == 0)
    }

    /// A thread that does not count may be confined elsewhere for a while.
    pub(super) fn stray(&mut self, place: usize) {
        let one_in = self.faults.stray_one_in;
        if one_in != 0 && self.threads[place].away_until == 0 && self.members.dice.one_in(one_in) {
            self.threads[place].away_until = self.now + self.members.dice.between(1, AWAY);
        }
    }

    /// When a thread can run on its core again, or is born, at the earliest.
    pub(super) fn next_of_threads(&self) -> u64 {
        let away = self.threads.iter().map(|it| it.away_until).filter(|at| *at > 0);
        let births = self.threads.iter().filter_map(|it| it.birth.filter(|_| !it.is_gone));
        away.chain(births.map(|(at, _)| at)).min().unwrap_or(u64::MAX)
    }

    /// Threads that run may be confined elsewhere from now on, those that were for long enough are
    /// not any more, and some are born.
    pub(super) fn part(&mut self) {
        for core in 0..self.cpus.len() {
            let Some(held) = self.cpus[core].held else { continue };
            let Some(place) = self.front(held.vcpu) else { continue };
            self.stray(place);
            if self.is_away(place) {
                self.step(&format!("a {}", held.number));
            }
        }
        for place in 0..self.threads.len() {
            let Thread { away_until, birth, is_gone, joined, .. } = self.threads[place];
            if away_until > 0 && away_until <= self.now {
                let was_away = self.is_away(place);
                self.threads[place].away_until = 0;
                let vcpu = joined.filter(|it| self.members.turns[it.0 as usize].contains(&place));
                if let Some(vcpu) = vcpu.filter(|_| was_away) {
                    self.step(&format!("h {}", self.lent.number(vcpu)));
                }
            }
            if let Some((at, parent)) = birth.filter(|_| !is_gone)
                && at <= self.now
            {
                self.born(place, parent);
            }
        }
    }

    /// What each core holds is what the law in Rust chooses, where what has no thread that can run
    /// is taken for not runnable.
    pub(super) fn follows_the_law(&self) {
        for (core, cpu) in self.cpus.iter().enumerate() {
            let (least, reads) = (self.faults.least, self.counted.meters[0][core]);
            let come = super::world::instant(self.now.saturating_add(least));
            let next = dispatch::next(&cpu.run_queue, come, reads, &Seen { world: self, core });
            let held = cpu.held.map(|held| (held.vcpu, held.mode));
            let next = next.map(|next| (next.vcpu, next.mode));
            // Cores choose one after the other: one may let go of what another would have.
            let stands = |it: &RunQueue, vcpu| {
                it.foreground.iter().chain(&it.background).any(|grant| grant.vcpu == vcpu)
            };
            let mut others = self.cpus.iter().enumerate().filter(|(other, _)| *other != core);
            let is_shared = next
                .is_some_and(|(vcpu, _)| others.any(|(_, other)| stands(&other.run_queue, vcpu)));
            let now = self.now;
            assert!(next == held || is_shared, "at {now} core{core} has {held:?}, not {next:?}");
        }
    }
}

/// What a core sees of the VCPUs.
struct Seen<'a> {
    world: &'a World,
    core: usize,
}

impl Readings for Seen<'_> {
    fn runnable(&self, vcpu: VcpuId) -> bool {
        let Self { world, core } = self;
        let cpu = &world.cpus[*core];
        // By the number that it has.
        let RunQueue { foreground, background, .. } = &cpu.run_queue;
        let vcpus = foreground.iter().chain(background).map(|grant| grant.vcpu);
        let own = world.lent.numbers[vcpu.0 as usize];
        let is_known = vcpus.zip(&cpu.numbers).any(|it| it == (vcpu, &own));
        let is_elsewhere = |(other, cpu): (usize, &super::world::Cpu)| {
            other != *core && cpu.held.is_some_and(|held| held.vcpu == vcpu)
        };
        own.is_some()
            && is_known
            && !world.members.left.contains(&vcpu)
            && world.front(vcpu).is_some()
            && !world.cpus.iter().enumerate().any(is_elsewhere)
    }
    fn meter(&self, vcpu: VcpuId, mode: Mode) -> Duration {
        let meter = self.world.meters[vcpu.0 as usize][mode as usize];
        Duration::from_ticks(meter + self.world.faults.least)
    }
    fn memory(&self, vcpu: VcpuId) -> u64 {
        self.world.counted.meters[1][vcpu.0 as usize]
    }
    fn has_woken(&self, vcpu: VcpuId) -> bool {
        let vcpu = vcpu.0 as usize;
        self.world.learnt.woken[vcpu] != self.world.cpus[self.core].known[vcpu]
    }
}
