//! C=D: partitioned EDF in which a task that fits on no core is split, its first piece without any
//! spare time, so that what is left of the deadline for the rest is as long as it can be.
//!
//! # Paper
//! A. Burns, R. I. Davis, P. Wang, F. Zhang. "Partitioned EDF Scheduling for Multiprocessors Using
//! a C=D Task Splitting Scheme." Real-Time Systems 48(1), 2012.
//! # Model
//! Periodic or sporadic tasks, deadlines up to the period; jobs do not suspend themselves. All are
//! there from the start.
//! # How it works
//! Tasks go, heaviest first, to the first core whose EDF test accepts them. Of one that fits
//! nowhere a piece whose budget is its deadline goes to the core that takes most of it so: it runs
//! there from its release on and is complete after exactly that time. The rest, (C - c, D - c, T),
//! goes to the first other core that takes it, and is split again where none does. Every core runs
//! what has the earliest deadline, which of a piece is its window's end.
//! # Invariants
//! Each core's run queue is that of EDF on one core. A split task stands on the core of its open
//! window and on no other, with what is left there of the budgets of its pieces so far. What a
//! piece loses by overheads or late decisions the next one makes up for, which its core was not
//! asked for: nothing is promised then, as on cores that are not whole (`capacity`).
//! # Where we differ from the paper
//! The paper leaves open which task is split where, and compares several ways; here a task is split
//! when it comes, on the core that takes most. The greatest c is searched for by halves with the
//! exact test of Zhang and Burns (2009), where the paper steps down from too great a c. A split
//! task is cut at C whatever `enforcement` says, since more would not fit its windows: a job that
//! needs more goes on in the next one's.

use crate::parts::jobs::ENFORCEMENT;
use crate::parts::semi;
use crate::parts::split::{self, Placed};
use alloc::boxed::Box;
use maracas_core::admission::Verdict;
use maracas_core::contract::{Claims, Entry, Needs, no_service_vcpus};
use maracas_core::params::Params;
use maracas_core::{Policy, System};

pub(crate) const ENTRY: Entry = Entry {
    name: "c-d",
    paper: "Burns, Davis, Wang and Zhang, Partitioned EDF Scheduling for Multiprocessors Using a \
            C=D Task Splitting Scheme, Real-Time Systems 2012",
    summary: "C=D: semi-partitioned EDF that splits off pieces without any spare time",
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
    split::place(system, &split::heaviest(system), split::without_spare_time)
}

#[cfg(test)]
mod tests {
    use super::ENTRY;
    use crate::testing::periodic;

    /// Three tasks of two thirds on two cores: of the third, what the first leaves goes ahead of
    /// it, and the rest, (4, 8, 12), is due before the second.
    #[test]
    fn the_first_piece_runs_at_once_and_the_rest_on_another_core() {
        let machine = periodic(&ENTRY, &[], 2, &[(8, 12), (8, 12), (8, 12)], 24);
        assert_eq!(machine.schedule(0), "ccccaaaaaaaaccccaaaaaaaa");
        assert_eq!(machine.schedule(1), "bbbbbbbbccccbbbbbbbbcccc");
        assert!(machine.models.iter().all(|model| model.misses == 0));
    }

    /// Four of 60 % on three cores: a piece of 40 % on one core, and the rest on another.
    #[test]
    fn each_core_takes_what_it_has_left() {
        let machine = periodic(&ENTRY, &[], 3, &[(6, 10); 4], 20);
        assert_eq!(machine.schedule(0), "ddddaaaaaaddddaaaaaa");
        assert!(machine.models.iter().all(|model| model.misses == 0));
    }

    #[test]
    fn what_fits_whole_is_not_split() {
        let machine = periodic(&ENTRY, &[], 2, &[(6, 12), (6, 12), (6, 12), (6, 12)], 12);
        assert_eq!(machine.schedule(0), "aaaaaabbbbbb");
        assert_eq!(machine.schedule(1), "ccccccdddddd");
    }
}
