//! What a sweep found: every run, every point, every pair of policies.

use crate::Error;
use crate::admission;
use crate::ledger::Finished;
use crate::results::Results;
use crate::stats::{Mean, Paired, Running, RunningPairs, Share};
use crate::study::{Contender, Point, Study};
use crate::table::{Column, Kind, Row, Rows, Value};
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

/// What one policy came to at a point, while its sets are gone through.
#[derive(Clone, Default)]
struct Count {
    sets: u64,
    accepted: u64,
    succeeded: u64,
    measures: [Running; MEASURES.len()],
}

impl Count {
    fn add(&mut self, tally: &Tally) {
        self.sets += 1;
        self.accepted += u64::from(tally.accepted);
        self.succeeded += u64::from(tally.success());
        self.each(tally, Running::add);
    }
    fn spread(&mut self, tally: &Tally) {
        self.each(tally, Running::spread);
    }
    fn each(&mut self, tally: &Tally, take: fn(&mut Running, f64)) {
        if tally.accepted {
            let running = self.measures.iter_mut().zip(&MEASURES);
            running.for_each(|(running, measure)| take(running, (measure.of)(tally)));
        }
    }
}

/// Every policy at every point: points in their order, then policies in theirs.
///
/// # Errors
/// Where the results cannot be read.
pub fn standings(study: &Study, results: &Results) -> Result<Vec<Standing>, Error> {
    let mut standings = Vec::new();
    for (place, point) in study.points.iter().enumerate() {
        let mut counts = vec![Count::default(); study.contenders.len()];
        for take in [Count::add, Count::spread] {
            for finished in results.of_point(place) {
                let tallies = finished?.tallies;
                counts.iter_mut().zip(&tallies).for_each(|(count, tally)| take(count, tally));
            }
        }
        standings.extend(counts.into_iter().enumerate().map(|(contender, count)| {
            let Count { sets, accepted, succeeded, measures } = count;
            let means = (accepted > 0).then(|| measures.each_ref().map(Running::mean));
            Standing { point: *point, contender, sets, accepted, succeeded, means }
        }));
    }
    Ok(standings)
}

/// Two policies at a point, while its sets are gone through: success, then the measures.
#[derive(Clone, Default)]
struct Contest {
    success: RunningPairs,
    measures: [RunningPairs; MEASURES.len()],
}

impl Contest {
    fn each(&mut self, tallies: [&Tally; 2], take: fn(&mut RunningPairs, f64, f64)) {
        let [first, second] = tallies;
        let success = |tally: &Tally| f64::from(u8::from(tally.success()));
        take(&mut self.success, success(first), success(second));
        if first.accepted && second.accepted {
            let pairs = self.measures.iter_mut().zip(&MEASURES);
            pairs.for_each(|(pairs, Measure { of, .. })| take(pairs, of(first), of(second)));
        }
    }
}

/// Every pair of policies at every point: success first, then the measures in their order.
///
/// # Errors
/// Where the results cannot be read.
pub fn rivalries(study: &Study, results: &Results) -> Result<Vec<Rivalry>, Error> {
    let seconds = 1..study.contenders.len();
    let both = seconds.flat_map(|second| (0..second).map(move |first| (first, second)));
    let both: Vec<_> = both.collect();
    let mut rivalries = Vec::new();
    for (place, point) in study.points.iter().enumerate() {
        let mut contests = vec![Contest::default(); both.len()];
        for take in [RunningPairs::add, RunningPairs::spread] {
            for finished in results.of_point(place) {
                let tallies = finished?.tallies;
                for (contest, (first, second)) in contests.iter_mut().zip(&both) {
                    contest.each([&tallies[*first], &tallies[*second]], take);
                }
            }
        }
        for (Contest { success, measures }, contenders) in contests.iter().zip(&both) {
            let names = MEASURES.iter().map(|measure| measure.name);
            let measured = std::iter::once(("success", success)).chain(names.zip(measures));
            rivalries.extend(measured.map(|(measure, pairs)| Rivalry {
                point: *point,
                contenders: *contenders,
                measure,
                paired: pairs.paired(),
            }));
        }
    }
    Ok(rivalries)
}

pub(crate) fn point_columns() -> Vec<Column> {
    vec![
        Column::new("cores", Kind::Whole),
        Column::new("utilization", Kind::Number).optional(),
        Column::new("tasks", Kind::Whole).optional(),
    ]
}

pub(crate) fn point_cells(point: &Point) -> Row {
    let cells = [
        Value::Whole(point.cores as u64),
        Value::maybe(point.utilization, |it| Value::Number(f64::from(it) / f64::from(MILLION))),
        Value::maybe(point.tasks, |tasks| Value::Whole(tasks as u64)),
    ];
    // Room for the widest of the rows that begin so.
    let mut row = Vec::with_capacity(40);
    row.extend(cells);
    row
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
        Column::new("admitted_by", Kind::Text).optional(),
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
pub fn run_rows<'a>(study: &'a Study, results: &'a Results) -> Rows<'a> {
    let sets = (0..study.points.len()).flat_map(|place| results.of_point(place));
    Box::new(sets.flat_map(|finished| match finished {
        Ok(set) => rows_of_set(study, &set).into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    }))
}

/// A row for each policy.
fn rows_of_set(study: &Study, set: &Finished) -> Vec<Row> {
    let point = study.point(set.item);
    let row = |((contender, tally), admitted): ((&Contender, &Tally), &u64)| {
        let mut row = point_cells(point);
        row.extend([
            Value::Whole(study.set_number(set.item) as u64),
            Value::maybe(study.file(set.item), |file| Value::Text(file.into())),
            Value::Whole(study.seed(set.item)),
            Value::Whole(set.tasks),
            Value::Number(set.load_ppb as f64 / PPB as f64 / point.cores as f64),
            Value::Text(contender.label.clone()),
            Value::maybe(admission::words(contender, *admitted), Value::Text),
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
    };
    study.contenders.iter().zip(&set.tallies).zip(&set.admitted).map(row).collect()
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
pub fn standing_rows<'a>(study: &'a Study, standings: &'a [Standing]) -> Rows<'a> {
    Box::new(standings.iter().map(|it| {
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
        Ok(row)
    }))
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
pub fn rivalry_rows<'a>(study: &'a Study, rivalries: &'a [Rivalry]) -> Rows<'a> {
    Box::new(rivalries.iter().map(|it| {
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
        Ok(row)
    }))
}
