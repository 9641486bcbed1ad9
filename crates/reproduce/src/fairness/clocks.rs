//! The same mixes at other ratios of the two clocks.

use super::applications::applications;
use super::mixes::MAX_PERF_PUBLISHED;
use super::{
    MAX_FAIR, MAX_PERF, METRICS, MIN_FAIR, SIMILAR, Score, all_mixes, courses, phenom, scores,
};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::{Error, Experiment, Kind, Lab, bars};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fairness-clocks",
    title: "the ratio of the two clocks",
    summary: "The mixes at clocks 2:1 (3.2 and 1.6 GHz), 3:1 (2.4 and 0.8 GHz) and 4:1 (3.2 and \
              0.8 GHz), all pairs of the processor's P-states with whole ratios: means over the \
              mixes.",
    source: "Kim and Huh, slides \"Evaluation Methodology\" (no clocks) and \"Max-Fair vs. \
             Max-Perf\"",
    kind: Kind::Calibrates,
    free: "nothing here; from this the ratio of the main experiment is chosen",
    fitted: "",
    run,
};

const RATIOS: [f64; 3] = [2.0, 3.0, 4.0];
const NAMES: [&str; 3] = ["phenom-2", "phenom-3", "phenom-4"];

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let all = applications()?;
    let mixes = all_mixes(&all, 6);
    let rules = [MAX_FAIR, MAX_PERF, MIN_FAIR, SIMILAR];
    let mut table = Table::new(
        "",
        "Means over the mixes, max-fair = 1",
        &["clocks", "policy", METRICS[0], METRICS[1], METRICS[2], "distance from published"],
    );
    let (mut most, mut distances) = (Vec::new(), Vec::new());
    for (ratio, name) in RATIOS.iter().zip(NAMES) {
        let platform = phenom(name, "2 fast and 4 slow cores", *ratio);
        let courses = courses(lab, &platform, &mixes, &rules)?;
        for (place, rule) in rules.iter().enumerate().skip(1) {
            let score = Score::mean(&scores(&courses, place));
            let mut row = vec![Cell::text(format!("{ratio}:1")), Cell::text(rule.name)];
            row.extend(score.all().map(|it| Cell::Number(it, 3)));
            row.push(if place == 1 {
                most.push(score);
                distances.push(distance(&score));
                Cell::Number(distance(&score), 3)
            } else {
                Cell::Missing
            });
            table.row(row);
        }
    }
    let series = METRICS.iter().enumerate().map(|(metric, name)| {
        ((*name).to_string(), most.iter().map(|score| score.all()[metric]).collect())
    });
    Ok(Findings {
        notes: vec![
            "The distance is the sum of the three relative deviations; the main experiment takes \
             the ratio where it is least, which is therefore no claim."
                .into(),
        ],
        figures: vec![Figure {
            name: String::new(),
            title: "max-perf against max-fair by the ratio of the clocks".into(),
            drawing: Drawing::Bars {
                axis: "mean over the mixes (max-fair = 1)".into(),
                groups: RATIOS.iter().map(|ratio| format!("{ratio}:1")).collect(),
                series: series.collect(),
            },
        }],
        tables: vec![table],
        verdicts: verdicts(&most, &distances),
    })
}

fn verdicts(most: &[Score], distances: &[f64]) -> Vec<Verdict> {
    let near = |score: &Score| {
        let pairs = score.all().into_iter().zip(MAX_PERF_PUBLISHED);
        pairs.filter(|(ours, published)| (ours / published - 1.0).abs() <= bars::NEAR).count()
    };
    vec![
        Verdict::new(
            "there is a ratio at which all three numbers are within a tenth of the published",
            most.iter().any(|score| near(score) == MAX_PERF_PUBLISHED.len()),
            format!(
                "{} of three are, at distances of {}",
                most.iter().map(|it| near(it).to_string()).collect::<Vec<_>>().join(", "),
                distances.iter().map(|it| number(*it, 3)).collect::<Vec<_>>().join(", ")
            ),
        )
        .because(
            "A ratio at which max-perf gains enough leaves those on slow cores too little: the \
                 speedups of the slides' applications must be spread less than ours within a mix. \
                 They are not printed.",
        ),
        Verdict::new(
            "the wider the ratio, the more max-perf gains and the less fair it is",
            most.windows(2).all(|pair| {
                pair[0].throughput < pair[1].throughput
                    && pair[0].min_fairness > pair[1].min_fairness
                    && pair[0].uniformity > pair[1].uniformity
            }),
            most.iter().map(|score| number(score.throughput, 3)).collect::<Vec<_>>().join(", "),
        ),
    ]
}

/// The sum of the relative deviations from what is published for max-perf.
fn distance(score: &Score) -> f64 {
    let deviations = score.all().into_iter().zip(MAX_PERF_PUBLISHED);
    deviations.map(|(ours, published)| (ours / published - 1.0).abs()).sum()
}
