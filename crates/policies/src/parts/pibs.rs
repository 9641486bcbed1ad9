//! The server of an I/O VCPU: a rate U instead of a budget, at the period of the VCPU it serves.
//!
//! M. Danish, Y. Li, R. West, "Virtual-CPU Scheduling in the Quest Operating System", RTAS 2011:
//! priority inheritance bandwidth preserving server. It has one replenishment at most, so that
//! many short runs cost no list; in a window of its period T in which nothing delays it, it
//! consumes at most (2-U)UT.

use super::sporadic::Chunk;
use maracas_core::{Duration, Instant, Rate};

/// A priority inheritance bandwidth preserving server.
#[derive(Clone, Debug)]
pub(crate) struct Pibs {
    rate: Rate,
    period: Duration,
    eligible: Instant,
    budget: Duration,
    used: Duration,
    replenishment: Option<Chunk>,
    budgeted: bool,
}

impl Pibs {
    /// A server of the bandwidth `rate` that has nothing to do at `at`.
    pub(crate) const fn new(rate: Rate, period: Duration, at: Instant) -> Self {
        Self {
            rate,
            period,
            eligible: at,
            budget: Duration::ZERO,
            used: Duration::ZERO,
            replenishment: None,
            budgeted: false,
        }
    }
    pub(crate) const fn period(&self) -> Duration {
        self.period
    }
    /// C_max = UT, and at least a tick: a shorter inherited period must not starve the server.
    fn most(&self) -> Duration {
        self.rate.floor_of(self.period).max(Duration::from_ticks(1))
    }

    /// Work came at `now` for a VCPU of period `served`; `idle` where the server neither runs nor
    /// waits to run.
    pub(crate) fn wake(&mut self, now: Instant, served: Duration, idle: bool) {
        if served < self.period || idle {
            self.period = served;
        }
        if !self.budgeted {
            self.eligible = self.eligible.max(now);
        }
        let amount = self.most();
        // Held at a longer period, it must not be spent in one go at a shorter one.
        self.budget = self.budget.min(amount);
        match &mut self.replenishment {
            Some(chunk) => chunk.amount = amount,
            None if !self.budgeted => {
                self.replenishment = Some(Chunk { at: self.eligible, amount });
            }
            None => {}
        }
        self.budgeted = true;
        self.check();
    }

    /// Takes in a replenishment that is due.
    pub(crate) fn update(&mut self, now: Instant) {
        if let Some(chunk) = self.replenishment.take_if(|chunk| chunk.at <= now) {
            self.budget = chunk.amount;
        }
        self.check();
    }
    /// What may be used, once updated.
    pub(crate) const fn usable(&self) -> Duration {
        self.budget
    }
    /// Its eligibility: the instant from which its use is counted.
    pub(crate) const fn eligible(&self) -> Instant {
        self.eligible
    }
    /// It begins on another core at `now`, where it may not use what it saved here and have that
    /// back at once.
    pub(crate) fn moved(&mut self, now: Instant) {
        self.eligible = self.eligible.max(now);
    }
    /// When the replenishment is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.replenishment.map(|chunk| chunk.at)
    }

    /// A segment of `used` ended; `blocked` where nothing is left to do.
    pub(crate) fn charge(&mut self, used: Duration, blocked: bool) {
        self.budget = self.budget.saturating_sub(used);
        self.used += used;
        if blocked || self.budget.is_zero() {
            // An overrun delays eligibility, so it is paid for like any use.
            self.eligible += self.time_for(self.used);
            let amount = self.replenishment.map_or(self.most(), |chunk| chunk.amount);
            self.replenishment = Some(Chunk { at: self.eligible, amount });
            self.used = Duration::ZERO;
            self.budget = Duration::ZERO;
        }
        if blocked {
            self.budgeted = false;
        }
        self.check();
    }

    /// Replaces the bandwidth; eligibility, and so what is owed, stays.
    pub(crate) fn change(&mut self, rate: Rate, period: Duration) {
        (self.rate, self.period) = (rate, period);
        let most = self.most();
        self.budget = self.budget.min(most);
        if let Some(chunk) = &mut self.replenishment {
            chunk.amount = chunk.amount.min(most);
        }
        self.check();
    }

    /// The time in which the bandwidth yields `used`, rounded up.
    fn time_for(&self, used: Duration) -> Duration {
        let time = u128::from(used.ticks()) * u128::from(self.rate.den());
        let ticks = time.div_ceil(u128::from(self.rate.num().max(1)));
        Duration::from_ticks(u64::try_from(ticks).unwrap_or(u64::MAX / 4))
    }

    /// algorithms.md F.7 (6).
    fn check(&self) {
        let (budget, most) = (self.budget, self.most());
        assert!(budget <= most, "the server holds {budget} of at most {most}");
        let due = self.replenishment.map_or(Duration::ZERO, |chunk| chunk.amount);
        assert!(due <= most, "{due} are due of at most {most}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn ticks(n: u64) -> Duration {
        Duration::from_ticks(n)
    }
    fn at(n: u64) -> Instant {
        Instant::from_ticks(n)
    }

    #[test]
    fn vector_of_f6() {
        let mut server = Pibs::new(Rate::new(1, 10), ticks(50), Instant::ZERO);
        server.wake(at(100), ticks(50), true);
        server.update(at(100));
        assert_eq!((server.usable(), server.eligible), (ticks(5), at(100)));
        server.charge(ticks(2), true);
        assert_eq!(server.eligible, at(120));
        let due = |at_, amount| Some(Chunk { at: at(at_), amount: ticks(amount) });
        assert_eq!(server.replenishment, due(120, 5));
        server.wake(at(105), ticks(20), true);
        assert_eq!(server.replenishment, due(120, 2));
        server.update(at(119));
        assert_eq!(server.usable(), ticks(0));
        server.update(at(120));
        assert_eq!(server.usable(), ticks(2));
    }

    #[test]
    fn a_period_too_short_for_a_tick_does_not_starve() {
        let mut server = Pibs::new(Rate::new(1, 100), ticks(200), Instant::ZERO);
        server.wake(at(0), ticks(50), true);
        server.update(at(0));
        assert_eq!(server.usable(), ticks(1));
        server.charge(ticks(1), false);
        assert_eq!(server.next(), Some(at(100)));
    }

    #[test]
    fn a_block_in_the_background_ends_eligibility() {
        let mut server = Pibs::new(Rate::new(1, 10), ticks(50), Instant::ZERO);
        server.wake(at(0), ticks(50), true);
        server.update(at(0));
        server.charge(ticks(5), false);
        server.charge(ticks(0), true);
        // Awake again long after: one budget from now on, not one for each period slept.
        server.wake(at(500), ticks(50), true);
        server.update(at(500));
        server.charge(ticks(5), false);
        assert_eq!(server.next(), Some(at(550)));
    }

    #[test]
    fn any_window_of_one_period_holds_at_most_two_minus_u() {
        let mut seed: u64 = 7;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % n
        };
        for _ in 0..200 {
            let (den, k) = (2 + below(9), 1 + below(12));
            let num = 1 + below(den - 1);
            let t = den * k; // So that U T is whole.
            let mut server = Pibs::new(Rate::new(num, den), ticks(t), Instant::ZERO);
            let (mut awake, mut ran) = (false, Vec::new());
            for now in 0..800 {
                if !awake && below(3) == 0 {
                    server.wake(at(now), ticks(t), true);
                    awake = true;
                }
                server.update(at(now));
                // Never delayed by others: with delays one window may hold two budgets, as F4
                // shows for the sporadic server.
                let runs = awake && !server.usable().is_zero();
                ran.push(u64::from(runs));
                if runs {
                    awake = below(5) > 0;
                    server.charge(ticks(1), !awake);
                }
            }
            // (2-U) U T in whole ticks, rounded up.
            let most = ((2 * den - num) * num * t).div_ceil(den * den);
            for window in ran.windows(t as usize) {
                let used: u64 = window.iter().sum();
                assert!(used <= most, "U = {num}/{den}, T = {t}: {used} > {most}");
            }
        }
    }
}
