//! How many sets are schedulable by each test of a policy, beside how many its run finds so; and
//! the same in one number for all utilizations.

use crate::Error;
use crate::results::Results;
use crate::stats::Share;
use crate::study::{Point, Study};
use crate::summary::{point_cells, point_columns};
use crate::table::{Column, Kind, Row, Rows, Value};
use std::iter;

/// What stands in place of a test for what the run found: admitted, and no job missed.
pub const RUN: &str = "run";

/// What one criterion says of the sets of one point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedulable {
    /// The point.
    pub point: Point,
    /// The place of the policy among the contenders.
    pub contender: usize,
    /// A test of the policy, or [`RUN`].
    pub by: &'static str,
    /// Task sets.
    pub sets: u64,
    /// Those of them that are schedulable.
    pub schedulable: u64,
    /// Utilization of all sets together, in parts per billion of one core.
    load_ppb: u128,
    /// That of those that are schedulable.
    schedulable_ppb: u128,
}

/// Every criterion at every point: points in their order, then policies, then the run before the
/// tests.
///
/// # Errors
/// Where the results cannot be read.
pub fn by_test(study: &Study, results: &Results) -> Result<Vec<Schedulable>, Error> {
    let mut all = Vec::new();
    for (place, point) in study.points.iter().enumerate() {
        let mut here = ways(study, point);
        for finished in results.of_point(place) {
            let finished = finished?;
            let load = u128::from(finished.load_ppb);
            let mut bit = 0;
            for way in &mut here {
                let holds = if way.by == RUN {
                    bit = 0;
                    finished.tallies[way.contender].success()
                } else {
                    bit += 1;
                    finished.admitted[way.contender] >> (bit - 1) & 1 == 1
                };
                way.sets += 1;
                way.load_ppb += load;
                way.schedulable += u64::from(holds);
                way.schedulable_ppb += load * u128::from(holds);
            }
        }
        all.append(&mut here);
    }
    Ok(all)
}

/// Nothing counted yet at this point.
fn ways(study: &Study, point: &Point) -> Vec<Schedulable> {
    let way = |contender, by| Schedulable {
        point: *point,
        contender,
        by,
        sets: 0,
        schedulable: 0,
        load_ppb: 0,
        schedulable_ppb: 0,
    };
    let mut ways = Vec::new();
    for (place, contender) in study.contenders.iter().enumerate() {
        let by = iter::once(RUN).chain(contender.tests.iter().copied());
        ways.extend(by.map(|by| way(place, by)));
    }
    ways
}

impl Schedulable {
    /// Their share of the sets.
    pub fn share(&self) -> Share {
        Share::of(self.schedulable, self.sets)
    }
}

/// Weighted schedulability: the utilization of the schedulable sets by that of all, over every
/// utilization together. Sets that are hard to schedule because they are full count more than
/// empty ones. A. Bastoni, B. Brandenburg, J. Anderson, "Cache-Related Preemption and Migration
/// Delays: Empirical Approximation and Impact on Schedulability", OSPERT 2010.
#[derive(Clone, PartialEq, Debug)]
pub struct Weighted {
    /// Cores.
    pub cores: usize,
    /// Tasks, as those of a [`Point`].
    pub tasks: Option<usize>,
    /// The place of the policy among the contenders.
    pub contender: usize,
    /// A test of the policy, or [`RUN`].
    pub by: &'static str,
    /// Task sets of all utilizations.
    pub sets: u64,
    /// From 0, none, to 1, all.
    pub weighted: f64,
}

/// All of them: by cores and tasks in the order of the points, then as [`by_test`].
pub fn weighted(all: &[Schedulable]) -> Vec<Weighted> {
    let of = |point: &Point| (point.cores, point.tasks);
    let groups = all.chunk_by(|a, b| of(&a.point) == of(&b.point));
    groups.flat_map(of_group).collect()
}

/// Those of one number of cores and tasks.
fn of_group(group: &[Schedulable]) -> Vec<Weighted> {
    let first = group.iter().take_while(|it| it.point == group[0].point);
    let one = |way: &Schedulable| {
        let same = |it: &&Schedulable| (it.contender, it.by) == (way.contender, way.by);
        let own = || group.iter().filter(same);
        let sum = |of: fn(&Schedulable) -> u128| own().map(of).sum::<u128>() as f64;
        let (part, whole) = (sum(|it| it.schedulable_ppb), sum(|it| it.load_ppb));
        Weighted {
            cores: way.point.cores,
            tasks: way.point.tasks,
            contender: way.contender,
            by: way.by,
            sets: own().map(|it| it.sets).sum(),
            weighted: if whole > 0.0 { part / whole } else { 0.0 },
        }
    };
    first.map(one).collect()
}

/// The columns of [`test_rows`].
pub fn test_columns() -> Vec<Column> {
    let mut columns = point_columns();
    columns.extend(["policy", "by"].map(|name| Column::new(name, Kind::Text)));
    columns.extend(["sets", "schedulable"].map(|name| Column::new(name, Kind::Whole)));
    let ends = ["share", "share_low", "share_high"];
    columns.extend(ends.map(|name| Column::new(name, Kind::Number)));
    columns
}

/// One row for each criterion at each point.
pub fn test_rows<'a>(study: &'a Study, all: &'a [Schedulable]) -> Rows<'a> {
    Box::new(all.iter().map(|it| {
        let mut row = point_cells(&it.point);
        row.extend(names(study, it.contender, it.by));
        row.extend([it.sets, it.schedulable].map(Value::Whole));
        let Share { share, low, high } = it.share();
        row.extend([share, low, high].map(Value::Number));
        Ok(row)
    }))
}

/// The columns of [`weighted_rows`].
pub fn weighted_columns() -> Vec<Column> {
    vec![
        Column::new("cores", Kind::Whole),
        Column::new("tasks", Kind::Whole).optional(),
        Column::new("policy", Kind::Text),
        Column::new("by", Kind::Text),
        Column::new("sets", Kind::Whole),
        Column::new("weighted", Kind::Number),
    ]
}

/// One row for each number of cores and tasks and criterion.
pub fn weighted_rows<'a>(study: &'a Study, all: &'a [Weighted]) -> Rows<'a> {
    Box::new(all.iter().map(|it| {
        let tasks = Value::maybe(it.tasks, |tasks| Value::Whole(tasks as u64));
        let mut row: Row = vec![Value::Whole(it.cores as u64), tasks];
        row.extend(names(study, it.contender, it.by));
        row.extend([Value::Whole(it.sets), Value::Number(it.weighted)]);
        Ok(row)
    }))
}

fn names(study: &Study, contender: usize, by: &str) -> [Value; 2] {
    [Value::Text(study.contenders[contender].label.clone()), Value::Text(by.into())]
}
