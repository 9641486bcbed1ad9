//! The slots that the simulated kernel has for VCPUs: who comes gets one, and who leaves may leave
//! something there for a while.

use super::Mistake;
use super::world::{Raw, World};
use maracas_core::contract::RunQueue;
use maracas_core::{CoreId, VcpuId};
use maracas_live_core::{Slots, Taken};
use std::io;

/// By how much the numbers of one slot differ (`LAW_VCPUS`).
const STRIDE: u32 = 1024;
/// No such thread (errno-base.h).
const ESRCH: i32 = 3;
/// A thread that ran when its VCPU left counts there for so long, at most, in nanoseconds.
const LINGERS: u64 = 4_000_000;

/// Who has a slot.
pub(super) struct Lent {
    /// As user space knows it.
    pub(super) slots: Slots,
    /// As it is: the number of each VCPU that has or had one, and who has each slot or had it last.
    pub(super) numbers: Vec<Option<u32>>,
    pub(super) owners: Vec<Option<VcpuId>>,
    /// Threads of what has left that count in its slot up to an instant, by its number.
    lingering: Vec<(u64, u32)>,
    /// What is said of what has left while it ran, up to an instant: it is said later, but before
    /// its slot is used again.
    unsaid: Vec<(u64, Raw)>,
    /// The number of what leaves.
    leaving: Option<u32>,
    /// How often a slot was used again.
    pub(super) reuses: u64,
}

impl Lent {
    pub(super) fn new(slots: usize, vcpus: usize) -> Self {
        Self {
            slots: Slots::new(STRIDE, slots as u32),
            numbers: vec![None; vcpus],
            owners: vec![None; slots],
            lingering: Vec::new(),
            unsaid: Vec::new(),
            leaving: None,
            reuses: 0,
        }
    }

    /// The number that a VCPU has, or had.
    pub(super) fn number(&self, vcpu: VcpuId) -> u32 {
        self.numbers[vcpu.0 as usize].unwrap_or_else(|| panic!("{vcpu} never had a slot"))
    }

    /// Who has this number, or had it.
    pub(super) fn whose(&self, number: u32) -> VcpuId {
        let vcpu = self.numbers.iter().position(|it| *it == Some(number));
        VcpuId(vcpu.unwrap_or_else(|| panic!("{number} is no VCPU's")) as u32)
    }

    /// When something changes here, at the earliest.
    pub(super) fn next_change(&self) -> u64 {
        let lingering = self.lingering.iter().map(|(at, _)| *at);
        lingering.chain(self.unsaid.iter().map(|(at, _)| *at)).min().unwrap_or(u64::MAX)
    }
}

impl World {
    /// The VCPU of which something is said, by its number.
    pub(super) fn who(&self, number: u32) -> Option<VcpuId> {
        self.lent.slots.vcpu(number)
    }

    /// A VCPU of which what a core follows, or will, has an entry by another number than it has.
    pub(super) fn misnumbered(&self, core: usize) -> Option<VcpuId> {
        let sent = self.cpus[core].sent.as_ref().map(|sent| &sent.numbers);
        let RunQueue { foreground, background, .. } = self.sent(core);
        let vcpus = foreground.iter().chain(background).map(|grant| grant.vcpu);
        let mut numbered = vcpus.zip(sent.unwrap_or(&self.cpus[core].numbers));
        let is_other = |it: &(VcpuId, &Option<u32>)| {
            // A policy may have entries of what has left.
            self.lent.slots.number(it.0).is_some_and(|own| Some(own) != *it.1)
        };
        numbered.find(is_other).map(|(vcpu, _)| vcpu)
    }

    /// A VCPU stands on a core from now on, and has a slot.
    pub(super) fn settle(&mut self, vcpu: VcpuId, core: CoreId) {
        self.enter(vcpu);
        if self.mistake != Some(Mistake::NotSettled) || !self.dice.one_in(4) {
            self.homes.insert(vcpu, core);
        }
    }

    /// A VCPU gets a slot, where it has none.
    fn enter(&mut self, vcpu: VcpuId) {
        if self.lent.slots.number(vcpu).is_some() {
            return;
        }
        self.say(|_, _| true);
        self.read();
        let taken = self.lent.slots.take(vcpu);
        let Taken { number, before } =
            taken.unwrap_or_else(|| panic!("{vcpu} was let in and no slot is free"));
        if let Some(before) = before {
            self.learnt.reported.forget(before);
            self.lent.reuses += 1;
        }
        self.lent.numbers[vcpu.0 as usize] = Some(number);
        self.lent.owners[(number % STRIDE) as usize] = Some(vcpu);
        if self.mistake != Some(Mistake::NotCleared) {
            self.step(&format!("n {number}"));
        }
    }

    /// A thread belongs to a VCPU from now on.
    pub(super) fn join(&mut self, tid: i32, vcpu: VcpuId) -> io::Result<()> {
        let place = tid as usize - 1;
        if self.threads[place].is_gone {
            return Err(io::Error::from_raw_os_error(ESRCH));
        }
        self.may(true)?;
        self.enter(vcpu);
        if self.threads[place].joined.is_none() {
            self.threads[place].joined = Some(vcpu);
            if self.threads[place].left > 0 {
                self.count(place);
            }
        }
        Ok(())
    }

    /// How many VCPUs may be there at once now.
    pub(super) fn room(&mut self) -> usize {
        for number in self.lent.slots.left() {
            let vcpu = self.lent.whose(number);
            let has_left = self.depart(vcpu, false).is_ok();
            if has_left && (self.is_idle(vcpu) || self.mistake == Some(Mistake::LetGoEarly)) {
                self.lent.slots.let_go(number);
            }
        }
        self.lent.slots.room()
    }

    /// The kernel has nothing of a VCPU.
    fn is_idle(&self, vcpu: VcpuId) -> bool {
        let number = self.lent.number(vcpu);
        let counts = |(_, other): &(u64, u32)| *other == number;
        self.members.turns[vcpu.0 as usize].is_empty() && !self.lent.lingering.iter().any(counts)
    }

    /// The threads of a VCPU belong to none any more.
    pub(super) fn leave(&mut self, vcpu: VcpuId) -> io::Result<()> {
        match self.lent.slots.leave(vcpu) {
            Some(_) => self.depart(vcpu, true),
            None => Ok(()),
        }
    }

    fn depart(&mut self, vcpu: VcpuId, is_told: bool) -> io::Result<()> {
        self.may(is_told)?;
        if self.mistake == Some(Mistake::NotLeft) {
            return Ok(());
        }
        let number = self.lent.number(vcpu);
        let runs = self.cpus.iter().any(|cpu| cpu.held.is_some_and(|held| held.vcpu == vcpu));
        let running = self.front(vcpu).filter(|_| runs);
        // What memory it read is to be known before an allowance is told as spent.
        self.lent.leaving =
            Some(number).filter(|_| self.faults.slots > 0 && self.faults.chunk == 0);
        self.members.left.insert(vcpu);
        self.step(&format!("l {number}"));
        self.lent.leaving = None;
        for place in 0..self.threads.len() {
            if self.threads[place].joined != Some(vcpu) {
                continue;
            }
            if Some(place) == running && self.faults.slots > 0 {
                self.members.turns[vcpu.0 as usize].retain(|other| *other != place);
                let at = self.now + self.dice.between(1, LINGERS);
                self.lent.lingering.push((at, number));
            }
            self.uncount(place);
            self.threads[place].joined = None;
        }
        Ok(())
    }

    /// What lingered for long enough counts no more.
    pub(super) fn lingered(&mut self) {
        let now = self.now;
        while let Some(at) = self.lent.lingering.iter().position(|(at, _)| *at <= now) {
            let (_, number) = self.lent.lingering.swap_remove(at);
            self.step(&format!("b {number}"));
        }
        self.say(|now, at| at <= now);
    }

    /// Whether what is said is to be said later: of what leaves while it runs.
    pub(super) fn holds_back(&mut self, raw: Raw) -> bool {
        let Raw::Ran { held, .. } = raw else { return false };
        let is_held = self.lent.leaving == Some(held.number);
        if is_held {
            let at = self.now + self.dice.between(1, LINGERS);
            self.lent.unsaid.push((at, raw));
        }
        is_held
    }

    /// Says what was not said yet and is due.
    pub(super) fn say(&mut self, is_due: impl Fn(u64, u64) -> bool) {
        let now = self.now;
        while let Some(at) = self.lent.unsaid.iter().position(|(at, _)| is_due(now, *at)) {
            let (_, raw) = self.lent.unsaid.remove(at);
            self.put(raw, false);
        }
    }
}
