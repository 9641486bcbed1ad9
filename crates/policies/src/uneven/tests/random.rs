//! Invariants on random systems.

use super::{as_written, max_fair, ran, statistic, system, ticks};
use crate::testing::{Machine, Manners, Rng, with};
use crate::uneven;
use alloc::vec::Vec;
use core::num::NonZero;
use maracas_core::contract::{Entry, Mode};
use maracas_core::{CoreId, Vcpu};

/// Any shares at all.
const ANY: Entry =
    Entry { build: |system, params| uneven::build(system, params, as_written), ..max_fair::ENTRY };

/// algorithms.md E.5 (5), in both classes at once: with steady shares of threads that are always
/// runnable, each is at every instant within a round of its share, with one thread a core and with
/// more.
#[test]
fn nothing_is_a_round_from_its_shares() {
    let mut rng = Rng(0xe55);
    let mut worst = [0; 2];
    for case in 0..80 {
        let (fast, slow) = (1 + rng.below(3) as usize, 1 + rng.below(4) as usize);
        let cores = fast + slow;
        let waiting = if case % 2 == 0 { 0 } else { 1 + rng.below(cores as u64) };
        let n = (cores as u64 + waiting) as u32;
        let hog = |id| {
            let share = if rng.one_in(2) { rng.below(1001) } else { rng.below(40) };
            Vcpu { speedup_milli: NonZero::new(1001 + share as u32), ..Vcpu::best_effort(id) }
        };
        let system = system(fast, slow, (0..n).map(hog).collect());
        let params = with(&[("round", "120ns"), ("update", "8us")]);
        let mut machine = Machine::new(&ANY, &params, &system, Manners::PERFECT);
        (0..n).for_each(|vcpu| machine.wake(vcpu));
        machine.tick();
        let shares = (0..n).map(|id| statistic(&machine, "fast share ppm", Some(id)).unwrap());
        let shares: Vec<u64> = shares.collect();
        let each = (cores as u64 * 1_000_000 / u64::from(n)).min(1_000_000);
        (1..6000).for_each(|_| machine.tick());
        let mut got = alloc::vec![[0_u64; 2]; n as usize];
        for (now, row) in (1..).zip(&machine.trace) {
            for (core, slot) in row.iter().enumerate() {
                let (vcpu, _) = slot.expect("no core idles");
                got[vcpu as usize][usize::from(core >= fast)] += 1;
            }
            for (got, share) in got.iter().zip(&shares) {
                let due = [share * now, (each - share) * now];
                let off = [0, 1].map(|side| (got[side] * 1_000_000).abs_diff(due[side]));
                let most = &mut worst[case % 2];
                *most = off.iter().copied().max().unwrap_or(0).max(*most);
            }
        }
        assert!(worst[case % 2] <= 121_000_000, "case {case}, round 120: off by {worst:?} ppm");
    }
    assert!(worst.iter().all(|worst| *worst > 60_000_000), "nothing was measured: {worst:?}");
}

/// Threads that sleep and wake as they like, some with budgets: no core idles while one that may
/// run there waits, and every budget is there in full.
#[test]
fn no_core_idles_while_one_waits() {
    for seed in 0..60 {
        let mut rng = Rng(seed);
        let (fast, slow) = (1 + rng.below(2) as usize, 1 + rng.below(3) as usize);
        let n = 2 + rng.below(7) as u32;
        let vcpu = |id| Vcpu {
            speedup_milli: NonZero::new(rng.below(2) as u32 * 1500),
            ..Vcpu::best_effort(id)
        };
        let system = system(fast, slow, (0..n).map(vcpu).collect());
        let params = with(&[("round", "20ns"), ("update", "200ns")]);
        let mut machine = Machine::new(&max_fair::ENTRY, &params, &system, Manners::PERFECT);
        for _ in 0..800 {
            for vcpu in 0..n {
                if rng.one_in(12) {
                    machine.wake(vcpu);
                } else if rng.one_in(20) {
                    machine.sleep(vcpu);
                }
            }
            machine.tick();
            let row = machine.trace.last().unwrap();
            let runs = |vcpu: u32| row.iter().flatten().any(|(id, _)| *id == vcpu);
            let idle = row.iter().any(Option::is_none);
            let waits = (0..n).find(|id| machine.models[*id as usize].awake && !runs(*id));
            assert!(!idle || waits.is_none(), "seed {seed}: {waits:?} waits beside {row:?}");
        }
    }
}

/// (C, T) on both classes: what is always runnable has C, as owed at its home, in each of its
/// periods, whatever the others do.
#[test]
fn every_budget_in_every_period() {
    let mut tried = [0; 2];
    for seed in 0..150 {
        let mut rng = Rng(seed);
        let (fast, slow) = (1 + rng.below(2) as usize, 1 + rng.below(3) as usize);
        let n = 1 + rng.below(8) as u32;
        let vcpu = |id| {
            if rng.one_in(3) {
                return Vcpu::best_effort(id);
            }
            let period = 5 + rng.below(20);
            let vcpu = Vcpu::new(id, ticks(1 + rng.below(period / 3)), ticks(period));
            Vcpu { class: rng.one_in(3).then(|| rng.below(2) as u8).or(Some(0)), ..vcpu }
        };
        let system = system(fast, slow, (0..n).map(vcpu).collect());
        let params = with(&[("round", "15ns"), ("update", "90ns"), ("admission", "rta")]);
        let verdict = (max_fair::ENTRY.admit)(&system, &params);
        if !verdict.accepted() {
            continue;
        }
        let mut machine = Machine::new(&max_fair::ENTRY, &params, &system, Manners::PERFECT);
        (0..n).for_each(|vcpu| machine.wake(vcpu));
        (0..400).for_each(|_| machine.tick());
        for core in &verdict.cores {
            let home = core.core.unwrap_or_default();
            let is_slow = usize::from(home.0) >= fast;
            for id in &core.vcpus {
                let vcpu = &system.vcpus[id.0 as usize];
                let c = vcpu.reservation.budget.ticks();
                let owed = if vcpu.class == Some(0) && is_slow { (c * 10).div_ceil(6) } else { c };
                let period = vcpu.reservation.period.ticks() as usize;
                for rows in machine.trace.chunks_exact(period) {
                    let at_home = rows
                        .iter()
                        .filter(|row| row[usize::from(home.0)] == Some((id.0, Mode::Foreground)));
                    assert_eq!(at_home.count() as u64, owed, "seed {seed}: {vcpu:?} on {home}");
                }
                tried[usize::from(is_slow)] += 1;
            }
        }
    }
    assert!(tried.iter().all(|tried| *tried > 50), "{tried:?}");
}

/// A thread that demands a core has its share of that core's time at least, and runs nowhere else.
#[test]
fn what_demands_a_core_runs_there_only() {
    for seed in 0..40 {
        let mut rng = Rng(seed);
        let n = 3 + rng.below(4) as u32;
        let pin = |id| Vcpu {
            pinned: rng.one_in(2).then(|| CoreId(rng.below(3) as u16)),
            ..Vcpu::best_effort(id)
        };
        let system = system(1, 2, (0..n).map(pin).collect());
        let params = with(&[("round", "15ns"), ("update", "90ns")]);
        let mut machine = Machine::new(&max_fair::ENTRY, &params, &system, Manners::PERFECT);
        (0..n).for_each(|vcpu| machine.wake(vcpu));
        (0..400).for_each(|_| machine.tick());
        for vcpu in &system.vcpus {
            let Some(CoreId(core)) = vcpu.pinned else { continue };
            let all = ran(&machine, vcpu.id.0, &[0, 1, 2], 0, None);
            let there = ran(&machine, vcpu.id.0, &[usize::from(core)], 0, None);
            let rivals = system.vcpus.iter().filter(|other| other.pinned == vcpu.pinned).count();
            assert_eq!(all, there, "seed {seed}: {} left core{core}", vcpu.id);
            assert!(there >= 400 / (3 * rivals as u64 + 3), "seed {seed}: {there} of 400");
        }
    }
}
