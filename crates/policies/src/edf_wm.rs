//! EDF-WM: partitioned EDF in which a task that fits on no core is split among several, each of
//! which works on its jobs in a window of its own, all windows of a task equally long.
//!
//! # Paper
//! S. Kato, N. Yamasaki, Y. Ishikawa. "Semi-Partitioned Scheduling of Sporadic Task Systems on
//! Multiprocessors." ECRTS 2009 (EDF with window-constrained migration).
//! # Model
//! Periodic or sporadic tasks, deadlines up to the period; jobs do not suspend themselves. All are
//! there from the start.
//! # How it works
//! Tasks go, heaviest first, to the first core whose EDF test accepts them. One that fits nowhere
//! is split in s = 2, 3, ... pieces with windows of D/s: each core says how much it could do of the
//! task in such a window, and the s that can do most share C, the last one what is left. The least
//! s that is enough is taken. A job runs on the first core in its first window, on the second core
//! in the second, and so on; every core runs what has the earliest deadline, which of a piece is
//! its window's end.
//! # Invariants
//! Each core's run queue is that of EDF on one core. A split task stands on the core of its open
//! window and on no other, with what is left there of the budgets of its pieces so far. What a
//! piece loses by overheads or late decisions the next one makes up for, which its core was not
//! asked for: nothing is promised then, as on cores that are not whole (`capacity`).
//! # Where we differ from the paper
//! The paper finds the budget of a piece by a formula that looks at each deadline once; here it is
//! searched for with the exact test of Zhang and Burns (2009). Windows are whole ticks; what D/s
//! leaves over stays unused. A split task is cut at C whatever `enforcement` says, since more would
//! not fit its windows: a job that needs more goes on in the next one's.

use crate::parts::jobs::ENFORCEMENT;
use crate::parts::semi;
use crate::parts::split::{self, Cores, Piece, Placed};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Reverse;
use maracas_core::admission::Verdict;
use maracas_core::contract::{Claims, Entry, Needs, no_service_vcpus};
use maracas_core::params::Params;
use maracas_core::{Duration, Policy, Reservation, System, Vcpu};

pub(crate) const ENTRY: Entry = Entry {
    name: "edf-wm",
    paper: "Kato, Yamasaki and Ishikawa, Semi-Partitioned Scheduling of Sporadic Task Systems on \
            Multiprocessors, ECRTS 2009",
    summary: "semi-partitioned EDF: a task that fits on no core runs on several, each in a window",
    params: &[ENFORCEMENT],
    needs: Needs { jobs: true, ..Needs::BUDGETS },
    // The verdict has the test that excludes misses. As a claim, of a policy that migrates, it
    // would say that nothing is missed up to full cores.
    claims: Claims { partitioned: false, work_conserving: false, no_miss_when_admitted: false },
    service_vcpus: no_service_vcpus,
    admit,
    fits: None,
    build,
};

fn admit(system: &System, _: &Params) -> Verdict {
    placed(system).verdict
}

fn build(system: &System, params: &Params) -> Result<Box<dyn Policy>, Verdict> {
    let placed = placed(system);
    if !placed.verdict.accepted() {
        return Err(placed.verdict);
    }
    Ok(semi::build(system, params, placed.pieces))
}

fn placed(system: &System) -> Placed {
    split::place(system, &split::heaviest(system), windows)
}

/// The least number of equal windows that is enough.
fn windows(cores: &Cores, vcpu: &Vcpu) -> Option<Vec<Piece>> {
    (2..=cores.ids().count()).find_map(|count| equal_windows(cores, vcpu, count))
}

fn equal_windows(cores: &Cores, vcpu: &Vcpu, count: usize) -> Option<Vec<Piece>> {
    let Reservation { budget, deadline, period: every } = vcpu.reservation;
    let window = Duration::from_ticks(deadline.ticks() / count as u64);
    let piece = |budget| split::of_length(vcpu, budget, window);
    let most = |core| cores.most(core, Duration::ZERO, budget.min(window), piece);
    let most = |core| (most(core).unwrap_or_default(), core);
    let mut offers: Vec<_> = cores.ids().map(most).collect();
    offers.sort_by_key(|(most, core)| (Reverse(*most), *core));
    offers.truncate(count);
    let (mut left, mut pieces, mut from) = (budget, Vec::new(), Duration::ZERO);
    for (most, core) in offers {
        let budget = most.min(left);
        if !budget.is_zero() {
            pieces.push(Piece { core, from, window, budget, every });
        }
        (left, from) = (left - budget, from + window);
    }
    left.is_zero().then_some(pieces)
}

#[cfg(test)]
mod tests {
    use super::ENTRY;
    use crate::testing::periodic;

    /// Three tasks of two thirds on two cores: the third has a window of 6 ticks on each, of which
    /// it has 4, what the others leave in 12.
    #[test]
    fn a_task_that_fits_nowhere_runs_in_windows_on_several_cores() {
        let machine = periodic(&ENTRY, &[], 2, &[(8, 12), (8, 12), (8, 12)], 24);
        assert_eq!(machine.schedule(0), "ccccaaaaaaaaccccaaaaaaaa");
        assert_eq!(machine.schedule(1), "bbbbbbbbccccbbbbbbbbcccc");
        assert!(machine.models.iter().all(|model| model.misses == 0));
    }

    #[test]
    fn what_fits_whole_is_not_split() {
        let machine = periodic(&ENTRY, &[], 2, &[(6, 12), (6, 12), (6, 12), (6, 12)], 12);
        assert_eq!(machine.schedule(0), "aaaaaabbbbbb");
        assert_eq!(machine.schedule(1), "ccccccdddddd");
    }
}
