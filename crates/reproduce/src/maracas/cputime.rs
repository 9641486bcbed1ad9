//! Balancing by CPU time, as Linux does (section V.A).

use super::draw::tasks;
use super::{MIGRATIONS, head, program};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::stats::Mean;
use crate::{Error, Experiment, Kind, Lab, Run, Setup};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-cputime",
    title: "balancing by CPU time, as Linux does",
    summary: "The sixteen compress of Figure 8, T = 100 ms and C drawn between 1 and 14 ms, all \
              busy for a minute. Balanced by slack per VCPU with surplus time by fair (VLB); and \
              as Linux does for tasks of one priority: as many on each core, and the same CPU time \
              for each (turns of 1 ms). Surplus time is what a VCPU has beyond C / T.",
    source: "MARACAS, section V.A: balancing so that VCPUs have the same CPU time would leave \
             those with larger reservations less background time; no numbers",
    kind: Kind::Predicts,
    free: "the sets, our first twenty draws as in maracas-fig8; the length of a turn",
    fitted: super::PLATFORM_FIT,
    run,
};

const TASKS: usize = 16;
const SETS: usize = 20;
const SECONDS: u32 = 60;
const WAYS: [&str; 2] = ["slack", "time"];
const SAID: [&str; 2] = ["by slack (VLB)", "by CPU time"];
/// The largest and the smallest budgets that are compared.
const ENDS: usize = 4;

fn setup(set: usize, way: usize) -> Setup {
    let what = format!("MARACAS, section V.A: set k{set}, balanced {}.", SAID[way]);
    let params = ["balance = \"vlb\"\n", "quantum = \"1ms\"\n"][way];
    let mut text = head(&what, params, SECONDS);
    if way == 0 {
        text += MIGRATIONS;
    } else {
        text = text.replace("name = \"maracas\"", "name = \"round-robin\"");
    }
    for (place, task) in tasks(set, TASKS).iter().enumerate() {
        let core = (way == 1).then_some(place as u32 % 4);
        text += &program(&format!("t{place}"), (task.budget, 100.0), core, "\"compress\"");
    }
    Setup::new(format!("k{set}-{}", WAYS[way]), text)
}

/// Surplus time of each VCPU in seconds of the minute, from the smallest budget to the largest.
fn surplus(run: &Run, set: usize) -> Vec<f64> {
    let mut each: Vec<(f64, f64)> = tasks(set, TASKS)
        .iter()
        .enumerate()
        .map(|(place, drawn)| {
            let task = run.task(&format!("t{place}"));
            let all = (task.foreground_ns + task.background_ns) as f64 / 1e9;
            (drawn.budget, all - drawn.budget / 100.0 * run.seconds())
        })
        .collect();
    each.sort_by(|a, b| a.0.total_cmp(&b.0));
    each.into_iter().map(|(_, surplus)| surplus).collect()
}

/// What a way of balancing came to over all sets, in seconds.
struct Balanced {
    small: Mean,
    large: Mean,
    /// Between the VCPU with most and the one with least, by set.
    apart: Mean,
}

impl Balanced {
    fn of(sets: &[Vec<f64>]) -> Self {
        let mean =
            |of: &dyn Fn(&Vec<f64>) -> f64| Mean::of(&sets.iter().map(of).collect::<Vec<_>>());
        let part = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let most = |it: &[f64]| it.iter().copied().fold(f64::MIN, f64::max);
        let least = |it: &[f64]| it.iter().copied().fold(f64::MAX, f64::min);
        Self {
            small: mean(&|it| part(&it[..ENDS])),
            large: mean(&|it| part(&it[it.len() - ENDS..])),
            apart: mean(&|it| most(it) - least(it)),
        }
    }
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let sets = lab.seeds(SETS);
    let setups: Vec<_> = (0..sets).flat_map(|set| [0, 1].map(|way| setup(set, way))).collect();
    let runs = lab.run(&setups)?;
    let of = |way: usize| -> Vec<Vec<f64>> {
        (0..sets).map(|set| surplus(&runs[2 * set + way], set)).collect()
    };
    let all = [of(0), of(1)];
    let balanced = [Balanced::of(&all[0]), Balanced::of(&all[1])];
    let mut table = Table::new(
        "",
        &format!("Surplus time over {sets} sets, in seconds of a minute (95 % confidence)"),
        &[
            "balanced",
            "four smallest C",
            "+-",
            "four largest C",
            "+- s",
            "most less least",
            "+- (s)",
        ],
    );
    for (name, it) in SAID.iter().zip(&balanced) {
        let mut row = vec![Cell::text(*name)];
        for mean in [&it.small, &it.large, &it.apart] {
            row.extend([Cell::Number(mean.mean, 2), Cell::Number(mean.half_width, 2)]);
        }
        table.row(row);
    }
    let by_rank = |sets: &[Vec<f64>]| {
        let mean = |rank: usize| sets.iter().map(|it| it[rank]).sum::<f64>() / sets.len() as f64;
        (0..TASKS).map(mean).collect::<Vec<f64>>()
    };
    Ok(Findings {
        notes: vec![
            "With sixteen equal weights Linux' balance puts four on each core, each with a quarter \
             of it."
                .into(),
        ],
        tables: vec![table],
        figures: vec![Figure {
            name: String::new(),
            title: "Surplus time by rank of the budget, smallest first".into(),
            drawing: Drawing::Bars {
                axis: "seconds of a minute".into(),
                groups: (1..=TASKS).map(|rank| rank.to_string()).collect(),
                series: SAID
                    .iter()
                    .zip(&all)
                    .map(|(name, sets)| ((*name).to_string(), by_rank(sets)))
                    .collect(),
            },
        }],
        verdicts: verdicts(&balanced),
    })
}

fn verdicts([slack, time]: &[Balanced; 2]) -> Vec<Verdict> {
    let ends = |it: &Balanced| {
        format!("largest {} s, smallest {} s", number(it.large.mean, 2), number(it.small.mean, 2))
    };
    vec![
        Verdict::new(
            "balanced by CPU time, VCPUs with larger reservations have less background time",
            time.large.high() < time.small.low(),
            ends(time),
        ),
        Verdict::new(
            "balanced by slack they do not (5 %)",
            (slack.large.mean / slack.small.mean - 1.0).abs() <= 0.05,
            ends(slack),
        )
        .because(
            "Surplus time of one core is shared evenly, but slack per VCPU cannot be made equal on \
             all cores by moving whole VCPUs.",
        ),
        Verdict::new(
            "background time is more even balanced by slack than by CPU time",
            slack.apart.high() < time.apart.low(),
            format!(
                "{} against {} s between most and least",
                number(slack.apart.mean, 2),
                number(time.apart.mean, 2)
            ),
        ),
    ]
}
