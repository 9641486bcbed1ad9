//! The parts of a system that never look at each other under a policy: each may have a lock and
//! a queue of its own.

use maracas_core::admission::Verdict;
use maracas_core::contract::Entry;
use maracas_core::params::Params;
use maracas_core::{System, Vcpu, VcpuId};
use maracas_policies::tree;

/// The parts of `system` under the policy, each as a system of its own with its tasks numbered
/// from 0: the subsystems of RUN's tree and of QPS's hierarchy, the cores of a partitioned
/// policy, and for all others the whole. Cores without tasks are in no part.
///
/// # Errors
/// The verdict, where the policy refuses the system.
pub fn parts(entry: &Entry, system: &System, params: &Params) -> Result<Vec<System>, Verdict> {
    let verdict = (entry.admit)(system, params);
    if !verdict.accepted() {
        return Err(verdict);
    }
    let groups: Vec<_> = if let Some(tree) = tree::of(entry.name, system, params) {
        let group = |part: &tree::Subsystem| (part.root.tasks(), part.cores.len());
        tree?.subsystems.iter().map(group).collect()
    } else if entry.claims.partitioned {
        verdict.cores.into_iter().map(|core| (core.vcpus, 1)).collect()
    } else {
        return Ok(vec![system.clone()]);
    };
    let busy = groups.iter().filter(|(vcpus, _)| !vcpus.is_empty());
    Ok(busy.map(|(vcpus, cores)| part(system, vcpus, *cores)).collect())
}

fn part(system: &System, vcpus: &[VcpuId], cores: usize) -> System {
    let own = system.vcpus.iter().filter(|vcpu| vcpus.contains(&vcpu.id));
    let renumbered = (0..).zip(own).map(|(id, vcpu)| Vcpu { id: VcpuId(id), ..vcpu.clone() });
    System { cores: system.cores[..cores].to_vec(), vcpus: renumbered.collect(), ..system.clone() }
}
