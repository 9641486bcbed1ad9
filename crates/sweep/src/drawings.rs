//! The figures of a sweep: success, preemptions and migrations over the first axis that has more
//! than one value, a figure for each value of the others.

use crate::figure::{Drawing, Figure, Line};
use crate::stats::Share;
use crate::study::{Point, Study};
use crate::summary::{MEASURES, Standing};
use maracas_scenario::sweep::MILLION;

/// An axis of points.
struct Axis {
    name: &'static str,
    of: fn(&Point) -> Option<f64>,
}

/// The axes, the one that figures run along first.
const AXES: [Axis; 3] = [
    Axis {
        name: "utilization",
        of: |point| point.utilization.map(|share| f64::from(share) / f64::from(MILLION)),
    },
    Axis { name: "cores", of: |point| Some(point.cores as f64) },
    Axis { name: "tasks", of: |point| point.tasks.map(|tasks| tasks as f64) },
];

/// The measures that are drawn besides success.
const DRAWN: [&str; 4] =
    ["preemptions_per_job", "migrations_per_job", "depth", "charged_us_per_job"];

/// What stands at one point of a line, with its interval; `None` where nothing was measured.
type Reading<'a> = &'a dyn Fn(&Standing) -> Option<(f64, f64, f64)>;

/// All figures; none where every axis has one value only. What is zero everywhere is not drawn.
pub fn figures(study: &Study, standings: &[Standing]) -> Vec<Figure> {
    with_points(study, standings).into_iter().map(|(figure, _)| figure).collect()
}

/// The same, each with where in [`Study::points`] the points stand that it runs along.
pub fn with_points(study: &Study, standings: &[Standing]) -> Vec<(Figure, Vec<usize>)> {
    let several = |axis: &&Axis| {
        let first = study.points.first().and_then(axis.of);
        study.points.iter().any(|point| (axis.of)(point) != first)
    };
    let Some(along) = AXES.iter().find(several) else { return Vec::new() };
    let others: Vec<&Axis> = AXES.iter().filter(|axis| axis.name != along.name).collect();
    let mut figures = Vec::new();
    for rest in rests(study, &others) {
        let here: Vec<&Standing> =
            standings.iter().filter(|it| rest_of(&it.point, &others) == rest).collect();
        let points = study.points.iter().enumerate();
        let points = points.filter(|(_, point)| rest_of(point, &others) == rest);
        let points: Vec<usize> = points.map(|(place, _)| place).collect();
        let mut draw = |name: &str, title: &str, reading: Reading<'_>| {
            let drawn = figure(study, &here, along, &others, name, title, reading);
            figures.extend(drawn.map(|figure| (figure, points.clone())));
        };
        let success = |it: &Standing| {
            let Share { share, low, high } = it.success();
            Some((share, low, high))
        };
        draw("success", "share of sets admitted and without a miss", &success);
        for name in DRAWN {
            let Some(place) = MEASURES.iter().position(|it| it.name == name) else { continue };
            let reading = |it: &Standing| {
                let mean = it.means.as_ref().map(|means| means[place])?;
                // Student's interval may reach below 0, which no measure can.
                Some((mean.mean, mean.low().max(0.0), mean.high()))
            };
            draw(name, MEASURES[place].title, &reading);
        }
    }
    figures
}

/// Where a point stands on each axis, by its name; `null` where that is left to the draw.
pub(crate) fn at(point: &Point) -> serde_json::Value {
    let value = |axis: &Axis| (axis.name.to_owned(), serde_json::Value::from((axis.of)(point)));
    AXES.iter().map(value).collect::<serde_json::Map<_, _>>().into()
}

/// Where a point stands on the other axes.
fn rest_of(point: &Point, others: &[&Axis]) -> Vec<Option<f64>> {
    others.iter().map(|axis| (axis.of)(point)).collect()
}

/// All that points have, in their order.
fn rests(study: &Study, others: &[&Axis]) -> Vec<Vec<Option<f64>>> {
    let mut rests: Vec<Vec<Option<f64>>> = Vec::new();
    for rest in study.points.iter().map(|point| rest_of(point, others)) {
        if !rests.contains(&rest) {
            rests.push(rest);
        }
    }
    rests
}

fn figure(
    study: &Study,
    standings: &[&Standing],
    along: &Axis,
    others: &[&Axis],
    name: &str,
    title: &str,
    reading: Reading<'_>,
) -> Option<Figure> {
    let line = |(place, label): (usize, &str)| {
        let own = standings.iter().filter(|it| it.contender == place);
        let readings = own.filter_map(|it| Some(((along.of)(&it.point)?, reading(it)?)));
        let readings: Vec<_> = readings.collect();
        let points = readings.iter().map(|(x, (y, ..))| (*x, *y)).collect();
        let spread = readings.iter().map(|(_, (_, low, high))| (*low, *high)).collect();
        Line::new(label, points).with_spread(spread)
    };
    let labels = study.contenders.iter().map(|it| it.label.as_str()).enumerate();
    let lines: Vec<Line> = labels.map(line).filter(|line| !line.points.is_empty()).collect();
    let all_zero = lines.iter().flat_map(|line| &line.points).all(|(_, y)| *y == 0.0);
    let point = &standings.first()?.point;
    if all_zero && name != "success" {
        return None;
    }
    let place = others.iter().filter_map(|axis| Some((axis.name, (axis.of)(point)?)));
    let place: Vec<_> = place.collect();
    let words: Vec<_> = place.iter().map(|(name, value)| format!("{value} {name}")).collect();
    let stem: Vec<_> = place.iter().map(|(name, value)| format!("{value}-{name}")).collect();
    Some(Figure {
        name: [vec![name.replace('_', "-")], stem].concat().join("-"),
        title: format!("{title}: {}", words.join(", ")),
        drawing: Drawing::Lines {
            along: along.name.into(),
            logarithmic: false,
            share: name == "success",
            left: title.into(),
            right: None,
            lines,
        },
    })
}
