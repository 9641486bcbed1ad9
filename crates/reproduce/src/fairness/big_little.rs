//! Four big and four LITTLE cores, speedups given beforehand.

use super::applications::{MIXES, Platform, Rule, Slow, applications};
use super::{
    MAX_FAIR, MAX_PERF, METRICS, MIN_FAIR, SIMILAR, Score, TARGET, all_mixes, courses, scores,
};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::{Error, Experiment, Kind, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fairness-biglittle",
    title: "four big and four LITTLE cores",
    summary: "The mixes of eight applications on four big and four LITTLE cores, with speedups \
              known off-line, as on the Odroid, whose kernel has no counters.",
    source: "Kim and Huh, slide \"Evaluation Methodology\" (Odroid-XU3 Lite); no results of it are \
             printed",
    kind: Kind::Predicts,
    free: "a LITTLE core computes 2.63 times slower (the kernel's capacity-dmips-mhz for this \
           chip, 1024 at 1.8 GHz against 539 at 1.3 GHz) and, being in order, waits 1.5 times \
           longer for memory; eight threads, so that a letter stands for two or three",
    fitted: "",
    run,
};

const ODROID: Platform = Platform {
    name: "odroid",
    what: "4 big and 4 LITTLE cores",
    fast: 4,
    slow: 4,
    pace: Slow { compute: 2.63, memory: 1.5 },
};

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let all = applications()?;
    let mixes = all_mixes(&all, 8);
    let rules = [MAX_FAIR, MAX_PERF, MIN_FAIR, SIMILAR].map(|rule| Rule { off_line: true, ..rule });
    let courses = courses(lab, &ODROID, &mixes, &rules)?;
    let by_rule: Vec<Vec<Score>> = (1..rules.len()).map(|rule| scores(&courses, rule)).collect();
    let mut means = Table::new(
        "",
        "Means over the mixes, max-fair = 1",
        &["policy", METRICS[0], METRICS[1], METRICS[2], "least MinFairness"],
    );
    let least = |scores: &[Score]| {
        let mixes = scores.iter().map(|it| it.min_fairness).zip(MIXES);
        mixes.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, ""))
    };
    for (rule, scores) in rules[1..].iter().zip(&by_rule) {
        let mut row = vec![Cell::text(rule.name)];
        row.extend(Score::mean(scores).all().map(|it| Cell::Number(it, 3)));
        row.push(Cell::Number(least(scores).0, 4));
        means.row(row);
    }
    let mean: Vec<Score> = by_rule.iter().map(|scores| Score::mean(scores)).collect();
    let [fair, similar] = [least(&by_rule[1]), least(&by_rule[2])];
    let figure = Figure {
        name: String::new(),
        title: "MinFairness by mix on 4 + 4 cores, max-fair = 1".into(),
        drawing: Drawing::Bars {
            axis: "MinFairness (max-fair = 1)".into(),
            groups: MIXES.iter().map(ToString::to_string).collect(),
            series: rules[1..]
                .iter()
                .zip(&by_rule)
                .map(|(rule, it)| (rule.name.into(), it.iter().map(|s| s.min_fairness).collect()))
                .collect(),
        },
    };
    Ok(Findings {
        notes: vec![
            "Nothing is estimated: what remains is how exactly shares are carried out.".into(),
        ],
        figures: vec![figure],
        tables: vec![means],
        verdicts: verdicts(&mean, fair, similar),
    })
}

/// `fair` and `similar` are the least MinFairness of the two policies, and in which mix.
fn verdicts(mean: &[Score], fair: (f64, &str), similar: (f64, &str)) -> Vec<Verdict> {
    vec![
        Verdict::new(
            "with exact speedups the target of 0.85 is kept within one round of 30 ms in each \
             of the run's intervals of 2 s (1.5 %)",
            fair.0 >= TARGET * 0.985 && similar.0 >= TARGET * 0.985,
            format!(
                "min-fair: least {} in {}; similar-min-fair: {} in {}",
                number(fair.0, 4),
                fair.1,
                number(similar.0, 4),
                similar.1
            ),
        ),
        Verdict::new(
            "throughput falls and Uniformity rises from max-perf over min-fair to \
             similar-min-fair",
            mean[0].throughput >= mean[1].throughput
                && mean[1].throughput >= mean[2].throughput
                && mean[0].uniformity <= mean[1].uniformity
                && mean[1].uniformity <= mean[2].uniformity,
            mean.iter()
                .map(|it| format!("{} and {}", number(it.throughput, 3), number(it.uniformity, 3)))
                .collect::<Vec<_>>()
                .join(", "),
        ),
    ]
}
