//! The figures of a sweep: success, what policies' tests admit, preemptions and migrations over the
//! first axis that has more than one value, a figure for each value of the others; and weighted
//! schedulability over cores or tasks. Where tasks were asked for by core that is their axis, so
//! that lines run along cores with as many tasks on each.

use crate::figure::{Drawing, Figure, Line};
use crate::schedulable::{self, RUN, Schedulable, Weighted};
use crate::stats::Share;
use crate::study::{Point, Study};
use crate::summary::{MEASURES, Standing};
use maracas_scenario::sweep::MILLION;

/// An axis of points.
#[derive(Clone, Copy)]
struct Axis {
    name: &'static str,
    of: fn(&Point) -> Option<f64>,
}

const UTILIZATION: Axis = Axis {
    name: "utilization",
    of: |point| point.utilization.map(|share| f64::from(share) / f64::from(MILLION)),
};
const CORES: Axis = Axis { name: "cores", of: |point| Some(point.cores as f64) };
const TASKS: Axis = Axis { name: "tasks", of: |point| point.tasks.map(|tasks| tasks as f64) };
const PER_CORE: Axis = Axis {
    name: "tasks per core",
    of: |point| point.tasks.map(|tasks| tasks as f64 / point.cores as f64),
};

/// The axes of a sweep, the one that figures run along first.
fn axes(study: &Study) -> [Axis; 3] {
    [UTILIZATION, CORES, if study.is_per_core { PER_CORE } else { TASKS }]
}

/// The measures that are drawn besides success.
const DRAWN: [&str; 4] =
    ["preemptions_per_job", "migrations_per_job", "depth", "charged_us_per_job"];

/// What stands at one point of a line, with its interval; `None` where nothing was measured.
type Reading<'a> = &'a dyn Fn(&Standing) -> Option<(f64, f64, f64)>;

/// All figures; none where every axis has one value only. What is zero everywhere is not drawn.
pub fn figures(study: &Study, standings: &[Standing], tested: &[Schedulable]) -> Vec<Figure> {
    with_points(study, standings, tested).into_iter().map(|(figure, _)| figure).collect()
}

/// The same, each with where in [`Study::points`] the points stand that it runs along; none where
/// what is drawn is of several points.
pub fn with_points(
    study: &Study,
    standings: &[Standing],
    tested: &[Schedulable],
) -> Vec<(Figure, Vec<usize>)> {
    let several = |axis: &&Axis| {
        let first = study.points.first().and_then(axis.of);
        study.points.iter().any(|point| (axis.of)(point) != first)
    };
    let axes = axes(study);
    let Some(along) = axes.iter().find(several) else { return Vec::new() };
    let others: Vec<&Axis> = axes.iter().filter(|axis| axis.name != along.name).collect();
    let mut figures = Vec::new();
    for rest in rests(study, &others) {
        let here: Vec<&Standing> =
            standings.iter().filter(|it| rest_of(&it.point, &others) == rest).collect();
        let points = study.points.iter().enumerate();
        let points = points.filter(|(_, point)| rest_of(point, &others) == rest);
        let points: Vec<usize> = points.map(|(place, _)| place).collect();
        // A line takes two points.
        if points.len() < 2 {
            continue;
        }
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
        let by_test = of_tests(study, tested, along, &others, &rest);
        figures.extend(by_test.map(|figure| (figure, points)));
    }
    figures.extend(of_weights(study, tested).into_iter().map(|figure| (figure, Vec::new())));
    figures
}

/// Where a point stands on each axis, by its name; `null` where that is left to the draw.
pub(crate) fn at(point: &Point) -> serde_json::Value {
    let value = |axis: &Axis| (axis.name.to_owned(), serde_json::Value::from((axis.of)(point)));
    [UTILIZATION, CORES, TASKS].iter().map(value).collect::<serde_json::Map<_, _>>().into()
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
    Some(framed(name, title, along.name, &place(point, others), name == "success", lines))
}

/// Where a point stands on these axes, in words of a title.
fn place(point: &Point, axes: &[&Axis]) -> Vec<String> {
    axes.iter().filter_map(|axis| Some(format!("{} {}", (axis.of)(point)?, axis.name))).collect()
}

/// Lines in their frame: of `place`, along the axis of that name.
fn framed(
    name: &str,
    title: &str,
    along: &str,
    place: &[String],
    share: bool,
    lines: Vec<Line>,
) -> Figure {
    let stem = std::iter::once(name.replace('_', "-"));
    let stem = stem.chain(place.iter().map(|words| words.replace(' ', "-")));
    let colon = if place.is_empty() { "" } else { ": " };
    Figure {
        name: stem.collect::<Vec<_>>().join("-"),
        title: format!("{title}{colon}{}", place.join(", ")),
        drawing: Drawing::Lines {
            along: along.into(),
            logarithmic: false,
            share,
            left: title.into(),
            right: None,
            lines,
        },
    }
}

/// The policies that know tests: what their run finds schedulable as whole lines, what each test
/// admits as broken ones of the same colour.
fn of_tests(
    study: &Study,
    tested: &[Schedulable],
    along: &Axis,
    others: &[&Axis],
    rest: &[Option<f64>],
) -> Option<Figure> {
    let here: Vec<_> = tested.iter().filter(|it| rest_of(&it.point, others) == rest).collect();
    let mut lines = Vec::new();
    for (contender, by, dash) in ways(tested) {
        let own = here.iter().filter(|it| (it.contender, it.by) == (contender, by));
        let readings = own.filter_map(|it| Some(((along.of)(&it.point)?, it.share())));
        let (points, spread) = readings.map(|(x, it)| ((x, it.share), (it.low, it.high))).unzip();
        let line = Line::new(way(study, contender, by), points);
        lines.push(line.with_spread(spread).with_look(contender, dash));
    }
    let place = place(&here.first()?.point, others);
    let title = "share of sets schedulable, by run and by test";
    (!lines.is_empty()).then(|| framed("tests", title, along.name, &place, true, lines))
}

/// The ways to tell of the policies that know tests, each with its kind of stroke.
fn ways(tested: &[Schedulable]) -> Vec<(usize, &'static str, usize)> {
    let first = tested.iter().take_while(|it| it.point == tested[0].point);
    let first: Vec<_> = first.map(|it| (it.contender, it.by)).collect();
    let of_policy = first.chunk_by(|a, b| a.0 == b.0).filter(|ways| ways.len() > 1);
    let numbered = of_policy.flat_map(|ways| ways.iter().zip(0..));
    numbered.map(|(&(contender, by), dash)| (contender, by, dash)).collect()
}

/// What the line of one criterion is called.
fn way(study: &Study, contender: usize, by: &str) -> String {
    format!("{}, {by}", study.contenders[contender].label)
}

/// Weighted schedulability over the first of cores and tasks that has several values, a figure for
/// each value of the other; of all policies, with the tests of those that know some.
fn of_weights(study: &Study, tested: &[Schedulable]) -> Vec<Figure> {
    let weighted = schedulable::weighted(tested);
    let [_, cores, tasks] = axes(study);
    let place = |it: &Weighted| Point { cores: it.cores, utilization: None, tasks: it.tasks };
    let several = |axis: &Axis| {
        let mut values = weighted.iter().map(|it| (axis.of)(&place(it)));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let (along, other) = if several(&cores) { (cores, tasks) } else { (tasks, cores) };
    let mut rests: Vec<Option<f64>> = Vec::new();
    for rest in weighted.iter().map(|it| (other.of)(&place(it))) {
        if !rests.contains(&rest) {
            rests.push(rest);
        }
    }
    let is_only = rests.len() == 1 && along.name == cores.name;
    let figure = |rest: &Option<f64>| {
        let here: Vec<_> = weighted.iter().filter(|it| (other.of)(&place(it)) == *rest).collect();
        let first = place(here.first()?);
        // A line takes two points.
        here.iter().find(|it| place(it) != first)?;
        let lines = here.iter().take_while(|it| place(it) == first);
        let lines = lines.map(|one| weighted_line(study, tested, one, &here, &along));
        let words = if is_only { Vec::new() } else { self::place(&first, &[&other]) };
        let title = "weighted schedulability, by run and by test";
        Some(framed("weighted", title, along.name, &words, true, lines.collect()))
    };
    rests.iter().filter_map(figure).collect()
}

/// The line of the policy and criterion of `one`, of what stands `here`.
fn weighted_line(
    study: &Study,
    tested: &[Schedulable],
    one: &Weighted,
    here: &[&Weighted],
    along: &Axis,
) -> Line {
    let own = here.iter().filter(|it| (it.contender, it.by) == (one.contender, one.by));
    let points = own.filter_map(|it| {
        let point = Point { cores: it.cores, utilization: None, tasks: it.tasks };
        Some(((along.of)(&point)?, it.weighted))
    });
    let tests = ways(tested);
    let known = tests.iter().find(|it| (it.0, it.1) == (one.contender, one.by));
    let name = if one.by == RUN && known.is_none() {
        study.contenders[one.contender].label.clone()
    } else {
        way(study, one.contender, one.by)
    };
    let dash = known.map_or(0, |it| it.2);
    Line::new(name, points.collect()).with_look(one.contender, dash)
}
