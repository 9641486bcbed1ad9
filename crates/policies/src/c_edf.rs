//! Clustered EDF: tasks are bound off-line to clusters of cores that share a last-level cache; in
//! each cluster the pending jobs with the earliest deadlines run, as many as it has cores.
//!
//! # Paper
//! J. M. Calandrino, J. H. Anderson, D. P. Baumberger. "A Hybrid Real-Time Scheduling Approach for
//! Large-Scale Multicore Platforms." ECRTS 2007. The tests are those of global EDF, cited in their
//! files under `parts/global`; packings after D. S. Johnson, "Near-Optimal Bin Packing Algorithms",
//! PhD thesis, MIT, 1973.
//! # Model
//! Periodic or sporadic tasks, deadlines up to the period; a job may migrate within its cluster at
//! any instant and does not suspend itself. A set is admitted where a packing is found that the
//! chosen test (`admission`) accepts in each cluster.
//! # How it works
//! Cores are numbered so that those of a cache stand together; every `cores_per_cache` of them are
//! a cluster, the last one maybe of fewer. A task goes to the first cluster that accepts it,
//! heaviest first. Inside, a selected job keeps its core; a newly selected one takes the core where
//! its task ran last if that is free, else the lowest free core. Equal deadlines: a running job
//! first, then the lower id. Clusters of one core are partitioned EDF, a single one is global EDF.
//! # Invariants
//! No core is free while a job of its cluster waits. No waiting job has an earlier deadline than a
//! running one of its cluster. No task ever changes its cluster.
//! # Where we differ from the paper
//! The paper binds tasks by hand and bounds tardiness; here a packing is searched for and a test
//! admits what misses nothing, unless `admission = "none"` asks for load alone. Verdicts name a
//! cluster by its first core. All tests but `gfb` speak of one set: under them others may come
//! while the system runs, but after a leave none may, and nothing changes.

use crate::parts::global;
use crate::parts::global::dispatch::{self, Order};
use crate::parts::jobs::{self, ENFORCEMENT};
use crate::parts::pack::{self, PACKING};
use crate::parts::table::{Family, Table};
use alloc::boxed::Box;
use maracas_core::admission::Verdict;
use maracas_core::contract::{Claims, Entry, Needs, no_service_vcpus};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{MAX_CORES, Policy, System};

const CORES_PER_CACHE: ParamSpec = ParamSpec {
    name: "cores_per_cache",
    kind: Kind::Whole(0, 0, MAX_CORES as u64),
    help: "cores of one cluster, counted from core 0; 0 = those that share a last-level cache \
           where the platform says so, else all",
};
const ADMISSION: ParamSpec = ParamSpec {
    name: "admission",
    kind: Kind::Choice(&["gfb", "bak", "bcl", "ff-dbf", "rta", "none"]),
    help: "the test that decides in each cluster: gfb (Goossens, Funk and Baruah 2003), bak (Baker \
           2003), bcl (Bertogna, Cirinei and Lipari 2005), ff-dbf (Baruah and others 2010), rta \
           (Bertogna and Cirinei 2007), none = any load up to its cores, which promises nothing",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "c-edf",
    paper: "Calandrino, Anderson and Baumberger, A Hybrid Real-Time Scheduling Approach for \
            Large-Scale Multicore Platforms, ECRTS 2007",
    summary: "clustered EDF: global EDF among the cores of each last-level cache",
    params: &[CORES_PER_CACHE, PACKING, ADMISSION, ENFORCEMENT],
    needs: Needs { jobs: true, ..Needs::BUDGETS },
    // The verdict has the test that excludes misses. As a claim, of a policy that migrates, it
    // would say that nothing is missed up to full cores.
    claims: Claims { partitioned: false, work_conserving: false, no_miss_when_admitted: false },
    service_vcpus: no_service_vcpus,
    admit,
    fits: None,
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
    let order = Order::Deadline { tie: |_, _| 0, by_work: false };
    Ok(dispatch::build(system, params, table, order))
}

fn judged(system: &System, params: &Params) -> (Table, Verdict) {
    let (cores, each) = (system.cores.len(), params.whole(&CORES_PER_CACHE) as usize);
    let each = if each == 0 { cores } else { each.min(cores) };
    let (test, find_host) = (global::chosen(params.choice(&ADMISSION)), pack::chosen(params));
    let mut table = Table::of_clusters(system, Family::GlobalEdf, test, find_host, each);
    let mut verdict = table.fill(system, true);
    verdict.objections = jobs::objections(system);
    (table, verdict)
}

#[cfg(test)]
mod tests {
    use super::ENTRY;
    use crate::testing::with;
    use alloc::vec::Vec;
    use maracas_core::contract::{Entry, decide};
    use maracas_core::params::Params;
    use maracas_core::{CoreId, Duration, Event, Instant, Plan, System, Vcpu, VcpuId};

    fn pairs() -> Params {
        with(&[("cores_per_cache", "2")])
    }
    fn percent(id: u32, n: u64) -> Vcpu {
        Vcpu::new(id, Duration::from_ticks(n), Duration::from_ticks(100)).periodic()
    }
    fn set(list: &[u64]) -> Vec<Vcpu> {
        (0..).zip(list).map(|(id, n)| percent(id, *n)).collect()
    }

    /// By weight 70, 60, 50, 40, 30: on two cores 2 - max U may be asked for.
    #[test]
    fn the_heaviest_goes_to_the_first_cluster_that_accepts_it() {
        let system = System::new(5, set(&[30, 40, 50, 60, 70]));
        let verdict = (ENTRY.admit)(&system, &pairs());
        let ids = |vcpus: &[VcpuId]| vcpus.iter().map(|vcpu| vcpu.0).collect::<Vec<_>>();
        let placed: Vec<_> = verdict.cores.iter().map(|it| (it.core, ids(&it.vcpus))).collect();
        let core = |id| Some(CoreId(id));
        let expected: [(_, Vec<u32>); 3] =
            [(core(0), alloc::vec![3, 4]), (core(2), alloc::vec![0, 1, 2]), (core(4), Vec::new())];
        assert_eq!(placed, expected);
    }

    #[test]
    fn a_last_cluster_of_fewer_cores_takes_no_more_than_they_can() {
        // Beside 60 % the first cluster takes one of 50 %, the last core two.
        for (list, fits) in [(&[60, 50, 50, 50][..], true), (&[60, 50, 50, 50, 50], false)] {
            let verdict = (ENTRY.admit)(&System::new(3, set(list)), &pairs());
            assert_eq!(verdict.accepted(), fits, "{list:?}: {}", verdict.why());
        }
    }

    /// The grants of every core after all tasks released a job at once.
    fn started(entry: &Entry, system: &System, params: &Params) -> Vec<Vec<u32>> {
        let mut policy = (entry.build)(system, params).expect("it fits");
        let mut plan = Plan::new(system.cores.len());
        for vcpu in &system.vcpus {
            let id = maracas_core::JobId { vcpu: vcpu.id, index: 0 };
            let deadline = Instant::ZERO + vcpu.reservation.deadline;
            let job = maracas_core::Job { id, release: Instant::ZERO, deadline };
            policy.on_event(Instant::ZERO, &Event::Released(job));
        }
        decide(&mut *policy, Instant::ZERO, &mut plan);
        let on = |core| plan.run_queue(core).foreground.iter().map(|it| it.vcpu.0).collect();
        system.core_ids().map(on).collect()
    }

    #[test]
    fn each_cluster_runs_its_own_tasks_only() {
        let system = System::new(4, set(&[60, 60, 30, 30, 20]));
        // Two tasks of 60 do not pass in one cluster beside more than 20.
        let grants = started(&ENTRY, &system, &pairs());
        assert_eq!(grants, [[0], [1], [2], [3]]);
    }

    #[test]
    fn a_newcomer_is_told_the_first_core_of_its_cluster() {
        let system = System::new(4, set(&[60, 60, 20]));
        let mut policy = (ENTRY.build)(&system, &pairs()).expect("it fits");
        let mut plan = Plan::new(4);
        policy.on_event(Instant::ZERO, &Event::Arrived(percent(3, 50)));
        decide(&mut *policy, Instant::ZERO, &mut plan);
        assert_eq!(plan.verdicts(), [(VcpuId(3), Ok(CoreId(2)))]);
    }
}
