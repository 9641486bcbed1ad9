//! Partitioned rate-monotonic: tasks are bound to cores off-line; on each core the task with the
//! shortest period runs.
//!
//! # Paper
//! C. L. Liu, J. W. Layland. "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time
//! Environment." Journal of the ACM 20(1), 1973, DOI 10.1145/321738.321743; packing of
//! S. K. Dhall, C. L. Liu, "On a Real-Time Scheduling Problem", Operations Research 26(1), 1978.
//! # Model
//! Periodic or sporadic tasks, deadlines up to the period; jobs do not suspend themselves.
//! # How it works
//! A core's run queue holds its tasks with pending jobs by (period, id), changed in place at
//! releases and completions; with `ahead` the next job of each periodic task stands there before
//! its release. A task is bound to a core if the chosen test (`admission`) accepts the core with
//! it.
//! # Invariants
//! A run queue equals its core's queue, entry by entry. No task ever changes core.
//! # Where we differ from the paper
//! With deadlines before the period's end the order is deadline-monotonic, and the two bounds by
//! utilization take C/D (Leung and Whitehead 1982). `admission = "none"` packs by utilization
//! alone, for experiments with sets that no test admits; such sets may miss. With
//! `enforcement = "precise"` an overrunning task is cut at C for each job released so far; what
//! earlier jobs left unused may be used by later ones. Where tasks share resources, response times
//! with blocking decide beside the chosen test (`parts/locks`), and jobs suspend themselves for
//! resources alone: the simulator's law sees to that, not the order here.

use crate::parts::ahead::AHEAD;
use crate::parts::jobs::{self, ENFORCEMENT};
use crate::parts::locks;
use crate::parts::pack::{self, PACKING};
use crate::parts::partitioned::{self, Order};
use crate::parts::table::{Family, Table};
use crate::parts::test;
use alloc::boxed::Box;
use maracas_core::admission::Verdict;
use maracas_core::contract::{Claims, Entry, Needs, no_service_vcpus};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{Policy, System};

const ADMISSION: ParamSpec = ParamSpec {
    kind: Kind::Choice(&["ll", "hyperbolic", "rta", "none"]),
    help: "the test that decides on each core: ll = sum of U at most n(2^(1/n) - 1) (Liu and \
           Layland 1973), hyperbolic = product of (U + 1) at most 2 (Bini et al. 2003), rta = \
           exact response times (Joseph and Pandya 1986), none = sum of U at most 1, which \
           promises nothing",
    ..test::FIXED_PRIORITIES
};

pub(crate) const ENTRY: Entry = Entry {
    name: "p-rm",
    paper: "Liu and Layland, Scheduling Algorithms for Multiprogramming in a Hard-Real-Time \
            Environment, JACM 1973",
    summary: "partitioned rate-monotonic: each core runs its task with the shortest period",
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
    Ok(partitioned::build(system, params, table, Order::Fixed))
}

fn packed(system: &System, params: &Params) -> (Table, Verdict) {
    let test = test::chosen(params, &ADMISSION);
    let mut table = Table::new(system, Family::FixedPriority, test, pack::chosen(params));
    let mut verdict = table.fill(system, true);
    verdict.objections = jobs::objections(system);
    let decides = params.choice(&ADMISSION) != "none";
    locks::judge(system, params, (&table, Order::Fixed, decides), &mut verdict);
    (table, verdict)
}

#[cfg(test)]
mod tests {
    use super::ENTRY;
    use crate::testing::{Machine, periodic};
    use maracas_core::{CoreId, Duration, Event, Vcpu};

    /// algorithms.md F.5: response times 1, 3, 10.
    #[test]
    fn shortest_period_first_ties_by_id() {
        let params = [("admission", "rta")];
        let machine = periodic(&ENTRY, &params, 1, &[(1, 4), (2, 6), (3, 12)], 12);
        assert_eq!(machine.schedule(0), "abbcacbbac..");
        let machine = periodic(&ENTRY, &params, 1, &[(2, 8), (1, 8), (1, 4)], 8);
        assert_eq!(machine.schedule(0), "caabc...");
    }

    /// Others were promised their response times in the old order while a change waits in it.
    #[test]
    fn a_changed_period_changes_the_order_once_none_waits() {
        let mut machine = periodic(&ENTRY, &[], 1, &[(1, 8), (1, 6)], 0);
        let release = |machine: &mut Machine| {
            machine.release(0, 2, 16);
            machine.release(1, 2, 16);
        };
        release(&mut machine);
        machine.tick();
        let ticks = Duration::from_ticks;
        let shorter = Vcpu::new(0, ticks(1), ticks(5)).periodic();
        machine.tell(CoreId(0), Event::Changed(shorter));
        (0..4).for_each(|_| machine.tick());
        release(&mut machine);
        (0..4).for_each(|_| machine.tick());
        assert_eq!(machine.schedule(0), "bbaa.aabb");
        assert!(machine.answers[0].1.is_ok());
    }
}
