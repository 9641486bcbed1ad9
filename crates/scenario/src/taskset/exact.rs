//! Scales of time at which nothing has to be rounded.

use super::{TaskSet, is_sporadic, offset};
use maracas_core::{Rate, Vcpu, gcd};

impl TaskSet {
    /// The least number of ticks a nanosecond at which every share of every window is a whole
    /// number of ticks: a window lies between two releases or deadlines, so it is a multiple of
    /// their greatest common divisor, and a share is a sum of densities C/D, so it is a multiple of
    /// the reciprocal of their common denominator. RUN and QPS meet U = m exactly there. `None`
    /// where it exceeds 64 bits.
    ///
    /// Sporadic releases are taken to be whole nanoseconds.
    pub fn exact_scale(&self) -> Option<u64> {
        let share = |task: &Vcpu| Rate::of(task.reservation.budget, task.reservation.deadline);
        let parts = self.tasks.iter().map(share).try_fold(1, |all, share| lcm(all, share.den()))?;
        let instants = |task: &Vcpu| {
            let first = if is_sporadic(task) { 1 } else { offset(task).ticks() };
            [task.reservation.period.ticks(), task.reservation.deadline.ticks(), first]
        };
        let window = self.tasks.iter().flat_map(instants).filter(|ticks| *ticks > 0);
        Some(parts / gcd(parts, window.reduce(gcd).unwrap_or(1)))
    }
}

/// Least common multiple of two numbers above zero; `None` where it exceeds 64 bits.
fn lcm(a: u64, b: u64) -> Option<u64> {
    (a / gcd(a, b)).checked_mul(b)
}
