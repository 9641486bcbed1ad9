//! A memory controller and the DRAM of one channel, clock by clock.
//!
//! One command a clock; open pages; first ready, first come; [`QUEUE`] reads and as many writes
//! queue, more wait outside. Writes are drained once [`DRAIN_FROM`] wait, down to [`DRAIN_TO`], and
//! only then; while they are, rows are opened for reads too. Rows are closed for a refresh of the
//! whole rank, one rank after the other.

use maracas_core::memory::Dram;
use std::collections::VecDeque;

/// Entries of the read and of the write queue, as in the simulator whose grid the law was fitted
/// to.
const QUEUE: usize = 32;
const DRAIN_FROM: usize = 24;
const DRAIN_TO: usize = 16;
/// On the way through the controller: one clock of DDR3-1333.
pub(super) const PATH_PS: u64 = 1_500;

/// Timings in clocks, by their JEDEC names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timings {
    clock_ps: u64,
    cl: u64,
    cwl: u64,
    trcd: u64,
    trp: u64,
    tras: u64,
    trrd: u64,
    tfaw: u64,
    twr: u64,
    twtr: u64,
    trtp: u64,
    trtrs: u64,
    trfc: u64,
    trefi: u64,
    burst: u64,
}

impl Timings {
    /// Those that [`Dram`] does not say are DDR3's (JESD79-3, 1 KiB pages): tRRD 6 ns and tRTP 7.5
    /// ns, each four clocks at least, and tFAW 30 ns; two clocks between ranks.
    pub(super) fn of(dram: &Dram) -> Self {
        let clocks = |ps: u64| ps.div_ceil(dram.clock_ps.max(1));
        Self {
            clock_ps: dram.clock_ps,
            cl: dram.cas.into(),
            cwl: dram.cas_write.into(),
            trcd: dram.activate.into(),
            trp: dram.precharge.into(),
            tras: dram.row_active.into(),
            trrd: clocks(6_000).max(4),
            tfaw: clocks(30_000),
            twr: dram.write_recovery.into(),
            twtr: dram.write_to_read.into(),
            trtp: clocks(7_500).max(4),
            trtrs: 2,
            trfc: dram.refresh.into(),
            trefi: dram.refresh_interval.into(),
            burst: (u64::from(dram.burst_transfers) / 2).max(1),
        }
    }
}

/// A row of a bank.
#[derive(Clone, Copy)]
pub(super) struct BankPlace {
    pub(super) rank: usize,
    pub(super) bank: usize,
    pub(super) row: u32,
}

/// The first clocks at which a bank may be given a command.
#[derive(Clone, Copy, Default)]
struct Bank {
    row: Option<u32>,
    activate: u64,
    precharge: u64,
    column: u64,
}

#[derive(Clone, Default)]
struct Rank {
    banks: Vec<Bank>,
    read: u64,
    write: u64,
    activate: u64,
    last_activates: [u64; 4],
    refresh: u64,
}

/// A read or a write.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) place: BankPlace,
    pub(super) requestor: usize,
    pub(super) arrived_ps: u64,
}

/// What is to be done to a row, and for whose request.
#[derive(Clone, Copy)]
struct RowCommand {
    place: BankPlace,
    /// Open it, or close what is open.
    opens: bool,
    requestor: usize,
    reads: bool,
}

/// One channel.
pub(super) struct Controller {
    timings: Timings,
    clock: u64,
    ranks: Vec<Rank>,
    reads: Vec<Request>,
    writes: Vec<Request>,
    draining: bool,
    /// For whose reads a row was opened in this clock.
    pub(super) opened: Vec<usize>,
    /// Room for which banks were looked at.
    seen: Vec<bool>,
}

impl Controller {
    pub(super) fn new(timings: Timings, dram: &Dram) -> Self {
        let (ranks, banks) = (u64::from(dram.ranks.max(1)), dram.banks.max(1) as usize);
        let rank = |place: u64| Rank {
            banks: vec![Bank::default(); banks],
            refresh: timings.trefi * (place + 1) / ranks,
            ..Rank::default()
        };
        Self {
            timings,
            clock: 0,
            ranks: (0..ranks).map(rank).collect(),
            reads: Vec::new(),
            writes: Vec::new(),
            draining: false,
            opened: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// From the start of a read to its last beat of data at the processor.
    pub(super) const fn read_ps(&self) -> u64 {
        (self.timings.cl + self.timings.burst) * self.timings.clock_ps + PATH_PS
    }
    pub(super) fn has_room_for_a_write(&self) -> bool {
        self.writes.len() < QUEUE
    }
    pub(super) fn take_write(&mut self, write: Request) {
        self.writes.push(write);
    }
    /// Takes in as many as there is room for.
    pub(super) fn take_reads(&mut self, gate: &mut VecDeque<Request>) {
        while self.reads.len() < QUEUE {
            let Some(read) = gate.pop_front() else { break };
            self.reads.push(read);
        }
    }

    /// One clock, and one command at most. A read that it starts is returned.
    pub(super) fn step(&mut self) -> Option<Request> {
        let started = self.command();
        self.clock += 1;
        started
    }

    fn command(&mut self) -> Option<Request> {
        if (0..self.ranks.len()).any(|rank| self.refresh(rank)) {
            return None;
        }
        let enough = if self.draining { DRAIN_TO + 1 } else { DRAIN_FROM };
        self.draining = self.writes.len() >= enough;
        let queue = if self.draining { &self.writes } else { &self.reads };
        if let Some(at) = queue.iter().position(|request| self.ready(request.place)) {
            return self.column(at);
        }
        let mut seen = std::mem::take(&mut self.seen);
        let mut command = self.row_command(!self.draining, &mut seen, false);
        if self.draining && command.is_none() {
            command = self.row_command(true, &mut seen, true);
        }
        self.seen = seen;
        let command = command?;
        if command.opens {
            self.activate(command.place);
            if command.reads {
                self.opened.push(command.requestor);
            }
        } else {
            self.precharge(command.place);
        }
        None
    }

    /// Works towards a refresh that is due.
    fn refresh(&mut self, rank: usize) -> bool {
        let Self { clock, timings, .. } = *self;
        let rank = &mut self.ranks[rank];
        if clock < rank.refresh {
            return false;
        }
        let banks = &mut rank.banks;
        if banks.iter().all(|bank| bank.row.is_none()) {
            let idle = banks.iter().all(|bank| clock >= bank.activate);
            if idle {
                banks.iter_mut().for_each(|bank| bank.activate = clock + timings.trfc);
                rank.refresh += timings.trefi;
            }
            return idle;
        }
        let can_close = banks.iter().all(|bank| bank.row.is_none() || clock >= bank.precharge);
        if can_close {
            for bank in banks.iter_mut().filter(|bank| bank.row.is_some()) {
                bank.row = None;
                bank.activate = bank.activate.max(clock + timings.trp);
            }
        }
        can_close
    }

    fn refreshing(&self, place: BankPlace) -> bool {
        self.clock >= self.ranks[place.rank].refresh
    }

    fn ready(&self, place: BankPlace) -> bool {
        let rank = &self.ranks[place.rank];
        let bank = &rank.banks[place.bank];
        let bus = if self.draining { rank.write } else { rank.read };
        bank.row == Some(place.row) && self.clock >= bank.column.max(bus) && !self.refreshing(place)
    }

    /// Transfers the line of the request at this place of the queue in turn.
    fn column(&mut self, at: usize) -> Option<Request> {
        let queue = if self.draining { &mut self.writes } else { &mut self.reads };
        let request = queue.remove(at);
        let (clock, place, t) = (self.clock, request.place, self.timings);
        let bank = &mut self.ranks[place.rank].banks[place.bank];
        let recovery = if self.draining { t.cwl + t.burst + t.twr } else { t.trtp };
        bank.precharge = bank.precharge.max(clock + recovery);
        for (rank, times) in self.ranks.iter_mut().enumerate() {
            let same = rank == place.rank;
            let next = t.burst + if same { 0 } else { t.trtrs };
            let later = |from: u64, less: u64| from.saturating_sub(less);
            let (read, write) = match (self.draining, same) {
                (false, _) => (next, later(t.cl + t.burst + t.trtrs, t.cwl)),
                (true, true) => (t.cwl + t.burst + t.twtr, next),
                (true, false) => (later(t.cwl + t.burst + t.trtrs, t.cl), next),
            };
            times.read = times.read.max(clock + read);
            times.write = times.write.max(clock + write);
        }
        (!self.draining).then_some(request)
    }

    /// The oldest request of the reads or the writes that a row can be opened or closed for, one
    /// request a bank. Banks that writes want are left alone where these go `first`.
    fn row_command(&self, reads: bool, seen: &mut Vec<bool>, first: bool) -> Option<RowCommand> {
        let banks = self.ranks[0].banks.len();
        let at = |place: BankPlace| place.rank * banks + place.bank;
        seen.clear();
        seen.resize(self.ranks.len() * banks, false);
        if first {
            self.writes.iter().for_each(|write| seen[at(write.place)] = true);
        }
        let queue = if reads { &self.reads } else { &self.writes };
        for Request { place, requestor, .. } in queue.iter().copied() {
            if seen[at(place)] || self.refreshing(place) {
                continue;
            }
            seen[at(place)] = true;
            let rank = &self.ranks[place.rank];
            let bank = &rank.banks[place.bank];
            let Some(row) = bank.row else {
                let window = match rank.last_activates[0] {
                    0 => 0,
                    first => first + self.timings.tfaw,
                };
                if self.clock >= bank.activate.max(rank.activate).max(window) {
                    return Some(RowCommand { place, opens: true, requestor, reads });
                }
                continue;
            };
            let wanted = |other: &Request| at(other.place) == at(place) && other.place.row == row;
            if self.clock >= bank.precharge && !queue.iter().any(wanted) {
                return Some(RowCommand { place, opens: false, requestor, reads });
            }
        }
        None
    }

    fn activate(&mut self, place: BankPlace) {
        let (clock, t) = (self.clock, self.timings);
        let rank = &mut self.ranks[place.rank];
        let bank = &mut rank.banks[place.bank];
        bank.row = Some(place.row);
        bank.column = clock + t.trcd;
        bank.precharge = clock + t.tras;
        bank.activate = clock + t.tras + t.trp;
        rank.activate = clock + t.trrd;
        rank.last_activates.rotate_left(1);
        rank.last_activates[3] = clock;
    }

    fn precharge(&mut self, place: BankPlace) {
        let after = self.clock + self.timings.trp;
        let bank = &mut self.ranks[place.rank].banks[place.bank];
        bank.row = None;
        bank.activate = bank.activate.max(after);
    }
}
