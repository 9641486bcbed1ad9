//! More processing units: the slides' first open question.

use super::costs::Costs;
use super::{HARMONIC, free_until, per_job, recipe, subjects, trials, with_interval};
use crate::figure::{Drawing, Figure, Line};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::stats::Mean;
use crate::{Error, Experiment, Kind, Lab};
use maracas_sweep::Tally;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ecrts15-scaling",
    title: "more processing units, up to 64 cores",
    summary: "Full sets (U = m) of one and a half and of four tasks a core on 2 to 64 cores: \
              preemptions and decisions per job, depth, and what a job costs in the policy's own \
              code: decisions per job times the measured mean of a whole call.",
    source: "Compagnin, Mezzetti and Vardanega, ECRTS 2015, future work: \"how this class of \
             algorithms may behave when the number of processing units increases\"",
    kind: Kind::Predicts,
    free: "none",
    fitted: "",
    run,
};

const CORES: [usize; 6] = [2, 4, 8, 16, 32, 64];
const POLICIES: [&str; 4] = ["qps", "run", "u-edf", "dp-wrap"];
/// Tasks for two cores: hard to pack and easy.
const TASKS_FOR_TWO: [usize; 2] = [3, 8];
/// Sets a line.
const SETS: usize = 20;
/// Simulated time: two hyperperiods.
const UNTIL_MS: u64 = 400;

/// The sets of one number of cores and tasks.
struct Row {
    cores: usize,
    tasks: usize,
    /// By set, then by policy.
    found: Vec<Vec<Tally>>,
}

impl Row {
    fn mean(&self, policy: usize, value: impl Fn(&Tally) -> f64) -> Mean {
        let tallies = self.found.iter().map(|set| &set[policy]).filter(|tally| tally.accepted);
        Mean::of(&tallies.map(value).collect::<Vec<_>>())
    }
    fn preemptions(&self, policy: usize) -> Mean {
        self.mean(policy, |tally| per_job(tally, tally.preemptions))
    }
    /// Time in the policy's code for each job, in microseconds, where it was measured.
    fn policy_us(&self, costs: &Costs, policy: usize) -> Option<f64> {
        let at = (self.cores as u64, self.tasks as u64, 100);
        let call = costs.near(POLICIES[policy], "call", at)?.mean;
        let decisions = self.mean(policy, |tally| per_job(tally, tally.decisions)).mean;
        Some(decisions * call / 1e3)
    }
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let costs = lab.costs()?;
    let sets = lab.seeds(SETS);
    let mut draws = Vec::new();
    for cores in CORES {
        for tasks in TASKS_FOR_TWO {
            draws.extend((0..sets as u64).map(|seed| (cores, tasks * cores / 2, seed)));
        }
    }
    let subjects = subjects(&POLICIES)?;
    let one = |(cores, tasks, seed): &(usize, usize, u64)| {
        let recipe = recipe(*cores, 100, Some(*tasks), "randfixedsum:0.001..1", HARMONIC)?;
        let set = recipe.draw(*seed).map_err(Error)?;
        Ok(trials(&set, *cores, &subjects, &free_until(UNTIL_MS)))
    };
    let found = lab.map(&draws, one).into_iter().collect::<Result<Vec<_>, Error>>()?;
    let lines = draws.chunks(sets).zip(found.chunks(sets));
    let rows: Vec<Row> = lines
        .map(|(draws, found)| {
            let (cores, tasks, _) = draws[0];
            Row { cores, tasks, found: found.to_vec() }
        })
        .collect();
    Ok(Findings {
        notes: vec![format!("{sets} sets a line. Costs: {}", costs.said())],
        tables: vec![table(&rows, &costs)],
        figures: vec![preemption_figure(&rows), cost_figure(&rows, &costs)],
        verdicts: verdicts(&rows, &costs),
    })
}

fn table(rows: &[Row], costs: &Costs) -> Table {
    let columns = [
        "cores",
        "tasks",
        "policy",
        "preemptions per job",
        "decisions per job",
        "depth",
        "policy's code (us per job)",
    ];
    let mut table = Table::new("", "Full sets, means over sets", &columns);
    for row in rows {
        for (policy, name) in POLICIES.iter().enumerate() {
            let decisions = row.mean(policy, |tally| per_job(tally, tally.decisions)).mean;
            let cost = row.policy_us(costs, policy);
            table.row(vec![
                Cell::Number(row.cores as f64, 0),
                Cell::Number(row.tasks as f64, 0),
                Cell::text(*name),
                Cell::Text(with_interval(&row.preemptions(policy), 2)),
                Cell::Number(decisions, 2),
                Cell::Number(row.mean(policy, |tally| tally.depth as f64).mean, 2),
                cost.map_or(Cell::Missing, |it| Cell::Number(it, 2)),
            ]);
        }
    }
    table
}

/// The rows with few tasks a core, or with many.
fn kind(rows: &[Row], many: bool) -> impl Iterator<Item = &Row> {
    rows.iter().filter(move |row| (row.tasks >= 4 * row.cores) == many)
}

fn preemption_figure(rows: &[Row]) -> Figure {
    let mut lines = Vec::new();
    for (many, word) in [(false, "1.5 tasks a core"), (true, "4 tasks a core")] {
        // Policies that preempt at every deadline of anyone would flatten the others.
        for policy in [0, 1] {
            let point = |row: &Row| (row.cores as f64, row.preemptions(policy).mean);
            let points = kind(rows, many).map(point).collect();
            lines.push(Line::new(format!("{}, {word}", POLICIES[policy]), points));
        }
    }
    figure("preemptions", "Preemptions per job at U = m", "preemptions per job", lines)
}

fn cost_figure(rows: &[Row], costs: &Costs) -> Figure {
    let line = |(policy, name): (usize, &&str)| {
        let point = |row: &Row| Some((row.cores as f64, row.policy_us(costs, policy)?));
        Line::new(*name, kind(rows, true).filter_map(point).collect())
    };
    let lines = POLICIES.iter().enumerate().map(line).filter(|it| !it.points.is_empty()).collect();
    let title = "Time in the policy's code per job at U = m, 4 tasks a core";
    figure("cost", title, "policy's code (us per job)", lines)
}

fn figure(name: &str, title: &str, left: &str, lines: Vec<Line>) -> Figure {
    Figure {
        name: name.into(),
        title: title.into(),
        drawing: Drawing::Lines {
            along: "cores".into(),
            logarithmic: true,
            share: false,
            left: left.into(),
            right: None,
            lines,
        },
    }
}

fn verdicts(rows: &[Row], costs: &Costs) -> Vec<Verdict> {
    let all = || rows.iter().flat_map(|row| row.found.iter().flatten());
    let met = all().filter(|tally| super::all_met(tally)).count();
    // From the paper's 16 cores to 64.
    let at = |cores: usize| kind(rows, true).find(|row| row.cores == cores);
    let growth = |value: &dyn Fn(&Row) -> Option<f64>| Some((value(at(16)?)?, value(at(64)?)?));
    let said = |pair: Option<(f64, f64)>| {
        pair.map_or("not measured".into(), |(few, many)| {
            format!("{} at 16 cores, {} at 64", number(few, 2), number(many, 2))
        })
    };
    let flat = |policy: usize| growth(&|row| Some(row.preemptions(policy).mean));
    let cost = |policy: usize| growth(&|row| row.policy_us(costs, policy));
    let within = |pair: Option<(f64, f64)>, factor: f64| {
        pair.is_some_and(|(few, many)| many <= factor * few)
    };
    vec![
        Verdict::new(
            "all of them miss nothing at U = m on up to 64 cores",
            met == all().count(),
            format!("{met} of {} runs", all().count()),
        ),
        Verdict::new(
            "from 16 to 64 cores QPS's and RUN's preemptions per job grow by less than half",
            within(flat(0), 1.5) && within(flat(1), 1.5),
            format!("QPS {}; RUN {}", said(flat(0)), said(flat(1))),
        ),
        Verdict::new(
            "what a job costs in the policy's code grows by less than the number of cores",
            within(cost(0), 4.0) && within(cost(1), 4.0),
            format!("us per job, QPS {}; RUN {}", said(cost(0)), said(cost(1))),
        ),
    ]
}
