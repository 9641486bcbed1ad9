//! MemGuard around MARACAS: what has a budget of time keeps it.

use super::*;
use crate::testing::with;
use core::num::NonZero;
use maracas_core::contract::{Grant, MemoryLimit, Segment, Usage};
use maracas_core::{Job, JobId, VcpuId};

const MS: u64 = 1_000_000;

fn around(params: &[(&str, &str)], vcpus: Vec<Vcpu>, cores: usize) -> (Box<dyn Policy>, Plan) {
    let entry = find("memguard+maracas").unwrap();
    let params = with(params);
    assert_eq!(params.check(entry.params), Ok(()));
    let mut system = System::new(cores, vcpus);
    entry.add_service_vcpus(&mut system, &params);
    let policy = (entry.build)(&system, &params).unwrap_or_else(|why| panic!("{why:?}"));
    (policy, Plan::new(cores))
}

fn vcpu(id: u32, budget: u64, period: u64) -> Vcpu {
    let ms = Duration::from_millis;
    Vcpu { pinned: Some(CoreId(0)), ..Vcpu::new(id, ms(budget), ms(period)) }
}

fn woke(policy: &mut dyn Policy, vcpu: u32, ms: u64) {
    let at = Instant::from_ticks(ms * MS);
    policy.on_event(at, &Event::Woke { vcpu: VcpuId(vcpu), on_behalf: None, exact: true });
}

/// A VCPU ran from and to these milliseconds.
fn ran(policy: &mut dyn Policy, vcpu: u32, mode: Mode, ms: (u64, u64), reads: u64, end: End) {
    let (from, to) = (Instant::from_ticks(ms.0 * MS), Instant::from_ticks(ms.1 * MS));
    let usage = Usage { service: to - from, reads, ..Usage::default() };
    let segment = Segment { vcpu: VcpuId(vcpu), core: CoreId(0), mode, from, to, usage, end };
    policy.on_event(to, &Event::Ran(segment));
}

fn ask(policy: &mut dyn Policy, ms: u64, plan: &mut Plan) {
    decide(policy, Instant::from_ticks(ms * MS), plan);
}

fn foreground(plan: &Plan, vcpu: u32) -> Grant {
    let run_queue = &plan.run_queue(CoreId(0)).foreground;
    *run_queue.iter().find(|grant| grant.vcpu == VcpuId(vcpu)).unwrap()
}

fn background(plan: &Plan, vcpu: u32) -> Grant {
    let run_queue = &plan.run_queue(CoreId(0)).background;
    *run_queue.iter().find(|grant| grant.vcpu == VcpuId(vcpu)).unwrap()
}

/// A VCPU (10, 20) that may read 10 times in 20 ms.
fn limited() -> (Box<dyn Policy>, Plan) {
    let own = Vcpu { bandwidth: NonZero::new(32_000), ..vcpu(0, 10, 20) };
    around(&[("period", "20ms"), ("background", "off")], alloc::vec![own], 1)
}

#[test]
fn a_vcpu_that_waits_for_memory_saves_no_budget() {
    let (mut policy, mut plan) = limited();
    let policy = &mut *policy;
    woke(policy, 0, 0);
    ask(policy, 0, &mut plan);
    assert_eq!(foreground(&plan, 0).memory.0, 10);
    ran(policy, 0, Mode::Foreground, (0, 1), 10, End::MemorySpent);
    ask(policy, 1, &mut plan);
    ask(policy, 20, &mut plan);
    let until = |plan: &Plan| foreground(plan, 0).until.0.ticks() / MS;
    assert_eq!((until(&plan), foreground(&plan, 0).memory.0), (11, 20));
    ran(policy, 0, Mode::Foreground, (20, 30), 0, End::LimitReached);
    // The nine of the first period would come back now had it kept them: 19 ms of 20.
    ask(policy, 30, &mut plan);
    assert_eq!(until(&plan), 11);
    ask(policy, 40, &mut plan);
    assert_eq!(until(&plan), 21);
}

#[test]
fn what_wakes_at_its_mark_is_reported_when_that_rises() {
    let (mut policy, mut plan) = limited();
    let policy = &mut *policy;
    woke(policy, 0, 0);
    ask(policy, 0, &mut plan);
    // It blocks of itself, and wakes with a job, while it may not run.
    ran(policy, 0, Mode::Foreground, (0, 1), 10, End::Blocked);
    let (release, deadline) = (Instant::from_ticks(5 * MS), Instant::from_ticks(25 * MS));
    let job = Job { id: JobId { vcpu: VcpuId(0), index: 0 }, release, deadline };
    policy.on_event(release, &Event::Released(job));
    ask(policy, 5, &mut plan);
    ask(policy, 23, &mut plan);
    ran(policy, 0, Mode::Foreground, (23, 33), 0, End::LimitReached);
    ask(policy, 33, &mut plan);
    // Whenever it was reported, the period began at 20: what was used from then on comes back at
    // 40.
    let until = |plan: &Plan| foreground(plan, 0).until.0.ticks() / MS;
    assert_eq!(until(&plan), 11);
    ask(policy, 40, &mut plan);
    assert_eq!(until(&plan), 21);

    // A greater limit lets it go on at once, in the decision that grants it.
    ran(policy, 0, Mode::Foreground, (40, 41), 10, End::MemorySpent);
    ask(policy, 41, &mut plan);
    let more = Vcpu { bandwidth: NonZero::new(64_000), ..vcpu(0, 10, 20) };
    policy.on_event(Instant::from_ticks(42 * MS), &Event::Changed(more));
    ask(policy, 42, &mut plan);
    assert!(plan.verdicts().iter().all(|(_, verdict)| verdict.is_ok()));
    assert_eq!((foreground(&plan, 0).memory.0, plan.verdicts().len()), (30, 1));
    let once = plan.clone();
    ask(policy, 42, &mut plan);
    assert_eq!((plan.run_queue(CoreId(0)), plan.wake), (once.run_queue(CoreId(0)), once.wake));
}

/// 100 reads in 1 ms for core 0, of which surplus time leaves so much; two VCPUs there.
fn shared(more: &[(&str, &str)]) -> (Box<dyn Policy>, Plan) {
    let pairs = [("bandwidth", "6.4MB/s"), ("reservation", "hard")];
    let vcpus = alloc::vec![vcpu(0, 2, 10), vcpu(1, 1, 20)];
    let (mut policy, mut plan) = around(&[&pairs[..], more].concat(), vcpus, 1);
    woke(&mut *policy, 1, 0);
    ask(&mut *policy, 0, &mut plan);
    ran(&mut *policy, 1, Mode::Foreground, (0, 1), 0, End::LimitReached);
    ask(&mut *policy, 1, &mut plan);
    (policy, plan)
}

#[test]
fn surplus_time_never_closes_a_core() {
    let (mut policy, mut plan) = shared(&[("foreground", "64kB/s")]);
    let policy = &mut *policy;
    assert_eq!(
        (background(&plan, 1).memory.0, foreground(&plan, 0).memory),
        (99, MemoryLimit::NEVER)
    );
    ran(policy, 1, Mode::Background, (1, 1), 99, End::MemorySpent);
    ask(policy, 1, &mut plan);
    let run_queue = plan.run_queue(CoreId(0));
    assert_eq!(
        (background(&plan, 1).memory.0, run_queue.allowance.0),
        (99, 100),
        "it waits, the core not"
    );
    assert_eq!(policy.statistics().iter().filter(|f| f.name == "throttled periods").count(), 1);
    // Whatever is in budget now runs, however long it reads nothing.
    woke(policy, 0, 1);
    ask(policy, 1, &mut plan);
    assert_eq!(background(&plan, 1).memory.0, 99);
    ask(policy, 2, &mut plan);
    assert_eq!(background(&plan, 1).memory.0, 99 + 99);
}

#[test]
fn the_foreground_keeps_its_part_of_a_core() {
    let (mut policy, mut plan) = shared(&[("foreground", "3.84MB/s")]);
    let policy = &mut *policy;
    assert_eq!(background(&plan, 1).memory.0, 40);
    ran(policy, 1, Mode::Background, (1, 1), 15, End::Preempted);
    ask(policy, 1, &mut plan);
    assert_eq!(background(&plan, 1).memory.0, 40);
    // What the foreground has had of its 60 is not kept for it twice.
    woke(policy, 0, 1);
    ran(policy, 0, Mode::Foreground, (1, 1), 50, End::Blocked);
    ask(policy, 1, &mut plan);
    assert_eq!(background(&plan, 1).memory.0, 15 + 25);
    woke(policy, 0, 1);
    ran(policy, 0, Mode::Foreground, (1, 1), 20, End::Blocked);
    ask(policy, 1, &mut plan);
    assert_eq!(background(&plan, 1).memory.0, 15 + 14, "all but the last request");
}
