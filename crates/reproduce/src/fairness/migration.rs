//! What changing places costs.

use super::applications::{MIXES, Rule, applications};
use super::course::Course;
use super::{MAX_FAIR, MAX_PERF, MIN_FAIR, PHENOM, SIMILAR, all_mixes, courses, share};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict};
use crate::stats::Mean;
use crate::{Error, Experiment, Kind, Lab};
use maracas_trace::report::TaskReport;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fairness-migration",
    title: "the cost of migrations",
    summary: "The mixes once with migrations that cost nothing and once with migrations that cost \
              what it takes to fill the private caches again from the shared one; the part of the \
              applications' time that this takes, by mix.",
    source: "Kim and Huh, slide \"Sampling-based Speedup Estimation\": less than 1.8 % at worst on \
             cores that share a last-level cache",
    kind: Kind::Predicts,
    free: "the cost of one migration, 110 us: 64 KiB and 512 KiB of private caches (the \
           processor's L1 and L2) in lines of 64 bytes at 12 ns from the L3, an upper bound, since \
           an application seldom uses all of it",
    fitted: super::CLOCKS_FIT,
    run,
};

/// The cost of one migration.
const COST: &str = "110us";
/// Published: the most that migrations cost.
const PUBLISHED: f64 = 0.018;

/// The same in nanoseconds.
const COST_NS: f64 = 110_000.0;

/// What migrations came to under one policy.
#[derive(Default)]
struct Cost {
    /// By mix: the part of the time on cores that migrations took, in percent.
    means: Vec<f64>,
    /// The most of any application, and in which mix.
    worst: (f64, &'static str),
    /// By mix: migrations per second of all threads.
    rates: Vec<f64>,
    /// By mix, SAME left out: how much longer the applications took on the average.
    slowdowns: Vec<f64>,
    /// The most by which any of these took longer, and in which mix.
    latest: (f64, &'static str),
}

impl Cost {
    fn add(&mut self, mix: &'static str, free: &Course, charged: &Course) {
        let tasks = &charged.report.tasks;
        let lost = |task: &TaskReport| {
            let on_cores = (task.foreground_ns + task.background_ns) as f64;
            task.migrations as f64 * COST_NS / on_cores
        };
        let lost: Vec<f64> = tasks.iter().map(lost).collect();
        let most = lost.iter().copied().fold(0.0, f64::max);
        if most > self.worst.0 {
            self.worst = (most, mix);
        }
        self.means.push(lost.iter().sum::<f64>() / lost.len() as f64 * 100.0);
        let migrations: u64 = tasks.iter().map(|task| task.migrations).sum();
        self.rates.push(migrations as f64 / (charged.report.duration_ns as f64 / 1e9));
        if mix != "SAME" {
            let pairs = free.finished_s.iter().zip(&charged.finished_s);
            let longer: Vec<f64> = pairs.map(|(free, charged)| charged / free - 1.0).collect();
            self.slowdowns.push(longer.iter().sum::<f64>() / longer.len() as f64);
            let most = longer.iter().copied().fold(0.0, f64::max);
            if most > self.latest.0 {
                self.latest = (most, mix);
            }
        }
    }
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let all = applications()?;
    let mixes = all_mixes(&all, 6);
    let rules = [MAX_FAIR, MAX_PERF, MIN_FAIR, SIMILAR];
    let charged = rules.map(|rule| Rule { migration: COST, ..rule });
    let [free, charged] =
        [courses(lab, &PHENOM, &mixes, &rules)?, courses(lab, &PHENOM, &mixes, &charged)?];
    let mut table = Table::new(
        "",
        "Time that migrations take",
        &[
            "policy",
            "mean (%)",
            "worst application (%)",
            "in",
            "slowdown (%)",
            "worst slowdown (%)",
            "in the mix",
            "migrations/s",
        ],
    );
    let (mut series, mut most) = (Vec::new(), (0.0, ""));
    for (place, rule) in rules.iter().enumerate() {
        let mut cost = Cost::default();
        for (mix, (free, charged)) in MIXES.iter().zip(free.iter().zip(&charged)) {
            cost.add(mix, &free[place], &charged[place]);
        }
        table.row(vec![
            Cell::text(rule.name),
            Cell::Number(Mean::of(&cost.means).mean, 2),
            Cell::Number(cost.worst.0 * 100.0, 2),
            Cell::text(cost.worst.1),
            Cell::Number(Mean::of(&cost.slowdowns).mean * 100.0, 2),
            Cell::Number(cost.latest.0 * 100.0, 2),
            Cell::text(cost.latest.1),
            Cell::Number(Mean::of(&cost.rates).mean, 1),
        ]);
        if cost.latest.0 > most.0 {
            most = cost.latest;
        }
        series.push((rule.name.to_string(), cost.means));
    }
    Ok(Findings {
        notes: vec![
            "The time that migrations take is their number times the cost, over the application's \
             time on cores; as threads change places once in a round of 30 ms at most, that cannot \
             be more than 0.4 % and is no claim. The slowdown is how much longer the applications \
             took until they finished, the mean over the mixes but SAME: of six equal \
             applications, which ones get the fast cores hangs on the smallest things."
                .into(),
        ],
        figures: vec![Figure {
            name: String::new(),
            title: format!("Time that migrations of {COST} take"),
            drawing: Drawing::Bars {
                axis: "of the time on cores (%)".into(),
                groups: MIXES.iter().map(ToString::to_string).collect(),
                series,
            },
        }],
        tables: vec![table],
        verdicts: vec![verdict(most)],
    })
}

/// `most` is by how much longer any application took at most, and in which mix.
fn verdict(most: (f64, &str)) -> Verdict {
    Verdict::new(
        "no application takes longer for migrations by more than the published 1.8 %",
        most.0 <= PUBLISHED,
        format!("{} at worst, in {}", share(most.0), most.1),
    )
    .because(
        "Charged migrations move the instants at which threads change places, and with them \
             which thread is where when it finishes: that, not the time that is charged, is most \
             of the difference.",
    )
}
