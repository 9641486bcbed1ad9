//! Simulated runs that several tests look at.
// Each test uses what it needs of it.
#![allow(dead_code)]

use maracas_core::journal::{Header, Recorder};
use maracas_core::params::Params;
use maracas_core::{Cost, Duration, Instant, Program, System, Vcpu, VcpuId, Workload};
use maracas_sim::{Options, Outcome};
use maracas_trace::{Metrics, Report};

/// So many microseconds.
pub(crate) fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// Tasks with jobs. They declare `load` per cent of about two cores and need all of that, or a
/// part, or, where they `overrun`, half as much again.
pub(crate) fn tasks(load: u64, overrun: bool) -> (System, Vec<Program>) {
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
pub(crate) fn servers() -> (System, Vec<Program>) {
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

/// A run, with all that the simulator and the metrics say of it.
pub(crate) struct Run {
    pub(crate) outcome: Outcome,
    pub(crate) report: Report,
    pub(crate) journal: Vec<u8>,
    pub(crate) end: Instant,
}

/// Simulates it for 300 ms, up to `late` microseconds late.
pub(crate) fn run(policy: &str, system: (System, Vec<Program>), late: u64) -> Run {
    run_until(policy, system, late, Instant::ZERO + us(300_000))
}

/// The same up to `end`.
pub(crate) fn run_until(
    policy: &str,
    (system, programs): (System, Vec<Program>),
    late: u64,
    end: Instant,
) -> Run {
    let header = Header {
        policy: policy.into(),
        params: Params::new(),
        names: system.vcpus.iter().map(|vcpu| vcpu.id.to_string()).collect(),
        system: system.clone(),
        machine: "sim".into(),
        version: "test".into(),
        seed: 3,
    };
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

/// Runs of several policies, with their names.
pub(crate) fn all() -> Vec<(&'static str, Run)> {
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
