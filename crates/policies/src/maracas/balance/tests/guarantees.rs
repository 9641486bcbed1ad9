//! What a VCPU keeps while it and others move, and which events move which VCPU.

use super::*;

/// Runs a random system, half of it always busy, half of it coming and going; the VCPUs, and when
/// each migrated.
fn random_run(seed: u64, params: &[(&str, &str)], until: u64) -> (Vec<Vcpu>, Machine) {
    let mut rng = Rng(seed);
    let cores = 2 + rng.below(3) as usize;
    let n = 4 + rng.below(8) as u32;
    let mut vcpus = Vec::new();
    for _ in 0..n {
        let period = 10 + rng.below(40);
        let budget = 1 + rng.below(period / 4);
        let vcpu = Vcpu::new(vcpus.len() as u32, ticks(budget), ticks(period));
        let mut system = System::new(cores, vcpus.clone());
        system.vcpus.push(vcpu.clone());
        let given: Vec<_> = VLB.iter().chain(params).copied().collect();
        let system = with_service_vcpus(system, &with(&given));
        if (ENTRY.admit)(&system, &with(&given)).accepted() {
            vcpus.push(vcpu);
        }
    }
    let mut machine = machine(params, &alloc::vec![0; cores], &vcpus, Manners::PERFECT);
    let busy = vcpus.len() / 2;
    (0..busy as u32).for_each(|id| machine.wake(id));
    while machine.now < until {
        for id in busy as u32..vcpus.len() as u32 {
            if rng.one_in(25) {
                machine.wake(id);
            } else if rng.one_in(25) {
                machine.sleep(id);
            }
        }
        machine.tick();
    }
    (vcpus, machine)
}

/// algorithms.md G.4, invariant 5: whatever is always busy gets its budget in each of its periods,
/// and loses at most one of them by a migration. From any instant on all of it is usable within T,
/// and used T later: but for migrations, 2T hold a whole budget. What a move delayed, no other
/// does: with any number of them 3T do.
#[test]
fn every_busy_vcpu_keeps_its_budget() {
    let (mut moved, mut stayed) = (0, 0);
    for seed in 0..150 {
        let params: &[(&str, &str)] = match seed % 3 {
            0 => &[("admission", "rta")],
            1 => &[("moves", "0")],
            _ => &[("min_interval", "200ns")],
        };
        let (vcpus, machine) = random_run(seed, params, 1200);
        let moves = moves(&machine);
        for vcpu in &vcpus[..vcpus.len() / 2] {
            let id = vcpu.id.0;
            let mine: Vec<u64> =
                moves.iter().filter(|(_, moved, ..)| *moved == id).map(|(at, ..)| *at).collect();
            let (c, t) = (vcpu.reservation.budget.ticks(), vcpu.reservation.period.ticks());
            let ran = foreground(&machine, id);
            let got = |from: u64, to: u64| {
                ran[from as usize..to as usize].iter().filter(|ran| **ran).count() as u64
            };
            for from in 0..machine.now - 3 * t {
                let to = from + 2 * t;
                let still = mine.iter().all(|at| *at <= from || *at > to);
                assert!(!still || got(from, to) >= c, "seed {seed}: {id} in [{from}, {to})");
                assert!(got(from, to + t) >= c, "seed {seed}: {id} in [{from}, {})", to + t);
            }
            let periods = if mine.is_empty() { machine.now / t } else { 0 };
            for period in 0..periods {
                let got = got(period * t, (period + 1) * t);
                assert!(got >= c, "seed {seed}: {id} got {got} of {c} in its period {period}");
            }
            moved += mine.len();
            stayed += usize::from(mine.is_empty());
        }
    }
    assert!(moved > 1000 && stayed > 100, "{moved} moved, {stayed} stayed");
}

/// Whether `vcpu` ran on its budget, tick by tick.
fn foreground(machine: &Machine, vcpu: u32) -> Vec<bool> {
    machine.trace.iter().map(|row| row.contains(&Some((vcpu, Mode::Foreground)))).collect()
}

#[test]
fn what_is_always_in_the_way_of_a_job_is_not_sent_to_and_fro_for_ever() {
    // (400, 800) keeps core 0 busy in the first half of each period and core 1 in the second, and
    // a short job wakes on each just before its half ends: whatever waits there should move.
    let (half, t) = (400, 800);
    let mut vcpus: Vec<Vcpu> =
        (0..2).map(|id| on_core(id as u16, Vcpu::new(id, ticks(half), ticks(t)))).collect();
    let job = |id: u32| Vcpu::new(id, ticks(10), ticks(t)).periodic();
    vcpus.extend((2..4).map(|id| on_core(id as u16 - 2, job(id))));
    vcpus.push(Vcpu::new(4, ticks(150), ticks(t)));
    let mut machine = machine(&[("background", "off")], &[0, 0], &vcpus, Manners::PERFECT);
    machine.wake(0);
    while machine.now < 40 * t {
        match machine.now {
            10 => machine.wake(4),
            400 => machine.wake(1),
            _ => {}
        }
        match machine.now % t {
            399 => machine.release(2, 10, machine.now + t),
            799 => machine.release(3, 10, machine.now + t),
            _ => {}
        }
        machine.tick();
    }
    let late = statistic(&*machine.policy, "late periods");
    assert!(late > 5, "{late} late periods");
    let ran = foreground(&machine, 4);
    for window in ran[10..].windows(3 * t as usize) {
        assert!(window.iter().filter(|ran| **ran).count() >= 150);
    }
}

#[test]
fn a_block_is_not_forgotten_while_what_left_is_in_the_way() {
    let mut vcpus = alloc::vec![on_core(1, Vcpu::new(0, ticks(60), ticks(100)))];
    vcpus.extend((1..5).map(|id| Vcpu::new(id, ticks(10), ticks(100))));
    let mut machine = machine(&[], &[0, 0], &vcpus, Manners::PERFECT);
    (0..5).for_each(|id| machine.wake(id));
    run(&mut machine, 1000);
    assert_eq!(moves(&machine), []);
    machine.remove(0);
    run(&mut machine, 250);
    // 60 % that left and 10 % that come are too much beside the migration VCPU's 2 %.
    let moves = moves(&machine);
    assert!(matches!(moves[..], [(1000..1102, 1, 1, 0), ..]), "{moves:?}");
}

#[test]
fn each_of_many_events_moves_one() {
    let mut vcpus: Vec<Vcpu> = (0..6).map(|id| Vcpu::new(id, ticks(5), ticks(100))).collect();
    vcpus.extend((6..12).map(|id| on_core(1, Vcpu::new(id, ticks(5), ticks(100)))));
    let mut machine = machine(&[], &[0, 0], &vcpus, Manners::PERFECT);
    (0..12).for_each(|id| machine.wake(id));
    run(&mut machine, 500);
    assert_eq!(moves(&machine), []);
    (6..12).for_each(|id| machine.remove(id));
    run(&mut machine, 400);
    // Six against none, and one a period of the migration VCPU.
    let at: Vec<u64> = moves(&machine).iter().map(|(at, ..)| *at).collect();
    assert_eq!(at.len(), 3, "{at:?}");
    assert!(at.windows(2).all(|pair| (50..60).contains(&(pair[1] - pair[0]))), "{at:?}");
    assert!(statistic(&*machine.policy, "pending events at most") >= 5);
}

#[test]
fn a_move_that_no_longer_evens_out_is_not_made() {
    let params = [("migration_budget", "3ns")];
    let mut machine = machine(&params, &[0, 0], &two_and_two(), Manners::PERFECT);
    machine.service_request_cost = 3;
    machine.wake(0);
    machine.wake(2);
    run(&mut machine, 1);
    assert!(machine.plan.service_request.is_some());
    // Two against two, before it is done.
    machine.wake(1);
    machine.wake(3);
    run(&mut machine, 300);
    assert_eq!(statistic(&*machine.policy, "refused moves"), 1);
    assert_eq!(statistic(&*machine.policy, "moves"), 0);
    assert_eq!(machine.plan.home(VcpuId(0)), Some(CoreId(0)));
}

#[test]
fn no_sample_waits_for_a_migration_vcpu_without_budget() {
    let vcpus: Vec<Vcpu> = (0..8).map(|id| Vcpu::new(id, ticks(1), ticks(40))).collect();
    let params = [
        ("throttle", "watch"),
        ("mem_period", "20ns"),
        ("monitor_budget", "1ns"),
        ("migration_period", "200ns"),
    ];
    let mut machine = machine(&params, &[0, 0], &vcpus, Manners::PERFECT);
    for id in (0..8).step_by(2) {
        machine.wake(id);
        run(&mut machine, 30);
    }
    run(&mut machine, 1001 - 120);
    assert!(statistic(&*machine.policy, "moves") >= 2);
    let samples: Vec<u64> = machine
        .service_requests
        .iter()
        .filter(|(_, service_request)| *service_request == ServiceRequest::Sample)
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(samples.len(), 50, "{samples:?} {:?}", moves(&machine));
    assert!((1..).zip(&samples).all(|(k, at)| (20 * k..20 * k + 3).contains(at)), "{samples:?}");
}
