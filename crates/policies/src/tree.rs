//! What an off-line phase built, as plain data for whatever draws it: RUN's reduction tree, QPS's
//! processor hierarchy.

use alloc::vec::Vec;
use maracas_core::admission::Verdict;
use maracas_core::params::Params;
use maracas_core::{CoreId, Rate, System, VcpuId};

/// Builds the tree of a policy; fails with the verdict where the policy would refuse the system.
pub type Build = fn(&System, &Params) -> Result<Tree, Verdict>;

/// The policies that have a tree, by the names that users write.
pub static BUILDERS: &[(&str, Build)] = &[("qps", crate::qps_tree), ("run", crate::run_tree)];

/// The tree that the policy `name` makes of `system`; `None` for a policy without one.
pub fn of(name: &str, system: &System, params: &Params) -> Option<Result<Tree, Verdict>> {
    let (_, build) = BUILDERS.iter().find(|(policy, _)| *policy == name)?;
    Some(build(system, params))
}

/// The structure that an optimal scheduler made of a task set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    /// Independent parts, each with cores of its own, in order of their cores.
    pub subsystems: Vec<Subsystem>,
}

/// One part of the task set and the cores that no other task uses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subsystem {
    /// Its cores.
    pub cores: Vec<CoreId>,
    /// What is above all else in it.
    pub root: Node,
}

/// A task, a server or a set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// How often the task set was reduced before this came to be, or how deep masters stand within
    /// masters below it; 0 for tasks and for what holds nothing but tasks.
    pub level: u32,
    /// The share of one core that it receives. What a server has above the sum of its children is
    /// idle time that it was given. A set below a master asks for more than its core: for what
    /// the master receives.
    pub rate: Rate,
    /// What it serves, by decreasing rate where it was packed.
    pub children: Vec<Self>,
}

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A task.
    Task(VcpuId),
    /// RUN: a server that runs its children by EDF.
    Server,
    /// RUN: runs exactly when its only child does not.
    Dual,
    /// QPS: an execution set with a dedicated core.
    Set(CoreId),
    /// QPS: the external server of its only child, a set, on the core of the set above.
    Master,
}

impl Tree {
    /// How many levels of reduction (RUN's p) or of hierarchy the deepest part has; 0 where the
    /// task set is partitioned.
    pub fn depth(&self) -> u32 {
        self.subsystems.iter().map(|subsystem| subsystem.root.level).max().unwrap_or(0)
    }
}

impl Node {
    /// The tasks under it, in order.
    pub fn tasks(&self) -> Vec<VcpuId> {
        let mut tasks = Vec::new();
        self.walk(&mut |node| {
            if let Kind::Task(vcpu) = node.kind {
                tasks.push(vcpu);
            }
        });
        tasks
    }
    /// Shows every node to `see`, each before its children.
    pub fn walk<'a>(&'a self, see: &mut impl FnMut(&'a Self)) {
        see(self);
        for child in &self.children {
            child.walk(see);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::{Duration, Vcpu};

    #[test]
    fn policies_with_a_tree_are_policies_and_count_its_levels() {
        let ticks = Duration::from_ticks;
        let tasks = (0..3).map(|id| Vcpu::new(id, ticks(2), ticks(3)).periodic()).collect();
        let (system, params) = (System::new(2, tasks), Params::new());
        for (name, build) in BUILDERS {
            let tree = of(name, &system, &params).map(Result::unwrap);
            assert_eq!(tree, build(&system, &params).ok());
            let entry = crate::find(name).unwrap();
            let statistics = (entry.build)(&system, &params).ok().unwrap().statistics();
            let levels =
                statistics.iter().find(|statistic| statistic.name == "levels").unwrap().value;
            assert_eq!(tree.map(|tree| tree.depth()), Some(levels as u32), "{name}");
        }
        assert_eq!(of("g-edf", &system, &params), None);
    }
}
