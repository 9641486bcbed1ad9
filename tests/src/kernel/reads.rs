//! What the simulated kernel counts of memory: events of its cores overflow at any instant, and the
//! law in C makes of that what it does inside the kernel (`bpf/memory.h`).

use super::Mistake;
use super::world::{Raw, World};
use maracas_core::contract::RunQueue;
use maracas_core::contract::{Grant, Mode};
use std::collections::VecDeque;

/// A core that is to choose again does so within so long, in nanoseconds, in which its event
/// overflows no more than once.
const KICKED: u64 = 5_000;
/// The longest time between two overflows, in nanoseconds.
const SELDOM: u64 = 100_000;

/// What is counted, and what must come of it.
#[derive(Default)]
pub(super) struct Counted {
    /// Reads of an overflow at most; 0 = nothing is counted.
    pub(super) chunk: u64,
    /// When the event of each core overflows next, and when a core chooses again by one that did.
    overflows_at: Vec<u64>,
    kicked_at: Vec<u64>,
    /// What overflowed while a VCPU was held, by core and by VCPU.
    overflowed: [Vec<u64>; 2],
    /// What their meters read by the law.
    pub(super) meters: [Vec<u64>; 2],
    /// What those of the cores read when each took its run queue.
    pub(super) taken: Vec<u64>,
    /// Allowances that were told as spent, by core, and that the policy does not know yet.
    pub(super) spent: Vec<VecDeque<u64>>,
    /// How many there were.
    pub(super) spendings: u64,
}

impl Counted {
    pub(super) fn new(chunk: u64, cores: usize, vcpus: usize) -> Self {
        let never = if chunk == 0 { u64::MAX } else { 0 };
        Self {
            chunk,
            overflows_at: vec![never; cores],
            kicked_at: vec![u64::MAX; cores],
            overflowed: [vec![0; cores], vec![0; vcpus]],
            meters: [vec![0; cores], vec![0; vcpus]],
            taken: vec![0; cores],
            spent: vec![VecDeque::new(); cores],
            spendings: 0,
        }
    }

    /// What a VCPU has read by now, charged or not.
    pub(super) fn read_by_now(&self, vcpu: usize) -> u64 {
        self.overflowed[1][vcpu]
    }

    /// When something happens for the sake of memory, at the earliest.
    pub(super) fn next_change(&self) -> u64 {
        self.overflows_at.iter().chain(&self.kicked_at).copied().min().unwrap_or(u64::MAX)
    }

    /// The law's meters are what overflowed, no more and no less.
    pub(super) fn verdict(&self) -> Result<(), String> {
        let [cores, vcpus] = &self.overflowed;
        if self.meters == self.overflowed {
            return Ok(());
        }
        let read = &self.meters;
        Err(format!("cores read {cores:?} and VCPUs {vcpus:?}, and the meters say {read:?}"))
    }
}

impl World {
    /// Events overflow that are due to, and cores choose again that are.
    pub(super) fn overflow(&mut self) {
        for core in 0..self.cpus.len() {
            if self.counted.overflows_at[core] > self.now {
                continue;
            }
            self.counted.overflows_at[core] = self.now + self.dice.between(KICKED, SELDOM);
            let reads = self.dice.between(1, self.counted.chunk);
            if let Some(held) = self.cpus[core].held {
                self.counted.overflowed[0][core] += reads;
                self.counted.overflowed[1][held.vcpu.0 as usize] += reads;
            }
            if self.ask(&format!("o {core} {reads}"))[core * 7 + 6] == 2 {
                self.counted.kicked_at[core] = self.now + self.dice.between(0, KICKED);
                if self.mistake == Some(Mistake::ReadsLost) && self.dice.one_in(4) {
                    self.ask(&format!("x {core}"));
                }
            }
        }
        for core in 0..self.cpus.len() {
            if self.counted.kicked_at[core] <= self.now {
                self.counted.kicked_at[core] = u64::MAX;
                self.step("t 0");
            }
        }
    }

    /// What is pending is charged.
    pub(super) fn charge_reads(&mut self) {
        if self.counted.chunk > 0 {
            self.step("t 0");
        }
    }

    /// After a step of the law, in which `tells` its allowance may have been told as spent.
    pub(super) fn hold_to_memory(&mut self, core: usize, tells: bool) {
        let RunQueue { allowance, foreground, background, .. } = &self.cpus[core].run_queue;
        let (allowance, reads) = (*allowance, self.counted.meters[0][core]);
        if let Some(held) = &self.cpus[core].held {
            assert!(!allowance.is_reached(reads), "{held:?} runs on core{core}, which is closed");
            let read = self.counted.meters[1][held.vcpu.0 as usize];
            let allows = |grant: &Grant| grant.vcpu == held.vcpu && !grant.memory.is_reached(read);
            let is_allowed = match held.mode {
                Mode::Foreground => foreground.iter().any(allows),
                Mode::Background => background.iter().any(allows),
            };
            assert!(is_allowed, "{held:?} runs beyond its limit of reads");
        }
        if !tells {
            return;
        }
        assert!(allowance.is_reached(reads), "core{core} has an allowance and says it has none");
        let beyond = reads - allowance.0;
        // What crossed it, and what came until the core chose again.
        let most = 2 * self.counted.chunk;
        let was_open = self.counted.taken[core] < allowance.0;
        assert!(!was_open || beyond < most, "core{core} is {beyond} reads beyond its allowance");
        let lost = self.lost;
        self.put(Raw::Spent { core, at: self.now }, true);
        if self.lost == lost {
            self.counted.spent[core].push_back(allowance.0);
        }
        self.counted.spendings += 1;
    }
}
