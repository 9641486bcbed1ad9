//! The metrics of real runs, held against what the simulator counts on its own.

use maracas_core::contract::Observer;
use maracas_core::journal::{Header, Recorder};
use maracas_core::params::Params;
use maracas_core::{Cost, Duration, Instant, Program, System, Vcpu, VcpuId, Workload};
use maracas_sim::{Options, Outcome};
use maracas_trace::{Metrics, Report, gantt, perfetto};

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// Tasks with jobs. They declare `load` per cent of about two cores and need all of that, or a
/// part, or, where they `overrun`, half as much again.
fn tasks(load: u64, overrun: bool) -> (System, Vec<Program>) {
    let shapes = [(10, 30), (7, 20), (12, 50), (20, 40), (5, 70), (9, 30)];
    let vcpus: Vec<Vcpu> = (0..)
        .zip(shapes)
        .map(|(id, (cost, period))| {
            Vcpu::new(id, us(cost * load * 10 / 9), us(period * 100)).periodic()
        })
        .collect();
    let programs = vcpus
        .iter()
        .map(|vcpu| {
            let budget = vcpu.reservation.budget;
            let least = Duration::from_ticks(budget.ticks() / 2);
            let most = if overrun { least * 3 } else { budget };
            let cost =
                if vcpu.id.0 % 2 == 0 { Cost::Fixed(most) } else { Cost::Uniform(least, most) };
            Program::new(vcpu.id, Workload::Periodic { cost })
        })
        .collect();
    (System::new(2, vcpus), programs)
}

/// VCPUs without jobs: two that always run, one that sleeps, one that leaves.
fn servers() -> (System, Vec<Program>) {
    let shapes = [(2_000, 10_000), (5_000, 20_000), (1_000, 7_000), (3_000, 10_000)];
    let vcpus = (0..).zip(shapes).map(|(id, (c, t))| Vcpu::new(id, us(c), us(t))).collect();
    let sleeper = Workload::RunSleep {
        run: Cost::Uniform(us(100), us(9_000)),
        sleep: Cost::Fixed(us(3_333)),
    };
    let mut programs: Vec<Program> = [Workload::Busy, Workload::Busy, sleeper, Workload::Busy]
        .into_iter()
        .zip(0..)
        .map(|(workload, id)| Program::new(VcpuId(id), workload))
        .collect();
    programs[3].depart = Instant::ZERO + us(155_000);
    (System::new(2, vcpus), programs)
}

struct Run {
    outcome: Outcome,
    report: Report,
    journal: Vec<u8>,
    end: Instant,
}

fn run(policy: &str, (system, programs): (System, Vec<Program>), late: u64) -> Run {
    let header = Header {
        policy: policy.into(),
        params: Params::new(),
        names: system.vcpus.iter().map(|vcpu| vcpu.id.to_string()).collect(),
        system: system.clone(),
        machine: "sim".into(),
        version: "test".into(),
        seed: 3,
    };
    let end = Instant::ZERO + us(300_000);
    let options = Options { seed: 3, late: us(late), audit: true, ..Options::new(end) };
    let entry = maracas_policies::find(policy).unwrap();
    let mut policy = (entry.build)(&system, &Params::new()).unwrap();
    let mut watch = (Metrics::new(&header), Recorder::new(&header));
    let outcome = maracas_sim::run(&system, &programs, policy.as_mut(), &options, &mut watch);
    let (metrics, mut recorder) = watch;
    recorder.end(end);
    let journal = std::mem::take(recorder.bytes());
    Run { outcome, report: metrics.report(end), journal, end }
}

fn all() -> Vec<(&'static str, Run)> {
    let mut runs = Vec::new();
    for (policy, load, late) in
        [("p-edf", 80, 0), ("g-edf", 80, 0), ("g-edf", 85, 0), ("p-rm", 60, 0), ("p-edf", 80, 300)]
    {
        runs.push((policy, run(policy, tasks(load, false), late)));
        runs.push((policy, run(policy, tasks(load, true), late)));
    }
    runs.push(("maracas", run("maracas", servers(), 0)));
    runs.push(("maracas", run("maracas", servers(), 200)));
    runs
}

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
