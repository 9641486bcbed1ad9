//! Partitioned EDF: tasks are bound to cores off-line; each core runs its pending job with the
//! earliest deadline.
//!
//! # Paper
//! C. L. Liu, J. W. Layland. "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time
//! Environment." Journal of the ACM 20(1), 1973, DOI 10.1145/321738.321743 (EDF on one core);
//! packings after D. S. Johnson, "Near-Optimal Bin Packing Algorithms", PhD thesis, MIT, 1973.
//! # Model
//! Periodic or sporadic tasks, deadlines up to the period; jobs do not suspend themselves. A set
//! is admitted where a packing is found that the chosen test (`admission`) accepts on each core: by
//! default with the sum of C/D at most 1.
//! # How it works
//! A core's run queue holds its tasks with pending jobs by (deadline, running first, id), changed
//! in place at releases and completions; with `ahead` the next job of each periodic task stands
//! there before its release. The one that ran keeps the core against equal deadlines.
//! # Invariants
//! A run queue equals its core's queue, entry by entry. No waiting job has an earlier deadline than
//! its core's running one. No task ever changes core.
//! # Where we differ from the paper
//! Deadlines before the period's end are admitted by density, which is sufficient only, or exactly
//! (`qpa`). That one set passes and then another does not prove that jobs of both are in time where
//! they meet, so under `qpa` none may come after a leave, and nothing changes. With
//! `enforcement = "precise"` an overrunning task is cut at C for each job released so far; what
//! earlier jobs left unused may be used by later ones. Where tasks share resources, densities with
//! blocking decide beside the chosen test (`parts/locks`), and jobs suspend themselves for
//! resources alone: the simulator's law sees to that, not the order here.

use crate::parts::ahead::AHEAD;
use crate::parts::jobs::{self, ENFORCEMENT};
use crate::parts::locks;
use crate::parts::pack::{self, PACKING};
use crate::parts::partitioned::{self, Order};
use crate::parts::table::{Family, Table, Test};
use alloc::boxed::Box;
use maracas_core::admission::Verdict;
use maracas_core::contract::{Claims, Entry, Needs, no_service_vcpus};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{Policy, System};

const ADMISSION: ParamSpec = ParamSpec {
    name: "admission",
    kind: Kind::Choice(&["density", "qpa"]),
    help: "the test that decides on each core: density = sum of C/D at most 1, qpa = exact, by \
           processor demand (Zhang and Burns 2009), which differs where deadlines lie before the \
           period's end",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "p-edf",
    paper: "Liu and Layland, Scheduling Algorithms for Multiprogramming in a Hard-Real-Time \
            Environment, JACM 1973",
    summary: "partitioned EDF: each core runs its task with the earliest deadline",
    params: &[PACKING, ADMISSION, ENFORCEMENT, AHEAD],
    needs: Needs { jobs: true, ..Needs::BUDGETS },
    claims: Claims { partitioned: true, work_conserving: true, no_miss_when_admitted: true },
    service_vcpus: no_service_vcpus,
    admit,
    fits: None,
    build,
};

fn admit(system: &System, params: &Params) -> Verdict {
    packed(system, params).1
}

fn build(system: &System, params: &Params) -> Result<Box<dyn Policy>, Verdict> {
    let (table, verdict) = packed(system, params);
    if !verdict.accepted() {
        return Err(verdict);
    }
    Ok(partitioned::build(system, params, table, Order::Deadline))
}

fn packed(system: &System, params: &Params) -> (Table, Verdict) {
    let test = if params.choice(&ADMISSION) == "qpa" { Test::Qpa } else { Test::Edf };
    let mut table = Table::new(system, Family::Edf, test, pack::chosen(params));
    let mut verdict = table.fill(system, true);
    verdict.objections = jobs::objections(system);
    locks::judge(system, params, (&table, Order::Deadline, true), &mut verdict);
    (table, verdict)
}

#[cfg(test)]
mod tests {
    use super::ENTRY;
    use crate::testing::periodic;

    #[test]
    fn earliest_deadline_first_with_ties_to_the_running_then_the_lower_id() {
        let machine = periodic(&ENTRY, &[], 1, &[(2, 6), (1, 3), (1, 6), (1, 6)], 12);
        // At 3 vcpu1's second job ties with vcpu0, which runs; then the lower id goes first.
        assert_eq!(machine.schedule(0), "baabcdbaabcd");
    }

    #[test]
    fn a_full_core_misses_nothing() {
        let machine = periodic(&ENTRY, &[], 1, &[(1, 2), (1, 3), (1, 6)], 60);
        assert!(machine.models.iter().all(|model| model.misses == 0));
        assert!(!machine.schedule(0).contains('.'));
    }

    #[test]
    fn a_preempted_job_loses_its_right_of_way() {
        let schedule = |rival: bool| {
            let mut machine = periodic(&ENTRY, &[], 1, &[(1, 20), (4, 20), (1, 20)], 0);
            machine.release(1, 4, 20);
            machine.tick();
            machine.release(0, 1, 20);
            if rival {
                machine.release(2, 1, 5);
            }
            (1..6).for_each(|_| machine.tick());
            machine.schedule(0)
        };
        assert_eq!(schedule(false), "bbbba.");
        assert_eq!(schedule(true), "bcabbb");
    }

    /// Whatever the policy: an overrunning job waits for the next job's budget.
    #[test]
    fn precise_enforcement_cuts_at_c_per_released_job() {
        for name in ["p-edf", "g-edf", "p-rm"] {
            let entry = crate::find(name).unwrap();
            let set = [(2, 5), (1, 10)];
            let mut machine = periodic(entry, &[("enforcement", "precise")], 1, &set, 0);
            machine.release(0, 3, 5);
            machine.release(1, 1, 10);
            (0..5).for_each(|_| machine.tick());
            machine.release(0, 1, 10);
            (0..5).for_each(|_| machine.tick());
            assert_eq!(machine.schedule(0), "aab..aa...", "{name}");
            // A release while the task runs raises its limit at once.
            machine.release(0, 3, 15);
            machine.tick();
            machine.release(0, 1, 20);
            (0..4).for_each(|_| machine.tick());
            assert_eq!(&machine.schedule(0)[10..], "aaaa.", "{name}");
        }
    }
}
