//! From when a thread ran to how much it got in each of its periods, and how far that is from C.

use super::stolen::{Gap, explained, within};

/// One run of a thread: from, to, and the service in between, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) service: u64,
}

impl Run {
    /// A run that got all of its time.
    pub(super) const fn whole(from: u64, to: u64) -> Self {
        Self { from, to, service: to - from }
    }
}

/// How one mechanism did: errors are `delivered - C` per period, in nanoseconds.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Distribution {
    pub(super) periods: usize,
    /// Mean delivery as a part of C.
    pub(super) mean_ratio: f64,
    /// 1st, 50th and 99th percentile of `delivered - C`.
    pub(super) signed: [i64; 3],
    /// 50th and 99th percentile and maximum of `|delivered - C|`.
    pub(super) absolute: [u64; 3],
    /// Where in the mechanism's cycle its periods were taken to begin.
    pub(super) phase_ns: u64,
}

/// What came of one mechanism.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Judged {
    /// Without the periods that stolen time explains.
    pub(super) own: Distribution,
    /// Of all periods.
    pub(super) whole: Distribution,
    /// How much time was stolen in all.
    pub(super) stolen_ns: u64,
}

/// Bursts whose starts lie within this part of a period of each other begin together.
const TOGETHER: u64 = 100;

/// Cuts `[start, end)` into periods of length `period` and compares the service in each with
/// `budget`. A mechanism's periods begin where its bursts begin: what is always runnable runs again
/// at the instant at which it is given budget. Where bursts begin at several places of the cycle,
/// the mechanism is judged at the one that suits it best, the one with the smallest 99th percentile
/// of the error, without what was stolen.
///
/// `None` where fewer than two periods fit, or are left.
pub(super) fn judge(
    runs: &[Run],
    gaps: &[Gap],
    (start, end): (u64, u64),
    budget: u64,
    period: u64,
) -> Option<Judged> {
    let stolen_ns = within(gaps, start, end);
    phases(runs, start, budget, period)
        .into_iter()
        .filter_map(|phase| {
            let start = start + phase;
            let whole = delivered(runs, start, end, period);
            let errors: Vec<i64> = whole.iter().map(|got| *got as i64 - budget as i64).collect();
            let taken = |place: usize| {
                let at = start + place as u64 * period;
                within(gaps, at.saturating_sub(period), at + period)
            };
            let is_stolen = explained(&errors, budget / TOLERANCE, taken);
            let kept = whole.iter().zip(is_stolen).filter(|(_, is_stolen)| !is_stolen);
            let own: Vec<u64> = kept.map(|(got, _)| *got).collect();
            (own.len() >= 2).then(|| Judged {
                own: distribution(&own, budget, phase),
                whole: distribution(&whole, budget, phase),
                stolen_ns,
            })
        })
        .min_by_key(|Judged { own, .. }| (own.absolute[1], own.absolute[0]))
}

/// Errors up to this part of C need no explanation: as in the report.
const TOLERANCE: u64 = 100;

/// Where in the cycle bursts begin: after a pause of at least half of T - C, in a place where at
/// least one in twenty of them begins. A period is taken to begin a little earlier, where nothing
/// runs, so that the jitter of the start does not count as an error.
fn phases(runs: &[Run], start: u64, budget: u64, period: u64) -> Vec<u64> {
    let pause = (period - budget) / 2;
    let near = (period / TOGETHER).max(1);
    let after_pause = runs.windows(2).filter(|pair| pair[1].from - pair[0].to >= pause);
    let begins = after_pause.map(|pair| pair[1].from).filter(|from| *from >= start);
    let mut begins: Vec<u64> = begins.map(|from| (from - start) % period).collect();
    begins.sort_unstable();
    let least = (begins.len() / 20).max(1);
    let places = begins.chunk_by(|a, b| b - a <= near).filter(|place| place.len() >= least);
    places.map(|place| (place[0] + period - near) % period).collect()
}

/// The service in each whole period from `start` on.
fn delivered(runs: &[Run], start: u64, end: u64, period: u64) -> Vec<u64> {
    let count = end.saturating_sub(start) / period;
    let mut delivered = vec![0u64; count as usize];
    for run in runs.iter().filter(|run| run.to > run.from) {
        let mut at = run.from.max(start);
        while at < run.to {
            let index = (at - start) / period;
            let Some(window) = delivered.get_mut(index as usize) else { break };
            let until = run.to.min(start + (index + 1) * period);
            let part = u128::from(until - at) * u128::from(run.service);
            *window += (part / u128::from(run.to - run.from)) as u64;
            at = until;
        }
    }
    delivered
}

fn distribution(delivered: &[u64], budget: u64, phase_ns: u64) -> Distribution {
    let mut signed: Vec<i64> = delivered.iter().map(|got| *got as i64 - budget as i64).collect();
    let mut absolute: Vec<u64> = signed.iter().map(|error| error.unsigned_abs()).collect();
    signed.sort_unstable();
    absolute.sort_unstable();
    let sum: u64 = delivered.iter().sum();
    Distribution {
        periods: delivered.len(),
        mean_ratio: sum as f64 / delivered.len() as f64 / budget as f64,
        signed: [1, 50, 99].map(|percent| rank(&signed, percent)),
        absolute: [50, 99, 100].map(|percent| rank(&absolute, percent)),
        phase_ns,
    }
}

/// The percentile by nearest rank.
fn rank<T: Copy>(sorted: &[T], percent: usize) -> T {
    let place = (sorted.len() * percent).div_ceil(100);
    sorted[place.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_cut_at_the_periods() {
        let runs = [Run::whole(5, 25), Run { from: 30, to: 40, service: 5 }];
        assert_eq!(delivered(&runs, 0, 45, 10), [5, 10, 5, 5]);
        assert_eq!(delivered(&runs, 8, 45, 10), [10, 7, 4]);
    }

    #[test]
    fn the_best_phase_is_found() {
        // C = 20 in every T = 100, as bursts that begin at 70.
        let runs: Vec<_> = (0..50).map(|k| Run::whole(100 * k + 70, 100 * k + 90)).collect();
        let judged = judge(&runs, &[], (0, 5_000), 20, 100).unwrap().own;
        assert_eq!((judged.absolute, judged.mean_ratio), ([0; 3], 1.0));
        assert!(judged.periods >= 49);
        // Every other burst doubled, the next left out: the error is C in every period, although
        // periods that began in the middle of a burst would show none.
        let runs: Vec<_> = (0..25).map(|k| Run::whole(200 * k, 200 * k + 40)).collect();
        let judged = judge(&runs, &[], (0, 5_000), 20, 100).unwrap().own;
        assert_eq!(judged.absolute, [20; 3]);
        assert!((judged.mean_ratio - 1.0).abs() < 0.03);
        assert_eq!(judge(&runs, &[], (0, 150), 20, 100), None);
    }

    #[test]
    fn stolen_time_is_taken_out_and_both_are_reported() {
        // C = 2000 in every T = 10000; the eleventh burst lasts twice as long, as the core stood
        // still in the middle of it.
        let length = |k| if k == 10 { 4_000 } else { 2_000 };
        let runs: Vec<_> =
            (0..50).map(|k| Run::whole(10_000 * k + 500, 10_000 * k + 500 + length(k))).collect();
        let gap = Gap { from: 101_000, to: 103_000 };
        let without = judge(&runs, &[], (0, 500_000), 2_000, 10_000).unwrap();
        assert_eq!((without.own.absolute[2], without.stolen_ns), (2_000, 0));
        assert_eq!(without.own, without.whole);
        let judged = judge(&runs, &[gap], (0, 500_000), 2_000, 10_000).unwrap();
        assert_eq!((judged.own.absolute[2], judged.own.mean_ratio), (0, 1.0));
        assert_eq!((judged.whole, judged.stolen_ns), (without.whole, 2_000));
        assert_eq!(judged.own.periods + 1, without.own.periods);
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let sorted: Vec<u64> = (1..=200).collect();
        assert_eq!([1, 50, 99, 100].map(|p| rank(&sorted, p)), [2, 100, 198, 200]);
    }
}
