//! Grants ahead: what a VCPU is to have next begins at its instant, however late decisions are.

use maracas_core::contract::{Entry, Mode, Observer};
use maracas_core::params::Value;
use maracas_core::{
    CoreId, Cost, Duration, Event, Instant, Plan, Program, System, Vcpu, VcpuId, Workload,
};
use maracas_tests::{Case, Faults, Mix, RandomSystem, Schedule, generate};
use std::collections::BTreeMap;

/// The policies that give some.
fn entries() -> impl Iterator<Item = &'static Entry> {
    let gives = |entry: &&Entry| entry.params.iter().any(|spec| spec.name == "ahead");
    maracas_policies::all().filter(gives)
}

/// The case with grants ahead, or without.
fn with(mut case: Case, ahead: bool) -> Case {
    case.params.set("ahead", Value::Flag(ahead));
    case
}

/// The schedule of a case, and how many grants ahead its plans had; `None` where the policy
/// refuses.
fn schedule(case: &Case) -> Option<(Schedule, Counted)> {
    let mut policy = case.policy()?;
    let mut observers = (Schedule::default(), Counted::default());
    case.run(&mut *policy, &mut observers);
    Some(observers)
}

/// What plans have ahead, and how many there are.
#[derive(Default)]
struct Counted {
    ahead: usize,
    decisions: usize,
}

impl Observer for Counted {
    fn event(&mut self, _: Instant, _: &Event) {}
    fn planned(&mut self, now: Instant, plan: &Plan) {
        self.decisions += 1;
        for core in plan.dirty().iter() {
            let foreground = &plan.run_queue(core).foreground;
            self.ahead += foreground.iter().filter(|grant| grant.from > now).count();
        }
    }
}

/// Where decisions are in time it makes no difference when a grant is said.
#[test]
fn on_time_they_change_no_schedule() {
    let unruly = Mix { jobs_only: false, changes: true, unruly: true, load: 80 };
    let mut compared = BTreeMap::new();
    for entry in entries() {
        for seed in 0..60 {
            for mix in [Mix::tasks(90), Mix::programs(65), unruly] {
                let mix = Mix { jobs_only: mix.jobs_only || entry.needs.jobs, ..mix };
                let case = Case::new(entry, generate(seed, mix), seed);
                let [plain, ahead] = [false, true].map(|ahead| with(case.clone(), ahead));
                let Some((expected, none)) = schedule(&plain) else { continue };
                let (found, some) = schedule(&ahead).expect("what was accepted once is again");
                for (core, (plain, ahead)) in expected.cores.iter().zip(&found.cores).enumerate() {
                    let first = plain.iter().zip(ahead).find(|(plain, ahead)| plain != ahead);
                    assert_eq!(first, None, "core{core}, seed {seed}:\n{case}");
                }
                assert_eq!(expected, found, "seed {seed}:\n{case}");
                assert_eq!(none.ahead, 0, "seed {seed}:\n{case}");
                let (cases, grants) = compared.entry(entry.name).or_insert((0, 0));
                (*cases, *grants) = (*cases + 1, *grants + some.ahead);
            }
        }
    }
    for name in ["maracas", "p-edf", "p-rm"] {
        let (cases, grants) = compared[name];
        assert!(cases > 30 && grants > 10 * cases, "{name}: {grants} grants in {cases} cases");
    }
}

/// Foreground service by VCPU, when each piece of it began, and when the jobs of each ended.
#[derive(Default)]
struct Budgets {
    service: BTreeMap<VcpuId, Duration>,
    begun: BTreeMap<VcpuId, Vec<Instant>>,
    completed: BTreeMap<VcpuId, Vec<Instant>>,
}

impl Observer for Budgets {
    fn event(&mut self, at: Instant, event: &Event) {
        if let Event::Ran(segment) = event
            && segment.mode == Mode::Foreground
        {
            *self.service.entry(segment.vcpu).or_default() += segment.usage.service;
            self.begun.entry(segment.vcpu).or_default().push(segment.from);
        }
        if let Event::Completed(job) = event {
            self.completed.entry(job.vcpu).or_default().push(at);
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

/// The budgets of the quickstart, a thousand ticks a millisecond.
fn system(jobs: bool) -> System {
    let vcpus = [(0_u32, 2, 10), (1, 3, 10), (2, 4, 20), (3, 3, 15)].map(|(id, c, t)| {
        let ticks = |n: u64| Duration::from_ticks(n * 1_000);
        let vcpu =
            Vcpu { pinned: Some(CoreId(id as u16 / 2)), ..Vcpu::new(id, ticks(c), ticks(t)) };
        if jobs { vcpu.periodic() } else { vcpu }
    });
    System::new(2, vcpus.to_vec())
}

/// Runs the system with decisions up to 3,000 ticks late.
fn run_late(name: &str, workload: impl Fn(&Vcpu) -> Workload, ahead: bool) -> Budgets {
    let entry = maracas_policies::find(name).expect("it is registered");
    let system = system(entry.needs.jobs);
    let programs = system.vcpus.iter().map(|vcpu| Program::new(vcpu.id, workload(vcpu)));
    let programs = programs.collect();
    let case = Case::new(entry, RandomSystem { system, programs }, 5);
    let faults = Faults { late: Duration::from_ticks(3_000), ..Faults::default() };
    let until = Instant::from_ticks(600_000);
    let case = with(Case { faults, until, ..case }, ahead);
    let mut budgets = Budgets::default();
    case.run(&mut *case.policy().expect("it fits"), &mut budgets);
    budgets
}

#[test]
fn late_decisions_take_nothing_from_budgets() {
    let [ahead, late] = [true, false].map(|ahead| run_late("maracas", |_| Workload::Busy, ahead));
    let service: Vec<_> = ahead.service.values().map(|service| service.ticks()).collect();
    assert_eq!(service, [120, 180, 120, 120].map(|ms| ms * 1_000));
    // The first of each core begins when its budget comes back.
    for (vcpu, period) in [(0, 10_000), (3, 15_000)] {
        let after = |run: &Budgets| -> Vec<u64> {
            run.begun[&VcpuId(vcpu)].iter().map(|from| from.ticks() % period).collect()
        };
        let (ahead, late) = (after(&ahead), after(&late));
        assert!(ahead.iter().all(|after| *after == 0), "vcpu{vcpu}: {ahead:?}");
        assert!(late.iter().any(|after| *after > 500), "vcpu{vcpu}: {late:?}");
    }
}

#[test]
fn late_decisions_make_no_job_but_the_first_late() {
    let work = |vcpu: &Vcpu| Workload::Periodic { cost: Cost::Fixed(vcpu.reservation.budget) };
    for name in ["p-edf", "p-rm"] {
        let (ahead, late) = (run_late(name, work, true), run_late(name, work, false));
        let ends = |run: &Budgets, vcpu| -> Vec<u64> {
            let ends = run.completed[&VcpuId(vcpu)].iter();
            ends.map(|at| at.ticks() % 10_000).skip(2).collect()
        };
        // The first of its core.
        assert!(ends(&ahead, 0).iter().all(|end| *end == 2_000), "{name}: {:?}", ends(&ahead, 0));
        assert!(ends(&late, 0).iter().any(|end| *end > 2_500), "{name}: {:?}", ends(&late, 0));
    }
}
