//! Fairness on uneven cores as real policies share them out, in simulation.

use maracas_core::journal::{Header, Recorder};
use maracas_core::params::Params;
use maracas_core::{Instant, Pace, PacePhase, Program, System, Vcpu, VcpuId, Workload};
use maracas_sim::Options;
use maracas_sim::memory::UnevenCores;
use maracas_trace::{Metrics, Report};
use std::num::NonZero;

/// Speedups in thousandths of the vector in algorithms.md E.2: two fast and four slow cores.
const SPEEDUPS: [u32; 6] = [2000, 1900, 1600, 1500, 1200, 1100];

/// A minute of six programs that always run, under `policy`, which is given their speedups.
fn run(policy: &str, paces: &[Option<Pace>]) -> Report {
    let vcpu = |(id, &milli)| Vcpu { speedup_milli: NonZero::new(milli), ..Vcpu::best_effort(id) };
    let vcpus: Vec<Vcpu> = (0..).zip(&SPEEDUPS).map(vcpu).collect();
    let programs: Vec<_> = vcpus.iter().map(|vcpu| Program::new(vcpu.id, Workload::Busy)).collect();
    let system = System::new(6, vcpus).uneven(&[(2, 1000), (4, 500)]);
    let header = Header {
        policy: policy.into(),
        params: Params::new(),
        names: (0..6).map(|id| VcpuId(id).to_string()).collect(),
        system: system.clone(),
        machine: "sim".into(),
        version: "test".into(),
        seed: 3,
    };
    let end = Instant::ZERO + maracas_core::Duration::from_secs(60);
    let entry = maracas_policies::find(policy).unwrap();
    let mut policy = (entry.build)(&system, &Params::new()).unwrap();
    let mut watch = (Metrics::new(&header), Recorder::new(&header));
    let (options, model) = (Options::new(end), UnevenCores::new(&system, paces));
    maracas_sim::run_with(&system, &programs, policy.as_mut(), &options, &mut watch, model);
    let (metrics, mut recorder) = watch;
    recorder.end(end);
    let report = metrics.report(end);
    assert_eq!(Report::from_journal(recorder.bytes()).unwrap(), report);
    for task in &report.tasks {
        let classes = &task.speed.as_ref().unwrap().classes;
        let sums = classes.iter().fold((0, 0), |(time, count), class| {
            (time + class.time_ns, count + class.instructions)
        });
        let all = task.foreground.plus(&task.background).instructions;
        assert_eq!(sums, (task.foreground_ns + task.background_ns, all));
    }
    report
}

fn steady() -> Vec<Option<Pace>> {
    let pace = |speedup: &u32| Pace::steady(vec![u64::from(*speedup) * 1_000_000, 1_000_000_000]);
    SPEEDUPS.iter().map(|speedup| Some(pace(speedup))).collect()
}

/// Throughput, MinFairness and Uniformity.
fn figures(report: &Report) -> [f64; 3] {
    let fairness = report.fairness.as_ref().unwrap();
    assert_eq!((fairness.judged, fairness.unknown), (6, 0));
    [fairness.throughput, fairness.min_fairness, fairness.uniformity].map(Option::unwrap)
}

fn assert_close(policy: &str, got: [f64; 3], expected: [f64; 3]) {
    let close = got.iter().zip(expected).all(|(got, it)| (got - it).abs() < 0.005);
    assert!(close, "{policy}: {got:?}, not {expected:?}");
}

#[test]
fn the_policies_score_what_the_definitions_say() {
    let expected = [
        ("max-fair", [1.0, 1.0, 1.0]),
        ("max-perf", [1.0929, 0.8333, 0.7454]),
        ("min-fair", [1.0918, 0.8500, 0.7521]),
        ("similar-min-fair", [1.0916, 0.8500, 0.7526]),
    ];
    for (policy, expected) in expected {
        assert_close(policy, figures(&run(policy, &steady())), expected);
    }
}

#[test]
fn equal_sharing_scores_one_through_all_phases() {
    // Each program loses its speedup every 7 s of work, for 5 s of work.
    let phase = |seconds, ips| PacePhase { work: maracas_core::Duration::from_secs(seconds), ips };
    let pace = |speedup: &u32| {
        let fast = u64::from(*speedup) * 1_000_000;
        Pace { phases: vec![phase(7, vec![fast, 1_000_000_000]), phase(5, vec![fast, fast])] }
    };
    let paces: Vec<_> = SPEEDUPS.iter().map(|speedup| Some(pace(speedup))).collect();
    assert_close("max-fair", figures(&run("max-fair", &paces)), [1.0, 1.0, 1.0]);
}
