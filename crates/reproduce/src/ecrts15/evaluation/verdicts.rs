//! What the slides say of the overhead per job, set beside ours.

use super::structure::Structured;
use super::{CLASSES, LOADS, Policy, QPS, RUN, Slopes, with_error};
use crate::ecrts15::with_interval;
use crate::findings::{Verdict, number};
use crate::stats::{Mean, Share};

/// The mean overhead of a policy over classes at one load; `None` where a class has no sets.
fn at_load(policy: &Policy, load: u64) -> Option<f64> {
    let means = (0..CLASSES.len()).map(|class| policy.overhead(class, load).map(|it| it.mean));
    Some(means.sum::<Option<f64>>()? / CLASSES.len() as f64)
}

pub(super) fn verdicts(policies: &[Policy], slopes: &[Slopes; 2]) -> Vec<Verdict> {
    let (run, qps) = (&policies[RUN], &policies[QPS]);
    let over = |policy: &Policy, loads: &[u64]| {
        loads.iter().filter_map(|load| at_load(policy, *load)).collect::<Vec<f64>>()
    };
    let shown = |values: &[f64]| {
        values.iter().map(|value| number(*value, 2)).collect::<Vec<_>>().join(", ")
    };
    vec![
        holds_on_the_other_half(policies),
        within_structure(policies),
        in_time_by_structure(policies),
        in_time_each(policies),
        flat(&over(run, &LOADS), &shown),
        Verdict::new(
            "QPS's overhead per job rises more with the load than RUN's does",
            spread(&over(qps, &LOADS)) > spread(&over(run, &LOADS)),
            format!(
                "QPS {} us, a factor of {}",
                shown(&over(qps, &LOADS)),
                number(spread(&over(qps, &LOADS)), 1)
            ),
        ),
        lower_loads(&over(run, &LOADS[..4]), &over(qps, &LOADS[..4]), &shown),
        between(policies),
        Verdict::new(
            "QPS's overhead per job grows with the depth of its hierarchy",
            [slopes[1].all, slopes[1].alike]
                .iter()
                .all(|it| it.is_some_and(|it| it.slope > it.half_width)),
            format!(
                "{} us per level over all {} sets; {} among sets of one class, load and periods",
                slopes[1].all.as_ref().map_or("no slope".into(), with_error),
                qps.evaluated.len(),
                slopes[1].alike.as_ref().map_or("no slope".into(), with_error)
            ),
        ),
        lighter_is_flatter(policies, RUN, "RUN's trees"),
        lighter_is_flatter(policies, QPS, "QPS's hierarchies"),
    ]
}

fn holds_on_the_other_half(policies: &[Policy]) -> Verdict {
    let optimal = [RUN, QPS].map(|policy| &policies[policy]);
    let runs = || optimal.iter().flat_map(|policy| &policy.evaluated);
    let missing = || runs().filter(|it| it.most.missed > 0);
    let missed = missing().count();
    let sets = runs().count();
    let share = Share::of(missed as u64, sets as u64);
    Verdict::new(
        "with the bounds of the first half RUN and QPS miss nothing on the second",
        missed == 0 && sets > 0,
        format!(
            "{missed} of {sets} runs with a miss, 95 % interval {} to {} %; in {} of these a job \
             was charged more than the bound, {} have a job shorter than the bound",
            number(share.low * 100.0, 2),
            number(share.high * 100.0, 2),
            missing().filter(|it| it.exceeded).count(),
            missing().filter(|it| it.short).count()
        ),
    )
    .because(
        "A bound that is the most that was seen is exceeded by a new set now and then; and a job \
         whose C is less than the bound cannot be shortened by it: light ones, and the last one of \
         a set, which was trimmed so that the load is met. The slides derive their bounds from \
         the structure of trees and hierarchies instead; see below.",
    )
}

/// Whether the structures bound what happens to jobs and what they cost, as the slides derive their
/// bounds.
fn within_structure(policies: &[Policy]) -> Verdict {
    let most = |policy: usize, part: fn(&Structured) -> f64| {
        policies[policy].structured.iter().map(part).fold(0.0, f64::max)
    };
    let parts: [fn(&Structured) -> f64; 3] =
        [Structured::preempted, Structured::moved, Structured::charged];
    let [run, qps] = [RUN, QPS].map(|policy| parts.map(|part| most(policy, part)));
    let sets = [RUN, QPS].map(|policy| policies[policy].structured.len());
    let shown = |parts: [f64; 3]| parts.map(|part| number(part, 2)).join(", ");
    Verdict::new(
        "on average no run's jobs are preempted, moved or charged more than the structure allows, \
         RUN's tree or QPS's hierarchy",
        sets.iter().all(|sets| *sets > 0) && run.iter().chain(&qps).all(|part| *part <= 1.0),
        format!(
            "of both halves; at most so much of the bounds: RUN {} in {} runs, QPS {} in {}",
            shown(run),
            sets[0],
            shown(qps),
            sets[1]
        ),
    )
}

/// Whether jobs that are shortened by the bounds from structure are all in time.
fn in_time_by_structure(policies: &[Policy]) -> Verdict {
    let runs = || [RUN, QPS].into_iter().flat_map(|policy| &policies[policy].structured);
    let missing = || runs().filter(|it| it.missed());
    let (missed, sets) = (missing().count(), runs().count());
    let share = Share::of(missed as u64, sets as u64);
    Verdict::new(
        "with the bounds from their structures RUN and QPS miss nothing",
        missed == 0 && sets > 0,
        format!(
            "{missed} of {sets} runs of both halves with a miss, 95 % interval {} to {} %; {} of \
             these have a job shorter than the bound",
            number(share.low * 100.0, 2),
            number(share.high * 100.0, 2),
            missing().filter(|it| it.is_short()).count()
        ),
    )
    .because(
        "What structure bounds is the mean over jobs. A long job is preempted by many short ones \
         and pays for what their releases and deadlines cause, and one that is shorter than the \
         bound cannot make room for it.",
    )
}

/// Whether jobs that make room for what they pay at most themselves are all in time.
fn in_time_each(policies: &[Policy]) -> Verdict {
    let all = [RUN, QPS].into_iter().flat_map(|policy| &policies[policy].structured);
    let sets = all.clone().count();
    let found: Vec<(u64, f64)> = all.filter_map(Structured::by_each).collect();
    let missed = found.iter().filter(|(missed, _)| *missed > 0).count();
    let most = found.iter().map(|(_, most)| *most).fold(0.0, f64::max);
    Verdict::new(
        "where every job is longer than what its structure lets that one pay, none is charged more \
         than that and none is late",
        !found.is_empty() && missed == 0 && most <= 1.0,
        format!(
            "{} of {sets} runs of both halves are such, {missed} of them with a miss; a job was \
             charged {} of its bound at most",
            found.len(),
            number(most, 2)
        ),
    )
}

/// How far the highest lies above the lowest, as a factor.
fn spread(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    most / values.iter().copied().fold(f64::MAX, f64::min)
}

/// Overheads per job count as almost constant up to this factor; the slides name none.
const ALMOST_CONSTANT: f64 = 1.5;

fn flat(run: &[f64], shown: &dyn Fn(&[f64]) -> String) -> Verdict {
    Verdict::new(
        "RUN's overhead per job is almost constant over the load",
        spread(run) <= ALMOST_CONSTANT,
        format!("from 50 to 100 %: {} us, a factor of {}", shown(run), number(spread(run), 1)),
    )
    .because(
        "Only sets that cannot be packed need a tree, and RUN's tree then costs it switches that \
         it did not have before; the slides' implementation pays for its one lock and tree at \
         every load.",
    )
}

fn lower_loads(run: &[f64], qps: &[f64], shown: &dyn Fn(&[f64]) -> String) -> Verdict {
    Verdict::new(
        "at 50 to 80 % QPS costs a job less than RUN does",
        !run.is_empty() && run.iter().zip(qps).all(|(run, qps)| qps < run),
        format!("RUN {} us, QPS {} us", shown(run), shown(qps)),
    )
    .because(
        "All but heavy tasks are partitioned there under both, RUN's by worst fit and QPS's by \
         first fit; what is left between them is that and the cost of a decision.",
    )
}

/// RUN beside P-EDF, where that schedules sets of the class, and beside G-EDF, where that does.
fn between(policies: &[Policy]) -> Verdict {
    let mut outside = Vec::new();
    let (mut compared, mut shared) = (0, 0);
    for load in LOADS {
        for (class, word) in CLASSES.iter().enumerate() {
            let [p, g, run, _] = [0, 1, 2, 3].map(|policy: usize| {
                policies[policy].overhead(class, load).map(|overhead| overhead.mean)
            });
            let Some(run) = run.filter(|_| p.is_some() || g.is_some()) else { continue };
            compared += 1;
            shared += u64::from(p.is_some_and(|p| (run - p).abs() <= 0.05 * p));
            // A fiftieth below P-EDF is the same cost.
            let low = p.is_some_and(|p| run < 0.98 * p);
            let high = g.is_some_and(|g| run > g);
            if low || high {
                let [p, g] = [p, g].map(|it| it.map_or("-".into(), |it| number(it, 2)));
                outside.push(format!("{word} {load} %: {p}, {}, {g}", number(run, 2)));
            }
        }
    }
    Verdict::new(
        "RUN lies between P-EDF and G-EDF at every load and for every kind of tasks",
        outside.is_empty() && compared > 0,
        format!(
            "in {} of {compared} cases not: P-EDF, RUN, G-EDF in us, {}; in {shared} it costs what \
             P-EDF costs, within 5 %",
            outside.len(),
            outside.join("; ")
        ),
    )
    .because(
        "Where packing succeeds our RUN is P-EDF and costs what that costs: it has no global part \
         to pay for. Where it needs its tree, a job is switched more often than under G-EDF, whose \
         own price, one lock and interrupts between cores, is not charged here. Means over the \
         sets that each can schedule.",
    )
}

/// Light tasks against heavy ones.
fn lighter_is_flatter(policies: &[Policy], policy: usize, structures: &str) -> Verdict {
    let depth = |class: &str, load: Option<u64>| {
        let class = CLASSES.iter().position(|it| *it == class).unwrap_or_default();
        let runs = policies[policy].of(class, load);
        Mean::of(&runs.map(|run| run.depth as f64).collect::<Vec<_>>())
    };
    let [light, heavy] = ["light", "heavy"].map(|class| depth(class, None));
    let full = ["light", "heavy"].map(|class| with_interval(&depth(class, Some(100)), 2));
    Verdict::new(
        format!("lighter tasks lead to less deep structures: {structures}"),
        light.high() < heavy.low(),
        format!(
            "mean depth with light and heavy tasks, all loads: {} and {}; 100 %: {} and {}",
            with_interval(&light, 2),
            with_interval(&heavy, 2),
            full[0],
            full[1]
        ),
    )
    .because(
        "Below full load light tasks can be packed and heavy ones cannot. But no core of a full \
         set is filled exactly, and then QPS overpacks the more levels the more tasks there are.",
    )
}
