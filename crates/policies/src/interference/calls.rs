//! How often a policy that moves jobs between cores acts at most, by the structure of what it
//! plans: what a machine that pays for each act has to leave room for.
//!
//! Where tasks do not begin together, or come at any time, none of their releases and deadlines are
//! taken to coincide. By policy:
//! - `run`, `qps`: as in their `bound.rs`. Of cores that may be used in part, `qps` is counted as
//!   on whole ones with the same shares, which is no bound (`qps/bound.rs` says why).
//! - `g-edf`, `g-rm`: a job stops others only when it is released, and then one.
//! - `u-edf`: at each release all tasks are allotted time anew, and each core may change its job.
//!   Rates in a row over m cores are cut m - 1 times, so that as many jobs go on elsewhere
//!   before the next release.
//! - `dp-wrap`: between two releases n chunks are cut into n + m - 1 pieces at most, each of which
//!   ends by itself; m - 1 tasks move.
//! - `pd2`: each core may change its job at each quantum, and at no other time.
//!
//! Each policy is called for a release, for a completion and for the segment that ends with it, and
//! for what a preemption ends.

use super::{Interference, Releases};
use maracas_core::params::Params;
use maracas_core::{Duration, Rate, System};

/// What a policy does in a time at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Calls {
    /// What happens to jobs, and how often the policy is asked.
    pub happens: Interference,
    /// How often some core has to act: each time that the policy is asked, where a job's end and
    /// that of its last segment are one; and where a job moves, the core that it leaves besides.
    pub acts: u64,
}

/// What can happen at most in `length` under the policy `name` of the tasks of `system`. `None`
/// for a policy that keeps jobs on their cores or is not counted here, and where the cores are not
/// enough.
pub fn calls(name: &str, system: &System, params: &Params, length: Duration) -> Option<Calls> {
    let mut system = system.clone();
    system.vcpus.retain(|vcpu| !vcpu.reservation.is_none());
    if system.vcpus.is_empty() {
        return None;
    }
    let mut happens = match name {
        "run" => crate::run_interference(&system, params, length).ok(),
        "qps" => crate::qps_interference(&whole(&system), params, length).ok(),
        "g-edf" | "g-rm" => Some(of_releases(&system, length)),
        "u-edf" => Some(of_allotments(&system, length)),
        "dp-wrap" => Some(of_slices(&system, length)),
        "pd2" => Some(of_quanta(&system, params, length)),
        _ => None,
    }?;
    if system.cores.len() == 1 {
        happens = Interference { unbound_jobs: 0, migrations: 0, ..happens };
    }
    // At the end of a quantum all cores act anyway.
    let left = if name == "pd2" { 0 } else { happens.migrations };
    Some(Calls { happens, acts: happens.decisions.saturating_sub(happens.jobs) + left })
}

/// The same shares of whole cores.
fn whole(system: &System) -> System {
    let (num, den) = (u128::from(system.capacity.num()), u128::from(system.capacity.den()));
    let mut system = System { capacity: Rate::ONE, ..system.clone() };
    for vcpu in &mut system.vcpus {
        let r = &mut vcpu.reservation;
        let share = u128::from(r.budget.ticks()) * den / num.max(1);
        r.budget = Duration::from_ticks(u64::try_from(share).unwrap_or(u64::MAX)).min(r.period);
    }
    system
}

/// Jobs of all tasks in `length`, and at how many instants at most they are released.
fn released(system: &System, length: Duration) -> (u64, u64) {
    let releases = Releases::new(system, length);
    let jobs = system.vcpus.iter().map(|vcpu| releases.jobs(vcpu.id)).sum();
    (jobs, releases.instants())
}

/// What jobs do that come, end, are preempted so often and may go on anywhere.
fn of_jobs(jobs: u64, preemptions: u64, more: u64) -> Interference {
    Interference {
        jobs,
        unbound_jobs: jobs,
        preemptions,
        migrations: preemptions,
        decisions: 3 * jobs + preemptions + more,
    }
}

fn of_releases(system: &System, length: Duration) -> Interference {
    let (jobs, _) = released(system, length);
    of_jobs(jobs, jobs, 0)
}

fn of_allotments(system: &System, length: Duration) -> Interference {
    let (jobs, instants) = released(system, length);
    let cores = system.cores.len().min(system.vcpus.len()) as u64;
    let cuts = instants * cores.saturating_sub(1);
    of_jobs(jobs, instants * cores + cuts, cuts)
}

fn of_slices(system: &System, length: Duration) -> Interference {
    let (jobs, instants) = released(system, length);
    let (cores, tasks) = (system.cores.len() as u64, system.vcpus.len() as u64);
    let cuts = instants * cores.min(tasks).saturating_sub(1);
    let pieces = instants * tasks + cuts;
    Interference { migrations: cuts, ..of_jobs(jobs, pieces, 0) }
}

fn of_quanta(system: &System, params: &Params, length: Duration) -> Interference {
    let (jobs, _) = released(system, length);
    let quantum = crate::pd2::quantum(system, params).max(1);
    let cores = system.cores.len().min(system.vcpus.len()) as u64;
    of_jobs(jobs, cores * length.ticks().div_ceil(quantum), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::with;
    use alloc::vec::Vec;
    use maracas_core::{Arrival, Vcpu};

    const LENGTH: Duration = Duration::from_ticks(30);

    fn system(cores: usize, list: &[(u64, u64)]) -> System {
        let ticks = Duration::from_ticks;
        let task = |(id, &(c, t))| Vcpu::new(id, ticks(c), ticks(t)).periodic();
        System::new(cores, (0..).zip(list).map(task).collect::<Vec<_>>())
    }

    fn acts(name: &str, system: &System) -> (u64, u64, u64) {
        let found = calls(name, system, &with(&[]), LENGTH).expect("it is counted");
        let found = found.happens;
        assert_eq!(found.jobs, 30, "{name}");
        (found.preemptions, found.migrations, found.decisions)
    }

    /// Three of (2, 3) on two cores in 30 ticks: ten instants with three releases each.
    #[test]
    fn each_policy_acts_by_its_structure() {
        let three = system(2, &[(2, 3); 3]);
        assert_eq!(acts("run", &three), (60, 60, 183));
        assert_eq!(acts("qps", &three), (106, 106, 240));
        for name in ["g-edf", "g-rm"] {
            assert_eq!(acts(name, &three), (30, 30, 120), "{name}");
        }
        assert_eq!(acts("u-edf", &three), (30, 30, 90 + 30 + 10));
        assert_eq!(acts("dp-wrap", &three), (40, 10, 90 + 40));
        // A quantum is a tick.
        assert_eq!(acts("pd2", &three), (60, 60, 150));
        let of = |name| calls(name, &three, &with(&[]), LENGTH).expect("counted").acts;
        assert_eq!(["run", "g-edf", "pd2"].map(of), [213, 120, 120]);
        assert!(calls("p-edf", &three, &with(&[]), LENGTH).is_none());
        assert!(calls("run", &system(1, &[(2, 3); 3]), &with(&[]), LENGTH).is_none());
        assert!(calls("g-edf", &system(1, &[(0, 3)]), &with(&[]), LENGTH).is_none());
    }

    #[test]
    fn part_of_each_core_counts_as_the_same_shares_of_whole_ones() {
        let mut part = system(2, &[(9, 15); 3]);
        part.capacity = Rate::new(9, 10);
        let length = Duration::from_ticks(150);
        let found = calls("qps", &part, &with(&[]), length);
        assert_eq!(found, calls("qps", &system(2, &[(10, 15); 3]), &with(&[]), length));
        assert!(found.expect("they fit").happens.preemptions > 0);
    }

    /// Releases at any time divide time more often, and `run` divides their periods again.
    #[test]
    fn what_comes_at_any_time_counts_by_itself() {
        let mut any = system(2, &[(2, 3); 3]);
        any.vcpus.iter_mut().for_each(|vcpu| vcpu.arrival = Arrival::Sporadic);
        assert_eq!(acts("u-edf", &any), (90, 90, 90 + 90 + 30));
        let ms = |id, c, t| Vcpu::new(id, Duration::from_millis(c), Duration::from_millis(t));
        let of = |arrival| {
            let own = |id| Vcpu { arrival, ..ms(id, 15, 30) };
            let mut three = System::new(2, (0..3).map(own).collect::<Vec<_>>());
            three.capacity = Rate::new(9, 10);
            calls("run", &three, &with(&[]), Duration::from_secs(1)).expect("they fit").acts
        };
        let in_step = Arrival::Periodic { offset: Duration::ZERO };
        let (periodic, sporadic) = (of(in_step), of(Arrival::Sporadic));
        assert!(sporadic > periodic * 2, "{sporadic} {periodic}");
    }
}
