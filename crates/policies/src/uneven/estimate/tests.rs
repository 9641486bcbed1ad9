use super::*;

const FAST: Class = 0;
const SLOW: Class = 1;

/// Instructions per second on a fast and on a slow core.
type Ips = (u64, u64);

const GIGA: u64 = 1_000_000_000;
const MEGA: u64 = 1_000_000;

fn milli(estimator: &Estimator) -> Option<u64> {
    estimator.speeds(&[1000, 500]).map(Speeds::milli)
}

/// Runs for so many milliseconds on that class at that speed.
fn run(estimator: &mut Estimator, side: Class, ms: u64, ips: u64) {
    estimator.ran(side, Duration::from_millis(ms), ips / 1000 * ms);
}

/// One interval of `fast_ms` and `slow_ms`.
fn interval(estimator: &mut Estimator, fast_ms: u64, slow_ms: u64, (fast, slow): Ips) {
    run(estimator, FAST, fast_ms, fast);
    run(estimator, SLOW, slow_ms, slow);
    estimator.close_interval();
}

#[test]
fn a_steady_program_is_known_exactly_after_one_interval() {
    for (fast, slow) in [(2 * GIGA, GIGA), (3_100_000, 1_900_000), (GIGA, GIGA), (64_000, 16_000)] {
        for (fast_ms, slow_ms) in [(1970, 30), (30, 1970), (1000, 1000)] {
            let mut estimator = Estimator::sampled(2);
            assert_eq!(estimator.speeds(&[1000, 500]), None);
            for _ in 0..20 {
                interval(&mut estimator, fast_ms, slow_ms, (fast, slow));
                assert_eq!(milli(&estimator), Some((fast * 1000 + slow / 2) / slow));
            }
        }
    }
}

#[test]
fn what_the_user_knows_is_not_measured() {
    let mut estimator = Estimator::known(2500);
    interval(&mut estimator, 1000, 1000, (GIGA, GIGA));
    assert_eq!(milli(&estimator), Some(2500));
    assert_eq!(milli(&Estimator::known(400)), Some(1000));
}

/// Every pair of phases with speedups from 1 to 4, entered anywhere in an interval, sampled mostly
/// on one class: three whole intervals later the estimate is within 10 %. One of the two phases
/// may have been seen for a part of its interval only.
#[test]
fn a_new_phase_is_known_within_three_intervals() {
    let phases: [Ips; 6] = [(4, 1), (4, 3), (4, 4), (2, 1), (2, 2), (1, 1)];
    let steps = [100, 80, 120, 150, 151, 67];
    let mut worst = 0;
    for (i, before) in phases.iter().enumerate() {
        for (k, after) in phases.iter().enumerate() {
            let scale = |(fast, slow): Ips, step: u64| (fast * step * 10_000, slow * step * 10_000);
            let before = scale(*before, 100);
            let after = scale(*after, steps[(i + k) % steps.len()]);
            for slow_ms in [30, 600, 1970] {
                for changed in 0..=10 {
                    for slow_first in [true, false] {
                        let error = settled_error(before, after, slow_ms, changed, slow_first);
                        worst = worst.max(error);
                    }
                }
            }
        }
    }
    // In parts per million.
    assert!(worst < 100_000, "{worst}");
}

/// The error of the estimate, in parts per million, three intervals after the one in which the
/// program went from `before` to `after`: at `changed` tenths of its time there.
fn settled_error(before: Ips, after: Ips, slow_ms: u64, changed: u64, slow_first: bool) -> u64 {
    let mut estimator = Estimator::sampled(2);
    let fast_ms = 2000 - slow_ms;
    for _ in 0..4 {
        interval(&mut estimator, fast_ms, slow_ms, before);
    }
    let change = 2000 * changed / 10;
    let order = if slow_first {
        [(SLOW, slow_ms), (FAST, fast_ms)]
    } else {
        [(FAST, fast_ms), (SLOW, slow_ms)]
    };
    let mut now = 0;
    for (side, ms) in order {
        let old = change.saturating_sub(now).min(ms);
        let speed = |ips: Ips| if side == FAST { ips.0 } else { ips.1 };
        run(&mut estimator, side, old, speed(before));
        run(&mut estimator, side, ms - old, speed(after));
        now += ms;
    }
    estimator.close_interval();
    for _ in 0..3 {
        interval(&mut estimator, fast_ms, slow_ms, after);
    }
    let Some(_) = estimator.speeds(&[1000, 500]) else { return u64::MAX };
    let estimate = milli(&estimator).unwrap() * 1000;
    let truth = after.0 * 1_000_000 / after.1;
    estimate.abs_diff(truth) * 1_000_000 / truth
}

/// The slowest to be learned: one speed falls by just under the departure, the other rises by it.
#[test]
fn opposite_changes_take_an_interval_more() {
    let mut estimator = Estimator::sampled(2);
    interval(&mut estimator, 1000, 1000, (3 * GIGA, GIGA));
    let errors = [0; 4].map(|_| {
        interval(&mut estimator, 1000, 1000, (2_010 * MEGA, 1_490 * MEGA));
        milli(&estimator).unwrap().abs_diff(1349) * 100 / 1349
    });
    assert_eq!(errors, [49, 22, 10, 5]);
}

/// The average is not of two phases: neither on one class nor between the two.
#[test]
fn a_departure_on_one_class_forgets_both() {
    let mut estimator = Estimator::sampled(2);
    interval(&mut estimator, 1900, 100, (4 * GIGA, 2 * GIGA));
    assert_eq!(milli(&estimator), Some(2000));
    // Memory-bound from now on, and on fast cores only: not 1 GIPS over the old 2 GIPS.
    interval(&mut estimator, 2000, 0, (GIGA, GIGA));
    assert_eq!(milli(&estimator), None);
    interval(&mut estimator, 1000, 1000, (GIGA, GIGA));
    assert_eq!(milli(&estimator), Some(1000));
}

#[test]
fn short_samples_wait_for_the_next_interval() {
    let mut estimator = Estimator::sampled(2);
    interval(&mut estimator, 1000, 4, (2 * GIGA, GIGA));
    assert_eq!(milli(&estimator), None);
    interval(&mut estimator, 1000, 4, (2 * GIGA, GIGA));
    assert_eq!(milli(&estimator), Some(2000));
    // 200 and 100 units a second: 30 ms hold 3 of them, 11 intervals hold 33.
    let mut estimator = Estimator::sampled(2);
    for waited in 1..=11 {
        estimator.ran(FAST, Duration::from_secs(1), 200);
        estimator.ran(SLOW, Duration::from_millis(30), 3);
        estimator.close_interval();
        assert_eq!(milli(&estimator), (waited == 11).then_some(2000));
    }
}

#[test]
fn no_progress_is_no_speed_and_noise_is_no_slowdown() {
    let mut estimator = Estimator::sampled(2);
    for _ in 0..5 {
        interval(&mut estimator, 1000, 1000, (GIGA, 0));
    }
    assert_eq!(estimator.speeds(&[1000, 500]), None);
    let mut estimator = Estimator::sampled(2);
    interval(&mut estimator, 1000, 1000, (990_000_000, GIGA));
    assert_eq!(milli(&estimator), Some(1000));
    estimator.ran(FAST, Duration::from_millis(5), u64::MAX);
    estimator.ran(FAST, Duration::from_millis(5), u64::MAX);
    estimator.close_interval();
    assert_eq!(estimator.speeds(&[1000, 500]), None);
}
