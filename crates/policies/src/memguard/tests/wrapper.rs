//! The wrapper as such: what it passes on, and what it is registered as.

use super::*;
use crate::{WRAPPED, hostile};
use core::num::NonZero;
use maracas_core::VcpuId;
use maracas_core::admission::NotAdmitted;
use maracas_core::contract::{
    Claims, End, Limit, MemoryLimit, Mode, Needs, Segment, ServiceRequest, Usage, no_service_vcpus,
};
use maracas_core::params::ParamSpec;

/// Grants one VCPU everything, refuses changes, wants to be woken once, and counts its events.
#[derive(Default)]
struct Spy {
    observed: u64,
    changes: Vec<VcpuId>,
}

const SPY: Entry = Entry {
    name: "spy",
    paper: "none",
    summary: "for tests",
    params: &[],
    needs: Needs::BUDGETS,
    claims: Claims { partitioned: true, work_conserving: true, no_miss_when_admitted: true },
    service_vcpus: no_service_vcpus,
    admit: |_, _| Verdict::default(),
    fits: None,
    build: |_, _| Ok(Box::new(Spy::default())),
};

impl Policy for Spy {
    fn on_event(&mut self, _: Instant, event: &Event) {
        self.observed += 1;
        if let Event::Changed(vcpu) = event {
            self.changes.push(vcpu.id);
        }
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        if plan.run_queue(CoreId(0)).foreground.is_empty() {
            plan.run_queue_mut(CoreId(0)).foreground.push(Grant::new(VcpuId(0), Limit::NEVER));
            plan.set_home(VcpuId(0), Some(CoreId(1)));
            plan.service_request = Some((VcpuId(7), ServiceRequest::Sample));
        }
        for vcpu in self.changes.drain(..) {
            plan.answer(vcpu, Err(NotAdmitted { reason: "no".into(), closest: None }));
        }
        plan.wake = if now.ticks() < 25 { Instant::from_ticks(25) } else { Instant::NEVER };
    }
    fn statistics(&self) -> Vec<Statistic> {
        alloc::vec![Statistic { name: "observed", core: None, vcpu: None, value: self.observed }]
    }
}

fn ran(core: u16, to: u64, reads: u64, end: End) -> Event {
    let usage = Usage { reads, ..Usage::default() };
    let to = Instant::from_ticks(to);
    let (vcpu, core, mode) = (VcpuId(0), CoreId(core), Mode::Foreground);
    Event::Ran(Segment { vcpu, core, mode, from: Instant::ZERO, to, usage, end })
}

fn around_spy(pairs: &[(&str, &str)], bandwidth: u64) -> (MemGuard, Plan) {
    let mut vcpu = rig::busy_vcpu(0);
    vcpu.bandwidth = NonZero::new(bandwidth);
    let system = System::new(2, alloc::vec![vcpu]);
    let policy = MemGuard::around(&SPY, &system, &given(pairs));
    (policy.unwrap_or_else(|why| panic!("{why:?}")), Plan::new(2))
}

fn ask(policy: &mut MemGuard, now: u64, plan: &mut Plan) {
    decide(policy, Instant::from_ticks(now), plan);
}

#[test]
fn all_but_spent_allowances_is_passed_on_and_every_answer_back() {
    let pairs = [("bandwidth", "none, 19.2GB/s"), ("period", "10ns")];
    let (mut policy, mut plan) = around_spy(&pairs, 12_800_000_000);
    ask(&mut policy, 0, &mut plan);
    let run_queue = plan.run_queue(CoreId(0));
    assert_eq!(run_queue.foreground[0].memory.0, 2);
    assert_eq!(run_queue.allowance, MemoryLimit::NEVER);
    assert_eq!(plan.run_queue(CoreId(1)).allowance.0, 3);
    assert_eq!((plan.home(VcpuId(0)), plan.rehomed()), (Some(CoreId(1)), &[VcpuId(0)][..]));
    assert_eq!(plan.service_request, Some((VcpuId(7), ServiceRequest::Sample)));
    assert_eq!((plan.wake, plan.wake_metered), (Instant::from_ticks(10), true));

    let at = Instant::from_ticks(4);
    policy.on_event(at, &ran(1, 4, 3, End::Preempted));
    policy.on_event(at, &Event::AllowanceSpent { core: CoreId(1) });
    let mut changed = rig::busy_vcpu(0);
    changed.bandwidth = NonZero::new(64_000_000_000);
    policy.on_event(at, &Event::Changed(changed));
    assert_eq!(statistic_of(&policy, "observed"), 2);
    ask(&mut policy, 4, &mut plan);
    assert_eq!(plan.verdicts().len(), 1);
    assert_eq!(
        plan.run_queue(CoreId(0)).foreground[0].memory.0,
        2,
        "what was refused counts for nothing"
    );

    ask(&mut policy, 20, &mut plan);
    // Its three reads were one too many: one is owed.
    assert_eq!(plan.run_queue(CoreId(0)).foreground[0].memory.0, 4);
    assert_eq!(plan.run_queue(CoreId(1)).allowance.0, 6);
    assert_eq!((plan.wake, plan.wake_metered), (Instant::from_ticks(25), false));
    ask(&mut policy, 25, &mut plan);
    assert_eq!((plan.wake, plan.wake_metered), (Instant::from_ticks(30), true));
}

fn statistic_of(policy: &MemGuard, name: &str) -> u64 {
    policy.statistics().iter().find(|statistic| statistic.name == name).unwrap().value
}

#[test]
fn periods_begin_at_nominal_instants_however_late_the_decision() {
    let pairs = [
        ("bandwidth", "none, 19.2GB/s"),
        ("reservation", "hard"),
        ("period", "10ns"),
        ("spare", "proportional"),
    ];
    let (mut policy, mut plan) = around_spy(&pairs, 0);
    ask(&mut policy, 0, &mut plan);
    ask(&mut policy, 17, &mut plan);
    assert_eq!(policy.cores_next, Instant::from_ticks(20));
    ask(&mut policy, 43, &mut plan);
    assert_eq!(policy.cores_next, Instant::from_ticks(50));
    assert_eq!(
        statistic_of(&policy, "regulated periods"),
        2,
        "of missed periods one is replenished"
    );
    // All is used up at 44; whenever that is reported, the next period begins then. Its VCPU then
    // sleeps, so that core0, which has no budget, is not active.
    policy.on_event(Instant::from_ticks(44), &ran(1, 44, 3, End::Blocked));
    ask(&mut policy, 48, &mut plan);
    assert_eq!(policy.cores_next, Instant::from_ticks(54));
    assert_eq!(plan.run_queue(CoreId(1)).allowance.0, 6);
    // Reported again, or asked again, nothing changes.
    policy.on_event(Instant::from_ticks(44), &Event::AllowanceSpent { core: CoreId(1) });
    let before = plan.clone();
    ask(&mut policy, 49, &mut plan);
    assert_eq!((plan.run_queue(CoreId(1)), plan.wake), (before.run_queue(CoreId(1)), before.wake));
}

/// Takes its VCPU off core0 by itself at 7.
struct Leaver;

impl Policy for Leaver {
    fn on_event(&mut self, _: Instant, _: &Event) {}
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        let leaves = Instant::from_ticks(7);
        let run_queue = plan.run_queue_mut(CoreId(0));
        run_queue.foreground.clear();
        plan.wake = Instant::NEVER;
        if now < leaves {
            plan.run_queue_mut(CoreId(0)).foreground.push(Grant::new(VcpuId(0), Limit::NEVER));
            plan.wake = leaves;
        }
    }
}

/// No event says that the last active core has nothing to run any more: the inner policy waited for
/// that instant.
#[test]
fn a_period_begins_when_the_inner_policy_leaves_none_active() {
    let entry = Entry { build: |_, _| Ok(Box::new(Leaver)), ..SPY };
    let pairs = [("bandwidth", "none, 19.2GB/s"), ("period", "10ns"), ("spare", "proportional")];
    for late in [0, 2] {
        let system = System::new(2, alloc::vec![rig::busy_vcpu(0)]);
        let policy = MemGuard::around(&entry, &system, &given(&pairs));
        let (mut policy, mut plan) = (policy.unwrap_or_else(|why| panic!("{why:?}")), Plan::new(2));
        ask(&mut policy, 0, &mut plan);
        policy.on_event(Instant::from_ticks(4), &ran(1, 4, 3, End::Preempted));
        ask(&mut policy, 4, &mut plan);
        assert_eq!(policy.cores_next, Instant::from_ticks(10), "core0 is active");
        ask(&mut policy, 7 + late, &mut plan);
        assert_eq!(policy.cores_next, Instant::from_ticks(17));
    }
}

#[test]
fn wrapped_policies_pass_the_hostile_machine() {
    for entry in WRAPPED {
        for seed in 0..40 {
            hostile::try_hard(entry, &[], seed);
            let pairs = [("bandwidth", "6.4GB/s"), ("period", "10ns")];
            hostile::try_hard(entry, &pairs, seed);
        }
    }
}

#[test]
fn entries_say_what_they_are() {
    let entry = find("memguard+maracas").unwrap();
    let inner = find("maracas").unwrap();
    assert!(entry.needs.counters && entry.claims.partitioned && !entry.claims.work_conserving);
    assert!(entry.summary.ends_with(inner.summary) && entry.paper.ends_with(inner.paper));
    assert_eq!(entry.params[0].name, "bandwidth");
    // All but what would begin unseen.
    let names = |params: &[ParamSpec]| params.iter().map(|spec| spec.name).collect::<Vec<_>>();
    let [passed @ .., ahead] = inner.params else { panic!("maracas has parameters") };
    assert_eq!(names(&entry.params[settings::PARAMS.len()..]), names(passed));
    assert_eq!(ahead.name, "ahead");
}
