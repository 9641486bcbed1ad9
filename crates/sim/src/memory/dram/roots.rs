//! The law's roots and exponential from exactly rounded operations alone: the standard library's
//! `cbrt`, `powf` and `exp` may differ in the last bit between machines.

use crate::memory::clamp::Clamp;

/// (a^3 + b^3)^(1/3) of two positive numbers.
pub(super) fn root_of_cubes(a: f64, b: f64) -> f64 {
    let (most, share) = in_order(a, b);
    let sum = 1.0 + share * share * share;
    // The chord of the root between 1 and 2 is 0.006 off at worst; Halley's rule cubes that twice.
    let mut root = 1.0 + 0.2599 * (sum - 1.0);
    for _ in 0..2 {
        let cube = root * root * root;
        root *= (cube + 2.0 * sum) / (2.0 * cube + sum);
    }
    most * root
}

/// (a^5.5 + b^5.5)^(1/5.5) of two positive numbers.
pub(super) fn root_of_5_5(a: f64, b: f64) -> f64 {
    let (most, share) = in_order(a, b);
    let square = share * share;
    let sum = 1.0 + square * square * share * share.sqrt();
    // The root is y with y^11 = sum^2.
    let goal = sum * sum;
    let mut root = 1.0 + 0.1343 * (sum - 1.0);
    for _ in 0..3 {
        let (y2, y3) = (root * root, root * root * root);
        let power = y3 * y2 * y3 * y3;
        root *= (10.0 * power + 12.0 * goal) / (12.0 * power + 10.0 * goal);
    }
    most * root
}

/// 1/n, from the last term of the exponential series to the first.
const SHARES: [f64; 10] = [
    1.0 / 10.0,
    1.0 / 9.0,
    1.0 / 8.0,
    1.0 / 7.0,
    1.0 / 6.0,
    1.0 / 5.0,
    1.0 / 4.0,
    1.0 / 3.0,
    1.0 / 2.0,
    1.0,
];

/// 1 - e^-x for x >= 0, to 1e-11; infinity counts.
pub(super) fn one_minus_exp(x: f64) -> f64 {
    if x > 40.0 {
        return 1.0;
    }
    // e^-x = (e^-(x/128))^128, and the series of the small power.
    let small = x / 128.0;
    let mut power = 1.0;
    for share in SHARES {
        power = 1.0 - small * share * power;
    }
    for _ in 0..7 {
        power *= power;
    }
    1.0 - power
}

/// The larger one, and the smaller as a share of it.
fn in_order(a: f64, b: f64) -> (f64, f64) {
    let most = a.at_least(b);
    (most, a.at_most(b) / most)
}
