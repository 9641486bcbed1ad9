//! A memory controller and its DDR3-1333, clock by clock: what the law is judged by where no data
//! of others are at hand. It shares nothing with the law but the names of the patterns.
//!
//! One command a clock; open pages; first ready, first come; 32 reads and 32 writes queue, more
//! wait outside. Writes are drained once 24 wait, down to 16, and only then; while they are, rows
//! are opened for reads too. Rows are closed for a refresh of the whole rank.

use maracas_core::memory::Pattern;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

// Timings of DDR3-1333 9-9-9 in clocks, by their JEDEC names.
const TCK_NS: f64 = 1.5;
const CL: u64 = 9;
const CWL: u64 = 7;
const TRCD: u64 = 9;
const TRP: u64 = 9;
const TRAS: u64 = 24;
const TRRD: u64 = 4;
const TFAW: u64 = 20;
const TWR: u64 = 10;
const TWTR: u64 = 5;
const TRTP: u64 = 5;
const TRTRS: u64 = 2;
const TRFC: u64 = 174;
const TREFI: u64 = 5_200;
const BURST: u64 = 4;
const QUEUE: usize = 32;
const DRAIN_FROM: usize = 24;
const DRAIN_TO: usize = 16;
/// On the way through the controller, ns.
const PATH_NS: f64 = 1.5;
const LINES_PER_ROW: u64 = 128;

/// SplitMix64.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// Slots that think (exponentially, mean W Z), read, wait, and sometimes write back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Core {
    pub(crate) pattern: Pattern,
    pub(crate) slots: usize,
    pub(crate) think_ns: f64,
    pub(crate) writebacks: f64,
}

/// What a core got.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Got {
    pub(crate) reads_per_ns: f64,
    pub(crate) latency_ns: f64,
}

impl Got {
    /// From sums over so many ns to means.
    fn averaged(self, ns: f64) -> Self {
        Self {
            latency_ns: self.latency_ns / self.reads_per_ns.max(1.0),
            reads_per_ns: self.reads_per_ns / ns,
        }
    }
}

#[derive(Clone, Copy)]
struct Place {
    rank: usize,
    bank: usize,
    row: u32,
}

/// Row over rank over bank over column; rank and bank are XOR-ed with bits of the row.
fn place(line: u64) -> Place {
    let row = line / LINES_PER_ROW;
    let (bank, rank, row) = (row % 8, row / 8 % 2, row / 16);
    Place {
        rank: (rank ^ (row >> 3 & 1)) as usize,
        bank: (bank ^ (row & 7)) as usize,
        row: row as u32,
    }
}

/// The addresses of one core.
struct Walk {
    pattern: Pattern,
    core: u64,
    frames: Vec<u64>,
    reads: u64,
    writes: u64,
    dice: Dice,
}

impl Walk {
    fn new(pattern: Pattern, core: u64, seed: u64) -> Self {
        let mut dice = Dice(seed * 7_919 + core);
        let frames = (0..1_536).map(|_| dice.next() % (1 << 20)).collect();
        Self { pattern, core, frames, reads: dice.next() % 100_000, writes: 0, dice }
    }

    fn read(&mut self) -> Place {
        self.reads += 1;
        self.at(self.reads)
    }

    /// Lines evicted lie far from those read.
    fn write(&mut self) -> Place {
        self.writes += 1;
        self.at(self.writes + (1 << 19) + 384)
    }

    fn at(&mut self, k: u64) -> Place {
        let base = (self.core << 24) + self.core * 37 * LINES_PER_ROW;
        let new_row = |dice: &mut Dice| (dice.next() % 60_000) as u32;
        match self.pattern {
            Pattern::Jump => place(base + k % 768 * LINES_PER_ROW + k / 768 % LINES_PER_ROW),
            Pattern::JumpRandom => {
                let frames = self.frames.len() as u64;
                place(base + self.frames[(k % frames) as usize] * 64 + k / frames % 64)
            }
            Pattern::Random => place(base + self.dice.next() % (1 << 23)),
            Pattern::Sequential => place(base + k % (1 << 20)),
            Pattern::SameBank => Place { rank: 0, bank: 0, row: new_row(&mut self.dice) },
            Pattern::PrivateBank => {
                let bank = self.core as usize * 3 + 1;
                Place { rank: bank / 8 % 2, bank: bank % 8, row: new_row(&mut self.dice) }
            }
        }
    }
}

/// The first clocks at which a bank may be given a command.
#[derive(Clone, Copy, Default)]
struct Bank {
    row: Option<u32>,
    activate: u64,
    precharge: u64,
    column: u64,
}

#[derive(Clone, Copy, Default)]
struct Rank {
    read: u64,
    write: u64,
    activate: u64,
    last_activates: [u64; 4],
    refresh: u64,
}

#[derive(Clone, Copy)]
struct Request {
    place: Place,
    core: usize,
    arrived_ns: f64,
}

struct Controller {
    clock: u64,
    banks: [[Bank; 8]; 2],
    ranks: [Rank; 2],
    reads: Vec<Request>,
    writes: Vec<Request>,
    draining: bool,
}

impl Controller {
    fn new() -> Self {
        let rank = |refresh| Rank { refresh, ..Rank::default() };
        Self {
            clock: 0,
            banks: [[Bank::default(); 8]; 2],
            ranks: [rank(TREFI / 2), rank(TREFI)],
            reads: Vec::new(),
            writes: Vec::new(),
            draining: false,
        }
    }

    /// One command at most. A read that it starts is returned.
    fn step(&mut self) -> Option<Request> {
        if (0..2).any(|rank| self.refresh(rank)) {
            return None;
        }
        let enough = if self.draining { DRAIN_TO + 1 } else { DRAIN_FROM };
        self.draining = self.writes.len() >= enough;
        let queue = if self.draining { &self.writes } else { &self.reads };
        if let Some(at) = queue.iter().position(|request| self.ready(request.place)) {
            return self.column(at);
        }
        let reads_too = if self.draining { self.reads.as_slice() } else { &[] };
        let (place, open) =
            self.row_command(queue, &[]).or_else(|| self.row_command(reads_too, &self.writes))?;
        if open {
            self.activate(place)
        } else {
            self.precharge(place)
        }
        None
    }

    /// Works towards a refresh that is due.
    fn refresh(&mut self, rank: usize) -> bool {
        let (clock, banks) = (self.clock, &mut self.banks[rank]);
        if clock < self.ranks[rank].refresh {
            return false;
        }
        if banks.iter().all(|bank| bank.row.is_none()) {
            let idle = banks.iter().all(|bank| clock >= bank.activate);
            if idle {
                banks.iter_mut().for_each(|bank| bank.activate = clock + TRFC);
                self.ranks[rank].refresh += TREFI;
            }
            return idle;
        }
        let can_close = banks.iter().all(|bank| bank.row.is_none() || clock >= bank.precharge);
        if can_close {
            for bank in banks.iter_mut().filter(|bank| bank.row.is_some()) {
                bank.row = None;
                bank.activate = bank.activate.max(clock + TRP);
            }
        }
        can_close
    }

    fn refreshing(&self, place: Place) -> bool {
        self.clock >= self.ranks[place.rank].refresh
    }

    fn ready(&self, place: Place) -> bool {
        let (bank, rank) = (&self.banks[place.rank][place.bank], &self.ranks[place.rank]);
        let bus = if self.draining { rank.write } else { rank.read };
        bank.row == Some(place.row) && self.clock >= bank.column.max(bus) && !self.refreshing(place)
    }

    fn column(&mut self, at: usize) -> Option<Request> {
        let queue = if self.draining { &mut self.writes } else { &mut self.reads };
        let request = queue.remove(at);
        let (clock, place) = (self.clock, request.place);
        let bank = &mut self.banks[place.rank][place.bank];
        let recovery = if self.draining { CWL + BURST + TWR } else { TRTP };
        bank.precharge = bank.precharge.max(clock + recovery);
        for (rank, times) in self.ranks.iter_mut().enumerate() {
            let same = rank == place.rank;
            let next = BURST + if same { 0 } else { TRTRS };
            let (read, write) = match (self.draining, same) {
                (false, _) => (next, CL + BURST + TRTRS - CWL),
                (true, true) => (CWL + BURST + TWTR, next),
                (true, false) => (CWL + BURST + TRTRS - CL, next),
            };
            times.read = times.read.max(clock + read);
            times.write = times.write.max(clock + write);
        }
        (!self.draining).then_some(request)
    }

    /// The oldest request that a row can be opened (true) or closed for, one request a bank. Banks
    /// that `first` wants are left alone.
    fn row_command(&self, queue: &[Request], first: &[Request]) -> Option<(Place, bool)> {
        let mut seen = [[false; 8]; 2];
        for request in first {
            seen[request.place.rank][request.place.bank] = true;
        }
        for Request { place, .. } in queue {
            let seen = &mut seen[place.rank][place.bank];
            if *seen || self.refreshing(*place) {
                continue;
            }
            *seen = true;
            let (bank, rank) = (&self.banks[place.rank][place.bank], &self.ranks[place.rank]);
            let Some(row) = bank.row else {
                let window = match rank.last_activates[0] {
                    0 => 0,
                    first => first + TFAW,
                };
                if self.clock >= bank.activate.max(rank.activate).max(window) {
                    return Some((*place, true));
                }
                continue;
            };
            let wanted = |other: &Request| {
                (other.place.rank, other.place.bank) == (place.rank, place.bank)
                    && other.place.row == row
            };
            if self.clock >= bank.precharge && !queue.iter().any(wanted) {
                return Some((*place, false));
            }
        }
        None
    }

    fn activate(&mut self, place: Place) {
        let (bank, rank) = (&mut self.banks[place.rank][place.bank], &mut self.ranks[place.rank]);
        bank.row = Some(place.row);
        bank.column = self.clock + TRCD;
        bank.precharge = self.clock + TRAS;
        bank.activate = self.clock + TRAS + TRP;
        rank.activate = self.clock + TRRD;
        rank.last_activates.rotate_left(1);
        rank.last_activates[3] = self.clock;
    }

    fn precharge(&mut self, place: Place) {
        let bank = &mut self.banks[place.rank][place.bank];
        bank.row = None;
        bank.activate = bank.activate.max(self.clock + TRP);
    }
}

fn picoseconds(ns: f64) -> u64 {
    (ns * 1e3) as u64
}

/// All of it for so many ns, after a sixth as much to warm up.
pub(crate) fn simulate(cores: &[Core], ns: f64, seed: u64) -> Vec<Got> {
    let mut dice = Dice(seed);
    let mut walks: Vec<Walk> =
        (0..cores.len()).map(|core| Walk::new(cores[core].pattern, core as u64, seed)).collect();
    let mut controller = Controller::new();
    // In picoseconds: a slot that thought enough; a read that is back, with its arrival.
    let mut issues = BinaryHeap::new();
    let mut returns: BinaryHeap<Reverse<(u64, usize, u64)>> = BinaryHeap::new();
    let mut reads = VecDeque::new();
    // Writes that find the queue full hold their slot back.
    let mut writes: VecDeque<(Request, Option<u64>)> = VecDeque::new();
    let mut got = vec![Got::default(); cores.len()];
    for (i, core) in cores.iter().enumerate() {
        for _ in 0..core.slots {
            issues.push(Reverse((picoseconds(dice.exponential(core.think_ns)), i)));
        }
    }
    let (warm, end) = (picoseconds(ns / 6.0), picoseconds(ns + ns / 6.0));
    while picoseconds(controller.clock as f64 * TCK_NS) < end {
        let now = picoseconds(controller.clock as f64 * TCK_NS);
        while let Some(Reverse((at, i, arrived))) = returns.peek().copied() {
            if at > now {
                break;
            }
            returns.pop();
            if at > warm {
                got[i].reads_per_ns += 1.0;
                got[i].latency_ns += (at - arrived) as f64 / 1e3;
            }
            let core = &cores[i];
            let next = at + picoseconds(dice.exponential(core.think_ns * core.slots as f64));
            if dice.unit() < core.writebacks {
                let request = Request { place: walks[i].write(), core: i, arrived_ns: 0.0 };
                writes.push_back((request, Some(next)));
            } else {
                issues.push(Reverse((next, i)));
            }
        }
        while let Some(Reverse((at, i))) = issues.peek().copied() {
            if at > now {
                break;
            }
            issues.pop();
            let arrived_ns = at as f64 / 1e3;
            reads.push_back(Request { place: walks[i].read(), core: i, arrived_ns });
        }
        while controller.writes.len() < QUEUE {
            let Some((request, next)) = writes.pop_front() else { break };
            if let Some(next) = next {
                issues.push(Reverse((next.max(now), request.core)));
            }
            controller.writes.push(request);
        }
        if let Some(read) = controller.step() {
            let back = (controller.clock + CL + BURST) as f64 * TCK_NS + PATH_NS;
            let arrived = picoseconds(read.arrived_ns);
            returns.push(Reverse((picoseconds(back), read.core, arrived)));
        }
        // What arrives now can be scheduled by the next clock.
        while controller.reads.len() < QUEUE {
            let Some(read) = reads.pop_front() else { break };
            controller.reads.push(read);
        }
        controller.clock += 1;
    }
    got.into_iter().map(|got| got.averaged(ns)).collect()
}
