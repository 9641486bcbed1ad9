//! Figure 8: VCPU load balancing against static placement (algorithms.md G.5, X5).

use super::draw::tasks;
use super::{MIGRATIONS, head, list, program};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number, percent};
use crate::stats::{Mean, relative};
use crate::{Error, Experiment, Kind, Lab, Run, Setup};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-fig8",
    title: "VCPU load balancing",
    summary: "Sixteen compress start a second apart, T = 100 ms, C drawn between 1 and 14 ms; \
              fourteen end after 2 to 11 minutes, task1 and task2 go on. Background instructions \
              of these two over ten minutes, placed once (static) or balanced (VLB).",
    source: "MARACAS, Figure 8 (section VI.C); the bars' values are not printed",
    kind: Kind::Predicts,
    free: "the sets k0 to k9, which the paper does not give, are our first ten draws; task1 and \
           task2 start last",
    fitted: super::PLATFORM_FIT,
    run,
};

/// Tasks of a set, the observed two among them.
const TASKS: usize = 16;
/// Sets of the figure.
const SHOWN: usize = 10;
/// Sets over which differences are averaged.
const SEEDS: usize = 100;
/// Ten minutes from when the last task has started.
const SECONDS: u32 = 615;

fn setup(set: usize, balance: &str) -> Setup {
    let what = format!("MARACAS, Figure 8: set k{set}, {balance}.");
    let mut text = head(&what, &format!("balance = \"{balance}\"\n"), SECONDS);
    text += MIGRATIONS;
    for (place, task) in tasks(set, TASKS).iter().enumerate() {
        let observed = place + 2 >= TASKS;
        let name = if observed {
            format!("task{}", place + 3 - TASKS)
        } else {
            format!("compress{}", place + 1)
        };
        text += &program(&name, (task.budget, 100.0), None, "\"compress\"");
        text += &format!("start = \"{place}s\"\n");
        if !observed {
            let stop = (place as f64 + task.seconds) * 1000.0;
            text += &format!("stop = \"{}ms\"\n", stop.round() as u64);
        }
    }
    Setup::new(format!("k{set}-{balance}"), text)
}

/// Background instructions of task1 and task2, in 1e9.
fn progress(run: &Run) -> [f64; 2] {
    ["task1", "task2"].map(|name| run.background(name).instructions as f64 / 1e9)
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let sets = lab.seeds(SEEDS);
    let setups: Vec<_> =
        (0..sets).flat_map(|set| ["static", "vlb"].map(|balance| setup(set, balance))).collect();
    let progress: Vec<[f64; 2]> = lab.run(&setups)?.iter().map(progress).collect();
    let of = |balance: usize| progress.iter().skip(balance).step_by(2);
    let apart = |balance| of(balance).map(|[one, two]| (one - two).abs()).collect::<Vec<_>>();
    let (fixed, balanced) = (apart(0), apart(1));
    let (mean_fixed, mean_balanced) = (Mean::of(&fixed), Mean::of(&balanced));
    let columns = ["set", "static task1", "static task2", "VLB task1", "VLB task2"];
    let mut table = Table::new("", "Instructions in the background, in 1e9", &columns);
    for (set, pair) in progress.chunks(2).take(SHOWN).enumerate() {
        let mut row = vec![Cell::Text(format!("k{set}"))];
        row.extend(pair.iter().flatten().map(|value| Cell::Number(*value, 1)));
        table.row(row);
    }
    let bars = |balance: usize, task: usize| of(balance).take(SHOWN).map(|it| it[task]).collect();
    Ok(Findings {
        notes: Vec::new(),
        figures: vec![Figure {
            name: String::new(),
            title: "Figure 8: instructions retired in background mode".into(),
            drawing: Drawing::Bars {
                axis: "background instructions (1e9)".into(),
                groups: (0..sets.min(SHOWN)).map(|set| format!("k{set}")).collect(),
                series: vec![
                    ("static task1".into(), bars(0, 0)),
                    ("static task2".into(), bars(0, 1)),
                    ("VLB task1".into(), bars(1, 0)),
                    ("VLB task2".into(), bars(1, 1)),
                ],
            },
        }],
        tables: vec![table, differences(sets, mean_fixed, mean_balanced)],
        verdicts: verdicts(&progress, mean_fixed, mean_balanced),
    })
}

fn differences(sets: usize, fixed: Mean, balanced: Mean) -> Table {
    let title = format!("|task1 - task2| over {sets} sets, in 1e9");
    let columns = ["placement", "mean", "95 % confidence, from", "to"];
    let mut table = Table::new("differences", &title, &columns);
    for (name, mean) in [("static", fixed), ("VLB", balanced)] {
        let number = |value| Cell::Number(value, 2);
        table.row(vec![
            Cell::text(name),
            number(mean.mean),
            number(mean.low()),
            number(mean.high()),
        ]);
    }
    table
}

fn verdicts(progress: &[[f64; 2]], fixed: Mean, balanced: Mean) -> Vec<Verdict> {
    let spread = |balance: usize| {
        let values: Vec<f64> =
            progress.iter().skip(balance).step_by(2).flatten().copied().collect();
        let mean = Mean::of(&values).mean;
        let square = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
        (square / values.len() as f64).sqrt() / mean
    };
    let (spread_fixed, spread_balanced) = (spread(0), spread(1));
    let mean = |balance: usize| {
        let values: Vec<f64> =
            progress.iter().skip(balance).step_by(2).flatten().copied().collect();
        Mean::of(&values).mean
    };
    vec![
        Verdict::new(
            "task1 and task2 are on average at most half as far apart under VLB as under static",
            balanced.mean <= fixed.mean / 2.0,
            format!(
                "{} (+-{}) against {} (+-{}) 1e9 instructions",
                number(balanced.mean, 2),
                number(balanced.half_width, 2),
                number(fixed.mean, 2),
                number(fixed.half_width, 2)
            ),
        ),
        Verdict::new(
            "progress varies less from set to set under VLB",
            spread_balanced < spread_fixed,
            format!(
                "standard deviation {} against {} % of the mean",
                number(spread_balanced * 100.0, 1),
                number(spread_fixed * 100.0, 1)
            ),
        ),
        Verdict::new(
            "VLB costs the two no progress on average",
            mean(1) >= mean(0) * 0.99,
            format!(
                "mean {} 1e9 instructions (static, VLB), {}",
                list(&[mean(0), mean(1)], 1),
                percent(relative(mean(1), mean(0)))
            ),
        ),
    ]
}
