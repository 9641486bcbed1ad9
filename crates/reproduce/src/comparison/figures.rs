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

/// The utilizations at which preemptions are drawn, in percent.
const PREEMPTING: [u64; 5] = [40, 60, 80, 95, 100];

/// All figures, of sets with implicit deadlines. Weighted are those of which both is known, with
/// nothing charged and with costs.
pub(super) fn of(free: &Study, same: &Study, charged: &Study) -> Vec<Figure> {
    let mut figures = Vec::new();
    for cores in DRAWN {
        figures.push(by_policy(free, cores));
        figures.push(by_test(free, cores));
    }
    figures.push(preemptions(free, DRAWN[1]));
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

/// Preemptions a job of the policies that do not preempt at the borders of slices of time; no bar
/// where a policy admits no set.
fn preemptions(study: &Study, cores: usize) -> Figure {
    let shown = || policies().filter(|it| !IN_SLICES.contains(it));
    let of = |percent: u64| {
        let point = Point { cores, percent };
        let per_job = |policy| study.per_job(point, study.standing(policy)?, |it| it.preemptions);
        shown().map(|policy| per_job(policy).unwrap_or(0.0)).collect()
    };
    let drawing = Drawing::Bars {
        axis: "preemptions a job".into(),
        groups: shown().map(String::from).collect(),
        series: PREEMPTING.map(|percent| (format!("{percent} %"), of(percent))).to_vec(),
    };
    let title = format!(
        "Preemptions a job at utilizations of {cores} cores, without PD2 and DP-WRAP; no bar: no \
         set admitted"
    );
    Figure { name: format!("preemptions-{cores}"), title, drawing }
}

/// Weighted schedulability of each policy on each number of cores: by all of its tests together, or
/// by run where it has none.
fn weighted(study: &Study, name: &str, costs: &str) -> Figure {
    let of = |cores| policies().map(|policy| of_policy(study, policy, cores)).collect();
    let drawing = Drawing::Bars {
        axis: "weighted schedulability".into(),
        groups: policies().map(String::from).collect(),
        series: CORES.map(|cores| (format!("{cores} cores"), of(cores))).to_vec(),
    };
    let title = format!("Weighted schedulability by test, {costs}");
    Figure { name: name.into(), title, drawing }
}
