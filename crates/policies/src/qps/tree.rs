//! The processor hierarchy as plain data, for those who show it.

use super::offline::{Blueprint, Grid, Item};
use alloc::vec::Vec;
use maracas_core::admission::Verdict;
use maracas_core::params::Params;
use maracas_core::{CoreId, Rate, System, VcpuId};

/// What an execution set holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetItem {
    /// A task, and the share of a core that it asks for.
    Task(VcpuId, Rate),
    /// The master (external server) of the set at this place in the list, and its rate: that
    /// set's excess.
    Master(usize, Rate),
}

/// One execution set of QPS's processor hierarchy (Massa and others 2016).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExecutionSet {
    /// The core that is its own.
    pub core: CoreId,
    /// Its items in the order in which they were packed.
    pub items: Vec<SetItem>,
    /// The sum of their rates.
    pub rate: Rate,
    /// What it asks for beyond its core, the rate of its master and of its slave; zero for a
    /// minor set.
    pub excess: Rate,
    /// The set in the list that holds its master; `None` for a minor set.
    pub host: Option<usize>,
    /// 0 where it hosts no master, else one above the highest set whose master it hosts.
    pub level: usize,
}

/// The processor hierarchy that QPS makes of `system`, each set before the one that holds its
/// master. The reported complexity of a set is the highest level.
///
/// # Errors
/// The verdict of QPS's admission where it refuses the system.
pub fn processor_hierarchy(system: &System, params: &Params) -> Result<Vec<ExecutionSet>, Verdict> {
    let verdict = super::judged(system).1;
    if !verdict.accepted() {
        return Err(verdict);
    }
    let grid = Grid::of(system);
    Ok(describe(&grid, &super::packed(&grid, system, params)))
}

fn describe(grid: &Grid, sets: &[Blueprint]) -> Vec<ExecutionSet> {
    let mut described: Vec<ExecutionSet> = Vec::with_capacity(sets.len());
    for set in sets {
        let item = |(item, rate): &(Item, u64)| match item {
            Item::Task(vcpu) => SetItem::Task(*vcpu, grid.rate(*rate)),
            Item::Master(guest) => SetItem::Master(*guest, grid.rate(*rate)),
        };
        let above_guest = |(item, _): &(Item, u64)| match item {
            Item::Task(_) => 0,
            Item::Master(guest) => described[*guest].level + 1,
        };
        let level = set.items.iter().map(above_guest).max().unwrap_or(0);
        described.push(ExecutionSet {
            core: set.core,
            items: set.items.iter().map(item).collect(),
            rate: grid.rate(set.rate),
            excess: grid.rate(set.excess),
            host: set.host,
            level,
        });
    }
    described
}
