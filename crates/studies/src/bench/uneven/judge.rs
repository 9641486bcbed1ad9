//! What was measured, set against what is true and what was promised.

use super::measure::{Reported, Window};
use super::workers::{Variant, WORKERS};
use crate::bench::verdict::Verdict;
use maracas_core::VcpuId;

/// By what fraction an estimate may be off.
pub(super) const ESTIMATE_ERROR: f64 = 0.10;
/// Which part of the target may be missed.
pub(super) const TARGET_MISS: f64 = 0.03;

/// What a program does alone on each core.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Truth {
    pub(super) fast: Alone,
    pub(super) slow: Alone,
}

/// What a program does alone on a core, in units a second.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Alone {
    /// Of core time, as its meter charges it: its speed.
    pub(super) per_core_second: f64,
    /// Of the clock: what is left of it beside the machine and other programs of the host.
    pub(super) per_second: f64,
}

impl Truth {
    pub(super) fn speedup(self) -> f64 {
        self.fast.per_core_second / self.slow.per_core_second
    }
    /// Units in a second where all programs have equal parts of both cores.
    fn even(self) -> f64 {
        (self.fast.per_second + self.slow.per_second) / WORKERS.len() as f64
    }
}

/// A run of all programs under one policy.
pub(super) struct Run {
    pub(super) policy: &'static str,
    pub(super) reported: Reported,
}

impl Run {
    /// Which part of the two cores' time the programs had in these windows: where others run
    /// beside, no performance is what it would be.
    pub(super) fn part_of_cores(&self, windows: [Window; 2]) -> f64 {
        let all = || (0..WORKERS.len() as u32).map(VcpuId);
        let had = |window| all().map(move |vcpu| self.reported.work(vcpu, None, window).service_s);
        let had: f64 = windows.into_iter().flat_map(had).sum();
        let there: f64 = windows.into_iter().map(|window| 2.0 * window.seconds()).sum();
        had / there
    }
}

/// A program in a phase of one run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Got {
    /// The median of what its speedup was taken to be; `None` where it never became known.
    pub(super) estimate: Option<f64>,
    /// By what fraction the worst estimate of the phase was off.
    pub(super) worst: Option<f64>,
    /// Units a second by those that equal parts of both cores would give by what it made alone.
    pub(super) performance: f64,
}

/// A program in a phase.
pub(super) struct Row {
    pub(super) variant: Variant,
    pub(super) phase: usize,
    pub(super) truth: Truth,
    /// By run.
    pub(super) got: Vec<Got>,
}

impl Row {
    pub(super) const fn name(&self) -> &'static str {
        WORKERS[self.variant.worker].name
    }
    /// By what fraction the estimate of a run is off; a speedup that never became known is off by
    /// everything.
    pub(super) fn error(&self, run: usize) -> f64 {
        self.got[run].estimate.map_or(f64::INFINITY, |it| it / self.truth.speedup() - 1.0)
    }
    /// What it did in a run by what it did under max-fair, the run `fair`: the performance that
    /// targets are about (algorithms.md E.1), with what the machine itself costs on both sides.
    pub(super) fn of_fair(&self, run: usize, fair: usize) -> f64 {
        self.got[run].performance / self.got[fair].performance
    }
}

/// Sets the runs against the truths, phase by phase.
pub(super) fn rows(truths: &[(Variant, Truth)], runs: &[Run], phases: [Window; 2]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (phase, window) in phases.into_iter().enumerate() {
        for worker in 0..WORKERS.len() {
            let variant = Variant::of(worker, phase);
            let found = truths.iter().find(|(known, _)| *known == variant);
            let Some(&(_, truth)) = found else { continue };
            let got = runs.iter().map(|run| got(run, worker, truth, window)).collect();
            rows.push(Row { variant, phase, truth, got });
        }
    }
    rows
}

fn got(run: &Run, worker: usize, truth: Truth, window: Window) -> Got {
    let vcpu = VcpuId(worker as u32);
    let mut speedups = run.reported.speedups(vcpu, window);
    let off = speedups.iter().map(|speedup| (speedup / truth.speedup() - 1.0).abs());
    let worst = off.reduce(f64::max);
    speedups.sort_by(f64::total_cmp);
    let units = run.reported.work(vcpu, None, window).units;
    Got {
        estimate: speedups.get(speedups.len() / 2).copied(),
        worst,
        performance: units / window.seconds() / truth.even(),
    }
}

/// Everything that is asked of the runs; `target` as a part of 1.
pub(super) fn verdicts(rows: &[Row], runs: &[Run], target: f64) -> Vec<Verdict> {
    let place = |policy| runs.iter().position(|run| run.policy == policy);
    let mut verdicts = Vec::new();
    if let Some(run) = place(MIN_FAIR) {
        verdicts.extend(estimates(rows, run));
    }
    if let (Some(fair), Some(floored), Some(greedy)) =
        (place(MAX_FAIR), place(MIN_FAIR), place(MAX_PERF))
    {
        verdicts.extend(floor(rows, (floored, fair), target));
        verdicts.extend(violation(rows, (greedy, fair), target));
    }
    let exact = runs.iter().all(|run| run.reported.exact);
    let text = "a fresh policy decides the same from each journal".to_string();
    verdicts.push(Verdict { name: "replay", holds: exact, text });
    verdicts
}

/// The policies that are held against each other, by the words that users write.
pub(super) const MIN_FAIR: &str = "min-fair";
pub(super) const MAX_PERF: &str = "max-perf";
pub(super) const MAX_FAIR: &str = "max-fair";

fn estimates(rows: &[Row], run: usize) -> Option<Verdict> {
    let worst = rows.iter().max_by(|a, b| a.error(run).abs().total_cmp(&b.error(run).abs()))?;
    let (off, most) = (worst.error(run), ESTIMATE_ERROR * 100.0);
    let number = if off.is_finite() { format!("{:+.1} %", off * 100.0) } else { "never".into() };
    Some(Verdict {
        name: "estimates",
        holds: off.abs() <= ESTIMATE_ERROR,
        text: format!(
            "{MIN_FAIR}'s estimates come within {most} % in each phase; worst: {}, phase {}, \
             {number}",
            worst.name(),
            worst.phase + 1
        ),
    })
}

/// The least performance in a run, and of which VCPU.
fn least(rows: &[Row], (run, fair): (usize, usize)) -> Option<(f64, String)> {
    let all = rows.iter().map(|row| (row.of_fair(run, fair), row));
    let (least, row) = all.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((least, format!("least: {}, phase {}, {least:.3}", row.name(), row.phase + 1)))
}

fn floor(rows: &[Row], runs: (usize, usize), target: f64) -> Option<Verdict> {
    let (least, whose) = least(rows, runs)?;
    Some(Verdict {
        name: "target",
        holds: least >= target * (1.0 - TARGET_MISS),
        text: format!(
            "{MIN_FAIR} keeps {target} of what {MAX_FAIR} gave for everyone, within {} %; {whose}",
            TARGET_MISS * 100.0,
        ),
    })
}

/// Below even what [`floor`] lets pass, so that no VCPU can both keep and violate the target.
fn violation(rows: &[Row], runs: (usize, usize), target: f64) -> Option<Verdict> {
    let (least, whose) = least(rows, runs)?;
    Some(Verdict {
        name: "violation",
        holds: least < target * (1.0 - TARGET_MISS),
        text: format!("{MAX_PERF} violates it; {whose}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUTH: Truth = Truth {
        fast: Alone { per_core_second: 200.0, per_second: 160.0 },
        slow: Alone { per_core_second: 100.0, per_second: 80.0 },
    };

    fn row(phase: usize, got: &[(f64, f64)]) -> Row {
        let got = got.iter().map(|&(estimate, performance)| Got {
            estimate: (estimate > 0.0).then_some(estimate),
            worst: None,
            performance,
        });
        Row { variant: Variant::of(0, 0), phase, truth: TRUTH, got: got.collect() }
    }

    fn judged(rows: &[Row]) -> Vec<(&'static str, bool)> {
        let run = |policy| Run { policy, reported: Reported::nothing() };
        let runs = [run(MIN_FAIR), run(MAX_PERF), run(MAX_FAIR)];
        let verdicts = verdicts(rows, &runs, 0.85);
        verdicts.iter().map(|verdict| (verdict.name, verdict.holds)).collect()
    }

    #[test]
    fn the_worst_program_decides() {
        // The machine costs a tenth under each policy.
        let fair = (2.0, 0.9);
        let fine =
            [row(0, &[(1.9, 0.75), (2.0, 1.3), fair]), row(1, &[(2.1, 1.2), (2.0, 0.72), fair])];
        let all = [("estimates", true), ("target", true), ("violation", true), ("replay", true)];
        assert_eq!(judged(&fine), all);
        let poor =
            [row(0, &[(1.7, 0.73), (2.0, 1.3), fair]), row(1, &[(2.1, 1.2), (2.0, 0.75), fair])];
        let none = [("estimates", false), ("target", false), ("violation", false)];
        assert_eq!(judged(&poor)[..3], none);
        let unknown = [row(0, &[(0.0, 1.0), (0.0, 0.5), fair])];
        assert_eq!(judged(&unknown)[0], ("estimates", false));
    }

    #[test]
    fn equal_sharing_is_a_performance_of_one() {
        assert_eq!((TRUTH.speedup(), TRUTH.even()), (2.0, 60.0));
    }
}
