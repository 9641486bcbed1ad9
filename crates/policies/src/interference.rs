//! What the structure of an optimal scheduler lets happen to jobs at most: how often they are
//! preempted and moved, how often the policy is asked, and what that costs.
//!
//! # Paper
//! D. Compagnin, E. Mezzetti, T. Vardanega. "Experimental evaluation of optimal schedulers based on
//! partitioned proportionate fairness." ECRTS 2015, slide 12: an upper bound on the overhead from
//! the structure (RUN's tree, QPS's hierarchy) and from what was measured of each primitive.
//! # Model
//! Periodic tasks that begin together, with deadlines at their periods' ends and jobs of at most C
//! that are in time. For others there is no bound here.
//! # How it works
//! `run/bound.rs` and `qps/bound.rs` count what can happen in a time from the start. What jobs are
//! charged on average follows from that and from the cost of each primitive. It is a bound on the
//! mean over jobs: one of them may be preempted more often. What one job pays at most is all that
//! happens in its part of the structure while it is there ([`of_each_job`]).

mod calls;

pub use calls::{Calls, calls};

use crate::tree::Node;
use alloc::vec::Vec;
use maracas_core::admission::Verdict;
use maracas_core::params::Params;
use maracas_core::{Arrival, Duration, System, Vcpu, VcpuId, gcd};

/// What can happen at most in a time from the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Interference {
    /// Jobs released; the other numbers are of them all.
    pub jobs: u64,
    /// Of these, those of tasks that may run on more than one core.
    pub unbound_jobs: u64,
    /// Jobs that stop before their end and go on later, or change cores at once.
    pub preemptions: u64,
    /// Of these, those after which a job may be on another core.
    pub migrations: u64,
    /// Calls of the policy.
    pub decisions: u64,
}

/// What each of these costs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Prices {
    /// A job's release.
    pub release: Duration,
    /// A decision, with its update of the tree where it makes one.
    pub decision: Duration,
    /// Taking up another VCPU on a core.
    pub context_switch: Duration,
    /// What it costs more if that VCPU ran on another core before.
    pub migration: Duration,
    /// What it takes to fill caches again after a preemption.
    pub cache_delay: Duration,
}

impl Interference {
    /// What all jobs together are charged at most: every job is taken up once, and once more after
    /// each preemption, by a switch that may come from another core.
    pub fn overhead(&self, prices: &Prices) -> Duration {
        let moves = self.unbound_jobs + self.migrations;
        prices.release * self.jobs
            + prices.decision * self.decisions
            + prices.context_switch * (self.jobs + self.preemptions)
            + prices.migration * moves
            + prices.cache_delay * self.preemptions
    }
    /// What a job is charged at most on average, rounded up.
    pub fn per_job(&self, prices: &Prices) -> Duration {
        Duration::from_ticks(self.overhead(prices).ticks().div_ceil(self.jobs.max(1)))
    }
    /// The sum of what can happen in two parts of a system.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            jobs: self.jobs + other.jobs,
            unbound_jobs: self.unbound_jobs + other.unbound_jobs,
            preemptions: self.preemptions + other.preemptions,
            migrations: self.migrations + other.migrations,
            decisions: self.decisions + other.decisions,
        }
    }
}

/// What can happen at most in `length` from the start under the policy `name`. `None` for a policy
/// without such a bound, and for tasks, cores and parameters that it leaves out.
///
/// # Errors
/// The verdict, where the policy would not admit the system.
pub fn of(
    name: &str,
    system: &System,
    params: &Params,
    length: Duration,
) -> Option<Result<Interference, Verdict>> {
    let bound = match name {
        "run" => crate::run_interference,
        "qps" if crate::qps_covers(system, params) => crate::qps_interference,
        _ => return None,
    };
    system.vcpus.iter().all(is_in_step).then(|| bound(system, params, length))
}

/// What can happen at most while a job of each task is there, from its release to its deadline,
/// where all jobs are in time: all that does in its part of the tree or the hierarchy, by jobs that
/// were released before as well, and the timers of the other parts, which a machine may have any
/// core pay for. In the order of the tasks; `None` as for [`of`].
///
/// # Errors
/// The verdict, where the policy would not admit the system.
pub fn of_each_job(
    name: &str,
    system: &System,
    params: &Params,
) -> Option<Result<Vec<Interference>, Verdict>> {
    let of_parts = match name {
        "run" => crate::run_interference_of_parts,
        "qps" if crate::qps_covers(system, params) => crate::qps_interference_of_parts,
        _ => return None,
    };
    let mut lengths: Vec<Duration> =
        system.vcpus.iter().map(|vcpu| vcpu.reservation.period).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let during: Vec<Releases<'_>> =
        lengths.iter().map(|length| Releases::during(system, *length)).collect();
    let of_job = |parts: &[Part], vcpu: &Vcpu| {
        let period = lengths.partition_point(|length| *length < vcpu.reservation.period);
        parts.iter().fold(Interference::default(), |sum, part| {
            let all = part.happens[period];
            if part.tasks.contains(&vcpu.id) {
                return sum.and(all);
            }
            let timers = all.decisions - 3 * all.jobs - all.preemptions;
            sum.and(Interference { decisions: timers, ..Interference::default() })
        })
    };
    system.vcpus.iter().all(is_in_step).then(|| {
        let parts = of_parts(system, params, &during)?;
        Ok(system.vcpus.iter().map(|vcpu| of_job(&parts, vcpu)).collect())
    })
}

/// What can happen in a part of a structure that stands by itself.
pub(crate) struct Part {
    pub(crate) tasks: Vec<VcpuId>,
    /// In each of the times that were asked for.
    pub(crate) happens: Vec<Interference>,
}

/// Whether a task is periodic from the start, with deadlines at its periods' ends.
fn is_in_step(vcpu: &Vcpu) -> bool {
    let r = &vcpu.reservation;
    vcpu.arrival == Arrival::Periodic { offset: Duration::ZERO } && r.deadline == r.period
}

/// The jobs of some periodic tasks in a time.
pub(crate) struct Releases<'a> {
    system: &'a System,
    length: u64,
    /// Jobs of each task that were released before and are still there, and how many deadlines of
    /// one more there may be than from the start.
    before: u64,
}

impl<'a> Releases<'a> {
    /// In a time from the start.
    pub(crate) const fn new(system: &'a System, length: Duration) -> Self {
        Self { system, length: length.ticks(), before: 0 }
    }
    /// In a time that begins anywhere.
    const fn during(system: &'a System, length: Duration) -> Self {
        Self { before: 1, ..Self::new(system, length) }
    }
    /// The same time, of tasks with other periods.
    pub(crate) const fn of<'b>(&self, system: &'b System) -> Releases<'b> {
        Releases { system, length: self.length, before: self.before }
    }

    /// How many jobs of a task are there.
    pub(crate) fn jobs(&self, vcpu: VcpuId) -> u64 {
        self.period(vcpu).map_or(0, |period| self.length.div_ceil(period) + self.before)
    }
    /// In how many windows at most the deadlines of the tasks under `node` divide the time: one
    /// more than there are such deadlines.
    pub(crate) fn windows(&self, node: &Node) -> u64 {
        self.apart(&node.tasks()) + 1
    }
    /// At how many instants at most after the start jobs are released, whosever they are.
    fn instants(&self) -> u64 {
        self.apart(&self.system.vcpus.iter().map(|vcpu| vcpu.id).collect::<Vec<_>>())
    }

    /// How many deadlines of these tasks there are. Where they begin together all are multiples of
    /// the periods' common divisor, and of a period that divides another one the other's are among
    /// its own.
    fn apart(&self, tasks: &[VcpuId]) -> u64 {
        let periods = || tasks.iter().filter_map(|vcpu| self.period(*vcpu));
        let here = |vcpu: &&Vcpu| tasks.contains(&vcpu.id);
        if !self.system.vcpus.iter().filter(here).all(is_in_step) {
            return periods().map(|period| self.length.div_ceil(period) + self.before).sum();
        }
        let mut kept = alloc::collections::BTreeSet::new();
        for period in periods() {
            if !kept.iter().any(|other| period % other == 0) {
                kept.retain(|other: &u64| !other.is_multiple_of(period));
                kept.insert(period);
            }
        }
        let apart: u64 = kept.iter().map(|period| self.length / period + self.before).sum();
        let grain = periods().reduce(gcd).map_or(0, |grain| self.length / grain + self.before);
        apart.min(grain)
    }

    fn period(&self, vcpu: VcpuId) -> Option<u64> {
        let found = self.system.vcpus.iter().find(|spec| spec.id == vcpu)?;
        Some(found.reservation.period.ticks().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::with;

    fn system(cores: usize, list: &[(u64, u64)]) -> System {
        let ticks = Duration::from_ticks;
        let task = |(id, &(c, t))| Vcpu::new(id, ticks(c), ticks(t)).periodic();
        System::new(cores, (0..).zip(list).map(task).collect::<Vec<_>>())
    }

    fn found(name: &str, cores: usize, list: &[(u64, u64)], length: u64) -> Interference {
        let system = system(cores, list);
        of(name, &system, &with(&[]), Duration::from_ticks(length)).unwrap().unwrap()
    }

    #[test]
    fn windows_end_at_distinct_deadlines() {
        let windows = |periods: &[u64], length: u64| {
            let tasks: Vec<_> = periods.iter().map(|period| (1, *period)).collect();
            let system = system(1, &tasks);
            let tree = crate::run_tree(&system, &with(&[])).unwrap();
            Releases::new(&system, Duration::from_ticks(length)).windows(&tree.subsystems[0].root)
        };
        assert_eq!(windows(&[4, 8, 16, 4], 32), 9);
        // 15 and 10 deadlines, of which 5 are shared and both count.
        assert_eq!(windows(&[4, 6], 60), 26);
        // No more than there are instants.
        assert_eq!(windows(&[4, 5, 6, 7], 12), 3 + 2 + 2 + 1 + 1);
        assert_eq!(windows(&[20, 30, 40, 50, 70], 100), 11);
    }

    /// Partitioned: a release preempts once at most, and no job moves.
    #[test]
    fn where_all_is_partitioned_nothing_migrates() {
        for name in ["run", "qps"] {
            let bound = found(name, 2, &[(1, 4), (2, 4), (3, 4)], 40);
            assert_eq!((bound.jobs, bound.preemptions), (30, 30), "{name}");
            assert_eq!((bound.unbound_jobs, bound.migrations, bound.decisions), (0, 0, 120));
        }
    }

    /// Three of (2, 3) on two cores: one reduction, and one major set below one minor set.
    #[test]
    fn a_level_costs_what_its_windows_do() {
        let run = found("run", 2, &[(2, 3); 3], 30);
        assert_eq!((run.jobs, run.unbound_jobs, run.preemptions), (30, 30, 60));
        // Three duals, each of which spends its budget once in every window.
        assert_eq!(run.decisions, 3 * 30 + 60 + 3 * 11);
        let qps = found("qps", 2, &[(2, 3); 3], 30);
        // 20 jobs below, 10 above, which may stop a master and what starts with it again; 11
        // windows.
        assert_eq!(qps.preemptions, 20 + 10 * 2 + 11 * (4 + 2));
        assert_eq!(qps.decisions, 3 * 30 + qps.preemptions + 4 * 11);
        assert_eq!((qps.unbound_jobs, qps.migrations), (20, qps.preemptions));
    }

    #[test]
    fn what_is_no_synchronous_periodic_set_has_no_bound() {
        let length = Duration::from_ticks(100);
        let mut late = system(2, &[(2, 3); 3]);
        assert!(of("g-edf", &late, &with(&[]), length).is_none());
        late.vcpus[1].arrival = Arrival::Sporadic;
        assert!(of("qps", &late, &with(&[]), length).is_none());
        assert!(of("run", &system(1, &[(2, 3); 3]), &with(&[]), length).unwrap().is_err());
    }

    /// Of its part of the structure, whenever its period begins.
    #[test]
    fn a_job_pays_for_all_that_is_there_with_it() {
        let each = |name: &str, cores, list: &[(u64, u64)]| {
            let system = system(cores, list);
            of_each_job(name, &system, &with(&[])).unwrap().unwrap()
        };
        for name in ["run", "qps"] {
            // Two jobs of each task in four ticks, three and two in eight.
            let alone = each(name, 1, &[(1, 4), (2, 8)]);
            assert_eq!(alone.iter().map(|it| it.jobs).collect::<Vec<_>>(), [4, 5], "{name}");
            assert_eq!(alone.iter().map(|it| it.decisions).collect::<Vec<_>>(), [16, 20]);
            // Two cores that know nothing of each other.
            let apart = each(name, 2, &[(4, 4), (4, 4)]);
            assert_eq!((apart[0].jobs, apart[0].decisions), (2, 8), "{name}");
        }
        // What (2, 3) on two cores and (4, 4) on another do: the timers of the two are added.
        let mixed = each("qps", 3, &[(2, 3), (2, 3), (2, 3), (4, 4)]);
        assert_eq!((mixed[3].jobs, mixed[3].migrations), (2, 0));
        assert!(mixed[3].decisions > 8 && mixed[0].jobs == 6, "{mixed:?}");
    }

    #[test]
    fn jobs_pay_for_what_happens_to_them() {
        let ticks = Duration::from_ticks;
        let happens = Interference {
            jobs: 10,
            unbound_jobs: 4,
            preemptions: 5,
            migrations: 3,
            decisions: 20,
        };
        let prices = Prices {
            release: ticks(1),
            decision: ticks(10),
            context_switch: ticks(100),
            migration: ticks(1_000),
            cache_delay: ticks(10_000),
        };
        let all = 10 + 10 * 20 + 100 * 15 + 1_000 * 7 + 10_000 * 5;
        assert_eq!(happens.overhead(&prices), ticks(all));
        assert_eq!(happens.per_job(&prices), ticks(all / 10));
        assert_eq!(Interference::default().per_job(&prices), ticks(0));
    }
}
