//! DRAM and bus contention: how long a read waits in the memory controller, given what else asks.
//!
//! A closed law, the "saturating line", is solved as a fixed point for a static set of requestors.
//! Its result depends on its input alone, and on no step before; it uses nothing but the exactly
//! rounded operations (`+ - * /` and the square root), so it has the same bits on every machine.
//!
//! # The law
//! Requestor i has W misses outstanding, thinks Z ns a read and writes wb lines back per read. Its
//! reads take L ns from the controller's memory gate to the last beat of data. All times are in ns.
//!
//! ```text
//! X_i   = 1 / (Z_i + L_i/W_i)        reads per ns;  N_i = X_i L_i  reads outstanding
//! w_i   = N_i / max(W_i, 1)          share of time in which a slot waits
//! A_ij  = N_j - [i=j] w_i            what a read of i meets of j
//! hit_i = h_i / (1 + phi (sum_{j/=i} X_j(1+wb_j) + wb_i X_i) / X_i)
//! lin_i = Lh hit_i + (Lc - tRP (1 - exp(-B/(tREFI sum X(1+wb))))) (1-hit_i)
//!         + T sum_j o_ij (1-hit_j) (A_ij - (1-w_i) u_ij/2) + D sum_j c_ij wb_j X_j
//!         + e G_i (L_i + Z_i W_i E / (2 Z_i W_i + E))
//!         with u_ij = min(A_ij, 1, T X_j)
//! bus_i = s_i (1 + k wb_i) + sum_j c_ij s_j (1 + k wb_j) A_ij,   s = sh hit + sc (1-hit)
//! L_i   = (lin_i^3 + bus_i^3)^(1/3)
//! L_i  >= b (1 + wb_i + sum_j c_ij (1 + wb_j) A_ij)
//! one bank only:  L_i = (L_i^5.5 + bank_i^5.5)^(1/5.5),
//!         bank_i = T (1 + kb wb_i) + T sum_j o_ij (1 + kb wb_j) (A_ij - (1-w_i) u_ij/2)
//! ```
//!
//! In words: the *line* is what a lightly loaded memory does (its own latency, the banks found
//! busy, the writes found going on); the *bus* is what a full one does; the cubic mean goes over
//! from one to the other. h is 1 for a stream and 0 otherwise. o_ij is the chance that a request
//! of i meets one of j in the same bank: 1 / (all banks) between spread patterns; 1 for the same
//! bank, 0 for private ones, and such pairs count in `bank` instead of `lin`; strides take the
//! banks in turn and meet less often. c_ij is the same for channels. The last factor of the bank
//! sum takes off what of the request in service is done already. After a refresh all rows are
//! closed, which spares a conflict the precharge where requests are rare (B counts all banks, and 1
//! for those that use one only). G_i is the rate of writes, as if undisturbed, to the busiest
//! single bank that is not i's own: every program waits while those are drained; D covers writes
//! that spread.
//!
//! The fixed point is approached from the idle latency until no latency moves by more than 1e-5 of
//! itself. More latency of one means more requests waiting for the next, so the steps go up.
//!
//! # Where the constants come from
//! [`Law::new`] names each and the timing it scales with. They were fitted, then rounded, to a
//! quarter of the grid in `tests/data/dram_ddr3_1333_grid.csv`: runs of equal cores on a
//! cycle-level simulator of DDR3-1333 (one channel, two ranks of eight banks, open page, FR-FCFS,
//! 32-entry queues). phi was fitted again, to the quarter that the test names; doing so with all
//! of them gains 0.3 percentage points, so the round ones stay. e was fitted to random mixes on
//! the memory of [`super::requests`], others than the test's. Where a machine was measured,
//! two effective constants replace fitted ones: [`Dram::conflict_latency_ps`] and
//! [`Dram::conflict_service_ps`].
//!
//! # How well
//! Mean error, 90th percentile in brackets, in percent; held by `tests/dram_grid.rs` and
//! `tests/dram_mixes.rs`:
//!
//! | against | rows | read latency | throughput |
//! |---|---|---|---|
//! | DDR3-1333 grid, the quarter for fitting | 288 | 4.2 (9.8) | 2.3 (4.4) |
//! | DDR3-1333 grid, the rest | 864 | 4.5 (9.5) | 2.3 (5.0) |
//! | private banks, writing, equal cores | 64 | 10.5 (38) | 3.5 (7.7) |
//! | cores that compute while they miss | 144 | 7 to 11 (31) | 10 to 16 (30) |
//! | DDR4-2400, random; streams | 72; 72 | 4.1 (8.4); 10.3 (21) | 2.1 (5.9); 3.6 (9.3) |
//! | DDR4-2400, strides of 8 KiB, of which three of four hit rows there | 72 | 32.5 | |
//! | mixes of 2 to 4 cores, spread patterns and streams | 400 | 4.8 (9.4) | 2.9 (6.2) |
//! | mixes of 2 to 4 cores, all six patterns alike | 400 | 6.6 (14) | 4.0 (8.9) |
//!
//! In the last, three mixes of four use single banks. DDR4's timings (16-16-16, two ranks of
//! sixteen banks) are inferred from its rows, and which timings k and D scale with was chosen
//! there.
//!
//! # What happens when load is added
//! No requestor's latency falls when another requestor comes in, or when another one writes more,
//! thinks less or has more outstanding; nor among equals when all of them do so. Held by
//! `tests/dram_load.rs` on random mixes. A requestor's *own* latency may fall when it alone thinks
//! less beside others: a stream loses its rows less often, and whatever is slowed by drains comes
//! less often in the middle of one. The *mean* of a mix may fall when a requestor with little
//! latency joins: that is the mean of another set.
//!
//! # Outside the fit
//! Loads within a tenth of one bank's capacity (up to 38 % wrong); streams among streams, which a
//! real scheduler starves unevenly; bank groups and four-activate windows, which no timing here
//! describes; requestors whose computing overlaps their misses other than by Z + L/W. Only means
//! are modelled, no tails.

mod constants;
mod drain;
mod roots;
#[cfg(test)]
mod tests;

pub use constants::DDR3_1333;

use super::clamp::Clamp;
use maracas_core::memory::{Dram, LINE_BYTES, Pattern};
use roots::{one_minus_exp, root_of_5_5, root_of_cubes};

/// One source of requests as the law sees it. The scenario's integers are checked where they are
/// read; the law wants finite numbers, W above 0 and the others not negative.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Requestor {
    /// In which order it goes through memory.
    pub pattern: Pattern,
    /// W: reads outstanding at once.
    pub outstanding: f64,
    /// Z: ns per read in which the requestor waits for no read.
    pub think_ns: f64,
    /// wb: lines written back per read.
    pub writebacks: f64,
}

/// What the law says of one requestor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Solved {
    /// X: reads per ns.
    pub reads_per_ns: f64,
    /// L: mean latency of its reads in the controller, ns.
    pub latency_ns: f64,
    /// N = X L: its reads in the controller, on average.
    pub occupancy: f64,
    /// Share of its reads that find their row open.
    pub hits: f64,
}

/// How often a request of one meets a request of another.
#[derive(Clone, Copy, Debug)]
struct Meeting {
    /// o: in the same bank.
    bank: f64,
    /// c: on the same channel.
    channel: f64,
}

impl Meeting {
    /// Both are in one bank by intention: the bank is the bottleneck, not the bus.
    fn in_one_bank(self) -> bool {
        self.bank > 0.25
    }
}

/// What of one requestor no step changes.
struct Met {
    /// It uses one bank only.
    single: bool,
    /// Writes per ns to the busiest bank that is not its own.
    drains: f64,
    /// 1 + k wb.
    on_bus: f64,
    /// 1 + kb wb.
    in_bank: f64,
    /// 1 + wb.
    lines: f64,
}

/// How it meets another one.
struct Other {
    meeting: Meeting,
    /// Whether that counts in the sum of one bank.
    in_bank: bool,
    /// D c wb.
    written: f64,
}

/// What a requestor is to all in one step.
struct Load {
    solved: Solved,
    /// Its time on the bus per read, with its writes.
    bus: f64,
    /// 1 - hit.
    misses: f64,
    /// Of its reads those whose row is being opened: N, up to 1 and to T X.
    begun: f64,
    /// T X.
    rows: f64,
    /// 1 + kb wb.
    in_bank: f64,
    /// 1 + wb.
    lines: f64,
}

/// What a requestor waits for in one step, ns.
struct Waits {
    line: f64,
    bus: f64,
    /// The least that all lines before it take of the bus.
    transfers: f64,
    /// Of one that uses one bank only.
    bank: Option<f64>,
}

impl Waits {
    /// Its new latency.
    fn latency(&self) -> f64 {
        let latency = root_of_cubes(self.line, self.bus).at_least(self.transfers);
        self.bank.map_or(latency, |bank| root_of_5_5(latency, bank))
    }
}

/// The law with its constants for one memory. ns where nothing else is said.
#[derive(Clone, Debug)]
pub struct Law {
    /// Lh: latency of a row hit on an idle memory.
    hit_latency: f64,
    /// Lc: latency of a row conflict on an idle memory.
    conflict_latency: f64,
    /// T: from one row of a bank to the next.
    row_cycle: f64,
    /// tRP.
    precharge: f64,
    /// tREFI.
    refresh_interval: f64,
    /// sh: time on the bus of a row hit.
    hit_service: f64,
    /// sc: time on the bus of a row conflict.
    conflict_service: f64,
    /// k: time on the bus of a write, in reads.
    write_service: f64,
    /// kb: time in one bank of a write, in reads.
    write_bank: f64,
    /// D: wait for writes going on, per write in a ns; ns^2.
    write_wait: f64,
    /// E: for how long a batch of writes to one bank keeps every program waiting.
    batch: f64,
    /// e: the same per write of it.
    write_block: f64,
    /// phi: how readily requests in between close a stream's row.
    row_loss: f64,
    /// B: banks of all channels and ranks.
    banks: f64,
    /// b: no line takes less of the bus, refresh included.
    transfer: f64,
    /// How requests meet that know nothing of each other.
    spread: Meeting,
    /// No latency moves by more than this share of itself at the end.
    tolerance: f64,
}

/// An emergency freeze thread: the slowest of 180 000 random mixes, and of the tests, takes 57
/// steps.
const STEPS: u32 = 1_000;
/// No latency moves by more than this share of itself at the end.
const TOLERANCE: f64 = 1e-5;
/// The same where the fixed point itself is wanted, not what the simulator takes for it: as near as
/// numbers of 53 digits go.
const EXACT: f64 = 1e-13;

impl Law {
    /// The same law, solved as nearly as numbers go; three times the steps.
    #[must_use]
    pub fn exactly(mut self) -> Self {
        self.tolerance = EXACT;
        self
    }

    /// Latency of a request that meets no program: a row hit for a stream, otherwise a row
    /// conflict.
    #[must_use]
    pub fn idle_latency_ns(&self, pattern: Pattern) -> f64 {
        if pattern == Pattern::Sequential { self.hit_latency } else { self.conflict_latency }
    }

    /// Solves for `requestors`: one answer each, in their order. What `out` held is gone.
    pub fn solve(&self, requestors: &[Requestor], out: &mut Vec<Solved>) {
        self.fixed_point(requestors, out);
    }

    /// [`Law::solve`], and the steps it took.
    fn fixed_point(&self, requestors: &[Requestor], out: &mut Vec<Solved>) -> u32 {
        out.clear();
        out.extend(requestors.iter().map(|requestor| Solved {
            reads_per_ns: 0.0,
            latency_ns: self.idle_latency_ns(requestor.pattern),
            occupancy: 0.0,
            hits: 0.0,
        }));
        let (all, others) = self.meetings(requestors);
        let others = || others.chunks(requestors.len().max(1));
        let (some_single, some_spread) =
            (all.iter().any(|one| one.single), all.iter().any(|one| !one.single));
        let mut loads = Vec::with_capacity(requestors.len());
        let mut waits = Vec::with_capacity(requestors.len());
        let mut moved = f64::INFINITY;
        let mut steps = 0;
        while moved >= self.tolerance && steps < STEPS {
            let requests = self.flow(requestors, out);
            let spared = [(1.0, some_single), (self.banks, some_spread)].map(|(banks, some)| {
                if some { self.closed_by_refresh(banks, requests) } else { 0.0 }
            });
            loads.clear();
            loads.extend(out.iter().zip(&all).map(|(solved, one)| self.load(solved, one)));
            waits.clear();
            let each = all.iter().zip(others()).zip(requestors).enumerate();
            waits.extend(each.map(|(i, ((one, others), own))| {
                self.waits(i, (one, others), own, &loads, spared)
            }));
            moved = 0.0;
            // Apart, as no root waits for another: a processor works at several of them at once.
            for (solved, waits) in out.iter_mut().zip(&waits) {
                let latency = waits.latency();
                let old = std::mem::replace(&mut solved.latency_ns, latency);
                moved = ((latency - old).abs() / old).at_least(moved);
            }
            steps += 1;
        }
        self.flow(requestors, out);
        steps
    }

    /// What of each requestor no step changes, and how it meets each one, itself among them.
    fn meetings(&self, requestors: &[Requestor]) -> (Vec<Met>, Vec<Other>) {
        let drains = self.drains(requestors);
        let mut others = Vec::with_capacity(requestors.len() * requestors.len());
        let met = |(i, own): (usize, &Requestor)| {
            let single = self.meets(own.pattern, own.pattern, true).in_one_bank();
            others.extend(requestors.iter().enumerate().map(|(j, other)| {
                let meeting = self.meets(own.pattern, other.pattern, i == j);
                Other {
                    meeting,
                    in_bank: single && meeting.in_one_bank(),
                    written: self.write_wait * meeting.channel * other.writebacks,
                }
            }));
            Met {
                single,
                drains: drains.beside(i, own.pattern),
                on_bus: 1.0 + self.write_service * own.writebacks,
                in_bank: 1.0 + self.write_bank * own.writebacks,
                lines: 1.0 + own.writebacks,
            }
        };
        (requestors.iter().enumerate().map(met).collect(), others)
    }

    /// What a requestor is to all in this step.
    fn load(&self, solved: &Solved, one: &Met) -> Load {
        let rows = self.row_cycle * solved.reads_per_ns;
        Load {
            solved: *solved,
            bus: self.service(solved) * one.on_bus,
            misses: 1.0 - solved.hits,
            begun: solved.occupancy.at_most(1.0).at_most(rows),
            rows,
            in_bank: one.in_bank,
            lines: one.lines,
        }
    }

    /// X, N and hit of every program from L. Returns the requests per ns.
    fn flow(&self, requestors: &[Requestor], out: &mut [Solved]) -> f64 {
        let mut requests = 0.0;
        for (requestor, solved) in requestors.iter().zip(&mut *out) {
            let reads = 1.0 / (requestor.think_ns + solved.latency_ns / requestor.outstanding);
            solved.reads_per_ns = reads;
            solved.occupancy = reads * solved.latency_ns;
            requests += reads * (1.0 + requestor.writebacks);
        }
        for (requestor, solved) in requestors.iter().zip(out) {
            if requestor.pattern == Pattern::Sequential {
                let between = requests - solved.reads_per_ns;
                let reads = solved.reads_per_ns;
                solved.hits = reads / (reads + self.row_loss * between);
            }
        }
        requests
    }

    /// What a conflict is spared, on average, because a refresh has closed the row already and
    /// none of so many `banks`' requests since then has opened another.
    fn closed_by_refresh(&self, banks: f64, requests_per_ns: f64) -> f64 {
        self.precharge * one_minus_exp(banks / (self.refresh_interval * requests_per_ns))
    }

    /// What requestor `i` waits for by every program's X, N and hit, and by what refreshes spare
    /// those that use one bank and those that use all.
    fn waits(
        &self,
        i: usize,
        (one, others): (&Met, &[Other]),
        own: &Requestor,
        loads: &[Load],
        [spared_in_one, spared_in_all]: [f64; 2],
    ) -> Waits {
        let mine = &loads[i];
        let waiting = waiting(own, &mine.solved);
        let conflict =
            self.conflict_latency - if one.single { spared_in_one } else { spared_in_all };
        let mut line = self.hit_latency * mine.solved.hits + conflict * mine.misses;
        if one.drains > 0.0 {
            line += self.drain(one.drains, own, &mine.solved);
        }
        let (mut bus, mut transfers, mut bank) = (mine.bus, one.lines, one.in_bank);
        for (other, theirs) in others.iter().zip(loads) {
            let (mut met, mut begun) = (theirs.solved.occupancy, theirs.begun);
            if std::ptr::eq(theirs, mine) {
                met -= waiting;
                begun = met.at_most(1.0).at_most(theirs.rows);
            }
            let ahead = other.meeting.bank * (met - (1.0 - waiting) * begun / 2.0);
            if other.in_bank {
                bank += ahead * theirs.in_bank;
            } else {
                line += self.row_cycle * ahead * theirs.misses;
            }
            line += other.written * theirs.solved.reads_per_ns;
            let met = other.meeting.channel * met;
            bus += theirs.bus * met;
            transfers += theirs.lines * met;
        }
        let bank = one.single.then_some(self.row_cycle * bank);
        Waits { line, bus, transfers: self.transfer * transfers, bank }
    }

    /// s: mean time on the bus of a request.
    fn service(&self, solved: &Solved) -> f64 {
        self.hit_service * solved.hits + self.conflict_service * (1.0 - solved.hits)
    }

    /// How requests of two patterns meet; `own` = both are of the same requestor.
    fn meets(&self, one: Pattern, other: Pattern, own: bool) -> Meeting {
        use Pattern::{Jump, PrivateBank, SameBank};
        let spread = self.spread;
        match (one, other) {
            (SameBank, SameBank) => Meeting { bank: 1.0, channel: 1.0 },
            (PrivateBank, PrivateBank) if own => Meeting { bank: 1.0, channel: 1.0 },
            (PrivateBank, PrivateBank | SameBank) | (SameBank, PrivateBank) => {
                Meeting { bank: 0.0, ..spread }
            }
            // Strides take the banks in turn: hardly one is met twice, others' less than by chance.
            (Jump, Jump) if own => Meeting { bank: 0.05 * spread.bank, ..spread },
            (Jump, Jump) => Meeting { bank: 0.32 * spread.bank, ..spread },
            (Jump | Pattern::JumpRandom | Pattern::Random | Pattern::Sequential, _)
            | (_, Jump | Pattern::JumpRandom | Pattern::Random | Pattern::Sequential) => spread,
        }
    }
}

/// Share of time in which one of the requestor's slots waits for its read. A slot waits for one
/// read at a time, so a requestor with W below 1 has one slot that thinks the longer.
fn waiting(requestor: &Requestor, solved: &Solved) -> f64 {
    solved.occupancy / requestor.outstanding.at_least(1.0)
}

/// Reads and writes per ns: what the controller counts as requests.
#[must_use]
pub fn requests_per_ns(requestors: &[Requestor], solved: &[Solved]) -> f64 {
    sum(requestors, solved, |requestor, one| one.reads_per_ns * (1.0 + requestor.writebacks))
}

/// Requests in the controller on average, a write taken to stay as long as its requestor's reads:
/// what the controller's occupancy counter adds up.
#[must_use]
pub fn occupancy(requestors: &[Requestor], solved: &[Solved]) -> f64 {
    sum(requestors, solved, |requestor, one| one.occupancy * (1.0 + requestor.writebacks))
}

/// MARACAS's metric: occupancy over requests, in ns; 0 where nothing is requested.
#[must_use]
pub fn mean_latency_ns(requestors: &[Requestor], solved: &[Solved]) -> f64 {
    ratio(occupancy(requestors, solved), requests_per_ns(requestors, solved))
}

/// Mean latency of reads alone, in ns; 0 where nothing is read.
#[must_use]
pub fn mean_read_latency_ns(solved: &[Solved]) -> f64 {
    let occupancy = solved.iter().map(|one| one.occupancy).sum();
    ratio(occupancy, solved.iter().map(|one| one.reads_per_ns).sum())
}

/// Bytes per ns, that is GB/s (1e9), reads and writes.
#[must_use]
pub fn bytes_per_ns(requestors: &[Requestor], solved: &[Solved]) -> f64 {
    requests_per_ns(requestors, solved) * LINE_BYTES as f64
}

fn sum(
    requestors: &[Requestor],
    solved: &[Solved],
    of: impl Fn(&Requestor, &Solved) -> f64,
) -> f64 {
    requestors.iter().zip(solved).map(|(requestor, one)| of(requestor, one)).sum()
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
