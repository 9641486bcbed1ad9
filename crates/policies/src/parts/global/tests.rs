use super::{bak, bcl, ff_dbf, rta};
use crate::parts::bounds;
use alloc::vec::Vec;
use maracas_core::admission::{Measure, TestResult};
use maracas_core::{Duration, Vcpu};

type Test = fn(&[Vcpu], usize) -> TestResult;

const ALL: [Test; 4] = [bak::test, bcl::test, ff_dbf::test, rta::test];

/// Tasks of (C, D, T).
pub(super) fn set(list: &[(u64, u64, u64)]) -> Vec<Vcpu> {
    let vcpu = |(id, &(c, d, t)): (usize, &(u64, u64, u64))| {
        let mut vcpu = Vcpu::new(id as u32, Duration::from_ticks(c), Duration::from_ticks(t));
        vcpu.reservation.deadline = Duration::from_ticks(d);
        vcpu
    };
    list.iter().enumerate().map(vcpu).collect()
}

fn verdicts(list: &[(u64, u64, u64)], cores: usize) -> [bool; 4] {
    ALL.map(|test| test(&set(list), cores).accepted)
}

#[test]
fn nothing_and_one_task_alone_are_accepted() {
    assert_eq!(verdicts(&[], 2), [true; 4]);
    assert_eq!(verdicts(&[(1, 10, 10)], 2), [true; 4]);
    // A job without spare time beside an idle core.
    assert!(rta::test(&set(&[(10, 10, 10)]), 2).accepted);
}

#[test]
fn the_set_of_dhall_and_liu_is_refused_by_all() {
    // Two light tasks and one that needs a core nearly whole: the light ones go first.
    let list = [(2, 10, 10), (2, 10, 10), (100, 101, 101)];
    assert_eq!(verdicts(&list, 2), [false; 4]);
}

#[test]
fn more_than_the_cores_is_refused_by_all() {
    let list = [(9, 10, 10); 5];
    assert_eq!(verdicts(&list, 4), [false; 4]);
}

/// The densities 1/2, 2/3 and 2/3 exceed 2 - 2/3; but two jobs of 2 ticks keep none from 5 of 10.
#[test]
fn response_times_accept_what_densities_do_not() {
    let list = [(5, 10, 10), (1, 2, 100), (1, 2, 100)];
    assert!(bounds::gfb(&set(&list), 2).accepted);
    let tighter = [(5, 10, 10), (2, 3, 100), (2, 3, 100)];
    assert!(!bounds::gfb(&set(&tighter), 2).accepted);
    let result = rta::test(&set(&tighter), 2);
    assert!(result.accepted, "{result}");
    let Measure::Responses(list) = result.measure else { panic!("no response times") };
    let responses: Vec<_> = list.iter().map(|(_, r, _)| r.map(Duration::ticks)).collect();
    // 5 + (2 + 2) / 2. As the first spares 3 ticks, none of its jobs with a deadline no later
    // reaches into a window of 3, and the other light one keeps only one of two cores busy.
    assert_eq!(responses, [Some(7), Some(2), Some(2)]);
}

#[test]
fn on_one_core_ff_dbf_accepts_what_demand_does() {
    for list in [&[(19, 20, 20), (19, 380, 380)][..], &[(10, 10, 10)], &[(3, 4, 8), (3, 6, 8)]] {
        let (found, exact) = (ff_dbf::test(&set(list), 1), crate::parts::qpa::test(&set(list)));
        assert_eq!((found.accepted, found.measure), (exact.accepted, exact.measure), "{list:?}");
    }
    assert!(ff_dbf::test(&set(&[(10, 10, 10)]), 1).accepted);
}

/// 1 ms beside 10 hours, where a window would be looked at for each of the milliseconds, and more
/// of them than are looked at: that set is judged by density.
#[test]
fn ff_dbf_ends_for_periods_far_apart() {
    let long = 36_000_000_000_000;
    let list = [(400_000, 1_000_000, 1_000_000), (long / 10, long, long)];
    assert!(ff_dbf::test(&set(&list), 2).accepted);
    let list = [(1, 2, 2), (long / 4, long, long)];
    let result = ff_dbf::test(&set(&list), 2);
    assert!(result.accepted);
    let Measure::Ratio { value, .. } = result.measure else { panic!("{result}") };
    assert_eq!(value, 750_000_000, "the density");
    let denser = [(1, 2, 2), (long / 4 * 3, long, long), (1, 2, 3)];
    assert!(!ff_dbf::test(&set(&denser), 2).accepted);
}
