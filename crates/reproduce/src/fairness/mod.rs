//! The experiments of "Fairness-oriented OS Scheduling Support for Multicore Systems" (Kim and Huh,
//! ICS 2016), one file each, and what they share.
//!
//! Performance is as in the slides' methodology: the time until an application has finished for the
//! first time, all being repeated until every one has. It is set against the same application's
//! time under max-fair in the same mix, so that max-fair scores 1 throughout (algorithms.md E.1:
//! the only reading under which any target up to 1 can be kept).

mod applications;
mod big_little;
mod clocks;
mod course;
mod estimation;
mod groups;
mod migration;
mod mixes;

use crate::stats::Mean;
use crate::{Error, Experiment, Lab};
use applications::{Application, Platform, Rule, Slow};
use course::Course;

/// All of them.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    mixes::EXPERIMENT,
    groups::EXPERIMENT,
    clocks::EXPERIMENT,
    estimation::EXPERIMENT,
    migration::EXPERIMENT,
    big_little::EXPERIMENT,
];

/// Seconds on a fast core that each application takes: those of SPEC CPU take minutes; longer runs
/// only make the first, unsettled update interval weigh less.
const LENGTH_S: f64 = 30.0;

/// AMD Phenom II with two fast cores and four slow ones by DVFS, as the slides have it, with slow
/// cores so many times slower.
const fn phenom(name: &'static str, what: &'static str, clock: f64) -> Platform {
    Platform { name, what, fast: 2, slow: 4, pace: Slow { compute: clock, memory: 1.0 } }
}

/// The pair of clocks of the main experiment. The slides do not say which P-states they took of
/// those that the processor has (3.2, 2.4, 1.6 and 0.8 GHz); of the ratios 2, 3 and 4 this one
/// comes closest to the three numbers printed for max-perf (experiment `fairness-clocks`). The
/// preset `phenom-ii-x6` has it too.
const PHENOM: Platform = phenom("phenom-4", "2 fast and 4 slow cores, clocks 4:1", 4.0);

/// What experiments on [`PHENOM`] use that was chosen with published numbers in view.
const CLOCKS_FIT: &str = "to the three numbers that the slides print for max-perf \
                          (fairness-clocks): the ratio of the clocks, 4";

/// The policies as the slides run them.
const MAX_FAIR: Rule = Rule::new("max-fair");
const MAX_PERF: Rule = Rule::new("max-perf");
/// Min-fair(85 %).
const MIN_FAIR: Rule = Rule { params: "target = \"0.85\"\n", ..Rule::new("min-fair") };
/// Similar-min-fair(0.2, 85 %).
const SIMILAR: Rule =
    Rule { params: "target = \"0.85\"\nsimilarity = \"0.2\"\n", ..Rule::new("similar-min-fair") };
/// The target that they are given.
const TARGET: f64 = 0.85;

/// The three metrics of a mix under a policy.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Score {
    /// Mean performance.
    throughput: f64,
    /// The least performance.
    min_fairness: f64,
    /// 1 - standard deviation / mean.
    uniformity: f64,
}

impl Score {
    /// Of performances, each relative to max-fair.
    fn of(performances: &[f64]) -> Self {
        let count = performances.len() as f64;
        let mean = performances.iter().sum::<f64>() / count;
        let square = performances.iter().map(|p| (p - mean).powi(2)).sum::<f64>() / count;
        Self {
            throughput: mean,
            min_fairness: performances.iter().copied().fold(f64::INFINITY, f64::min),
            uniformity: 1.0 - square.sqrt() / mean,
        }
    }
    /// The means of several.
    fn mean(scores: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| Mean::of(&scores.iter().map(of).collect::<Vec<_>>()).mean;
        Self {
            throughput: mean(|it| it.throughput),
            min_fairness: mean(|it| it.min_fairness),
            uniformity: mean(|it| it.uniformity),
        }
    }
    /// Throughput, MinFairness, Uniformity.
    const fn all(&self) -> [f64; 3] {
        [self.throughput, self.min_fairness, self.uniformity]
    }
}

/// The metrics' names, as the slides write them.
const METRICS: [&str; 3] = ["throughput", "MinFairness", "Uniformity"];

/// `fraction` as a percentage without a sign: `93.6 %`.
fn share(fraction: f64) -> String {
    format!("{} %", crate::findings::number(fraction * 100.0, 1))
}

/// The performances of `course` relative to those of `fair`.
fn performances(course: &Course, fair: &Course) -> Vec<f64> {
    let pairs = fair.finished_s.iter().zip(&course.finished_s);
    pairs.map(|(fair, own)| fair / own).collect()
}

/// Runs each mix under max-fair and under `rules`: for each mix its courses, max-fair's first.
fn courses(
    lab: &Lab<'_>,
    platform: &Platform,
    mixes: &[(&str, Vec<&Application>)],
    rules: &[Rule],
) -> Result<Vec<Vec<Course>>, Error> {
    let slowest = platform.pace.compute.max(platform.pace.memory);
    let cores = (platform.fast + platform.slow) as f64;
    let (mut setups, mut lengths) = (Vec::new(), Vec::new());
    for (name, mix) in mixes {
        let crowd = (mix.len() as f64 / cores).max(1.0);
        // A program that never gets a fast core is done by then.
        let seconds = (LENGTH_S * slowest * crowd * 1.1).ceil() as u32;
        for rule in rules {
            setups.push(applications::setup(platform, name, mix, rule, seconds));
            lengths.push(mix.iter().map(|it| it.instructions(LENGTH_S)).collect::<Vec<_>>());
        }
    }
    let courses = lab.run_each(&setups, |place, setup| Course::of(setup, &lengths[place]))?;
    let mut courses = courses.into_iter();
    Ok(mixes.iter().map(|_| courses.by_ref().take(rules.len()).collect()).collect())
}

/// The scores of each rule but the first, which must be max-fair, in each mix.
fn scores(courses: &[Vec<Course>], rule: usize) -> Vec<Score> {
    courses.iter().map(|mix| Score::of(&performances(&mix[rule], &mix[0]))).collect()
}

/// All mixes of the slides for so many threads.
fn all_mixes(all: &[Application], threads: usize) -> Vec<(&'static str, Vec<&Application>)> {
    applications::MIXES.map(|name| (name, applications::mix(all, name, threads))).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_the_definitions() {
        // algorithms.md E.2: max-perf with speedups 2.0, 1.9, 1.6, 1.5, 1.2, 1.1 on 2 + 4 cores.
        let speedups = [2.0, 1.9, 1.6, 1.5, 1.2, 1.1];
        let fast = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0];
        let performance = |(s, f): (&f64, &f64)| (f * s + 1.0 - f) / ((2.0 * s + 4.0) / 6.0);
        let all: Vec<_> = speedups.iter().zip(&fast).map(performance).collect();
        let score = Score::of(&all).all().map(|it| (it * 1e4).round() / 1e4);
        assert_eq!(score, [1.0929, 0.8333, 0.7454]);
    }
}
