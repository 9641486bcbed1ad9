//! The processor hierarchy as a [`Tree`].

use super::offline::{Blueprint, Grid, Item};
use crate::parts::fluid;
use crate::tree::{Kind, Node, Subsystem, Tree};
use alloc::vec::Vec;
use maracas_core::System;
use maracas_core::admission::Verdict;
use maracas_core::params::Params;

/// The processor hierarchy that QPS makes of `system`: sets that share masters, directly or not,
/// are one subsystem, with the set whose own master nothing needs on top. Rates are those of the
/// packing, without the few ticks of reserve that rounded budgets get.
///
/// # Errors
/// The verdict, where the policy would not admit the system.
pub fn qps_tree(system: &System, params: &Params) -> Result<Tree, Verdict> {
    let verdict = fluid::judged_by_density(system).1;
    if !verdict.accepted() {
        return Err(verdict);
    }
    let grid = Grid::of(system);
    let sets = super::packed(&grid, system, params);
    let tops = (0..sets.len()).filter(|place| sets[*place].host.is_none());
    let mut subsystems: Vec<Subsystem> =
        tops.map(|place| subsystem(set(&grid, &sets, place))).collect();
    subsystems.sort_by_key(|subsystem| subsystem.cores.first().copied());
    Ok(Tree { subsystems })
}

fn subsystem(root: Node) -> Subsystem {
    let mut cores = Vec::new();
    root.walk(&mut |node| {
        if let Kind::Set(core) = node.kind {
            cores.push(core);
        }
    });
    cores.sort();
    Subsystem { cores, root }
}

fn set(grid: &Grid, sets: &[Blueprint], place: usize) -> Node {
    let item = |(item, rate): &(Item, u64)| {
        let (kind, level, children) = match item {
            Item::Task(vcpu) => (Kind::Task(*vcpu), 0, Vec::new()),
            Item::Master(guest) => {
                let guest = set(grid, sets, *guest);
                (Kind::Master, guest.level + 1, alloc::vec![guest])
            }
        };
        Node { kind, level, rate: grid.rate(*rate), children }
    };
    let Blueprint { core, items, rate, .. } = &sets[place];
    let children: Vec<Node> = items.iter().map(item).collect();
    let level = children.iter().map(|child| child.level).max().unwrap_or(0);
    Node { kind: Kind::Set(*core), level, rate: grid.rate(*rate), children }
}
