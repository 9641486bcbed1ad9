//! The task sets of the bench, and the lines by which sides are asked.

use super::sides::Side;
use super::{COUNTERS, SCHEDCAT, SIDES};

/// Jobs of a cold run.
pub(super) const COLD: u64 = 5_000;
/// Kinds of periods; the first is what is drawn unless another is asked for. `log-uniform`: from 1
/// to 100 ms (Emberson, Stafford, Davis, WATERS 2010); `automotive`: {1, 2, 5, 10, 20, 50, 100} ms
/// in turn (Kramer, Ziegenbein, Hamann, WATERS 2015).
pub(super) const PERIODS: [&str; 2] = ["log-uniform", "automotive"];
const POLICIES: [&str; 4] = ["p-edf", "g-edf", "run", "qps"];
/// Of the cores, in percent; 100 is U = m exactly.
const LOADS: [u64; 2] = [90, 100];
/// The seed of the sets. With some sets and U = m SimSo's RUN fails; it is then left out.
const SEED: u64 = 1;
/// Parts of a core of which utilisations are multiples. A power of two, as are all units here:
/// SimSo's times are floats, and with exact ones its RUN does not fail where the load is whole.
const PARTS: u64 = 1024;
/// Ticks in a 64th of SimSo's millisecond, of which periods are multiples.
const GRAIN: u64 = 1 << 14;

/// One task set under one policy.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) policy: &'static str,
    pub(super) load: u64,
    pub(super) tasks: usize,
    pub(super) cores: usize,
    /// Cost and period of each task, in ticks.
    set: Vec<(u64, u64)>,
    /// The core of each, under a partitioned policy.
    places: Option<Vec<usize>>,
}

/// All cases of these sizes.
pub(super) fn cases(sizes: &[(usize, usize)], periods: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for &(tasks, cores) in sizes {
        for load in LOADS {
            for policy in POLICIES {
                let set = draw(policy, tasks, cores, load, periods);
                cases.push(Case { policy, load, tasks, cores, set, places: None });
            }
        }
    }
    cases
}

impl Case {
    /// Whether it is what SchedCAT simulates beside those that have an aim without a ratio of
    /// their own.
    pub(super) fn is_reference(&self) -> bool {
        (self.policy, self.load, self.tasks) == ("g-edf", 90, 20)
    }

    /// The case, with the partition that ours makes where the policy has one.
    ///
    /// # Errors
    /// Where our side ends.
    pub(super) fn placed(&self, ours: &mut Side) -> Result<Self, String> {
        if self.policy != "p-edf" {
            return Ok(self.clone());
        }
        let longest = self.set.iter().map(|(_, period)| *period).max().unwrap_or(1);
        let answer = ours.ask(&format!("place {}", self.over(longest)))?;
        let places = answer.ok().map(|cores| cores.iter().map(|core| *core as usize).collect());
        Ok(Self { places, ..self.clone() })
    }

    /// What a side is asked, over the time in which about so many jobs are released.
    pub(super) fn line(&self, side: usize, jobs: u64) -> String {
        let rate: f64 = self.set.iter().map(|(_, period)| 1.0 / *period as f64).sum();
        let horizon = (jobs as f64 / rate / GRAIN as f64).ceil() as u64 * GRAIN;
        let line = self.over(horizon);
        match (side, &self.places) {
            // The head is three words.
            (SCHEDCAT, Some(places)) => {
                let words = line.split(' ').enumerate().map(|(place, word)| {
                    let core = place.checked_sub(3).and_then(|task| places.get(task));
                    core.map_or(word.to_string(), |core| format!("{word}@{core}"))
                });
                words.collect::<Vec<_>>().join(" ")
            }
            (side, _) if side >= COUNTERS => format!("{} {line}", SIDES[side]),
            _ => line,
        }
    }

    fn over(&self, horizon: u64) -> String {
        let tasks = self.set.iter().map(|(cost, period)| format!(" {cost}:{period}"));
        format!("{} {} {horizon}{}", self.policy, self.cores, tasks.collect::<String>())
    }

    pub(super) fn name(&self) -> String {
        let Self { policy, load, tasks, cores, .. } = self;
        format!("{policy}, {load} %, {tasks} on {cores}")
    }
}

/// A set whose load is exact. The same for all policies, but for a partitioned one at 100 %: no
/// drawn set can be packed on full cores, so that its utilisations are halves, quarters, and so on.
fn draw(policy: &str, tasks: usize, cores: usize, load: u64, periods: &str) -> Vec<(u64, u64)> {
    let mut state = SEED;
    let mut uniform = || splitmix(&mut state) as f64 / (1u64 << 53) as f64;
    let weights: Vec<f64> = (0..tasks).map(|_| 0.5 + uniform()).collect();
    let shares = match (policy, load) {
        ("p-edf", 100) => halves(tasks, cores),
        _ => scaled(&weights, cores as u64 * PARTS * load / 100),
    };
    let task = |(place, share): (usize, u64)| {
        let period = match periods {
            "automotive" => 64 * [1, 2, 5, 10, 20, 50, 100][place % 7],
            _ => (64.0 * 100f64.powf(uniform())) as u64,
        };
        (share * period * (GRAIN / PARTS), period * GRAIN)
    };
    shares.into_iter().enumerate().map(task).collect()
}

/// Parts that sum to `all`, in these proportions.
fn scaled(weights: &[f64], all: u64) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let part = |weight: &f64| ((all as f64 * weight / sum) as u64).max(1);
    let mut shares: Vec<u64> = weights.iter().map(part).collect();
    let missing = all - shares.iter().sum::<u64>();
    for place in 0..missing as usize {
        shares[place % weights.len()] += 1;
    }
    shares
}

/// Each core full: a half, a quarter, ..., and the last part twice. First fit by decreasing
/// utilisation packs these whole, as each divides the one before.
fn halves(tasks: usize, cores: usize) -> Vec<u64> {
    let mut shares = Vec::new();
    for core in 0..cores {
        let count = (tasks + core) / cores;
        shares.extend((1..count).map(|power| PARTS >> power));
        shares.push(PARTS >> count.saturating_sub(1));
    }
    shares
}

/// SplitMix64, its upper 53 bits.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) >> 11
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_exact_and_fixed() {
        for periods in PERIODS {
            for case in cases(&[(20, 4), (100, 16)], periods) {
                let Case { policy, load, tasks, cores, ref set, .. } = case;
                assert_eq!(*set, draw(policy, tasks, cores, load, periods));
                assert_eq!(set.len(), tasks);
                let part = |&(cost, period): &(u64, u64)| {
                    assert!(0 < cost && cost <= period, "{cost} in {period}");
                    assert_eq!(cost * PARTS % period, 0, "{cost} in {period}");
                    cost * PARTS / period
                };
                let sum: u64 = set.iter().map(part).sum();
                assert_eq!(sum, cores as u64 * PARTS * load / 100, "{}", case.name());
            }
        }
    }

    #[test]
    fn a_line_lasts_for_so_many_jobs_and_says_the_partition() {
        let mut case = cases(&[(20, 4)], PERIODS[0]).remove(0);
        case.places = Some((0..20).map(|task| task % 4).collect());
        let line = case.line(SCHEDCAT, COLD);
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[..2], ["p-edf", "4"]);
        assert!(words[3].ends_with("@0") && words[6].ends_with("@3"), "{line}");
        let horizon: u64 = words[2].parse().unwrap();
        let jobs: u64 = case.set.iter().map(|(_, period)| horizon.div_ceil(*period)).sum();
        assert!((COLD..COLD + 21).contains(&jobs), "{jobs}");
        assert!(case.line(COUNTERS, COLD).starts_with("counters p-edf 4 "));
        assert!(!case.line(COUNTERS, COLD).contains('@'));
    }
}
