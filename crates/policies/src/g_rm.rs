//! Global fixed priorities: of the pending jobs, the `m` of the tasks with the shortest deadlines,
//! or periods, run.
//!
//! # Paper
//! S. K. Dhall, C. L. Liu. "On a Real-Time Scheduling Problem." Operations Research 26(1), 1978,
//! DOI 10.1287/opre.26.1.127. The tests are cited in their files under `parts/global/fixed`.
//! # Model
//! Periodic or sporadic tasks, deadlines up to the period; a job may migrate at any instant and
//! does not suspend itself.
//! # How it works
//! A core's run queue is one slot. A selected job keeps its core; a newly selected one takes the
//! core where its task ran last if that is free, else the lowest free core. The order of tasks is
//! (deadline, id), or (period, id) by the parameter `priorities`.
//! # Invariants
//! No core is free while a job waits. No waiting task precedes a running one in the order.
//! # Where we differ from the paper
//! With deadlines before the period's end the order is deadline-monotonic by default. The paper
//! shows what global fixed priorities miss; here a test admits sets that miss nothing. It speaks of
//! one set: others may come while the system runs, but after a leave none may, and nothing changes.
//! `admission = "none"` admits any load up to the number of cores and promises nothing.

use crate::parts::global::dispatch::{self, Order};
use crate::parts::global::fixed::Fixed;
use crate::parts::jobs::{self, ENFORCEMENT};
use crate::parts::priority::By;
use crate::parts::table::{Family, Table, Test};
use alloc::boxed::Box;
use maracas_core::admission::Verdict;
use maracas_core::contract::{Claims, Entry, Needs, no_service_vcpus};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{Policy, System};

const PRIORITIES: ParamSpec = ParamSpec {
    name: "priorities",
    kind: Kind::Choice(&["deadline", "period"]),
    help: "which tasks go first: those with the shortest deadline (deadline-monotonic, which is \
           rate-monotonic where D = T), or with the shortest period",
};
const ADMISSION: ParamSpec = ParamSpec {
    name: "admission",
    kind: Kind::Choice(&["rta-lc", "rta", "bcl", "none"]),
    help: "the test that decides: rta-lc = response times with limited carry-in (Guan and others \
           2009), rta = response times (Bertogna and Cirinei 2007), bcl (Bertogna, Cirinei and \
           Lipari 2005), none = any load up to the number of cores, which promises nothing",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "g-rm",
    paper: "Dhall and Liu, On a Real-Time Scheduling Problem, Operations Research 1978",
    summary: "global rate-monotonic: the m pending jobs with the shortest periods run",
    params: &[PRIORITIES, ADMISSION, ENFORCEMENT],
    needs: Needs { jobs: true, ..Needs::BUDGETS },
    // The verdict has the test that excludes misses. As a claim, of a policy that migrates, it
    // would say that nothing is missed up to full cores.
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
    Ok(dispatch::build(system, params, table, Order::Fixed(by(params))))
}

fn by(params: &Params) -> By {
    if params.choice(&PRIORITIES) == "period" { By::Period } else { By::Deadline }
}

fn test(params: &Params) -> Test {
    let test = match params.choice(&ADMISSION) {
        "none" => return Test::Capacity,
        "bcl" => Fixed::Bcl,
        "rta" => Fixed::Rta,
        _ => Fixed::RtaLc,
    };
    Test::GlobalFixed(test, by(params))
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
    Table::new(system, Family::GlobalFixed, test(params), |_, _| None)
}

#[cfg(test)]
mod tests {
    use super::ENTRY;
    use crate::testing::{Machine, Manners, periodic, with};
    use maracas_core::{Duration, System, Vcpu};

    const NONE: (&str, &str) = ("admission", "none");

    /// The set of Dhall and Liu: the task that needs a core nearly whole goes last.
    #[test]
    fn dhall_effect() {
        let set = [(2, 20), (2, 20), (21, 22)];
        let machine = periodic(&ENTRY, &[NONE], 2, &set, 26);
        assert_eq!(machine.models[2].finished, [25]);
        assert_eq!(machine.models[2].misses, 1);
        let vcpus = (0..).zip(set).map(|(id, (c, t))| vcpu(id, c, t, t));
        let verdict = (ENTRY.admit)(&System::new(2, vcpus.collect()), &with(&[]));
        assert_eq!(verdict.refused.len(), 1, "{verdict:?}");
    }

    fn vcpu(id: u32, c: u64, d: u64, t: u64) -> Vcpu {
        let ticks = Duration::from_ticks;
        let mut vcpu = Vcpu::new(id, ticks(c), ticks(t)).periodic();
        vcpu.reservation.deadline = ticks(d);
        vcpu
    }

    /// At 4 the short periods come again, and the long one gives way.
    #[test]
    fn shortest_period_first_ties_by_id() {
        let machine = periodic(&ENTRY, &[NONE], 2, &[(3, 10), (1, 4), (2, 4), (1, 4)], 12);
        assert_eq!(machine.schedule(0), "bdaabda.bdaa");
        assert_eq!(machine.schedule(1), "cc..cc..cc..");
    }

    /// One core, of (C, D, T) a = (1, 8, 8) and b = (2, 4, 12): b's deadline is the shorter one,
    /// a's period.
    #[test]
    fn the_parameter_says_what_orders() {
        for (priorities, schedule) in [("deadline", "bba....."), ("period", "abb.....")] {
            let system = System::new(1, [vcpu(0, 1, 8, 8), vcpu(1, 2, 4, 12)].into());
            let params = with(&[("priorities", priorities)]);
            let mut machine = Machine::new(&ENTRY, &params, &system, Manners::PERFECT);
            machine.release(0, 1, 8);
            machine.release(1, 2, 4);
            (0..8).for_each(|_| machine.tick());
            assert_eq!(machine.schedule(0), schedule, "{priorities}");
        }
    }
}
