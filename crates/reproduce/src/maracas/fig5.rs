//! Figure 5: traffic and progress against latency, by the delay of task1 and task2 (algorithms.md
//! G.5, X2).

use super::{Row, TABLE_II, list, table2};
use crate::figure::{Drawing, Figure, Line};
use crate::findings::{Cell, Findings, Table, Verdict, number, percent};
use crate::stats::relative;
use crate::{Error, Experiment, Kind, Lab, bars};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-fig5",
    title: "traffic and instructions against latency",
    summary: "The profile of Table II at seventeen delays from 0 to 1.5 us: system-wide traffic \
              and task3's foreground instructions against mean latency.",
    source: "MARACAS, Figure 5 (section VI.B)",
    kind: Kind::Calibrates,
    free: "those of maracas-table2, listed below; the curve between and beyond its three points is \
           not fitted",
    fitted: super::M_JUMP_FIT,
    run,
};

/// From full contention to task3 nearly alone, in nanoseconds.
const DELAYS_NS: [f64; 17] = [
    0.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 130.0, 160.0, 200.0, 250.0, 320.0, 400.0, 500.0,
    700.0, 1000.0, 1500.0,
];

/// Traffic, latency and task3's instructions at each delay, as [`table2::profile`] says.
pub(super) fn profiles(lab: &Lab<'_>) -> Result<Vec<[f64; 3]>, Error> {
    let setup = |delay: &f64| table2::setup(&format!("delay-{delay}ns"), *delay);
    let setups: Vec<_> = DELAYS_NS.iter().map(setup).collect();
    Ok(lab.run(&setups)?.iter().map(table2::profile).collect())
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let profiles = profiles(lab)?;
    let columns = ["delay (ns)", "latency (cycles)", "traffic (GB)", "task3 instructions (1e8)"];
    let mut curve = Table::new("", "The curve", &columns);
    for (delay, [traffic, latency, instructions]) in DELAYS_NS.iter().zip(&profiles) {
        curve.row(vec![
            Cell::Number(*delay, 0),
            Cell::Number(*latency, 1),
            Cell::Number(*traffic, 0),
            Cell::Number(*instructions, 0),
        ]);
    }
    let along = |place: usize| -> Vec<(f64, f64)> {
        profiles.iter().rev().map(|profile| (profile[1], profile[place])).collect()
    };
    let (traffic, instructions) = (along(0), along(2));
    let mut points =
        Table::comparison("points", "The curve at the paper's latencies", "at latency");
    let mut worst: f64 = 0.0;
    for row in &TABLE_II {
        for (what, line, published) in [
            ("traffic (GB)", &traffic, row.traffic_gb),
            ("task3 (1e8)", &instructions, row.instructions),
        ] {
            let ours = interpolated(line, row.latency);
            worst = worst.max(relative(ours, published).abs());
            let what = format!("{} cycles: {what}", number(row.latency, 0));
            points.compare(what, ours, Some(published), 0);
        }
    }
    let rises = traffic.windows(2).all(|pair| pair[0].1 <= pair[1].1);
    let falls = instructions.windows(2).all(|pair| pair[0].1 >= pair[1].1);
    let ends = |line: &[(f64, f64)]| list(&[line[0].1, line[line.len() - 1].1], 0);
    Ok(Findings {
        notes: Vec::new(),
        verdicts: vec![
            Verdict::new("traffic rises with latency", rises, ends(&traffic)),
            Verdict::new("task3's instructions fall with latency", falls, ends(&instructions)),
            Verdict::new(
                "the curve passes within 3 % of the paper's three pairs of points",
                worst <= bars::FITTED,
                format!("largest difference {}", percent(worst)),
            ),
        ],
        figures: vec![Figure {
            name: String::new(),
            title: "Figure 5: bus traffic and instructions retired versus latency".into(),
            drawing: Drawing::Lines {
                along: "mean latency (cycles)".into(),
                logarithmic: false,
                share: false,
                left: "traffic (GB in 5 min)".into(),
                right: Some("task3 instructions (1e8)".into()),
                lines: vec![
                    Line::new("bus traffic", traffic),
                    Line::new("task3 instructions", instructions).on_the_right(),
                    Line::new("bus traffic, published", published(|row| row.traffic_gb)),
                    Line::new("task3, published", published(|row| row.instructions)).on_the_right(),
                ],
            },
        }],
        tables: vec![points, curve],
    })
}

/// The paper's points by increasing latency.
fn published(value: fn(&Row) -> f64) -> Vec<(f64, f64)> {
    TABLE_II.iter().rev().map(|row| (row.latency, value(row))).collect()
}

/// The line at `x`, straight between its points; beyond its ends the nearest.
pub(super) fn interpolated(line: &[(f64, f64)], x: f64) -> f64 {
    let after = line.partition_point(|(at, _)| *at < x);
    match (line.get(after.wrapping_sub(1)), line.get(after)) {
        (Some((x0, y0)), Some((x1, y1))) => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
        (Some((_, y)), None) | (None, Some((_, y))) => *y,
        (None, None) => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_straight_between_their_points() {
        let line = [(1.0, 10.0), (3.0, 20.0)];
        let at = |x| interpolated(&line, x);
        assert_eq!([at(0.0), at(1.0), at(2.0), at(3.0), at(9.0)], [10.0, 10.0, 15.0, 20.0, 20.0]);
    }
}
