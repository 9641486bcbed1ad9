//! What was found, as figures.

use super::contenders::{CONTENDERS, GLOBAL, policies};
use super::sets::Point;
use super::study::{CORES, Outcome, PERCENT, Study};
use super::verdicts::of_policy;
use crate::figure::{Drawing, Figure, Line};

/// The platforms that are drawn; the tables have all.
const DRAWN: [usize; 2] = [4, 16];
/// Those that preempt at the end of a quantum or slice, many times as often as all others.
const IN_SLICES: [&str; 2] = ["pd2", "dp-wrap"];

/// All figures, of sets with implicit deadlines.
/// Weighted are those of which both is known, with nothing charged and with costs.
pub(super) fn of(study: &Study, same: &Study, charged: &Study) -> Vec<Figure> {
    let mut figures = Vec::new();
    for cores in DRAWN {
        figures.push(by_policy(study, cores));
        figures.push(by_test(study, cores));
    }
    figures.push(preemptions(study, DRAWN[1]));
    figures.push(weighted(same, "weighted", "nothing charged"));
    figures.push(weighted(charged, "weighted-charged", "with measured costs"));
    figures
}

/// A line over utilizations of the share of sets that are so.
fn line(study: &Study, cores: usize, name: String, is: impl Fn(&[Outcome]) -> bool) -> Line {
    let share = |percent| study.count(Point { cores, percent }, &is) as f64 / study.sets as f64;
    Line::new(name, PERCENT.map(|percent| (percent as f64, share(percent))).to_vec())
}

/// The policies that do not schedule everything, by run and by all tests together: one line where
/// these are the same.
fn by_policy(study: &Study, cores: usize) -> Figure {
    let mut lines = Vec::new();
    for (color, policy) in compared(study).into_iter().enumerate() {
        let tests = study.tests(policy);
        let any = |set: &[Outcome]| tests.iter().any(|at| set[*at].admitted);
        let by_test = line(study, cores, format!("{policy}, by test"), any).with_look(color, 1);
        let Some(at) = study.standing(policy) else { continue };
        let run = |set: &[Outcome]| set[at].in_time();
        let by_run = line(study, cores, format!("{policy}, by run"), run).with_look(color, 0);
        if by_run.points == by_test.points {
            lines.push(Line { name: policy.into(), ..by_run });
        } else {
            lines.extend([by_run, by_test]);
        }
    }
    let title = format!("Sets schedulable on {cores} cores, by policy");
    shares(format!("policies-{cores}"), title, lines)
}

/// Policies that have tests and do not schedule everything.
fn compared(study: &Study) -> Vec<&'static str> {
    let all = |policy: &&str| {
        let tests = study.tests(policy);
        !tests.is_empty() && study.all().any(|set| tests.iter().all(|at| !set[*at].admitted))
    };
    policies().filter(all).collect()
}

/// Each test of the global policies beside their runs.
fn by_test(study: &Study, cores: usize) -> Figure {
    let mut lines = Vec::new();
    for (color, policy) in GLOBAL.into_iter().enumerate() {
        if let Some(at) = study.standing(policy) {
            let run = |set: &[Outcome]| set[at].in_time();
            lines.push(line(study, cores, format!("{policy}, by run"), run).with_look(color, 0));
        }
        for (dash, at) in (1..).zip(study.tests(policy)) {
            let name = format!("{policy}, {}", CONTENDERS[study.places[at]].test);
            let test = |set: &[Outcome]| set[at].admitted;
            lines.push(line(study, cores, name, test).with_look(color, dash));
        }
    }
    let title = format!("Sets schedulable on {cores} cores, by each test of global policies");
    shares(format!("tests-{cores}"), title, lines)
}

fn shares(name: String, title: String, lines: Vec<Line>) -> Figure {
    let drawing = Drawing::Lines {
        along: "utilization (% of all cores)".into(),
        logarithmic: false,
        share: true,
        left: "share of sets".into(),
        right: None,
        lines,
    };
    Figure { name, title, drawing }
}

/// Preemptions a job of the policies that do not preempt at the borders of slices of time.
fn preemptions(study: &Study, cores: usize) -> Figure {
    let line = |policy: &'static str| {
        let at = study.standing(policy)?;
        let of = |percent| {
            let stops = study.per_job(Point { cores, percent }, at, |it| it.preemptions)?;
            Some((percent as f64, stops))
        };
        Some(Line::new(policy, PERCENT.into_iter().filter_map(of).collect()))
    };
    let drawing = Drawing::Lines {
        along: "utilization (% of all cores)".into(),
        logarithmic: false,
        share: false,
        left: "preemptions a job".into(),
        right: None,
        lines: policies().filter(|it| !IN_SLICES.contains(it)).filter_map(line).collect(),
    };
    let title = format!("Preemptions a job on {cores} cores, without PD2 and DP-WRAP");
    Figure { name: format!("preemptions-{cores}"), title, drawing }
}

/// Weighted schedulability of each policy over the cores: by all of its tests together, or by run
/// where it has none.
fn weighted(study: &Study, name: &str, costs: &str) -> Figure {
    let line = |policy: &'static str| {
        let of = |cores| of_policy(study, policy, cores);
        Line::new(policy, CORES.map(|cores| (cores as f64, of(cores))).to_vec())
    };
    let drawing = Drawing::Lines {
        along: "cores".into(),
        logarithmic: true,
        share: true,
        left: "weighted schedulability".into(),
        right: None,
        lines: policies().map(line).collect(),
    };
    Figure {
        name: name.into(),
        title: format!("Weighted schedulability by test, {costs}"),
        drawing,
    }
}
