//! How well speedups are estimated.

use super::applications::{Application, applications};
use super::{MAX_FAIR, MAX_PERF, MIN_FAIR, PHENOM, SIMILAR, all_mixes, courses, share};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict};
use crate::{Error, Experiment, Kind, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fairness-estimation",
    title: "speedups estimated by sampling",
    summary: "What the policies take each application's speedup for at every update of the shares \
              (2 s), against its speedup over its whole length on cores of its own; all mixes on \
              two fast and four slow cores.",
    source: "Kim and Huh, slide \"Sampling-based Speedup Estimation\": 2.70 % on the average, \
             9.92 % at worst",
    kind: Kind::Predicts,
    free: "the applications' phases; nothing else makes an error, since the model counts \
           instructions exactly",
    fitted: super::CLOCKS_FIT,
    run,
};

/// Published: mean and worst error.
const PUBLISHED: [f64; 2] = [0.0270, 0.0992];

/// Updates before the averages have settled: not counted.
const SETTLING: usize = 3;

/// Errors of one application.
#[derive(Default)]
struct Errors {
    count: usize,
    sum: f64,
    worst: f64,
    /// Of the mean estimate of a whole run.
    worst_of_means: f64,
    sum_of_means: f64,
    runs: usize,
}

impl Errors {
    fn add(&mut self, estimates: &[f64], speedup: f64) {
        let settled = estimates.get(SETTLING..).unwrap_or_default();
        if settled.is_empty() {
            return;
        }
        for estimate in settled {
            let error = (estimate / speedup - 1.0).abs();
            self.sum += error;
            self.worst = self.worst.max(error);
        }
        self.count += settled.len();
        let mean = settled.iter().sum::<f64>() / settled.len() as f64;
        let error = (mean / speedup - 1.0).abs();
        self.sum_of_means += error;
        self.worst_of_means = self.worst_of_means.max(error);
        self.runs += 1;
    }
    fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
    fn mean_of_means(&self) -> f64 {
        self.sum_of_means / self.runs.max(1) as f64
    }
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let all = applications()?;
    let mixes = all_mixes(&all, 6);
    let rules = [MAX_FAIR, MAX_PERF, MIN_FAIR, SIMILAR];
    let courses = courses(lab, &PHENOM, &mixes, &rules)?;
    let mut by_rule: Vec<Errors> = rules.iter().map(|_| Errors::default()).collect();
    let mut by_application: Vec<Errors> = all.iter().map(|_| Errors::default()).collect();
    for ((_, mix), courses) in mixes.iter().zip(&courses) {
        for (rule, course) in courses.iter().enumerate() {
            for (application, estimates) in mix.iter().zip(&course.estimates) {
                let speedup = application.speedup(PHENOM.pace);
                by_rule[rule].add(estimates, speedup);
                if let Some(place) = all.iter().position(|it| it.name == application.name) {
                    by_application[place].add(estimates, speedup);
                }
            }
        }
    }
    let mut table = Table::new(
        "",
        "Error of the estimated speedup",
        &["policy", "mean", "worst", "mean of run means", "worst of run means"],
    );
    let errors = |it: &Errors| [it.mean(), it.worst, it.mean_of_means(), it.worst_of_means];
    let cells = |it: [f64; 4]| it.map(|error| Cell::Number(error * 100.0, 2));
    for (rule, it) in rules.iter().zip(&by_rule) {
        let mut row = vec![Cell::text(format!("{} (%)", rule.name))];
        row.extend(cells(errors(it)));
        table.row(row);
    }
    let mut published = vec![Cell::text("published (%)")];
    published.extend(PUBLISHED.map(|error| Cell::Number(error * 100.0, 2)));
    published.extend([Cell::Missing, Cell::Missing]);
    table.row(published);
    Ok(Findings {
        notes: vec![format!(
            "The first {SETTLING} updates, in which the averages settle, are left out. The error \
             comes from phases that a sample of 30 ms does not see whole; an application without \
             phases is estimated exactly, as the simulator counts exactly, so that means over all \
             of them, or of a whole run, say nothing about the method and are no claims."
        )],
        figures: vec![bars(&all, &by_application)],
        tables: vec![table, applications_table(&all, &by_application)],
        verdicts: verdicts(&by_rule[2], &all, &by_application),
    })
}

fn bars(all: &[Application], errors: &[Errors]) -> Figure {
    let by = |of: fn(&Errors) -> f64| errors.iter().map(|it| of(it) * 100.0).collect();
    Figure {
        name: String::new(),
        title: "Error of the estimated speedup by application".into(),
        drawing: Drawing::Bars {
            axis: "error (%)".into(),
            groups: all.iter().map(|it| it.name.clone()).collect(),
            series: vec![("mean".into(), by(Errors::mean)), ("worst".into(), by(|it| it.worst))],
        },
    }
}

fn applications_table(all: &[Application], errors: &[Errors]) -> Table {
    let columns = ["application", "phases", "speedup", "mean error (%)", "worst error (%)"];
    let title = "Error by application, over all mixes and policies";
    let mut table = Table::new("by-application", title, &columns);
    for (application, it) in all.iter().zip(errors) {
        let in_a_mix = it.runs > 0;
        let seen = |error: f64| {
            if in_a_mix { Cell::Number(error * 100.0, 2) } else { Cell::Missing }
        };
        table.row(vec![
            Cell::text(&application.name),
            Cell::Number(application.phases.len() as f64, 0),
            Cell::Number(application.speedup(PHENOM.pace), 2),
            seen(it.mean()),
            seen(it.worst),
        ]);
    }
    table
}

fn verdicts(fair: &Errors, all: &[Application], by_application: &[Errors]) -> Vec<Verdict> {
    let varying = all.iter().zip(by_application);
    let varying = varying.filter(|(it, errors)| it.phases.len() > 1 && errors.runs > 0);
    let means: Vec<f64> = varying.map(|(_, errors)| errors.mean()).collect();
    let mean = means.iter().sum::<f64>() / means.len().max(1) as f64;
    vec![
        Verdict::new(
            "applications with phases have a mean error of at most the published 2.70 %",
            mean <= PUBLISHED[0],
            format!("{} over {} of them", share(mean), means.len()),
        )
        .because(
            "Half of a phase may pass between two samples; the published mean is over applications \
             of which it is not said how they vary.",
        ),
        Verdict::new(
            "the worst error at any update is at most the published 9.92 %",
            fair.worst <= PUBLISHED[1],
            share(fair.worst),
        )
        .because(
            "an application that keeps no more than its sampling floor of one class is seen there \
             for 30 ms in 2 s: one phase or the other. Which of the two readings the published \
             figure is of is not said",
        ),
    ]
}
