//! One level of all budgets, which follows the utilization of the memory controller.
//!
//! A period after which the controller was busier than the target lowers the level in proportion:
//! what cores hold up of the controller beyond their own slowest pace is proportional to their
//! budgets. One in which it was less busy raises the level by half of what is missing, but only
//! where some core was held back: where none was, more budget lets nothing more through, and the
//! level would run away. It is never below the reservations.

use maracas_core::{Duration, PPB, Rate};

/// The level at which budgets are what was promised.
const ONE: u128 = 1 << 16;
/// Budgets are at most so many times what was promised: more than any memory serves.
const MOST: u128 = ONE << 16;
/// No budget is above this, so that sums over cores stay within 64 bits.
const MOST_REQUESTS: u128 = 1 << 48;

/// The level, and what it is led by.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// Parts per billion of the time.
    target: u128,
    /// In units of 1 / [`ONE`].
    level: u128,
    /// Of this period, as far as it was reported.
    busy: u64,
    of: u64,
    /// Of all periods that ended.
    all_busy: u128,
    all_of: u128,
    above: u64,
}

impl Level {
    pub(super) const fn new(target: Rate) -> Self {
        let target = target.num() as u128 * PPB as u128 / target.den() as u128;
        Self { target, level: ONE, busy: 0, of: 0, all_busy: 0, all_of: 0, above: 0 }
    }

    pub(super) const fn utilized(&mut self, busy: Duration, of: Duration) {
        self.busy += busy.ticks();
        self.of += of.ticks();
    }

    /// A period ended, in which some core was held back or none was.
    pub(super) fn step(&mut self, held_back: bool) {
        let (busy, of) = (u128::from(self.busy), u128::from(self.of));
        (self.busy, self.of) = (0, 0);
        self.all_busy += busy;
        self.all_of += of;
        let (is, wanted) = (busy * u128::from(PPB), of * self.target);
        if is > wanted {
            self.above += 1;
            self.level = (self.level * wanted / is).max(ONE);
        } else if held_back && wanted > 0 {
            let more = self.level * (wanted - is) / (2 * wanted);
            self.level = (self.level + more).min(MOST);
        }
    }

    /// The budget of a core that was promised so many requests a period.
    pub(super) fn of(&self, promised: u64) -> u64 {
        let most = MOST_REQUESTS.max(u128::from(promised));
        (u128::from(promised) * self.level / ONE).min(most) as u64
    }

    /// What it counted: by name.
    pub(super) fn counted(&self) -> [(&'static str, u64); 2] {
        let mean = (self.all_busy * 1_000).checked_div(self.all_of).unwrap_or(0);
        [("utilization (1/1000)", mean as u64), ("periods above the utilization", self.above)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(level: &mut Level, busy: u64, held_back: bool) -> u64 {
        level.utilized(Duration::from_ticks(busy), Duration::from_ticks(1_000));
        level.step(held_back);
        level.of(1_000)
    }

    #[test]
    fn budgets_rise_by_half_of_what_is_missing_and_fall_in_proportion() {
        let mut level = Level::new(Rate::new(4, 5));
        // 0.4 of 0.8 is missing: a quarter more.
        assert_eq!(told(&mut level, 400, true), 1_250);
        // No core was held back: more would let nothing more through.
        assert_eq!(told(&mut level, 400, false), 1_250);
        // At the target nothing changes.
        assert_eq!(told(&mut level, 800, true), 1_250);
        // All the time busy: 1250 x 0.8 = 1000, and never less than was promised.
        assert_eq!(told(&mut level, 1_000, true), 1_000);
        assert_eq!(told(&mut level, 1_000, true), 1_000);
        assert_eq!(
            level.counted(),
            [("utilization (1/1000)", 720), ("periods above the utilization", 2)]
        );
    }

    #[test]
    fn it_finds_the_budget_that_keeps_the_target() {
        // 30 % busy by others; 10,000 requests would fill the rest: 0.3 + 0.7 x budget / 10000.
        let mut level = Level::new(Rate::new(4, 5));
        let mut budget = 1_000;
        for _ in 0..100 {
            let busy = 300 + 700 * budget.min(10_000) / 10_000;
            budget = told(&mut level, busy, budget < 10_000);
        }
        // (0.8 - 0.3) / 0.7 of 10,000 = 7,143; busy is counted in thousandths here.
        assert!((7_100..=7_180).contains(&budget), "{budget}");
    }

    #[test]
    fn without_reports_budgets_stay_and_none_overflows() {
        let mut level = Level::new(Rate::new(1, 2));
        for _ in 0..100 {
            level.step(true);
        }
        assert_eq!(level.of(77), 77);
        for _ in 0..1_000 {
            told(&mut level, 0, true);
        }
        assert_eq!((level.of(1), level.of(1 << 48)), (1 << 16, 1 << 48));
    }
}
