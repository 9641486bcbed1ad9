//! The invariants of RUN's virtual schedule, asserted at every instant of random sets whose time is
//! scaled so that every budget is a whole number of ticks.

use super::{Node, Release, SPENT, Subsystem, share};
use crate::parts::pack::Fit;
use crate::run::reduce::{self, Reduction};
use crate::run::tests::{HYPERPERIOD, random_set};
use crate::testing::Rng;
use crate::tree::{self, Kind};
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
fn is_sound(root: &tree::Node, tasks: &mut Vec<u32>) {
    assert_eq!(root.rate, Rate::ONE);
    root.walk(&mut |node| match node.kind {
        Kind::Task(vcpu) => tasks.push(vcpu.0),
        Kind::Dual => {
            let (dual, primal) = (node.rate, node.children[0].rate);
            assert_eq!((dual.den(), dual.num() + primal.num()), (primal.den(), primal.den()));
        }
        Kind::Server if node.level > 0 => {
            let sum = |sum: (u128, u128), child: &tree::Node| {
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

/// A subsystem by the rules as they are written: at each instant all duals are charged, and all
/// servers that run pick anew.
struct Plain {
    nodes: Vec<Node>,
    /// By server above level 0: the node whose dual it picked last.
    picked: Vec<Option<usize>>,
    releases: Vec<Release>,
    clock: u64,
    next: u64,
}

impl Plain {
    fn of(subsystem: &Subsystem) -> Self {
        let (nodes, releases) = (subsystem.nodes.clone(), subsystem.releases.clone());
        let picked = alloc::vec![None; subsystem.first_leaf];
        Self { nodes, picked, releases, clock: 0, next: 0 }
    }

    fn advance(&mut self, now: u64) {
        while self.next <= now {
            let (at, time) = (self.next, self.next - self.clock);
            for (server, child) in self.picked.iter().enumerate() {
                if let Some(child) = child.filter(|_| self.nodes[server].on) {
                    self.nodes[child].used += time;
                }
            }
            self.clock = at;
            for place in (0..self.nodes.len()).rev() {
                if self.nodes[place].deadline == at {
                    self.open_window(place);
                }
            }
            self.select();
        }
    }

    fn open_window(&mut self, place: usize) {
        let Node { children, tasks, .. } = self.nodes[place].clone();
        let children = children.map(|child| self.nodes[child].deadline);
        let tasks = self.releases[tasks].iter_mut().map(|task| task.pass(self.clock));
        let deadline = children.chain(tasks).min().expect("a server serves something");
        let node = &mut self.nodes[place];
        (node.deadline, node.limit) = (deadline, share(node.dual, deadline));
    }

    fn select(&mut self) {
        self.next = self.nodes[0].deadline;
        self.nodes.iter_mut().for_each(|node| node.on = true);
        for server in 0..self.picked.len() {
            if !self.nodes[server].on {
                continue;
            }
            let (children, last) = (self.nodes[server].children.clone(), self.picked[server]);
            let left =
                |child: &usize| self.nodes[*child].limit.saturating_sub(self.nodes[*child].used);
            let by_urgency =
                |child: &usize| (self.nodes[*child].deadline, last != Some(*child), *child);
            let first = children.clone().filter(|child| left(child) > 0).min_by_key(by_urgency);
            if let Some(first) = first {
                self.next = self.next.min(self.clock + left(&first));
            }
            let picked = first.or(last).unwrap_or(children.start);
            self.picked[server] = Some(picked);
            self.nodes[picked].on = false;
        }
    }

    /// Whether the subsystem stands where this one does.
    fn is_same(&self, subsystem: &Subsystem) {
        assert_eq!((subsystem.clock, subsystem.next), (self.clock, self.next));
        let mut used: Vec<u64> = subsystem.nodes.iter().map(|node| node.used).collect();
        for pick in &subsystem.picks {
            pick.rests.into_iter().for_each(|child| used[child] += self.clock - pick.since);
        }
        for (place, (ours, plain)) in subsystem.nodes.iter().zip(&self.nodes).enumerate() {
            let state = |node: &Node, used| (node.on, node.deadline, node.limit, used);
            assert_eq!(state(ours, used[place]), state(plain, plain.used), "node {place}");
            let has_budget = ours.used < ours.limit;
            assert_eq!(subsystem.urgencies[place], if has_budget { ours.deadline } else { SPENT });
        }
    }
}

/// Where budgets are rounded, jobs are sporadic and decisions late, what is looked at only where
/// something happened is what all is by the rules.
#[test]
fn a_subsystem_is_what_the_rules_say() {
    let (mut rounded, mut sporadic, mut without_budget, mut steps) = (0, 0, 0, 0);
    for seed in 0..SETS {
        let mut rng = Rng(seed ^ 0x5e1ec7);
        let (cores, set) = random_set(&mut rng, 12);
        let scale = 1 + rng.below(7);
        let offsets: Vec<u64> = set.iter().map(|(_, period)| rng.below(*period)).collect();
        let mut system = system(cores, &set, &offsets, scale);
        for vcpu in system.vcpus.iter_mut().filter(|_| rng.one_in(4)) {
            vcpu.arrival = Arrival::Sporadic;
        }
        let Some(reduction) = reduce::best(&system, FITS[seed as usize % 3]) else { continue };
        let reduced = reduction.tree.subsystems.iter().zip(&reduction.exact);
        for (subsystem, exact) in reduced.filter(|(subsystem, _)| subsystem.root.level > 0) {
            let task = |vcpu| reduce::find(&reduction.tasks, vcpu);
            let mut ours = Subsystem::new(subsystem, *exact, task);
            let (mut plain, mut now) = (Plain::of(&ours), 0);
            rounded += usize::from(!*exact);
            while now < 2 * HYPERPERIOD * scale {
                ours.advance(Instant::from_ticks(now));
                plain.advance(now);
                plain.is_same(&ours);
                ours.forget_changed();
                let on = |(server, pick): (usize, &super::Pick)| {
                    ours.nodes[server].on && pick.until == u64::MAX
                };
                without_budget += usize::from(ours.picks.iter().enumerate().any(on));
                steps += 1;
                let place = rng.below(ours.releases.len() as u64) as usize;
                let Release { period, window, next } = ours.releases[place];
                if window.is_some() && (next <= now || next == u64::MAX) {
                    ours.release(place, Instant::from_ticks(now + period));
                    plain.releases[place].next = now + period;
                    sporadic += 1;
                }
                now += rng.below(4) * (1 + rng.below(scale));
                now = if rng.one_in(2) { now.max(ours.next) } else { now + 1 };
            }
        }
    }
    assert!(
        rounded > 100 && sporadic > 1_000 && without_budget > 100 && steps > 100_000,
        "{rounded} {sporadic} {without_budget} {steps}"
    );
}
