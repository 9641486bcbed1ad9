//! The metrics of real runs, held against what the simulator counts on its own.

mod common;

use common::{all, run, servers, tasks};
use maracas_core::Instant;
use maracas_core::contract::Observer;
use maracas_core::params::Params;
use maracas_sim::Options;
use maracas_trace::{Report, gantt, perfetto};

#[test]
fn the_simulator_counts_the_same() {
    for (policy, run) in all() {
        let (report, outcome) = (&run.report, &run.outcome);
        let total = &report.total;
        assert_eq!(
            [total.jobs, total.completed, total.misses, total.decisions],
            [outcome.released, outcome.completed, outcome.missed, outcome.decisions],
            "{policy}"
        );
        let busy: u64 =
            report.cores.iter().map(|core| core.foreground_ns + core.background_ns).sum();
        assert_eq!(busy, total.foreground_ns + total.background_ns, "{policy}: nothing is charged");
        for (core, idle) in report.cores.iter().zip(&outcome.idle) {
            assert_eq!(core.idle_ns + core.throttled_ns, idle.ticks(), "{policy}");
        }
    }
}

#[test]
fn overruns_are_missed_deadlines() {
    let misses = |overrun| run("p-edf", tasks(80, overrun), 0).report.total.misses;
    assert_eq!(misses(false), 0);
    assert!(misses(true) > 10);
}

#[test]
fn the_journal_gives_the_same_report() {
    for (policy, run) in all() {
        assert_eq!(Report::from_journal(&run.journal).unwrap(), run.report, "{policy}");
    }
}

#[test]
fn partitioned_policies_never_migrate_and_global_ones_do() {
    for (policy, run) in all() {
        let moved = run.report.total.migrations + run.report.total.task_migrations;
        assert_eq!(moved > 0, policy == "g-edf", "{policy}: {moved}");
    }
}

#[test]
fn budgets_are_delivered_to_the_tick() {
    let run = run("maracas", servers(), 0);
    for task in &run.report.tasks[..2] {
        let got = &task.delivered;
        assert!(got.periods > 10, "{}: {}", task.name, got.periods);
        assert_eq!((got.error_max_ns, got.mean_ns), (Some(0), Some(task.budget_ns as f64)));
        assert!(task.background_ns > 0, "{}", task.name);
    }
    assert!(run.report.tasks[2].delivered.periods_without_demand > 0, "the sleeper sleeps");
}

#[test]
fn traces_and_charts_can_be_drawn_of_all() {
    for (policy, run) in all() {
        let mut trace = Vec::new();
        perfetto::from_journal(&run.journal, &mut trace).unwrap();
        assert!(trace.len() > 10_000, "{policy}");
        let chart = gantt::Chart::from_journal(&run.journal, Instant::ZERO, Some(run.end)).unwrap();
        let mut picture = Vec::new();
        chart.write_text(gantt::TextStyle::default(), &mut picture).unwrap();
        chart.write_svg(gantt::Rows::Cores, &mut picture).unwrap();
        assert!(picture.len() > 1_000, "{policy}");
    }
}

/// Two observers of one run need no copy of it.
#[test]
fn a_trace_is_written_beside_the_metrics() {
    let (system, programs) = servers();
    let run = run("maracas", (system.clone(), programs.clone()), 0);
    let (header, _) = maracas_core::journal::Reader::open(&run.journal).unwrap();
    let mut writer = perfetto::Writer::new(&header, Vec::new());
    let entry = maracas_policies::find("maracas").unwrap();
    let mut policy = (entry.build)(&system, &Params::new()).unwrap();
    let options = Options { seed: 3, ..Options::new(run.end) };
    let observer: &mut dyn Observer = &mut writer;
    maracas_sim::run(&system, &programs, policy.as_mut(), &options, &mut &mut *observer);
    let mut expected = Vec::new();
    perfetto::from_journal(&run.journal, &mut expected).unwrap();
    assert_eq!(writer.finish(run.end).unwrap(), expected);
}
