//! What the scheduling primitives of each policy cost (the slides' pages on primitive overheads
//! and on scheduling primitives).

use super::costs::{Cost, Costs};
use crate::figure::{Drawing, Figure, Line};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::{Error, Experiment, Kind, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ecrts15-primitives",
    title: "costs of the scheduling primitives",
    summary: "Every policy's own code over recorded streams of events, a clock around each step: \
              `maracas bench primitives` (`docs/overheads.md`). `maracas reproduce ecrts15` \
              measures before it evaluates; this document shows the costs recorded in \
              `crates/reproduce/data`.",
    source: "Compagnin, Mezzetti and Vardanega, ECRTS 2015, slides \"Primitive overheads and \
             empirical bound\" and \"Scheduling primitives\"; curves without numbers",
    kind: Kind::Predicts,
    free: "none",
    fitted: "",
    run,
};

/// The platform that the tables show: the paper's number of cores, and 100 tasks.
const SHOWN: (u64, u64) = (16, 100);

/// What is shown, and its word in the table.
const PRIMITIVES: [&str; 7] = [
    "release",
    "schedule-release",
    "schedule-completion",
    "budget-timer",
    "tree-update",
    "schedule",
    "call",
];

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let costs = lab.costs()?;
    let policies = policies(&costs);
    Ok(Findings {
        notes: vec![
            format!("Costs: {}", costs.said()),
            "Warm caches where nothing else is said. A call is everything that holds the lock: \
             the policy gets what happened and decides once."
                .into(),
        ],
        tables: vec![primitive_table(&costs, &policies), decision_table(&costs, &policies)],
        figures: vec![
            by_load(&costs, &policies, "release", "release"),
            by_load(&costs, &policies, "schedule", "decision"),
        ],
        verdicts: verdicts(&costs),
    })
}

/// The policies that were measured, in the order of the file.
fn policies(costs: &Costs) -> Vec<String> {
    let mut policies: Vec<String> = Vec::new();
    for line in &costs.lines {
        if !policies.contains(&line.policy) {
            policies.push(line.policy.clone());
        }
    }
    policies
}

/// The measured lines of the shown platform, by load.
fn shown<'a>(costs: &'a Costs, policy: &'a str, primitive: &'a str) -> Vec<&'a Cost> {
    let wanted = |line: &&Cost| (line.cores, line.tasks) == SHOWN;
    let mut lines: Vec<&Cost> = costs.of(policy, primitive).filter(wanted).collect();
    lines.sort_by_key(|line| line.utilization);
    lines
}

fn primitive_table(costs: &Costs, policies: &[String]) -> Table {
    let columns = [
        "policy",
        "primitive",
        "U (%)",
        "per job",
        "median (ns)",
        "p99 (ns)",
        "p99.9 (ns)",
        "max (ns)",
        "cold median (ns)",
    ];
    let title = format!("{} cores, {} tasks, the highest load admitted", SHOWN.0, SHOWN.1);
    let mut table = Table::new("", &title, &columns);
    let ns = |value: f64| Cell::Number(value, 0);
    for policy in policies {
        for primitive in PRIMITIVES {
            let Some(line) = shown(costs, policy, primitive).pop() else { continue };
            table.row(vec![
                Cell::text(policy),
                Cell::text(primitive),
                ns(line.utilization as f64),
                Cell::Number(line.per_job, 2),
                ns(line.median),
                ns(line.p99),
                ns(line.p999),
                ns(line.max),
                line.cold_median.map_or(Cell::Missing, ns),
            ]);
        }
    }
    table
}

/// Medians of a decision, for each platform.
fn decision_table(costs: &Costs, policies: &[String]) -> Table {
    let mut columns = vec!["cores", "tasks", "U (%)"];
    columns.extend(policies.iter().map(String::as_str));
    let title = "Median of a decision (ns), at the highest load that all of them were measured at";
    let mut table = Table::new("decision", title, &columns);
    let mut platforms: Vec<(u64, u64)> =
        costs.lines.iter().map(|line| (line.cores, line.tasks)).collect();
    platforms.sort_unstable();
    platforms.dedup();
    for (cores, tasks) in platforms {
        let at = |policy: &str, load: u64| {
            costs
                .of(policy, "schedule")
                .find(|it| (it.cores, it.tasks, it.utilization) == (cores, tasks, load))
                .map(|it| it.median)
        };
        let mut loads: Vec<u64> = costs
            .lines
            .iter()
            .filter(|it| (it.cores, it.tasks) == (cores, tasks))
            .map(|it| it.utilization)
            .collect();
        loads.sort_unstable();
        // Where no load is common to all, the highest: what is missing there was not admitted.
        let common = |load: &&u64| policies.iter().all(|policy| at(policy, **load).is_some());
        let Some(load) = loads.iter().rev().find(common).or(loads.last()) else { continue };
        let mut cells: Vec<Cell> =
            [cores, tasks, *load].iter().map(|it| Cell::Number(*it as f64, 0)).collect();
        let median = |policy: &String| at(policy, *load);
        cells.extend(
            policies
                .iter()
                .map(median)
                .map(|it| it.map_or(Cell::Missing, |it| Cell::Number(it, 0))),
        );
        table.row(cells);
    }
    table
}

fn by_load(costs: &Costs, policies: &[String], primitive: &str, word: &str) -> Figure {
    let line = |policy: &String| {
        let lines = shown(costs, policy, primitive);
        let points = lines.iter().map(|it| (it.utilization as f64, it.p999)).collect();
        Line::new(policy.clone(), points)
    };
    let lines: Vec<Line> = policies.iter().map(line).filter(|it| !it.points.is_empty()).collect();
    Figure {
        name: word.into(),
        title: format!("Cost of a {word}, 99.9th percentile, {} cores, {} tasks", SHOWN.0, SHOWN.1),
        drawing: Drawing::Lines {
            along: "load (%)".into(),
            logarithmic: false,
            share: false,
            left: format!("{word} (ns)"),
            right: None,
            lines,
        },
    }
}

fn verdicts(costs: &Costs) -> Vec<Verdict> {
    let median = |policy: &str, primitive: &str, load: u64| {
        let lines = shown(costs, policy, primitive);
        lines.iter().find(|it| it.utilization == load).map(|it| it.median)
    };
    let loads: Vec<u64> =
        shown(costs, "run", "schedule").into_iter().map(|it| it.utilization).collect();
    let pairs = |primitive: &'static str| -> Vec<(u64, f64, f64)> {
        let pair = |load: &u64| {
            let of = |policy| median(policy, primitive, *load);
            Some((*load, of("qps")?, of("run")?))
        };
        loads.iter().filter_map(pair).collect()
    };
    let lighter = |primitive: &'static str, why: &str| {
        let pairs = pairs(primitive);
        let said = |(load, qps, run): &(u64, f64, f64)| {
            format!("{load} %: {} and {}", number(*qps, 0), number(*run, 0))
        };
        let numbers = pairs.iter().map(said).collect::<Vec<_>>().join(", ");
        // Equal is not lighter: the clock cannot measure what takes less than its resolution.
        let holds = !pairs.is_empty() && pairs.iter().all(|(_, qps, run)| qps < run);
        Verdict::new(
            format!("QPS's {primitive} is lighter than RUN's"),
            holds,
            format!("medians in ns, QPS and RUN, at {numbers}"),
        )
        .because(why)
    };
    let noted = "In both a release only notes the job, in less than the clock can measure; queues \
                 are put in order in the decision that follows.";
    let apart = "Between two tree updates our RUN looks at the queue of the one server concerned, \
                 and a tree update at one tree; the slides' has one lock and one release queue for \
                 all. QPS looks at the sets that an event concerns; on a full machine, where a \
                 budget ends, these are the sets below a master that starts or stops as well, and \
                 the run queue of each of their cores is written anew.";
    let updates: f64 = shown(costs, "qps", "tree-update").iter().map(|it| it.per_job).sum();
    let of_run = shown(costs, "run", "tree-update").pop();
    vec![
        lighter("release", noted),
        lighter("schedule", apart),
        lighter("call", apart),
        Verdict::new(
            "QPS needs no tree update, RUN does",
            updates == 0.0 && of_run.is_some_and(|it| it.per_job > 0.0),
            of_run.map_or("none measured".into(), |it| {
                format!(
                    "RUN: {} updates a job at {} %, {} ns each",
                    number(it.per_job, 2),
                    it.utilization,
                    number(it.median, 0)
                )
            }),
        ),
    ]
}
