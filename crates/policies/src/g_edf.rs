//! Global EDF: the `m` pending jobs with the earliest deadlines run, at most one of each task.
//!
//! # Paper
//! S. K. Dhall, C. L. Liu. "On a Real-Time Scheduling Problem." Operations Research 26(1), 1978,
//! DOI 10.1287/opre.26.1.127. Bounded tardiness: U. C. Devi, J. H. Anderson, "Tardiness Bounds
//! under Global EDF Scheduling on a Multiprocessor", RTSS 2005. Test `gfb`: J. Goossens, S. Funk,
//! S. Baruah, "Priority-Driven Scheduling of Periodic Task Systems on Multiprocessors", Real-Time
//! Systems 25, 2003. The other tests are cited in their files under `parts/global`.
//! # Model
//! Periodic or sporadic tasks, deadlines up to the period; a job may migrate at any instant and
//! does not suspend itself.
//! # How it works
//! A core's run queue is one slot. A selected job keeps its core; a newly selected one takes the
//! core where its task ran last if that is free, else the lowest free core. Equal deadlines: a
//! running job first, then the parameter `ties`.
//! # Invariants
//! No core is free while a job waits. No waiting job has an earlier deadline than a running one.
//! # Where we differ from the paper
//! Ties decide whether some sets miss, so their order is a parameter. Under the rule "most work
//! left first" a job's work is C: whether it will need less, a policy does not know. Only waiting
//! jobs are compared, and what those have received is known. All tests but `gfb` speak of one set:
//! under them others may come while the system runs, but after a leave none may, and nothing
//! changes.

use crate::parts::global;
use crate::parts::global::dispatch::{self, Order};
use crate::parts::jobs::{self, ENFORCEMENT};
use crate::parts::table::{Family, Table};
use alloc::boxed::Box;
use maracas_core::admission::Verdict;
use maracas_core::contract::{Claims, Entry, Needs, no_service_vcpus};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{Policy, System, Vcpu};

const TIES: ParamSpec = ParamSpec {
    name: "ties",
    kind: Kind::Choice(&["index", "reverse-index", "shorter-period", "longer-period", MOST_WORK]),
    help: "which of two waiting jobs with equal deadlines goes first; a running job always does. \
           most-work-left = the one with the most left of C",
};
/// The rule whose order changes while a job waits anew.
const MOST_WORK: &str = "most-work-left";
const ADMISSION: ParamSpec = ParamSpec {
    name: "admission",
    kind: Kind::Choice(&["none", "gfb", "bak", "bcl", "ff-dbf", "rta"]),
    help: "none: any load up to the number of cores, tardiness is bounded (Devi and Anderson \
           2005); the others: only sets that provably miss nothing, by gfb (Goossens, Funk and \
           Baruah 2003), bak (Baker 2003), bcl (Bertogna, Cirinei and Lipari 2005), ff-dbf (Baruah \
           and others 2010), rta (Bertogna and Cirinei 2007)",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "g-edf",
    paper: "Dhall and Liu, On a Real-Time Scheduling Problem, Operations Research 1978",
    summary: "global EDF: the m pending jobs with the earliest deadlines run",
    params: &[TIES, ADMISSION, ENFORCEMENT],
    needs: Needs { jobs: true, ..Needs::BUDGETS },
    // Misses are excluded only with another `admission`; claims hold for the defaults.
    claims: Claims { partitioned: false, work_conserving: true, no_miss_when_admitted: false },
    service_vcpus: no_service_vcpus,
    admit,
    fits: Some(fits),
    build,
};

fn admit(system: &System, params: &Params) -> Verdict {
    judged(system, params).1
}

fn build(system: &System, params: &Params) -> Result<Box<dyn Policy>, Verdict> {
    let (table, verdict) = judged(system, params);
    if !verdict.accepted() {
        return Err(verdict);
    }
    let order = Order::Deadline { tie, by_work: params.choice(&TIES) == MOST_WORK };
    Ok(dispatch::build(system, params, table, order))
}

fn judged(system: &System, params: &Params) -> (Table, Verdict) {
    let mut table = table(system, params);
    let mut verdict = table.fill(system, false);
    verdict.objections = jobs::objections(system);
    (table, verdict)
}

fn fits(system: &System, params: &Params) -> bool {
    jobs::objections(system).is_empty() && table(system, params).takes_all(system)
}

fn table(system: &System, params: &Params) -> Table {
    let test = global::chosen(params.choice(&ADMISSION));
    Table::new(system, Family::GlobalEdf, test, |_, _| None)
}

fn tie(vcpu: &Vcpu, params: &Params) -> u64 {
    let period = vcpu.reservation.period.ticks();
    match params.choice(&TIES) {
        "reverse-index" => u64::MAX - u64::from(vcpu.id.0),
        "shorter-period" => period,
        "longer-period" => u64::MAX - period,
        MOST_WORK => dispatch::most_work(vcpu.reservation.budget),
        // Equal for all: the key's last field, the id, decides.
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::ENTRY;
    use crate::testing::periodic;
    use alloc::vec;
    use alloc::vec::Vec;
    use maracas_core::contract::decide;
    use maracas_core::{Event, Instant, VcpuId};

    /// algorithms.md C: the third task finishes at 23, after its deadline 22.
    #[test]
    fn dhall_effect() {
        let machine = periodic(&ENTRY, &[], 2, &[(2, 20), (2, 20), (21, 22)], 24);
        assert_eq!(machine.models[2].finished, [23]);
        assert_eq!(machine.models[2].misses, 1);
    }

    #[test]
    fn ties_go_by_the_parameter_but_never_against_a_running_job() {
        let schedule = |ties| {
            let set = [(3, 6), (1, 3), (1, 6)];
            periodic(&ENTRY, &[("ties", ties)], 1, &set, 6).schedule(0)
        };
        // At 3 vcpu1's second job is due at 6 as well, but another runs.
        assert_eq!(schedule("index"), "baaabc");
        assert_eq!(schedule("reverse-index"), "bcaaab");
        assert_eq!(schedule("shorter-period"), "baaabc");
        assert_eq!(schedule("longer-period"), "baaacb");
    }

    #[test]
    fn a_selected_job_takes_its_last_core_where_that_is_free() {
        // At 4 vcpu2 is displaced from core0, where vcpu0 ran last. At 8 all are due at 12, and
        // vcpu2 runs: vcpu0 must take the free core1, and vcpu1 waits.
        let machine = periodic(&ENTRY, &[], 2, &[(1, 4), (1, 4), (9, 12)], 12);
        assert_eq!(machine.schedule(0), "acccacccccc.");
        assert_eq!(machine.schedule(1), "b...b...ab..");
    }

    /// Five jobs on two cores that are all due at 4, one of them needs all of that time: it is in
    /// time only where the most work left decides.
    #[test]
    fn ties_decide_what_misses() {
        let set = [(1, 4), (1, 4), (4, 4), (1, 4), (1, 4)];
        for (ties, schedule, misses) in [
            ("index", ["accc", "bde."], 1),
            ("reverse-index", ["eccc", "dba."], 1),
            ("shorter-period", ["accc", "bde."], 1),
            ("longer-period", ["accc", "bde."], 1),
            ("most-work-left", ["cccc", "abde"], 0),
        ] {
            let machine = periodic(&ENTRY, &[("ties", ties)], 2, &set, 5);
            for (core, schedule) in schedule.into_iter().enumerate() {
                assert_eq!(machine.schedule(core)[..4], *schedule, "{ties}");
            }
            assert_eq!(machine.models[2].misses, misses, "{ties}");
        }
    }

    /// What a preempted job has received counts: of 4 task 0 has one left when it waits again, and
    /// task 1 has two of two.
    #[test]
    fn the_most_work_left_is_counted_without_what_was_done() {
        let set = [(4, 12), (2, 12), (2, 6)];
        let vcpus = (0..).zip(set).map(|(id, (c, t))| {
            let ticks = maracas_core::Duration::from_ticks;
            maracas_core::Vcpu::new(id, ticks(c), ticks(t)).periodic()
        });
        let system = maracas_core::System::new(1, vcpus.collect());
        let params = crate::testing::with(&[("ties", "most-work-left")]);
        let manners = crate::testing::Manners::PERFECT;
        let mut machine = crate::testing::Machine::new(&ENTRY, &params, &system, manners);
        machine.release(0, 4, 12);
        machine.release(1, 2, 12);
        for now in 0..8 {
            if now == 3 {
                machine.release(2, 2, 9);
            }
            machine.tick();
        }
        assert_eq!(machine.schedule(0), "aaaccbba");
    }

    #[test]
    fn the_most_work_left_is_found_on_a_hostile_machine_too() {
        for seed in 0..120 {
            let params = [("ties", "most-work-left"), ("enforcement", "precise")];
            crate::hostile::try_hard(&ENTRY, &params[..1 + seed as usize % 2], seed);
        }
    }

    /// The tests beyond GFB speak of one set: it may grow, but is not exchanged for another.
    #[test]
    fn under_a_test_of_one_set_none_comes_after_a_leave() {
        let ticks = maracas_core::Duration::from_ticks;
        let vcpu = |id| maracas_core::Vcpu::new(id, ticks(1), ticks(10)).periodic();
        for (admission, late) in [("gfb", true), ("bak", false), ("rta", false)] {
            let system = maracas_core::System::new(2, (0..2).map(vcpu).collect());
            let params = crate::testing::with(&[("admission", admission)]);
            let mut policy = (ENTRY.build)(&system, &params).expect("it fits");
            let mut plan = maracas_core::Plan::new(2);
            let mut tell = |event| {
                policy.on_event(Instant::ZERO, &event);
                decide(&mut *policy, Instant::ZERO, &mut plan);
                plan.verdicts().iter().map(|(id, verdict)| (id.0, verdict.is_ok())).collect()
            };
            let verdicts = [
                Event::Arrived(vcpu(2)),
                Event::Changed(vcpu(1)),
                Event::Left(VcpuId(0)),
                Event::Arrived(vcpu(3)),
            ];
            let verdicts: Vec<Vec<(u32, bool)>> = verdicts.map(&mut tell).into();
            let expected = [vec![(2, true)], vec![(1, late)], vec![], vec![(3, late)]];
            assert_eq!(verdicts, expected, "{admission}");
        }
    }
}
