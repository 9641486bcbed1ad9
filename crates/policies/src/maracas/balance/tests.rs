use super::*;
use crate::maracas::ENTRY;
use crate::testing::{Machine, Manners, Rng, with};
use alloc::string::ToString;
use maracas_core::contract::{Mode, ServiceRequest};
use maracas_core::params::Params;
use maracas_core::{Criticality, Policy};

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}
fn percent(id: u32, n: u64) -> Vcpu {
    Vcpu::new(id, millis(n), millis(100))
}
fn on_core(core: u16, vcpu: Vcpu) -> Vcpu {
    Vcpu { pinned: Some(CoreId(core)), ..vcpu }
}

fn ticks(n: u64) -> Duration {
    Duration::from_ticks(n)
}

/// Cheap migrations, one tick every 50.
const VLB: &[(&str, &str)] = &[
    ("balance", "vlb"),
    ("lock_cost", "0ns"),
    ("struct_cost", "1ns"),
    ("page_cost", "0ns"),
    ("migration_period", "50ns"),
];

/// A system with the migration VCPUs that it needs behind its own.
fn with_service_vcpus(mut system: System, params: &Params) -> System {
    ENTRY.add_service_vcpus(&mut system, params);
    system
}

fn machine(params: &[(&str, &str)], masks: &[u64], vcpus: &[Vcpu], manners: Manners) -> Machine {
    let params: Vec<_> = VLB.iter().chain(params).copied().collect();
    let mut system = System::new(masks.len(), vcpus.to_vec());
    system.cores.iter_mut().zip(masks).for_each(|(core, mask)| core.colors = CachePart::new(*mask));
    let params = with(&params);
    let system = with_service_vcpus(system, &params);
    Machine::new(&ENTRY, &params, &system, manners)
}

fn run(machine: &mut Machine, ticks: u64) {
    (0..ticks).for_each(|_| machine.tick());
}

/// Runs until `vcpu` did and blocked.
fn put_to_sleep(machine: &mut Machine, vcpu: u32) {
    while machine.models[vcpu as usize].awake {
        machine.tick();
        machine.sleep(vcpu);
    }
}

/// Its moves: when, which VCPU, where to, and in which colours.
fn moves(machine: &Machine) -> Vec<(u64, u32, u16, u64)> {
    let one = |(at, service_request): &(u64, ServiceRequest)| match *service_request {
        ServiceRequest::Move { vcpu, to, colors } => {
            Some((*at, vcpu.0, to.0, colors.map_or(0, CachePart::get)))
        }
        ServiceRequest::Sample => None,
    };
    machine.service_requests.iter().filter_map(one).collect()
}

fn statistic(policy: &dyn Policy, name: &str) -> u64 {
    policy.statistics().into_iter().find(|statistic| statistic.name == name).map_or(0, |f| f.value)
}

/// vcpu0 and vcpu2 on core 0, vcpu1 and vcpu3 on core 1: (2, 20) each.
fn two_and_two() -> Vec<Vcpu> {
    (0..4).map(|id| Vcpu::new(id, ticks(2), ticks(20))).collect()
}

#[test]
fn a_wake_moves_a_vcpu_to_where_the_others_sleep() {
    let mut machine = machine(&[], &[0, 0], &two_and_two(), Manners::PERFECT);
    machine.wake(0);
    run(&mut machine, 5);
    assert_eq!(moves(&machine), []);
    machine.wake(2);
    run(&mut machine, 15);
    // vcpu0 has used its budget, vcpu2 has not waited yet: the lower id of equal U. The service
    // request takes a tick of core 0's migration VCPU, vcpu4.
    assert_eq!(moves(&machine), [(6, 0, 1, 0)]);
    assert_eq!(machine.plan.home(VcpuId(0)), Some(CoreId(1)));
    assert_eq!(machine.schedule(0), "aaAAAeccCCCCCCCCCCCC");
    assert_eq!(machine.schedule(1), "......AAAAAAAAAAAAAA");
    assert_eq!(statistic(&*machine.policy, "moves"), 1);
    assert_eq!(statistic(&*machine.policy, "late periods"), 0);
    run(&mut machine, 10);
    assert_eq!(&machine.schedule(1)[20..], "aaAAAAAAAA");
}

#[test]
fn static_never_moves_and_needs_no_service_vcpu() {
    let system = System::new(2, two_and_two());
    assert!((ENTRY.service_vcpus)(&system, &Params::new(), VcpuId(4)).is_empty());
    let mut machine = Machine::new(&ENTRY, &Params::new(), &system, Manners::PERFECT);
    machine.wake(0);
    machine.wake(2);
    run(&mut machine, 50);
    assert_eq!(machine.service_requests, []);
}

#[test]
fn budget_sleep_is_no_event_but_a_release_is() {
    // vcpu1 is asleep on core 1, so that vcpu2 may move there at any event.
    let vcpus: Vec<Vcpu> = two_and_two().into_iter().map(Vcpu::periodic).collect();
    let mut machine = machine(&[("imbalance", "1")], &[0, 0], &vcpus, Manners::PERFECT);
    for (id, work) in [(0, 1000), (2, 1000), (1, 1)] {
        machine.release(id, work, 20);
    }
    // A threshold of 1: only an empty core beckons, and at 1 core 1 becomes one.
    run(&mut machine, 3);
    assert_eq!(moves(&machine), [(2, 0, 1, 0)]);
    let asked = statistic(&*machine.policy, "moves");
    run(&mut machine, 100);
    assert_eq!(statistic(&*machine.policy, "moves"), asked);
}

#[test]
fn one_service_request_at_a_time_and_later_events_wait() {
    let mut vcpus = two_and_two();
    vcpus.extend((4..6).map(|id| Vcpu::new(id, ticks(1), ticks(20))));
    let mut machine = machine(&[], &[0, 0], &vcpus, Manners::PERFECT);
    machine.service_request_cost = 60; // More than a period of the migration VCPU.
    for id in [0, 2, 4] {
        machine.wake(id);
    }
    run(&mut machine, 20);
    put_to_sleep(&mut machine, 4);
    run(&mut machine, 5);
    assert!(machine.service_requests.is_empty() && machine.plan.service_request.is_some());
    assert!(statistic(&*machine.policy, "pending events at most") >= 1);
}

#[test]
fn migrations_keep_their_distance() {
    for (interval, most) in [("", 200), ("100ns", 11)] {
        let vcpus: Vec<Vcpu> =
            (0..6).map(|id| Vcpu::new(id, ticks(1 + u64::from(id) / 2), ticks(20))).collect();
        let params = [("min_interval", interval)];
        let mut machine = machine(&params, &[0, 0], &vcpus, Manners::PERFECT);
        let mut rng = Rng(11);
        for _ in 0..1000 {
            let id = rng.below(6) as u32;
            if rng.one_in(2) {
                machine.wake(id)
            } else {
                machine.sleep(id)
            }
            machine.tick();
        }
        let at: Vec<u64> = moves(&machine).iter().map(|(at, ..)| *at).collect();
        assert!((5..most).contains(&at.len()), "{interval}: {at:?}");
        if most == 11 {
            assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= 100), "{at:?}");
            // What waits is handled at once: it never adds up over two intervals.
            assert!((1..150).contains(&statistic(&*machine.policy, "pending events at most")));
        }
    }
}

#[test]
fn a_block_activates_the_core_with_the_least_slack_per_vcpu() {
    let vcpu = |id, budget| Vcpu::new(id, ticks(budget), ticks(20));
    let vcpus = [on_core(0, vcpu(0, 6)), vcpu(1, 4), vcpu(2, 4), on_core(2, vcpu(3, 6))];
    let mut machine = machine(&[], &[0, 0, 0], &vcpus, Manners::PERFECT);
    (0..4).for_each(|id| machine.wake(id));
    run(&mut machine, 30);
    // 70 %, 30 % and 70 %: another half as much on core 0 or 2 would be worse.
    assert_eq!(moves(&machine), []);
    put_to_sleep(&mut machine, 3);
    run(&mut machine, 3);
    let moves = moves(&machine);
    assert_eq!(moves.iter().map(|(_, id, to, _)| (*id, *to)).collect::<Vec<_>>(), [(1, 2)]);
}

#[test]
fn what_was_saved_before_a_migration_comes_back_a_period_after_it() {
    let mut vcpus = two_and_two();
    vcpus[0].pinned = Some(CoreId(0));
    let mut machine = machine(&[], &[0, 0], &vcpus, Manners::PERFECT);
    machine.wake(0);
    machine.wake(2);
    run(&mut machine, 24);
    // vcpu2 could have used its budget from 0 on, but used it at 1.
    assert_eq!(machine.schedule(1), ".ccCCCCCCCCCCCCCCCCCCccC");
    assert_eq!(statistic(&*machine.policy, "late periods"), 1);
}

#[test]
fn a_newcomer_waits_for_the_budget_that_a_mover_used() {
    let mut machine = machine(&[], &[0, 0], &two_and_two(), Manners::PERFECT);
    machine.wake(0);
    run(&mut machine, 5);
    machine.wake(2);
    run(&mut machine, 2);
    assert_eq!(moves(&machine).len(), 1);
    // 10 % + 5 % + 60 % pass the bound for three, not so with the 10 % that moved at 6.
    machine.arrive(on_core(0, Vcpu::new(6, ticks(12), ticks(20))));
    machine.tick();
    assert!(machine.answers.is_empty());
    machine.wake(6);
    run(&mut machine, 40);
    assert_eq!(machine.answers, [(VcpuId(6), Ok(CoreId(0)))]);
    // At 26 it is let in, but vcpu2 goes first and runs until 27.
    assert_eq!(machine.schedule(0).find('g'), Some(27));
}

#[test]
fn a_period_of_a_migration_vcpu_moves_one_or_as_many_as_it_takes() {
    // Six VCPUs of (1, 40) on each core; the even ones, on core 0, wake.
    let vcpus: Vec<Vcpu> = (0..12).map(|id| Vcpu::new(id, ticks(1), ticks(40))).collect();
    for (limit, at) in [("1", [1, 52, 103]), ("2", [1, 2, 52]), ("0", [1, 2, 3])] {
        // A budget for three of them, every 50 ticks from the first.
        let params = [("moves", limit), ("migration_budget", "3ns")];
        let mut machine = machine(&params, &[0, 0], &vcpus, Manners::PERFECT);
        [0, 2, 4, 6, 8, 10].into_iter().for_each(|id| machine.wake(id));
        run(&mut machine, 400);
        let moved: Vec<u64> = moves(&machine).iter().map(|(at, ..)| *at).collect();
        assert_eq!(moved, at, "moves = {limit}");
    }
}

#[test]
fn a_failed_recolouring_waits_for_the_next_event() {
    let low = |id| {
        let vcpu = on_core(0, Vcpu::new(id, ticks(2), ticks(20)));
        Vcpu { criticality: Criticality::Low, ..vcpu }
    };
    let params = [("recolor", "low"), ("color_lines", "4")];
    let manners = Manners { failing: 1, ..Manners::PERFECT };
    let mut machine = machine(&params, &[0xf, 0xf0], &[low(0), low(1)], manners);
    for id in [0, 1] {
        machine.models[id].requests = 5;
        machine.wake(id as u32);
    }
    run(&mut machine, 200);
    assert_eq!(statistic(&*machine.policy, "refused moves"), 1);
    put_to_sleep(&mut machine, 0);
    run(&mut machine, 200);
    assert_eq!(statistic(&*machine.policy, "refused moves"), 2);
}

#[test]
fn colours_are_respected_at_placement_and_migration() {
    // The paper's 4:4:10:14 (section VI.D).
    let masks = [0xf, 0xf0, 0x3ff00, 0xfffc_0000];
    let mut rng = Rng(5);
    for required in [0, 6, 12] {
        let mut vcpus: Vec<Vcpu> =
            (0..12).map(|id| Vcpu::new(id, ticks(1 + u64::from(id) % 3), ticks(40))).collect();
        vcpus[0].colors = required;
        let mut machine = machine(&[], &masks, &vcpus, Manners::PERFECT);
        for _ in 0..1500 {
            let id = rng.below(12) as u32;
            if rng.one_in(2) {
                machine.wake(id)
            } else {
                machine.sleep(id)
            }
            machine.tick();
            let home = machine.plan.home(VcpuId(0)).unwrap();
            assert!(masks[home.0 as usize].count_ones() >= required, "on {home}");
        }
        let moves = moves(&machine);
        assert!(moves.len() > 20, "{} moves", moves.len());
        assert!(moves.iter().all(|(_, _, to, colors)| *colors == masks[usize::from(*to)]));
        // Where only one core will do, it stays.
        let own = moves.iter().filter(|(_, id, ..)| *id == 0).count();
        assert_eq!(own == 0, required == 12, "{own} moves");
    }
}

#[test]
fn colours_that_no_core_offers_are_refused_with_the_numbers() {
    let refusal = |rule: &str, masks: &[u64], required: &[u32]| {
        let mut vcpus = two_and_two();
        vcpus.iter_mut().zip(required).for_each(|(vcpu, n)| vcpu.colors = *n);
        let mut system = System::new(masks.len(), vcpus);
        system
            .cores
            .iter_mut()
            .zip(masks)
            .for_each(|(core, mask)| core.colors = CachePart::new(*mask));
        let verdict = (ENTRY.admit)(&system, &with(&[("colors", rule)]));
        verdict.refused.into_iter().map(|(_, why)| why.to_string()).collect::<Vec<_>>()
    };
    let none: [String; 0] = [];
    assert_eq!(refusal("shared", &[0xf, 0xff0], &[8, 8, 8, 4]), none);
    assert_eq!(
        refusal("shared", &[0xf, 0xff0], &[9]),
        ["vcpu0 requires 9 page colours, but core1 has 8, the most of all cores; require fewer \
          or give a core more"]
    );
    assert_eq!(
        refusal("sum", &[0xf, 0xff0], &[5, 3, 4]),
        ["vcpu2 requires 4 page colours, but core1 has 8, the most of all cores, and its VCPUs \
          require 5 of them; require fewer or give a core more"]
    );
    assert_eq!(refusal("sum", &[0, 0], &[5, 3, 4]), none);
}

#[test]
fn a_migration_budget_must_pay_for_a_migration() {
    let objections = |given: &[(&str, &str)], masks: u64| {
        let params: Vec<_> = [("balance", "vlb")].iter().chain(given).copied().collect();
        let params = with(&params);
        let mut system = System::new(2, alloc::vec![percent(0, 10)]);
        system.cores[1].colors = CachePart::new(masks);
        (ENTRY.admit)(&with_service_vcpus(system, &params), &params).why()
    };
    // 2 x 5 us + 10 us, and 512 x 2 us with colours.
    assert_eq!(objections(&[], 0), "");
    assert_eq!(objections(&[("migration_budget", "20us")], 0), "");
    assert_eq!(
        objections(&[("migration_budget", "20us")], 1),
        "migration_budget is 20us, but a migration may cost 2 x 5us + 10us + 512 x 2us = \
         1.044ms; give it at least that, or lower pages_max, page_cost, lock_cost or struct_cost"
    );
    assert_eq!(objections(&[("migration_budget", "1044us")], 1), "");
    assert_eq!(
        objections(&[("migration_budget", "19us")], 0),
        "migration_budget is 19us, but a migration may cost 2 x 5us + 10us = 20us; give it at \
         least that, or lower pages_max, page_cost, lock_cost or struct_cost"
    );
    let bare = System::new(2, alloc::vec![percent(0, 10)]);
    let objections = (ENTRY.admit)(&bare, &with(&[("balance", "vlb")])).why();
    assert!(objections.contains("needs a VCPU of role migration on core0"), "{objections:?}");
    let objections = (ENTRY.admit)(&bare, &with(&[("recolor", "low")])).why();
    assert!(objections.contains("balance = vlb"), "{objections:?}");
}

#[test]
fn migration_vcpus_stand_first_and_count_in_every_test() {
    let params = with(&[("balance", "vlb"), ("throttle", "watch")]);
    let system = System::new(2, alloc::vec![percent(0, 10), percent(1, 10)]);
    let system = with_service_vcpus(system, &params);
    let service_vcpus: Vec<_> =
        system.vcpus[2..].iter().map(|v| (v.id.0, v.role, v.pinned)).collect();
    let core = |n| Some(CoreId(n));
    let (monitor, migration) = (Role::Monitor, Role::Migration);
    assert_eq!(
        service_vcpus,
        [(2, monitor, core(0)), (3, migration, core(0)), (4, migration, core(1))]
    );
    let verdict = (ENTRY.admit)(&system, &params);
    let on: Vec<Vec<u32>> =
        verdict.cores.iter().map(|core| core.vcpus.iter().map(|id| id.0).collect()).collect();
    assert_eq!(on, [[2, 3, 0].as_slice(), [4, 1].as_slice()]);
    // Beside one of 20 us in 100 ms, a VCPU may have what is left of the bound for two.
    let fits = |n| {
        let system = System::new(1, alloc::vec![percent(0, n)]);
        let params = with(&[("balance", "vlb")]);
        (ENTRY.admit)(&with_service_vcpus(system, &params), &params).accepted()
    };
    assert!(fits(82) && !fits(83));
}

#[test]
fn a_vcpu_that_fills_the_destination_meanwhile_sends_the_mover_back() {
    let mut machine = machine(&[], &[0xf, 0xf0], &two_and_two(), Manners::PERFECT);
    machine.service_request_cost = 3;
    machine.wake(0);
    machine.wake(2);
    run(&mut machine, 2);
    assert!(machine.plan.service_request.is_some());
    // 10 % + 10 % + 50 % of core 1; with 10 % more the bound for four is passed.
    let mut vcpu = on_core(1, Vcpu::new(6, ticks(10), ticks(20)));
    vcpu.colors = 2;
    machine.arrive(vcpu);
    run(&mut machine, 400);
    assert_eq!(machine.answers, [(VcpuId(6), Ok(CoreId(1)))]);
    let moves: Vec<_> = moves(&machine).iter().map(|(_, id, to, mask)| (*id, *to, *mask)).collect();
    assert_eq!(moves, [(0, 1, 0xf0), (0, 0, 0xf)]);
    assert_eq!(statistic(&*machine.policy, "refused moves"), 1);
    assert_eq!(statistic(&*machine.policy, "moves"), 0);
    assert_eq!(machine.plan.home(VcpuId(0)), Some(CoreId(0)));
}

#[test]
fn a_failed_migration_waits_for_the_next_event() {
    let manners = Manners { failing: 1, ..Manners::PERFECT };
    let mut machine = machine(&[], &[0xf, 0xf0], &two_and_two(), manners);
    machine.wake(0);
    machine.wake(2);
    run(&mut machine, 200);
    // One for each wake: both find two on core 0.
    assert_eq!(statistic(&*machine.policy, "refused moves"), 2);
    put_to_sleep(&mut machine, 0);
    run(&mut machine, 5);
    machine.wake(0);
    run(&mut machine, 200);
    assert_eq!(statistic(&*machine.policy, "refused moves"), 3);
}

#[test]
fn a_mover_is_as_far_behind_as_it_was() {
    let vcpus = two_and_two();
    let mut machine = machine(&[], &[0, 0], &vcpus, Manners::PERFECT);
    machine.wake(0);
    machine.wake(1);
    run(&mut machine, 15);
    // BGT 13 on both cores; vcpu2 wakes, and vcpu1 sleeps, so that core 1 is empty.
    machine.sleep(1);
    machine.wake(2);
    run(&mut machine, 4);
    assert_eq!(moves(&machine).len(), 1);
    machine.wake(1);
    machine.wake(3);
    run(&mut machine, 400);
    let background: Vec<u64> = machine.models.iter().map(|model| model.meters[1]).collect();
    let (least, most) = (background[..4].iter().min(), background[..4].iter().max());
    assert!(least > Some(&150), "{background:?}");
    assert!(most < Some(&210), "{background:?}");
}

#[test]
fn idle_cores_lend_their_colours_to_low_criticality_until_a_vcpu_comes() {
    let mut vcpus: Vec<Vcpu> =
        (0..3).map(|id| on_core(0, Vcpu::new(id, ticks(2), ticks(20)))).collect();
    vcpus[0].criticality = Criticality::Low;
    vcpus[1].criticality = Criticality::Low;
    for recolor in ["off", "low"] {
        let params = [("recolor", recolor), ("color_lines", "4")];
        let mut machine = machine(&params, &[0xf, 0xf0], &vcpus, Manners::PERFECT);
        for (id, requests) in [(0, 1), (1, 5), (2, 9)] {
            machine.models[id].requests = requests;
            machine.wake(id as u32);
        }
        run(&mut machine, 100);
        if recolor == "off" {
            assert_eq!(moves(&machine), []);
            continue;
        }
        let seen = |machine: &Machine| {
            moves(machine).iter().map(|(_, id, to, mask)| (*id, *to, *mask)).collect::<Vec<_>>()
        };
        // vcpu2 misses most, but is of high criticality.
        assert_eq!(seen(&machine), [(1, 0, 0xff)]);
        machine.arrive(on_core(1, Vcpu::new(5, ticks(2), ticks(20))));
        run(&mut machine, 60);
        assert_eq!(seen(&machine), [(1, 0, 0xff), (1, 0, 0xf)]);
        assert_eq!(statistic(&*machine.policy, "recolourings"), 2);
        assert_eq!(statistic(&*machine.policy, "moves"), 0);
    }
}

mod guarantees;
