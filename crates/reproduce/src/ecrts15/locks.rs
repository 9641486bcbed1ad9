//! How the implementation matters: one global lock and queue against one for each hierarchy, the
//! slides' second open question.

use super::costs::LockLine;
use crate::figure::{Drawing, Figure, Line};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::{Error, Experiment, Kind, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ecrts15-locks",
    title: "one global lock against one for each hierarchy",
    summary: "Streams of events with their nominal instants, in which releases coincide, go \
              through queues: each caller of the policy waits for its lock and holds it for the \
              measured cost of the call. One lock and one policy for all, or one of each for every \
              part that stands by itself: RUN's subsystems, QPS's hierarchies, P-EDF's cores.",
    source: "Compagnin, Mezzetti and Vardanega, ECRTS 2015, future work: \"how different \
             implementation may affect the algorithm scalability\"; QPS with a lock per hierarchy \
             and RUN with a global one are its implementations",
    kind: Kind::Predicts,
    free: "none; callers arrive at nominal instants, so that all releases of one instant meet",
    fitted: "",
    run,
};

/// The cost with which locks are held in tables and figures: each call's own measured time.
const COST: &str = "measured";

/// The policies with parts that can have locks of their own, and the loads shown in percent.
const POLICIES: [&str; 3] = ["p-edf", "run", "qps"];
const LOADS: [u64; 2] = [90, 100];

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let costs = lab.costs()?;
    let shown = shown(&costs.locks);
    Ok(Findings {
        notes: vec![
            format!("Costs: {}", costs.said()),
            "Real locks cost more: their words travel between caches, which two cores cannot show \
             for 64. So these waits are a lower bound."
                .into(),
        ],
        tables: vec![table(&shown)],
        figures: LOADS.iter().map(|load| figure(&shown, *load)).collect(),
        verdicts: verdicts(&shown),
    })
}

/// The lines with about six tasks a core.
fn shown(lines: &[LockLine]) -> Vec<&LockLine> {
    let distance = |line: &LockLine| (line.tasks as f64 / (6 * line.cores) as f64).ln().abs();
    let wanted = |line: &&LockLine| {
        line.cost == COST
            && POLICIES.contains(&line.policy.as_str())
            && LOADS.contains(&line.utilization)
    };
    let nearest = |line: &&LockLine| {
        let mut others = lines.iter().filter(|other| other.cores == line.cores);
        others.all(|other| distance(line) <= distance(other))
    };
    lines.iter().filter(wanted).filter(nearest).collect()
}

fn table(lines: &[&LockLine]) -> Table {
    let columns = [
        "policy",
        "cores",
        "tasks",
        "U (%)",
        "lock",
        "locks",
        "median decision (ns)",
        "waited (%)",
        "mean wait (ns)",
        "p99 wait (ns)",
        "busiest lock held (%)",
    ];
    let title = "Waits for locks that are held for the measured time of each call, warm";
    let mut table = Table::new("", title, &columns);
    for line in lines {
        table.row(vec![
            Cell::text(&line.policy),
            Cell::Number(line.cores as f64, 0),
            Cell::Number(line.tasks as f64, 0),
            Cell::Number(line.utilization as f64, 0),
            Cell::text(&line.lock),
            Cell::Number(line.locks, 1),
            Cell::Number(line.schedule_median, 0),
            Cell::Number(line.waited * 100.0, 1),
            Cell::Number(line.wait_mean, 0),
            Cell::Number(line.wait_p99, 0),
            Cell::Number(line.held_busiest * 100.0, 3),
        ]);
    }
    table
}

/// Mean waits of one policy at one load, by cores.
fn waits(lines: &[&LockLine], policy: &str, lock: &str, load: u64) -> Vec<(u64, f64)> {
    let own = |line: &&&LockLine| {
        (line.policy.as_str(), line.lock.as_str(), line.utilization) == (policy, lock, load)
    };
    let mut waits: Vec<(u64, f64)> =
        lines.iter().filter(own).map(|line| (line.cores, line.wait_mean)).collect();
    waits.sort_by_key(|(cores, _)| *cores);
    waits
}

fn figure(lines: &[&LockLine], load: u64) -> Figure {
    let mut drawn = Vec::new();
    for policy in ["run", "qps"] {
        for lock in ["global", "hierarchy"] {
            let points = waits(lines, policy, lock, load);
            let points = points.into_iter().map(|(cores, wait)| (cores as f64, wait)).collect();
            drawn.push(Line::new(format!("{policy}, {lock}"), points));
        }
    }
    drawn.retain(|line| !line.points.is_empty());
    Figure {
        name: load.to_string(),
        title: format!("Mean wait for a lock at {load} %"),
        drawing: Drawing::Lines {
            along: "cores".into(),
            logarithmic: true,
            share: false,
            left: "mean wait (ns)".into(),
            right: None,
            lines: drawn,
        },
    }
}

fn verdicts(lines: &[&LockLine]) -> Vec<Verdict> {
    let most = |policy, lock, load| waits(lines, policy, lock, load).last().copied();
    let said = |wait: Option<(u64, f64)>| {
        wait.map_or("not measured".into(), |(cores, wait)| {
            format!("{} ns at {cores} cores", number(wait, 0))
        })
    };
    let mut verdicts = Vec::new();
    for load in LOADS {
        for (policy, word) in [("run", "RUN"), ("qps", "QPS")] {
            let (global, own) = (most(policy, "global", load), most(policy, "hierarchy", load));
            let pair = global.zip(own);
            let claim =
                format!("at {load} % {word} waits less than half with a lock for each part");
            let holds = pair.is_some_and(|(global, own)| 2.0 * own.1 < global.1);
            let numbers = format!("mean wait: global {}, own {}", said(global), said(own));
            verdicts.push(
                Verdict::new(claim, holds, numbers)
                    .because("A full set has no independent parts: there is one lock either way."),
            );
        }
    }
    let global = waits(lines, "run", "global", LOADS[1]);
    let rises = global.first().zip(global.last()).is_some_and(|(few, many)| few.1 < many.1);
    let shown: Vec<_> = global.iter().map(|(_, wait)| number(*wait, 0)).collect();
    verdicts.push(Verdict::new(
        "with one lock for all, waiting grows with the number of cores",
        rises,
        format!("RUN at 100 %, mean wait {} ns", shown.join(", ")),
    ));
    verdicts
}
