//! What was found, as tables.

use super::charges;
use super::contenders::{CONTENDERS, Contender, RUN, policies};
use super::sets::Point;
use super::study::{CORES, Outcome, PERCENT, Study};
use crate::ecrts15::{Cost, Costs};
use crate::findings::{Cell, Table, number};

/// How many sets are schedulable on so many cores by the run of each policy and by each of its
/// tests; and weighted over all utilizations.
pub(super) fn schedulable(study: &Study, cores: usize) -> Table {
    let name = format!("{}-{cores}", study.part.word());
    let title = format!(
        "Sets of {} that are schedulable at each utilization of {cores} cores, {}, by run and by \
         test; and weighted schedulability",
        study.sets,
        study.part.said()
    );
    let percent = PERCENT.map(|percent| format!("{percent} %"));
    let mut columns = vec!["policy", "by"];
    columns.extend(percent.iter().map(String::as_str));
    columns.push("weighted");
    let mut table = Table::new(&name, &title, &columns);
    for (policy, by, is) in ways(study) {
        let mut row = vec![Cell::text(policy), Cell::text(by)];
        let count = |percent| study.count(Point { cores, percent }, &is) as f64;
        row.extend(PERCENT.map(|percent| Cell::Number(count(percent), 0)));
        row.push(Cell::Number(study.weighted(cores, &is), 3));
        table.row(row);
    }
    table
}

/// Whether a set is schedulable, by one criterion.
pub(super) type Criterion = Box<dyn Fn(&[Outcome]) -> bool>;

/// Every criterion: of each policy its run, then its tests.
fn ways(study: &Study) -> Vec<(&'static str, &'static str, Criterion)> {
    let mut ways: Vec<(_, _, Criterion)> = Vec::new();
    for policy in policies() {
        if let Some(at) = study.standing(policy) {
            ways.push((policy, RUN, Box::new(move |set| set[at].in_time())));
        }
        for at in study.tests(policy) {
            let Contender { test, .. } = CONTENDERS[study.places[at]];
            ways.push((policy, test, Box::new(move |set| set[at].admitted)));
        }
    }
    ways
}

/// How often jobs are preempted and migrate under each policy.
pub(super) fn moves(study: &Study, cores: usize) -> Table {
    let percent = PERCENT.map(|percent| format!("{percent} %"));
    let mut columns = vec!["policy"];
    columns.extend(percent.iter().map(String::as_str));
    let title = format!(
        "Preemptions and migrations a job on {cores} cores, {}, over the sets that each policy \
         admits",
        study.part.said()
    );
    let name = format!("moves-{}-{cores}", study.part.word());
    let mut table = Table::new(&name, &title, &columns);
    for policy in policies() {
        let Some(at) = study.standing(policy) else { continue };
        let mut row = vec![Cell::text(policy)];
        for percent in PERCENT {
            let point = Point { cores, percent };
            let per_job = |count| study.per_job(point, at, count);
            let both = per_job(|it| it.preemptions).zip(per_job(|it| it.migrations));
            row.push(both.map_or(Cell::Missing, |(stops, moves)| {
                Cell::text(format!("{} / {}", number(stops, 2), number(moves, 2)))
            }));
        }
        table.row(row);
    }
    table
}

/// Weighted schedulability by every criterion on every number of cores, with nothing charged and
/// with what was measured.
pub(super) fn weighted(free: &Study, charged: &Study) -> Table {
    let words = CORES.map(|cores| [format!("{cores} cores"), format!("{cores} cores, charged")]);
    let mut columns = vec!["policy", "by"];
    columns.extend(words.iter().flatten().map(String::as_str));
    let title = format!(
        "Weighted schedulability of {} sets a point, implicit deadlines, with nothing charged and \
         with costs charged and jobs longer by their bounds",
        charged.sets
    );
    let mut table = Table::new("weighted", &title, &columns);
    for (policy, by, is) in ways(free) {
        let mut row = vec![Cell::text(policy), Cell::text(by)];
        for cores in CORES {
            let both = [free, charged].map(|study| study.weighted(cores, &is));
            row.extend(both.map(|value| Cell::Number(value, 3)));
        }
        table.row(row);
    }
    table
}

/// What the release and the decision of each policy take, and by how much what is charged raises
/// the load.
pub(super) fn costs(costs: &Costs, charged: &Study, cores: usize) -> Table {
    let columns = [
        "policy",
        "release p50 (ns)",
        "release p99.9 (ns)",
        "decision p50 (ns)",
        "decision p99.9 (ns)",
        "decision mean (ns)",
        "decisions a job",
        "load added (%)",
    ];
    let title = format!(
        "What a release and a decision take on {cores} cores, measured warm on sets that ask for \
         90 %; and by how much of the cores the bounds raise the load, mean over the sets of all \
         utilizations that are admitted with them"
    );
    let mut table = Table::new(&format!("costs-{cores}"), &title, &columns);
    for policy in policies() {
        let Some(at) = charged.standing(policy) else { continue };
        let measured = |word| charges::measured_at_90(costs, policy, cores, word);
        let (release, decision) = (measured("release"), measured("schedule"));
        let cell = |cost: Option<&Cost>, of: fn(&Cost) -> f64, decimals| {
            cost.map_or(Cell::Missing, |cost| Cell::Number(of(cost), decimals))
        };
        let added = charged.added(cores, at);
        table.row(vec![
            Cell::text(policy),
            cell(release, |it| it.median, 0),
            cell(release, |it| it.p999, 0),
            cell(decision, |it| it.median, 0),
            cell(decision, |it| it.p999, 0),
            cell(decision, |it| it.mean, 0),
            cell(decision, |it| it.per_job, 2),
            added.map_or(Cell::Missing, |part| Cell::Number(part * 100.0, 2)),
        ]);
    }
    table
}

/// All tables of a part that count sets.
pub(super) fn of(study: &Study) -> impl Iterator<Item = Table> {
    CORES.into_iter().map(|cores| schedulable(study, cores))
}
