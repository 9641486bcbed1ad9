//! Preemptions and migrations per job against the depth of RUN's tree and of QPS's hierarchy (the
//! slides' page on per-job scheduling interference).

use super::regression::Regression;
use super::{
    HARMONIC, UNIFORM, all_met, free_until, part, per_job, recipe, subjects, trials, with_interval,
};
use crate::figure::{Drawing, Figure, Line};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::stats::Mean;
use crate::{Error, Experiment, Kind, Lab};
use maracas_core::Duration;
use maracas_policies::interference::{self, Interference};
use maracas_sweep::{Subject, Tally};
use std::collections::BTreeMap;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ecrts15-interference",
    title: "interference per job against the depth of tree and hierarchy",
    summary: "Sets of m + 1 to 4 m tasks on m = 4, 8 and 16 cores with loads of 95 and 100 %, \
              harmonic periods and others; preemptions and migrations per job by the number of \
              RUN's reductions and of QPS's hierarchy levels.",
    source: "Compagnin, Mezzetti and Vardanega, ECRTS 2015, slide \"Per-job scheduling \
             interference\"; curves without numbers",
    kind: Kind::Predicts,
    free: "none",
    fitted: "",
    run,
};

/// Sets of each kind.
const SETS: usize = 10;

/// Simulated time: two hyperperiods of the harmonic sets.
const UNTIL_MS: u64 = 400;

/// One kind of sets.
#[derive(Clone, Copy)]
struct Shape {
    cores: usize,
    percent: u64,
    tasks: usize,
    periods: &'static str,
}

fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for cores in [4, 8, 16] {
        for percent in [95, 100] {
            // From hardly more tasks than cores, which cannot be packed, to four a core.
            for tasks in
                [cores + 1, cores * 5 / 4 + 1, cores * 3 / 2, cores * 2, cores * 3, cores * 4]
            {
                for periods in [HARMONIC, UNIFORM] {
                    shapes.push(Shape { cores, percent, tasks, periods });
                }
            }
        }
    }
    shapes
}

/// What the two policies did with one set, RUN first.
struct Pair {
    cores: usize,
    tallies: Vec<Tally>,
    /// What their structures let happen at most; `None` where a policy does not admit the set.
    most: Vec<Option<Interference>>,
}

const POLICIES: [&str; 2] = ["run", "qps"];
const WORDS: [&str; 2] = ["RUN, reductions", "QPS, hierarchy levels"];

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let sets = lab.seeds(SETS) as u64;
    let draws: Vec<(Shape, u64)> =
        shapes().into_iter().flat_map(|shape| (0..sets).map(move |_| shape)).zip(0..).collect();
    let subjects = subjects(&POLICIES)?;
    let one = |(shape, seed): &(Shape, u64)| {
        let Shape { cores, percent, tasks, periods } = *shape;
        let recipe = recipe(cores, percent, Some(tasks), "randfixedsum:0.001..1", periods)?;
        let set = recipe.draw(*seed).map_err(Error)?;
        let until = Duration::from_millis(UNTIL_MS);
        let most = |Subject { entry, params }: &Subject| {
            interference::of(entry.name, &set.system(cores), params, until)?.ok()
        };
        let most = subjects.iter().map(most).collect();
        Ok(Pair { cores, tallies: trials(&set, cores, &subjects, &free_until(UNTIL_MS)), most })
    };
    let found = lab.map(&draws, one).into_iter().collect::<Result<Vec<Pair>, Error>>()?;
    let slopes = [0, 1].map(|policy| slope(&found, policy));
    Ok(Findings {
        notes: vec![format!(
            "{} sets. The slope is that of preemptions per job over depth, all sets together, by \
             least squares with its 95 % interval (HC3, since the spread grows with depth). Deep \
             structures come with full loads, many cores and few tasks, so it shows what goes \
             together, not what depth alone does.",
            found.len()
        )],
        tables: vec![depth_table(&found), slope_table(&slopes)],
        figures: vec![figure(&found)],
        verdicts: verdicts(&found, &slopes),
    })
}

/// Preemptions and migrations per job by depth.
fn by_depth(found: &[Pair], policy: usize) -> BTreeMap<u64, Vec<[f64; 2]>> {
    let mut depths: BTreeMap<u64, Vec<[f64; 2]>> = BTreeMap::new();
    for tally in found.iter().map(|pair| &pair.tallies[policy]) {
        let counts = [tally.preemptions, tally.migrations].map(|count| per_job(tally, count));
        depths.entry(tally.depth).or_default().push(counts);
    }
    depths
}

fn depth_table(found: &[Pair]) -> Table {
    let columns =
        ["structure", "depth", "sets", "preemptions per job", "largest", "migrations per job"];
    let mut table = Table::new("", "Interference by depth, means over sets", &columns);
    for (policy, word) in WORDS.iter().enumerate() {
        for (depth, counts) in by_depth(found, policy) {
            let of = |which: usize| counts.iter().map(|it| it[which]).collect::<Vec<f64>>();
            table.row(vec![
                Cell::text(*word),
                Cell::Number(depth as f64, 0),
                Cell::Number(counts.len() as f64, 0),
                Cell::Text(with_interval(&Mean::of(&of(0)), 3)),
                Cell::Number(of(0).into_iter().fold(0.0, f64::max), 3),
                Cell::Text(with_interval(&Mean::of(&of(1)), 3)),
            ]);
        }
    }
    table
}

/// Of preemptions per job over depth, where there is anything to see.
fn slope(found: &[Pair], policy: usize) -> Option<Regression> {
    let point = |pair: &Pair| {
        let tally = &pair.tallies[policy];
        (tally.depth as f64, per_job(tally, tally.preemptions))
    };
    Regression::of(&found.iter().map(point).collect::<Vec<_>>())
}

fn slope_table(slopes: &[Option<Regression>; 2]) -> Table {
    let columns = ["structure", "sets", "slope (preemptions per job and level)", "+-"];
    let mut table = Table::new("slopes", "Growth of preemptions per job with depth", &columns);
    for (word, slope) in WORDS.iter().zip(slopes) {
        let number = |value: Option<f64>, decimals| {
            value.map_or(Cell::Missing, |value| Cell::Number(value, decimals))
        };
        table.row(vec![
            Cell::text(*word),
            number(slope.map(|it| it.points as f64), 0),
            number(slope.map(|it| it.slope), 3),
            number(slope.map(|it| it.half_width), 3),
        ]);
    }
    table
}

fn figure(found: &[Pair]) -> Figure {
    let line = |policy: usize| {
        let mean = |(depth, counts): (u64, Vec<[f64; 2]>)| {
            let sum: f64 = counts.iter().map(|it| it[0]).sum();
            (depth as f64, sum / counts.len() as f64)
        };
        Line::new(WORDS[policy], by_depth(found, policy).into_iter().map(mean).collect())
    };
    Figure {
        name: String::new(),
        title: "Preemptions per job by depth".into(),
        drawing: Drawing::Lines {
            along: "depth of tree or hierarchy".into(),
            logarithmic: false,
            share: false,
            left: "preemptions per job".into(),
            right: None,
            lines: vec![line(0), line(1)],
        },
    }
}

/// Whether no run exceeds what the structure of either policy lets happen.
fn within_structure(found: &[Pair]) -> Verdict {
    let most = |policy: usize, part: fn(&Tally, &Interference) -> f64| {
        let parts = found.iter().map(|pair| {
            // A set that was run is bounded, or nothing was shown of it.
            pair.most[policy].as_ref().map_or(f64::INFINITY, |it| part(&pair.tallies[policy], it))
        });
        parts.fold(0.0, f64::max)
    };
    let parts: [fn(&Tally, &Interference) -> f64; 3] = [
        |run, most| part(run.preemptions, most.preemptions),
        |run, most| part(run.migrations, most.migrations),
        |run, most| part(run.decisions, most.decisions),
    ];
    let [run, qps] = [0, 1].map(|policy| parts.map(|part| most(policy, part)));
    let shown = |parts: [f64; 3]| parts.map(|part| number(part, 2)).join(", ");
    Verdict::new(
        "no run has more preemptions, migrations or decisions than RUN's tree or QPS's hierarchy \
         allows",
        !found.is_empty() && run.iter().chain(&qps).all(|part| *part <= 1.0),
        format!("at most so much of the bounds: RUN {}; QPS {}", shown(run), shown(qps)),
    )
}

fn verdicts(found: &[Pair], slopes: &[Option<Regression>; 2]) -> Vec<Verdict> {
    let all = || found.iter().flat_map(|pair| &pair.tallies);
    let met = all().filter(|tally| all_met(tally)).count();
    let runs = found.iter().map(|pair| &pair.tallies[0]);
    let deepest = runs.clone().map(|tally| tally.depth).max().unwrap_or(0);
    let deepest_qps = found.iter().map(|pair| pair.tallies[1].depth).max().unwrap_or(0);
    // The bound is meant for p >= 1 (algorithms.md A.1).
    let bound = |tally: &Tally| (3 * tally.depth + 1) as f64 / 2.0;
    let mut bounded = runs.filter(|tally| tally.depth > 0);
    let within = bounded.clone().all(|tally| per_job(tally, tally.preemptions) <= bound(tally));
    let most = bounded.clone().map(|tally| per_job(tally, tally.preemptions)).fold(0.0, f64::max);
    let any = bounded.next().is_some();
    let rises = |slope: &Option<Regression>| slope.is_some_and(|it| it.slope > it.half_width);
    let said = |slope: &Option<Regression>| {
        slope.map_or("no slope".into(), |it| {
            format!("{} +- {} per level", number(it.slope, 3), number(it.half_width, 3))
        })
    };
    let small = found.iter().filter(|pair| pair.cores == 4).map(|pair| pair.tallies[1].depth).max();
    vec![
        Verdict::new(
            "neither policy misses a deadline",
            met == all().count(),
            format!("{met} of {} runs", all().count()),
        ),
        Verdict::new(
            "RUN preempts at most (3p + 1) / 2 times a job after p >= 1 reductions",
            within && any,
            format!("at most {} in sets with up to {deepest} reductions", number(most, 2)),
        ),
        within_structure(found),
        Verdict::new(
            "QPS's interference grows with the depth of its hierarchy",
            rises(&slopes[1]),
            said(&slopes[1]),
        ),
        Verdict::new(
            "RUN's interference grows with its reductions",
            rises(&slopes[0]),
            said(&slopes[0]),
        ),
        Verdict::new(
            "QPS's hierarchies grow deeper than RUN's trees",
            deepest_qps > deepest,
            format!(
                "at most {deepest_qps} levels (4 cores: {}) against {deepest}",
                small.unwrap_or(0)
            ),
        ),
    ]
}
