//! Parameter sets drawn at random, the same for ever.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Random numbers of one parameter set.
pub(super) struct Draw(Xoshiro256PlusPlus);

impl Draw {
    /// The set with this number.
    pub(super) fn new(set: usize) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(set as u64))
    }
    /// Uniform between `low` and `high`, both included, in thousandths.
    pub(super) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        let steps = ((high - low) * 1000.0).round() as u64 + 1;
        let step = (u128::from(self.0.next_u64()) * u128::from(steps)) >> 64;
        low + step as f64 / 1000.0
    }
}

/// What X5, X6 and X7 draw for each task of a set: C of T = 100 ms between 1 and 14 ms, and a
/// duration between 2 and 11 minutes.
pub(super) struct Drawn {
    /// C in milliseconds.
    pub(super) budget: f64,
    /// How long it runs, in seconds.
    pub(super) seconds: f64,
}

/// The tasks of a set.
pub(super) fn tasks(set: usize, count: usize) -> Vec<Drawn> {
    let mut draw = Draw::new(set);
    let one = |_| {
        let budget = draw.uniform(1.0, 14.0);
        Drawn { budget, seconds: draw.uniform(2.0, 11.0) * 60.0 }
    };
    (0..count).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_the_same_for_ever_and_within_the_paper_s_bounds() {
        let (sets, again): (Vec<_>, Vec<_>) = (tasks(3, 16), tasks(3, 16));
        assert!(sets.iter().zip(&again).all(|(a, b)| a.budget == b.budget));
        let all: Vec<_> = (0..100).flat_map(|set| tasks(set, 16)).collect();
        assert!(all.iter().all(|task| (1.0..=14.0).contains(&task.budget)));
        assert!(all.iter().all(|task| (120.0..=660.0).contains(&task.seconds)));
        let mean = all.iter().map(|task| task.budget).sum::<f64>() / all.len() as f64;
        assert!((mean - 7.5).abs() < 0.3, "{mean}");
    }
}
