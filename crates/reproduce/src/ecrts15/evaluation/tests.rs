//! That the halves are two, and how a bound is looked for.

use super::*;

/// Nothing of the second half is known to the first one, and no set counts twice.
#[test]
fn no_two_sets_share_their_utilizations() {
    let all = [draws(0, 2).unwrap(), draws(1, 2).unwrap()].into_iter().flatten();
    let loads = |draw: Draw| -> Vec<_> {
        draw.set.tasks.iter().map(|task| task.reservation.utilization()).collect()
    };
    let mut all: Vec<_> = all.map(loads).collect();
    // Sets drawn one task after another from one stream begin alike, whatever their total.
    all.iter_mut().for_each(|loads| loads.truncate(4));
    let count = all.len();
    all.sort_by(|a, b| {
        a.iter().map(|u| (u.num(), u.den())).cmp(b.iter().map(|u| (u.num(), u.den())))
    });
    all.dedup();
    assert_eq!((all.len(), count), (count, 2 * CLASSES.len() * LOADS.len() * 2 * 2));
}

#[test]
fn a_bound_is_raised_to_what_was_charged_and_else_by_a_quarter() {
    let us = Duration::from_micros;
    let attempt = |bound, most, unexplained| Attempt {
        bound: us(bound),
        most: us(most),
        missed: 1,
        unexplained,
    };
    assert!(attempt(40, 40, 0).holds());
    assert!(!attempt(40, 41, 0).holds() && !attempt(40, 30, 1).holds());
    assert_eq!(attempt(40, 41, 0).raised(), us(41));
    assert_eq!(attempt(40, 30, 1).raised(), us(50));
    let set = TaskSet::parse("cost_us,period_us\n50,1000\n200,1000\n", "set").unwrap();
    let draw = Draw { class: 0, load: 50, periods: HARMONIC, set };
    assert!(has_short_job(&draw, us(50)) && !has_short_job(&draw, us(49)));
}
