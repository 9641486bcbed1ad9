//! What a sweep found: every run, every point, every pair of policies.

use crate::ledger::Finished;
use crate::stats::{Mean, Paired, Share};
use crate::study::{Point, Study};
use crate::table::{Column, Kind, Row, Value};
use crate::trial::Tally;
use maracas_core::PPB;
use maracas_scenario::sweep::MILLION;

/// Something that is measured of every run in which the policy admitted the set.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Its column.
    pub name: &'static str,
    /// What figures call it.
    pub title: &'static str,
    /// Of one run.
    pub of: fn(&Tally) -> f64,
}

/// All measures; success, which is of every run, is apart.
pub static MEASURES: [Measure; 9] = [
    Measure {
        name: "miss_ratio",
        title: "share of jobs that miss",
        of: |tally| tally.per_job(tally.missed),
    },
    Measure {
        name: "tardiness_max_us",
        title: "greatest tardiness (us)",
        of: |tally| tally.tardiness_max_ns as f64 / 1e3,
    },
    Measure {
        name: "tardiness_mean_us",
        title: "mean tardiness (us)",
        of: |tally| tally.per_job(tally.tardiness_sum_ns) / 1e3,
    },
    Measure {
        name: "preemptions_per_job",
        title: "preemptions per job",
        of: |tally| tally.per_job(tally.preemptions),
    },
    Measure {
        name: "migrations_per_job",
        title: "migrations per job",
        of: |tally| tally.per_job(tally.migrations),
    },
    Measure {
        name: "task_migrations_per_job",
        title: "task migrations per job",
        of: |tally| tally.per_job(tally.task_migrations),
    },
    Measure {
        name: "decisions_per_job",
        title: "decisions per job",
        of: |tally| tally.per_job(tally.decisions),
    },
    Measure { name: "depth", title: "levels", of: |tally| tally.depth as f64 },
    Measure {
        name: "charged_us_per_job",
        title: "charged overhead per job (us)",
        of: |tally| tally.per_job(tally.charged_ns) / 1e3,
    },
];

/// What one policy came to at one point.
#[derive(Clone, PartialEq, Debug)]
pub struct Standing {
    /// The point.
    pub point: Point,
    /// The place of the policy among the contenders.
    pub contender: usize,
    /// Task sets that were run.
    pub sets: u64,
    /// Sets that the policy admitted.
    pub accepted: u64,
    /// Sets that it admitted and of which no job missed.
    pub succeeded: u64,
    /// [`MEASURES`], over the sets that it admitted; none where it admitted none.
    pub means: Option<[Mean; MEASURES.len()]>,
}

impl Standing {
    /// The share of sets that succeeded.
    pub fn success(&self) -> Share {
        Share::of(self.succeeded, self.sets)
    }
}

/// Two policies on the same sets at one point.
#[derive(Clone, PartialEq, Debug)]
pub struct Rivalry {
    /// The point.
    pub point: Point,
    /// The places of both among the contenders, the lower first.
    pub contenders: (usize, usize),
    /// What is compared: `success`, or the name of a measure.
    pub measure: &'static str,
    /// The comparison: of success on all sets, of measures on those that both admitted.
    pub paired: Paired,
}

/// The items of a point.
fn of_point(study: &Study, place: usize, finished: &[Finished]) -> impl Iterator<Item = usize> {
    (place..finished.len()).step_by(study.points.len())
}

/// Every policy at every point: points in their order, then policies in theirs.
pub fn standings(study: &Study, finished: &[Finished]) -> Vec<Standing> {
    let mut standings = Vec::new();
    for (place, point) in study.points.iter().enumerate() {
        for contender in 0..study.contenders.len() {
            let items = of_point(study, place, finished);
            let tallies: Vec<_> = items.map(|item| &finished[item].tallies[contender]).collect();
            let accepted: Vec<_> = tallies.iter().filter(|tally| tally.accepted).collect();
            let mean = |measure: &Measure| {
                let values = accepted.iter().map(|tally| (measure.of)(tally));
                Mean::of(&values.collect::<Vec<_>>())
            };
            standings.push(Standing {
                point: *point,
                contender,
                sets: tallies.len() as u64,
                accepted: accepted.len() as u64,
                succeeded: tallies.iter().filter(|tally| tally.success()).count() as u64,
                means: (!accepted.is_empty()).then(|| MEASURES.each_ref().map(mean)),
            });
        }
    }
    standings
}

/// Every pair of policies at every point: success first, then the measures in their order.
pub fn rivalries(study: &Study, finished: &[Finished]) -> Vec<Rivalry> {
    let mut rivalries = Vec::new();
    for (place, point) in study.points.iter().enumerate() {
        for second in 1..study.contenders.len() {
            for first in 0..second {
                let items = of_point(study, place, finished);
                let both = items.map(|item| {
                    let tallies = &finished[item].tallies;
                    (&tallies[first], &tallies[second])
                });
                let both: Vec<_> = both.collect();
                let mut compare = |measure, pairs: Vec<(f64, f64)>| {
                    let (point, contenders) = (*point, (first, second));
                    let paired = Paired::of(&pairs);
                    rivalries.push(Rivalry { point, contenders, measure, paired });
                };
                let success = |tally: &Tally| f64::from(u8::from(tally.success()));
                compare("success", both.iter().map(|(a, b)| (success(a), success(b))).collect());
                for Measure { name, of, .. } in &MEASURES {
                    let ran = both.iter().filter(|(a, b)| a.accepted && b.accepted);
                    compare(name, ran.map(|(a, b)| (of(a), of(b))).collect());
                }
            }
        }
    }
    rivalries
}

fn point_columns() -> Vec<Column> {
    vec![
        Column::new("cores", Kind::Whole),
        Column::new("utilization", Kind::Number).optional(),
        Column::new("tasks", Kind::Whole).optional(),
    ]
}

fn point_cells(point: &Point) -> Row {
    vec![
        Value::Whole(point.cores as u64),
        Value::maybe(point.utilization, |it| Value::Number(f64::from(it) / f64::from(MILLION))),
        Value::maybe(point.tasks, |tasks| Value::Whole(tasks as u64)),
    ]
}

/// The columns of [`run_rows`].
pub fn run_columns() -> Vec<Column> {
    let mut columns = point_columns();
    columns.extend([
        Column::new("set", Kind::Whole),
        Column::new("file", Kind::Text).optional(),
        Column::new("seed", Kind::Whole),
        Column::new("set_tasks", Kind::Whole),
        Column::new("set_utilization", Kind::Number),
        Column::new("policy", Kind::Text),
        Column::new("accepted", Kind::Flag),
        Column::new("success", Kind::Flag),
    ]);
    let counts = [
        "released",
        "completed",
        "missed",
        "tardiness_max_ns",
        "tardiness_sum_ns",
        "preemptions",
        "migrations",
        "task_migrations",
        "decisions",
        "depth",
        "charged_ns",
    ];
    columns.extend(counts.map(|name| Column::new(name, Kind::Whole)));
    columns
}

/// Every run: points in their order, then sets, then policies.
pub fn run_rows(study: &Study, finished: &[Finished]) -> impl Iterator<Item = Row> {
    let points = 0..study.points.len();
    let items = points.flat_map(move |place| of_point(study, place, finished));
    items.flat_map(move |item| {
        let all = study.contenders.iter().zip(&finished[item].tallies);
        all.map(move |(contender, tally)| {
            let set = &finished[item];
            let point = study.point(item);
            let mut row = point_cells(point);
            row.extend([
                Value::Whole(study.set_number(item) as u64),
                Value::maybe(study.file(item), |file| Value::Text(file.into())),
                Value::Whole(study.seed(item)),
                Value::Whole(set.tasks),
                Value::Number(set.load_ppb as f64 / PPB as f64 / point.cores as f64),
                Value::Text(contender.label.clone()),
                Value::Flag(tally.accepted),
                Value::Flag(tally.success()),
            ]);
            let counts = [
                tally.released,
                tally.completed,
                tally.missed,
                tally.tardiness_max_ns,
                tally.tardiness_sum_ns,
                tally.preemptions,
                tally.migrations,
                tally.task_migrations,
                tally.decisions,
                tally.depth,
                tally.charged_ns,
            ];
            row.extend(counts.map(Value::Whole));
            row
        })
    })
}

/// The columns of [`standing_rows`].
pub fn standing_columns() -> Vec<Column> {
    let mut columns = point_columns();
    columns.push(Column::new("policy", Kind::Text));
    columns.extend(["sets", "accepted", "succeeded"].map(|name| Column::new(name, Kind::Whole)));
    let ends = ["success", "success_low", "success_high"];
    columns.extend(ends.map(|name| Column::new(name, Kind::Number)));
    for Measure { name, .. } in &MEASURES {
        let ends = [(*name).to_owned(), format!("{name}_low"), format!("{name}_high")];
        columns.extend(ends.map(|name| Column::new(name, Kind::Number).optional()));
    }
    columns
}

/// A mean of so many values and the ends of its interval; one value has none.
fn with_ends(mean: &Mean, values: u64) -> [Value; 3] {
    let end = |end| if values > 1 { Value::Number(end) } else { Value::Missing };
    [Value::Number(mean.mean), end(mean.low()), end(mean.high())]
}

/// One row for each standing.
pub fn standing_rows(study: &Study, standings: &[Standing]) -> impl Iterator<Item = Row> {
    standings.iter().map(|it| {
        let mut row = point_cells(&it.point);
        row.push(Value::Text(study.contenders[it.contender].label.clone()));
        row.extend([it.sets, it.accepted, it.succeeded].map(Value::Whole));
        let Share { share, low, high } = it.success();
        row.extend([share, low, high].map(Value::Number));
        match &it.means {
            Some(means) => {
                row.extend(means.iter().flat_map(|mean| with_ends(mean, it.accepted)));
            }
            None => row.extend(std::iter::repeat_n(Value::Missing, 3 * MEASURES.len())),
        }
        row
    })
}

/// The columns of [`rivalry_rows`].
pub fn rivalry_columns() -> Vec<Column> {
    let mut columns = point_columns();
    columns.extend(["policy_a", "policy_b", "measure"].map(|name| Column::new(name, Kind::Text)));
    columns.push(Column::new("sets", Kind::Whole));
    let numbers = ["mean_a", "mean_b", "difference", "difference_low", "difference_high"];
    columns.extend(numbers.map(|name| Column::new(name, Kind::Number).optional()));
    columns.extend(["a_lower", "equal", "a_higher"].map(|name| Column::new(name, Kind::Whole)));
    columns.push(Column::new("p", Kind::Number));
    columns
}

/// One row for each rivalry.
pub fn rivalry_rows(study: &Study, rivalries: &[Rivalry]) -> impl Iterator<Item = Row> {
    rivalries.iter().map(|it| {
        let mut row = point_cells(&it.point);
        let label = |place: usize| Value::Text(study.contenders[place].label.clone());
        row.extend([label(it.contenders.0), label(it.contenders.1)]);
        let paired = &it.paired;
        row.extend([Value::Text(it.measure.into()), Value::Whole(paired.count as u64)]);
        if paired.count > 0 {
            row.extend([paired.first, paired.second].map(Value::Number));
            row.extend(with_ends(&paired.difference, paired.count as u64));
        } else {
            row.extend(std::iter::repeat_n(Value::Missing, 5));
        }
        row.extend([paired.lower, paired.equal, paired.higher].map(Value::Whole));
        row.push(Value::Number(paired.p));
        row
    })
}
