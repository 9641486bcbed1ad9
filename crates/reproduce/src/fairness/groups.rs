//! Mixes of similar and of diverse applications, each by themselves.

use super::applications::{MIXES, applications};
use super::mixes::MISSED_BY;
use super::{
    MAX_FAIR, MAX_PERF, METRICS, MIN_FAIR, PHENOM, SIMILAR, Score, TARGET, all_mixes, courses,
    scores,
};
use crate::bars;
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number, percent};
use crate::stats::relative;
use crate::{Error, Experiment, Kind, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fairness-groups",
    title: "similar and diverse applications by themselves",
    summary: "The mixes of fairness-mixes in two groups: similar applications (HHH, MMM, LLL and \
              SAME, one letter each) and diverse ones (all others); means over each group, \
              max-fair = 1.",
    source: "Kim and Huh, slides \"Result: Diverse Applications\": MinFairness is guaranteed, then \
             throughput improved; \"Result: Similar Applications\": fairness is improved without \
             effect on throughput; bars without numbers",
    kind: Kind::Predicts,
    free: "which applications stand for which letter, and their speedups",
    fitted: super::CLOCKS_FIT,
    run,
};

const GROUPS: [&str; 2] = ["similar", "diverse"];
const SIMILAR_ONES: usize = 0;
const DIVERSE_ONES: usize = 1;
const NAMES: [&str; 3] = ["max-perf", "min-fair", "similar-min-fair"];

/// Which group a mix is of.
fn group(mix: &str) -> usize {
    let letters = mix.split('.').next().unwrap_or(mix);
    let mut others = letters.chars().skip(1);
    let alike = mix == "SAME" || others.all(|letter| letters.starts_with(letter));
    if alike { SIMILAR_ONES } else { DIVERSE_ONES }
}

/// The scores of a group by policy.
struct Group([Vec<Score>; 3]);

impl Group {
    fn mean(&self, policy: usize) -> Score {
        Score::mean(&self.0[policy])
    }
    fn least(&self, policy: usize) -> f64 {
        self.0[policy].iter().map(|it| it.min_fairness).fold(f64::INFINITY, f64::min)
    }
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let all = applications()?;
    let mixes = all_mixes(&all, 6);
    let rules = [MAX_FAIR, MAX_PERF, MIN_FAIR, SIMILAR];
    let courses = courses(lab, &PHENOM, &mixes, &rules)?;
    let scores = [1, 2, 3].map(|rule| scores(&courses, rule));
    let groups = [SIMILAR_ONES, DIVERSE_ONES].map(|which| {
        Group([0, 1, 2].map(|policy: usize| {
            let of = MIXES.iter().zip(&scores[policy]).filter(|(mix, _)| group(mix) == which);
            of.map(|(_, score)| *score).collect()
        }))
    });
    let mut table = Table::new(
        "",
        "Means over the mixes of a group, max-fair = 1",
        &["group and policy", METRICS[0], METRICS[1], METRICS[2], "least MinFairness"],
    );
    for (name, group) in GROUPS.iter().zip(&groups) {
        for (policy, rule) in NAMES.iter().enumerate() {
            let mut row = vec![Cell::Text(format!("{name}, {rule}"))];
            row.extend(group.mean(policy).all().map(|it| Cell::Number(it, 3)));
            row.push(Cell::Number(group.least(policy), 3));
            table.row(row);
        }
    }
    let bars = |metric: usize| {
        groups
            .iter()
            .flat_map(|group| [0, 1, 2].map(|policy| group.mean(policy).all()[metric]))
            .collect()
    };
    let name = |group: &str| NAMES.map(|rule| format!("{group} {rule}"));
    Ok(Findings {
        notes: Vec::new(),
        tables: vec![table],
        figures: vec![Figure {
            name: String::new(),
            title: "Similar and diverse applications, max-fair = 1".into(),
            drawing: Drawing::Bars {
                axis: "max-fair = 1".into(),
                groups: GROUPS.iter().flat_map(|group| name(group)).collect(),
                series: METRICS
                    .iter()
                    .enumerate()
                    .map(|(metric, name)| ((*name).to_string(), bars(metric)))
                    .collect(),
            },
        }],
        verdicts: verdicts(&groups),
    })
}

fn verdicts([similar, diverse]: &[Group; 2]) -> Vec<Verdict> {
    let (max_perf, fair, even) = (0, 1, 2);
    let throughput = |group: &Group, policy: usize| group.mean(policy).throughput;
    let uniformity = |group: &Group, policy: usize| group.mean(policy).uniformity;
    let effect = relative(throughput(similar, even), throughput(similar, fair));
    vec![
        Verdict::new(
            "diverse: min-fair keeps MinFairness (missed by less than 3 %) where max-perf does not",
            diverse.least(fair) > TARGET * (1.0 - MISSED_BY)
                && diverse.least(max_perf) < TARGET * (1.0 - MISSED_BY),
            format!(
                "least {} against {}",
                number(diverse.least(fair), 3),
                number(diverse.least(max_perf), 3)
            ),
        ),
        Verdict::new(
            "diverse: it improves throughput over max-fair, and by more than for similar ones",
            throughput(diverse, fair) > 1.0 + bars::UNCHANGED
                && throughput(diverse, fair) > throughput(similar, fair),
            format!(
                "{} and {}",
                number(throughput(diverse, fair), 3),
                number(throughput(similar, fair), 3)
            ),
        ),
        Verdict::new(
            "similar: similar-min-fair improves Uniformity over min-fair and max-perf",
            uniformity(similar, even) > uniformity(similar, fair) + bars::UNCHANGED
                && uniformity(similar, even) > uniformity(similar, max_perf) + bars::UNCHANGED,
            format!(
                "{} against {} and {}",
                number(uniformity(similar, even), 3),
                number(uniformity(similar, fair), 3),
                number(uniformity(similar, max_perf), 3)
            ),
        ),
        Verdict::new(
            "similar: without effect on throughput (2 %)",
            effect.abs() <= bars::UNCHANGED,
            percent(effect),
        ),
        Verdict::new(
            "similar: it treats them alike: Uniformity of 0.95 and more in every mix",
            similar.0[even].iter().all(|score| score.uniformity >= 0.95),
            similar.0[even]
                .iter()
                .map(|it| number(it.uniformity, 3))
                .collect::<Vec<_>>()
                .join(", "),
        )
        .because(
            "With clocks of 4:1 speedups of one letter differ by up to 1, and 0.2, the slides' \
             similarity, puts few of them in one group: only equal applications are all of one.",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_mixes_are_of_similar_applications() {
        let similar: Vec<_> = MIXES.iter().filter(|mix| group(mix) == SIMILAR_ONES).collect();
        assert_eq!(similar, [&"HHH", &"MMM", &"LLL", &"SAME"]);
    }
}
