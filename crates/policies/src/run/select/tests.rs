//! The invariants of RUN's virtual schedule, asserted at every instant of random sets whose time is
//! scaled so that every budget is a whole number of ticks.

use super::Subsystem;
use crate::parts::pack::Fit;
use crate::run::reduce::{self, Reduction};
use crate::run::tests::{HYPERPERIOD, random_set};
use crate::testing::Rng;
use crate::tree::{Kind, Node};
use alloc::vec::Vec;
use maracas_core::{Arrival, Duration, Instant, Rate, System, Vcpu};

const FITS: [Fit; 3] = [Fit::First, Fit::Best, Fit::Worst];
/// Sets, each under every packing: as many as the literature draws.
const SETS: u64 = 2_000;

fn system(cores: usize, tasks: &[(u64, u64)], offsets: &[u64], scale: u64) -> System {
    let ticks = |n| Duration::from_ticks(n * scale);
    let vcpus = (0..).zip(tasks).zip(offsets).map(|((id, &(c, t)), &offset)| {
        let arrival = Arrival::Periodic { offset: ticks(offset) };
        Vcpu { arrival, ..Vcpu::new(id, ticks(c), ticks(t)) }
    });
    System::new(cores, vcpus.collect())
}

fn reduced(system: &System, fit: Fit) -> (Vec<reduce::Task>, Reduction) {
    let tasks = reduce::tasks(system, 1);
    let reduction = reduce::reduce(&tasks, system.cores.len(), Rate::ONE, fit);
    (tasks, reduction.expect("the cores are enough"))
}

/// How long a server has run in its window so far, from its beginning.
#[derive(Clone, Copy)]
struct Window {
    from: u64,
    ran: u64,
}

/// Goes through a subsystem until `until`, and holds every server at every instant to its share:
/// inside a window of length w it is off by at most rate (1 - rate) w, at its end by nothing.
fn keeps_its_shares(mut subsystem: Subsystem, until: u64) {
    let count = subsystem.nodes.len();
    let mut windows = alloc::vec![Window { from: 0, ran: 0 }; count];
    subsystem.advance(Instant::ZERO);
    while subsystem.next < until {
        let (before, at) = (subsystem.clone(), subsystem.next);
        subsystem.advance(Instant::from_ticks(at));
        assert_eq!(subsystem.clock, at);
        let leaves = 0..subsystem.nodes.len() - subsystem.first_leaf;
        let selected = leaves.filter(|leaf| subsystem.is_selected(*leaf)).count();
        assert_eq!(selected, subsystem.cores);
        let charged = subsystem.nodes.iter().map(|node| node.used);
        for ((node, used), window) in before.nodes.iter().zip(charged).zip(&mut windows).skip(1) {
            window.ran += if node.on { at - before.clock } else { 0 };
            let den = i128::from(node.dual.den());
            let num = den - i128::from(node.dual.num());
            let length = i128::from(node.deadline - window.from);
            let lag = den * i128::from(window.ran) - num * i128::from(at - window.from);
            assert!(
                lag.abs() * den <= num * (den - num) * length,
                "off by {lag}/{den} of {length}"
            );
            if node.deadline == at {
                assert_eq!((lag, used), (0, node.limit));
                *window = Window { from: at, ran: 0 };
            }
        }
    }
}

/// Duals of a unit root fill it, a dual and its primal fill a core, and every task is served.
fn is_sound(root: &Node, tasks: &mut Vec<u32>) {
    assert_eq!(root.rate, Rate::ONE);
    root.walk(&mut |node| match node.kind {
        Kind::Task(vcpu) => tasks.push(vcpu.0),
        Kind::Dual => {
            let (dual, primal) = (node.rate, node.children[0].rate);
            assert_eq!((dual.den(), dual.num() + primal.num()), (primal.den(), primal.den()));
        }
        Kind::Server if node.level > 0 => {
            let sum = |sum: (u128, u128), child: &Node| {
                let (num, den) = (u128::from(child.rate.num()), u128::from(child.rate.den()));
                (sum.0 * den + num * sum.1, sum.1 * den)
            };
            let (num, den) = node.children.iter().take(12).fold((0, 1), sum);
            let all = node.children.len() <= 12;
            let (own, whole) = (u128::from(node.rate.num()), u128::from(node.rate.den()));
            assert!(!all || num * whole == own * den, "{} is not its duals' sum", node.rate);
        }
        Kind::Server | Kind::Set(_) | Kind::Master => {}
    });
}

#[test]
fn every_server_keeps_its_share_at_every_instant() {
    let (mut deepest, mut full, mut reduced_sets) = (0, 0, 0);
    for seed in 0..SETS {
        let mut rng = Rng(seed);
        let (cores, set) = random_set(&mut rng, 16);
        let late = rng.one_in(3);
        let offset = |(_, period): &(u64, u64)| if late { rng.below(*period) } else { 0 };
        let offsets: Vec<u64> = set.iter().map(offset).collect();
        full += usize::from(
            set.iter().map(|(c, t)| c * HYPERPERIOD / t).sum::<u64>() == HYPERPERIOD * cores as u64,
        );
        for fit in FITS {
            let (_, plain) = reduced(&system(cores, &set, &offsets, 1), fit);
            let scale = plain.scale.expect("periods are short");
            let (tasks, reduction) = reduced(&system(cores, &set, &offsets, scale), fit);
            assert!(reduction.exact.iter().all(|exact| *exact) && reduction.tolerance.is_zero());
            let mut served = Vec::new();
            for subsystem in &reduction.tree.subsystems {
                is_sound(&subsystem.root, &mut served);
                if subsystem.root.level > 0 {
                    let task = |vcpu: maracas_core::VcpuId| &tasks[vcpu.0 as usize];
                    let until = (2 * HYPERPERIOD + 1) * scale;
                    keeps_its_shares(Subsystem::new(subsystem, true, task), until);
                }
            }
            served.sort_unstable();
            assert_eq!(served, (0..set.len() as u32).collect::<Vec<_>>(), "seed {seed}");
            let used: usize = reduction.tree.subsystems.iter().map(|s| s.cores.len()).sum();
            assert!(used <= cores, "seed {seed}: {used} of {cores}");
            deepest = deepest.max(reduction.tree.depth());
            reduced_sets += usize::from(reduction.tree.depth() > 0);
        }
    }
    assert!(full > 100 && reduced_sets > 300 && deepest > 1, "{full} {reduced_sets} {deepest}");
}
