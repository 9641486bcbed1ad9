//! The law's constants: fitted for DDR3-1333, scaled by datasheet timings for everything else.

use super::{Dram, Law, Meeting};
use maracas_core::memory::DramModel;
use std::num::NonZeroU64;

/// The memory that the constants were fitted to: DDR3-1333 9-9-9, two ranks of eight banks.
pub const DDR3_1333: Dram = Dram {
    clock_ps: 1_500,
    cas: 9,
    activate: 9,
    precharge: 9,
    row_active: 24,
    refresh: 174,
    refresh_interval: 5_200,
    write_recovery: 10,
    write_to_read: 5,
    cas_write: 7,
    burst_transfers: 8,
    channels: 1,
    ranks: 2,
    banks: 8,
    conflict_latency_ps: None,
    conflict_service_ps: None,
    model: DramModel::Law,
};

fn ns(picoseconds: u64) -> f64 {
    picoseconds as f64 / 1e3
}

fn clocks(dram: &Dram, clocks: u32) -> f64 {
    ns(u64::from(clocks) * dram.clock_ps)
}

/// CAS and transfer: what a row hit takes in the device.
fn hit(dram: &Dram) -> f64 {
    clocks(dram, dram.cas) + ns(dram.burst_ps())
}

/// Precharge, activate, CAS and transfer: what a row conflict takes in the device.
fn conflict(dram: &Dram) -> f64 {
    clocks(dram, dram.precharge + dram.activate) + hit(dram)
}

/// From one row of a bank to the next where the first was written.
fn write_cycle(dram: &Dram) -> f64 {
    let clocks_of = dram.activate + dram.cas_write + dram.write_recovery + dram.precharge;
    clocks(dram, clocks_of) + ns(dram.burst_ps())
}

/// From a write to a read of the same rank.
fn turnaround(dram: &Dram) -> f64 {
    clocks(dram, dram.cas_write + dram.write_to_read) + ns(dram.burst_ps())
}

impl Law {
    /// The law for `dram`, each fitted constant scaled by the timing that it stands for:
    ///
    /// | constant | DDR3-1333 | scales with |
    /// |---|---|---|
    /// | Lh, idle row hit | 26.5 ns | CL + transfer (19.5 ns; the rest is controller and refresh) |
    /// | Lc, idle row conflict | 55.5 ns | tRP + tRCD + CL + transfer (46.5 ns) |
    /// | T, row cycle | 49.7 ns | tRC = tRAS + tRP (49.5 ns) |
    /// | sh, sc, bus per hit and conflict | 5.74, 6.66 ns | transfer (6 ns) |
    /// | k, bus of a write in reads | 1.21 | nothing |
    /// | kb, bank of a write in reads | 1.18 | (tRCD + CWL + transfer + tWR + tRP) / tRC |
    /// | D, waiting for writes | 296 ns^2 | square of CWL + transfer + tWTR (24 ns) |
    /// | E, a batch of writes to one bank | 421 ns | 8 (T kb - transfer); 8 is the usual batch |
    /// | e, waiting per such write | 29.0 ns | 0.55 (T kb - transfer) |
    /// | phi, rows lost to others | 0.055 | nothing |
    /// | B, banks | 16 | channels x ranks x banks |
    /// | b, least time on the bus | 6.21 ns | transfer / (1 - tRFC / tREFI); not fitted |
    ///
    /// Besides them the bank overlap of strides (0.05 and 0.32 of chance) and the exponents 3
    /// and 5.5. tRP and tREFI are the datasheet's.
    #[must_use]
    pub fn new(dram: &Dram) -> Self {
        let scaled =
            |fitted: f64, timing: fn(&Dram) -> f64| fitted * (timing(dram) / timing(&DDR3_1333));
        let row_cycle: fn(&Dram) -> f64 = |dram| ns(dram.row_cycle_ps());
        let transfer: fn(&Dram) -> f64 = |dram| ns(dram.burst_ps());
        let effective = |ps: Option<NonZeroU64>, fitted| ps.map_or(fitted, |ps| ns(ps.get()));
        let banks = dram.channels * dram.ranks * dram.banks;
        let write_bank = scaled(1.18, |dram| write_cycle(dram) / ns(dram.row_cycle_ps()));
        let write_hold = scaled(49.7, row_cycle) * write_bank - transfer(dram);
        Self {
            hit_latency: scaled(26.5, hit),
            conflict_latency: effective(dram.conflict_latency_ps, scaled(55.5, conflict)),
            row_cycle: scaled(49.7, row_cycle),
            precharge: clocks(dram, dram.precharge),
            refresh_interval: clocks(dram, dram.refresh_interval),
            hit_service: scaled(5.74, transfer),
            conflict_service: effective(dram.conflict_service_ps, scaled(6.66, transfer)),
            write_service: 1.21,
            write_bank,
            write_wait: scaled(296.0, |dram| turnaround(dram) * turnaround(dram)),
            batch: 8.0 * write_hold,
            write_block: 0.55 * write_hold,
            row_loss: 0.055,
            banks: f64::from(banks),
            transfer: transfer(dram)
                / (1.0 - f64::from(dram.refresh) / f64::from(dram.refresh_interval)),
            spread: Meeting {
                bank: 1.0 / f64::from(banks),
                channel: 1.0 / f64::from(dram.channels),
            },
            tolerance: super::TOLERANCE,
        }
    }
}
